"""Where benchmarks work: a home of their own, and a folder for inputs that are made once a machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from trace_gen import Spec, generate


@contextmanager
def home(**more: str) -> Generator[Path]:
    """A folder as `INFER_FORGE_HOME`, with further variables; all is as before when it is left."""
    with (
        tempfile.TemporaryDirectory(prefix="infer-forge-bench-") as folder,
        mock.patch.dict(os.environ, {"INFER_FORGE_HOME": folder, **more}),
    ):
        yield Path(folder)


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """A file or folder for all runs of this machine; `make` makes it under another name, so that half a one is never taken."""
    place = Path(tempfile.gettempdir()) / "infer-forge-bench"
    place.mkdir(exist_ok=True)
    path = place / name
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=place) as work:
            make(Path(work) / name)
            os.replace(Path(work) / name, path)
    return path


def trace(name: str, spec: Spec) -> Path:
    """A generated trace, kept."""

    def make(path: Path) -> None:
        made, _ = generate(spec, path, truth=False)
        os.replace(made[0], path)

    return kept(f"{name}.trace.json.gz", make)
