"""Build the cards of a checkout's pull requests: all at first, then what is new; open ones from saved API output."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jobs, jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.tables import Table
from infer_forge.journal import gitlog
from infer_forge.journal.families import Families, read_families
from infer_forge.journal.gitlog import FileChange
from infer_forge.journal.history_db import drop_cards, family_rows, insert_card, insert_commit, opened
from infer_forge.journal.history_read import history

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def build_history(
    repo: Path,
    families_file: Path | None = None,
    *,
    pulls: Path | None = None,
    framework: str | None = None,
    ref: str = "HEAD",
) -> Report:
    """Read what is new in a checkout (everything at first, or after its history was rewritten) into cards.

    Args:
        families_file: globs, architectures and ids of model families; the shipped one by default. Another file than last
            time sorts all cards anew, without reading git again.
        pulls: saved API output (a JSON list, or JSON lines) with open and closed pull requests.
        framework: whose repository it is; told from its folders by default.

    Raises:
        InputUnusable: it is no checkout, or a file cannot be read.
    """
    top = gitlog.git(repo, "rev-parse", "--show-toplevel") or str(repo)
    tip = gitlog.git(repo, "rev-parse", "--verify", f"{ref}^{{commit}}")
    families = read_families(families_file)
    report = Report("journal_history_build", Header())
    if families_file is not None:
        report.header.inputs.append(InputFile.of(families_file))
    with opened(write=True) as db:
        db.execute("BEGIN IMMEDIATE")
        row = db.execute("SELECT id, tip, families FROM repos WHERE path=?", (top,)).fetchone()
        repo_id, old, mode = _repo(db, row, Path(top), tip)
        read, made = _add_commits(db, repo_id, Path(top), old, tip, families)
        if old is not None and row[2] != families.sha256:
            _sort_anew(db, repo_id, families)
        faults, added = _add_pulls(db, repo_id, pulls, families) if pulls is not None else ([], 0)
        _drop_landed(db, repo_id)
        _settle_reverts(db, repo_id)
        name = framework or _framework(db, repo_id, families)
        done = (tip, families.sha256, name, read, repo_id)
        db.execute("UPDATE repos SET tip=?, families=?, framework=?, commits=coalesce(commits, 0)+? WHERE id=?", done)
        db.execute("COMMIT")
        cards = db.execute("SELECT count(*) FROM cards WHERE repo=?", (repo_id,)).fetchone()[0]
    if pulls is not None:
        report.header.inputs.append(InputFile.of(pulls))
    report.header.coverage = {"commits_read": read, "cards_made": made, "mode": mode, "tip": tip, "framework": name}
    report.add(Table("refused_pulls", ["pull", "why"], faults))
    report.extra = {"cards": cards, "pulls_added": added}
    report.summary = [
        f"{cards} cards of {top}; {mode}: {read} commits read, {made} cards made, {added} from saved pulls"
        + (f", {len(faults)} of them refused" if faults else "")
    ]
    report.next_step = 'infer-forge journal history query "MODEL OR FAMILY"'
    return report


def _repo(db: sqlite3.Connection, row: Any, top: Path, tip: str) -> tuple[int, str | None, str]:
    """(id, tip that was read before or None, what is done) of a repository; a rewritten history is read from its start."""
    if row is None:
        made = db.execute("INSERT INTO repos(name, path) VALUES(?, ?)", (_name(top, db), str(top))).lastrowid
        assert made is not None
        return made, None, "first build"
    if row[1] == tip:
        return row[0], row[1], "nothing new"
    if row[1] and gitlog.is_ancestor(top, row[1], tip):
        return row[0], row[1], "added"
    drop_cards(db, [r[0] for r in db.execute("SELECT id FROM cards WHERE repo=? AND source='git_log'", (row[0],))])
    return row[0], None, "read anew, since the history was rewritten"


def _name(top: Path, db: sqlite3.Connection) -> str:
    """`owner/name` of the origin remote, else the folder's name; the path where that is taken."""
    try:
        url = gitlog.git(top, "config", "--get", "remote.origin.url")
    except InputUnusable:
        url = ""
    match = re.search(r"[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", url) if "://" in url or "@" in url else None
    name = match[1] if match else top.name
    taken = db.execute("SELECT 1 FROM repos WHERE name=?", (name,)).fetchone()
    return str(top) if taken else name


def _add_commits(
    db: sqlite3.Connection, repo: int, top: Path, old: str | None, tip: str, families: Families
) -> tuple[int, int]:
    """(commits read, cards made). Positions grow with time: newer cards have larger ones."""
    if old == tip:
        return 0, 0
    last = db.execute("SELECT coalesce(max(pos), 0) FROM cards WHERE repo=?", (repo,)).fetchone()[0]
    read = made = 0
    for commit in history(top, old, tip):
        made += insert_commit(db, repo, -1 - read, commit, families)
        read += 1
        if read % 1000 == 0:
            jobs.progress(read, None, "reading history: commits")
    db.execute("UPDATE cards SET pos = ? + 1 + pos WHERE repo=? AND pos < 0", (last + read, repo))
    return read, made


def _framework(db: sqlite3.Connection, repo: int, families: Families) -> str | None:
    paths = db.execute(
        "SELECT f.path FROM files f JOIN cards c ON c.id=f.card WHERE c.repo=? ORDER BY c.id DESC LIMIT 2000", (repo,)
    ).fetchall()
    return families.framework_of([p[0] for p in paths])


def _sort_anew(db: sqlite3.Connection, repo: int, families: Families) -> None:
    """Give every card the families and topics of other rules."""
    cards = db.execute("SELECT id, title, symbols FROM cards WHERE repo=?", (repo,)).fetchall()
    for card, title, symbols in cards:
        rows = db.execute("SELECT path, added, removed FROM files WHERE card=?", (card,)).fetchall()
        files = [FileChange(*r) for r in rows]
        names: list[str] = json.loads(symbols)
        db.execute("DELETE FROM families WHERE card=?", (card,))
        db.executemany("INSERT OR IGNORE INTO families VALUES(?,?,?)", family_rows(card, title, files, names, families))
        text = f"{title} {' '.join(f.path for f in files[:50])} {' '.join(names)}".lower()
        db.execute("UPDATE cards SET topics=? WHERE id=?", (json.dumps(families.topics_of(text)), card))


def _settle_reverts(db: sqlite3.Connection, repo: int) -> None:
    """Work out which cards are taken back: a later card that names them, unless that one is itself taken back."""
    rows = db.execute(
        "SELECT id, pos, number, sha, reverts FROM cards WHERE repo=? AND reverts IS NOT NULL", (repo,)
    ).fetchall()
    back: dict[int, list[tuple[int, str]]] = {}
    for card, pos, number, sha, reverts in rows:
        by = f"#{number}" if number is not None else sha
        for target in json.loads(reverts):
            where = "number=?" if isinstance(target, int) else "sha LIKE ? || '%'"
            hit = db.execute(
                f"SELECT id FROM cards WHERE repo=? AND {where} AND pos<? ORDER BY pos DESC LIMIT 1",
                (repo, target, pos),
            ).fetchone()
            if hit and (card, by) not in back.setdefault(hit[0], []):
                back[hit[0]].append((card, by))
    db.execute("UPDATE cards SET reverted_by=NULL, in_source=1 WHERE repo=? AND reverted_by IS NOT NULL", (repo,))
    live: dict[int, bool] = {}

    def alive(card: int) -> bool:
        if card not in live:
            live[card] = not any(alive(by) for by, _ in back.get(card, ()))
        return live[card]

    for card, by in sorted(back.items(), reverse=True):
        values = (json.dumps([b for _, b in by]), int(alive(card)), card)
        db.execute("UPDATE cards SET reverted_by=?, in_source=? WHERE id=?", values)


def _add_pulls(db: sqlite3.Connection, repo: int, file: Path, families: Families) -> tuple[list[tuple[str, str]], int]:
    """Saved pull requests that git does not know; (those refused with the reason, how many went in)."""
    faults: list[tuple[str, str]] = []
    added = 0
    for pull in _read_pulls(file):
        number, state = pull.get("number"), _state(pull)
        nested = cast("dict[str, Any]", pull.get("head") if isinstance(pull.get("head"), dict) else {})
        head = str(pull.get("headRefOid") or nested.get("sha") or "")
        files = _files(pull.get("files"))
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 10**18 or state is None:
            faults.append((str(number)[:40], "no number, or no state"))
        elif files is None:
            faults.append((f"#{number}", "its files are no list of paths, or of objects with path or filename"))
        elif state == "open" and not _SHA.fullmatch(head):
            faults.append(
                (f"#{number}", "open without the full sha of its head: a branch moves, so nothing could cite it (A48)")
            )
        else:
            added += _add_pull(db, repo, pull, number, state, head if _SHA.fullmatch(head) else None, files, families)
    return faults, added


def _add_pull(
    db: sqlite3.Connection,
    repo: int,
    pull: dict[str, Any],
    number: int,
    state: str,
    head: str | None,
    files: list[FileChange],
    families: Families,
) -> int:
    """One saved pull request as a card that is not in the source; git's own word wins over it."""
    if db.execute("SELECT 1 FROM cards WHERE repo=? AND number=? AND source='git_log'", (repo, number)).fetchone():
        drop_cards(db, _of_api(db, repo, number))
        return 0
    drop_cards(db, _of_api(db, repo, number))
    time = str(pull.get("updatedAt") or pull.get("updated_at") or pull.get("createdAt") or pull.get("created_at") or "")
    fields = {
        "repo": repo,
        "pos": 0,
        "number": number,
        "state": state,
        "head_sha": head,
        "time": time,
        "title": str(pull.get("title") or f"#{number}"),
        "body": str(pull.get("body") or "")[:2000],
        "in_source": 0,
        "source": "api",
    }
    insert_card(db, fields, files, [], families)
    return 1


def _files(told: Any) -> list[FileChange] | None:
    """The files of a saved pull request (none where it does not say); None where they have a shape that nobody can read."""
    if told is None:
        return []
    rows = cast("list[Any]", told) if isinstance(told, list) else [told]
    found: list[FileChange] = []
    for row in rows:
        fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {"path": row}
        path = fields.get("path") or fields.get("filename")
        added, gone = fields.get("additions") or 0, fields.get("deletions") or 0
        if not isinstance(told, list) or not (
            isinstance(path, str) and isinstance(added, int) and isinstance(gone, int)
        ):
            return None
        found.append(FileChange(path, added, gone))
    return found


def _drop_landed(db: sqlite3.Connection, repo: int) -> None:
    """Saved pull requests that git brought in since: its card is the truth."""
    sql = (
        "SELECT a.id FROM cards a WHERE a.repo=? AND a.source='api' AND EXISTS"
        " (SELECT 1 FROM cards g WHERE g.repo=a.repo AND g.number=a.number AND g.source='git_log')"
    )
    drop_cards(db, [r[0] for r in db.execute(sql, (repo,)).fetchall()])


def _of_api(db: sqlite3.Connection, repo: int, number: int) -> list[int]:
    rows = db.execute("SELECT id FROM cards WHERE repo=? AND number=? AND source='api'", (repo, number)).fetchall()
    return [r[0] for r in rows]


def _state(pull: dict[str, Any]) -> str | None:
    """`open`, `merged` or `closed-unmerged` (A47), from REST or GraphQL output."""
    state = str(pull.get("state") or "").lower()
    if pull.get("merged_at") or pull.get("mergedAt") or pull.get("merged") is True or state == "merged":
        return "merged"
    return {"open": "open", "closed": "closed-unmerged"}.get(state)


def _read_pulls(file: Path) -> list[dict[str, Any]]:
    try:
        text = finite(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputUnusable(str(exc), where=str(file), next_step="name a JSON file") from None
    if text.lstrip().startswith("["):
        data: Any = jsonio.loads(text, where=str(file))
    else:
        data = [jsonio.loads(line, where=f"{file}:{n}") for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    rows = cast("list[Any]", data)
    if not all(isinstance(r, dict) for r in rows):
        raise InputUnusable(
            "is no list of pull requests", where=str(file), next_step="save the API's answer as it came"
        )
    return cast("list[dict[str, Any]]", rows)
