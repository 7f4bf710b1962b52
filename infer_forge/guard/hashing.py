"""sha256 for the hook, from the interpreter's own module: `hashlib` loads OpenSSL, which costs more than a whole check.

CPython's `random` does the same with sha512 ("hashlib is pretty heavy to load"). The module was renamed in 3.12; an
interpreter without either falls back to `hashlib`. Standard library only.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def _maker() -> Any:
    try:
        return import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
    except (ImportError, AttributeError):
        return import_module("hashlib").sha256


_sha256 = _maker()


def sha256_hex(data: bytes) -> str:
    """The sha256 of these bytes in hexadecimal."""
    return _sha256(data).hexdigest()
