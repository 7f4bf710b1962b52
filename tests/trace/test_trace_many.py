"""Directories, several files and merged files: every rank once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base import workers as processes
from infer_forge.base.errors import InputUnusable
from infer_forge.trace import load_many, workers
from infer_forge.trace.groups import rank_parts, ranks_of
from trace_gen import SPECS, generate

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


def test_a_directory_gives_every_rank_once_and_names_what_it_skipped(tmp_path: Path) -> None:
    files, truth = generate(SPECS["qwen3_moe"], tmp_path / "run.trace.json.gz", seed=114)
    shutil.copy(files[0], tmp_path / f"perfetto-compatible-{files[0].name}")
    (tmp_path / "server_args.json").write_text('{"model_path": "m", "tp_size": 2}')
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "broken.json").write_text("<html>")
    found = load_many(tmp_path)
    assert found.ranks == [0, 1]
    assert [int(t.work.dur_ns.sum()) for t in found.traces] == [truth.device_ns(0), truth.device_ns(1)]
    assert {s.path.name.split("-")[0] for s in found.skipped} == {"perfetto", "server_args.json", "broken.json"}


def test_a_merged_file_beside_its_rank_files_is_not_counted_twice(tmp_path: Path) -> None:
    rank_files, truth = generate(SPECS["qwen3_moe"], tmp_path / "run.trace.json.gz", seed=115)
    generate(replace(SPECS["qwen3_moe"], merged=True), tmp_path / "all-in-one.json", seed=115)
    shutil.copy(tmp_path / "all-in-one.json", tmp_path / "merged-run.trace.json")
    found = load_many(tmp_path)
    assert found.ranks == [0, 1]
    assert {t.path for t in found.traces} == set(rank_files)
    assert sum(int(t.work.dur_ns.sum()) for t in found.traces) == truth.device_ns()
    assert {s.path.name for s in found.skipped} == {"all-in-one.json", "merged-run.trace.json"}


def test_a_merged_file_alone_is_split_by_rank(tmp_path: Path) -> None:
    files, truth = generate(SPECS["merged_tp4"], tmp_path / "m.json", seed=116)
    found = load_many(files)
    assert found.ranks == [0, 1, 2, 3]
    for trace in found.traces:
        assert int(trace.work.dur_ns.sum()) == truth.device_ns(trace.rank)
        assert (trace.work.call < len(trace.calls)).all()
        calls = trace.calls.correlation[trace.work.call[trace.work.call >= 0]]
        assert calls.tolist() == trace.work.correlation[trace.work.call >= 0].tolist()
        assert (trace.work.window < len(trace.windows)).all()


def test_two_stage_files_of_one_rank_are_both_kept(write_trace: Write, kernel: Make, tmp_path: Path) -> None:
    facts = {"distributedInfo": {"rank": 0, "world_size": 1}}
    write_trace([kernel(1, 1)], name="r-TP-0-EXTEND.json", **facts)
    write_trace([kernel(2, 1)], name="r-TP-0-DECODE.json", **facts)
    assert load_many(tmp_path).ranks == [0, 0]


def test_a_named_file_that_is_no_trace_is_refused_and_a_folder_without_any_too(tmp_path: Path) -> None:
    bad = tmp_path / "x.json"
    bad.write_text("<html></html>")
    with pytest.raises(InputUnusable, match="HTML"):
        load_many(bad)
    with pytest.raises(InputUnusable, match=r"no torch-profiler trace \(x.json: seems to be an HTML"):
        load_many(tmp_path)


def test_ranks_come_from_the_file_then_from_its_name(write_trace: Write, kernel: Make, tmp_path: Path) -> None:
    write_trace([kernel(1, 1)], name="a-TP-3.json", distributedInfo={"rank": 5})
    write_trace([kernel(2, 1)], name="b-rank-10.json")
    write_trace([kernel(3, 1)], name="c.json")
    found = load_many(tmp_path)
    assert [(t.rank, t.groups[0].rank_from) for t in found.traces] == [
        (5, "distributedInfo"), (10, "file name"), (None, "unknown"),
    ]  # fmt: skip


def test_rank_names_are_told_apart_by_the_kind_that_differs() -> None:
    names = ["x-TP-0-PP-1.json", "x-TP-0-PP-0.json", "x-TP-1-PP-0.json", "x-TP-1-PP-1.json"]
    assert ranks_of([rank_parts(n) for n in names]) == [2, 0, 1, 3]
    assert ranks_of([rank_parts(n) for n in ("rank-0", "rank-1", "rank-10")]) == [0, 1, 10]
    assert ranks_of([rank_parts("t.json")]) == [None]
    assert ranks_of([rank_parts(n) for n in ("a-TP-2-DP-0-EP-2", "a-TP-3-DP-1-EP-3")]) == [2, 3]


def test_workers_read_ahead_with_and_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infer_forge.trace.many._POOL_BYTES", 0)
    monkeypatch.setattr(processes, "cores", lambda: 2)
    asked: list[list[Path]] = []
    fill = workers.fill_cache

    def counted(files: list[Path], cache: Path | None = None) -> None:
        asked.append(files)
        fill(files, cache)

    monkeypatch.setattr(workers, "fill_cache", counted)
    _, truth = generate(SPECS["qwen3_moe"], tmp_path / "run.trace.json.gz", seed=117)
    for cache in (False, True, True):
        found = load_many(tmp_path, cache=cache)
        assert sum(int(t.work.dur_ns.sum()) for t in found.traces) == truth.device_ns()
        assert all(len(t.ops) for t in found.traces)
    assert [len(a) for a in asked] == [2, 2]


def test_a_worker_that_dies_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infer_forge.trace.many._POOL_BYTES", 0)
    monkeypatch.setattr(processes, "cores", lambda: 2)
    monkeypatch.setattr(workers, "_PROGRAM", "import os; os._exit(9)")
    generate(SPECS["qwen3_moe"], tmp_path / "run.trace.json.gz", seed=118)
    assert load_many(tmp_path).ranks == [0, 1]


def test_the_worker_answers_a_line_for_a_line(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("no")
    files, _ = generate(SPECS["list_form"], tmp_path / "ok.json", seed=119)
    lines = "".join(json.dumps(str(p)) + "\n" for p in (tmp_path / "x.json", files[0]))
    with processes.start("from infer_forge.trace.workers import serve; serve()") as worker:
        out = worker.communicate(lines.encode())[0].splitlines()
    assert [bool(json.loads(line)) for line in out] == [True, False]


def test_two_ranks_with_the_same_times_are_two_ranks(write_trace: Write, kernel: Make, tmp_path: Path) -> None:
    for rank in (0, 1):
        facts = {"distributedInfo": {"rank": rank, "world_size": 2}}
        write_trace([kernel(1, 1)], name=f"r-TP-{rank}.json", **facts)
    found = load_many(tmp_path)
    assert (found.ranks, found.skipped) == ([0, 1], [])
