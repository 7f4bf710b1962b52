"""What stands in the records and pages of a campaign: inputs, causes, layers, ledgers, patches, commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import GateRefused, MissingPart, UsageFault
from infer_forge.base.jsonio import sha256_file
from infer_forge.bench.model import Row
from infer_forge.campaign import begin, coverage, open_campaign, pull_request
from infer_forge.campaign.model import HistoryItem
from infer_forge.campaign.reports import _framework_facts  # pyright: ignore[reportPrivateUsage]
from infer_forge.campaign.reviewing import EXPECTED, _lacking  # pyright: ignore[reportPrivateUsage]
from infer_forge.engines import env as engine_env
from infer_forge.engines.env import Environment
from infer_forge.engines.runner import Place
from tests.campaign.campaign_agent import git, history_item, make_checkout
from tests.campaign.conftest import Station

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "max_position_embeddings": 40960,
    "quantization_config": {"quant_method": "fp8"}, "auto_map": {"AutoModel": "modeling.Model"},
}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model's folder."""
    place = tmp_path / "Qwen3-8B"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(CONFIG))
    (place / "tokenizer.json").write_text("{}")
    return place


def told(where: Place, *_: object, **__: object) -> Environment:
    """A place that tells its CUDA and NCCL."""
    return Environment(where.spec, None, "t", "d", {"cuda": "13.0", "nccl": "2.28.3"})


def inputs_of(run: str) -> dict[str, tuple[str, str]]:
    """Input -> (value, origin) as the manifest shows them."""
    lines = [x.split("|") for x in (Path(run) / "manifest.md").read_text().splitlines() if x.count("|") == 4]
    return {c[1].strip(): (c[2].strip(), c[3].strip()) for c in lines}


def test_model_checkout_gpus_and_environment_are_recorded_each_with_its_origin(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.setattr(engine_env, "environment", told)
    checkout = make_checkout(tmp_path / "sglang")
    given = {"model": str(model), "gpu_model": "H200", "gpu_count": 2, "place": "docker:box"}
    made = begin.init(given, root=tmp_path / "r", checkout=checkout, compare=["vllm"])
    seen = inputs_of(made.extra["run"])
    config = str(model / "config.json")
    assert seen["model"] == (str(model), "given")
    assert seen["tokenizer"] == (str(model), config)
    assert (seen["precision"], seen["quantization"]) == (("bfloat16", config), ("fp8", config))
    assert (seen["trust_remote_code"], seen["max_context"]) == (("yes", config), ("40960", config))
    assert (seen["gpu_model"], seen["gpu_count"]) == (("H200", "given"), ("2", "given"))
    assert seen["gpu_ids"] == ("2, 3", "CUDA_VISIBLE_DEVICES")
    assert (seen["place"], seen["cuda"], seen["nccl"]) == (
        ("docker:box", "given"),
        ("13.0", "place docker:box"),
        ("2.28.3", "place docker:box"),
    )
    assert seen["multi_node"][0] == "no"
    assert seen["family"] == ("qwen3", config)
    values = open_campaign(made.extra["run"]).inputs["target_checkout"]
    head = git(checkout, "rev-parse", "HEAD")
    assert (values["path"], values["commit"], values["branch"], values["dirty"]) == (str(checkout), head, "main", [])
    assert seen["target_checkout"][1] == "git"


def untold(where: Place, *_: object, **__: object) -> Environment:
    """A place that cannot be reached."""
    raise MissingPart("the place does not answer", where=where.spec)


def test_what_a_place_does_not_tell_is_noted_and_stays_unknown(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_env, "environment", untold)
    given = {"model": str(model), "gpu_model": "H200", "gpu_count": 2, "place": "docker:no-such-box"}
    made = begin.init(given, root=tmp_path / "r", checkout=make_checkout(tmp_path / "s"), compare=["vllm"])
    campaign = open_campaign(made.extra["run"])
    assert "cuda" not in campaign.inputs
    assert any("cuda and nccl are unknown" in n for n in campaign.records[0]["notes"])


def test_the_family_is_the_models_own_word_or_the_first_word_of_its_id(tmp_path: Path) -> None:
    given = {"model": "deepseek-ai/DeepSeek-V3.2", "gpu_model": "H200", "gpu_count": 8, "precision": "fp8"}
    made = begin.init(given, root=tmp_path / "r", checkout=make_checkout(tmp_path / "s"), compare=["vllm"])
    seen = inputs_of(made.extra["run"])["family"]
    assert seen == ("deepseek", "first word of the model id deepseek-ai/DeepSeek-V3.2")


def test_what_is_not_at_hand_is_named_at_the_start_with_every_place_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    given = {"model": "a/b", "gpu_model": "H200", "gpu_count": 8, "precision": "fp8"}
    made = begin.init(given, root=tmp_path / "r", checkout=make_checkout(tmp_path / "s"), compare=["vllm"])
    found = {r["name"]: (r["path"], r["tried"]) for r in made.tables["companions"].dicts()}
    assert found["ncu program"] == (None, "PATH")
    assert found["humanize"][0] is None
    assert str(tmp_path / "home") in found["humanize"][1]
    assert found["ncu-report"][0]
    assert "ncu program" in next(f.message for f in made.findings if f.code == "COMPANION_MISSING")


def test_a_mode_is_recorded_with_who_reviews_and_nobody_reviews_himself(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "s")
    given = {"model": "a/b", "gpu_model": "H200", "gpu_count": 8, "precision": "fp8"}
    common: dict[str, Any] = {"checkout": checkout, "compare": ["vllm"]}
    with pytest.raises(UsageFault, match="the reviewer is not the executor"):
        begin.init(given, root=tmp_path / "a", executor="codex", reviewer="codex", **common)
    made = begin.init(given, root=tmp_path / "b", mode="rlcr", executor="claude", reviewer="codex", **common)
    assert "mode rlcr, executor claude, reviewer codex" in (Path(made.extra["run"]) / "manifest.md").read_text()
    alone = begin.init(given, root=tmp_path / "c", **common)
    assert "reviewer the same agent (self-check)" in (Path(alone.extra["run"]) / "manifest.md").read_text()


@pytest.mark.parametrize(
    "name", ["path", "framework", "pr", "source_commit", "state", "files", "validation", "limits", "risk", "decision"]
)
def test_a_history_note_has_every_field(name: str) -> None:
    whole = history_item()
    assert HistoryItem.model_validate(whole)
    with pytest.raises(ValueError, match=name):
        HistoryItem.model_validate({k: v for k, v in whole.items() if k != name})
    with pytest.raises(ValueError, match=name):
        HistoryItem.model_validate({**whole, name: [] if name == "files" else ""})


def test_the_history_page_says_of_an_open_pull_request_that_it_is_a_candidate(station: Station) -> None:
    agent = station("begun")
    agent.record("history", items=[history_item(pr=77, state="open", head_sha="c" * 40)])
    page = (agent.run / "history" / "model-pr-history-notes.md").read_text()
    assert f"sglang #77 (open, head {'c' * 40}: a candidate, not in the recorded source)" in page
    assert "## sglang #4321 (merged)" in page
    assert "- decision: look at the norm path first" in page
    assert "upstream sgl-project/sglang, fork me/sglang: 123" in page


def test_the_winners_page_holds_the_exact_commands_of_each_winner(station: Station) -> None:
    agent = station("planned")
    campaign = open_campaign(agent.run)
    assert campaign.baseline is not None
    page = (agent.run / "benchmark" / "winning-commands.md").read_text()
    assert {w["framework"] for w in campaign.baseline["winners"]} == {"sglang", "vllm"}
    for winner in campaign.baseline["winners"]:
        assert winner["server_command"] in page
        assert winner["benchmark_command"] in page
        assert winner["candidate_id"] in page
    assert campaign.baseline["contract_sha256"] in page


def test_the_current_fairness_report_stands_beside_the_locked_one(station: Station) -> None:
    agent = station("explained")
    gap = open_campaign(agent.run).of("gap")[-1]
    locked = (agent.run / "benchmark" / "fairness" / "diagnostics.md").read_text()
    current = (agent.run / "analysis" / "fairness-diagnostics.md").read_text()
    assert f"Gap {gap.id}" in current
    assert gap.id not in locked
    for page in (locked, current):
        for question in ("same speculation", "same cache state", "same memory policy", "time before the scheduler"):
            assert question in page
        assert "Selected: sglang (target), vllm." in page
        assert "Excluded by the user: tokenspeed" in page


def test_a_frameworks_own_parameters_stand_with_speculation_phases_cache_and_memory() -> None:
    command = "tokenspeed serve m --attn-tp-size 4 --moe-tp-size 2 --enable-expert-parallel --enable-allreduce-fusion"
    row = Row.model_validate({"tool": "t", "framework": "tokenspeed", "server_command": command})
    row.spec_decode.algorithm, row.phase_metrics.queue_ms, row.memory.kv_cache_dtype = "EAGLE3", 2.5, "fp8"
    facts, commands = _framework_facts({"tokenspeed": [row]})
    assert f"- tokenspeed: `{command}`" in commands
    for line in (
        "| spec_decode.algorithm | EAGLE3 |",
        "| phase_metrics.queue_ms | 2.5",
        "| memory.kv_cache_dtype | fp8 |",
        "| cache.prefix_cache_hit_rate | - |",
    ):
        assert line in facts


def test_the_root_cause_names_gap_stage_and_rows_and_asks_for_the_source(station: Station) -> None:
    agent = station("explained")
    campaign = open_campaign(agent.run)
    page, cause = (agent.run / "analysis" / "root-cause.md").read_text(), campaign.last("root_cause")
    gap = campaign.of("gap")[-1]
    assert cause is not None
    assert f"Gap {gap.id}: chat c4 behind against vllm" in page
    assert cause["gap"] == gap.id
    assert cause["stage"] in ("prefill", "decode")
    assert f"Slower stage: {cause['stage']}." in page
    for table in ("stages", "kernel", "overlap", "fuse"):
        assert re.search(rf"^##+ .*\b{table}\b", page, re.MULTILINE), table
    assert all(f"- {family}: " in page for family in cause["families"])
    assert "Candidates in the source (path, symbol, why):" in page
    assert {p["framework"] for p in campaign.of("profile")} == {"sglang", "vllm"}
    for profile in campaign.of("profile"):
        tables = json.loads((agent.run / profile["triage"]).read_text())["tables"]
        assert {"kernel", "overlap", "fuse"} <= set(tables)
        assert cause["stage"] in profile["stages"]


def test_the_layer_report_names_pass_layers_hot_kernels_ranges_and_its_inputs(station: Station) -> None:
    agent = station("explained")
    campaign = open_campaign(agent.run)
    page, record = (agent.run / "analysis" / "layer-pipeline.md").read_text(), campaign.last("layer_pipeline")
    assert record is not None
    assert re.search(rf"- {record['stage']}: pass \d+ \(.+\)", page)
    for table in ("passes", "clusters", "layers", "flow", "ranges"):
        assert f"## {table}\n" in page
    assert "in Perfetto" in page
    assert "Why this pass and these layers:" in page
    mine = next(p for p in campaign.of("profile") if p["framework"] == "sglang")
    assert record["profile"] == mine.id
    assert all(sha256_file(t["path"]) == t["sha256"] for t in mine["traces"])
    assert record["kernels"]
    assert all(kernel in page for kernel in record["kernels"][:2])
    cause = campaign.last("root_cause")
    assert cause is not None
    assert (record["root_cause"], record["gap"]) == (cause.id, cause["gap"])


def test_a_layer_report_holds_the_trace_against_the_deployed_config(station: Station) -> None:
    agent = station("explained")
    place = agent.model / "config.json"
    shape = {**json.loads(place.read_text()), "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4}
    place.write_text(
        json.dumps({**shape, "intermediate_size": 128, "architectures": ["LlamaForCausalLM"], "model_type": "llama"})
    )
    agent.report("layer-pipeline")
    record = open_campaign(agent.run).last("layer_pipeline")
    assert record is not None
    assert record["config_sha256"] == sha256_file(place)
    assert f"model config `{place}`" in (agent.run / "analysis" / "layer-pipeline.md").read_text()


def test_every_profile_has_a_page_and_every_patch_its_file(station: Station) -> None:
    agent = station("stopped")
    campaign = open_campaign(agent.run)
    for profile in campaign.of("profile"):
        page = (agent.run / profile["digest"]).read_text()
        assert page.startswith(f"# Profile {profile['digest'].split('/')[-1][2]}: {profile['framework']}, round 1")
        assert "Kernel" in page
    (kept,) = campaign.of("result")
    attempt = campaign.need(kept["attempt"])
    patch = (agent.run / kept["patch"]).read_text()
    assert patch.strip() == git(agent.checkout, "diff", "--binary", attempt["base_commit"], kept["commit"])
    assert "speed.json" in patch


def test_only_what_was_accepted_and_reviewed_is_an_optimization(station: Station) -> None:
    agent = station("validated")
    place = agent.run / "humanize" / "optimization-ledger.md"
    result = agent.record("result", attempt=agent.notes["attempt"], outcome="accepted", reason="it closes the gap")
    assert result not in place.read_text()
    agent.record("round_close")
    agent.review(result)
    row = next(x for x in place.read_text().splitlines() if result in x)
    kept = open_campaign(agent.run).find(result)
    assert kept is not None
    assert all(kept["evidence"][n] in row for n in ("throughput", "accuracy", "memory", "stability"))
    rejected = station("patched")
    rejected.record("result", attempt=rejected.notes["attempt"], outcome="rejected", reason="it breaks a test")
    assert "breaks" not in place.read_text()


def test_an_idea_stands_with_its_profile_layer_digest_provenance_and_history(station: Station) -> None:
    agent = station("explained")
    hot = [str(r["name"]) for r in coverage.rows(open_campaign(agent.run)) if r["kind"] == "kernel"]
    idea = agent.record(
        "idea", title="another way", repository="vllm", path="csrc/a.cu", symbol="norm", covers=hot[:1], expected_gain_pct=0.5,
        provenance="vllm at commit 1234567", history=[4321],
    )  # fmt: skip
    digest = agent.tmp / "d"
    digest.mkdir()
    (digest / "blocker.md").write_text("NCU could not run.\nRemedy: ask for the counters.\n")
    more = {"correctness": "unit test", "shape": "[8, 64] bf16", "wiring": "python/norm.py"}
    agent.record("ncu", kernel=hot[0], idea=idea, digest=str(digest), **more)
    campaign = open_campaign(agent.run)
    profile, layers = campaign.last("profile"), campaign.last("layer_pipeline")
    assert profile is not None
    assert layers is not None
    row = next(x for x in (agent.run / "humanize" / "source-idea-ledger.md").read_text().splitlines() if idea in x)
    mine = next(p for p in campaign.of("profile") if p["framework"] == "sglang")
    for word in (mine.id, layers.id, str(digest), "vllm at commit 1234567", "4321", "csrc/a.cu", "untried"):
        assert word in row


def test_the_checkpoint_holds_what_is_fixed_done_and_left(station: Station) -> None:
    agent = station("stopped")
    campaign = open_campaign(agent.run)
    page = (agent.run / "humanize" / "model-loop-checkpoint.md").read_text()
    assert campaign.contract is not None
    assert campaign.baseline is not None
    (kept,) = campaign.of("result")
    fixed, done, left = (page.split(f"## What is {w}")[1] for w in ("fixed", "done", "left"))
    for word in (
        str(agent.model),
        "bf16",
        "quantization none",
        "1x H200",
        campaign.contract[1],
        "chat 40/20",
        "SLA min_success_rate",
    ):
        assert word in fixed
    assert all(w["server_command"] in fixed for w in campaign.baseline["winners"])
    assert str(agent.run) in fixed
    for word in ("branch main", kept["commit"], kept.id, "pytest test_norm.py", kept["measurement"]):
        assert word in done
    for word in (
        "remaining gap",
        "profiles",
        "history notes",
        "layer notes",
        "NCU digests",
        "rejected",
        "planned next",
    ):
        assert f"- {word}" in left.replace("; history", "\n- history")


def test_the_manifest_says_where_the_ledgers_lie_and_lists_the_artifacts(station: Station) -> None:
    agent = station("stopped")
    page = (agent.run / "manifest.md").read_text()
    assert "Ledgers lie in this run directory, not in the checkout." in page
    for name in ("benchmark/contract.json", "benchmark/baseline.json", "analysis/root-cause.md", "final_report.md"):
        assert f"- `{name}`" in page
    for name in ("attempt-ledger.md", "optimization-ledger.md", "source-idea-ledger.md", "lineage.jsonl"):
        assert (agent.run / "humanize" / name).is_file()
    assert not (agent.checkout / "humanize").exists()


def test_the_final_report_answers_with_tables_commands_paths_files_and_tests(station: Station) -> None:
    agent = station("stopped")
    campaign = open_campaign(agent.run)
    page = (agent.run / "final_report.md").read_text()
    parts = {p.splitlines()[0]: p for p in page.split("\n## ")[1:]}
    assert campaign.baseline is not None
    assert all(f"{w['mean']:.2f}" in parts["Fixed benchmark"] for w in campaign.baseline["winners"])
    assert "| chat c4 | tie | vllm |" in parts["Post-patch benchmark"]
    assert all(w["server_command"] in parts["Winning commands"] for w in campaign.baseline["winners"])
    assert "history/model-pr-history-notes.md" in parts["History"]
    assert all(p["triage"] in parts["Profiles"] for p in campaign.of("profile"))
    assert "analysis/layer-pipeline.md" in parts["Layer pipeline"]
    assert "speed.json" in parts["Changed files"]
    assert "pytest test_norm.py" in parts["Tests"]
    assert parts["SOTA reached in this environment?"].splitlines()[2].startswith("Yes. A151")


def test_lineage_leads_from_commits_to_attempts_measurements_and_rows(station: Station) -> None:
    agent = station("stopped")
    campaign = open_campaign(agent.run)
    lines = (agent.run / "humanize" / "lineage.jsonl").read_text().splitlines()
    links = {(x["kind"], x["parent"], x["child"]) for x in map(json.loads, lines)}
    (attempt,), (kept,) = campaign.of("attempt"), campaign.of("result")
    measured = campaign.need(kept["measurement"], "measurement")
    assert ("commit", attempt["base_commit"], attempt.id) in links
    assert ("idea", attempt["idea"], attempt.id) in links
    assert ("commit", measured["commit"], measured.id) in links
    assert ("attempt", attempt.id, kept.id) in links
    assert ("commit", kept.id, kept["commit"]) in links
    assert {("row", measured.id, h) for h in measured["rows"]} <= links
    assert len(measured["rows"]) == 6


def test_the_text_of_a_pull_request_spans_benchmark_to_revalidation(station: Station) -> None:
    agent = station("stopped")
    campaign = open_campaign(agent.run)
    text = str(pull_request(campaign).extra["text"])
    parts = {p.splitlines()[0]: p for p in text.split("\n## ")[1:]}
    assert list(parts) == ["Benchmark", "Profile", "Change", "Tests", "Accuracy", "Revalidation"]
    assert "| chat c4 | tie | vllm |" in parts["Benchmark"]
    cause = campaign.last("root_cause")
    assert cause is not None
    assert f"Slow stage {cause['stage']}; analysis/root-cause.md" in parts["Profile"]
    assert "- fused norm" in parts["Change"]
    assert "- speed.json" in parts["Change"]
    assert "- pytest test_norm.py" in parts["Tests"]
    assert "| gsm8k | 0.8380 |" in parts["Accuracy"]
    (kept,) = campaign.of("result")
    assert all(f"{k} {v}" in parts["Revalidation"] for k, v in kept["evidence"].items())


@pytest.mark.parametrize(("last", "told"), [(1520, []), (1519, ["mmlu on 14041 of 14042 questions"])])
def test_a_group_of_subjects_under_another_name_is_counted_by_its_subjects(last: int, told: list[str]) -> None:
    class Recorded:
        def of(self, kind: str) -> list[Any]:
            counts = {"gsm8k_cot": 1319, "mmlu_generative": None, "mmlu_law_generative": 12522}
            counts |= {"mmlu_rest_generative": last}
            scores = [{"dataset": d, "score": 0.7, "samples": n} for d, n in counts.items()]
            return [{"attempt": "a", "commit": "c", "scores": scores}]

    own: Any = {"attempt": "a", "commit": "c"}
    held: Any = Recorded()
    assert _lacking(held, own) == told


def test_a_pull_request_needs_the_whole_gsm8k_and_mmlu_of_its_commit(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = station("validated")
    part = agent.lm_eval(0.838, **{"n-samples": {"gsm8k": {"effective": 1319}, "mmlu": {"effective": 200}}})
    agent.record("accuracy", attempt=agent.notes["attempt"], file=str(part))
    result = agent.record("result", attempt=agent.notes["attempt"], outcome="accepted", reason="it closes the gap")
    agent.record("round_close")
    agent.review(result)
    with pytest.raises(GateRefused, match="C41: .*mmlu on 200 of 14042 questions"):
        pull_request(open_campaign(agent.run))
    held = open_campaign(station("stopped").run)
    made = pull_request(held)
    assert [r[:2] for r in made.tables["accuracy"].rows] == [("gsm8k", "0.8380"), ("mmlu", "0.7000")]
    monkeypatch.setitem(EXPECTED, "humaneval", 164)
    with pytest.raises(GateRefused, match="C41: .*no humaneval"):
        pull_request(held)


def test_what_the_journal_keeps_is_tied_to_point_contract_and_commit(station: Station) -> None:
    from infer_forge.journal import get, open_store

    agent = station("stopped")
    campaign = open_campaign(agent.run)
    assert campaign.contract is not None
    (kept,), (closed,) = campaign.of("result"), campaign.of("round_close")
    with open_store() as journal:
        record = get(journal, closed["journal_records"][0])
    assert (record.kind, record.claim, record.value) == ("result", "model_e2e", kept["gain_pct"])
    assert (record.metric, record.unit) == (f"{campaign.contract[0].metric.name}_gain", "pct")
    assert record.dims["framework_rev"] == [kept["commit"]]
    assert record.contract_sha256 == campaign.contract[1]
    assert record.deployment_point == campaign.contract[0].point
    assert (record.task_id, record.extra["record"]) == (campaign.task_id, kept.id)
    assert {r["contract_sha256"] for r in campaign.of("measurement", "profile", "round_open")} == {campaign.contract[1]}
    assert all(r.get("commit") for r in campaign.of("measurement", "gap", "baseline_lock", "result"))


def test_the_context_that_can_flip_a_conclusion_stands_with_the_rows(station: Station) -> None:
    from infer_forge.bench.ledger_rows import RowStore

    agent = station("planned")
    rows = RowStore(agent.run / "benchmark" / "candidates.jsonl").rows(purposes=["decision"])
    assert len(rows) >= 6
    for row in rows:
        assert (row.hardware.gpu_model, row.hardware.gpu_count, row.identity.dtype) == ("H200", 1, "bf16")
        assert (row.workload.input_len_label_tokens, row.workload.output_len_label_tokens) == (40, 20)
        assert row.workload.max_concurrency == 4
        assert row.identity.attention_backend
        assert row.server_command is not None
        assert "tp-size 1" in row.server_command or "tensor-parallel-size 1" in row.server_command
        assert row.deployment_point_hash is not None
        assert row.server_env is not None
