"""One look at the machine through the best source that answers."""

from __future__ import annotations

import os
import time

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.machine import amd_smi, nvidia_smi, nvml
from infer_forge.base.machine.model import GpuState, MachineState, Source
from infer_forge.base.machine.processes import sees_all_processes, xid_errors
from infer_forge.base.ownership import boot_id, node_name

SOURCES = ("nvml", "smi-xml", "amd-smi")


def snapshot(
    source: str = "auto", *, all_visible: bool | None = None, xid_since_s: float | None = None
) -> MachineState:
    """Look at GPUs and their processes now.

    Args:
        source: `auto` (NVML, then nvidia-smi, then amd-smi), or one of `SOURCES`.
        all_visible: whether every process of the node can be looked into from here; None finds out.
        xid_since_s: Xid errors after so many seconds since boot count as new.

    Raises:
        UsageFault: there is no such source.
    """
    if source not in ("auto", *SOURCES):
        raise UsageFault(f"there is no source {source!r}", next_step=f"use auto, {', '.join(SOURCES)}")
    visible = sees_all_processes() if all_visible is None else all_visible
    tried = SOURCES if source == "auto" else (source,)
    if source == "auto" and os.environ.get("INFER_FORGE_NVIDIA_SMI"):
        tried = ("smi-xml",)
    errors: list[str] = []
    name: Source = "none"
    driver: str | None = None
    gpus: list[GpuState] | None = None
    for name in tried:  # pyright: ignore[reportAssignmentType]
        try:
            driver, gpus, problems = _read(name, visible)
        except InputUnusable as exc:
            errors.append(f"{name}: {exc.what}")
            continue
        errors = problems
        break
    state = MachineState(
        node=node_name(),
        boot_id=boot_id(),
        t_wall=time.time(),
        t_mono_ns=time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)),
        source="none" if gpus is None else name,
        driver=driver,
        gpus=gpus,
        errors=errors,
    )
    if state.source in ("nvml", "smi-xml"):
        _add_xids(state, xid_since_s)
    return state


def _read(name: str, visible: bool) -> tuple[str | None, list[GpuState], list[str]]:
    if name == "nvml":
        return nvml.read(processes_visible=visible)
    if name == "smi-xml":
        driver, gpus = nvidia_smi.parse_nvidia_smi(nvidia_smi.run(), processes_visible=visible)
        return driver, gpus, []
    return None, amd_smi.parse_amd_smi(amd_smi.run(), processes_visible=visible), []


def _add_xids(state: MachineState, since_s: float | None) -> None:
    found = xid_errors(since_s)
    for gpu in state.gpus or ():
        gpu.xid = None if found is None or gpu.pci is None else found.get(gpu.pci, [])
