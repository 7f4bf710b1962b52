"""Parts of a campaign that need no played run: roots, inputs, comparison set, result files, pages."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.base import contracts
from infer_forge.base.contract_model import QualityGate, Soak
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.campaign import (
    accuracy,
    advice,
    begin,
    book,
    companions,
    inputs,
    mechanism,
    pages,
    recording,
    stability,
)
from infer_forge.campaign.layout import run_name, slug
from tests.campaign.campaign_agent import READ, make_checkout

# ------------------------------------------------------------------------------------------------------------ roots


@pytest.mark.parametrize(
    ("environ", "first"),
    [({"CLAUDECODE": "1"}, ".claude"), ({"CODEX_SANDBOX": "x"}, ".codex"), ({}, ".claude")],
)
def test_the_running_clients_skills_come_first(environ: dict[str, str], first: str, tmp_path: Path) -> None:
    roots = companions.skill_roots({**environ, "HOME": str(tmp_path)})
    assert first in str(roots[0])
    assert len(roots) == 3


def test_codex_home_moves_its_root(tmp_path: Path) -> None:
    roots = companions.skill_roots({"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "c"), "CODEX_SANDBOX": "x"})
    assert roots[0] == tmp_path / "c" / "skills"


def test_a_linked_skill_is_followed(tmp_path: Path) -> None:
    real = tmp_path / "dev" / "ncu-report"
    real.mkdir(parents=True)
    (real / "SKILL.md").write_text("x")
    root = tmp_path / ".claude" / "skills"
    root.mkdir(parents=True)
    (root / "ncu-report").symlink_to(real)
    assert companions.find_skill("ncu-report", {"HOME": str(tmp_path)}).path == real


def test_the_next_step_of_a_new_campaign_names_the_pages_to_read_and_then_only_those_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    given = {"model": "a/qwen3-8b", "gpu_model": "H200", "gpu_count": 1, "precision": "bf16"}
    begin.init(given, root=tmp_path, checkout=make_checkout(tmp_path / "sglang"), compare=["vllm"])
    (run,) = (tmp_path / "runs").iterdir()
    campaign = book.open_campaign(run)
    step = advice.next_step(campaign)
    pages = step.command.split("read=")[1].split(",")
    assert [Path(p).parent.name for p in pages] == list(READ)
    assert all(Path(p).is_file() for p in pages)
    campaign, _ = recording.record(campaign, "companions", {"read": pages[:3]})
    left = advice.next_step(campaign)
    assert left.command.endswith(f"--set read={pages[3]}")
    assert "not read: history" in left.why


def test_the_loop_runtime_is_found_by_variable_by_skill_by_plugin_or_every_place_is_told(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert companions.find_runtime(env).path is None
    assert len(companions.find_runtime(env).tried) == 3
    plugin = tmp_path / ".claude" / "plugins" / "p" / "scripts" / "setup-rlcr-loop.sh"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("")
    assert companions.find_runtime(env).path == plugin.parent.parent
    skill = tmp_path / ".claude" / "skills" / "humanize" / "scripts" / "setup-rlcr-loop.sh"
    skill.parent.mkdir(parents=True)
    skill.write_text("")
    assert companions.find_runtime(env).path == skill.parent.parent
    named = tmp_path / "named"
    missing = companions.find_runtime({**env, "HUMANIZE_RUNTIME_ROOT": str(named)})
    assert missing.path is None
    assert missing.tried == [str(named)]


def test_history_lies_in_the_checkout_or_beside_the_skills(tmp_path: Path) -> None:
    assert companions.find_history(tmp_path, {"HOME": str(tmp_path)}).path is None
    (tmp_path / "model-pr-optimization-history").mkdir()
    assert companions.find_history(tmp_path, {"HOME": str(tmp_path)}).path == tmp_path / "model-pr-optimization-history"


# ----------------------------------------------------------------------------------------------------------- inputs


@given(st.text(min_size=1, max_size=80))
def test_every_run_name_is_a_date_a_slug_and_the_kind(text: str) -> None:
    try:
        name = run_name(text, datetime.date(2026, 1, 2))
    except UsageFault:
        return
    assert name.startswith("20260102_")
    assert name.endswith("_sota_humanize")
    assert all(c in "abcdefghijklmnopqrstuvwxyz0123456789_" for c in name)


def test_a_slug_is_made_of_the_last_part_of_an_id() -> None:
    assert slug("deepseek-ai/DeepSeek-V3.2") == "deepseek_v3_2"
    with pytest.raises(UsageFault):
        slug("///")


def test_the_comparison_set_is_what_was_named_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen, notes = inputs.frameworks_of(compare=["vLLM", "trt-llm"])
    assert chosen["selected"] == ["vllm", "tensorrt_llm"]
    assert list(chosen["excluded"]) == ["tokenspeed"]
    assert notes
    only, _ = inputs.frameworks_of(only=["vllm"])
    assert only["selected"] == ["vllm"]
    (tmp_path / "vllm").write_text("#!/bin/sh\n")
    (tmp_path / "vllm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    default, _ = inputs.frameworks_of(exclude=["tokenspeed"])
    assert default["selected"] == ["vllm"]
    assert set(default["unsupported"]) == {"tensorrt_llm"}
    assert set(default["excluded"]) == {"tokenspeed"}


@pytest.mark.parametrize(
    "names", [{"compare": ["sglang"]}, {"compare": ["nope"]}, {"compare": ["vllm"], "exclude": ["vllm"]}]
)
def test_a_wrong_comparison_set_is_refused(names: dict[str, list[str]]) -> None:
    with pytest.raises(UsageFault):
        inputs.frameworks_of(**names)


def test_a_person_is_asked_for_three_things_at_the_most() -> None:
    assert set(inputs.Inputs().missing()) == set(inputs.ASKED)
    known = inputs.Inputs({"model": "m", "gpu_model": "H200", "gpu_count": 1, "quantization": "fp8"})
    assert known.missing() == []


# ------------------------------------------------------------------------------------------------------ result files


def contract(**more: Any) -> Any:
    base = {
        "name": "n",
        "point": {},
        "grid": {"scenarios": [{"name": "a", "input_len": 1, "output_len": 1}]},
        "sla": {},
        "client": {},
        "engines": [{"framework": "sglang", "max_runs": 1, "max_minutes": 1}],
    }
    return contracts.contract_of({**base, **more})


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (
            json.dumps(
                {
                    "results": {
                        "gsm8k": {
                            "alias": "gsm8k",
                            "exact_match,strict-match": 0.91,
                            "exact_match_stderr,strict-match": 0.01,
                        }
                    }
                }
            ),
            0.91,
        ),
        (json.dumps({"task": "gsm8k", "accuracy": 0.88, "num_requests": 200}) + "\n", 0.88),
        ("Latency: 3.2 s\nAccuracy: 0.745\nInvalid: 0.000\n", 0.745),
    ],
)
def test_accuracy_is_read_from_lm_eval_and_from_sglangs_benchmarks(text: str, score: float, tmp_path: Path) -> None:
    place = tmp_path / "result"
    place.write_text(text)
    found = accuracy.read_scores(place, "gsm8k")
    assert [(s.dataset, s.score) for s in found] == [("gsm8k", score)]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"results": 3}', "accuracy: high", '{"accuracy": true}', '{"accuracy": 91}']
)
def test_what_holds_no_accuracy_is_refused(text: str, tmp_path: Path) -> None:
    place = tmp_path / "result"
    place.write_text(text)
    with pytest.raises(InputUnusable):
        accuracy.read_scores(place)


def test_accuracy_is_judged_by_floor_and_tolerance() -> None:
    made = contract(accuracy=[{"dataset": "gsm8k", "metric": "m", "floor": 0.8, "tolerance": 0.01}])
    assert accuracy.judge(made, "gsm8k", 0.85, 0.855)[0] == "pass"
    assert accuracy.judge(made, "gsm8k", 0.84, 0.86)[0] == "fail"
    assert accuracy.judge(made, "gsm8k", 0.79, 0.79)[0] == "fail"
    assert accuracy.judge(made, "gsm8k", 0.85, None)[0] == "unknown"
    assert accuracy.judge(made, "mmlu", 0.85, 0.85)[0] == "unknown"


def test_generated_pictures_are_byte_identical_or_near_enough() -> None:
    strict, near = (
        contract(quality=QualityGate(byte_identical=True).model_dump()),
        contract(quality={"min_psnr_db": 30, "min_ssim": 0.9}),
    )
    same = {"output_sha256": "a", "reference_sha256": "a"}
    other = {"output_sha256": "a", "reference_sha256": "b", "psnr_db": 35, "ssim": 0.95}
    assert accuracy.judge_quality(strict, same)[0] == "pass"
    assert accuracy.judge_quality(strict, other)[0] == "fail"
    assert accuracy.judge_quality(near, other)[0] == "pass"
    assert accuracy.judge_quality(near, {**other, "ssim": 0.5})[0] == "fail"
    assert accuracy.judge_quality(near, {"psnr_db": 35})[0] == "unknown"
    assert accuracy.judge_quality(contract(), other)[0] == "unknown"


def test_a_soak_is_judged_by_errors_restarts_minutes_and_slopes() -> None:
    bounds = Soak(repeats=2, minutes=10, max_memory_growth_bytes_per_hour=1e6, max_p99_growth_per_hour=5)
    good: dict[str, Any] = {
        "minutes": 10,
        "repeats": 2,
        "errors": 0,
        "restarts": 0,
        "memory_bytes": [[0, 1], [300, 1], [600, 1]],
        "p99_ms": [[0, 9], [300, 9], [600, 9]],
    }
    assert stability.judge_soak(good, bounds)[0] == "pass"
    assert stability.judge_soak({**good, "errors": 1}, bounds)[0] == "fail"
    assert stability.judge_soak({**good, "minutes": 9}, bounds)[0] == "fail"
    assert stability.judge_soak({**good, "p99_ms": [[0, 9], [300, 12], [600, 15]]}, bounds)[0] == "fail"
    assert stability.judge_soak({**good, "memory_bytes": None}, bounds)[0] == "unknown"
    assert stability.judge_soak({k: v for k, v in good.items() if k != "errors"}, bounds)[0] == "unknown"


@pytest.mark.parametrize("body", ["[]", '{"minutes": -1}', '{"errors": "none"}', '{"p99_ms": [1, 2]}'])
def test_a_soak_of_another_kind_is_refused(body: str, tmp_path: Path) -> None:
    place = tmp_path / "s.json"
    place.write_text(body)
    with pytest.raises(InputUnusable):
        stability.read_soak(place)


def test_a_mechanism_is_seen_in_text_and_gzip_or_nobody_can_tell(tmp_path: Path) -> None:
    import gzip

    plain, packed = tmp_path / "a.log", tmp_path / "b.json.gz"
    plain.write_text("using fused_norm_kernel\n")
    packed.write_bytes(gzip.compress(b'{"name": "fused_norm_kernel"}'))
    assert mechanism.search_files("fused_norm", [plain])[0] == "seen"
    assert mechanism.search_files("fused_norm", [packed])[0] == "seen"
    assert mechanism.search_files("other", [plain, packed])[0] == "not_seen"
    (tmp_path / "broken.gz").write_bytes(packed.read_bytes()[:12])
    assert mechanism.search_files("other", [plain, tmp_path / "broken.gz"])[0] == "cannot_tell"
    with pytest.raises(UsageFault):
        mechanism.search_files("(", [plain])


# ------------------------------------------------------------------------------------------------------------ pages


def test_the_words_around_a_generated_part_stay_and_its_edits_are_seen(tmp_path: Path) -> None:
    place = tmp_path / "p.md"
    sha = pages.write_page(place, "T", "gain 4.21 %", "Notes:")
    place.write_text(place.read_text() + "We read 4.2 % here.\n")
    assert pages.part_sha256(place) == sha
    assert pages.stray_figures(place) == []
    assert pages.write_page(place, "T", "gain 4.50 %") != sha
    assert "We read 4.2 % here." in place.read_text()
    assert pages.stray_figures(place) == ["4.2 %"]
    place.write_text(place.read_text().replace("4.50", "9.50"))
    assert not pages.same_as(place, "gain 4.50 %")


def test_init_asks_for_what_it_cannot_know_and_takes_it_by_name(tmp_path: Path) -> None:
    from infer_forge.campaign import init, next_report, open_campaign, record

    checkout = make_checkout(tmp_path / "sglang")
    with pytest.raises(UsageFault, match="model is not known"):
        init({}, checkout=checkout, root=tmp_path / "r", compare=["vllm"])
    with pytest.raises(UsageFault, match="gpu"):
        init({"model": "org/M", "gpu": "H200"}, checkout=checkout, root=tmp_path / "r", compare=["vllm"])
    with pytest.raises(UsageFault, match="inside the checkout"):
        init({"model": "org/M"}, checkout=checkout, root=checkout / "r", compare=["vllm"])
    made = init({"model": "org/M"}, checkout=checkout, root=tmp_path / "r", compare=["vllm"])
    again = init({"model": "org/M"}, checkout=checkout, root=tmp_path / "r", compare=["vllm"])
    assert made.extra["run"] == again.extra["run"]
    held = open_campaign(made.extra["run"])
    assert set(made.extra["missing"]) <= {"gpu", "precision_or_quantization"}
    assert "--set precision=VALUE" in next_report(held).next_step
    with pytest.raises(UsageFault, match="fixed at init"):
        record(held, "inputs", {"model": "org/N"})
    after, _ = record(held, "inputs", {"gpu_model": "H200", "gpu_count": 8, "precision": "fp8"})
    assert after.state == "inputs"
