"""Task graph: `ready` and `impact` at 5,000 nodes, from the store to the answer."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benches import Row
from benches.places import home

NODES = 5000
GOAL_MS = 200.0
_STAGES = ("plan", "research", "code", "code", "integration", "evaluation")


def make(path: Path, nodes: int) -> None:
    """A project of chains of six that share producers: three quarters handed over, the rest planned."""
    rng = random.Random(5)
    items: list[dict[str, object]] = []
    edges: list[dict[str, object]] = []
    for i in range(nodes):
        done = i < nodes * 3 // 4
        item: dict[str, object] = {
            "id": f"n{i}",
            "type": _STAGES[i * 6 // nodes % 6],
            "title": f"node {i}",
            "workstream": f"w{i % 12}",
            "author": f"a{i % 7}",
            "created": "2026-03-01T08:00:00Z",
        }
        if done:
            item |= {"started": "2026-03-01T09:00:00Z", "delivered": "2026-03-02T09:00:00Z"}
        items.append(item)
        for source in {rng.randrange(max(0, i - 400), i) for _ in range(2)} if i else ():
            edge: dict[str, object] = {"from": f"n{source}", "to": f"n{i}"}
            if source < nodes * 3 // 4:
                edge |= {"reviewer": "rev", "sha256": "0" * 64, "verified": "2026-03-02T10:00:00Z", "imported": done}
            edges.append(edge)
    path.write_text(json.dumps({"nodes": items, "edges": edges}))


def _ms(work: Callable[[], object], rounds: int = 5) -> float:
    """Median wall time."""
    times: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append((time.perf_counter() - begun) * 1000)
    return sorted(times)[rounds // 2]


def _cpu_ms(work: Callable[[], object], rounds: int = 5) -> float:
    """Mean processor time: what a loaded machine cannot blur."""
    begun = time.process_time()
    for _ in range(rounds):
        work()
    return (time.process_time() - begun) * 1000 / rounds


def ready_and_impact() -> list[Row]:
    """The two answers at 5,000 nodes: in a process that runs on, and as a command."""
    from infer_forge.tasks import graph, open_store

    with home() as folder:
        file = folder / "graph.json"
        make(file, NODES)
        store = open_store()
        begun = time.perf_counter()
        graph.load_file(store, "bench", file)
        loaded = time.perf_counter() - begun
        cold = _cold(store)
        note = f"load of the file {loaded:.1f} s, first fold of {graph.look(store, 'bench').graph.last_seq} events {cold:.1f} s"
        works: dict[str, tuple[Callable[[], object], list[str]]] = {
            "ready": (lambda: graph.ready(graph.look(store, "bench")), ["ready"]),
            "impact": (lambda: graph.impact(graph.look(store, "bench"), "n10"), ["impact", "n10"]),
        }
        rows: list[Row] = []
        for name, (work, words) in works.items():
            took, cpu = _ms(work), _cpu_ms(work)
            argv = [sys.executable, "-m", "infer_forge", "graph", *words, "--project", "bench", "--format", "json"]
            command = _ms(lambda argv=argv: subprocess.run(argv, check=True, capture_output=True), 3)
            start = _ms(
                lambda: subprocess.run(
                    [sys.executable, "-m", "infer_forge", "--version"], check=True, capture_output=True
                ),
                3,
            )
            baseline = (
                f"processor time {cpu:.0f} ms; as a command {command:.0f} ms, of which `--version` alone {start:.0f} ms"
            )
            rows.append(
                Row(
                    f"graph {name} at {NODES:,} nodes",
                    "under 200 ms",
                    round(took, 1),
                    "ms",
                    baseline,
                    took < GOAL_MS,
                    note,
                )
            )
        return rows


def bound_tasks() -> list[Row]:
    """`ready` where 1,000 nodes stand for tasks of the store, all of them in flight: their states are asked again each time."""
    from infer_forge.tasks import define, events, graph, open_store
    from infer_forge.tasks.graph import log

    count = 1000
    contract = {"goal": "one file is made", "scope": "this folder and nothing else"}
    body = define.definition_of({"type": "code", "title": "Write a file", "contract": contract}).model_dump(mode="json")
    with home():
        store = open_store()
        names = [f"t-{n:05d}" for n in range(count)]
        for name in names:
            events.append(store, name, lambda _: ("defined", {"definition": body}))

        def add(draft: log.Draft) -> None:
            for name in names:
                draft.emit("node_added", {"id": name, "kind": "task", "title": "a task", "type": "code", "task": name})

        log.append(store, "main", add, "all")
        begun = time.perf_counter()
        graph.look(store)
        first = (time.perf_counter() - begun) * 1000
        took = _ms(lambda: graph.ready(graph.look(store)))
        work = f"graph ready, {count:,} nodes bound to open tasks"
        return [Row(work, "under 200 ms", round(took, 1), "ms", f"first look {first:.0f} ms", took < GOAL_MS)]


def _cold(store: object) -> float:
    """Seconds to fold all events without the kept state."""
    from infer_forge.tasks.graph import log

    begun = time.perf_counter()
    log.load(store, "bench", whole=True)  # pyright: ignore[reportArgumentType]
    return time.perf_counter() - begun


BENCHES: dict[str, Callable[[], list[Row]]] = {
    "graph-ready-impact": ready_and_impact,
    "graph-bound-tasks": bound_tasks,
}
