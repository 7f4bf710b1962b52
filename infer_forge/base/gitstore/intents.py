"""What was wanted while the hub was away. An intent is not done: whoever kept it decides again when the hub is back."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from infer_forge.base.jsonio import dumps, read_json, write_atomic


class Intents:
    """Intents of one store, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, kind: str, data: Any, *, op: str | None = None) -> str:
        """Keep an intent; its id (`op`, so that the same wish is kept once)."""
        name = op or uuid.uuid4().hex
        if not name.replace("-", "").isalnum():
            raise ValueError(f"no intent id: {name!r}")
        write_atomic(self.folder / f"{name}.json", dumps({"id": name, "kind": kind, "time": time.time(), "data": data}))
        return name

    def all(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Kept intents (`id, kind, time, data`), oldest first."""
        try:
            files = list(self.folder.glob("*.json"))
        except OSError:
            return []
        found: list[dict[str, Any]] = []
        for file in files:
            if file.name.startswith("."):
                continue
            intent = read_json(file)
            if kind is None or intent["kind"] == kind:
                found.append(intent)
        return sorted(found, key=lambda intent: (intent["time"], intent["id"]))

    def drop(self, intent: str) -> bool:
        """Forget an intent; False when it was gone already."""
        try:
            (self.folder / f"{intent}.json").unlink()
        except FileNotFoundError:
            return False
        return True
