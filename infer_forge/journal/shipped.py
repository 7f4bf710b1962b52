"""Records that come with infer-forge: the known measurement pitfalls, as every journal has them from its first day.

They stand in `references/bench_rules.yaml` (key `pitfalls`), have the same ids everywhere, and are found, shown and matched
like records of the store. `journal import --pitfalls` writes them into the store too, for a team that wants to link to them.
"""

from __future__ import annotations

import datetime
from functools import cache
from typing import Any

from infer_forge.base.resources import load_yaml
from infer_forge.journal import markdown
from infer_forge.journal.model import Record, new_id

_SOURCE = "references/bench_rules.yaml"
_SYMPTOMS = "references/pitfall_symptoms.yaml"


@cache
def records() -> dict[str, Record]:
    """id -> shipped record."""
    rules: dict[str, Any] = load_yaml(_SOURCE)
    seen = datetime.datetime.fromisoformat(str(rules["checked_on"])).replace(tzinfo=datetime.timezone.utc)
    told = {r["id"]: r for r in rules.get("rules", [])}
    symptoms: dict[str, list[str]] = load_yaml(_SYMPTOMS)
    found: dict[str, Record] = {}
    for pitfall in rules["pitfalls"]:
        record = _pitfall(pitfall, told, symptoms.get(pitfall["id"], []), seen)
        record.id = new_id(record)
        found[record.id] = record
    return found


def _pitfall(pitfall: dict[str, Any], rules: dict[str, Any], symptoms: list[str], seen: datetime.datetime) -> Record:
    versions: list[dict[str, Any]] = pitfall["versions"]
    frameworks = sorted({v["of"] for v in versions if v["of"] != "any"})
    text = " ".join(str(pitfall["text"]).split())
    names = [r for r in pitfall.get("rules", []) if r in rules]
    body = [text, "", f"Do: {pitfall['fix']}.", "", "Fixes and state:", *map(_state, versions)]
    body += ["", f"Rules of the result check that look for it: {', '.join(names) or 'none'}."]
    body += ["Sources: " + ", ".join(pitfall.get("sources", [])) + "."]
    return markdown.make(
        {
            "kind": "pitfall",
            "title": f"{pitfall['id']}: {pitfall['title']}",
            "created": seen,
            "dims": {"topic": [f"pitfall-{pitfall['kind']}"], "framework": frameworks},
            "applies_to": [_span(v) for v in versions],
            "symptoms": symptoms + [_symptom(rules[r]) for r in names if rules[r].get("say")],
            "source": f"{_SOURCE}#{pitfall['id']}",
            "extra": {"pitfall": pitfall["id"], "rules": names},
            "body": "\n".join(body) + "\n",
        },
        f"{_SOURCE}#{pitfall['id']}",
    )


def _span(version: dict[str, Any]) -> dict[str, Any]:
    fixed = " ".join(str(version[k]) for k in ("fixed_by", "fixed_on") if version.get(k))
    note = "; ".join(t for t in (version.get("note"), f"fixed: {fixed}" if fixed else None) if t)
    span = {
        "tool": version["of"],
        "fixed_in": version.get("below"),
        "good_from": version.get("good_from"),
        "note": note,
    }
    return {k: str(v) for k, v in span.items() if v}


def _state(version: dict[str, Any]) -> str:
    parts = [f"- {version['of']}"]
    parts += [f"({version['note']})"] if version.get("note") else []
    if version.get("open"):
        parts.append("open when last looked at")
    parts += [f"affected below {version['below']}"] if version.get("below") else []
    fixed = [str(version[k]) for k in ("fixed_by", "fixed_on") if version.get(k)]
    parts += ["fixed by " + " on ".join(fixed)] if fixed else []
    parts += [f"good from {version['good_from']}"] if version.get("good_from") else []
    return " ".join(parts)


def _symptom(rule: dict[str, Any]) -> str:
    """A rule's sentence without its figures."""
    return " ".join("".join(" " if p.startswith("{") else p for p in _pieces(str(rule["say"]))).split())


def _pieces(text: str) -> list[str]:
    import re

    return re.split(r"(\{[^}]*\})", text)
