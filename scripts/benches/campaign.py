"""A campaign of many rounds: status, next and check as processes, from their start to their answer."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benches import Row
from benches.places import home
from benches.process import Spent, spent

ROUNDS, LAUNCHES = 200, 5
"""Rounds, each with an attempt; launches of each side in a measurement."""

Item = tuple[str, dict[str, Any]]

GOALS_S = {"status": 1.0, "next": 1.0, "check": 2.0}
SCENARIO = {
    "scenario": "chat c16", "verdict": "behind", "against": "vllm", "mean_pct": -8.1, "low_pct": -9.0, "high_pct": -7.2, "n_pairs": 5,
    "k_more": None, "decides": True, "reason": "sglang is 8.10 % worse than vllm in output_token_throughput",
}  # fmt: skip
TRIAGE: dict[str, Any] = {
    "tables": {
        "kernel": {"columns": ["stage", "kernel", "time_us"], "rows": [["decode", f"kernel_{n}", 200.0 - n] for n in range(40)]},
        "stages": {"columns": ["stage", "wall_us", "busy_us"], "rows": [["decode", 9000.0, 8000.0]]},
    },
    "findings": [],
}  # fmt: skip


def _checkout(place: Path) -> str:
    """A git repository of one commit; gives the commit."""
    place.mkdir()
    (place / "norm.py").write_text("def norm(x): return x\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "base"]):
        subprocess.run(["git", "-C", str(place), *words], check=True)
    told = subprocess.run(["git", "-C", str(place), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return told.stdout.strip()


def _contract(run: Path) -> str:
    """Lock a contract; gives its hash."""
    from infer_forge.bench.contract_lock import lock_contract

    point: dict[str, Any] = {
        "model": {"id": "org/M-8B", "revision": "abc", "tokenizer": "org/M-8B", "precision": "bf16", "quantization": "none"},
        "serving_scenario": {"modality": "text", "traffic_shape": "chat", "slo": {}},
        "serving_topology": {"architecture": "colocated_pd", "tp": 1, "pp": 1, "dp": 1, "ep": 1},
        "accelerator_platform": {"vendor": "nvidia", "gpu_model": "H200", "gpu_count": 1},
    }  # fmt: skip
    chat = {"name": "chat", "input_len": 1000, "output_len": 1000, "concurrencies": [16]}
    draft: dict[str, Any] = {
        "name": "bench", "point": point, "grid": {"scenarios": [chat]}, "sla": {}, "varies": ["runtime_profile"],
        "client": {"name": "vllm bench serve", "version": "1"},
        "engines": [{"framework": f, "max_runs": 4, "max_minutes": 60} for f in ("sglang", "vllm")],
    }  # fmt: skip
    report = lock_contract(run, draft, accepted_by="bench", reason="a benchmark of the tool measures no engine")
    return str(report.extra["contract_sha256"])


def _measured(framework: str, number: int, sha256: str) -> dict[str, Any]:
    """One decision row."""
    value = (9000.0 if framework == "sglang" else 9800.0) * (1 + (number % 7) / 1000)
    return {
        "kind": "serving", "tool": "vllm.bench_serve", "framework": framework, "candidate_id": f"{framework}-1", "status": "ok",
        "launch_id": f"{framework}-{number}", "block_id": f"b{number // 2}", "block_position": number % 2, "purpose": "decision",
        "contract_hash": sha256, "started_at": f"2026-11-29T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z",
        "workload": {"scenario": "chat", "max_concurrency": 16, "num_prompts": 80, "completed_requests": 80},
        "metrics": {"output_token_throughput_per_s": value, "success_rate": 1.0},
    }  # fmt: skip


def _rows(run: Path, sha256: str) -> list[list[str]]:
    """Rows of the baseline and of every round's measurement, in one ledger; their hashes by measurement."""
    from infer_forge.bench.ledger_rows import RowStore
    from infer_forge.bench.model import Row as Measured

    store = RowStore(run / "benchmark" / "candidates.jsonl")
    made = [
        Measured.model_validate(_measured(f, n, sha256))
        for n in range((ROUNDS + 1) * LAUNCHES)
        for f in ("sglang", "vllm")
    ]
    hashes = [e.hash for e in store.add(made)]
    size = 2 * LAUNCHES
    return [hashes[i : i + size] for i in range(0, len(hashes), size)]


def _baseline(run: Path, sha256: str, rows: list[str]) -> str:
    """Lock a winner table; gives its hash."""
    from infer_forge.base import contracts
    from infer_forge.base.ledger import Ledger
    from infer_forge.bench.baseline_lock import KIND

    winners = [
        {
            "scenario": "chat c16", "framework": f, "candidate_id": f"{f}-1", "launches": LAUNCHES, "metric": "output_token_throughput",
            "mean": 9000.0, "cv": 0.001, "server_command": f"{f} serve", "benchmark_command": "vllm bench serve", "rows": rows[i::2],
        }
        for i, f in enumerate(("sglang", "vllm"))
    ]  # fmt: skip
    head = Ledger(run / "benchmark" / "candidates.jsonl").head()
    body = {"contract_sha256": sha256, "winners": winners, "rows_head": head, "accuracy": []}
    return contracts.lock_once(run / "benchmark" / "baseline.json", KIND, body).sha256


def _round(number: int, commit: str, rows: list[str], sha256: str, *, last: bool) -> Iterator[Item]:
    """Records of one round; the last stays open before its attempt."""
    claim = {"claim_id": "c", "epoch": 1, "verdict": "current", "gpus": ["0"], "why": None}
    opened: dict[str, Any] = {
        "round": number,
        "claim": claim,
        "journal": {"query": "q", "hits": []},
        "ownership": [],
        "sub_target": "t",
    }
    yield "round_open", opened
    yield from _explained(number, commit)
    if last:
        return
    yield from _tried(number, commit, rows, sha256)
    closed = {
        "round": number,
        "claim": claim,
        "gain_pct": 0.0,
        "outcome": "rejected",
        "progress": "stalled",
        "void": None,
    }
    yield "round_close", closed


def _explained(number: int, commit: str) -> Iterator[Item]:
    """The gap, its profiles and reports, and an idea."""
    gap = {"number": number, "path": "benchmark/gap-001.json", "scenarios": [SCENARIO], "overall": "behind"}
    yield "gap", {**gap, "measurement": None, "commit": commit}
    page = {"gap": f"<gap {number}>", "part_sha256": ""}
    yield "fairness", {**page, "blocking": [], "path": "analysis/fairness-diagnostics.md"}
    triage = {"triage": "profiles/t.json", "digest": "profiles/t.json", "sha256": hashlib.sha256(_triage()).hexdigest()}
    for name in ("sglang", "vllm"):
        profile: dict[str, Any] = {
            "framework": name,
            "purpose": "gap",
            "traces": [],
            "stages": {"decode": 8000.0},
            "commit": commit,
        }
        yield "profile", {**profile, **triage}
    yield "root_cause", {**page, "stage": "decode", "path": "analysis/root-cause.md"}
    layers = {"path": "analysis/layer-pipeline.md", "kernels": ["kernel_1"], "report": {"path": "profiles/t.json"}}
    yield "layer_pipeline", {**page, **layers}
    where = {"repository": "sglang", "path": f"f{number}.py", "symbol": "s", "covers": [f"kernel_{number % 40}"]}
    yield "idea", {**where, "title": f"idea {number}", "provenance": "vllm at a commit", "expected_gain_pct": 1.0}


def _tried(number: int, commit: str, rows: list[str], sha256: str) -> Iterator[Item]:
    """An attempt, its measurement, and that it gained nothing."""
    attempt = {
        "number": number,
        "title": f"attempt {number}",
        "idea": f"<idea {number}>",
        "base_commit": commit,
        "branch": "main",
    }
    yield "attempt", {**attempt, "alters_numerics": False, "mechanism": "kernel"}
    table = {"chat c16": {"sglang": "sglang-1", "vllm": "vllm-1"}}
    measured = {
        "label": "patched",
        "commit": commit,
        "candidates": table,
        "rows": rows,
        "failed": [],
        "contract_sha256": sha256,
    }
    yield "measurement", {**measured, "launches": LAUNCHES, "of": None}
    ended = {
        "attempt": f"<attempt {number}>",
        "outcome": "rejected",
        "reason": "no gain",
        "gain_pct": 0.1,
        "commit": commit,
    }
    yield "result", ended


def _triage() -> bytes:
    """The triage report that every profile names."""
    return json.dumps(TRIAGE).encode()


def _play(folder: Path) -> Path:
    """A run directory whose last round is open, before its attempt."""
    from infer_forge.base import jsonio
    from infer_forge.base.ledger import Ledger
    from infer_forge.campaign import book, init
    from infer_forge.campaign.locking import lock_task

    commit = _checkout(folder / "sglang")
    given = {"model": "org/M-8B", "gpu_model": "H200", "gpu_count": 1, "precision": "bf16"}
    made = init(given, checkout=folder / "sglang", root=folder / "root", compare=["vllm"])
    run = Path(str(made.extra["run"]))
    (run / "profiles" / "t.json").write_bytes(_triage())
    note = {"blocker": "no knowledge base here"}
    sha256 = _contract(run)
    rows = _rows(run, sha256)
    plan = folder / "plan.md"
    plan.write_text(f"contract {sha256}\n")
    start: list[Item] = [
        ("companions", {"read": [{"path": f"{n}/SKILL.md"} for n in ("benchmark", "profiler", "pipeline", "history")]}),
        ("history", note), ("pr_check", {"upstream": "o/r", "fork": "none", "open": []}),
        ("contract_lock", {"sha256": sha256, "path": "benchmark/contract.json"}),
        ("baseline_lock", {"sha256": _baseline(run, sha256, rows[0]), "commit": commit, "pages": {}, "path": "benchmark/baseline.json"}),
        ("ceiling", {"blocker": "none here"}), ("plan", {"path": str(plan), "sha256": jsonio.sha256_file(plan), "mode": "goal"}),
    ]  # fmt: skip
    _write(Ledger(run / "humanize" / "ledger.jsonl"), start, commit, rows, sha256, str(made.extra["task_id"]))
    held = book.read(run)
    lock_task(held)
    book.append(held, "command", {"command": "true", "exit_code": 0, "guard": "allow", "rule": None})
    return run


def _write(ledger: Any, start: list[Item], commit: str, rows: list[list[str]], sha256: str, task: str) -> None:
    """Append round by round; a name in angle brackets stands for the id of that record."""
    loop = {"loop_id": ledger.entries()[0].body["loop_id"], "task_id": task}
    ledger.append_all([(kind, {**loop, "round": 0, **body}) for kind, body in start])
    for number in range(1, ROUNDS + 1):
        known: dict[str, str] = {}
        for kind, body in _round(number, commit, rows[number], sha256, last=number == ROUNDS):
            filled = {k: known.get(v, v) if isinstance(v, str) else v for k, v in body.items()}
            known[f"<{kind} {number}>"] = ledger.append(kind, {**loop, "round": number, **filled}).hash[:12]


def _least(words: list[str]) -> Spent:
    """The least of three runs; `check` may end with a fail."""
    shell = f"{sys.executable} -m infer_forge.cli.main campaign {' '.join(words)} || true"
    return min(spent(["sh", "-c", shell]) for _ in range(3))


def doors() -> list[Row]:
    """Status, next and check on a run of two hundred rounds."""
    made: list[Row] = []
    with home(INFER_FORGE_NO_FSYNC="1") as folder:
        run = _play(folder)
        size = (run / "humanize" / "ledger.jsonl").stat().st_size + (
            run / "benchmark" / "candidates.jsonl"
        ).stat().st_size
        note = f"{ROUNDS} attempts, ledgers of {size / 2**20:.1f} MiB"
        for name, goal in GOALS_S.items():
            took = _least([name, "--run", str(run)])
            work = f"campaign {name}, process start to answer"
            told = f"{took.cpu_s:.2f} s CPU, {took.largest_mb:.0f} MB"
            made.append(Row(work, f"under {goal:g} s", round(took.wall_s, 3), "s", told, took.wall_s < goal, note))
    return made


BENCHES = {"doors": doors}
