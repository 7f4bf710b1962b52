"""Group-by on small integer keys: like `np.unique` with all its extras, without sorting the events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
_MOST_BINS = 1 << 20


class Groups(NamedTuple):
    """The distinct keys in ascending order, and per key the first row and the number of rows; per row its key's place."""

    keys: I64
    first: I64
    place: I64
    counts: I64


def group(keys: npt.NDArray[np.integer], size: int) -> Groups:
    """Group rows by keys in [0, size). Linear in rows and size; a huge size falls back to sorting."""
    if size > _MOST_BINS:
        found, first, place, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        return Groups(found.astype(np.int64), first.astype(np.int64), place.astype(np.int64), count.astype(np.int64))
    counts = np.bincount(keys, minlength=size)
    found = np.flatnonzero(counts)
    places = np.zeros(size, np.int64)
    places[found] = np.arange(len(found))
    first = np.zeros(size, np.int64)
    first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)  # the last write is the smallest row
    return Groups(found.astype(np.int64), first[found], places[keys], counts[found].astype(np.int64))


def compact(values: npt.NDArray[np.integer]) -> tuple[I64, I64]:
    """Per row the place of its value among the distinct values, and those values."""
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    least = min(int(values.min()), -1)  # -1 is unknown; a damaged file has others
    if int(values.max()) - least >= _MOST_BINS:
        distinct_values, place = np.unique(values.astype(np.int64), return_inverse=True)
        return place.astype(np.int64), distinct_values
    shifted = values.astype(np.int64) - least
    found = group(shifted, int(shifted.max()) + 1)
    return found.place, found.keys + least


def distinct(values: npt.NDArray[np.integer]) -> list[int]:
    """The distinct values, ascending. Unlike `np.unique` it imports nothing and does not sort."""
    return compact(values)[1].tolist()


def sums(place: I64, size: int, weight: I64) -> I64:
    """Exact integer sums of weights by place."""
    out = np.zeros(size, np.int64)
    np.add.at(out, place, weight)
    return out


def dominant(keys: npt.NDArray[np.integer], size: int, values: npt.NDArray[np.integer], weight: I64) -> tuple[I64, I64]:
    """Per key in [0, size): the value with the most weight (ties: the smallest), and that weight.

    Values are at least -1; -1 ("nothing") competes as any other. A key without rows has value -1 and weight 0.
    """
    places, known = compact(values)
    width = max(len(known), 1)
    found = group(keys.astype(np.int64) * width + places, size * width)
    spent = sums(found.place, len(found.keys), weight)
    owner = found.keys // width
    order = np.lexsort((found.keys, -spent, owner))
    heads = np.ones(len(order), np.bool_)
    heads[1:] = owner[order][1:] != owner[order][:-1]
    picks = order[heads]
    best, best_weight = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    best[owner[picks]] = known[found.keys[picks] % width]
    best_weight[owner[picks]] = spent[picks]
    return best, best_weight
