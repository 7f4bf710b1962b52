"""Small commits by library: plumbing, fast-import, GitPython, dulwich, pygit2 (where installed), and `base.gitstore`.

The work: one blob into a tree of 200 entries, root tree, commit on the tip, one ref moved by compare-and-swap; in memory
(tmpfs) where there is one. Every repository is checked with `git fsck --strict`, and no commit may be missing.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from benches import Row

REF = "refs/bench/claims"
ENTRIES = 200
ONE, MANY, WRITERS = 150, 15, 8
WHO = "bench <bench@localhost>"
Engine = Callable[[Path, int, int], int]


@contextlib.contextmanager
def scratch() -> Generator[Path]:
    """A folder in memory where there is one."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="forge-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def fresh(folder: Path) -> Path:
    """A bare repository whose ref holds a tree of 200 entries."""
    from infer_forge.base.gitstore import Changes, Store

    store = Store.open(folder)
    store.update(REF, lambda _: Changes(put={f"e{i:03d}": str(i) for i in range(ENTRIES)}), "start")
    return folder


def _git(repo: Path, *args: str, data: bytes = b"") -> str:
    done = subprocess.run(["git", f"--git-dir={repo}", *args], input=data, capture_output=True, check=True, env=_ENV)
    return done.stdout.decode().strip()


_ENV = os.environ | {
    "GIT_AUTHOR_NAME": "bench", "GIT_AUTHOR_EMAIL": "b@l", "GIT_COMMITTER_NAME": "bench", "GIT_COMMITTER_EMAIL": "b@l",
}  # fmt: skip


def plumbing(repo: Path, worker: int, number: int) -> int:
    """hash-object, ls-tree, mktree, commit-tree, update-ref."""
    blob = _git(repo, "hash-object", "-w", "--stdin", data=f"{worker} {number}".encode())
    for lost in range(10_000):
        tip = _git(repo, "rev-parse", REF)
        lines = [x for x in _git(repo, "ls-tree", tip).splitlines() if not x.endswith("\te000")]
        tree = _git(repo, "mktree", data="\n".join([*lines, f"100644 blob {blob}\te000", ""]).encode())
        commit = _git(repo, "commit-tree", tree, "-p", tip, "-m", f"{worker} {number}")
        try:
            _git(repo, "update-ref", REF, commit, tip)
        except subprocess.CalledProcessError:
            continue
        return lost
    raise RuntimeError("starved")


def gitpython(repo: Path, worker: int, number: int) -> int:
    """gitdb objects, `git update-ref`."""
    from io import BytesIO

    import git
    from git.objects.fun import tree_to_stream
    from gitdb import IStream

    made: Any = git.Repo(repo)
    try:
        data = f"{worker} {number}".encode()
        blob = made.odb.store(IStream("blob", len(data), BytesIO(data))).binsha
        for lost in range(10_000):
            tip = made.commit(REF)
            entries = [(e.binsha, e.mode, e.name) for e in tip.tree if e.name != "e000"]
            stream = BytesIO()
            tree_to_stream(sorted([*entries, (blob, 0o100644, "e000")], key=lambda e: e[2]), stream.write)
            size = stream.tell()
            stream.seek(0)
            tree = git.Tree(made, made.odb.store(IStream("tree", size, stream)).binsha)
            actor = git.Actor("bench", "b@l")
            commit = git.Commit.create_from_tree(made, tree, f"{worker} {number}", [tip], author=actor, committer=actor)
            try:
                made.git.update_ref(REF, commit.hexsha, tip.hexsha)
            except git.GitCommandError:
                continue
            return lost
    finally:
        made.close()
    raise RuntimeError("starved")


def dulwich(repo: Path, worker: int, number: int) -> int:
    """dulwich objects, `refs.set_if_equals`."""
    from dulwich.file import FileLocked
    from dulwich.objects import Blob, Commit
    from dulwich.repo import Repo

    made: Any = Repo(str(repo))
    blob = Blob.from_string(f"{worker} {number}".encode())
    made.object_store.add_object(blob)
    for lost in range(10_000):
        tip = made.refs[REF.encode()]
        tree = made[made[tip].tree]
        tree[b"e000"] = (0o100644, blob.id)
        commit: Any = Commit()
        commit.tree, commit.parents, commit.message = tree.id, [tip], f"{worker} {number}".encode()
        commit.author = commit.committer = WHO.encode()
        commit.author_time = commit.commit_time = int(time.time())
        commit.author_timezone = commit.commit_timezone = 0
        try:
            made.object_store.add_object(tree)
            made.object_store.add_object(commit)
            if made.refs.set_if_equals(REF.encode(), tip, commit.id):
                made.close()
                return lost
        except FileLocked:
            continue
    raise RuntimeError("starved")


def pygit2(repo: Path, worker: int, number: int) -> int:
    """libgit2: `create_commit(ref, parents=[tip])`."""
    lib: Any = importlib.import_module("pygit2")

    made: Any = lib.Repository(str(repo))
    blob = made.create_blob(f"{worker} {number}".encode())
    who: Any = lib.Signature("bench", "b@l")
    for lost in range(10_000):
        tip = made.references[REF].target
        builder = made.TreeBuilder(made[tip].tree)
        builder.insert("e000", blob, 0o100644)
        try:
            made.create_commit(REF, who, who, f"{worker} {number}", builder.write(), [tip])
        except (lib.GitError, OSError, ValueError):
            continue
        return lost
    raise RuntimeError("starved")


def ours(repo: Path, worker: int, number: int) -> int:
    """`Store.update`; objects flushed to the disk before the ref names them."""
    from infer_forge.base.gitstore import Changes, Snapshot, Store

    calls: list[int] = []

    def decide(_: Snapshot) -> Changes:
        calls.append(1)
        return Changes(put={"e000": f"{worker} {number}"})

    with Store.open(repo) as store:
        store.update(REF, decide, f"{worker} {number}")
    return len(calls) - 1


ENGINES: dict[str, Engine] = {
    "git plumbing": plumbing, "GitPython": gitpython, "dulwich": dulwich, "pygit2": pygit2, "base.gitstore": ours,
}  # fmt: skip


def _run(name: str, repo: Path, worker: int, count: int, lost: Any) -> None:
    total = sum(ENGINES[name](repo, worker, number) for number in range(count))
    with lost.get_lock():
        lost.value += total


def measure(name: str, writers: int, count: int) -> tuple[float, float]:
    """Commits per second and retries per commit; every commit must be there and fsck clean."""
    with scratch() as folder:
        repo = fresh(folder / "r.git")
        context = multiprocessing.get_context("spawn")
        lost = context.Value("i", 0)
        if writers == 1:
            ENGINES[name](repo, 0, 10**6)
            began = time.perf_counter()
            _run(name, repo, 0, count, lost)
            seconds, done = time.perf_counter() - began, count + 1
        else:
            workers = [context.Process(target=_run, args=(name, repo, i, count, lost)) for i in range(writers)]
            began = time.perf_counter()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            seconds, done = time.perf_counter() - began, writers * count
        there = int(_git(repo, "rev-list", "--count", REF)) - 1
        if there != done:
            raise RuntimeError(f"{name}: {done} commits were acknowledged, {there} are there")
        _git(repo, "fsck", "--strict", "--full")
        return writers * count / seconds, lost.value / (writers * count)


def engines() -> list[Row]:
    """Each engine, with one writer and with eight."""
    rows: list[Row] = []
    best = {1: 0.0, WRITERS: 0.0}
    for name in ENGINES:
        for writers in (1, WRITERS):
            work = f"{name}, {writers} writer{'s' if writers > 1 else ''} on one ref"
            count = ONE if writers == 1 else MANY
            try:
                rate, retries = measure(name, writers, count)
            except ImportError as exc:
                rows.append(Row(work, "comparison", None, "commits/s", str(exc), None, "not installed here"))
                continue
            if name == "base.gitstore":
                plain = best[writers]
                good = rate >= 2 * plain
                said = f"git plumbing {plain:.0f}/s in the same run"
                rows.append(
                    Row(work, "at least 2 x git plumbing", rate, "commits/s", said, good, f"{retries:.2f} retries")
                )
            else:
                if name == "git plumbing":
                    best[writers] = rate
                note = f"{retries:.2f} retries a commit, start of 8 processes included" if writers > 1 else ""
                rows.append(Row(work, "comparison", rate, "commits/s", "-", True, note))
    return rows


def reading() -> list[Row]:
    """Many small files at a tip, loose and packed, beside `git cat-file --batch`."""
    from infer_forge.base.gitstore import Changes, Store, fan_out

    count = 5000
    with scratch() as folder:
        store = Store.open(folder / "r.git")
        files = {fan_out(f"{i * 2654435761 % 2**32:08x}"): f"record {i}\n" * 40 for i in range(count)}
        store.update(REF, lambda _: Changes(put=files), "many")
        rows: list[Row] = []
        for form in ("loose", "packed"):
            if form == "packed":
                store.maintain(prune_after="now")
            began = time.perf_counter()
            with Store.open(folder / "r.git") as again:
                read = sum(1 for _ in again.read(REF).items())
            ours_s = time.perf_counter() - began
            began = time.perf_counter()
            names = subprocess.run(
                ["git", f"--git-dir={folder}/r.git", "ls-tree", "-r", "--format=%(objectname)", REF],
                capture_output=True,
                check=True,
            ).stdout
            subprocess.run(
                ["git", f"--git-dir={folder}/r.git", "cat-file", "--batch"],
                input=names,
                capture_output=True,
                check=True,
            )
            git_s = time.perf_counter() - began
            said = f"ls-tree and cat-file --batch {git_s:.3f} s"
            rows.append(Row(f"read {read} small files, {form}", "at most 1 s", ours_s, "s", said, ours_s <= 1.0))
        return rows


BENCHES: dict[str, Callable[[], list[Row]]] = {"engines": engines, "reading": reading}
