"""A scripted agent of a diffusion campaign: performance dumps and pictures as an engine of a checkout's speed would write them."""

from __future__ import annotations

import datetime
import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from infer_forge.campaign import open_campaign
from infer_forge.campaign.advice import next_step
from tests.campaign.campaign_agent import READ, SOAK, THRESHOLD, Agent, git, history_item

MODEL = "org/painter"
SCENARIO = "64x64-2-steps"
COMMANDS = {
    "sglang": "sglang generate --model-path org/painter --width 64 --height 64 --num-inference-steps 2 --seed 1",
    "vllm": "vllm-omni generate org/painter --size 64x64 --steps 2 --seed 1",
}
QUALITY = {"min_psnr_db": 30, "min_ssim": 0.9}

SOURCE = "painter.txt"
"""Stands for the engine's source."""

STATES: dict[str, tuple[float, float]] = {
    "base": (1000.0, 0.0),
    "coarse_step": (780.0, 60.0),
    "fused_step": (800.0, 1.0),
}
"""What the checkout's source names -> milliseconds of a picture, and how far its pixels are from the base's."""
RIVAL_MS = 800.0


def contract(**more: Any) -> dict[str, Any]:
    """The drafted contract."""
    return {
        "name": "painter",
        "point": {
            "model": {
                "id": MODEL, "revision": "abc", "fingerprint": "f" * 64, "tokenizer": MODEL, "modalities": ["image"],
                "precision": "bf16", "quantization": "none", "max_context": 512, "trust_remote_code": False,
            },
            "serving_scenario": {"modality": "image", "traffic_shape": "one request at a time", "slo": {"min_success_rate": 1}},
            "serving_topology": {"architecture": "colocated_pd", "tp": 1, "pp": 1, "dp": 1, "ep": 1},
            "accelerator_platform": {"vendor": "nvidia", "gpu_model": "H200", "gpu_count": 1, "driver": "580.1", "interconnect": "none"},
        },
        "grid": {
            "kind": "diffusion",
            "scenarios": [{"name": SCENARIO, "input_len": 77, "output_len": 1, "num_prompts": 2, "concurrencies": [1]}],
        },
        "sla": {"min_success_rate": 1},
        "metric": {"name": "end_to_end_ms", "unit": "ms", "higher_is_better": False},
        "threshold": THRESHOLD,
        "client": {"name": "perf dump", "version": "1"},
        "seeds": [1],
        "engines": [{"framework": n, "max_runs": 4, "max_minutes": 60} for n in ("sglang", "vllm")],
        "budgets": {"max_launches_per_engine": 3},
        "quality": QUALITY,
        "soak": SOAK,
        **more,
    }  # fmt: skip


class Painter(Agent):
    """An agent whose engine paints."""

    def __init__(self, tmp: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(tmp, patch)
        (self.checkout / SOURCE).write_text("base")
        git(self.checkout, "add", SOURCE)
        git(self.checkout, "commit", "-q", "-m", "how it paints")
        self.draft = tmp / "contract.json"
        self.draft.write_text(json.dumps(contract()))
        self.made = 0

    def begin(self) -> None:
        """Init without a search configuration, reading, history, open pull requests."""
        values = {
            "model": MODEL, "gpu_model": "H200", "gpu_count": 1, "gpu_ids": ["0"], "precision": "bf16", "driver": "580.1",
            "diffusion": True,
        }  # fmt: skip
        made = self.tool(
            "init_campaign", target_checkout=str(self.checkout), root=str(self.tmp / "root"), compare=["vllm"],
            executor="agent", reviewer="other model", model=MODEL, values={k: v for k, v in values.items() if k != "model"},
        )  # fmt: skip
        self.run = Path(made["data"]["run"])
        files: list[str] = []
        for name in READ:
            place = self.tmp / name / "SKILL.md"
            place.parent.mkdir()
            place.write_text("# read\n")
            files.append(str(place))
        self.record("companions", read=files)
        self.record("history", items=[history_item(), history_item(framework="vllm", path="vllm/omni/README.md", pr=9)])
        self.record("pr_check", upstream="sgl-project/sglang", fork="me/sglang", open=["123"])

    @property
    def step(self) -> list[str]:
        """The words of the next step."""
        return shlex.split(next_step(open_campaign(self.run)).command)

    def state(self) -> str:
        """What the checkout holds."""
        return (self.checkout / SOURCE).read_text()

    def change(self, state: str) -> None:
        """The change of an attempt, committed."""
        (self.checkout / SOURCE).write_text(state)
        git(self.checkout, "commit", "-q", "-am", state)

    def dump(self, side: str, **change: Any) -> Path:
        """One launch: two requests, as `sglang generate --perf-dump-path` writes them."""
        self.made += 1
        base = STATES[self.state()][0] if side == "sglang" else RIVAL_MS
        meta = {
            "model": MODEL, "width": 64, "height": 64, "num_inference_steps": 2, "guidance_scale": 3.5, "seed": 1, "warmup": True,
            "enable_teacache": False, **change.pop("meta", {}),
        }  # fmt: skip
        lines: list[str] = []
        for request in range(2):
            took = base * (1 + 0.001 * ((7 * self.made + request) % 3))
            body = {
                "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                "request_id": f"r{self.made}-{request}",
                "commit_hash": git(self.checkout, "rev-parse", "HEAD") if side == "sglang" else "N/A",
                "total_duration_ms": took,
                "steps": [{"name": "DenoisingStage", "duration_ms": 0.9 * took}],
                "denoise_steps_ms": [{"step": i, "duration_ms": 0.45 * took} for i in range(2)],
                "memory_checkpoints": {"after": {"peak_reserved_mb": 2048.0}},
                "meta": meta,
                **change,
            }
            lines.append(json.dumps(body))
        place = self.tmp / f"dump-{self.made:03d}-{side}.jsonl"
        place.write_text("\n".join(lines) + "\n")
        return place

    def turns(self, count: int = 3, sides: tuple[str, ...] = ("sglang", "vllm")) -> list[str]:
        """`--results SIDE=FILE` of launches in turn."""
        order = [n for turn in range(count) for n in (sides if turn % 2 == 0 else sides[::-1])]
        return words("--results", [f"{n}={self.dump(n)}" for n in order])

    def paint(self) -> Path:
        """The pictures of the checkout as it stands."""
        folder = self.tmp / f"pictures-{len(list(self.tmp.glob('pictures-*')))}"
        folder.mkdir()
        off = STATES[self.state()][1]
        for number in range(2):
            picture = Image.new("RGB", (64, 64))
            pixels = [
                tuple(
                    int(min(255, (x * 3 + 40 * c + number * 9) % 200 + (off if (x + y) % 2 else 0))) for c in range(3)
                )
                for y in range(64)
                for x in range(64)
            ]
            picture.putdata(pixels)
            picture.save(folder / f"{number}.png")
        return folder

    def hand_in(self, label: str, *more: str) -> dict[str, Any]:
        """`campaign measure` with result files, in a fresh process."""
        return self.campaign("measure", "--label", label, *more)


def words(flag: str, values: Iterable[str]) -> list[str]:
    """The flag before each value."""
    return [w for v in values for w in (flag, v)]


def commands() -> list[str]:
    """`--command SIDE=WORDS` of both sides."""
    return words("--command", [f"{n}={line}" for n, line in COMMANDS.items()])
