"""Push guard: only allow-listed repositories and branches, judged by where a push really goes, not by a remote's name."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from typing import Any

from infer_forge.guard import gitcmd
from infer_forge.guard.model import ASK, DENY, Cmd
from infer_forge.guard.rules import flag, option

_PUSH_VALUES = ("--repo", "-o", "--push-option", "--receive-pack", "--exec", "--signed", "--recurse-submodules")


def git(cmd: Cmd, bench: Any) -> None:
    """git push, send-email, remote set-url, subtree push, lfs push."""
    parsed = gitcmd.Git(cmd)
    texts = parsed.texts()
    if parsed.verb == "remote" and texts[:1] and texts[0] in ("set-url", "add", "rename"):
        _remote_changed(texts, cmd, bench)
    elif parsed.verb == "config":
        _config_changed(texts, cmd, bench)
    elif parsed.verb == "push":
        _push(parsed, cmd, bench)
    elif parsed.verb in ("subtree", "lfs") and texts[:1] == ["push"]:
        plain = [t for t in texts[1:] if not t.startswith("-")]
        _destination(plain[0] if plain else "", None, parsed, cmd, bench, force=False)
    elif parsed.verb in ("send-email", "imap-send", "request-pull"):
        bench.hit(ASK, "push.publish", f"git {parsed.verb} publishes outside", cmd)
    elif parsed.verb == "send-pack":
        bench.hit(DENY, "push.plumbing", "send-pack goes round the checks of git push", cmd, safer="git push")
    elif parsed.verb in ("commit", "merge", "cherry-pick", "revert", "am", "add"):
        bench.shell.notes["commits"] = True


def _remote_changed(texts: list[str], cmd: Cmd, bench: Any) -> None:
    plain = [t for t in texts[1:] if not t.startswith("-")]
    if len(plain) >= 2:
        changed: dict[str, str] = bench.shell.notes.setdefault("remotes", {})
        if texts[0] == "rename":
            changed[plain[1]] = ""
        else:
            changed[plain[0]] = plain[1] if "--delete" not in texts else ""
    if texts[0] == "set-url" and not _allowed_url(plain[1] if len(plain) > 1 else "", bench):
        bench.hit(ASK, "push.retarget", "this changes where a known remote points to", cmd, targets=tuple(plain[:1]))


def _config_changed(texts: list[str], cmd: Cmd, bench: Any) -> None:
    plain = [t for t in texts if not t.startswith("-") and t not in ("set", "add", "get", "unset")]
    if len(plain) < 2:
        return
    key = plain[0].lower()
    match = re.match(r"^remote\.(.+)\.(?:push)?url$", key)
    if match:
        bench.shell.notes.setdefault("remotes", {})[match.group(1)] = plain[1]
        if not _allowed_url(plain[1], bench):
            bench.hit(
                ASK, "push.retarget", "this changes where a known remote points to", cmd, targets=(match.group(1),)
            )
    elif (
        re.match(r"^url\..+\.(?:push)?insteadof$", key)
        or re.match(r"^(?:remote\.pushdefault|push\.default|branch\..+\.(?:pushremote|remote|merge))$", key)
        or re.match(r"^remote\..+\.push$", key)
    ):
        bench.shell.notes["retargeted"] = True
        bench.hit(ASK, "push.retarget", "this changes where pushes go", cmd, targets=(key,))


def _push(parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> None:
    texts = parsed.texts()
    plain: list[str] = []
    force = delete = False
    i = 0
    dynamic = False
    while i < len(texts):
        text = texts[i]
        if text.startswith("-"):
            force = force or text.startswith("--force") or (re.fullmatch(r"-[a-zA-Z]*f[a-zA-Z]*", text) is not None)
            delete = delete or text == "--delete" or (re.fullmatch(r"-[a-zA-Z]*d[a-zA-Z]*", text) is not None)
            if text in ("--mirror", "--all", "--branches", "--prune"):
                bench.hit(DENY, "push.everything", f"git push {text} reaches every branch of the remote", cmd)
            if text in ("--dry-run", "-n"):
                return
            if text == "--repo" and i + 1 < len(texts):
                plain.insert(0, texts[i + 1])
            elif text.startswith("--repo="):
                plain.insert(0, text[7:])
            i += 2 if text in _PUSH_VALUES else 1
            continue
        dynamic = dynamic or parsed.args[i].dyn
        plain.append(text)
        i += 1
    if dynamic:
        bench.hit(ASK, "push.target", "where this pushes to is unknown before it runs", cmd)
    remote = plain[0] if plain else ""
    specs = plain[1:]
    if "--tags" in texts and not specs:
        bench.hit(ASK, "push.tags", "tags are seen by everybody who fetches", cmd)
    refs = [_spec(s, delete) for s in specs]
    force = force or any(f for _, f, _ in refs)
    _destination(remote, refs or None, parsed, cmd, bench, force=force)
    if bench.shell.notes.get("commits"):
        bench.hit(
            ASK,
            "secrets.unscanned",
            "what this command line itself commits has not passed a secret scan",
            cmd,
            safer="commit, then infer-forge guard scan, then push",
        )


def _spec(text: str, delete: bool) -> tuple[str, bool, bool]:
    """(destination branch, forced, deleted) of a refspec."""
    forced = text.startswith("+")
    text = text.lstrip("+")
    source, colon, target = text.partition(":")
    gone = delete or (bool(colon) and not source)
    return (target if colon else source).removeprefix("refs/heads/"), forced, gone


def _allowed_url(url: str, bench: Any) -> bool:
    allowed = [bench.ctx.remotes.get(a, a) for a in bench.ctx.push_allowed] + bench.pol["push_allowed"]
    return bool(url) and any(gitcmd.same_url(url, a) for a in allowed)


def _urls(remote: str, parsed: gitcmd.Git, bench: Any) -> list[str] | None:
    """Where pushes to `remote` go; None when it cannot be known."""
    changed: dict[str, str] = bench.shell.notes.get("remotes", {})
    if re.search(r"[:/]", remote):
        settings = gitcmd.repository(parsed.cwds[0] if parsed.cwds else None, parsed.git_dir, bench.ctx.home)
        return [gitcmd.rewritten(remote, {**settings, **{k: [v] for k, v in parsed.config.items()}})]
    if remote in changed:
        return [changed[remote]] if changed[remote] else None
    cwd = parsed.cwds[0] if len(parsed.cwds) == 1 else None
    settings = gitcmd.repository(cwd, parsed.git_dir, bench.ctx.home)
    for key, value in parsed.config.items():
        settings[key] = [value]
    found = gitcmd.push_urls(remote, settings)
    recorded = bench.ctx.remotes.get(remote)
    if found:
        return found
    if recorded and cwd and (bench.ctx.owns_path(os.path.realpath(cwd)) or cwd == bench.ctx.cwd):
        return [gitcmd.rewritten(recorded, settings)]
    return None


def _default_remote(parsed: gitcmd.Git, bench: Any) -> tuple[str, str | None]:
    """Remote and branch of a bare `git push`, as branch and push settings say; branch None when it cannot be known."""
    cwd = parsed.cwds[0] if len(parsed.cwds) == 1 else None
    settings = gitcmd.repository(cwd, parsed.git_dir, bench.ctx.home)
    for key, value in parsed.config.items():
        settings[key] = [value]
    branch = gitcmd.head_branch(cwd, parsed.git_dir)
    if branch is None:
        return "", None

    def setting(name: str) -> str:
        return (settings.get(name) or [""])[-1]

    remote = (
        setting(f"branch.{branch}.pushremote")
        or setting("remote.pushdefault")
        or setting(f"branch.{branch}.remote")
        or "origin"
    )
    if setting(f"remote.{remote}.push") or setting(f"remote.{remote}.mirror") == "true":
        return remote, None
    mode = setting("push.default") or "simple"
    if mode in ("simple", "current"):
        upstream = setting(f"branch.{branch}.merge").removeprefix("refs/heads/")
        if mode == "simple" and upstream and upstream != branch and remote == setting(f"branch.{branch}.remote"):
            return remote, None
        return remote, branch
    if mode in ("upstream", "tracking"):
        return remote, setting(f"branch.{branch}.merge").removeprefix("refs/heads/") or None
    return remote, None


def _destination(
    remote: str, refs: list[tuple[str, bool, bool]] | None, parsed: gitcmd.Git, cmd: Cmd, bench: Any, *, force: bool
) -> None:
    ctx = bench.ctx
    if not bench.here(cmd):
        bench.hit(ASK, "push.target", "where a push on another node goes cannot be seen here", cmd)
        return
    branches: list[tuple[str, bool, bool]]
    if refs is None:
        found, branch = _default_remote(parsed, bench)
        remote = remote or found
        if branch is None:
            if remote and not _allowed(remote, parsed, cmd, bench):
                return
            bench.hit(
                ASK,
                "push.target",
                "where this pushes to depends on settings that cannot be read here",
                cmd,
                safer="git push REMOTE BRANCH",
            )
            return
        branches = [(branch, False, False)]
    else:
        branches = refs
    if not _allowed(remote, parsed, cmd, bench):
        for name, forced, gone in branches:
            _rewritten(name, force or forced or gone, cmd, bench)
        return
    if bench.shell.notes.get("retargeted"):
        bench.hit(DENY, "push.retarget", "the settings of pushes are changed in the same command line", cmd)
    cwd = parsed.cwds[0] if len(parsed.cwds) == 1 else None
    for branch, forced, gone in branches:
        name = branch
        if name in ("HEAD", "@", ""):
            name = gitcmd.head_branch(cwd, parsed.git_dir) or ctx.branch or ""
            if not name:
                bench.hit(ASK, "push.target", "which branch HEAD is cannot be seen here", cmd)
                continue
        _branch(name, force or forced, gone, cmd, bench)


def _protected(name: str, bench: Any) -> bool:
    return any(fnmatchcase(name, p) for p in (*bench.ctx.protected_branches, *bench.pol["protected_branches"]))


_TRUNKS = ("main", "master")
"""Branches that others build on in every repository, whether or not anybody listed them: they may grow, never be rewritten."""


def _rewritten(name: str, destructive: bool, cmd: Cmd, bench: Any) -> bool:
    """Deny to rewrite or delete a branch that others build on; whether it was that."""
    if not destructive or not (name in _TRUNKS or _protected(name, bench)):
        return False
    bench.hit(DENY, "push.protected", f"this rewrites or deletes {name}, which others build on", cmd, targets=(name,))
    return True


def _branch(name: str, forced: bool, gone: bool, cmd: Cmd, bench: Any) -> None:
    if "*" in name or _protected(name, bench):
        bench.hit(DENY, "push.protected", f"{name} is a protected branch", cmd, targets=(name,))
    elif _rewritten(name, forced or gone, cmd, bench):
        return
    elif name.startswith("refs/") and not name.startswith("refs/heads/"):
        bench.hit(ASK, "push.tags", f"{name} is no branch", cmd, targets=(name,))
    elif gone:
        bench.hit(ASK, "push.force", f"this deletes the branch {name} on the remote", cmd, targets=(name,))
    elif forced:
        bench.hit(
            ASK, "push.force", f"this rewrites {name}, which recorded evidence may point to", cmd, targets=(name,)
        )


def _allowed(remote: str, parsed: gitcmd.Git, cmd: Cmd, bench: Any) -> bool:
    urls = _urls(remote, parsed, bench)
    if urls is None:
        bench.hit(
            ASK if remote in bench.ctx.push_allowed or not remote else DENY,
            "push.target",
            f"where the remote {remote or '(default)'} points to cannot be seen",
            cmd,
            targets=(remote,),
        )
        return False
    wrong = [u for u in urls if not _allowed_url(u, bench)]
    if not wrong:
        return True
    if not bench.ctx.push_allowed and not bench.pol["push_allowed"] and not bench.ctx.present:
        step = "a person lists the repositories that may be pushed to in their guard.yaml (push: {allowed: [URL]})"
        bench.hit(ASK, "push.target", "no remote is recorded as allowed", cmd, safer=step, targets=(remote,))
    else:
        bench.hit(
            DENY,
            "push.remote",
            f"{remote or 'the remote'} goes to {gitcmd.canonical_url(wrong[0])}, which is not on the list of allowed repositories",
            cmd,
            targets=(remote,),
        )
    return False


def forge(cmd: Cmd, bench: Any) -> None:
    """gh, hub, glab, tea: pull requests go to the fork's owner to decide; merging and deleting never happen here."""
    plain = [t for t in cmd.words()[1:] if not t.startswith("-")]
    noun, verb = [*plain, "", ""][:2]
    if cmd.name == "hub":
        noun, verb = ("pr", "create") if noun == "pull-request" else ("pr", verb) if noun == "pr" else (noun, verb)
    if noun == "api":
        _api(cmd, bench)
    elif (noun, verb) in (
        ("pr", "merge"),
        ("mr", "merge"),
        ("repo", "delete"),
        ("repo", "archive"),
        ("release", "delete"),
        ("repo", "sync"),
        ("repo", "edit"),
        ("secret", "set"),
        ("secret", "delete"),
        ("variable", "set"),
        ("ruleset", "delete"),
        ("workflow", "disable"),
        ("cache", "delete"),
        ("repo", "rename"),
        ("ssh-key", "add"),
        ("gpg-key", "add"),
    ):
        bench.hit(DENY, "push.forge", f"{cmd.name} {noun} {verb} changes a repository that others share", cmd)
    elif verb in (
        "create",
        "comment",
        "edit",
        "close",
        "reopen",
        "ready",
        "review",
        "delete",
        "fork",
        "upload",
        "lock",
        "transfer",
        "run",
        "rerun",
        "cancel",
        "update",
        "note",
        "new",
        "for",
    ) and noun in (
        "pr",
        "mr",
        "issue",
        "release",
        "repo",
        "gist",
        "workflow",
        "run",
        "label",
        "discussion",
        "incident",
        "snippet",
        "pulls",
        "issues",
    ):
        bench.hit(ASK, "push.publish", f"{cmd.name} {noun} {verb} is seen by others: a person decides", cmd)
    elif noun in ("repo",) and verb == "set-default":
        bench.hit(ASK, "push.retarget", "this changes where pull requests go by default", cmd)
    elif cmd.name == "hub" and noun in ("push", "fork", "create", "delete", "sync"):
        bench.hit(
            DENY if noun == "delete" else ASK,
            "push.publish",
            f"hub {noun} goes round the checks of git push",
            cmd,
            safer="git push REMOTE BRANCH",
        )


def _api(cmd: Cmd, bench: Any) -> None:
    method = option(cmd, "-X", "--method")
    fields = flag(cmd, "fF", "--field", "--raw-field", "--input")
    name = method.text.upper() if method is not None else "POST" if fields else "GET"
    path = next((t for t in cmd.words()[2:] if not t.startswith("-") and t != (method.text if method else "")), "")
    if name == "GET" or (path == "graphql" and "mutation" not in " ".join(cmd.words())):
        return
    verdict = DENY if name in ("DELETE", "PUT") or re.search(r"/merge$|/git/refs|/contents/", path) else ASK
    bench.hit(verdict, "push.publish", f"{name} {path} changes something on the forge", cmd)
