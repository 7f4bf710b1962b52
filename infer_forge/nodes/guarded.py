"""The guard's context is fed from claims: node, GPUs, epoch and runtimes of what this run holds."""

from __future__ import annotations

from typing import Any

from infer_forge.base import ownership
from infer_forge.base.errors import ForgeError
from infer_forge.nodes.model import Claim


def tell_guard(claim: Claim, *, run_id: str | None = None) -> None:
    """Write a claim into the run's ownership, in place of what stood there of the same claim."""
    entry: dict[str, Any] = {
        "claim_id": claim.claim_id,
        "node": claim.node,
        "gpus": [g.index for g in claim.gpus if g.index is not None],
        "uuids": [g.uuid for g in claim.gpus if g.uuid],
        "epoch": claim.epoch,
        "runtime_ids": [{"kind": r.kind, "id": r.id, "start_ticks": r.start_ticks} for r in claim.runtime_ids],
    }
    with ownership.editing(run_id or claim.run_id) as run:
        run.claims = [c for c in run.claims if c.get("claim_id") != claim.claim_id] + [entry]


def untell_guard(claim_id: str) -> None:
    """Take an ended claim off every run of this machine."""
    for run_id, run in ownership.load().runs.items():
        if any(c.get("claim_id") == claim_id for c in run.claims):
            with ownership.editing(run_id) as mine:
                mine.claims = [c for c in mine.claims if c.get("claim_id") != claim_id]


def refresh_guard(held: dict[str, int]) -> list[str]:
    """Drop claims from this machine's ownership that the registry no longer holds at that epoch; their ids.

    Args:
        held: claim id -> epoch, of all claims that hold.
    """
    gone: list[str] = []
    try:
        book = ownership.load()
    except ForgeError:
        return gone  # damaged: the guard treats everything as not owned already
    for run_id, run in book.runs.items():
        dead = [c["claim_id"] for c in run.claims if "claim_id" in c and held.get(c["claim_id"]) != c.get("epoch")]
        if dead:
            with ownership.editing(run_id) as mine:
                mine.claims = [c for c in mine.claims if c.get("claim_id") not in dead]
            gone += dead
    return gone
