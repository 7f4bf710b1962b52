"""Writes the JSON schema of a journal record: `python -m chores.journal_schema`. A test holds it to the type."""

from __future__ import annotations

from typing import Any

from chores import ROOT
from infer_forge.base import jsonio
from infer_forge.journal.model import Record

FILE = "references/schemas/journal_record.json"


def schema() -> dict[str, Any]:
    """The schema of a record's front matter, with the `body` that its JSON form carries too."""
    made = Record.model_json_schema()
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = "infer-forge journal record"
    return made


def main() -> None:
    """Write it."""
    print(jsonio.write_atomic(ROOT / FILE, jsonio.dumps(schema(), indent=True) + b"\n"))


if __name__ == "__main__":
    main()
