"""D7 to D16: what must hold of checkout, plan and words before the set-up script is called."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from infer_forge.base.errors import ForgeError
from infer_forge.campaign.rlcr import plan_input
from infer_forge.campaign.rlcr.model import PLAN, Case, Rule, Seen, absent, good, rules_data, unclear, wrong
from infer_forge.campaign.rlcr.tree import look


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
    "D7": d7_branch, "D8": d8_base, "D9": d9_clean, "D10": d10_ignored, "D11": d11_active, "D12": d12_plan, "D13": d13_content,
    "D14": d14_flags, "D15": d15_long, "D16": d16_contract,
}  # fmt: skip
"""Rule id -> what looks."""
