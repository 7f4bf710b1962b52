"""State of the host and its GPUs around a run, as rows carry it. What cannot be seen is null."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from infer_forge.bench.model import GpuState, HostAudit

_CPU = Path("/sys/devices/system/cpu")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def _boost() -> bool | None:
    turbo = _text(_CPU / "intel_pstate" / "no_turbo")
    if turbo is not None:
        return turbo == "0"
    boost = _text(_CPU / "cpufreq" / "boost")
    return None if boost is None else boost == "1"


def _quota() -> float | None:
    limit = _text(Path("/sys/fs/cgroup/cpu.max"))
    if limit is not None:
        words = limit.split()
        return None if words[0] == "max" or len(words) < 2 else int(words[0]) / int(words[1])
    quota, period = (
        _text(Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")),
        _text(Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")),
    )
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None


def _memory() -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = _text(Path(path))
        if limit and limit.isdigit() and int(limit) < 1 << 60:
            return int(limit)
    return None


def _governor() -> str | None:
    seen = {g for p in sorted(_CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")) if (g := _text(p))}
    return "+".join(sorted(seen)) or None


def host_audit() -> HostAudit:
    """Governor, boost, NUMA, SMT, cgroup quota and load of this machine."""
    from infer_forge.base.ownership import boot_id, node_name

    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None
    smt = _text(_CPU / "smt" / "active")
    bound = None
    status = _text(Path("/proc/self/status"))
    if status and nodes:
        allowed = next((line.split()[1] for line in status.splitlines() if line.startswith("Mems_allowed_list")), None)
        bound = None if allowed is None else len(_ranged(allowed)) < nodes
    return HostAudit(
        hostname=node_name(),
        boot_id=boot_id(),
        cpu_governor=_governor(),
        cpu_boost=_boost(),
        smt=None if smt is None else smt == "1",
        numa_nodes=nodes,
        numa_bound=bound,
        cgroup_cpu_quota=_quota(),
        cgroup_memory_bytes=_memory(),
        load_average_1m=round(os.getloadavg()[0], 2),
    )


def _ranged(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            found |= set(range(int(low), int(high or low) + 1))
    return found


def gpu_state(own_pids: Iterable[int] = (), indices: Iterable[int] | None = None) -> GpuState:
    """One look at the GPUs (of some indices), with the processes on them that are not the run's own.

    Everything is null where no driver answers: that is not an idle GPU.
    """
    if not any(os.path.exists(p) for p in ("/dev/nvidiactl", "/dev/kfd")):
        return GpuState()
    from infer_forge.base.machine import snapshot
    from infer_forge.base.machine.model import GpuState as Seen

    seen = snapshot()
    if seen.gpus is None:
        return GpuState()
    wanted = set(indices) if indices is not None else None
    gpus: list[Seen] = [g for g in seen.gpus if wanted is None or g.index in wanted]
    own = set(own_pids)
    known = all(g.procs is not None for g in gpus)
    foreign = [f"pid {p.host_pid} on GPU {g.index}" for g in gpus for p in g.procs or [] if p.host_pid not in own]
    busy = [g.util_gpu_pct for g in gpus if g.util_gpu_pct is not None]

    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values and len(values) == len(gpus) else None

    energy = [g.energy_mj / 1e3 for g in gpus if g.energy_mj is not None]
    return GpuState(
        idle=(not foreign and all(u < 5 for u in busy)) if known and len(busy) == len(gpus) and gpus else None,
        foreign_processes=foreign if known else None,
        sm_clock_mhz=mean([float(g.sm_clock_mhz) for g in gpus if g.sm_clock_mhz is not None]),
        temperature_c=max((g.temp_c for g in gpus if g.temp_c is not None), default=None),
        power_w=sum(g.power_w for g in gpus if g.power_w is not None)
        if gpus and all(g.power_w is not None for g in gpus)
        else None,
        energy_counter_j=sum(energy) if gpus and len(energy) == len(gpus) else None,
    )
