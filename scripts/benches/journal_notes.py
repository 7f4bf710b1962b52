"""Generated journals for the journal's benches: records with words of the field, and what each query must find."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterator
from typing import Any

from infer_forge.journal import markdown
from infer_forge.journal.model import Record
from infer_forge.journal.words import STOP

_BEGAN = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
_STEMS = (
    "attention decode prefill kernel cache page block scheduler graph launch overlap router expert gather scatter quant scale "
    "tile warp stage pipeline barrier memory bandwidth latency throughput batch token sampler logits draft verify tree radix "
    "prefix chunk tensor shard rank collective reduce ring copy stream event queue worker tokenizer template stop reason tool "
    "weight load store fuse norm rope gate silu gemm epilogue swizzle bank register occupancy spill shared async bulk"
)
_SYLLABLES = (
    "ba co di fu ga he in jo ka lu me no or pa qui re so ta un ve wi xe yo za tri sta pro con ter ment al ing ed er"
)
_GPUS = ("NVIDIA H100", "NVIDIA H200", "NVIDIA B200", "NVIDIA L40S", "AMD MI300X")
_MODELS = ("deepseek-v3", "qwen3-8b", "qwen3-235b-a22b", "gpt-oss-120b", "kimi-k2", "glm-4.5", "llama-3.1-8b")
_FRAMEWORKS = ("sglang", "vllm", "tensorrt_llm", "tokenspeed")
_TYPES = ("research", "code", "evaluation", "online_diagnosis")
_CJK = "激活量化吞吐延迟显存带宽内核融合调度缓存专家路由预填充解码采样张量并行通信归约流水线图捕获启动开销占用寄存器"


def _vocabulary(random_: random.Random) -> tuple[list[str], list[float]]:
    """30,000 words with the frequencies of natural text (Zipf's law), words of the field among the frequent ones."""
    stems, syllables = _STEMS.split(), _SYLLABLES.split()
    words = dict.fromkeys([*sorted(STOP), *stems])  # as in English, the most frequent words are function words
    while len(words) < 30_000:
        words["".join(random_.choices(syllables, k=random_.randint(2, 4)))] = None
    return list(words), [1 / (rank + 3) for rank in range(len(words))]


def _identifiers(random_: random.Random) -> list[str]:
    """8,000 names of functions, kernels and flags, snake and camel case."""
    stems = _STEMS.split()
    found: dict[str, None] = {}
    while len(found) < 8000:
        parts = random_.sample(stems, random_.randint(2, 4))
        found["_".join(parts) if random_.random() < 0.6 else "".join(p.capitalize() for p in parts)] = None
    return list(found)


def generated(count: int, words_each: int = 300, seed: int = 7) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Records and what is known of each: its rare words, which no other record has."""
    random_ = random.Random(seed)
    words, weights = _vocabulary(random_)
    names = _identifiers(random_)
    cumulative = list(itertools.accumulate(weights))
    stems = _STEMS.split()
    for number in range(count):
        chosen = random_.choices(words, cum_weights=cumulative, k=words_each)
        for _ in range(words_each // 12):
            chosen[random_.randrange(words_each)] = random_.choice(names)
        rare = [f"probe{number:06d}x", f"{random_.choice(stems)}Site{number:06d}"]
        for word in rare:
            chosen[random_.randrange(len(chosen))] = word
        chinese = "".join(random_.choices(_CJK, k=12)) if number % 5 == 0 else ""
        body = " ".join(chosen) + (f"\n{chinese}\n" if chinese else "\n")
        yield _record(random_, number, chosen, body), {"rare": rare, "chinese": chinese, "body": chosen}


def _record(random_: random.Random, number: int, chosen: list[str], body: str) -> Record:
    dims = {
        "model": [random_.choice(_MODELS)],
        "gpu": [random_.choice(_GPUS)],
        "framework": [random_.choice(_FRAMEWORKS)],
        "task_type": [random_.choice(_TYPES)],
    }
    created = _BEGAN + datetime.timedelta(seconds=number * 211)
    title = " ".join(random_.sample(chosen, 6))
    return markdown.make({"kind": "note", "title": title, "created": created, "dims": dims, "body": body})
