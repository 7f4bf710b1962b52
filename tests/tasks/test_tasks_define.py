"""Definitions: typed, complete, not vague; locked once by hash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from infer_forge.base import ownership
from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.base.gitstore import Changes, Store
from infer_forge.tasks import define, events
from infer_forge.tasks.model import missing
from infer_forge.tasks.state import load
from tests.tasks.task_samples import EXIT, POINT, begun, definition


@pytest.fixture
def store() -> Store:
    return events.open_store()


def made(**more: Any) -> Any:
    return define.definition_of(definition(**more))


_HOPELESS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "metric_compare", "selector": {"evidence": "x"}, "field": "a", "value": "high"}, "no number"),
    ({"kind": "metric_compare", "selector": {"evidence": "x"}, "field": "a", "value": True}, "no number"),
    ({"kind": "metric_compare", "selector": {"evidence": "x"}, "field": "a", "value": float("nan")}, "no number"),
    ({"kind": "metric_compare", "selector": {"evidence": "x"}, "field": "a", "value": [1, 2]}, "operator in"),
    ({"kind": "exit_is", "selector": {"label": "a"}, "value": "0"}, "no number"),
    ({"kind": "exit_is", "selector": {"label": "a"}, "operator": "in", "value": 0}, "takes a list"),
    ({"kind": "file_hash_is", "field": "/a", "value": "x"}, "no sha256"),
    ({"kind": "exit_is", "selector": {"label": "a", "command": "sh -c 'x"}, "value": 0}, "no command line"),
    ({"kind": "all_of", "of": [{"kind": "exit_is", "selector": {"label": "a"}, "value": []}]}, "operator in"),
]


@pytest.mark.parametrize(("predicate", "why"), _HOPELESS)
def test_a_predicate_that_nothing_could_ever_meet_is_refused(predicate: dict[str, Any], why: str) -> None:
    with pytest.raises(InputUnusable, match=why):
        define.definition_of(definition(predicate))


def test_free_text_is_no_acceptance() -> None:
    with pytest.raises(InputUnusable, match="free text is no acceptance"):
        define.definition_of(definition(contract={"acceptance": ["it feels faster"]}))


@pytest.mark.parametrize(
    "predicate",
    [
        {"kind": "metric_compare", "selector": {"evidence": "x"}},
        {"kind": "exit_is", "value": 0},
        {"kind": "human_decision"},
        {"kind": "all_of"},
        {"kind": "vibes"},
    ],
)
def test_an_incomplete_predicate_is_refused(predicate: dict[str, Any]) -> None:
    with pytest.raises(InputUnusable):
        define.definition_of(definition(predicate))


@pytest.mark.parametrize(
    "goal", ["optimise SGLang", "make the SGLang server faster", "better decode throughput please"]
)
def test_a_vague_goal_is_told_model_hardware_workload_and_target(goal: str) -> None:
    told = " ".join(missing(made(contract={"goal": goal})))
    for word in ("model:", "hardware:", "workload:", "target:"):
        assert word in told


def test_a_performance_claim_needs_a_whole_deployment_point() -> None:
    metric = {
        "kind": "metric_compare",
        "selector": {"evidence": "bench_row"},
        "field": "ttft_ms",
        "operator": "<=",
        "value": 9,
    }
    contract = {"goal": "TTFT of m on H200 falls below 9 ms", "deployment_point": {"model": {"id": "m"}}}
    lacking = missing(define.definition_of(definition(metric, contract=contract)))
    assert any("accelerator_platform.gpu_model" in item for item in lacking)
    whole = define.definition_of(definition(metric, contract={**contract, "deployment_point": POINT}))
    assert missing(whole) == []


def test_the_lock_names_everything_that_is_missing(store: Store) -> None:
    draft = definition(exit_criteria=[], contract={"goal": "x", "verification": []})
    task = define.new(store, define.definition_of(draft))
    with pytest.raises(GateRefused) as refused:
        define.lock(store, task.id)
    for word in ("contract.goal", "verification", "exit_criteria"):
        assert word in refused.value.what


def test_every_lock_records_the_capability_baseline_whoever_locks(store: Store) -> None:
    from infer_forge.tasks import baseline

    task = begun(store)
    assert task.lock
    kept = baseline.kept(store, task.lock["baseline"]["digest"])
    assert kept["files"] == baseline.in_force()
    assert kept["tools"] is None
    assert kept["check_suite"]["commands"]


def test_a_locked_contract_changes_only_as_a_new_task(store: Store) -> None:
    task = begun(store)
    with pytest.raises(GateRefused, match="a material change is a new task"):
        define.edit(store, task.id, made())
    with pytest.raises(GateRefused, match="locked already"):
        define.lock(store, task.id)
    other = define.new(store, made(supersedes=task.id))
    assert other.typed.supersedes == task.id
    with pytest.raises(InputUnusable):
        define.new(store, made(supersedes="t-none"))


def test_a_clarification_is_appended_and_leaves_the_lock(store: Store) -> None:
    task = begun(store)
    after = define.clarify(store, task.id, "the file is UTF-8")
    assert after.clarifications[0]["text"] == "the file is UTF-8"
    assert define.lock_hash(after.typed) == task.lock_sha


_LOCK = """
import sys
from infer_forge.tasks import define, events
from infer_forge.base.errors import GateRefused
try:
    define.lock(events.open_store(), sys.argv[1]); print("won")
except GateRefused: print("refused")
"""


def test_of_several_locks_at_once_one_wins(store: Store) -> None:
    task = define.new(store, made())
    racers = [
        subprocess.Popen([sys.executable, "-c", _LOCK, task.id], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = sorted(r.communicate()[0].strip() for r in racers)
    assert said == ["refused", "refused", "refused", "won"]


def test_a_changed_event_breaks_the_chain(store: Store) -> None:
    task = begun(store)
    path = events.path_of(1)
    text = store.read(events.ref_of(task.id)).get(path)
    assert text is not None
    changed = text.replace(b"Write one file", b"Write two file")
    store.update(events.ref_of(task.id), lambda _: Changes(put={path: changed}), "tamper")
    assert define.verify(store, task.id)[0][:2] == ("history-chain", "fail")
    with pytest.raises(InputUnusable, match="history was changed"):
        load(store, task.id)


def test_a_rewritten_history_is_told_by_the_copies_of_the_lock(store: Store) -> None:
    """Somebody who seals every event anew still leaves the hash in each record."""
    from infer_forge.tasks.execute import record

    task = begun(store)
    record(store, task.id, ["true"], label="make")
    ref = events.ref_of(task.id)
    old = events.read(store.read(ref))
    loose = definition(EXIT, contract={"scope": "everything that comes along"})
    fresh: list[events.Event] = []
    for event in old:
        data = {**event.data}
        if event.kind == "defined":
            data["definition"] = define.definition_of(loose).model_dump(mode="json", exclude_defaults=True)
        if event.kind == "locked":
            data["sha256"] = define.lock_hash(define.definition_of(loose))
        fresh.append(
            events.Event(event.seq, event.kind, event.at, event.by, fresh[-1].sha if fresh else "", data).sealed()
        )
    from dataclasses import asdict

    from infer_forge.base import jsonio

    store.update(ref, lambda _: Changes(put={events.path_of(e.seq): jsonio.dumps(asdict(e)) for e in fresh}), "tamper")
    results = {rule: result for rule, result, _ in define.verify(store, task.id)}
    assert results["history-chain"] == results["contract-lock"] == "pass"
    assert results["lock-copies"] == "fail"


def test_locking_an_online_diagnosis_makes_the_guard_read_only_until_the_end(store: Store) -> None:
    from infer_forge.tasks.ending import handoff
    from infer_forge.tasks.execute import record

    task = begun(store, type="online_diagnosis")
    assert ownership.load().runs["default"].profile == "read_only"
    with pytest.raises(GateRefused, match="diagnosis"):
        record(store, task.id, ["touch", "x"])
    _, done = record(store, task.id, ["ls"])
    assert done.exit_code == 0
    ended = handoff(store, task.id, "looked at it", "restart the worker by a person")
    assert ended.ending is not None
    assert [d["command"] for d in ended.ending["content"]["denied_writes"]] == ["touch x"]
    assert ownership.load().runs["default"].profile == "ordinary"


def test_a_definition_nested_without_end_is_refused() -> None:
    deep: dict[str, Any] = dict(EXIT)
    for _ in range(300):
        deep = {"kind": "all_of", "of": [deep]}
    with pytest.raises(InputUnusable, match="levels deep"):
        define.definition_of(definition(deep))


def test_an_exit_code_against_nonsense_that_was_locked_before_is_unknown(store: Store) -> None:
    from infer_forge.tasks import events, goal
    from infer_forge.tasks.execute import record
    from infer_forge.tasks.predicates import Lookups

    odd = {"kind": "exit_is", "selector": {"label": "true"}, "operator": "in", "value": 0}
    events.append(store, "t-old", lambda _: ("defined", {"definition": definition(odd)}))
    define.lock(store, "t-old")
    define.start(store, "t-old")
    record(store, "t-old", ["true"])
    _, verdict, outcomes = goal.goal_met(store, "t-old", Lookups(lambda _: None))
    assert (verdict, outcomes[0].result) == ("cannot_tell", "unknown")


@pytest.mark.parametrize("task_id", ["-x", ".x", "x.", "x.lock", "../x", "a b"])
def test_what_git_or_the_command_line_would_misread_is_no_task_id(store: Store, task_id: str) -> None:
    with pytest.raises(InputUnusable, match="is no task id"):
        define.new(store, define.definition_of(definition()), task_id)
    with pytest.raises(InputUnusable, match="is no task id"):
        define.verify(store, task_id)


def test_every_verb_says_that_there_is_no_such_task(store: Store) -> None:
    body = define.definition_of(definition())
    verbs: list[Callable[[], object]] = [
        lambda: define.lock(store, "t-none"),
        lambda: define.start(store, "t-none"),
        lambda: define.edit(store, "t-none", body),
        lambda: define.clarify(store, "t-none", "one word more"),
        lambda: define.resume(store, "t-none"),
        lambda: define.verify(store, "t-none"),
    ]
    for verb in verbs:
        with pytest.raises(InputUnusable, match="no task has the id 't-none'"):
            verb()
    assert events.task_ids(store) == []
