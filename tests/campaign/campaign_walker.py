"""An agent that does what `campaign next` names and keeps nothing in mind: whatever process dies, a fresh one goes on."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.campaign import open_campaign
from infer_forge.campaign.book import Record
from infer_forge.cli.campaign import fields_of
from infer_forge.guard import policy
from infer_forge.guard.hook_config import payload
from tests.campaign import campaign_agent
from tests.campaign.campaign_agent import Agent, git, history_item
from tests.campaign.campaign_server import Killed, Refused, Server, doomed
from tests.guard.guard_hook_process import speak

Speed = dict[str, float]

PATCHES: dict[str, tuple[Speed, float]] = {
    "rmsnorm": ({"itl_ms": 0.2401}, 0.84),  # does nothing
    "flash_decode": ({"itl_ms": 0.19}, 0.81),  # fast and wrong
    "fused_add_norm": ({"itl_ms": 0.2}, 0.838),  # closes the gap
}
"""Symbol of an idea -> what its patch makes of the engine's speed, and the accuracy that it has then."""


class Walker(Agent):
    """Does one step after the other. `kills`: step -> where its process dies the first time; a step is `KIND:N`, the N-th of its kind."""

    def __init__(self, tmp: Path, patch: pytest.MonkeyPatch, kills: dict[str, str]) -> None:
        super().__init__(tmp, patch)
        self.wanted, self.kills, self.died, self.seen, self.steps = (
            dict(kills),
            dict(kills),
            list[str](),
            dict[str, int](),
            list[str](),
        )
        self.denied, self.refused = list[str](), list[str]()
        policy.compile_policy(str(self.checkout))  # what a person does once, at a terminal
        self.server = Server()

    # ------------------------------------------------------------------------------------------------ the two doors

    def _fate(self, step: str) -> str | None:
        """Where this step's process dies; None: it lives."""
        self.seen[step] = self.seen.get(step, 0) + 1
        return self.kills.pop(f"{step}:{self.seen[step]}", None)

    def fresh(self, dies_at: str | None = None) -> None:
        """Another server."""
        self.server.end()
        self.server = Server(dies_at)

    def tool(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """A tool of the running server; one that was killed is reported, and a fresh one stands there."""
        step = str(arguments.get("kind") or name)
        at = self._fate(step) if name not in ("read_next_step", "read_campaign_status") else None
        if at:
            self.fresh(at)
        try:
            return self.server.call(name, arguments)
        except Refused as fault:
            raise campaign_agent.Refused(str(fault)) from None
        except Killed:
            self.died.append(step)
            self.fresh()
            raise
        finally:
            if at and self.server.process.poll() is None and step not in self.died:
                raise AssertionError(f"{step} was to die at {at}, and lived")

    def guarded(self, line: str) -> None:
        """The guard's hook before a shell command, as the client runs it."""
        told = speak(payload("claude", line, str(self.checkout)), "--client", "claude")
        if b"policy.changed" in told.stderr:  # somebody changed the rules meanwhile
            policy.compile_policy(str(self.checkout))
            told = speak(payload("claude", line, str(self.checkout)), "--client", "claude")
        if told.returncode or b"deny" in told.stdout:
            self.denied.append(line)
            raise campaign_agent.Refused(told.stderr.decode() or told.stdout.decode())

    def forge(self, *words: str, ok: int = 0) -> dict[str, Any]:
        """The command line behind the guard's hook, in a process of its own."""
        self.guarded(shlex.join(["infer-forge", *words]))
        step = "-".join(w for w in words[:2]) + ("-off" if "off" in words else "")
        at = self._fate(step)
        argv = [sys.executable, "-m", "infer_forge.cli.main", *words, "--format", "json"]
        env = doomed(at) if at else None
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=self.tmp, env=env)
        if at:
            assert done.returncode == -signal.SIGKILL, f"{step} was to die at {at}: {done.stderr}"
            self.died.append(step)
            self.fresh()
            raise Killed(step)
        if done.returncode != ok:
            raise campaign_agent.Refused(f"{shlex.join(words)} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout) if done.stdout.startswith("{") else {}

    def shell(self, line: str) -> None:
        """Any other shell command behind the guard's hook."""
        self.guarded(line)
        subprocess.run(shlex.split(line), check=True, capture_output=True, cwd=self.checkout)

    # --------------------------------------------------------------------------------------------------- the walk

    def init(self) -> None:
        """Begin, or find what a killed process began."""
        made = self.tool(
            "init_campaign", target_checkout=str(self.checkout), root=str(self.tmp / "root"), config=str(self.config),
            compare=["vllm"], executor="agent", reviewer="other model", values={"gpu_ids": ["0"]},
        )  # fmt: skip
        self.run = Path(made["data"]["run"])
        assert made["data"]["missing"] == []

    def walk(self, most: int = 150) -> None:
        """Do what `next` names until nothing is left."""
        before = ("", "")
        for _ in range(most):
            told = self.tool("read_next_step", run=str(self.run))["data"]
            now = (str(told["command"]), open_campaign(self.run).head)
            assert now != before or self.died, f"it leads nowhere: {told}"
            self.steps.append(now[0])
            if now[0].startswith("infer-forge campaign status") and told["state"] == "final":
                return
            try:
                changed = self.act(now[0])
                before = now if changed else ("", "")
            except Killed:
                self.recover()
                before = ("", "")
        raise AssertionError(f"no end after {most} steps: {self.steps[-5:]}")

    def recover(self) -> None:
        """What a fresh process is told after a death: status answers, and the ledger is whole."""
        told = self.tool("read_campaign_status", run=str(self.run))
        assert len(told["data"]["answers"]) == 5
        checked = self.tool("check_campaign", run=str(self.run), phase="init")["tables"]["checks"]
        rows = [dict(zip(checked["columns"], r, strict=True)) for r in checked["rows"]]
        assert next(r["result"] for r in rows if r["rule"] == "chain") == "pass"

    def act(self, command: str) -> bool:
        """One step; False when it changes nothing that `next` reads (a look before records)."""
        words = shlex.split(command)
        if words[0] == "git":
            return self._git(words)
        words = words[1:]
        for begin, do in self._doers().items():
            wanted = begin.split()
            if words[: len(wanted)] == wanted:
                do(words)
                return True
        raise AssertionError(f"nobody knows what to do with {command}")

    def _doers(self) -> dict[str, Callable[[list[str]], None]]:
        return {
            "campaign record": self._record,
            "campaign report": self._report,
            "campaign review": lambda words: self.review(after(words, "--result")),
            "campaign stop": lambda words: void(self.record("stop", code=after(words, "--code"))),
            "campaign coverage": self._answer,
            "campaign lock": self._lock,
            "campaign measure": lambda words: void(self.forge(*words, "--no-help-check")),
            "bench pilot": lambda words: void(self.forge(*words, "--launches", "2")),
            "bench": lambda words: void(self.forge(*words)),
            "campaign prompt": lambda words: void(subprocess_text(self, words)),
            "node": lambda words: void(self.forge(*words)),
        }

    def _git(self, words: list[str]) -> bool:
        if "commit" in words:
            idea = self._idea_of(self._attempt())
            symbol = str(idea["symbol"])
            diff = self.tmp / f"{symbol}.patch"
            diff.write_text(patch_text(self.checkout, PATCHES[symbol][0]))
            self.shell(f"git -C {self.checkout} apply {diff}")
            words = [w.replace("WORDS", symbol) for w in words]
        self.shell(shlex.join(words))
        return True

    def _lock(self, words: list[str]) -> None:
        if "--baseline" in words:
            self.record("lock_baseline", min_launches=int(after(words, "--min-launches")))
            return
        lacking = [w.partition("=")[0] for w in words if w.startswith("point.")]
        more: dict[str, Any] = {
            "threshold": campaign_agent.THRESHOLD, "budgets.max_launches_per_engine": 3, "accuracy": [campaign_agent.ACCURACY],
            "soak": campaign_agent.SOAK,
        }  # fmt: skip
        self.record("lock_contract", config=after(words, "--config"), set={**dict.fromkeys(lacking, "abc"), **more})

    def _report(self, words: list[str]) -> None:
        self.report(words[2], **({"code": after(words, "--code")} if "--code" in words else {}))

    def _answer(self, words: list[str]) -> None:
        """Two ideas for the largest kernel, dismissals for the rest; what a later profile adds is dismissed."""
        table = self.forge(*words)["tables"]["rows"]
        rows = [dict(zip(table["columns"], r, strict=True)) for r in table["rows"]]
        names = list(dict.fromkeys(str(r["name"]) for r in rows if r["answer"] is None))
        known = {str(i["symbol"]) for i in open_campaign(self.run).of("idea")}
        for symbol in () if known else ("rmsnorm", "flash_decode"):
            self.record("idea", **idea(symbol, [names[0]]))
        evidence = str(self.run / "analysis" / "root-cause.md")
        reason = "near its memory bound, nothing is left to take"
        self.record("dismissal", covers=names if known else names[1:], reason=reason, evidence=evidence)

    def _record(self, words: list[str]) -> None:
        sets = tuple(words[i + 1] for i, w in enumerate(words) if w == "--set")
        kind, data = words[2].replace("-", "_"), fields_of(sets)
        fill = self._fillers().get(kind)
        self.record(kind, **(fill(data) if fill else data))

    def _fillers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        return {
            "history": self._history, "pr_check": self._pr_check, "ceiling": self._ceiling, "accuracy": self._accuracy,
            "round_open": self._round_open, "profile": self._profile, "idea": self._idea, "attempt": self._attempt_fields,
            "soak": self._soak, "mechanism": self._mechanism, "result": self._result,
        }  # fmt: skip

    # ------------------------------------------------------------------------------- what an agent fills into a record

    def _history(self, data: dict[str, Any]) -> dict[str, Any]:
        locked = open_campaign(self.run).contract is not None
        more = {"framework": "vllm", "path": "vllm/llama/README.md", "pr": 99} if locked else {}
        return {**data, "items": [history_item(**more)]}

    def _pr_check(self, data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "upstream": "sgl-project/sglang", "fork": "me/sglang", "open": ["123"]}

    def _ceiling(self, data: dict[str, Any]) -> dict[str, Any]:
        assert set(data) <= {"config"}
        return {"blocker": "the fake model has no layers to compute a floor from"}

    def _accuracy(self, data: dict[str, Any]) -> dict[str, Any]:
        score = PATCHES[str(self._idea_of(self._attempt())["symbol"])][1] if "attempt" in data else 0.84
        return {**data, "file": str(self.lm_eval(score))}

    def _round_open(self, data: dict[str, Any]) -> dict[str, Any]:
        self.fresh()  # every round in another process
        with pytest.raises(campaign_agent.Refused):
            self.shell("pkill -f sglang")
        return {**data, "query": "decode attention overhead"}

    def _profile(self, data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "traces": self.capture(str(data["framework"]))}

    def _idea(self, data: dict[str, Any]) -> dict[str, Any]:
        assert {"provenance", "symbol", "covers"} <= set(data)
        found = open_campaign(self.run).of("idea")[0]
        again = idea(str(found["symbol"]), found.words("covers"))
        self._refuse("the idea stands as", "idea", **again)
        return idea("fused_add_norm", found.words("covers"))

    def _attempt_fields(self, data: dict[str, Any]) -> dict[str, Any]:
        return {
            **data,
            "title": "fused norm",
            "mechanism": "rmsnorm_kernel",
            "tests": ["pytest t.py"],
            "paths": ["speed.json"],
        }

    def _soak(self, data: dict[str, Any]) -> dict[str, Any]:
        place = self.tmp / "soak.json"
        body = {"minutes": 0.01, "repeats": 2, "errors": 0, "restarts": 0, "peak_device_bytes": 70_000_000_000}
        series = {"memory_bytes": [[t, 7e10] for t in (0, 0.3, 0.6)], "p99_ms": [[t, 9] for t in (0, 0.3, 0.6)]}
        place.write_text(json.dumps({**body, **series, "began": time.time()}))
        return {**data, "file": str(place)}

    def _mechanism(self, data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "files": self.capture("sglang")}

    def _result(self, data: dict[str, Any]) -> dict[str, Any]:
        good = str(data["outcome"]).startswith("accepted")
        if not good:
            self._refuse("cannot be accepted", "result", **{**data, "outcome": "accepted", "reason": "it is fast"})
        return {**data, "outcome": "accepted" if good else "rejected", "reason": "as measured"}

    def _refuse(self, match: str, kind: str, /, **data: Any) -> None:
        with pytest.raises(campaign_agent.Refused, match=match) as told:
            self._ask(kind, data)
        self.refused.append(str(told.value))

    def _ask(self, kind: str, data: dict[str, Any]) -> None:
        """Record, without a fate of its own."""
        try:
            self.server.call("record_campaign", {"kind": kind, "data": data, "run": str(self.run)})
        except Refused as fault:
            raise campaign_agent.Refused(str(fault)) from None

    def _attempt(self) -> Record:
        found = open_campaign(self.run).last("attempt")
        assert found is not None
        return found

    def _idea_of(self, attempt: Record) -> Record:
        return open_campaign(self.run).need(str(attempt["idea"]), "idea")


def void(_: object) -> None:
    """Nothing of an answer is kept."""


def after(words: list[str], flag: str) -> str:
    """The word behind a flag."""
    return words[words.index(flag) + 1]


def idea(symbol: str, covers: list[str]) -> dict[str, Any]:
    """An idea of this symbol."""
    return {
        "title": f"another {symbol}", "repository": "sglang", "path": "python/norm.py", "symbol": symbol, "covers": covers,
        "provenance": "vllm csrc/layernorm.cu at commit 1234567", "expected_gain_pct": 1.0,
    }  # fmt: skip


def patch_text(checkout: Path, speed: Speed) -> str:
    """A unified difference that makes the engine's source this."""
    place = checkout / "speed.json"
    before = place.read_text()
    place.write_text(json.dumps(speed))
    try:
        return f"{git(checkout, 'diff')}\n"
    finally:
        place.write_text(before)


def subprocess_text(walker: Walker, words: list[str]) -> None:
    """A command whose answer goes to a file as text."""
    walker.guarded(shlex.join(["infer-forge", *words]))
    argv = [sys.executable, "-m", "infer_forge.cli.main", *words]
    subprocess.run(argv, check=True, capture_output=True, cwd=walker.tmp)
