"""Baseline against candidate: the gate, the verdict, significance, where the bottleneck went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.ncu.comparison import compare
from infer_forge.ncu.report import digest
from tests.ncu.ncu_maker import DRAM, DURATION, MEMORY, SM, Kernel, busy, container, near, wide_csv, write

pytest.importorskip("ncu_report")


def times(name: str, *ns: float, **more: float) -> list[Kernel]:
    return [Kernel(name, busy(ns=x) | more) for x in ns]


def verdict(tmp_path: Path, old: bytes | str, new: bytes | str, **options: Any) -> dict[str, Any]:
    ending = "csv" if isinstance(old, str) else "ncu-rep"
    report = compare(write(tmp_path / f"old.{ending}", old), write(tmp_path / f"new.{ending}", new), **options)
    found: dict[str, Any] = report.extra["comparison"]
    return found


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((100, 101, 100), (80, 80, 81), "improved"),
        ((80, 80, 81), (100, 101, 100), "regressed"),
        ((100, 101, 100), (99, 100, 100), "same"),
        ((100, 130, 100), (90, 91, 90), "same"),  # the spread of one side is larger than the change
    ],
)
def test_three_launches_a_side_give_a_verdict_with_ratio(
    tmp_path: Path, old: tuple[int, ...], new: tuple[int, ...], expected: str
) -> None:
    found = verdict(tmp_path, container(times("k", *old)), container(times("k", *new)))
    assert found["verdict"] == expected
    assert found["ratio"] == near(sorted(old)[1] / sorted(new)[1])
    assert found["significant"] == (expected != "same")


def test_fewer_launches_give_no_ratio_and_no_significance(tmp_path: Path) -> None:
    found = verdict(tmp_path, container(times("k", 100.0)), container(times("k", 60.0)))
    assert (found["verdict"], found["ratio"], found["significant"]) == ("improved", None, False)
    assert verdict(tmp_path, container(times("k", 100.0)), container(times("k", 94.0)))["verdict"] == "same"


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("--clock-control none", "clock control"), ("--cache-control none", "cache control"), ("--replay-mode application", "replay mode"),
        ("--section SpeedOfLight", "metric set"),
    ],
)  # fmt: skip
def test_another_way_of_collecting_is_refused(tmp_path: Path, option: str, what: str) -> None:
    left = container(times("k", 100, 100, 100), command="ncu ./app")
    right = container(times("k", 50, 50, 50), command=f"ncu {option} ./app")
    found = verdict(tmp_path, left, right)
    assert found["verdict"] == "not_comparable"
    assert found["ratio"] is None
    assert what in found["reasons"][0]


def test_other_versions_clocks_and_devices_are_refused(tmp_path: Path) -> None:
    left = container(times("k", 100, 100, 100))
    for right in (
        container(times("k", 50, 50, 50), version="2024.1.1.0 (build 2)"),
        container(times("k", 50, 50, 50), driver="560.2"),
        container(times("k", 50, 50, 50, **{"gpc__cycles_elapsed.avg.per_second": 1.2e9})),
        container([Kernel("k", busy(ns=50) | {"device__attribute_display_name": "B200"})]),
    ):
        other = left
        if b"B200" in right:
            other = container([Kernel("k", busy(ns=100) | {"device__attribute_display_name": "H100"})])
        assert verdict(tmp_path, other, right)["verdict"] == "not_comparable"


def test_a_first_launch_against_a_later_one_is_refused(tmp_path: Path) -> None:
    left, right = container(times("k", 100, 100, 100)), container(times("k", 50, 50, 50))
    old, new = write(tmp_path / "o.ncu-rep", left), write(tmp_path / "n.ncu-rep", right)
    report = digest([new], baseline=old, launch=1)
    assert report.extra["comparison"]["verdict"] == "improved"
    single = write(tmp_path / "s.ncu-rep", container(times("warm", 1.0) + times("k", 50.0)))
    assert digest([single], baseline=old, kernel="k", launch=1).extra["comparison"]["verdict"] == "not_comparable"


def test_different_kernels_need_to_be_named(tmp_path: Path) -> None:
    left, right = container(times("v1", 100, 100, 100)), container(times("v2", 50, 50, 50))
    assert verdict(tmp_path, left, right)["verdict"] == "not_comparable"
    found = verdict(tmp_path, left, right, kernel="v2", baseline_kernel="v1")
    assert (found["verdict"], found["kernel"]) == ("improved", {"baseline": "v1", "candidate": "v2"})


def test_the_bottleneck_s_move_and_the_deltas_are_told(tmp_path: Path) -> None:
    left = container([Kernel("k", busy(20, 85, ns=100) | {"launch__registers_per_thread": 32.0})] * 3)
    right = container([Kernel("k", busy(82, 40, ns=60) | {"launch__registers_per_thread": 64.0})] * 3)
    report = compare(write(tmp_path / "o.ncu-rep", left), write(tmp_path / "n.ncu-rep", right))
    assert report.extra["comparison"]["moved"] == "the bottleneck moved from bound(dram) to bound(sm)"
    rows = {r[0]: r for r in report.tables["deltas"].rows}
    assert rows["duration"][6:] == ["down (better)", "yes"]
    assert rows["registers"][3:5] == [32.0, near(100.0)]
    assert "end-to-end" in report.extra["comparison"]["scope"]


def test_csv_pages_compare_and_say_what_they_do_not_tell(tmp_path: Path) -> None:
    def page(ns: float) -> str:
        values: dict[str, float | str] = {SM: 20.0, MEMORY: 85.0, DRAM: 85.0, DURATION: ns}
        return wide_csv([Kernel("k", values)] * 3, {DURATION: "ns"})

    found = verdict(tmp_path, page(100.0), page(70.0))
    assert found["verdict"] == "improved"
    assert "clock control" in found["unverified"]


def test_a_missing_duration_is_not_comparable(tmp_path: Path) -> None:
    left = container(times("k", 100, 100, 100))
    right = container([Kernel("k", {SM: 20.0, MEMORY: 85.0, "gpc__cycles_elapsed.avg.per_second": 1.1e9})] * 3)
    found = verdict(tmp_path, left, right)
    assert found["verdict"] == "not_comparable"
    assert any("duration" in r for r in found["reasons"])


def test_a_comparison_takes_exactly_one_candidate(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ncu-rep", container(times("k", 1.0)))
    with pytest.raises(UsageFault):
        digest([path, path], baseline=path)
    with pytest.raises(UsageFault):
        digest([])


def _page(path: Path, durations: list[str]) -> Path:
    head = [
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
    ]
    head += ["Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    fixed = [
        "1",
        "p",
        "127.0.0.1",
        "gemm",
        "1",
        "7",
        "(1, 1, 1)",
        "(1, 1, 1)",
        "0",
        "9.0",
        "Command line profiler metrics",
    ]
    rows = [head, *([str(n), *fixed, "gpu__time_duration.sum", "ns", d] for n, d in enumerate(durations))]
    path.write_text("".join(",".join(f'"{c}"' for c in row) + "\n" for row in rows))
    return path


def test_one_launch_has_no_spread(tmp_path: Path) -> None:
    base, new = _page(tmp_path / "a.csv", ["100"]), _page(tmp_path / "b.csv", ["200"])
    found = digest([new], baseline=base).extra["comparison"]
    assert found["spread_pct"] == [None, None]
    assert found["ratio"] is None


@pytest.mark.parametrize("duration", ["0", "-5", "1e400"])
def test_a_duration_that_cannot_be_is_not_compared(duration: str, tmp_path: Path) -> None:
    base, new = _page(tmp_path / "a.csv", ["100"] * 3), _page(tmp_path / "b.csv", [duration] * 3)
    for one, other in ((base, new), (new, base)):
        found = digest([one], baseline=other).extra["comparison"]
        assert found["verdict"] == "not_comparable"
        assert any(reason.startswith("duration: not measured") for reason in found["reasons"])
