"""Facts of a server come from its own log, with the line, and never from another framework's grammar."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.engines import server_facts
from tests.engines.fakes.launch import engine

FRAMEWORKS = ["sglang", "vllm", "tensorrt_llm", "tokenspeed"]
WANTED = {"sglang": "fa3", "vllm": "FLASH_ATTN", "tensorrt_llm": "TRTLLM", "tokenspeed": "fa3"}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_backend_and_graph_are_read_from_the_framework_s_own_log(framework: str) -> None:
    with engine(framework) as running:
        facts = server_facts.read_log(running.log)
    assert facts.framework == framework
    assert facts.value("attention_backend") == WANTED[framework]
    assert facts.value("cuda_graph") is True
    assert facts.ready
    assert facts.fallbacks == []


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_fallback_and_a_missing_graph_are_shown_with_their_line(framework: str) -> None:
    with engine(framework, settings="wrong_backend no_cuda_graph") as running:
        facts = server_facts.read_log(running.log)
    gate = server_facts.compare(facts, {"attention_backend": WANTED[framework], "cuda_graph": True})
    assert {m.name for m in gate} == {"attention_backend", "cuda_graph", "fallback"}
    for mismatch in gate:
        assert mismatch.line
        assert mismatch.evidence
    backend = next(m for m in gate if m.name == "attention_backend")
    assert backend.state == "differs"


def test_equal_servers_have_no_mismatch() -> None:
    with engine("sglang") as one, engine("sglang") as two:
        assert server_facts.compare(server_facts.read_log(one.log), server_facts.read_log(two.log)) == []


def test_what_the_running_server_says_outranks_what_it_was_asked_for() -> None:
    with engine("sglang", settings="wrong_backend", words=["--attention-backend", "fa3"]) as running:
        facts = server_facts.read_log(running.log)
    assert facts.value("attention_backend") == "torch_native"
    assert facts.asked["attention_backend"].value == "fa3"


def test_saved_arguments_tell_the_same_names(tmp_path: Path) -> None:
    with engine("sglang", words=["--tp", "2"], settings="no_cuda_graph") as running:
        answer = urllib.request.urlopen(f"{running.url}/get_server_info", timeout=5).read()
    path = tmp_path / "server_args.json"
    path.write_bytes(answer)
    facts = server_facts.read_args(path)
    assert (facts.framework, facts.value("tp"), facts.value("cuda_graph"), facts.value("prefix_cache")) == (
        "sglang",
        2,
        False,
        True,
    )
    path.write_text(json.dumps({"model": "m", "enforce_eager": True, "tensor_parallel_size": 4, "max_num_seqs": 8}))
    facts = server_facts.read_args(path)
    assert (facts.framework, facts.value("tp"), facts.value("cuda_graph")) == ("vllm", 4, False)
    path.write_text("backend: pytorch\nattn_backend: TRTLLM\nmax_batch_size: 4\n")
    assert server_facts.read_args(path).framework == "tensorrt_llm"


@pytest.mark.parametrize("text", ["", "hello\nworld\n", "\x00\xff\x80" * 50])
def test_a_log_of_nobody_known_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.log"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputUnusable, match="no server log"):
        server_facts.read_log(path)
    for content in ("[1]", "hello", "{}", '{"port": 1}'):
        path.write_text(content)
        with pytest.raises(InputUnusable):
            server_facts.read_args(path)


def test_a_fact_that_nobody_states_is_unknown_not_equal() -> None:
    facts = server_facts.facts_of_log("[TRT-LLM] [I] TensorRT-LLM version: 1.3.0\n")
    gate = server_facts.compare(facts, {"attention_backend": "TRTLLM"})
    assert [(m.name, m.state) for m in gate] == [("attention_backend", "unknown")]


@pytest.mark.parametrize("line", server_facts.DIFFUSERS_FALLBACK)
def test_the_diffusers_fallback_is_seen(line: str) -> None:
    text = f"[2026-01-01 00:00:00] server_args=ServerArgs(model_path='flux', attention_backend='fa3')\n[..] {line}\n"
    gate = server_facts.compare(server_facts.facts_of_log(text), {})
    assert ("diffusers_fallback", 2) in {(m.name, m.line) for m in gate}
    alone = server_facts.facts_of_log(f"INFO 12:00:00 {line}\n")
    assert [m.name for m in server_facts.compare(alone, {}) if m.name != "fallback"] == ["diffusers_fallback"]


def test_failures_are_classified(tmp_path: Path) -> None:
    for fault, kind in (("oom_start", "oom"), ("crash_start", "crash"), ("port_in_use", "port_in_use")):
        log = tmp_path / f"{fault}.log"
        with engine("vllm", settings=fault, wait=False, log=log) as running:
            running.process.wait(timeout=10)
        assert server_facts.read_log(log, "vllm").failures[0].name == kind


def test_an_advice_in_an_error_message_is_no_fact() -> None:
    text = (
        "[2026-01-01 00:00:00] Load weight end. type=X\nException: Capture cuda graph failed: an illegal memory access\n"
        "Possible solutions:\n1. disable cuda graph by --disable-cuda-graph\n2. set --attention-backend triton\n"
    )
    facts = server_facts.facts_of_log(text)
    assert facts.value("cuda_graph") is None
    assert facts.value("attention_backend") is None
    assert [f.name for f in facts.failures] == ["crash"]


def test_a_real_vllm_log_tells_its_configuration(corpus: Path) -> None:
    facts = server_facts.read_log(corpus / "crash" / "vllm0.25.1_no_kv_cache_memory.log")
    assert (facts.framework, facts.value("model"), facts.value("cuda_graph"), facts.value("tp")) == (
        "vllm",
        "facebook/opt-125m",
        False,
        1,
    )
    assert "oom" in {f.name for f in facts.failures}
    assert not facts.ready


@pytest.mark.parametrize("text", ['{"a":' * 50_000 + "1" + "}" * 50_000, "[" * 50_000, "- " * 3_000 + "x"])
def test_arguments_nested_beyond_sense_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text(text)
    with pytest.raises(InputUnusable, match="holds no server arguments"):
        server_facts.read_args(file)
