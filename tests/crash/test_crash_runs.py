"""Recorded runs, plans, verification and collection: with real processes and real (fake-engine) servers."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable, MissingPart, UsageFault
from infer_forge.crash import Context, collect, plan_runs, questions, resend, run_recorded, triage, verify
from infer_forge.crash.collecting import redacted_body, unfinished
from infer_forge.crash.verifying import lower_bound, luck, runs_needed
from tests.engines.fakes.launch import engine

CRASH = "import sys; print('working'); sys.stderr.write('RuntimeError: CUDA error: misaligned address\\n'); sys.exit(3)"


@pytest.fixture(autouse=True)
def quick_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment digest and GPU looks have tests of their own; they cost a second each."""
    from infer_forge.crash import recording

    monkeypatch.setattr(recording, "_gpus", lambda: {"unknown": "test"})
    monkeypatch.setattr("infer_forge.engines.env.environment", _digest)


def _digest(*_: object, **__: object) -> _Digest:
    return _Digest()


class _Digest:
    def to_json(self) -> dict[str, str]:
        return {"digest": "0"}


def test_a_recorded_run_keeps_output_environment_and_exit_and_is_triaged(tmp_path: Path) -> None:
    report = run_recorded([sys.executable, "-c", CRASH], out=tmp_path / "ev", ask=["kernel"])
    assert report.extra["class"] == "misaligned"
    assert report.extra["run"]["exit"] == 3
    record = jsonio.read_json(tmp_path / "ev" / "record.json")
    assert record["state"] == "ended"
    assert record["env"]["CUDA_ENABLE_COREDUMP_ON_EXCEPTION"] == "1"
    assert record["env"]["CUDA_COREDUMP_FILE"].startswith(str(tmp_path / "ev"))
    assert (tmp_path / "ev" / "stdout.log").read_text() == "working\n"
    assert CRASH in " ".join(record["command"])


def test_a_run_with_patches_bounds_a_crash_inside_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mod_under_test.py").write_text("import os\ndef safe(x): return x\ndef fatal(x): os.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = "import mod_under_test as m; m.safe([1]); m.fatal([2])"
    report = run_recorded(
        [sys.executable, "-c", program],
        out=tmp_path / "ev",
        level=10,
        patches=["mod_under_test:safe", "mod_under_test:fatal"],
    )
    assert report.extra["run"]["signal"] == "SIGABRT"
    assert report.extra["api"] == "mod_under_test.fatal"
    assert any(f.code == "CAUTION" for f in report.findings)


def test_a_run_that_is_killed_from_outside_accuses_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mod_killed.py").write_text("import os, signal\ndef f(x): os.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = run_recorded(
        [sys.executable, "-c", "import mod_killed; mod_killed.f(1)"],
        out=tmp_path / "ev",
        level=10,
        patches=["mod_killed:f"],
    )
    assert report.extra["class"] == "killed_host"
    assert report.extra["api"] is None


def test_a_run_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, "
        "'-c', 'import time; time.sleep(600)']); time.sleep(600)"
    )
    report = run_recorded([sys.executable, "-c", program], out=tmp_path / "ev", timeout_s=0.5)
    assert report.extra["run"]["ended_by"] == "timeout"
    assert report.extra["class"] == "watchdog_hang"


def test_the_evidence_is_bounded_by_dropping_the_oldest_complete_dumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mod_large.py").write_text("import time\ndef f(x):\n    time.sleep(0.12)\n    return x\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = "import numpy, mod_large\nfor i in range(12): mod_large.f(numpy.zeros(25000))"
    report = run_recorded(
        [sys.executable, "-c", program], out=tmp_path / "ev", level=10, patches=["mod_large:f"], max_bytes=2_000_000
    )
    assert report.extra["run"]["pruned"] > 0
    assert report.extra["run"]["exit"] == 0


def test_old_evidence_is_never_mixed_with_new(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("old")
    with pytest.raises(UsageFault, match="not empty"):
        run_recorded(["true"], out=tmp_path)
    with pytest.raises(MissingPart):
        run_recorded(["/no/such/program"], out=tmp_path / "new")


@pytest.mark.parametrize(
    ("ask", "command", "level", "environ", "word"),
    [
        (["kernel"], ["x"], None, {"CUDA_COREDUMP_GENERATION_FLAGS": "skip_abort"}, "skip_abort"),
        (["launch"], ["vllm", "serve", "m"], None, {}, "graph"),
        (["launch", "hang"], ["x"], None, {}, "order"),
        (["hang"], ["x"], 5, {}, "statistics"),
        (["kernel"], ["compute-sanitizer", "x"], None, {}, "debug interface"),
        (["call"], ["compute-sanitizer", "x"], 1, {}, "caching allocator"),
        (["memory"], ["x"], None, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "expandable"),
    ],
)
def test_combinations_that_lie_are_refused(
    ask: list[str], command: list[str], level: int | None, environ: dict[str, str], word: str
) -> None:
    with pytest.raises(GateRefused, match=word):
        questions.check(ask, command, level=level, environ=environ)


def test_honest_combinations_pass_and_debug_variables_in_a_benchmark_are_told() -> None:
    assert questions.check(["launch"], ["vllm", "serve", "m", "--enforce-eager"], level=None, environ={}) == []
    assert questions.check(["memory"], ["compute-sanitizer", "x"], level=None, environ={}) == []
    assert "void" in questions.check(["kernel"], ["python", "-m", "sglang.bench_serving"], level=None, environ={})[0]


def test_luck_is_the_binomial_figure_and_its_careful_bound() -> None:
    assert luck(0.3, 10) == pytest.approx(0.0282, abs=1e-4)
    assert lower_bound(3, 10) == pytest.approx(0.0873, abs=1e-4)  # Clopper-Pearson, one-sided 95 %
    assert lower_bound(1, 1) == pytest.approx(0.05)
    assert lower_bound(0, 5) == 0
    assert runs_needed(0.3) == 9
    assert runs_needed(1.0) == 1
    assert runs_needed(0.0) is None


def test_a_fix_is_verified_only_by_enough_passes_of_what_crashed_before() -> None:
    assert verify("true", runs=9, crashed=3, of=10).extra["verdict"] == "verified"
    few = verify("true", runs=2, crashed=3, of=10)
    assert few.extra["verdict"] == "not_enough_runs"
    assert few.extra["runs_needed"] == 9
    assert verify("false", runs=3, crashed=1, of=1).extra["verdict"] == "still_crashes"
    assert verify("sleep 30", runs=1, crashed=1, of=1, timeout_s=0.2).tables["runs"].dicts()[0]["state"] == "hang"
    with pytest.raises(GateRefused):
        verify("true", runs=10, crashed=0, of=10)
    with pytest.raises(UsageFault):
        verify("true", runs=10, crashed=3, of=2)


def test_a_plan_asks_one_question_a_run_and_leaves_out_what_was_done(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("RuntimeError: CUDA error: an illegal memory access was encountered\n")
    ids = [r["id"] for r in plan_runs([log]).extra["runs"]]
    assert ids[0] == "kernel"
    assert {"eager", "launch", "memory", "one_rank", "call"} <= set(ids)
    less = [
        r["id"] for r in plan_runs([log], context=Context(graphs=False, launch_blocking=True, world=1)).extra["runs"]
    ]
    assert not {"eager", "launch", "one_rank"} & set(less)
    for text, first in (
        ("ValueError: No available memory for the cache blocks", None),
        ("[1.000001] NVRM: Xid (PCI:0000:0a:00): 79, gone", None),
        ("Watchdog timeout (self.watchdog_timeout=300)", "hang"),
    ):
        log.write_text(text + "\n")
        runs = plan_runs([log]).extra["runs"]
        assert (runs[0]["id"] if runs else None) == first


def test_a_bundle_of_a_live_server_is_read_only_and_triage_reads_it(tmp_path: Path) -> None:
    with engine("sglang") as running:
        log = tmp_path / "server.log"
        rid = "Receive: obj=GenerateReqInput(rid='r1', text='hello', sampling_params={'temperature': 0})"
        log.write_text(
            f"[2026-03-01 10:00:00] {rid}\n[2026-03-01 10:00:01 TP1] RuntimeError: CUDA error: misaligned address\n"
        )
        report = collect(running.url, out=tmp_path / "bundle", log=log)
        assert report.extra["health"] == 200
        assert report.extra["requests"] == 1
        assert triage([tmp_path / "bundle"]).extra["class"] == "misaligned"
        with pytest.raises(GateRefused, match="observed"):
            resend(tmp_path / "bundle", running.url)
        with engine("sglang") as other:
            again = resend(tmp_path / "bundle", other.url)
            assert again.extra["verdict"] == "passes"


def test_xids_of_a_machine_snapshot_count(tmp_path: Path) -> None:
    gpus = {"node": "node9", "gpus": [{"index": 0, "pci": "0000:0a:00", "xid": [79]}, {"index": 1, "xid": None}, "x"]}
    (tmp_path / "gpus.json").write_text(json.dumps(gpus))
    found = triage([tmp_path]).extra
    assert found["class"] == "xid_79"
    assert "node mark node9" in found["next"]["command"]


def test_a_dead_server_gives_a_bundle_that_says_so(tmp_path: Path) -> None:
    report = collect("http://127.0.0.1:9", out=tmp_path / "bundle", timeout_s=0.5)
    assert report.extra["health"] == 0
    assert all(r["status"] == 0 and r["reason"] for r in report.tables["endpoints"].dicts())
    with pytest.raises(UsageFault):
        collect("http://user:pass@host:1")
    with pytest.raises(InputUnusable):
        collect("http://127.0.0.1:9", out=tmp_path / "b2", log=tmp_path / "absent", timeout_s=0.1)


def test_secrets_of_a_body_are_masked_by_name_and_by_form() -> None:
    shown = redacted_body(
        json.dumps(
            {"api_key": "abcdefgh", "nested": [{"admin_api_key": "q"}], "max_tokens": 5, "x": "hf_" + "Ab1Cd2Ef3" * 4}
        )
    )
    assert "abcdefgh" not in shown
    assert "hf_Ab1" not in shown
    assert '"max_tokens": 5' in shown


def test_only_requests_without_an_end_count_as_failing() -> None:
    def line(word: str, rid: str) -> str:
        return f"{word}: obj=GenerateReqInput(rid='{rid}', text='t', sampling_params={{'n': 1}})"

    found = unfinished(
        "\n".join(
            [
                line("Receive", "a"),
                line("Receive", "b"),
                line("Finish", "a"),
                "Received request cmpl-1: prompt: 'x'",
                "Finished request cmpl-1.",
            ]
        )
    )
    assert [r["body"]["text"] for r in found] == ["t"]


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not installed")
def test_the_real_sanitizer_without_a_gpu_is_read_as_never_ran(tmp_path: Path) -> None:
    done = subprocess.run(
        ["compute-sanitizer", "--tool", "memcheck", "true"], capture_output=True, text=True, timeout=60, check=False
    )
    if "ERROR SUMMARY" in done.stdout:
        pytest.skip("a GPU is visible here")
    (tmp_path / "san.log").write_text(done.stdout + done.stderr)
    found = triage([tmp_path]).extra
    assert found["class"] == "sanitizer_never_ran"
    assert found["certainty"] == "unknown"


def cli(*words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "infer_forge", "crash", *words],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=120,
        check=False,
        env=dict(os.environ),
    )


def test_the_command_line_reads_a_pasted_log_and_keeps_its_exit_codes(tmp_path: Path) -> None:
    pasted = cli(
        "triage",
        "-",
        "--format",
        "json",
        "--html",
        str(tmp_path / "p.html"),
        stdin="RuntimeError: CUDA error: misaligned address\n",
    )
    assert json.loads(pasted.stdout)["class"] == "misaligned"
    assert "<svg" in (tmp_path / "p.html").read_text()
    assert cli("triage", "-", "--require", "proven", stdin="CUDA error: misaligned address\n").returncode == 4
    assert cli("triage", str(tmp_path / "absent")).returncode == 3
    assert cli("record", "--for", "launch", "--", "vllm", "serve", "m").returncode == 4
    recorded = cli("record", "--out", str(tmp_path / "ev"), "--format", "json", "--", sys.executable, "-c", CRASH)
    assert json.loads(recorded.stdout)["run"]["exit"] == 3
    assert "working" in recorded.stderr
    assert shlex.split(json.loads(recorded.stdout)["next"]["command"])[:3] == ["infer-forge", "crash", "record"]
