"""Run benchmarks and print them as a table; `--out FILE` puts their rows into a Markdown page of every goal."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import benches
from benches import Row
from chores import ROOT, bench_page
from infer_forge.base.tables import Column, Table

PAGE = ROOT / "docs" / "benchmarks.md"


def found() -> dict[str, Callable[[], list[Row]]]:
    """Every benchmark by `module.name`."""
    all_of_them: dict[str, Callable[[], list[Row]]] = {}
    for info in pkgutil.iter_modules(benches.__path__):
        module = importlib.import_module(f"benches.{info.name}")
        all_of_them |= {f"{info.name}.{name}": function for name, function in getattr(module, "BENCHES", {}).items()}
    return all_of_them


def table(ran: dict[str, list[Row]]) -> Table:
    """What ran, as a table for the terminal."""
    columns = ["bench", "work", "goal", Column("figure", "number"), "unit", "holds", "baseline", "note"]
    lines = [
        (name, r.work, r.goal, r.figure, r.unit, bench_page.holds(r.ok, r.figure), r.baseline, r.note)
        for name, rows in ran.items()
        for r in rows
    ]
    return Table("benchmarks", columns, lines)


def faults() -> list[str]:
    """What does not fit together: benchmarks, their goals, the page that is checked in."""
    listed, known = set(bench_page.goals()), set(found())
    said = [f"{name} is in goals.yaml and is no benchmark" for name in sorted(listed - known)]
    said += [f"{name} has no goals in goals.yaml" for name in sorted(known - listed)]
    if PAGE.read_text(encoding="utf-8") != bench_page.text(bench_page.kept(PAGE)):
        said.append(f"{PAGE.name} is not what its rows and goals.yaml say; run scripts/bench --page")
    return said


def main() -> None:
    """List or run benchmarks."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="module or module.name; none: the list")
    parser.add_argument("--all", action="store_true", help="run every one")
    parser.add_argument(
        "--out", type=Path, help="put the rows into this Markdown page, and into the JSON file beside it"
    )
    parser.add_argument("--page", action="store_true", help="run nothing; write docs/benchmarks.md from its rows anew")
    parser.add_argument("--check", action="store_true", help="run nothing; say whether goals and page fit together")
    chosen = parser.parse_args()
    if chosen.check:
        sys.exit("\n".join(faults()) or 0)
    if chosen.page:
        bench_page.update(PAGE, {})
        return
    known = found()
    names = (
        list(known) if chosen.all else [k for k in known if any(k == n or k.startswith(f"{n}.") for n in chosen.names)]
    )
    if not names:
        print("\n".join(known))
        sys.exit(2 if chosen.names else 0)
    ran = _run({name: known[name] for name in names}, chosen.out)
    print(table(ran).to_text(shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() else 0))
    sys.exit(1 if any(row.ok is False for rows in ran.values() for row in rows) else 0)


def _run(chosen: dict[str, Callable[[], list[Row]]], page: Path | None) -> dict[str, list[Row]]:
    """The rows of each, in a home of its own; each is on the page before the next begins.

    Raises:
        SystemExit: rows are not those of goals.yaml.
    """
    ran: dict[str, list[Row]] = {}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what users start is compiled already
    with tempfile.TemporaryDirectory() as home:
        os.environ["INFER_FORGE_HOME"] = home
        for name, function in chosen.items():
            sys.stderr.write(f"{name} ...\n")
            ran[name] = function()
            stray = bench_page.strayed(name, ran[name])
            if stray:
                sys.exit(stray)
            if page:
                bench_page.update(page, {name: ran[name]})
    return ran


if __name__ == "__main__":
    main()
