"""Edits that fit a class, each with the metric that must move and what it could bring at the most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infer_forge.ncu import policy
from infer_forge.ncu.diagnose import Diagnosis, grid_blocks, top_stall
from infer_forge.ncu.dictionary import find, number
from infer_forge.ncu.flags import Flag
from infer_forge.ncu.model import Launch
from infer_forge.ncu.occupancy import occupancy
from infer_forge.ncu.triage_link import SmallKernel


@dataclass(frozen=True)
class Candidate:
    """An edit that fits the class, with what it could bring at most (percent of the kernel's own time; None: not told).

    `weight` scales the bound when candidates are ranked: a general edit or one that only hides latency yields to a
    specific one of the same bound.
    """

    id: str
    edit: str
    why: str
    metric: str
    now: float | None
    aim: float | None
    unit: str
    bound_pct: float | None
    bound_reason: str
    stop_if: str = ""
    weight: float = 1.0


def candidates(launch: Launch, diagnosis: Diagnosis, found: list[Flag], small: SmallKernel | None) -> list[Candidate]:
    """Every edit that fits the class; never one that the class contradicts (no occupancy on a saturated unit)."""
    by_code: dict[str, Flag] = {}
    for flag in found:
        if flag.code not in by_code or (flag.waste_pct or 0) > (by_code[flag.code].waste_pct or 0):
            by_code[flag.code] = flag
    if diagnosis.family == "small_grid":
        out = [_fuse(launch) or _more_blocks(launch), _fewer_launches(small)]
    elif diagnosis.family == "latency":
        out = _latency(launch, diagnosis, by_code, small)
    else:
        out = _busy(launch, diagnosis, by_code)
    return [c for c in out if c is not None]


def _busy(launch: Launch, diagnosis: Diagnosis, by_code: dict[str, Flag]) -> list[Candidate | None]:
    """Edits that take load off the limiting unit. Occupancy is never among them."""
    out: list[Candidate | None] = [_unit(launch, diagnosis)]
    unit = diagnosis.unit or (diagnosis.co_limiters[0] if diagnosis.co_limiters else "")
    cap = _headroom(diagnosis)
    memory = policy.units()[unit].character == "memory" if unit else False
    if memory and unit in ("dram", "l2", "l1", "lsu", "memory"):
        out.append(_coalesce(by_code, cap))
    out.append(_spill(by_code, cap))
    if unit in ("shared", "l1", "lsu"):
        out.append(_conflicts(by_code, cap))
    if not memory and "divergence" in by_code:
        out.append(_divergence(by_code, cap))
    if unit == "fp64" and "fp64_literals" in by_code:
        flag = by_code["fp64_literals"]
        edit = policy.data()["unit_edits"]["fp64"]["edit"]
        out.append(
            Candidate("fp64_literals", edit, flag.message, flag.metric, flag.value, 0, "%", cap, "next unit's load")
        )
    return out


def _headroom(diagnosis: Diagnosis) -> float | None:
    """Percent of the kernel's time that taking all load off the limiter could save: then the next unit limits."""
    if not diagnosis.loads:
        return None
    first = diagnosis.loads[0]
    after = max((x.pct for x in diagnosis.loads[1:]), default=0.0)
    return 100 * (1 - after / first.pct) if first.pct else None


def _unit(launch: Launch, diagnosis: Diagnosis) -> Candidate:
    """The general edit for a unit: less work for it, or (tensor pipe) fewer gaps in it."""
    load = diagnosis.loads[0]
    entry: dict[str, Any] = policy.data()["unit_edits"][load.unit]
    title = policy.units()[load.unit].title
    why = f"{title} at {load.pct:.1f} % of peak ({load.metric}, threshold {_line(diagnosis):g} %)"
    if entry.get("fill"):
        roof = policy.limit("roof_pct")
        reason = f"what is left to {title}'s peak"
        return Candidate(
            "unit", entry["edit"], why, load.metric, load.pct, roof, "%", 100 - load.pct, reason, weight=0.5
        )
    cap = _headroom(diagnosis)
    behind = diagnosis.loads[1] if len(diagnosis.loads) > 1 else None
    reason = (
        f"{policy.units()[behind.unit].title} ({behind.pct:.0f} %) limits then"
        if behind
        else "no other unit was measured"
    )
    metric, now, unit = load.metric, load.pct, "%"
    if load.unit == "dram" and (moved := _dram_bytes(launch)):
        metric, now, unit = "DRAM bytes (rate x duration)", moved, "byte"
    aim = now * (1 - cap / 100) if cap is not None else None
    return Candidate("unit", entry["edit"], why, metric, now, aim, unit, cap, reason, weight=0.25)


def _dram_bytes(launch: Launch) -> float | None:
    rate, duration = number(launch, "dram_rate"), number(launch, "duration")
    return rate * duration * 1e-9 if rate and duration else None


def _line(diagnosis: Diagnosis) -> float:
    return policy.limit("bound_pct" if diagnosis.family == "bound" else "leaning_pct")


def _within(share: float | None, cap: float | None) -> float | None:
    known = [x for x in (share, cap) if x is not None]
    return min(known) if known else None


def _coalesce(by_code: dict[str, Flag], cap: float | None) -> Candidate | None:
    flag = by_code.get("bytes_per_sector") or by_code.get("excess_sectors")
    if flag is None:
        return None
    share = by_code["excess_sectors"].waste_pct if "excess_sectors" in by_code else flag.waste_pct
    aim = policy.limit("bytes_per_sector") if flag.code == "bytes_per_sector" else 0.0
    line = f"{flag.metric} {flag.value:.1f} {flag.unit}, threshold {flag.threshold:g}"
    return Candidate(
        "coalesce",
        "let neighbouring threads of a warp touch neighbouring addresses: change the index-to-thread mapping or the layout, "
        "or stage the tile through shared memory, so that every sector is used whole",
        f"{flag.message} ({line})",
        flag.metric,
        flag.value,
        aim,
        flag.unit,
        _within(share, cap),
        "the share of sectors that are waste, capped by the next limiting unit; less where a cache already absorbs them",
    )


def _spill(by_code: dict[str, Flag], cap: float | None) -> Candidate | None:
    flag = by_code.get("spills")
    if flag is None:
        return None
    share = flag.value if flag.unit == "%" else None
    return Candidate(
        "spills",
        "keep it in registers: a smaller tile a thread, __launch_bounds__ with fewer blocks, constant indices into local arrays "
        "(ptxas -v shows spill bytes)",
        f"{flag.message} ({flag.metric} {flag.value:g})",
        flag.metric,
        flag.value,
        0.0,
        flag.unit,
        _within(share, cap) if share is not None else None,
        "the share of the L1 traffic that is local memory" if share is not None else "not told by this report",
    )


def _conflicts(by_code: dict[str, Flag], cap: float | None) -> Candidate | None:
    flag = by_code.get("bank_conflicts")
    if flag is None:
        return None
    return Candidate(
        "bank_conflicts",
        "change the shared-memory layout so that a warp's accesses fall on 32 banks: pad the row, or swizzle the columns",
        f"{flag.message} ({flag.metric}, threshold {flag.threshold:g} %)",
        flag.metric,
        flag.value,
        0.0,
        flag.unit,
        _within(flag.waste_pct, cap),
        "the share of wavefronts that are conflicts, capped by the next limiting unit",
    )


def _divergence(by_code: dict[str, Flag], cap: float | None) -> Candidate | None:
    flag = by_code.get("divergence")
    if flag is None:
        return None
    return Candidate(
        "divergence",
        "keep whole warps on one path: compact the active threads, or map branches to warps instead of to threads",
        f"{flag.message} ({flag.metric}, threshold {flag.threshold:g})",
        flag.metric,
        flag.value,
        32.0,
        flag.unit,
        _within(flag.waste_pct, cap),
        "the share of thread slots that do nothing, capped by the next limiting unit",
    )


def _latency(
    launch: Launch, diagnosis: Diagnosis, by_code: dict[str, Flag], small: SmallKernel | None
) -> list[Candidate | None]:
    busiest = diagnosis.loads[0].pct if diagnosis.loads else 0.0
    cap = max(0.0, 100 - busiest)
    stall = _stall(launch, cap)
    out: list[Candidate | None] = [stall, _occupancy(launch, cap), _tail(launch, by_code), _balance(by_code)]
    reason = stall.id.partition(":")[2] if stall else ""
    if reason in ("long_scoreboard", "lg_throttle", "drain", ""):
        out.append(_coalesce(by_code, stall.bound_pct if stall else cap))
    if reason in ("short_scoreboard", "mio_throttle"):
        out.append(_conflicts(by_code, stall.bound_pct if stall else cap))
    if diagnosis.character == "small":
        out.append(_fewer_launches(small))
    out += [_divergence(by_code, cap), _spill(by_code, cap)]
    return out


def _stall(launch: Launch, cap: float) -> Candidate | None:
    found = top_stall(launch)
    if found is None:
        return None
    name, value, share = found
    entry: dict[str, str] | None = policy.data()["stalls"].get(name)
    if entry is None:
        return None
    issue = number(launch, "issue")
    told = f", issue {issue:.2f} of 1" if issue is not None else ""
    why = f"{share:.0f} % of the cycles between two instructions are spent waiting for {entry['waits']} ({value.name}{told})"
    return Candidate(
        f"stall:{name}",
        entry["edit"],
        why,
        value.name,
        float(value.value),
        float(value.value) / 2,
        value.unit,
        min(share, cap),
        "the share of the stall, capped by the busiest unit",
    )


def _occupancy(launch: Launch, cap: float) -> Candidate | None:
    facts = occupancy(launch)
    line = policy.threshold("occupancy_theoretical_pct")
    if facts is None or facts.theoretical_pct is None or facts.theoretical_pct >= line.value or not facts.lift:
        return None
    issue = number(launch, "issue")
    bound = min(100 - facts.theoretical_pct, cap, *([100 * (1 - issue)] if issue is not None else []))
    limited = " and ".join(facts.limited_by) or "unknown"
    return Candidate(
        "occupancy",
        f"let more warps fit: {facts.lift}",
        f"theoretical occupancy {facts.theoretical_pct:.1f} % is under {line.value:g} %, limited by {limited}",
        "sm__maximum_warps_per_active_cycle_pct",
        facts.theoretical_pct,
        line.value,
        "%",
        bound,
        "the missing warps' share; more warps hide latency, they do not remove it",
        weight=0.5,
    )


def _tail(launch: Launch, by_code: dict[str, Flag]) -> Candidate | None:
    flag = by_code.get("tail")
    waves = number(launch, "waves")
    if flag is None or waves is None:
        return None
    whole = int(waves)
    bound = 100 * (1 - waves / (whole + 1))
    return Candidate(
        "tail",
        "fill the last wave: a grid that is a whole multiple of the blocks that fit at once, or a persistent kernel that "
        "loops over tiles",
        f"{flag.message} ({flag.metric} {waves:.2f})",
        flag.metric,
        waves,
        float(whole),
        "waves",
        bound,
        "the empty part of the last wave",
    )


def _balance(by_code: dict[str, Flag]) -> Candidate | None:
    flag = by_code.get("imbalance")
    if flag is None:
        return None
    return Candidate(
        "imbalance",
        "spread the work evenly: smaller tiles, a work queue, or sorting by length",
        f"{flag.message} ({flag.metric}, threshold {flag.threshold:g} %)",
        flag.metric,
        flag.value,
        0.0,
        flag.unit,
        flag.waste_pct,
        "the time the average unit waits for the busiest",
    )


def _more_blocks(launch: Launch) -> Candidate:
    blocks, sms, waves = grid_blocks(launch), number(launch, "sm_count"), number(launch, "waves")
    few = blocks is not None and sms is not None and blocks < sms
    now = float(blocks) if few and blocks is not None else waves
    aim = sms if few else policy.limit("small_waves")
    bound = 100 * (1 - now / aim) if now is not None and aim else None
    name = find(launch, "grid" if few else "waves")
    said = (
        f"{blocks} blocks for {sms:g} SMs"
        if few and sms
        else f"{waves:.2g} waves"
        if waves is not None
        else "a small grid"
    )
    return Candidate(
        "more_blocks",
        "give the device more blocks: split the reduction (split-K, split-KV), smaller tiles, or several problems in one launch",
        f"{said}: part of the device has no work",
        name.name if name else "launch__grid_size",
        now,
        aim,
        "block" if few else "waves",
        bound,
        "the idle part of the device",
    )


def _fuse(launch: Launch) -> Candidate | None:
    """A kernel as short as a launch itself: more blocks cannot help, having no launch of its own can."""
    duration = find(launch, "duration")
    line = policy.threshold("launch_floor_ns")
    if duration is None or not isinstance(duration.value, float) or duration.value > line.value:
        return None
    return Candidate(
        "fuse",
        "fuse it into its producer or consumer; where that is not possible, do several of its problems in one launch or put "
        "the step into a CUDA graph",
        f"{duration.value / 1000:.1f} us ({duration.name}) is near the floor of any launch (threshold {line.value / 1000:g} us)",
        duration.name,
        duration.value,
        0.0,
        "ns",
        None,
        "fusing removes the launch; what its work costs in the other kernel, only a new profile tells",
        "the kernel it is fused into grows by as much, or the trace shows as many launches as before",
    )


def _fewer_launches(small: SmallKernel | None) -> Candidate | None:
    """Launches, gaps and synchronisation cost more than the kernel: only a triage report can show it."""
    idle = small.idle_of_its_launches_us if small is not None else None
    if small is None or idle is None or small.time_us is None or idle <= small.time_us:
        return None
    return Candidate(
        "fewer_launches",
        "launch less often: fuse it with its neighbours, or capture the step in a CUDA graph",
        f"{small.launches} of {small.all_launches} launches take {small.time_us:.0f} us, and the GPU idles {small.idle_us:.0f} us "
        f"in the same window, {idle:.0f} us for as many launches ({small.source})",
        "idle_us of the triage report",
        small.idle_us,
        (small.idle_us or 0.0) - idle,
        "us",
        100 * idle / (idle + small.time_us),
        "its launches' even share of the idle time, against that and its own time",
        "the idle time of a new trace does not fall",
    )
