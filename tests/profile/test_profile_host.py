"""Why the device was idle: causes, capture edges, launch overhead, gaps, verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infer_forge.profile import triage
from infer_forge.profile.host import verdict
from infer_forge.profile.model import Options

Make = Callable[..., Any]
ALL = Options(rank="all", min_share=0.0, cache=False)
K = "my_kernel"


def host(made: Any) -> dict[str, Any]:
    return triage([made.write()], ALL).tables["host"].dicts()[0]


def test_a_gap_goes_whole_to_the_cause_that_its_next_launch_tells(trace_writer: Make) -> None:
    made = trace_writer()
    made.kernel(K, 1000, 100, launch=(900.0, 5.0))
    made.kernel(K, 1200, 100, launch=(1150.0, 5.0))  # gap 100: the call began while the device was idle
    made.kernel(K, 1350, 100, launch=(1290.0, 30.0))  # gap 50: begun before, ended after
    made.kernel(K, 1475, 100, launch=(1300.0, 5.0))  # gap 25: ended before
    made.kernel(K, 1585, 100, launch=None)  # gap 10: no call
    row = host(made)
    assert (row["host_late_us"], row["in_flight_us"], row["queued_us"], row["unknown_us"]) == (100.0, 50.0, 25.0, 10.0)
    assert row["idle_us"] == 185.0


def test_work_on_another_stream_fills_a_gap(trace_writer: Make) -> None:
    made = trace_writer().kernel(K, 1000, 100).kernel(K, 1200, 100).kernel("other_kernel", 1050, 200, stream=9)
    assert host(made)["idle_us"] == 0.0


def test_what_lies_behind_a_stray_kernel_is_an_edge_and_no_idle(trace_writer: Make) -> None:
    made = trace_writer().kernel(K, 1000, 5)
    for i in range(300):
        made.kernel(K, 500_000 + 20 * i, 10)
    report = triage([made.write()], ALL)
    assert report.tables["host"].dicts()[0]["idle_us"] == 299 * 10.0
    assert "CAPTURE_EDGE" in {f.code for f in report.findings}


def test_a_long_gap_with_work_on_both_sides_is_idle(trace_writer: Make) -> None:
    made = trace_writer()
    for start in (1000, 500_000):
        for i in range(50):
            made.kernel(K, start + 20 * i, 10)
    assert host(made)["idle_us"] == 98 * 10.0 + 500_000 - (1000 + 49 * 20 + 10)


def test_stacks_give_no_verdict_of_size_but_the_figures(trace_writer: Make) -> None:
    made = trace_writer(stacks=True)
    for i in range(10):
        made.kernel(K, 1000 + 100 * i, 10)
    report = triage([made.write()], ALL)
    row = report.tables["host"].dicts()[0]
    assert row["verdict"] == "unclear"
    assert row["idle_us"] == 810.0
    assert "INFLATED_BY_PROFILER" in {f.code for f in report.findings}


@pytest.mark.parametrize(
    ("busy", "exposed", "split", "name"),
    [
        (100, 0, [100, 0, 0, 0], "host_bound"),
        (100, 60, [1, 0, 0, 0], "communication_bound"),
        (100, 60, [100, 0, 0, 0], "mixed"),
        (100, 5, [2, 0, 3, 0], "device_bound"),
        (100, 15, [2, 0, 40, 0], "mixed"),
        (100, 0, [5, 0, 0, 80], "unclear"),
        (0, 0, [0, 0, 0, 0], "unclear"),
    ],
)
def test_a_verdict_follows_the_printed_thresholds(busy: int, exposed: int, split: list[int], name: str) -> None:
    assert verdict(busy, exposed, split, profiler_slows_host=False) == name
    assert verdict(busy, exposed, split, profiler_slows_host=True) == "unclear"


def test_every_launch_form_and_blocking_call_is_counted(trace_writer: Make) -> None:
    made = trace_writer()
    for i, api in enumerate(("cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch", "hipExtModuleLaunchKernel")):
        made.kernel(K, 1000 + 100 * i, 10, api=api, launch=(900.0 + 100 * i, 4.0))
    made.call("cudaStreamSynchronize", 2000, 70, 9999)
    rows = {r["api"]: r for r in triage([made.write()], ALL).tables["launches"].dicts()}
    assert {(r["kind"], r["time_us"]) for n, r in rows.items() if "Launch" in n} == {
        ("launch", 4.0),
        ("graph_launch", 4.0),
    }
    assert len(rows) == 5
    assert (rows["cudaStreamSynchronize"]["kind"], rows["cudaStreamSynchronize"]["time_us"]) == ("sync", 70.0)


def test_the_longest_gap_comes_first_with_its_next_kernel_launch_and_op(trace_writer: Make) -> None:
    made = (
        trace_writer()
        .kernel(K, 1000, 10)
        .kernel("second_kernel", 1015, 10)
        .kernel("third_kernel", 1200, 10, op="aten::mm")
    )
    row = triage([made.write()], ALL).tables["gaps"].dicts()[0]
    assert (row["gap_us"], row["at_us"], row["cause"]) == (175.0, 25.0, "host_late")
    assert (row["next_kernel"], row["launch"], row["cpu_op"]) == ("third_kernel", "cudaLaunchKernel", "aten::mm")


def test_a_capture_that_waits_says_so(trace_writer: Make) -> None:
    made = trace_writer()
    for i in range(10):
        made.kernel(K, 1000 + 1000 * i, 5)
    assert "IDLE_CAPTURE" in {f.code for f in triage([made.write()], ALL).findings}
