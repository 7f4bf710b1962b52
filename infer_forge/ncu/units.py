"""Units of Nsight Compute, old and new names, brought to one base unit, and printed numbers with their precision."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from infer_forge.ncu.model import Value

_SECONDS = {
    "s": 1.0,
    "second": 1.0,
    "ms": 1e-3,
    "msecond": 1e-3,
    "us": 1e-6,
    "usecond": 1e-6,
    "ns": 1e-9,
    "nsecond": 1e-9,
}
_PREFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SCALED = re.compile(r"^([KMGTP]?)(byte|bytes|hz|sector|inst|cycle|block|warp|thread|request|sample)$", re.IGNORECASE)
_NUMBER = re.compile(r"^[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?([eE][+-]?\d+)?$")
_EUROPEAN = re.compile(r"^[+-]?\d{1,3}(\.\d{3})+,\d+$")
_NOTHING = {"", "n/a", "nan", "-nan", "no data", "(!) n/a", "(!) nan"}


@lru_cache(maxsize=4096)
def scale(unit: str) -> tuple[float, str]:
    """Factor to the base unit, and the base unit's name: `("Gbyte/s")` -> `(1e9, "byte/s")`, `"usecond"` -> `(1e3, "ns")`.

    Unknown units come back as they are with factor 1.
    """
    unit = unit.strip()
    if unit in _SECONDS:
        return _SECONDS[unit] * 1e9, "ns"
    top, slash, bottom = unit.partition("/")
    factor, top = _scale_part(top)
    if not slash:
        return factor, top
    if bottom in _SECONDS:
        factor /= _SECONDS[bottom]
        return (factor, "hz") if top == "cycle" else (factor, f"{top}/s")
    below, bottom = _scale_part(bottom)
    return factor / below, f"{top}/{bottom}"


def _scale_part(part: str) -> tuple[float, str]:
    found = _SCALED.match(part)
    if not found:
        return 1.0, part
    word = found[2].lower()
    return _PREFIX[found[1].upper()], {"bytes": "byte"}.get(word, word)


def normalise(value: float | str, unit: str, name: str) -> Value:
    """A value of a binary report in its base unit (exact)."""
    if isinstance(value, str):
        return Value(value, unit, name)
    factor, base = scale(unit)
    return Value(value * factor, base, name)


def parse_printed(text: str, unit: str, name: str) -> Value | None:
    """A printed value: thousands separators removed, unit normalised, print precision kept.

    None for `n/a` and its kin: not collected is not 0. A whole number is taken as exact, because ncu prints whole
    values without decimals and rounds only what it prints with decimals.
    """
    text = text.strip()
    if text.lower() in _NOTHING:
        return None
    if _EUROPEAN.match(text):
        text = text.replace(".", "").replace(",", ".")
    if not _NUMBER.match(text):
        return Value(text, unit, name)
    plain = text.replace(",", "")
    factor, base = scale(unit)
    mantissa = plain.lower().partition("e")[0]
    decimals = len(mantissa.partition(".")[2])
    exponent = float(f"1e{plain.lower().partition('e')[2] or 0}")
    number = float(plain) * factor
    if not math.isfinite(number):  # 1e400: more digits than a number holds, so no figure to reckon with
        return None
    half = 0.5 * 10.0**-decimals * factor * exponent if decimals else 0.0
    return Value(number, base, name, half)


def dims(text: str) -> tuple[int, int, int] | None:
    """`(224, 1, 1)` or `224, 1, 1` -> a tuple; None when it is something else."""
    numbers = re.findall(r"\d+", text)
    if not 1 <= len(numbers) <= 3:
        return None
    parts = [int(n) for n in numbers] + [1, 1]
    return parts[0], parts[1], parts[2]
