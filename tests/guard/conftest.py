"""What the guard's tests share: a project below a run's folder, a context, the policy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.guard import policy
from infer_forge.guard.context import from_dict
from infer_forge.guard.decide import check_with
from infer_forge.guard.model import Verdict

RUN = "/data/runs/run-abc"
CONTEXT: dict[str, Any] = {
    "run_id": "run-abc",
    "user": "eng",
    "node": "gpu07",
    "cwd": f"{RUN}/repo",
    "owned_pids": [4242, 4243],
    "owned_pgids": [4242],
    "owned_paths": [RUN],
    "owned_containers": ["sglang-run-abc"],
    "owned_jobs": ["12345"],
    "owned_k8s": {"namespace": "team", "names": ["run-abc-0"]},
    "owned_ports": [31000],
    "claims": [{"node": "gpu07", "gpus": [0, 1, 2, 3]}],
    "remotes": {"origin": "git@git.local:eng/sglang.git", "upstream": "https://github.com/sgl-project/sglang.git"},
    "push_allowed": ["origin"],
    "protected_branches": ["main", "master", "release/*"],
    "branch": "run-abc/fix",
}
sys.path.insert(0, str(Path(__file__).parent))  # corpora lie beside the tests
Check = Callable[..., Verdict]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """`check(command, **changes)`: the verdict with the usual context and changes to it; `context=None` for none."""
    made = policy.compile_policy(str(tmp_path), keep=False)

    def run(command: str, **changes: Any) -> Verdict:
        return check_with(command, from_dict({**CONTEXT, **changes}), made)

    return run


@pytest.fixture
def project(tmp_path: Path) -> dict[str, Any]:
    """A project with Makefile, scripts and a virtual environment in a run's folder; gives the context for it."""
    repo = tmp_path / "repo"
    for folder in ("sub", "venv/bin", "src", "build"):
        (repo / folder).mkdir(parents=True)
    recipe = "all: build\nbuild:\n\t$(CC) -o build/x x.c\ntest:\n\tpython -m pytest -q\nclean:\n\trm -rf build\nlint:\n\truff check .\n"
    (repo / "Makefile").write_text(recipe)
    (repo / "sub" / "Makefile").write_text("test:\n\tpytest\n")
    (repo / "run.sh").write_text('#!/bin/bash\nset -e\npython bench.py "$@"\n')
    (repo / "package.json").write_text('{"scripts": {"test": "node --test", "build": "tsc", "lint": "eslint ."}}')
    return {"cwd": str(repo), "owned_paths": [str(tmp_path), RUN], "venv": str(repo / "venv")}
