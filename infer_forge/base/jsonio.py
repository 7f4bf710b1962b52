"""JSON in and out, hashes of JSON, and atomic writes. The one place that chooses the JSON library."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, cast

from infer_forge.base.atomic import write_atomic as write_atomic
from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite


def _plain(value: Any) -> Any:
    """What orjson cannot write itself: paths, sets, numpy scalars and arrays, objects with `to_json`."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """Compact (or indented) JSON bytes; NaN and infinities become null; dataclasses, paths, numpy and `to_json` objects are written."""
    import orjson

    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, default=_plain, option=options)
    except TypeError as exc:
        if "64-bit" not in str(exc):
            raise
    return orjson.dumps(_bounded(value), default=_plain, option=options)


def _bounded(value: Any) -> Any:
    """The same with whole numbers beyond 64 bits, which no reader keeps whole, as floating-point ones."""
    if hasattr(value, "to_json"):
        return _bounded(value.to_json())
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        return {k: _bounded(v) for k, v in pairs.items()}
    if isinstance(value, (list, tuple)):
        return [_bounded(v) for v in cast("list[Any]", value)]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        try:
            return float(value)
        except OverflowError:
            return None
    return value


def loads(data: bytes | str, *, where: str = "input") -> Any:
    """Parse JSON; also the bare `NaN` and `Infinity` that some tools write.

    Raises:
        InputUnusable: the text is no JSON; the message names `where` and the position.
    """
    import orjson

    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise InputUnusable(
                f"is not valid JSON ({exc})", where=where, next_step="correct it there, or write it again"
            ) from None


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Raises:
        InputUnusable: the file is missing, unreadable or no JSON.
    """
    try:
        data = finite(path).read_bytes()
    except OSError as exc:
        raise InputUnusable(
            exc.strerror or str(exc), where=str(path), next_step="check the path and its permissions"
        ) from None
    return loads(data, where=str(path))


def canonical(value: Any) -> bytes:
    """Canonical JSON for hashes: keys sorted, no spaces, UTF-8; two equal values give equal bytes.

    NaN and infinities are refused, since null would make two different values equal.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain
    ).encode()


def sha256_of(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of a value, or of the bytes given."""
    return hashlib.sha256(value if isinstance(value, bytes) else canonical(value)).hexdigest()


def sha256_file(path: str | Path) -> str:
    """sha256 (hex) of a file's bytes, read in 1 MiB blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
