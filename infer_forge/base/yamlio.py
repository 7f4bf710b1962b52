"""YAML that people write, read as plain data: what JSON can say, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite

_MOST_PARTS = 1_000_000
"""Some hundred bytes of nested aliases stand for more values than any memory holds."""


def parse(text: str, *, where: str) -> Any:
    """The data of a YAML text; dates become text, keys are text.

    Raises:
        InputUnusable: it is no YAML, holds what is no plain data (a date that does not exist, binary data, a part of itself),
            or is nested too deep.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data: Any = yaml.load(text, Loader=loader)  # a safe loader in either case
        if _parts(data, {}) > _MOST_PARTS:
            raise ValueError(f"its aliases stand for more than {_MOST_PARTS:,} values")
        return jsonio.loads(jsonio.dumps(data), where=where)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as exc:
        raise InputUnusable(
            f"cannot be read as YAML ({' '.join(str(exc).split())[:160]})", where=where, next_step="mend it there"
        ) from None


def _parts(value: Any, known: dict[int, int]) -> int:
    """How many values this is once every alias is written out; each part is counted once and kept by its identity."""
    if not isinstance(value, (dict, list)):
        return 1
    held = cast("dict[Any, Any] | list[Any]", value)
    if id(held) not in known:
        known[id(held)] = 0  # a part of itself stays a matter of who writes it out
        known[id(held)] = 1 + sum(_parts(v, known) for v in (held.values() if isinstance(held, dict) else held))
    return known[id(held)]


def read_yaml(path: str | Path) -> Any:
    """The data of a YAML file.

    Raises:
        InputUnusable: the file is missing or unreadable, or see `parse`.
    """
    try:
        text = finite(path).read_text(encoding="utf-8")
    except OSError as exc:
        raise InputUnusable(
            exc.strerror or str(exc), where=str(path), next_step="check the path and its permissions"
        ) from None
    except UnicodeDecodeError as exc:
        raise InputUnusable(f"is no UTF-8 text ({exc.reason})", where=str(path), next_step="save it as UTF-8") from None
    return parse(text, where=str(path))
