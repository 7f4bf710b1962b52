"""What the tests of workload, pilot, locks and search share: a configuration, a locked run, a session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from infer_forge.bench import contract_lock, search_config, workload
from infer_forge.bench import session as shared
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.run_layout import layout
from tests.engines.fakes.launch import BIN, SITE
from tests.engines.fakes.models import make_model

SHORT: dict[str, Any] = {
    "scenarios": [{"name": "chat", "input_len": 40, "output_len": 20, "num_prompts": 6, "concurrencies": [4]}]
}


def use_fakes(patch: pytest.MonkeyPatch) -> None:
    """Put the fake engines first, with a modelled load."""
    patch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    patch.setenv("PYTHONPATH", str(SITE))
    patch.setenv("FAKE_BENCH", "mode=model")
    patch.delenv("FAKE_ENGINE", raising=False)


def raw_config(model: str = "fake/Model-8B", **changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = {
        "schema": "infer-forge/search/1",
        "name": "two engines",
        "model": model,
        "precision": "bf16",
        "gpu": {"model": "H200", "count": 1},
        "client": "vllm bench serve",
        "grid": {
            "scenarios": [
                {"name": "chat", "input_len": 40, "output_len": 20, "num_prompts": 6, "concurrencies": [4]},
                {"name": "long", "input_len": 200, "output_len": 20, "num_prompts": 6},
            ]
        },
        "sla": {"min_success_rate": 1.0},
        "budget": {"runs": 3, "minutes": 5, "start_timeout_s": 20, "run_timeout_s": 20},
        "engines": [
            {"framework": "sglang", "base": {"prefix_cache": True}, "search": {"attention_backend": ["fa3"]}},
            {
                "framework": "vllm",
                "base": {"prefix_cache": True},
                "candidates": [{"name": "oom", "env": {"FAKE_ENGINE": "oom_start"}}],
                "search": {"max_running_requests": [64, 128]},
            },
        ],
    }
    return {**config, **changes}


def config_of(tmp: Path, **changes: Any) -> search_config.SearchConfig:
    return search_config.config_of(raw_config(str(make_model(tmp / "model")), **changes))


def locked(run: Path, config: search_config.SearchConfig, **changes: Any) -> str:
    workload.write_workload(config.grid, layout(run).workload)
    draft = search_config.draft_contract(config)
    draft["point"]["model"]["fingerprint"] = "f" * 64
    report = contract_lock.lock_contract(
        run, {**draft, **changes}, accepted_by="ann", reason="test of the search, not of the noise"
    )
    return str(report.extra["contract_sha256"])


def session_of(run: Path, config: search_config.SearchConfig, purpose: str = "search") -> shared.Session:
    place = layout(run)
    made = shared.Session(place, config, RowStore(place.rows), purpose, run_id="r1", grace_s=3)
    made.contract, made.contract_hash = contract_lock.read_contract(run)
    made.workload = workload.verify_workload(place.workload, expected_sha256=made.contract.grid.workload_sha256)
    made.client = shared.client_identity(config.client)
    return made
