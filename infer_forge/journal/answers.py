"""Searches, facets and single records as reports, for every door."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.gitstore import Store
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Table
from infer_forge.journal import markdown
from infer_forge.journal.model import Artifact
from infer_forge.journal.search import Hit, facets, search
from infer_forge.journal.store import add, get, unsent


def _row(hit: Hit) -> tuple[Any, ...]:
    f = hit.fields
    figures = (f["claim"], f["metric"], f["value"], f["unit"], f["verdict"], bool(f["fenced"]), hit.score, hit.coverage)
    return (hit.id, f["kind"], f["title"], f["created"][:10], *figures, hit.why, hit.snippet)


def search_report(store: Store, query: str, filters: Mapping[str, Sequence[str]], **options: Any) -> Report:
    """Hits of a search (see `search`), best first; each figure with its metric and the kind of claim that it is."""
    hits = search(store, query, filters, **options)
    report = Report(
        "journal_search", Header(more={"query": query, "filters": {k: list(v) for k, v in filters.items()}})
    )
    columns = [
        "id",
        "kind",
        "title",
        "created",
        "claim",
        "metric",
        "value",
        "unit",
        "verdict",
        "fenced",
        "score",
        "coverage",
        "why",
        "snippet",
    ]
    rows = [_row(h) for h in hits]
    report.add(Table("hits", columns, rows))
    full = ", as many as were asked for: there may be more" if len(hits) == options.get("limit", 10) else ""
    report.summary = [f"{len(hits)} records{full}" if hits else "nothing in the journal fits"]
    report.next_step = (
        f"infer-forge journal show {hits[0].id}" if hits else "infer-forge journal filter shows what exists"
    )
    return report


def record_report(store: Store, fields: Mapping[str, Any], files: Sequence[str | Path] = ()) -> Report:
    """Add one record from plain fields; `files` are hashed and named as its artifacts, `created` is now where it is absent.

    Raises:
        InputUnusable: a field is missing, unknown or wrong, or a file cannot be read.
    """
    hashed = [InputFile.of(f) for f in files]
    artifacts = [{"path": str(Path(f.path).absolute()), "sha256": f.sha256, "size_bytes": f.size_bytes} for f in hashed]
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    whole = {"created": now, **fields, "artifacts": [*fields.get("artifacts", ()), *artifacts]}
    ids = add(store, [markdown.make(whole)])
    report = Report("journal_add", Header(inputs=hashed), extra={"ids": ids})
    report.summary = [f"recorded as {ids[0]}"]
    if unsent(store):
        told = "the team's hub does not answer: the record is kept here and goes there with the next one"
        report.findings.append(Finding("KEPT_HERE", told, next_step="infer-forge journal sync"))
    report.next_step = f"infer-forge journal show {ids[0]}"
    return report


def facet_report(store: Store, filters: Mapping[str, Sequence[str]], *, since: str | None = None) -> Report:
    """Counts by dimension of what fits."""
    found = facets(store, filters, since=since)
    report = Report("journal_filter", Header(more={"filters": {k: list(v) for k, v in filters.items()}}))
    rows = [(dim, value, count) for dim, pairs in found["facets"].items() for value, count in pairs]
    report.add(Table("facets", ["dim", "value", "records"], rows))
    report.header.hidden = {dim: f"{count} rarer values" for dim, count in found["hidden"].items()}
    report.extra = {"count": found["count"], "ids": found["ids"]}
    report.summary = [f"{found['count']} records fit"]
    report.next_step = "infer-forge journal search WORDS with the same filters"
    return report


def artifact_state(artifact: Artifact) -> str:
    """`same`, `changed`, or `gone`."""
    path = Path(artifact.path)
    if not path.is_file():
        return "gone"
    return "same" if jsonio.sha256_file(path) == artifact.sha256 else "changed"


class _Shown(Report):
    """A record for reading: as Markdown it is its file, which `journal import` takes back as the same record."""

    def render(self, form: str, width: int = 0) -> str:
        return super().render("text" if form == "md" else form, width)


def _told_in_front(text: str, findings: Sequence[Finding]) -> str:
    """A record's file with its findings as YAML comments: its fields and its text stay what they are."""
    lines = [f"# [{f.severity}] {f.code}: {' '.join(f.message.split())}\n" for f in findings]
    return "".join(["---\n", *lines, text.removeprefix("---\n")])


def show_report(store: Store, record_id: str) -> Report:
    """One record in full; an artifact that changed or vanished is a finding."""
    record = get(store, record_id)
    report = _Shown("journal_record", Header())
    states = [(a, artifact_state(a)) for a in record.artifacts]
    report.findings = [
        Finding(
            "ARTIFACT_" + s.upper(),
            f"{a.path} is not what the record stands on",
            next_step="restore it, or measure again",
        )
        for a, s in states
        if s != "same"
    ]
    if record.epoch_fenced:
        report.findings.append(
            Finding("FENCED", "its evidence was made under a superseded claim epoch", next_step="measure again")
        )
    if states:
        report.add(Table("artifacts", ["path", "sha256", "state"], [(a.path, a.sha256, s) for a, s in states]))
    report.extra = {"record": record.model_dump(mode="json", exclude_defaults=True), "body": record.body}
    report.text = _told_in_front(markdown.write(record), report.findings)
    report.summary = [f"{record.kind}: {record.title}"]
    report.next_step = f"infer-forge journal related {record.id}"
    return report
