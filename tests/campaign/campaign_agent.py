"""A scripted agent: a real git checkout whose speed a commit changes, the fake engines, and the doors that an agent has."""

from __future__ import annotations

import gzip
import json
import secrets
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from mcp.client import Client

from infer_forge.base.errors import ForgeError
from infer_forge.guard import check
from infer_forge.nodes import verbs
from infer_forge_mcp.server import make_server
from tests.bench.runs import SHORT, raw_config, use_fakes
from tests.engines.fakes.launch import engine
from tests.engines.fakes.models import make_model

SLOW, FAST = {"itl_ms": 0.24}, {"itl_ms": 0.2}
THRESHOLD = 0.01
ACCURACY = {"dataset": "gsm8k", "metric": "exact_match", "floor": 0.6, "tolerance": 0.01}
SOAK = {"repeats": 2, "minutes": 0.01, "max_memory_growth_bytes_per_hour": 1e9, "max_p99_growth_per_hour": 50}
READ = ("llm-serving-auto-benchmark", "llm-torch-profiler-analysis", "llm-pipeline-analysis", "model-pr-history")


class Refused(Exception):
    """The tool or command refused; the text is what the agent sees."""


def git(checkout: Path, *words: str) -> str:
    """A git command in the checkout."""
    done = subprocess.run(["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_checkout(place: Path) -> Path:
    """A git repository in which `speed.json` stands for the engine's source."""
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    git(place, "config", "user.email", "a@b.invalid")
    git(place, "config", "user.name", "agent")
    (place / ".gitignore").write_text(".humanize*\n")
    (place / "speed.json").write_text(json.dumps(SLOW))
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "base")
    return place


class Agent:
    """Speaks to the campaign through the MCP tools, or the command line in a fresh process."""

    def __init__(self, tmp: Path, patch: pytest.MonkeyPatch) -> None:
        self.environment(patch)
        self.tmp, self.run, self.notes = tmp, Path(), dict[str, str]()
        self.checkout = make_checkout(tmp / "sglang")
        self.model = make_model(tmp / "model")
        self.config = tmp / "search.yaml"
        raw = raw_config(str(self.model))
        raw["grid"] = SHORT
        raw["budget"] |= {
            "start_timeout_s": 300,
            "run_timeout_s": 300,
        }  # a crowded machine is slow, the campaign the same
        env = {"FAKE_ENGINE": f"speed_file={self.checkout / 'speed.json'}"}
        raw["engines"] = [
            {
                "framework": "sglang",
                "base": {"prefix_cache": True},
                "env": env,
                "search": {"attention_backend": ["fa3"]},
            },
            {"framework": "vllm", "base": {"prefix_cache": True}, "search": {"max_running_requests": [64]}},
        ]
        self.config.write_text(yaml.safe_dump(raw))  # pyright: ignore[reportUnknownMemberType]
        self.claim: dict[str, Any] = {}

    @staticmethod
    def environment(patch: pytest.MonkeyPatch) -> None:
        """The fakes first, a modelled load with little noise: a launch draws by its process id, and every draw must do."""
        use_fakes(patch)
        patch.setenv("FAKE_BENCH", "mode=model noise=0.0003 jitter=0.003 seed=11")
        patch.setenv("INFER_FORGE_NODE", "gpu07")

    def tool(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """A tool of the server."""

        async def ask() -> Any:
            async with Client(make_server(("campaign",))) as client:
                return await client.call_tool(name, arguments)

        result = anyio.run(ask)
        if result.is_error:
            raise Refused(result.content[0].text)
        return result.structured_content

    def record(self, kind: str, /, **data: Any) -> str:
        """Record something; gives its id."""
        return str(self.tool("record_campaign", kind=kind, data=data, run=str(self.run))["data"].get("id"))

    def report(self, kind: str, **more: Any) -> dict[str, Any]:
        """Write a report."""
        return self.tool("write_report", kind=kind, run=str(self.run), **more)

    def forge(self, *words: str, ok: int = 0) -> dict[str, Any]:
        """The command line in a fresh process."""
        verdict = check(shlex.join(["infer-forge", *words]), cwd=str(self.tmp)).to_json()
        if verdict["verdict"] != "allow":
            raise Refused(f"the guard says {verdict}")
        argv = [sys.executable, "-m", "infer_forge.cli.main", *words, "--format", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=self.tmp)
        if done.returncode != ok:
            raise Refused(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout) if done.stdout.startswith("{") else {"stderr": done.stderr}

    def campaign(self, *words: str, ok: int = 0) -> dict[str, Any]:
        """A campaign command in a fresh process."""
        return self.forge("campaign", *words, "--run", str(self.run), ok=ok)

    # ------------------------------------------------------------------------------------------------ the steps

    def begin(self) -> None:
        """Init, reading, history, open pull requests."""
        made = self.tool(
            "init_campaign", target_checkout=str(self.checkout), root=str(self.tmp / "root"), config=str(self.config),
            compare=["vllm"], executor="agent", reviewer="other model", values={"gpu_ids": ["0"]},
        )  # fmt: skip
        self.run = Path(made["data"]["run"])
        assert made["data"]["missing"] == []
        files: list[str] = []
        for name in READ:
            place = self.tmp / name / "SKILL.md"
            place.parent.mkdir()
            place.write_text("# read\n")
            files.append(str(place))
        self.record("companions", read=files)
        self.record("history", items=[history_item()])
        self.record("pr_check", upstream="sgl-project/sglang", fork="me/sglang", open=["123"])

    def lock(self, **more: Any) -> None:
        """Prompts, pilot, contract."""
        common = ("--run", str(self.run), "--config", str(self.config))
        self.forge("bench", "workload", *common)
        self.forge("bench", "pilot", *common, "--launches", "2", "--threshold", str(THRESHOLD), "--max-launches", "3")
        settings = {
            "point.model.revision": "abc",
            "threshold": THRESHOLD,
            "budgets.max_launches_per_engine": 3,
            "accuracy": [ACCURACY],
            "soak": SOAK,
        }
        self.record("lock_contract", config=str(self.config), set={**settings, **more})

    def search(self) -> None:
        """Search, winners afresh, accuracy of every engine."""
        common = ("--run", str(self.run), "--config", str(self.config))
        self.forge("bench", "search", *common)
        self.forge("bench", "search", *common, "--remeasure", "--launches", "3")
        for name in ("sglang", "vllm"):
            self.record("accuracy", framework=name, file=str(self.lm_eval(0.84)))

    def baseline(self) -> None:
        """Winner table, first verdict."""
        self.record("lock_baseline", min_launches=3)
        self.record("gap")

    def lm_eval(self, score: float, **more: Any) -> Path:
        """A fresh lm-eval result file, as no other run writes it: it states when it began, and its model."""
        place = self.tmp / f"results_{secrets.token_hex(4)}.json"
        results = {"gsm8k": {"exact_match,strict-match": score}, "mmlu": {"acc,none": 0.7}}
        samples = {"gsm8k": {"effective": 1319}, "mmlu": {"effective": 14042}}
        facts = {"results": results, "n-samples": samples, "date": time.time(), "model_name": str(self.model)}
        place.write_text(json.dumps({**facts, **more}))
        return place

    def plan(self) -> None:
        """The plan of the loop, naming the contract."""
        sha = json.loads((self.run / "benchmark" / "contract.json").read_text())["sha256"]
        place = self.tmp / "prompt.md"
        place.write_text(f"Objective: close the gap under contract {sha}.\n")
        self.record("ceiling", blocker="the fake model has no config to compute a floor from")
        self.record("plan", path=str(place))

    def claim_gpu(self) -> None:
        """Claim the GPU in the registry, once."""
        try:
            verbs.init(None)
            self.claim = verbs.claim("gpu07", "0", task="t", purpose="campaign").extra["claim"]
        except ForgeError as fault:
            raise Refused(str(fault)) from fault

    def open_round(self) -> None:
        """Open a round."""
        self.record(
            "round_open", claim_id=self.claim["claim_id"], epoch=self.claim["epoch"], query="decode attention overhead"
        )

    def capture(self, name: str) -> list[str]:
        """A profile of an engine as it stands now, with a kernel in it: a client that lags may end one before any pass ran."""
        for _ in range(9):
            traces = self._capture(name)
            if b'"kernel"' in gzip.decompress(Path(traces[0]).read_bytes()):
                return traces
        raise AssertionError("no capture holds a pass")

    def _capture(self, name: str) -> list[str]:
        out = self.tmp / f"prof-{name}-{len(list(self.tmp.glob('prof-*')))}"
        raw = out / "raw"
        profiler = json.dumps({"profiler": "torch", "torch_profiler_dir": str(raw)})
        words = ["--profiler-config", profiler] if name == "vllm" else []
        settings = f"speed_file={self.checkout / 'speed.json'}" if name == "sglang" else ""
        more = ["--run-directory", str(raw)] if name == "vllm" else []
        with engine(name, settings=settings, words=words) as running:
            self.forge(
                "capture", "--framework", name, "--url", running.url, "--out", str(out), "--input-len", "40", "--output-len", "20",
                "--warmup", "1", "--requests", "2", *more,
            )  # fmt: skip
        return [str(p) for p in sorted(out.rglob("decode/*.gz"))][:1]

    def explain(self) -> None:
        """Fairness, profiles, root cause, layer pipeline."""
        self.report("fairness")
        for name in ("sglang", "vllm"):
            self.record("profile", framework=name, traces=self.capture(name))
        self.report("root-cause")
        self.report("layer-pipeline")
        self.record("history", items=[history_item(framework="vllm", path="vllm/llama/README.md", pr=99)])

    def think(self) -> str:
        """Answer every row of the coverage: the largest by an idea, the rest by dismissals; gives the idea."""
        rows = self.campaign("coverage")["tables"]["rows"]
        table = [dict(zip(rows["columns"], r, strict=True)) for r in rows["rows"]]
        first = next(r["name"] for r in table if r["kind"] == "kernel")
        idea = self.record(
            "idea", title="fuse the norm into the projection", repository="sglang", path="python/norm.py", symbol="rmsnorm",
            provenance="vllm csrc/layernorm.cu at a commit", covers=[first], expected_gain_pct=1.0,
        )  # fmt: skip
        rest = sorted({r["name"] for r in table} - {first})
        self.record(
            "dismissal",
            covers=rest,
            reason="near its memory bound, nothing is left to take",
            evidence=str(self.run / "analysis" / "root-cause.md"),
        )
        return idea

    def attempt(self, idea: str) -> str:
        """The attempt, recorded before the change."""
        return self.record(
            "attempt",
            title="fused norm",
            idea=idea,
            mechanism="rmsnorm_kernel",
            tests=["pytest test_norm.py"],
            paths=["speed.json"],
        )

    def commit(self, speed: dict[str, float]) -> str:
        """The change."""
        (self.checkout / "speed.json").write_text(json.dumps(speed))
        git(self.checkout, "commit", "-q", "-am", "faster")
        return git(self.checkout, "rev-parse", "HEAD")

    def measure(self, *words: str) -> str:
        """Launches in a fresh process."""
        return str(self.campaign("measure", "--no-help-check", *words)["id"])

    def soak(self, attempt: str, **more: Any) -> str:
        """Memory and stability."""
        place = self.tmp / f"soak-{attempt}.json"
        series = [[0, 7e10], [0.3, 7e10], [0.6, 7e10]]
        body = {
            "began": time.time(),
            "minutes": 0.01,
            "repeats": 2,
            "errors": 0,
            "restarts": 0,
            "peak_device_bytes": 70_000_000_000,
            "memory_bytes": series,
            "p99_ms": [[0, 9], [0.3, 9], [0.6, 9]],
        }
        place.write_text(json.dumps({**body, **more}))
        return self.record("soak", attempt=attempt, file=str(place))

    def validate(self, attempt: str, head: str) -> str:
        """Verdict, accuracy, soak, the patch off and on again, its mechanism."""
        base = git(self.checkout, "rev-parse", f"{head}~1")
        measured = self.measure()
        self.record("gap", measurement=measured)
        self.record("accuracy", attempt=attempt, file=str(self.lm_eval(0.838)))
        self.soak(attempt)
        traces = self.capture("sglang")
        git(self.checkout, "checkout", "-q", base)
        off = self.measure("--label", "off")
        git(self.checkout, "checkout", "-q", "main")
        self.record("mechanism", attempt=attempt, files=traces, off=off)
        return measured

    def review(self, result: str) -> None:
        """The nine points."""
        from infer_forge.campaign.reviewing import POINTS

        points = {p: {"result": "pass", "evidence": "looked at, with the tests"} for p in POINTS}
        self.record("review", result=result, reviewer="other model", points=points)


def history_item(**more: Any) -> dict[str, Any]:
    """One note."""
    return {
        "path": "sglang/llama/README.md", "framework": "sglang", "pr": 4321, "source_commit": "a" * 40, "state": "merged",
        "files": ["python/norm.py"], "symbols": ["rmsnorm"], "validation": "unit test and one benchmark", "limits": "bf16 only",
        "risk": "accuracy was not shown", "decision": "look at the norm path first", **more,
    }  # fmt: skip
