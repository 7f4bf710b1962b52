"""When a kernel may be worked on, and how its task may end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_forge.base import jsonio
from infer_forge.campaign import open_campaign
from tests.campaign.campaign_asks import kernel_task_of, refused
from tests.campaign.conftest import Station

HOT = "act_and_mul_kernel"


def test_a_kernel_is_worked_on_only_while_the_model_is_behind(station: Station) -> None:
    agent = station("validated")
    agent.record("result", attempt=agent.notes["attempt"], outcome="accepted", reason="it closes the gap")
    words: dict[str, Any] = {"kernel": HOT, "idea": agent.notes["idea"], "rows": str(agent.tmp / "none")}
    (agent.tmp / "none").write_text("[]")
    refused(
        agent, f"work on {HOT} is refused: A104: the verdict is .*: nothing is to be patched", "kernel_task", **words
    )
    early = station("planned")
    (early.tmp / "none").write_text("[]")
    refused(early, f"work on {HOT} is refused: A100: no round is open", "kernel_task", **words)


@pytest.mark.parametrize(
    ("speed", "no_op", "outcome"), [(1.5, False, "accepted"), (1.0, True, "no_op"), (0.9, False, "rejected")]
)
def test_a_no_op_with_its_evidence_is_a_valid_end(
    station: Station, monkeypatch: pytest.MonkeyPatch, speed: float, no_op: bool, outcome: str
) -> None:
    from infer_forge import kernel_task

    agent = station("explained")
    folder = kernel_task_of(agent, HOT)
    agent.forge("kernel-task", "run", str(folder))
    results: dict[str, Any] = jsonio.read_json(folder / "results.json")
    results |= {"geomean_speedup": speed, "buckets": [{"name": "all", "no_op": no_op}]}
    jsonio.write_atomic(folder / "results.json", jsonio.dumps(results))

    class Clean:
        """An audit without a finding."""

        extra = {"verdict": "clean"}  # noqa: RUF012

    def clean(_: Path) -> Clean:
        return Clean()

    monkeypatch.setattr(kernel_task, "audit", clean)
    agent.record("kernel_result", folder=str(folder))
    kept = open_campaign(agent.run).last("kernel_result")
    assert kept is not None
    assert (kept["outcome"], kept["claim"]) == (outcome, "kernel_task")
    words: dict[str, Any] = {"folder": str(folder), "traces": ["x.json"]}
    if outcome == "accepted":
        refused(agent, "a kernel gain is no gain of the model", "kernel_promotion", **words)
        agent.attempt(agent.notes["idea"])
        refused(agent, "no accepted attempt of its idea", "kernel_promotion", **words)
    else:
        refused(agent, "no clean, faster result", "kernel_promotion", **words)
