"""What the product knows of SGLang."""

from __future__ import annotations

import re
from collections.abc import Mapping

from infer_forge.engines.grammar import Client, ClientPlan, Grammar, Log, Profile

# --- profiles: step annotations and source paths --------------------------------------------------------------------
# Spelling: sgl-project/sglang, python/sglang/srt/model_executor/step_span_utils.py (read at 2502c66c), introduced by
# PR #24911: `step[MODE bs=B]`, with `toks=T` for EXTEND. With detailed annotations the sums over the requests follow,
# context as `c_..` and generation as `g_..`: sq = sum of N_Q, sk = sum of N_KV, sqsq, sqsk; MIXED also counts `c=` and `g=`.

STEP = re.compile(r"^step\[(?P<mode>[A-Z][A-Z_0-9]*)(?P<fields>(?: \w+=\d{1,18})*)\]$", re.ASCII)
"""A step span."""

CAPTURE = re.compile(r"^capture_(?P<batch>\d{1,9})_(?P<mode>[A-Z][A-Z_]*)$", re.ASCII)
"""The capture of one CUDA graph, as traces with `capture_32_DECODE` spell it."""

MODES = {
    "EXTEND": ("prefill", "extend"),
    "SPLIT_PREFILL": ("prefill", "split_prefill"),
    "PREBUILT": ("prefill", "prebuilt"),
    "DECODE": ("decode", "decode"),
    "MIXED": ("mixed", "mixed"),
    "TARGET_VERIFY": ("decode", "verify"),
    "DRAFT_EXTEND": ("decode", "draft_extend"),
    "DRAFT_EXTEND_V2": ("decode", "draft_extend"),
    "DLLM_EXTEND": ("denoise", "dllm_extend"),
    "IDLE": ("step", "idle"),
}
"""`ForwardMode` name -> (stage, kind). Draft extend runs inside a decode step of speculative decoding."""

SOURCES = ("python/sglang/", "/sglang/srt/", "sglang/srt/", "sglang/jit_kernel/", "sglang/multimodal_gen/", "sglang/")
"""Path pieces of its own Python code, as `python_function` names spell them."""

PLUMBING = (
    "sglang/srt/managers/",
    "sglang/srt/utils",
    "sglang/srt/environ.py",
    "sglang/srt/model_executor/cuda_graph",
    "sglang/srt/model_executor/forward_context.py",
    "sglang/srt/compilation/",
    "sglang/srt/observability/",
)
"""Own code that launches or schedules, but is not the model: taken only when no better frame exists."""

# --- running it: command line, client, log, profile control ----------------------------------------------------------
# Server flags: python/sglang/srt/server_args.py; load generator: sglang/benchmark/serving.py; read at 0.5.23. The image's
# own --help wins: `engine help-snapshot` and the flag check are there for that.


def _client_argv(plan: ClientPlan) -> list[str]:
    chat = "chat" in plan.endpoint
    words = [
        "--backend",
        "sglang-oai-chat" if chat else "sglang-oai",
        "--base-url",
        plan.base_url,
        "--model",
        plan.model,
    ]
    if plan.tokenizer:
        words += ["--tokenizer", plan.tokenizer]
    if plan.prompts_file:
        words += ["--dataset-name", "custom", "--dataset-path", plan.prompts_file]
        words += ["--sharegpt-output-len", str(plan.output_len)]
    else:
        words += ["--dataset-name", "random", "--random-input-len", str(plan.input_len)]
        words += ["--random-output-len", str(plan.output_len), "--random-range-ratio", "1.0"]
    words += ["--num-prompts", str(plan.num_prompts), "--seed", str(plan.seed), "--warmup-requests", str(plan.warmups)]
    words += ["--request-rate", "inf" if plan.request_rate is None else f"{plan.request_rate:g}"]
    if plan.concurrency is not None:
        words += ["--max-concurrency", str(plan.concurrency)]
    if not plan.ignore_eos:
        words.append("--disable-ignore-eos")
    sampling = f'{{"temperature": {plan.temperature:g}, "top_p": {plan.top_p:g}}}'
    return [*words, "--extra-request-body", sampling, "--output-details", "--output-file", plan.result]


CLIENT = Client(
    name="sglang.bench_serving",
    launch=("python", "-m", "sglang.bench_serving"),
    argv=_client_argv,
    view="sglang",
    notes=(
        "a range ratio of 1.0 is its way to say exactly the asked length; 0.0 samples down to 1",
        "ignore_eos is on by default and off elsewhere",
        "it appends to its result file: one run, one file",
    ),
)
"""Its load generator."""


def _profile_request(wish: Mapping[str, object]) -> dict[str, object] | None:
    body: dict[str, object] = {"output_dir": wish["output_dir"], "activities": wish.get("activities") or ["CPU", "GPU"]}
    for name in (
        "num_steps",
        "start_step",
        "profile_by_stage",
        "with_stack",
        "record_shapes",
        "profile_id",
        "profile_prefix",
    ):
        if wish.get(name) is not None:
            body[name] = wish[name]
    return body


GRAMMAR = Grammar(
    name="sglang",
    metrics="sglang:",
    title="SGLang",
    aliases=("sgl", "sgl-project/sglang"),
    launches=(("python", "-m", "sglang.launch_server"), ("sglang", "serve")),
    model_flag="--model-path",
    options={
        "host": "--host",
        "port": "--port",
        "tokenizer": "--tokenizer-path",
        "revision": "--revision",
        "served_model_name": "--served-model-name",
        "tp": "--tp-size",
        "pp": "--pp-size",
        "dp": "--dp-size",
        "ep": "--ep-size",
        "dtype": "--dtype",
        "quantization": "--quantization",
        "kv_cache_dtype": "--kv-cache-dtype",
        "max_model_len": "--context-length",
        "memory_fraction": "--mem-fraction-static",
        "max_running_requests": "--max-running-requests",
        "chunked_prefill_size": "--chunked-prefill-size",
        "attention_backend": "--attention-backend",
        "moe_backend": "--moe-runner-backend",
        "seed": "--random-seed",
        "cuda_graph_max_bs": "--cuda-graph-max-bs",
        "stream_interval": "--stream-interval",
        "reasoning_parser": "--reasoning-parser",
        "tool_call_parser": "--tool-call-parser",
        "page_size": "--page-size",
        "schedule_policy": "--schedule-policy",
        "speculative_algorithm": "--speculative-algorithm",
        "speculative_model": "--speculative-draft-model-path",
        "speculative_steps": "--speculative-num-steps",
        "speculative_topk": "--speculative-eagle-topk",
        "speculative_tokens": "--speculative-num-draft-tokens",
    },
    switches={
        "trust_remote_code": ("--trust-remote-code", None),
        "prefix_cache": (None, "--disable-radix-cache"),
        "cuda_graph": (None, "--disable-cuda-graph"),
        "overlap_schedule": (None, "--disable-overlap-schedule"),
        "dp_attention": ("--enable-dp-attention", None),
        "torch_compile": ("--enable-torch-compile", None),
        "mixed_chunk": ("--enable-mixed-chunk", None),
        "two_batch_overlap": ("--enable-two-batch-overlap", None),
        "metrics": ("--enable-metrics", None),
    },
    arguments={
        "model_path": "model",
        "served_model_name": "served_model_name",
        "tokenizer_path": "tokenizer",
        "tp_size": "tp",
        "pp_size": "pp",
        "dp_size": "dp",
        "ep_size": "ep",
        "dtype": "dtype",
        "quantization": "quantization",
        "kv_cache_dtype": "kv_cache_dtype",
        "context_length": "max_model_len",
        "mem_fraction_static": "memory_fraction",
        "max_running_requests": "max_running_requests",
        "chunked_prefill_size": "chunked_prefill_size",
        "attention_backend": "attention_backend",
        "prefill_attention_backend": "prefill_attention_backend",
        "decode_attention_backend": "decode_attention_backend",
        "sampling_backend": "sampling_backend",
        "moe_runner_backend": "moe_backend",
        "disable_cuda_graph": "!cuda_graph",
        "disable_radix_cache": "!prefix_cache",
        "disable_overlap_schedule": "!overlap_schedule",
        "speculative_algorithm": "speculative_algorithm",
        "speculative_num_steps": "speculative_steps",
        "speculative_num_draft_tokens": "speculative_tokens",
        "random_seed": "seed",
        "trust_remote_code": "trust_remote_code",
        "version": "version",
        "max_total_num_tokens": "kv_cache_tokens",
        "port": "port",
    },
    help_argv=("--help",),
    version_argv=("python", "-c", "import importlib.metadata as m; print(m.version('sglang'))"),
    packages=("sglang", "sgl-kernel", "flashinfer-python", "torch", "triton", "transformers"),
    environment=("SGLANG_", "SGL_", "FLASHINFER_", "DG_"),
    facts_route="/get_server_info",
    flush_route="/flush_cache",
    client=CLIENT,
    profile=Profile(
        control="http",
        start_route="/start_profile",
        stop_route="/stop_profile",
        directory_variable="SGLANG_TORCH_PROFILER_DIR",
        request=_profile_request,
        by_stage=True,
        counts_steps=True,
        patterns=("*-TP-*.trace.json.gz",),
        note="profile_by_stage counts a speculative verify step as prefill: trust the annotations, not the file name",
    ),
    log=Log(
        signatures=(
            r"server_args=ServerArgs\(",
            r"The server is fired up and ready to roll",
            r"sglang[./](?:srt|multimodal_gen)",
            r"Load weight end\. ",
            r"(?:Falling back to|Using) diffusers backend|Loaded diffusers pipeline",
        ),
        facts={
            "attention_backend": r"[Uu]sing (?P<value>[\w-]+) as attention backend",
            "kv_cache_tokens": r"max_total_num_tokens=(?P<value>\d+)",
            "context_len": r"context_len=(?P<value>\d+)",
        },
        states={
            "cuda_graph": (
                (r"Capture cuda graph end", True),
                (
                    r"(?:^|\] |INFO:? )(?:CUDA graph is disabled|Cuda graph is disabled|Disable cuda graph because)",
                    False,
                ),
            ),
        },
        fallbacks=(
            r"[Ff]all(?:ing|s)? ?back to ",
            r"Using diffusers backend",
            r"Loaded diffusers pipeline",
            r"is not (?:available|supported).*(?:using|fallback)",
        ),
        failures={
            "oom": (r"Not enough memory\. Please try", r"CUDA out of memory", r"OutOfMemoryError"),
            "port_in_use": (r"address already in use",),
            "crash": (
                r"CUDA error:",
                r"Scheduler hit an exception",
                r"Capture cuda graph failed",
                r"Fatal Python error",
                r"Segmentation fault",
            ),
            "missing_part": (r"ModuleNotFoundError", r"ImportError:", r"No module named"),
            "bad_config": (r"ValueError:", r"AssertionError", r"error: unrecognized arguments"),
        },
        periodic=("Decode batch", "Prefill batch", '"POST /', '"GET /'),
        ready=(r"The server is fired up and ready to roll",),
        arguments=((r"server_args=ServerArgs\((?P<value>.*)\)", "repr"),),
    ),
)
"""How SGLang is run."""
