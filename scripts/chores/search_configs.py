"""Make the ready search configurations in references/search from one table, and check them with the product's own code.

`python -m chores.search_configs` writes them; `--check` only says whether they are what the table gives. Model facts are
those of the public config.json files; GPU counts leave room for weights and KV cache. Backend names are each framework's
own, drafted from its public documentation and not run: the image's help and a search decide.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import yaml

from chores import ROOT
from infer_forge.bench.search_config import config_of

FOLDER = ROOT / "references" / "search"
CHECKED = "drafted 2026-11 from public documentation; no flag was run: infer-forge engine help-snapshot decides"


@dataclass(frozen=True)
class Entry:
    """One configuration: model, machine, attention kind (`gqa`, `mla`, `hybrid`), whether it has experts."""

    model: str
    gpu: str
    count: int
    precision: str
    attention: str
    moe: bool = False
    quantization: str = "none"
    vendor: str = "nvidia"
    max_context: int = 16384
    trust: bool = False
    about: str = ""
    interconnect: str = "NVLink"
    concurrencies: tuple[int, ...] = (16, 64)
    extra: dict[str, dict[str, Any]] = field(default_factory=dict[str, "dict[str, Any]"])

    @property
    def name(self) -> str:
        """File name."""
        short = self.model.split("/")[-1].lower().replace(".", "-")
        return f"{short}-{self.gpu.lower()}-{self.count}"


TABLE = [
    Entry("Qwen/Qwen3-8B", "H200", 1, "bf16", "gqa", about="dense 8B, one GPU"),
    Entry("Qwen/Qwen3-30B-A3B", "H200", 1, "bf16", "gqa", moe=True, about="30B with 3B active, one GPU"),
    Entry("Qwen/Qwen3-235B-A22B-FP8", "H200", 4, "fp8", "gqa", moe=True, quantization="fp8", about="235B with 22B active"),
    Entry("Qwen/Qwen3-Next-80B-A3B-Instruct", "H200", 4, "bf16", "hybrid", moe=True, about="gated delta net and attention, 3B active"),
    Entry("deepseek-ai/DeepSeek-V3.2", "H200", 8, "fp8", "mla", moe=True, quantization="fp8", about="671B with 37B active, sparse MLA"),
    Entry("deepseek-ai/DeepSeek-V3.2", "B200", 8, "fp8", "mla", moe=True, quantization="fp8", about="671B with 37B active, sparse MLA"),
    Entry("deepseek-ai/DeepSeek-V3", "MI300X", 8, "fp8", "mla", moe=True, quantization="fp8", vendor="amd", interconnect="xGMI",
          about="671B with 37B active, MLA"),
    Entry("deepseek-ai/DeepSeek-V4-Pro", "B200", 8, "fp8", "mla", moe=True, quantization="fp8", about="compressed attention, experts"),
    Entry("openai/gpt-oss-120b", "H200", 1, "mxfp4", "gqa", moe=True, quantization="mxfp4", about="117B with 5B active, sliding windows"),
    Entry("openai/gpt-oss-120b", "B200", 2, "mxfp4", "gqa", moe=True, quantization="mxfp4", about="117B with 5B active, sliding windows"),
    Entry("moonshotai/Kimi-K2-Instruct", "B200", 8, "fp8", "mla", moe=True, quantization="fp8", trust=True, about="1T with 32B active"),
    Entry("zai-org/GLM-5", "B200", 8, "fp8", "mla", moe=True, quantization="fp8", about="experts, sparse MLA"),
    Entry("MiniMaxAI/MiniMax-M2.5", "H200", 4, "fp8", "gqa", moe=True, quantization="fp8", trust=True, about="230B with 10B active"),
    Entry("meta-llama/Llama-3.1-70B-Instruct", "H200", 4, "bf16", "gqa", about="dense 70B"),
    Entry("meta-llama/Llama-3.1-70B-Instruct", "MI300X", 2, "bf16", "gqa", vendor="amd", interconnect="xGMI", about="dense 70B"),
    Entry("mistralai/Mixtral-8x7B-Instruct-v0.1", "H200", 2, "bf16", "gqa", moe=True, about="47B with 13B active"),
    Entry("google/gemma-4-26B-A4B", "H200", 1, "bf16", "gqa", moe=True, about="26B with 4B active, sliding windows"),
]  # fmt: skip

SGLANG = {
    ("gqa", "hopper"): ["fa3", "flashinfer"],
    ("gqa", "blackwell"): ["trtllm_mha", "flashinfer"],
    ("gqa", "amd"): ["aiter", "triton"],
    ("mla", "hopper"): ["fa3", "flashmla"],
    ("mla", "blackwell"): ["trtllm_mla", "cutlass_mla"],
    ("mla", "amd"): ["aiter", "triton"],
    ("hybrid", "hopper"): ["fa3", "triton"],
}
VLLM = {
    ("gqa", "hopper"): ["FLASH_ATTN", "FLASHINFER"],
    ("gqa", "blackwell"): ["FLASHINFER", "FLASH_ATTN"],
    ("gqa", "amd"): ["ROCM_AITER_FA", "TRITON_ATTN"],
    ("mla", "hopper"): ["FLASHMLA", "FLASH_ATTN_MLA"],
    ("mla", "blackwell"): ["FLASHINFER_MLA", "CUTLASS_MLA"],
    ("mla", "amd"): ["ROCM_AITER_MLA", "TRITON_MLA"],
    ("hybrid", "hopper"): ["FLASH_ATTN", "FLASHINFER"],
}


def _generation(entry: Entry) -> str:
    if entry.vendor == "amd":
        return "amd"
    return "blackwell" if entry.gpu.startswith(("B2", "B3", "GB")) else "hopper"


def _engines(entry: Entry) -> list[dict[str, Any]]:
    key = (entry.attention, _generation(entry))
    experts = entry.moe and entry.count > 1
    sglang: dict[str, Any] = {
        "framework": "sglang",
        "base": {"prefix_cache": True, "memory_fraction": 0.88},
        "search": {"attention_backend": SGLANG[key], "chunked_prefill_size": [8192, 16384]},
        "candidates": [
            {"name": "no-overlap", "set": {"overlap_schedule": False}, "why": "shows what the overlap scheduler gives"}
        ],
    }
    vllm: dict[str, Any] = {
        "framework": "vllm",
        "base": {"prefix_cache": True, "memory_fraction": 0.9},
        "search": {"attention_backend": VLLM[key], "chunked_prefill_size": [8192, 16384]},
        "candidates": [{"name": "async", "set": {"overlap_schedule": True}, "why": "asynchronous scheduling"}],
    }
    trtllm: dict[str, Any] = {
        "framework": "tensorrt_llm",
        "base": {"memory_fraction": 0.9},
        "search": {"max_running_requests": [256, 512], "chunked_prefill_size": [8192, 16384]},
    }
    tokenspeed: dict[str, Any] = {
        "framework": "tokenspeed",
        "base": {"prefix_cache": True, "memory_fraction": 0.9},
        "search": {"chunked_prefill_size": [8192, 16384], "max_running_requests": [256, 512]},
    }
    if experts:
        sglang["candidates"].append(
            {"name": "expert-parallel", "set": {"ep": entry.count}, "why": "experts apart instead of split"}
        )
        vllm["candidates"].append(
            {"name": "expert-parallel", "set": {"expert_parallel": True}, "why": "experts apart instead of split"}
        )
        trtllm["candidates"] = [
            {"name": "expert-parallel", "set": {"ep": entry.count}, "why": "experts apart instead of split"}
        ]
        tokenspeed["candidates"] = [
            {"name": "expert-parallel", "set": {"expert_parallel": True}, "why": "experts apart instead of split"}
        ]
    if entry.vendor == "amd":
        trtllm["unsupported"] = "TensorRT-LLM runs on NVIDIA GPUs only"
        trtllm.pop("search")
        trtllm.pop("candidates", None)
    return [sglang, vllm, trtllm, tokenspeed]


def made(entry: Entry) -> dict[str, Any]:
    """The configuration of one entry, checked."""
    loads = list(entry.concurrencies)
    config: dict[str, Any] = {
        "schema": "infer-forge/search/1",
        "name": entry.name,
        "about": f"{entry.about}; {entry.count} x {entry.gpu}",
        "checked": CHECKED,
        "sources": [f"https://huggingface.co/{entry.model}/blob/main/config.json"],
        "model": entry.model,
        "precision": entry.precision,
        "quantization": entry.quantization,
        "max_context": entry.max_context,
        "trust_remote_code": entry.trust,
        "gpu": {
            "vendor": entry.vendor,
            "model": entry.gpu,
            "count": entry.count,
            "interconnect": entry.interconnect if entry.count > 1 else None,
        },
        "tp": entry.count,
        "client": "vllm bench serve",
        "endpoint": "/v1/completions",
        "grid": {
            "kind": "random",
            "scenarios": [
                {"name": "chat", "input_len": 1000, "output_len": 1000, "num_prompts": 80, "concurrencies": loads},
                {
                    "name": "summarization",
                    "input_len": 8000,
                    "output_len": 1000,
                    "num_prompts": 80,
                    "concurrencies": loads[:1],
                },
            ],
        },
        "sla": {"min_success_rate": 1.0},
        "seeds": [1],
        "budget": {"runs": 10, "minutes": 480},
        "engines": _engines(entry),
    }
    config_of(config, where=entry.name)
    return config


def text(entry: Entry) -> str:
    """The file of one entry."""
    head = "# Made by scripts/chores/search_configs.py; change the table there.\n"
    text: str = yaml.safe_dump(made(entry), sort_keys=False, width=110, allow_unicode=True)  # pyright: ignore[reportUnknownMemberType]
    return head + text


def main(argv: list[str]) -> int:
    """Write or check every file."""
    wanted = {FOLDER / f"{e.name}.yaml": text(e) for e in TABLE}
    if "--check" in argv:
        bad = [p.name for p, t in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != t]
        bad += [p.name for p in FOLDER.glob("*.yaml") if p not in wanted]
        print(
            f"{len(wanted)} configurations, {len(bad)} differ from the table" + (f": {', '.join(bad)}" if bad else "")
        )
        return 1 if bad else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, content in wanted.items():
        path.write_text(content, encoding="utf-8")
    print(f"{len(wanted)} configurations in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
