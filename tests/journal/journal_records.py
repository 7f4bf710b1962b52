"""Records that the journal's tests write: a note, and an end-to-end result at a deployment point."""

from __future__ import annotations

import datetime
from typing import Any

from infer_forge.journal import Record, markdown

WHEN = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
CONTRACT = "1" * 64
POINT: dict[str, Any] = {
    "model": {"id": "Qwen/Qwen3-8B", "precision": "bf16"},
    "serving_topology": {"architecture": "colocated_pd", "tp": 1},
    "runtime_profile": {"framework": "sglang", "version": "0.5.23"},
    "accelerator_platform": {"gpu_model": "H200", "gpu_count": 1},
}


def note(title: str, body: str = "", **more: Any) -> Record:
    return markdown.make({"kind": "note", "title": title, "created": WHEN, "body": body, **more})


def result(value: float, *, framework: str = "sglang", **more: Any) -> Record:
    fields: dict[str, Any] = {
        "kind": "result",
        "title": f"{framework} reaches {value}",
        "created": WHEN,
        "claim": "model_e2e",
        "metric": "output_throughput",
        "value": value,
        "unit": "tok/s",
        "higher_is_better": True,
        "contract_sha256": CONTRACT,
        "deployment_point": {**POINT, "runtime_profile": {"framework": framework, "version": "0.5.23"}},
    }
    return markdown.make(fields | more)


def at_another_point(value: float, layer: str, **change: Any) -> Record:
    """The same result where one layer of the deployment point is changed."""
    return result(value, deployment_point={**POINT, layer: {**POINT[layer], **change}})
