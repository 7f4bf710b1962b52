"""Hangs: who is missing from a collective, not who prints; the odd one out among stacks; what the flight recorder shows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from infer_forge.crash import names
from infer_forge.crash.model import Context, Event, Stack, Suspect, Verdict

_SCHEDULER_RANK = re.compile(r"(?:TP|rank|Rank|Worker_?)(\d+)")
MAX_WORLD = 65_536
_IDLE = ("wait", "poll", "select", "_wait_for_tstate_lock", "recv", "epoll_wait", "acquire", "get", "sleep", "accept")


def judge_hang(
    v: Verdict,
    events: list[Event],
    stacks: list[Stack],
    flight: dict[str, Any] | None,
    context: Context,
    *,
    keep_class: bool = False,
) -> None:
    """Fill the hang part of a verdict; flight recorder over stacks over NCCL's own lines."""
    table = _table(events)
    waiting = {r["rank"] for r in table if r["rank"] is not None and r["seq"] is not None}
    waiting |= {e.rank for e in events if e.sig == "watchdog_hang" and e.rank is not None}
    observers = sorted(waiting, key=lambda r: (isinstance(r, str), str(r).zfill(20)))
    world = context.world or _world(events) or (flight or {}).get("world")
    v.hang = {"observers": observers, "world": world, "collectives": table[:64], "divergence": None, "odd_stacks": None}
    if not keep_class:
        v.certainty = "surfaced_only"
        v.rank = None
    found = False
    if flight is not None:
        found = _by_flight(v, flight, keep_class=keep_class)
    odd = odd_one_out(stacks)
    if odd is not None:
        v.hang["odd_stacks"] = odd["json"]
        if not found:
            found = True
            _odd(v, odd, keep_class=keep_class)
    if not found and table:
        found = _by_sequence(v, table, world, keep_class=keep_class, observers=observers)
    if v.step == "pyspy":
        pid = next((e.facts.get("pid") or e.origin.pid for e in events if e.facts.get("pid") or e.origin.pid), None)
        v.step_words["pid"] = str(pid) if pid is not None else "PID_OF_EACH_RANK"
    if not stacks:
        v.missing_inputs.append("py-spy stacks of every rank, taken while it hangs")
    if flight is None:
        v.missing_inputs.append(
            "flight-recorder dumps of every rank (TORCH_NCCL_TRACE_BUFFER_SIZE, TORCH_NCCL_DUMP_ON_TIMEOUT)"
        )
    if any(e.sig == "nccl_timeout" for e in events):
        v.not_evidence.append(
            "the rank whose watchdog prints is the one that waited: printing proves nothing against it"
        )


def _table(events: list[Event]) -> list[dict[str, Any]]:
    """One row for each (process group, rank): the first collective that did not finish, and how far the rank came."""
    status: dict[tuple[str, Any], dict[str, Any]] = {}
    for e in events:
        if e.sig == "nccl_status":
            enqueued: Any = e.facts.get("enqueued") or e.facts.get("enqueued2")
            completed: Any = e.facts.get("completed") or e.facts.get("completed2")
            status[(str(e.facts["pg"]), _rank(e))] = {
                "enqueued": int(enqueued),
                "completed": int(completed),
                "ref": e.ref,
            }
    rows: dict[tuple[str | None, Any], dict[str, Any]] = {}
    for e in events:
        if e.sig != "nccl_timeout":
            continue
        rank, seq = _rank(e), int(e.facts["seq"])
        group = e.facts.get("pg")
        if group is None:
            fitting = [pg for (pg, r), s in status.items() if r == rank and s["completed"] < seq <= s["enqueued"]]
            group = fitting[0] if len(fitting) == 1 else None
        row = rows.get((group, rank))
        if row is None or seq < row["seq"]:
            rows[(group, rank)] = {
                "pg": group,
                "rank": rank,
                "seq": seq,
                "op": e.facts["op"],
                "numel_in": _int(e.facts.get("numel_in")),
                "numel_out": _int(e.facts.get("numel_out")),
                "enqueued": None,
                "completed": None,
                "ref": e.ref,
            }
    for (pg, rank), state in status.items():
        row = rows.get((pg, rank))
        if row is None:
            rows[(pg, rank)] = {
                "pg": pg,
                "rank": rank,
                "seq": None,
                "op": None,
                "numel_in": None,
                "numel_out": None,
                "ref": state["ref"],
            } | state
        else:
            row.update(enqueued=state["enqueued"], completed=state["completed"])
    return sorted(rows.values(), key=lambda r: (str(r["pg"]), str(r["rank"]).zfill(6)))


def _rank(event: Event) -> Any:
    return int(event.facts["rank"]) if event.facts.get("rank") is not None else event.rank


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def _world(events: list[Event]) -> int | None:
    """An all-gather's output holds one input for each member."""
    for e in events:
        if e.sig == "nccl_timeout" and "ALLGATHER" in e.facts["op"] and e.facts.get("numel_in"):
            n_in, n_out = int(e.facts["numel_in"]), int(e.facts["numel_out"])
            if n_in > 0 and n_out % n_in == 0 and 0 < n_out // n_in <= MAX_WORLD:
                return n_out // n_in
    return None


def _by_sequence(
    v: Verdict, table: list[dict[str, Any]], world: int | None, *, keep_class: bool, observers: list[Any]
) -> bool:
    """Divergence from NCCL's own lines: another operation or size at one number, a rank behind, a rank that is missing."""
    groups: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for row in table:
        if row["seq"] is not None or row["enqueued"] is not None:
            groups[row["pg"]].append(row)
    if not groups:
        return False
    rows = max(groups.values(), key=lambda g: (sum(r["seq"] is not None for r in g), len(g)))
    stuck = [r for r in rows if r["seq"] is not None]
    if not stuck:
        return False
    known = stuck[0]["pg"] is not None
    seqs = {r["seq"] for r in stuck}
    first = min(seqs)
    v.hang = {
        **(v.hang or {}),
        "pg": stuck[0]["pg"],
        "seq": first,
        "op": next(r["op"] for r in stuck if r["seq"] == first),
    }
    if len(seqs) > 1:
        behind = [r for r in stuck if r["seq"] == first]
        _diverged(
            v,
            behind,
            stuck,
            f"is at sequence {first}, others at {max(seqs)}",
            keep_class=keep_class,
            certain=known and len(stuck) >= 3 and len(behind) == 1,
        )
        return True
    shapes = Counter((r["op"], r["numel_in"], r["numel_out"]) for r in stuck)
    if len(shapes) > 1:
        common, count = shapes.most_common(1)[0]
        odd = [r for r in stuck if (r["op"], r["numel_in"], r["numel_out"]) != common]
        shown = f"{odd[0]['op']} with {odd[0]['numel_in']} elements, the others {common[0]} with {common[1]}"
        _diverged(
            v,
            odd,
            stuck,
            f"entered {shown} at sequence {first}",
            keep_class=keep_class,
            certain=known and count >= 2 and len(odd) == 1,
        )
        return True
    lagging = [r for r in rows if r["seq"] is None and r["enqueued"] is not None and r["enqueued"] < first]
    if lagging:
        _diverged(
            v,
            lagging,
            stuck,
            f"enqueued only up to {lagging[0]['enqueued']}, the others wait at {first}",
            keep_class=keep_class,
            certain=known and len(lagging) == 1,
            desync=False,
        )
        return True
    if world:
        _absent(v, stuck, first, [r for r in range(world) if r not in observers], len(observers), keep_class=keep_class)
    return True


def _absent(
    v: Verdict, stuck: list[dict[str, Any]], first: int, absent: list[int], seen: int, *, keep_class: bool
) -> None:
    """Ranks of the group that do not tell that they wait: one among many is a suspect, several may only lack their logs."""
    if absent:
        if len(absent) == 1 and seen >= 2:
            v.rank = v.rank if keep_class else absent[0]
            v.suspects.append(
                Suspect(
                    f"rank {absent[0]}",
                    f"does not wait in {stuck[0]['op']} {first}, as all the others do",
                    "medium",
                    [r["ref"] for r in stuck[:4]],
                )
            )
        else:
            v.suspects.append(
                Suspect(
                    f"ranks {', '.join(map(str, absent[:8]))}",
                    "do not tell that they wait; their logs may only be missing",
                    "low",
                    [r["ref"] for r in stuck[:2]],
                )
            )


def _diverged(
    v: Verdict,
    odd: list[dict[str, Any]],
    all_rows: list[dict[str, Any]],
    how: str,
    *,
    keep_class: bool,
    certain: bool,
    desync: bool = True,
) -> None:
    ranks = [r["rank"] for r in odd]
    v.hang = {**(v.hang or {}), "divergence": {"ranks": ranks, "how": how}}
    if not keep_class:
        if desync:
            v.cls = "nccl_desync"
            v.meaning = "ranks are at different collectives: the first one that differs is the place to look"
        if len(ranks) == 1:
            v.rank = ranks[0]
        if certain:
            v.certainty = "bounded"
    elif "nccl_desync" not in v.secondary and desync:
        v.secondary.append("nccl_desync")
    for row in odd[:3]:
        v.suspects.append(
            Suspect(
                f"rank {row['rank']}",
                how,
                "high" if certain else "medium",
                [row["ref"], *(r["ref"] for r in all_rows if r not in odd)][:3],
            )
        )


def _by_flight(v: Verdict, flight: dict[str, Any], *, keep_class: bool) -> bool:
    if flight.get("kind") in (None, "UNDECIDED", "FULLY_MATCHED"):
        return False
    v.hang = {
        **(v.hang or {}),
        "divergence": {k: flight[k] for k in ("kind", "pg", "seq", "ranks", "how")},
        "pg": flight["pg"],
        "seq": flight["seq"],
    }
    desync = flight["kind"] != "MISSING_RANK" and flight["kind"] != "COLLECTIVE_STATE_MISMATCH"
    if not keep_class:
        v.cls = "nccl_desync" if desync else "nccl_timeout"
        v.meaning = flight["how"]
        v.rank = flight["ranks"][0] if len(flight["ranks"]) == 1 else None
        v.certainty = "bounded" if flight["certain"] else "surfaced_only"
        v.api = flight.get("op")
        if flight.get("frame"):
            v.location = {"file": flight["frame"][0], "line": flight["frame"][1]}
        v.step = "pyspy"
    for rank in flight["ranks"][:3]:
        v.suspects.insert(
            0, Suspect(f"rank {rank}", flight["how"], "high" if flight["certain"] else "medium", flight["refs"][:3])
        )
    return True


def _stack_rank(stack: Stack) -> Any:
    if stack.origin.rank is not None or stack.origin.label:
        return stack.origin.rank if stack.origin.rank is not None else stack.origin.label
    found = _SCHEDULER_RANK.search(stack.process or "")
    return int(found.group(1)) if found else (f"pid {stack.pid}" if stack.pid is not None else None)


def _shape(stack: Stack) -> tuple[str, ...]:
    """The innermost frames that say what a thread does; bare waits are left out."""
    frames = [f[0] for f in stack.frames if f[0].rsplit(".", 1)[-1] not in _IDLE][:4]
    return tuple(frames) or tuple(f[0] for f in stack.frames[:2])


def odd_one_out(stacks: list[Stack]) -> dict[str, Any] | None:
    """Among the main threads of at least three processes, the few whose stack differs from the most.

    Returns:
        None when there is no such majority; else `ranks`, `stack`, `common`, `json`.
    """
    mains: dict[Any, Stack] = {}
    for stack in stacks:
        if not stack.frames or not (
            stack.thread in ("MainThread", "current")
            or (stack.active is not False and "MainThread" not in {s.thread for s in stacks if s.pid == stack.pid})
        ):
            continue
        rank = _stack_rank(stack)
        if rank is not None and not (
            stack.process
            and "scheduler" not in stack.process
            and "Worker" not in stack.process
            and "rank" not in stack.process.lower()
            and stack.origin.rank is None
        ):
            mains.setdefault(rank, stack)
    if len(mains) < 3:
        return None
    counts = Counter(_shape(s) for s in mains.values())
    common, number = counts.most_common(1)[0]
    odd = {r: s for r, s in mains.items() if _shape(s) != common}
    if not odd or number <= len(mains) // 2:
        return None
    waiting = any(names.is_collective(f) for f in common)
    first = next(iter(odd.values()))
    shown = {
        "ranks": list(odd),
        "common": list(common),
        "odd": [
            {
                "rank": r,
                "frames": [f"{f[0]} ({f[1]}:{f[2]})" for f in s.frames[:6]],
                "ref": f"{s.origin.path}:{s.line_no}",
            }
            for r, s in list(odd.items())[:4]
        ],
    }
    return {"ranks": list(odd), "stack": first, "common": common, "waiting": waiting, "json": shown}


def _odd(v: Verdict, odd: dict[str, Any], *, keep_class: bool) -> None:
    stack: Stack = odd["stack"]
    frame = stack.frames[0]
    single = len(odd["ranks"]) == 1
    certain = single and odd["waiting"]
    if not keep_class:
        v.rank = odd["ranks"][0] if single else None
        v.certainty = "bounded" if certain else "surfaced_only"
        v.location = {"file": frame[1], "line": frame[2]} if certain else None
    for rank in odd["ranks"][:3]:
        why = f"stands in {frame[0]} while the others stand in {odd['common'][0]}"
        v.suspects.append(
            Suspect(f"rank {rank}", why, "high" if certain else "medium", [f"{stack.origin.path}:{stack.line_no}"])
        )
    v.step = "flight_recorder"
