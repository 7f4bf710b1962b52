"""Hostile input does no harm: nothing runs, nothing outside is read, nothing hangs, and the answer stays an answer."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import ForgeError, InputUnusable
from infer_forge.crash import CERTAINTIES, triage
from infer_forge.crash import read as reading
from infer_forge.crash.page import write_page
from tests.crash.crash_maker import KINDS, make, write

IMA = "[2026-03-01 10:00:00 TP1] RuntimeError: CUDA error: an illegal memory access was encountered\n"


def test_links_inside_a_folder_are_not_followed_and_are_told(tmp_path: Path) -> None:
    secret = tmp_path / "outside.log"
    secret.write_text("[2026-03-01 10:00:00 TP9] CUDA error: misaligned address\n")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.log").write_text(IMA)
    (folder / "link.log").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path, target_is_directory=True)
    report = triage([folder])
    assert report.extra["class"] == "ima_async"
    assert "misaligned" not in report.render("json")
    assert any(f.code == "NOT_READ" for f in report.findings)


def test_a_dump_folder_with_path_tricks_stays_inside(tmp_path: Path) -> None:
    folder = tmp_path / "dumps" / "20260301_100000_000_pid7_ops.a_call0001"
    folder.mkdir(parents=True)
    outside = tmp_path / "passwd"
    outside.write_text("not for you")
    record = {
        "function_name": "../../../etc/passwd\x1b[31m",
        "process_id": "7; rm -rf /",
        "execution_status": "x" * 10_000,
        "dump_dir": "../../passwd",
        "call_sequence": -1,
    }
    (folder / "metadata.json").write_text(json.dumps(record))
    (tmp_path / "dumps" / "session.jsonl").write_text(json.dumps(record) + "\n{broken\n" + "[1]\n")
    shown = triage([tmp_path / "dumps"]).render("json")
    assert "not for you" not in shown
    assert "\\u001b" not in shown


def test_a_line_of_a_hundred_megabytes_costs_seconds_and_hides_nothing(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    with open(log, "wb") as file:
        for _ in range(10):
            file.write(b"x" * 10_000_000)
        file.write(b" CUDA error: an illegal memory access was encountered\n")
        file.write(IMA.encode())
    begin = time.process_time()
    report = triage([log])
    assert time.process_time() - begin < 30
    assert report.extra["class"] == "ima_async"
    assert report.header.coverage["lost"]
    assert len(report.render("json")) < 100_000


def test_terminal_escapes_and_markup_never_reach_the_reader(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(
        b"\x1b]0;owned\x07\x1b[2J[2026-03-01 10:00:00 TP1] RuntimeError: CUDA error: an "
        b"illegal memory access <script>alert(1)</script>\xe2\x80\xae was encountered\n" + IMA.encode()
    )
    report = triage([log])
    for form in ("text", "md", "json"):
        assert "\x1b" not in report.render(form)
        assert "\u202e" not in report.render(form)
    page = write_page(report, tmp_path / "p.html").read_text()
    assert "<script>alert" not in page


EVIL = "x'; touch owned; echo $(touch owned) `touch owned` #"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Worker failed with error 'CUDA error: device-side assert triggered\n",
        f"Mar  1 10:00:00 node1 kernel: NVRM: Xid (PCI:0000:0a:00): 79, pid=1, name={EVIL}, GPU gone\n",
        (
            f"Opening GPU coredump: /tmp/x';touch\towned;'\nCUDA Exception: Warp "
            f"Illegal Address\nThe exception was triggered at PC 0x1  {EVIL}\n"
        ),
        f"========= Invalid __global__ read of size 4 bytes\n=========     at {EVIL}+0x10\n",
        "========= Invalid __global__ read of size 4 bytes\n=========     at k+0x10 in ';touch-owned;'.cu:3\n",
        (
            "Traceback (most recent call last):\n  File \"/a'; touch "
            "owned; 'b.py\", line 3, in f\n    x()\nValueError: no\n"
        ),
    ],
)
def test_words_of_a_log_stay_words_in_the_next_command(tmp_path: Path, text: str) -> None:
    log = tmp_path / "a b; touch owned #"
    log.write_text(text)
    command = triage([log]).extra["next"]["command"]
    stub = (
        "infer-forge() { :; }; cuda-gdb() { :; }; compute-sanitizer() "
        "{ :; }; sed() { :; }; grep() { :; }; COMMAND() { :; }\n"
    )
    done = subprocess.run(
        ["bash", "-c", stub + command], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False
    )
    assert "syntax error" not in done.stderr, command
    assert not (tmp_path / "owned").exists(), command


def test_words_of_users_about_errors_are_no_errors(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text(
        '{"path": "/generate", "body": {"text": "CUDA error: misaligned address"}}\n'
    )
    (tmp_path / "server.log").write_text(
        "[2026-03-01 10:00:00] Receive: obj=GenerateReqInput(rid='1', text='NVRM: Xid (PCI:0000:0a:00): 79, gone')\n"
    )
    assert triage([tmp_path]).extra["class"] == "no_evidence"


def test_a_cut_gzip_says_what_was_lost_and_gives_the_rest(tmp_path: Path) -> None:
    whole = gzip.compress((IMA + "".join(f"line {random.random()}\n" for _ in range(20_000))).encode())
    log = tmp_path / "a.log.gz"
    log.write_bytes(whole[: len(whole) // 2])
    report = triage([log])
    assert report.extra["class"] == "ima_async"
    assert any("is cut" in str(x) for x in report.header.coverage["lost"])


def test_a_gzip_bomb_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_INFLATED", 32 << 20)
    log = tmp_path / "bomb.gz"
    with gzip.open(log, "wb", compresslevel=9) as file:
        file.write(IMA.encode())
        for _ in range(60):
            file.write(b"\0" * (1 << 20))
    report = triage([log])
    assert report.extra["class"] == "ima_async"
    assert any("not read" in str(x) for x in report.header.coverage["lost"])


def test_secrets_of_a_log_are_redacted(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    token = "hf_" + "Ab1Cd2Ef3" * 4
    log.write_text(
        f"[2026-03-01 10:00:00 TP1] HF_TOKEN={token}\n[2026-03-01 10:00:00 "
        f"TP1] RuntimeError: CUDA error: misaligned address {token}\n"
    )
    report = triage([log])
    assert token not in report.render("json") + report.render("text")


def test_what_cannot_be_used_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(InputUnusable):
        triage([tmp_path / "absent"])
    with pytest.raises(InputUnusable):
        triage([tmp_path])
    with pytest.raises(InputUnusable):
        triage(["/dev/zero"])
    fifo = tmp_path / "bad_pickle_3"
    fifo.write_bytes(b"\x80\x04" + os.urandom(300))
    with pytest.raises(InputUnusable):
        triage([fifo])


def test_deep_and_large_pickles_do_no_harm(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    (tmp_path / "trace_0").write_bytes(
        pickle.dumps({"entries": [{"frames": deep, "collective_seq_id": 1}], "pg_config": deep})
    )
    (tmp_path / "trace_1").write_bytes(
        pickle.dumps(
            {
                "entries": [None, 3, {"process_group": {}, "collective_seq_id": 1}],
                "pg_config": {"0": {"ranks": "x" * 100}},
            }
        )
    )
    assert triage([tmp_path]).extra["certainty"] in CERTAINTIES


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Cut, flip, repeat, swap, or fill with another log's bytes."""
    body = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        if not body:
            break
        at = rng.randrange(len(body))
        size = rng.randrange(1, 400)
        how = rng.randrange(6)
        if how == 0:
            del body[at : at + size]
        elif how == 1:
            body[at : at + size] = rng.randbytes(size)
        elif how == 2:
            body[at:at] = body[max(0, at - size) : at] * rng.randrange(1, 5)
        elif how == 3:
            body[at] ^= 1 << rng.randrange(8)
        elif how == 4:
            body = body[:at]
        else:
            body[at:at] = rng.choice(
                (
                    b"\n",
                    b"\r\n",
                    b"\x00" * 50,
                    b"\xff\xfe",
                    b"Traceback (most recent call last):\n",
                    b"========= ",
                    b"[" * 300,
                    b"(" * 300,
                    b"9" * 300,
                )
            )
    return bytes(body)


@pytest.mark.stress
def test_mutated_logs_give_an_answer_or_a_refusal(
    tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    bases: list[bytes] = []
    for number, kind in enumerate(KINDS):
        folder = write(make(number, kind, noise=20), tmp_path / "base" / kind, number)
        bases += [p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()]
    target = tmp_path / "mutated_7"
    for _ in range(stress_count(3000)):
        data = mutated(seeded.choice(bases), seeded)
        target.write_bytes(data)
        begin = time.monotonic()
        try:
            report = triage([target])
        except ForgeError:
            continue
        assert report.extra["certainty"] in CERTAINTIES
        if report.extra["certainty"] == "surfaced_only":
            assert report.extra["kernel"] is None
        report.render("json")
        assert time.monotonic() - begin < 20
