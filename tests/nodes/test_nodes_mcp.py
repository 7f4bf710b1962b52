"""The registry's tools, through a real client of the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client

from infer_forge.nodes import verbs
from infer_forge_mcp.server import make_server
from tests.nodes.samples import FakeMachine


def call(name: str, /, **arguments: Any) -> Any:
    async def ask() -> Any:
        async with Client(make_server(("nodes",))) as client:
            return await client.call_tool(name, arguments)

    return anyio.run(ask)


def answer(name: str, /, **arguments: Any) -> dict[str, Any]:
    result = call(name, **arguments)
    assert not result.is_error, result.content
    return result.structured_content


def refusal(name: str, /, **arguments: Any) -> str:
    result = call(name, **arguments)
    assert result.is_error
    return result.content[0].text


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    monkeypatch.setenv("INFER_FORGE_NODE", "gpu07")
    verbs.init(None)
    return FakeMachine(tmp_path, monkeypatch)


def claim(**more: Any) -> dict[str, Any]:
    return answer("claim_node", node="gpu07", gpus="0,1", task="t", purpose="p", **more)["data"]["claim"]


def test_a_node_is_claimed_seen_and_released() -> None:
    held = claim(runtimes=[f"pid:{os.getpid()}"])
    seen = answer("read_node_status")
    columns = seen["tables"]["claims"]["columns"]
    row = dict(zip(columns, seen["tables"]["claims"]["rows"][0], strict=True))
    assert (row["claim_id"], row["state"], row["ours"]) == (held["claim_id"], "blocked:missing", True)
    assert "held by" in refusal("claim_node", node="gpu07", gpus="1", task="u", purpose="p")
    assert "epoch 1, not 2" in refusal("release_node", claim_id=held["claim_id"], epoch=2)
    answer("release_node", claim_id=held["claim_id"], epoch=1)
    assert answer("read_node_status", claim_id=held["claim_id"], epoch=1)["data"]["verdict"] == "fenced"


def test_a_claim_that_is_not_eligible_is_not_cleaned_up() -> None:
    held = claim()
    checked = answer("check_cleanup")
    row = dict(zip(checked["tables"]["claims"]["columns"], checked["tables"]["claims"]["rows"][0], strict=True))
    assert row["eligible"] is False
    words = refusal("cleanup_claim", claim_id=held["claim_id"], epoch=1, evidence=row["evidence"], execute=True)
    assert "blocked:missing" in words
    assert "node eligible" in words


def test_an_observation_says_that_it_never_helps_and_a_probe_needs_the_node_itself() -> None:
    told = answer("record_observation", note="idle to me")
    assert told["data"]["observation"]["source_kind"] == "agent"
    assert any("never makes one eligible" in line for line in told["summary"])
    assert "on gpu08" in refusal("verify_node", node="gpu08")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("claim_node", {"node": "../x", "gpus": "0", "task": "t", "purpose": "p"}),
        ("claim_node", {"node": "n", "gpus": "all of them", "task": "t", "purpose": "p"}),
        ("release_node", {"claim_id": "no-such-claim", "epoch": 1}),
        ("cleanup_claim", {"claim_id": "c", "epoch": 0, "evidence": "x"}),
        ("read_node_status", {"claim_id": "c"}),
        ("claim_node", {"node": "n", "gpus": "0", "task": "t", "purpose": "p", "force": True}),
    ],
)
def test_bad_arguments_are_told_in_one_line(name: str, arguments: dict[str, Any]) -> None:
    words = refusal(name, **arguments)
    assert "Traceback" not in words
    assert "\n" not in words
