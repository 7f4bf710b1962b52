"""The room's MCP tools: compact answers, the same gate as the command, clear refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from infer_forge_mcp.server import make_server
from trace_gen import SPECS, config, generate


def call(name: str, arguments: dict[str, Any]) -> Any:
    async def ask() -> Any:
        async with Client(make_server(("all",))) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(ask)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    spec = SPECS["qwen3_moe"]
    made, _ = generate(spec, tmp_path / "t.json.gz", 111)
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps(config(spec)))
    return {"trace": str(made[0]), "config": str(shape)}


def test_passes_come_compact_with_the_clusters_and_pick_no_layer(files: dict[str, str]) -> None:
    answer = call("split_passes", {**files, "limit": 3}).structured_content
    assert len(answer["tables"]["passes"]["rows"]) == 3
    assert answer["omitted_rows"]["passes"] == 6
    assert answer["next_cursor"] == "3"
    assert answer["tables"]["clusters"]["rows"]
    assert "flow" not in answer["tables"]
    assert len(json.dumps(answer)) <= 8000


def test_the_flow_needs_a_triage_or_the_word_to_do_without(files: dict[str, str]) -> None:
    refused = call("compute_flow", {**files, "layer": 2})
    assert refused.is_error
    assert "triage" in refused.content[0].text
    answer = call("compute_flow", {**files, "stage": "decode", "layer": 2, "no_triage": True}).structured_content
    assert answer["tables"]["flow"]["columns"][:4] == ["order", "half", "category", "kernel"]


def test_the_timeline_of_layers_is_paged(files: dict[str, str]) -> None:
    answer = call("build_layer_timeline", {**files, "stage": "decode", "limit": 5, "cursor": "5"}).structured_content
    assert [row[0] for row in answer["tables"]["layers"]["rows"]] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("name", ["split_passes", "build_layer_timeline", "compute_flow", "triage_trace"])
def test_an_empty_path_is_told_in_a_line_without_the_help_of_a_command_line(name: str) -> None:
    refused = call(name, {"trace": ""})
    assert refused.is_error
    said = refused.content[0].text
    assert "empty argument: trace. next: " in said
    assert "Usage" not in said
    assert "--help" not in said
