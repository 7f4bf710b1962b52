"""Exactly one next edit: what, why, the metric that must move and how far, an upper bound, how to verify, when to stop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from infer_forge.ncu import policy
from infer_forge.ncu.candidates import candidates
from infer_forge.ncu.commands import NO_COLLECTIVES, collect_command, exact, verify_command
from infer_forge.ncu.diagnose import Diagnosis
from infer_forge.ncu.dictionary import find, missing
from infer_forge.ncu.flags import Flag
from infer_forge.ncu.model import Launch, Session
from infer_forge.ncu.saturation import Load
from infer_forge.ncu.triage_link import SmallKernel


def next_edit(
    launch: Launch,
    diagnosis: Diagnosis,
    found: list[Flag],
    session: Session,
    report: str,
    small: SmallKernel | None = None,
) -> dict[str, Any]:
    """The one next step for a launch. `kind` is `edit`, `collect` (data is missing) or `none` (at the roof)."""
    base: dict[str, Any] = {"kernel": launch.kernel, "launch": launch.index, "class": diagnosis.name}
    if diagnosis.family in ("invalid", "insufficient"):
        return base | _collect(launch, "speed_of_light", session, diagnosis.why)
    if _at_roof(diagnosis):
        return base | _none(launch, diagnosis, session, report)
    found_edits = candidates(launch, diagnosis, found, small)
    lacking = _lacking(launch, diagnosis)
    if lacking and not any(c.bound_pct is not None and c.id != "unit" for c in found_edits):
        names = ", ".join(missing(launch, policy.data()["needs"][lacking]))
        return base | _collect(
            launch, lacking, session, f"{diagnosis.name}: which lever to pull needs {names}, not collected"
        )
    best = max(found_edits, key=lambda c: -1.0 if c.bound_pct is None else c.bound_pct * c.weight, default=None)
    if best is None:
        return base | _collect(
            launch, "latency", session, f"{diagnosis.name}: the report holds nothing that an edit follows from"
        )
    return base | {
        "kind": "edit",
        "id": best.id,
        "edit": best.edit,
        "why": best.why,
        "metric": {"name": best.metric, "from": best.now, "to": best.aim, "unit": best.unit},
        "upper_bound_pct": None if best.bound_pct is None else min(100.0, max(0.0, best.bound_pct)),
        "bound_reason": best.bound_reason,
        "verify_command": verify_command(launch, session, report),
        "stop_if": best.stop_if
        or f"{best.metric or 'the metric'} does not move towards its aim, or the kernel is not faster in 3 launches a side",
    }


def _at_roof(diagnosis: Diagnosis) -> bool:
    return diagnosis.family == "bound" and bool(diagnosis.loads) and diagnosis.loads[0].pct >= policy.limit("roof_pct")


def _none(launch: Launch, diagnosis: Diagnosis, session: Session, report: str) -> dict[str, Any]:
    """Nothing is left but less work of the kind that the unit does: bytes at a memory roof, operations at a compute roof."""
    there = [x for x in diagnosis.loads if x.pct >= policy.limit("roof_pct")]
    load = next((x for x in there if _character(x) == "compute"), there[0])
    roof: dict[str, str] = policy.data()["roofs"][_character(load)]
    named = " and ".join(f"{policy.units()[x.unit].title} at {x.pct:.1f} %" for x in there)
    return {
        "kind": "none",
        "id": "none",
        "edit": roof["edit"],
        "why": f"{named} of peak ({load.metric}, roof at {policy.limit('roof_pct'):g} %): "
        f"the kernel as it is cannot get much faster; {roof['helps']}",
        "metric": {"name": load.metric, "from": load.pct, "to": None, "unit": "%"},
        "upper_bound_pct": max(0.0, 100 - there[0].pct),
        "bound_reason": f"what is left to the peak of {policy.units()[there[0].unit].title}",
        "verify_command": verify_command(launch, session, report),
        "stop_if": roof["stop_if"],
    }


def _character(load: Load) -> str:
    return policy.units()[load.unit].character


def collect_target(launch: Launch, diagnosis: Diagnosis, aside: Sequence[str], session: Session) -> dict[str, Any]:
    """The next step of a report that holds only kernels that are not the target (`aside`): collect everything but them."""
    others = "".join(f"(?!{re.escape(name)}$)" for name in dict.fromkeys(aside))
    command = collect_command(f"{NO_COLLECTIVES}{others}", metric_set="full", output="target-digest", session=session)
    return {
        "kernel": launch.kernel,
        "launch": launch.index,
        "class": diagnosis.name,
        "kind": "collect",
        "id": "collect",
        "edit": "none before the target is collected",
        "why": "the report holds only warm-up or initialisation kernels: no edit of theirs makes the target faster",
        "metric": None,
        "upper_bound_pct": None,
        "bound_reason": "not told by this report",
        "verify_command": command,
        "stop_if": "the collection fails: infer-forge ncu check-log LOG",
    }


def _lacking(launch: Launch, diagnosis: Diagnosis) -> str | None:
    """The group of metrics of which none was collected though the class needs one."""
    group = "latency" if diagnosis.family == "latency" else diagnosis.character
    needed: list[str] = policy.data()["needs"].get(group or "", [])
    return group if needed and all(find(launch, k) is None for k in needed) else None


def _collect(launch: Launch, group: str, session: Session, why: str) -> dict[str, Any]:
    sections: list[str] = policy.data()["sections"][group]
    command = collect_command(
        exact(launch.kernel),
        sections=sections,
        output=re.sub(r"\W+", "_", launch.kernel)[:40] + "-digest",
        session=session,
    )
    return {
        "kind": "collect",
        "id": "collect",
        "edit": "none before the missing metrics are collected",
        "why": why,
        "metric": None,
        "upper_bound_pct": None,
        "bound_reason": "not told by this report",
        "verify_command": command,
        "stop_if": "the collection fails: infer-forge ncu check-log LOG",
    }
