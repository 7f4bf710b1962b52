"""NVIDIA's own rule results as a second opinion: read with their own keys, ranked by GLOBAL estimates, compared with ours."""

from __future__ import annotations

from typing import Any

from infer_forge.ncu import policy
from infer_forge.ncu.diagnose import Diagnosis
from infer_forge.ncu.model import Launch, RuleResult

_SOL = (
    ("too small to fill", {"small_grid"}),
    ("is utilizing greater than", {"bound"}),
    ("low compute throughput and memory", {"latency", "small_grid"}),
    ("more heavily utilized than", {"leaning"}),
    ("well-balanced", {"balanced"}),
)


def second_opinion(launch: Launch, diagnosis: Diagnosis) -> dict[str, Any]:
    """What NVIDIA's rules say of the launch.

    Keys: `agrees` (`yes`, `no`, or None when they say nothing on the class), `says` (their class in our words), `top`
    (the largest usable GLOBAL estimate), `excluded` (results that never become an edit, with the reason), `rules`.
    """
    findings = [r for r in launch.rules if r.kind in ("optimization", "warning")]
    usable = [r for r in findings if r.speedup_kind == "global" and r.speedup_pct is not None and not _never(r)]
    top = max(usable, key=lambda r: r.speedup_pct or 0.0, default=None)
    excluded = [{"rule": r.rule, "why": _why_not(r)} for r in findings if r.speedup_pct is not None and r not in usable]
    says = _class_said(launch)
    agrees = (
        None
        if says is None or diagnosis.family in ("invalid", "insufficient")
        else "yes"
        if diagnosis.family in says
        else "no"
    )
    supports = _supports(top, diagnosis) if top else None
    return {
        "agrees": agrees,
        "says": " or ".join(sorted(says)) if says else None,
        "top": _row(top) if top else None,
        "top_fits_class": supports,
        "excluded": excluded,
        "note": _note(diagnosis, agrees, says, top, supports),
        "rules": [_row(r) for r in findings],
    }


def _row(rule: RuleResult) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "section": rule.section,
        "kind": rule.kind,
        "title": rule.title,
        "speedup_kind": rule.speedup_kind,
        "speedup_pct": rule.speedup_pct,
        "message": rule.message[:300],
    }


def _entry(rule: RuleResult) -> dict[str, Any]:
    found: dict[str, Any] = policy.data()["rules"].get(rule.rule or "", {})
    return found


def _never(rule: RuleResult) -> bool:
    return "never" in _entry(rule)


def _why_not(rule: RuleResult) -> str:
    if _never(rule):
        return str(_entry(rule)["never"])
    return "a LOCAL estimate: the speed-up of one unit, not of the kernel"


def _class_said(launch: Launch) -> set[str] | None:
    for rule in launch.rules:
        if rule.rule == "SOLBottleneck":
            return next((classes for words, classes in _SOL if words in rule.message), None)
    return None


def _supports(rule: RuleResult, diagnosis: Diagnosis) -> bool | None:
    about = _entry(rule).get("about")
    if not isinstance(about, list):
        return None
    mine = {diagnosis.family, diagnosis.unit, diagnosis.character, *diagnosis.co_limiters}
    return bool(mine & set(about))  # pyright: ignore[reportUnknownArgumentType]


def _note(
    diagnosis: Diagnosis, agrees: str | None, says: set[str] | None, top: RuleResult | None, supports: bool | None
) -> str:
    if not says and top is None:
        return "no opinion: the report holds no rule result on the class and no GLOBAL estimate"
    parts: list[str] = []
    if says and agrees:
        verb = "agrees" if agrees == "yes" else "disagrees"
        parts.append(f"NVIDIA's SOLBottleneck {verb} ({' or '.join(sorted(says))} against {diagnosis.name})")
    elif says:
        parts.append(f"NVIDIA's SOLBottleneck says {' or '.join(sorted(says))}; our rules lack the metrics for a class")
    if top is not None:
        fits = {True: "fits the class", False: "does not fit the class", None: "says nothing on the class"}[supports]
        parts.append(f"its largest GLOBAL estimate, {top.rule or top.section} {top.speedup_pct:.0f} %, {fits}")
    return "; ".join(parts)
