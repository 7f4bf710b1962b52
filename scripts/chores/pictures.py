"""The pictures of the docs, made by the project's own commands from generated inputs: `python -m chores.pictures`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from chores import ROOT

PLACE = ROOT / "docs" / "pictures"
FORGE = str(Path(sys.executable).parent / "infer-forge")
# Output tokens per second of five launches a side: a real gap of about 4 %, and run-to-run noise of about 0.5 %.
SIDES = {"sglang": (962.0, 958.5, 966.1, 960.2, 957.0), "vllm": (1001.0, 996.4, 1005.2, 999.1, 1003.8)}


def _run(rate: float) -> dict[str, Any]:
    """A result in the form of SGLang's serving benchmark: 80 prompts, 1000 tokens in and out."""
    seconds = 80_000 / rate
    figures = {"ttft": 300.0, "tpot": 17.7, "itl": 17.7, "e2e_latency": 18_000.0}
    run: dict[str, Any] = {
        "backend": "sglang",
        "dataset_name": "random",
        "request_rate": 8.0,
        "max_concurrency": 16,
        "random_input_len": 1000,
        "random_output_len": 1000,
        "random_range_ratio": 1.0,
        "duration": seconds,
        "completed": 80,
        "total_input_tokens": 80_000,
        "total_output_tokens": 80_000,
        "request_throughput": 80 / seconds,
        "input_throughput": rate,
        "output_throughput": rate,
        "total_throughput": 2 * rate,
        "total_output_tokens_retokenized": 80_000,
        "concurrency": 15.8,
        "accept_length": None,
        "tag": None,
        "server_info": None,
        "sharegpt_output_len": None,
    }
    for name, value in figures.items():
        run |= {f"mean_{name}_ms": value, f"median_{name}_ms": value, f"std_{name}_ms": value / 60}
        run[f"p99_{name}_ms"] = value * 1.1
    return run


def gap(folder: Path) -> None:
    """The plot of `bench gap`."""
    words: list[str] = []
    for side, rates in SIDES.items():
        files: list[str] = []
        for number, rate in enumerate(rates):
            file = folder / f"{side}_{number}.jsonl"
            file.write_text(json.dumps(_run(rate)) + "\n")
            files.append(str(file))
        words += ["--target" if side == "sglang" else "--against", side, *files]
    svg = PLACE / "gap.svg"
    subprocess.run([FORGE, "bench", "gap", *words, "--svg", str(svg)], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Make them all."""
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        gap(Path(folder))
    print(f"pictures in {PLACE.relative_to(ROOT)}: {', '.join(p.name for p in sorted(PLACE.iterdir()))}")


if __name__ == "__main__":
    main()
