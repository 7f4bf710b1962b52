"""Interleaved timing of two kernels on one row: A B B A, samples of at least a millisecond, the whole device waited for.

Before every sample the inputs get other values at the same addresses and the outputs are poisoned; after it the last
output is checked, so that work that is skipped while the clock runs is seen. Times are nanoseconds a call.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from infer_forge.kernel_task import arrays
from infer_forge.kernel_task.correctness import Case, Kernel, Outputs, close_to, expected_of
from infer_forge.kernel_task.environment import CLOCK

MAX_CALLS = 1 << 20

SKIPPED_RATIO = 5.0
"""How much more a first call may cost than a repeated one, relative to the baseline, before work is skipped."""


@dataclass
class Samples:
    """Samples of one side: nanoseconds a call, one median a run, and what CUDA events said of the same windows."""

    calls: int = 1
    ns: list[float] = field(default_factory=list[float])
    run_medians: list[float] = field(default_factory=list[float])
    event_share: list[float] = field(default_factory=list[float])
    sample_ms: list[float] = field(default_factory=list[float])

    def summary(self) -> dict[str, Any]:
        """Minimum, median, maximum over all samples; the median is that of the runs' medians."""
        return {
            "min_ns": min(self.ns), "median_ns": statistics.median(self.run_medians), "max_ns": max(self.ns), "samples": len(self.ns),
            "runs": len(self.run_medians), "calls_per_sample": self.calls, "sample_ms": statistics.median(self.sample_ms),
            "event_share_of_wall": statistics.median(self.event_share) if self.event_share else None,
        }  # fmt: skip


@dataclass
class _Bench:
    """Inputs with two sets of values, and the outputs of both sides."""

    inputs: list[Any]
    sets: list[list[Any]]
    expected: list[list[Any]]
    outputs: dict[str, Outputs]
    which: int = 0


def _prepare(case: Case, seeds: Sequence[int]) -> _Bench:
    sets = [list(case.make_inputs(case.params, seed)) for seed in seeds[:2]]
    expected = [expected_of(case, values) for values in sets]
    hosts = [[arrays.numpy_of(e) for e in values] for values in expected]
    outputs = {side: Outputs.like(case, expected[0]) for side in ("baseline", "candidate")}
    inputs = list(case.make_inputs(case.params, seeds[0]))
    return _Bench(inputs, sets, hosts, outputs)


def _swap(bench: _Bench) -> None:
    bench.which = 1 - bench.which
    for index, source in enumerate(bench.sets[bench.which]):
        if arrays.is_array(source):
            arrays.copy_into(bench.inputs[index], source)
        else:
            bench.inputs[index] = source


def _window(bench: _Bench, side: str, kernel: Kernel, calls: int) -> tuple[int, float | None, tuple[Any, ...]]:
    """One timed window: wall nanoseconds, the same by CUDA events (ns), the last outputs."""
    outputs = bench.outputs[side]
    outputs.poison()
    arrays.synchronise(bench.inputs)
    cuda = arrays.on_cuda(bench.inputs)
    seen: tuple[Any, ...] = ()
    if cuda:
        import sys

        torch = sys.modules["torch"]
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin = CLOCK()
        start.record()
        for _ in range(calls):
            seen = outputs.call(kernel, bench.inputs)
        stop.record()
        torch.cuda.synchronize()
        wall = CLOCK() - begin
        return wall, float(start.elapsed_time(stop)) * 1e6, seen
    begin = CLOCK()
    for _ in range(calls):
        seen = outputs.call(kernel, bench.inputs)
    return CLOCK() - begin, None, seen


def _calls_for(bench: _Bench, side: str, kernel: Kernel, min_ns: float, warmup: int) -> int:
    for _ in range(warmup):
        _window(bench, side, kernel, 1)
    calls = 1
    while calls < MAX_CALLS:
        wall = _window(bench, side, kernel, calls)[0]
        if wall >= min_ns * 1.2:  # a window that was interrupted looks longer than it is: the shortest of three counts
            wall = min(wall, *(_window(bench, side, kernel, calls)[0] for _ in range(2)))
        if wall >= min_ns * 1.2:
            return calls
        calls = min(MAX_CALLS, max(calls * 2, int(calls * min_ns * 1.5 / max(wall, 1)) + 1))
    return calls


def _singles(case: Case, bench: _Bench, kernels: dict[str, Kernel], result: dict[str, Samples]) -> None:
    """One call on fresh values against a call among many on the same values: work that is done once and kept shows."""
    ratios: dict[str, float] = {}
    for side, kernel in kernels.items():
        alone: list[float] = []
        for _ in range(5):
            _swap(bench)
            alone.append(float(_window(bench, side, kernel, 1)[0]))
        many = [_window(bench, side, kernel, result[side].calls)[0] for _ in range(5)]
        ratios[side] = min(alone) / max(min(many) / result[side].calls, 1.0)  # an interrupted call is no evidence
    if ratios["candidate"] > SKIPPED_RATIO * max(ratios["baseline"], 1.0):
        text = (
            f"a first call on new values takes {ratios['candidate']:.1f} times a repeated one, "
            f"for the baseline {ratios['baseline']:.1f} times: repeated calls skip work"
        )
        case.findings.append({"rule": "WORK_SKIPPED", "row": case.row, "side": "candidate", "evidence": text})


def measure(
    case: Case, kernels: dict[str, Kernel], *, blocks: int, runs: int, min_sample_ms: float, warmup: int
) -> dict[str, Samples]:
    """Samples of both sides; wrong outputs while timed are noted in `case.findings`."""
    result = {side: Samples() for side in kernels}
    for run in range(runs):
        bench = _prepare(case, case.seeds[run % 2 :])
        for side, kernel in kernels.items():
            result[side].calls = _calls_for(bench, side, kernel, min_sample_ms * 1e6, warmup)
        if run == 0:
            _singles(case, bench, kernels, result)
        own: dict[str, list[float]] = {side: [] for side in kernels}
        for block in range(blocks):
            first, second = ("baseline", "candidate") if block % 2 == 0 else ("candidate", "baseline")
            for side in (first, second, second, first):
                _sample(case, bench, side, kernels[side], result[side], own[side])
        for side, values in own.items():
            result[side].run_medians.append(statistics.median(values))
    return result


def _sample(case: Case, bench: _Bench, side: str, kernel: Kernel, samples: Samples, own: list[float]) -> None:
    _swap(bench)
    wall, event, seen = _window(bench, side, kernel, samples.calls)
    own.append(wall / samples.calls)
    samples.ns.append(wall / samples.calls)
    samples.sample_ms.append(wall / 1e6)
    if event is not None and wall > 0:
        samples.event_share.append(event / wall)
    wanted = bench.expected[bench.which]
    if not close_to(case, seen, wanted):
        stale = close_to(case, seen, bench.expected[1 - bench.which])
        rule = "STALE_OUTPUT" if stale else "WRONG_WHILE_TIMED"
        text = (
            "the output of the values before came back inside the timed window"
            if stale
            else "the output of the timed window is wrong"
        )
        finding = {"rule": rule, "row": case.row, "side": side, "evidence": text}
        if finding not in case.findings:
            case.findings.append(finding)
