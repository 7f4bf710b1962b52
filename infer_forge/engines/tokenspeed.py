"""What the product knows of TokenSpeed."""

from __future__ import annotations

from collections.abc import Mapping

from infer_forge.engines.grammar import Client, ClientPlan, Grammar, Log, Profile, family_argv

# --- profiles: source paths -----------------------------------------------------------------------------------------
# lightseekorg/tokenspeed (read 2026-11). It writes no step annotation that torch.profiler records: its ranges (`graph_replay`,
# `attn_meta_prep`, ..) are NVTX in a domain of their own, off by default (runtime/utils/nvtx.py). Its forward modes are named as
# SGLang's, and a `step[MODE ..]` span is read with that grammar.

SOURCES = ("python/tokenspeed/", "tokenspeed/runtime/", "tokenspeed_kernel/", "tokenspeed/")
"""Path pieces of its own Python code."""

PLUMBING = (
    "tokenspeed/runtime/execution/",
    "tokenspeed/runtime/managers/",
    "tokenspeed/runtime/cache/",
    "tokenspeed/runtime/engine/",
    "tokenspeed/runtime/utils",
)
"""Own code that launches or schedules, but is not the model."""

# --- running it: command line, client, log, profile control ----------------------------------------------------------
# CLI: docs/guides/cli-commands.md and docs/configuration/compatible-parameters.md of lightseekorg/tokenspeed;
# load generator: python/tokenspeed/bench.py, read at f4d8ec6. `ts` is the same entry point; it is accepted as a verified
# alias, when its help snapshot equals that of `tokenspeed` (A58, A63).


def _client_argv(plan: ClientPlan) -> list[str]:
    extra = ["--num-warmups", str(plan.warmups), "--output-file", plan.result]
    return family_argv(plan, extra=tuple(extra))


CLIENT = Client(
    name="tokenspeed bench serve",
    launch=("tokenspeed", "bench", "serve"),
    argv=_client_argv,
    view="vllm",
    version_argv=("tokenspeed", "version"),
    notes=("ignore_eos is off by default and on in SGLang's client",),
)
"""Its load generator."""


def _launch_env(target: str, _first: int, _last: int) -> dict[str, str]:
    return {"TOKENSPEED_PROFILER_DIR": target}


def _profile_request(wish: Mapping[str, object]) -> dict[str, object] | None:
    body: dict[str, object] = {"output_dir": wish["output_dir"], "activities": wish.get("activities") or ["CPU", "GPU"]}
    for name in ("num_steps", "profile_by_stage", "with_stack", "record_shapes", "profile_id"):
        if wish.get(name) is not None:
            body[name] = wish[name]
    return body


GRAMMAR = Grammar(
    name="tokenspeed",
    metrics="tokenspeed:",
    title="TokenSpeed",
    aliases=("token-speed", "ts", "lightseekorg/tokenspeed"),
    launches=(("tokenspeed", "serve"),),
    verified_aliases=(("ts", "serve"),),
    model_flag=None,
    options={
        "host": "--host",
        "port": "--port",
        "tokenizer": "--tokenizer",
        "revision": "--revision",
        "served_model_name": "--served-model-name",
        "tp": "--tensor-parallel-size",
        "attn_tp": "--attn-tp-size",
        "moe_tp": "--moe-tp-size",
        "dp": "--data-parallel-size",
        "ep": "--expert-parallel-size",
        "dtype": "--dtype",
        "quantization": "--quantization",
        "kv_cache_dtype": "--kv-cache-dtype",
        "max_model_len": "--max-model-len",
        "memory_fraction": "--gpu-memory-utilization",
        "max_running_requests": "--max-num-seqs",
        "chunked_prefill_size": "--chunked-prefill-size",
        "attention_backend": "--attention-backend",
        "moe_backend": "--moe-backend",
        "seed": "--seed",
        "cuda_graph_max_bs": "--max-cudagraph-capture-size",
        "reasoning_parser": "--reasoning-parser",
        "tool_call_parser": "--tool-call-parser",
        "page_size": "--block-size",
        "comm_fusion_max_num_tokens": "--comm-fusion-max-num-tokens",
        "speculative_config": "--speculative-config",
    },
    switches={
        "trust_remote_code": ("--trust-remote-code", None),
        "prefix_cache": ("--enable-prefix-caching", "--no-enable-prefix-caching"),
        "cuda_graph": (None, "--enforce-eager"),
        "expert_parallel": ("--enable-expert-parallel", None),
    },
    arguments={
        "model": "model",
        "model_path": "model",
        "tokenizer": "tokenizer",
        "attn_tp_size": "tp",
        "moe_tp_size": "moe_tp",
        "data_parallel_size": "dp",
        "ep_size": "ep",
        "enable_expert_parallel": "expert_parallel",
        "dtype": "dtype",
        "quantization": "quantization",
        "kv_cache_dtype": "kv_cache_dtype",
        "attention_backend": "attention_backend",
        "moe_backend": "moe_backend",
        "enforce_eager": "!cuda_graph",
        "enable_prefix_caching": "prefix_cache",
        "comm_fusion_max_num_tokens": "comm_fusion_max_num_tokens",
        "max_model_len": "max_model_len",
        "max_num_seqs": "max_running_requests",
    },
    help_argv=("--help",),
    version_argv=("tokenspeed", "version"),
    packages=("tokenspeed", "tokenspeed-kernel", "tokenspeed-scheduler", "torch", "triton", "transformers"),
    environment=("TOKENSPEED_",),
    client=CLIENT,
    profile=Profile(
        control="run_directory",
        start_route="/start_profile",
        stop_route="/stop_profile",
        directory_variable="TOKENSPEED_PROFILER_DIR",
        launch_env=_launch_env,
        request=_profile_request,
        by_stage=True,
        counts_steps=True,
        note="the routes are used only where the running build offers them; otherwise traces of its run directory are read (A116)",
    ),
    log=Log(
        signatures=(r"TokenSpeed v\d", r"tokenspeed[./](?:runtime|cli)", r"\bTOKENSPEED_", r"attn_tp_size=\d"),
        facts={
            "version": r"TokenSpeed v(?P<value>\S+)",
            "attention_backend": r"\battention_backend=(?P<value>[\w-]+)",
            "tp": r"\battn_tp_size=(?P<value>\d+)",
            "moe_tp": r"\bmoe_tp_size=(?P<value>\d+)",
        },
        states={"cuda_graph": ((r"\bcuda_graph=on\b", True), (r"\bcuda_graph=off\b|enforce_eager=True", False))},
        fallbacks=(r"[Ff]all(?:ing|s)? ?back to ",),
        failures={
            "oom": (r"CUDA out of memory", r"OutOfMemoryError"),
            "port_in_use": (r"[Aa]ddress already in use",),
            "crash": (r"CUDA error:", r"Fatal Python error", r"engine process (?:died|exited)"),
            "missing_part": (r"ModuleNotFoundError", r"ImportError:", r"No module named", r"pip install"),
            "bad_config": (r"ValueError:", r"error: unrecognized arguments"),
        },
        ready=(r"gateway ready", r"Uvicorn running on", r"ready to serve"),
    ),
)
"""How TokenSpeed is run."""
