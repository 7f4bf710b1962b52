"""The plan linter (A78 to A90, C25): for our own refined plan and for one that Humanize's gen-plan made."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.resources import load_yaml
from infer_forge.base.tables import Column, Table
from infer_forge.campaign.gates import FAIL, NA, PASS, Answer, Check, bad, not_yet, ok

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign

LARGEST_BYTES = 2 << 20
"""A plan above this size is no plan."""

_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_AC = re.compile(r"^(?:\s*[-*+]\s+|#{2,6}\s+|\s*)\**(AC-?\d+)\b(?!\.\d)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def data() -> dict[str, Any]:
    """Content of `references/plan_clauses.yaml`."""
    return load_yaml("references/plan_clauses.yaml")


@dataclass
class Section:
    """A heading and the lines under it, those of deeper headings too."""

    level: int
    title: str
    lines: list[str] = field(default_factory=list[str])


@dataclass
class Plan:
    """A plan's text split into sections and blocks (paragraphs and list items)."""

    text: str
    sections: list[Section] = field(default_factory=list[Section])
    blocks: list[str] = field(default_factory=list[str])
    prose: str = ""

    def section(self, pattern: str) -> Section | None:
        """The first section below the title whose heading matches."""
        found = [s for s in self.sections if re.search(pattern, s.title, re.IGNORECASE)]
        return next((s for s in found if s.level > 1), found[0] if found else None)


def _marked(text: str) -> list[tuple[str, re.Match[str] | None, bool]]:
    """(line, its heading, whether it is code) for every line outside of comments."""
    made: list[tuple[str, re.Match[str] | None, bool]] = []
    fenced = False
    for line in _COMMENT.sub("", text).split("\n"):
        fence = line.lstrip().startswith(("```", "~~~"))
        code = fenced or fence
        fenced = fenced != fence
        made.append((line, None if code else _HEADING.match(line), code))
    return made


def parse(text: str) -> Plan:
    """Split a plan; code fences hold no headings, comments hold nothing."""
    marked = _marked(text)
    plan = Plan(text, prose="\n".join(line for line, _, code in marked if not code))
    heads = [(i, len(h[1]), h[2]) for i, (_, h, _) in enumerate(marked) if h]
    for place, (start, level, title) in enumerate(heads):
        end = next((i for i, other, _ in heads[place + 1 :] if other <= level), len(marked))
        plan.sections.append(Section(level, title, [line for line, _, _ in marked[start + 1 : end]]))
    block: list[str] = []
    for line, head, _ in [*marked, ("", None, False)]:
        if head or not line.strip() or _ITEM.match(line):
            if block:
                plan.blocks.append(" ".join(" ".join(block).split()))
            block = []
        if line.strip() and not head:
            block.append(line)
    return plan


def clause_in(plan: Plan, ident: str) -> str | None:
    """The block that states a clause; None when no block has all its signs, or each takes it back."""
    clause = data()["clauses"][ident]
    signs = [re.compile(s, re.IGNORECASE) for s in clause["signs"]]
    denied = re.compile(data()["denials"], re.IGNORECASE)
    return next((b for b in plan.blocks if all(s.search(b) for s in signs) and not denied.search(b)), None)


def _clause(plan: Plan, ident: str) -> Answer:
    found = clause_in(plan, ident)
    wanted = str(data()["clauses"][ident]["plan"])
    return ok(found[:120]) if found else bad("no paragraph or list item obliges to it", f"add: {wanted}")


def _section(plan: Plan, name: str) -> Answer:
    entry = data()["sections"][name]
    found = plan.section(entry["heading"])
    if found is None or not "".join(found.lines).strip():
        return bad(
            f"no section with {entry['says']}" if found is None else f"the section {found.title!r} is empty",
            f"write {entry['says']}",
        )
    return ok(found.title)


def criteria_of(plan: Plan) -> dict[str, list[str]]:
    """Acceptance criterion -> its lines, in the first section of that name."""
    section = plan.section(data()["sections"]["criteria"]["heading"])
    made: dict[str, list[str]] = {}
    current: str | None = None
    for line in section.lines if section else []:
        found = _AC.match(line)
        if found:
            name = str(found[1]).replace("AC", "AC-").replace("--", "-")
            made.setdefault(name, [])
            current = name
        if current:
            made[current].append(line)
    return made


def _tests(plan: Plan) -> Answer:
    criteria = criteria_of(plan)
    if not criteria:
        return bad("no criterion is named AC-1, AC-2, ...", "name every acceptance criterion AC-N")
    patterns = {k: re.compile(v, re.IGNORECASE) for k, v in data()["tests"].items()}
    lacking: list[str] = []
    for name, lines in criteria.items():
        for kind, pattern in patterns.items():
            if not _has_tests(lines, pattern) and not _named_elsewhere(plan, pattern, name):
                lacking.append(f"{name} has no {kind} test")
    return (
        bad("; ".join(lacking[:4]), "write for each criterion what must pass and what must fail")
        if lacking
        else ok(", ".join(criteria))
    )


def _has_tests(lines: list[str], pattern: re.Pattern[str]) -> bool:
    """Whether a label stands there with something behind or below it."""
    for index, line in enumerate(lines):
        found = pattern.search(line)
        if found:
            behind = re.sub(r"^[^:]*:", "", line[found.end() :]).strip(" *:") if ":" in line[found.end() :] else ""
            below = next((x for x in lines[index + 1 :] if x.strip()), "")
            depth = len(line) - len(line.lstrip())
            if behind or (below and len(below) - len(below.lstrip()) > depth):
                return True
    return False


def _named_elsewhere(plan: Plan, pattern: re.Pattern[str], name: str) -> bool:
    return any(pattern.search(s.title) and name in "\n".join(s.lines) for s in plan.sections)


def _placeholder(plan: Plan) -> Answer:
    plain = re.sub(r"`[^`\n]*`", lambda m: m[0] if "<" in m[0] else "", plan.prose)
    for pattern in cast("list[str]", data()["placeholders"]):
        found = re.search(pattern, plain)
        if found:
            return bad(f"{found[0][:60]!r} still stands there", "put the real value in its place")
    return ok("none")


def _facts(plan: Plan, campaign: Campaign) -> Answer:
    """Whether the plan is about this campaign (A78)."""
    from infer_forge.campaign.plan import facts_of

    facts = facts_of(campaign)
    gone = [what for what, value in facts.named() if value not in plan.text]
    return (
        bad(f"it does not name {', '.join(gone[:5])}", "infer-forge campaign plan writes them")
        if gone
        else ok("model, workload, winners, places")
    )


def _input(plan: Plan) -> Answer:
    from infer_forge.campaign.rlcr.plan_input import content_faults

    faults = content_faults(plan.text)
    return bad(faults[0], "Humanize refuses such a plan") if faults else ok("long enough")


def lint(text: str, campaign: Campaign | None = None) -> list[Check]:
    """Every rule on a plan's text."""
    plan, made = parse(text), list[Check]()

    def add(ident: str, says: str, answer: Answer) -> None:
        made.append(Check(ident, "plan", says, *answer))

    for name, entry in data()["sections"].items():
        add(f"C25-{name}", f"the plan has {entry['says']}", _section(plan, name))
    add("C25-tests", "each acceptance criterion has positive and negative tests", _tests(plan))
    add("A78", "no placeholder is left", _placeholder(plan))
    named = _facts(plan, campaign) if campaign is not None else not_yet("no campaign is named")
    add("A78-facts", "model, workload, winners, artifact root, history and checkout are this campaign's", named)
    for ident, clause in data()["clauses"].items():
        add(ident, str(clause["plan"]), _clause(plan, ident))
    add("A90", "long enough for Humanize's own input rules", _input(plan))
    return made


def lint_file(path: Path, campaign: Campaign | None = None) -> list[Check]:
    """Every rule on a plan file.

    Raises:
        InputUnusable: it cannot be read, or is no text of a sensible size.
    """
    try:
        raw = path.read_bytes()
    except OSError as fault:
        raise InputUnusable(fault.strerror or str(fault), where=str(path), next_step="name the plan") from None
    if len(raw) > LARGEST_BYTES or b"\0" in raw[:4096]:
        raise InputUnusable("is no plan: too large, or no text", where=str(path), next_step="name the plan")
    return lint(raw.decode("utf-8", "replace").replace("\r\n", "\n"), campaign)


def lint_report(path: Path, campaign: Campaign | None = None) -> Report:
    """The linter's answer; `verdict` is pass or fail."""
    made = lint_file(path, campaign)
    report = Report("campaign_plan_lint", header=Header(inputs=[InputFile.of(path)]))
    table = Table("checks", [Column(n, "text") for n in ("rule", "result", "evidence", "fix")])
    order = (FAIL, PASS, NA)
    table.rows = [(c.rule, c.result, c.evidence, c.fix) for c in sorted(made, key=lambda c: order.index(c.result))]
    report.add(table)
    faults = [c for c in made if c.result == FAIL]
    report.extra = {"verdict": FAIL if faults else PASS, "faults": len(faults)}
    report.summary = [f"{FAIL if faults else PASS}: {len(made)} rules, {len(faults)} faults"]
    report.next_step = faults[0].fix if faults else ""
    return report
