"""Coverage: what the profile of the slow stage showed, and whether each row was answered by an idea or a dismissal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import Report
from infer_forge.base.tables import Column, Table
from infer_forge.campaign import verdicts
from infer_forge.campaign.book import Campaign, Record

SHARE_PCT = 0.5
"""Families from this share of the slow stage on are rows."""

ENOUGH_PCT = 95.0
"""Rows are taken until their shares add up to this."""


def slow_profile(campaign: Campaign) -> Record | None:
    """SGLang's newest profile: of the stage that the newest root cause names, else of any."""
    cause = campaign.last("root_cause")
    mine = [p for p in campaign.of("profile") if p["framework"] == "sglang"]
    stage = cause["stage"] if cause else None
    return next((p for p in reversed(mine) if stage in (None, *p["stages"])), mine[-1] if mine else None)


def slow_stage(campaign: Campaign, profile: Record) -> str:
    """The stage that coverage is about: the root cause's, else the profile's longest."""
    cause = campaign.last("root_cause")
    if cause and cause["stage"] in profile["stages"]:
        return str(cause["stage"])
    return str(max(profile["stages"], key=lambda s: profile["stages"][s] or 0.0))


def families(report: dict[str, Any], stage: str) -> list[tuple[str, float]]:
    """(kernel family, share of the stage in per cent) of a triage report's kernel table, largest first."""
    table: dict[str, Any] = report["tables"]["kernel"]
    rows = [dict(zip(table["columns"], r, strict=True)) for r in table["rows"]]
    mine = [r for r in rows if r["stage"] == stage]
    whole = sum(float(r["time_us"]) for r in mine) or 1.0
    sums: dict[str, float] = {}
    for r in mine:
        sums[str(r["kernel"])] = sums.get(str(r["kernel"]), 0.0) + float(r["time_us"])
    return sorted(((k, 100.0 * v / whole) for k, v in sums.items()), key=lambda p: -p[1])


def rows(campaign: Campaign) -> list[dict[str, Any]]:
    """Every row that must be answered: kind, name, share, headroom, answer (record id) and its words."""
    profile = slow_profile(campaign)
    if profile is None:
        return []
    report = triage(campaign, profile)
    stage, found, total = slow_stage(campaign, profile), list[dict[str, Any]](), 0.0
    for name, share in families(report, stage):
        if share < SHARE_PCT or total >= ENOUGH_PCT:
            break
        total += share
        for question in ("faster", "fused"):
            found.append({"kind": "kernel", "question": question, "name": name, "share_pct": share, "stage": stage})
    for number, finding in enumerate(report.get("findings", [])):
        if finding.get("severity") != "info":
            name = f"{finding['code']}#{number}"
            found.append({"kind": "finding", "question": "answered", "name": name, "share_pct": None, "stage": stage})
    answers = campaign.of("idea", "dismissal")
    for row in found:
        answer = next((a for a in reversed(answers) if _answers(a, row)), None)
        row["answer"], row["by"] = (answer.id, answer.kind) if answer else (None, None)
    return found


def _answers(record: Record, row: dict[str, Any]) -> bool:
    """A record answers a row by naming it (family or finding code) and the question (none named: both)."""
    names = record.words("covers")
    short = row["name"].split("#")[0]
    return any(n in (row["name"], short) for n in names) and row["question"] in (
        record.words("questions") or ["faster", "fused", "answered"]
    )


def headroom_pct(campaign: Campaign, names: list[str]) -> float | None:
    """The most that the step can gain when these families cost nothing: their share; None without a profile."""
    profile = slow_profile(campaign)
    if profile is None:
        return None
    report = triage(campaign, profile)
    shares = dict(families(report, slow_stage(campaign, profile)))
    busy = _busy_share(report, slow_stage(campaign, profile))
    idle = any(n.startswith("LOW") or n in ("idle", "host") for n in names)
    gained = sum(shares.get(n, 0.0) for n in set(names)) * busy
    return gained + (100.0 * (1 - busy) if idle else 0.0)


def _busy_share(report: dict[str, Any], stage: str) -> float:
    """Busy part of the stage's wall time."""
    table: dict[str, Any] = report["tables"]["stages"]
    found = [r for r in (dict(zip(table["columns"], x, strict=True)) for x in table["rows"]) if r["stage"] == stage]
    wall = sum(float(r["wall_us"] or 0) for r in found)
    return sum(float(r["busy_us"] or 0) for r in found) / wall if wall else 1.0


def coverage_report(campaign: Campaign) -> Report:
    """The answer of `campaign coverage`: table `rows`, and the remaining gap by what became of its parts."""
    made = rows(campaign)
    report = Report("campaign_coverage")
    names = ("kind", "name", "question", "share_pct", "answer", "by")
    columns = [Column(n, "pct" if n == "share_pct" else "text") for n in names]
    report.add(Table("rows", columns, [[r[n] for n in names] for r in made]))
    left = [r for r in made if r["answer"] is None]
    report.extra = {
        "open": len(left),
        "rows": len(made),
        "verdict": "open" if left else "complete" if made else "no_profile",
    }
    report.add(Table("remaining", ["part", "count", "what"], remaining(campaign)))
    report.summary = [
        f"{len(made) - len(left)} of {len(made)} rows answered" if made else "no profile of a slow stage yet"
    ]
    report.next_step = (
        f"answer {left[0]['name']}: infer-forge campaign record idea, or record dismissal" if left else ""
    )
    return report


def remaining(campaign: Campaign) -> list[tuple[str, int, str]]:
    """The gap's parts: closed (accepted), infeasible (dismissed, rejected), untried (ideas without an attempt), unexplained (open)."""
    tried = {str(a["idea"]) for a in campaign.of("attempt")}
    results = campaign.of("result")
    closed = [r for r in results if r["outcome"] == "accepted"]
    rejected = [r for r in results if r["outcome"] != "accepted"]
    dismissed = campaign.of("dismissal")
    untried = [i for i in campaign.of("idea") if i.id not in tried]
    left = [r for r in rows(campaign) if r["answer"] is None]
    gap = verdicts.current(campaign)
    loser = verdicts.worst(gap) if gap else None
    return [
        (
            "closed",
            len(closed),
            "; ".join(f"{r.id} {r['gain_pct']:+.2f} %" for r in closed if r.get("gain_pct") is not None),
        ),
        (
            "infeasible",
            len(dismissed) + len(rejected),
            "; ".join(str(r["reason"])[:60] for r in [*dismissed, *rejected][:4]),
        ),
        ("untried", len(untried), "; ".join(str(i["title"])[:60] for i in untried[:4])),
        (
            "unexplained",
            len(left),
            f"remaining gap {loser['mean_pct']:.2f} %" if loser and loser["mean_pct"] is not None else "no gap remains",
        ),
    ]


def triage(campaign: Campaign, profile: Record) -> dict[str, Any]:
    """The triage report of a profile record.

    Raises:
        InputUnusable: it is gone, or is not the file that was recorded.
    """
    place, wanted = triage_file(campaign, profile), profile.get("sha256")
    if not place.is_file():
        raise InputUnusable(f"is gone, the triage of profile {profile.id}", where=str(place), next_step="restore it")
    if wanted and jsonio.sha256_file(place) != wanted:
        raise InputUnusable(
            f"was edited after it was recorded as profile {profile.id}", where=str(place), next_step="restore it"
        )
    return jsonio.read_json(place)


def triage_file(campaign: Campaign, profile: Record) -> Path:
    """The triage report of a profile record."""
    return campaign.layout.run / str(profile["triage"])
