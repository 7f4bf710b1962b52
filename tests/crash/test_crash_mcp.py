"""The tools: compact, read-only, and a large log becomes a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Report
from infer_forge_mcp.results import capped
from infer_forge_mcp.tools import crash

IMA = "[2026-03-01 10:00:00 TP1] RuntimeError: CUDA error: an illegal memory access was encountered\n"


def data(answer: Any) -> dict[str, Any]:
    return answer.to_json() if isinstance(answer, Report) else answer


def test_a_verdict_fits_into_a_tools_answer(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(IMA.replace("TP1", f"TP{i % 8}") for i in range(4000)))
    whole = data(crash.triage_crash([str(log)], world=8))
    assert whole["class"] == "ima_async"
    small = capped(whole, paged="timeline", limit=40)
    assert len(small.model_dump_json(exclude_none=True)) <= 8200
    assert small.data["next"]["command"]


def test_a_large_log_is_read_by_a_job_with_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.log"
    log.write_text(IMA)
    monkeypatch.setattr(crash, "_JOB_ABOVE_BYTES", 1)
    found = data(crash.triage_crash([str(log)], graphs=False, command="serve --fast", engine="vllm"))
    if found["kind"] == "job":
        pytest.skip("the machine is too busy for an answer within the tool's time")
    assert found["class"] == "ima_async"
    assert found["next"]["command"].endswith("-- serve --fast")
    assert found["header"]["capture"]["cuda_graphs"] is False


def test_standard_input_is_not_the_tools_to_read() -> None:
    with pytest.raises(UsageFault):
        crash.triage_crash(["-"])


def test_a_plan_and_an_explanation_come_without_any_run(tmp_path: Path) -> None:
    planned = data(crash.plan_crash_run(command="serve", engine="vllm"))
    assert planned["runs"][0]["id"] == "kernel"
    assert planned["runs"][1]["command"].endswith("--enforce-eager")
    assert data(crash.explain_signature("xid 48"))["stop_code_debugging"] is True
