"""The committed schemas are those of the types, and what the registry stores fits them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from infer_forge.base.resources import data_path
from infer_forge.nodes import claims, verbs
from infer_forge.nodes.collector import Collector
from infer_forge.nodes.model import parse_gpus, parse_runtime
from infer_forge.nodes.registry import CLAIMS, LIVE, POLICY, Registry
from infer_forge.nodes.schemas import TYPES, schema
from tests.nodes.samples import FakeMachine

UPDATE = os.environ.get("INFER_FORGE_UPDATE_SNAPSHOTS") == "1"


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_committed_schema_is_the_one_of_its_type(name: str) -> None:
    file = data_path("references/schemas") / f"{name}.json"
    text = json.dumps(schema(name), indent=1, sort_keys=True) + "\n"
    if UPDATE:
        file.write_text(text)
    assert file.read_text() == text, "run once with INFER_FORGE_UPDATE_SNAPSHOTS=1 and read the difference"


def check(name: str, data: Any) -> None:
    wanted: Any = json.loads((data_path("references/schemas") / f"{name}.json").read_text())
    jsonschema.Draft202012Validator(wanted).validate(data)  # pyright: ignore[reportUnknownMemberType]


def test_what_the_registry_stores_fits_its_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_FORGE_NODE", "gpu07")
    FakeMachine(tmp_path, monkeypatch).set({"index": 0, "procs": [[os.getpid(), "C", "x", 4]]}, {"index": 1})
    verbs.init(None)
    registry = Registry.open()
    made = claims.claim(
        registry,
        "gpu07",
        parse_gpus("0"),
        task="t",
        purpose="p",
        runtimes=[parse_runtime(f"pid:{os.getpid()}")],
        hours=1,
    )
    claims.release(
        registry, claims.claim(registry, "gpu07", parse_gpus("1"), task="t", purpose="p").claim.claim_id, reason="x"
    )
    claims.mark(registry, "gpu07", "drain", reason="x")
    Collector(registry, all_visible=True).step()
    record = registry.store.read(CLAIMS).get_json("nodes/gpu07.json")
    check("node_record", record)
    assert record["claims"][0]["claim_id"] == made.claim.claim_id
    check("node_claim", record["claims"][0])
    check("node_policy", registry.store.read(POLICY).get_json("policy.json"))
    check("node_collector", registry.store.read(POLICY).get_json("collectors/gpu07.json"))
    live = registry.store.read(LIVE + "gpu07")
    check("node_head", live.get_json("head.json"))
    check("node_observation", live.get_json("000000000001.json"))
