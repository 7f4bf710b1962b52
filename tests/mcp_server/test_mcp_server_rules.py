"""Rules that every tool of the server keeps, in both protocol eras; and golden snapshots of every schema."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp.client import Client
from mcp_types import Tool

from infer_forge.base.errors import UsageFault
from infer_forge_mcp.results import capped
from infer_forge_mcp.server import INSTRUCTIONS, chosen, make_server, ready

SNAPSHOTS = Path(__file__).parent / "schemas"
ERAS: tuple[Literal["legacy", "auto"], ...] = ("legacy", "auto")
UPDATE = os.environ.get("INFER_FORGE_UPDATE_SNAPSHOTS") == "1"


def listed(toolsets: tuple[str, ...] = (), era: Literal["legacy", "auto"] = "auto") -> list[Tool]:
    async def ask() -> list[Tool]:
        async with Client(make_server(toolsets), mode=era) as client:
            return (await client.list_tools()).tools

    return anyio.run(ask)


def call(
    name: str, arguments: dict[str, Any], era: Literal["legacy", "auto"] = "auto", toolsets: tuple[str, ...] = ()
) -> Any:
    async def ask() -> Any:
        async with Client(make_server(toolsets), mode=era) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(ask)


ALL_TOOLS = listed(("all",))


def definition(tool: Tool) -> dict[str, Any]:
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda t: t.name)
def test_a_tool_has_all_four_hints_an_output_schema_and_refuses_unknown_arguments(tool: Tool) -> None:
    assert tool.annotations is not None
    hints = tool.annotations.model_dump(exclude={"title"})
    assert None not in hints.values()
    assert tool.output_schema is not None
    assert tool.input_schema["additionalProperties"] is False


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda t: t.name)
def test_a_description_is_short_and_every_parameter_is_described(tool: Tool) -> None:
    assert tool.description is not None
    assert 40 <= len(tool.description) <= 400
    assert re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", tool.name)
    for name, schema in tool.input_schema.get("properties", {}).items():
        assert schema.get("description"), f"{tool.name}.{name} has no description"


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda t: t.name)
def test_a_tool_schema_is_the_one_of_its_snapshot(tool: Tool) -> None:
    file = SNAPSHOTS / f"{tool.name}.json"
    shown = json.dumps(definition(tool), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if UPDATE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown)
    assert file.is_file(), (
        f"no snapshot of {tool.name}: run the tests once with INFER_FORGE_UPDATE_SNAPSHOTS=1 and read the difference"
    )
    assert file.read_text() == shown


def test_no_snapshot_is_left_of_a_tool_that_is_gone() -> None:
    assert {p.stem for p in SNAPSHOTS.glob("*.json")} == {t.name for t in ALL_TOOLS}


@pytest.mark.parametrize("era", ERAS)
def test_both_eras_offer_the_same_tools(era: Literal["legacy", "auto"]) -> None:
    assert {t.name for t in listed(era=era)} == set(chosen())


def test_the_default_toolset_is_small_enough_to_be_read_at_every_turn() -> None:
    tools = listed()
    seen = [{"name": t.name, "description": t.description, "parameters": t.input_schema} for t in tools]
    assert len(tools) <= 20
    assert len(json.dumps(seen, separators=(",", ":"))) <= 10_000
    assert len(INSTRUCTIONS) <= 1500


def test_a_default_tool_shows_all_its_parameters_where_its_toolset_was_asked_for() -> None:
    def parameters(*toolsets: str) -> set[str]:
        return set(next(t for t in listed(toolsets) if t.name == "triage_crash").input_schema["properties"])

    assert {"paths", "cursor"} == parameters()
    assert {"engine", "launch_blocking", "limit"} <= parameters("crash") == parameters("all")


def test_read_only_mode_wins_over_toolsets() -> None:
    names = set(chosen(("all",), read_only=True))
    hints = {t.name: t.annotations for t in ALL_TOOLS}
    assert names == {n for n, h in hints.items() if h is not None and h.read_only_hint}


def test_an_unknown_toolset_is_refused() -> None:
    with pytest.raises(UsageFault, match="no such toolset: nope"):
        chosen(("nope",))


@pytest.mark.parametrize("era", ERAS)
def test_wrong_arguments_are_told_in_one_line_with_the_next_step(era: Literal["legacy", "auto"]) -> None:
    for arguments in ({"job_id": "x", "wat": 1}, {"job_id": "x", "wait_s": 99}, {}):
        answer = call("read_job", arguments, era)
        assert answer.is_error
        text = answer.content[0].text
        assert "\n" not in text
        assert "next:" in text
        assert "pydantic" not in text


NEEDED = {t.name: list(t.input_schema.get("required", ())) for t in ALL_TOOLS}


@pytest.mark.parametrize("name", [n for n, needed in NEEDED.items() if needed])
def test_an_empty_text_stands_for_nothing_that_a_tool_needs(name: str) -> None:
    answer = call(name, dict.fromkeys(NEEDED[name], ""), toolsets=("all",))
    assert answer.is_error
    assert f"empty argument: {', '.join(NEEDED[name])}. next: " in answer.content[0].text


@pytest.mark.parametrize("era", ERAS)
def test_a_library_error_reaches_the_model_with_its_next_step(era: Literal["legacy", "auto"]) -> None:
    answer = call("read_job", {"job_id": "none", "wait_s": 0}, era)
    assert answer.is_error
    assert "no job has the id 'none'. next: start the work again" in answer.content[0].text


def answer_with(rows: int, cell: str = "x" * 40) -> dict[str, Any]:
    table = {"columns": ["a", "b"], "rows": [[i, cell] for i in range(rows)]}
    return {"kind": "k", "header": {"inputs": []}, "tables": {"t": table}, "summary": ["s"], "next_step": "n"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: answer_with(5000),
        lambda: answer_with(3, "y" * 30_000),
        lambda: {"kind": "k", "tables": {}, "summary": ["z" * 9000] * 9, "blob": {"q": ["w" * 9000] * 50}},
        lambda: {"kind": "k", "tables": {f"t{i}": answer_with(9)["tables"]["t"] for i in range(60)}},
    ],
)
def test_an_answer_is_capped_and_the_whole_of_it_kept_in_a_file(make: Callable[[], dict[str, Any]]) -> None:
    result = capped(make())
    assert len(result.model_dump_json(exclude_none=True)) <= 8000
    assert result.artifact is not None
    assert json.loads(Path(result.artifact.path).read_text()) == make()


def test_how_to_go_on_and_where_the_rest_is_stand_first_where_a_client_that_cuts_leaves_them() -> None:
    head = capped(answer_with(5000)).model_dump_json(exclude_none=True)[:400]
    assert '"next_step":"n"' in head
    assert '"artifact":{"path":' in head


def test_an_answer_over_what_clients_pass_on_whole_is_kept_in_a_file_though_nothing_was_left_out(
    forge_home: Path,
) -> None:
    (forge_home / "infer-forge.yaml").write_text("mcp: {max_chars: 60000}\n")
    small, large = capped(answer_with(20)), capped(answer_with(400))
    assert (small.artifact, small.omitted_rows, large.omitted_rows) == (None, {}, {})
    assert large.artifact is not None
    assert json.loads(Path(large.artifact.path).read_text()) == answer_with(400)


def test_pages_follow_each_other_without_gap_or_repeat() -> None:
    seen: list[int] = []
    cursor: str | None = None
    for _ in range(200):
        page = capped(answer_with(700), paged="t", limit=50, cursor=cursor)
        seen += [row[0] for row in page.tables["t"].rows]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == list(range(700))


@pytest.mark.parametrize(
    "address", ["x", ":0", "127.0.0.1:99999", "127.0.0.1:²", "127.0.0.1:", "no.such.host.invalid:80"]
)
def test_an_http_address_that_cannot_be_is_wrong_usage(address: str) -> None:
    with pytest.raises(UsageFault):
        ready(http=address)


def test_a_used_port_is_told_without_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageFault, match="cannot listen there: Address already in use"):
            ready(http=address)
