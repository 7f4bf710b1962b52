"""A failed collection: which of the known causes its output shows, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.redact import redact
from infer_forge.base.resources import load_yaml
from infer_forge.base.tables import Column, Table
from infer_forge.ncu.textio import encoding_of, read_lines

FILE = "references/ncu_failures.yaml"
_PROFILED = re.compile(r"==PROF== Profiling |==PROF== Report: |, Context \d+, Stream \d+")
_NCU = re.compile(r"==(PROF|ERROR|WARNING)==")
_LONGEST = 300


@dataclass(frozen=True)
class Failure:
    """A known cause: its id, what it means, what to do, and whether a person with rights must do it."""

    id: str
    match: re.Pattern[str]
    title: str
    remedy: str
    human: bool


@cache
def failures() -> tuple[Failure, ...]:
    """The catalogue, in the order in which causes are preferred."""
    raw: list[dict[str, Any]] = load_yaml(FILE)
    return tuple(
        Failure(i["id"], re.compile(i["match"], re.IGNORECASE), i["title"], i["remedy"], bool(i.get("human")))
        for i in raw
    )


def first_failure(lines: Iterable[str]) -> Failure | None:
    """The best-ranked cause that any line shows."""
    hits = _scan(lines)[0]
    return min((f for f, _, _ in hits), key=failures().index, default=None)


def _scan(lines: Iterable[str]) -> tuple[list[tuple[Failure, int, str]], bool, bool]:
    """First line of each cause; whether a kernel was profiled; whether ncu spoke at all."""
    hits: dict[str, tuple[Failure, int, str]] = {}
    profiled = spoke = False
    for number, line in enumerate(lines, 1):
        spoke = spoke or bool(_NCU.search(line))
        profiled = profiled or bool(_PROFILED.search(line))
        for failure in failures():
            if failure.match.search(line):
                hits.setdefault(failure.id, (failure, number, line.strip()[:_LONGEST]))
                break
    return list(hits.values()), profiled, spoke


def check_log(path: str | Path) -> Report:
    """Classify the output of a failed `ncu` run.

    JSON keys besides the table: `cause` (id, or `none`, or `unknown`), `title`, `remedy`, `needs_person`, `blocker`
    (one paragraph for the digest folder when NCU cannot run).

    Raises:
        InputUnusable: the file cannot be read or is no text.
    """
    file = Path(path)
    try:
        head = b""
        if not file.is_dir():
            with open(finite(file), "rb") as stream:
                head = stream.read(1 << 16)
    except OSError as exc:
        raise InputUnusable(exc.strerror or str(exc), where=str(path), next_step="check the path") from None
    encoding = encoding_of(head)
    if file.is_dir() or encoding is None:
        raise InputUnusable(
            "is no text file", where=str(path), next_step="give the saved output of ncu (stdout and stderr)"
        )
    hits, profiled, spoke = _scan(read_lines(file, encoding))
    hits.sort(key=lambda h: failures().index(h[0]))
    best = hits[0][0] if hits else None
    cause = best.id if best else "none" if profiled else "unknown"
    title, remedy = _words(best, profiled, spoke)
    report = Report("ncu-log", Header(inputs=[InputFile.of(file)], coverage={"causes_found": len(hits)}))
    report.add(
        Table(
            "causes",
            [Column("cause", "text"), Column("line", "int"), Column("evidence", "text"), Column("remedy", "text")],
            [[f.id, number, redact(line), f.remedy] for f, number, line in hits],
        )
    )
    report.summary = [f"collection: {title}"]
    report.next_step = remedy
    report.extra = {
        "cause": cause,
        "title": title,
        "remedy": remedy,
        "needs_person": bool(best and best.human),
        "profiled": profiled,
        "blocker": f"NCU blocker: {title}. Remedy: {remedy}. Until then decide on profiler, pipeline and source evidence."
        if cause not in ("none",)
        else None,
    }
    return report


def _words(best: Failure | None, profiled: bool, spoke: bool) -> tuple[str, str]:
    if best:
        return best.title, best.remedy
    if profiled:
        return "no failure found; kernels were profiled", "digest the report: infer-forge ncu digest REPORT"
    if spoke:
        return (
            "no known failure in it, and no profiled kernel either",
            "keep the whole output of ncu (stdout and stderr) and read its last lines",
        )
    return "this is no output of ncu", "give the saved output of ncu (stdout and stderr)"
