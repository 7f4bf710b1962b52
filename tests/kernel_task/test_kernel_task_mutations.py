"""Mutated task folders: the audit answers or refuses in words, and never calls a spoiled folder clean by an accident."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from infer_forge.base.errors import ForgeError
from infer_forge.kernel_task import audit, new, run

HOSTILE: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    2**70,
    "",
    "x" * 3000,
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    "\ud800",
    ["a", 3],
    0.5,
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every value in a JSON document."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(cast("dict[Any, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@pytest.mark.stress
def test_mutated_folders_never_raise_more_than_a_refusal(
    tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    good = tmp_path / "good"
    new(good)
    task = json.loads((good / "task.json").read_text())
    task["timing"].update(blocks=2, runs=1, min_sample_ms=0.2)
    (good / "task.json").write_text(json.dumps(task))
    run(good)
    answered = 0
    for index in range(stress_count(600)):
        folder = tmp_path / f"m{index}"
        shutil.copytree(good, folder)
        file = folder / seeded.choice(["task.json", "lock.json", "results.json", "results.json"])
        document = json.loads(file.read_text())
        for _ in range(seeded.randint(1, 3)):
            path = seeded.choice(list(places(document)))
            target = document
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = copy.deepcopy(seeded.choice(HOSTILE))
        file.write_bytes(json.dumps(document).encode("utf-8", "surrogatepass"))
        try:
            report = audit(folder)
        except ForgeError:
            continue
        finally:
            shutil.rmtree(folder)
        answered += 1
        json.loads(report.render("json"))
        report.render("text")
    assert answered > 0
