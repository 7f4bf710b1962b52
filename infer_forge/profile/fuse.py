"""The fuse table: which known fusions are missing, which are active, and which neighbours might be fused beside them.

A catalogue pattern is an opportunity only where its whole sequence stands on one stream, in order, nothing between, the
gaps bounded, and often enough in one stage; presence of the kernels somewhere is no match. A fused kernel that is there
is reported as `already active`, never as an opportunity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from infer_forge.base.tables import Column, Table
from infer_forge.profile.catalogue import Catalogue, Pattern, catalogue
from infer_forge.profile.grouping import distinct
from infer_forge.profile.kernels import stage_sums
from infer_forge.profile.scene import Scene, pct, us
from infer_forge.profile.thresholds import thresholds
from infer_forge.trace.columns import I64, Flags, WorkKind

OPPORTUNITY, ACTIVE, UNLISTED = "opportunity", "already active", "unlisted"

COLUMNS = [
    Column("id", "text"),
    Column("state", "text"),
    Column("confidence", "text"),
    Column("stage", "text"),
    Column("count", "int", "occurrences of the sequence, or launches of the fused kernel"),
    Column("time_us", "us", "device time of the kernels that take part"),
    Column("share_pct", "pct", "of the stage's device time"),
    Column("kernels", "text"),
    Column("source", "text", "repository and path of the fused kernel or pass"),
]


@dataclass(frozen=True)
class Facts:
    """What is known of the run, for the conditions of the patterns; None is unknown."""

    world: int | None = None
    vendor: str | None = None
    capability: float | None = None
    model: str | None = None
    framework: str | None = None


@dataclass(frozen=True)
class Found:
    """One row before it is printed."""

    id: str
    state: str
    confidence: str
    stage: str
    count: int
    time_ns: int
    kernels: str
    source: str
    launch_gap_us: float | None
    note: str


@dataclass
class Order:
    """The work in stream order: rows, and where a new stream or stage begins."""

    rows: I64
    breaks: Flags
    """True where the item does not follow the one before on the same device, stream and stage."""
    gap_ns: I64
    """To the item before."""


class _Match(NamedTuple):
    """Occurrences of one sequence. `at[k, i]` is the position (in the order) of element k of occurrence i."""

    pattern: Pattern
    at: I64
    gap_ns: I64
    """Mean gap between neighbouring elements of each occurrence."""


def facts_of(scene: Scene, server_args: dict[str, Any] | None = None) -> Facts:
    """What the trace, and the server's arguments where given, say about the run."""
    header, args = scene.trace.header, server_args or {}
    world = header.world_size
    if world is None and isinstance(args.get("tp_size"), int):
        world = int(args["tp_size"])
    vendor = header.vendor if header.vendor in ("nvidia", "amd") else None
    model = args.get("model_path") or args.get("model") or None
    return Facts(world, vendor, _capability(header.devices) if vendor == "nvidia" else None, model, framework_of(scene))


def _capability(devices: list[dict[str, Any]]) -> float | None:
    for device in devices:
        major, minor = device.get("computeMajor"), device.get("computeMinor")
        if isinstance(major, int) and isinstance(minor, int):
            return major + minor / 10
    return None


def framework_of(scene: Scene) -> str | None:
    """The engine, as far as kernel names and Python sources tell it."""
    marks = {"sglang": ("sglang", "sgl_kernel", "sgl_hip"), "vllm": ("vllm::", "vllm/"), "trtllm": ("tensorrt_llm/",)}
    used = [scene.trace.names[int(i)].lower() for i in distinct(scene.work.source) if i >= 0]
    for texts in (used, scene.lowered):
        hits = {name: sum(any(m in t for m in words) for t in texts) for name, words in marks.items()}
        best = max(hits, key=lambda n: hits[n])
        if hits[best]:
            return best
    return None


def fuse(
    scene: Scene, facts: Facts | None = None, *, book: Catalogue | None = None, unverified: bool = False
) -> list[Found]:
    """Every row of the fuse table of one rank, largest first."""
    book, known = book or catalogue(), facts or facts_of(scene)
    patterns = [p for p in book.enabled(unverified) if applies(p, known) is not False]
    order = in_stream_order(scene)
    masks = _element_masks(scene, book)
    found = _active(scene, patterns, known) + _opportunities(scene, patterns, known, order, masks)
    found += _unlisted(scene, order, found)
    return sorted(found, key=lambda f: -f.time_ns)


def applies(pattern: Pattern, facts: Facts) -> bool | None:
    """Whether a pattern's conditions hold: False where a known fact differs, None where a needed fact is unknown.

    A `strict` pattern does not hold before every fact that it asks for is known.
    """
    when, unknown = pattern.when, False
    for name, value in _held(facts).items():
        if name not in when:
            continue
        if value is None:
            unknown = True
        elif not _holds(name, when[name], value):
            return False
    return (False if when.get("strict") else None) if unknown else True


def _held(facts: Facts) -> dict[str, Any]:
    """What each condition is held against."""
    return {"min_world": facts.world, "vendor": facts.vendor, "min_cc": facts.capability, "model": facts.model}


def _holds(name: str, wanted: Any, value: Any) -> bool:
    if name == "vendor":
        return value == wanted
    if name == "model":
        return any(part in str(value).lower() for part in wanted)
    return value >= wanted


def in_stream_order(scene: Scene) -> Order:
    """Device work by device, stream and start; items of unknown stream stand alone."""
    work = scene.work
    rows = np.lexsort((work.ts_ns, work.stream, work.device)).astype(np.int64)
    breaks = np.ones(len(rows), np.bool_)
    gap = np.zeros(len(rows), np.int64)
    if len(rows) > 1:
        a, b = rows[:-1], rows[1:]
        same = (work.device[a] == work.device[b]) & (work.stream[a] == work.stream[b]) & (work.stream[a] >= 0)
        breaks[1:] = ~(same & (work.stage[a] == work.stage[b]))
        gap[1:] = work.ts_ns[b] - scene.end_ns[a]
    return Order(rows, breaks, gap)


def _element_masks(scene: Scene, book: Catalogue) -> dict[str, Flags]:
    """Per element: mask over the distinct names in use."""
    lowered = scene.lowered
    categories = np.empty(len(lowered), object)
    categories[scene.name_row] = np.array(scene.categories.texts, object)[scene.categories.ids]
    return {
        name: np.array([element.matches(text, str(c)) for text, c in zip(lowered, categories, strict=True)], np.bool_)
        for name, element in book.elements.items()
    }


def _confidence(pattern: Pattern, facts: Facts, count: int) -> str:
    if applies(pattern, facts) is None:
        return "medium"
    return "high" if count >= thresholds("fuse")["high_count"] else "medium"


def _active(scene: Scene, patterns: list[Pattern], facts: Facts) -> list[Found]:
    """Fused kernels that are there, by pattern and stage; a kernel belongs to the pattern that describes it best."""
    owner = np.full(len(scene.lowered), -1, np.int64)
    for row, text in enumerate(scene.lowered):
        fits = [(p.active(text), p.framework == facts.framework, -i) for i, p in enumerate(patterns)]
        best = max(fits, default=(0, False, 0))
        owner[row] = -best[2] if best[0] else -1
    of_item = owner[scene.name_row]
    out: list[Found] = []
    for index in distinct(owner[owner >= 0]):
        pattern = patterns[int(index)]
        items = np.flatnonzero(of_item == index)
        for stage in distinct(scene.work.stage[items]):
            mine = items[scene.work.stage[items] == stage]
            label, time = scene.stage_name(max(int(stage), 0)), int(scene.work.dur_ns[mine].sum())
            kernels = _texts(scene, mine)
            row = Found(pattern.id, ACTIVE, "high", label, len(mine), time, kernels, pattern.where, None, pattern.fuses)
            out.append(row)
    return out


def _texts(scene: Scene, items: I64) -> str:
    """Short names of some items, each once, most frequent first, at most four."""
    ids, count = np.unique(scene.kernels.ids[items], return_counts=True)
    best = [int(ids[i]) for i in np.argsort(-count, kind="stable")]
    more = f", +{len(best) - 4} more" if len(best) > 4 else ""
    return ", ".join(scene.kernels.texts[i] for i in best[:4]) + more


def _opportunities(
    scene: Scene, patterns: list[Pattern], facts: Facts, order: Order, masks: dict[str, Flags]
) -> list[Found]:
    """Sequences that show a fusion missing. An occurrence belongs to one pattern: the longest sequence, then the run's own
    framework; patterns that wanted the same kernels are named in the note."""
    matches = [m for p in patterns for s in p.unfused if (m := _match(scene, p, s, order, masks)) is not None]
    matches.sort(key=lambda m: (-len(m.at), m.pattern.framework != facts.framework))
    claimed = np.full(len(order.rows), -1, np.int64)
    kept: list[tuple[int, str, I64]] = []
    also: dict[int, set[str]] = {}
    for index, match in enumerate(matches):
        owner = claimed[match.at]
        for other in distinct(owner[owner >= 0]):
            if matches[int(other)].pattern.id != match.pattern.id:
                also.setdefault(int(other), set()).add(match.pattern.id)
        free = np.flatnonzero((owner < 0).all(axis=0))
        stages = np.maximum(scene.work.stage[order.rows[match.at[0][free]]], 0)
        for stage in distinct(stages):
            mine = free[stages == stage]
            if len(mine) >= match.pattern.min_count:
                claimed[match.at[:, mine]] = index
                kept.append((index, scene.stage_name(int(stage)), mine))
    return _joined(
        [_opportunity(scene, matches[i], facts, order, at, mine, also.get(i, set())) for i, at, mine in kept]
    )


def _opportunity(
    scene: Scene, match: _Match, facts: Facts, order: Order, stage: str, picks: I64, also: set[str]
) -> Found:
    items = order.rows[match.at[:, picks]]
    pattern = match.pattern
    note = pattern.fuses + (f"; also {', '.join(sorted(also))}" if also else "")
    return Found(
        pattern.id,
        OPPORTUNITY,
        _confidence(pattern, facts, len(picks)),
        stage,
        len(picks),
        int(scene.work.dur_ns[items].sum()),
        " -> ".join([_texts(scene, items[k]) for k in range(len(items))]),
        pattern.where,
        float(match.gap_ns[picks].mean()) / 1000,
        note,
    )


def _joined(found: list[Found]) -> list[Found]:
    """Rows of several sequences of one pattern in one stage become one row."""
    merged: dict[tuple[str, str], Found] = {}
    for row in found:
        key = (row.id, row.stage)
        if key in merged:
            old = merged[key]
            kernels = old.kernels if row.kernels in old.kernels else f"{old.kernels}; {row.kernels}"
            confidence = "high" if "high" in (old.confidence, row.confidence) else old.confidence
            row = replace(
                old,
                count=old.count + row.count,
                time_ns=old.time_ns + row.time_ns,
                kernels=kernels,
                confidence=confidence,
            )
        merged[key] = row
    return list(merged.values())


def _match(
    scene: Scene, pattern: Pattern, sequence: tuple[str, ...], order: Order, masks: dict[str, Flags]
) -> _Match | None:
    """Occurrences of one sequence: consecutive on one stream and stage, bounded gaps, not overlapping each other."""
    if not all(bool(masks[name].any()) for name in sequence):
        return None
    names, runs, places = scene.name_row[order.rows], np.cumsum(order.breaks), np.arange(len(order.rows))
    if pattern.ignore:
        skip: Flags = np.stack([masks[name] for name in pattern.ignore]).max(axis=0)
        wanted: Flags = np.stack([masks[name] for name in sequence]).max(axis=0)
        places = places[~(skip & ~wanted)[names]]
        names, runs = names[places], runs[places]
    count, limit = len(sequence), pattern.max_gap_us * 1000
    size = len(places) - count + 1
    if size <= 0:
        return None
    hit = np.ones(size, np.bool_)
    gap = np.zeros(size, np.int64)
    for k, name in enumerate(sequence):
        hit &= masks[name][names[k : size + k]]
        if k:
            step = np.maximum(order.gap_ns[places[k : size + k]], 0)
            hit &= (runs[k : size + k] == runs[:size]) & (step <= limit)
            gap += step
    starts = _apart(np.flatnonzero(hit).astype(np.int64), count)
    if not len(starts):
        return None
    at = np.stack([places[starts + k] for k in range(count)]).astype(np.int64)
    return _Match(pattern, at, gap[starts] // max(count - 1, 1))


def _apart(starts: I64, count: int) -> I64:
    """The greedy choice of starts that lie at least `count` apart; a sequence may overlap itself."""
    if len(starts) < 2 or bool((np.diff(starts) >= count).all()):
        return starts
    kept: list[int] = []
    free = -1
    for start in starts.tolist():
        if start >= free:
            kept.append(start)
            free = start + count
    return np.array(kept, np.int64)


def _unlisted(scene: Scene, order: Order, found: list[Found]) -> list[Found]:
    """Short same-stream neighbours that repeat and are in no catalogue: candidates, never above low confidence."""
    limits = thresholds("fuse")
    work = scene.work
    if len(order.rows) < 2:
        return []
    a, b = order.rows[:-1], order.rows[1:]
    short = limits["unlisted_max_us"] * 1000
    good = ~order.breaks[1:] & (order.gap_ns[1:] <= limits["unlisted_gap_us"] * 1000)
    good &= (work.dur_ns[a] <= short) & (work.dur_ns[b] <= short)
    good &= (work.kind[a] == WorkKind.KERNEL) & (work.kind[b] == WorkKind.KERNEL)
    good &= ~scene.communication[a] & ~scene.communication[b]
    big = scene.is_category("gemm", "moe", "attention", "mla", "convolution")
    good &= ~(big[a] & big[b])
    a, b, gap = a[good], b[good], order.gap_ns[1:][good]
    if not len(a):
        return []
    kernels = scene.kernels
    packed = (
        (np.maximum(work.stage[a], 0).astype(np.int64) << 48) | (kernels.ids[a].astype(np.int64) << 24) | kernels.ids[b]
    )
    keys, where, count = np.unique(packed, return_inverse=True, return_counts=True)
    time, gaps = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    np.add.at(time, where, work.dur_ns[a] + work.dur_ns[b])
    np.add.at(gaps, where, np.maximum(gap, 0))
    known = [row.kernels for row in found if row.state == OPPORTUNITY]
    out: list[Found] = []
    for i in np.argsort(-time, kind="stable"):
        if count[i] < limits["unlisted_min_count"]:
            continue
        left, right = kernels.texts[int(keys[i] >> 24) & 0xFFFFFF], kernels.texts[int(keys[i]) & 0xFFFFFF]
        label = f"{left} -> {right}"
        if any(label in text for text in known):
            continue
        mean = float(gaps[i]) / int(count[i]) / 1000
        source = f"in no catalogue; mean launch gap {mean:.2f} us"
        stage = scene.stage_name(int(keys[i] >> 48))
        out.append(Found("unlisted", UNLISTED, "low", stage, int(count[i]), int(time[i]), label, source, mean, ""))
        if len(out) >= limits["unlisted_rows"]:
            break
    return out


def fuse_table(scene_rows: list[tuple[Scene, Found]]) -> Table:
    """The table; equal rows of several ranks are summed."""
    sums: dict[tuple[str, ...], list[int]] = {}
    whole: dict[str, int] = {}
    for scene in {id(s): s for s, _ in scene_rows}.values():
        for stage, time in stage_sums(scene).items():
            name = scene.stage_name(stage)
            whole[name] = whole.get(name, 0) + time
    for _, row in scene_rows:
        key = (row.id, row.state, row.confidence, row.stage, row.kernels, row.source)
        entry = sums.setdefault(key, [0, 0])
        entry[0] += row.count
        entry[1] += row.time_ns
    rows: list[list[Any]] = [
        [ident, state, sure, stage, n, us(time), pct(time, whole.get(stage, 0)), kernels, source or None]
        for (ident, state, sure, stage, kernels, source), (n, time) in sums.items()
    ]
    return Table("fuse", COLUMNS, sorted(rows, key=lambda r: -r[5]), "Fuse: known fusions, missing and active")


def notes(found: list[Found]) -> dict[str, dict[str, Any]]:
    """What each pattern in the table fuses, what it saves, under which conditions, and who was checked for it."""
    by_id = {p.id: p for p in catalogue().patterns}
    out: dict[str, dict[str, Any]] = {}
    for row in found:
        pattern = by_id.get(row.id)
        if pattern is None or row.id in out:
            continue
        gap = None if row.launch_gap_us is None else round(row.launch_gap_us, 3)
        out[row.id] = {
            "fuses": row.note,
            "saving": pattern.saving,
            "conditions": pattern.when,
            "framework": pattern.framework,
            "checked": pattern.source["checked"],
            "launch_gap_us": gap,
        }
    return out
