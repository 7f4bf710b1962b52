"""Which process belongs to which rank: merged files hold several ranks whose ids collide; everything is linked within one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from infer_forge.trace.model import RankGroup

_PART = re.compile(r"(?<![A-Za-z])(TP|PP|EP|DP|CP|rank|worker)[-_ ]?0*(\d+)(?!\d)", re.IGNORECASE)


@dataclass
class Grouping:
    """Rank groups of a file, and the group of every thread id; groups of device threads may differ from item to item."""

    groups: list[RankGroup]
    of_thread: npt.NDArray[np.int16]
    device_votes: bool
    """Device work carries no label: its group is that of the process that launched most of the device's work."""


def rank_parts(text: str) -> tuple[tuple[str, int], ...]:
    """Rank names in a pid, file or folder name: ("TP", 0), ("PP", 1) ..., upper-cased, in order of appearance."""
    return tuple((m[1].upper(), int(m[2])) for m in _PART.finditer(text))


def group_threads(threads: list[tuple[str, str]], launching: set[str], header: dict[str, Any]) -> Grouping:
    """Groups from labels in the pids (SGLang's merged traces), else from the processes that launch, else one.

    Args:
        threads: (pid, tid) by thread id.
        launching: pids whose runtime calls launch device work.
        header: distributedInfo.
    """
    rank = header.get("rank")
    own = rank if isinstance(rank, int) and not isinstance(rank, bool) else None
    labels = {pid: _label(pid) for pid, _ in threads}
    named = sorted({v for v in labels.values() if v}, key=_natural)
    if len(named) > 1:
        return _labelled(threads, labels, named)
    if len(launching) > 1:
        pids = sorted(launching, key=_natural)
        number = {pid: k for k, pid in enumerate(pids)}
        of_thread = np.array([number.get(pid, 0) for pid, _ in threads], np.int16)
        return Grouping([RankGroup(None, pid, (pid,)) for pid in pids], of_thread, True)
    everyone = tuple(sorted({pid for pid, _ in threads}, key=_natural))
    label = named[0] if named else (next(iter(launching)) if launching else "")
    group = RankGroup(own, label, everyone, "distributedInfo" if own is not None else "unknown")
    return Grouping([group], np.zeros(len(threads), np.int16), False)


def _labelled(threads: list[tuple[str, str]], labels: dict[str, str], named: list[str]) -> Grouping:
    number = {label: k for k, label in enumerate(named)}
    ranks = ranks_of([rank_parts(label) for label in named])
    groups: list[RankGroup] = []
    for rank, label in zip(ranks, named, strict=True):
        pids = tuple(sorted((p for p, v in labels.items() if v == label), key=_natural))
        groups.append(RankGroup(rank, label, pids, "pid label"))
    rest = tuple(sorted((p for p, v in labels.items() if not v and p), key=_natural))
    of_thread = [number.get(labels[pid], len(named)) for pid, _ in threads]
    if len(named) in of_thread:
        groups.append(RankGroup(None, "without a rank label", rest))
    return Grouping(groups, np.array(of_thread, np.int16), False)


def ranks_of(parts: list[tuple[tuple[str, int], ...]]) -> list[int | None]:
    """Rank numbers from rank names: the one name that tells all apart (rank, else TP, ...), else the order by DP, PP, EP, TP."""
    named = [dict(p) for p in parts]
    for kind in ("RANK", "TP", "EP", "PP", "DP", "CP", "WORKER"):
        numbers = [n.get(kind) for n in named]
        if None not in numbers and len(set(numbers)) == len(numbers):
            return numbers
    if not all(named):
        return [None] * len(named)
    order = sorted(
        range(len(named)), key=lambda k: tuple(named[k].get(kind, 0) for kind in ("DP", "PP", "EP", "TP", "CP"))
    )
    found: list[int | None] = [None] * len(named)
    for rank, k in enumerate(order):
        found[k] = rank
    return found


def vote_devices(
    work: dict[str, npt.NDArray[Any]],
    calls: dict[str, npt.NDArray[Any]],
    call_group: npt.NDArray[np.int16],
    groups: int,
) -> npt.NDArray[np.int16]:
    """Group of each work item where several unlabelled processes launch: per device the process whose launch calls fit best.

    A fit is a call with the item's correlation that began before the item; ties go to the shorter delay in sum.
    """
    scores: dict[int, list[tuple[int, float]]] = {}
    devices = np.unique(work["device"])
    has: list[npt.NDArray[np.bool_]] = []
    for g in range(groups):
        mine = np.flatnonzero(call_group == g)
        order = mine[np.argsort(calls["correlation"][mine], kind="stable")]
        keys = calls["correlation"][order]
        at = np.minimum(np.searchsorted(keys, work["correlation"]), max(0, len(keys) - 1))
        fits = (
            (keys[at] == work["correlation"]) & (work["correlation"] >= 0)
            if len(keys)
            else np.zeros(len(work["ts"]), bool)
        )
        lag = work["ts"] - calls["ts"][order][at] if len(keys) else np.zeros(len(work["ts"]), np.int64)
        fits &= lag >= 0
        has.append(fits)
        for d in devices.tolist():
            here = fits & (work["device"] == d)
            scores.setdefault(d, []).append((int(here.sum()), -float(lag[here].sum(dtype=np.float64))))
    best = {d: max(range(groups), key=lambda g, d=d: scores[d][g]) for d in scores}
    group = np.array([best[d] for d in work["device"].tolist()], np.int16)
    alone = np.sum(has, axis=0) == 1  # an item that only another process can have launched is that one's
    for g in range(groups):
        group[alone & has[g]] = g
    return group


def with_ranks(groups: list[RankGroup], devices: list[set[int]]) -> list[RankGroup]:
    """Ranks of unlabelled processes: the device number where each process has one device of its own."""
    if any(g.rank is not None for g in groups) or len(groups) < 2:
        return groups
    singles = [next(iter(d)) if len(d) == 1 else None for d in devices]
    if None in singles or len(set(singles)) != len(singles):
        return groups
    return [RankGroup(rank, g.label, g.pids, "device") for rank, g in zip(singles, groups, strict=True)]


def _label(pid: str) -> str:
    counts = Counter(kind for kind, _ in rank_parts(pid))
    return "-".join(f"{k}{v:02d}" for k, v in rank_parts(pid) if counts[k] == 1 and k != "WORKER")


def _natural(text: str) -> tuple[Any, ...]:
    return tuple(int(p) if p.isdigit() else p for p in re.split(r"(\d+)", text))
