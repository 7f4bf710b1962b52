"""Kernel-API logs and dump folders of SGLang and FlashInfer: which conclusion each piece of evidence bears."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer_forge.crash import triage
from tests.crash.crash_ask import verdict

STATS = "min=0.000000 max=1.000000 mean=0.500000 nan_count=0 inf_count=0"
DEAD = "statistics=[unavailable: AcceleratorError]"
ERROR = "RuntimeError: CUDA error: an illegal memory access was encountered\n"


def call(name: str, *, inputs: str | None = None, output: str | None = None, level: int = 5) -> str:
    """One record of SGLang's log."""
    lines = ["=" * 80, f"[2026-03-01 10:00:01] SGLang Kernel API Call: {name}"]
    if level >= 3:
        lines += [
            "Positional input arguments:",
            "  0=Tensor(",
            "      shape=(1, 8)",
            "      dtype=torch.bfloat16",
            "      device=cuda:0",
        ]
        lines += [f"      {inputs}"] if inputs else []
        lines.append("  )")
    if output is not None:
        lines += ["Output:", "  Tensor(", "      shape=(1, 8)", f"      {output}", "  )"]
    return "\n".join(lines) + "\n"


def test_a_last_call_at_level_1_is_a_candidate_only(tmp_path: Path) -> None:
    found = verdict(tmp_path, call("ops.a", level=1) + call("ops.b", level=1) + ERROR)
    assert found["certainty"] == "surfaced_only"
    assert found["api"] is None
    assert found["suspects"][0]["what"] == "ops.b"
    assert {s["strength"] for s in found["suspects"]} == {"low"}


def test_a_call_that_came_back_at_level_3_may_still_be_at_fault_and_is_not_named(tmp_path: Path) -> None:
    found = verdict(tmp_path, call("ops.a", level=3, output="") + ERROR)
    assert found["certainty"] == "surfaced_only"
    assert "GPU work may still be at fault" in found["suspects"][0]["why"]


def test_an_exception_line_at_level_1_is_where_it_surfaced(tmp_path: Path) -> None:
    raised = (
        "[2026-03-01 10:00:02] SGLang Kernel API Exception: ops.a "
        "(AcceleratorError: CUDA error: an illegal memory access was encountered)\n"
    )
    found = verdict(tmp_path, call("ops.a", level=1) + raised + ERROR)
    assert found["certainty"] == "surfaced_only"
    assert found["api"] is None
    assert "surfaced here" in found["suspects"][0]["why"]


def test_dead_inputs_at_level_5_mean_before_the_call(tmp_path: Path) -> None:
    found = verdict(
        tmp_path,
        call("ops.a", inputs=STATS, output=STATS) + call("ops.b", inputs=STATS) + call("ops.c", inputs=DEAD) + ERROR,
    )
    assert found["certainty"] == "bounded"
    assert found["api"] is None
    assert found["sync_boundary"]["first_bad"]["api"] == "ops.c"
    assert found["sync_boundary"]["last_good"]["api"] == "ops.b"
    assert found["suspects"][0]["what"] == "ops.b"
    assert found["suspects"][0]["refs"]


def test_dead_outputs_at_level_5_mean_inside_the_call(tmp_path: Path) -> None:
    found = verdict(
        tmp_path, call("ops.a", inputs=STATS, output=STATS) + call("ops.b", inputs=STATS, output=DEAD) + ERROR
    )
    assert found["certainty"] == "bounded"
    assert found["api"] == "ops.b"


@pytest.mark.parametrize("kind", ["NotImplementedError", "TypeError"])
def test_an_unsupported_dtype_is_no_fault(tmp_path: Path, kind: str) -> None:
    found = verdict(tmp_path, call("ops.a", inputs=f"statistics=[unavailable: {kind}]", output=STATS) + ERROR)
    assert found["certainty"] == "surfaced_only"
    assert found["sync_boundary"] is None


def test_inputs_read_then_a_cuda_exception_at_level_5_is_the_call(tmp_path: Path) -> None:
    raised = (
        "[2026-03-01 10:00:02] SGLang Kernel API Exception: ops.a "
        "(AcceleratorError: CUDA error: an illegal memory access was encountered)\n"
    )
    assert verdict(tmp_path, call("ops.a", inputs=STATS) + raised + ERROR)["api"] == "ops.a"


def dump(root: Path, number: int, name: str, status: str | None, *, outputs: bool = False, pid: int = 77) -> Path:
    folder = root / f"20260301_10000{number}_000_pid{pid}_{name}_call{number:04d}"
    folder.mkdir(parents=True)
    if status is None:
        return folder
    (folder / "inputs.pt").write_bytes(b"never opened")
    if outputs:
        (folder / "outputs.pt").write_bytes(b"never opened")
    data: dict[str, Any] = {
        "function_name": name,
        "timestamp": f"20260301_10000{number}_000",
        "process_id": pid,
        "execution_status": status,
    }
    if status == "exception":
        data["exception"] = {
            "type": "AcceleratorError",
            "message": "CUDA error: an illegal memory access was encountered",
        }
    (folder / "metadata.json").write_text(json.dumps(data))
    return folder


def test_saved_inputs_without_outputs_mean_inside_the_call(tmp_path: Path) -> None:
    dump(tmp_path, 1, "ops.a", "completed", outputs=True)
    dump(tmp_path, 2, "ops.b", "inputs_saved")
    found = triage([tmp_path]).extra
    assert found["certainty"] == "bounded"
    assert found["api"] == "ops.b"


def test_a_folder_without_files_means_before_the_call(tmp_path: Path) -> None:
    dump(tmp_path, 1, "ops.a", "completed", outputs=True)
    dump(tmp_path, 2, "ops.b", None)
    found = triage([tmp_path]).extra
    assert found["certainty"] == "bounded"
    assert found["api"] is None
    assert found["sync_boundary"]["first_bad"]["api"] == "ops.b"


def test_a_synchronous_exception_with_saved_inputs_is_the_call(tmp_path: Path) -> None:
    dump(tmp_path, 1, "ops.a", "exception")
    assert triage([tmp_path]).extra["api"] == "ops.a"


def test_a_complete_last_folder_means_outside_of_the_logged_functions(tmp_path: Path) -> None:
    dump(tmp_path, 1, "ops.a", "completed", outputs=True)
    (tmp_path / "server.log").write_text(ERROR)
    found = triage([tmp_path]).extra
    assert found["certainty"] == "surfaced_only"
    assert "outside" in found["suspects"][0]["what"]


def test_flashinfer_leaves_no_line_when_a_call_raises(tmp_path: Path) -> None:
    text = (
        f"{'=' * 80}\n[2026-03-01 10:00:01] FlashInfer API Call: "
        f"BatchDecodeWrapper.run\n{'-' * 80}\nPositional input arguments:\n  arg[0]:\n"
        f"    Tensor(\n      shape=(1, 8)\n      stride=(8, 1)\n      {STATS}\n    )\n"
    )
    found = verdict(tmp_path, text + ERROR)
    assert found["certainty"] == "bounded"
    assert found["api"] == "BatchDecodeWrapper.run"


def test_a_flashinfer_dump_error_of_outputs_names_the_call_though_the_run_goes_on(tmp_path: Path) -> None:
    text = (
        "[2026-03-01 10:00:01] FlashInfer API Call: rmsnorm\n[DUMP ERROR (outputs) in rmsnorm]: CUDA "
        "error: an illegal memory access was encountered\n[2026-03-01 10:00:02] FlashInfer API Call: rope\n"
    )
    found = verdict(tmp_path, text + ERROR)
    assert found["api"] == "rmsnorm"
    assert found["certainty"] == "bounded"


def test_a_flashinfer_session_file_alone_is_enough(tmp_path: Path) -> None:
    records = [
        {
            "function_name": "rmsnorm",
            "call_sequence": 1,
            "process_id": 9,
            "timestamp": "1",
            "execution_status": "inputs_saved",
        },
        {
            "function_name": "rmsnorm",
            "call_sequence": 1,
            "process_id": 9,
            "timestamp": "1",
            "execution_status": "completed",
        },
        {
            "function_name": "rope",
            "call_sequence": 2,
            "process_id": 9,
            "timestamp": "2",
            "execution_status": "inputs_saved",
        },
    ]
    (tmp_path / "session.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    assert triage([tmp_path]).extra["api"] == "rope"


def test_graph_replay_is_a_class_of_its_own_and_blocking_narrows_it_to_the_graph_only(tmp_path: Path) -> None:
    text = (
        'Traceback (most recent call last):\n  File "/x/r.py", line 5, in forward\n    '
        'self.graph.replay()\n  File "/x/torch/cuda/graphs.py", line 9, in replay\n    super().replay()\n' + ERROR
    )
    found = verdict(tmp_path, text)
    assert found["class"] == "ima_graph_replay"
    assert found["certainty"] == "surfaced_only"
    assert "CUDA_ENABLE_COREDUMP_ON_EXCEPTION" in found["next"]["env"]
    blocking = verdict(tmp_path, text, launch_blocking=True)
    assert blocking["certainty"] == "bounded"
    assert blocking["kernel"] is None
    assert blocking["api"] == "CUDA graph replay"
