"""A clock locked inside a claim comes back when the claim ends: recorded before, asked, seen to run, restored, verified."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from guard_hook_process import speak

from infer_forge.base import clocks, ownership
from infer_forge.base.machine.clocks import Look, Outcome, in_force, record, restore
from infer_forge.base.records import Report
from infer_forge.guard import policy
from infer_forge.guard.hook_config import payload
from infer_forge.nodes import claims, verbs
from infer_forge.nodes.registry import Registry

FORGE = str(Path(sys.executable).parent / "infer-forge")
FAKES = Path(__file__).parent / "fakes"
NODE = ownership.node_name()


class Gpus:
    """Two GPUs of a node whose driver keeps locks; everybody's nvidia-smi on PATH."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write({"gpus": [{"uuid": f"GPU-{n}", "lock": None} for n in "ab"]})

    def read(self) -> dict[str, Any]:
        return json.loads(self.path.read_text())

    def write(self, state: dict[str, Any]) -> None:
        self.path.write_text(json.dumps(state))

    def set(self, **changes: Any) -> None:
        self.write({**self.read(), **changes})

    def put(self, gpu: int, **changes: Any) -> None:
        state = self.read()
        state["gpus"][gpu] |= changes
        self.write(state)

    @property
    def locks(self) -> list[list[int] | None]:
        return [g["lock"] for g in self.read()["gpus"]]

    @property
    def written(self) -> list[list[str]]:
        return self.read().get("ran", [])


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAKE_CLOCKS", str(tmp_path / "clocks.json"))
    monkeypatch.setenv("PATH", f"{FAKES}:{os.environ['PATH']}")
    policy.compile_policy(str(tmp_path))
    return Gpus(tmp_path / "clocks.json")


@pytest.fixture
def claim(gpus: Gpus) -> str:
    registry = Registry.open(create=True)
    registry.ensure_policy()
    return verbs.claim(NODE, "0,1", task="t", purpose="bench").extra["claim"]["claim_id"]


def hook(command: str, ident: str, event: str = "PreToolUse", client: str = "claude") -> str:
    """What the client would do: `ask`, `allow` or `deny`."""
    data = payload(client, command, os.getcwd(), tool_use_id=ident, hook_event_name=event)
    done = speak(data, "--client", client)
    return "deny" if done.returncode else "ask" if b'"ask"' in done.stdout else "allow"


def lock(gpu: str = "0", mhz: str = "1400,1400", ident: str = "toolu_1", *, seen: bool = True) -> None:
    """A person approves the question, the command runs, the client tells the hook."""
    command = f"nvidia-smi -i {gpu} -lgc {mhz}"
    assert hook(command, ident) == "ask"
    subprocess.run(["nvidia-smi", "-i", gpu, "-lgc", mhz], check=True)
    if seen:
        assert hook(command, ident, "PostToolUse") == "allow"


def forge(*words: str, code: int = 0) -> dict[str, Any]:
    done = subprocess.run([FORGE, *words, "--format", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout else {"stderr": done.stderr}


def states() -> list[tuple[int, str]]:
    return [(k.gpu, k.state) for k in clocks.read().locks]


def test_a_lock_is_denied_until_the_old_clock_is_written_down_and_then_asked(gpus: Gpus, claim: str) -> None:
    command = "nvidia-smi -i 0 -lgc 1400,1400"
    data = payload("claude", command, os.getcwd())
    refused = speak(data, "--client", "claude")
    assert refused.returncode == 2
    assert b"gpu.clock_unrecorded" in refused.stderr
    assert b"guard clocks --record --gpus 0" in refused.stderr
    forge("guard", "clocks", "--record", "--gpus", "0")
    assert hook(command, "toolu_1") == "ask"
    assert hook("nvidia-smi -i 1 -lgc 1400", "toolu_2") == "deny"
    assert hook("nvidia-smi -i 2 -lgc 1400", "toolu_3") == "deny"
    assert hook("nvidia-smi -i 0 -rgc", "toolu_4") == "deny"
    assert clocks.read().seen[0]["idle_mhz"] == 345


def test_the_end_of_the_claim_gives_the_clock_back_and_says_so(gpus: Gpus, claim: str) -> None:
    record([0, 1])
    lock("0,1")
    assert states() == [(0, "ran"), (1, "ran")]
    gpus.put(0, busy=True)
    done = forge("node", "release", claim)
    assert gpus.locks == [None, None]
    assert [(c["gpu"], c["result"], c["verified"]) for c in done["clocks"]] == [
        (0, "restored", True),
        (1, "restored", True),
    ]
    assert states() == [(0, "restored"), (1, "restored")]
    assert [w for w in gpus.written if "-rgc" in w] == [["-i", "GPU-a", "-rgc"], ["-i", "GPU-b", "-rgc"]]


def test_two_locks_of_one_claim_go_back_to_what_was_before_the_first(gpus: Gpus, claim: str) -> None:
    record()
    lock("0", "1400,1400", "toolu_1")
    lock("0", "1200,1200", "toolu_2")
    forge("node", "release", claim)
    assert gpus.locks == [None, None]
    assert states() == [(0, "restored"), (0, "restored")]


def test_the_last_of_two_locks_alone_goes_back_to_our_own_before_it(gpus: Gpus, claim: str) -> None:
    record()
    lock("0", "1400,1400", "toolu_1")
    lock("0", "1200,1200", "toolu_2")
    done = restore(idents=[clocks.read().locks[1].ident])
    assert [(o.result, o.target, o.verified) for o in done] == [("restored", (1400, 1400), True)]
    assert gpus.locks[0] == [1400, 1400]
    forge("node", "release", claim)
    assert gpus.locks[0] is None


def test_a_standing_lock_that_a_person_declared_comes_back(gpus: Gpus, claim: str) -> None:
    gpus.put(0, lock=[1755, 1755])
    record()
    assert forge("guard", "clocks", "--gpus", "0", "--standing", "1755", code=6)["stderr"]
    assert typed("guard", "clocks", "--gpus", "0", "--standing", "1755") == 0
    lock("0", "1400,1400")
    assert gpus.locks[0] == [1400, 1400]
    forge("node", "release", claim)
    assert gpus.locks[0] == [1755, 1755]


def typed(*words: str) -> int:
    """A person at a terminal runs infer-forge and says yes."""
    main, terminal = pty.openpty()
    with subprocess.Popen([FORGE, *words], stdin=terminal, stderr=terminal, stdout=subprocess.PIPE) as process:
        os.write(main, b"y\n")
        code = process.wait(60)
    os.close(terminal)
    os.close(main)
    return code


def test_a_clock_that_cannot_be_given_back_keeps_the_claim_held_and_stays_open(gpus: Gpus, claim: str) -> None:
    record()
    lock("0,1")
    gpus.set(broken=[1])
    said = forge("node", "release", claim, code=4)["stderr"]
    assert "GPU 1" in said
    assert "stays held" in said
    assert gpus.locks == [None, [1400, 1400]]
    assert states() == [(0, "restored"), (1, "restore_failed")]
    assert Registry.open().find_claim(claim)[0].node == NODE
    shown = forge("guard", "status")
    assert "CLOCK_NOT_RESTORED" in json.dumps(shown["findings"])
    forge("guard", "clocks", "--restore", code=4)
    gpus.set(broken=[])
    assert forge("node", "release", claim)["clocks"][0]["result"] == "restored"
    assert gpus.locks == [None, None]


def test_a_user_without_the_right_to_change_clocks_does_not_count_as_restored(gpus: Gpus, claim: str) -> None:
    record()
    lock()
    gpus.set(denied=True)
    assert "permission" in forge("node", "release", claim, code=4)["stderr"]
    assert gpus.locks[0] == [1400, 1400]
    assert states() == [(0, "restore_failed")]


def test_a_person_may_end_the_claim_all_the_same_and_the_open_lock_stays_on_record(gpus: Gpus, claim: str) -> None:
    record()
    lock()
    gpus.set(denied=True)
    assert typed("node", "release", claim, "--force") == 0
    with pytest.raises(Exception, match="ended already"):
        Registry.open().find_claim(claim)
    assert states() == [(0, "restore_failed")]
    assert hook(f"infer-forge guard clocks --drop {clocks.read().locks[0].ident}", "x") == "deny"
    assert hook("infer-forge guard clocks --standing none --gpus 0", "x") == "deny"
    assert hook("infer-forge guard clocks --restore --force", "x") == "deny"
    assert hook("infer-forge guard clocks --restore", "x") == "allow"
    assert typed("guard", "clocks", "--drop", clocks.read().locks[0].ident) == 0
    assert states() == [(0, "dropped")]


def test_what_a_person_locked_in_between_is_left_alone_and_said(gpus: Gpus, claim: str) -> None:
    record()
    lock("0,1")
    gpus.put(0, lock=[1200, 1200])  # another person, by hand
    gpus.put(1, lock=[1700, 1700])
    done = forge("node", "release", claim)
    assert gpus.locks == [[1200, 1200], [1700, 1700]]
    assert [c["result"] for c in done["clocks"]] == ["gone", "gone"]
    assert len([f for f in done["findings"] if f["code"] == "CLOCK_NOT_RESTORED"]) == 2
    assert states() == [(0, "gone"), (1, "gone")]


def test_a_later_lock_of_another_run_is_left_alone(gpus: Gpus, claim: str) -> None:
    record()
    lock("0")
    clocks.append("allowed", id="later", gpus=[0], mhz=[1400, 1400], run_id="other", claim_id="other", epoch=2)
    gpus.set(gpus=gpus.read()["gpus"])
    forge("node", "release", claim)
    assert gpus.locks[0] == [1400, 1400]
    assert states() == [(0, "gone"), (0, "allowed")]
    assert [(o.result, o.target) for o in restore("other")] == [("restored", None)]
    assert gpus.locks[0] is None


def test_a_question_that_was_refused_resets_nothing(gpus: Gpus, claim: str) -> None:
    gpus.put(0, lock=[1755, 1755])
    record()
    assert hook("nvidia-smi -i 0 -lgc 1400,1400", "toolu_1") == "ask"
    done = forge("node", "release", claim)
    assert gpus.locks[0] == [1755, 1755]
    assert [c["result"] for c in done["clocks"]] == ["gone"]


def test_a_session_that_died_after_the_lock_leaves_what_release_gives_back(gpus: Gpus, claim: str) -> None:
    record()
    lock(seen=False)
    assert states() == [(0, "asked")]
    forge("node", "release", claim)
    assert gpus.locks[0] is None
    assert states() == [(0, "restored")]


def test_an_unseen_lock_that_the_clock_does_not_tell_stays_open_and_is_said(gpus: Gpus, claim: str) -> None:
    record()
    lock(seen=False)
    gpus.put(0, deep=True)
    done = forge("node", "release", claim)
    assert [c["result"] for c in done["clocks"]] == ["unsure"]
    assert [f["code"] for f in done["findings"]] == ["CLOCK_NOT_RESTORED"]
    assert gpus.locks[0] == [1400, 1400]
    assert states() == [(0, "asked")]
    forge("guard", "clocks", "--restore", code=4)
    assert typed("guard", "clocks", "--restore", "--force") == 0
    assert gpus.locks[0] is None


def test_a_restoring_that_is_killed_half_way_is_finished_by_the_next(gpus: Gpus, claim: str) -> None:
    record()
    lock("0,1")
    gpus.set(kill_parent_after=True)
    done = subprocess.run([FORGE, "node", "release", claim], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    gpus.set(kill_parent_after=False)
    assert states() == [(0, "restoring"), (1, "ran")]
    assert Registry.open().find_claim(claim)[0].node == NODE
    again = forge("node", "release", claim)
    assert gpus.locks == [None, None]
    assert [c["result"] for c in again["clocks"]] == ["restored", "restored"]


def test_a_lock_made_after_a_killed_restoring_is_not_reset(gpus: Gpus, claim: str) -> None:
    record()
    lock("0")
    gpus.set(kill_parent_after=True)
    subprocess.run([FORGE, "node", "release", claim], capture_output=True, check=False)
    gpus.set(kill_parent_after=False)
    gpus.put(0, lock=[1800, 1800])
    forge("node", "release", claim)
    assert gpus.locks[0] == [1800, 1800]


def test_a_record_that_was_torn_hides_no_other(gpus: Gpus, claim: str) -> None:
    record()
    lock()
    with open(clocks.file(), "ab") as file:
        file.write(b'{"event":"restor')
    assert clocks.read().lost == 1
    forge("node", "release", claim)
    assert states() == [(0, "restored")]


def test_locks_of_another_boot_are_over(gpus: Gpus, claim: str) -> None:
    record()
    lock()
    path = Path(clocks.file())
    boot = ownership.boot_id()
    assert boot
    path.write_text(path.read_text().replace(boot, "another-boot"))
    assert clocks.read().open() == []
    assert forge("node", "release", claim)["clocks"] == []


def test_a_release_that_is_refused_touches_no_clock(gpus: Gpus, claim: str) -> None:
    record()
    lock()
    forge("node", "release", claim, "--epoch", "7", code=4)
    assert gpus.locks[0] == [1400, 1400]
    assert states() == [(0, "ran")]


def test_a_granted_lock_runs_without_a_question_and_is_given_back_as_well(gpus: Gpus, claim: str) -> None:
    assert typed("guard", "grant", "--action", "gpu.clock_lock", "--target", "0,1", "--for", "10m") == 0
    grant = ownership.load().runs["default"].grants[0]
    assert "GPU 0 345 MHz (idle)" in grant.reason
    assert hook("nvidia-smi -i 0,1 -lgc 1400", "toolu_1", client="codex") == "allow"
    subprocess.run(["nvidia-smi", "-i", "0,1", "-lgc", "1400,1400"], check=True)
    assert states() == [(0, "allowed"), (1, "allowed")]
    gpus.put(0, deep=True)  # an idle GPU says nothing, and a person let it run: it goes back
    forge("node", "release", claim)
    assert gpus.locks == [None, None]


def test_a_granted_lock_that_a_recorded_execution_makes_is_given_back_as_well(gpus: Gpus, claim: str) -> None:
    from infer_forge.guard import check_to_run

    assert check_to_run("nvidia-smi -i 0 -lgc 1400,1400", "task-1").verdict == "deny"
    record()
    assert check_to_run("nvidia-smi -i 0 -lgc 1400,1400", "task-1").verdict == "ask"
    assert states() == []
    assert typed("guard", "grant", "--action", "gpu.clock_lock", "--target", "0", "--for", "10m") == 0
    assert check_to_run("nvidia-smi -i 0 -lgc 1400,1400", "task-1").verdict == "allow"
    subprocess.run(["nvidia-smi", "-i", "0", "-lgc", "1400,1400"], check=True)
    forge("node", "release", claim)
    assert gpus.locks == [None, None]


def test_an_older_driver_with_other_names_of_the_reasons_is_read(gpus: Gpus, claim: str) -> None:
    gpus.set(names="old")
    assert [look.idle for look in record()] == [True, True]


def test_where_nvidia_smi_is_missing_nothing_is_guessed(
    gpus: Gpus, claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record()
    lock()
    monkeypatch.setenv("INFER_FORGE_NVIDIA_SMI", "/nowhere/nvidia-smi")
    forge("node", "release", claim, code=4)
    assert states() == [(0, "restore_failed")]


def test_a_lock_from_a_container_or_on_another_host_is_denied(gpus: Gpus, claim: str) -> None:
    record()
    ownership.own("container", "mine", how="label")
    assert hook("docker exec mine nvidia-smi -i 0 -lgc 1400", "a") == "deny"
    assert hook("ssh elsewhere nvidia-smi -i 0 -lgc 1400", "b") == "deny"
    assert hook("nvidia-smi -i 0 -lgc $MHZ", "c") == "deny"


@pytest.mark.parametrize(
    ("sm", "reasons", "idle", "wanted"),
    [
        (1400, 0, 345, True), (1410, 0, 345, True), (1980, 0, 345, False), (1200, 0, 345, False), (1200, 1, 345, False),
        (345, 1, 345, None), (345, 1, None, None), (900, 4, 345, None), (900, None, 345, None), (None, 0, 345, None),
    ],
)  # fmt: skip
def test_whether_a_lock_is_in_force_is_read_off_the_clock(
    sm: int | None, reasons: int | None, idle: int | None, wanted: bool | None
) -> None:
    held = clocks.Lock("x", 0, None, (1400, 1400), False, "ran", 0.0, None, None, None)
    assert in_force(held, Look(0, "u", sm, 1980, None, "580", reasons), idle) is wanted


def test_cleaning_up_an_idle_claim_gives_its_clock_back_first(
    gpus: Gpus, claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infer_forge.nodes import eligibility

    record()
    lock()
    ended = claims.release(Registry.open(), claim, reason="stands for a clean-up")
    order: list[str] = []

    def clean(*_: Any, execute: bool, **__: Any) -> Any:
        order.append(f"{'execute' if execute else 'dry run'} with lock {gpus.locks[0]}")
        return eligibility.CleanUp(judged=None, released=ended if execute else None)  # pyright: ignore[reportArgumentType]

    def report(_: eligibility.CleanUp) -> Report:
        return Report("node_cleanup")

    monkeypatch.setattr(eligibility, "cleanup", clean)
    monkeypatch.setattr("infer_forge.nodes.reports.cleanup_report", report)
    done = verbs.cleanup(claim, epoch=1, evidence="x" * 16, reason="idle", execute=True)
    assert order == ["dry run with lock [1400, 1400]", "execute with lock None"]
    assert done.extra["clocks"][0]["result"] == "restored"


def test_an_outcome_says_in_one_line_what_became_of_a_lock() -> None:
    held = clocks.Lock("x", 3, None, (1400, 1500), False, "ran", 0.0, None, None, None)
    assert Outcome(held, "failed", "no answer").text == "GPU 3 locked at 1400,1500 MHz: failed (no answer)"
