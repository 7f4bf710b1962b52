"""Values that a shell variable may have: arrays with keys, loops over many words, words glued from several variables."""

from __future__ import annotations

from typing import Any

import pytest

MANY = " ".join(f"w{i}" for i in range(40))
BRANCHES = "".join(f"elif c{i}; then x=w{i}; " for i in range(12))


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ('c=(rm); c+=(-rf); c+=(/data/models); "${c[@]}"', "deny"),
        ("declare -A m=([a]=rm); ${m[a]} -rf /data/models", "deny"),
        ("declare -A d=([x]=/data/models [y]=out); rm -rf ${d[x]}", "deny"),
        ('declare -A d=([x]=out [y]="out 2"); rm -rf "${d[x]}"', "allow"),
        ("p[0]=/data/models; p[1]=out; rm -rf ${p[0]}", "deny"),
        ("p=(out /data/models); i=1; rm -rf ${p[$i]}", "deny"),
        ("p=(out out2); i=1; rm -rf ${p[$i]}", "allow"),
        ("p=(out /data/models); rm -rf ${p[0]}", "allow"),
        ('a=(--tp 2); a+=(--dp 1); python serve.py "${a[@]}"', "allow"),
        ("a=x; a+=y; rm -rf $a", "allow"),
    ],
)
def test_elements_of_arrays_are_followed(check: Any, command: str, wanted: str) -> None:
    found = check(command)
    assert found.verdict == wanted, (found.rule_id, found.why)


@pytest.mark.parametrize(
    "command",
    [
        f"for i in {MANY[:90]} /data/models; do rm -rf $i; done",
        f"for i in {MANY} /data/models; do rm -rf $i; done",
        "for a in 1 2 3 4; do for b in x y z /data/models; do rm -rf $b$a; done; done",
        "for a in /data/models x y z; do for b in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do rm -rf $a $b; done; done",
        f"if c; then x=/data/models; {BRANCHES}fi; rm -rf $x",
        "for i in {1..60} 5000; do kill $i; done",
    ],
)
def test_a_target_does_not_hide_behind_many_others(check: Any, command: str) -> None:
    assert check(command).verdict in ("deny", "ask")


@pytest.mark.parametrize(
    "command",
    [
        "for a in 1 2 4 8; do for b in 1 2 4 8 16 32 64 128 256; do python b.py --tp $a --bs $b > out/${a}_$b.json; done; done",
        "for i in {1..50}; do curl -s http://127.0.0.1:30000/generate -d '{}' -o out/$i.json; done",
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do rm -rf out/$i; done",
    ],
)
def test_sweeps_over_many_settings_pass(check: Any, command: str) -> None:
    found = check(command)
    assert found.verdict == "allow", (found.rule_id, found.why)
