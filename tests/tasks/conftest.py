"""Fixtures of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_forge.base.resources import data_path
from infer_forge.tasks import baseline


@pytest.fixture(autouse=True)
def quick_store(request: pytest.FixtureRequest, forge_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stores without fsync, but where a test kills writers."""
    if request.node.get_closest_marker("stress") is None:
        monkeypatch.setenv("INFER_FORGE_NO_FSYNC", "1")
    return forge_home


@pytest.fixture(autouse=True)
def still_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pack's own files stand still within a test, though somebody may work on the checkout that runs it."""
    hashes, kept = baseline._hashes, dict[Path, dict[str, str]]()  # pyright: ignore[reportPrivateUsage]
    pack = {data_path(name) for name in ("skills", "references", "playbooks", "prompts")}

    def once(root: Path) -> dict[str, str]:
        if root not in pack:
            return hashes(root)
        if root not in kept:
            kept[root] = hashes(root)
        return dict(kept[root])

    monkeypatch.setattr(baseline, "_hashes", once)
