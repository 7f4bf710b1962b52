"""Notes on pull requests in the form that a campaign keeps (A47, A48): made from cards, and checked when somebody filled them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from infer_forge.base.records import Finding
from infer_forge.journal.note_claims import told_present, told_unsourced

STATES = ("open", "merged", "closed-unmerged")
NEEDED = (
    "path_read",
    "pr",
    "source_commit",
    "state",
    "source_files",
    "symbols",
    "validation_evidence",
    "known_limits",
    "validation_risk",
    "decision",
)
_SHA = re.compile(r"[0-9a-f]{40}")
_FIGURE = re.compile(
    r"\d(?:[\d.,]*)\s*(?:%|x\b|ms\b|us\b|tok|req/s|TFLOP|GB/s)|speed-?up|gsm8k|mmlu|accuracy|benchmark|faster|latency|throughput",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"\b(?:not (?:yet )?supported|unsupported|only (?:for|on|when|supports?)|todo|follow-?up|limitation|known issue"
    r"|does not|doesn't|fallback)\b",
    re.IGNORECASE,
)
_LINES = 3
_LINE_CHARS = 200


def note_of(card: Mapping[str, Any], repo: Mapping[str, Any]) -> dict[str, Any]:
    """The note of a card; `decision` stays empty until somebody says what it led to.

    `source_commit` is the commit of the checkout that was read. An open or closed pull request is never in it.
    """
    merged = card["state"] == "merged"
    files = [f[0] for f in card["files"]]
    return {
        "path_read": f"{repo['path']}#{card['number']}",
        "pr": f"{repo['name']}#{card['number']}",
        "source_commit": repo["tip"],
        "merge_commit": card["sha"],
        "state": card["state"],
        "head_sha": card["head_sha"],
        "in_source": bool(card["in_source"]) and merged,
        "source_files": files[:12],
        "symbols": json.loads(card["symbols"] or "[]")[:12],
        "validation_evidence": _lines(card["body"], _FIGURE) or ["none in the commit message"],
        "known_limits": _lines(card["body"], _LIMIT) or ["none in the commit message"],
        "validation_risk": _risk(card),
        "decision": None,
    }


def _lines(body: str | None, pattern: re.Pattern[str]) -> list[str]:
    lines = (" ".join(line.split()) for line in (body or "").splitlines())
    return [line[:_LINE_CHARS] for line in lines if pattern.search(line)][:_LINES]


def _risk(card: Mapping[str, Any]) -> str:
    risks: list[str] = []
    if card["state"] == "open":
        risks.append("open: not in the source that was read; its head may still change")
    if card["state"] == "closed-unmerged":
        risks.append("closed without a merge: rejected or replaced, find out which")
    if card["state"] == "merged" and not card["sha"]:
        risks.append("merged elsewhere: its commit is not in the checkout that was read")
    if card["reverted_by"]:
        by = ", ".join(json.loads(card["reverted_by"]))
        risks.append(f"reverted by {by}" + ("" if not card["in_source"] else ", which was taken back itself"))
    if not _lines(card["body"], _FIGURE):
        risks.append("no measured figure in its message")
    return "; ".join(risks) or "figures are the author's own; measure again"


def check_notes(notes: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """What keeps notes from being accepted: a missing field, no full source commit, an open one without its head or told as
    present (by its fields, or by the words of its decision), a figure in the decision with neither record nor author.

    An empty list: all are complete.
    """
    return [f for number, note in enumerate(notes, 1) for f in _check(note, f"note {number} ({note.get('pr', '?')})")]


def _check(note: Mapping[str, Any], name: str) -> list[Finding]:
    found = [
        Finding("NOTE_INCOMPLETE", f"{name}: {field} is missing", "error", next_step="fill it in (A47)")
        for field in NEEDED
        if (note.get(field) in (None, "", []) or (field == "decision" and not str(note.get(field)).strip()))
        and not (field in ("symbols", "source_files") and isinstance(note.get(field), list))
    ]
    if note.get("source_commit") and not _SHA.fullmatch(str(note["source_commit"])):
        found.append(
            Finding(
                "NOTE_COMMIT", f"{name}: source_commit is no full commit id", "error", next_step="give all 40 digits"
            )
        )
    state = note.get("state")
    if state is not None and state not in STATES:
        found.append(
            Finding("NOTE_STATE", f"{name}: state {state!r}", "error", next_step=f"one of {', '.join(STATES)}")
        )
    if state == "open" and not _SHA.fullmatch(str(note.get("head_sha") or "")):
        found.append(
            Finding(
                "NOTE_OPEN_HEAD", f"{name}: open without the full sha of its head", "error", next_step="store it (A48)"
            )
        )
    if state in ("open", "closed-unmerged") and (note.get("in_source") or note.get("merge_commit")):
        found.append(
            Finding(
                "NOTE_NOT_PRESENT",
                f"{name}: {state}, and told as present in the source",
                "error",
                next_step="a candidate is no present behaviour (A48)",
            )
        )
    return found + _by_words(note, name)


def _by_words(note: Mapping[str, Any], name: str) -> list[Finding]:
    """What the words of a decision claim that the note cannot carry (A48, A49)."""
    what = note["state"] if note.get("state") in ("open", "closed-unmerged") else "taken back"
    step = "call it a candidate, or name the commit, number or record by which the source has it (A48)"
    told = f"{name}: {what}, and its decision tells it as present: "
    found = [Finding("NOTE_TOLD_PRESENT", told + s, "error", next_step=step) for s in told_present(note)]
    step = "name the journal record that measured it, or say whose figure it is (A49)"
    told = f"{name}: its decision states a figure as a fact: "
    return found + [Finding("NOTE_UNSOURCED", told + s, "error", next_step=step) for s in told_unsourced(note)]
