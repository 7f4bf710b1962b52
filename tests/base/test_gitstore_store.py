"""The store on one machine: reading, deciding, committing, paths, history, intents."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.gitstore import Changes, Refuse, Refused, Snapshot, Store, fan_out

REF = "refs/forge/records"


def git(repo: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", str(repo), *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def put(store: Store, **files: str) -> str:
    return store.update(REF, lambda _: Changes(put={k.replace("__", "/"): v for k, v in files.items()}), "put")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store.git")


def test_a_new_store_is_a_bare_repository_that_git_reads(store: Store) -> None:
    put(store, a__b="one", c="two")
    assert git(store.gitdir, "rev-parse", "--is-bare-repository").strip() == "true"
    assert git(store.gitdir, "ls-tree", "-r", "--name-only", REF).split() == ["a/b", "c"]
    git(store.gitdir, "fsck", "--strict", "--full")


def test_a_checkout_can_be_the_store(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "work")
    store = Store.open(tmp_path / "work")
    put(store, a="one")
    assert git(tmp_path / "work", "cat-file", "-p", f"{REF}:a") == "one"


def test_a_folder_that_is_no_repository_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "file").write_text("mine")
    with pytest.raises(UsageFault, match="no git repository"):
        Store.open(tmp_path / "x")
    assert (tmp_path / "x" / "file").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_an_absent_ref_reads_as_no_files(store: Store) -> None:
    snapshot = store.read(REF)
    assert (snapshot.tip, snapshot.get("a"), snapshot.list(), dict(snapshot.items())) == (None, None, [], {})


def test_a_snapshot_keeps_what_it_saw_when_the_ref_moves_on(store: Store) -> None:
    put(store, a="one")
    before = store.read(REF)
    put(store, a="two")
    assert before.get("a") == b"one"
    assert store.read(REF).get("a") == b"two"


def test_a_prefix_lists_a_folder_or_the_start_of_names(store: Store) -> None:
    put(store, ab__x="1", ab__y="2", abc="3", b="4")
    snapshot = store.read(REF)
    assert snapshot.list("ab/") == ["ab/x", "ab/y"]
    assert snapshot.list("ab") == ["ab/x", "ab/y", "abc"]
    assert snapshot.list("ab/y") == ["ab/y"]
    assert snapshot.list("nothing/") == []
    assert snapshot.children() == ["ab/", "abc", "b"]
    assert snapshot.children("ab/") == ["x", "y"]
    assert snapshot.children("abc") == snapshot.children("nothing/here") == []
    assert snapshot.get("ab") is None
    assert snapshot.get("abc/x") is None


def test_a_refusal_carries_its_reason_and_writes_nothing(store: Store) -> None:
    tip = put(store, a="one")
    with pytest.raises(Refused, match="taken") as caught:
        store.update(REF, lambda _: Refuse("taken", data={"by": "ann"}), "claim")
    assert caught.value.exit_code == 4
    assert caught.value.refusal.data == {"by": "ann"}
    assert caught.value.tip == store.read(REF).tip == tip


def test_nothing_to_do_makes_no_commit(store: Store) -> None:
    tip = put(store, a="one")
    assert store.update(REF, lambda _: None, "none") == tip
    assert store.update(REF, lambda _: Changes(put={"a": "one"}), "same") == tip
    assert len(list(store.history(REF))) == 1


def test_deleting_the_last_file_of_a_folder_removes_the_folder(store: Store) -> None:
    put(store, a__b__c="1", d="2")
    store.update(REF, lambda _: Changes(delete={"a/b/c", "not/there"}), "drop")
    assert store.read(REF).list() == ["d"]
    git(store.gitdir, "fsck", "--strict", "--full")


def test_a_file_cannot_take_the_name_of_a_folder_or_the_other_way_round(store: Store) -> None:
    put(store, a__b="1", c="2")
    with pytest.raises(UsageFault, match="folder"):
        put(store, a="x")
    with pytest.raises(UsageFault, match="file"):
        put(store, c__d="x")


@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "../a", "a/..", ".git/x", "a/.GIT", ".gitmodules", "a\nb", "a\\b", "a/"]
)
def test_a_path_that_strict_fsck_refuses_is_refused_before(store: Store, path: str) -> None:
    with pytest.raises(UsageFault):
        store.update(REF, lambda _: Changes(put={path: "x"}), "bad")


@pytest.mark.parametrize("ref", ["heads/x", "refs/a..b", "refs/a b", "refs/x.lock", "refs/../config"])
def test_a_bad_ref_name_is_refused(store: Store, ref: str) -> None:
    with pytest.raises(UsageFault):
        store.update(ref, lambda _: Changes(put={"a": "x"}), "bad")


def test_history_is_newest_first_with_trailers_and_can_follow_one_file(store: Store) -> None:
    put(store, a="1")
    store.update(REF, lambda _: Changes(put={"b": "2"}, trailers={"Who": "ann\nevil: x"}), "second\n\nbody text")
    put(store, a="3")
    third, second, first = store.history(REF)
    assert (third.parent, second.parent, first.parent) == (second.id, first.id, None)
    assert second.message == "second\n\nbody text"
    assert second.trailers["Who"] == "ann evil: x"
    assert second.op
    assert [c.id for c in store.history(REF, path="a")] == [third.id, first.id]
    assert [c.id for c in store.history(REF, limit=1)] == [third.id]


def test_a_hostile_author_cannot_forge_a_header(store: Store) -> None:
    store.update(REF, lambda _: Changes(put={"a": "1"}), "x", author="a<b>\nparent 00 <m>il\n>")
    git(store.gitdir, "fsck", "--strict", "--full")
    assert next(store.history(REF)).parent is None


def test_the_same_operation_again_finds_its_own_commit(store: Store) -> None:
    calls: list[int] = []

    def decide(snapshot: Snapshot) -> Changes:
        calls.append(1)
        return Changes(put={"n": str(len(snapshot.list()) + len(calls))})

    first = store.update(REF, decide, "once", op="op-1")
    put(store, other="x")
    assert store.update(REF, decide, "once", op="op-1") == first
    assert len(calls) == 1


def test_a_decision_that_lost_is_taken_again_on_the_new_tip(store: Store) -> None:
    rival = Store.open(store.gitdir)
    seen: list[bytes | None] = []

    def decide(snapshot: Snapshot) -> Changes:
        seen.append(snapshot.get("n"))
        if len(seen) == 1:
            put(rival, n="rival")
        return Changes(put={"n": f"after {snapshot.get('n')!r}"})

    store.update(REF, decide, "race")
    assert seen == [None, b"rival"]
    assert store.read(REF).get("n") == b"after b'rival'"


def test_threads_of_one_process_lose_no_write(store: Store) -> None:
    def count(snapshot: Snapshot) -> Changes:
        return Changes(put={"n": str(int(snapshot.get("n") or 0) + 1)})

    threads = [
        threading.Thread(target=lambda: [store.update(REF, count, "count") for _ in range(10)]) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read(REF).get("n") == b"60"
    assert len(list(store.history(REF))) == 60


def test_a_lock_file_left_by_a_killed_process_is_taken_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infer_forge.base.gitstore.refs.LOCK_STANDS_S", 0.1)
    put(store, a="1")
    (store.gitdir / f"{REF}.lock").write_text("")
    put(store, a="2")
    assert store.read(REF).get("a") == b"2"


def test_everything_stays_readable_after_git_packed_it(store: Store) -> None:
    for i in range(30):
        put(store, **{f"d__{i}": str(i)})
    other = Store.open(store.gitdir)
    assert len(other.read(REF).list()) == 30
    store.maintain(prune_after="now")
    assert not (store.gitdir / REF).exists()
    assert dict(other.read(REF).items("d/")) == {f"d/{i}": str(i).encode() for i in range(30)}
    assert store.tips("refs/forge/") == {REF: store.read(REF).tip}
    put(store, last="x")
    assert len(other.read(REF).list()) == 31
    assert len(list(other.history(REF))) == 31


@pytest.mark.parametrize("damage", ["", "garbage\n", "0123\n"])
def test_a_damaged_ref_is_said_and_is_never_nothing_there(store: Store, damage: str) -> None:
    put(store, a="one")
    tip = put(store, b="two")
    (store.gitdir / REF).write_text(damage)
    for touch in (lambda: store.read(REF), lambda: put(store, c="three"), lambda: store.tips("refs/")):
        with pytest.raises(InputUnusable, match="damaged") as told:
            touch()
    assert (store.gitdir / REF).read_text() == damage
    assert "fsck names dangling commits" in str(told.value.next_step)
    fsck = subprocess.run(["git", "-C", str(store.gitdir), "fsck"], capture_output=True, text=True)
    assert f"dangling commit {tip}" in fsck.stdout


def test_a_damaged_object_is_said_with_its_file(store: Store) -> None:
    put(store, a="content")
    blob = store.read(REF).blob_id("a")
    assert blob is not None
    file = store.gitdir / "objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(b"junk")
    with pytest.raises(InputUnusable, match="damaged"):
        store.read(REF).get("a")
    file.unlink()
    with pytest.raises(InputUnusable, match="missing"):
        store.read(REF).get("a")


def test_a_replaceable_ref_keeps_no_history_and_leaves_no_objects_behind(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.git", replaceable=("refs/live/",))
    for i in range(20):
        store.replace("refs/live/x", Changes(put={f"{j}.json": f"sample {j}" for j in range(i % 10 + 1)}), "live")
    assert len(list(store.history("refs/live/x"))) == 1
    assert len(store.read("refs/live/x").list()) == 10
    assert git(store.gitdir, "count-objects").split()[0] == "12"
    assert git(store.gitdir, "fsck", "--unreachable", "--no-progress").count("unreachable") == 0
    with pytest.raises(UsageFault):
        store.replace(REF, Changes(put={"a": "x"}), "no")


def test_intents_are_kept_once_and_in_order(store: Store) -> None:
    first = store.intents.keep("claim", {"node": "a"}, op="op1")
    store.intents.keep("claim", {"node": "a"}, op="op1")
    store.intents.keep("note", {"x": 1})
    assert [i["kind"] for i in store.intents.all()] == ["claim", "note"]
    assert store.intents.all("claim")[0]["data"] == {"node": "a"}
    assert store.intents.drop(first)
    assert not store.intents.drop(first)


def test_a_key_is_fanned_out_over_folders() -> None:
    assert fan_out("abcdef") == "ab/abcdef"
    assert fan_out("abcdef", width=1, depth=2) == "a/b/abcdef"


names = st.text(st.sampled_from("ab.-é好"), min_size=1, max_size=3).filter(lambda n: n.strip(".") != "")
tree_paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(tree_paths, st.one_of(st.none(), st.binary(max_size=8))), max_size=12))
def test_a_store_holds_what_a_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bytes | None]]
) -> None:
    store = Store.open(tmp_path_factory.mktemp("store") / "s.git")
    model: dict[str, bytes] = {}
    for path, data in steps:
        if data is None:
            model.pop(path, None)
            store.update(REF, lambda _, p=path: Changes(delete={p}) if store.read(REF).blob_id(p) else None, "del")
        else:
            parts = path.split("/")
            clash = any("/".join(parts[:i]) in model for i in range(1, len(parts))) or any(
                k.startswith(f"{path}/") for k in model
            )
            change = Changes(put={path: data})
            if clash:
                with pytest.raises(UsageFault):
                    store.update(REF, lambda _, c=change: c, "put")
            else:
                store.update(REF, lambda _, c=change: c, "put")
                model[path] = data
        assert dict(store.read(REF).items()) == model
    git(store.gitdir, "fsck", "--strict", "--full")
