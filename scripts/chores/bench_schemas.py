"""Writes the JSON schemas of benchmark rows and kernel tasks: `python -m chores.bench_schemas`. A test holds them to the types."""

from __future__ import annotations

from chores import ROOT
from infer_forge.base import jsonio
from infer_forge.bench.model import row_schema
from infer_forge.kernel_task.model import task_schema

SCHEMAS = {"bench_row.json": row_schema, "kernel_task.json": task_schema}


def main() -> None:
    """Write them."""
    for name, make in SCHEMAS.items():
        file = jsonio.write_atomic(ROOT / "references" / "schemas" / name, jsonio.dumps(make(), indent=True) + b"\n")
        print(file)


if __name__ == "__main__":
    main()
