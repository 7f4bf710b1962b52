"""Observations out of the registry: the live samples and the sealed segments that a window needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import msgspec

from infer_forge.base.errors import InputUnusable
from infer_forge.base.gitstore import Snapshot
from infer_forge.nodes.model import Observation
from infer_forge.nodes.registry import LIVE, NOTES, OBS, Registry


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The collector's word on its newest sample, beside the live samples: without it a missing one would not show."""

    seq: int
    sha: str
    sig: str


@dataclass(frozen=True)
class Sample:
    """One observation, and the sha256 of its bytes as stored: what the next one names as `prev_sha`."""

    obs: Observation
    sha: str


@dataclass(frozen=True)
class Record:
    """What one collector says of one node, as far as an evaluation needs it.

    Attributes:
        samples: by seq; one seq twice with different hashes stays twice.
        head: the newest sample by the collector's own word; None when there is none.
        tips: ref -> commit that was read: the evidence.
        faults: what could not be read.
    """

    collector_id: str
    samples: list[Sample]
    head: Head | None
    tips: dict[str, str]
    faults: list[str]


_OBSERVATION = msgspec.json.Decoder(Observation)


def unpack(data: bytes, where: str) -> Sample:
    """Read one stored observation.

    Raises:
        InputUnusable: it is damaged.
    """
    import hashlib

    try:
        obs = _OBSERVATION.decode(data)
    except msgspec.DecodeError as exc:
        raise InputUnusable(f"is no observation ({exc})", where=where) from None
    return Sample(obs, hashlib.sha256(data).hexdigest())


def record_of(registry: Registry, collector_id: str, window_s: float) -> Record:
    """Read what a collector recorded over the last `window_s` seconds of its own time, and one sample before that.

    A damaged segment or sample is a fault of the record, never silently left out.
    """
    store = registry.store
    live = store.read(LIVE + collector_id)
    tips = {live.ref: live.tip} if live.tip else {}
    faults: list[str] = []
    found: dict[tuple[int, str], Sample] = {}
    head: Head | None = None
    for path, data in live.items():
        try:
            if path == "head.json":
                head = msgspec.json.decode(data, type=Head)
            else:
                _add(found, unpack(data, f"{live.ref}:{path}"))
        except (InputUnusable, msgspec.DecodeError) as exc:
            faults.append(f"{live.ref}:{path}: {exc}")
    for snapshot, path in _segments(registry, collector_id):
        if _covers(found, window_s):
            break
        if snapshot.tip:
            tips[snapshot.ref] = snapshot.tip
        for number, line in enumerate((snapshot.get(path) or b"").splitlines(), 1):
            try:
                _add(found, unpack(line, f"{snapshot.ref}:{path}:{number}"))
            except InputUnusable as exc:
                faults.append(str(exc))
    ordered = sorted(found.values(), key=lambda s: (s.obs.seq, s.sha))
    return Record(collector_id, ordered, head, tips, faults)


def _add(found: dict[tuple[int, str], Sample], sample: Sample) -> None:
    found[sample.obs.seq, sample.sha] = sample


def _covers(found: dict[tuple[int, str], Sample], window_s: float) -> bool:
    """Whether these samples reach back over the window, or to another boot of the node."""
    if not found:
        return False
    newest = found[max(found)].obs
    oldest = found[min(found)].obs
    return oldest.boot_id != newest.boot_id or newest.t_mono_ns - oldest.t_mono_ns >= window_s * 1e9


def _segments(registry: Registry, collector_id: str) -> Iterator[tuple[Snapshot, str]]:
    """Sealed segments, newest first; two months at most are looked into."""
    refs = sorted(registry.store.tips(f"{OBS}{collector_id}/"), reverse=True)
    for ref in refs[:2]:
        snapshot = registry.store.read(ref)
        for day in reversed(snapshot.children()):
            for name in reversed(snapshot.children(day)):
                yield snapshot, day + name


def newest(registry: Registry, node: str) -> Observation | None:
    """The newest observation of a node by any registered collector; None when there is none."""
    found: Observation | None = None
    for collector_id in registry.collectors(node):
        live = registry.store.read(LIVE + collector_id)
        paths = [path for path in live.list() if path != "head.json"]
        if paths and (data := live.get(paths[-1])):
            try:
                obs = unpack(data, f"{live.ref}:{paths[-1]}").obs
            except InputUnusable:
                continue  # every evaluation says so; this is only what the node looks like
            if found is None or obs.t_wall > found.t_wall:
                found = obs
    return found


def notes(registry: Registry, node: str, now_wall: float, window_s: float) -> list[Observation]:
    """What agents recorded of a node in the last `window_s` seconds, or dated later than now; oldest first."""
    now = datetime.fromtimestamp(now_wall, timezone.utc)
    months = {f"{now + timedelta(days=days):%Y-%m}" for days in (-2, 0, 2)}
    found: list[Observation] = []
    for month in sorted(months):
        snapshot = registry.store.read(NOTES + month)
        for path, data in snapshot.items(f"{node}/"):
            obs = unpack(data, f"{snapshot.ref}:{path}").obs
            if obs.t_wall >= now_wall - window_s:
                found.append(obs)
    return sorted(found, key=lambda o: o.t_wall)
