"""The page of benchmarks: every goal, and what was measured last of it, when and on which machine.

`goals.yaml` beside the benchmarks has the goals; a JSON file beside the page has the rows that were measured. A run puts its own
rows in and leaves the others with their date, so that the page can be made in several sittings.
"""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

import benches
from benches import Row
from infer_forge import __version__
from infer_forge.base import jsonio
from infer_forge.base.tables import Column, Table

GOALS = Path(benches.__file__).with_name("goals.yaml")
_HEAD = """# Benchmarks

Every goal, and what was measured last. `scripts/bench NAME ... --out docs/benchmarks.md` on a quiet machine brings the
rows of the benchmarks that ran up to date; the others stay with their date. `scripts/bench` lists the names.

Memory is that of a command and of all that it starts, at once, sampled; where a row says "whole process" it is what the
kernel counted for one process. Of several runs the least time counts, and the largest memory.
"""
_COLUMNS = [
    "bench", "work", "goal", Column("figure", "number"), "unit", "holds", "baseline", "note", "measured", "machine",
]  # fmt: skip


def goals() -> dict[str, list[tuple[str, str]]]:
    """Benchmark -> (work, goal) of each of its rows."""
    data: dict[str, list[list[str]]] = yaml.safe_load(GOALS.read_text(encoding="utf-8"))
    return {bench: [(work, goal) for work, goal in rows] for bench, rows in data.items()}


def strayed(bench: str, rows: Iterable[Row]) -> str:
    """In which way a benchmark's rows are not those of `goals.yaml`; an empty text when they are."""
    got, wanted = [(r.work, r.goal) for r in rows], goals().get(bench, [])
    return "" if got == wanted else f"{bench}: goals.yaml says {wanted}, the run gave {got}"


def machine() -> str:
    """Processor, cores, memory, Python, in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def kept(page: Path) -> list[dict[str, Any]]:
    """The rows that were measured for a page."""
    file = page.with_suffix(".json")
    return jsonio.read_json(file) if file.is_file() else []


def update(page: Path, ran: dict[str, list[Row]]) -> None:
    """Put the rows of the benchmarks that ran in place of their old ones, and write the page and its rows."""
    stamp = {
        "measured": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "version": __version__,
        "machine": machine(),
    }
    rows = [row for row in kept(page) if row["bench"] not in ran]
    rows += [{"bench": bench, **vars(row), **stamp} for bench, made in ran.items() for row in made]
    jsonio.write_atomic(page.with_suffix(".json"), jsonio.dumps(rows, indent=True) + b"\n")
    jsonio.write_atomic(page, text(rows))


def text(rows: list[dict[str, Any]]) -> str:
    """The page."""
    machines = list(dict.fromkeys(row["machine"] for row in rows))
    found = {(row["bench"], row["work"], row["goal"]): row for row in rows}
    lines: list[list[Any]] = []
    for bench, wanted in goals().items():
        for work, goal in wanted:
            row = found.get((bench, work, goal))
            if row is None:
                lines.append([bench, work, goal, None, "", "not measured", "", "", "", ""])
                continue
            when = f"{row['measured']}, {row['version']}"
            place = machines.index(row["machine"]) + 1
            told = [row["figure"], row["unit"], holds(row["ok"], row["figure"]), row["baseline"], row["note"]]
            lines.append([bench, work, goal, *told, when, f"[{place}]"])
    counts = {said: sum(line[5] == said for line in lines) for said in ("yes", "NO", "not measured")}
    parts = [
        _HEAD,
        f"{counts['yes']} goals hold, {counts['NO']} do not, {counts['not measured']} were not measured.\n",
        *(f"[{i}] {name}  " for i, name in enumerate(machines, 1)),
        f"\n{Table('benchmarks', _COLUMNS, lines).to_md()}\n",
    ]
    return "\n".join(parts)


def holds(ok: bool | None, figure: float | None) -> str:
    """How a row ended, in a word."""
    return {True: "yes", False: "NO", None: "not measured" if figure is None else "no goal"}[ok]
