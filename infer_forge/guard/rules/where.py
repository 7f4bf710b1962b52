"""What may happen to a path: the one place that decides on deleting, overwriting and reading by ownership."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import ALLOW, ASK, DENY, RANK, Cmd, Word

_DEVICES_OK = re.compile(r"^/dev/(?:null|zero|full|tty|std(?:in|out|err)|fd/\d+|ptmx|pts/\d+|u?random)$")
Answer = tuple[str, str, str]
"""(verdict, rule, why)"""
_patterns: dict[str, re.Pattern[str]] = {}


def matches(path: str, patterns: list[str]) -> bool:
    """Whether one of the regular expressions of the policy finds something in the path."""
    for pattern in patterns:
        program = _patterns.get(pattern)
        if program is None:
            program = _patterns[pattern] = re.compile(pattern)
        if program.search(path):
            return True
    return False


def candidates(word: Word, cmd: Cmd, bench: Any, *, follow: bool) -> list[str] | None:
    """Absolute, resolved paths that a word may mean; None when the folder is unknown."""
    text = word.text
    if text.startswith("~") and not word.quoted:
        text = bench.ctx.home + text[1:] if text[1:2] in ("", "/") else f"/home/{text[1:]}"
    text = _through_link(text, bench, follow and cmd.name != "ln")
    out: list[str] = []
    for cwd in cmd.cwds:
        if text.startswith("/"):
            path = text
        elif cwd is None:
            return None
        elif cwd == "\0fresh":
            if ".." not in text.split("/"):
                continue
            return None
        else:
            path = os.path.join(cwd, text)
        path = mapped(path, cmd, bench)
        if path is None:
            continue
        try:
            if follow or text.endswith(("/", "/.")):
                out.append(os.path.realpath(path))
            else:
                head, tail = os.path.split(
                    os.path.normpath(path) if ".." not in path.split("/") else os.path.realpath(path)
                )
                out.append(os.path.join(os.path.realpath(head), tail))
        except (OSError, ValueError):
            return None
    return list(dict.fromkeys(out))


def _through_link(text: str, bench: Any, follow: bool) -> str:
    """A path below a symbolic link that the same command line makes, as it will be found."""
    linked: dict[str, str] = bench.shell.notes.get("linked") or {}
    for name, target in linked.items():
        clean = os.path.normpath(text) if linked else text
        if clean.startswith(f"{name}/") or (follow and clean == name):
            real = target if target.startswith(("/", "~")) else os.path.join(os.path.dirname(name), target)
            real = bench.ctx.home + real[1:] if real.startswith("~/") or real == "~" else real
            return real.rstrip("/") + clean[len(name) :]
    return text


def mapped(path: str, cmd: Cmd, bench: Any) -> str | None:
    """A path inside a container as a path of the host; None when it is the container's own."""
    mounts = cmd.place.mounts
    if cmd.place.container is None or mounts is None:
        return path
    clean = os.path.normpath(path)
    best: tuple[int, str] | None = None
    for source, target in mounts:
        root = os.path.normpath(target)
        if clean == root or clean.startswith(f"{root.rstrip('/')}/"):
            host = source if source.startswith("/") else os.path.join(bench.ctx.cwd or "/", os.path.expanduser(source))
            if best is None or len(root) > best[0]:
                best = (len(root), host + clean[len(root.rstrip("/")) :])
        elif root.startswith(f"{clean.rstrip('/')}/"):
            best = best or (0, source)
    return best[1] if best else None


def fixed_part(path: str) -> str:
    """The folder in front of the first pattern character."""
    at = next((i for i, c in enumerate(path) if c in "*?["), None)
    return path if at is None else path[:at].rpartition("/")[0] or "/"


def guarded(path: str, bench: Any, *, tree: bool = False) -> bool:
    """Whether a path is one of the guard's own or a locked file (with `tree`: or holds one); patterns are matched."""
    if any(c in path for c in "*?["):
        return _pattern_guarded(path, bench)
    for root in bench.pol["self_paths"] + bench.ctx.protected_paths:
        if (
            path == root
            or path.startswith(f"{root.rstrip('/')}/")
            or (tree and root.startswith(f"{path.rstrip('/')}/"))
        ):
            return True
    return matches(path, bench.pol["self_patterns"])


def holds_own(folder: str, bench: Any) -> bool:
    """Whether files of the guard lie right in a folder; a home does not count, whose own files are many."""
    clean = folder.rstrip("/")
    if clean == os.path.realpath(bench.ctx.home):
        return False
    named = os.path.basename(clean) in (".claude", ".codex", "infer-forge", ".infer-forge")
    return named or any(os.path.dirname(root) == clean for root in bench.pol["self_paths"])


def _pattern_guarded(pattern: str, bench: Any) -> bool:
    from fnmatch import fnmatchcase

    depth = pattern.rstrip("/").count("/")
    for root in bench.pol["self_paths"] + bench.ctx.protected_paths:
        pieces = root.split("/")
        if fnmatchcase("/".join(pieces[: depth + 1]), pattern.rstrip("/")) or fnmatchcase(
            root, f"{pattern.rstrip('/')}/*"
        ):
            return True
    return matches(fixed_part(pattern), bench.pol["self_patterns"])


def locked_record(path: str, *, tree: bool = False) -> bool:
    """Whether a file is a locked contract or a ledger by its first bytes; with `tree`, whether a folder holds one near its top."""
    if path.endswith((".json", ".jsonl")):
        return _is_record(path)
    if not tree or not os.path.isdir(path) or os.path.islink(path):
        return False
    opened = 0
    folders = [path]
    for step in range(40):
        if step >= len(folders):
            return False
        try:
            entries = list(os.scandir(folders[step]))[:200]
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if folders[step].count("/") - path.count("/") < 2 and entry.name not in (".git", "node_modules"):
                    folders.append(entry.path)
            elif entry.name.endswith((".json", ".jsonl")) and opened < 60:
                opened += 1
                if _is_record(entry.path):
                    return True
    return False


def _is_record(path: str) -> bool:
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > 64 * 1024 * 1024:
            return False
        with open(path, "rb") as file:
            head = file.read(400)
    except OSError:
        return False
    ledger = head.startswith(b'{"hash":"') and b'"seq":' in head
    return ledger or (b'"locked_at"' in head and b'"sha256"' in head)


def _unseen(cmd: Cmd, bench: Any, path: str) -> Answer | None:
    """Places whose files cannot be proved from here: containers, other nodes."""
    inside = bench.inside(cmd)
    if inside in ("owned", "stale"):
        if matches(path, bench.pol["shared_paths"]):
            return DENY, "files.shared", f"{path} is a shared model or cache folder, likely mounted into the container"
        if inside == "owned" and re.match(r"^/(?:tmp|var/tmp|workspace|app|opt|usr|root/\.cache/(?!hugg))", path):
            return ALLOW, "", ""
        return ASK, "files.container", f"whether {path} in the container is mounted from the host cannot be seen"
    if inside and inside != "new":
        return DENY, "files.container", "the container is not this run's"
    if not bench.here(cmd):
        return DENY, "files.remote", f"what this run owns on {_node(cmd)} is not proved here"
    return None


def _node(cmd: Cmd) -> str:
    name = cmd.place.node or ""
    return name if name and not name.startswith("\0") else "other nodes"


def delete(word: Word, cmd: Cmd, bench: Any, *, recursive: bool) -> Answer:
    """May this path be deleted (or overwritten with nothing)?"""
    ctx, pol = bench.ctx, bench.pol
    if word.fresh and not word.dyn and ".." not in word.text.split("/"):
        return ALLOW, "", ""
    if any(n in pol["shared_variables"] for n in word.names):
        return DENY, "files.shared", f"${next(n for n in word.names if n in pol['shared_variables'])} is a shared cache"
    if word.dyn and not word.text.strip("/"):
        if word.text.startswith("/") or not ctx.present:
            return (
                DENY,
                "files.delete",
                "the target is unknown and may be /"
                if word.text
                else "the target is unknown and nothing is proved owned",
            )
        return _by_source(word, cmd, bench)
    paths = candidates(word, cmd, bench, follow=False)
    if paths is None:
        return (ASK if ctx.present else DENY), "files.delete", "the folder in which this would delete is not known"
    if not word.dyn and not word.glob and _made_here(word, paths, cmd, bench):
        return ALLOW, "", ""
    worst: Answer = (ALLOW, "", "")
    for path in paths:
        answer = _delete_one(path, word, cmd, bench, recursive)
        if RANK[answer[0]] > RANK[worst[0]]:
            worst = answer
    return worst


def _made_here(word: Word, paths: list[str], cmd: Cmd, bench: Any) -> bool:
    """Whether the same command line makes this path, which is not there yet."""
    written: dict[str, str | None] = bench.shell.notes.get("written", {})
    name = os.path.normpath(word.text)
    linked = name in bench.shell.notes.get("links", []) and word.text.endswith("/")
    here = name in written and not linked and cmd.place.node is None and cmd.place.container is None
    return here and bool(paths) and not any(os.path.lexists(p) for p in paths)


def _delete_one(path: str, word: Word, cmd: Cmd, bench: Any, recursive: bool) -> Answer:
    ctx, pol = bench.ctx, bench.pol
    unseen = _unseen(cmd, bench, path)
    if unseen:
        return unseen
    base = fixed_part(path) if word.glob else path
    if guarded(path, bench, tree=recursive or (word.glob and not any(c in path for c in "*?["))):
        return DENY, "guard.self", f"{path} holds what belongs to the guard, or a locked record"
    if locked_record(base, tree=recursive or word.glob):
        return DENY, "guard.self", f"{base} is or holds a locked contract or a ledger"
    if ctx.owns_path(base) and not (word.glob and ".." in word.text):
        if word.dyn:
            return ASK, "files.delete", f"a part of {word.text} is unknown"
        if recursive and os.path.basename(base) == ".git":
            return ASK, "traceable.history", "the repository's history would go"
        return ALLOW, "", ""
    if matches(path, pol["shared_paths"]):
        return DENY, "files.shared", f"{path} is a shared model or cache folder"
    if matches(path, pol["user_caches"]):
        return ASK, "files.user_cache", f"{path} is a compile cache that other runs of this user may be using"
    if (
        ctx.run_id
        and len(ctx.run_id) >= 4
        and ctx.run_id in os.path.basename(path)
        and re.match(r"^/(?:tmp|var/tmp|dev/shm)/", path)
    ):
        return ASK, "files.by_name", f"{path} carries the run's name, which is no proof that the run made it"
    if not ctx.present:
        return DENY, "files.delete", f"{ctx.absent()}, so nothing is proved to be its own"
    return DENY, "files.delete", f"{path} is not proved to be this run's"


def _by_source(word: Word, cmd: Cmd, bench: Any) -> Answer:
    """A target that other commands print: names below folders that are owned are the run's."""
    for source in word.sources:
        if source.name in ("find", "fd", "fdfind"):
            roots = [w for w in source.argv[1:] if not w.text.startswith(("-", "(", "!"))]
            roots = roots[:1] if source.name == "find" and roots else roots[1:]
            for root in roots or [Word(".")]:
                answer = delete(Word(root.text, root.dyn, True, (), root.names), source, bench, recursive=True)
                if answer[0] != ALLOW:
                    return answer
            continue
        if (
            source.name in ("ls", "git", "grep", "rg", "sort", "head", "tail", "uniq", "xargs")
            and all(c and bench.ctx.owns_path(os.path.realpath(c)) for c in cmd.cwds)
            and not any(w.text.startswith(("/", "~", "..")) for w in source.argv[1:])
        ):
            continue
        return ASK, "files.delete", f"what {source.name or 'the command'} prints decides what is deleted"
    if word.sources:
        return ALLOW, "", ""
    return ASK, "files.delete", "the target is unknown before it runs"


def write(word: Word, cmd: Cmd, bench: Any, *, truncating: bool) -> Answer:
    """May this path be written?"""
    if word.fresh:
        return ALLOW, "", ""
    if word.dyn and not word.text.strip("/"):
        if word.sources and word.text == "":
            return ALLOW, "", ""
        bench.shell.partial = True
        return ALLOW, "", ""
    paths = candidates(word, cmd, bench, follow=True)
    if paths is None:
        bench.shell.partial = True
        if matches(word.text, bench.pol["self_patterns"]):
            return DENY, "guard.self", f"{word.text} belongs to the guard"
        if not bench.here(cmd):
            return ASK, "files.remote", f"what this run owns on {_node(cmd)} is not proved here"
        return ALLOW, "", ""
    worst: Answer = (ALLOW, "", "")
    for path in paths:
        answer = _write_one(path, cmd, bench, truncating)
        if RANK[answer[0]] > RANK[worst[0]]:
            worst = answer
    return worst


def _write_one(path: str, cmd: Cmd, bench: Any, truncating: bool) -> Answer:
    ctx, pol = bench.ctx, bench.pol
    if _DEVICES_OK.match(path):
        return ALLOW, "", ""
    inside = bench.inside(cmd)
    if inside in ("owned", "stale", "new") and not matches(path, pol["shared_paths"]):
        if inside == "new" and cmd.place.mounts is not None:
            pass
        else:
            return ALLOW, "", ""
    if guarded(path, bench):
        return DENY, "guard.self", f"{path} belongs to the guard or to a locked record"
    if locked_record(path):
        return DENY, "guard.self", f"{path} is a locked contract or a ledger"
    if path.startswith(("/proc/", "/sys/")) and not re.match(
        r"^/proc/(?:self|thread-self|\d+)/(?:fd/\d+|oom_score_adj|comm)$", path
    ):
        return DENY, "env.kernel", f"{path} is a setting of the whole node"
    if path.startswith("/dev/") and not path.startswith("/dev/shm/"):
        return DENY, "files.device", f"{path} is a device"
    if not bench.here(cmd):
        if matches(path, pol["shared_paths"]):
            return DENY, "files.shared", f"{path} is a shared model or cache folder"
        return ASK, "files.remote", f"what this run owns on {_node(cmd)} is not proved here"
    if ctx.owns_path(path):
        return ALLOW, "", ""
    if matches(path, pol["shared_paths"]):
        return DENY, "files.shared", f"{path} is a shared model or cache folder"
    if matches(path, pol["system_paths"]):
        return DENY, "env.system_files", f"{path} belongs to the system"
    if path.startswith("/etc/"):
        return ASK, "env.system_files", f"{path} is configuration of the whole node"
    return _write_elsewhere(path, ctx, truncating)


def _write_elsewhere(path: str, ctx: Any, truncating: bool) -> Answer:
    from infer_forge.base.ownership import within

    if (
        ctx.cwd
        and ctx.cwd != "/"
        and within(path, os.path.realpath(ctx.cwd))
        and os.path.realpath(ctx.cwd) != os.path.realpath(ctx.home)
    ):
        return ALLOW, "", ""
    try:
        status = os.stat(path)
    except OSError:
        status = None
    if re.match(r"^/(?:tmp|var/tmp)/", path):
        if status is None or status.st_uid == os.getuid():
            return ALLOW, "", ""
        return DENY, "files.overwrite", f"{path} belongs to another user"
    if status is not None:
        return (DENY if truncating else ASK), "files.overwrite", f"{path} exists and is not proved to be this run's"
    return ASK, "files.outside", f"{path} lies outside of what this run owns"
