"""Run benchmarks and print them as a table; `--out FILE` writes the Markdown page with machine and date."""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import pkgutil
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import benches
from benches import Row
from infer_forge import __version__
from infer_forge.base.jsonio import write_atomic
from infer_forge.base.tables import Column, Table


def found() -> dict[str, Callable[[], list[Row]]]:
    """Every benchmark by `module.name`."""
    all_of_them: dict[str, Callable[[], list[Row]]] = {}
    for info in pkgutil.iter_modules(benches.__path__):
        module = importlib.import_module(f"benches.{info.name}")
        all_of_them |= {f"{info.name}.{name}": function for name, function in getattr(module, "BENCHES", {}).items()}
    return all_of_them


def machine() -> str:
    """Processor, cores, memory, Python, in one line."""
    model = next(
        (
            x.split(":", 1)[1].strip()
            for x in Path("/proc/cpuinfo").read_text().splitlines()
            if x.startswith("model name")
        ),
        "?",
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def table(rows: list[tuple[str, Row]]) -> Table:
    """Rows as the page's table."""
    said = {True: "yes", False: "NO", None: "not measured"}
    columns = ["bench", "work", "goal", Column("figure", "number"), "unit", "baseline", "holds", "note"]
    return Table(
        "benchmarks", columns, [(n, r.work, r.goal, r.figure, r.unit, r.baseline, said[r.ok], r.note) for n, r in rows]
    )


def main() -> None:
    """List or run benchmarks."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="module or module.name; none: the list")
    parser.add_argument("--all", action="store_true", help="run every one")
    parser.add_argument("--out", type=Path, help="write a Markdown page there")
    chosen = parser.parse_args()
    known = found()
    names = (
        list(known) if chosen.all else [k for k in known if any(k == n or k.startswith(f"{n}.") for n in chosen.names)]
    )
    if not names:
        print("\n".join(known))
        sys.exit(2 if chosen.names else 0)
    with tempfile.TemporaryDirectory() as home:
        os.environ["INFER_FORGE_HOME"] = home
        rows: list[tuple[str, Row]] = []
        for name in names:
            sys.stderr.write(f"{name} ...\n")
            rows += [(name, row) for row in known[name]()]
    made = table(rows)
    print(made.to_text())
    if chosen.out:
        when = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        write_atomic(chosen.out, f"# Benchmarks\n\ninfer-forge {__version__}, {when}, {machine()}\n\n{made.to_md()}\n")
    sys.exit(1 if any(row.ok is False for _, row in rows) else 0)


if __name__ == "__main__":
    main()
