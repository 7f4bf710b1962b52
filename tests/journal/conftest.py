"""The journal of a test: empty but for what infer-forge ships."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infer_forge.base.gitstore import Store
from infer_forge.journal import open_store


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store() as opened:
        yield opened
