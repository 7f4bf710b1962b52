"""The wiki's pages, computed from records and from nothing else: one a model, GPU, kernel family and framework, one a record.

Every claim line names the record it stands on and that record's sha256, so that a reader and `wiki lint` can check it.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from infer_forge.base.errors import ForgeError
from infer_forge.base.gitstore import Store
from infer_forge.journal import markdown, shipped
from infer_forge.journal.model import Record
from infer_forge.journal.store import REF

# Dimension -> folder of its pages, and the heading over its links on other pages.
SUBJECTS = {
    "model": ("models", "Models"),
    "gpu": ("gpus", "GPUs"),
    "kernel_family": ("kernels", "Kernel families"),
    "framework": ("frameworks", "Frameworks"),
}
# Kinds in the order in which a page shows them.
SECTIONS = {
    "result": "Results",
    "rejection": "Rejected",
    "pitfall": "Measurement pitfalls",
    "crash_case": "Crashes",
    "profile_digest": "Profiles",
    "ncu_digest": "Nsight Compute digests",
    "pr_card": "Pull requests",
    "task_record": "Tasks",
    "handoff": "Handoffs",
    "note": "Notes",
}
_UNSAFE = re.compile(r"[^a-z0-9.+]+")


@dataclass(frozen=True)
class Source:
    """A record as the wiki cites it."""

    record: Record
    sha256: str
    superseded_by: str | None


@dataclass
class Claim:
    """One line: what a record says, in its own figures and title."""

    text: str
    source: Source


@dataclass
class WikiPage:
    """One page.

    Attributes:
        path: below the wiki's folder, without ending: `models/deepseek-v3`.
        sections: heading -> claims. links: heading -> (title, path) of other pages. body: a record's own text.
    """

    path: str
    title: str
    sections: dict[str, list[Claim]] = field(default_factory=dict[str, list[Claim]])
    links: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, list[tuple[str, str]]])
    body: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    sources: list[Source] = field(default_factory=list[Source])


def slug(value: str) -> str:
    """A file name for a value; values that differ get names that differ."""
    plain = _UNSAFE.sub("-", value.casefold()).strip("-.")
    if not plain or len(plain) > 80 or re.search(r"[^a-z0-9. -]", value.casefold()):
        plain = f"{plain[:60]}-{hashlib.sha256(value.encode()).hexdigest()[:8]}".strip("-")
    return plain


def read_sources(store: Store) -> tuple[list[Source], list[tuple[str, str]]]:
    """Every record with its hash, oldest first, the shipped ones too; and (path, fault) of files that are no record."""
    found: dict[str, tuple[Record, str]] = {}
    faults: list[tuple[str, str]] = []
    for path, content in store.read(REF).items("records/"):
        try:
            record = markdown.read(content.decode("utf-8", "replace"), path)
            found[record.id] = (record, hashlib.sha256(content).hexdigest())
        except ForgeError as exc:
            faults.append((path, exc.what))
    for record_id, record in shipped.records().items():
        text = markdown.write(record)
        found.setdefault(record_id, (record, hashlib.sha256(text.encode()).hexdigest()))
    later = {link.id: r.id for r, _ in found.values() for link in r.links if link.rel == "supersedes"}
    return [Source(r, sha, later.get(r.id)) for _, (r, sha) in sorted(found.items())], faults


def make_pages(sources: Iterable[Source]) -> dict[str, WikiPage]:
    """All pages by path, the index under `index`. The same records give the same pages."""
    pages: dict[str, WikiPage] = {}
    every = list(sources)
    names = {s.record.id: s.record.title for s in every}
    back: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for source in every:
        for link in source.record.links:
            back[link.id].append((f"{source.record.title} ({link.rel} this)", f"records/{source.record.id}"))
    beside: dict[str, dict[str, set[tuple[str, str]]]] = defaultdict(lambda: defaultdict(set))
    for source in every:
        subjects = subjects_of(source.record)
        for dim, value in subjects:
            page = pages.setdefault(subject_path(dim, value), WikiPage(subject_path(dim, value), value))
            page.sources.append(source)
            heading = SECTIONS[source.record.kind] if source.superseded_by is None else "Superseded"
            page.sections.setdefault(heading, []).append(Claim(claim_text(source.record), source))
            for other, name in subjects:
                if (other, name) != (dim, value):
                    beside[page.path][SUBJECTS[other][1]].add((name, subject_path(other, name)))
        pages[f"records/{source.record.id}"] = _record_page(source, subjects, names, back[source.record.id])
    for page in pages.values():
        _order(page)
        page.links |= {h: sorted(found) for h, found in sorted(beside[page.path].items())}
    pages["index"] = _index(pages, every)
    return pages


def _order(page: WikiPage) -> None:
    """Sections in their fixed order, the newest claim first."""
    order = [*SECTIONS.values(), "Superseded"]
    for claims in page.sections.values():
        claims.sort(key=lambda c: (c.source.record.created, c.source.record.id), reverse=True)
    page.sections = {h: page.sections[h] for h in order if h in page.sections}


def subjects_of(record: Record) -> list[tuple[str, str]]:
    """(dimension, value) of the pages that a record belongs to."""
    return list(dict.fromkeys((d, v) for d, v, _ in record.dimensions() if d in SUBJECTS))


def subject_path(dim: str, value: str) -> str:
    """Path of the page of a value."""
    return f"{SUBJECTS[dim][0]}/{slug(value)}"


def claim_text(record: Record) -> str:
    """A record in one line, in nothing but its own words and figures."""
    figure = (
        f"{record.metric or 'value'} {record.value:g}{' ' + record.unit if record.unit else ''}"
        if record.value is not None
        else ""
    )
    marks = [figure, record.verdict or "", "fenced: superseded claim epoch" if record.epoch_fenced else ""]
    told = "; ".join(m for m in marks if m)
    return f"{record.created.date().isoformat()}: {record.title}" + (f" ({told})" if told else "")


def _record_page(
    source: Source, subjects: list[tuple[str, str]], names: dict[str, str], back: list[tuple[str, str]]
) -> WikiPage:
    record = source.record
    page = WikiPage(f"records/{record.id}", record.title, body=record.body, sources=[source])
    facts = [("kind", record.kind), ("created", record.created.isoformat()), ("sha256", source.sha256)]
    facts += [(d, v) for d, v, _ in record.dimensions() if d not in ("kind", "date")]
    if record.value is not None:
        facts.append((record.metric or "value", f"{record.value:g} {record.unit or ''}".strip()))
    if record.idea is not None:
        facts.append(("idea", " ".join(p for p in (record.idea.repository, record.idea.path, record.idea.symbol) if p)))
    facts += [("artifact", f"{a.path} sha256 {a.sha256}") for a in record.artifacts]
    facts += [("symptom", s) for s in record.symptoms]
    page.facts = facts
    if subjects:
        page.links["Pages"] = [(v, subject_path(d, v)) for d, v in subjects]
    linked = [(f"{names[x.id]} (this {x.rel} it)", f"records/{x.id}") for x in record.links if x.id in names]
    if linked or back:
        page.links["Records"] = linked + back
    return page


def _index(pages: dict[str, WikiPage], sources: list[Source]) -> WikiPage:
    index = WikiPage("index", "Journal")
    for folder, heading in SUBJECTS.values():
        found = sorted((p.title, p.path) for p in pages.values() if p.path.startswith(f"{folder}/"))
        if found:
            index.links[heading] = found
    loose = [s for s in sources if not subjects_of(s.record)]
    if loose:
        index.sections["Without a page of their own"] = [Claim(claim_text(s.record), s) for s in reversed(loose)]
        index.sources = loose
    index.facts = [("records", str(len(sources))), ("pages", str(len(pages)))]
    return index
