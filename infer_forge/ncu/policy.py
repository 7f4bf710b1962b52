"""Thresholds, units, stall reasons and edits: typed access to `references/ncu_diagnosis.yaml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from infer_forge.base.resources import load_yaml

FILE = "references/ncu_diagnosis.yaml"


@dataclass(frozen=True)
class Threshold:
    """A number that decides something: its value, unit and where it comes from."""

    name: str
    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Unit:
    """A hardware unit that can be the limiter."""

    unit: str
    title: str
    character: str
    match: re.Pattern[str] | None


@cache
def data() -> dict[str, Any]:
    """The file, parsed."""
    found: dict[str, Any] = load_yaml(FILE)
    return found


@cache
def threshold(name: str) -> Threshold:
    """One threshold by name."""
    item = data()["thresholds"][name]
    return Threshold(name, float(item["value"]), item["unit"], item["source"])


def limit(name: str) -> float:
    """The value of one threshold."""
    return threshold(name).value


@cache
def units() -> dict[str, Unit]:
    """Units by id, in the order in which patterns are tried."""
    out = {i["unit"]: Unit(i["unit"], i["title"], i["character"], re.compile(i["match"])) for i in data()["units"]}
    for name, item in data()["more_units"].items():
        out[name] = Unit(name, item["title"], item["character"], None)
    return out


@cache
def unit_of(metric: str) -> str | None:
    """The unit that a sub-metric of a breakdown speaks for; None when no pattern matches."""
    return next((u.unit for u in units().values() if u.match and u.match.search(metric)), None)


@cache
def not_target() -> re.Pattern[str]:
    """Names of kernels that are seldom the target: warm-up, initialisation, cache flush."""
    return re.compile(data()["not_target"])
