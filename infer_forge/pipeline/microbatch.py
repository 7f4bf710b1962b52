"""Two-batch overlap: two micro-batches of one step run their layers side by side, so order by time alone mixes their layers.

Two forms. On two streams each micro-batch keeps its own order (vLLM's dual-batch overlap began so: v1/worker/ubatching.py gives
every micro-batch a stream). On one stream the engine runs a stage of the one, then the same stage of the other (SGLang:
operations.py, `execute_overlapped_operations`): the sequence is made of squares, stages that stand twice in a row. Where the second
one follows some stages behind (`delta_stages` above 0), like stages in a row may belong to either, and that is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from infer_forge.pipeline.roles import Role, numbers
from infer_forge.pipeline.segment import ATTENTION, FFN, Names
from infer_forge.trace.columns import I64
from infer_forge.trace.model import Trace

Mask = npt.NDArray[np.bool_]


class Weaves:
    """Takes sequences apart, each distinct one once."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._limits = numbers("two_batch")
        self._memo: dict[tuple[bytes, bool], Mask | None] = {}
        self.shifted = False
        """The second one follows behind: begin and end have stages of one alone, and the kernels between do not tell whose they are."""

    def second(self, ids: npt.NDArray[np.int32], sure: bool = False) -> Mask | None:
        """Which kernels of a sequence without breakers are the second micro-batch's; None where it is one batch.

        Args:
            sure: other sequences of the step hold two, so one layer is enough to tell (a draft layer).
        """
        key = (ids.tobytes(), sure)
        if key not in self._memo:
            self._memo[key] = self._unwoven(ids, 2 if sure else int(self._limits["probe"]))
        return self._memo[key]

    def _unwoven(self, ids: npt.NDArray[np.int32], probe: int) -> Mask | None:
        """Cut a sequence into squares. Layers in a row are squares too, but each of those holds a mixer; stages do not all."""
        limits = self._limits
        mask, covered, squares, bare, at = np.zeros(len(ids), bool), 0, 0, 0, 0
        stages: set[bytes] = set()
        begin, end = len(ids), 0
        while at < len(ids):
            size = self._square(ids, at)
            if not size or self._shorter_inside(ids, at, size):
                at += 1
                continue
            squares += 1
            bare += not any(self._names.role(int(n)) is Role.MIXER for n in ids[at : at + size])
            if squares >= probe and not bare:
                return None
            stages.add(ids[at : at + size].tobytes())
            begin, end = min(begin, at), at + 2 * size
            mask[at + size : at + 2 * size] = True
            covered += 2 * size
            at += 2 * size
        if squares < probe or bare < limits["bare"] * squares or bare == squares:
            return None
        if covered < limits["covered"] * len(ids):
            return None
        ahead = self._ahead(ids, mask, begin, end)
        if ahead:
            self.shifted = True
            mask[end : end + ahead] = True
            return mask
        _mend(mask, ids, begin, end, stages)
        return mask

    def _ahead(self, ids: npt.NDArray[np.int32], mask: Mask, begin: int, end: int) -> int:
        """Kernels that one micro-batch is ahead by: it begins alone, and the other one ends alone with as many. 0 where none is."""
        first, second = ids[:end][~mask[:end]], np.r_[ids[mask], ids[end:]]
        for head in range(begin - int(self._limits["shortest"]) + 1):
            mine = first[head:]
            if len(mine) <= len(second) and np.array_equal(mine, second[: len(mine)]):
                return begin - head
        return 0

    def _shorter_inside(self, ids: npt.NDArray[np.int32], at: int, size: int) -> bool:
        """Whether a shorter stage begins inside: then this one began in mid-stage, and spans a layer of both micro-batches."""
        return any(0 < self._square(ids, k) < size for k in range(at + 1, at + size))

    def _square(self, ids: npt.NDArray[np.int32], at: int) -> int:
        """Length of the shortest stage that begins here and stands twice in a row; 0 where none does."""
        least, most = int(self._limits["shortest"]), int(self._limits["longest"])
        here = ids[at : at + 2 * most]
        likely: list[int] = (np.flatnonzero(here[least : most + 1] == here[0]) + least).tolist()
        for size in likely:
            if 2 * size <= len(here) and np.array_equal(here[:size], here[size : 2 * size]):
                return size
        return 0


def _mend(mask: Mask, ids: npt.NDArray[np.int32], begin: int, end: int, stages: set[bytes]) -> None:
    """What the capture cut off at the ends: a stage of the second micro-batch whose twin is not whole."""
    width = ids.itemsize
    head, tail = ids[:begin].tobytes(), ids[end:].tobytes()
    whole = max((len(s) for s in stages if head.endswith(s)), default=0)
    if not whole and head and any(s.endswith(head) for s in stages):
        whole = len(head)
    mask[begin - whole // width : begin] = True
    first = max((len(s) for s in stages if tail.startswith(s)), default=len(tail))
    mask[end + first // width :] = True


def is_shifted(kinds: Sequence[str]) -> bool:
    """Whether halves in pairs begin and end with an attention and an FFN half alone: one micro-batch is ahead of the other."""
    sizes = [len(list(group)) for _, group in groupby(kinds)]
    return len(sizes) > 4 and sizes[:2] == [1, 1] == sizes[-2:]


def pairs_of(kinds: Sequence[str], sure: bool = False) -> list[int] | None:
    """Micro-batch of each half of a sequence in which attention and FFN halves both come in pairs; None where they do not.

    Tolerates lost kernels, unlike squares, but sees no stage below a half. `sure`: as in `Weaves.second`.
    """
    limits = numbers("two_batch")
    runs = [(kind, len(list(group))) for kind, group in groupby(kinds)]
    if len(runs) < (2 if sure else limits["probe"]):
        return None
    for kind in (ATTENTION, FFN):
        mine = [size for k, size in runs if k == kind]
        if sum(size == 2 for size in mine) < limits["paired"] * len(mine) or not mine:
            return None
    return [k % 2 for _, size in runs for k in range(size)]


def by_launch(trace: Trace, own: Sequence[I64], side: I64) -> list[I64]:
    """Work of further streams by micro-batch: that of the kernel launched last before it by the same thread.

    A graph replay launches everything at once: there the work stays with the first micro-batch.
    """
    work, calls = trace.work, trace.calls
    if not len(side) or not len(calls):
        return [side, *(side[:0] for _ in own[1:])]
    main = np.concatenate(own)
    whose = np.repeat(np.arange(len(own)), [len(o) for o in own])
    known = (work.call[main] >= 0) & ~work.graph[main]
    main, whose = main[known], whose[known]
    found = np.zeros(len(side), np.int64)
    eager = np.flatnonzero((work.call[side] >= 0) & ~work.graph[side])
    threads = calls.thread[work.call[side[eager]]]
    for thread in np.unique(threads).tolist():
        mine = np.flatnonzero(calls.thread[work.call[main]] == thread)
        mine = mine[np.argsort(calls.ts_ns[work.call[main[mine]]], kind="stable")]
        ask = eager[threads == thread]
        at = np.searchsorted(calls.ts_ns[work.call[main[mine]]], calls.ts_ns[work.call[side[ask]]]) - 1
        found[ask[at >= 0]] = whose[mine[at[at >= 0]]]
    return [side[found == k] for k in range(len(own))]


def streams_of(trace: Trace, rows: I64, names: Names) -> list[int]:
    """Streams that each hold a micro-batch of their own, the one with head and tail first; empty where there is one batch.

    A stream beside the main one (shared experts, communication) mixes no tokens; a micro-batch has mixers, FFN kernels and
    products, under the names of the other one's.
    """
    limits, work = numbers("two_batch"), trace.work
    streams = work.stream[rows]
    found: list[tuple[int, set[int], Counter[Role]]] = []
    for stream in np.unique(streams).tolist():
        ids, counts = np.unique(work.name[rows[streams == stream]], return_counts=True)
        roles = Counter[Role]()
        for name, count in zip(ids.tolist(), counts.tolist(), strict=True):
            roles[names.role(name)] += count
        if all(roles[r] >= limits["kernels"] for r in (Role.MIXER, Role.FFN, Role.GEMM)):
            found.append((int(stream), {int(i) for i in ids}, roles))
    if len(found) < 2:
        return []
    found.sort(key=lambda f: (-f[2][Role.BREAKER], -sum(f[2].values())))
    first = found[0]
    fellows = [f for f in found[1:] if len(f[1] & first[1]) >= limits["shared_names"] * len(f[1])]
    least = limits["share"] * first[2][Role.MIXER]
    return [first[0], *(f[0] for f in fellows if f[2][Role.MIXER] >= least)] if fellows else []
