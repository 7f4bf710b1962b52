"""The read-only profile: while an online diagnosis is locked, what is not known to only read is denied (B27)."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import DENY, Cmd
from infer_forge.guard.rules import flag, option, plain_targets

# Shell words that do nothing outside of the shell, and our own commands, which have gates of their own.
_HARMLESS = frozenset(
    (
        *("cd", "test", "[", "[[", "true", "false", ":", "echo", "printf", "pwd", "export", "set", "unset", "local"),
        *("declare", "read", "shift", "exit", "return", "wait", "sleep", "type", "command"),
        *("infer-forge", "infer-forge-guard"),
    )
)
# Of the words that read elsewhere, these change something with the right arguments.
_NOT_READING = frozenset(("kill", "env", "ifconfig", "awk", "gawk", "mawk"))
_WRITING_FLAGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sed": ("i", ("--in-place",)),
    "sort": ("o", ("--output",)),
    "tree": ("o", ("--output",)),
    "date": ("s", ("--set",)),
    "dmesg": ("CcDEn", ("--clear", "--read-clear", "--console-off", "--console-on", "--console-level")),
    "journalctl": ("", ("--vacuum-size", "--vacuum-time", "--vacuum-files", "--rotate", "--flush", "--setup-keys")),
    "ss": ("K", ("--kill",)),
    "curl": ("oOT", ("--output", "--remote-name", "--upload-file", "--output-dir", "--remote-name-all")),
}
_FIND_ACTS = ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls")
_VALUES = ("--context", "--kube-context", "--namespace", "--kubeconfig", "--selector", "--output", "--tail", "--since")
_GET = ("GET", "HEAD", "OPTIONS")


def reads_only(cmd: Cmd, bench: Any) -> None:
    """Deny a simple command that is not known to only read; files of the run itself may be written."""
    for redirect in cmd.redirects:
        if redirect.op.startswith((">", "&>", "<>")) and not _own_target(redirect.target.text, cmd, bench):
            bench.hit(
                DENY, "diagnosis.write", f"{redirect.op} writes {redirect.target.text} during an online diagnosis", cmd
            )
    if cmd.argv and not _reading(cmd, bench):
        bench.hit(
            DENY, "diagnosis.write", f"{cmd.name} is not known to only read, and this is an online diagnosis", cmd
        )


def _own_target(text: str, cmd: Cmd, bench: Any) -> bool:
    if text.isdigit() or text == "-" or text in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
        return True
    return bool(text) and all(
        folder is not None and bench.ctx.owns_path(os.path.realpath(os.path.join(folder, os.path.expanduser(text))))
        for folder in (cmd.cwds or (None,))
    )


def _reading(cmd: Cmd, bench: Any) -> bool:
    name = cmd.name
    if name in _HARMLESS or _carries(cmd, bench):
        return True
    if name in _NOT_READING or cmd.argv[0].dyn:
        return False
    if name in ("curl", "wget", "http", "https", "xh"):
        return _fetches(cmd)
    letters, long = _WRITING_FLAGS.get(name, ("", ()))
    if flag(cmd, letters, *long):
        return False
    if name == "sed" and any(re.search(r"(?:^|[;{}\d$/]\s*)[wWe]\s", w) for w in cmd.words()[1:]):
        return False
    if name == "find" and any(w in _FIND_ACTS for w in cmd.words()):
        return False
    if name == "hostname":
        return len(cmd.argv) == 1 or (all(w.startswith("-") for w in cmd.words()[1:]) and not flag(cmd, "Fb", "--file"))
    line = " ".join([name, *(w.text for w in plain_targets(cmd, "nofl", _VALUES))])
    return any(line == verb or line.startswith(f"{verb} ") for verb in bench.pol["reading"])


def _carries(cmd: Cmd, bench: Any) -> bool:
    """A wrapper, a shell with its text, an ssh with a command: what it carries is looked at by itself."""
    if cmd.name in ("bash", "sh", "zsh", "dash"):
        return flag(cmd, "c")
    if cmd.name == "ssh":
        return len(plain_targets(cmd, "BbcDEeFIiJLlmOopQRSWw")) > 1
    return cmd.name in bench.pol["wrappers"] and any(cmd.name in c.via for c in bench.shell.cmds)


def _fetches(cmd: Cmd) -> bool:
    """A request that asks and stores nothing."""
    if cmd.name != "curl":
        return False  # wget writes files, the others send what stands in their words
    method = option(cmd, "-X", "--request")
    sends = any(re.match(r"^(?:-d|--data|--json|-F|--form|-T|--upload|-K|--config)", w) for w in cmd.words()[1:])
    letters, long = _WRITING_FLAGS["curl"]
    saves = [w for w in (option(cmd, "-o", "--output"),) if w is not None and w.text != "/dev/null"]
    stores = flag(cmd, letters.replace("o", ""), *(n for n in long if n != "--output")) or bool(saves)
    return not sends and not stores and (method is None or method.text.upper() in _GET)


def edit_fault(path: str, folder: str, bench: Any) -> str | None:
    """Why a client's edit of a file is denied under the read-only profile; None when it is not."""
    if bench.ctx.profile != "read_only":
        return None
    if bench.ctx.owns_path(os.path.realpath(os.path.join(folder, os.path.expanduser(path)))):
        return None
    return f"{path} is not the run's, and this is an online diagnosis"
