"""A diffusion server that fell back to the diffusers library is told by its own words, as SGLang prints them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import GateRefused
from infer_forge.profile import triage
from infer_forge.profile.model import Options

STARTED = (
    "[2026-11-29 10:00:00] server_args=ServerArgs(model_path='some/model', tp_size=1, attention_backend='fa3', "
    "disable_cuda_graph=True)\n"
)


@pytest.fixture
def trace(trace_writer: Callable[..., Any]) -> Path:
    """Any trace with device work."""
    return trace_writer().kernel("my_kernel", 1000, 10).write()


@pytest.mark.parametrize(
    "line",
    [
        "[11-29 10:00:05] Falling back to diffusers backend for FluxPipeline",
        "[11-29 10:00:05] Using diffusers backend for model black-forest-labs/FLUX.1-dev",
        "[11-29 10:00:09] Loaded diffusers pipeline: StableDiffusion3Pipeline",
    ],
)
def test_each_word_of_a_fallback_to_diffusers_voids_the_trace(trace: Path, tmp_path: Path, line: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(STARTED + line + "\n")
    with pytest.raises(GateRefused, match="diffusers") as raised:
        triage([trace], Options(cache=False, server_log=log))
    assert f"{log}:2" in str(raised.value)
    log.write_text(STARTED)
    assert triage([trace], Options(cache=False, server_log=log)).tables["kernel"].rows
