"""What is printed as the next step can be typed: every option that it needs stands in it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from chores.printed_commands import lacking
from infer_forge.base.errors import GateRefused
from infer_forge.base.gitstore import Store
from infer_forge.tasks import blocks, ending, events, printed, verbs, views
from infer_forge.tasks.state import load
from tests.tasks.task_samples import EXIT, begun, block, definition, maker
from tests.tasks.test_tasks_doors import answer, run

FILLED = {
    "TEXT": "it is made",
    "NAME": "another",
    "x=FILE": "x=ev.json",
    "OUTCOME": "confirmed",
    "PROGRESS": "advanced",
}


@pytest.fixture
def store() -> Store:
    return events.open_store()


def commands(step: str | None) -> list[str]:
    """The commands of a next step, each of which can be typed when its capitals are filled in."""
    found = [c.split(" (")[0] for c in str(step).split(", or ")]
    assert {c: why for c in found if (why := lacking(c))} == {}
    return found


def test_a_task_is_led_to_its_end_by_what_is_printed_as_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("task.json").write_text(json.dumps(definition()))
    step = answer("task", "new", "--from", "task.json", "--id", "t1")["next_step"]
    walked = list[str]()
    while "journal show" not in step:
        assert len(walked) < 12, walked
        choice = commands(step)
        waits = any(word in choice[0] for word in ("--label make", "--evidence x"))
        chosen = choice[0] if len(choice) == 1 or waits else choice[1]
        words = [FILLED.get(word, word) for word in shlex.split(chosen)[1:]]
        words = [*words[:-1], *maker(tmp_path)] if words[-1] == "COMMAND" else words
        walked.append(" ".join(words[1:3]))
        code, out = run(*words)
        assert code == 0, (words, out)
        step = answer("task", "status", "t1")["next_step"]
    assert walked == [
        *("lock t1", "start t1", "block open", "record t1", "record t1", "block close", "goal-met t1", "deliver t1"),
    ]


def test_what_a_refusal_prints_can_be_typed(store: Store) -> None:
    task = begun(store, budgets={"blocks": 1})
    block(store, task)
    with pytest.raises(GateRefused, match="is active") as second:
        block(store, task)
    commands(second.value.next_step)
    with pytest.raises(GateRefused, match="is active") as early:
        ending.deliver(store, task.id, "it was made")
    commands(early.value.next_step)
    blocks.close_block(store, task.id, "confirmed", "advanced")
    with pytest.raises(GateRefused, match="no block is active") as twice:
        blocks.close_block(store, task.id, "confirmed", "advanced")
    commands(twice.value.next_step)


def test_the_run_that_is_proposed_is_the_one_that_the_acceptance_looks_at(store: Store, tmp_path: Path) -> None:
    pinned: dict[str, Any] = {**EXIT, "selector": {"label": "unit tests", "command": "sh 'my make.sh' *"}}
    found: dict[str, Any] = {"kind": "verdict_is", "selector": {"evidence": "x"}, "value": "ok"}
    task = block(store, begun(store, {"kind": "all_of", "of": [pinned, found]}))
    head = f"infer-forge task record {task.id} --label"
    assert printed.record(task) == f"{head} 'unit tests' -- sh 'my make.sh'"
    (tmp_path / "my make.sh").write_text("exit 0\n")
    verbs.record(task.id, ["sh", "my make.sh"], label="unit tests", cwd=str(tmp_path))
    assert printed.record(load(store, task.id)) == f"{head} NAME --evidence x=FILE -- COMMAND"


@pytest.mark.parametrize(
    ("label", "word", "told"),
    [
        (None, "true", "no condition looks at this run (label true): the acceptance looks at the label make"),
        ("make", "true", "the acceptance counts another command line under the label make: sh -c true"),
        ("make", "sh", None),
    ],
)
def test_a_run_that_counts_for_nothing_says_so_at_once(
    store: Store, label: str | None, word: str, told: str | None
) -> None:
    task = block(store, begun(store, {**EXIT, "selector": {"label": "make", "command": "sh -c true"}}))
    argv = ["sh", "-c", "true"] if word == "sh" else [word]
    findings = verbs.record(task.id, argv, label=label).findings
    assert [f.message for f in findings if f.code == "UNCOUNTED"] == ([told] if told else [])


def test_the_inbox_and_the_list_print_whole_commands(store: Store) -> None:
    gate = {"kind": "human_decision", "statement": "it may be shown", "by": "ann"}
    task = begun(store, gate)
    verbs.goal_met(task.id)
    rows = [*views.inbox_report(store).tables["inbox"].rows, *views.list_report(store).tables["tasks"].rows]
    assert len(rows) == 2
    for row in rows:
        commands(row[-1])
    commands(verbs.stop_check(task.id)[1].partition(": ")[2])
