"""The store's verbs."""

from __future__ import annotations

import getpass
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.gitstore import sync as syncing
from infer_forge.base.gitstore.history import chain
from infer_forge.base.gitstore.intents import Intents
from infer_forge.base.gitstore.model import (
    Changes,
    Commit,
    HistoryRewritten,
    HubUnreachable,
    Refuse,
    Refused,
    SyncReport,
)
from infer_forge.base.gitstore.objects import Objects, check_path, join_trailers
from infer_forge.base.gitstore.pace import PATIENCE_S, Pace
from infer_forge.base.gitstore.refs import Refs, check_ref
from infer_forge.base.gitstore.remote import HubLock, Remote, gitdir_of, tracking
from infer_forge.base.gitstore.snapshot import Snapshot

QUEUE_S = 5.0
UNANSWERED = 3
Decide = Callable[[Snapshot], "Changes | Refuse | None"]


class Store:
    """One repository used as an append-only store. Open it with `Store.open`; safe in threads and across processes.

    Attributes:
        gitdir: the repository folder.
        remote: the hub, None when the store is of this machine alone.
        intents: what was wanted while the hub was away (`intents.keep`, `intents.all`, `intents.drop`).
    """

    def __init__(self, gitdir: Path, remote: str | None, *, replaceable: tuple[str, ...], timeout_s: float) -> None:
        self.gitdir = gitdir
        self.replaceable = replaceable
        self.objects = Objects(gitdir, durable=os.environ.get("INFER_FORGE_NO_FSYNC") != "1")
        self.refs = Refs(gitdir)
        self.remote = Remote(gitdir, remote, timeout_s=timeout_s) if remote else None
        self.intents = Intents(gitdir / "infer-forge-intents")

    # Opening

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        remote: str | None = None,
        *,
        create: bool = True,
        replaceable: tuple[str, ...] = (),
        timeout_s: float = 20.0,
    ) -> Store:
        """Open the repository at `path` (bare, or a checkout), making a bare one when there is none.

        Args:
            remote: the hub's URL or path; it is remembered in the repository. None: the remembered one, if any.
            create: False raises when there is no repository.
            replaceable: prefixes of refs without history (see `replace`); elsewhere a hub that went back is an error.
            timeout_s: how long one exchange with the hub may take.

        Raises:
            UsageFault: no repository, and `create` is False.
        """
        folder = Path(path).expanduser()
        gitdir = gitdir_of(folder)
        if gitdir is None:
            if not create:
                raise UsageFault("there is no store here yet", where=str(folder))
            gitdir = _init(folder)
        known = _remembered(gitdir)
        if remote is not None and remote != known:
            _remember(gitdir, remote)
        return cls(gitdir, remote or known, replaceable=replaceable, timeout_s=timeout_s)

    def close(self) -> None:
        """Let go of open files."""
        self.objects.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def read(self, ref: str) -> Snapshot:
        """The files at the ref's tip as known here; asks no hub (see `refresh`)."""
        return Snapshot(self.objects, ref, self.refs.get(ref))

    def at(self, commit: str, ref: str = "") -> Snapshot:
        """The files at a commit."""
        return Snapshot(self.objects, ref, commit)

    def tips(self, prefix: str, faults: dict[str, InputUnusable] | None = None) -> dict[str, str]:
        """Refs here whose name starts with `prefix` (`refs/registry/live/`): name -> tip.

        Args:
            faults: takes damaged refs, name -> why. Without it the first of them is raised as InputUnusable.
        """
        return self.refs.under(prefix, faults)

    def history(self, ref: str, *, limit: int | None = None, path: str | None = None) -> Iterator[Commit]:
        """Commits of a ref, newest first.

        Args:
            limit: stop after so many.
            path: only commits that changed this file.
        """
        given = 0
        for commit in chain(self.objects, self.refs.get(ref)):
            if path is not None:
                old = self.at(commit.parent).blob_id(path) if commit.parent else None
                if self.at(commit.id).blob_id(path) == old:
                    continue
            yield commit
            given += 1
            if limit is not None and given >= limit:
                return

    def refresh(self, *patterns: str) -> None:
        """Learn the hub's tips of refs (full names, or prefixes ending in `/`), and follow them where nothing local is pending.

        Without a remote there is nothing to do.

        Raises:
            HubUnreachable: the hub does not answer; what is here stays readable.
            HistoryRewritten: the hub's ref does not continue what was seen here.
        """
        if self.remote is not None:
            syncing.refresh(self, self.remote, patterns)

    # Writing

    def update(
        self,
        ref: str,
        decide: Decide,
        message: str,
        *,
        op: str | None = None,
        author: str | None = None,
        trailers: Mapping[str, str] | None = None,
        local: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> str:
        """Decide on the tip and commit; on a lost race decide again on the new tip.

        Args:
            decide: called with the files at the tip, perhaps several times; it gives `Changes`, or `Refuse`, or None
                (or empty `Changes`) when there is nothing to do. It must not write to a store itself.
            op: id of this operation. The same `op` again finds the commit that it made already (a lost answer, a killed
                process) instead of doing it twice. Given none, a fresh one is made.
            author: `name <mail>`; this user at this host by default.
            trailers: further `Key: value` lines of the message.
            local: with a remote: commit here only, for `sync` to bring to the hub later.
            patience_s: how long to go on against others before `Contention`.

        Returns:
            The commit that holds the decision (the tip itself when there was nothing to do).

        Raises:
            Refused: the decision was `Refuse`, on a tip that was current.
            Contention: others won all the time; nothing was written.
            HubUnreachable: the hub does not answer; nothing was written here. `outcome_unknown` says that the push
                may have landed: ask again with the same `op`.
        """
        check_ref(ref)
        task = _Task(self, ref, decide, message, op, author, dict(trailers or {}), patience_s)
        if self.remote is None or local:
            return task.locally()
        return task.on_hub(self.remote)

    def replace(self, ref: str, changes: Changes, message: str, *, push: bool = True, discard: bool = True) -> str:
        """Give a ref without history its next content: a parentless commit that replaces the one before.

        Args:
            changes: `put` is the whole content.
            push: with a remote: push it too, over whatever is there.
            discard: delete the superseded objects here. Only for refs whose files appear in no other ref.

        Raises:
            HubUnreachable: written here, but the hub does not answer.
        """
        if not ref.startswith(self.replaceable or "\0"):
            raise UsageFault("only a ref that was opened as replaceable can be replaced", where=ref)
        return syncing.replace(self, ref, self._tree(None, changes), message, changes, push=push, discard=discard)

    def sync(self, *refs: str, replay: syncing.Replay | None = None) -> SyncReport:
        """Bring commits made with `local=True` to the hub and follow it. Without a remote there is nothing to do.

        Args:
            refs: the refs (default: all but replaceable ones that exist here).
            replay: when both sides moved: gives, for the hub's tip and one local commit, what to write there (`Changes`),
                or `Refuse` to drop it. Default: the commit's own new files, provided that none of them exists there.

        Raises:
            Diverged: the default replay cannot tell what is right.
            HubUnreachable, HistoryRewritten, Contention: as in `update`.
        """
        if self.remote is None:
            return SyncReport()
        return syncing.sync(self, self.remote, refs, replay)

    def delete(self, ref: str, *, on_hub: bool = True) -> bool:
        """Drop a whole ref, here and on the hub (retention); False when it was not there."""
        check_ref(ref)
        return syncing.delete(self, ref, on_hub=on_hub)

    def maintain(self, *, prune_after: str = "2.weeks.ago") -> None:
        """Pack the repository (`git gc`); safe beside writers as long as `prune_after` is longer than any write takes."""
        syncing.collect_garbage(self.gitdir, prune_after)

    # Shared with the helpers of this package

    def _tree(self, root: str | None, changes: Changes) -> str:
        """Write the changed files and the tree that holds them."""
        blobs = {
            check_path(path): self.objects.write("blob", data.encode() if isinstance(data, str) else data)
            for path, data in changes.put.items()
        }
        return self.objects.changed_tree(root, blobs, frozenset(changes.delete) - blobs.keys())


class _Task:
    """One `update`."""

    def __init__(
        self,
        store: Store,
        ref: str,
        decide: Decide,
        message: str,
        op: str | None,
        author: str | None,
        trailers: dict[str, str],
        patience_s: float,
    ) -> None:
        self.store, self.ref, self.decide, self.message = store, ref, decide, message
        self.given_op = op
        self.op = op or uuid.uuid4().hex
        self.author = author_line(author)
        self.trailers = trailers
        self.pace = Pace(patience_s)
        self.unanswered = 0

    def commit_on(self, tip: str | None) -> str | Refuse | None:
        """Decide on `tip` and write the commit: its id, the refusal, or None when nothing changes."""
        snapshot = Snapshot(self.store.objects, self.ref, tip)
        answer = self.decide(snapshot)
        if isinstance(answer, Refuse):
            return answer
        if not answer:
            return None
        tree = self.store._tree(snapshot.tree, answer)  # pyright: ignore[reportPrivateUsage]
        if tree == snapshot.tree:
            return None
        text = join_trailers(answer.message or self.message, {**self.trailers, **answer.trailers, "Op": self.op})
        return self.store.objects.write_commit(tree, tip, self.author, int(time.time()), text)

    def done_before(self, tip: str | None, *, stop: str | None = None) -> str | None:
        """The commit that this operation made already, looked for from `tip` back to `stop` (500 commits at most)."""
        for count, commit in enumerate(chain(self.store.objects, tip)):
            if commit.id == stop or count >= 500:
                return None
            if commit.op == self.op:
                return commit.id
        return None

    def locally(self) -> str:
        """Advance the local ref. The first try is optimistic; later ones decide under the lock, so that all get a turn."""
        store = self.store
        while True:
            if self.pace.tries == 0:
                found = self._local_try()
            else:
                with store.refs.lock(self.pace.left_s):
                    found = self._local_try()
            if found is not None:
                return found
            self.pace.back_off(self.ref, str(store.gitdir))

    def _local_try(self) -> str | None:
        tip = self.store.refs.get(self.ref)
        if self.given_op and (found := self.done_before(tip)):
            return found
        commit = self.commit_on(tip)
        if isinstance(commit, Refuse):
            raise Refused(commit, self.ref, tip)
        if commit is None:
            return tip or ""
        return commit if self.store.refs.cas(self.ref, tip, commit, patience_s=1 + self.pace.left_s) else None

    def on_hub(self, remote: Remote) -> str:
        """Push with a lease on the tip that was decided on."""
        store, hub_lock = self.store, HubLock(remote, self.ref)
        fresh = self.given_op is not None
        if fresh:
            store.refresh(self.ref)
        syncing.push_pending(store, remote, self.ref)
        while True:
            with remote.queue(min(QUEUE_S, self.pace.left_s)) as near:
                if near:
                    store.refresh(self.ref)
                tip = store.refs.get(tracking(self.ref))
                if self.given_op and (found := self.done_before(tip)):
                    return found
                commit = self.commit_on(tip)
                if isinstance(commit, str):
                    outcome, words = remote.push(self.ref, commit, tip)
                elif not (fresh or near):  # decided on what was known here: ask before refusing
                    store.refresh(self.ref)
                    fresh = True
                    continue
                elif isinstance(commit, Refuse):
                    raise Refused(commit, self.ref, tip)
                else:
                    return tip or ""
            if outcome == "landed":
                syncing.landed(store, self.ref, tip, commit)
                return commit
            if found := self._after_loss(remote, tip, outcome, words):
                return found
            fresh = True
            hub_lock.look()
            self.pace.back_off(self.ref, remote.url)

    def _after_loss(self, remote: Remote, tip: str | None, outcome: str, words: str) -> str | None:
        """Fetch what won; the commit when it was ours after all (the answer got lost)."""
        try:
            self.store.refresh(self.ref)
        except HubUnreachable as exc:
            if outcome == "unknown":
                raise HubUnreachable(
                    f"{exc.what}; the push before may have landed",
                    where=remote.url,
                    next_step="run it again: it finds its own commit",
                    unknown=True,
                ) from None
            raise
        now = self.store.refs.get(tracking(self.ref))
        if found := self.done_before(now, stop=tip):
            return found
        if now == tip and tip is not None and remote.tip(self.ref) is None:
            raise HistoryRewritten(
                f"the hub no longer has {self.ref}",
                where=remote.url,
                next_step="restore it there, or start a new store",
            )
        self.unanswered = self.unanswered + 1 if outcome == "unknown" else 0
        if self.unanswered >= UNANSWERED:
            raise HubUnreachable(
                f"the hub can be read, and {UNANSWERED} pushes did not arrive: {words[-200:]}",
                where=remote.url,
                next_step="run it again when the network is better: it finds its own commit",
                unknown=True,
            )
        return None


def author_line(author: str | None) -> str:
    """`name <mail>` without characters that would end it early."""
    if author is None:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):
            user = f"uid{os.getuid()}"
        author = f"{user} <{user}@{socket.gethostname()}>"
    name, _, mail = author.partition("<")
    clean = re.compile(r"[<>\x00-\x1f]")
    return f"{clean.sub('', name).strip() or 'unknown'} <{clean.sub('', mail).strip() or 'unknown'}>"


# The repository folder

_CONFIG = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogAllRefUpdates = false
[gc]
\tauto = 0
"""


def _init(folder: Path) -> Path:
    """Make a bare repository; of several processes that try at once one wins and all use it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder.parent / f".{folder.name}.{uuid.uuid4().hex}"
    for name in ("objects/info", "objects/pack", "refs/heads"):
        (made / name).mkdir(parents=True)
    (made / "HEAD").write_text("ref: refs/heads/main\n")
    (made / "config").write_text(_CONFIG)
    try:
        made.rename(folder)
    except OSError:
        import shutil

        shutil.rmtree(made)
        if gitdir_of(folder) is None:
            raise UsageFault("is no git repository, and something else stands here", where=str(folder)) from None
    return folder


def _remembered(gitdir: Path) -> str | None:
    try:
        return (gitdir / "infer-forge-remote").read_text().strip() or None
    except FileNotFoundError:
        return None


def _remember(gitdir: Path, url: str) -> None:
    from infer_forge.base.jsonio import write_atomic

    Remote(gitdir, url)  # refuses what is no URL
    write_atomic(gitdir / "infer-forge-remote", url + "\n")
