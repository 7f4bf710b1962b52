"""Fixtures of this room."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def quick_store(request: pytest.FixtureRequest, forge_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stores without fsync, but where a test kills writers."""
    if request.node.get_closest_marker("stress") is None:
        monkeypatch.setenv("INFER_FORGE_NO_FSYNC", "1")
    return forge_home
