"""Ask the cards: those of a model's family that matter, as a table, and as notes that a campaign can keep (A43-A50)."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Table
from infer_forge.journal import words
from infer_forge.journal.aliases import canonical
from infer_forge.journal.families import Match, family_of, read_families
from infer_forge.journal.history_db import history_file, opened
from infer_forge.journal.pr_notes import note_of

_COLUMNS = (
    "id, repo, pos, number, state, sha, head_sha, time, title, body, added, removed, symbols, topics, reverts, "
    "reverted_by, in_source"
)
_NAMES = [c.strip() for c in _COLUMNS.split(",")]
_SHOWN_FILES = 4
_SHOWN_SYMBOLS = 6
# What a card's place in the answer is made of: how much of it is the family's, whether it is about speed, how new it is.
_PERFORMANCE = ("attention", "moe", "quantization", "speculative_decoding", "communication", "graph", "fusion", "cache")
Card = dict[str, Any]


def query_history(
    name: str,
    *,
    framework: str | None = None,
    about: str = "",
    path: str | None = None,
    config: Path | None = None,
    families_file: Path | None = None,
    limit: int = 10,
) -> Report:
    """Cards for a model id, an architecture or a family; the closest family is named with what the choice stands on.

    Args:
        framework: only repositories of this framework.
        about: words that the cards must hold, for example `moe fp8`.
        path: only cards that touch this file, or files below this folder.
        config: the model's config.json, whose `architectures` decide the family.

    Raises:
        InputUnusable: no history was built yet, or the config is none.
        UsageFault: there is no history of that framework.
    """
    families = read_families(families_file)
    match = _by_config(config, families) if config is not None else family_of(name, families)
    with opened() as db:
        repos = _repos(db, framework)
        cards = _cards(db, repos, match.family, about or ("" if match.family else name), path)
        chosen = sorted(cards, key=lambda c: -c["weight"])[:limit]
        for card in chosen:
            card["files"] = db.execute("SELECT path, added, removed FROM files WHERE card=?", (card["id"],)).fetchall()
        beside = _changed_together(db, cards, families.globs.get(match.family)) if match.family else []
    report = _report(name, match, repos, len(cards), chosen)
    report.add(Table("changed_together", ["path", "cards"], beside))
    return report


def show_card(repo: str, number: int) -> Report:
    """One pull request in full: every card with its number, files with lines, symbols, message, what it took back.

    Raises:
        InputUnusable: no such card, or no history.
    """
    with opened() as db:
        repos = {i: r for i, r in _repos(db, None).items() if repo in (r["name"], r["framework"])}
        marks = ",".join("?" * len(repos))
        sql = f"SELECT {_COLUMNS} FROM cards WHERE repo IN ({marks}) AND number=? ORDER BY pos DESC"
        cards = [dict(zip(_NAMES, r, strict=True)) for r in db.execute(sql, [*repos, number])]
        if not cards:
            raise InputUnusable(
                f"no card {repo}#{number}", where=str(history_file()), next_step="infer-forge journal history list"
            )
        for card in cards:
            card["files"] = db.execute("SELECT path, added, removed FROM files WHERE card=?", (card["id"],)).fetchall()
    report = Report("journal_pr_card", Header())
    report.add(_table(cards, repos))
    files = [(p, a, r) for c in cards for p, a, r in c["files"]]
    report.add(Table("files", ["path", "added", "removed"], files))
    report.extra = {"notes": [note_of(c, repos[c["repo"]]) for c in cards], "message": cards[0]["body"]}
    report.summary = [f"{repo}#{number}: {cards[0]['title']}", *([cards[0]["body"]] if cards[0]["body"] else [])]
    report.next_step = f"git show {cards[0]['sha']}" if cards[0]["sha"] else "fetch its head before you read it as code"
    return report


def list_history() -> Report:
    """The repositories whose history is here, with the cards of each."""
    with opened() as db:
        rows = db.execute(
            "SELECT r.name, r.framework, r.tip, r.commits, (SELECT count(*) FROM cards c WHERE c.repo=r.id), r.path"
            " FROM repos r ORDER BY r.name"
        ).fetchall()
    report = Report("journal_history", Header())
    report.add(Table("repositories", ["repository", "framework", "tip", "commits_read", "cards", "path"], rows))
    report.summary = [f"history of {len(rows)} repositories"]
    report.next_step = (
        'infer-forge journal history query "MODEL"' if rows else "infer-forge journal history build CHECKOUT"
    )
    return report


def _by_config(config: Path, families: Any) -> Match:
    from infer_forge.base import jsonio

    data: Any = jsonio.read_json(config)
    names = cast("dict[str, Any]", data).get("architectures") if isinstance(data, dict) else None
    if not isinstance(names, list) or not names:
        raise InputUnusable("states no architectures", where=str(config), next_step="name the model's config.json")
    for name in cast("list[str]", names):
        if name in families.architectures:
            return Match(families.architectures[name], f"architecture {name} of {config}", True)
    return family_of(str(cast("list[str]", names)[0]), families)


def _repos(db: sqlite3.Connection, framework: str | None) -> dict[int, dict[str, Any]]:
    rows = db.execute("SELECT id, name, path, framework, tip FROM repos").fetchall()
    if not rows:
        raise InputUnusable(
            "no pull-request history was built yet",
            where=str(history_file()),
            next_step="infer-forge journal history build CHECKOUT; without a checkout record the blocker and go on (A50)",
        )
    repos = {r[0]: {"name": r[1], "path": r[2], "framework": r[3], "tip": r[4]} for r in rows}
    if framework is None:
        return repos
    wanted = canonical("framework", framework)
    chosen = {i: r for i, r in repos.items() if r["framework"] == wanted}
    if not chosen:
        known = ", ".join(sorted({str(r["framework"] or r["name"]) for r in repos.values()}))
        raise UsageFault(
            f"no history of {framework} is here",
            next_step=f"here is {known}; infer-forge journal history build CHECKOUT",
        )
    return chosen


def _cards(
    db: sqlite3.Connection, repos: dict[int, Any], family: str | None, about: str, path: str | None
) -> list[Card]:
    """All cards that fit, each with its weight."""
    marks = ",".join("?" * len(repos))
    clauses, values = [f"c.repo IN ({marks})", "c.number IS NOT NULL"], cast("list[Any]", [*repos])
    share = "0.0"
    if family:
        clauses.append("c.id IN (SELECT card FROM families WHERE family=?)")
        values.append(family)
        share = "(SELECT share FROM families WHERE family=? AND card=c.id)"
    terms = words.terms(about)
    if terms:
        clauses.append("c.id IN (SELECT rowid FROM fts WHERE fts MATCH ?)")
        values.append(" AND ".join(map(words.phrase, terms)))
    elif not family:
        return []
    if path:
        clauses.append("c.id IN (SELECT card FROM files WHERE path=? OR path LIKE ? || '/%')")
        values += [path, path.rstrip("/")]
    columns = ", ".join(f"c.{n}" for n in _NAMES)
    sql = f"SELECT {share}, {columns} FROM cards c WHERE {' AND '.join(clauses)}"
    rows = db.execute(sql, [*([family] if family else []), *values]).fetchall()
    newest = dict(db.execute("SELECT repo, max(pos) FROM cards GROUP BY repo").fetchall())
    return [_weighed(dict(zip(_NAMES, r[1:], strict=True)), r[0], newest) for r in rows]


def _weighed(card: Card, share: float | None, newest: dict[int, int]) -> Card:
    topics = cast("list[str]", json.loads(card["topics"] or "[]"))
    age = card["pos"] / max(newest.get(card["repo"], 1), 1) if card["pos"] else 1.0
    speed = min(2, sum(t in _PERFORMANCE for t in topics)) / 2
    card["weight"] = round((share or 0.0) + speed + age + (0.5 if card["reverted_by"] else 0.0), 4)
    return card


def _changed_together(db: sqlite3.Connection, cards: list[Card], own: re.Pattern[str] | None) -> list[tuple[str, int]]:
    """Files outside the family's `own` that its cards change most often: where the family's work reaches into shared code."""
    ids = [c["id"] for c in cards]
    counts: dict[str, int] = {}
    for start in range(0, len(ids), 900):
        part = ids[start : start + 900]
        sql = f"SELECT path, count(*) FROM files WHERE card IN ({','.join('?' * len(part))}) GROUP BY path"
        for file, count in db.execute(sql, part):
            if own is None or not own.match(file):
                counts[file] = counts.get(file, 0) + count
    return sorted(((p, n) for p, n in counts.items() if n > 1), key=lambda row: (-row[1], row[0]))[:10]


def _table(cards: Sequence[Card], repos: dict[int, Any]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for c in cards:
        files = [f[0] for f in sorted(c["files"], key=lambda f: -(f[1] + f[2]))]
        symbols = cast("list[str]", json.loads(c["symbols"] or "[]"))
        reverted = ", ".join(json.loads(c["reverted_by"])) if c["reverted_by"] else None
        commit = c["sha"] or c["head_sha"]
        lines = f"+{c['added']} -{c['removed']}"
        rows.append(
            (
                f"{repos[c['repo']]['name']}#{c['number']}",
                c["state"],
                bool(c["in_source"]),
                c["time"][:10],
                c["title"],
                lines,
                _some(files, _SHOWN_FILES),
                _some(symbols, _SHOWN_SYMBOLS),
                " ".join(json.loads(c["topics"] or "[]")),
                reverted,
                commit,
            )
        )
    names = [
        "pr",
        "state",
        "in_source",
        "date",
        "title",
        "lines",
        "files",
        "symbols",
        "topics",
        "reverted_by",
        "commit",
    ]
    return Table("cards", names, rows)


def _some(names: list[str], most: int) -> str:
    return " ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "")


def _report(name: str, match: Match, repos: dict[int, Any], total: int, chosen: list[Card]) -> Report:
    report = Report("journal_history_query", Header(more={"query": name}))
    report.header.coverage = {r["name"]: r["tip"] for r in repos.values()}
    report.add(_table(chosen, repos))
    report.extra = {
        "family": {"name": match.family, "evidence": match.evidence, "certain": match.certain},
        "notes": [note_of(c, repos[c["repo"]]) for c in chosen],
        "total": total,
    }
    if match.family and not match.certain:
        told = f"{name!r} is no known name; {match.family} was taken: {match.evidence}"
        report.findings.append(Finding("CLOSEST_FAMILY", told, next_step="record the choice (A44)"))
    if any(c["state"] == "open" for c in chosen):
        report.findings.append(
            Finding(
                "OPEN_PULLS",
                "an open pull request is a candidate only: the source does not have it (A48)",
                severity="info",
            )
        )
    family = f"family {match.family} ({match.evidence})" if match.family else f"no family: {match.evidence}"
    report.summary = [f"{len(chosen)} of {total} cards; {family}"]
    report.next_step = (
        "read the cards, keep the notes, and write into each the decision that it led to"
        if chosen
        else "widen the query, or record that the history holds nothing on it"
    )
    return report
