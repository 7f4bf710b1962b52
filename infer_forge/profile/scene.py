"""A rank of a trace, prepared for the tables: readable names, families and categories of its device work.

Everything that depends on a name alone is computed once a distinct name, then spread over the events by indexing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from infer_forge.base import kernels as names_of
from infer_forge.profile.grouping import compact, distinct
from infer_forge.trace.columns import I32, I64, DeviceWork, Flags, WorkKind
from infer_forge.trace.model import Trace

STAGE_ORDER = ("prefill", "decode", "mixed", "denoise", "step", "all", "outside")
RankLabel = int | str | None


@dataclass
class Vocabulary:
    """Interned texts: `ids[i]` of a trace name id is an id into `texts`."""

    ids: I32
    texts: list[str]


def _intern(texts: list[str]) -> tuple[I32, list[str]]:
    table: dict[str, int] = {}
    ids = [table.setdefault(text, len(table)) for text in texts]
    return np.array(ids, np.int32), list(table)


@dataclass
class Scene:
    """One rank with what the tables need.

    Attributes:
        rank: the rank's number; a text where the trace does not say it and several traces are looked at.
        work: the rank's device work, ascending by start.
    """

    trace: Trace
    rank: RankLabel

    @property
    def work(self) -> DeviceWork:
        """Kernels, memcpys and memsets of the rank."""
        return self.trace.work

    @cached_property
    def _used(self) -> I32:
        return compact(self.work.name)[1].astype(np.int32)

    @cached_property
    def _used_ids(self) -> list[int]:
        return [int(i) for i in self._used]

    @cached_property
    def lowered(self) -> list[str]:
        """Lower-cased full names of the distinct names in use (see `name_row`)."""
        return [self.trace.names[i].lower() for i in self._used_ids]

    @cached_property
    def name_row(self) -> I32:
        """Per work item: row of its name among the distinct names in use."""
        return compact(self.work.name)[0].astype(np.int32)

    def _named(self, ids: I32, texts: list[str]) -> Vocabulary:
        return Vocabulary(ids[self.name_row], texts)

    @cached_property
    def kernels(self) -> Vocabulary:
        """Per work item: its short readable name."""
        return self._named(*_intern([names_of.simplify(self.trace.names[i]) for i in self._used_ids]))

    @cached_property
    def families(self) -> Vocabulary:
        """Per work item: the family of its kernel (variants of one kernel fall together)."""
        return self._named(*_intern([names_of.family(self.trace.names[i]) for i in self._used_ids]))

    @cached_property
    def categories(self) -> Vocabulary:
        """Per work item: its class in the one kernel classifier."""
        return self._named(*_intern([names_of.classify(self.trace.names[i]) for i in self._used_ids]))

    def is_category(self, *wanted: str) -> Flags:
        """Mask over the work items of some categories."""
        good = np.array([text in wanted for text in self.categories.texts], np.bool_)
        return good[self.categories.ids] if len(good) else np.zeros(len(self.work), np.bool_)

    @cached_property
    def communication(self) -> Flags:
        """Kernels that move data between ranks, NCCL and custom alike."""
        return self.is_category("communication") & (self.work.kind == WorkKind.KERNEL)

    @cached_property
    def compute(self) -> Flags:
        """Kernels that are no communication; copies are neither."""
        return (self.work.kind == WorkKind.KERNEL) & ~self.communication

    @cached_property
    def end_ns(self) -> I64:
        """End of each work item."""
        return self.work.ts_ns + self.work.dur_ns

    @cached_property
    def devices(self) -> list[int]:
        """Device numbers, in order; -1 is unknown."""
        return distinct(self.work.device)

    def stage_name(self, stage: int) -> str:
        """Label of a stage id."""
        return self.trace.stages[stage] if stage >= 0 else "all"

    def stages_on(self, device: int) -> list[int]:
        """Stage ids that have work on a device, in reading order."""
        found = distinct(self.work.stage[self.work.device == device])
        return sorted(found, key=lambda s: stage_rank(self.stage_name(s)))

    def text(self, name_id: int) -> str | None:
        """The text of a name id, None for "nothing"."""
        return self.trace.name(int(name_id))


def told(rank: RankLabel) -> str:
    """A rank in a sentence: by its number, else by the trace that it was named after."""
    return f"trace {rank}" if isinstance(rank, str) else f"rank {rank}"


def stage_rank(stage: str) -> tuple[int, str]:
    """Sort key of a stage: prefill, decode, mixed, denoise first, what lies outside last."""
    return (STAGE_ORDER.index(stage) if stage in STAGE_ORDER else len(STAGE_ORDER) - 3, stage)


def place(value: object) -> tuple[int, int, str]:
    """Sort key of a rank or device: unknown first, then numbers in their order, then names."""
    if value is None:
        return (0, 0, "")
    return (1, value, "") if isinstance(value, int) else (2, 0, str(value))


def device_number(device: int) -> int | None:
    """The device column's value: None where the trace does not say the device."""
    return None if device < 0 else device


def us(ns: float | int | np.integer | np.floating) -> float:
    """Microseconds with three decimals: whole nanoseconds stay exact."""
    return round(float(ns) / 1000.0, 3)


def pct(part: float | int | np.integer, whole: float | int | np.integer) -> float | None:
    """Per cent with four decimals; None where there is nothing to compare with."""
    return round(100.0 * float(part) / float(whole), 4) if whole else None
