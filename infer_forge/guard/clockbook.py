"""What `infer-forge guard clocks` does: the record of clock locks for people, and giving clocks back by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from infer_forge.base import clocks
from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Finding, Report
from infer_forge.base.tables import Column, Table

if TYPE_CHECKING:
    from infer_forge.base.machine.clocks import Outcome


def record(gpus: str | None) -> None:
    """Look at GPUs and write it down.

    Raises:
        MissingPart, InputUnusable: nvidia-smi is not there or does not tell.
    """
    from infer_forge.base.machine import clocks as machine
    from infer_forge.guard.proofs import gpu_list

    machine.record(gpu_list(gpus) if gpus else None)


def declare(gpus: str | None, standing: str, by: str) -> None:
    """A person's word on the lock that GPUs always have.

    Raises:
        UsageFault: no GPUs, or no range.
    """
    from infer_forge.base.machine import clocks as machine
    from infer_forge.guard.proofs import gpu_list

    if not gpus:
        raise UsageFault(
            "--standing needs --gpus", next_step="infer-forge guard clocks --gpus 0-7 --standing 1980,1980"
        )
    low, _, high = standing.partition(",")
    if standing != "none" and not (low.isdigit() and (high or low).isdigit()):
        raise UsageFault(f"{standing!r} is no clock range", next_step="write it as MIN,MAX in MHz, or none")
    mhz = None if standing == "none" else (int(low), int(high or low))
    machine.declare(gpu_list(gpus), mhz, by)


def drop(ident: str, by: str) -> None:
    """A person takes a lock off the record.

    Raises:
        UsageFault: no open lock has this id.
    """
    from infer_forge.base.machine import clocks as machine

    machine.drop(ident, by)


def restore(claim_id: str | None, *, force: bool) -> list[Outcome]:
    """Give clocks back, of a claim (its id may be shortened) or of all.

    Raises:
        UsageFault: no open lock is of this claim.
    """
    from infer_forge.base.machine import clocks as machine

    if claim_id is None:
        return machine.restore(force=force)
    hits = {k.claim_id for k in clocks.read().open() if str(k.claim_id).startswith(claim_id)}
    if len(hits) != 1:
        raise UsageFault(
            "no open lock is of this claim, or several fit", where=claim_id, next_step="infer-forge guard clocks"
        )
    return machine.restore(hits.pop(), force=force)


def report(done: list[Outcome] | None = None) -> Report:
    """The locks of this node since it booted, what is open, and what was just given back."""
    book = clocks.read()
    made = Report("guard_clocks")
    made.add(table(book))
    now = time.time()
    columns = [
        Column("gpu", "int"),
        Column("sm_mhz", "int"),
        Column("max_mhz", "int"),
        Column("age_s", "int"),
        Column("standing", "text"),
    ]
    rows = [
        [gpu, seen.get("sm_mhz"), seen.get("max_mhz"), round(now - float(seen["at"])), _range(book, gpu)]
        for gpu, seen in sorted(book.seen.items())
    ]
    made.add(Table("seen", columns, rows, "Clocks as they were last seen"))
    left = book.open()
    made.extra = {"open": len(left), "lost_lines": book.lost}
    made.summary = [o.text for o in done or []] + [f"{len(left)} clock lock(s) open on this node"]
    made.findings = findings(book)
    if left:
        made.next_step = "infer-forge guard clocks --restore, or end the claim: infer-forge node release CLAIM"
    return made


def _range(book: clocks.Book, gpu: int) -> str:
    mhz = book.standing.get(gpu)
    return f"{mhz[0]},{mhz[1]}" if mhz else "none declared" if gpu in book.standing else "not known"


def table(book: clocks.Book) -> Table:
    """One row a lock."""
    columns = [
        Column("id", "text"), Column("gpu", "int"), Column("mhz", "text"), Column("state", "text"),
        Column("claim_id", "text"), Column("age_s", "int"), Column("why", "text"),
    ]  # fmt: skip
    now = time.time()
    rows = [
        [k.ident, k.gpu, f"{k.want[0]},{k.want[1]}", k.state, k.claim_id, round(now - k.at), k.why] for k in book.locks
    ]
    return Table("clocks", columns, rows, "Clock locks of this node since it booted")


def findings(book: clocks.Book) -> list[Finding]:
    """What a person has to see: locks that could not be given back, and records that were lost."""
    step = "nvidia-smi -i GPU -rgc as root, then infer-forge guard clocks --restore or --drop ID"
    found = [
        Finding(
            "CLOCK_NOT_RESTORED",
            f"GPU {k.gpu} may still be locked at {k.want[0]},{k.want[1]} MHz: {k.why}",
            "error",
            next_step=step,
        )
        for k in book.open()
        if k.state == "restore_failed"
    ]
    if book.lost:
        found.append(Finding("RECORDS_LOST", f"{book.lost} line(s) of {clocks.file()} cannot be read", "warning"))
    return found
