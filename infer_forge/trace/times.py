"""Microseconds as trace files write them -> int64 nanoseconds, exactly.

`rint(us * 1000)` is wrong by 1 ns from 4.398e12 us on. The whole part times 1000 plus the rounded fraction is exact up to 2^43
us, and for whole microseconds up to 2^53. Beyond 2^43 us a float64 has lost the nanoseconds: there the digits are read.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

FLOAT_LIMIT_US = float(1 << 43)
"""Up to here a float64 of microseconds holds the nanosecond."""
UNUSABLE = np.iinfo(np.int64).min
"""A time that is missing, no number, or out of range."""
_MAX_NS = 1 << 62


def from_floats(
    values: list[float] | npt.NDArray[np.float64], limit_us: float = float(1 << 52)
) -> npt.NDArray[np.int64]:
    """Floats in us -> ns; NaN, infinite and absurd values (beyond `limit_us`) -> UNUSABLE."""
    us = np.array(values, np.float64)
    fine = np.abs(us) <= limit_us
    if not fine.all():
        us[~fine] = 0.0
    whole = np.floor(us)
    ns = whole.astype(np.int64) * 1000 + np.rint((us - whole) * 1000).astype(np.int64)
    if not fine.all():
        ns[~fine] = UNUSABLE
    return ns


def from_digits(values: list[Any]) -> npt.NDArray[np.int64]:
    """JSON texts of numbers (`msgspec.Raw` or bytes) in us -> ns, digit by digit."""
    return np.array([_digits(bytes(v)) for v in values], np.int64)


def _digits(text: bytes) -> int:
    whole, dot, fraction = text.partition(b".")
    try:
        if not dot:
            return _fit(int(whole) * 1000)
        if len(fraction) <= 3 and fraction.isdigit():
            part = int(fraction.ljust(3, b"0"))
            return _fit(int(whole) * 1000 + (-part if whole.startswith(b"-") else part))
    except ValueError:
        pass
    return from_any(text.decode("ascii", "replace").strip('"'))


def from_any(value: Any) -> int:
    """One value of any JSON type in us -> ns; texts of numbers count, truth values and the rest are UNUSABLE."""
    if isinstance(value, bool) or value is None:
        return UNUSABLE
    if isinstance(value, int):
        return _fit(value * 1000)
    if isinstance(value, float):
        return int(from_floats([value])[0]) if math.isfinite(value) else UNUSABLE
    if isinstance(value, str) and len(value) < 64:
        try:
            number = Decimal(value.strip())
            return _fit(int((number * 1000).to_integral_value())) if abs(number) < _MAX_NS else UNUSABLE
        except (ArithmeticError, ValueError):
            return UNUSABLE
    return UNUSABLE


def _fit(ns: int) -> int:
    return ns if -_MAX_NS < ns < _MAX_NS else UNUSABLE
