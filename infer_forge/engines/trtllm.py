"""What the product knows of TensorRT-LLM."""

from __future__ import annotations

import re

from infer_forge.engines.grammar import Client, ClientPlan, Grammar, Log, Profile, family_argv

# --- profiles: step annotations and source paths --------------------------------------------------------------------
# Spelling: NVIDIA/TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/py_executor.py: the range around the forward step reads
# `[Executor] _forward_step 17: 2 ctx reqs, 30 gen reqs`; first versions have neither the prefix nor the
# number. It is an NVTX range: it stands in Nsight exports, and in torch traces only where it was recorded as an annotation too.

STEP = re.compile(
    r"^(?:\[Executor\] )?_forward_step(?: (?P<step>\d{1,18}))?: (?P<context>\d{1,9}) ctx reqs, (?P<generation>\d{1,9}) gen reqs$",
    re.ASCII,
)
"""A step of the PyTorch executor."""

SOURCES = ("tensorrt_llm/",)
"""Path pieces of its own Python code."""

PLUMBING = (
    "tensorrt_llm/_torch/pyexecutor/",
    "tensorrt_llm/executor/",
    "tensorrt_llm/_utils.py",
    "tensorrt_llm/llmapi/",
)
"""Own code that launches or schedules, but is not the model."""

# --- running it: command line, client, log, profile control ----------------------------------------------------------
# Server: tensorrt_llm/commands/serve.py; load generator: tensorrt_llm/serve/scripts/benchmark_serving.py, read at 0228a71.
# Only the PyTorch backend is supported (A62): another one is refused, never translated.


def _client_argv(plan: ClientPlan) -> list[str]:
    place, _, name = plan.result.rpartition("/")
    extra = ("--random-ids",) if not plan.prompts_file else ()
    return family_argv(plan, extra=(*extra, "--result-dir", place or ".", "--result-filename", name))


CLIENT = Client(
    name="trtllm benchmark_serving",
    launch=("python", "-m", "tensorrt_llm.serve.scripts.benchmark_serving"),
    argv=_client_argv,
    view="vllm",
    notes=(
        "its random dataset samples ShareGPT unless --random-ids is given",
        "it writes no count of failed requests: completed is compared with the prompts sent",
        "a custom prompt file may not be supported: the help snapshot decides",
    ),
)
"""Its load generator."""


def _launch_env(target: str, first: int, last: int) -> dict[str, str]:
    return {"TLLM_PROFILE_START_STOP": f"{first}-{last}", "TLLM_TORCH_PROFILE_TRACE": target}


GRAMMAR = Grammar(
    name="tensorrt_llm",
    metrics="trtllm_",
    title="TensorRT-LLM",
    aliases=("trtllm", "trt-llm", "tensorrt-llm", "tllm"),
    launches=(("trtllm-serve", "serve"),),
    model_flag=None,
    fixed=("--backend", "pytorch"),
    options={
        "host": "--host",
        "port": "--port",
        "tokenizer": "--tokenizer",
        "revision": "--revision",
        "tp": "--tp_size",
        "pp": "--pp_size",
        "ep": "--ep_size",
        "max_model_len": "--max_seq_len",
        "memory_fraction": "--kv_cache_free_gpu_memory_fraction",
        "kv_cache_dtype": "--kv_cache_dtype",
        "max_running_requests": "--max_batch_size",
        "chunked_prefill_size": "--max_num_tokens",
        "reasoning_parser": "--reasoning_parser",
        "tool_call_parser": "--tool_parser",
        "config_file": "--extra_llm_api_options",
        "backend": "--backend",
    },
    switches={
        "trust_remote_code": ("--trust_remote_code", None),
        "chunked_prefill": ("--enable_chunked_prefill", None),
    },
    arguments={
        "model": "model",
        "tokenizer": "tokenizer",
        "tensor_parallel_size": "tp",
        "pipeline_parallel_size": "pp",
        "moe_expert_parallel_size": "ep",
        "max_batch_size": "max_running_requests",
        "max_num_tokens": "chunked_prefill_size",
        "max_seq_len": "max_model_len",
        "attn_backend": "attention_backend",
        "dtype": "dtype",
        "backend": "backend",
    },
    help_argv=("--help",),
    version_argv=("python", "-c", "import importlib.metadata as m; print(m.version('tensorrt_llm'))"),
    packages=("tensorrt_llm", "tensorrt-llm", "torch", "triton", "transformers", "flashinfer-python"),
    environment=("TLLM_", "TRTLLM_", "TRT_"),
    client=CLIENT,
    profile=Profile(
        control="launch_env",
        launch_env=_launch_env,
        counts_steps=True,
        patterns=("*.json", "*.json.gz"),
        note="the range counts iterations since the launch, warm-up included; the file appears when its last one is over",
    ),
    log=Log(
        signatures=(r"\[TRT-LLM\]", r"TensorRT-LLM version", r"\[TensorRT-LLM\]", r"tensorrt_llm[./]"),
        facts={
            "version": r"TensorRT-LLM version:? (?P<value>\S+)",
            "attention_backend": r"[Uu]sing attention backend:? (?P<value>[\w-]+)",
        },
        states={
            "backend": (
                (r"Using LLM with PyTorch backend", "pytorch"),
                (r"Using LLM with TensorRT backend", "tensorrt"),
            ),
            "cuda_graph": (
                (r"CUDA graph enabled|Capturing CUDA graph|CUDA graph warmup", True),
                (r"CUDA graph disabled", False),
            ),
        },
        fallbacks=(r"[Ff]all(?:ing|s)? ?back to ", r"is not supported here, fallback"),
        failures={
            "oom": (r"CUDA out of memory", r"OutOfMemoryError", r"not enough memory"),
            "port_in_use": (r"[Aa]ddress already in use",),
            "crash": (r"CUDA error:", r"Segmentation fault", r"MPI_ABORT", r"Fatal Python error"),
            "missing_part": (r"ModuleNotFoundError", r"ImportError:", r"No module named"),
            "bad_config": (r"ValidationError", r"ValueError:", r"No such option"),
        },
        ready=(r"Uvicorn running on", r"Application startup complete"),
    ),
)
"""How TensorRT-LLM is run."""
