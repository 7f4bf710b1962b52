"""Processes as the host sees them: who holds a GPU device, what a pid, container or job is doing."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from infer_forge.base.machine.model import ProcessUse, RuntimeState
from infer_forge.base.ownership import node_name, process_start

HOST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO, include/linux/proc_ns.h: the namespace of the first boot
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?=$|/)")
_SLURM = re.compile(r"/job_(\d+)(?:/|$)")
_POD = re.compile(r"/pod([0-9a-f]{8}[-_][0-9a-f_-]{27})|-pod([0-9a-f]{8}[-_][0-9a-f_-]{27})\.slice")
_DEVICE = re.compile(r"^/dev/nvidia(\d+)$")
_AMD_DEVICE = re.compile(r"^/dev/dri/renderD(\d+)$")


@cache
def sees_all_processes() -> bool:
    """Whether this process sees every process of the node: it is root in the host's own pid namespace."""
    try:
        return os.readlink("/proc/self/ns/pid") == HOST_PID_NAMESPACE and os.geteuid() == 0
    except OSError:
        return False


def cgroup_of(pid: int) -> str | None:
    """The cgroup path of a process (v2, else the longest of v1); None when it is gone or hidden."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return None
    paths = [line.split(":", 2)[2] for line in lines if line.count(":") >= 2]
    return max(paths, key=len, default=None)


def container_of(cgroup: str | None) -> str | None:
    """The container id (64 hex digits; docker, containerd, cri-o, podman) in a cgroup path."""
    found = _CONTAINER.findall(cgroup or "")
    return found[-1] if found else None


def job_of(cgroup: str | None) -> str | None:
    """The Slurm job id in a cgroup path."""
    found = _SLURM.search(cgroup or "")
    return found.group(1) if found else None


def pod_of(cgroup: str | None) -> str | None:
    """The Kubernetes pod uid in a cgroup path, with dashes."""
    found = _POD.search(cgroup or "")
    return (found.group(1) or found.group(2)).replace("_", "-") if found else None


def pseudonym(text: str) -> str:
    """A name that can be compared within one node and tells nothing."""
    return hashlib.sha256(f"{node_name()}\0{text}".encode()).hexdigest()[:12]


def describe(pid: int, *, mem_mib: int | None, kind: str | None, visible: bool) -> ProcessUse:
    """What can be said of a process that the driver named; only the pid when its namespace is not ours to see."""
    if not visible:
        return ProcessUse(host_pid=pid, mem_mib=mem_mib, type=kind)
    cgroup = cgroup_of(pid)
    try:
        user = str(os.stat(f"/proc/{pid}").st_uid)
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        user = command = None
    return ProcessUse(
        host_pid=pid,
        start_ticks=process_start(pid),
        mem_mib=mem_mib,
        type=kind,
        container=container_of(cgroup),
        cgroup=cgroup,
        user_hash=pseudonym(user) if user else None,
        cmd_hash=pseudonym(command) if command else None,
    )


def device_holders(*, all_visible: bool | None = None, proc: str = "/proc") -> list[RuntimeState] | None:
    """Processes that have a GPU device file open: a runtime that the driver need not list (no context yet).

    Args:
        all_visible: None finds out, and one process that cannot be looked into makes the answer unknown; True is an
            operator's word that no process that is hidden from us uses a GPU.

    Returns:
        None when not every process can be looked into, for then an empty answer would mean nothing.
    """
    if not (sees_all_processes() if all_visible is None else all_visible):
        return None
    found: list[RuntimeState] = []
    for name in os.listdir(proc):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        devices: set[int] = set()
        try:
            for fd in os.listdir(f"{proc}/{name}/fd"):
                try:
                    target = os.readlink(f"{proc}/{name}/fd/{fd}")
                except FileNotFoundError:
                    continue
                match = _DEVICE.match(target)
                if match:
                    devices.add(int(match.group(1)))
                else:
                    render = _AMD_DEVICE.match(target)
                    if render:
                        devices.add(int(render.group(1)) - 128)  # renderD128 is the first; Linux DRM uAPI
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            if not all_visible:
                return None
        if devices:
            found.append(_holder(int(name), sorted(devices)))
    return found


def _holder(pid: int, minors: list[int]) -> RuntimeState:
    return RuntimeState(
        kind="holder", id=str(pid), start_ticks=process_start(pid), minors=minors, alive=True, cpu_ms=_cpu_ms([pid])
    )


def runtime_state(
    kind: str, ident: str, start_ticks: int | None, *, claim_id: str | None = None, all_visible: bool | None = None
) -> RuntimeState:
    """What a runtime that a claim names is doing. `alive` is None when it cannot be seen from here.

    Args:
        kind: `pid`, `container` (id), `slurm` (job id) or `k8s` (pod uid).
    """
    state = RuntimeState(kind=kind, id=ident, start_ticks=start_ticks, claim_id=claim_id)
    if kind == "pid":
        pid = int(ident)
        now = process_start(pid)
        if now is not None:
            state.alive = start_ticks is None or now == start_ticks
            if state.alive:
                state.cpu_ms, state.io_bytes = _cpu_ms([pid]), _io_bytes([pid])
        elif sees_all_processes() if all_visible is None else all_visible:
            state.alive = False
        return state
    if not (sees_all_processes() if all_visible is None else all_visible):
        return state
    pids = _members(kind, ident)
    state.alive = bool(pids)
    if pids:
        state.cpu_ms, state.io_bytes = _cpu_ms(pids), _io_bytes(pids)
    return state


def _members(kind: str, ident: str) -> list[int]:
    """pids whose cgroup belongs to a container (id or its first 12 or more digits), Slurm job or pod."""
    import psutil

    of = {"container": container_of, "slurm": job_of, "k8s": pod_of}[kind]
    found: list[int] = []
    for pid in psutil.pids():
        name = of(cgroup_of(pid))
        if name is not None and (
            name == ident or (kind == "container" and len(ident) >= 12 and name.startswith(ident))
        ):
            found.append(pid)
    return found


def _cpu_ms(pids: Iterable[int]) -> int | None:
    import psutil

    total, seen = 0.0, False
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:
            continue
        total, seen = total + times.user + times.system, True
    return round(total * 1000) if seen else None


def _io_bytes(pids: Iterable[int]) -> int | None:
    import psutil

    total, seen = 0, False
    for pid in pids:
        try:
            io = psutil.Process(pid).io_counters()
        except (psutil.Error, AttributeError, OSError):
            continue
        total, seen = total + io.read_bytes + io.write_bytes, True
    return total if seen else None


def xid_errors(since_s: float | None, *, log: str = "/dev/kmsg") -> dict[str, list[int]] | None:
    """Xid errors in the kernel log: PCI bus id (lower case, without domain zeros beyond four) -> numbers.

    Args:
        since_s: only those after so many seconds since boot; None: all that the log still holds.

    Returns:
        None when the log cannot be read. Format of a line: Documentation/ABI/testing/dev-kmsg; of an Xid:
        https://docs.nvidia.com/deploy/xid-errors/
    """
    try:
        fd = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    found: dict[str, list[int]] = {}
    try:
        while True:
            try:
                record = os.read(fd, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # the ring moved on under our hands; the next read goes on with what is left
            except OSError:
                return None
            if not record:
                break
            for line in record.splitlines():
                _note_xid(line.decode("utf-8", "replace"), since_s, found)
    finally:
        os.close(fd)
    return found


_XID = re.compile(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)")


def _note_xid(line: str, since_s: float | None, found: dict[str, list[int]]) -> None:
    match = _XID.search(line)
    if not match:
        return
    head = line.split(";", 1)[0].split(",")
    stamp = int(head[2]) / 1e6 if len(head) > 2 and head[2].isdigit() else None
    if since_s is None or stamp is None or stamp > since_s:
        found.setdefault(bus_id(match.group(1)), []).append(int(match.group(2)))


def bus_id(text: str) -> str:
    """A PCI address in one spelling: `00000000:3B:00.0` and `0000:3b:00` -> `0000:3b:00`."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:].zfill(4)}:{rest.split('.')[0]}"
