"""`campaign doctor`: the loop's rules in four moments, each with its evidence and the way to mend it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from infer_forge.base.errors import ForgeError, UsageFault
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.campaign import companions
from infer_forge.campaign.gates import FAIL, NA, PASS, UNKNOWN
from infer_forge.campaign.rlcr import after, before, ending, machine, reviews, rounds
from infer_forge.campaign.rlcr.model import MOMENTS, Case, Check, Rule, Seen, rules_data, unclear
from infer_forge.campaign.rlcr.setup_args import default_words

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign

_LOOKS: dict[str, dict[str, Rule]] = {
    "before": {**machine.RULES, **before.RULES},
    "after": after.RULES,
    # a state file that cannot be read ends a loop at any time
    "round": {"D19": after.RULES["D19"], **rounds.RULES, **reviews.RULES},
    # at the end nothing that held in the rounds may have broken
    "end": {
        **ending.RULES,
        "D19": after.RULES["D19"],
        **{k: rounds.RULES[k] for k in ("D27", "D29", "D30", "D34")},
        **{k: reviews.RULES[k] for k in ("D35", "D36")},
    },
}


def _look(rule: Rule, case: Case) -> Seen:
    try:
        return rule(case)
    except ForgeError as fault:
        return unclear(str(fault.what), fault.next_step or "")
    except (OSError, RecursionError) as fault:
        return unclear(f"{type(fault).__name__}: {fault}", "mend it, then look again")


def checks(case: Case, moment: str) -> list[Check]:
    """Every rule of a moment.

    Raises:
        UsageFault: no such moment.
    """
    if moment not in MOMENTS:
        raise UsageFault(f"no moment is called {moment!r}", next_step=f"use one of {', '.join(MOMENTS)}")
    told = rules_data()["rules"]
    made: list[Check] = []
    for ident, rule in _LOOKS[moment].items():
        seen = _look(rule, case)
        made.append(Check(ident, moment, told[ident]["says"], seen.result, seen.evidence, seen.fix, seen.refused))
    return made


def moment_of(case: Case) -> str:
    """The moment in which a checkout is: no loop or only ended ones after a start, a fresh one, a running one, an ended one."""
    loop = case.loop
    if loop is None:
        return "before"
    if loop.active is None:
        return "end"
    return "after" if loop.round == 0 and not case.memory.of(loop) and not loop.numbers("review-prompt") else "round"


def examine(
    checkout: str | os.PathLike[str],
    moment: str | None = None,
    *,
    words: Sequence[str] | None = None,
    campaign: Campaign | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    setup_rc: int | None = None,
    keep: bool = True,
) -> Report:
    """Look at a checkout's loop.

    Args:
        moment: before, after, round or end; None finds it out.
        words: words for (or of) the set-up script; before a start None means the campaign's own (A95).
        keep: remember what was seen, so that a later look can compare (after, round, end).

    Raises:
        UsageFault: the folder is missing or no such moment.
    """
    place = Path(checkout).absolute()
    if not place.is_dir():
        raise UsageFault("no such folder", where=str(place), next_step="name the checkout that is patched")
    case = Case(place, list(words or []), campaign, dict(os.environ if environ is None else environ), home, setup_rc)
    chosen = moment or moment_of(case)
    if chosen == "before" and words is None:
        case.words = default_words(_only_base(case))
    made = checks(case, chosen)
    if keep and chosen != "before" and case.loop is not None:
        case.memory.add(case.loop, chosen, case.tree.head)
    return _report(case, chosen, made)


def _only_base(case: Case) -> str | None:
    tree = case.tree
    names = [n for n in (tree.remote_default, "main", "master") if n and n in tree.branches]
    return names[0] if names else None


def _report(case: Case, moment: str, made: list[Check]) -> Report:
    files = [case.loop.state_file] if moment != "before" and case.loop and case.loop.state_file else []
    report = Report("campaign_doctor", header=Header(inputs=[InputFile.of(f) for f in files]))
    order = (FAIL, UNKNOWN, PASS, NA)
    shown = sorted(made, key=lambda c: order.index(c.result))
    table = Table("checks", [Column(n, "text") for n in ("rule", "result", "evidence", "fix", "says")])
    table.rows = [(c.rule, c.result, c.evidence, c.fix, c.says) for c in shown]
    report.add(table)
    counts = {r: sum(c.result == r for c in made) for r in order}
    verdict = FAIL if counts[FAIL] else UNKNOWN if counts[UNKNOWN] else PASS
    loop = case.loop
    report.extra = {
        "verdict": verdict,
        "moment": moment,
        "counts": counts,
        "loop": str(loop.folder) if loop and moment != "before" else None,
        "ended_as": loop.ended_as if loop and moment != "before" else None,
    }
    told = ", ".join(f"{n} {r}" for r, n in counts.items() if n)
    report.summary = [f"{verdict}: {told}; moment {moment}"]
    if moment == "before":
        refuses = [c.rule for c in made if c.refused]
        report.extra["humanize_would"] = "refuse" if refuses else "accept"
        report.extra["refused_by"] = refuses
        report.extra["start"] = _start(case)
        own = "would refuse this start too" if refuses else "would accept this start"
        report.summary.append(f"Humanize's own set-up {own}")
    first = next((c.fix for c in shown if c.result in (FAIL, UNKNOWN) and c.fix), "")
    report.next_step = first or (report.extra["start"] if moment == "before" else "")
    return report


def _start(case: Case) -> str:
    found = companions.find_runtime(case.environ, case.user_home).path
    script = shlex.quote(str(found / companions.SETUP)) if found else f'"$HUMANIZE_RUNTIME_ROOT/{companions.SETUP}"'
    return f"cd {shlex.quote(str(case.checkout))} && {script} {shlex.join(case.words)}"
