"""Types of what was seen on a machine. Memory is MiB, power W, energy mJ since driver load, temperature degrees C."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Source = Literal["nvml", "smi-xml", "amd-smi", "none"]


class ProcessUse(msgspec.Struct, kw_only=True):
    """A process on a GPU, as the host sees it.

    Attributes:
        host_pid: pid in the host's namespace (drivers report no other).
        start_ticks: start time in clock ticks since boot (`/proc/<pid>/stat` field 22); None when it cannot be seen here.
        mem_mib: GPU memory; None when the driver does not say.
        type: `C` compute, `G` graphics, `C+G`, `M` multi-process service.
        container: container id out of its cgroup; None: in none, or not visible.
        cgroup: its cgroup path.
        user_hash, cmd_hash: pseudonyms (first 12 hex digits of a sha256 with the node's name), so that two observations
            can be compared without telling who and what.
    """

    host_pid: int
    start_ticks: int | None = None
    mem_mib: int | None = None
    type: str | None = None
    container: str | None = None
    cgroup: str | None = None
    user_hash: str | None = None
    cmd_hash: str | None = None


class MigDevice(msgspec.Struct, kw_only=True):
    """One MIG slice of a GPU."""

    index: int | None = None
    uuid: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    mem_used_mib: int | None = None
    mem_total_mib: int | None = None


class GpuState(msgspec.Struct, kw_only=True):
    """One GPU at one moment. `mem_used_mib` is without the driver's reserved part.

    Attributes:
        index: as nvidia-smi counts (PCI order); claims mean this one. minor: of its device file `/dev/nvidia<minor>`.
        mig: whether it is cut into slices; then utilisation is not to be had (NVIDIA MIG guide), and stays None.
        procs: None: could not see; []: looked, none there.
        energy_mj: counter since driver load; two samples give the mean power of the whole time between.
        ecc_uncorrected: uncorrected errors since boot (volatile).
        xid: numbers of Xid errors in the kernel log since the previous look; None: the log cannot be read.
        recovery_action: what the driver asks for: `none`, `gpu_reset`, `node_reboot`, ...
    """

    index: int
    minor: int | None = None
    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    mig: bool | None = None
    mig_devices: list[MigDevice] = []
    mem_used_mib: int | None = None
    mem_total_mib: int | None = None
    mem_reserved_mib: int | None = None
    util_gpu_pct: float | None = None
    util_mem_pct: float | None = None
    pstate: str | None = None
    sm_clock_mhz: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    energy_mj: int | None = None
    temp_c: float | None = None
    procs: list[ProcessUse] | None = None
    ecc_uncorrected: int | None = None
    xid: list[int] | None = None
    recovery_action: str | None = None


class RuntimeState(msgspec.Struct, kw_only=True):
    """A runtime that a claim names, or a process that holds a GPU device.

    Attributes:
        kind: `pid`, `container`, `slurm`, `k8s`, or `holder` for a process found with an open device file.
        id: pid, container id or name, job id, pod uid.
        start_ticks: of a pid: another start time is another process.
        claim_id: the claim that names it; None for a holder.
        minors: device files `/dev/nvidia<minor>` that a holder has open; None: not known.
        alive: None: could not see.
    """

    kind: str
    id: str
    start_ticks: int | None = None
    claim_id: str | None = None
    minors: list[int] | None = None
    alive: bool | None = None
    cpu_ms: int | None = None
    net_bytes: int | None = None
    io_bytes: int | None = None


class MachineState(msgspec.Struct, kw_only=True):
    """What one look at the machine found.

    Attributes:
        t_wall: seconds since 1970, by this machine's clock. t_mono_ns: monotonic clock within one boot.
        gpus: None: could not see (the reason is in `errors`); []: looked, no GPU.
    """

    node: str
    boot_id: str | None
    t_wall: float
    t_mono_ns: int
    source: Source
    driver: str | None = None
    gpus: list[GpuState] | None = None
    errors: list[str] = []

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists."""
        return msgspec.to_builtins(self)


def compare(before: MachineState, after: MachineState) -> list[str]:
    """What changed between two looks, one line each: processes that came or went, memory, health. Empty: nothing did."""
    lines: list[str] = []
    if before.boot_id != after.boot_id:
        lines.append("the machine was booted in between")
    if (before.gpus is None) != (after.gpus is None):
        lines.append(f"GPUs {'became visible' if before.gpus is None else 'could no longer be seen'}")
    old = {gpu.index: gpu for gpu in before.gpus or ()}
    new = {gpu.index: gpu for gpu in after.gpus or ()}
    for index in sorted(old.keys() | new.keys()):
        a, b = old.get(index), new.get(index)
        if a is None or b is None:
            if before.gpus is not None and after.gpus is not None:
                lines.append(f"GPU {index} {'appeared' if a is None else 'is gone'}")
            continue
        lines += _gpu_lines(index, a, b)
    return lines


def _gpu_lines(index: int, a: GpuState, b: GpuState) -> list[str]:
    lines: list[str] = []
    if a.procs is not None and b.procs is not None:
        was = {(p.host_pid, p.start_ticks) for p in a.procs}
        now = {(p.host_pid, p.start_ticks) for p in b.procs}
        lines += [f"GPU {index}: process {pid} ended" for pid, _ in sorted(was - now, key=str)]
        lines += [f"GPU {index}: process {pid} came" for pid, _ in sorted(now - was, key=str)]
    elif a.procs != b.procs:
        lines.append(f"GPU {index}: its processes {'became visible' if a.procs is None else 'could no longer be seen'}")
    if a.mem_used_mib != b.mem_used_mib:
        lines.append(f"GPU {index}: memory {_text(a.mem_used_mib)} -> {_text(b.mem_used_mib)} MiB")
    for name in ("recovery_action", "ecc_uncorrected", "uuid", "mig"):
        if getattr(a, name) != getattr(b, name):
            lines.append(f"GPU {index}: {name} {_text(getattr(a, name))} -> {_text(getattr(b, name))}")
    return lines


def _text(value: object) -> str:
    return "unknown" if value is None else str(value)
