"""Following the hub, bringing local commits to it, refs without history, retention."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from infer_forge.base.errors import InputUnusable, MissingPart
from infer_forge.base.gitstore.history import is_ancestor, meeting_point, since
from infer_forge.base.gitstore.model import (
    Changes,
    Commit,
    Diverged,
    HistoryRewritten,
    HubUnreachable,
    Refuse,
    SyncReport,
)
from infer_forge.base.gitstore.objects import TREE_MODE, Objects, join_trailers
from infer_forge.base.gitstore.pace import Pace
from infer_forge.base.gitstore.remote import TRACKING, HubLock, Remote, git_environment, tracking
from infer_forge.base.gitstore.snapshot import Snapshot

if TYPE_CHECKING:
    from infer_forge.base.gitstore.refs import Refs
    from infer_forge.base.gitstore.store import Store

Replay = Callable[[Snapshot, Commit], "Changes | Refuse"]


def refresh(store: Store, remote: Remote, patterns: tuple[str, ...]) -> None:
    """See `Store.refresh`."""
    left, broken = list(patterns), dict[str, InputUnusable]()
    if remote.direct() is not None:
        left = [pattern for pattern in patterns if not _refresh_direct(store, remote, pattern, broken)]
    if left:
        _refresh_by_git(store, remote, left)
    for pattern in patterns:
        for name in store.refs.under(tracking(pattern)):
            ref = "refs/" + name.removeprefix(TRACKING)
            if (pattern.endswith("/") and not _damaged(store, ref)) or ref == pattern:
                follow(store, ref)
    for name, exc in broken.items():
        raise HubUnreachable(
            f"{name} cannot be read on the hub ({exc.what}); the other refs were followed",
            where=remote.url,
            next_step=exc.next_step,
        )


def _damaged(store: Store, ref: str) -> bool:
    """Whether a ref's file here cannot be read; who reads it is told so, and the others follow the hub meanwhile."""
    try:
        store.refs.get(ref)
    except InputUnusable:
        return True
    return False


def _refresh_direct(store: Store, remote: Remote, pattern: str, broken: dict[str, InputUnusable]) -> bool:
    """Copy from a hub of this machine; False leaves it to `git fetch`. `broken` takes what the hub itself cannot read."""
    hub = remote.direct()
    if hub is None:
        return False
    refs, objects = hub
    names = list(refs.under(pattern, broken)) if pattern.endswith("/") else [pattern]
    return all(_follow_direct(store, remote, refs, objects, ref) for ref in names)


def _follow_direct(store: Store, remote: Remote, refs: Refs, objects: Objects, ref: str) -> bool:
    """Bring one tracking ref to the hub's tip. What was seen is read before the hub is, so it can never be the newer one."""
    for _ in range(50):
        seen = store.refs.get(tracking(ref))
        tip = refs.get(ref)
        if seen == tip:
            return True
        free = ref.startswith(store.replaceable or "\0")
        if tip is None:
            if free:
                return True
            raise rewritten(ref, remote)
        try:
            if not remote.copy_from(objects, store.objects, tip):
                return False
        except (InputUnusable, OSError):  # the hub may repack or prune under our hands; git knows how to wait for that
            return False
        if not free and not is_ancestor(store.objects, seen, tip):
            raise rewritten(ref, remote)
        if store.refs.cas(tracking(ref), seen, tip):
            return True
    return False


def _refresh_by_git(store: Store, remote: Remote, patterns: list[str]) -> None:
    rejected = 0
    for attempt in range(6):
        words = remote.fetch(patterns, replaceable=store.replaceable or ("\0",))
        if not words:
            return
        rejected += "non-fast-forward" in words
        if rejected == 3:  # once or twice: another process of this store followed the hub past this fetch
            raise rewritten(" ".join(patterns), remote)
        time.sleep(0.02 * 2**attempt)  # another process of this store was fetching the same ref
    raise HubUnreachable("the local copy of the hub's refs cannot be locked", where=str(store.gitdir))


def rewritten(ref: str, remote: Remote) -> HistoryRewritten:
    """The hub's ref went back or sideways."""
    return HistoryRewritten(
        f"{ref} on the hub does not continue what was seen here: it was reset or replaced",
        where=remote.url,
        next_step="ask who changed it; restore it from a clone that has the newest commit",
    )


def follow(store: Store, ref: str) -> None:
    """Let the local ref be the hub's tip when nothing local is pending."""
    for _ in range(50):
        mine, hub = store.refs.get(ref), store.refs.get(tracking(ref))
        if hub is None or mine == hub:
            return
        if not ref.startswith(store.replaceable or "\0") and not is_ancestor(store.objects, mine, hub):
            return
        if store.refs.cas(ref, mine, hub):
            return


def landed(store: Store, ref: str, base: str | None, commit: str) -> None:
    """A push of `commit` was acknowledged."""
    seen = store.refs.get(tracking(ref))
    if seen == base:
        store.refs.cas(tracking(ref), base, commit)  # lost: another process fetched past us, which is as good
    follow(store, ref)


def push_pending(store: Store, remote: Remote, ref: str) -> None:
    """Bring local commits to the hub before something is decided on its tip."""
    mine, hub = store.refs.get(ref), store.refs.get(tracking(ref))
    if mine is not None and mine != hub and not is_ancestor(store.objects, mine, hub):
        sync(store, remote, (ref,), None)


def sync(store: Store, remote: Remote, refs: tuple[str, ...], replay: Replay | None) -> SyncReport:
    """See `Store.sync`."""
    names = refs or tuple(
        name
        for name in store.refs.under("refs/")
        if not name.startswith(("refs/remotes/", "refs/heads/", "refs/tags/", *store.replaceable))
    )
    report = SyncReport()
    for ref in names:
        _sync_one(store, remote, ref, replay, report)
    return report


def _sync_one(store: Store, remote: Remote, ref: str, replay: Replay | None, report: SyncReport) -> None:
    pace = Pace()
    hub_lock = HubLock(remote, ref)
    before = store.refs.get(ref)
    while True:
        store.refresh(ref)
        mine, hub = store.refs.get(ref), store.refs.get(tracking(ref))
        if mine is None or mine == hub:
            if mine != before and ref not in report.pushed:
                report.pulled.append(ref)
            return
        if is_ancestor(store.objects, hub, mine):
            outcome, words = remote.push(ref, mine, hub)
            if outcome == "landed":
                landed(store, ref, hub, mine)
                report.pushed.append(ref)
                before = mine
                continue
            if outcome == "unknown" and not pace.left_s:
                raise HubUnreachable(f"the push failed: {words[-200:]}", where=remote.url, unknown=True)
            hub_lock.look()
            pace.back_off(ref, remote.url)
            continue
        count = _replay_all(store, ref, mine, hub, replay or only_new_files(store), report)
        report.replayed[ref] = count


def _replay_all(store: Store, ref: str, mine: str, hub: str | None, replay: Replay, report: SyncReport) -> int:
    """Write the local commits again on the hub's tip, and move the local ref there if nobody else moved it."""
    base = meeting_point(store.objects, mine, hub)
    tip, count = hub, 0
    landed_ops = {commit.op for commit in since(store.objects, hub, base) if commit.op}
    for commit in since(store.objects, mine, base):
        if commit.op in landed_ops:
            continue
        answer = replay(Snapshot(store.objects, ref, tip), commit)
        if isinstance(answer, Refuse):
            report.dropped[commit.id] = answer.reason
            continue
        root = store.objects.commit(tip).tree if tip else None
        tree = store._tree(root, answer)  # pyright: ignore[reportPrivateUsage]
        text = join_trailers(answer.message or commit.message, {**commit.trailers, **answer.trailers})
        tip = store.objects.write_commit(tree, tip, commit.author, commit.time, text)
        count += 1
    if tip is not None:
        store.refs.cas(ref, mine, tip)
    return count


def only_new_files(store: Store) -> Replay:
    """The default replay: what a commit added, provided that the hub has no other content at those paths."""

    def replay(tip: Snapshot, commit: Commit) -> Changes:
        old = store.objects.commit(commit.parent).tree if commit.parent else None
        added, gone = changed_files(store.objects, old, commit.tree)
        clash = sorted(gone) + [path for path, blob in added.items() if tip.blob_id(path) not in (None, blob)]
        if clash:
            raise Diverged(
                f"a local commit ({commit.id[:12]}) and the hub both changed {clash[0]}"
                + (f" and {len(clash) - 1} more" if len(clash) > 1 else ""),
                where=tip.ref,
                next_step="look at both with `git show`; then redo the local change on the hub's state",
            )
        return Changes(put={path: store.objects.content(blob, "blob") for path, blob in added.items()})

    return replay


def changed_files(objects: Objects, old: str | None, new: str | None) -> tuple[dict[str, str], set[str]]:
    """What differs between two trees, without looking into equal folders: (path -> new blob, paths changed or gone).

    A path whose content changed stands in both.
    """
    added: dict[str, str] = {}
    gone: set[str] = set()

    def walk(left: str | None, right: str | None, path: str) -> None:
        a = objects.tree(left) if left else {}
        b = objects.tree(right) if right else {}
        for name in sorted(a.keys() | b.keys()):
            one, two = a.get(name), b.get(name)
            if one == two:
                continue
            trees = (one[1] if one and one[0] == TREE_MODE else None, two[1] if two and two[0] == TREE_MODE else None)
            if any(trees):
                walk(*trees, f"{path}{name}/")
            if one and one[0] != TREE_MODE:
                gone.add(path + name)
            if two and two[0] != TREE_MODE:
                added[path + name] = two[1]

    walk(old, new, "")
    return added, gone


def replace(store: Store, ref: str, tree: str, message: str, changes: Changes, *, push: bool, discard: bool) -> str:
    """See `Store.replace`."""
    import uuid

    from infer_forge.base.gitstore.store import author_line

    text = join_trailers(message, {**changes.trailers, "Op": uuid.uuid4().hex})
    commit = store.objects.write_commit(tree, None, author_line(None), int(time.time()), text)
    old = store.refs.get(ref)
    while not store.refs.cas(ref, old, commit):
        old = store.refs.get(ref)
    try:
        if store.remote is not None and push:
            _push_over(store, store.remote, ref, commit)
    finally:
        if discard and old is not None and old != commit:
            _discard(store, ref, old, commit)
    return commit


def _discard(store: Store, ref: str, old: str, new: str) -> None:
    """Delete what only the superseded commit held; what the hub had last stays, for it is what the next push starts from."""
    keep = _closure(store.objects, new)
    if (seen := store.refs.get(tracking(ref))) and seen != new:
        keep |= _closure(store.objects, seen)
    for sha in _closure(store.objects, old) - keep:
        store.objects.drop_loose(sha)


def _push_over(store: Store, remote: Remote, ref: str, commit: str) -> None:
    for _ in range(8):
        lease = store.refs.get(tracking(ref))
        outcome, _words = remote.push(ref, commit, lease)
        if outcome == "landed":
            store.refs.cas(tracking(ref), lease, commit)
            return
        hub = remote.tip(ref)
        if hub == commit:
            store.refs.cas(tracking(ref), lease, commit)
            return
        if hub != lease:
            outcome, _words = remote.push(ref, commit, hub)
            if outcome == "landed":
                store.refs.cas(tracking(ref), lease, commit)
                return
    raise HubUnreachable(f"{ref} could not be replaced on the hub", where=remote.url)


def _closure(objects: Objects, commit: str) -> set[str]:
    """A parentless commit and all that it holds; what is gone already is left out."""
    found = {commit}
    with contextlib.suppress(Exception):
        tree = objects.commit(commit).tree
        todo = [tree]
        while todo:
            sha = todo.pop()
            found.add(sha)
            for mode, child in objects.tree(sha).values():
                (todo.append if mode == TREE_MODE else found.add)(child)
    return found


def delete(store: Store, ref: str, *, on_hub: bool) -> bool:
    """See `Store.delete`."""
    there = False
    if store.remote is not None and on_hub:
        tip = store.remote.tip(ref)
        if tip is not None:
            outcome, words = store.remote.push(ref, None, tip)
            if outcome != "landed":
                raise HubUnreachable(f"{ref} could not be deleted on the hub: {words[-200:]}", where=store.remote.url)
            there = True
    for name in (tracking(ref), ref):
        tip = store.refs.get(name)
        if tip is not None:
            there = store.refs.cas(name, tip, None) or there
    return there


def collect_garbage(gitdir: Path, prune_after: str) -> None:
    """Pack loose objects and drop unreachable ones older than `prune_after`."""
    command = ["git", f"--git-dir={gitdir}", "gc", "--quiet", f"--prune={prune_after}"]
    try:
        done = subprocess.run(
            command, env=git_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise MissingPart("the `git` program is not installed", next_step="install git (2.29 or later)") from None
    if done.returncode:
        raise MissingPart(f"git gc failed: {done.stderr.strip()[-200:]}", where=str(gitdir))
