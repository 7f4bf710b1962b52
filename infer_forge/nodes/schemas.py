"""JSON schemas of what stands in the registry; `references/schemas/node_*.json` are their committed form."""

from __future__ import annotations

from typing import Any

import msgspec

from infer_forge.nodes.model import Claim, Collector, NodeRecord, Observation, Policy
from infer_forge.nodes.read import Head

TYPES: dict[str, type[msgspec.Struct]] = {
    "node_claim": Claim,
    "node_record": NodeRecord,
    "node_policy": Policy,
    "node_collector": Collector,
    "node_observation": Observation,
    "node_head": Head,
}


def schema(name: str) -> dict[str, Any]:
    """The schema (draft 2020-12) of one of `TYPES`."""
    made = msgspec.json.schema(TYPES[name])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **made}
