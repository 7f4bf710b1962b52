"""What a verdict leaves out, what does not count, and what is missing."""

from __future__ import annotations

from infer_forge.crash import names
from infer_forge.crash.model import Context, Event, Verdict
from infer_forge.crash.scan import Evidence
from infer_forge.crash.timeline import is_cascade


def count_consequences(v: Verdict, root: Event | None, events: list[Event]) -> None:
    """Everything that follows from the root: consequences by signature, later errors, others' watchdogs."""
    total = 0
    for event in events:
        if event is root:
            continue
        later = (
            root is not None
            and event.group in ("cuda", "hang", "python", "oom", "other", "host")
            and event.order > root.order
        )
        same = (
            root is not None
            and event.sig == root.sig
            and event.facts.get("condition") == root.facts.get("condition")
            and event.origin.process == root.origin.process
        )
        if is_cascade(event) or (later and not same):
            total += event.count
    v.cascade_count = total
    secondary = [
        e.sig
        for e in events
        if e is not root and e.group not in ("info", "cascade", "python") and e.sig != (root.sig if root else "")
    ]
    v.secondary = [s for s in dict.fromkeys([*v.secondary, *secondary]) if s != v.cls][:8]


def list_no_evidence(v: Verdict, events: list[Event], context: Context) -> None:
    """What looks like evidence and is none."""
    for event in events:
        if event.sig == "sanitizer_never_ran":
            v.not_evidence.append(
                f"{event.ref}: the sanitizer never ran (the program ended before its first CUDA call): no clean pass"
            )
        elif (
            event.sig == "sanitizer_summary"
            and str(event.facts.get("errors")) == "0"
            and context.caching_allocator is not False
        ):
            v.not_evidence.append(
                f"{event.ref}: zero errors while the caching allocator "
                f"was (or may have been) on hide out-of-bounds accesses"
            )
        elif event.sig == "sanitizer_internal":
            v.not_evidence.append(f"{event.ref}: the sanitizer had an internal error and may have missed errors")
        elif event.sig == "skip_abort":
            v.not_evidence.append(f"{event.ref}: skip_abort can swallow the fault: a run with it proves nothing")
        elif event.sig == "coredump_no_exception":
            v.not_evidence.append(
                f"{event.ref}: this dump holds no exception"
                + (" and stands in a collective" if names.is_collective(str(event.facts.get("kernel", ""))) else "")
                + ": a hang, or collateral of another rank"
            )
        elif event.sig == "watchdog_observed":
            v.not_evidence.append(f"{event.ref}: NCCL's watchdog only observed the CUDA error")
        elif event.sig == "xid_45":
            v.not_evidence.append(f"{event.ref}: Xid 45 is clean-up, never first")
        elif event.sig == "ima_capture":
            v.not_evidence.append("the printed possible solutions are generic: they are not the cause")
    if context.launch_blocking and v.cuda_crash is not True:
        v.not_evidence.append("a blocking run that does not crash changes the timing: inconclusive")


def list_missing(v: Verdict, events: list[Event], evidence: Evidence, context: Context) -> None:
    """Inputs that would tell more: the kernel log, a core dump, the other ranks' logs."""
    if v.cuda_crash and not any(e.source == "kernel_log" for e in events):
        v.missing_inputs.append("the kernel log (`dmesg -T`): Xids tell application, hardware and driver apart")
    if v.certainty == "surfaced_only" and v.cuda_crash:
        v.missing_inputs.append("a GPU core dump or a sanitizer record: nothing here names the kernel")
    seen = {o.rank for o in evidence.streams.values() if o.rank is not None}
    world = context.world or (v.hang or {}).get("world")
    if world and seen and len(seen) < world:
        absent = [r for r in range(world) if r not in seen]
        v.missing_inputs.append(
            f"logs of ranks {', '.join(map(str, absent[:16]))}" + (" ..." if len(absent) > 16 else "")
        )


def at_shutdown(v: Verdict, event: Event, events: list[Event]) -> None:
    """A fault after the service began to stop may only be the exit of a peer."""
    stopped = next((e for e in events if e.sig == "shutdown" and e.order < event.order), None)
    if stopped is not None:
        v.contradictory.append(
            f"{stopped.ref}: the service was stopping before this "
            f"fault; the exit of a peer gives false illegal accesses"
        )
