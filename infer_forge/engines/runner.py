"""Run commands and keep processes on this machine, in a container, or over ssh, with proof of what was started.

A place is written `local`, `docker:NAME`, `ssh:HOST` or `ssh:HOST/docker:NAME`. Whatever starts there yields its host,
boot id, pid, start time and container, so that ownership and cleanup stay provable: a pid alone is never enough, since
pids are used again. Only processes that descend from a recorded start, or share its session, are ever signalled.
Needs `/bin/sh` and `/proc` in the place, nothing else. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable, MissingPart, UsageFault

_START = """
log=$1; shift
if ! command -v setsid >/dev/null 2>&1; then echo NO_SETSID; exit 127; fi
mkdir -p "$(dirname "$log")" || exit 126
setsid "$@" >>"$log" 2>&1 </dev/null &
echo "$!"
"""
_FACTS = """
p=$1
echo "host $(uname -n)"
echo "boot $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
echo "stat $(cat /proc/$p/stat 2>/dev/null)"
"""
_LIST = "cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo; cat /proc/[0-9]*/stat 2>/dev/null; true"
_KILL = """
sig=$1; shift
for t in "$@"; do
  p=${t%%:*}; s=${t##*:}
  line=$(cat /proc/$p/stat 2>/dev/null) || continue
  rest=${line##*) }
  [ "$(echo "$rest" | cut -d' ' -f20)" = "$s" ] && kill -$sig "$p" 2>/dev/null
done
true
"""
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
"""Processes that this interpreter started itself, to be reaped by it."""


@dataclass(frozen=True)
class Completed:
    """How a command in a place ended."""

    code: int
    out: str
    err: str
    timed_out: bool = False


@dataclass(frozen=True)
class Process:
    """A process that we started, with its proof: pid and start ticks (proc_pid_stat(5), field 22) on one boot of one host.

    In a container the pid is the one inside it.
    """

    place: str
    host: str
    boot_id: str | None
    pid: int
    start_ticks: int
    pgid: int
    container_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Process:
        """From its JSON form. Raises `InputUnusable` for anything else: a record is what may be signalled."""
        texts = (data.get("place"), data.get("host"))
        optional = (data.get("boot_id"), data.get("container_id"))
        numbers = (data.get("pid"), data.get("start_ticks"), data.get("pgid"))
        sound = all(isinstance(t, str) for t in texts) and all(t is None or isinstance(t, str) for t in optional)
        sound = sound and all(type(n) is int and n > 0 for n in numbers)
        if not sound or data["pgid"] != data["pid"] or data["pid"] < 2:
            raise InputUnusable("is no record of a process that was started here")
        return cls(**{k: data.get(k) for k in cls.__dataclass_fields__})  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Stat:
    """One line of /proc/PID/stat: what is needed of it."""

    pid: int
    name: str
    state: str
    ppid: int
    pgrp: int
    session: int
    start_ticks: int


def parse_stat(line: str) -> Stat | None:
    """A stat line, whose name may hold spaces and brackets; None when it is none."""
    head, _, rest = line.rpartition(") ")
    pid, _, name = head.partition(" (")
    words = rest.split()
    try:
        return Stat(int(pid), name, words[0], int(words[1]), int(words[2]), int(words[3]), int(words[19]))
    except (ValueError, IndexError):
        return None


@dataclass(frozen=True)
class Place:
    """Where commands run: optional ssh host, optional container."""

    host: str | None = None
    container: str | None = None

    @property
    def spec(self) -> str:
        """Its written form."""
        parts = ([f"ssh:{self.host}"] if self.host else []) + ([f"docker:{self.container}"] if self.container else [])
        return "/".join(parts) or "local"

    @property
    def is_local(self) -> bool:
        """Whether its processes are this machine's own, in this pid namespace."""
        return not self.host and not self.container

    def wrap(self, argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None) -> list[str]:
        """The argv that runs `argv` there."""
        words = list(argv)
        if self.container:
            flags = [w for k, v in (env or {}).items() for w in ("-e", f"{k}={v}")]
            flags += ["-w", cwd] if cwd else []
            words = ["docker", "exec", "-i", *flags, self.container, *words]
        elif self.host:
            words = ["env", *(f"{k}={v}" for k, v in env.items()), *words] if env else words
        if self.host:
            line = shlex.join(words)
            if cwd and not self.container:
                line = f"cd {shlex.quote(cwd)} && {line}"
            words = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", self.host, line]
        return words

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        data: str | None = None,
    ) -> Completed:
        """Run a command to its end; a time-out ends it. Raises `MissingPart` when the program is not there."""
        full = {**os.environ, **env} if env and self.is_local else None
        try:
            child = subprocess.Popen(
                self.wrap(argv, env, cwd),
                env=full,
                cwd=cwd if self.is_local else None,
                stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError as fault:
            raise MissingPart("no such program", where=f"{fault.filename} ({self.spec})") from None
        except OSError as fault:
            raise MissingPart(f"cannot be started: {fault.strerror}", where=f"{argv[0]} ({self.spec})") from None
        try:
            out, err = child.communicate(data.encode() if data is not None else None, timeout=timeout_s)
            late = False
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, 9)
            out, err = child.communicate()
            late = True
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, 9)
            child.communicate()
            raise
        return Completed(child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), late)

    def shell(self, script: str, *args: str, timeout_s: float = 30) -> Completed:
        """Run a POSIX shell script with arguments. Raises `MissingPart` when the place cannot be reached."""
        done = self.run(["/bin/sh", "-c", script, "sh", *args], timeout_s=timeout_s)
        if not self.is_local and (done.timed_out or done.code in (125, 255) or (done.code and not done.out)):
            reason = (
                "no answer in time" if done.timed_out else done.err.strip().splitlines()[-1:] or [f"exit {done.code}"]
            )
            text = reason if isinstance(reason, str) else reason[0]
            raise MissingPart(f"cannot be reached: {text}", where=self.spec, next_step="check the name and the login")
        return done

    def container_id(self) -> str | None:
        """Full id of the container; None outside of one. Raises `MissingPart` when it does not exist."""
        if not self.container:
            return None
        done = Place(self.host).run(["docker", "inspect", "--format", "{{.Id}}", self.container])
        if done.code:
            raise MissingPart(done.err.strip() or "no such container", where=self.spec)
        return done.out.strip() or None

    def start(
        self, argv: Sequence[str], *, log: str, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Process:
        """Start a process in a session of its own, its output appended to `log` there, and identify it.

        Raises:
            MissingPart: the program, container or host is not there.
            InputUnusable: it ended before it could be identified; the log says why.
        """
        container = self.container_id()
        pid = self._start_local(argv, log, env, cwd) if self.is_local else self._start_remote(argv, log, env, cwd)
        try:
            facts = self.shell(_FACTS, str(pid)).out
        except BaseException:
            self._forget(pid)
            raise
        told = dict(line.split(" ", 1) for line in facts.splitlines() if " " in line)
        stat = parse_stat(told.get("stat", ""))
        if stat is None:
            raise InputUnusable("it ended at once", where=f"{argv[0]} ({self.spec})", next_step=f"read {log}")
        return Process(
            self.spec, told.get("host", ""), told.get("boot") or None, pid, stat.start_ticks, stat.pgrp, container
        )

    def _forget(self, pid: int) -> None:
        """End a process that was started a moment ago and that nobody could record."""
        if self.is_local:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, 9)
        else:
            with contextlib.suppress(MissingPart):
                self.run(["/bin/sh", "-c", f"kill -9 -{pid}"], timeout_s=10)

    def _start_local(self, argv: Sequence[str], log: str, env: Mapping[str, str] | None, cwd: str | None) -> int:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(log, "ab") as out:
                child = subprocess.Popen(
                    list(argv),
                    env={**os.environ, **(env or {})},
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as fault:
            raise MissingPart(f"cannot be started: {fault.strerror}", where=str(argv[0])) from None
        _CHILDREN[child.pid] = child
        return child.pid

    def _start_remote(self, argv: Sequence[str], log: str, env: Mapping[str, str] | None, cwd: str | None) -> int:
        done = self.run(["/bin/sh", "-c", _START, "sh", log, *argv], env=env, cwd=cwd)
        first = done.out.strip().splitlines()[-1:] or [""]
        if not first[0].isdigit():
            text = (
                "setsid is not installed there" if "NO_SETSID" in done.out else done.err.strip() or f"exit {done.code}"
            )
            raise MissingPart(f"the process could not be started: {text}", where=self.spec)
        return int(first[0])

    def survey(self) -> tuple[str, list[Stat]]:
        """(boot id, every process that the place shows), in one look."""
        boot, _, rest = self.shell(_LIST).out.partition("\n")
        return boot.strip(), [s for s in map(parse_stat, rest.splitlines()) if s is not None]

    def read_head(self, path: str, size_bytes: int = 65536) -> str:
        """The start of a file there; empty when it is not there."""
        if self.is_local:
            with contextlib.suppress(OSError), open(path, "rb") as file:
                return file.read(size_bytes).decode("utf-8", "replace")
            return ""
        return self.run(["head", "-c", str(size_bytes), path]).out

    def read_tail(self, path: str, size_bytes: int = 65536) -> str:
        """The end of a file there; empty when it is not there."""
        if self.is_local:
            with contextlib.suppress(OSError), open(path, "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - size_bytes))
                return file.read().decode("utf-8", "replace")
            return ""
        return self.run(["tail", "-c", str(size_bytes), path]).out


def place(spec: str) -> Place:
    """A place by its written form, or by its name in the setting `hosts`. Raises `UsageFault`."""
    host = container = None
    for part in _written(spec).split("/"):
        kind, _, name = part.partition(":")
        if kind == "ssh" and name and not name.startswith("-") and host is None and container is None:
            host = name
        elif kind == "docker" and name and not name.startswith("-") and container is None:
            container = name
        elif spec != "local":
            raise UsageFault(
                f"{spec!r} is no place",
                next_step="write local, docker:NAME, ssh:HOST, ssh:HOST/docker:NAME, or a name in the setting hosts",
            )
    return Place(host, container)


def _written(spec: str) -> str:
    """The written form of a place that a team gave a name in its settings."""
    if spec == "local" or ":" in spec:
        return spec
    from infer_forge.base.config import settings

    return str(settings().get("hosts").get(spec, spec))


def reap() -> None:
    """Collect children of this interpreter that ended, so that they leave no zombies."""
    for pid, child in list(_CHILDREN.items()):
        if child.poll() is not None:
            del _CHILDREN[pid]


def exit_code(process: Process) -> int | None:
    """Exit code of an ended process, when this interpreter started it; None otherwise."""
    child = _CHILDREN.get(process.pid)
    return child.poll() if child is not None else None


def family(process: Process) -> list[Stat]:
    """The process, its descendants, and what still lives in its session or group; empty when nothing is left.

    Nothing older than the process counts, and nothing on another boot or in another container.
    """
    where = place(process.place)
    if process.container_id and where.container_id() != process.container_id:
        return []
    return _members(process, *where.survey())


def _members(process: Process, boot: str, shown: Sequence[Stat]) -> list[Stat]:
    if process.boot_id and boot != process.boot_id:
        return []
    seen = [s for s in shown if s.state not in ("Z", "X") and s.start_ticks >= process.start_ticks]
    by_pid = {s.pid: s for s in seen}
    leader = by_pid.get(process.pid)
    if leader is not None and leader.start_ticks != process.start_ticks:
        return []  # the pid was used again, so no group of that number is ours any more
    chosen = {s.pid for s in seen if s.session == process.pgid or s.pgrp == process.pgid}
    if leader is not None:
        chosen.add(leader.pid)
    grown = True
    while grown:
        more = {s.pid for s in seen if s.ppid in chosen} - chosen
        chosen |= more
        grown = bool(more)
    return [by_pid[p] for p in sorted(chosen)]


def alive(process: Process) -> bool:
    """Whether the very process (not its children) still runs."""
    reap()
    if place(process.place).is_local:
        with contextlib.suppress(OSError):
            stat = parse_stat(Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace"))
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            same = stat is not None and stat.start_ticks == process.start_ticks and stat.state not in ("Z", "X")
            return same and process.boot_id in (None, boot)
        return False
    return any(s.pid == process.pid for s in family(process))


@dataclass(frozen=True)
class Stopped:
    """What stopping did: processes seen before, those that had to be killed, and those that would not go."""

    before: list[Stat]
    killed: list[int]
    left: list[Stat]
    seconds: float


def stop(process: Process, *, grace_s: float = 20.0) -> Stopped:
    """End a process that we started and all that descends from it: first asked, then killed. Never anything else."""
    where = place(process.place)
    begin = time.monotonic()
    before = members = family(process)
    known = {s.pid: s for s in members}
    if members:
        _signal(where, "TERM", members)
    members = _wait_gone(process, known, members, grace_s)
    killed = [s.pid for s in members]
    if members:
        _signal(where, "KILL", members)
        members = _wait_gone(process, known, members, 5)
    return Stopped(before, killed, members, time.monotonic() - begin)


def _wait_gone(process: Process, known: dict[int, Stat], members: list[Stat], seconds: float) -> list[Stat]:
    end = time.monotonic() + seconds
    pause = 0.02 if place(process.place).is_local else 0.1
    while members and time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
        reap()
        members = _remaining(process, known)
    return members


def _remaining(process: Process, known: dict[int, Stat]) -> list[Stat]:
    """Members that still live: the family of now, and those seen earlier whose parent has gone."""
    boot, shown = place(process.place).survey()
    now = {s.pid: s for s in _members(process, boot, shown)}
    if boot == process.boot_id:
        for stat in shown:
            old = known.get(stat.pid)
            if old and old.start_ticks == stat.start_ticks and stat.state not in ("Z", "X"):
                now[stat.pid] = stat
    known.update(now)
    return [now[p] for p in sorted(now)]


def _signal(where: Place, name: str, members: Sequence[Stat]) -> None:
    where.shell(_KILL, name, *(f"{s.pid}:{s.start_ticks}" for s in members))
