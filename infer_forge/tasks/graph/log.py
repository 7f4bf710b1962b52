"""A graph's history: append-only, hash-chained events in one git ref, folded into a `Graph` and kept in the cache.

The cache is only a shortcut: it names the event that it ends with, and is dropped when the history does not hold that event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from infer_forge.base import jsonio, redact
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.gitstore import Changes, Refuse, Snapshot, Store
from infer_forge.base.paths import paths
from infer_forge.tasks import events as history
from infer_forge.tasks.events import Event
from infer_forge.tasks.graph.model import Graph, apply

PREFIX = "refs/graphs/"
DEFAULT_PROJECT = "main"
# A state is kept when so many events were folded anew; fewer are quicker to fold again than to write.
_WORTH_KEEPING = 200
_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."


def valid_name(name: str) -> bool:
    """Whether a word can name a node or a project: 1 to 80 letters, digits, `-`, `_`, `.`, the first a letter or digit."""
    return bool(name) and len(name) <= 80 and set(name) <= set(_NAME) and name[0].isalnum() and ".." not in name


def ref_of(project: str) -> str:
    """The git ref of a project's graph.

    Raises:
        UsageFault: the name cannot be one.
    """
    if not valid_name(project) or project.endswith((".lock", ".")):
        raise UsageFault(f"{project!r} is no name for a graph", next_step="use letters, digits, - and _")
    return f"{PREFIX}{project}"


def projects(store: Store) -> list[str]:
    """Names of all graphs in the store; also those whose ref is damaged, which `load` then tells."""
    faults: dict[str, InputUnusable] = {}
    return sorted(name.removeprefix(PREFIX) for name in (*store.tips(PREFIX, faults), *faults))


def path_of(seq: int) -> str:
    """The file of one commit's events, JSON lines, named for the first of them; fanned out by thousands."""
    return f"events/{seq // 1000:05d}/{seq:08d}.jsonl"


class Draft:
    """One decision under way: the graph as it is, and the events that the decision adds, folded in as they come."""

    def __init__(self, graph: Graph, by: str) -> None:
        self.graph = graph
        self.by = by
        self.events: list[Event] = []

    def emit(self, kind: str, data: dict[str, Any]) -> None:
        """Add an event; secrets in its data are masked."""
        body = {k: v for k, v in data.items() if v is not None}
        clean: dict[str, Any] = jsonio.loads(redact.redact(jsonio.dumps(body).decode()))
        event = Event(self.graph.last_seq + 1, kind, history.now(), self.by, self.graph.last_sha, clean).sealed()
        apply(self.graph, event.seq, kind, event.at, clean)
        self.graph.last_seq, self.graph.last_sha = event.seq, event.sha
        self.events.append(event)


def append(store: Store, project: str, decide: Callable[[Draft], None], why: str) -> Graph:
    """Write what `decide` emits in one commit, by compare-and-swap; on a lost race it decides again on what the other wrote.

    Raises:
        GateRefused: the decision refuses.
    """
    done: list[Draft] = []

    def step(snapshot: Snapshot) -> Changes | Refuse:
        draft = Draft(fold(snapshot, project), history.who())
        done[:] = [draft]
        try:
            decide(draft)
        except GateRefused as exc:
            return Refuse(exc.what, exc.next_step)
        if not draft.events:
            return Changes()
        lines = b"\n".join(jsonio.dumps(asdict(e)) for e in draft.events)
        return Changes(put={path_of(draft.events[0].seq): lines + b"\n"})

    store.update(ref_of(project), step, f"{project}: {why}")
    return done[0].graph


def load(store: Store, project: str, *, whole: bool = False) -> Graph:
    """The graph now; an unknown project is an empty graph.

    Args:
        whole: read and check the whole chain, without the cache.

    Raises:
        InputUnusable: the history was changed, or cannot be read; the last good commit and its repair are named.
    """
    ref = ref_of(project)
    try:
        return fold(store.read(ref), project, whole=whole)
    except history.OtherVersion:
        raise
    except InputUnusable as exc:
        from infer_forge.tasks.restoring import advice

        raise advice(store, ref, exc) from None


def events(store: Store, project: str) -> Iterator[Event]:
    """All events, oldest first, each checked against its predecessor."""
    return chain(store.read(ref_of(project)), Graph(project))


def _cache_file(snapshot: Snapshot, project: str) -> Path:
    first = snapshot.blob_id(path_of(1)) or "empty"
    return paths().cache / "graphs" / f"{project}-{first[:16]}.msgpack"


def fold(snapshot: Snapshot, project: str, *, whole: bool = False) -> Graph:
    """The graph of a snapshot.

    Args:
        whole: read and check the whole chain, without the cache.

    Raises:
        InputUnusable: the history was changed.
    """
    file = _cache_file(snapshot, project)
    graph = None if whole else _cached(file, snapshot)
    graph = graph or Graph(project)
    before = graph.last_seq
    for event in chain(snapshot, graph):
        try:
            apply(graph, event.seq, event.kind, event.at, event.data)
        except (KeyError, TypeError) as exc:
            raise history.OtherVersion(
                f"event {event.seq} ({event.kind}) does not fit this version: {exc}",
                where=snapshot.ref,
                next_step="update infer-forge",
            ) from None
    if graph.last_seq - before >= _WORTH_KEEPING:
        graph.last_blob = snapshot.blob_id(path_of(graph.last_file)) or ""
        jsonio.write_atomic(file, msgspec.msgpack.encode(graph))
    return graph


def _cached(file: Path, snapshot: Snapshot) -> Graph | None:
    """The kept state, when the history still holds the event that it ends with."""
    try:
        graph = msgspec.msgpack.decode(file.read_bytes(), type=Graph)
    except (OSError, msgspec.MsgspecError):
        return None
    return graph if graph.last_blob and snapshot.blob_id(path_of(graph.last_file)) == graph.last_blob else None


def chain(snapshot: Snapshot, graph: Graph) -> Iterator[Event]:
    """The events after those in `graph`, which is moved on before each is given."""
    while (content := snapshot.get(path_of(graph.last_seq + 1))) is not None:
        graph.last_file = graph.last_seq + 1
        for line in content.splitlines():
            try:
                event = Event(**jsonio.loads(line, where=path_of(graph.last_file)))
            except TypeError:
                raise InputUnusable(f"{path_of(graph.last_file)} holds no event", where=snapshot.ref) from None
            if event.seq != graph.last_seq + 1 or event.prev != graph.last_sha or event.sealed().sha != event.sha:
                raise InputUnusable(
                    f"event {event.seq} does not continue the chain: the graph's history was changed",
                    where=snapshot.ref,
                    next_step=history.restoring(snapshot.ref),
                )
            graph.last_seq, graph.last_sha = event.seq, event.sha
            yield event
    newest = max(snapshot.children("events"), default="")
    if newest and max(snapshot.children(f"events/{newest}")) > path_of(graph.last_seq).rpartition("/")[2]:
        raise InputUnusable(f"the events after {graph.last_seq} are missing from the history", where=snapshot.ref)
