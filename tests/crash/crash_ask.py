"""Short ways to ask for a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infer_forge.crash import Context, triage


def verdict(tmp_path: Path, text: str | dict[str, str], **stated: Any) -> dict[str, Any]:
    """The top-level keys of a triage of one text, or of several files."""
    files = text if isinstance(text, dict) else {"server.log": text}
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return triage([tmp_path], context=Context(**stated)).extra
