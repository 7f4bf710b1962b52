"""Lazy faces of rooms: a package lists its public verbs and imports the module of one when it is first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def attach(package: str, verbs: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Give `__getattr__` and `__dir__` for a package whose verbs live in its modules.

    Args:
        package: the package's `__name__`.
        verbs: public name -> module inside the package that defines it.

    Use it as `__getattr__, __dir__ = attach(__name__, {"triage": "report"})`.
    """

    def load(name: str) -> Any:
        module = verbs.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{module}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(verbs)

    return load, names
