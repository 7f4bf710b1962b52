"""The store with a hub: races, lost answers, networks that are cut, hubs that were changed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.gitstore import (
    Changes,
    Contention,
    Diverged,
    HistoryRewritten,
    HubUnreachable,
    PushRefused,
    Refuse,
    Refused,
    Snapshot,
    Store,
)

REF = "refs/forge/claims"

FAKE_SSH = """#!{python}
import os, subprocess, sys
mode = open({mode!r}).read()
command = sys.argv[-1]
push = "receive-pack" in command
if mode == "refuse":
    sys.exit("ssh: connect to host hub port 22: Connection refused")
if mode == "hang" or (mode == "hang-push" and push):
    import signal; signal.pause()
if mode != "lose-answer" or not push:
    sys.exit(subprocess.run(["sh", "-c", command]).returncode)
other = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE)
told = b""
while not told.endswith(b"0000"):  # the refs that the hub has; what comes after is its answer
    told += os.read(other.stdout.fileno(), 65536)
os.write(1, told)
other.stdout.read()
other.wait()
open({mode!r}, "w").write("ok")
sys.exit("ssh: client_loop: send disconnect: Broken pipe")
"""


class Wire:
    """An `ssh` that runs the other side here, until told to refuse, to hang, or to lose an answer."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "wire-mode"
        self.set("ok")
        script = folder / "fake-ssh"
        script.write_text(FAKE_SSH.format(python=sys.executable, mode=str(self.file)))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("GIT_SSH_COMMAND", str(script))
        monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")

    def set(self, mode: str) -> None:
        self.file.write_text(mode)


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    path = tmp_path / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True)
    return path


@pytest.fixture
def wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(tmp_path, monkeypatch)


def url(hub: Path, kind: str) -> str:
    return {"file": f"file://{hub}", "path": str(hub), "ssh": f"ssh://hub{hub}"}[kind]


def take(name: str):
    """Decide to write `name` into the free slot."""

    def decide(snapshot: Snapshot) -> Changes | Refuse:
        holder = snapshot.get("slot")
        return Refuse(f"held by {holder.decode()}") if holder else Changes(put={"slot": name})

    return decide


def put(**files: str):
    def decide(_: Snapshot) -> Changes:
        return Changes(put={k.replace("__", "/"): v for k, v in files.items()})

    return decide


def fsck(repo: Path) -> None:
    done = subprocess.run(
        ["git", "-C", str(repo), "fsck", "--strict", "--full"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["file", "path", "ssh"])
def test_two_clones_agree_on_one_winner(tmp_path: Path, hub: Path, wire: Wire, kind: str) -> None:
    a = Store.open(tmp_path / "a.git", url(hub, kind))
    b = Store.open(tmp_path / "b.git", url(hub, kind))
    a.update(REF, put(other="x"), "first")
    b.refresh(REF)
    assert b.read(REF).get("other") == b"x"
    won = a.update(REF, take("a"), "claim")
    with pytest.raises(Refused, match="held by a"):
        b.update(REF, take("b"), "claim")
    assert b.read(REF).tip == won == Store.open(hub).read(REF).tip
    fsck(hub)


def test_the_remote_is_remembered_by_the_repository(tmp_path: Path, hub: Path) -> None:
    Store.open(tmp_path / "a.git", str(hub)).update(REF, put(x="1"), "x")
    again = Store.open(tmp_path / "a.git")
    assert again.remote is not None
    assert again.remote.url == str(hub)


@pytest.mark.parametrize("bad", ["--upload-pack=touch x", "-x", "a\nb"])
def test_a_url_that_is_an_option_is_refused(tmp_path: Path, bad: str) -> None:
    with pytest.raises(UsageFault):
        Store.open(tmp_path / "a.git", bad)


def test_a_url_that_runs_a_command_is_not_run(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "a.git", f"ext::touch {tmp_path}/pwned")
    with pytest.raises(HubUnreachable):
        store.update(REF, put(x="1"), "x")
    assert not (tmp_path / "pwned").exists()


def test_an_answer_that_got_lost_is_found_and_not_written_twice(tmp_path: Path, hub: Path, wire: Wire) -> None:
    store = Store.open(tmp_path / "a.git", url(hub, "ssh"))
    wire.set("lose-answer")
    won = store.update(REF, take("a"), "claim")
    assert Store.open(hub).read(REF).tip == won
    assert len(list(store.history(REF))) == 1


def test_after_an_unknown_outcome_the_same_operation_finds_its_commit(tmp_path: Path, hub: Path, wire: Wire) -> None:
    store = Store.open(tmp_path / "a.git", url(hub, "ssh"))
    op = "0123"
    won = store.update(REF, take("a"), "claim", op=op)
    fresh = Store.open(tmp_path / "fresh.git", url(hub, "ssh"))  # the process died before it knew
    assert fresh.update(REF, take("a"), "claim", op=op) == won


@pytest.mark.parametrize("mode", ["refuse", "hang", "hang-push"])
def test_a_cut_network_is_told_and_nothing_is_held_that_the_hub_does_not_have(
    tmp_path: Path, hub: Path, wire: Wire, mode: str
) -> None:
    a = Store.open(tmp_path / "a.git", url(hub, "ssh"), timeout_s=1.0)
    b = Store.open(tmp_path / "b.git", url(hub, "ssh"))
    a.update(REF, put(other="x"), "first")
    wire.set(mode)
    with pytest.raises((HubUnreachable, Contention)) as caught:
        a.update(REF, take("a"), "claim", patience_s=0.5)
    assert "slot" not in a.read(REF).list()
    assert str(caught.value)
    wire.set("ok")
    b.update(REF, take("b"), "claim")
    with pytest.raises(Refused, match="held by b"):
        a.update(REF, take("a"), "claim")
    assert a.read(REF).get("slot") == b"b"


def test_a_hub_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "a.git", f"file://{tmp_path}/nowhere.git")
    with pytest.raises(HubUnreachable) as caught:
        store.update(REF, put(x="1"), "x")
    assert caught.value.exit_code == 5
    assert "nowhere.git" in str(caught.value)


def test_a_hub_that_went_away_is_not_taken_for_an_empty_one(tmp_path: Path, hub: Path) -> None:
    store = Store.open(tmp_path / "a.git", str(hub))
    store.update(REF, put(x="1"), "x")
    hub.rename(tmp_path / "moved.git")
    for patterns in (("refs/forge/",), (REF,)):
        with pytest.raises(HubUnreachable):
            store.refresh(*patterns)


@pytest.mark.parametrize("kind", ["file", "ssh"])
def test_a_hub_that_was_reset_is_a_matter_for_a_person(tmp_path: Path, hub: Path, wire: Wire, kind: str) -> None:
    a = Store.open(tmp_path / "a.git", url(hub, kind))
    first = a.update(REF, put(x="1"), "one")
    a.update(REF, put(x="2"), "two")
    subprocess.run(["git", "-C", str(hub), "update-ref", REF, first], check=True)
    with pytest.raises(HistoryRewritten):
        a.update(REF, put(x="3"), "three", patience_s=1)
    subprocess.run(["git", "-C", str(hub), "update-ref", "-d", REF], check=True)
    with pytest.raises(HistoryRewritten):
        a.update(REF, put(x="3"), "three", patience_s=1)


def test_a_hub_whose_hook_refuses_is_told_at_once(tmp_path: Path, hub: Path) -> None:
    hook = hub / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no claims on sundays >&2\nexit 1\n")
    hook.chmod(0o755)
    store = Store.open(tmp_path / "a.git", str(hub))
    with pytest.raises(PushRefused):
        store.update(REF, put(x="1"), "x")
    assert store.read(REF).tip is None


def test_a_lock_that_a_killed_push_left_on_a_hub_of_this_machine_is_taken_over(
    tmp_path: Path, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infer_forge.base.gitstore.remote.HubLock.STANDS_S", 0.2)
    store = Store.open(tmp_path / "a.git", str(hub))
    store.update(REF, put(x="1"), "x")
    lock = hub / f"{REF}.lock"
    lock.write_text("")
    store.update(REF, put(x="2"), "x")
    assert not lock.exists()
    assert Store.open(hub).read(REF).get("x") == b"2"


def test_contention_ends_in_a_clear_error(tmp_path: Path, hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infer_forge.base.gitstore.remote.HubLock.STANDS_S", 1000.0)
    store = Store.open(tmp_path / "a.git", str(hub))
    store.update(REF, put(x="1"), "x")
    (hub / f"{REF}.lock").write_text("")
    with pytest.raises(Contention, match="nothing was written"):
        store.update(REF, put(x="2"), "x", patience_s=0.5)


def test_local_commits_are_brought_to_the_hub_and_replayed_when_it_moved(tmp_path: Path, hub: Path) -> None:
    a = Store.open(tmp_path / "a.git", str(hub))
    b = Store.open(tmp_path / "b.git", str(hub))
    a.update(REF, put(base="x"), "base")
    b.refresh(REF)
    a.update(REF, put(a__1="1"), "a1", local=True)
    a.update(REF, put(a__2="2"), "a2", local=True)
    b.update(REF, put(b__1="1"), "b1")
    report = a.sync(REF)
    assert report.replayed == {REF: 2}
    assert report.pushed == [REF]
    assert [c.message for c in a.history(REF)] == ["a2", "a1", "b1", "base"]
    assert Store.open(hub).read(REF).tip == a.read(REF).tip
    b.sync()
    assert b.read(REF).list() == ["a/1", "a/2", "b/1", "base"]
    fsck(hub)


def test_pending_local_commits_go_to_the_hub_before_something_is_decided_there(tmp_path: Path, hub: Path) -> None:
    store = Store.open(tmp_path / "a.git", str(hub))
    store.update(REF, put(mine="1"), "mine", local=True)
    seen: list[list[str]] = []

    def decide(snapshot: Snapshot) -> Changes:
        seen.append(snapshot.list())
        return Changes(put={"next": "1"})

    store.update(REF, decide, "next")
    assert seen == [["mine"]]
    assert Store.open(hub).read(REF).list() == ["mine", "next"]


def test_a_clash_is_never_merged_but_asked_or_decided_by_the_callers_replay(tmp_path: Path, hub: Path) -> None:
    a = Store.open(tmp_path / "a.git", str(hub))
    b = Store.open(tmp_path / "b.git", str(hub))
    a.update(REF, put(slot="a"), "a", local=True)
    b.update(REF, put(slot="b"), "b")
    with pytest.raises(Diverged, match="slot"):
        a.sync(REF)
    assert a.read(REF).get("slot") == b"a"
    report = a.sync(REF, replay=lambda tip, _: Refuse("taken") if tip.get("slot") else Changes())
    assert list(report.dropped.values()) == ["taken"]
    assert a.read(REF).get("slot") == b"b"


def test_a_big_first_fetch_goes_through_a_pack(tmp_path: Path, hub: Path) -> None:
    a = Store.open(tmp_path / "a.git", str(hub))
    a.update(REF, lambda _: Changes(put={f"d/{i}": str(i) for i in range(600)}), "many", local=True)
    a.sync()
    b = Store.open(tmp_path / "b.git", str(hub))
    b.refresh("refs/forge/")
    assert len(b.read(REF).list()) == 600
    assert any((b.gitdir / "objects" / "pack").glob("*.pack"))


@pytest.mark.parametrize("kind", ["file", "ssh"])
def test_a_ref_without_history_reaches_other_clones(tmp_path: Path, hub: Path, wire: Wire, kind: str) -> None:
    a = Store.open(tmp_path / "a.git", url(hub, kind), replaceable=("refs/live/",))
    b = Store.open(tmp_path / "b.git", url(hub, kind), replaceable=("refs/live/",))
    for i in range(3):
        a.replace("refs/live/x", Changes(put={"s": str(i)}), "live")
        b.refresh("refs/live/")
        assert b.read("refs/live/x").get("s") == str(i).encode()
    wire.set("refuse")
    if kind == "ssh":
        with pytest.raises(HubUnreachable):
            a.replace("refs/live/x", Changes(put={"s": "9"}), "live")
        assert a.read("refs/live/x").get("s") == b"9"
        wire.set("ok")
        a.replace("refs/live/x", Changes(put={"s": "10"}), "live")
        b.refresh("refs/live/x")
        assert b.read("refs/live/x").get("s") == b"10"


def test_a_dropped_ref_is_gone_here_and_on_the_hub(tmp_path: Path, hub: Path) -> None:
    store = Store.open(tmp_path / "a.git", str(hub))
    store.update("refs/obs/x/2026-01", put(a="1"), "old")
    assert store.delete("refs/obs/x/2026-01")
    assert not store.delete("refs/obs/x/2026-01")
    assert Store.open(hub).tips("refs/obs/") == {}
    assert store.tips("refs/") == {}


def test_git_variables_of_a_surrounding_hook_do_not_lead_astray(
    tmp_path: Path, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere/index"))
    store = Store.open(tmp_path / "a.git", str(hub))
    store.update(REF, put(x="1"), "x")
    assert Store.open(hub).read(REF).get("x") == b"1"
    assert not (tmp_path / "elsewhere").exists()


def test_writers_in_threads_with_clones_of_their_own_lose_nothing(tmp_path: Path, hub: Path) -> None:
    def count(snapshot: Snapshot) -> Changes:
        return Changes(put={"n": str(int(snapshot.get("n") or 0) + 1)})

    def work(i: int) -> None:
        store = Store.open(tmp_path / f"c{i}.git", str(hub))
        for _ in range(4):
            store.update(REF, count, "count")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Store.open(hub).read(REF).get("n") == b"16"
    fsck(hub)
    assert os.listdir(hub / "refs" / "forge") == ["claims"]


def test_a_shared_hub_lets_a_ref_without_history_be_replaced(tmp_path: Path) -> None:
    hub = tmp_path / "shared.git"
    subprocess.run(["git", "init", "-q", "--bare", "--shared=group", str(hub)], check=True)
    store = Store.open(tmp_path / "a.git", str(hub), replaceable=("refs/live/",))
    for i in range(3):  # receive.denyNonFastForwards, which --shared sets, guards refs/heads/ alone
        store.replace("refs/live/x", Changes(put={"s": str(i)}), "live")
    assert Store.open(hub).read("refs/live/x").get("s") == b"2"


@pytest.mark.parametrize("where", ["here", "hub"])
def test_one_damaged_ref_keeps_no_other_from_following_the_hub(tmp_path: Path, hub: Path, where: str) -> None:
    mine, theirs = (Store.open(tmp_path / name, url(hub, "file")) for name in ("mine", "theirs"))
    for ref in ("refs/forge/one", "refs/forge/two", "refs/other/three"):
        theirs.update(ref, put(a="1"), "a")
    mine.refresh("refs/forge/", "refs/other/")
    tips = {ref: theirs.update(ref, put(b="2"), "b") for ref in ("refs/forge/two", "refs/other/three")}
    damaged = (mine.gitdir if where == "here" else hub) / "refs/forge/one"
    damaged.write_text("junk")
    if where == "here":
        mine.refresh("refs/forge/", "refs/other/")
        with pytest.raises(InputUnusable, match="damaged"):
            mine.read("refs/forge/one")
    else:
        with pytest.raises(HubUnreachable, match="refs/forge/one cannot be read on the hub"):
            mine.refresh("refs/forge/", "refs/other/")
        assert mine.read("refs/forge/one").get("a") == b"1"
        with pytest.raises(InputUnusable, match="damaged"):
            mine.update("refs/forge/one", put(b="2"), "b")
    assert {ref: mine.read(ref).tip for ref in tips} == tips
    faults: dict[str, InputUnusable] = {}
    assert set(mine.tips("refs/forge/", faults)) | set(faults) == {"refs/forge/one", "refs/forge/two"}
    assert set(faults) == ({"refs/forge/one"} if where == "here" else set())
