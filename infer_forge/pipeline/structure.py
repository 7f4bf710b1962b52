"""Passes and layers of one device of one rank: units (annotated steps, or what lies between), pieces, halves, layers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np

from infer_forge.base.kernels import classify
from infer_forge.pipeline import borders as borders_of
from infer_forge.pipeline import microbatch, number
from infer_forge.pipeline.align import FREE, Aligner, grammar_of
from infer_forge.pipeline.bare_ffn import bare_halves
from infer_forge.pipeline.microbatch import Mask
from infer_forge.pipeline.model import HALVES, PLACE, Lane, Layer, Pass
from infer_forge.pipeline.roles import Role, numbers
from infer_forge.pipeline.segment import ATTENTION, BLOCK, Names, Template, cut, is_noisy, learn, pruned
from infer_forge.pipeline.units import Piece, Unit, ends, split, units_of, unweave
from infer_forge.trace.columns import I64, WorkKind
from infer_forge.trace.model import Trace

_SAMPLE = 24
"""Longest sequences on which templates are weighed."""
_STUB = 5
_TELLING = (Role.MIXER, Role.FFN, Role.GEMM)


def build(
    trace: Trace, rank: int | str | None, device: int, layers: int | None, drafts: int = 0, one_half: bool = False
) -> Lane:
    """Find passes and layers.

    Args:
        layers: num_hidden_layers of the config, None when unknown; only used to tell whole passes from cut ones and one
            annotation that spans several passes from one that does not.
        drafts: draft (MTP) layers that may follow.
        one_half: the config's layers are a mixer or an FFN each, never both.
    """
    work = trace.work
    rows = np.flatnonzero(work.device == device)
    softmax = _softmax_mixes(trace, rows)
    names = Names(trace.names, softmax_mixes=softmax)
    units = units_of(trace, rows, names)
    for unit in units:
        split(unit, trace, names)
    weaves = microbatch.Weaves(names)
    units = unweave(units, lambda p, sure: weaves.second(p.ids, sure), trace)
    ends(units)
    templates, aligner = _learn(units, trace, names)
    _parse(units, aligner)
    shifted = weaves.shifted or any(_shifted(p, templates) for u in units if u.micro < 0 for p in u.pieces)
    units = unweave(units, lambda p, sure: _paired(p, templates, sure), trace)
    ends(units)
    _parse(units, aligner)
    lane = Lane(
        trace, rank, device, rows, [], templates,
        np.full(len(work), -1, np.int32), np.full(len(work), -1, np.int32),
        np.zeros(len(work), np.int8), np.full(len(work), -1, np.int32),
    )  # fmt: skip
    how = _grouping(units, templates, aligner, one_half)
    _passes(lane, units, names, layers, drafts, how)
    lane.woven = "shifted" if shifted else "paired" if any(u.woven for u in units) else ""
    if lane.woven == "shifted":
        lane.notes.append(
            "two-batch overlap: one micro-batch follows the other by some stages on the same stream; the kernels do not tell whose "
            "each of two like stages is, so layers may be off by one"
        )
    marked = bool(len(trace.windows))
    lane.method = "period of classified kernel sequences; passes from " + (
        "annotations" if marked else "launch structure"
    )
    if softmax:
        lane.method += "; attention told by softmax alone"
    return lane


def _softmax_mixes(trace: Trace, rows: I64) -> bool:
    """Whether softmax is what tells attention here: no attention kernel of its own occurs."""
    kinds = Counter(classify(trace.names[int(n)]) for n in np.unique(trace.work.name[rows]))
    return not any(kinds[c] for c in ("attention", "mla", "linear_attention")) and kinds["softmax"] > 0


def _paired(piece: Piece, templates: list[Template], sure: bool) -> Mask | None:
    """Kernels of the second of each pair of halves."""
    parse = piece.parse
    micro = microbatch.pairs_of([templates[t].kind for t in parse.templates], sure) if parse else None
    if parse is None or micro is None:
        return None
    return np.array([h >= 0 and micro[h] == 1 for h in parse.half], bool)


def _shifted(piece: Piece, templates: list[Template]) -> bool:
    kinds = [templates[t].kind for t in piece.parse.templates] if piece.parse else []
    return microbatch.pairs_of(kinds) is not None and microbatch.is_shifted(kinds)


def _parse(units: list[Unit], aligner: Aligner) -> None:
    for unit in units:
        for k, piece in enumerate(unit.pieces):
            piece.parse = aligner.parse(
                piece.ids,
                unit.window < 0 and unit.first and k == 0,
                unit.window < 0 and unit.last and k == len(unit.pieces) - 1,
            )


def _learn(units: list[Unit], trace: Trace, names: Names) -> tuple[list[Template], Aligner]:
    count: Counter[bytes] = Counter()
    made: dict[bytes, list[int]] = {}
    for unit in units:
        for piece in unit.pieces:
            key = piece.ids.tobytes()
            count[key] += 1
            if key not in made:
                made[key] = piece.ids.tolist()
    pieces = [(made[k], n) for k, n in count.items()]
    cut_off = [u for u in units if u.first and u.window < 0 and u.pieces and u.pieces[0].rows[0] == u.rows[0]]
    begun = {u.pieces[0].ids.tobytes() for u in cut_off}
    names.bare = bare_halves([(made[k], n - (k in begun)) for k, n in count.items() if n > (k in begun)], names)
    kinds: list[str] = []
    for ids, _ in pieces[:200]:
        kinds += [*(s.kind for s in cut(ids, names)), ""]
    grammar = grammar_of(kinds)
    limits = numbers("learning")

    def explain(half: tuple[int, ...], found: list[Template]) -> tuple[float, list[int] | None]:
        if explain_with[0] is None or len(explain_with[0].templates) != len(found):
            explain_with[0] = Aligner(found, trace.names, FREE)
        return explain_with[0].explain(half)

    explain_with: list[Aligner | None] = [None]
    templates = learn(pieces, names, explain, limits["explained"], limits["own_share"])
    rough = Counter(tuple(ids[x.start : x.end]) for ids, _ in pieces for x in cut(ids, names) if x.kind)
    if len(templates) > 2 and is_noisy(rough.values(), len(pieces)):
        sample = sorted(pieces, key=lambda p: -len(p[0]))[:_SAMPLE]

        def score(some: list[Template]) -> float:
            one = Aligner([Template(k, t.names, t.kind, t.count) for k, t in enumerate(some)], trace.names, grammar)
            return sum(one.parse(np.array(ids, np.int32)).score for ids, _ in sample)

        templates = pruned(templates, score)
    return templates, Aligner(templates, trace.names, grammar)


def _halves(piece: Piece, templates: list[Template], names: Names) -> list[number.Half]:
    """Halves of a piece. Where an all-reduce holds the next norm, the first layer still has a norm of its own: it joins."""
    parse = piece.parse
    if parse is None:
        return []
    found = [number.Half(t, [], []) for t in parse.templates]
    for row, half, position in zip(piece.rows.tolist(), parse.half, parse.position, strict=True):
        if half >= 0:
            found[half].rows.append(row)
            found[half].positions.append(position)
    found = [h for h in found if h.rows]
    if found and not parse.cut_end and _stub(found[-1], templates, names):
        found.pop()
    if found and not parse.cut and _stub(found[0], templates, names):
        found.pop(0)
    if found and names.role(templates[found[0].template].names[0]) not in (Role.NORM, Role.OPEN):
        at = int(np.searchsorted(piece.rows, found[0].rows[0])) - 1
        if at >= 0 and names.role(int(piece.ids[at])) is Role.NORM:
            found[0].rows.insert(0, int(piece.rows[at]))
            found[0].positions.insert(0, -1)
    return found


def _stub(half: number.Half, lane_templates: list[Template], names: Names) -> bool:
    """Whether a half at the end of a piece is none: less than half of it is there, or norms and copies alone (a final norm)."""
    template = lane_templates[half.template]
    if not any(names.role(template.names[p]) in _TELLING for p in half.positions if p >= 0):
        return True
    return len(template.names) >= _STUB and sum(p >= 0 for p in half.positions) < 0.5 * len(template.names)


def _grouping(units: list[Unit], templates: list[Template], aligner: Aligner, one_half: bool) -> number.Grouping:
    """How halves make layers in this trace."""
    found = [p.parse.templates for u in units for p in u.pieces if p.parse]
    joins = frozenset[tuple[int, int]]() if one_half else number.joined_pairs(found, templates)
    return number.Grouping(one_half or _alone(templates), (ATTENTION, ATTENTION) in aligner.grammar, joins)


def _passes(lane: Lane, units: list[Unit], names: Names, layers: int | None, drafts: int, how: number.Grouping) -> None:
    """Make passes of units, number their layers, and write the columns of the lane."""
    drafted: list[number.Draft] = []
    split_up = _by_launches([(u, _split_passes(u, lane, names, how)) for u in units], lane)
    for unit, groups in zip(units, split_up, strict=True):
        if unit.window >= 0 and not _several(groups, layers + drafts if layers else None):
            groups = [([p for g in groups for p in g[0]], [r for g in groups for r in g[1]])]
        _draft(drafted, unit, groups, lane)
    number.without_heads(drafted, lane.templates)
    number.settle(drafted, layers, drafts, lane)
    _write(lane, drafted, names)


def _alone(templates: list[Template]) -> bool:
    """Whether a half is a layer by itself: blocks, or mixers without FFN halves."""
    kinds: Counter[str] = Counter()
    for t in templates:
        kinds[t.kind] += t.count
    return kinds["ffn"] < 0.25 * (kinds[ATTENTION] + kinds[BLOCK])


Group = tuple[list[Piece], list[number.Rough]]


def _split_passes(unit: Unit, lane: Lane, names: Names, how: number.Grouping) -> list[Group]:
    """What lies between breakers, as passes: a piece with layers begins one; one or two layers behind many are its drafts."""
    groups: list[Group] = []
    for piece in unit.pieces:
        kinds = [(lane.templates[h.template].kind, h) for h in _halves(piece, lane.templates, names)]
        roughs = number.group(kinds, how)
        before = len(groups[-1][1]) if groups else 0
        if groups and (not roughs or not before or (len(roughs) <= 2 and len(roughs) <= 0.3 * before)):
            groups[-1][0].append(piece)
            groups[-1][1].extend(roughs)
        else:
            groups.append(([piece], roughs))
    return groups


def _by_launches(split: list[tuple[Unit, list[Group]]], lane: Lane) -> list[list[Group]]:
    """Runs of layers outside of annotations, cut where the launch structure shows that another pass begins."""
    runs = [g for unit, groups in split if unit.window < 0 for g in groups]
    seen = [borders_of.between_layers(lane.trace, r, p[0].rows) if len(p) == 1 else [] for p, r in runs]
    kept = borders_of.agreed([(len(r), borders) for (_, r), borders in zip(runs, seen, strict=True)])
    borders = {id(run): found for run, found in zip(runs, kept, strict=True)}
    return [[part for g in groups for part in _parts(g, borders.get(id(g), []))] for _, groups in split]


def _parts(group: Group, borders: list[int]) -> list[Group]:
    """A run of layers, cut before the given ones."""
    if not borders:
        return [group]
    pieces, roughs = group
    rows, found = pieces[0].rows, list[Group]()
    at = [0, *(int(np.searchsorted(rows, roughs[b].halves[0].rows[0])) for b in borders), len(rows)]
    for k, (a, b) in enumerate(pairwise([0, *borders, len(roughs)])):
        part = slice(at[k], at[k + 1])
        found.append(([Piece(rows[part], pieces[0].ids[part], follows=k > 0)], roughs[a:b]))
    return found


def _several(groups: list[Group], layers: int | None) -> bool:
    """Whether one annotation spans several passes: equal groups of layers, more in all than the model has."""
    counts = Counter(len(r) for _, r in groups if r)
    if not counts:
        return False
    size, often = counts.most_common(1)[0]
    if layers is None:
        return often >= 3 and size >= 4 and often >= 0.8 * sum(counts.values())
    return often >= 2 and sum(n * c for n, c in counts.items()) >= 2 * layers


def _draft(
    drafted: list[number.Draft], unit: Unit, groups: list[tuple[list[Piece], list[number.Rough]]], lane: Lane
) -> None:
    """One draft a pass. Work of a step that holds no layer is still a pass when it is annotated."""
    whole = np.sort(np.concatenate([unit.rows, unit.side]))
    kept = [g for g in groups if g[1]]
    if unit.window >= 0 and len(kept) <= 1:
        drafted.append(number.Draft(unit.window, whole, kept[0][1] if kept else [], unit.first, unit.last, unit.micro))
        return
    starts = [int(g[0][0].rows[0]) for g in kept]
    begins = [s if g[0][0].follows else _head_start(lane, unit, s) for s, g in zip(starts, kept, strict=True)]
    work = lane.trace.work
    for k, (pieces, roughs) in enumerate(kept):
        low = begins[k] if k else int(unit.rows[0])
        high = begins[k + 1] if k + 1 < len(kept) else int(unit.rows[-1]) + 1
        if unit.window < 0 and len(kept) == 1 and not (unit.first or unit.last):
            low, high = int(pieces[0].rows[0]), int(pieces[-1].rows[-1]) + 1
        first, last = unit.first and k == 0, unit.last and k == len(kept) - 1
        begin, end = int(work.ts_ns[low]), int(work.ts_ns[high]) if high < len(work) else None
        mine = whole[(work.ts_ns[whole] >= begin) & ((work.ts_ns[whole] < end) if end is not None else True)]
        if len(mine):
            drafted.append(number.Draft(unit.window, mine, roughs, first, last, unit.micro))


def _head_start(lane: Lane, unit: Unit, row: int) -> int:
    """Where the work before a pass's first piece begins to be its own: behind the last copy to the host or sampling."""
    work, at = lane.trace.work, int(np.searchsorted(unit.rows, row))
    begin = row
    if unit.micro > 0:  # head and tail are on the first micro-batch's stream
        return begin
    for k in range(at - 1, max(-1, at - 400), -1):
        name = lane.trace.names[work.name[unit.rows[k]]]
        if name.startswith("Memcpy DtoH") or classify(name) == "sampling" or lane.layer_of[unit.rows[k]] >= 0:
            break
        begin = int(unit.rows[k])
    return begin


def _write(lane: Lane, drafted: list[number.Draft], names: Names) -> None:
    """Fill the columns of the lane, and make its passes."""
    work = lane.trace.work
    for n, draft in enumerate(drafted):
        rows = _place(lane, draft, names)
        lane.pass_of[draft.rows] = n
        _beside(lane, draft, rows)
        layers: list[Layer] = []
        for rough in draft.layers:
            mine = draft.rows[lane.layer_of[draft.rows] == rough.number]
            exact = all(number.is_exact(h, lane.templates[h.template], work) for h in rough.halves)
            layers.append(Layer(rough.number, mine, rough.kinds, exact, rough.cut))
        lane.passes.append(_pass(lane, draft, n, layers))
    overlapped = sum(d.micro > 0 for d in drafted)
    if overlapped:
        lane.notes.append(
            f"two-batch overlap: {overlapped} steps run two micro-batches side by side; each is a pass of its own, with its own layers"
        )


def _place(lane: Lane, draft: number.Draft, names: Names) -> I64:
    """Layer, half and place of the main stream's kernels of a pass; gives their rows, ascending."""
    rows: list[int] = []
    layer: list[int] = []
    half_id: list[int] = []
    place: list[int] = []
    for rough in draft.layers:
        for half in rough.halves:
            border = number.half_ids(lane.templates[half.template], names)
            rows += half.rows
            layer += [rough.number] * len(half.rows)
            half_id += [number.half_at(border, half, p) for p in half.positions]
            place += [half.template * PLACE + min(p, PLACE - 1) if p >= 0 else -1 for p in half.positions]
    at = np.array(rows, np.int64)
    lane.layer_of[at], lane.half_of[at], lane.place_of[at] = layer, half_id, place
    return np.sort(at)


def _pass(lane: Lane, draft: number.Draft, n: int, layers: list[Layer]) -> Pass:
    work, windows, trace, w = lane.trace.work, lane.trace.windows, lane.trace, draft.window
    start, dur = work.ts_ns[draft.rows], work.dur_ns[draft.rows]
    ends = start + dur

    def count(column: I64) -> int | None:
        known = w >= 0 and column[w] >= 0 and draft.micro < 0  # the mark counts both micro-batches
        return int(column[w]) if known else None

    return Pass(
        number=n,
        rank=lane.rank,
        device=lane.device,
        stage=trace.stages[int(windows.stage[w])] if w >= 0 else "all",
        kind=trace.name(int(windows.kind[w])) if w >= 0 else None,
        batch=count(windows.batch),
        tokens=count(windows.tokens),
        context_tokens=count(windows.context_tokens),
        generation_requests=count(windows.generation_requests),
        micro=draft.micro,
        step=trace.name(int(windows.name[w])) if w >= 0 else None,
        window=w,
        rows=draft.rows,
        layers=layers,
        start_ns=int(start[0]),
        end_ns=int(ends.max()),
        device_ns=int(dur.sum()),
        busy_ns=_busy(start, ends),
        partial=draft.partial,
        relative=draft.relative,
        given=draft.given,
    )


def _beside(lane: Lane, draft: number.Draft, main: I64) -> None:
    """Work of other streams goes to the layer of the main stream's kernel that began last before it."""
    work = lane.trace.work
    others = np.setdiff1d(draft.rows, main, assume_unique=True)
    if not len(others) or not len(main):
        return
    main_stream = work.stream[main[0]]
    others = others[(work.stream[others] != main_stream) & (work.kind[others] == WorkKind.KERNEL)]
    everything = draft.rows[work.stream[draft.rows] == main_stream]
    at = np.searchsorted(everything, others) - 1
    ok = at >= 0
    host = everything[at[ok]]
    lane.layer_of[others[ok]], lane.half_of[others[ok]] = lane.layer_of[host], lane.half_of[host]


def _busy(start: I64, end: I64) -> int:
    """Length of the union of intervals ascending by start."""
    reach = np.maximum.accumulate(end)
    gaps = np.maximum(start[1:] - reach[:-1], 0)
    return int(reach[-1] - start[0] - gaps.sum())


__all__ = ["HALVES", "build"]
