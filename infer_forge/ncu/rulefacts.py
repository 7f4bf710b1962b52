"""What NVIDIA's rule sentences state and nothing else on a page does: rule names on text pages, waves, sector use, stalls.

A figure from a sentence is only used where the metric itself was not printed; it is named `Rule/...` so that a reader
sees where it comes from.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

from infer_forge.ncu import dictionary, policy
from infer_forge.ncu.model import Launch
from infer_forge.ncu.units import parse_printed


@cache
def _facts() -> list[re.Pattern[str]]:
    return [re.compile(p) for p in policy.data()["rule_facts"]]


@cache
def _sentence() -> re.Pattern[str]:
    return re.compile(policy.data()["stall_sentence"])


@cache
def _pairs(name: str) -> list[tuple[re.Pattern[str], str]]:
    raw: list[list[Any]] = policy.data()[name]
    return [(re.compile(p), str(v)) for p, v in raw]


def settle_rules(launch: Launch) -> None:
    """Name unnamed rules, strip markup from their messages, and take over the figures that only they state."""
    launch.rules = [replace(r, rule=r.rule or rule_of(r.message), message=plain(r.message)) for r in launch.rules]
    for rule in launch.rules:
        for pattern in _facts():
            found = pattern.search(rule.message)
            for key, text in (found.groupdict() if found else {}).items():
                _add(launch, key, text)
        _stall(launch, rule.message)


def _add(launch: Launch, key: str, text: str) -> None:
    if dictionary.find(launch, key) is not None:
        return
    name = f"{dictionary.RULE_FACT}/{key}"
    value = parse_printed(text.rstrip("."), dictionary.metrics()[key].unit, name)
    if value is not None:
        launch.values[name] = value


def _stall(launch: Launch, message: str) -> None:
    found = _sentence().search(message)
    if not found:
        return
    reason = next((r for p, r in _pairs("stall_phrases") if p.search(found["what"])), None)
    name = f"Warp State Statistics/Stall {reason}"
    if reason and reason not in dictionary.family(launch, "stall"):
        value = parse_printed(found["cycles"], "inst", name)
        if value is not None:
            launch.values[name] = value


def rule_of(message: str) -> str | None:
    """The identifier of the rule that writes this sentence; None when none of the known ones does."""
    return next((r for p, r in _pairs("rule_sentences") if p.search(message)), None)


def plain(message: str) -> str:
    """A message without NVIDIA's link markup (`@section:X:Shown@`, `@url:Shown:https://..@`)."""
    text = re.sub(r"@section:[^:@]*:([^@]*)@", r"\1", message)
    text = re.sub(r"@url:([^:@]*):[^@]*@", r"\1", text)
    text = re.sub(r"@source:[^:@]*:([^@]*)@", r"\1", text)
    return re.sub(r"\s+", " ", text).strip()
