"""A diffusion campaign, led by `campaign next`: launches are handed in, a picture that is off is rejected, a faster true one accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL", reason="the extra `diffusion` is not installed")
pytest.importorskip("skimage", reason="the extra `diffusion` is not installed")

from infer_forge.campaign import open_campaign
from tests.campaign.campaign_agent import Refused, git
from tests.campaign.campaign_pictures import QUALITY, SCENARIO, SOURCE, Painter, commands, words

pytestmark = pytest.mark.timeout(600)

WHY = "one command paints it, the engine has no option that this scenario does not fix"


def baseline(agent: Painter) -> None:
    """From init to the locked winner table and its verdict, each step as `next` names it."""
    agent.begin()
    assert agent.step[1:5] == ["campaign", "measure", "--run", str(agent.run)]
    assert agent.step[5:9] == ["--label", "pilot", "--contract", "FILE"]
    told = words("--command", [commands()[1]])
    agent.hand_in("pilot", "--contract", str(agent.draft), *agent.turns(3, ("sglang",)), *told)
    assert agent.step[1:3] == ["campaign", "lock"]
    agent.record("lock_contract", contract=str(agent.draft))
    assert agent.step[5:7] == ["--label", "baseline"]
    pictures = agent.paint()
    agent.notes = {"reference": str(pictures)}
    agent.hand_in("baseline", *agent.turns(), *commands(), "--outputs", str(pictures), "--no-search", WHY)
    assert agent.step[1:3] == ["campaign", "lock"]
    assert "--baseline" in agent.step
    agent.record("lock_baseline", min_launches=3)
    assert agent.step[1:3] == ["engine", "help-snapshot"]
    agent.forge(*agent.step[1:])
    assert agent.step[1:4] == ["campaign", "record", "gap"]
    agent.record("gap")


def open_round(agent: Painter) -> None:
    """A round with its verdict and its explanation."""
    agent.open_round()
    agent.record("gap")
    agent.report("fairness")
    for name in ("sglang", "vllm"):
        agent.record("profile", framework=name, traces=agent.capture(name))
    agent.report("root-cause")
    agent.report("layer-pipeline")


def idea(agent: Painter, symbol: str, covers: list[str]) -> str:
    """An idea of this symbol."""
    return agent.record(
        "idea", title=f"a {symbol}", repository="sglang", path="python/denoise.py", symbol=symbol, covers=covers,
        provenance="vllm-omni denoise.py at a commit", expected_gain_pct=1.0,
    )  # fmt: skip


def open_rows(agent: Painter) -> list[str]:
    """Names of rows of the profile without an answer."""
    table = agent.campaign("coverage")["tables"]["rows"]
    found = [dict(zip(table["columns"], r, strict=True)) for r in table["rows"]]
    return list(dict.fromkeys(str(r["name"]) for r in found if r["answer"] is None))


def answer(agent: Painter, names: list[str]) -> None:
    """Dismiss rows."""
    if names:
        page = str(agent.run / "analysis" / "root-cause.md")
        agent.record("dismissal", covers=names, reason="near its memory bound, nothing is left to take", evidence=page)


def attempt(agent: Painter, ident: str, state: str) -> str:
    """The attempt, its change, and its measurement as `next` names it."""
    made = agent.record(
        "attempt", title=state, idea=ident, mechanism="rmsnorm_kernel", tests=["pytest t.py"], paths=[SOURCE]
    )
    agent.change(state)
    step = agent.step
    assert step[1:3] == ["campaign", "measure"]
    assert step[5:] == ["--results", "sglang=FILE", "--results", "vllm=FILE", "--outputs", "DIR", "--reference", "DIR"]
    pictures = ("--outputs", str(agent.paint()), "--reference", agent.notes["reference"])
    found = agent.hand_in("patched", *agent.turns(), *pictures)
    agent.notes |= {"measured": str(found["id"]), "quality": json.dumps(found["quality"])}
    assert agent.step[1:4] == ["campaign", "record", "gap"]
    agent.record("gap", measurement=found["id"])
    return made


def play(agent: Painter) -> None:
    """To the end."""
    baseline(agent)
    agent.plan()
    agent.claim_gpu()
    open_round(agent)
    names = open_rows(agent)
    wrong, good = (idea(agent, s, names[:1]) for s in ("coarse_step", "fused_step"))
    answer(agent, names[1:])
    assert agent.step[1:4] == ["campaign", "record", "attempt"]
    first = attempt(agent, wrong, "coarse_step")
    agent.notes["off_quality"] = agent.notes["quality"]
    assert f"attempt={first}" in agent.step
    assert "outcome=rejected|partial" in agent.step
    with pytest.raises(Refused, match="accuracy: fail: psnr_db") as told:
        agent.record("result", attempt=first, outcome="accepted", reason="it is fast")
    agent.notes["refused"] = str(told.value)
    agent.record("result", attempt=first, outcome="rejected", reason="the picture is another")
    agent.record("round_close")
    assert agent.step[3] == "revert"
    git(agent.checkout, *agent.step[3:])
    open_round(agent)
    answer(agent, open_rows(agent))
    second = attempt(agent, good, "fused_step")
    finish(agent, second)


def finish(agent: Painter, made: str) -> None:
    """Soak, the patch off and on, its mechanism, the result, the end."""
    assert agent.step[1:4] == ["campaign", "record", "soak"]
    agent.soak(made)
    traces = agent.capture("sglang")
    pictures = ("--reference", agent.notes["reference"])
    git(agent.checkout, *agent.step[3:])
    assert agent.step[5:7] == ["--label", "off"]
    off = agent.hand_in("off", *agent.turns(), "--outputs", str(agent.paint()), *pictures)
    git(agent.checkout, *agent.step[3:])
    assert agent.step[1:4] == ["campaign", "record", "mechanism"]
    agent.record("mechanism", attempt=made, files=traces, off=off["id"])
    result = agent.record("result", attempt=made, outcome="accepted", reason="it closes the gap")
    answer(agent, open_rows(agent))
    agent.record("round_close")
    agent.review(result)
    agent.record("cleanup")
    assert agent.step[1:4] == ["campaign", "report", "final"]
    agent.report("final", code=agent.step[agent.step.index("--code") + 1])
    assert agent.step[1:3] == ["campaign", "stop"]
    agent.record("stop", code=agent.step[agent.step.index("--code") + 1])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Painter:
    """The campaign at its end."""
    place = tmp_path_factory.mktemp("pictures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFER_FORGE_HOME", str(place / "home"))
        agent = Painter(place, patch)
        play(agent)
    return agent


@pytest.fixture
def played(whole: Painter, monkeypatch: pytest.MonkeyPatch) -> Painter:
    """The same, with its surroundings."""
    monkeypatch.setenv("INFER_FORGE_HOME", str(whole.tmp / "home"))
    whole.environment(monkeypatch)
    return whole


def test_a_diffusion_campaign_ends_with_the_gap_closed_and_every_check_passed(played: Painter) -> None:
    held = open_campaign(played.run)
    assert [r["outcome"] for r in held.of("result")] == ["rejected", "accepted"]
    checked = played.campaign("check")
    wrong = [r for r in checked["tables"]["checks"]["rows"] if r[2] in ("fail", "unknown")]
    assert wrong == []
    assert played.campaign("stop-check")["verdict"] == "may_stop"
    page = (played.run / "final_report.md").read_text()
    assert SCENARIO in page
    assert "end_to_end_ms" in page


def test_the_picture_that_was_off_was_refused_by_its_psnr(played: Painter) -> None:
    off = json.loads(played.notes["off_quality"])
    assert off["result"] == "fail"
    assert 0 < off["psnr_db"] < QUALITY["min_psnr_db"]
    assert f"accuracy: fail: psnr_db {off['psnr_db']:g}, floor 30" in played.notes["refused"]
    good = json.loads(played.notes["quality"])
    assert good["result"] == "pass"
    assert good["psnr_db"] > QUALITY["min_psnr_db"]
    assert good["ssim"] > QUALITY["min_ssim"]


def test_each_launch_is_kept_with_contract_commit_block_and_file(played: Painter) -> None:
    from infer_forge.bench.ledger_rows import RowStore

    held = open_campaign(played.run)
    assert held.contract is not None
    rows = RowStore(held.layout.bench.rows).rows()
    assert {r.contract_hash for r in rows} == {held.contract[1]}
    assert {r.purpose for r in rows} == {"decision"}
    assert len(rows) == 2 * 2 * 3 * 4  # requests, sides, turns; baseline, two patched, one off
    assert all(Path(str(r.artifacts.raw_result)).is_file() and r.block_id and r.launch_id for r in rows)
    mine = {r.framework_commit for r in rows if r.framework == "sglang"}
    assert len(mine) == 4


def test_the_reason_in_place_of_a_search_is_recorded_for_each_side(played: Painter) -> None:
    from infer_forge.bench.ledger_rows import RowStore

    told: list[dict[str, Any]] = RowStore(open_campaign(played.run).layout.bench.rows).events("no_search")
    assert [(e["framework"], e["reason"]) for e in told] == [("sglang", WHY), ("vllm", WHY)]
