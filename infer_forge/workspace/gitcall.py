"""One git command at a time, through GitPython; never a prompt, never a pager, local transports only where they are named."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from infer_forge.base import redact
from infer_forge.base.errors import ForgeError, InputUnusable, UsageFault
from infer_forge.base.gitstore.remote import git_environment

QUICK_S, NETWORK_S = 60.0, 1800.0
_ENV = {"GIT_PAGER": "cat", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
_URL = re.compile(r"^(?:https?://|ssh://|git://|file://|/|[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+:)\S+$")
_CREDENTIALS = re.compile(r"^[a-z+]+://[^/@\s]*:[^/@\s]+@|^https?://[^/@\s]+@")


class GitFailed(ForgeError):
    """A git command failed; `said` is what it printed last."""

    def __init__(self, words: tuple[str, ...], folder: Path, said: str) -> None:
        super().__init__(f"git {' '.join(words[:3])}: {said}", where=str(folder))
        self.said = said


def is_local(url: str) -> bool:
    """Whether a repository lies on this machine's file system."""
    return url.startswith(("file://", "/", ".")) or not ("://" in url or re.match(r"[^/]+:", url))


def checked_url(url: str) -> str:
    """An address that git may be given.

    Raises:
        UsageFault: it is none, or holds credentials.
    """
    if _CREDENTIALS.match(url):
        raise UsageFault(
            "the address holds credentials", next_step="leave them out: git's credential helper brings them"
        )
    if not _URL.match(url):
        raise UsageFault(
            f"{url!r} is no address of a repository",
            next_step="https://.., ssh://.., host:path, file:///.. or a name of the stack map",
        )
    return url


def run(
    folder: Path, *words: str, local: bool = False, timeout_s: float = QUICK_S, stdin: str | None = None
) -> tuple[int, str, str]:
    """Run git in a folder: (status, stdout, stderr).

    Args:
        local: allow the file transport for this command, also in the commands that it starts.

    Raises:
        InputUnusable: there is no such folder.
    """
    import git

    if not folder.is_dir():
        raise InputUnusable("no such folder", where=str(folder))
    env = {**git_environment(), **_ENV, "GIT_ALLOW_PROTOCOL": f"{'file:' if local else ''}ssh:git:https:http"}
    strange = (
        os.environ.keys() - env.keys()
    )  # a surrounding repository's (a hook sets these): not to be taken for the folder's
    clean = ["env", *(w for name in sorted(strange) for w in ("-u", name))] if strange else []
    argv = [*clean, "git", *(["-c", "protocol.file.allow=always"] if local else []), *words]
    with tempfile.TemporaryFile() as given:
        if stdin is not None:
            given.write(stdin.encode())
            given.seek(0)
        status, out, err = git.Git(str(folder)).execute(  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
            argv,
            istream=given,
            with_extended_output=True,
            with_exceptions=False,
            kill_after_timeout=timeout_s,
            env=env,
        )
    return int(status), _text(out), _text(err)  # pyright: ignore[reportUnknownArgumentType]


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def call(folder: Path, *words: str, local: bool = False, timeout_s: float = QUICK_S, stdin: str | None = None) -> str:
    """Run git and give its output.

    Raises:
        GitFailed: it did not end with 0.
    """
    status, out, err = run(folder, *words, local=local, timeout_s=timeout_s, stdin=stdin)
    if status:
        lines = [x for x in (err or out).splitlines() if x.strip()]
        told = next(
            (x for x in lines if x.startswith(("fatal:", "error:"))), lines[-1] if lines else f"ended with {status}"
        )
        raise GitFailed(words, folder, redact.redact(told.strip())[:300])
    return out


def ask(folder: Path, *words: str) -> str | None:
    """Run git; its output, or None when it failed."""
    status, out, _ = run(folder, *words)
    return out if status == 0 else None


def commit_all(root: Path, message: str, *paths: str) -> bool:
    """Commit these paths of the root (nothing else that is staged); False when nothing changed. A missing identity is no obstacle."""
    call(root, "add", "--", *paths)
    if run(root, "diff", "--cached", "--quiet", "--", *paths)[0] == 0:
        return False
    who = (
        []
        if ask(root, "config", "user.email")
        else ["-c", "user.name=infer-forge", "-c", "user.email=infer-forge@localhost"]
    )
    call(root, *who, "commit", "--quiet", "--no-verify", "-m", message, "--", *paths)
    return True
