"""The words of a note's decision: is a candidate told as present behaviour, or a figure as a fact without the record behind it?

By a table of plain statements (`references/note_claims.yaml`) and by rules alone. What it does not know passes: an honest
sentence that is refused costs more than a wrong one that a reader sees through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from infer_forge.base.resources import load_yaml

_TABLE = "references/note_claims.yaml"
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")
_CLAUSE = re.compile(r"[,，](?!\s*(?:not|but)\b)|[;；:：()（）]")
_RECORD = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{10}\b")
_NUMBER = re.compile(r"#(\d+)\b")
_COMMIT = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b")


@cache
def _pattern(name: str) -> re.Pattern[str]:
    told: str | list[str] = load_yaml(_TABLE)[name]
    return re.compile("|".join([told] if isinstance(told, str) else told), re.IGNORECASE)


def told_present(note: Mapping[str, Any]) -> list[str]:
    """Sentences of the decision that say the source has what it has not, naming no other commit, number or record for it."""
    unmerged = note.get("state") in ("open", "closed-unmerged")
    if not unmerged and note.get("in_source") is not False:
        return []
    tables = ("present", "merged") if unmerged else ("present",)
    return [s for s in _sentences(note) if _says(s, tables) and not _cites_another(s, note)]


def told_unsourced(note: Mapping[str, Any]) -> list[str]:
    """Sentences of the decision that state a figure of speed, or a proof, as a fact: no record id, and nobody whose figure it is."""
    return [
        s for s in _sentences(note) if _states_speed(s) and not (_RECORD.search(s) or _pattern("attributed").search(s))
    ]


def _sentences(note: Mapping[str, Any]) -> list[str]:
    decision: Any = note.get("decision")
    parts = cast("list[Any]", decision) if isinstance(decision, list) else [decision]
    found = (s.strip() for part in parts if part is not None for s in _SENTENCE.split(str(part)))
    return [s for s in found if s and not s.endswith(("?", "？"))]


def _says(sentence: str, tables: Sequence[str]) -> bool:
    """Whether a clause says what one of the tables looks for, and neither denies it nor makes a condition of it."""
    if _pattern("conditional").search(sentence):
        return False
    clauses = _CLAUSE.split(sentence)
    return any(_pattern(t).search(c) and not _pattern("denied").search(c) for c in clauses for t in tables)


def _cites_another(sentence: str, note: Mapping[str, Any]) -> bool:
    """Whether a sentence names a record, another pull request or another commit than the note's own."""
    own = str(note.get("pr") or "").rpartition("#")[2]
    head = str(note.get("head_sha") or "")
    commits = [c for c in _COMMIT.findall(_RECORD.sub("", sentence)) if not head.startswith(c)]
    numbers = [n for n in _NUMBER.findall(sentence) if n != own]
    return bool(_RECORD.search(sentence) or numbers or commits)


def _states_speed(sentence: str) -> bool:
    if _pattern("proof").search(sentence):
        return True
    text = _RECORD.sub("", sentence)
    changed = _pattern("metric").search(text) and _pattern("change").search(text)
    return bool(_pattern("figure").search(text) and (_pattern("speed").search(text) or changed))
