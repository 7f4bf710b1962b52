"""What the registry is and is not: a ledger of commits that ends no workload and starts none."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from infer_forge import nodes
from infer_forge.cli.node import command
from infer_forge.nodes import claims
from infer_forge.nodes.model import parse_gpus
from infer_forge.nodes.registry import Registry

ENDING = {
    "kill",
    "killpg",
    "pidfd_send_signal",
    "send_signal",
    "terminate",
    "Popen",
    "execv",
    "execvp",
    "spawnv",
    "system",
}
STARTING = ("start", "launch", "run", "submit", "schedule", "queue", "stop", "kill")


@pytest.fixture
def registry() -> Registry:
    made = Registry.open(create=True)
    made.ensure_policy()
    return made


def commits(registry: Registry) -> list[str]:
    """Subjects of every commit of the registry, newest first."""
    argv = ["git", "-C", str(registry.store.gitdir), "log", "--all", "--format=%s"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


def test_every_claim_and_every_release_is_a_commit_that_stays(registry: Registry) -> None:
    before = len(commits(registry))
    held = claims.claim(registry, "gpu07", parse_gpus("0"), task="t", purpose="bench").claim
    assert len(commits(registry)) == before + 1
    claims.release(registry, held.claim_id, reason="done")
    after = commits(registry)
    assert len(after) == before + 2
    assert "gpu07" in " ".join(after[:2])


def test_no_verb_of_the_registry_starts_or_ends_a_workload(project_root: Path) -> None:
    verbs = [*nodes.__all__, *command.commands]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert len(verbs) > 20
    assert [v for v in verbs if str(v).split("-")[0] in STARTING] == []
    for file in sorted((project_root / "infer_forge" / "nodes").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            assert name not in ENDING, f"{file.name} uses {name}"


def test_a_claim_says_who_holds_it_for_which_task_since_when_and_until_when(registry: Registry) -> None:
    held = claims.claim(registry, "gpu07", parse_gpus("0"), task="t-1", purpose="bench", hours=1).claim
    assert (held.task_id, held.purpose, held.epoch) == ("t-1", "bench", 1)
    assert held.holder.user
    assert held.holder.session
    assert held.expires_at_wall is not None
    assert held.claimed_at_wall < held.expires_at_wall
