"""Traceable path: no step round the commits, no rewriting of shared history, no throwing away of uncommitted work."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

from infer_forge.guard import gitcmd
from infer_forge.guard.model import ASK, DENY, Cmd
from infer_forge.guard.rules import texts


def git(cmd: Cmd, bench: Any) -> None:
    """The subcommands of git that lose or rewrite work."""
    parsed = gitcmd.Git(cmd)
    handler = _VERBS.get(parsed.verb)
    words = parsed.texts()
    _hooks(parsed, words, cmd, bench)
    if handler is not None and not any(w in ("-h", "--help") for w in words):
        handler(words, parsed, cmd, bench)


def _short(words: list[str], letters: str) -> bool:
    return any(re.fullmatch(r"-[a-zA-Z]+", w) and any(c in letters for c in w[1:]) for w in words)


def _no_verify(words: list[str]) -> bool:
    """Whether a cluster of git commit has `-n` in front of a letter that takes the rest as its value."""
    taken = False
    for word in words:
        if taken or word == "--":
            if word == "--":
                return False
            taken = False
            continue
        if not re.fullmatch(r"-[a-zA-Z].*", word):
            continue
        for at, letter in enumerate(word[1:], 1):
            if letter == "n":
                return True
            if letter in "mFCct":
                taken = at == len(word) - 1
                break
    return False


def _hooks(parsed: gitcmd.Git, words: list[str], cmd: Cmd, bench: Any) -> None:
    verb = parsed.verb
    short_n = verb == "commit" and _no_verify(words)
    if (
        verb in ("commit", "push", "merge", "rebase", "am", "cherry-pick", "revert") and "--no-verify" in words
    ) or short_n:
        bench.hit(DENY, "traceable.hooks", "--no-verify goes round the checks that commits and pushes pass", cmd)
    for key in parsed.config:
        if key == "core.hookspath":
            bench.hit(DENY, "traceable.hooks", "another hooks folder goes round the checks that commits pass", cmd)
    if (
        verb == "config"
        and len(words) > 1
        and any(w.lower() == "core.hookspath" for w in words)
        and not any(w in ("--get", "get", "--get-all", "--show-origin") for w in words)
    ):
        verdict = ASK if any(w in ("--unset", "--unset-all", "unset") for w in words) else DENY
        bench.hit(verdict, "traceable.hooks", "another hooks folder goes round the checks that commits pass", cmd)
    for name in ("HUSKY", "HUSKY_SKIP_HOOKS", "SKIP", "PRE_COMMIT_ALLOW_NO_CONFIG", "LEFTHOOK"):
        value = cmd.env.get(name)
        if (
            value is not None
            and verb in ("commit", "push", "merge")
            and not (name in ("HUSKY", "LEFTHOOK") and value.text not in ("0", "false"))
        ):
            bench.hit(DENY, "traceable.hooks", f"{name} switches checks off that commits pass", cmd)


def _reset(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if any(w in ("--hard", "--merge", "--keep") for w in words) and "--keep" not in words:
        bench.hit(DENY, "traceable.discard", "reset --hard throws uncommitted work away", cmd)
    elif (
        any(re.search(r"[~^]|^[0-9a-f]{7,40}$", w) for w in words)
        and "--" not in words
        and not any(w in ("--soft", "--mixed", "--keep") for w in words)
    ):
        return


def _clean(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if _short(words, "n") or "--dry-run" in words or not (_short(words, "f") or "--force" in words):
        return
    bench.hit(
        DENY,
        "traceable.discard",
        "clean -f deletes files that are in no commit",
        cmd,
        safer="git clean -n, then remove by name what the run made",
    )


def _checkout(words: list[str], parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    plain = [w for w in words if not w.startswith("-")]
    if _short(words, "f") or "--force" in words or "--discard-changes" in words:
        bench.hit(DENY, "traceable.discard", "a forced checkout throws uncommitted work away", cmd)
    elif _short(words, "bB") or "--orphan" in words:
        if _short(words, "B"):
            bench.hit(ASK, "traceable.branch", "-B moves an existing branch", cmd)
    elif (
        "--" in words
        or "." in plain
        or "--ours" in words
        or "--theirs" in words
        or (parsed.verb == "checkout" and len(plain) > 1)
        or any(w.startswith("--pathspec-from-file") for w in words)
    ):
        bench.hit(
            DENY,
            "traceable.discard",
            "checking paths out throws their uncommitted changes away",
            cmd,
            safer="git stash push -- PATH",
        )
    elif (
        parsed.verb == "checkout"
        and len(plain) == 1
        and re.search(r"\.(?:py|cu|cuh|cc?|cpp|h|hpp|md|txt|ya?ml|json|toml|sh|rs|go|js|ts)$", plain[0])
    ):
        bench.hit(
            DENY,
            "traceable.discard",
            "checking a path out throws its uncommitted changes away",
            cmd,
            safer="git stash push -- PATH",
        )


def _restore(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    staged = "--staged" in words or _short(words, "S")
    if not staged or "--worktree" in words or _short(words, "W"):
        bench.hit(
            DENY, "traceable.discard", "restore throws uncommitted changes away", cmd, safer="git stash push -- PATH"
        )


def _stash(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if words[:1] in (["drop"], ["clear"]):
        bench.hit(DENY, "traceable.discard", f"stash {words[0]} throws kept work away", cmd)


def _branch(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    deleting = _short(words, "dD") or "--delete" in words
    forced = _short(words, "DMCf") or "--force" in words
    plain = [w for w in words if not w.startswith("-")]
    protected = [*bench.ctx.protected_branches, *bench.pol["protected_branches"]]
    if (deleting or forced) and any(fnmatchcase(p, pattern) for p in plain[:1] for pattern in protected):
        bench.hit(DENY, "traceable.branch", f"{plain[0]} is a protected branch", cmd, targets=tuple(plain[:1]))
    elif forced:
        bench.hit(
            ASK, "traceable.branch", "commits that only this branch holds would be lost", cmd, targets=tuple(plain[:1])
        )


def _rewrite(_words: list[str], parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    bench.hit(DENY, "traceable.history", f"git {parsed.verb} rewrites commits that evidence points to", cmd)


def _rebase(words: list[str], parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if any(w in ("--abort", "--continue", "--skip", "--quit", "--edit-todo", "--show-current-patch") for w in words):
        return
    branch = gitcmd.head_branch(parsed.cwds[0] if parsed.cwds else None, parsed.git_dir) or bench.ctx.branch
    plain = [w for w in words if not w.startswith("-")]
    target = plain[1] if len(plain) > 1 else branch
    protected = [*bench.ctx.protected_branches, *bench.pol["protected_branches"]]
    if target and any(fnmatchcase(target, p) for p in protected):
        bench.hit(DENY, "traceable.history", f"this rewrites the protected branch {target}", cmd, targets=(target,))


def _refs(words: list[str], parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if (
        parsed.verb == "symbolic-ref"
        and len([w for w in words if not w.startswith("-")]) < 2
        and not _short(words, "d")
    ):
        return
    if parsed.verb == "replace" and (not words or words[0] in ("-l", "--list")):
        return
    bench.hit(
        DENY if _short(words, "d") or "--stdin" in words else ASK,
        "traceable.history",
        f"git {parsed.verb} moves references by hand",
        cmd,
    )


def _reflog(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if words[:1] in (["expire"], ["delete"]):
        bench.hit(DENY, "traceable.history", "without the reflog lost work cannot be found again", cmd)


def _gc(words: list[str], parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    prunes = any(w.startswith("--prune") and w != "--prune=2.weeks.ago" for w in words) or parsed.verb == "prune"
    if prunes and not _short(words, "n"):
        bench.hit(DENY, "traceable.history", "pruning removes commits that no branch holds", cmd, safer="git gc")


def _worktree(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if words[:1] == ["remove"] and (_short(words, "f") or "--force" in words):
        bench.hit(DENY, "traceable.discard", "a forced removal throws the worktree's uncommitted work away", cmd)


def _rm(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if "--cached" not in words and (_short(words, "f") or "--force" in words):
        bench.hit(
            ASK, "traceable.discard", "rm -f drops uncommitted changes of the files", cmd, safer="git rm --cached"
        )


def _submodule(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if words[:1] == ["deinit"] and (_short(words, "f") or "--force" in words):
        bench.hit(ASK, "traceable.discard", "a forced deinit throws the submodule's uncommitted work away", cmd)
    elif words[:1] == ["update"] and (_short(words, "f") or "--force" in words):
        bench.hit(DENY, "traceable.discard", "a forced update throws the submodule's uncommitted work away", cmd)


def _pull(words: list[str], parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if (
        any(re.match(r"^\+", w) for w in words)
        and parsed.verb == "fetch"
        and any(":" in w and not w.endswith(":") and "refs/remotes" not in w for w in words)
    ):
        bench.hit(ASK, "traceable.branch", "a forced fetch may move a local branch", cmd)


def _index(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if any(w in ("--assume-unchanged", "--skip-worktree") for w in words):
        bench.hit(ASK, "traceable.hidden", "git would show no change of these files any more", cmd)


def _tag(words: list[str], _parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    if _short(words, "df") or "--delete" in words or "--force" in words:
        bench.hit(ASK, "traceable.history", "a tag that evidence points to may go or move", cmd)


_VERBS: dict[str, Any] = {
    "reset": _reset,
    "clean": _clean,
    "checkout": _checkout,
    "switch": _checkout,
    "restore": _restore,
    "stash": _stash,
    "branch": _branch,
    "filter-branch": _rewrite,
    "filter-repo": _rewrite,
    "rebase": _rebase,
    "update-ref": _refs,
    "symbolic-ref": _refs,
    "replace": _refs,
    "reflog": _reflog,
    "gc": _gc,
    "prune": _gc,
    "worktree": _worktree,
    "rm": _rm,
    "submodule": _submodule,
    "fetch": _pull,
    "tag": _tag,
    "update-index": _index,
}


def commit_tools(cmd: Cmd, bench: Any) -> None:
    """pre-commit uninstall and the like."""
    if "uninstall" in texts(cmd.argv):
        bench.hit(DENY, "traceable.hooks", "without the hooks commits pass no checks", cmd)
