"""The container reader: what a report says before any metric is read, and where it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.ncu.container import read_container
from infer_forge.ncu.model import Session
from infer_forge.ncu.session import apply_command, program_of
from tests.ncu.ncu_maker import Kernel, block_ends, busy, container, write


def test_names_shapes_durations_and_versions_are_read_without_the_library(tmp_path: Path) -> None:
    kernels = [
        Kernel("first", busy(ns=5000.0)),
        Kernel("second", busy(ns=7000.0), signature="void ns::second<4>(int)", grid=(8, 4, 1)),
    ]
    box = read_container(write(tmp_path / "a.ncu-rep", container(kernels)))
    assert [(e.kernel, e.grid, e.duration_ns) for e in box.results] == [
        ("first", (1024, 1, 1), 5000.0),
        ("second", (8, 4, 1), 7000.0),
    ]
    assert box.results[1].demangled == "void ns::second<4>(int)"
    assert (box.cut, box.version, box.session.cuda_version, box.session.driver_version) == (None, 7, "12.8", "570.1")
    assert str(box.session.ncu_version).startswith("2025.1.0.0")


def test_a_result_without_duration_has_none_not_zero(tmp_path: Path) -> None:
    box = read_container(write(tmp_path / "a.ncu-rep", container([Kernel(metrics={"launch__grid_size": 4.0})])))
    assert box.results[0].duration_ns is None


def test_a_cut_names_the_block_and_keeps_what_is_whole(tmp_path: Path) -> None:
    data = container([Kernel("a", busy()), Kernel("b", busy())])
    ends = block_ends(data)
    box = read_container(write(tmp_path / "a.ncu-rep", data[: ends[-1] - 5]))
    assert [e.kernel for e in box.results] == ["a"]
    assert box.cut is not None
    assert f"at byte {ends[-2]}" in box.cut
    assert box.whole_bytes == ends[-2]


def test_every_cut_is_told_or_is_a_whole_shorter_file(tmp_path: Path) -> None:
    data = container([Kernel("a", busy()), Kernel("b", busy())])
    ends = block_ends(data)
    for stop in sorted({*range(8, len(data), 7), *ends}):
        try:
            box = read_container(write(tmp_path / "a.ncu-rep", data[:stop]))
        except InputUnusable:
            assert stop < ends[0]
            continue
        assert (box.cut is None) == (stop in ends)
        assert len(box.results) == sum(1 for e in ends[-2:] if e <= stop)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"SQLite format 3\0", "SQLite"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"\x00\x01\x02", "magic NVR missing"),
        (b"NVR\0\xff\xff\xff\xff", "header"),
        (b"NVR\0", "header"),
    ],
)
def test_what_is_no_report_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(InputUnusable, match=words):
        read_container(write(tmp_path / "a.ncu-rep", content))


def test_range_and_graph_results_are_counted(tmp_path: Path) -> None:
    box = read_container(write(tmp_path / "a.ncu-rep", container([], extra={7: 2, 9: 1})))
    assert box.other_results == {"range": 2, "graph": 1}


def test_the_command_line_gives_clock_cache_replay_and_set() -> None:
    session = Session()
    apply_command(
        session,
        "/opt/ncu --clock-control none --cache-control=none -c 4 --section B --section A -f -o x python3 run.py --set app",
    )
    assert (session.clock_control, session.cache_control, session.replay_mode) == ("none", "none", "kernel")
    assert session.metric_set == "section=A, section=B"


def test_ncu_s_defaults_hold_where_a_flag_is_absent() -> None:
    session = Session()
    apply_command(session, "ncu ./app")
    assert (session.clock_control, session.cache_control, session.replay_mode, session.metric_set) == (
        "base",
        "all",
        "kernel",
        "default",
    )


def test_the_profiled_program_is_found_behind_the_options() -> None:
    assert program_of("ncu -c 4 -o rep --set full ./app --profile --impl=2") == "./app --profile --impl=2"
    assert program_of("ncu --nvtx --nvtx-include R/ -f -- python3 'my run.py'") == "python3 'my run.py'"
    assert program_of(None) is None


def test_secrets_of_the_command_line_do_not_leave_it() -> None:
    session = Session()
    token = "hf_" + "aB3dE5gH7jK9" * 3
    apply_command(session, f"ncu -o x python3 serve.py --api-key hunter2hunter2 --hf {token} --max-tokens 16")
    assert session.command is not None
    assert "hunter2" not in session.command
    assert token not in session.command
    assert "--max-tokens 16" in session.command
