"""The fingerprint of model files: equal for equal weights, tokenizer and templates, without reading the weights (A55).

Hashed are file names and sizes, the headers of safetensors files (names, shapes, dtypes, offsets of every tensor), and the
whole of the small files that change behaviour: config, tokenizer, chat template, generation config, quantization config.
The revision is told where the folder knows it (a Hugging Face cache snapshot, or a download folder's metadata). Weights of
equal size and header with other numbers are not told apart: `--deep` hashes them whole. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable

_TOKENIZER = re.compile(
    r"^(tokenizer.*|vocab.*|merges\.txt|special_tokens_map\.json|added_tokens\.json|.*\.tiktoken|tekken\.json)$"
)
_TEMPLATE = re.compile(r"^(chat_template.*)$")
_SMALL = re.compile(r"\.(json|txt|jinja|model|tiktoken|py|ya?ml)$")
_WEIGHTS = re.compile(r"\.(safetensors|bin|pt|pth|gguf|onnx)$")
_IGNORED = re.compile(r"(^|/)(\.|README|LICENSE|USE_POLICY|NOTICE|.*\.(md|lock|incomplete)$)", re.IGNORECASE)
_MAX_HEADER = 200 << 20
_MAX_SMALL = 64 << 20
_REVISION = re.compile(r"^[0-9a-f]{40}$")


@dataclass
class Fingerprint:
    """The fingerprint of a model folder.

    Attributes:
        sha256: of everything below but the path and the revision.
        tokenizer_sha256, chat_template_sha256, generation_config_sha256, config_sha256: parts; None when absent.
        weights_sha256: of the weights' names, sizes and headers (of their bytes with `deep`).
        revision: the commit of the model repository, when the folder knows it.
        weight_bytes, tensors: sums over safetensors. files: name -> size.
        deep: whether the weights' bytes were read.
    """

    path: str
    sha256: str
    revision: str | None
    weights_sha256: str | None
    tokenizer_sha256: str | None
    chat_template_sha256: str | None
    generation_config_sha256: str | None
    config_sha256: str | None
    weight_bytes: int
    tensors: int
    deep: bool
    files: dict[str, int] = field(default_factory=dict[str, int])

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def _files(root: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
        for name in names:
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            if not _IGNORED.search(relative) and path.is_file():
                found[relative] = path
        if len(found) > 100_000:
            raise InputUnusable("holds too many files to be a model folder", where=str(root))
    return dict(sorted(found.items()))


def _digest(parts: list[Any]) -> str | None:
    return jsonio.sha256_of(parts) if parts else None


def _safetensors(path: Path) -> tuple[str, int]:
    """(hash of the header, number of tensors). Raises `InputUnusable` when it is cut or none."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else -1
        if not 2 <= length <= min(_MAX_HEADER, size - 8):
            raise InputUnusable("has no safetensors header, or is cut", where=str(path), next_step="download it again")
        raw = file.read(length)
    try:
        header = cast("dict[str, dict[str, list[int]]]", jsonio.loads(raw, where=str(path)))
        ends = [int(t["data_offsets"][1]) for k, t in header.items() if k != "__metadata__"]
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        raise InputUnusable("has no safetensors header", where=str(path)) from None
    if ends and size < 8 + length + max(ends):
        raise InputUnusable(
            "is cut: its header names more bytes than it has", where=str(path), next_step="download it again"
        )
    return hashlib.sha256(raw).hexdigest(), len(ends)


def _revision(root: Path) -> str | None:
    real = root.resolve()
    if _REVISION.match(real.name):
        return real.name
    for meta in sorted((root / ".cache" / "huggingface" / "download").glob("*.metadata"))[:1]:
        first = meta.read_text(encoding="utf-8", errors="replace").splitlines()[:1]
        if first and _REVISION.match(first[0].strip()):
            return first[0].strip()
    return None


def local_folder(model: str, revision: str | None = None) -> Path | None:
    """Where a model lies on this machine: the path itself, or its snapshot in the Hugging Face cache; None when nowhere.

    Without a revision there must be exactly one snapshot: several mean that nobody can tell which one is served.
    """
    if Path(model).is_dir():
        return Path(model)
    hub = os.environ.get("HF_HUB_CACHE") or os.path.join(
        os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface"), "hub"
    )
    snapshots = Path(hub) / f"models--{model.replace('/', '--')}" / "snapshots"
    if not snapshots.is_dir():
        return None
    found = [p for p in snapshots.iterdir() if p.is_dir() and revision in (None, p.name)]
    return found[0] if len(found) == 1 else None


def fingerprint(model_dir: str | Path, *, deep: bool = False) -> Fingerprint:
    """The fingerprint of a local model folder.

    Raises:
        InputUnusable: it is no folder, holds no model, or a weights file is cut.
    """
    root = Path(model_dir)
    if not root.is_dir():
        raise InputUnusable("is no folder", where=str(root), next_step="give the local folder of the model")
    files = _files(root)
    weights: list[Any] = []
    groups: dict[str, list[Any]] = {"tokenizer": [], "template": [], "generation": [], "config": [], "small": []}
    tensors = weight_bytes = 0
    for name, path in files.items():
        size = path.stat().st_size
        if _WEIGHTS.search(name):
            weight_bytes += size
            mark: str | None = None
            if name.endswith(".safetensors"):
                mark, count = _safetensors(path)
                tensors += count
            weights.append([name, size, mark, jsonio.sha256_file(path) if deep else None])
        elif _SMALL.search(name) and size <= _MAX_SMALL:
            groups[_group(Path(name).name)].append([name, jsonio.sha256_file(path)])
        else:
            groups["small"].append([name, size])
    if not weights and "config.json" not in files:
        raise InputUnusable(
            "holds neither weights nor config.json", where=str(root), next_step="give the folder of the model"
        )
    return Fingerprint(
        path=str(root),
        sha256=jsonio.sha256_of([weights, sorted(groups.items())]),
        revision=_revision(root),
        weights_sha256=_digest(weights),
        tokenizer_sha256=_digest(groups["tokenizer"]),
        chat_template_sha256=_digest(groups["template"]),
        generation_config_sha256=_digest(groups["generation"]),
        config_sha256=_digest(groups["config"]),
        weight_bytes=weight_bytes,
        tensors=tensors,
        deep=deep,
        files={n: p.stat().st_size for n, p in files.items()},
    )


def _group(name: str) -> str:
    if _TEMPLATE.match(name):
        return "template"
    if _TOKENIZER.match(name):
        return "tokenizer"
    return {"generation_config.json": "generation", "config.json": "config"}.get(name, "small")
