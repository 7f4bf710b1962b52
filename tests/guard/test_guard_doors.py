"""The command line and the MCP tools of the guard, and the artifact scan behind them."""

from __future__ import annotations

import gzip
import json
import os
import random
import sqlite3
import string
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp.client import Client
from mcp_types import ElicitRequestParams, ElicitResult

from infer_forge.base import ownership
from infer_forge.base.errors import GateRefused, HumanNeeded, MissingPart, UsageFault
from infer_forge.guard import proofs, scan
from infer_forge.guard.context import from_ownership
from infer_forge_mcp.server import make_server

FORGE = str(Path(sys.executable).parent / "infer-forge")
TOKEN = "hf_" + "".join(random.Random(3).choices(string.ascii_letters + string.digits, k=34))


def forge(*words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FORGE, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
    )


def test_check_exits_by_verdict_and_prints_json_alone(tmp_path: Path) -> None:
    context = tmp_path / "context.json"
    context.write_text(
        json.dumps({"run_id": "r", "cwd": str(tmp_path), "owned_paths": [str(tmp_path)], "owned_pids": [4242]})
    )
    for command, code in (("kill 4242", 0), ("kill 999", 4), ("kill $X", 6)):
        done = forge("guard", "check", "--context", str(context), "--format", "json", "--", command)
        assert done.returncode == code, done.stderr
        data = json.loads(done.stdout)
        assert {"verdict", "rule_id", "span", "argv", "why", "safer", "coverage"} <= set(data)
        assert done.stderr == ""


def test_several_words_are_one_command_of_those_words(tmp_path: Path) -> None:
    assert forge("guard", "check", "--", "echo", "rm -rf /; kill 1", cwd=tmp_path).returncode == 0
    assert forge("guard", "check", "--", "rm", "-rf", "/", cwd=tmp_path).returncode == 4


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"owned_pids": ["x"]}', '{"owned_paths": 7}', '{"grants": [{}]}', '{"owned_k8s": "x"}']
)
def test_a_context_that_is_none_is_unusable_and_never_an_allow(tmp_path: Path, text: str) -> None:
    context = tmp_path / "context.json"
    context.write_text(text)
    done = forge("guard", "check", "--context", str(context), "--", "ls")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_own_accepts_what_is_proved_and_refuses_what_is_only_said(tmp_path: Path) -> None:
    assert forge("guard", "own", "--run-id", "r", "--root", str(tmp_path / "run")).returncode == 0
    (tmp_path / "old").mkdir()
    assert forge("guard", "own", "--run-id", "r", "--path", str(tmp_path / "run" / "x")).returncode == 0
    assert forge("guard", "own", "--run-id", "r", "--path", str(tmp_path / "new")).returncode == 0
    assert forge("guard", "own", "--run-id", "r", "--path", "/usr/bin").returncode == 6
    assert forge("guard", "own", "--run-id", "r", "--path", "/usr/bin", "--force").returncode == 6
    assert forge("guard", "own", "--run-id", "r", "--pid", str(os.getpid())).returncode == 6
    assert forge("guard", "own", "--run-id", "r", "--cluster", "prod").returncode == 6
    assert forge("guard", "own", "--run-id", "r").returncode == 2
    owned = json.loads(forge("guard", "status", "--run-id", "r", "--format", "json").stdout)["tables"]["owned"]["rows"]
    assert [(row[0], row[2]) for row in owned] == [("path", "in-root"), ("path", "absent-before")]
    assert forge("guard", "disown", "--run-id", "r", "--path", str(tmp_path / "new")).returncode == 0


def test_a_folder_with_files_does_not_become_a_root_without_a_person(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x").touch()
    assert forge("guard", "own", "--run-id", "r", "--root", str(tmp_path / "old")).returncode == 6
    assert forge("guard", "own", "--run-id", "r", "--root", "/").returncode != 0


def test_what_another_run_owns_is_not_taken_over(tmp_path: Path) -> None:
    ownership.begin_run("one", tmp_path / "one")
    (tmp_path / "two").mkdir()
    ownership.begin_run("two", tmp_path / "two" / "run")
    for place in ("two/run", "two/run/new", "two"):
        with pytest.raises(GateRefused):
            proofs.prove("path", str(tmp_path / place), run_id="one")
    assert proofs.prove("path", str(tmp_path / "three"), run_id="one").how == "absent-before"


def test_a_child_of_a_recorded_process_is_owned_by_descent() -> None:
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            with pytest.raises(HumanNeeded):
                proofs.prove("pid", str(child), run_id="r")
            ownership.record_birth(parent.pid, launcher="engine start", run_id="r")
            context = from_ownership(environ={"INFER_FORGE_RUN_ID": "r"})
            assert (context.pid(child), context.pid(parent.pid)) == ("owned", "owned")
            assert context.pid(os.getpid()) == "ancestor"
            assert proofs.prove("pid", str(child), run_id="r").how == f"descends:{parent.pid}"
        finally:
            os.kill(child, 9)
            parent.kill()


def test_a_port_is_owned_when_a_process_of_the_run_listens_on_it() -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); import time; time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        try:
            with pytest.raises(GateRefused):
                proofs.prove("port", port, run_id="r")
            ownership.record_birth(server.pid, launcher="engine start", run_id="r")
            assert proofs.prove("port", port, run_id="r").detail == {"pid": server.pid}
            assert proofs.refresh("r") == [("port", port, "proved")]
        finally:
            server.kill()
    with pytest.raises(UsageFault):
        proofs.prove("port", port, run_id="r")
    assert proofs.refresh("r")[0][2].startswith("no longer proved")


def test_a_container_is_proved_by_its_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "docker"
    fake.write_text(
        "#!/bin/sh\nfor last; do :; done\ncase $last in mine) echo 'abc123|r|host|/mine';; *) echo 'def|<no value>||/x';; esac\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert proofs.prove("container", "mine", run_id="r").detail == {"id": "abc123", "pid_mode": "host"}
    with pytest.raises(GateRefused):
        proofs.prove("container", "other", run_id="r")
    with pytest.raises(MissingPart):
        proofs.prove("job", "12", run_id="r")


def test_a_grant_needs_a_terminal() -> None:
    done = forge("guard", "grant", "--action", "process.kill", "--target", "7")
    assert done.returncode == 6
    assert "terminal" in done.stderr
    assert forge("guard", "grant", "--action", "no.rule").returncode == 2
    assert forge("guard", "grant", "--action", "guard.self").returncode == 2
    assert forge("guard", "grant", "--action", "process.kill", "--for", "3d").returncode == 2


def test_explain_tells_a_rule_and_lists_all() -> None:
    done = forge("guard", "explain", "process.by_name", "--format", "json")
    assert json.loads(done.stdout)["rule"]["constraint"] == "env_isolation"
    assert len(json.loads(forge("guard", "explain", "--format", "json").stdout)["tables"]["rules"]["rows"]) > 60
    assert forge("guard", "explain", "process.nothing").returncode == 2


def make_artifacts(folder: Path) -> dict[str, Path]:
    made = {
        name: folder / name
        for name in ("run.log", "trace.json.gz", "rows.sqlite", "wide.bin", "report.ncu-rep", "clean.txt")
    }
    made["run.log"].write_text(f"line\nHF_TOKEN={TOKEN}\n" + "x" * 100)
    made["trace.json.gz"].write_bytes(gzip.compress(json.dumps({"env": {"T": TOKEN}, "pad": "y" * 5_000_000}).encode()))
    with sqlite3.connect(made["rows.sqlite"]) as db:
        db.execute("create table t (a text)")
        db.execute("insert into t values (?)", (f"cmd --token {TOKEN}",))
    db.close()
    made["wide.bin"].write_bytes(b"\0\1\2" + TOKEN.encode("utf-16-le") + b"\0\0")
    made["report.ncu-rep"].write_bytes(b"NVR\0" + b"\x0a\x10" + b"password=correct-horse-battery" + b"\0" * 50)
    made["clean.txt"].write_text("nothing here")
    return made


def test_secrets_are_found_in_every_kind_of_artifact_and_never_shown(tmp_path: Path) -> None:
    made = make_artifacts(tmp_path)
    done = forge("guard", "scan", str(tmp_path), "--format", "json", DB_PASSWORD="correct-horse-battery")
    assert done.returncode == 4
    rows = json.loads(done.stdout)["tables"]["secrets"]["rows"]
    assert {Path(row[0]).name for row in rows} == set(made) - {"clean.txt"}
    assert TOKEN not in done.stdout + done.stderr
    assert next(row[2] for row in rows if row[0].endswith("run.log")) == 2


def test_redaction_leaves_files_that_still_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "correct-horse-battery")
    made = make_artifacts(tmp_path)
    sizes = {n: p.stat().st_size for n, p in made.items()}
    scan([tmp_path], redact_files=True)
    assert scan([tmp_path]).found == []
    assert json.loads(gzip.decompress(made["trace.json.gz"].read_bytes()))["env"]["T"].startswith("[redacted")
    db = sqlite3.connect(made["rows.sqlite"])
    assert db.execute("select a from t").fetchone()[0].startswith("cmd --token ***")
    assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    db.close()
    assert all(made[n].stat().st_size == sizes[n] for n in ("wide.bin", "report.ncu-rep", "rows.sqlite"))


@pytest.mark.parametrize("length", range(34, 126))
def test_a_secret_behind_any_length_byte_is_found_in_a_binary_file(tmp_path: Path, length: int) -> None:
    token = ("hf_" + "".join(chr(65 + i % 26) + str(i % 10) for i in range(80)))[:length]
    (tmp_path / "x.pkl").write_bytes(b"\x80\x04\x8c" + bytes([length]) + token.encode() + b"\x94\0\0.")
    found = scan([tmp_path], redact_files=True).found
    assert [(f.kind, f.offset, f.length) for f in found] == [("huggingface-token", 4, length)]
    assert scan([tmp_path]).found == []


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le"])
def test_a_secret_in_a_column_is_found_and_the_columns_beside_it_stay(tmp_path: Path, encoding: str) -> None:
    db = sqlite3.connect(tmp_path / "x.sqlite")
    db.execute(f"pragma encoding = '{encoding}'")
    db.execute('create table "odd ""name" (a text, t text, b text)')
    db.execute('insert into "odd ""name" values (?, ?, ?)', ("alice", TOKEN, "bob"))
    db.execute('create index i on "odd ""name" (t)')
    db.commit()
    db.close()
    assert scan([tmp_path], redact_files=True).found
    assert scan([tmp_path]).found == []
    db = sqlite3.connect(tmp_path / "x.sqlite")
    assert db.execute('select * from "odd ""name"').fetchall() == [("alice", "*" * len(TOKEN), "bob")]
    assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    db.close()


def test_a_secret_that_lies_in_pieces_is_said_and_not_called_redacted(tmp_path: Path) -> None:
    cut = tmp_path / "cut.sqlite"
    db = sqlite3.connect(cut)
    db.execute("pragma page_size = 512")
    db.execute("create table t (a text)")
    for pad in range(100, 520):
        db.execute("delete from t")
        db.execute("insert into t values (?)", ("." * pad + " " + TOKEN + " " + "-" * 2000,))
        db.commit()
        db.execute("vacuum")
        if TOKEN.encode() not in cut.read_bytes():
            break
    db.close()
    assert TOKEN.encode() not in cut.read_bytes()
    seen = scan([cut], redact_files=True)
    assert [(f.kind, f.offset) for f in seen.found] == [("huggingface-token", None)]
    assert seen.redacted == []
    assert "VACUUM" in seen.unreadable[0][1]


def test_words_that_hold_the_beginning_of_a_key_are_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\0\1disk-cache-of-the-prefill-node-7 task-abcdefghijklmnopqrstuvwxyz\0")
    assert scan([tmp_path]).found == []


def test_a_secret_across_a_block_edge_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from infer_forge.guard import artifacts

    monkeypatch.setattr(artifacts, "BLOCK", 1 << 16)
    file = tmp_path / "x.txt"
    file.write_text("a\n" * ((1 << 15) - 10) + TOKEN + "\n" + "b\n" * 100_000)
    found = scan([file]).found
    assert [f.line for f in found] == [(1 << 15) - 9]


def test_what_cannot_be_read_is_said_and_not_called_clean(tmp_path: Path) -> None:
    (tmp_path / "torn.gz").write_bytes(gzip.compress(b"x" * 100_000)[:60])
    done = forge("guard", "scan", str(tmp_path), "--format", "json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["verdict"] == "unreadable"
    assert forge("guard", "scan", str(tmp_path / "nowhere")).returncode == 3


def call(name: str, arguments: dict[str, Any], era: Literal["legacy", "auto"], answer: str | None = None) -> Any:
    async def person(_context: Any, _params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"decision": answer, "minutes": 5})

    async def ask() -> Any:
        kept = {"elicitation_callback": person} if answer else {}
        async with Client(make_server(("guard",)), mode=era, **kept) as client:  # pyright: ignore
            return await client.call_tool(name, arguments)

    return anyio.run(ask)


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_the_tools_answer_in_both_eras(era: Literal["legacy", "auto"], tmp_path: Path) -> None:
    found = call("check_command", {"command": "pkill -f python"}, era).structured_content
    assert found["data"]["verdict"] == "deny"
    (tmp_path / "a.log").write_text(TOKEN)
    text = json.dumps(call("scan_artifacts", {"paths": [str(tmp_path)]}, era).structured_content)
    assert "huggingface-token" in text
    assert TOKEN not in text
    assert call("list_owned", {}, era).structured_content["summary"]


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_only_a_person_gives_a_grant(era: Literal["legacy", "auto"]) -> None:
    wanted = {"action": "process.kill", "target": "777", "reason": "the user asked for this stop"}
    nobody = call("request_grant", wanted, era).structured_content
    assert "guard grant" in json.dumps(nobody)
    assert ownership.load().runs == {}
    call("request_grant", wanted, era, answer="refuse")
    assert ownership.load().runs == {}
    call("request_grant", wanted, era, answer="allow")
    grants = [g for run in ownership.load().runs.values() for g in run.grants]
    assert [(g.action, g.target, g.by) for g in grants] == [("process.kill", "777", "person:client")]
    assert call("request_grant", {**wanted, "action": "guard.self"}, era, answer="allow").is_error
