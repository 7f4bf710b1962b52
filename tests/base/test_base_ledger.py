"""What the append-only ledger promises: nothing lost, nothing edited unseen, safe under kill and two writers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.ledger import GENESIS, Ledger

WRITER = """
import sys
from infer_forge.base.ledger import Ledger
ledger = Ledger(sys.argv[1])
for i in range(int(sys.argv[3])):
    entry = ledger.append("row", {"who": sys.argv[2], "i": i, "pad": "x" * (i * 37 % 5000)})
    print(entry.hash, flush=True)
"""


def start_writer(path: Path, who: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), who, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_an_entry_comes_back_as_it_was_recorded(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "deep" / "rows.jsonl")
    first = ledger.append("row", {"speed": 1.0, "name": "größe", "unknown": None})
    second = ledger.append("note", {"text": "two"})
    assert [e.body for e in ledger.entries()] == [{"speed": 1.0, "name": "größe", "unknown": None}, {"text": "two"}]
    assert second.prev == first.hash
    assert ledger.head() == second.hash
    assert [e.kind for e in ledger.entries("note")] == ["note"]
    assert ledger.verify().ok


def test_every_line_is_plain_json(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "rows.jsonl")
    ledger.append("row", {"a": [1, {"b": "x\ny"}]})
    line = json.loads((tmp_path / "rows.jsonl").read_text())
    assert line["seq"] == 1
    assert line["prev"] == GENESIS
    assert line["body"] == {"a": [1, {"b": "x\ny"}]}


def test_an_absent_ledger_is_empty_and_intact(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "none.jsonl")
    assert ledger.entries() == []
    assert ledger.head() == GENESIS
    assert ledger.verify().ok
    assert not ledger.verify(must_contain="ab" * 32).ok
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object()])
def test_what_json_cannot_say_is_refused_and_nothing_is_written(tmp_path: Path, bad: object) -> None:
    ledger = Ledger(tmp_path / "rows.jsonl")
    ledger.append("row", {"i": 1})
    with pytest.raises(UsageFault):
        ledger.append_all([("row", {"i": 2}), ("row", {"bad": bad})])
    assert [e.body for e in ledger.entries()] == [{"i": 1}]


def test_a_torn_line_is_moved_aside_and_the_chain_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    ledger = Ledger(path)
    ledger.append("row", {"i": 1})
    with path.open("ab") as file:
        file.write(b'{"hash":"00')
    assert ledger.verify().torn_bytes == 11
    assert [e.body for e in ledger.entries()] == [{"i": 1}]
    ledger.append("row", {"i": 2})
    assert [e.body for e in ledger.entries()] == [{"i": 1}, {"i": 2}]
    assert (tmp_path / "rows.jsonl.torn").read_bytes() == b'{"hash":"00\n'


def test_a_whole_line_that_lacks_only_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    ledger = Ledger(path)
    ledger.append("row", {"i": 1})
    ledger.append("row", {"i": 2})
    path.write_bytes(path.read_bytes()[:-1])
    ledger.append("row", {"i": 3})
    assert [e.body["i"] for e in ledger.entries()] == [1, 2, 3]
    assert not (tmp_path / "rows.jsonl.torn").exists()


def test_zeros_left_by_a_power_cut_are_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    ledger = Ledger(path)
    ledger.append("row", {"i": 1})
    with path.open("ab") as file:
        file.write(b"\0" * 200_000)
    ledger.append("row", {"i": 2})
    assert [e.body["i"] for e in ledger.entries()] == [1, 2]


@pytest.mark.parametrize("edit", ["change", "remove", "swap", "duplicate"])
def test_an_edited_ledger_is_found_out(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "rows.jsonl"
    ledger = Ledger(path)
    for i in range(4):
        ledger.append("row", {"i": i})
    lines = path.read_bytes().splitlines(keepends=True)
    if edit == "change":
        lines[1] = lines[1].replace(b'"i":1', b'"i":9')
    elif edit == "remove":
        del lines[1]
    elif edit == "swap":
        lines[1], lines[2] = lines[2], lines[1]
    else:
        lines.insert(1, lines[1])
    path.write_bytes(b"".join(lines))
    seen = ledger.verify()
    assert not seen.ok
    assert seen.fault_line in (2, 3)
    with pytest.raises(InputUnusable, match="line"):
        ledger.entries()


def test_a_cut_off_end_is_seen_by_who_kept_the_head(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    ledger = Ledger(path)
    ledger.append("row", {"i": 1})
    head = ledger.append("row", {"i": 2}).hash
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:1]))
    assert ledger.verify().ok
    assert not ledger.verify(must_contain=head).ok
    with pytest.raises(InputUnusable, match="no entry"):
        ledger.tail(head)


def test_nothing_is_appended_behind_a_damaged_last_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    ledger = Ledger(path)
    ledger.append("row", {"i": 1})
    path.write_bytes(path.read_bytes().replace(b'"i":1', b'"i":7'))
    before = path.read_bytes()
    with pytest.raises(InputUnusable, match="damaged"):
        ledger.append("row", {"i": 2})
    assert path.read_bytes() == before


def test_the_tail_since_a_hash_is_what_came_after_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "rows.jsonl")
    hashes = [e.hash for e in ledger.append_all([("row", {"i": i}) for i in range(5)])]
    assert [e.body["i"] for e in ledger.tail(hashes[2])] == [3, 4]
    assert len(ledger.tail(GENESIS)) == 5
    assert ledger.tail(hashes[4]) == []


def test_an_append_that_expects_an_old_head_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "rows.jsonl")
    old = ledger.append("row", {"i": 1}).hash
    ledger.append("row", {"i": 2}, expect=old)
    with pytest.raises(GateRefused, match="grown"):
        ledger.append("row", {"i": 3}, expect=old)


def test_what_is_read_under_the_lock_is_what_the_next_append_follows(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "rows.jsonl")
    for _ in range(3):
        with ledger.writing() as held:
            if not any(e.kind == "once" for e in held.entries()):
                held.append("once", {})
    assert len(ledger.entries("once")) == 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.text(),
            st.one_of(
                st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
            ),
        ),
        max_size=5,
    )
)
def test_any_json_object_survives(tmp_path_factory: pytest.TempPathFactory, bodies: list[dict[str, object]]) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "l.jsonl")
    ledger.append_all([("k", b) for b in bodies]) if bodies else None
    assert [e.body for e in ledger.entries()] == bodies
    assert ledger.verify().ok


@pytest.mark.stress
def test_a_cut_at_any_byte_loses_only_what_lay_behind_it(
    tmp_path: Path, seeded: random.Random, stress_count: Callable[[int], int]
) -> None:
    path = tmp_path / "rows.jsonl"
    Ledger(path).append_all([("row", {"i": i, "text": "ü" * i}) for i in range(6)])
    whole = path.read_bytes()
    for _ in range(stress_count(400)):
        cut = seeded.randrange(len(whole) + 1)
        path.write_bytes(whole[:cut])
        ledger = Ledger(path)
        kept = whole[:cut].count(b"\n")
        ledger.append("row", {"i": "after"})
        got = [e.body["i"] for e in ledger.entries()]
        complete = kept + (1 if cut < len(whole) and whole[cut : cut + 1] == b"\n" else 0)
        assert got == [*range(complete), "after"]
        assert ledger.verify().ok


@pytest.mark.stress
def test_two_writers_and_kills_lose_nothing_that_was_answered(
    tmp_path: Path, seeded: random.Random, stress_count: Callable[[int], int]
) -> None:
    path = tmp_path / "rows.jsonl"
    answered: list[str] = []
    rounds = stress_count(20)
    for round_index in range(rounds):
        one, two = start_writer(path, f"a{round_index}", 30), start_writer(path, f"b{round_index}", 100_000)
        assert one.stdout is not None
        assert two.stdout is not None
        answered.extend(two.stdout.readline().strip() for _ in range(seeded.randrange(3, 25)))
        os.kill(two.pid, signal.SIGKILL)
        answered.extend(line.strip() for line in two.stdout if line.endswith("\n"))
        answered.extend(line.strip() for line in one.stdout)
        two.wait()
        assert one.wait() == 0
        one.stdout.close()
        two.stdout.close()
    ledger = Ledger(path)
    ledger.append("end", {})
    assert ledger.verify().ok
    recorded = {e.hash for e in ledger.entries()}
    assert [h for h in answered if len(h) == 64 and h not in recorded] == []
    for round_index in range(rounds):
        mine = [e.body["i"] for e in ledger.entries() if e.body.get("who") == f"a{round_index}"]
        assert mine == list(range(30))
