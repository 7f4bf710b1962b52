"""A small made-up model folder, so that there is something to fingerprint."""

from __future__ import annotations

import json
import struct
from pathlib import Path


def make_model(folder: Path) -> Path:
    """Write config, tokenizer, templates and one safetensors file; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    header = {n: {"dtype": "BF16", "shape": [2, 2], "data_offsets": [i * 8, i * 8 + 8]} for i, n in enumerate("ab")}
    raw = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + b"\0" * 16)
    for name in ("config.json", "tokenizer.json", "generation_config.json"):
        (folder / name).write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder
