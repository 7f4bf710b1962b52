"""The guard's context is fed from claims: node, GPUs, epoch and runtimes of what this run holds, and when that was confirmed."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from infer_forge.base import ownership
from infer_forge.base.errors import ForgeError, GateRefused
from infer_forge.nodes.model import Claim

if TYPE_CHECKING:
    from infer_forge.base.machine.clocks import Outcome
    from infer_forge.nodes.registry import Registry

_FENCED_KEPT_S = 7 * 86400.0


def standing(registry: Registry) -> dict[str, Any]:
    """When and on which tip the registry's word was read; call it right after a refresh or an update.

    `truth` is the repository whose claims ref is the registry's last word, where that is a folder of this machine: the
    guard's hook reads the ref's file there and needs no clock. It is None when the hub is elsewhere.
    """
    from infer_forge.base.gitstore.remote import gitdir_of, local_path
    from infer_forge.nodes.registry import CLAIMS

    tip = registry.store.read(CLAIMS).tip
    truth: str | None = os.fspath(registry.store.gitdir)
    if registry.store.remote is not None:
        place = local_path(registry.store.remote.url)
        found = gitdir_of(place) if place is not None else None
        truth = os.fspath(found) if found is not None else None
    return {"confirmed_at": time.time(), "tip": tip, "truth": truth}


def tell_guard(claim: Claim, registry: Registry, *, run_id: str | None = None) -> None:
    """Write a claim into the run's ownership; what stood there of it, and ended claims on the same GPUs, go."""
    entry: dict[str, Any] = {
        "claim_id": claim.claim_id,
        "node": claim.node,
        "gpus": [g.index for g in claim.gpus if g.index is not None],
        "uuids": [g.uuid for g in claim.gpus if g.uuid],
        "epoch": claim.epoch,
        "runtime_ids": [{"kind": r.kind, "id": r.id, "start_ticks": r.start_ticks} for r in claim.runtime_ids],
        **standing(registry),
    }

    def overtaken(old: dict[str, Any]) -> bool:
        same = old.get("node") == claim.node and set(old.get("gpus", [])) & set(entry["gpus"])
        return old.get("claim_id") == claim.claim_id or bool(old.get("fenced") and same)

    with ownership.editing(run_id or claim.run_id) as run:
        run.claims = [c for c in run.claims if not overtaken(c)] + [entry]
    confirm(registry)


def untell_guard(claim_id: str) -> None:
    """Take a claim that was ended here off every run of this machine."""
    for run_id, run in ownership.load().runs.items():
        if any(c.get("claim_id") == claim_id for c in run.claims):
            with ownership.editing(run_id) as mine:
                mine.claims = [c for c in mine.claims if c.get("claim_id") != claim_id]


def confirm(registry: Registry) -> list[str]:
    """Hold the claims of this machine's ownership against the registry as it is known now; ids of those that fell.

    A claim that the registry still holds at its epoch is confirmed; one that it does not is marked fenced, so that the
    guard denies what leans on it instead of forgetting that there was one. Call it after a refresh that reached the hub.
    """
    gone: list[str] = []
    try:
        book = ownership.load()
    except ForgeError:
        return gone  # damaged: the guard treats everything as not owned already
    if not any(run.claims for run in book.runs.values()):
        return gone
    held = {c.claim_id: c.epoch for r in registry.nodes([]) for c in r.claims}
    now = standing(registry)
    for run_id, run in book.runs.items():
        if not any("claim_id" in c for c in run.claims):
            continue
        with ownership.editing(run_id) as mine:
            kept: list[dict[str, Any]] = []
            for entry in mine.claims:
                kept += _confirmed(entry, held, now, gone)
            mine.claims = kept
    return gone


def _confirmed(
    entry: dict[str, Any], held: dict[str, int], now: dict[str, Any], gone: list[str]
) -> list[dict[str, Any]]:
    ident = entry.get("claim_id")
    if ident is None:
        return [entry]
    if held.get(ident) == entry.get("epoch"):
        return [{**entry, **now}]
    if not entry.get("fenced"):
        gone.append(ident)
        return [{**entry, "fenced": True, "fenced_at": now["confirmed_at"]}]
    return [entry] if now["confirmed_at"] - float(entry.get("fenced_at", 0)) < _FENCED_KEPT_S else []


def give_clocks_back(claim_id: str, *, force: bool = False) -> list[Outcome]:
    """Restore the GPU clocks that were locked under a claim of this machine, before it ends.

    Args:
        force: a person ends the claim all the same; what could not be given back stays on record.

    Raises:
        GateRefused: a clock could not be given back: the claim stays held, because nobody else may mend it.
    """
    from infer_forge.base import clocks

    if not clocks.read().open(claim_id):
        return []
    from infer_forge.base.machine.clocks import restore

    done = restore(claim_id)
    failed = [o for o in done if o.result == "failed"]
    if failed and not force:
        raise GateRefused(
            f"the claim stays held, because a clock could not be given back: {failed[0].text}",
            where=claim_id,
            next_step="a person gives it back (nvidia-smi -rgc as root) and runs infer-forge guard clocks --drop ID, or uses --force",
        )
    return done
