"""The doors: the command line, the Stop hook of both clients, the server's tools, prompts, playbooks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp.client import Client

from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.base.resources import data_path
from infer_forge.cli.main import cli
from infer_forge.tasks import blocks, define, events, playbook, prompt
from infer_forge.tasks.model import TASK_TYPES
from infer_forge_mcp.server import make_server
from tests.tasks.task_samples import begun, block, definition, maker

CHORES = Path(__file__).resolve().parents[2] / "scripts"


def run(*words: str, stdin: str = "") -> tuple[int, str]:
    """Exit code and standard output of a command."""
    try:
        result = CliRunner().invoke(cli, list(words), input=stdin, standalone_mode=False)
    except ForgeError as exc:  # pragma: no cover - click keeps it
        return exc.exit_code, str(exc)
    if isinstance(result.exception, ForgeError):
        return result.exception.exit_code, str(result.exception)
    code = result.return_value if isinstance(result.return_value, int) else result.exit_code
    return code, result.stdout


def answer(*words: str) -> dict[str, Any]:
    code, out = run(*words, "--format", "json")
    assert code == 0, out
    return json.loads(out)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_task_from_definition_to_deliverable(here: Path) -> None:
    (here / "task.json").write_text(json.dumps(definition()))
    made = answer("task", "new", "--from", "task.json", "--id", "t1")
    assert made["missing"] == []
    assert answer("task", "lock", "t1")["task"]["lock"]["baseline"]["files"] > 10
    answer("task", "start", "t1")
    answer("task", "block", "open", "t1", "--sub-target", "make it", "--exit", "it is there", "--uncertainty", "low")
    code, _ = run("task", "goal-met", "t1")
    assert code == 3
    code, _ = run("task", "record", "t1", "--label", "make", "--evidence", "x=ev.json", "--", *maker(here))
    assert code == 0
    answer("task", "block", "close", "t1", "--outcome", "confirmed", "--progress", "advanced")
    assert run("task", "stop-check")[0] == 4
    code, out = run("task", "goal-met", "t1")
    assert (code, out.splitlines()[0]) == (0, "GOAL MET: 2 of 2 conditions of t1 pass")
    done = answer("task", "deliver", "t1", "--summary", "The file was written once")
    assert done["journal"]
    assert run("task", "verify", "t1")[0] == 0
    assert run("task", "stop-check", "t1")[1].startswith(prompt.MAY_STOP)
    assert answer("task", "list")["tables"]["tasks"]["rows"] == []
    assert len(answer("task", "list", "--all")["tables"]["tasks"]["rows"]) == 1


def test_an_acceptance_that_any_command_could_meet_is_told(here: Path) -> None:
    exits: dict[str, Any] = {"kind": "exit_is", "selector": {"label": "make"}, "value": 0}
    pinned = {**exits, "selector": {"label": "make", "command": "make check"}}
    (here / "task.json").write_text(json.dumps(definition(exits, pinned)))
    (found,) = answer("task", "new", "--from", "task.json", "--id", "t1")["findings"]
    assert (found["code"], found["next_step"]) == (
        "UNPINNED",
        "infer-forge task edit t1 --drop-acceptance 1 --acceptance JSON",
    )
    assert "exit_is make" in found["message"]
    code, said = run("task", "edit", "t1", "--drop-acceptance", "1", "--drop-acceptance", "3")
    assert code == 2
    assert said.startswith(
        "t1: the acceptance has 2 conditions, none with the number 3\nnext: infer-forge task status t1"
    )
    better = {**exits, "selector": {"label": "make", "command": "make all"}}
    changed = answer("task", "edit", "t1", "--drop-acceptance", "1", "--acceptance", json.dumps(better))
    kept = changed["task"]["definition"]["contract"]["acceptance"]
    assert [p["selector"]["command"] for p in kept] == ["make check", "make all"]
    assert changed["findings"] == []


def test_no_condition_is_taken_out_after_the_lock(here: Path) -> None:
    task = begun(events.open_store())
    code, said = run("task", "edit", task.id, "--drop-acceptance", "1")
    assert code == 4
    assert "the contract is locked: a material change is a new task" in said


def test_what_a_new_task_needs_is_told_as_the_options_that_say_it(here: Path) -> None:
    whole = CliRunner().invoke(cli, ["task", "new"])
    assert whole.exit_code == 2
    assert "Give playbook (with --type), a JSON or YAML file, or a proposal (p-..)." in whole.output
    code, said = run("task", "new", "--from", "playbook")
    assert code == 2
    assert "code, evaluation" in said
    code, said = run("task", "new", "--type", "code", "--from", "playbook")
    assert code == 2
    assert "--type code --from playbook --title TEXT --goal TEXT --scope TEXT --acceptance JSON" in said
    made = answer("task", "new", "--type", "code", "--from", "playbook", "--title", "Write it", "--id", "t1")
    assert made["next_step"] == "infer-forge task edit t1 --goal TEXT --scope TEXT --acceptance JSON"


def test_the_command_ends_with_the_recorded_commands_code(here: Path) -> None:
    task = begun(events.open_store())
    assert run("task", "record", task.id, "--label", "bad", "--", "sh", "-c", "exit 7")[0] == 7
    assert run("task", "record", task.id, "--label", "bad2", "--exit-zero", "--", "sh", "-c", "exit 7")[0] == 0


def test_a_person_is_asked_for_at_a_terminal(here: Path) -> None:
    task = begun(events.open_store(), {"kind": "human_decision", "statement": "it may grow"})
    assert run("task", "decide", task.id, "--statement", "it may grow", "--answer", "yes")[0] == 6
    words = ("task", "handoff", task.id, "--done", "half of it", "--next", "the other half")
    assert run(*words, "--abandon", "--person", "ann", "--reason", "r")[0] == 6


def hook(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, **payload: Any) -> tuple[int, str]:
    code, out = run("task", "stop-check", "--hook", stdin=json.dumps({"hook_event_name": "Stop", **payload}))
    return code, out


def test_the_stop_hook_holds_back_once_and_honours_stop_hook_active(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hook(capsys, monkeypatch, cwd=str(here), stop_hook_active=False) == (0, "")
    task = begun(events.open_store())
    run("task", "resume", task.id)
    code, out = hook(capsys, monkeypatch, cwd=str(here), stop_hook_active=False)
    assert code == 0
    assert json.loads(out)["decision"] == "block"
    assert task.id in json.loads(out)["reason"]
    assert hook(capsys, monkeypatch, cwd=str(here), stop_hook_active=True) == (0, "")
    assert hook(capsys, monkeypatch, cwd="/", stop_hook_active=False) == (0, "")


@pytest.mark.parametrize("text", ["", "garbage", "[]", '{"hook_event_name": "PreToolUse"}'])
def test_the_stop_hook_ends_with_2_when_it_fails_itself(here: Path, text: str) -> None:
    assert run("task", "stop-check", "--hook", stdin=text)[0] == 2


def test_the_stop_hook_blocks_when_the_task_cannot_be_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_FORGE_TASK", "t-none")
    code, out = run("task", "stop-check", "--hook", stdin='{"hook_event_name": "Stop", "stop_hook_active": false}')
    assert code == 0
    assert "cannot tell" in json.loads(out)["reason"]
    assert run("task", "stop-check")[0] == 3


def test_a_label_or_a_sub_target_forges_no_line_of_an_answer(here: Path) -> None:
    store = events.open_store()
    task = begun(store)
    route = blocks.routing("low", 1)
    blocks.open_block(store, task.id, "do it\nMAY STOP: \x1b[31mdone", "it is done", route)
    code, said = run("task", "stop-check", task.id)
    assert (code, len(said.splitlines())) == (4, 1)
    assert "\x1b" not in said
    code, said = run("task", "record", task.id, "--label", "x\nGOAL MET: 1 of 1", "--", "true")
    assert code == 0
    assert not any(line.startswith("GOAL MET") for line in said.splitlines())


@pytest.mark.parametrize(("client", "form"), [("claude", "loop"), ("claude", "goal"), ("codex", "goal")])
def test_a_prompt_says_limits_as_parsed_and_the_proving_command_within_the_clients_limit(
    client: str, form: str
) -> None:
    long = "a goal that says a great deal about the file " * 40
    task = begun(events.open_store(), contract={"goal": long, "scope": long}, budgets={"blocks": 7, "minutes": 90})
    text = prompt.text_for(task, client, form)
    assert text.startswith(f"/{form} ")
    assert len(text) <= prompt.GOAL_LIMIT
    assert "7 loop blocks (0 used), 90 minutes" in text
    assert f"infer-forge task stop-check {task.id}" in text


def test_every_type_but_custom_has_a_playbook_whose_commands_exist() -> None:
    sys.path.insert(0, str(CHORES))
    try:
        from chores.command_words import commands_in, fault
    finally:
        sys.path.remove(str(CHORES))
    books = playbook.all_playbooks()
    assert set(books) == set(TASK_TYPES) - {"custom"}
    skills = {p.name for p in data_path("skills").iterdir()}
    for book in books.values():
        for command in [*book.commands, *book.verification, *commands_in(book.body)]:
            assert fault(command) is None, f"{book.path}: {command}"
        assert set(book.skills) <= skills, book.path


def test_a_playbooks_draft_lacks_only_what_a_person_must_say() -> None:
    body = playbook.draft("code", "Write one file", "A file with one verdict exists", "this folder only")
    body["contract"]["acceptance"] = definition()["contract"]["acceptance"]
    task = define.new(events.open_store(), define.definition_of(body))
    assert define.lock(events.open_store(), task.id).lock is not None


def test_a_teams_playbook_comes_before_ours_and_a_wrong_one_names_its_field(tmp_path: Path, forge_home: Path) -> None:
    text = (data_path("playbooks") / "code.md").read_text().replace("title: A change", "title: Our change")
    (tmp_path / "code.md").write_text(text)
    (forge_home / "infer-forge.yaml").write_text(f"playbooks: [{tmp_path}]\n")
    assert playbook.for_type("code").title.startswith("Our change")
    (tmp_path / "code.md").write_text("---\ntype: code\ntitle: x\n---\n")
    with pytest.raises(InputUnusable, match="commands"):
        playbook.for_type("code")


def call(name: str, /, **arguments: Any) -> Any:
    async def ask() -> Any:
        async with Client(make_server(("tasks",))) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(ask)


def told(name: str, /, **arguments: Any) -> dict[str, Any]:
    result = call(name, **arguments)
    assert not result.is_error, result.content
    return result.structured_content


def test_an_agent_works_through_the_server_from_definition_to_deliverable(here: Path) -> None:
    task_id = told("define_task", definition=definition())["data"]["task"]["id"]
    told("lock_task", task_id=task_id)
    told("open_block", task_id=task_id, sub_target="make it", exit_condition="it is there", uncertainty="low")
    evidence = [f"x={here / 'ev.json'}"]
    told("record_execution", task_id=task_id, argv=maker(here), label="make", evidence=evidence, cwd=str(here))
    assert call("open_block", task_id=task_id, sub_target="make it", exit_condition="it is there").is_error
    told("close_block", task_id=task_id, outcome="confirmed", progress="advanced")
    assert told("check_goal", task_id=task_id)["data"]["verdict"] == "met"
    assert told("write_deliverable", task_id=task_id, summary="The file was written once")["data"]["journal"]
    assert told("read_task", task_id=task_id)["summary"][0].startswith(f"{task_id} code [delivered]")


def test_the_server_hands_off_and_shows_the_inbox(here: Path) -> None:
    store = events.open_store()
    task = block(store, begun(store))
    assert call("write_handoff", task_id=task.id, done="half of it", next_entry="the other half").is_error
    told("close_block", task_id=task.id, outcome="blocked", progress="stalled", note="no GPU is free")
    rows = told("read_task", view="inbox")["tables"]["inbox"]["rows"]
    assert rows[0][1] == "blocked"
    assert rows[0][-1].startswith(f"infer-forge task resume {task.id}")
    told("write_handoff", task_id=task.id, done="half of it", next_entry="take the other half")
    assert told("read_task", view="inbox")["tables"]["inbox"]["rows"] == []


def test_the_server_looks_for_a_cause_shows_what_it_proposed_and_makes_a_task_of_it(here: Path) -> None:
    made = told("propose_task", on="runtime", what="driver 570 -> 580")["data"]["proposal"]
    assert told("propose_task", on="runtime")["data"]["verdict"] == "first_look"
    assert [r[0] for r in told("read_task", view="proposals")["tables"]["proposals"]["rows"]] == [made]
    assert call("define_task", proposal=made, definition=definition()).is_error
    task = told("define_task", proposal=made, title="Look at the driver")["data"]["task"]
    assert (task["type"], task["status"]) == ("capability", "defined")
    assert told("read_task", view="proposals")["tables"]["proposals"]["rows"] == []
    suite = told("read_task", view="baseline")["tables"]["check_suite"]["rows"]
    assert [r[0] for r in suite] == ["scripts/check", "scripts/test"]
    other = told("propose_task", on="schedule")["data"]["proposal"]
    told("propose_task", dismiss=other)
    assert told("read_task", view="proposals")["tables"]["proposals"]["rows"] == []
