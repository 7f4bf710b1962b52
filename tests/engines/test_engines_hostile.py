"""Damaged and hostile input to the engine commands gives a clear refusal, never a traceback or another's process."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import ForgeError
from infer_forge.bench import search_config
from infer_forge.engines import command, fingerprint, help_text, lifecycle, runner, server_facts

CONFIG: dict[str, Any] = {
    "schema": "infer-forge/search/1",
    "name": "x",
    "model": "m",
    "precision": "bf16",
    "gpu": {"model": "H200", "count": 1},
    "grid": {"scenarios": [{"name": "chat", "input_len": 4, "output_len": 2}]},
    "engines": [{"framework": "sglang", "search": {"attention_backend": ["fa3"]}}, {"framework": "vllm"}],
}


def mutated(value: Any, dice: random.Random) -> Any:
    """The value with one place made wrong."""
    junk: list[Any] = [None, -1, 0, 1e400, "", "x" * 2000, [], {}, True, "../../etc/passwd", "\x00", {"a": [1]}]
    if isinstance(value, dict) and value:
        made = dict(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        key = dice.choice(list(made))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        how = dice.random()
        if how < 0.15:
            del made[key]
        elif how < 0.25:
            made[str(dice.choice(junk))] = dice.choice(junk)
        else:
            made[key] = mutated(made[key], dice)
        return made  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list) and value and dice.random() < 0.8:
        made_list = list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        index = dice.randrange(len(made_list))  # pyright: ignore[reportUnknownArgumentType]
        made_list[index] = mutated(made_list[index], dice)
        return made_list  # pyright: ignore[reportUnknownVariableType]
    return dice.choice(junk)


@pytest.mark.stress
def test_a_mutated_configuration_is_refused_or_understood(
    seeded: random.Random, stress_count: Callable[[int], int]
) -> None:
    for _ in range(stress_count(2000)):
        raw = CONFIG
        for _ in range(seeded.randrange(1, 4)):
            raw = mutated(raw, seeded)
        try:
            config = search_config.config_of(raw)
        except ForgeError:
            continue
        for entry in config.engines:
            search_config.candidates(config, entry.framework)


@pytest.mark.stress
def test_a_damaged_engine_record_names_itself_and_touches_nobody(
    seeded: random.Random, stress_count: Callable[[int], int], tmp_path: Path
) -> None:
    process = runner.place("local").start(["sleep", "60"], log=str(tmp_path / "o.log"))
    engine = lifecycle.Engine(
        "i", "vllm", [], {}, "local", "http://127.0.0.1:9", "l", process.to_json(), "t", str(tmp_path)
    )
    engine.save()
    text = (tmp_path / "engine.json").read_text()
    whole = json.loads(text)
    for _ in range(stress_count(300)):
        changed = json.loads(text)
        changed["process"] = mutated(whole["process"], seeded)
        same = changed["process"] == whole["process"] or (
            isinstance(changed["process"], dict)
            and all(
                changed["process"].get(k) == whole["process"][k]
                for k in ("boot_id", "pid", "start_ticks", "pgid", "place")
            )  # pyright: ignore[reportUnknownMemberType]
        )
        if same:
            continue
        (tmp_path / "engine.json").write_text(json.dumps(changed))
        try:
            found = lifecycle.stop(lifecycle.load(tmp_path), grace_s=0.1)
        except ForgeError:
            continue
        ended = [p["pid"] for p in (found.stopped or {}).get("ended", [])]
        assert set(ended) <= {process.pid}, "only ever the process that was started"
        if ended:
            process = runner.place("local").start(["sleep", "60"], log=str(tmp_path / "o.log"))
            whole["process"] = process.to_json()
            text = json.dumps(whole)
    runner.stop(process)


@pytest.mark.parametrize("text", ["[]", "{", '{"id": 1}', "null", '{"server": {}}'])
def test_a_file_that_is_no_record_or_snapshot_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    path.write_text(text)
    for read in (lifecycle.load, help_text.load):
        with pytest.raises(ForgeError):
            read(path)


@pytest.mark.stress
def test_random_words_are_no_launch_command(seeded: random.Random, stress_count: Callable[[int], int]) -> None:
    line = "vllm serve python3 -m sglang.launch_server --port 1 trtllm-serve --backend pytorch ; $(x) -S ts -- ="
    words = line.split()
    for _ in range(stress_count(4000)):
        argv = [seeded.choice(words) for _ in range(seeded.randrange(0, 7))]
        try:
            shape = command.check_shape(argv)
        except ForgeError:
            continue
        head = [w for w in argv[: len(shape.launch) + 3] if w not in ("-S", "-u", "-O", "-B")]
        assert tuple(head[: len(shape.launch)]) == tuple("python3" if w == "python" else w for w in shape.launch)


@pytest.mark.stress
def test_a_cut_or_scrambled_log_never_breaks_the_reader(
    seeded: random.Random, stress_count: Callable[[int], int]
) -> None:
    text = (
        "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', tp_size=2, attention_backend='fa3', quote='it\\'s')\n"
        "[2026-01-01 00:00:01] Using fa3 as attention backend for decode.\n[..] max_total_num_tokens=12345, x\n"
        "non-default args: {'model_tag': 'm', 'port': 1}\nvLLM API server version 0.25.1\n"
    )
    for _ in range(stress_count(2000)):
        cut = list(text[: seeded.randrange(len(text) + 1)])
        for _ in range(seeded.randrange(0, 6)):
            if cut:
                cut[seeded.randrange(len(cut))] = seeded.choice("'\"(){}=\x00\n,")
        try:
            facts = server_facts.facts_of_log("".join(cut))
        except ForgeError:
            continue
        assert facts.framework in ("sglang", "vllm")


def test_a_folder_with_a_loop_of_links_is_walked_once(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "again").symlink_to(tmp_path)
    assert list(fingerprint.fingerprint(tmp_path).files) == ["config.json"]
