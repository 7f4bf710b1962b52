"""Signatures are data: each one's own example is recognised as it, and as nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.crash import explain, signatures, triage
from infer_forge.crash.model import Origin
from infer_forge.crash.prefixes import Clock, clean, parse
from infer_forge.crash.signatures import Signature


@pytest.mark.parametrize("signature", signatures.signatures(), ids=lambda s: f"{s.id}-{s.example[:20]}")
def test_the_example_of_a_signature_is_recognised_as_it(signature: Signature) -> None:
    line = parse(clean(signature.example), 1, Origin("x"), Clock())
    matched = signatures.match(line.text)
    assert matched is not None
    assert matched[0].id == signature.id
    assert signature.source in signatures.data()["sources"]
    assert signature.group in ("info", "cascade") or signature.step in signatures.data()["steps"]


def test_there_are_classes_for_all_that_is_known_to_crash() -> None:
    causes = {s.cls for s in signatures.signatures() if s.group != "info"}
    made = {
        "ima_graph_replay",
        "ima_precise_sanitizer",
        "ima_coredump",
        "ima_collateral_rank",
        "oom_absurd",
        "nccl_desync",
    }
    assert len(causes | made) >= 50


def test_every_step_has_a_command_a_reason_and_a_line_to_expect() -> None:
    for name, step in signatures.data()["steps"].items():
        assert step["command"], name
        assert step["why"], name
        assert step["expect"], name
        if step.get("env"):
            assert signatures.environment(step["env"])


def test_skip_abort_is_set_nowhere() -> None:
    assert "skip_abort" not in str(signatures.data()["environments"])


def test_an_unknown_xid_is_unknown() -> None:
    assert signatures.xid(9999)["kind"] == "unknown"
    assert explain("xid 9999").extra["group"] == "unknown"


def test_a_pasted_line_is_explained_with_its_prefixes() -> None:
    found = explain(
        "2026-01-01T00:00:00Z stdout F [2026-01-01 00:00:00 TP1] RuntimeError: CUDA error: misaligned address"
    )
    assert found.extra["class"] == "misaligned"
    assert found.extra["sticky"] is True
    assert explain("xid 79").extra["stop_code_debugging"] is True
    assert explain("========= Invalid __global__ read of size 4 bytes").extra["signature"] == "ima_precise_sanitizer"


def test_what_no_signature_fits_is_said_to_be_unknown() -> None:
    with pytest.raises(UsageFault):
        explain("all is well")
    with pytest.raises(UsageFault):
        explain("  ")


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        (
            "ValueError: No available memory for the cache blocks. Try increasing the utilization.",
            ("--gpu-memory-utilization", "--max-model-len"),
        ),
        (
            "ValueError: 4.00 GiB KV cache is needed, which is larger than the available KV cache memory (1.00 GiB).",
            ("--gpu-memory-utilization", "--max-model-len"),
        ),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            ("--mem-fraction-static", "--context-length"),
        ),
    ],
)
def test_no_room_for_the_kv_cache_is_mended_by_the_settings_and_not_looked_for_again(
    tmp_path: Path, line: str, flags: tuple[str, ...]
) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"Traceback (most recent call last):\n{line}\n")
    found = triage([log]).extra
    assert found["class"] == "kv_no_memory"
    command = found["next"]["command"]
    assert all(flag in command for flag in flags)
    assert "grep" not in command
