"""Halves -> layers -> numbers: which layer of the model each found layer is, and which passes are whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from infer_forge.pipeline.exported import layer_marks, numbers_of
from infer_forge.pipeline.model import HALVES, Lane
from infer_forge.pipeline.roles import Role, role_of
from infer_forge.pipeline.segment import ATTENTION, BLOCK, FFN, Names, Template
from infer_forge.trace.columns import I64

_FEW = 3
"""Layers that a pass must have before its last one is judged by them."""
_ATTN_ID, _FFN_ID = HALVES.index("attn"), HALVES.index("ffn")


@dataclass
class Half:
    """A half that was found: its template, and rows of the main stream with their position in it (-1 matched none)."""

    template: int
    rows: list[int]
    positions: list[int]


@dataclass
class Rough:
    """A layer before it has its final number."""

    halves: list[Half]
    number: int = -1
    cut: bool = False

    @property
    def kinds(self) -> tuple[int, ...]:
        """Templates of its halves."""
        return tuple(h.template for h in self.halves)


@dataclass
class Draft:
    """A pass before numbering."""

    window: int
    rows: I64
    layers: list[Rough]
    first: bool
    last: bool
    micro: int = -1
    """Number of the micro-batch where two run side by side; -1 otherwise."""
    partial: str = ""
    relative: bool = False
    given: bool = False
    """The numbers of its layers are those of the trace that it was exported from."""
    head: int = field(default=0)
    """Rows of work before the first layer. tail: behind the last one."""
    tail: int = field(default=0)


@dataclass(frozen=True)
class Grouping:
    """How halves make layers: `alone` every half is one; `chained` several attention halves stand in one (time and space, self
    and cross), and without it a second one means that the FFN half between them was lost; `joins` are pairs of FFN templates
    of which the second always follows the first (image and text stream of a diffusion block) and belongs to its layer."""

    alone: bool
    chained: bool
    joins: frozenset[tuple[int, int]] = frozenset()


def joined_pairs(sequences: Sequence[Sequence[int]], templates: Sequence[Template]) -> frozenset[tuple[int, int]]:
    """Pairs of FFN templates that stand together too often for a lost attention half between them."""
    single: Counter[int] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for found in sequences:
        single.update(found)
        pairs.update((a, b) for a, b in pairwise(found) if templates[a].kind == templates[b].kind == FFN)
    return frozenset(p for p, n in pairs.items() if n >= 3 and n >= 0.5 * single[p[1]] and p[0] != p[1])


def group(halves: Sequence[tuple[str, Half]], how: Grouping) -> list[Rough]:
    """Halves in order become layers: a layer ends behind its FFN half (or behind every half where there are none).

    Args:
        halves: kind and half, in order.
        how: what is usual in this trace.
    """
    alone, chained = how.alone, how.chained
    found: list[Rough] = []
    open_layer: Rough | None = None
    for kind, half in halves:
        lost = kind == ATTENTION and not chained
        before = found[-1].halves[-1].template if found else -1
        if kind == FFN and open_layer is None and (before, half.template) in how.joins:
            found[-1].halves.append(half)
            continue
        if open_layer is None or alone or kind == BLOCK or lost:
            open_layer = Rough([half])
            found.append(open_layer)
        else:
            open_layer.halves.append(half)
        if kind in (FFN, BLOCK) or alone:
            open_layer = None
    return found


def without_heads(drafts: list[Draft], templates: Sequence[Template]) -> None:
    """Take a lone FFN half off the end of a pass where every layer mixes tokens and none has such a half: it is a model's head
    (of a masked language model, of a classifier), which has a norm and an activation too, and no layer."""

    def mixes(layer: Rough) -> bool:
        return any(templates[h.template].kind != FFN for h in layer.halves)

    inner = {
        t
        for d in drafts
        for k, layer in enumerate(d.layers)
        if k + 1 < len(d.layers) or mixes(layer)
        for t in layer.kinds
    }
    for draft in drafts:
        *others, last = draft.layers or [Rough([])]
        if (
            len(others) >= _FEW
            and last.halves
            and not mixes(last)
            and all(mixes(x) for x in others)
            and not inner & {*last.kinds}
        ):
            draft.layers.pop()


def settle(drafts: list[Draft], layers: int | None, more: int, lane: Lane) -> None:
    """Number the layers, and say which passes are partial.

    A pass with fewer layers than the others of its kind is partial only where the capture can have cut it: it is the first or
    the last on the device, or it stands outside the annotations. A pass cut at its head is numbered from its tail. In a file that
    was cut off the annotation of the last pass tells when it ended, not that its kernels are all there.
    """
    torn = lane.trace.coverage.truncated is not None
    marks = layer_marks(lane.trace)
    for draft in drafts:
        rows = draft.rows
        inside = [r for layer in draft.layers for h in layer.halves for r in h.rows]
        draft.head = int((rows < min(inside)).sum()) if inside else len(rows)
        draft.tail = int((rows > max(inside)).sum()) if inside else 0
        starts: list[int] = (
            [int(lane.trace.work.ts_ns[layer.halves[0].rows[0]]) for layer in draft.layers] if marks else []
        )
        numbers = numbers_of(starts, marks)
        draft.given = numbers is not None
        for k, layer in enumerate(draft.layers):
            layer.number = numbers[k] if numbers else k
    sure = [d for d in drafts if _whole(d, lane)]
    usual, known = _usual(drafts), bool(sure)
    if not known and layers:
        usual = max(usual, layers + more)
    heads = {_edge(lane, d, True) for d in sure if len(d.layers) == usual and d.head} - {None}
    whole = [d for d in drafts if len(d.layers) == usual]
    inner = [d for d in whole if not d.first and not d.last]
    headless = bool(inner) and not any(d.head for d in inner)
    tailless = bool(inner) and not any(d.tail for d in inner)
    fits = {layers, (layers or 0) + more} if layers else set[int | None]()
    for draft in drafts:
        if not draft.layers or not usual or draft.given:
            continue
        edge = (draft.first or draft.last) and (draft.window < 0 or (torn and draft.last))
        short = len(draft.layers) < usual
        there = len(draft.layers) in fits
        has_head = headless or (draft.head > 0 and (there or _edge(lane, draft, True) in heads or _begins(draft, lane)))
        has_tail = tailless or (draft.tail > 0 and (there or known or _ends(draft, lane)))
        if draft.micro > 0:  # head and tail stand with the first micro-batch
            has_head, has_tail = not short or not draft.first, not short or not draft.last
        begun = _complete(draft.layers[0], lane, True)
        ended = _complete(draft.layers[-1], lane, False)
        if not edge and not (short and draft.window < 0):
            continue
        if draft.first and draft.window < 0 and (short or not begun or not has_head):
            draft.partial = "partial: the capture began inside it"
            draft.layers[0].cut = not begun
            reaches = has_tail or not draft.last  # other passes follow: its own end, if nothing else, was recorded
            if not known and not layers:
                draft.relative = True
            elif reaches and ended and usual >= len(draft.layers):
                _shift(draft, usual - len(draft.layers))
            elif not reaches:
                draft.partial = "partial: the capture began and ended inside it"
                draft.relative = not _fit(draft, whole, usual)
        elif draft.last and (short or not ended or not has_tail):
            draft.partial = f"partial: the {'file was cut off' if torn else 'capture ended'} inside it"
            draft.layers[-1].cut = not ended
        elif short:
            draft.partial = f"partial: {len(draft.layers)} layers outside of every annotation"
            draft.relative = True
    given = any(d.given and d.layers[-1].number < layers + more for d in drafts) if layers else False
    if layers and usual and not given and not fits & {usual, *(len(d.layers) for d in drafts)}:
        lane.against.append(f"the kernels show {usual} layers, the config {_told(layers, more)}")


def _told(layers: int, more: int) -> str:
    return f"{layers} and {more} draft layer{'s' * (more > 1)}" if more else str(layers)


def _whole(draft: Draft, lane: Lane) -> bool:
    """Whether nothing of a pass can be missing: the annotation or its neighbours say so, or its own head and tail."""
    if not draft.layers:
        return False
    if draft.window >= 0 or not (draft.first or draft.last):
        return True
    return (
        _begins(draft, lane)
        and _ends(draft, lane)
        and _complete(draft.layers[0], lane, True)
        and _complete(draft.layers[-1], lane, False)
    )


def _begins(draft: Draft, lane: Lane) -> bool:
    """Whether what stands before the first layer is a head, and not the rest of a layer that the capture cut."""
    return _breaks(draft.rows[: draft.head], lane)


def _ends(draft: Draft, lane: Lane) -> bool:
    """Whether what stands behind the last layer is a tail, and not the begin of a layer that the capture cut."""
    return _breaks(draft.rows[len(draft.rows) - draft.tail :], lane)


def _breaks(rows: I64, lane: Lane) -> bool:
    return any(role_of(lane.trace.names[lane.trace.work.name[r]]) is Role.BREAKER for r in rows.tolist())


def _usual(drafts: list[Draft]) -> int:
    counts: Counter[int] = Counter(len(d.layers) for d in drafts if d.layers and d.window >= 0)
    if not counts:
        counts = Counter(len(d.layers) for d in drafts if d.layers)
    if not counts:
        return 0
    top = max(counts.values())
    return max(n for n, c in counts.items() if c == top)


def _edge(lane: Lane, draft: Draft, head: bool) -> int | None:
    """Name id of the kernel just before the first layer (or just behind the last)."""
    if not draft.layers:
        return None
    inside = [r for r in (draft.layers[0] if head else draft.layers[-1]).halves for r in r.rows]
    rows = draft.rows
    outside = rows[rows < min(inside)] if head else rows[rows > max(inside)]
    return int(lane.trace.work.name[outside[-1 if head else 0]]) if len(outside) else None


def _complete(layer: Rough, lane: Lane, begin: bool) -> bool:
    """Whether the first (last) half of a layer reaches to its template's begin (end), give or take one lost kernel."""
    half = layer.halves[0 if begin else -1]
    matched = [p for p in half.positions if p >= 0]
    if not matched:
        return False
    template: Template = lane.templates[half.template]
    if begin:
        return min(matched) <= 1 and template.kind != FFN
    return max(matched) >= len(template.names) - 2


def _shift(draft: Draft, by: int) -> None:
    for layer in draft.layers:
        layer.number += by


def _fit(draft: Draft, whole: list[Draft], usual: int) -> bool:
    """Number a piece of a pass by its order of layer types, where only one place fits."""
    if not whole:
        return False
    pattern = [layer.kinds for layer in whole[0].layers]
    mine = [layer.kinds for layer in draft.layers][1:-1]
    places = [k for k in range(usual - len(mine) + 1) if pattern[k : k + len(mine)] == mine]
    if len(places) != 1:
        return False
    _shift(draft, max(0, places[0] - 1))
    return True


def half_ids(template: Template, names: Names) -> int:
    """From which position a template's kernels are of the FFN half; its length for an attention half, 0 for an FFN half."""
    if template.kind == FFN:
        return 0
    if template.kind == ATTENTION:
        return len(template.names)
    roles = [names.role(n) for n in template.names]
    first = roles.index(Role.FFN)
    mixers = [k for k, r in enumerate(roles[:first]) if r is Role.MIXER]
    begin = mixers[-1] + 1 if mixers else 0
    comm = [k for k in range(begin, first) if roles[k] in (Role.COMM, Role.FUSED)]
    if comm:
        return comm[0] + 1
    gemms = [k for k in range(begin, first) if roles[k] is Role.GEMM]
    return gemms[-1] if len(gemms) > 1 else first


def half_at(boundary: int, half: Half, position: int) -> int:
    """Half id of a kernel; one that matched no position belongs where the last matched one did."""
    if position < 0:
        known = [p for p in half.positions if p >= 0]
        position = known[0] if known else 0
    return _ATTN_ID if position < boundary else _FFN_ID


def is_exact(half: Half, template: Template, work: Any) -> bool:
    """Whether a half is its template kernel by kernel."""
    return half.positions == list(range(len(template.names))) and work.name[half.rows].tolist() == list(template.names)
