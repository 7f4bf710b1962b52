"""FFN halves that hold no kernel of their own kind: the activation is fused into a product, so a norm and products are all there is.

The rough cut cannot tell such a half from the next layer's attention half and takes both as one. The first layer of a pass gives
it away: its attention half stands there alone, and is the end of what the cut found for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from infer_forge.pipeline.roles import Role
from infer_forge.pipeline.segment import ATTENTION, NONE, Names, cut

Ids = tuple[int, ...]
_PRODUCTS = 2
"""Products that an FFN has at least."""
_HALVES = 3
"""Attention halves of a sequence that tells anything."""


def bare_halves(sequences: Iterable[tuple[Sequence[int], int]], names: Names) -> frozenset[Ids]:
    """Name ids of the FFN halves that the rough cut leaves in front of attention halves.

    Args:
        sequences: sequences without breakers that do not begin inside a pass, with how often each occurs. Most of those that
            begin alike must agree; of a lone one, most of its halves: a single half may have lost its telling kernel.
    """
    begun, votes, most = Counter[Ids](), Counter[tuple[Ids, Ids]](), set[tuple[Ids, Ids]]()
    for ids, count in sequences:
        halves = [s for s in cut(ids, names) if s.kind != NONE]
        mixers = [tuple(ids[s.start : s.end]) for s in halves if s.kind == ATTENTION]
        if len(mixers) < _HALVES or halves[0].kind != ATTENTION:
            continue
        first, *others = mixers
        begun[first] += count
        for front, often in Counter(_front(first, other, names) for other in others).items():
            votes[first, front] += count
            if 2 * often > len(others):
                most.add((first, front))
    return frozenset(
        front
        for (first, front), n in votes.items()
        if front and (2 * n > begun[first] if begun[first] > 1 else (first, front) in most)
    )


def _front(first: Ids, other: Ids, names: Names) -> Ids:
    """What stands in a half before the pass's first attention half, where that is an FFN; () where it is not."""
    size = len(other) - len(first)
    if size <= 0 or other[size + 1 :] != first[1:]:
        return ()
    front = other[:size]
    roles = [names.role(n) for n in front]
    fed = roles.count(Role.GEMM) >= _PRODUCTS and not {Role.MIXER, Role.FFN, Role.SIDE} & {*roles}
    opened = roles[0] is Role.NORM and names.role(other[size]) is Role.NORM
    return front if fed and (opened or roles[-1] is Role.FUSED) else ()
