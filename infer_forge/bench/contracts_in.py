"""The locked contract that rows are held against, as the doors name it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract


def locked(path: str | Path | None) -> tuple[BenchmarkContract | None, str | None]:
    """The contract of a lock file and its hash; two Nones without a path.

    Raises:
        InputUnusable: it is no lock, was edited after locking, or holds no benchmark contract.
    """
    if path is None:
        return None, None
    from infer_forge.base import contracts

    lock = contracts.read_lock(path)
    return contracts.contract_of(lock.contract, where=str(path)), lock.sha256
