"""Steps that hold next to no device work, which halve a mean without being steps of the model.

A capture that begins in the middle of a step holds its tail alone. Such a step stays in every sum and count; what a
step takes without it is said beside the mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from infer_forge.base.records import Finding
from infer_forge.profile import intervals
from infer_forge.profile.grouping import compact, distinct, sums
from infer_forge.profile.scene import Scene
from infer_forge.profile.thresholds import thresholds
from infer_forge.profile.timeline import Timeline


class EmptySteps(NamedTuple):
    """The nearly empty steps of a stage."""

    steps: list[int]
    """Their numbers in the capture."""
    of: int
    """Steps of the stage."""
    device_ns: int
    """Device time of the longest of them."""
    mean_ms: float
    """Wall of the stage over all its steps."""
    rest_ms: float
    """Wall of the other steps over their number."""

    @property
    def told(self) -> str:
        """Which they are."""
        numbers = ", ".join(map(str, self.steps[:3])) + (", ..." if len(self.steps) > 3 else "")
        return f"nearly empty step{'s' if len(self.steps) > 1 else ''} {numbers}"


def empty_steps(scene: Scene, line: Timeline, stage: int) -> EmptySteps | None:
    """Steps with next to no device time beside the stage's median step (of two: the longer one).

    Returns:
        None where there is none, or where the mean is near enough to what the others take.
    """
    limits, work, windows = thresholds("health"), scene.work, scene.trace.windows
    steps = distinct(windows.step[windows.stage == stage])
    if len(steps) < 2:
        return None
    mine = (work.stage == stage) & (work.window >= 0)
    step = np.where(mine, windows.step[work.window], -1).astype(np.int64)
    place, known = compact(step)
    spent = dict(zip(known.tolist(), sums(place, len(known), work.dur_ns).tolist(), strict=True))
    median = sorted(spent.get(n, 0) for n in steps)[len(steps) // 2]
    empty = [n for n in steps if spent.get(n, 0) < limits["empty_step_pct"] / 100 * median]
    if not empty:
        return None
    rest = mine & ~np.isin(step, empty)
    merged = intervals.merge(work.ts_ns[rest], scene.end_ns[rest], work.device[rest].astype(np.int64) + 1)
    wall = int((merged.end - merged.start).sum())
    wall += sum(int(g.length_ns[rest[g.next_row]].sum()) for g in line.gaps.values())
    parts = [i for i, p in enumerate(line.parts) if p.stage == stage]
    mean = int((line.busy_ns[parts] + line.idle_ns[parts]).sum()) / len(steps) / 1e6
    each = wall / (len(steps) - len(empty)) / 1e6
    if abs(each - mean) <= limits["empty_shift_pct"] / 100 * each:
        return None
    return EmptySteps(empty, len(steps), max(spent.get(n, 0) for n in empty), mean, each)


def findings(scene: Scene, line: Timeline) -> list[Finding]:
    """A warning for each stage whose mean step is none that the device took."""
    out: list[Finding] = []
    for stage in sorted({p.stage for p in line.parts}):
        odd = empty_steps(scene, line, stage)
        if odd is None:
            continue
        text = f"{len(odd.steps)} of {odd.of} steps of {scene.stage_name(stage)} hold next to no device work"
        text += f" ({odd.told}: {odd.device_ns / 1e6:,.3f} ms at most), and are in every figure per step:"
        text += f" {odd.mean_ms:,.3f} ms a step with them, {odd.rest_ms:,.3f} ms without"
        step = "read figures per step without them, or capture so that it begins and ends between steps"
        out.append(Finding("EMPTY_STEPS", text, "warning", round(odd.rest_ms, 3), None, step))
    return out
