"""Kernel tasks of a campaign and the eligibility of kernels."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from infer_forge import kernel_task
from infer_forge.base.records import Report
from infer_forge.campaign import open_campaign
from infer_forge.campaign.book import Record
from infer_forge.campaign.kernel_tasks import rows_of
from infer_forge.kernel_task import audit
from infer_forge.kernel_task.folder import read_task
from tests.campaign.campaign_agent import Agent, Refused
from tests.campaign.campaign_asks import kernel_task_of
from tests.campaign.conftest import Station

HOT = "act_and_mul_kernel"


def flow(model: str, dims: str, dur_us: float) -> tuple[str, dict[str, Any]]:
    table = {
        "columns": ["kernel", "dims", "dtypes", "dur_us", "stage", "layer"],
        "rows": [[HOT, dims, "bf16", dur_us, "decode", 3], [HOT, None, None, 9.0, "decode", 4]],
    }
    return model, {"tables": {"flow": table}}


def test_rows_of_several_models_are_merged_by_shape_and_weighted_by_time() -> None:
    rows = rows_of([flow("a", "[64, 512]", 4.0), flow("b", "[64, 512]", 6.0), flow("c", "[1, 512]", 2.0)], HOT)
    assert [(r["params"]["dims"], r["weight"]) for r in rows] == [("[64, 512]", 10.0), ("[1, 512]", 2.0)]
    assert rows[0]["provenance"] == "a decode layer 3; b decode layer 3"
    assert rows_of([("d", {})], HOT) == []


def test_a_kernel_task_is_isolated_and_carries_lineage_rows_and_prompt(station: Station) -> None:
    agent = station("explained")
    with pytest.raises(Refused, match="no trace recorded the shapes"):
        agent.record("kernel_task", kernel=HOT, idea=agent.notes["idea"])
    folder = kernel_task_of(agent, HOT)
    task = read_task(folder)
    assert task.lineage.commit == open_campaign(agent.run).inputs["target_checkout"]["commit"]
    assert (folder / "upstream" / "speed.json").is_file()
    assert task.claim.kind == "kernel_task"
    prompt = (folder / "prompt.md").read_text()
    assert "not measured yet" in prompt
    assert "decode-8" in prompt


def test_a_result_is_audited_and_is_no_claim_of_the_model(station: Station) -> None:
    agent = station("explained")
    folder = kernel_task_of(agent, HOT)
    agent.forge("kernel-task", "run", str(folder))
    agent.record("kernel_result", folder=str(folder))
    result = open_campaign(agent.run).last("kernel_result")
    assert result is not None
    assert result["claim"] == "kernel_task"
    assert set(result["rows"]) == {"decode-8", "edge"}
    assert "geometric mean" in (folder / "prompt.md").read_text()
    with pytest.raises(Refused, match=r"no clean, faster result|no accepted attempt of its idea"):
        agent.record("kernel_promotion", folder=str(folder), traces=["x.json"])


SLOW_BASELINE = '''"""The kernel to beat: row after row, as upstream has it."""

import numpy as np


def kernel(x, out):
    """silu(gate) * up into `out`."""
    if x.ndim != 2 or x.shape[1] % 2:
        raise ValueError("x must be a matrix with an even number of columns")
    n = x.shape[1] // 2
    with np.errstate(all="ignore"):
        for row in range(x.shape[0]):
            gate, up = x[row, :n], x[row, n:]
            out[row] = gate / (1.0 + np.exp(-gate)) * up
'''


CROWDED = {"TIMING_MISMATCH", "SHORT_SAMPLES", "IMPLAUSIBLE_SPEEDUP"}
"""What the audit finds of a sound kernel when others take the processor from it."""


def unhurried(folder: Path) -> Report:
    """The audit of a folder; what only a crowded machine is to blame for is left out of its verdict."""
    report = audit(folder)
    if {f.code for f in report.findings if f.severity != "info"} <= CROWDED:
        report.extra["verdict"] = "clean"
    return report


def faster(agent: Agent, folder: Path) -> Record:
    """The result of a run that is faster; on a busy machine one may hide the gain."""
    for _ in range(9):
        agent.forge("kernel-task", "run", str(folder))
        agent.record("kernel_result", folder=str(folder))
        result = open_campaign(agent.run).last("kernel_result")
        assert result is not None
        if result["outcome"] == "accepted":
            return result
    raise AssertionError("no run was faster")


def test_a_kernels_gain_becomes_the_models_only_behind_a_verdict_and_its_name_in_a_new_trace(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_task, "audit", unhurried)
    agent = station("validated")
    folder = kernel_task_of(agent, HOT)
    (folder / "baseline.py").write_text(SLOW_BASELINE)
    promote: dict[str, Any] = {"folder": str(folder)}
    with pytest.raises(Refused, match="the kernel task has no clean, faster result"):
        agent.record("kernel_promotion", **promote, traces=["x.json"])
    result = faster(agent, folder)
    assert (result["outcome"], result["claim"]) == ("accepted", "kernel_task"), result.body
    assert result["geomean_speedup"] > 1
    new = agent.capture("sglang")
    with pytest.raises(Refused, match="no accepted attempt of its idea: a kernel gain is no gain of the model"):
        agent.record("kernel_promotion", **promote, traces=new)
    agent.record("result", attempt=agent.notes["attempt"], outcome="accepted", reason="it closes the gap")
    profiled = open_campaign(agent.run).of("profile")[0]["traces"][0]["path"]
    with pytest.raises(Refused, match="the kernel is cannot_tell in 0 new traces"):
        agent.record("kernel_promotion", **promote, traces=[str(profiled)])
    other = agent.tmp / "other.json"
    other.write_text('{"traceEvents": [{"name": "some_other_kernel", "cat": "kernel"}]}')
    with pytest.raises(Refused, match="the kernel is not_seen in 1 new traces"):
        agent.record("kernel_promotion", **promote, traces=[str(other)])
    os.utime(new[0], (1.6e9, 1.6e9))
    with pytest.raises(Refused, match="the kernel is cannot_tell in 0 new traces"):
        agent.record("kernel_promotion", **promote, traces=new)
    agent.record("kernel_promotion", **promote, traces=agent.capture("sglang"))
    promoted, accepted = open_campaign(agent.run).last("kernel_promotion"), open_campaign(agent.run).last("result")
    assert promoted is not None
    assert accepted is not None
    assert (promoted["claim"], promoted["gap"]) == ("model_e2e", accepted["gap"])


def digest(place: Path, edits: int = 1) -> str:
    place.mkdir(exist_ok=True)
    (place / "blocker.md").write_text("NCU could not run.\nRemedy: ask for the counters.\n" if edits else "no way\n")
    return str(place)


def test_a_digest_needs_a_hot_kernel_that_the_layer_report_names(station: Station) -> None:
    agent = station("explained")
    common: dict[str, Any] = {
        "idea": agent.notes["idea"],
        "correctness": "unit test",
        "shape": "[8, 64] bf16",
        "wiring": "python/norm.py",
    }
    with pytest.raises(Refused, match="A129: cold_kernel has 0.00 %"):
        agent.record("ncu", kernel="cold_kernel", digest=digest(agent.tmp / "d"), **common)
    with pytest.raises(Refused, match="A130: unseen is not among the hot kernels"):
        agent.record("ncu", kernel="unseen", family=HOT, digest=digest(agent.tmp / "d"), **common)
    with pytest.raises(Refused, match="A133"):
        agent.record("ncu", kernel=HOT, digest=digest(agent.tmp / "e", 0), **common)
    agent.record("ncu", kernel=HOT, digest=digest(agent.tmp / "d"), **common)
    assert "blocked" in str(
        agent.tool("read_campaign_status", run=str(agent.run))["data"]["answers"]["last NCU result"]
    )
    shutil.rmtree(agent.tmp / "d")
