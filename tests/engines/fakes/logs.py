"""What a fake engine writes and tells of itself: log lines, crash texts, server facts, metrics. Our own words and numbers."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from tests.engines.fakes.settings import Settings

if TYPE_CHECKING:
    from tests.engines.fakes.server import Engine

VERSIONS = {"sglang": "0.5.23", "vllm": "0.25.1", "tensorrt_llm": "1.3.0", "tokenspeed": "0.4.0"}
BACKENDS = {"sglang": "fa3", "vllm": "FLASH_ATTN", "tensorrt_llm": "TRTLLM", "tokenspeed": "fa3"}
FALLBACKS = {"sglang": "torch_native", "vllm": "TORCH_SDPA", "tensorrt_llm": "VANILLA", "tokenspeed": "triton"}


def version(framework: str, settings: Settings) -> str:
    """The version it says it has."""
    return settings.version or VERSIONS[framework]


def line(framework: str, text: str) -> str:
    """A log line in the engine's style."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    if framework == "sglang":
        return f"[{now}] {text}"
    if framework == "vllm":
        return f"(APIServer pid={os.getpid()}) INFO {time.strftime('%m-%d %H:%M:%S')} [launcher.py:47] {text}"
    if framework == "tensorrt_llm":
        return f"[{time.strftime('%m/%d/%Y-%H:%M:%S')}] [TRT-LLM] [I] {text}"
    return f"[engine] {now} INFO {text}"


def start_lines(engine: Engine) -> list[str]:
    """What it says while it starts."""
    framework, settings, options = engine.framework, engine.settings, engine.options
    wanted = str(options.get("attention_backend") or BACKENDS[framework])
    used = FALLBACKS[framework] if settings.wrong_backend else wanted
    graph = not settings.no_cuda_graph
    model = options["model"]
    if framework == "sglang":
        args = f"server_args=ServerArgs(model_path='{model}', tp_size={options.get('tp') or 1}, attention_backend='{wanted}',"
        lines = [
            f"{args} disable_cuda_graph={not graph}, port={options['port']}, random_seed=42)",
            "Init torch distributed begin.",
        ]
        if settings.wrong_backend:
            lines.append(f"Attention backend {wanted} is not available on this device, falling back to {used}.")
        lines += [
            f"Using {used} as attention backend for decode.",
            "Load weight end. type=FakeForCausalLM, dtype=torch.bfloat16",
        ]
        lines.append(
            "Capture cuda graph end. Time elapsed: 0.02 s."
            if graph
            else "Disable cuda graph because --disable-cuda-graph is set"
        )
        lines += [
            "max_total_num_tokens=402653, chunked_prefill_size=8192, max_running_requests=2048, context_len=40960"
        ]
        return lines
    if framework == "vllm":
        lines = [
            f"vLLM API server version {version(framework, settings)}",
            f"non-default args: {{'model_tag': '{model}', 'port': {options['port']}}}",
        ]
        cached = options.get("no_enable_prefix_caching") is None and options.get("enable_prefix_caching", True)
        config = f"model='{model}', tensor_parallel_size={options.get('tp') or 1}, enable_prefix_caching={bool(cached)}"
        lines.append(f"Initializing a V1 LLM engine (v{version(framework, settings)}) with config: {config}")
        if settings.wrong_backend:
            lines.append(f"Cannot use {wanted} backend on this device. Falling back to {used}.")
        lines += [
            f"Using {used} attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER'].",
            "Loading weights took 0.02 seconds",
        ]
        lines.append(
            "Graph capturing finished in 0 secs, took 0.01 GiB" if graph else "Cudagraph is disabled under eager mode"
        )
        return [*lines, "GPU KV cache size: 402,653 tokens"]
    if framework == "tensorrt_llm":
        lines = [f"TensorRT-LLM version: {version(framework, settings)}", "Using LLM with PyTorch backend"]
        if settings.wrong_backend:
            lines.append(f"Attention backend {wanted} is not supported here, fallback to {used}")
        lines.append(f"Using attention backend {used}")
        return [
            *lines,
            f"CUDA graph {'enabled' if graph else 'disabled'}",
            "Max KV cache pages: 12583, tokens per block: 32",
        ]
    lines = [f"TokenSpeed v{version(framework, settings)}", f"model={model} attn_tp_size={options.get('tp') or 1}"]
    if settings.wrong_backend:
        lines.append(f"attention backend {wanted} unavailable, falling back to {used}")
    return [*lines, f"attention_backend={used}", f"cuda_graph={'on' if graph else 'off'}"]


def ready_line(framework: str, host: str, port: int) -> str:
    """What it says when it serves."""
    return {
        "sglang": "The server is fired up and ready to roll!",
        "vllm": "Application startup complete.",
        "tensorrt_llm": f"Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)",
        "tokenspeed": f"gateway ready on http://{host}:{port}",
    }[framework]


def crash(framework: str, kind: str) -> str:
    """The text of a death: cuda, oom, port, import, config."""
    if kind == "oom":
        return {
            "sglang": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "vllm": "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
            "tensorrt_llm": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 1.2 GiB free.",
            "tokenspeed": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 1.2 GiB free.",
        }[framework]
    if kind == "port":
        return "[Errno 98] error while attempting to bind on address ('127.0.0.1', 0): address already in use"
    if kind == "import":
        return "ModuleNotFoundError: No module named 'flashinfer'"
    if kind == "config":
        return "ValueError: tp_size 3 does not divide the number of attention heads 32"
    path = {"sglang": "sglang/srt/managers/scheduler.py", "vllm": "vllm/v1/engine/core.py"}.get(
        framework, "engine/loop.py"
    )
    return (
        "Traceback (most recent call last):\n"
        f'  File "/opt/fake/{path}", line 2900, in run\n    self.event_loop()\n'
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    )


def server_info(engine: Engine) -> dict[str, Any]:
    """SGLang's /get_server_info: its arguments and some state."""
    settings, options = engine.settings, engine.options
    return {
        "model_path": engine.model if settings.wrong_model else options["model"],
        "served_model_name": engine.model,
        "tokenizer_path": options["model"],
        "tp_size": int(options.get("tp") or 1),
        "dp_size": 1,
        "ep_size": 1,
        "pp_size": 1,
        "dtype": "auto",
        "quantization": None,
        "kv_cache_dtype": "auto",
        "mem_fraction_static": 0.88,
        "chunked_prefill_size": 8192,
        "attention_backend": FALLBACKS["sglang"]
        if settings.wrong_backend
        else options.get("attention_backend") or "fa3",
        "disable_cuda_graph": settings.no_cuda_graph,
        "disable_radix_cache": bool(options.get("disable_radix_cache")),
        "speculative_algorithm": "EAGLE" if settings.accept_length else None,
        "random_seed": 42,
        "version": version("sglang", settings),
        "status": "ready",
        "max_total_num_tokens": 402653,
        "internal_states": [
            {
                "last_gen_throughput": 0.0,
                "avg_spec_accept_length": settings.accept_length or None,
                "memory_usage": {"weight": 15.27, "kvcache": 55.3},
            }
        ],
    }


def metrics(engine: Engine) -> str:
    """Prometheus text with the names of its framework."""
    running, waiting = engine.scheduler.load
    label = f'{{model_name="{engine.model}"}}'
    names = {
        "sglang": (
            "sglang:num_running_reqs",
            "sglang:num_queue_reqs",
            "sglang:prompt_tokens_total",
            "sglang:generation_tokens_total",
        ),
        "vllm": (
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            "vllm:prompt_tokens_total",
            "vllm:generation_tokens_total",
        ),
        "tensorrt_llm": (
            "trtllm_num_running",
            "trtllm_num_waiting",
            "trtllm_prompt_tokens_total",
            "trtllm_generation_tokens_total",
        ),
        "tokenspeed": (
            "tokenspeed:num_running_reqs",
            "tokenspeed:num_queue_reqs",
            "tokenspeed:prompt_tokens_total",
            "tokenspeed:generation_tokens_total",
        ),
    }[engine.framework]
    values = (running, waiting, engine.prompt_tokens, engine.generated)
    return "".join(f"# TYPE {n} gauge\n{n}{label} {v}\n" for n, v in zip(names, values, strict=True))
