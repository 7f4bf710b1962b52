"""From a spec to times: every rank in lockstep, so that collectives end together and waiting has a cause."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trace_gen.families import forward
from trace_gen.model import CollectiveTruth, Item, Spec, Step

MAIN, SIDE, SECOND = 7, 20, 28
"""Stream numbers of the main stream, of the one beside it, and of a second micro-batch."""

COPY_IN = Item(
    "Memcpy HtoD (Pinned -> Device)",
    "aten::copy_",
    "python/sglang/srt/managers/schedule_batch.py(1702): get_model_worker_batch",
    1.4,
    "head",
    None,
    "",
    "",
)
COPY_OUT = Item(
    "Memcpy DtoH (Device -> Pinned)",
    "aten::copy_",
    "python/sglang/srt/managers/scheduler.py(2210): process_batch_result",
    1.6,
    "tail",
    None,
    "",
    "",
)
_FRAME_NS, _MIN_NS = 60, 700


@dataclass
class Lane:
    """One rank (or one device of a process) while time runs; all in ns since the trace's zero."""

    rank: int
    device: int
    host: int = 0
    free: dict[int, int] = field(default_factory=lambda: {MAIN: 0, SIDE: 0, SECOND: 0})
    correlation: int = 100
    external: int = 1000


class Placed(NamedTuple):
    """A kernel with times on one lane."""

    item: Item
    stream: int
    start: int
    dur: int
    op: tuple[int, int]
    launch: tuple[int, int]
    correlation: int
    external: int
    graph: int
    collective: int | None


class GraphLaunch(NamedTuple):
    """One graph launch on one lane."""

    launch: tuple[int, int]
    correlation: int
    external: int
    number: int


@dataclass
class StepRun:
    """One step on all lanes: kernels in launch order, graph launches, the host's window and the sync at its end."""

    number: int
    step: Step
    kernels: list[list[Placed]]
    graphs: list[list[GraphLaunch]]
    host: list[tuple[int, int]]
    sync: list[tuple[int, int, int]]
    collectives: list[CollectiveTruth]


def lanes_of(spec: Spec) -> list[Lane]:
    """The lanes that a spec asks for."""
    if spec.devices > 1:
        return [
            Lane(0, n, correlation=100 + 10_000_000 * n, external=1000 + 10_000_000 * n) for n in range(spec.devices)
        ]
    base = 0 if spec.merged else 1
    return [
        Lane(rank, rank, correlation=100 + base * 7 * rank, external=1000 + base * 13 * rank)
        for rank in range(spec.ranks)
    ]


def steps_of(spec: Spec) -> Iterator[Step]:
    """The steps in order: `cycles` times, or without end when `events` limits the trace."""
    cycle = 0
    while spec.events is not None or cycle < spec.cycles:
        yield from spec.steps
        cycle += 1


def _shuffled(items: list[Item], spec: Spec, rng: random.Random) -> list[Item]:
    """Independent neighbours change places with the spec's chance; the truth moves with them."""
    if spec.reorder <= 0:
        return items
    out = list(items)
    for i in range(len(out) - 1):
        a, b = out[i], out[i + 1]
        if a.free and b.free and (a.layer, a.half) == (b.layer, b.half) and rng.random() < spec.reorder:
            out[i], out[i + 1] = b, a
    return out


class Simulation:
    """Runs the steps of a spec. Deterministic by seed."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec = spec
        self.rng = random.Random(seed)
        self.lanes = lanes_of(spec)
        self.unit = 1000 if spec.ts == "int" else 1
        self._items = {stage: list(forward(spec, stage)) for stage in {step.stage for step in spec.steps}}
        self._collective = 0
        self._number = 0

    def _round(self, ns: float) -> int:
        return int(ns) // self.unit * self.unit

    def run(self) -> Iterator[StepRun]:
        """One step after another."""
        for step in steps_of(self.spec):
            yield self._step(step)

    def _host_launches(
        self, lane: Lane, items: list[Item], graph: int
    ) -> tuple[list[tuple[tuple[int, int], tuple[int, int], int, int, int]], list[GraphLaunch]]:
        """Per item its op window, launch window, correlation, External id, graph number; and the graph launches."""
        spec, rng = self.spec, self.rng
        pad = spec.frames * _FRAME_NS if spec.stacks else 0
        step_ns = spec.host_us * 1000 + 2 * pad
        found: list[tuple[tuple[int, int], tuple[int, int], int, int, int]] = []
        graphs: list[GraphLaunch] = []
        per_graph = max(1, -(-(len(items) - 2) // graph)) if graph else 0
        current: GraphLaunch | None = None
        for index, item in enumerate(items):
            inside = graph and not item.name.startswith("Mem")
            if inside and (current is None or (index - 1) % per_graph == 0):
                begin = self._round(lane.host)
                length = self._round(9000 + 15 * per_graph)
                lane.correlation += 1
                lane.external += 1
                current = GraphLaunch((begin, length), lane.correlation, lane.external, len(graphs))
                graphs.append(current)
                lane.host = begin + length + 12_000
            if inside and current:
                found.append(((0, 0), current.launch, current.correlation, current.external, current.number))
                continue
            whole = step_ns * (0.85 + 0.3 * rng.random())
            begin = self._round(lane.host + pad + 100)
            length = max(self.unit, self._round(whole - 2 * pad - 300))
            launch = self._round(begin + length * 0.45)
            lane.correlation += 1
            lane.external += 1
            found.append(
                (
                    (begin, length),
                    (launch, max(self.unit, self._round(length * 0.4))),
                    lane.correlation,
                    lane.external,
                    -1,
                )
            )
            lane.host = self._round(lane.host + whole) + self.unit
            if index == 0 and self._number == 0:
                lane.host += self._round(spec.stray_ms * 1e6)
        return found, graphs

    def _place(
        self, items: list[Item], launches: list[list[tuple[tuple[int, int], tuple[int, int], int, int, int]]]
    ) -> tuple[list[list[Placed]], list[CollectiveTruth]]:
        """Start and duration of every item on every lane; collectives end together."""
        spec, rng, lanes = self.spec, self.rng, self.lanes
        placed: list[list[Placed]] = [[] for _ in lanes]
        collectives: list[CollectiveTruth] = []
        before = ("", None, False)
        begun: dict[int, float] = {}
        latency = spec.latency_us * 1000
        for index, item in enumerate(items):
            place = (item.half, item.layer, item.comm)
            stream = SIDE if item.side else SECOND if item.micro and spec.two_batch == "streams" else MAIN
            starts: list[int] = []
            for lane, own in zip(lanes, launches, strict=True):
                gap = 350 + rng.random() * 600 if not spec.pdl_us else -1000 * spec.pdl_us * rng.random()
                free = lane.free[stream] + (0 if stream == SIDE else gap)
                ready = max(own[index][1][0] + latency, free)
                if item.side:
                    ready = max(
                        ready,
                        placed[lanes.index(lane)][-1].start + placed[lanes.index(lane)][-1].dur
                        if lane.free[SIDE] < lane.free[MAIN]
                        else 0,
                    )
                elif place != before:
                    ready = max(ready, lane.free[SIDE])
                if (
                    spec.two_batch and item.part != "layer"
                ):  # both micro-batches begin behind the head and meet at the tail
                    ready = max(ready, *lane.free.values())
                    begun[id(lane)] = ready
                ready = max(ready, begun.get(id(lane), 0) + 1)
                starts.append(self._round(ready) + (self.unit if self.unit > 1 else 0))
            floor = max(_MIN_NS, item.us * 1000)
            end = 0
            number: int | None = None
            if item.comm and len(lanes) > 1:
                floor = self._round(floor * (1 + spec.jitter * abs(rng.gauss(0, 1)))) or self.unit
                end = max(starts) + floor
                number = self._collective
                self._collective += 1
                waits = tuple(max(starts) - start for start in starts)
                collectives.append(CollectiveTruth(number, item.name, floor, waits, starts.index(max(starts))))
            for which, (lane, own, start) in enumerate(zip(lanes, launches, starts, strict=True)):
                dur = (
                    end - start
                    if number is not None
                    else max(self.unit, self._round(max(_MIN_NS, floor * (1 + spec.jitter * rng.gauss(0, 1)))))
                )
                op, launch, correlation, external, graph = own[index]
                placed[which].append(Placed(item, stream, start, dur, op, launch, correlation, external, graph, number))
                lane.free[stream] = max(lane.free[stream], start + dur)
            if not item.side:
                before = place
        return placed, collectives

    def _step(self, step: Step) -> StepRun:
        spec, rng = self.spec, self.rng
        items = [COPY_IN, *_shuffled(self._items[step.stage], spec, rng), COPY_OUT]
        launches: list[list[tuple[tuple[int, int], tuple[int, int], int, int, int]]] = []
        graphs: list[list[GraphLaunch]] = []
        begins: list[int] = []
        for lane in self.lanes:
            lane.host = self._round(
                lane.host + spec.gap_us * 1000 * (0.8 + 0.4 * rng.random()) + spec.skew_us * 1000 * lane.rank
            )
            begins.append(lane.host)
            own, own_graphs = self._host_launches(lane, items, step.graph)
            launches.append(own)
            graphs.append(own_graphs)
        placed, collectives = self._place(items, launches)
        host: list[tuple[int, int]] = []
        sync: list[tuple[int, int, int]] = []
        for lane, begin in zip(self.lanes, begins, strict=True):
            host.append((begin, lane.host - begin))
            wait = max(lane.free.values()) + 3000
            lane.correlation += 1
            begin_sync = self._round(lane.host + 1000)
            length = max(self.unit, self._round(max(2000, wait - begin_sync)))
            sync.append((begin_sync, length, lane.correlation))
            lane.host = begin_sync + length + 1000
        run = StepRun(self._number, step, placed, graphs, host, sync, collectives)
        self._number += 1
        return run
