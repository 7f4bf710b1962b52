"""A command line and a context become allow, ask or deny; the strictest of all simple commands wins. The hook stands on this."""

from __future__ import annotations

import time
from typing import Any

from infer_forge.guard.context import Context
from infer_forge.guard.model import ALLOW, ASK, DENY, RANK, Cmd, Hit, Verdict
from infer_forge.guard.rules import TABLE, Bench, function
from infer_forge.guard.shell import Scope, Shell

_OWN_NAMES = ("guard.yaml", "infer-forge", ".claude", ".codex", ".lock", ".ledger", ".git/")
"""Cheap signs that a word may name a file of the guard; `rules.selfguard.named` looks closely."""


def check_with(command: str, ctx: Context, pol: dict[str, Any]) -> Verdict:
    """`check` with a policy at hand; standard library and tree-sitter only."""
    shell = Shell(ctx, pol)
    bench = Bench(shell)
    text = command.replace("\0", "")
    scope = Scope(ctx.cwd, {**ctx.env, "HOME": ctx.home, "USER": ctx.user})
    shell.notes["venvs"] = scope.venvs
    try:
        shell.run(text, scope)
        if "traps" in shell.notes:
            from infer_forge.guard.shells import late_traps

            late_traps(shell)
    except RecursionError:
        from infer_forge.guard.shell import risk_tokens

        shell.problem("the command is nested too deep to follow", (0, len(text)), risk_tokens(text))
    if command != text:
        shell.problem("the command holds a NUL byte", (0, 0))
    _apply(shell, bench, text)
    return _verdict(bench, shell)


def _apply(shell: Shell, bench: Bench, text: str) -> None:
    secrets_text, secrets_argv = function("secrets.text"), function("secrets.argv")
    redirects, stdin, visible = function("files.redirects"), function("secrets.stdin"), function("gpu.visible")
    custom, production, governed = bench.pol["custom"], bench.pol["production"], bench.pol["governed_paths"]
    secrets_text(text, bench)
    reads_only = function("diagnosis.reads_only") if bench.ctx.profile == "read_only" else None
    for cmd in shell.cmds:
        if reads_only is not None:
            reads_only(cmd, bench)
        if cmd.redirects:
            redirects(cmd, bench)
            stdin(cmd, bench)
        if cmd.env:
            visible(cmd, bench)
        if not cmd.argv:
            continue
        secrets_argv(cmd, bench)
        for name in TABLE.get(cmd.name) or TABLE.get(_unversioned(cmd.name)) or ():
            function(name)(cmd, bench)
        if any(hint in w.text for w in cmd.argv[1:] for hint in _OWN_NAMES):
            function("selfguard.named")(cmd, bench)
        if cmd.place.node:
            function("gate.unclaimed")(cmd, bench)
        if production:
            function("gate.production")(cmd, bench)
        if custom:
            function("gate.custom")(cmd, bench)
        if governed:
            function("data.governed")(cmd, bench)
        if cmd.argv[0].dyn or (cmd.argv[0].glob and any(c in cmd.argv[0].text for c in "*?[")):
            _unknown_program(cmd, bench)
    risky = set(bench.pol["risk_words"])
    for problem in shell.problems:
        word = next((t for t in problem.tokens if t.rsplit("/", 1)[-1] in risky), None)
        hit = (
            Hit(DENY, "shell.risky", f"{problem.why}, and `{word}` stands in it")
            if word
            else Hit(ASK, "shell.unread", problem.why)
        )
        hit.safer = bench.pol["rules"][hit.rule]["safer"]
        hit.span = problem.span
        bench.hits.append(hit)


def _unversioned(name: str) -> str:
    """`pip3.11` -> `pip`, `mkfs.ext4` -> `mkfs`."""
    if name.startswith("mkfs."):
        return "mkfs"
    stripped = name.rstrip("0123456789.")
    return stripped if stripped and stripped != name else ""


def _unknown_program(cmd: Cmd, bench: Bench) -> None:
    """The program itself is unknown: what it may be decides. `$PYTHON x.py` and the like are told by their variable."""
    first = cmd.argv[0]
    bench.shell.partial = True
    if first.glob and not first.dyn:
        from fnmatch import fnmatchcase

        name = first.text.rsplit("/", 1)[-1]
        risky = next((w for w in bench.pol["risk_words"] if fnmatchcase(w, name)), None)
        if risky:
            bench.hit(DENY, "shell.risky", f"the pattern {first.text} may be {risky}", cmd)
        return
    if (
        first.names
        and first.names[0]
        in ("PYTHON", "PY", "PIP", "CC", "CXX", "MAKE", "NVCC", "EDITOR", "SHELL", "CUDA_HOME", "GIT", "NODE")
        and not first.sources
    ):
        return
    if first.text and "/" in first.text:
        return
    if "unknown word" in cmd.via:
        return
    bench.hit(ASK, "shell.unread", "which program this runs is unknown before it runs", cmd)


def _verdict(bench: Bench, shell: Shell) -> Verdict:
    decisions: dict[str, str] = bench.pol["decisions"]
    for hit in bench.hits:
        stricter = decisions.get(hit.rule)
        if stricter and RANK[stricter] > RANK[hit.verdict]:
            hit.verdict = stricter
    granted = [h for h in bench.hits if _granted(h, bench)]
    live = [h for h in bench.hits if h not in granted] if granted else bench.hits
    live.sort(key=lambda h: -RANK[h.verdict])
    coverage = "partial" if shell.partial else "full"
    if not live:
        return Verdict(ALLOW, None, coverage, [], granted)
    return Verdict(live[0].verdict, live[0], coverage, live, granted)


def _granted(hit: Hit, bench: Bench) -> bool:
    """Whether a person's live grant covers this hit: its rule (or constraint) and its target."""
    entry: dict[str, Any] = bench.pol["rules"].get(hit.rule) or {}
    if not bench.ctx.grants or entry.get("grantable") is False:
        return False
    now = time.time()
    for grant in bench.ctx.grants:
        covers = grant.action == hit.rule or grant.action == f"{entry.get('constraint')}.*"
        if (
            covers
            and grant.live(now)
            and (grant.target == "*" or grant.target in hit.targets or (not hit.targets and grant.target in hit.argv))
        ):
            return True
    return False
