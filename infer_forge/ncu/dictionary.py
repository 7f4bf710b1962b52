"""Our metric names over Nsight Compute's: lookup by the dictionary in `references/ncu_metrics.yaml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from infer_forge.base.resources import load_yaml
from infer_forge.ncu.model import Launch, Value

FILE = "references/ncu_metrics.yaml"
RULE_FACT = "Rule"  # section name under which figures stand that only a rule's sentence gives


@dataclass(frozen=True)
class Metric:
    """One entry: our name, the ids and labels that carry it, its unit, the section that brings it, what it means."""

    key: str
    names: tuple[str, ...]
    labels: tuple[str, ...]
    unit: str
    section: str
    means: str


@dataclass(frozen=True)
class _Family:
    names: re.Pattern[str]
    labels: re.Pattern[str] | None
    source: str


def _plain(name: str | dict[str, Any]) -> str:
    return name if isinstance(name, str) else next(iter(name))


@cache
def metrics() -> dict[str, Metric]:
    """Every entry of the dictionary by our name."""
    raw: dict[str, dict[str, Any]] = load_yaml(FILE)["metrics"]
    return {
        key: Metric(
            key,
            tuple(_plain(n) for n in item["names"]),
            tuple(item["labels"]),
            item["unit"],
            item["section"],
            item["means"],
        )
        for key, item in raw.items()
    }


@cache
def _families() -> dict[str, _Family]:
    raw: dict[str, dict[str, Any]] = load_yaml(FILE)["families"]
    return {
        key: _Family(
            re.compile(item["names"]), re.compile(item["labels"]) if item["labels"] else None, str(item["names"])
        )
        for key, item in raw.items()
    }


@cache
def wanted() -> tuple[list[str], str]:
    """Metric ids to read from a binary report, and one pattern for the families."""
    names = [n for m in metrics().values() for n in m.names]
    pattern = "|".join(re.sub(r"\(\?P<r>", "(?:", f.source) for f in _families().values())
    return list(dict.fromkeys(names)), pattern


@cache
def _aliases() -> dict[str, str]:
    found: dict[str, str] = load_yaml(FILE)["section_aliases"]
    return found


def settle_labels(launch: Launch) -> None:
    """Bring the display names that older versions gave to sections to today's, so that one label finds a metric."""
    for name in [n for n in launch.values if "/" in n and "__" not in n]:
        section, _, label = name.partition("/")
        today = _aliases().get(section)
        if today:
            launch.values.setdefault(f"{today}/{label}", launch.values[name])


def find(launch: Launch, key: str) -> Value | None:
    """The value of one of our metrics, or None: not collected."""
    entry = metrics()[key]
    for name in (*entry.names, *entry.labels, f"{RULE_FACT}/{key}"):
        value = launch.values.get(name)
        if value is not None:
            return value
    return None


def number(launch: Launch, key: str) -> float | None:
    """Like `find`, as a number; None when it was not collected or is a word."""
    value = find(launch, key)
    return value.value if value is not None and isinstance(value.value, float) else None


def family(launch: Launch, key: str) -> dict[str, Value]:
    """All members of a family: what the pattern's group names -> value."""
    shape = _families()[key]
    out: dict[str, Value] = {}
    for name, value in launch.values.items():
        found = shape.names.match(name)
        if found is None and shape.labels is not None:
            found = shape.labels.match(name)
        if found is not None and isinstance(value.value, float):
            out.setdefault(found["r"].strip().lower().replace(" ", "_"), value)
    return out


def missing(launch: Launch, keys: list[str]) -> dict[str, str]:
    """Our metrics that were not collected -> the section that brings each."""
    return {key: metrics()[key].section for key in keys if find(launch, key) is None}
