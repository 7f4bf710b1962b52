"""Viterbi parse of a kernel sequence into learnt halves, tolerant of lost, added and swapped kernels.

States are the positions of the templates and one gap state for what is no layer (embedding, final norm, head, sampling). A
kernel either takes a position of a template, or is inserted in one, or stands in the gap; positions may be skipped. Scores
are data (`references/layer_roles.yaml`). Linear in the sequence: one small matrix step a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from infer_forge.base.kernels import classify, family
from infer_forge.pipeline.roles import numbers
from infer_forge.pipeline.segment import ATTENTION, BLOCK, FFN, Template

F64 = npt.NDArray[np.float64]
_NO = -1e9
_LOOSE = frozenset(
    {"norm", "communication", "attention", "mla", "linear_attention", "moe", "rope", "kv_cache", "quantization"}
)
"""Categories in which another kernel may stand for the template's."""


_KINDS = (ATTENTION, FFN, BLOCK)
FREE = {(a, b) for a in (*_KINDS, "gap") for b in _KINDS}
"""A grammar in which any half may follow any other."""


@dataclass(frozen=True)
class Parse:
    """What a parse says of every row of a sequence."""

    half: list[int]
    """Running number of the half, -1 in the gap."""
    position: list[int]
    """Position in the half's template; -1 where the kernel was inserted or stands in the gap."""
    templates: list[int]
    """Template of each half."""
    score: float
    cut: bool = False
    cut_end: bool = False
    """Whether the sequence was allowed to begin or end inside a half."""


class Aligner:
    """Parses sequences with fixed templates."""

    def __init__(self, templates: Sequence[Template], texts: Sequence[str], grammar: set[tuple[str, str]]) -> None:
        self.templates = list(templates)
        self.grammar = grammar
        self._texts = texts
        self._w = numbers("alignment")
        self._count = len(self.templates)
        self._width = max((len(t.names) for t in self.templates), default=1)
        self._length = np.array([len(t.names) for t in self.templates], np.int64)
        self._columns: dict[int, F64] = {}
        pad = np.arange(self._width)[None, :] >= self._length[:, None]
        self._pad = np.where(pad, _NO, 0.0)
        self._ramp = self._w["skip"] * np.arange(self._width)[None, :]
        self._rest = np.where(pad, 0.0, self._w["skip"] * (self._length[:, None] - 1 - np.arange(self._width)[None, :]))
        self._insert = np.full((self._count, self._width), self._w["insert"])
        self._insert[np.arange(self._count), self._length - 1] = self._w["insert_at_end"]
        odd, usual = self._w["odd_start"], self._w["start"]
        kinds = [t.kind for t in self.templates]
        self._change: F64 = np.full((self._count, self._count), odd)
        for i, a in enumerate(kinds):
            for j, b in enumerate(kinds):
                if (a, b) in grammar:
                    self._change[i, j] = usual
        opens = {b for a, b in grammar if a == "gap"}
        self._enter = np.array([usual if k in opens else odd for k in kinds])
        self._memo: dict[tuple[bytes, bool, bool], Parse] = {}

    def _column(self, name: int) -> F64:
        """Match scores of a kernel name against every position."""
        found = self._columns.get(name)
        if found is None:
            found = np.full((self._count, self._width), _NO)
            for t in self.templates:
                for k, other in enumerate(t.names):
                    found[t.number, k] = self._match(name, other)
            self._columns[name] = found
        return found

    def _match(self, name: int, other: int) -> float:
        if name == other:
            return self._w["same_name"]
        mine, its = self._texts[name], self._texts[other]
        if classify(mine) != classify(its):
            return _NO
        if family(mine) == family(its):
            return self._w["same_family" if classify(mine) != "gemm" else "same_gemm_family"]
        return self._w["same_category"] if classify(mine) in _LOOSE else _NO

    def parse(self, ids: npt.NDArray[np.int32], cut: bool = False, cut_end: bool = False) -> Parse:
        """The best parse. `cut`, `cut_end`: the capture may have begun or ended in the middle of a half."""
        key = (ids.tobytes(), cut, cut_end)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = replace(self._parse(ids.tolist(), cut, cut_end), cut=cut, cut_end=cut_end)
        return found

    def _parse(self, ids: list[int], cut: bool, cut_end: bool) -> Parse:
        if not self.templates or not ids:
            return Parse([-1] * len(ids), [-1] * len(ids), [], 0.0)
        n, w = len(ids), self._w
        scores = np.full((n + 1, self._count, self._width), _NO)
        gaps = np.full(n + 1, _NO)
        gaps[0] = 0.0
        begin = np.full((self._count, self._width), -w["cut"] if cut else _NO) + self._pad
        ends = np.full(self._count, _NO)
        for i, name in enumerate(ids):
            before = scores[i]
            match = self._column(name)
            within = self._reach(before)
            entry = self._entry(ends, gaps[i])
            step = np.maximum(within, entry[:, None] - self._ramp)
            if i == 0:
                step = np.maximum(step, begin)
            now = np.maximum(match + step, before - self._insert)
            scores[i + 1] = now + self._pad
            ends = (scores[i + 1] - self._rest).max(axis=1)
            gaps[i + 1] = max(gaps[i], float(ends.max()) - w["to_gap"])
        return self._trace(ids, scores, gaps, cut_end)

    def _reach(self, before: F64) -> F64:
        """Best score of a matched earlier position of the same template, less the positions skipped between."""
        best = np.maximum.accumulate(before + self._ramp, axis=1) - self._ramp
        moved: F64 = np.full(before.shape, _NO)
        moved[:, 1:] = best[:, :-1]
        return moved

    def _entry(self, ends: F64, gap: float) -> F64:
        """Best score with which each template can be begun."""
        best: F64 = np.max(ends[:, None] - self._change, axis=0).astype(np.float64)
        entry: F64 = np.maximum(best, gap - self._enter, dtype=np.float64)
        return entry

    def _trace(self, ids: list[int], scores: F64, gaps: F64, cut_end: bool) -> Parse:
        n, w = len(ids), self._w
        half, position = [-1] * n, [-1] * n
        order: list[int] = []
        closing = scores[n] - self._rest
        if cut_end:
            closing = np.maximum(closing, scores[n] - w["cut_end"])
        t, k = divmod(int(closing.argmax()), self._width)
        score = max(float(closing[t, k]), float(gaps[n]))
        in_gap = gaps[n] >= closing[t, k]
        i = n
        while i > 0:
            if in_gap:
                if gaps[i] == gaps[i - 1]:
                    i -= 1
                    continue
                ends = scores[i] - self._rest
                t, k = divmod(int(ends.argmax()), self._width)
                in_gap = False
                continue
            value, match = scores[i, t, k], self._column(ids[i - 1])[t, k]
            before = scores[i - 1]
            if abs(value - (before[t, k] - self._insert[t, k])) < 1e-6:
                half[i - 1] = len(order)
                i -= 1
                continue
            half[i - 1], position[i - 1] = len(order), k
            rest = value - match
            inner = before[t, :k] - w["skip"] * np.arange(k - 1, -1, -1) if k else np.empty(0)
            if len(inner) and abs(rest - inner.max()) < 1e-6:
                k = int(inner.argmax())
                i -= 1
                continue
            order.append(t)
            i -= 1
            if i == 0:
                break
            entry = rest + w["skip"] * k
            ends = (before - self._rest).max(axis=1)
            options = ends - self._change[:, t]
            if abs(entry - (gaps[i] - self._enter[t])) < 1e-6 and not abs(entry - options.max()) < 1e-6:
                in_gap = True
                continue
            t = int(options.argmax())
            k = int((before[t] - self._rest[t]).argmax())
        top = len(order) - 1
        half = [top - h if h >= 0 else -1 for h in half]
        return Parse(half, position, order[::-1], score)

    def explain(self, ids: tuple[int, ...]) -> tuple[float, list[int] | None]:
        """How well the templates explain a half: share of its kernels less what deviates; and, where nothing but lost
        kernels tells it from templates, which those are."""
        parse = self._parse(list(ids), False, False)
        share = (parse.score + self._w["start"] * len(parse.templates)) / len(ids)
        exact = all(
            h >= 0 and p >= 0 and self.templates[parse.templates[h]].names[p] == i
            for h, p, i in zip(parse.half, parse.position, ids, strict=True)
        )
        return share, parse.templates if exact else None


def grammar_of(kinds: Sequence[str]) -> set[tuple[str, str]]:
    """Which kind of half may follow which, from the rough cut: rare neighbours come from lost kernels."""
    pairs: dict[tuple[str, str], int] = {}
    for a, b in pairwise(kinds):
        if a and b:
            pairs[a, b] = pairs.get((a, b), 0) + 1
    total = sum(pairs.values())
    kept = {pair for pair, n in pairs.items() if n > 0.2 * total}
    if any(a == ATTENTION and b == FFN for a, b in kept):
        kept |= {(ATTENTION, FFN), (FFN, ATTENTION)}
    first = (
        {ATTENTION, BLOCK}
        if kept & {(ATTENTION, FFN), (ATTENTION, ATTENTION), (BLOCK, BLOCK)}
        else {ATTENTION, BLOCK, FFN}
    )
    return kept | {("gap", k) for k in first}
