"""Pages of a loop: goal tracker, round contract, round summary, review result."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from infer_forge.campaign.rlcr.model import rules_data

_HEADING = re.compile(r"^(#{2,4})\s+(.*?)\s*$")
_FIELD = re.compile(r"^(\s*(?:[-*+]\s+|\d+[.)]\s+)?)\**([A-Za-z][A-Za-z /()-]{1,60}?)\**\s*:\**\s*(.*)$")
_AC = re.compile(r"\bAC-?\d+(?:\.\d+)*\b")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BLANK = re.compile(r"^\s*(?:[-*]\s*)?(?:[^:\n\[\]]{1,40}:\s*)?\[[^\]\n]{3,}\]\s*$")


@dataclass
class Tracker:
    """A goal tracker. `immutable` is the text between its two section heads, whatever headings stray inside it."""

    immutable: str = ""
    mutable: str = ""
    goal: str = ""
    criteria: list[str] = field(default_factory=list[str])
    faults: list[str] = field(default_factory=list[str])

    @property
    def sha256(self) -> str:
        """Hash of the immutable section without trailing blanks."""
        plain = "\n".join(line.rstrip() for line in self.immutable.strip().split("\n"))
        return hashlib.sha256(plain.encode()).hexdigest()

    @property
    def unfilled(self) -> bool:
        """Whether the scaffold's own words still stand in it."""
        return rules_data()["tracker_unfilled"] in self.immutable + self.mutable


def _part(text: str, title: str) -> str:
    """Text under `### TITLE` up to the next known `###` heading: a stray `##` of the plan inside it is no end."""
    known = [t.lower() for t in rules_data()["tracker_sections"]]
    taking, lines = False, list[str]()
    for line in text.split("\n"):
        head = _HEADING.match(line)
        if head and head[1] == "###" and head[2].lower() in known:
            taking = head[2].lower() == title.lower()
        elif taking and not head and line.strip() != "---":
            lines.append(line)
    return _COMMENT.sub("", "\n".join(lines)).strip()


def parse_tracker(text: str) -> Tracker:
    """Split a goal tracker at its IMMUTABLE and MUTABLE heads only, since plan headings stray into the first."""
    found = Tracker()
    first = re.search(r"^## IMMUTABLE SECTION\s*$", text, re.MULTILINE)
    second = re.search(r"^## MUTABLE SECTION\s*$", text, re.MULTILINE)
    if not first or not second or second.start() < first.end():
        found.faults.append("the heads IMMUTABLE SECTION and MUTABLE SECTION do not both stand, in this order")
        return found
    found.immutable = text[first.end() : second.start()]
    found.mutable = text[second.end() :]
    found.goal = _part(found.immutable, "Ultimate Goal")
    criteria = _part(found.immutable, "Acceptance Criteria")
    found.criteria = list(dict.fromkeys(_AC.findall(criteria)))
    if not found.goal:
        found.faults.append("no ultimate goal")
    if not criteria:
        found.faults.append("no acceptance criteria")
    return found


def _item(text: str, pattern: str) -> str | None:
    """What stands behind (or below) a label or heading of a page; None when there is no such label."""
    lines, label = text.split("\n"), re.compile(pattern, re.IGNORECASE)
    for index, line in enumerate(lines):
        head, field_ = _HEADING.match(line), _FIELD.match(line)
        name = head[2] if head else field_[2] if field_ else ""
        if not label.search(name):
            continue
        if field_ and not head and field_[3].strip():
            return field_[3].strip()
        depth, below = len(line) - len(line.lstrip()), list[str]()
        for other in lines[index + 1 :]:
            inside = bool(head) or not other.strip() or len(other) - len(other.lstrip()) > depth
            if _HEADING.match(other) or not inside:
                break
            below.append(other)
        return "\n".join(below).strip()
    return None


def contract_faults(text: str) -> list[str]:
    """What a round contract lacks: an objective, one or two target criteria, anything at all."""
    plain = _COMMENT.sub("", text)
    if not plain.strip():
        return ["it is empty"]
    faults: list[str] = []
    objective = _item(plain, r"\bobjective\b")
    if objective is None:
        faults.append("no mainline objective")
    elif not objective or _BLANK.match(objective):
        faults.append("the mainline objective is blank")
    targets = _item(plain, r"\btarget.*\bACs?\b|\btarget acceptance")
    named = list(dict.fromkeys(_AC.findall(targets if targets is not None else plain)))
    if not 1 <= len(named) <= 2:
        faults.append(f"{len(named)} target acceptance criteria, wanted are one or two")
    return faults


def summary_faults(text: str) -> list[str]:
    """Untouched scaffold lines of a summary: whole lines in square brackets, or sections with nothing in them."""
    plain = _COMMENT.sub("", text)
    if not re.sub(r"^#.*$", "", plain, flags=re.MULTILINE).strip():
        return ["it says nothing"]
    left = [line.strip() for line in plain.split("\n") if _BLANK.match(line) and "](" not in line]
    return (
        [f"still the scaffold: {left[0]}" + (f", and {len(left) - 1} more lines" if len(left) > 1 else "")]
        if left
        else []
    )


def verdicts(text: str) -> list[str]:
    """Every mainline verdict line of a review, in order."""
    return [m.upper() for m in re.findall(rules_data()["verdict_line"], text, re.MULTILINE)]


def last_word(text: str) -> str:
    """The last line of a review that is not empty: COMPLETE, STOP, or anything else."""
    return next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")
