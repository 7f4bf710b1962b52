"""Where the real clients are, and a home of their own for each test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.clients.real.programs import Home, bin_folder, why_not

_REASON = why_not()
_FOLDER = bin_folder()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip with the reason where the programs are not wanted or not there."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.timeout(60))
            if _REASON:
                item.add_marker(pytest.mark.skip(reason=_REASON))


@pytest.fixture
def home(tmp_path: Path, forge_home: Path) -> Home:
    """An empty home folder, an empty project, and the environment of a client that knows nothing else."""
    assert _FOLDER is not None
    made = Home(tmp_path / "home", tmp_path / "project", _FOLDER, Path(os.environ["INFER_FORGE_HOME"]))
    (made.folder / ".codex").mkdir(parents=True)
    made.project.mkdir()
    return made
