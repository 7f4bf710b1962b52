"""What the product knows of vLLM."""

from __future__ import annotations

import re

from infer_forge.engines.grammar import Client, ClientPlan, Grammar, Log, Profile, family_argv

# --- profiles: step annotations and source paths --------------------------------------------------------------------
# Spelling: vllm-project/vllm PR #22496 introduced `execute_context_N(T)_generation_M(T)` (requests, then their tokens);
# a later form adds a second number in the brackets, `(888_788544)` (kept as `second`); PR #37524 and #45069 added
# `execute_B_context_N(sq..sk..sqsq..sqsk..)_generation_M(..)` with the sums over the requests.

STEP = re.compile(
    r"^execute_(?:(?P<total>\d{1,18})_)?context_(?P<context>\d{1,9})\((?P<context_in>[^()]*)\)"
    r"_generation_(?P<generation>\d{1,9})\((?P<generation_in>[^()]*)\)$",
    re.ASCII,
)
"""A step of the model runner."""

SUM = re.compile(r"(sqsq|sqsk|sq|sk)(\d{1,30})", re.ASCII)
"""One sum inside the brackets of the newer form."""

CAPTURE = re.compile(r"^capture_(?P<batch>\d{1,9})_(?P<mode>FULL|PIECEWISE|FULL_DECODE_ONLY)$", re.ASCII)
"""The capture of the CUDA graphs of one batch size."""

SOURCES = ("vllm/",)
"""Path pieces of its own Python code."""

PLUMBING = (
    "vllm/v1/worker/",
    "vllm/v1/engine/",
    "vllm/v1/executor/",
    "vllm/v1/core/",
    "vllm/compilation/",
    "vllm/worker/",
    "vllm/utils",
    "vllm/forward_context.py",
    "vllm/profiler/",
    "vllm/envs.py",
    "vllm/_custom_ops.py",
    "vllm/_aiter_ops.py",
)
"""Own code that launches or schedules, but is not the model."""

# --- running it: command line, client, log, profile control ----------------------------------------------------------
# Server flags: vllm/engine/arg_utils.py; load generator: vllm/benchmarks/serve.py, read at 009e6d4 (0.25.1). Profiler:
# --profiler-config since 0.13; before it the variable VLLM_TORCH_PROFILER_DIR (dropped in 0.21).


def _client_argv(plan: ClientPlan) -> list[str]:
    place, _, name = plan.result.rpartition("/")
    extra = ["--num-warmups", str(plan.warmups), "--result-dir", place or ".", "--result-filename", name]
    if plan.prompts_file:
        extra += ["--custom-output-len", str(plan.output_len), "--custom-skip-chat-template"]
    return family_argv(plan, extra=tuple(extra))


CLIENT = Client(
    name="vllm bench serve",
    launch=("vllm", "bench", "serve"),
    argv=_client_argv,
    view="vllm",
    version_argv=("vllm", "--version"),
    notes=(
        "it sends no temperature unless told, so the server's default would count",
        "ignore_eos is off by default and on in SGLang's client",
        "e2el is not among the default percentile metrics",
    ),
)
"""Its load generator."""


def _profiler_flags(folder: str) -> list[str]:
    return ["--profiler-config", f'{{"profiler": "torch", "torch_profiler_dir": "{folder}"}}']


GRAMMAR = Grammar(
    name="vllm",
    metrics="vllm:",
    title="vLLM",
    aliases=("vllm-project/vllm",),
    launches=(("vllm", "serve"),),
    model_flag=None,
    options={
        "host": "--host",
        "port": "--port",
        "tokenizer": "--tokenizer",
        "revision": "--revision",
        "served_model_name": "--served-model-name",
        "tp": "--tensor-parallel-size",
        "pp": "--pipeline-parallel-size",
        "dp": "--data-parallel-size",
        "dtype": "--dtype",
        "quantization": "--quantization",
        "kv_cache_dtype": "--kv-cache-dtype",
        "max_model_len": "--max-model-len",
        "memory_fraction": "--gpu-memory-utilization",
        "max_running_requests": "--max-num-seqs",
        "chunked_prefill_size": "--max-num-batched-tokens",
        "attention_backend": "--attention-backend",
        "seed": "--seed",
        "cuda_graph_max_bs": "--max-cudagraph-capture-size",
        "stream_interval": "--stream-interval",
        "reasoning_parser": "--reasoning-parser",
        "tool_call_parser": "--tool-call-parser",
        "page_size": "--block-size",
        "speculative_config": "--speculative-config",
        "compilation_config": "--compilation-config",
    },
    switches={
        "trust_remote_code": ("--trust-remote-code", None),
        "prefix_cache": ("--enable-prefix-caching", "--no-enable-prefix-caching"),
        "chunked_prefill": ("--enable-chunked-prefill", "--no-enable-chunked-prefill"),
        "cuda_graph": (None, "--enforce-eager"),
        "overlap_schedule": ("--async-scheduling", "--no-async-scheduling"),
        "expert_parallel": ("--enable-expert-parallel", None),
    },
    arguments={
        "model": "model",
        "model_tag": "model",
        "served_model_name": "served_model_name",
        "tokenizer": "tokenizer",
        "tensor_parallel_size": "tp",
        "pipeline_parallel_size": "pp",
        "data_parallel_size": "dp",
        "enable_expert_parallel": "expert_parallel",
        "dtype": "dtype",
        "quantization": "quantization",
        "kv_cache_dtype": "kv_cache_dtype",
        "max_model_len": "max_model_len",
        "max_seq_len": "max_model_len",
        "gpu_memory_utilization": "memory_fraction",
        "max_num_seqs": "max_running_requests",
        "max_num_batched_tokens": "chunked_prefill_size",
        "attention_backend": "attention_backend",
        "enforce_eager": "!cuda_graph",
        "enable_prefix_caching": "prefix_cache",
        "seed": "seed",
        "trust_remote_code": "trust_remote_code",
        "port": "port",
    },
    help_argv=("--help=all",),
    version_argv=("vllm", "--version"),
    packages=("vllm", "flashinfer-python", "flash-attn", "torch", "triton", "transformers", "deep-gemm"),
    environment=("VLLM_", "FLASHINFER_", "DG_"),
    flush_route="/reset_prefix_cache",
    client=CLIENT,
    profile=Profile(
        control="http_if_told",
        start_route="/start_profile",
        stop_route="/stop_profile",
        directory_variable="VLLM_TORCH_PROFILER_DIR",
        launch_flags=_profiler_flags,
        patterns=("*.pt.trace.json.gz", "*.pt.trace.json"),
        note="stop_profile exports synchronously: minutes with stacks, and nothing is served meanwhile",
    ),
    log=Log(
        signatures=(
            r"vLLM API server version",
            r"\(APIServer pid=\d+\)",
            r"vllm[./](?:v1|engine|entrypoints)",
            r"\(EngineCore",
        ),
        facts={
            "version": r"vLLM API server version (?P<value>\S+)",
            "attention_backend": r"[Uu]sing (?P<value>[\w-]+)(?: attention)? backend(?: out of|\.| on V1|$)",
            "kv_cache_tokens": r"GPU KV cache size: (?P<value>[\d,]+) tokens",
        },
        states={
            "prefix_cache": ((r"enable_prefix_caching=True", True), (r"enable_prefix_caching=False", False)),
            "cuda_graph": (
                (r"Graph capturing finished", True),
                (r"[Cc]udagraph is disabled|enforce_eager=True|CUDA graph is not supported", False),
            ),
        },
        fallbacks=(r"[Ff]all(?:ing|s)? ?back to ", r"Cannot use \S+ backend"),
        failures={
            "oom": (
                r"No available memory for the cache blocks",
                r"CUDA out of memory",
                r"OutOfMemoryError",
                r"less than desired GPU memory",
            ),
            "port_in_use": (r"[Aa]ddress already in use",),
            "crash": (r"CUDA error:", r"EngineCore (?:encountered|failed)", r"EngineDeadError", r"Fatal Python error"),
            "missing_part": (r"ModuleNotFoundError", r"ImportError:", r"No module named"),
            "bad_config": (r"ValidationError", r"ValueError:", r"error: unrecognized arguments"),
        },
        periodic=("Avg prompt throughput", '"POST /', '"GET /'),
        ready=(r"Application startup complete",),
        arguments=((r"non-default args: (?P<value>\{.*\})", "dict"), (r"with config: (?P<value>model=.*)", "repr")),
    ),
)
"""How vLLM is run."""
