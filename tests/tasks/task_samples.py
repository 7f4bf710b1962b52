"""Tasks that the tests of this room share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infer_forge.base.gitstore import Store
from infer_forge.tasks import blocks, define
from infer_forge.tasks.state import Task

EXIT: dict[str, Any] = {"kind": "exit_is", "selector": {"label": "make"}, "value": 0}
VERDICT: dict[str, Any] = {
    "kind": "verdict_is",
    "selector": {"evidence": "x"},
    "value": "ok",
    "minimum_trust": "observed",
}
POINT: dict[str, Any] = {
    "model": {"id": "m", "revision": "r1", "tokenizer": "t", "precision": "bf16", "quantization": "none"},
    "serving_scenario": {"modality": "text", "traffic_shape": "chat 1000/1000", "slo": {"max_p50_ttft_ms": 200}},
    "serving_topology": {"architecture": "colocated_pd", "tp": 2, "pp": 1, "dp": 1, "ep": 1},
    "runtime_profile": {
        "framework": "sglang",
        "version": "0.5.10",
        "image_digest": "sha256:ab",
        "engine_config": {"mem_fraction_static": 0.8},
    },
    "accelerator_platform": {"gpu_model": "H200", "gpu_count": 2},
}


def definition(*acceptance: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Plain data of a definition that can be locked."""
    contract = {
        "goal": "A file with one verdict exists",
        "scope": "this folder and nothing else",
        "acceptance": list(acceptance) or [EXIT, VERDICT],
        "verification": ["run make"],
        **more.pop("contract", {}),
    }
    exits = ["deliverable when the file is there", "handoff when it cannot be made"]
    return {"type": "code", "title": "Write one file", "contract": contract, "exit_criteria": exits, **more}


def begun(store: Store, *acceptance: dict[str, Any], **more: Any) -> Task:
    """A started task."""
    task = define.new(store, define.definition_of(definition(*acceptance, **more)))
    define.lock(store, task.id)
    return define.start(store, task.id)


def block(store: Store, task: Task, uncertainty: str = "low") -> Task:
    """Its next block, open."""
    return blocks.open_block(store, task.id, "make the file", "make ends with zero", blocks.routing(uncertainty, 10))


def maker(folder: Path, verdict: str = "ok") -> list[str]:
    """A command that writes `ev.json` into a folder."""
    script = folder / "make.sh"
    script.write_text(f'echo "{{\\"verdict\\": \\"{verdict}\\"}}" > "$(dirname "$0")/ev.json"\n')
    return ["sh", str(script)]


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for something that another process does."""
    pause, end = threading.Event(), time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        pause.wait(0.01)
