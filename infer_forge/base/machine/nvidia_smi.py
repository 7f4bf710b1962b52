"""`nvidia-smi -q -x`, schema v11 to v13 (the DTD names the version; fields were renamed between them)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

from infer_forge.base.errors import InputUnusable
from infer_forge.base.machine.model import GpuState, MigDevice, ProcessUse
from infer_forge.base.machine.processes import bus_id, describe

COMMAND = ("nvidia-smi", "-q", "-x")
TIMEOUT_S = 30
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_NOTHING = ("n/a", "[n/a]", "not supported", "unknown error", "requested functionality has been deprecated", "")

# In the order of trust: v13, v12, v11.
_POWER = (
    "gpu_power_readings/instant_power_draw",
    "gpu_power_readings/power_draw",
    "gpu_power_readings/average_power_draw",
    "power_readings/power_draw",
)
_LIMIT = (
    "gpu_power_readings/current_power_limit",
    "gpu_power_readings/enforced_power_limit",
    "gpu_power_readings/power_limit",
    "power_readings/enforced_power_limit",
    "power_readings/power_limit",
)
_UNCORRECTED = (
    "sram_uncorrectable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "dram_uncorrectable",
)


def run() -> bytes:
    """The program's XML; `INFER_FORGE_NVIDIA_SMI` names another program of the same grammar.

    Raises:
        InputUnusable: it is not there, fails, or does not end; the message holds its own words.
    """
    program = os.environ.get("INFER_FORGE_NVIDIA_SMI") or shutil.which(COMMAND[0])
    if not program:
        raise InputUnusable("nvidia-smi is not installed", where="PATH")
    try:
        done = subprocess.run([program, *COMMAND[1:]], capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise InputUnusable(f"nvidia-smi did not end within {TIMEOUT_S} s", where=program) from None
    except OSError as exc:
        raise InputUnusable(exc.strerror or str(exc), where=program) from None
    if done.returncode:
        words = " ".join((done.stdout + b" " + done.stderr).decode("utf-8", "replace").split())[:200]
        raise InputUnusable(f"nvidia-smi failed with {done.returncode}: {words}", where=program)
    return done.stdout


def parse_nvidia_smi(data: bytes | str, *, processes_visible: bool = True) -> tuple[str | None, list[GpuState]]:
    """Driver version and GPUs out of the XML.

    Args:
        processes_visible: whether host pids can be looked up here. If not, an empty process list is None: inside a
            container the driver lists nothing although memory is used.

    Raises:
        InputUnusable: this is no such XML, or it is cut off.
    """
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    if "<!ENTITY" in text:  # the real one declares none; entities are how XML is made to explode
        raise InputUnusable("is no nvidia-smi XML: it declares entities", where="nvidia-smi")
    try:
        root = ET.fromstring(text)
    except ET.ParseError as exc:
        raise InputUnusable(f"nvidia-smi gave no whole XML ({exc})", where="nvidia-smi") from None
    if root.tag != "nvidia_smi_log":
        raise InputUnusable(f"is no nvidia-smi XML: its root is <{root.tag}>", where="nvidia-smi")
    driver = _text(root, "driver_version")
    return driver, [_gpu(node, place, processes_visible) for place, node in enumerate(root.findall("gpu"))]


def _gpu(node: ET.Element, place: int, visible: bool) -> GpuState:
    mig = _text(node, "mig_mode/current_mig")
    return GpuState(
        index=place,
        minor=_int(node, "minor_number"),
        uuid=_text(node, "uuid"),
        name=_text(node, "product_name"),
        pci=bus_id(node.get("id", "")) if node.get("id") else None,
        mig=None if mig is None else mig.lower() == "enabled",
        mig_devices=[_mig(device) for device in node.findall("mig_devices/mig_device")],
        mem_used_mib=_int(node, "fb_memory_usage/used"),
        mem_total_mib=_int(node, "fb_memory_usage/total"),
        mem_reserved_mib=_int(node, "fb_memory_usage/reserved"),
        util_gpu_pct=_float(node, "utilization/gpu_util"),
        util_mem_pct=_float(node, "utilization/memory_util"),
        pstate=_text(node, "performance_state"),
        sm_clock_mhz=_int(node, "clocks/sm_clock"),
        power_w=_first(node, _POWER),
        power_limit_w=_first(node, _LIMIT),
        temp_c=_float(node, "temperature/gpu_temp"),
        procs=_processes(node, visible),
        ecc_uncorrected=_ecc(node),
        recovery_action=_recovery(node),
    )


def _mig(node: ET.Element) -> MigDevice:
    return MigDevice(
        index=_int(node, "index"),
        uuid=_text(node, "uuid"),
        gpu_instance=_int(node, "gpu_instance_id"),
        compute_instance=_int(node, "compute_instance_id"),
        mem_used_mib=_int(node, "fb_memory_usage/used"),
        mem_total_mib=_int(node, "fb_memory_usage/total"),
    )


def _processes(node: ET.Element, visible: bool) -> list[ProcessUse] | None:
    group = node.find("processes")
    if group is None or (len(group) == 0 and (group.text or "").strip()):
        return None  # absent, or words such as "N/A": the driver does not say
    found: list[ProcessUse] = []
    for process in group.findall("process_info"):
        pid = _int(process, "pid")
        if pid is None:
            return None
        found.append(describe(pid, mem_mib=_int(process, "used_memory"), kind=_text(process, "type"), visible=visible))
    return found if found or visible else None


def _ecc(node: ET.Element) -> int | None:
    """Uncorrected errors since boot: the newer `sram_/dram_uncorrectable`, else the older `double_bit/total`."""
    volatile = node.find("ecc_errors/volatile")
    if volatile is None:
        return None
    newer = [_int(volatile, tag) for tag in _UNCORRECTED]
    known = [value for value in newer if value is not None]
    return sum(known) if known else _int(volatile, "double_bit/total")


def _recovery(node: ET.Element) -> str | None:
    """v13 says `gpu_recovery_action`; v12 `gpu_reset_status` with two yes/no fields."""
    action = _text(node, "gpu_recovery_action")
    if action is not None:
        return re.sub(r"[^a-z0-9]+", "_", action.lower()).strip("_")
    reset = _text(node, "gpu_reset_status/reset_required")
    drain = _text(node, "gpu_reset_status/drain_and_reset_recommended")
    if reset is None and drain is None:
        return None
    if (reset or "").lower() == "yes":
        return "gpu_reset"
    return "drain_and_reset" if (drain or "").lower() == "yes" else "none"


def _text(node: ET.Element, path: str) -> str | None:
    value = (node.findtext(path) or "").strip()
    # "None" is a word of gpu_recovery_action, and stands for nothing anywhere else that we read
    return None if value.lower() in _NOTHING else value


def _float(node: ET.Element, path: str) -> float | None:
    value = _text(node, path)
    match = _NUMBER.match(value) if value else None
    return float(match.group()) if match else None


def _int(node: ET.Element, path: str) -> int | None:
    value = _float(node, path)
    return None if value is None else round(value)


def _first(node: ET.Element, paths: tuple[str, ...]) -> float | None:
    return next((value for path in paths if (value := _float(node, path)) is not None), None)
