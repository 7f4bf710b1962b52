"""Reports kept by the hash of their inputs, so that a later step can name the one it stands on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.paths import paths
from infer_forge.base.records import Report


def _folder(kind: str) -> Path:
    return paths().reports / kind


def keep(report: Report) -> Path:
    """Store a report under its kind and its inputs' hashes; the newest of equal inputs wins. Returns the file.

    One small index file an input names the report, so that `find` works by the hash of any single input.
    """
    hashes = sorted(i.sha256 for i in report.header.inputs if i.sha256)
    key = jsonio.sha256_of({"inputs": hashes, "kind": report.kind})
    file = jsonio.write_atomic(_folder(report.kind) / f"{key}.json", jsonio.dumps(report.to_json()))
    for sha in hashes:
        jsonio.write_atomic(_folder(report.kind) / "by-input" / sha, file.name)
    return file


def find(kind: str, sha256: str) -> tuple[Path, dict[str, Any]] | None:
    """The newest stored report of a kind that has an input with this hash: its file and JSON.

    None when there is none, and when what is stored is damaged or tells of other inputs: it is made anew then.
    """
    try:
        name = (_folder(kind) / "by-input" / sha256).read_text(encoding="ascii").strip()
        file = _folder(kind) / Path(name).name
        data: Any = jsonio.loads(file.read_bytes())
        inputs = {i["sha256"] for i in data["header"]["inputs"]}
    except (OSError, ValueError, KeyError, TypeError, InputUnusable):
        return None
    return (file, data) if sha256 in inputs else None
