"""Write the commits that the repositories stand on into the root, once each is proved to exist elsewhere."""

from __future__ import annotations

from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.workspace import gitcall, states
from infer_forge.workspace.model import RepoState, Workspace
from infer_forge.workspace.proofs import prove_commit


def pin(workspace: Workspace, names: tuple[str, ...] = ()) -> list[RepoState]:
    """Pin the named repositories (default: all) at their HEAD, in one commit of the root.

    Raises:
        GateRefused: one is dirty, absent, or on a commit that its remote does not have; nothing is pinned then.
        InputUnusable: there is no such repository.
    """
    unknown = [n for n in names if n not in workspace.entries]
    if unknown:
        raise InputUnusable(f"not in the workspace: {', '.join(unknown)}", next_step="infer-forge workspace status")
    found = states.states(workspace, names)
    faults = [f for state in found if (f := _fault(workspace, state))]
    if faults:
        raise GateRefused("; ".join(faults), next_step="infer-forge workspace status")
    moved = [s for s in found if s.commit != s.pinned]
    if moved:
        paths = [workspace.entries[s.name].path for s in moved]
        told = ", ".join(f"{s.name} {(s.commit or '')[:12]}" for s in moved)
        gitcall.commit_all(workspace.root, f"Pin {told}", *paths)
    return states.states(workspace, names)


def _fault(workspace: Workspace, state: RepoState) -> str | None:
    for trouble in (states.ABSENT, states.EMPTY, states.UNREADABLE, states.DIRTY):
        if trouble in state.states:
            return f"{state.name}: {state.said[state.states.index(trouble)]}"
    proof = prove_commit(workspace.folder(workspace.entries[state.name]), state.commit or "")
    return None if proof.holds else f"{state.name}: {proof.why}; push {(state.commit or '')[:12]} first"
