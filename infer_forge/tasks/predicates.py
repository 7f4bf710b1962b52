"""Evaluate acceptance predicates on recorded evidence: pass, fail or unknown, each with the evidence that decided."""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.tasks.model import TRUST, Predicate
from infer_forge.tasks.people import same_person
from infer_forge.tasks.state import Evidence, Task

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
_STEP = re.compile(r"([^.\[\]]+)((?:\[[^\]]+\])*)")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "in": lambda a, b: a in b,
}


@dataclass(frozen=True)
class Outcome:
    """How one predicate came out, and on which evidence.

    Attributes:
        waits_for: the statement on which only a person can bring it on; None when something else is missing too.
    """

    result: str
    why: str
    evidence: str | None = None
    waits_for: str | None = None


@dataclass(frozen=True)
class Lookups:
    """What evaluation needs beside the task: a journal record's fields by id; None when there is no such record."""

    journal: Callable[[str], dict[str, Any] | None]


def field_of(data: Any, path: str) -> Any:
    """A field by its dotted path; `tables.gap[scenario=chat].verdict` takes a cell of a columnar table, `a[0]` an item.

    Raises:
        KeyError: it is not there.
    """
    current = data
    for name, keys in _STEP.findall(path):
        current = _member(current, name)
        for key in re.findall(r"\[([^\]]+)\]", keys):
            current = _pick(current, key)
    return current


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise KeyError(name)
    return cast("dict[str, Any]", value)[name]


def _pick(value: Any, key: str) -> Any:
    if key.lstrip("-").isdigit() and isinstance(value, list):
        items = cast("list[Any]", value)
        return items[int(key)] if -len(items) <= int(key) < len(items) else _missing(key)
    column, equals, wanted = key.partition("=")
    if equals and isinstance(value, dict) and {"columns", "rows"} <= set(cast("dict[str, Any]", value)):
        table = cast("dict[str, Any]", value)
        for row in table["rows"]:
            cells = dict(zip(table["columns"], row, strict=False))
            if str(cells.get(column)) == wanted:
                return cells
    return _missing(key)


def _missing(key: str) -> Any:
    raise KeyError(key)


def select(task: Task, predicate: Predicate) -> Evidence | None:
    """The newest evidence that the predicate's selector means and whose trust is enough."""
    wanted = predicate.selector
    least = TRUST.index(predicate.minimum_trust)
    for item in reversed(task.evidence):
        fits = (
            (wanted.id is None or item.id == wanted.id)
            and (wanted.evidence is None or item.kind == wanted.evidence)
            and (wanted.label is None or item.label == wanted.label)
            and (wanted.block is None or item.block == wanted.block)
            and (wanted.command is None or _ran(task, item.execution, wanted.command))
        )
        if fits and TRUST.index(item.trust) >= least and not item.fenced:
            return item
    return None


def _ran(task: Task, execution_id: str | None, command: str) -> bool:
    """Whether an execution is a run of exactly this command line; one that ends in a lone `*` lets further words follow."""
    execution = task.executions.get(execution_id or "")
    return execution is not None and is_line(execution.argv, command)


def is_line(argv: list[str], command: str) -> bool:
    """Whether the words of a run are this command line; one that ends in a lone `*` lets further words follow."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    if words[-1:] == ["*"]:
        return argv[: len(words) - 1] == words[:-1]
    return argv == words


def evaluate(task: Task, predicate: Predicate, lookups: Lookups) -> Outcome:
    """Evaluate one predicate. What cannot be seen is `unknown`, never a pass."""
    if predicate.kind in ("all_of", "any_of"):
        return _combined(task, predicate, lookups)
    if predicate.kind == "human_decision":
        return _human(task, predicate)
    if predicate.kind == "exit_is":
        return _exit(task, predicate)
    if predicate.kind == "file_hash_is":
        return _file(predicate)
    if predicate.selector.journal:
        record = lookups.journal(predicate.selector.journal)
        if record is None:
            return Outcome(UNKNOWN, f"the journal has no record {predicate.selector.journal}")
        return _held(record, predicate, predicate.selector.journal)
    item = select(task, predicate)
    if item is None:
        named = predicate.selector.evidence or predicate.selector.label or predicate.selector.id or "any"
        return Outcome(UNKNOWN, f"no evidence {named} of trust {predicate.minimum_trust} or more")
    if predicate.kind == "metric_compare" and item.trust == TRUST[0] and not _placed(task, item.data):
        return Outcome(
            UNKNOWN, f"{item.id} was handed in and states neither deployment point nor benchmark contract", item.id
        )
    return _held(item.data, predicate, item.id)


def _placed(task: Task, data: dict[str, Any]) -> bool:
    """Whether a figure says where it was measured, as far as the contract asks for a place."""
    from infer_forge.tasks.evidence import contract_hashes, points_in

    contract = task.typed.contract
    if contract.deployment_point is None and contract.benchmark_contract_sha256 is None:
        return True
    return next(points_in(data), None) is not None or next(contract_hashes(data), None) is not None


def _combined(task: Task, predicate: Predicate, lookups: Lookups) -> Outcome:
    parts = [evaluate(task, p, lookups) for p in predicate.of]
    results = {p.result for p in parts}
    if predicate.kind == "all_of":
        result = FAIL if FAIL in results else UNKNOWN if UNKNOWN in results else PASS
    else:
        result = PASS if PASS in results else UNKNOWN if UNKNOWN in results else FAIL
    telling = [p for p in parts if p.result == result]
    waits = [p.waits_for for p in telling] if result == UNKNOWN else [None]
    asked = waits[0] if all(waits) else None
    return Outcome(result, "; ".join(p.why for p in telling[:4]), telling[0].evidence if telling else None, asked)


def _human(task: Task, predicate: Predicate) -> Outcome:
    for decision in reversed(task.decisions):
        same = decision.get("statement") == predicate.statement
        if same and (predicate.by is None or same_person(str(decision.get("person")), predicate.by)):
            yes = decision.get("answer") == "yes"
            return Outcome(
                PASS if yes else FAIL,
                f"{decision.get('person')} said {decision.get('answer')}",
                f"decision at {decision['at']}",
            )
    return Outcome(UNKNOWN, f"nobody decided: {predicate.statement}", waits_for=predicate.statement)


def _exit(task: Task, predicate: Predicate) -> Outcome:
    label, wanted_id = predicate.selector.label, predicate.selector.id
    runs = [e for e in task.executions.values() if e.label == label or e.id == wanted_id]
    pinned = predicate.selector.command
    done = [e for e in runs if e.phase == "result" and (pinned is None or _ran(task, e.id, pinned))]
    if not done:
        return Outcome(UNKNOWN, f"no finished execution {label or wanted_id}{f' of {pinned}' if pinned else ''}")
    last = done[-1]
    try:
        good = _OPERATORS[predicate.operator](last.exit_code, predicate.value)
    except TypeError:  # locked before such values were refused
        return Outcome(UNKNOWN, f"an exit code cannot be compared {predicate.operator} {predicate.value!r}", last.id)
    return Outcome(PASS if good else FAIL, f"{last.label} ended with {last.exit_code}", last.id)


def _file(predicate: Predicate) -> Outcome:
    path = Path(predicate.field or "")
    if not path.is_file():
        return Outcome(UNKNOWN, f"{path} is not there")
    found = jsonio.sha256_file(path)
    return Outcome(PASS if found == predicate.value else FAIL, f"{path} has sha256 {found[:12]}", str(path))


def _held(data: dict[str, Any], predicate: Predicate, source: str) -> Outcome:
    path = predicate.field or "verdict"
    try:
        value = field_of(data, path)
    except KeyError:
        return Outcome(UNKNOWN, f"{source} has no {path}", source)
    if value is None:
        return Outcome(UNKNOWN, f"{path} of {source} is unknown", source)
    if predicate.unit is not None:
        unit = _unit(data, path)
        if unit != predicate.unit:
            return Outcome(
                UNKNOWN, f"{path} of {source} is in {unit or 'no stated unit'}, not {predicate.unit}", source
            )
    wanted: Any = predicate.value
    if predicate.kind == "verdict_is" and isinstance(wanted, list):
        good = value in wanted
    else:
        if predicate.kind == "metric_compare" and (isinstance(value, bool) or not isinstance(value, (int, float))):
            return Outcome(UNKNOWN, f"{path} of {source} is no number", source)
        try:
            good = _OPERATORS[predicate.operator](value, wanted)
        except TypeError:
            return Outcome(UNKNOWN, f"{path} of {source} cannot be compared with {wanted!r}", source)
    return Outcome(PASS if good else FAIL, f"{path} is {value}, wanted {predicate.operator} {wanted}", source)


def _unit(data: dict[str, Any], path: str) -> str | None:
    """Unit beside a value (`unit`, `value_unit`), else the ending of its name."""
    head, _, name = path.rpartition(".")
    try:
        around: Any = field_of(data, head) if head else data
    except KeyError:
        around = data
    if isinstance(around, dict):
        fields = cast("dict[str, Any]", around)
        for key in (f"{name}_unit", "unit"):
            if isinstance(fields.get(key), str):
                return fields[key]
    ending = name.rsplit("_", 1)[-1]
    return ending if ending in ("us", "ms", "s", "ns", "pct", "bytes") else None


def check_goal(task: Task, lookups: Lookups) -> list[Outcome]:
    """Every acceptance predicate of the locked contract."""
    return [evaluate(task, p, lookups) for p in task.typed.contract.acceptance]
