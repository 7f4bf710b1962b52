"""Two processes on one file give what one gives."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_forge.base import workers
from infer_forge.trace import half, source
from infer_forge.trace.model import Trace
from infer_forge.trace.read import parse
from trace_gen import SPECS, generate

ID_COLUMNS = {"name", "op", "source", "kernel"}
TEXT_COLUMNS = {"dims", "types"}


def texts(trace: Trace, table: str) -> dict[str, Any]:
    """Columns of a table with ids replaced by their texts, so that numbering does not matter."""
    shown: dict[str, Any] = {}
    for column, values in getattr(trace, table).arrays().items():
        if column in ID_COLUMNS:
            shown[column] = [trace.name(int(v)) for v in values]
        elif column in TEXT_COLUMNS:
            shown[column] = [trace.op_texts[v] if v >= 0 else None for v in values]
        elif column == "thread":
            shown[column] = [trace.threads[v] if v >= 0 else None for v in values]
        elif column == "shape":
            shown[column] = [trace.shapes[v] for v in values]
        else:
            shown[column] = np.asarray(values).tolist()
    return shown


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switch the helper on or off, whatever the size of the file and the load of the machine."""

    def switch(on: bool) -> None:
        monkeypatch.setattr(half, "worth_it", lambda path, packed: on)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]

    return switch


def both(path: Path, split: Callable[[bool], None]) -> tuple[Trace, Trace]:
    split(False)
    alone = parse(path)
    split(True)
    return alone, parse(path)


@pytest.mark.parametrize("name", ["merged_tp4", "graph_piecewise", "string_ts"])
def test_columns_and_counts_are_the_same(name: str, tmp_path: Path, split: Callable[[bool], None]) -> None:
    files, _ = generate(SPECS[name], tmp_path / "t.json.gz", seed=120)
    alone, shared = both(files[0], split)
    assert alone.coverage == shared.coverage
    for table in ("work", "calls", "syncs", "annotations", "windows", "ops", "frames"):
        left, right = texts(alone, table), texts(shared, table)
        left.pop("kind", None) if table == "windows" else None
        right.pop("kind", None) if table == "windows" else None
        assert left == right, table


def test_a_damaged_file_loses_the_same_either_way(
    tmp_path: Path, split: Callable[[bool], None], seeded: random.Random
) -> None:
    files, _ = generate(SPECS["sample"], tmp_path / "t.json", seed=121)
    data = bytearray(files[0].read_bytes())
    assert len(data) > 4 * source.BLOCK
    for _ in range(60):
        data[seeded.randrange(len(data))] = seeded.randrange(256)
    path = tmp_path / "damaged.json.gz"
    path.write_bytes(gzip.compress(bytes(data[: len(data) - 5000])))
    alone, shared = both(path, split)
    assert alone.coverage == shared.coverage
    assert alone.coverage.lossy
    assert int(alone.work.dur_ns.sum()) == int(shared.work.dur_ns.sum())


def test_a_helper_that_fails_leaves_the_whole_file_to_the_parent(
    tmp_path: Path, split: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, truth = generate(SPECS["stacks"], tmp_path / "t.json.gz", seed=122)
    split(True)
    for program in ("import os; os._exit(3)", "print('nonsense' * 1000)", "import sys; sys.stdin.read()"):
        monkeypatch.setattr(half, "_PROGRAM", program)
        assert int(parse(files[0]).work.dur_ns.sum()) == truth.device_ns()


def test_a_helper_starts_only_for_big_files_on_a_free_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"x" * 1000)
    monkeypatch.setattr(half, "PACKED_BYTES", 500)
    for cores, load, nested, wanted in (
        (2, 0.5, "", True),
        (1, 0.0, "", False),
        (2, 2.5, "", False),
        (2, 0.5, "1", False),
    ):
        monkeypatch.setattr(workers, "cores", lambda n=cores: n)
        monkeypatch.setattr("os.getloadavg", lambda value=load: (value, 0.0, 0.0))
        monkeypatch.setenv(workers.NO_NESTING, nested)
        assert half.worth_it(path, True) is wanted
        assert not half.worth_it(path, False)
