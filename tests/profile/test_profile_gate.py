"""The backend gate: a trace of another path is void, with the line that shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.engines.server_facts import DIFFUSERS_FALLBACK
from infer_forge.profile import triage
from infer_forge.profile.model import Options

Make = Callable[..., Any]
ARGS = {
    "model_path": "some/model",
    "tp_size": 1,
    "attention_backend": "fa3",
    "disable_cuda_graph": False,
    "mem_fraction_static": 0.8,
}
LOG = (
    "[2026-11-29 10:00:00] server_args=ServerArgs(model_path='some/model', tp_size=1, "
    "attention_backend='{backend}', disable_cuda_graph={off})\n"
)


def files(tmp_path: Path, log: str, args: dict[str, Any] | None = None) -> tuple[Path, Path]:
    saved, written = tmp_path / "server_args.json", tmp_path / "server.log"
    saved.write_text(json.dumps(args or ARGS))
    written.write_text("[2026-11-29 09:59:59] sglang is starting\n" + log)
    return saved, written


def run(trace: Path, args: Path | None, log: Path | None) -> Any:
    return triage([trace], Options(cache=False, server_args=args, server_log=log))


@pytest.fixture
def trace(trace_writer: Make) -> Path:
    made = trace_writer()
    for i in range(4):
        made.step("step[DECODE bs=1]", 990 + 100 * i, 50).kernel("my_kernel", 1000 + 100 * i, 10)
    return made.write()


def test_the_same_backend_passes(trace: Path, tmp_path: Path) -> None:
    args, log = files(tmp_path, LOG.format(backend="fa3", off=False))
    assert run(trace, args, log).tables["kernel"].rows


def test_another_attention_backend_is_refused_with_the_line(trace: Path, tmp_path: Path) -> None:
    args, log = files(tmp_path, LOG.format(backend="triton", off=False))
    with pytest.raises(GateRefused, match="attention_backend") as raised:
        run(trace, args, log)
    assert f"{log}:2" in str(raised.value)
    assert "triton" in str(raised.value)
    assert raised.value.exit_code == 4


def test_cuda_graph_off_in_the_log_is_refused(trace: Path, tmp_path: Path) -> None:
    args, log = files(tmp_path, LOG.format(backend="fa3", off=True))
    with pytest.raises(GateRefused, match="cuda_graph"):
        run(trace, args, log)


@pytest.mark.parametrize("line", DIFFUSERS_FALLBACK)
def test_a_fallback_to_diffusers_is_refused_even_without_arguments(trace: Path, tmp_path: Path, line: str) -> None:
    _, log = files(tmp_path, LOG.format(backend="fa3", off=False) + f"[2026-11-29 10:00:05] {line} for model X\n")
    with pytest.raises(GateRefused, match=line):
        run(trace, None, log)


def test_arguments_alone_are_held_against_the_trace(trace: Path, tmp_path: Path) -> None:
    args, _ = files(tmp_path, "")
    with pytest.raises(GateRefused, match="no graph replay in a trace with decode steps"):
        run(trace, args, None)
    eager, _ = files(tmp_path, "", ARGS | {"disable_cuda_graph": True})
    report = run(trace, eager, None)
    assert "BACKEND_UNKNOWN" in {f.code for f in report.findings}


def test_a_log_of_nobody_is_refused_as_unusable(trace: Path, tmp_path: Path) -> None:
    log = tmp_path / "other.log"
    log.write_text("hello\n")
    with pytest.raises(InputUnusable):
        run(trace, None, log)


def test_a_log_without_graphs_is_none_of_a_trace_that_replays_them(trace_writer: Make, tmp_path: Path) -> None:
    made = trace_writer()
    for i in range(4):
        made.step("step[DECODE bs=1]", 990 + 100 * i, 50).kernel(
            "my_kernel", 1000 + 100 * i, 10, **{"graph node id": 7 + i}
        )
    _, log = files(tmp_path, LOG.format(backend="fa3", off=True))
    with pytest.raises(GateRefused, match="replays CUDA graphs, and this log's server had none") as raised:
        run(made.write(), None, log)
    assert f"{log}:2" in str(raised.value)
    assert run(made.write(), None, files(tmp_path, LOG.format(backend="fa3", off=False))[1]).tables["kernel"].rows


FA3 = "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2> > >(flash::Params)"


@pytest.mark.parametrize(
    ("wanted", "kernel", "void"),
    [
        ("fa3", FA3, False),
        ("triton", FA3, True),
        ("trtllm_mha", "_fwd_grouped_kernel_stage1", True),
        ("flashinfer", "fmhaSm100aKernel_QkvBfloat16", False),
        ("some_new_backend", FA3, None),
        ("triton", "somebody_elses_attention_fwd", None),
    ],
)
def test_without_a_log_the_attention_kernels_of_the_trace_are_held_against_the_arguments(
    trace_writer: Make, tmp_path: Path, wanted: str, kernel: str, void: bool | None
) -> None:
    made = trace_writer()
    for i in range(4):
        made.step("step[DECODE bs=1]", 990 + 100 * i, 50).kernel(kernel, 1000 + 100 * i, 10)
    args, _ = files(tmp_path, "", ARGS | {"attention_backend": wanted, "disable_cuda_graph": True})
    if void:
        with pytest.raises(GateRefused, match="attention_backend is .* the benchmark used") as raised:
            run(made.write(), args, None)
        assert kernel[:40] in str(raised.value)
        return
    figures = [f.message for f in run(made.write(), args, None).findings if f.code == "BACKEND_UNKNOWN"]
    assert any("whether attention_backend" in m for m in figures) is (void is None)


def test_two_attention_implementations_in_one_stage_leave_the_backend_open(trace_writer: Make, tmp_path: Path) -> None:
    made = trace_writer()
    for i, kernel in enumerate((FA3, "_fwd_grouped_kernel_stage1") * 2):
        made.step("step[DECODE bs=1]", 990 + 100 * i, 50).kernel(kernel, 1000 + 100 * i, 10)
    args, _ = files(tmp_path, "", ARGS | {"attention_backend": "triton", "disable_cuda_graph": True})
    assert "BACKEND_UNKNOWN" in {f.code for f in run(made.write(), args, None).findings}
