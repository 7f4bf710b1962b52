"""What a run owns, with proof: processes by birth, paths, containers, jobs, namespaces, ports; its claims and grants.

One file (`paths().ownership`) that launchers, the node registry and campaigns write and the safety guard reads.
A launcher calls `record_birth(pid, launcher="engine start")` right after it started a process; `own(...)` records
anything else together with how it was proved; `load()` reads everything back. A claim is proved or it is not there:
no function here takes a name or a pattern as proof.

A process is its pid *and* its start time in clock ticks since boot (`/proc/<pid>/stat`, field 22, proc_pid_stat(5)) *and*
the boot id, so that a reused pid never passes. Standard library only, because the guard's hook imports this; and no
`dataclasses`, whose import alone costs the hook a tenth of its time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.paths import place_texts

KINDS = ("pid", "pgid", "path", "container", "job", "k8s", "port", "cluster")
"""What can be owned. `k8s` targets are `namespace/name`."""

DEFAULT_RUN = "default"
"""The run of a caller that names none: no `INFER_FORGE_RUN_ID`, and no run root above the working folder."""

VERSION = 1


class Owned(NamedTuple):
    """One thing that a run owns and how that was proved.

    Attributes:
        kind: one of `KINDS`.
        target: pid, process group, real path, container name, job id, `namespace/name`, port: as text.
        how: the proof, for example `launcher:engine start`, `descends:4242`, `absent-before`, `in-root`, `label`, `person:ann`.
        at: when it was recorded, seconds since the epoch.
        checked_at: when the proof was last confirmed (containers, jobs and ports age; the guard asks after 60 s).
        node: the host it lives on.
        start_ticks: start time of a process in clock ticks since boot; None for other kinds.
        boot_id: boot of the node on which a process was born; None for other kinds.
        detail: further facts, such as `pid_mode` of a container or `pid` behind a port.
    """

    kind: str
    target: str
    how: str
    at: float
    checked_at: float
    node: str
    start_ticks: int | None
    boot_id: str | None
    detail: dict[str, Any]

    def holds(self) -> bool:
        """Whether the proof still stands now, for what this machine can see: a process lives with the same birth."""
        if self.kind not in ("pid", "pgid"):
            return True
        return (
            self.node == node_name()
            and self.boot_id == boot_id()
            and process_start(int(self.target)) == self.start_ticks
        )


class Grant(NamedTuple):
    """A person's leave to do one thing until a time.

    Attributes:
        action: the rule id that it lifts, or a constraint's name followed by `.*`.
        target: the exact word of the command that it covers; `*` covers all.
        until: seconds since the epoch; a grant without an end does not exist.
        by: the person.
        reason: why, in their words.
    """

    action: str
    target: str
    until: float
    by: str
    reason: str = ""

    def live(self, now: float | None = None) -> bool:
        """Whether it still holds."""
        return (time.time() if now is None else now) < self.until


class Run:
    """Everything that is recorded of one run.

    Attributes:
        profile: `ordinary`, or `read_only`: the guard then denies whatever is not known to only read.
        profile_task: the task whose lock switched the profile, and whose end switches it back.
    """

    def __init__(self, run_id: str, *, user: str = "", node: str = "", created_at: float = 0.0) -> None:
        self.run_id = run_id
        self.root: str | None = None
        self.user = user
        self.node = node
        self.created_at = created_at
        self.owned: list[Owned] = []
        self.claims: list[dict[str, Any]] = []
        self.remotes: dict[str, str] = {}
        self.push_allowed: list[str] = []
        self.protected_branches: list[str] = []
        self.protected_paths: list[str] = []
        self.coder: str | None = None
        self.grants: list[Grant] = []
        self.profile = "ordinary"
        self.profile_task: str | None = None

    def of_kind(self, kind: str) -> list[Owned]:
        """The owned things of one kind."""
        return [o for o in self.owned if o.kind == kind]


class Ownership:
    """The whole file: run id -> run."""

    def __init__(self, runs: dict[str, Run] | None = None) -> None:
        self.runs: dict[str, Run] = {} if runs is None else runs

    def current(self, cwd: str | None = None, environ: Mapping[str, str] | None = None) -> Run | None:
        """The run of a caller, or None when nothing is recorded for it."""
        return self.runs.get(run_id_of(self, cwd, environ))


# ---------------------------------------------------------------- the machine


def node_name() -> str:
    """The host's name, as claims and owned things carry it."""
    return os.environ.get("INFER_FORGE_NODE") or os.uname().nodename


def boot_id() -> str | None:
    """The kernel's id of this boot; None where there is no /proc."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the third on (state), past the name, which may hold spaces and brackets."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    return data[data.rfind(")") + 2 :].split()


def process_start(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot; None when it is gone or cannot be seen."""
    stat = _stat(pid)
    return int(stat[19]) if stat else None


def live_start(pid: int) -> int | None:
    """Like `process_start`, but None for a zombie too: it runs no more, only its parent has not looked yet."""
    stat = _stat(pid)
    return int(stat[19]) if stat and stat[0] not in ("Z", "X") else None


def parent_of(pid: int) -> int | None:
    """The parent's pid; None when the process is gone."""
    stat = _stat(pid)
    return int(stat[1]) if stat else None


def group_of(pid: int) -> int | None:
    """The process group of a pid; None when the process is gone."""
    stat = _stat(pid)
    return int(stat[2]) if stat else None


def ancestors(pid: int | None = None) -> list[int]:
    """The pid itself (default: this process) and its parents up to 1."""
    chain: list[int] = []
    step: int | None = os.getpid() if pid is None else pid
    while step and step not in chain:
        chain.append(step)
        step = parent_of(step)
    return chain


# ---------------------------------------------------------------- reading


def ownership_file() -> str:
    """Where the file lies: `paths().ownership` as text."""
    return f"{place_texts()['state']}/ownership.json"


def load(path: str | os.PathLike[str] | None = None) -> Ownership:
    """Read the ownership file; an absent file is an empty answer.

    Raises:
        InputUnusable: the file is damaged; the guard then treats everything as not owned.
    """
    where = os.fspath(path) if path is not None else ownership_file()
    try:
        with open(where, "rb") as file:
            data: Any = json.loads(file.read())
        if data["v"] != VERSION:
            raise InputUnusable(
                f"has version {data['v']}, this infer-forge reads {VERSION}",
                where=where,
                next_step="upgrade infer-forge",
            )
        return Ownership({key: _run(key, value) for key, value in data["runs"].items()})
    except FileNotFoundError:
        return Ownership()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise InputUnusable(
            f"the ownership file cannot be read ({type(exc).__name__}: {exc})",
            where=where,
            next_step="a person must mend or remove it",
        ) from None


def run_id_of(book: Ownership, cwd: str | None = None, environ: Mapping[str, str] | None = None) -> str:
    """Which run a caller belongs to: `INFER_FORGE_RUN_ID`, else the deepest run root above `cwd`, else `DEFAULT_RUN`."""
    named = (os.environ if environ is None else environ).get("INFER_FORGE_RUN_ID")
    if named:
        return named
    try:
        here = os.path.realpath(cwd or os.getcwd())
    except OSError:
        return DEFAULT_RUN
    best = ("", DEFAULT_RUN)
    for run in book.runs.values():
        if run.root and within(here, run.root) and len(run.root) > len(best[0]):
            best = (run.root, run.run_id)
    return best[1]


def within(path: str, root: str) -> bool:
    """Whether an absolute path is `root` or lies under it (plain text comparison; resolve both first)."""
    root = root.rstrip("/") or "/"
    return path == root or path.startswith(root if root == "/" else f"{root}/")


def _known(names: Iterable[str], value: dict[str, Any]) -> dict[str, Any]:
    """Only the fields that this version knows, so that a newer file still reads."""
    return {name: value[name] for name in names if name in value}


def _run(run_id: str, value: dict[str, Any]) -> Run:
    run = Run(run_id)
    for name, known in _known(vars(run), value).items():
        setattr(run, name, known)
    run.run_id = run_id
    run.owned = [Owned(**{**_UNSAID, **_known(Owned._fields, o)}) for o in value.get("owned", [])]
    run.grants = [Grant(**_known(Grant._fields, g)) for g in value.get("grants", [])]
    return run


def _written(run: Run) -> dict[str, Any]:
    return {**vars(run), "owned": [o._asdict() for o in run.owned], "grants": [g._asdict() for g in run.grants]}


_UNSAID: dict[str, Any] = {"start_ticks": None, "boot_id": None, "detail": {}}
"""What an entry of a kind that has none of these may leave out."""


# ---------------------------------------------------------------- writing


@contextmanager
def editing(run_id: str | None = None) -> Generator[Run]:
    """Change one run under the file's lock; the file is replaced whole when the block ends without an error.

    Raises:
        InputUnusable: the file is damaged (it is left as it is).
    """
    import fcntl

    from infer_forge.base.atomic import write_atomic

    path = ownership_file()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.lock", "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        book = load(path)
        key = run_id or run_id_of(book)
        run = book.runs.get(key)
        if run is None:
            run = Run(key, user=_user(), node=node_name(), created_at=time.time())
            book.runs[key] = run
        yield run
        _prune(run)
        text = json.dumps({"v": VERSION, "runs": {k: _written(r) for k, r in book.runs.items()}}, separators=(",", ":"))
        write_atomic(path, text)


def begin_run(run_id: str, root: str | os.PathLike[str] | None = None, **facts: Any) -> Run:
    """Record a run and its root folder; what lies in the root is the run's.

    Args:
        run_id: name of the run; launchers find it again in `INFER_FORGE_RUN_ID`.
        root: the run's folder. It is made here if it does not exist.
        facts: further fields of `Run`: remotes, push_allowed, protected_branches, protected_paths, coder, claims.

    Raises:
        UsageFault: the root is a folder that no run may own: `/`, a home, or a parent of one.
    """
    real: str | None = None
    if root is not None:
        named: str = os.fspath(root)
        real = os.path.realpath(os.path.expanduser(named))
        home = os.path.realpath(os.path.expanduser("~"))
        if within(home, real) or real.count("/") < 2:
            raise UsageFault("a run cannot own this folder", where=real, next_step="name a folder made for the run")
        os.makedirs(real, exist_ok=True)
    with editing(run_id) as run:
        run.root = real or run.root
        for name, value in facts.items():
            if name not in ("remotes", "push_allowed", "protected_branches", "protected_paths", "coder", "claims"):
                raise UsageFault(f"a run has no field {name!r}")
            setattr(run, name, value)
    return run


def record_birth(
    pid: int, *, launcher: str, run_id: str | None = None, detail: Mapping[str, Any] | None = None
) -> Owned:
    """Record that one of our launchers started this process; call it right after the start.

    If the process leads its own process group (started with `start_new_session=True`), the group is recorded as well.

    Args:
        pid: the process just started by the caller.
        launcher: the command that started it, for example `engine start`.
        run_id: the run; by default `INFER_FORGE_RUN_ID`, the run root above the working folder, or `DEFAULT_RUN`.

    Raises:
        UsageFault: the process is already gone, or does not descend from the caller.
    """
    start = process_start(pid)
    if start is None:
        raise UsageFault(f"process {pid} is already gone", next_step="record a birth right after the start")
    if os.getpid() not in ancestors(pid):
        raise UsageFault(
            f"process {pid} was not started by this launcher", next_step=f"infer-forge guard own --pid {pid}"
        )
    return own("pid", str(pid), how=f"launcher:{launcher}", run_id=run_id, detail=detail, start_ticks=start)


def own(
    kind: str,
    target: str,
    *,
    how: str,
    run_id: str | None = None,
    detail: Mapping[str, Any] | None = None,
    start_ticks: int | None = None,
) -> Owned:
    """Record one owned thing whose proof the caller has established; `how` names the proof.

    Recording it again renews `checked_at`. Paths are stored by realpath.

    Raises:
        UsageFault: the kind is unknown, the proof is empty, or a process is gone.
    """
    if kind not in KINDS:
        raise UsageFault(f"nothing of kind {kind!r} can be owned", next_step=f"use one of {', '.join(KINDS)}")
    if not how:
        raise UsageFault("ownership needs a proof, not a wish")
    if kind == "path":
        target = os.path.realpath(os.path.expanduser(target))
    if kind in ("pid", "pgid") and start_ticks is None:
        start_ticks = process_start(int(target))
        if start_ticks is None:
            raise UsageFault(f"process {target} is gone", next_step="infer-forge guard status")
    now = time.time()
    born = boot_id() if kind in ("pid", "pgid") else None
    entry = Owned(kind, target, how, now, now, node_name(), start_ticks, born, dict(detail or {}))
    with editing(run_id) as run:
        _put(run, entry)
        if kind == "pid" and group_of(int(target)) == int(target):
            _put(run, Owned("pgid", target, how, now, now, entry.node, start_ticks, born, {}))
    return entry


def disown(kind: str, target: str, *, run_id: str | None = None) -> int:
    """Take things off the run's list (with a pid its group as well); how many were removed."""
    if kind == "path":
        target = os.path.realpath(os.path.expanduser(target))
    kinds = ("pid", "pgid") if kind == "pid" else (kind,)
    with editing(run_id) as run:
        before = len(run.owned)
        run.owned = [o for o in run.owned if not (o.kind in kinds and o.target == target)]
        return before - len(run.owned)


def add_grant(grant: Grant, *, run_id: str | None = None) -> None:
    """Record a person's grant; expired ones are dropped."""
    with editing(run_id) as run:
        run.grants = [g for g in run.grants if g.live()] + [grant]


def _put(run: Run, entry: Owned) -> None:
    run.owned = [
        o for o in run.owned if not (o.kind == entry.kind and o.target == entry.target and o.node == entry.node)
    ]
    run.owned.append(entry)


def _prune(run: Run) -> None:
    """Drop processes of this node that ended more than a day ago, so that the file stays small."""
    old = time.time() - 86400
    here = node_name()
    run.owned = [o for o in run.owned if o.kind not in ("pid", "pgid") or o.node != here or o.at > old or o.holds()]


def _user() -> str:
    return os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.getuid())
