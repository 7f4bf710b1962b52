"""Lint of the wiki, by rules alone: stale pages, unsourced claims, orphans, metrics that contradict each other at one point."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import ForgeError, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Table
from infer_forge.journal import markdown
from infer_forge.journal.answers import artifact_state
from infer_forge.journal.wiki_pages import SECTIONS, Source, WikiPage, make_pages, read_sources, subjects_of
from infer_forge.journal.wiki_site import MANIFEST, to_markdown, wiki_folder

# Two current figures of one metric at one deployment point and contract may differ by run-to-run noise; more contradicts.
CONTRADICTION_PCT = 5.0
_CLAIM = re.compile(r"^- (?P<text>.*?)(?: \[(?P<id>[\w-]+)\]\([^)]*\) `sha256:(?P<sha>[0-9a-f]+)`)?$")
_LINK = re.compile(r"\]\(([^)\s]+\.md)\)")
_SERIOUS = ("STALE", "UNSOURCED", "ORPHAN_PAGE", "CONTRADICTION", "NO_RECORD")
_NEXT = {
    "STALE": "infer-forge journal wiki build",
    "UNSOURCED": "record it: infer-forge journal add, then build the wiki; pages are not written by hand",
    "ORPHAN_PAGE": "infer-forge journal wiki build",
    "ORPHAN_RECORD": "give its successor a model, GPU, kernel family or framework",
    "CONTRADICTION": "measure again under the contract, and let the new record supersede the wrong one",
    "ARTIFACT_CHANGED": "restore the file, or measure again",
    "ARTIFACT_GONE": "restore the file, or measure again",
    "NO_RECORD": "look at the file with git show; archived records are not edited",
}


def lint_wiki(store: Store, folder: Path | None = None) -> Report:
    """Hold a built Markdown wiki against the records. `extra["ok"]`: nothing serious was found.

    Raises:
        UsageFault: no Markdown wiki lies there.
    """
    place = folder or wiki_folder()
    manifest: Any = jsonio.read_json(place / MANIFEST) if (place / MANIFEST).is_file() else None
    if not manifest or manifest.get("html"):
        raise UsageFault("no Markdown wiki lies here", where=str(place), next_step="infer-forge journal wiki build")
    sources, faults = read_sources(store)
    pages = make_pages(sources)
    rows = [("NO_RECORD", path, why) for path, why in faults]
    rows += _page_faults(place, pages, {s.record.id: s for s in sources})
    rows += [("ORPHAN_RECORD", s.record.id, "belongs to no page") for s in sources if not subjects_of(s.record)]
    rows += contradictions(sources)
    rows += [
        (f"ARTIFACT_{state.upper()}", s.record.id, a.path)
        for s in sources
        if s.superseded_by is None
        for a in s.record.artifacts
        if (state := artifact_state(a)) != "same"
    ]
    return _report(place, rows, len(pages))


def _report(place: Path, rows: list[tuple[str, str, str]], pages: int) -> Report:
    report = Report("journal_wiki_lint", Header(thresholds={"contradiction_pct": CONTRADICTION_PCT}))
    report.add(Table("faults", ["rule", "where", "what"], rows))
    counts: dict[str, int] = defaultdict(int)
    for rule, _, _ in rows:
        counts[rule] += 1
    report.findings = [
        Finding(r, f"{n} found", "error" if r in _SERIOUS else "warning", figure=n, next_step=_NEXT[r])
        for r, n in sorted(counts.items())
    ]
    ok = not any(r in _SERIOUS for r in counts)
    report.extra = {"ok": ok, "counts": dict(counts)}
    report.summary = [f"{pages} pages in {place}: {len(rows)} faults" + ("" if ok else ", some of them serious")]
    report.next_step = (
        report.findings[0].next_step if report.findings else "read it, or serve it: infer-forge journal wiki serve"
    )
    return report


def _page_faults(place: Path, pages: dict[str, WikiPage], known: dict[str, Source]) -> list[tuple[str, str, str]]:
    """Pages that are not what the records give, claims that no record stands behind, pages that nothing links to."""
    rows: list[tuple[str, str, str]] = []
    linked: set[Path] = {(place / "index.md").resolve()}
    found = {p.relative_to(place).with_suffix("").as_posix(): p for p in sorted(place.rglob("*.md"))}
    for path, file in found.items():
        text = file.read_text(encoding="utf-8", errors="replace")
        linked |= {(file.parent / t).resolve() for t in _LINK.findall(text)}
        page = pages.get(path)
        if page is not None and text == to_markdown(page):
            continue
        rows += _unsourced(path, text, known)
        rows.append(("STALE", path, "is not what the records give now" if page else "no record gives this page"))
    rows += [("STALE", p, "is missing") for p in pages if p not in found]
    rows += [("ORPHAN_PAGE", p, "nothing links to it") for p, f in found.items() if f.resolve() not in linked]
    return rows


def _unsourced(path: str, text: str, known: dict[str, Source]) -> list[tuple[str, str, str]]:
    """Claim lines without a record, with an unknown one, or with a hash that is not the record's."""
    try:
        body = markdown.split(text, path)[1]
    except ForgeError:
        return [("UNSOURCED", path, "has no front matter that names its sources")]
    rows: list[tuple[str, str, str]] = []
    claims = {*SECTIONS.values(), "Superseded", "Without a page of their own"}
    heading = ""
    for line in body.splitlines():
        heading = line[3:] if line.startswith("## ") else heading
        match = _CLAIM.match(line) if heading in claims and line.strip() and not line.startswith("## ") else None
        if heading not in claims or not line.strip() or line.startswith("## "):
            continue
        source = known.get(match["id"] or "") if match else None
        if match is None or match["id"] is None:
            rows.append(("UNSOURCED", path, f"no record is named: {line[:120]}"))
        elif source is None:
            rows.append(("UNSOURCED", path, f"no such record: {match['id']}"))
        elif not source.sha256.startswith(match["sha"]):
            rows.append(("STALE", path, f"{match['id']} has another hash"))
    return rows


def contradictions(sources: list[Source]) -> list[tuple[str, str, str]]:
    """Current results of one metric, deployment point, contract and scenario whose figures differ by more than noise."""
    groups: dict[tuple[Any, ...], list[Source]] = defaultdict(list)
    for source in sources:
        r = source.record
        if r.kind != "result" or r.value is None or source.superseded_by or r.epoch_fenced:
            continue
        point = contracts.point_sha256(r.deployment_point) if r.deployment_point else None
        named = tuple(
            (d, tuple(sorted(v))) for d, v in sorted(r.dims.items()) if d not in ("topic", "author", "verdict")
        )
        groups[(r.claim, point, r.contract_sha256, r.metric, r.unit, named)].append(source)
    rows: list[tuple[str, str, str]] = []
    for members in groups.values():
        low, high = (f(members, key=lambda s: s.record.value or 0.0) for f in (min, max))
        a, b = low.record.value or 0.0, high.record.value or 0.0
        if a != b and (b - a) > CONTRADICTION_PCT / 100 * max(abs(a), abs(b)):
            rows.append(
                (
                    "CONTRADICTION",
                    f"{low.record.id} {high.record.id}",
                    f"{low.record.metric}: {a:g} and {b:g} at one point",
                )
            )
    return rows
