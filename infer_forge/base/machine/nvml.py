"""NVML through nvidia-ml-py (`pip install infer-forge[nvml]`): the cumulative energy counter, and no process start a sample.

A call that a GPU or driver does not support gives None for its field, never 0; any other error of a call is told.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from infer_forge.base.errors import InputUnusable
from infer_forge.base.machine.model import GpuState, MigDevice, ProcessUse
from infer_forge.base.machine.processes import bus_id, describe

MIB = 1 << 20
RECOVERY = {
    0: "none", 1: "gpu_reset", 2: "node_reboot", 3: "drain_p2p", 4: "drain_and_reset",
    5: "recover_imex_domain", 6: "bus_reset", 7: "system_reboot",
}  # fmt: skip  # nvml.h: nvmlDeviceGpuRecoveryAction_t


def read(*, processes_visible: bool, module: Any = None) -> tuple[str | None, list[GpuState], list[str]]:
    """Driver version, GPUs, and what went wrong on the way.

    Args:
        module: stands in for `pynvml` in tests.

    Raises:
        InputUnusable: the binding or the driver's library is not there, or it does not start.
    """
    if module is None:
        try:
            module = importlib.import_module("pynvml")
        except ImportError:
            raise InputUnusable("nvidia-ml-py is not installed", where="nvml") from None
    try:
        module.nvmlInit()
    except module.NVMLError as exc:
        raise InputUnusable(f"NVML does not start: {exc}", where="nvml") from None
    try:
        return _Reader(module, processes_visible).all()
    except module.NVMLError as exc:
        raise InputUnusable(f"NVML: {exc}", where="nvml") from None
    finally:
        with contextlib.suppress(module.NVMLError):
            module.nvmlShutdown()


class _Reader:
    def __init__(self, nvml: Any, visible: bool) -> None:
        self.nvml = nvml
        self.visible = visible
        self.errors: list[str] = []

    def all(self) -> tuple[str | None, list[GpuState], list[str]]:
        nvml = self.nvml
        driver = self.ask("driver version", "nvmlSystemGetDriverVersion")
        gpus: list[GpuState] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                gpus.append(self.gpu(index, nvml.nvmlDeviceGetHandleByIndex(index)))
            except nvml.NVMLError as exc:  # a GPU that fell off the bus: it is there, and nothing of it is known
                self.errors.append(f"GPU {index}: {exc}")
                gpus.append(GpuState(index=index))
        return _string(driver), gpus, self.errors

    def ask(self, what: str, call: str, *args: Any) -> Any:
        """What NVML's function gives, or None: not supported here, or (then it is told) failed for another reason."""
        nvml = self.nvml
        quiet = tuple(
            kind
            for name in ("NotSupported", "FunctionNotFound", "NotFound", "InvalidArgument", "ArgumentVersionMismatch")
            if isinstance(kind := getattr(nvml, f"NVMLError_{name}", None), type)
        )
        try:
            return getattr(nvml, call)(*args)
        except nvml.NVMLError as exc:
            if not isinstance(exc, quiet):
                self.errors.append(f"{what}: {exc}")
        except AttributeError:
            pass  # an older binding without this call
        return None

    def gpu(self, index: int, handle: Any) -> GpuState:
        nvml, ask = self.nvml, self.ask
        label = f"GPU {index}"
        minor = ask(label, "nvmlDeviceGetMinorNumber", handle)
        memory = ask(f"{label} memory", "nvmlDeviceGetMemoryInfo", handle, nvml.nvmlMemory_v2)
        plain = None if memory is not None else ask(f"{label} memory", "nvmlDeviceGetMemoryInfo", handle)
        seen = memory or plain
        use = ask(f"{label} utilisation", "nvmlDeviceGetUtilizationRates", handle)
        mig = ask(label, "nvmlDeviceGetMigMode", handle)
        milliwatt = ask(f"{label} power", "nvmlDeviceGetPowerUsage", handle)
        limit = ask(label, "nvmlDeviceGetEnforcedPowerLimit", handle)
        pstate = ask(label, "nvmlDeviceGetPerformanceState", handle)
        pci = getattr(ask(label, "nvmlDeviceGetPciInfo", handle), "busId", None)
        sliced = bool(mig[0]) if mig is not None else False
        return GpuState(
            index=index,
            minor=None if minor is None else int(minor),
            uuid=_string(ask(f"{label} uuid", "nvmlDeviceGetUUID", handle)),
            name=_string(ask(label, "nvmlDeviceGetName", handle)),
            pci=bus_id(_string(pci) or "") if pci else None,
            mig=sliced,
            mig_devices=self.mig_devices(handle) if sliced else [],
            mem_used_mib=None if seen is None else _mib(seen.used),
            mem_total_mib=None if seen is None else _mib(seen.total),
            mem_reserved_mib=None if memory is None else _mib(memory.reserved),
            util_gpu_pct=None if use is None else float(use.gpu),
            util_mem_pct=None if use is None else float(use.memory),
            pstate=None if pstate is None or pstate == 32 else f"P{pstate}",  # 32: NVML_PSTATE_UNKNOWN
            sm_clock_mhz=ask(label, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            power_w=None if milliwatt is None else milliwatt / 1000,
            power_limit_w=None if limit is None else limit / 1000,
            energy_mj=ask(label, "nvmlDeviceGetTotalEnergyConsumption", handle),
            temp_c=ask(label, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            procs=self.processes(label, handle),
            ecc_uncorrected=ask(
                label,
                "nvmlDeviceGetTotalEccErrors",
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
            recovery_action=self.recovery(label, handle),
        )

    def processes(self, label: str, handle: Any) -> list[ProcessUse] | None:
        kinds = (
            ("C", "nvmlDeviceGetComputeRunningProcesses"),
            ("G", "nvmlDeviceGetGraphicsRunningProcesses"),
            ("M", "nvmlDeviceGetMPSComputeRunningProcesses"),
        )
        found: dict[int, ProcessUse] = {}
        for kind, name in kinds:
            listed = self.ask(f"{label} processes", name, handle)
            if listed is None and kind == "C":
                return None
            for item in listed or ():
                pid, mem = int(item.pid), getattr(item, "usedGpuMemory", None)
                known = found.get(pid)
                if known is not None:
                    known.type = f"{known.type}+{kind}"
                    continue
                found[pid] = describe(pid, mem_mib=None if mem is None else _mib(mem), kind=kind, visible=self.visible)
        return list(found.values()) if found or self.visible else None

    def mig_devices(self, handle: Any) -> list[MigDevice]:
        found: list[MigDevice] = []
        for place in range(self.ask("MIG", "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            slice_ = self.ask("MIG", "nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
            if slice_ is None:
                continue
            memory = self.ask("MIG", "nvmlDeviceGetMemoryInfo", slice_)
            found.append(
                MigDevice(
                    index=place,
                    uuid=_string(self.ask("MIG", "nvmlDeviceGetUUID", slice_)),
                    gpu_instance=self.ask("MIG", "nvmlDeviceGetGpuInstanceId", slice_),
                    compute_instance=self.ask("MIG", "nvmlDeviceGetComputeInstanceId", slice_),
                    mem_used_mib=None if memory is None else _mib(memory.used),
                    mem_total_mib=None if memory is None else _mib(memory.total),
                )
            )
        return found

    def recovery(self, label: str, handle: Any) -> str | None:
        nvml = self.nvml
        field = getattr(nvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
        if field is None:
            return None
        values = self.ask(label, "nvmlDeviceGetFieldValues", handle, [field])
        if not values or values[0].nvmlReturn != 0:
            return None
        number = int(values[0].value.uiVal)
        return RECOVERY.get(number, f"action_{number}")


def _mib(value: int) -> int:
    """Bytes to MiB, up: a few kB in use are not 0."""
    return -(-int(value) // MIB)


def _string(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
