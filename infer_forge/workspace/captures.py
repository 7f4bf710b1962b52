"""The commits that a result stands on: captured with it, proved to exist, and proved again later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.tables import Column, Table
from infer_forge.workspace import gitcall, layout, states
from infer_forge.workspace.linting import lint_root
from infer_forge.workspace.model import UNREACHABLE, Proof, RepoState, Workspace
from infer_forge.workspace.proofs import prove_commit, secure_commit

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"


def capture(folders: Mapping[str, Path], *, bundles_to: Path | None = None) -> dict[str, Any]:
    """The state of every repository that a result stands on, each commit with its proof.

    Args:
        folders: name -> checkout. bundles_to: where commits that no remote has are kept as bundles; None: they are not.

    Returns:
        `{schema, repositories: {name: {path, commit, branch, remote, changed, untracked, proof, why, bundle}}, verdict,
        digest}`. The verdict is fail when a commit is not proved or files are changed, unknown when a remote is silent.
    """
    found = {name: _captured(name, folder, bundles_to) for name, folder in folders.items()}
    verdicts = [r["verdict"] for r in found.values()]
    verdict = FAIL if FAIL in verdicts else UNKNOWN if UNKNOWN in verdicts else PASS
    record: dict[str, Any] = {"schema": 1, "repositories": found, "verdict": verdict}
    return {
        **record,
        "digest": jsonio.sha256_of({n: [r["commit"], r["changed"], r["untracked"]] for n, r in found.items()}),
    }


def _captured(name: str, folder: Path, bundles_to: Path | None) -> dict[str, Any]:
    state = states.state_of(folder, name=name)
    facts: dict[str, Any] = {
        "path": str(folder),
        "commit": state.commit,
        "branch": state.branch,
        "remote": state.remote,
        "changed": state.changed,
        "untracked": state.untracked,
        "bundle": None,
    }
    if states.UNREADABLE in state.states:
        return {**facts, "proof": None, "why": state.said[state.states.index(states.UNREADABLE)], "verdict": UNKNOWN}
    if state.commit is None:
        return {**facts, "proof": None, "why": state.said[0], "verdict": FAIL}
    if bundles_to is None:
        proof = prove_commit(folder, state.commit)
    else:
        proof = secure_commit(folder, state.commit, bundles_to / f"{name}-{state.commit[:16]}.bundle")
    return {
        **facts,
        "bundle": proof.bundle,
        "proof": proof.state,
        "why": _why(state, proof),
        "verdict": _verdict(state, proof),
    }


def _why(state: RepoState, proof: Proof) -> str:
    dirty = f"; {state.changed} changed and {state.untracked} untracked files are in no commit" if _dirty(state) else ""
    return f"{proof.why}{dirty}"


def _dirty(state: RepoState) -> bool:
    return bool(state.changed or state.untracked)


def _verdict(state: RepoState, proof: Proof) -> str:
    if _dirty(state) or (not proof.holds and proof.state != UNREACHABLE):
        return FAIL
    return PASS if proof.holds else UNKNOWN


def prove_record(record: Mapping[str, Any], folders: Mapping[str, Path]) -> list[list[Any]]:
    """Prove every commit of a capture again: rows of (repo, result, commit, why)."""
    rows: list[list[Any]] = []
    for name, facts in record["repositories"].items():
        folder = folders.get(name) or Path(facts["path"])
        if not facts.get("commit"):
            unseen = facts.get("verdict") == UNKNOWN
            rows.append([name, UNKNOWN if unseen else FAIL, None, facts.get("why") or "no commit was captured"])
        elif not (folder / ".git").exists():
            rows.append([name, UNKNOWN, facts["commit"], f"its repository is not here: {folder}"])
        else:
            bundles = (facts["bundle"],) if facts.get("bundle") else ()
            proof = prove_commit(folder, facts["commit"], bundles=bundles)
            result = PASS if proof.holds else UNKNOWN if proof.state == UNREACHABLE else FAIL
            if facts.get("changed") or facts.get("untracked"):
                result, why = FAIL, "the result stood on files that are in no commit"
            elif facts.get("changed", 0) is None:
                result, why = UNKNOWN, "whether the result stood on changed files was not seen"
            else:
                why = proof.why
            rows.append([name, result, facts["commit"], why])
    return rows


def read_record(path: Path) -> dict[str, Any]:
    """A capture from its file.

    Raises:
        InputUnusable: it is none.
    """
    data: Any = jsonio.read_json(path)
    found: Any = cast("dict[str, Any]", data).get("repositories") if isinstance(data, dict) else None
    items: list[Any] = list(cast("dict[str, Any]", found).values()) if isinstance(found, dict) else []
    if not items or not all(_is_capture(i) for i in items):
        raise InputUnusable(
            "this is no capture of repositories", where=str(path), next_step="infer-forge workspace verify --task TASK"
        )
    return cast("dict[str, Any]", data)


def _is_capture(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    facts = cast("dict[str, Any]", item)
    commit, bundle = facts.get("commit"), facts.get("bundle")
    whole = commit is None or bool(re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", str(commit)))
    return (
        whole and isinstance(facts.get("path"), str) and (bundle is None or {"path", "sha256", "commit"} <= set(bundle))
    )


def verify(
    workspace: Workspace, record: Path | None = None, *, task: str | None = None, bundle: bool = False
) -> Report:
    """Prove the commits of a task's worktrees (and keep the capture in the root), of a capture, or of the root's pins.

    Returns:
        The report; its `verdict` is pass, fail or unknown (a remote is silent, or a repository is not here).
    """
    report = Report("workspace_verify", Header(more={"root": str(workspace.root)}))
    if record is not None:
        data = read_record(record)
        report.header.inputs.append(InputFile.of(record))
        rows = prove_record(data, {n: workspace.folder(e) for n, e in workspace.entries.items()})
    elif task is not None:
        rows = _of_task(workspace, task, bundle, report)
    else:
        rows = [*_of_pins(workspace), *([path, FAIL, None, why] for path, why in lint_root(workspace))]
    verdict = FAIL if any(r[1] == FAIL for r in rows) else UNKNOWN if any(r[1] == UNKNOWN for r in rows) else PASS
    report.add(Table("checks", [Column(c, "text") for c in ("what", "result", "commit", "why")], rows))
    report.extra["verdict"] = verdict
    report.summary = [f"{verdict}: {sum(1 for r in rows if r[1] == PASS)} of {len(rows)} hold"]
    if verdict == FAIL:
        report.next_step = (
            "commit and push what is named, or keep it with infer-forge workspace verify --task TASK --bundle"
        )
    return report


def _of_task(workspace: Workspace, task: str, bundle: bool, report: Report) -> list[list[Any]]:
    from infer_forge.workspace.worktrees import folders_of

    kept = workspace.root / ".git" / "infer-forge" / "bundles" / task
    record = capture(folders_of(workspace, task), bundles_to=kept if bundle else None)
    file = workspace.root / layout.TASKS / f"{task}.commits.json"
    jsonio.write_atomic(file, jsonio.dumps({"task": task, **record}, indent=True) + b"\n")
    gitcall.commit_all(workspace.root, f"Commits of {task}", str(file.relative_to(workspace.root)))
    report.extra["capture"] = {"path": str(file), "digest": record["digest"]}
    return [[n, r["verdict"], r["commit"], r["why"]] for n, r in record["repositories"].items()]


def _of_pins(workspace: Workspace) -> list[list[Any]]:
    rows: list[list[Any]] = []
    pinned = states.pins(workspace.root)
    for name, entry in sorted(workspace.entries.items()):
        commit, folder = pinned.get(entry.path), workspace.folder(entry)
        if commit is None:
            rows.append([name, FAIL, None, "the root pins no commit of it"])
        elif not (folder / ".git").exists():
            rows.append([name, UNKNOWN, commit, "it is not checked out: infer-forge workspace sync"])
        else:
            proof = prove_commit(folder, commit)
            result = PASS if proof.holds else UNKNOWN if proof.state == UNREACHABLE else FAIL
            rows.append([name, result, commit, proof.why])
    known = {e.path for e in workspace.entries.values()}
    strange = [(path, commit) for path, commit in pinned.items() if path not in known]
    return rows + [[path, FAIL, commit, "a submodule that the descriptor does not name"] for path, commit in strange]
