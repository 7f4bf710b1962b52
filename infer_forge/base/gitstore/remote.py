"""The hub: what the `git` program fetches and pushes, and the in-process reading of a hub on this machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from infer_forge.base.errors import MissingPart, UsageFault
from infer_forge.base.gitstore.model import HubUnreachable, PushRefused
from infer_forge.base.gitstore.objects import TREE_MODE, Objects
from infer_forge.base.gitstore.refs import Refs

TRACKING = "refs/remotes/hub/"
DIRECT_LIMIT = 400  # objects: above this one `git fetch` (a pack) is faster than copying one by one
_LOST = (
    "stale info", "fetch first", "non-fast-forward", "cannot lock ref", "failed to update ref", "failed to lock",
    "incorrect old value", "reference already exists", "already exists", "remote ref updated since checkout",
)  # fmt: skip
_INHERITED = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_QUARANTINE_PATH", "GIT_CEILING_DIRECTORIES",
)  # fmt: skip


def tracking(ref: str) -> str:
    """Where the hub's tip of `ref` is remembered."""
    return TRACKING + ref.removeprefix("refs/")


def gitdir_of(path: Path) -> Path | None:
    """The repository folder of a bare repository or a checkout at `path`; None when there is none."""
    if (path / "objects").is_dir() and (path / "HEAD").is_file():
        return path
    dot = path / ".git"
    if dot.is_file():
        target = dot.read_text().partition("gitdir:")[2].strip()
        dot = path / target
        common = dot / "commondir"
        if common.is_file():
            dot = dot / common.read_text().strip()
    return dot.resolve() if (dot / "objects").is_dir() else None


def local_path(url: str) -> Path | None:
    """The folder that a file:// URL or a plain path names; None for ssh and the rest."""
    if url.startswith("file://"):
        return Path(unquote(urlsplit(url).path))
    if "://" in url or (":" in url and "/" not in url.partition(":")[0]):
        return None
    return Path(url).expanduser()


class Remote:
    """One hub of one local repository.

    Args:
        gitdir: the local repository.
        url: file://, a path, ssh://, host:path or https://.
        timeout_s: how long one `git` call may take before the hub counts as unreachable.
    """

    def __init__(self, gitdir: Path, url: str, *, timeout_s: float = 20.0) -> None:
        if url.startswith("-") or "\n" in url:
            raise UsageFault("is no remote URL", where=repr(url))
        self.gitdir = gitdir
        self.url = url
        self.timeout_s = timeout_s
        self._hub: tuple[Refs, Objects] | None = None

    # A hub on this machine, read in process

    def direct(self) -> tuple[Refs, Objects] | None:
        """Refs and objects of a hub that is a folder of this machine; None when it must be asked over the network."""
        if self._hub is not None and not (self._hub[0].gitdir / "HEAD").is_file():
            self._hub = None  # it went away: an empty answer would be taken for an empty hub
        if self._hub is None:
            path = local_path(self.url)
            folder = gitdir_of(path) if path else None
            if folder is None or (folder / "reftable").exists() or not os.access(folder, os.R_OK | os.X_OK):
                return None
            self._hub = Refs(folder), Objects(folder)
        return self._hub

    @contextlib.contextmanager
    def queue(self, patience_s: float) -> Generator[bool]:
        """Let writers of one machine go to a hub of this machine one after the other, which saves lost pushes.

        Order only: the lease decides. Who waited too long goes on, and so does who may not write there.

        Yields:
            Whether the hub is of this machine (a look at its tip then costs next to nothing).
        """
        hub = self.direct()
        if hub is None:
            yield False
            return
        try:
            fd = os.open(hub[0].gitdir / "infer-forge.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            yield True
            return
        try:
            deadline = time.monotonic() + patience_s
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    time.sleep(random.uniform(0.001, 0.01))
            yield True
        finally:
            os.close(fd)

    def copy_from(self, hub: Objects, mine: Objects, tip: str) -> bool:
        """Copy what `tip` needs and `mine` lacks, children before parents; False when that is more than a few."""
        budget = DIRECT_LIMIT
        todo, known = [tip], set[str]()
        chain: list[tuple[str, bytes]] = []
        while todo:
            sha = todo.pop()
            if sha in known or mine.has(sha):
                continue
            known.add(sha)
            content = hub.content(sha, "commit")
            chain.append((sha, content))
            head = content.partition(b"\n\n")[0].decode("utf-8", "replace").split("\n")
            todo += [line[7:] for line in head if line.startswith("parent ")]
            if len(chain) > budget:
                return False
        for _, content in reversed(chain):
            budget = self._copy_tree(hub, mine, content[5:45].decode(), budget)
            if budget < 0:
                return False
            mine.write("commit", content)
        return True

    def _copy_tree(self, hub: Objects, mine: Objects, tree: str, budget: int) -> int:
        if budget < 0 or mine.has(tree):
            return budget
        for mode, sha in hub.tree(tree).values():
            if mode == TREE_MODE:
                budget = self._copy_tree(hub, mine, sha, budget)
            elif not mine.has(sha):
                mine.write("blob", hub.content(sha, "blob"))
                budget -= 1
            if budget < 0:
                return budget
        mine.write("tree", hub.content(tree, "tree"))
        return budget - 1

    # The network

    def fetch(self, patterns: list[str], *, replaceable: tuple[str, ...]) -> str:
        """Fetch refs (full names, or prefixes that end in `/` or `*`) into the tracking refs; git's words on rejected ones.

        Raises:
            HubUnreachable: no answer, or an error.
        """
        specs: list[str] = []
        for pattern in patterns:
            star = pattern.rstrip("*") + "*"
            force = "+" if pattern.startswith(replaceable) else ""
            specs.append(f"{force}{star}:{tracking(star)}")
        args = [
            "fetch",
            "--no-progress",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-gc",
            "--no-recurse-submodules",
        ]
        code, _, err = self.git([*args, "--", self.url, *specs])
        if code == 0:
            return ""
        if "[rejected]" in err or "cannot lock ref" in err or "unable to update local ref" in err:
            return err
        raise self._unreachable(err, code)

    def push(self, ref: str, commit: str | None, lease: str | None) -> tuple[str, str]:
        """Push one commit (None: delete the ref) if the hub's ref is still at `lease` (None: absent).

        Returns:
            (outcome, words): outcome is `landed`, `lost` (decide again) or `unknown` (the answer did not come).

        Raises:
            HubUnreachable: the hub was never reached.
            PushRefused: its rules refuse this push.
        """
        args = ["push", "--porcelain", "--no-verify", "--no-thin", f"--force-with-lease={ref}:{lease or ''}"]
        code, out, err = self.git([*args, "--", self.url, f"{commit or ''}:{ref}"])
        line = next((text for text in out.splitlines() if text[1:2] == "\t"), "")
        words = f"{line} {err}".strip()
        if code == 0:
            return "landed", words
        if line.startswith("!"):
            if "hook declined" in line or "prohibited" in line or "denying" in words:
                raise PushRefused(f"the hub refuses this push: {_last(words)}", where=self.url)
            if any(sign in words for sign in _LOST):
                return "lost", words
            return "unknown", words
        if any(sign in words for sign in _LOST):
            return "lost", words
        if code == -1 or "hung up" in err or "early EOF" in err:
            return "unknown", words or f"no answer within {self.timeout_s:.0f} s"
        raise self._unreachable(err, code)

    def tip(self, ref: str) -> str | None:
        """What the hub says the ref's tip is, now."""
        hub = self.direct()
        if hub is not None:
            return hub[0].get(ref)
        code, out, err = self.git(["ls-remote", "--", self.url, ref])
        if code:
            raise self._unreachable(err, code)
        lines = [line.split("\t") for line in out.splitlines()]
        return next((sha for sha, name in lines if name == ref), None)

    def git(self, args: list[str]) -> tuple[int, str, str]:
        """Run `git` in the local repository: (exit code, stdout, stderr); -1 when it took too long (it is killed)."""
        command = ["git", "-c", "gc.auto=0", "-c", "maintenance.auto=false", f"--git-dir={self.gitdir}", *args]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=git_environment(),
                start_new_session=True,
                text=True,
                errors="replace",
            )
        except FileNotFoundError:
            raise MissingPart(
                "the `git` program is not installed, and a store with a remote needs it",
                next_step="install git (2.29 or later)",
            ) from None
        try:
            out, err = process.communicate(timeout=self.timeout_s)
        except BaseException as exc:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(exc, subprocess.TimeoutExpired):
                return -1, "", ""
            raise
        return process.returncode, out, err

    def _unreachable(self, err: str, code: int) -> HubUnreachable:
        cause = f"no answer within {self.timeout_s:.0f} s" if code == -1 else _last(err) or f"git exit {code}"
        return HubUnreachable(
            f"the hub cannot be reached: {cause}", where=self.url, next_step="check the URL, the network and your key"
        )


class HubLock:
    """A ref's lock file on a hub of this machine that a killed `git receive-pack` left behind.

    Git holds such a lock for milliseconds and takes none over; one that stands unchanged for `STANDS_S` of our own
    waiting (no clock is compared) is removed.
    """

    STANDS_S = 8.0

    def __init__(self, remote: Remote, ref: str) -> None:
        hub = remote.direct()
        self.path = hub[0].gitdir / f"{ref}.lock" if hub else None
        self.seen: tuple[int, int] | None = None
        self.since = 0.0

    def look(self) -> None:
        """Call after each lost push."""
        if self.path is None:
            return
        try:
            found = self.path.stat()
        except OSError:
            self.seen = None
            return
        now = (found.st_ino, found.st_mtime_ns)
        if now != self.seen:
            self.seen, self.since = now, time.monotonic()
        elif time.monotonic() - self.since > self.STANDS_S:
            with contextlib.suppress(OSError):
                self.path.unlink()
            self.seen = None


def git_environment() -> dict[str, str]:
    """The environment of a `git` that asks nobody anything and belongs to no surrounding repository."""
    env = {key: value for key, value in os.environ.items() if key not in _INHERITED}
    env.update(LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_ALLOW_PROTOCOL="file:ssh:git:https:http")
    if "GIT_SSH" not in env:
        env.setdefault(
            "GIT_SSH_COMMAND",
            "ssh -o BatchMode=yes -o ConnectTimeout=8 -o ServerAliveInterval=5 -o ServerAliveCountMax=2",
        )
    return env


def _last(text: str) -> str:
    """The line of git's words that says why: the last `fatal:`/`error:`, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("fatal:", "error:", "!", "remote:", "ssh:"))]
    return (told or lines or [""])[-1][:300]
