"""A launch command is one by its program and its words, in their places."""

from __future__ import annotations

import pytest

from infer_forge.base.errors import GateRefused
from infer_forge.engines import command


@pytest.mark.parametrize(
    "argv",
    [
        ["lmdeploy", "serve", "vllm"],
        ["mine", "serve", "m", "--alias", "sglang"],
        ["echo", "serve", "tokenspeed", "m"],
        ["python3", "serve", "vllm"],
        ["python3", "-c", "sglang.launch_server", "--model-path", "m"],
        ["ruby", "-m", "sglang.launch_server", "--model-path", "m"],
        ["trtllm-bench", "serve", "m", "--backend", "pytorch"],
        ["vllm-serve", "m"],
    ],
)
def test_another_program_with_the_words_of_an_engine_is_none(argv: list[str]) -> None:
    with pytest.raises(GateRefused, match="no allowed launch command"):
        command.check_shape(argv)


@pytest.mark.parametrize(
    ("argv", "framework"),
    [
        (["sglang", "serve", "--model-path", "m"], "sglang"),
        (["python3", "-m", "sglang.launch_server", "--model-path", "m"], "sglang"),
        (["/opt/venv/bin/vllm", "serve", "m"], "vllm"),
        (["trtllm-serve", "serve", "m", "--backend", "pytorch"], "tensorrt_llm"),
        (["tokenspeed", "serve", "m"], "tokenspeed"),
    ],
)
def test_the_commands_of_the_four_frameworks_are_theirs(argv: list[str], framework: str) -> None:
    shape = command.check_shape(argv)
    assert (shape.framework, shape.model) == (framework, "m")
