"""Parts of a definition, of routing and of a record, each alone: what is missing, what each type ends with, what is kept."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.journal import add, markdown, open_store
from infer_forge.tasks import blocks, define, events, playbook
from infer_forge.tasks.execute import record
from infer_forge.tasks.goal import goal_met
from infer_forge.tasks.model import DELIVERABLES, TASK_TYPES, missing
from infer_forge.tasks.predicates import Lookups
from infer_forge.tasks.state import load
from tests.tasks.task_samples import POINT, begun, block, definition, maker

NOTHING = Lookups(lambda _: None)
ENDS = {
    "plan": ("goal", "constraints", "decomposition"),
    "research": ("conclusion", "stated limits", "one bounded uncertainty"),
    "code": ("change", "verification evidence"),
    "integration": ("several tasks or repositories", "verified as a whole"),
    "evaluation": ("function", "performance", "accuracy", "stress", "stability"),
    "release": ("approval", "canary", "expansion", "rollback", "validated candidate"),
    "online_diagnosis": ("read-only findings", "handoff of the changes"),
    "capability": ("add", "update", "merge", "retire", "no_change"),
    "custom": ("what the contract says",),
}


@pytest.fixture
def store() -> Store:
    return events.open_store()


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_each_type_ends_with_a_deliverable_of_its_own_that_its_playbook_names(kind: str) -> None:
    assert set(ENDS) == set(TASK_TYPES)
    assert all(word in DELIVERABLES[kind] for word in ENDS[kind])
    if kind != "custom":
        book = playbook.for_type(kind)
        assert all(word in book.deliverable for word in ENDS[kind])
        assert book.verification
        assert book.safety
        assert any(c.startswith("deliverable:") for c in book.exit_criteria)
        assert any(c.startswith("handoff:") for c in book.exit_criteria)


def test_a_custom_task_has_no_playbook_and_lacks_the_same_fields_as_any_other(store: Store) -> None:
    with pytest.raises(UsageFault, match="the type custom has no playbook"):
        playbook.for_type("custom")
    empty: dict[str, Any] = {"exit_criteria": [], "contract": {"goal": "x", "verification": []}}
    lacking = [missing(define.definition_of(definition(type=kind, **empty))) for kind in ("custom", "code")]
    assert lacking[0] == lacking[1] != []
    assert begun(store, type="custom").status == "active"


@pytest.mark.parametrize("part", ["goal", "scope", "acceptance", "verification", "exit_criteria"])
def test_what_lacks_a_part_is_no_task(store: Store, part: str) -> None:
    none: Any = "" if part in ("goal", "scope") else []
    more: dict[str, Any] = {part: none} if part == "exit_criteria" else {"contract": {part: none}}
    task = define.new(store, define.definition_of(definition(**more)))
    with pytest.raises(GateRefused, match=f"(contract.)?{part}"):
        define.lock(store, task.id)


def test_nothing_runs_before_the_definition_is_locked(store: Store) -> None:
    task = define.new(store, define.definition_of(definition()))
    with pytest.raises(GateRefused):
        define.start(store, task.id)
    with pytest.raises(GateRefused):
        record(store, task.id, ["true"], label="early")
    with pytest.raises(GateRefused):
        block(store, task)
    assert not load(store, task.id).executions


@pytest.mark.parametrize("status", ["verified", "unverified", "stale"])
def test_a_context_item_has_an_origin_and_a_status_and_is_assumed_unverified(status: str) -> None:
    item = {"name": "image", "value": "sgl:0.5", "origin": "the team's page"}
    held = define.definition_of(definition(context=[{**item, "status": status}])).context[0]
    assert (held.origin, held.status, held.kind) == ("the team's page", status, "custom_setup")
    assert define.definition_of(definition(context=[item])).context[0].status == "unverified"
    for wrong in ({**item, "status": "sure"}, {"name": "image"}, {**item, "origin": ""}):
        with pytest.raises(InputUnusable):
            define.definition_of(definition(context=[wrong]))


def test_imported_context_names_its_lineage() -> None:
    item = {"name": "patch", "kind": "imported_context", "origin": "task t-1"}
    assert missing(define.definition_of(definition(context=[item]))) == [
        "context.patch: imported context names its lineage"
    ]
    assert missing(define.definition_of(definition(context=[{**item, "lineage": ["t-1"]}]))) == []


def test_context_that_is_called_verified_stands_on_a_task_that_ended_or_on_a_record(store: Store) -> None:
    open_task = begun(store)
    item = {"name": "patch", "kind": "imported_context", "origin": "task t-1", "status": "verified"}
    for lineage in (["t-1"], [open_task.id], ["../x"]):
        task = define.new(store, define.definition_of(definition(context=[{**item, "lineage": lineage}])))
        with pytest.raises(GateRefused, match="context.patch: is called verified, but .* is neither a task that ended"):
            define.lock(store, task.id)
    with open_store() as journal:
        (record,) = add(
            journal,
            [
                markdown.make(
                    {"kind": "note", "title": "what was seen", "created": "2026-01-01T00:00:00Z", "body": "it holds"}
                )
            ],
        )
    task = define.new(store, define.definition_of(definition(context=[{**item, "lineage": [record]}])))
    assert define.lock(store, task.id).lock is not None


def test_a_task_begins_from_nothing_from_a_setup_or_from_an_upstream_result(store: Store) -> None:
    setup = {"name": "image", "value": "sgl:0.5", "origin": "the team's page", "status": "verified"}
    upstream = {"name": "patch", "kind": "imported_context", "origin": "task t-1", "lineage": ["t-1"]}
    for context in ([], [setup], [upstream]):
        task = begun(store, context=context)
        assert (task.status, len(task.typed.context)) == ("active", len(context))


def test_a_task_takes_as_many_blocks_as_it_needs_without_a_number_said_before(store: Store) -> None:
    task = begun(store)
    assert "budgets" not in definition()
    for number in range(1, 6):
        task = block(store, task)
        task = blocks.close_block(store, task.id, "rejected", "advanced")
        goal_met(store, task.id, NOTHING)
        assert task.blocks[-1].number == number
    assert load(store, task.id).status == "active"


def test_the_runner_of_a_block_is_noted_and_changes_nothing_of_the_contract(store: Store) -> None:
    task = begun(store)
    route = blocks.routing("low", 10)
    opened = blocks.open_block(store, task.id, "make the file", "make ends with zero", route, runner="claude /loop")
    assert (opened.blocks[-1].runner, opened.lock_sha) == ("claude /loop", task.lock_sha)
    assert define.lock_hash(opened.typed) == task.lock_sha


@pytest.mark.parametrize("outcome", ["confirmed", "rejected", "constraint"])
def test_a_block_confirms_rejects_or_surfaces_a_constraint(store: Store, outcome: str) -> None:
    task = block(store, begun(store))
    with pytest.raises(UsageFault):
        blocks.close_block(store, task.id, "perhaps", "advanced")
    task = blocks.close_block(store, task.id, outcome, "advanced", "seen in the trace")
    held = task.blocks[-1]
    assert (held.outcome, held.sub_target, held.exit_condition) == (outcome, "make the file", "make ends with zero")
    assert held.routing["tier"]


def test_tier_follows_difficulty_and_topology_follows_volume() -> None:
    small, large = 10, 10_000_000
    made = {(u, n): blocks.propose_routing(u, n) for u in ("low", "medium", "high") for n in (small, large)}
    assert [made[u, small]["tier"] for u in ("low", "medium", "high")] == ["lower", "mid", "strongest"]
    assert all(made[u, small]["tier"] == made[u, large]["tier"] for u in ("low", "medium", "high"))
    assert {made[u, small]["topology"] for u in ("low", "medium", "high")} == {"single"}
    assert {made[u, large]["topology"] for u in ("low", "medium", "high")} == {"multi"}


def test_an_execution_record_says_what_ran_where_on_which_commit_and_what_came_of_it(
    store: Store, tmp_path: Path
) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.email=a@b", "-c", "user.name=a"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "base"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    task = block(store, begun(store))
    words = maker(tmp_path)
    _, done = record(store, task.id, words, label="make", evidence=[("x", tmp_path / "ev.json")], cwd=str(tmp_path))
    assert (done.intent["argv"], done.intent["cwd"]) == (words, str(tmp_path))
    assert len(done.intent["environment"]["digest"]) == 64
    assert head in str(done.intent)
    assert done.started["at"] <= done.result["at"]
    assert done.exit_code == 0
    kept = load(store, task.id).evidence[-1]
    assert (kept.execution, kept.block) == (done.id, 1)
    assert kept.sha256 is not None
    assert len(kept.sha256) == 64


def test_a_task_record_names_the_capability_baseline_in_force(store: Store) -> None:
    from infer_forge.tasks import baseline

    task = define.new(store, define.definition_of(definition()))
    kept = baseline.keep(store, baseline.manifest({"a_tool": {"x": 1}}))
    locked = define.lock(store, task.id, baseline=kept)
    assert locked.lock is not None
    assert locked.lock["baseline"] == kept
    other = baseline.keep(store, baseline.manifest({"a_tool": {"x": 2}}))
    assert other != kept


def test_a_result_outside_of_what_may_vary_names_the_field(store: Store) -> None:
    contract = {"deployment_point": POINT, "may_vary": ["nothing_of_it"]}
    assert any("nothing_of_it is no field" in x for x in missing(define.definition_of(definition(contract=contract))))


def test_the_three_architectures_are_known(store: Store) -> None:
    for name in ("colocated_pd", "pd_disaggregation", "epd_disaggregation"):
        point = {**POINT, "serving_topology": {**POINT["serving_topology"], "architecture": name}}
        made = define.definition_of(definition(contract={"deployment_point": point}))
        assert made.contract.deployment_point is not None
        assert made.contract.deployment_point.serving_topology.architecture == name
    wrong = {**POINT, "serving_topology": {**POINT["serving_topology"], "architecture": "somehow"}}
    with pytest.raises(InputUnusable, match="architecture"):
        define.definition_of(definition(contract={"deployment_point": wrong}))


def test_a_departure_from_the_playbook_is_recorded_with_the_block_and_refused_by_nobody(store: Store) -> None:
    from click.testing import CliRunner

    from infer_forge.cli.main import cli

    task = begun(store, playbook="code@000000000000")
    words = ["task", "block", "open", task.id, "--sub-target", "make the file", "--exit", "it is there"]
    why = "no test first: the file is written by a tool"
    done = CliRunner().invoke(cli, [*words, "--uncertainty", "low", "--deviates", why], standalone_mode=False)
    assert done.exception is None, done.output
    assert load(store, task.id).blocks[-1].data["deviates"] == why
    assert load(store, task.id).typed.playbook == "code@000000000000"
