"""A rough cut of a pass into halves, from the roles of its kernels alone; and the halves that repeat, as templates.

The cut needs no anchor kernel: a half is open from its norm until a projection follows its core (attention, an expert, an
activation); the next norm opens the next half. Losses and overlaps spoil single cuts, so nothing is reported from here: the
frequent halves become templates, and `infer_forge.pipeline.align` parses every pass with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from infer_forge.base.kernels import classify, simplify
from infer_forge.pipeline.roles import Role, role_of

ATTENTION, FFN, BLOCK, NONE = "attn", "ffn", "block", ""
"""Kinds of a half; a block holds both (parallel attention and FFN, or a mixer-only layer's all)."""
_LONGEST = 600
_MOST = 48
"""Templates of a device at the most."""
_NOISE = 0.04
"""With more of the halves than this seen only once, kernels were lost: what is rare then is no half of its own,"""
_SEVERAL = 20
"""or with so many: in a deep model the losses repeat. Without losses fewer were seen once in every trace looked at (13 in training)."""
_WORTH = 0.8
"""Least gain in score that a template must bring for each time it was seen."""
_REPEATS = 0.08
"""unless it occurs in so many of the sequences."""
_LONE = 3
"""Up to so many distinct sequences a half seen once counts; with more, a real one would repeat."""


@dataclass(frozen=True)
class Segment:
    """Rows [start, end) of a sequence."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Template:
    """A half as it repeats: kernel name ids in order."""

    number: int
    names: tuple[int, ...]
    kind: str
    count: int
    """How often it was seen as it is."""


class Names:
    """Roles of name ids, judged once."""

    def __init__(self, names: Sequence[str], softmax_mixes: bool = False) -> None:
        self.texts = names
        self.bare: frozenset[tuple[int, ...]] = frozenset()
        """FFN halves without a kernel of their own kind (`infer_forge.pipeline.bare_ffn`)."""
        self._softmax = softmax_mixes
        self._role: dict[int, Role] = {}

    def role(self, name: int) -> Role:
        """Role of a name id."""
        found = self._role.get(name)
        if found is None:
            text = self.texts[name]
            found = Role.MIXER if self._softmax and classify(text) == "softmax" else role_of(text)
            self._role[name] = found
        return found


def cut(ids: Sequence[int], names: Names) -> list[Segment]:
    """The rough halves of a sequence; what is no half has kind ""."""
    roles = [names.role(i) for i in ids]
    starts = sorted(_starts(ids, roles, names) | {0})
    bounds = [*starts, len(ids)]
    found = [Segment(a, b, _kind(roles[a:b])) for a, b in pairwise(bounds) if b > a]
    if names.bare:
        found = [part for s in found for part in _parted(s, ids, roles, names)]
    return [s for s in found if s.end - s.start <= _LONGEST]


def _parted(segment: Segment, ids: Sequence[int], roles: list[Role], names: Names) -> list[Segment]:
    """An FFN half without a kernel of its own kind, taken off the begin of a segment."""
    begin, end = segment.start, segment.end
    size = max((len(b) for b in names.bare if tuple(ids[begin : begin + len(b)]) == b), default=0)
    if not size or segment.kind not in (ATTENTION, NONE):
        return [segment]
    rest = [Segment(begin + size, end, _kind(roles[begin + size : end]))] if begin + size < end else []
    return [Segment(begin, begin + size, FFN), *rest]


def _starts(ids: Sequence[int], roles: list[Role], names: Names) -> set[int]:
    """Where halves begin."""
    starts: set[int] = set()
    begun, core, closed, head = 0, False, False, True
    for i, role in enumerate(roles):
        if role is Role.MIXER or role is Role.FFN:
            core, closed, head = True, role is Role.FFN and _expert(names, ids[i]), False
        elif role is Role.GEMM and core:
            closed = True
        elif (role is Role.FUSED and closed) or (role is Role.CLOSE and core):
            starts.add(i + 1)
            begun, core, closed = i + 1, False, False
        elif role in (Role.NORM, Role.OPEN):
            at = _norm_start(ids, roles, i, names) if role is Role.NORM else i
            if closed or head:
                starts.add(at)
                begun, core, closed, head = at, False, False, False
            elif not core and begun in starts and _only_norms(roles[begun:at]) and role is Role.NORM:
                starts.discard(begun)  # a norm behind the half (sandwich): the later one opens
                starts.add(at)
                begun = at
    return starts


def _expert(names: Names, name: int) -> bool:
    return classify(names.texts[name]) == "moe"


def _only_norms(roles: list[Role]) -> bool:
    return bool(roles) and roles[0] is Role.NORM and all(r in (Role.NORM, Role.OTHER) for r in roles)


def _norm_start(ids: Sequence[int], roles: list[Role], i: int, names: Names) -> int:
    """First row of a norm; one that eager PyTorch runs piece by piece begins before its rsqrt (cast, pow, mean, add)."""
    if classify(names.texts[ids[i]]) == "norm":
        return i
    begin = i
    for j in range(i - 1, max(-1, i - 6), -1):
        if roles[j] is not Role.OTHER:
            break
        if "pow" in simplify(names.texts[ids[j]]):
            begin = j
    if begin < i and begin > 0 and classify(names.texts[ids[begin - 1]]) == "copy":
        begin -= 1
    return begin


def _kind(roles: list[Role]) -> str:
    mixes = Role.MIXER in roles
    feeds = Role.FFN in roles
    if mixes and feeds:
        first, last = roles.index(Role.MIXER), len(roles) - 1 - roles[::-1].index(Role.FFN)
        return BLOCK if first < last else ATTENTION
    if mixes or (Role.SIDE in roles and not feeds):
        return ATTENTION
    return FFN if feeds else NONE


def learn(
    pieces: Sequence[tuple[Sequence[int], int]],
    names: Names,
    explain: Callable[[tuple[int, ...], list[Template]], tuple[float, list[int] | None]],
    explained: float,
    own_share: float,
) -> list[Template]:
    """The halves that repeat, most frequent first.

    Args:
        pieces: distinct sequences with how often each occurs.
        explain: how well templates explain a half, and the templates that it only lacks kernels of (None: it differs otherwise).
        explained: a half seen once is a template only where the others explain it worse than this.
        own_share: a half that only lacks kernels of others is a template of its own where it is at least so frequent beside them.
    """
    seen: Counter[tuple[tuple[int, ...], str]] = Counter()
    for ids, count in pieces:
        for segment in cut(ids, names):
            if segment.kind and segment.end - segment.start > 1:
                seen[tuple(ids[segment.start : segment.end]), segment.kind] += count
    ranked = sorted(seen.items(), key=lambda x: (-x[1], -len(x[0][0])))[:400]
    found: list[Template] = []
    noisy = is_noisy(seen.values(), len(pieces))
    least = max(3, round(_REPEATS * sum(n for _, n in pieces))) if noisy else 1
    for (half, kind), count in ranked:
        if found and count < least:
            continue
        share, parents = explain(half, found) if found else (0.0, None)
        if count == 1 and len(pieces) > _LONE:
            continue
        if found and not _is_new(half, count, share, parents, found, explained, own_share):
            continue
        found.append(Template(len(found), half, kind, count))
        if len(found) >= _MOST:
            break
    return found


def is_noisy(counts: Iterable[int], pieces: int) -> bool:
    """Whether kernels were lost: a good part of the halves was seen only once, or many were."""
    every = list(counts)
    lone = sum(c for c in every if c == 1)
    return pieces > _LONE and (lone > _NOISE * sum(every) or lone >= _SEVERAL)


def pruned(templates: list[Template], score: Callable[[list[Template]], float]) -> list[Template]:
    """Without the templates that the others explain as well: halves whose border was lost, or a half's rest.

    Args:
        score: sum of the parse scores of the sequences under some templates.
    """
    kept = list(templates)
    best = score(kept)
    for one in sorted(templates, key=lambda t: t.count):
        rest = [t for t in kept if t is not one]
        if not any(t.kind == one.kind and t.count > one.count for t in rest) or any(
            _replaces(one.names, t.names) for t in rest
        ):
            continue
        without = score(rest)
        if without >= best - _WORTH * one.count:
            kept, best = rest, without
    return [Template(k, t.names, t.kind, t.count) for k, t in enumerate(kept)]


def _is_new(
    half: tuple[int, ...],
    count: int,
    share: float,
    parents: list[int] | None,
    found: list[Template],
    explained: float,
    own_share: float,
) -> bool:
    """Whether a half is one of its own, and no template with kernels lost, added or swapped."""
    if share < explained:
        return not any(Counter(half) <= Counter(t.names) and count < own_share * t.count for t in found)
    if parents is not None:
        return count >= max(3, own_share * max(found[p].count for p in parents))
    mine = Counter(half)
    if count < 2 or any(mine <= Counter(t.names) and count < own_share * t.count for t in found):
        return False
    if any(Counter(t.names) == mine for t in found):
        return False
    return any(_replaces(half, t.names) for t in found) or count >= 0.5 * own_share * found[0].count


def _replaces(half: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether it is another template with at most two kernels replaced by ones that do not occur in that one."""
    if len(half) != len(other):
        return False
    new = [a for a, b in zip(half, other, strict=True) if a != b]
    return len(new) <= 2 and not set(new) & set(other)
