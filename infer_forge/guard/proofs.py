"""Proving ownership for `guard own` and renewing proofs. These start programs (docker, squeue, kubectl); the hook never comes here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from typing import Any

from infer_forge.base import ownership
from infer_forge.base.errors import GateRefused, HumanNeeded, InputUnusable, MissingPart, UsageFault

RUN_LABEL = "infer-forge.run"
"""Label of containers and pods (and comment of Slurm jobs, as `infer-forge.run=RUN`) that names the run that made them."""


def prove(kind: str, target: str, *, run_id: str | None = None, person: str | None = None) -> ownership.Owned:
    """Record that the run owns something, when that can be proved; a person's word counts only with `person`.

    Args:
        kind: one of `ownership.KINDS`.
        target: pid, path, container, job id, `namespace/name`, port or cluster.
        run_id: the run; by default the caller's.
        person: who vouches for it, when nothing else does.

    Raises:
        GateRefused: it is provably not the run's (another's label, a process of another origin).
        HumanNeeded: nothing proves it; a person must vouch at a terminal.
        MissingPart: the program that could prove it is not there.
        UsageFault: the target is malformed or gone.
    """
    book = ownership.load()
    key = run_id or ownership.run_id_of(book)
    run = book.runs.get(key) or ownership.Run(key)
    if person:
        return ownership.own(kind, target, how=f"person:{person}", run_id=key)
    prover = _PROVERS.get(kind)
    if prover is None:
        raise HumanNeeded(f"a {kind} cannot be proved by this machine", where=target, next_step=_vouch(kind, target))
    how, detail = prover(target, run)
    return ownership.own(kind, target, how=how, run_id=key, detail=detail)


def _vouch(kind: str, target: str) -> str:
    return f"a person runs at a terminal: infer-forge guard own --{kind} {target} --force"


def _pid(target: str, run: ownership.Run) -> tuple[str, dict[str, Any]]:
    if not target.isdigit() or int(target) < 2:
        raise UsageFault(f"{target!r} is no process id")
    pid = int(target)
    chain = ownership.ancestors(pid)
    if ownership.process_start(pid) is None:
        raise UsageFault(f"process {pid} is gone", next_step="infer-forge guard status")
    born = {
        int(o.target)
        for o in run.of_kind("pid")
        if o.how.startswith(("launcher:", "descends:", "person:")) and o.holds()
    }
    for parent in chain:
        if parent in born:
            return (f"launcher:{parent}" if parent == pid else f"descends:{parent}"), {}
    raise HumanNeeded(
        f"no launcher of this run recorded the birth of process {pid} or of a parent", next_step=_vouch("pid", target)
    )


def _pgid(target: str, run: ownership.Run) -> tuple[str, dict[str, Any]]:
    return _pid(target, run)


def _path(target: str, run: ownership.Run) -> tuple[str, dict[str, Any]]:
    real = os.path.realpath(os.path.expanduser(target))
    if run.root and ownership.within(real, run.root):
        return "in-root", {}
    if real.count("/") < 2:
        raise GateRefused("no run can own this folder", where=real)
    _not_anothers(real, run)
    if not os.path.lexists(real):
        if not os.path.isdir(os.path.dirname(real)):
            raise UsageFault(
                "its parent folder does not exist", where=real, next_step="own the folder that is made first"
            )
        return "absent-before", {}
    born = birth_time(real)
    if born is not None and run.created_at and born > run.created_at and os.lstat(real).st_uid == os.getuid():
        return "born-after", {"born": born}
    raise HumanNeeded(
        "it was there before the run, or when it was made is not known", where=real, next_step=_vouch("path", target)
    )


def _not_anothers(real: str, run: ownership.Run) -> None:
    """What another run of this machine owns, or a folder around it, is not proved by when it was made."""
    for other in ownership.load().runs.values():
        if other.run_id == run.run_id:
            continue
        for place in [other.root, *(o.target for o in other.of_kind("path"))]:
            if place and (ownership.within(real, place) or ownership.within(place, real)):
                raise GateRefused(f"it belongs to run {other.run_id}", where=real, next_step="leave it to that run")


def birth_time(path: str) -> float | None:
    """When an inode was made, by statx(2) through libc; None where the file system or libc does not tell."""
    import ctypes

    buffer = ctypes.create_string_buffer(256)
    try:
        statx = ctypes.CDLL(None, use_errno=True).statx
    except (OSError, AttributeError):
        return None
    at_fdcwd, nofollow, btime = -100, 0x100, 0x800
    if statx(at_fdcwd, os.fsencode(path), nofollow, btime, buffer) != 0:
        return None
    mask = int.from_bytes(buffer.raw[0:4], "little")
    if not mask & btime:
        return None
    seconds = int.from_bytes(buffer.raw[80:88], "little", signed=True)
    return seconds + int.from_bytes(buffer.raw[88:92], "little") / 1e9


def _program(*names: str) -> str:
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise MissingPart(
        f"none of {', '.join(names)} is on the path",
        next_step="run this where the program is, or let a person vouch with --force",
    )


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise MissingPart(f"{argv[0]} does not answer ({exc})") from None
    if done.returncode != 0:
        raise InputUnusable(" ".join(done.stderr.split())[:200] or f"exit {done.returncode}", where=" ".join(argv[:3]))
    return done.stdout.strip()


def _container(target: str, run: ownership.Run) -> tuple[str, dict[str, Any]]:
    program = _program("docker", "podman", "nerdctl")
    form = '{{.Id}}|{{index .Config.Labels "%s"}}|{{.HostConfig.PidMode}}|{{.Name}}' % RUN_LABEL  # noqa: UP031
    pieces = _output([program, "inspect", "--type", "container", "--format", form, target]).split("|")
    if len(pieces) < 4 or pieces[1] != run.run_id:
        whose = pieces[1] if len(pieces) > 1 and pieces[1] not in ("", "<no value>") else "no run"
        raise GateRefused(
            f"its label {RUN_LABEL} names {whose}, not {run.run_id}",
            where=target,
            next_step=_vouch("container", target),
        )
    return "label", {"id": pieces[0], "pid_mode": pieces[2]}


def _job(target: str, run: ownership.Run) -> tuple[str, dict[str, Any]]:
    text = _output([_program("scontrol"), "show", "job", target, "--oneliner"])
    if f"{RUN_LABEL}={run.run_id}" not in text.split():
        comment = re.search(r"\bComment=(\S+)", text)
        if not (comment and comment.group(1) == f"{RUN_LABEL}={run.run_id}"):
            raise GateRefused(
                f"its comment does not name {run.run_id}",
                where=f"job {target}",
                next_step=f"submit with --comment {RUN_LABEL}={run.run_id}",
            )
    return "label", {}


def _k8s(target: str, run: ownership.Run) -> tuple[str, dict[str, Any]]:
    space, slash, name = target.partition("/")
    if not slash or not name:
        raise UsageFault("a Kubernetes object is named NAMESPACE/NAME")
    path = "{.metadata.labels.infer-forge\\.run}"
    label = _output([_program("kubectl"), "get", "pod", name, "-n", space, "-o", f"jsonpath={path}"])
    if label != run.run_id:
        raise GateRefused(
            f"its label {RUN_LABEL} names {label or 'no run'}, not {run.run_id}",
            where=target,
            next_step=_vouch("k8s", target),
        )
    return "label", {}


def _port(target: str, run: ownership.Run) -> tuple[str, dict[str, Any]]:
    if not target.isdigit():
        raise UsageFault(f"{target!r} is no port")
    inodes = listening_inodes(int(target))
    if not inodes:
        raise UsageFault(f"nothing listens on port {target}")
    for item in run.of_kind("pid"):
        if not item.holds():
            continue
        for pid in [int(item.target), *descendants(int(item.target))]:
            if inodes & socket_inodes(pid):
                return f"pid:{pid}", {"pid": pid}
    raise GateRefused(
        f"the process that listens on port {target} is not proved to be this run's",
        next_step="infer-forge guard status",
    )


def listening_inodes(port: int) -> set[str]:
    """Socket inodes that listen on a TCP port, from /proc/net/tcp and tcp6 (state 0A)."""
    found: set[str] = set()
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as file:
                rows = file.read().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                found.add(fields[9])
    return found


def socket_inodes(pid: int) -> set[str]:
    """Socket inodes that a process has open; empty when it cannot be seen."""
    out: set[str] = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            link = os.readlink(f"/proc/{pid}/fd/{name}")
            if link.startswith("socket:["):
                out.add(link[8:-1])
    except OSError:
        return out
    return out


def descendants(pid: int) -> list[int]:
    """All living processes below one."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            parent = ownership.parent_of(int(name))
            if parent:
                parents.setdefault(parent, []).append(int(name))
    out: list[int] = []
    todo = [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        out += children
        todo += children
    return out


def refresh(run_id: str | None = None) -> list[tuple[str, str, str]]:
    """Prove again what ages (containers, jobs, objects, ports) and drop what no longer holds: (kind, target, outcome)."""
    book = ownership.load()
    run = book.runs.get(run_id or ownership.run_id_of(book))
    out: list[tuple[str, str, str]] = []
    for item in list(run.owned) if run else []:
        if item.kind not in ("container", "job", "k8s", "port"):
            continue
        try:
            prove(item.kind, item.target, run_id=run.run_id if run else None)
            out.append((item.kind, item.target, "proved"))
        except (GateRefused, UsageFault, InputUnusable) as exc:
            if not item.how.startswith("person:"):
                ownership.disown(item.kind, item.target, run_id=run.run_id if run else None)
            out.append((item.kind, item.target, f"no longer proved: {exc.what}"))
        except MissingPart as exc:
            out.append((item.kind, item.target, f"could not see: {exc.what}"))
    return out


def record_clocks(target: str) -> str:
    """Write down the clocks of GPUs before a run may lock them; what was seen, in words.

    `target` is what `-i` will name: indices with commas, or `*` for all.

    Raises:
        MissingPart: nvidia-smi is not there or does not answer.
        UsageFault: the target is none.
    """
    from infer_forge.base.machine import clocks

    seen = clocks.record(None if target == "*" else gpu_list(target))
    return ", ".join(f"GPU {one.gpu} {one.sm_mhz} MHz" + (" (idle)" if one.idle else "") for one in seen)


def gpu_list(text: str) -> list[int]:
    """`0,2-3` as indices.

    Raises:
        UsageFault: it names none.
    """
    out: list[int] = []
    for piece in text.split(","):
        match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", piece.strip())
        if match is None:
            raise UsageFault(f"{text!r} names no GPUs", next_step="write 0,1 or 0-3")
        out += range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1)
    return out


def age_s(item: ownership.Owned) -> float:
    """Seconds since a proof was last confirmed."""
    return max(0.0, time.time() - item.checked_at)


_PROVERS: dict[str, Any] = {
    "pid": _pid,
    "pgid": _pgid,
    "path": _path,
    "container": _container,
    "job": _job,
    "k8s": _k8s,
    "port": _port,
}
