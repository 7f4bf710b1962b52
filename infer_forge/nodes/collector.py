"""The collector: one sample a minute into a live ref, a sealed segment every ten minutes, through network loss.

`refs/registry/live/<collector>` is a parentless commit that holds the samples since the last seal, one file each, and
`head.json`, the collector's signed word on its newest sample. `refs/registry/obs/<collector>/<YYYY-MM>` grows by one
segment `<DD>/<HHMM>-<first seq>.jsonl` at each seal. The superseded live commits are dropped here at once; on the hub they are
a tree and a commit each (the samples' blobs live on in the next one) until its `git gc`.
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from collections.abc import Callable, Generator
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable, UsageFault
from infer_forge.base.gitstore import Changes, Snapshot
from infer_forge.base.jsonio import write_atomic
from infer_forge.base.ownership import node_name
from infer_forge.base.paths import paths
from infer_forge.nodes.keys import private_key, public_key
from infer_forge.nodes.looking import look, now_boot_s, observation, pack
from infer_forge.nodes.model import Observation, check_node
from infer_forge.nodes.read import Head, unpack
from infer_forge.nodes.registry import LIVE, OBS, Registry, author


class Chain(msgspec.Struct):
    """Where a collector stands: the seq and hash of its newest sample, kept over restarts."""

    seq: int = 0
    sha: str | None = None


class Collector:
    """One collector of this machine. Use it as a context manager: only one of an id runs at a time.

    Args:
        collector_id: default: the node's name.
        all_visible: True states that every process of the node is visible here, where that cannot be found out.
        trusted: a person vouches for a second collector or a new key.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        collector_id: str | None = None,
        interval_s: float | None = None,
        source: str = "auto",
        all_visible: bool | None = None,
        trusted: bool = False,
    ) -> None:
        self.registry = registry
        self.node = check_node(node_name())
        self.id = check_node(collector_id or self.node)
        policy = registry.policy()
        self.interval_s = interval_s or policy.cadence_s
        self.seal_s = policy.seal_s
        if self.interval_s > policy.max_gap_s:
            raise UsageFault(
                f"an interval of {self.interval_s:.0f} s leaves gaps: the policy allows {policy.max_gap_s:.0f} s",
                next_step=f"use --interval {policy.cadence_s:.0f}",
            )
        self.source, self.all_visible = source, all_visible
        if registry.store.remote:  # a hub that hangs must not make a gap: four exchanges fit in one interval
            registry.store.remote.timeout_s = min(registry.store.remote.timeout_s, max(1.0, self.interval_s / 4))
        self.folder = paths().state / "nodes" / self.id
        self.key = private_key(self.folder / "collector.key")
        registry.register_collector(self.id, self.node, public_key(self.key), trusted=trusted)
        self.chain = self._restore()
        self.last_xid_s: float | None = now_boot_s()
        self.problem: str | None = None

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Hold the collector's lock.

        Raises:
            GateRefused: this collector runs already.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "a", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise GateRefused(f"collector {self.id} runs already", where=str(self.folder)) from None
            yield

    def step(self) -> Observation:
        """Take a sample, record it, seal when it is time. A hub that is away is remembered in `problem`, not raised."""
        began = now_boot_s()
        seen = look(
            self.registry, self.node, source=self.source, all_visible=self.all_visible, xid_since_s=self.last_xid_s
        )
        self.last_xid_s = began
        obs = observation(
            seen,
            collector_id=self.id,
            node=self.node,
            seq=self.chain.seq + 1,
            prev_sha=self.chain.sha,
            interval_s=self.interval_s,
        )
        data, sha, sig = pack(obs, self.key)
        self.chain = Chain(obs.seq, sha)
        write_atomic(self._chain_file, msgspec.json.encode(self.chain))
        files = self._live_files()
        files[f"{obs.seq:012d}.json"] = data
        head = msgspec.json.encode(Head(seq=obs.seq, sha=sha, sig=sig or ""))
        self.problem = None
        if self._due(files):
            files = self._seal(files)
        self._try(lambda: self.registry.store.replace(self._live, self._content(files, head), f"live {self.id}"))
        return obs

    # Live samples

    @property
    def _live(self) -> str:
        return LIVE + self.id

    @property
    def _chain_file(self) -> Path:
        return self.folder / "chain.json"

    def _content(self, files: dict[str, bytes], head: bytes) -> Changes:
        return Changes(put={**files, "head.json": head})

    def _live_files(self) -> dict[str, bytes]:
        """Live samples that can be read; a damaged one is left out here and shows as a gap in every evaluation."""
        found: dict[str, bytes] = {}
        for path, data in self.registry.store.read(self._live).items():
            with contextlib.suppress(InputUnusable):
                if path != "head.json" and unpack(data, path):
                    found[path] = data
        return found

    def _restore(self) -> Chain:
        """The newest of what the state file, the live ref and the sealed segments know, so that no seq is used twice."""
        with contextlib.suppress(ForgeError):
            self.registry.store.refresh(self._live, f"{OBS}{self.id}/")
        found = [Chain()]
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found.append(msgspec.json.decode(self._chain_file.read_bytes(), type=Chain))
        for data in self._live_files().values():
            sample = unpack(data, self._live)
            found.append(Chain(sample.obs.seq, sample.sha))
        return max(found, key=lambda c: c.seq)

    # Sealing

    def _due(self, files: dict[str, bytes]) -> bool:
        """Whether the oldest live sample is `seal_s` old by this boot's clock, or of another boot, or the day ended."""
        first, last = (unpack(files[name], name).obs for name in (min(files), max(files)))
        if len(files) < 2:
            return False
        day = [datetime.fromtimestamp(o.t_wall, timezone.utc).date() for o in (first, last)]
        age_s = (last.t_mono_ns - first.t_mono_ns) / 1e9
        return first.boot_id != last.boot_id or age_s >= self.seal_s or day[0] != day[1]

    def _seal(self, files: dict[str, bytes]) -> dict[str, bytes]:
        """Write all but the newest sample as one segment; the live samples that are left."""
        names = sorted(files)
        first = unpack(files[names[0]], names[0]).obs
        start = datetime.fromtimestamp(first.t_wall, timezone.utc)
        ref = f"{OBS}{self.id}/{start:%Y-%m}"
        path = f"{start:%d}/{start:%H%M}-{first.seq:012d}.jsonl"
        body = b"\n".join(files[name] for name in names[:-1]) + b"\n"

        def decide(snapshot: Snapshot) -> Changes | None:
            return None if snapshot.blob_id(path) else Changes(put={path: body})

        store = self.registry.store
        store.update(ref, decide, f"seal {first.seq}-{first.seq + len(names) - 2}", author=author(), local=True)
        self._try(lambda: store.sync(ref))
        return {names[-1]: files[names[-1]]}

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except ForgeError as exc:
            self.problem = str(exc).replace("\n", ". ")


def collect(
    collector: Collector,
    *,
    samples: int | None = None,
    stop: threading.Event | None = None,
    tell: Callable[[Observation, str | None], None] | None = None,
) -> int:
    """Run a collector until `stop`, or for so many samples; how many it took.

    Args:
        tell: called after each sample, with what kept it from the hub.
    """
    stop = stop or threading.Event()
    taken = 0
    with collector.running():
        due = time.monotonic()
        while not stop.is_set():
            obs = collector.step()
            taken += 1
            if tell:
                tell(obs, collector.problem)
            if samples is not None and taken >= samples:
                break
            due = max(due + collector.interval_s, time.monotonic())  # late samples do not bunch up
            stop.wait(max(0.0, due - time.monotonic()))
    return taken
