"""Coded findings: wherever a table could mislead, it is said, with figure, threshold and what to do."""

from __future__ import annotations

from infer_forge.base.records import Finding
from infer_forge.profile import empty_steps
from infer_forge.profile.host import inflated
from infer_forge.profile.scene import Scene, told
from infer_forge.profile.thresholds import thresholds
from infer_forge.profile.timeline import Timeline, stage_steps
from infer_forge.trace.columns import Link, WorkKind
from infer_forge.trace.model import SkippedFile

_NAMED = 5


def health(scene: Scene, line: Timeline, *, mapped: bool) -> list[Finding]:
    """Findings of one rank."""
    found = [
        *_reading(scene),
        *_linking(scene, mapped),
        *_classes(scene),
        *_idle(scene, line),
        *_stages(scene),
        *empty_steps.findings(scene, line),
    ]
    mark = "" if scene.rank is None else f"{told(scene.rank)}: "
    return [Finding(f.code, mark + f.message, f.severity, f.figure, f.threshold, f.next_step) for f in found]


def _share(part: int, whole: int) -> float:
    return round(100.0 * part / whole, 2) if whole else 0.0


def _reading(scene: Scene) -> list[Finding]:
    c, out = scene.trace.coverage, list[Finding]()
    if c.truncated or c.events_lost or c.bytes_lost:
        where = f" from byte {c.losses[0].offset}" if c.losses else ""
        text = f"the file is damaged: {c.events_lost} events and {c.bytes_lost} bytes lost{where}"
        text += f", {c.truncated}" if c.truncated else ""
        out.append(
            Finding("DAMAGED_FILE", text, "warning", c.events_lost, 0, "sums hold what could be read; capture again")
        )
    if c.device_events_unusable:
        text = f"{c.device_events_unusable} device events without a usable time are in no sum"
        out.append(Finding("UNUSABLE_EVENTS", text, "warning", c.device_events_unusable, 0, "capture again"))
    if len(scene.work) and not bool((scene.work.kind == WorkKind.KERNEL).any()):
        step = "record while the server works, with kernels traced (ProfilerActivity.CUDA, nsys --trace cuda)"
        text = "the trace holds no kernel, only copies and memsets"
        out.append(Finding("NO_KERNELS", text, "warning", 0, 0, step))
    if c.unknown_categories:
        names = ", ".join(sorted(k or "(none)" for k in c.unknown_categories)[:5])
        text = f"event categories that this reader does not know are in no table: {names}"
        out.append(Finding("UNKNOWN_CATEGORIES", text, "info", sum(c.unknown_categories.values()), 0))
    return out


def _linking(scene: Scene, mapped: bool) -> list[Finding]:
    work, limits, out = scene.work, thresholds("health"), list[Finding]()
    whole = int(work.dur_ns.sum())
    replay = int(work.dur_ns[work.link == Link.GRAPH_REPLAY].sum())
    share = _share(replay, whole)
    if share >= limits["graph_time_pct"] and not mapped:
        text = "device time is in graph replays, which hide ops and sources"
        step = "capture a trace of the graph capture and give it with --mapping"
        out.append(Finding("GRAPH_HIDES_OPS", text, "warning", share, limits["graph_time_pct"], step))
    linked = _share(int(work.dur_ns[work.op >= 0].sum()), whole - replay)
    if whole - replay and linked < limits["linked_time_pct"]:
        text = "little of the eager device time is linked to a CPU op"
        step = "profile with ProfilerActivity.CPU as well, and with_stack=True for sources"
        out.append(Finding("LOW_LINKAGE", text, "warning", linked, limits["linked_time_pct"], step))
    launches = int(scene.trace.launches.sum())
    lost = _share(scene.trace.coverage.launches_without_work, max(launches, 1))
    if launches and lost > limits["launches_without_work_pct"]:
        text = "launches whose device work is not in the file: kernels were dropped, or ran after the capture"
        step = "give the capture a longer window and synchronise before it ends"
        out.append(Finding("MISSING_KERNELS", text, "warning", lost, limits["launches_without_work_pct"], step))
    return out


def _classes(scene: Scene) -> list[Finding]:
    limit = thresholds("health")["other_time_pct"]
    other = _share(int(scene.work.dur_ns[scene.is_category("other")].sum()), int(scene.work.dur_ns.sum()))
    if other <= limit:
        return []
    step = "add the kernels to references/kernel_classes.yaml"
    return [Finding("UNCLASSIFIED", "device time in kernels of unknown class", "warning", other, limit, step)]


def _idle(scene: Scene, line: Timeline) -> list[Finding]:
    limits, out = thresholds("health"), list[Finding]()
    busy, idle = line.total_busy_ns, line.total_idle_ns
    share = _share(idle, busy + idle)
    if share > limits["idle_pct"]:
        text = "the device was idle almost all the time: the capture holds waiting, not the workload"
        out.append(Finding("IDLE_CAPTURE", text, "warning", share, limits["idle_pct"], "capture under load"))
    edge = sum(g.edge_ns for g in line.gaps.values())
    if edge:
        text = "a gap near the end of the capture with next to no work beyond it is counted as an edge, not as idle"
        out.append(Finding("CAPTURE_EDGE", text, "info", round(edge / 1e6, 3), None))
    slow = inflated(scene)
    if slow and idle:
        text = (
            f"host times are inflated by the profiler ({' and '.join(slow)} recorded): no verdict on the size of idle"
        )
        step = "capture again without stacks and shapes to size the host's share"
        out.append(Finding("INFLATED_BY_PROFILER", text, "warning", None, None, step))
    return out


def _stages(scene: Scene) -> list[Finding]:
    limits, out, windows = thresholds("health"), list[Finding](), scene.trace.windows
    whole = int(scene.work.dur_ns.sum())
    names = scene.trace.stages
    if not len(windows):
        text = "no step annotations: all work is in one stage `all`, prefill and decode are not told apart"
        out.append(
            Finding(
                "NO_STAGES",
                text,
                "info",
                next_step="capture with step annotations; infer-forge pipeline infers the stage of each pass from its kernels",
            )
        )
    elif "outside" in names:
        outside = _share(int(scene.work.dur_ns[scene.work.stage == names.index("outside")].sum()), whole)
        if outside > limits["outside_time_pct"]:
            text = "device time lies outside of every step window"
            out.append(Finding("OUTSIDE_WINDOWS", text, "warning", outside, limits["outside_time_pct"]))
    few = int(limits["few_steps"])
    short = [n for i, n in enumerate(names) if 0 < (stage_steps(scene, i) or 0) < few and n in ("prefill", "decode")]
    if short:
        text = f"fewer than {few} steps of {', '.join(short)}: one slow step decides the figures"
        out.append(Finding("FEW_STEPS", text, "info", None, few, "capture more steps"))
    if "mixed" in names and len(windows):
        mixed = _share(int((windows.stage == names.index("mixed")).sum()), len(windows))
        if mixed > limits["mixed_steps_pct"]:
            text = "steps mix prefill and decode: their figures belong to neither"
            step = "profile prefill (long input, one output token) and decode (short input) apart"
            out.append(Finding("MIXED_WINDOWS", text, "warning", mixed, limits["mixed_steps_pct"], step))
    hint = scene.trace.hints.get("stage")
    seen = {n for i, n in enumerate(names) if bool((scene.work.stage == i).any())} - {"all", "outside"}
    if hint and seen and hint not in seen:
        text = f"the path says {hint}, the trace itself {', '.join(sorted(seen))}: the trace counts"
        out.append(Finding("PATH_DISAGREES", text, "warning", hint, None, "rename the file"))
    return out


def skipped(files: list[SkippedFile]) -> list[Finding]:
    """Which files of those asked for are in no table."""
    if not files:
        return []
    named = "; ".join(f"{f.path.name}: {f.reason}" for f in files[:_NAMED])
    more = f"; and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return [Finding("FILES_SKIPPED", f"not read: {named}{more}", "info", len(files))]


def skew(busy_ns: list[int]) -> list[Finding]:
    """A finding when the ranks' busy times lie far apart."""
    limit = thresholds("health")["skew_pct"]
    if len(busy_ns) < 2 or not max(busy_ns):
        return []
    spread = round(100.0 * (max(busy_ns) - min(busy_ns)) / max(busy_ns), 2)
    if spread <= limit:
        return []
    step = "see the skew and collectives tables: who waits for whom"
    return [Finding("RANK_SKEW", "busy time differs between ranks", "info", spread, limit, step)]
