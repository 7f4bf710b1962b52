"""D1 to D16: what must hold before the set-up script is called."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Any, cast

from infer_forge.base.errors import ForgeError
from infer_forge.campaign.rlcr import plan_input, runtime
from infer_forge.campaign.rlcr.model import PLAN, Case, Rule, Seen, absent, good, rules_data, unclear, wrong
from infer_forge.campaign.rlcr.tree import look

GET = "install the Humanize plug-in 1.16 or 1.17, or set HUMANIZE_RUNTIME_ROOT to its checkout"


def _found(case: Case) -> runtime.Runtime:
    return runtime.find(case.environ, case.user_home)


def d1_runtime(case: Case) -> Seen:
    """Runtime and version; the rewrite is refused by name."""
    found = _found(case)
    if found.root is None:
        if found.rewrite:
            return wrong(
                f"no RLCR runtime: only the rewrite of Humanize was found ({found.rewrite}); it has no such loop", GET
            )
        return wrong(f"no RLCR runtime; tried {', '.join(found.tried)}", GET)
    if found.rewrite:
        return wrong(f"{found.rewrite} is the rewrite of Humanize, whose loop is another", GET)
    if found.version is None:
        return unclear(f"{found.root} states no version", "look at .claude-plugin/plugin.json of the runtime")
    if not found.known:
        versions = " and ".join(rules_data()["versions"])
        return unclear(
            f"{found.root} is {found.version}; known are {versions}",
            "look whether its state file and hook are the same",
        )
    return good(f"{found.root}, {found.version}")


def d2_programs(case: Case) -> Seen:
    """Programs on PATH."""
    path, data = case.environ.get("PATH"), rules_data()
    gone = [n for n in data["needs"] if shutil.which(n, path=path) is None]
    if not any(shutil.which(str(n), path=path) for n in data["timeout_programs"]):
        gone.append("timeout")
    refused = any(n in ("codex", "jq", "git") for n in gone)
    return (
        wrong(f"not on PATH: {', '.join(gone)}", f"install {', '.join(gone)}", refused=refused)
        if gone
        else good("all there")
    )


def d3_flags(case: Case) -> Seen:
    """Flags of the hook against codex's own help; a hook feature that was renamed is told."""
    flags = runtime.hook_flags(_found(case), case.environ)
    refused, unread = runtime.refused_flags(flags, case.environ)
    if refused:
        return wrong(
            f"this codex does not know {', '.join(refused)}: every review would fail",
            "use a codex that has them (--full-auto went in 0.147.0), a runtime whose hook no longer passes them, or mode goal",
        )
    if unread:
        return unclear("; ".join(dict.fromkeys(unread)), "install codex and log in, then look again")
    data, listed = rules_data(), runtime.ask(["codex", "features", "list"], case.environ)
    names = (
        set(re.findall(r"^\s*([a-z_]+)\b(?!.*\bremoved\b)", listed.text, re.MULTILINE))
        if listed.rc == 0
        else set[str]()
    )
    if (
        "--disable" in flags.get("exec", [])
        and data["new_hook_feature"] in names
        and data["old_hook_feature"] not in names
    ):
        return unclear(
            f"the feature is called {data['new_hook_feature']} now; the hook disables {data['old_hook_feature']}, "
            "so the reviewer's own hooks may run",
            "make sure that the reviewer's codex runs without this Stop hook (its own CODEX_HOME)",
        )
    bypass = " (the reviewer runs without a sandbox)" if data["bypass_flag"] in flags["exec"] else ""
    return good(f"{', '.join(sorted({f for v in flags.values() for f in v}))}{bypass}")


def d4_login(case: Case) -> Seen:
    """`codex login status`."""
    said = runtime.ask(["codex", "login", "status"], case.environ)
    if said.rc is None:
        return unclear(str(said.why), "codex login")
    told = [text.strip() for text in said.text.split("\n") if text.strip() and not text.startswith("WARNING")]
    line = told[-1] if told else f"it ended with {said.rc}"
    return good(line[:80]) if said.rc == 0 else wrong(line[:120], "codex login")


def d5_hook(case: Case) -> Seen:
    """The Stop hook in a client's settings, or the plug-in that brings it."""
    name = rules_data()["stop_hook"]
    seen: list[str] = []
    claude = Path(case.environ.get("CLAUDE_CONFIG_DIR") or case.user_home / ".claude")
    codex = Path(case.environ.get("CODEX_HOME") or case.user_home / ".codex")
    for file in (
        claude / "settings.json",
        case.checkout / ".claude/settings.json",
        case.checkout / ".claude/settings.local.json",
    ):
        data = _json(file)
        if name in str(data.get("hooks", "")):
            return good(f"registered in {file}")
        on = [
            k
            for k, v in cast("dict[str, Any]", data.get("enabledPlugins") or {}).items()
            if v and k.split("@")[0] == "humanize"
        ]
        if on:
            return good(f"plug-in {on[0]} is enabled in {file}")
        seen.append(str(file))
    for file in (codex / "hooks.json", case.checkout / ".codex/hooks.json"):
        if name in str(_json(file).get("hooks", "")):
            return unclear(
                f"registered in {file}; whether Codex trusts it cannot be seen here",
                "start codex, open /hooks and trust it",
            )
        seen.append(str(file))
    return wrong(
        f"no client has it; looked at {', '.join(seen)}", "enable the Humanize plug-in, or register its Stop hook"
    )


def _json(file: Path) -> dict[str, Any]:
    from infer_forge.clients import settings_json

    with contextlib.suppress(ForgeError, OSError):
        return settings_json.read(file)
    return {}


def d6_project(case: Case) -> Seen:
    """CLAUDE_PROJECT_DIR wins over the folder in which the script is called."""
    named = case.environ.get("CLAUDE_PROJECT_DIR")
    if not named:
        return good("unset")
    if os.path.realpath(named) == os.path.realpath(case.checkout):
        return good("names this checkout")
    return wrong(f"it names {named}", f"start the client in {case.checkout}, or unset CLAUDE_PROJECT_DIR")


def d7_branch(case: Case) -> Seen:
    """Branch: named, safe, not the base."""
    tree = case.tree
    if not tree.is_repository:
        return absent("no repository")
    if tree.branch is None:
        return wrong("HEAD is detached; Humanize would begin all the same", "git switch -c opt/NAME")
    bad = sorted({c for c in tree.branch if c in rules_data()["branch_unsafe"]})
    if bad:
        return wrong(f"the branch {tree.branch} contains {' '.join(bad)}", "git branch -m opt/NAME", refused=True)
    base, _ = base_of(case)
    if tree.branch == base:
        return wrong(f"the branch {tree.branch} is the base of the review", "git switch -c opt/NAME")
    return good(tree.branch)


def base_of(case: Case) -> tuple[str | None, list[str]]:
    """The base branch that the script takes, and the ones it could be confused with."""
    tree = case.tree
    if case.args.base:
        return case.args.base, []
    order = [n for n in (tree.remote_default, "main", "master") if n and n in tree.branches]
    return (order[0], list(dict.fromkeys(order[1:]))) if order else (None, [])


def d8_base(case: Case) -> Seen:
    """Base branch of the review."""
    if not case.tree.is_repository:
        return absent("no repository")
    base, others = base_of(case)
    if base is None:
        return wrong(
            "neither the remote's default branch nor main nor master is a local branch",
            "--base-branch NAME",
            refused=True,
        )
    if case.tree.commit_of(base) is None:
        return wrong(
            f"there is no local branch {base}", f"git branch {base} COMMIT, or another --base-branch", refused=True
        )
    others = [o for o in others if o != base]
    if others:
        return wrong(f"{base} would be taken, {', '.join(others)} is there too", f"--base-branch {base}")
    return good(base)


def d9_clean(case: Case) -> Seen:
    """Repository, commit, clean tree."""
    tree = case.tree
    if not tree.is_repository:
        return wrong("it is no git repository", "git init, and commit", refused=True)
    if tree.head is None:
        return wrong("it has no commit", "commit once", refused=True)
    if tree.dirty:
        return wrong(f"not clean: {', '.join(tree.dirty[:5])}", "commit, or remove what is yours", refused=True)
    return good("clean")


def d10_ignored(case: Case) -> Seen:
    """`.humanize` and git."""
    tree = case.tree
    if not tree.is_repository:
        return absent("no repository")
    if tree.tracked_state:
        return wrong(f"git tracks {', '.join(tree.tracked_state[:3])}", "git rm -r --cached .humanize, and commit")
    if not tree.ignored:
        return wrong(
            ".humanize is not ignored; Humanize would begin all the same", "echo '.humanize*' >> .git/info/exclude"
        )
    return good("ignored, nothing tracked")


def d11_active(case: Case) -> Seen:
    """Active loops in all folders; Humanize refuses only when the newest is active."""
    active = [item for item in case.loops if item.active]
    if not active:
        return good(f"{len(case.loops)} ended" if case.loops else "none")
    newest = case.loops[-1].active is not None
    told = ", ".join(f"{item.folder.name}/{item.active}" for item in active[:4])
    return wrong(
        f"active: {told}", "resume it, finish it, or cancel it with Humanize's own cancel command", refused=newest
    )


def _root(case: Case) -> Path:
    return Path(case.environ.get("CLAUDE_PROJECT_DIR") or case.checkout)


def d12_plan(case: Case) -> Seen:
    """The runtime's input rules, in the root that the script takes."""
    name = case.args.plan
    if name is None:
        return absent("no plan is named")
    root = _root(case)
    tree = case.tree if os.path.realpath(root) == os.path.realpath(case.checkout) else look(root)
    faults = plan_input.input_faults(name, root, tree, tracked=case.args.tracked_plan)
    if not faults:
        return good(name)
    return wrong(f"{name}: {faults[0]}", f"write it to {PLAN}: infer-forge campaign plan", refused=True)


def d13_content(case: Case) -> Seen:
    """The plan linter."""
    from infer_forge.campaign.plan_lint import lint_file

    name = case.args.plan
    if name is None or not (case.checkout / name).is_file():
        return absent("no plan to read")
    bad = [c for c in lint_file(case.checkout / name, case.campaign) if c.result == "fail"]
    if not bad:
        return good("complete")
    told = "; ".join(f"{c.rule}: {c.evidence}" for c in bad[:4]) + (
        f"; and {len(bad) - 4} more" if len(bad) > 4 else ""
    )
    return wrong(told, f"infer-forge campaign plan --lint {name}")


def d14_flags(case: Case) -> Seen:
    """Words for the set-up script."""
    args, data = case.args, rules_data()
    if args.faults:
        return wrong("; ".join(args.faults), "mend the words; --help of the set-up script lists them", refused=True)
    if "--agent-teams" in args.flags and not case.environ.get("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"):
        return wrong(
            "--agent-teams needs CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1", "set it, or leave the flag out", refused=True
        )
    if args.limit < int(data["min_max"]):
        return wrong(
            f"--max {args.limit}: the last round is never reviewed, so nothing would be",
            f"--max {data['min_max']} or more",
        )
    if "--skip-impl" in args.flags:
        return wrong("--skip-impl begins a loop that only reviews", "leave it out: a campaign's rounds change code")
    return good(" ".join(case.words) or f"--max {args.limit}")


def d15_long(case: Case) -> Seen:
    """Changed files that are too long for the hook."""
    most, long = int(rules_data()["max_file_lines"]), list[str]()
    for name in case.tree.dirty[:2000]:
        place = case.tree.path / name
        with contextlib.suppress(OSError):
            if place.is_file() and (count := place.read_bytes().count(b"\n")) > most:
                long.append(f"{name}: {count} lines")
    return (
        wrong(
            f"{'; '.join(long[:3])}; the hook blocks above {most}", "commit them: the hook looks at uncommitted files"
        )
        if long
        else good("none")
    )


def d16_contract(case: Case) -> Seen:
    """The campaign's contract."""
    if case.campaign is None:
        return unclear("no campaign is named", "name its run directory with --run DIR")
    try:
        found = case.campaign.contract
    except ForgeError as fault:
        return wrong(fault.what, fault.next_step or "restore the file")
    return good(found[1][:12]) if found else wrong("none is locked", "infer-forge campaign lock --config FILE")


RULES: dict[str, Rule] = {
    "D1": d1_runtime, "D2": d2_programs, "D3": d3_flags, "D4": d4_login, "D5": d5_hook, "D6": d6_project, "D7": d7_branch, "D8": d8_base,
    "D9": d9_clean, "D10": d10_ignored, "D11": d11_active, "D12": d12_plan, "D13": d13_content, "D14": d14_flags, "D15": d15_long,
    "D16": d16_contract,
}  # fmt: skip
"""Rule id -> what looks."""
