"""Gates as named rules: each answers pass, fail, unknown or n/a with its evidence and the fix. `require` refuses by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infer_forge.base.errors import ForgeError, GateRefused
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.tables import Column, Table

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign, Record

PASS, FAIL, UNKNOWN, NA = "pass", "fail", "unknown", "n/a"
PHASES = ("init", "history", "contract", "baseline", "plan", "round", "patch", "result", "final")
"""What `campaign check --phase` takes."""

Answer = tuple[str, str, str]
"""Result, evidence, fix."""


@dataclass(frozen=True)
class Rule:
    """One named gate: requirement id, phase, what it demands, and the function that looks."""

    id: str
    phase: str
    says: str
    look: Callable[[Campaign], Answer]


@dataclass(frozen=True)
class Check:
    """A rule's answer."""

    rule: str
    phase: str
    says: str
    result: str
    evidence: str
    fix: str


RULES: dict[str, Rule] = {}


def rule(ident: str, phase: str, says: str) -> Callable[[Callable[[Campaign], Answer]], Callable[[Campaign], Answer]]:
    """Register a rule under its requirement id."""

    def mark(look: Callable[[Campaign], Answer]) -> Callable[[Campaign], Answer]:
        RULES[ident] = Rule(ident, phase, says, look)
        return look

    return mark


def ok(evidence: str) -> Answer:
    """It holds."""
    return PASS, evidence, ""


def bad(evidence: str, fix: str) -> Answer:
    """It does not hold."""
    return FAIL, evidence, fix


def unseen(evidence: str, fix: str = "") -> Answer:
    """It could not be seen, which is not the same as fine."""
    return UNKNOWN, evidence, fix


def not_yet(why: str) -> Answer:
    """It does not apply here, or not yet."""
    return NA, why, ""


def rules() -> dict[str, Rule]:
    """Every rule."""
    from infer_forge.campaign import rules_end, rules_loop, rules_start

    assert rules_start
    assert rules_loop
    assert rules_end
    return RULES


def look(campaign: Campaign, ident: str) -> Check:
    """One rule's answer; a rule that cannot read its evidence says so instead of failing."""
    found = rules()[ident]
    try:
        result, evidence, fix = found.look(campaign)
    except ForgeError as fault:
        damaged = fault.where and ("edited" in fault.what or "damaged" in fault.what or "trusted" in fault.what)
        result, evidence, fix = (FAIL if damaged else UNKNOWN), str(fault.what), fault.next_step or ""
    return Check(found.id, found.phase, found.says, result, evidence, fix)


def require(campaign: Campaign, *idents: str, what: str) -> None:
    """Refuse unless every named rule passes or does not apply.

    Raises:
        GateRefused: naming each rule that does not hold, its evidence, and the first fix.
    """
    wrong = [c for i in idents if (c := look(campaign, i)).result in (FAIL, UNKNOWN)]
    if wrong:
        told = "; ".join(f"{c.rule}: {c.evidence}" for c in wrong[:5])
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise GateRefused(
            f"{what} is refused: {told}{more}", where=campaign.layout.run.name, next_step=wrong[0].fix or None
        )


def check(campaign: Campaign, phases: Sequence[str] = ()) -> list[Check]:
    """Every rule (of some phases); what only guards the way to the next edit does not apply between rounds."""
    return [_shown(campaign, r) for r in rules().values() if not phases or r.phase in phases]


def _shown(campaign: Campaign, found: Rule) -> Check:
    running = open_attempt(campaign)
    if found.id == "one-attempt" and running is not None:
        return Check(found.id, found.phase, found.says, PASS, f"attempt {running.id} is under way", "")
    if campaign.round is None and (found.phase == "patch" or found.id == "A100") and found.id != "A133":
        return Check(found.id, found.phase, found.says, NA, "no round is open", "")
    return look(campaign, found.id)


def check_report(campaign: Campaign, phases: Sequence[str] = ()) -> Report:
    """The answer of `campaign check`; `verdict` is fail, unknown or pass."""
    made = check(campaign, phases)
    report = Report("campaign_check", header=Header(inputs=[InputFile.of(campaign.layout.ledger)]))
    table = Table("checks", [Column(n, "text") for n in ("rule", "phase", "result", "evidence", "fix", "says")])
    order = (FAIL, UNKNOWN, PASS, NA)
    made.sort(key=lambda c: (order.index(c.result), PHASES.index(c.phase)))
    table.rows = [(c.rule, c.phase, c.result, c.evidence, c.fix, c.says) for c in made]
    report.add(table)
    counts = {r: sum(c.result == r for c in made) for r in order}
    verdict = FAIL if counts[FAIL] else UNKNOWN if counts[UNKNOWN] else PASS
    report.extra = {"verdict": verdict, "counts": counts, "state": campaign.state}
    report.summary = [
        f"{verdict}: " + ", ".join(f"{n} {r}" for r, n in counts.items() if n) + f"; state {campaign.state}"
    ]
    report.next_step = next((c.fix for c in made if c.result in (FAIL, UNKNOWN) and c.fix), "")
    return report


def open_attempt(campaign: Campaign) -> Record | None:
    """The attempt that has no result yet."""
    done = {str(r["attempt"]) for r in campaign.of("result")}
    return next((a for a in reversed(campaign.of("attempt")) if a.id not in done), None)
