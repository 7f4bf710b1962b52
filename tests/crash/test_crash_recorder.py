"""The recorder: what it writes, that a killed process leaves its last call, that it never harms the program; and replay."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
import pytest

from infer_forge.base.errors import InputUnusable, MissingPart, UsageFault
from infer_forge.crash import recorder, replay, triage

needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed: tensors are not recorded here"
)


@pytest.fixture
def evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recorder, "_sink", None)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("INFER_FORGE_RECORD_DEST", str(tmp_path / "rank%r_pid%i" / "calls.log"))
    monkeypatch.setenv("INFER_FORGE_RECORD_DIR", str(tmp_path / "rank%r_pid%i" / "dumps"))
    return tmp_path / f"rank3_pid{os.getpid()}"


def scale(x: numpy.ndarray, factor: float = 2.0) -> numpy.ndarray:
    return x * factor


def fails(x: numpy.ndarray) -> None:
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def test_at_level_0_the_function_itself_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFER_FORGE_RECORD_LEVEL", raising=False)
    assert recorder.record(scale) is scale


def test_a_level_that_is_no_number_is_off_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "many")
    assert recorder.record(scale) is scale
    assert "is no number" in capsys.readouterr().err


def test_each_level_tells_more(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = numpy.ones((2, 3), dtype="float32")
    data[0, 0] = numpy.nan
    for level, holds, lacks in (
        ("1", "Crash recorder Return", "shape="),
        ("3", "stride=(3, 1)", "nan_count"),
        ("5", "nan_count=1", "Dumped"),
    ):
        monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", level)
        (evidence / "calls.log").unlink(missing_ok=True)
        monkeypatch.setattr(recorder, "_sink", None)
        assert recorder.record(scale)(data, factor=3.0).shape == (2, 3)
        text = (evidence / "calls.log").read_text()
        assert holds in text
        assert lacks not in text


def test_a_saved_call_replays_and_compares(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "10")
    recorder.record(scale)(numpy.arange(6.0), factor=3.0)
    folder = next((evidence / "dumps").iterdir())
    assert replay(folder, scale).extra["verdict"] == "same"
    wrong = replay(folder, off_by_one)
    assert wrong.extra["verdict"] == "differs"
    row = wrong.tables["outputs"].dicts()[0]
    assert row["differing"] == 1
    assert row["first_index"] == "(4,)"
    assert replay(folder, cut).tables["outputs"].dicts()[0]["state"] == "other_form"
    assert replay(folder, fails_with_factor).extra["verdict"] == "raised"


def off_by_one(x: numpy.ndarray, factor: float) -> numpy.ndarray:
    return x * factor + (x == 4)


def cut(x: numpy.ndarray, factor: float) -> numpy.ndarray:
    return (x * factor)[:2]


def five(value: object) -> int:
    return 5


def fails_with_factor(x: numpy.ndarray, factor: float) -> None:
    raise ValueError("no")


def test_a_call_that_raised_is_told_and_bounded(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "10")
    recorded = recorder.record(fails, name="ops.fails")
    with pytest.raises(RuntimeError):
        recorded(numpy.ones(2))
    found = triage([evidence]).extra
    assert found["api"] == "ops.fails"
    assert found["certainty"] == "bounded"
    assert found["rank"] == 3
    folder = next((evidence / "dumps").iterdir())
    assert replay(folder, scale).extra["verdict"] == "no_saved_output"


def test_dumps_are_capped_in_count_and_bytes(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "10")
    monkeypatch.setenv("INFER_FORGE_RECORD_MAX_DUMPS", "3")
    recorded = recorder.record(scale)
    for _ in range(6):
        recorded(numpy.ones(4))
    assert len(list((evidence / "dumps").iterdir())) == 3
    assert "Dump limit reached (3 dumps)" in (evidence / "calls.log").read_text()


def test_the_log_keeps_its_newest_half(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "1")
    monkeypatch.setenv("INFER_FORGE_RECORD_MAX_LOG_BYTES", "4000")
    recorded = recorder.record(scale)
    for _ in range(500):
        recorded(numpy.ones(1))
    recorder.record(scale, name="the.last")(numpy.ones(1))
    assert sum(p.stat().st_size for p in evidence.glob("calls.log*")) <= 4000
    assert "the.last" in (evidence / "calls.log").read_text()


def test_a_value_that_cannot_be_shown_does_not_break_the_program(
    evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Rude:
        def __repr__(self) -> str:
            raise OSError("no")

    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "10")
    assert recorder.record(five, name="rude")(Rude()) == 5
    folder = next((evidence / "dumps").iterdir())
    with pytest.raises(InputUnusable, match="could not be saved"):
        replay(folder, scale)


def test_a_folder_that_cannot_be_written_does_not_break_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_sink", None)
    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "10")
    monkeypatch.setenv("INFER_FORGE_RECORD_DEST", "/proc/nowhere/calls.log")
    monkeypatch.setenv("INFER_FORGE_RECORD_DIR", "/proc/nowhere")
    assert recorder.record(scale)(numpy.ones(2)).sum() == 4


class FakeTorch(types.ModuleType):
    """As much of torch as says what moment it is."""

    class Tensor:
        pass

    dtype = type("dtype", (), {})

    def __init__(self, *, capturing: bool, compiling: bool) -> None:
        super().__init__("torch")
        self.cuda = types.SimpleNamespace(is_available=lambda: True, is_current_stream_capturing=lambda: capturing)
        self.compiler = types.SimpleNamespace(is_compiling=lambda: compiling)


def test_during_graph_capture_nothing_is_read_or_saved_and_inside_compile_nothing_is_logged(
    evidence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "10")
    recorded = recorder.record(scale)
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(capturing=True, compiling=False))
    recorded(numpy.ones(3))
    text = (evidence / "calls.log").read_text()
    assert "statistics=[skipped: graph capture in progress]" in text
    assert "Tensor dump skipped: graph capture in progress" in text
    assert not (evidence / "dumps").exists()
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(capturing=False, compiling=True))
    recorded(numpy.ones(3))
    assert (evidence / "calls.log").read_text() == text


def test_a_forked_child_writes_a_log_of_its_own(tmp_path: Path, project_root: Path) -> None:
    program = (
        f"import os, sys; sys.path.insert(0, {str(project_root)!r})\n"
        "from infer_forge.crash.recorder import record\n"
        "f = record(lambda x: x, name='f'); f(1)\n"
        "pid = os.fork()\n"
        "f(2)\n"
        "os._exit(0) if pid == 0 else os.waitpid(pid, 0)\n"
    )
    env = {**os.environ, "INFER_FORGE_RECORD_LEVEL": "1", "INFER_FORGE_RECORD_DEST": str(tmp_path / "pid%i.log")}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=60)
    counts = sorted(p.read_text().count("Call: f") for p in tmp_path.glob("pid*.log"))
    assert counts == [1, 2]


PROGRAM = """
import os, sys, time
import work
for i in range(3):
    work.step([1.0, 2.0], i)
work.Model().forward(b=1)
work.step([], -1)
"""
WORK = """
import time
def step(values, number):
    if number < 0:
        print("inside", flush=True)
        time.sleep(60)
    return values
class Model:
    @staticmethod
    def forward(b): return b
"""


def test_a_process_killed_in_a_call_leaves_that_call(tmp_path: Path, project_root: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "program.py").write_text(PROGRAM)
    hook = (
        f"import sys; sys.path.insert(0, {str(project_root)!r}); from infer_forge.crash "
        f"import recorder; recorder.install_from_environment(); exec(open('program.py').read())"
    )
    env = {
        **os.environ,
        "INFER_FORGE_RECORD_LEVEL": "10",
        "INFER_FORGE_RECORD_DEST": str(tmp_path / "ev_pid%i" / "calls.log"),
        "INFER_FORGE_RECORD_DIR": str(tmp_path / "ev_pid%i" / "dumps"),
        "INFER_FORGE_RECORD_PATCH": "work:step,work:Model.forward,work:absent",
    }
    with subprocess.Popen(
        [sys.executable, "-c", hook], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"inside\n"
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=20)
        assert child.stderr is not None
        assert b"work has no absent" in child.stderr.read()
    evidence = next(tmp_path.glob("ev_pid*"))
    lines = (evidence / "calls.log").read_text().splitlines()
    assert [x for x in lines if "Call: " in x][-1].endswith("work.step")
    assert sum("Return: work.step" in x for x in lines) == 3
    assert any("Call: work.Model.forward" in x for x in lines)
    last = sorted((evidence / "dumps").iterdir(), key=lambda p: p.name[-4:])[-1]
    assert '"execution_status": "inputs_saved"' in (last / "metadata.json").read_text()


def test_recording_costs_little(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "1")
    recorded = recorder.record(scale)
    data = numpy.ones(1)
    begin = time.perf_counter()
    for _ in range(500):
        recorded(data)
    assert (time.perf_counter() - begin) / 500 < 0.002


def test_targets_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="MODULE:FUNCTION"):
        recorder.patch(["nothing"])
    with pytest.raises(InputUnusable):
        replay(tmp_path, scale)
    (tmp_path / "metadata.json").write_text('{"function_name": "f", "execution_status": "completed"}')
    with pytest.raises(UsageFault):
        replay(tmp_path, "nothing")
    with pytest.raises(MissingPart):
        replay(tmp_path, "no_such_module_here:f")


def test_replay_never_unpickles(tmp_path: Path) -> None:
    import pickle

    from tests.crash.test_crash_evidence import Bomb

    mark = tmp_path / "ran"
    (tmp_path / "metadata.json").write_text('{"function_name": "f", "execution_status": "completed"}')
    (tmp_path / "inputs.npz").write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(InputUnusable):
        replay(tmp_path, scale)
    assert not mark.exists()


@needs_torch
def test_tensors_are_described_saved_and_replayed(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = importlib.import_module("torch")
    monkeypatch.setenv("INFER_FORGE_RECORD_LEVEL", "10")

    def both(x: Any, more: dict[str, Any]) -> tuple[Any, int]:
        return x.float() + more["y"], 3

    def twice(x: Any, more: dict[str, Any]) -> tuple[Any, int]:
        return both(x, more)[0] * 2, 3

    x = torch.ones((2, 4), dtype=torch.bfloat16).t()
    recorder.record(both, name="ops.both")(x, {"y": torch.full((4, 2), 2.0)})
    text = (evidence / "calls.log").read_text()
    assert "dtype=torch.bfloat16" in text
    assert "stride=(1, 4)" in text
    folder = next((evidence / "dumps").iterdir())
    assert replay(folder, both).extra["verdict"] == "same"
    assert replay(folder, twice).extra["verdict"] == "differs"


@needs_torch
def test_custom_operators_are_recorded_through_the_import_hook(tmp_path: Path, project_root: Path) -> None:
    program = """
import sys
sys.path.insert(0, ROOT)
from infer_forge.crash import recorder
recorder.install_from_environment()
import torch
@torch.library.custom_op("forge_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
print(torch.ops.forge_test.twice(torch.ones(2)).sum().item(), torch.ops.forge_test.twice.default is not None)
""".replace("ROOT", repr(str(project_root)))
    env = {
        **os.environ,
        "INFER_FORGE_RECORD_LEVEL": "3",
        "INFER_FORGE_RECORD_DEST": str(tmp_path / "calls.log"),
        "INFER_FORGE_RECORD_PATCH": "torch.ops.forge_test:twice",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "4.0 True", done.stderr[-500:]
    assert "Call: torch.ops.forge_test.twice" in (tmp_path / "calls.log").read_text()
