"""The guard protects itself: its grants need a person, its hook and settings stay, clients start with it."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import ASK, DENY, Cmd, Word
from infer_forge.guard.rules import persons


def commands(cmd: Cmd, bench: Any) -> None:
    """infer-forge guard own --force, guard grant, uninstall; clients started without their hooks; variables of the guard."""
    words = cmd.words()[1:]
    plain = [w for w in words if not w.startswith("-")]
    if cmd.name == "infer-forge":
        _own_commands(words, plain, cmd, bench)
    elif cmd.name in ("claude", "codex"):
        _clients(words, cmd, bench)
    elif cmd.name == "unset":
        if any(w.startswith("INFER_FORGE_") for w in words):
            bench.hit(DENY, "guard.self", "the guard's variables are not for the run to change", cmd)
    elif cmd.name == "export" and any(re.match(r"^INFER_FORGE_(?:GUARD|STATE|HOME|NODE)\w*=", w) for w in words):
        bench.hit(ASK, "guard.self", "the guard's variables are not for the run to change", cmd)


_GIT_READS = (
    " log show diff status cat-file rev-parse rev-list ls-tree ls-files ls-remote for-each-ref show-ref blame grep "
    "describe shortlog count-objects fsck archive merge-base name-rev whatchanged verify-commit help version "
)
"""Git verbs that only read, between spaces."""


def store(cmd: Cmd, bench: Any) -> None:
    """Git verbs that write, in a store of records or a folder of the guard: locks and ledgers are refs and commits there."""
    from infer_forge.guard import gitcmd
    from infer_forge.guard.rules.where import guarded

    parsed = gitcmd.Git(cmd)
    if not parsed.verb or f" {parsed.verb} " in _GIT_READS or not bench.here(cmd):
        return
    for folder in parsed.cwds:
        pushed = parsed.texts() if parsed.verb in ("push", "config") else []
        for place in (folder, gitcmd.git_dir_of(folder, parsed.git_dir) or parsed.git_dir, *pushed):
            path = os.path.realpath(os.path.join(folder or "/", place)) if place and "\0" not in place else ""
            if path and guarded(path, bench):
                why = f"git {parsed.verb} changes {path}, which holds locked records"
                bench.hit(DENY, "guard.self", why, cmd, targets=(path,))
                return


def loads(cmd: Cmd, bench: Any) -> None:
    """enable -f: a shared object becomes part of the shell."""
    if any(w.startswith("-f") for w in cmd.words()[1:]):
        bench.hit(ASK, "shell.unread", "enable -f loads code that cannot be seen into the shell", cmd)


def _own_commands(words: list[str], plain: list[str], cmd: Cmd, bench: Any) -> None:
    if _asks_for_help(words):
        return
    if not persons.typed(words, cmd, bench) and plain[:1] == ["uninstall"]:
        bench.hit(DENY, "guard.self", "uninstalling takes the hook out", cmd)
    changed = [n for n in cmd.env if n in _PLACES or n.startswith("INFER_FORGE_GUARD")]
    if changed and plain[:1] in (["guard"], ["node"]) and plain[1:2] not in (["check"], ["explain"], ["scan"]):
        bench.hit(ASK, "guard.self", f"{changed[0]} moves what the guard knows", cmd)


def _asks_for_help(words: list[str]) -> bool:
    """Whether only the help is shown: `-h` right behind an option can be its value, and behind `--` it is a plain word."""
    asked = words[: words.index("--")] if "--" in words else words
    open_before = [False, *(w.startswith("-") and "=" not in w for w in asked)]
    return any(w in ("--help", "-h") and not open_before[i] for i, w in enumerate(asked))


_PLACES = ("INFER_FORGE_HOME", "INFER_FORGE_STATE", "INFER_FORGE_STORES", "INFER_FORGE_NODE", "INFER_FORGE_NVIDIA_SMI")


def _clients(words: list[str], cmd: Cmd, bench: Any) -> None:
    risky = (
        "--dangerously-skip-permissions",
        "--dangerously-bypass-hook-trust",
        "--dangerously-bypass-approvals-and-sandbox",
        "--yolo",
        "--bare",
        "--settings",
        "--setting-sources",
        "--allow-dangerously-skip-permissions",
        "--full-auto",
    )
    for word in words:
        if word.split("=", 1)[0] in risky:
            bench.hit(
                DENY, "guard.self", f"{word.split('=', 1)[0]} starts a client round its hooks or permissions", cmd
            )
            return
    joined = " ".join(words)
    if re.search(r"bypassPermissions|danger-full-access|approval_policy\W+never", joined):
        bench.hit(DENY, "guard.self", "this starts a client without its permissions", cmd)
    if re.search(r"(?:-c|--config)[ =]\S*hooks", joined) or re.search(r"disableAllHooks", joined):
        bench.hit(DENY, "guard.self", "this starts a client without its hooks", cmd)
    moved = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HOME", "XDG_CONFIG_HOME", *_PLACES)
    if any(n in moved for n in cmd.env):
        bench.hit(DENY, "guard.self", "another configuration folder starts a client without this hook", cmd)
    elif re.search(
        r"^(?:plugin|mcp) (?:remove|uninstall|disable)\b", " ".join(w for w in words if not w.startswith("-"))
    ):
        bench.hit(ASK, "guard.self", "this may take the guard's hook or server out of the client", cmd)


_HINT = re.compile(
    r"guard\.yaml|infer-forge\.yaml|\.claude|\.codex|infer-forge/|contract\.lock|baseline\.lock|\.ledger|\.git/(?:hooks|config)"
)
_READS = frozenset(
    (
        "cat", "tac", "less", "more", "head", "tail", "bat", "nl", "grep", "egrep", "fgrep", "rg", "ag", "ls", "ll",
        "stat", "file", "wc", "diff", "cmp", "comm", "colordiff", "delta", "sha256sum", "sha1sum", "md5sum", "cksum",
        "b2sum", "echo", "printf", "test", "[", "[[", "cd", "pushd", "realpath", "readlink", "dirname", "basename",
        "du", "tree", "find", "fd", "jq", "xxd", "od", "hexdump", "strings", "cut", "uniq", "column", "infer-forge",
        "infer-forge-guard", "yamllint", "prettier", "check-jsonschema", "ajv", "export", "true", ":", "which",
        "type", "ssh", "scp", "source", ".", "for", "case", "exit", "sudo", "env", "nice", "timeout", "time",
        "xargs", "base64", "zcat", "docker", "podman", "claude", "codex", "gh", "glab",
    )
)  # fmt: skip
_JUDGED = ("files.", "traceable.")
_GIT_WRITES = frozenset(("mv", "stash", "update-index", "sparse-checkout"))


def named(cmd: Cmd, bench: Any) -> None:
    """A file of the guard that is handed to a program whose other rules do not look at files, and that is known to do more than read."""
    from infer_forge.guard.rules import TABLE
    from infer_forge.guard.rules.where import candidates, guarded, holds_own

    name = cmd.name
    if name in _READS or (name != "git" and any(f.startswith(_JUDGED) for f in TABLE.get(name, ()))):
        return
    words = [w for w in cmd.argv[1:] if _HINT.search(w.text)]
    if name == "git":
        from infer_forge.guard import gitcmd

        parsed = gitcmd.Git(cmd)
        if parsed.verb not in _GIT_WRITES or (parsed.verb == "stash" and parsed.texts()[:1] in (["list"], ["show"])):
            return
    for word in words:
        text = re.sub(r"^-[a-zA-Z]|^--[\w-]+=|^\w+=|^\d{6},\w+,", "", word.text)
        paths = candidates(Word(text, word.dyn), cmd, bench, follow=True) or []
        if any(guarded(p, bench) or holds_own(p, bench) for p in paths):
            writes = (
                name == "git"
                or name in _WRITERS
                or any(w.text in ("-i", "--in-place", "-o", "--output") for w in cmd.argv[1:])
            )
            why = f"{text} belongs to the guard or to a locked record, and what {name} does to it is not known"
            bench.hit(DENY if writes else ASK, "guard.self", why, cmd, targets=(word.text,))
            return


_WRITERS = frozenset(("split", "csplit", "7z", "7za", "tac", "iconv", "ssh-keygen", "openssl", "objcopy", "gcc"))
