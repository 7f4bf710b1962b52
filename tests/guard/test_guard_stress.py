"""Random and mutated commands, deep nesting, huge heredocs: no crash, bounded time, never allow on a parse error."""

from __future__ import annotations

import random
import shlex
import string
import time
from collections.abc import Callable
from typing import Any

import pytest
from guard_forms import FORMS
from guard_ordinary import ORDINARY

from infer_forge.guard.grammar import parse

LIMIT_S = 0.05
PIECES = [
    "rm", "-rf", "/x", "$", "(", ")", "{", "}", "`", "'", '"', "\\", "\n", ";", "|", "&", "<<EOF", "EOF",
    "<<<", ">", "<(", "$((", "))", "[[", "]]", "${", "x", "=", "if", "then", "fi", "for", "in", "do", "done",
    "case", "esac", "#", "!", "*", "~", " ", "\t", "\x00", "é", "\ue000", "kill", "1", "sh", "-c", "python",
    "git", "push", "xargs", "find", "-exec",
]  # fmt: skip


def least_s(check: Any, text: str) -> float:
    """Processor time of one check: the least of five, since a collector's run or a busy neighbour only adds."""
    took: list[float] = []
    for _ in range(5):
        began = time.process_time()
        check(text)
        took.append(time.process_time() - began)
    return min(took)


def mutated(rng: random.Random) -> str:
    text = rng.choice(FORMS) if rng.random() < 0.5 else rng.choice(ORDINARY)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        kind = rng.random()
        if kind < 0.3:
            text = text[:at] + text[at + rng.randint(1, 4) :]
        elif kind < 0.6:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif kind < 0.8:
            other = rng.choice(FORMS)
            text = text[:at] + other[rng.randrange(len(other)) :]
        else:
            text = text[:at] + rng.choice(string.printable) + text[at + 1 :]
    return text


def nested(text: str, depth: int) -> str:
    for _ in range(depth):
        text = f"sh -c {shlex.quote(text)}"
    return text


def noise(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) + rng.choice(("", " ")) for _ in range(rng.randint(1, 60)))


@pytest.mark.stress
def test_random_and_mutated_commands_neither_crash_nor_pass_unparsed(
    check: Any, seeded: random.Random, stress_count: Callable[[int], int]
) -> None:
    slow: list[tuple[float, str]] = []
    for _ in range(stress_count(5000)):
        text = mutated(seeded) if seeded.random() < 0.7 else noise(seeded)
        best, verdict = 1.0, check(text)
        for _attempt in range(3):
            began = time.process_time()
            verdict = check(text)
            best = min(best, time.process_time() - began)
            if best <= LIMIT_S:
                break
        if best > LIMIT_S:
            slow.append((best, text))
        if verdict.verdict == "allow":
            cleaned = text.replace("\x00", "").replace("\\\n", "")
            assert not parse(cleaned.encode("utf-8", "replace")).root_node.has_error or "{" in text, text
    assert slow == []


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 500 + "rm -rf /" + ")" * 500,
        "(" * 500 + "rm -rf /" + ")" * 500,
        "{ " * 500 + "rm -rf /; " + "}; " * 500,
        "if true; then " * 500 + "rm -rf /; " + "fi; " * 500,
        nested("rm -rf /", 7),
        nested("rm -rf /", 10),
        "eval " * 300 + "rm -rf /",
        "sudo " * 300 + "rm -rf /",
        "echo " + '"$(' * 300 + "rm -rf /" + ')"' * 300,
        "ls; " * 5000 + "rm -rf /",
        "a" * 300_000 + "; rm -rf /",
        "cat <<'E' | sh\n" + "echo hello\n" * 10_000 + "rm -rf /data/models\nE",
        "rm -rf " + "{1..1000}" * 5 + "/../../../run-xyz",
        "f() { f; rm -rf /; }; f",
        ":(){ :|:& };:",
        "python3 -c '" + "(" * 300 + ")" * 300 + '; import os; os.system("rm -rf /")\'',
    ],
    ids=lambda t: t[:20],
)
def test_deep_and_long_commands_are_stopped_in_time(check: Any, text: str) -> None:
    check("true")
    assert check(text).verdict != "allow"
    assert least_s(check, text) < 4 * LIMIT_S


@pytest.mark.parametrize("size", [20_000, 100_000])
def test_a_large_heredoc_of_data_is_quick_and_what_follows_it_counts(check: Any, size: int) -> None:
    body = "rm -rf / and kill -9 1\n" * (size // 23)
    check("true")
    plain = check(f"cat > notes.txt <<'EOF'\n{body}EOF")
    assert least_s(check, f"cat > notes.txt <<'EOF'\n{body}EOF") < LIMIT_S
    assert plain.verdict == ("allow" if size < 60_000 else "ask")
    assert check(f"cat > notes.txt <<'EOF'\n{body}EOF\nrm -rf /data/models").verdict == "deny"
