"""Gates from init to the plan: each refuses for its own reason, and lets pass when its reason is gone."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.base.ledger import Ledger
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.campaign import begin, book, locking, open_campaign
from infer_forge.campaign.gates import look
from infer_forge.campaign.layout import FILES, LEDGER
from infer_forge.campaign.recording import record
from tests.campaign.campaign_agent import ACCURACY, READ, Agent, Refused, git, history_item, make_checkout
from tests.campaign.campaign_asks import answer_of, refused
from tests.campaign.conftest import Station

MUST_STAND = {
    "manifest.md", "history/model-pr-history-notes.md", "benchmark/contract.json", "benchmark/candidates.jsonl", "benchmark/summary.md",
    "benchmark/winning-commands.md", "benchmark/fairness/diagnostics.md", "benchmark/baseline.json", "final_report.md",
    "humanize/model-loop-checkpoint.md", "humanize/attempt-ledger.md", "humanize/source-idea-ledger.md",
    "humanize/optimization-ledger.md", "humanize/lineage.jsonl",
}  # fmt: skip
GIVEN = {"model": "a/qwen3-8b", "gpu_model": "H200", "gpu_count": 1, "precision": "bf16"}


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., book.Campaign]:
    """A campaign of which nothing but `init` is done."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def make(**given: Any) -> book.Campaign:
        checkout = make_checkout(tmp_path / "sglang")
        made = begin.init(given or GIVEN, root=tmp_path, checkout=checkout, compare=["vllm"])
        return open_campaign(made.extra["run"])

    return make


def pages(tmp_path: Path) -> list[str]:
    """The companions' pages."""
    made = [tmp_path / name / "SKILL.md" for name in READ]
    for page in made:
        page.parent.mkdir()
        page.write_text("# read\n")
    return [str(p) for p in made]


def test_history_waits_for_the_three_inputs_that_a_person_is_asked_for(begun: Callable[..., book.Campaign]) -> None:
    campaign = begun(model="a/qwen3-8b")
    with pytest.raises(GateRefused, match="A12: not known: .*precision_or_quantization"):
        record(campaign, "history", {"items": [history_item()]})
    campaign, _ = record(campaign, "inputs", {"gpu_model": "H200", "gpu_count": 8, "precision": "fp8"})
    assert record(campaign, "history", {"items": [history_item()]})[0].state == "history"


def test_the_contract_waits_for_companions_history_and_open_pull_requests_in_this_order(
    begun: Callable[..., book.Campaign], tmp_path: Path
) -> None:
    campaign = begun()
    with pytest.raises(GateRefused, match="contract lock is refused: A9: not read: benchmark, profil"):
        locking.lock_contract(campaign)
    campaign, _ = record(campaign, "companions", {"read": pages(tmp_path)})
    read = campaign.of("companions")[0]["read"]
    assert [Path(f["path"]).parent.name for f in read] == list(READ)
    assert all(len(f["sha256"]) == 64 for f in read)
    with pytest.raises(GateRefused, match="contract lock is refused: A43: no history notes"):
        locking.lock_contract(campaign)
    campaign, _ = record(campaign, "history", {"items": [history_item(framework="vllm")]})
    with pytest.raises(GateRefused, match="contract lock is refused: A45: read: vllm"):
        locking.lock_contract(campaign)
    campaign, _ = record(campaign, "history", {"items": [history_item()]})
    with pytest.raises(GateRefused, match="contract lock is refused: A57: nobody looked"):
        locking.lock_contract(campaign)
    campaign, _ = record(campaign, "pr_check", {"upstream": "sgl-project/sglang", "open": "12,13"})
    with pytest.raises(InputUnusable, match="no contract is named"):
        locking.lock_contract(campaign)


def test_a_look_at_open_pull_requests_grows_old(begun: Callable[..., book.Campaign]) -> None:
    campaign, _ = record(begun(), "pr_check", {"upstream": "sgl-project/sglang"})
    assert look(campaign, "A57").result == "pass"
    old = dataclasses.replace(campaign.records[-1], at="2026-01-01T00:00:00Z")
    campaign.records[-1] = old
    assert look(campaign, "A57").result == "fail"
    assert "days ago" in look(campaign, "A57").evidence


def test_a_missing_knowledge_base_is_a_blocker_and_the_campaign_goes_on(begun: Callable[..., book.Campaign]) -> None:
    campaign, _ = record(begun(), "history", {"blocker": "the knowledge base is not at hand"})
    assert look(campaign, "A43").result == "pass"
    assert look(campaign, "A45").result == "pass"
    notes = (campaign.layout.history_notes).read_text()
    assert "Blocker" in notes
    assert "the knowledge base is not at hand" in notes


def test_history_of_a_framework_that_was_not_selected_is_refused(begun: Callable[..., book.Campaign]) -> None:
    campaign = begun()
    with pytest.raises(GateRefused, match="tokenspeed is not selected"):
        record(campaign, "history", {"items": [history_item(), history_item(framework="tokenspeed")]})
    assert campaign.layout.ledger.read_bytes().count(b"\n") == 1


def test_a_contract_under_which_nothing_could_be_accepted_is_not_locked(station: Station) -> None:
    agent = station("begun")
    fields: dict[str, Any] = {"point.model.revision": "abc", "accuracy": []}
    with pytest.raises(Refused, match=r"C41: the contract fixes no accuracy floor.*next: --set accuracy="):
        agent.record("lock_contract", config=str(agent.config), set=fields)
    assert open_campaign(agent.run).contract is None


def test_another_target_than_sglang_is_refused(station: Station) -> None:
    agent = station("begun")
    with pytest.raises(Refused, match="A19: the target of the contract is vllm"):
        agent.record("lock_contract", config=str(agent.config), set={"target": "vllm", "point.model.revision": "abc"})
    campaign = open_campaign(agent.run)
    assert look(campaign, "A19").result == "pass"
    campaign.inputs["frameworks"]["target"] = "vllm"
    assert look(campaign, "A19").result == "fail"


def test_a_run_directory_of_another_name_or_inside_the_checkout_fails(begun: Callable[..., book.Campaign]) -> None:
    campaign = begun()
    assert look(campaign, "A22").result == "pass"
    moved = campaign.layout.run.rename(campaign.layout.run.with_name("my_run"))
    assert look(open_campaign(moved), "A22").result == "fail"
    inside = moved.rename(campaign.checkout / campaign.layout.run.name)
    assert "lies in" in look(open_campaign(inside), "A22").evidence


def test_a_configuration_of_an_engine_that_was_not_selected_adds_no_competitor(station: Station) -> None:
    agent = station("begun")
    raw = yaml.safe_load(agent.config.read_text())
    raw["engines"].append({"framework": "tokenspeed", "base": {"prefix_cache": True}})
    agent.config.write_text(yaml.safe_dump(raw))  # pyright: ignore[reportUnknownMemberType]
    assert open_campaign(agent.run).inputs["frameworks"]["selected"] == ["vllm"]
    with pytest.raises(Refused, match="A41: the contract has sglang, tokenspeed, vllm, selected are sglang, vllm"):
        agent.record("lock_contract", config=str(agent.config))


def test_a_launch_of_a_framework_that_was_not_selected_and_a_page_that_names_none_are_seen(station: Station) -> None:
    agent = station("reported")
    assert answer_of(agent, "A41")[0] == "pass"
    manifest = agent.run / "manifest.md"
    text = manifest.read_text()
    manifest.write_text(text.replace("vllm", "somebody"))
    assert answer_of(agent, "A41") == ("fail", "manifest.md does not name vllm")
    manifest.write_text(text)
    locked = agent.run / "benchmark" / "fairness" / "diagnostics.md"
    said = locked.read_text()
    locked.write_text(said.replace("tensorrt_llm", "nobody"))
    assert answer_of(agent, "A41") == ("fail", "diagnostics.md does not name tensorrt_llm")
    locked.write_text(said)
    RowStore(agent.run / "benchmark" / "candidates.jsonl").ledger.append("launch_begins", {"framework": "tokenspeed"})
    assert answer_of(agent, "A41") == ("fail", "launched although not selected: tokenspeed")
    refused(agent, "A41: launched although not selected", "stop", code="A151")


def test_every_file_that_the_state_reached_asks_for_is_missed_when_it_is_gone_or_empty(station: Station) -> None:
    agent = station("stopped")
    assert answer_of(agent, "A24")[0] == "pass"
    names = [name for group in FILES.values() for name in group if name != LEDGER]
    assert set(names) >= MUST_STAND
    for name in names:
        place = agent.run / name
        kept = place.rename(place.with_name("kept"))
        assert answer_of(agent, "A24") == ("fail", f"missing or empty: {name}")
        place.write_text("")
        assert answer_of(agent, "A24") == ("fail", f"missing or empty: {name}")
        kept.replace(place)
    for folder in ("help", "profiles", "kernel/ncu-digests", "patches", "analysis"):
        assert (agent.run / folder).is_dir()


def test_a_secret_in_an_artifact_blocks_the_end(station: Station) -> None:
    agent = station("reported")
    assert answer_of(agent, "A37")[0] == "pass"
    (agent.run / "help" / "notes.txt").write_text("token hf_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7\n")
    assert answer_of(agent, "A37")[0] == "fail"
    assert "a1B2c3D4" not in answer_of(agent, "A37")[1]
    refused(agent, "A37: 1 secrets", "stop", code="A151")


def test_inputs_of_a_locked_contract_are_another_campaign(station: Station) -> None:
    refused(station("planned"), "other inputs are another campaign", "inputs", precision="fp8")


def test_a_checkout_that_was_changed_before_the_baseline_has_none(station: Station) -> None:
    agent = station("searched")
    git(agent.checkout, "checkout", "-q", "--orphan", "elsewhere")
    git(agent.checkout, "commit", "-q", "-m", "another history")
    refused(agent, "A76: the checkout was changed before the baseline", "lock_baseline", min_launches=3)


def test_after_the_baseline_there_is_the_ceiling_then_the_plan_then_the_loop_and_nothing_else(station: Station) -> None:
    agent = station("searched")
    agent.baseline()
    assert "campaign record ceiling" in agent.tool("read_next_step", run=str(agent.run))["data"]["command"]
    open_words = {"claim_id": "some-claim", "epoch": 1, "query": "decode attention"}
    refused(agent, "a round is refused: A77: no plan; ceiling: no ceiling", "round_open", **open_words)
    agent.record("ceiling", blocker="the fake model has no config")
    told = agent.tool("read_next_step", run=str(agent.run))["data"]
    assert re.search(r"campaign (record plan|prompt|plan)\b", told["command"])


def test_a_plan_that_was_changed_after_it_was_recorded_opens_no_round(station: Station) -> None:
    agent = station("planned")
    assert answer_of(agent, "A77")[0] == "pass"
    with (agent.tmp / "prompt.md").open("a") as plan:
        plan.write("and change the workload\n")
    words = {"claim_id": agent.claim["claim_id"], "epoch": agent.claim["epoch"], "query": "decode attention"}
    refused(agent, "a round is refused: A77: prompt.md was changed", "round_open", **words)


def test_a_ceiling_after_the_first_round_is_refused(station: Station) -> None:
    refused(station("round"), "round 1 has begun: the ceiling comes before it", "ceiling", blocker="none of it")


def test_a_baseline_without_help_snapshots_of_a_winner_is_seen(station: Station) -> None:
    agent = station("planned")
    assert answer_of(agent, "A56")[0] == "pass"
    for file in (agent.run / "help").glob("vllm*"):
        file.unlink()
    assert answer_of(agent, "A56") == ("fail", "no help snapshot of vllm")


def speculating(agent: Agent) -> None:
    """The rows again, in which one side used speculative decoding and the other did not."""
    place = agent.run / "benchmark" / "candidates.jsonl"
    entries = Ledger(place).entries()
    place.unlink()
    for entry in entries:
        if entry.kind == "row":
            entry.body["spec_decode"] = {"enabled": entry.body["framework"] == "vllm"}
        Ledger(place).append(entry.kind, entry.body)


def test_a_baseline_that_is_not_alike_has_no_plan(station: Station) -> None:
    agent = station("searched")
    speculating(agent)
    agent.baseline()
    result, seen = answer_of(agent, "A55")
    assert (result, "void_fairness" in seen) == ("fail", True)
    place = agent.tmp / "prompt.md"
    place.write_text("Objective\n")
    refused(agent, "the plan is refused: A55: .*void_fairness", "plan", path=str(place))


def test_a_measured_commit_that_is_gone_is_missed(station: Station) -> None:
    agent = station("reported")
    assert answer_of(agent, "B16")[0] == "pass"
    git(agent.checkout, "reset", "-q", "--hard", "HEAD~1")
    git(agent.checkout, "reflog", "expire", "--expire=now", "--all")
    git(agent.checkout, "gc", "-q", "--prune=now")
    assert answer_of(agent, "B16")[0] == "fail"
    refused(agent, "B16: not in the checkout", "stop", code="A151")


def test_a_contract_that_lacks_a_layer_of_the_point_is_not_locked(station: Station) -> None:
    agent = station("begun")
    with pytest.raises(Refused, match=r"the contract is incomplete: point\.model\.revision"):
        agent.record("lock_contract", config=str(agent.config), set={"accuracy": [ACCURACY]})
    campaign = open_campaign(station("planned").run)
    assert look(campaign, "B3").evidence == "all five layers"
    assert campaign.contract is not None
    campaign.contract[0].point.accelerator_platform.gpu_model = None
    assert look(campaign, "B3").evidence == "not stated: accelerator_platform.gpu_model"


def test_a_baseline_that_is_missing_or_not_the_recorded_one_is_seen(station: Station) -> None:
    early = station("begun")
    assert answer_of(early, "A51") == ("fail", "no baseline is locked")
    campaign = open_campaign(station("planned").run)
    assert look(campaign, "A51").result == "pass"
    assert campaign.baseline is not None
    campaign.baseline["baseline_sha256"] = "0" * 64
    assert look(campaign, "A51").evidence == "the baseline is not the one that was recorded"
