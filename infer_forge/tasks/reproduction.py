"""The reproduction path of a deliverable: collected from the records and verified before it counts (landscape 8.3, B16, B44)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.paths import paths
from infer_forge.tasks import surroundings
from infer_forge.tasks.predicates import Outcome
from infer_forge.tasks.state import Execution, Task

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
Check = tuple[str, str, str]
"""(rule, pass|fail|unknown, what was seen)."""


def path_of(task: Task, outcomes: list[Outcome]) -> dict[str, Any]:
    """Commits, image, deployment and workload configuration, commands, results, failed attempts: as the records tell them."""
    point = task.typed.contract.deployment_point
    ran = [e for e in task.executions.values() if e.phase in ("result", "resolved")]
    used = {name for o in outcomes for name in (o.evidence or "").split(", ")}
    return {
        "commits": commits(task),
        "image": point.runtime_profile.image_digest if point else None,
        "deployment_point": point.model_dump(mode="json", exclude_defaults=True) if point else None,
        "benchmark_contract_sha256": task.typed.contract.benchmark_contract_sha256,
        "environments": sorted({e.intent["environment"]["digest"] for e in ran if e.intent.get("environment")}),
        "commands": [_command(e) for e in ran if e.exit_code == 0],
        "failed_attempts": [_command(e) for e in ran if e.exit_code != 0] + _rejected(task),
        "results": [_result(task, i.id, i.id in used) for i in task.evidence if not i.fenced],
        "acceptance": [{"result": o.result, "why": o.why, "evidence": o.evidence} for o in outcomes],
    }


def _command(execution: Execution) -> dict[str, Any]:
    return {
        "id": execution.id,
        "label": execution.label,
        "argv": execution.argv,
        "cwd": execution.intent.get("cwd"),
        "exit_code": execution.exit_code,
        "why": execution.result.get("why"),
        "node": execution.intent.get("node"),
        "claims": execution.intent.get("claims", []),
    }


def _rejected(task: Task) -> list[dict[str, Any]]:
    return [
        {"block": b.number, "sub_target": b.sub_target, "outcome": b.outcome, "note": b.note}
        for b in task.blocks
        if b.outcome in ("rejected", "constraint", "blocked")
    ]


def _result(task: Task, item_id: str, decided: bool) -> dict[str, Any]:
    item = next(i for i in task.evidence if i.id == item_id)
    return {
        "id": item.id,
        "kind": item.kind,
        "path": item.path,
        "sha256": item.sha256,
        "trust": item.trust,
        "execution": item.execution,
        "decided_acceptance": decided,
    }


def commits(task: Task) -> list[dict[str, Any]]:
    """Every repository state that a recorded run stood on, once."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for execution in task.executions.values():
        for repo in execution.intent.get("repositories", []):
            if repo["commit"] is None:
                continue  # told by `_captured`
            kept: dict[str, Any] = repo.get("patch") or {}
            patch = kept.get("sha256")
            key: tuple[Any, ...] = (repo.get("path") or repo["name"], repo["commit"], patch)
            keep = ("name", "path", "git_dir", "commit", "branch", "remote", "changed", "unseen", "patch")
            entry = found.setdefault(key, {k: repo.get(k) for k in keep} | {"executions": []})
            entry["executions"].append(execution.id)
    return list(found.values())


def checks(task: Task, path: dict[str, Any], outcomes: list[Outcome]) -> list[Check]:
    """Whether the path can be walked again from what is kept; a fail or an unknown keeps a deliverable from counting."""
    return [
        _acceptance(outcomes),
        _captured(task, outcomes),
        _commits(task, path["commits"]),
        _patches(path["commits"]),
        _results(path["results"]),
        _commands(task),
        _point(task),
    ]


def _acceptance(outcomes: list[Outcome]) -> Check:
    bad = [f"{o.result}: {o.why}" for o in outcomes if o.result != PASS]
    worst = FAIL if any(o.result == FAIL for o in outcomes) else UNKNOWN
    return ("acceptance", worst if bad else PASS, "; ".join(bad[:3]) or f"{len(outcomes)} predicates pass")


def _captured(task: Task, outcomes: list[Outcome]) -> Check:
    """Every run that decided the acceptance captured the commit of each repository of the task (B16)."""
    deciding = {name for o in outcomes for name in (o.evidence or "").split(", ")}
    deciding |= {str(i.execution) for i in task.evidence if i.id in deciding}
    runs = [e for e in task.executions.values() if e.id in deciding]
    seen = [(e, {r["name"]: r for r in e.intent.get("repositories", [])}) for e in runs]
    lost = [
        f"{e.id} ran without {n}: {r['missing']}" for e, found in seen for n, r in found.items() if r.get("missing")
    ]
    if lost:
        return ("repositories", FAIL, "; ".join(lost[:3]))
    named = {Path(n).name.removesuffix(".git"): n for n in task.typed.repositories}
    blind = [f"{e.id} captured no commit of {n}" for e, found in seen for n in named if n not in found]
    if blind:
        return (
            "repositories",
            UNKNOWN,
            f"{'; '.join(blind[:3])}: infer-forge task record {task.id} --repository NAME=FOLDER -- COMMAND",
        )
    return ("repositories", PASS, f"{len(runs)} deciding runs captured every repository of the task")


def _commits(task: Task, found: list[dict[str, Any]]) -> Check:
    """Every commit can be had again: its remote, asked now, has it, or a bundle that was read back holds it (B16)."""
    states = [(c, surroundings.commit_state(_place(c), c["commit"]) if c["path"] else "unseen") for c in found]
    for bad, verdict in (("missing", FAIL), ("unseen", UNKNOWN)):
        named = [f"{c['name']} {c['commit'][:12]}" for c, s in states if s == bad]
        if named:
            said = (
                "is not in its repository" if bad == "missing" else "lies in a repository that is not on this machine"
            )
            return ("commits", verdict, f"{', '.join(named[:3])} {said}")
    unproved = [why for c, _ in states if (why := _secure(task, c))]
    if unproved:
        return ("commits", UNKNOWN, "; ".join(unproved[:3]))
    kept = sum("bundle" in c for c in found)
    tail = f", {kept} of them in a kept bundle" if kept else ""
    return ("commits", PASS, f"{len(states)} commits are proved{tail}" if states else "no run stood on a repository")


def _place(entry: dict[str, Any]) -> str:
    """Where a commit is looked for: its checkout, or the git folder of a worktree that was closed since."""
    kept = entry.get("git_dir")
    return str(kept) if kept and not Path(entry["path"]).is_dir() else str(entry["path"])


def _secure(task: Task, entry: dict[str, Any]) -> str | None:
    """Keep a commit that no remote shows as a bundle, and note it in the entry; why it could not be proved, else None."""
    from infer_forge.workspace import secure_commit

    file = paths().runs / "tasks" / task.id / "bundles" / f"{entry['commit']}.bundle"
    proof = secure_commit(Path(_place(entry)), entry["commit"], file)
    if not proof.holds:
        return f"{entry['name']} {entry['commit'][:12]}: {proof.why}"
    if proof.bundle is not None:
        entry["bundle"] = proof.bundle
    return None


def _patches(found: list[dict[str, Any]]) -> Check:
    lost = [c["name"] for c in found if c["changed"] and not _intact(c["patch"])]
    if lost:
        return ("changes", FAIL, f"{', '.join(lost)} ran with uncommitted changes of which no whole patch is kept")
    unseen = [f"{c['name']} ({c['unseen']})" for c in found if c.get("unseen")]
    if unseen:
        return ("changes", UNKNOWN, f"whether files were changed was not seen: {', '.join(unseen[:3])}")
    return ("changes", PASS, "every run stood on a commit, or on one and a kept patch")


def _intact(file: dict[str, Any] | None) -> bool:
    return bool(file) and Path(file["path"]).is_file() and jsonio.sha256_file(file["path"]) == file["sha256"]


def _results(found: list[dict[str, Any]]) -> Check:
    changed, gone = list[str](), list[str]()
    for item in found:
        if not item["decided_acceptance"] or not item["path"]:
            continue
        if not Path(item["path"]).is_file():
            gone.append(item["path"])
        elif jsonio.sha256_file(item["path"]) != item["sha256"]:
            changed.append(item["path"])
    if changed:
        return ("results", FAIL, f"{', '.join(changed[:3])} changed since it was recorded")
    if gone:
        return ("results", UNKNOWN, f"{', '.join(gone[:3])} is not there any more")
    return ("results", PASS, "every deciding file is there with its hash")


def _commands(task: Task) -> Check:
    """Evidence that claims to be observed has the run that made it."""
    unmade = [i.id for i in task.evidence if i.trust == "observed" and i.execution not in task.executions]
    return ("commands", FAIL if unmade else PASS, ", ".join(unmade) or "observed evidence names the run that made it")


def _point(task: Task) -> Check:
    from infer_forge.base import contracts
    from infer_forge.tasks.model import is_performance

    contract = task.typed.contract
    if not is_performance(task.typed):
        return ("deployment-point", PASS, "no performance claim is made")
    point: Any = contract.deployment_point
    lacking = contracts.missing(point, varying=contract.may_vary) if point is not None else ["all of it"]
    return ("deployment-point", FAIL if lacking else PASS, ", ".join(lacking) or "complete")
