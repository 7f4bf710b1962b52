"""Binary reports through NVIDIA's library in its subprocess: caps, damage, the missing extra, agreement with the CSV page."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import ForgeError, InputUnusable, MissingPart
from infer_forge.ncu import binary
from infer_forge.ncu.diagnose import diagnose
from infer_forge.ncu.dictionary import number
from infer_forge.ncu.read import load
from infer_forge.ncu.report import digest
from tests.ncu.ncu_maker import DURATION, MEMORY, SM, Kernel, block_ends, busy, container, near, wide_csv, write

needs_library = pytest.mark.skipif(
    find_spec("ncu_report") is None, reason="the extra `ncu` (ncu-report) is not installed"
)


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the extra: the subprocess finds no third-party package."""
    paths = [p for p in binary.search_path() if "site-packages" not in p]
    monkeypatch.setattr(binary, "search_path", lambda: paths)


def outcome(path: Path) -> Any:
    """The digest of a file, or the error that it was refused with."""
    try:
        return digest([path])
    except ForgeError as exc:
        return exc


@needs_library
def test_a_report_of_two_kernels_is_read_with_names_and_metrics(tmp_path: Path) -> None:
    kernels = [Kernel("a", busy(ns=5.0)), Kernel("b", busy(ns=7.0) | {"launch__func_cache_config": "PreferL1"})]
    path = write(tmp_path / "a.ncu-rep", container(kernels))
    report = load(path)
    assert [(x.kernel, number(x, "duration")) for x in report.launches] == [("a", 5.0), ("b", 7.0)]
    assert report.names == {"a": 1, "b": 1}


@needs_library
def test_a_zstd_report_is_read_under_either_name(tmp_path: Path) -> None:
    zstandard: Any = pytest.importorskip("zstandard")
    packed = zstandard.compress(container([Kernel("a", busy())]))
    for name in ("a.ncu-repz", "a.ncu-rep"):
        assert load(write(tmp_path / name, packed)).launches[0].kernel == "a"


def test_without_the_extra_a_binary_report_names_it_and_the_csv_way(tmp_path: Path, no_library: None) -> None:
    path = write(tmp_path / "a.ncu-rep", container([Kernel("a", busy())]))
    with pytest.raises(MissingPart) as caught:
        load(path)
    assert caught.value.exit_code == 5
    assert "extra `ncu`" in str(caught.value)
    assert "--csv --page raw" in str(caught.value)


def test_without_the_extra_damage_and_wrong_kernels_are_told_all_the_same(tmp_path: Path, no_library: None) -> None:
    with pytest.raises(InputUnusable, match="no result"):
        load(write(tmp_path / "a.ncu-rep", container([])))
    with pytest.raises(InputUnusable, match="the report holds a"):
        load(write(tmp_path / "b.ncu-rep", container([Kernel("a", busy())])), kernel="softmax")


def test_csv_and_text_need_no_extra(tmp_path: Path, no_library: None) -> None:
    kernels = [Kernel("a", {SM: 20.0, MEMORY: 90.0, DURATION: 5.0})]
    assert load(write(tmp_path / "a.csv", wide_csv(kernels, {DURATION: "us"}))).launches[0].kernel == "a"


@needs_library
def test_a_cut_report_gives_the_whole_results_and_says_what_was_lost(tmp_path: Path) -> None:
    data = container([Kernel("a", busy()), Kernel("b", busy())])
    report = load(write(tmp_path / "a.ncu-rep", data[:-7]))
    assert [x.kernel for x in report.launches] == ["a"]
    assert "the file is cut" in report.lost[0]


@needs_library
def test_a_cut_at_every_block_is_refused_or_salvaged(tmp_path: Path) -> None:
    data = container([Kernel("a", busy()), Kernel("b", busy())])
    for stop in block_ends(data)[:-1]:
        path = write(tmp_path / "a.ncu-rep", data[: stop + 2])
        found = outcome(path)
        assert found.next_step
        assert isinstance(found, InputUnusable) or found.header.coverage["lost"]


@needs_library
def test_kernels_beside_ranges_that_the_library_dies_on_are_read_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ncu-rep", container([Kernel("a", busy()), Kernel("b", busy())], extra={7: 1}))
    report = load(path)
    assert [x.kernel for x in report.launches] == ["a", "b"]
    assert any("1 range results are counted, not read" in x for x in report.lost)
    assert [x.kernel for x in load(path, kernel="b").launches] == ["b"]


@needs_library
def test_reports_of_ranges_alone_are_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(InputUnusable, match="2 range results and no kernel result"):
        load(write(tmp_path / "a.ncu-rep", container([], extra={7: 2})))


@needs_library
def test_more_launches_than_the_cap_are_read_fairly_over_kernels(tmp_path: Path) -> None:
    kernels = [Kernel("small", busy(ns=1.0)) for _ in range(30)] + [Kernel("large", busy(ns=1000.0)) for _ in range(3)]
    report = load(write(tmp_path / "a.ncu-rep", container(kernels)), cap=8)
    assert report.capped is not None
    assert "8 of 33" in report.capped
    assert {x.kernel for x in report.launches} == {"small", "large"}
    assert sum(x.kernel == "large" for x in report.launches) == 3
    assert report.names == {"small": 30, "large": 3}


@needs_library
def test_the_memory_cap_stops_reading_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ncu-rep", container([Kernel("a", busy())] * 4))
    answer = binary.ask(path, [0, 1, 2, 3], hot=0, where="a", memory_bytes=1 << 20)
    assert "memory cap" in answer["capped"]


@needs_library
def test_a_result_that_the_library_cannot_parse_is_reported_and_the_others_stay(tmp_path: Path) -> None:
    data = bytearray(container([Kernel("first", busy()), Kernel("second", busy())]))
    at = data.rindex(b"second(float *, int)")
    data[at - 2 : at] = b"\xff\xff"  # the length of the name now runs over the message's end
    report = load(write(tmp_path / "a.ncu-rep", bytes(data)))
    assert [x.kernel for x in report.launches] == ["first"]
    assert any("launch 1" in x for x in report.lost)


@needs_library
@pytest.mark.parametrize("unit", ["ns", "us", "msecond"])
def test_the_binary_report_and_its_raw_csv_page_agree(tmp_path: Path, unit: str) -> None:
    scale = {"ns": 1.0, "us": 1e3, "msecond": 1e6}[unit]
    metrics = busy(21.9, 89.2, ns=408_352.0)
    printed = metrics | {DURATION: f"{408_352.0 / scale:.6f}"}
    left = load(write(tmp_path / "a.ncu-rep", container([Kernel("a", metrics)]))).launches[0]
    right = load(write(tmp_path / "a.csv", wide_csv([Kernel("a", printed)], {DURATION: unit}))).launches[0]
    assert diagnose(left).name == diagnose(right).name
    for name, value in left.values.items():
        other = right.values[name]
        assert float(other.value) == near(float(value.value), rel=1e-5)


@pytest.mark.stress
@needs_library
def test_mutated_reports_never_end_in_a_traceback(
    tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    whole = container([Kernel("a", busy()), Kernel("b", busy())])
    for i in range(stress_count(200)):
        data = bytearray(whole)
        kind = i % 3
        if kind == 0:
            data = data[: seeded.randrange(4, len(data))]
        elif kind == 1:
            for _ in range(seeded.randrange(1, 12)):
                data[seeded.randrange(4, len(data))] = seeded.randrange(256)
        else:
            at = seeded.randrange(8, len(data) - 40)
            del data[at : at + seeded.randrange(1, 40)]
        path = write(tmp_path / "m.ncu-rep", bytes(data))
        found = outcome(path)
        assert isinstance(found, ForgeError) or found.extra["next_edit"]["kind"] in ("edit", "collect", "none")
        assert getattr(found, "exit_code", 3) in (3, 5)


@pytest.mark.stress
def test_mutated_csv_and_text_pages_never_end_in_a_traceback(
    tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    page = wide_csv([Kernel("a", busy()), Kernel("b", busy())], {DURATION: "us"})
    for _ in range(stress_count(400)):
        data = bytearray(page.encode())
        for _ in range(seeded.randrange(1, 20)):
            data[seeded.randrange(len(data))] = seeded.randrange(256)
        path = write(tmp_path / "m.csv", bytes(data[: seeded.randrange(20, len(data))]))
        assert getattr(outcome(path), "exit_code", 3) == 3
