"""The thresholds of a triage: data in `references/triage_thresholds.yaml`, typed here once."""

from __future__ import annotations

from typing import Any, cast

from infer_forge.base.resources import load_yaml

FILE = "references/triage_thresholds.yaml"


def thresholds(part: str) -> dict[str, float]:
    """One part (`edges`, `host`, `overlap`, `fuse`, `health`): name -> value."""
    return cast("dict[str, float]", load_yaml(FILE)[part])


def used() -> dict[str, Any]:
    """All parts, for the header of a report."""
    return {part: dict(values) for part, values in cast("dict[str, dict[str, Any]]", load_yaml(FILE)).items()}
