"""`amd-smi static|metric|process --json` (ROCm 6 and 7; the tool's JSON nests `{"value": .., "unit": ..}` or says "N/A")."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any, cast

from infer_forge.base.errors import InputUnusable
from infer_forge.base.jsonio import loads
from infer_forge.base.machine.model import GpuState, ProcessUse
from infer_forge.base.machine.processes import bus_id, describe

TIMEOUT_S = 30
VERBS = ("static", "metric", "process")


def run() -> dict[str, Any]:
    """The JSON of the three verbs, by verb.

    Raises:
        InputUnusable: the program is not there, or a verb fails.
    """
    program = shutil.which("amd-smi")
    if not program:
        raise InputUnusable("amd-smi is not installed", where="PATH")
    found: dict[str, Any] = {}
    for verb in VERBS:
        try:
            done = subprocess.run([program, verb, "--json"], capture_output=True, timeout=TIMEOUT_S, check=False)
        except (subprocess.TimeoutExpired, OSError) as exc:
            raise InputUnusable(f"amd-smi {verb} failed: {exc}", where=program) from None
        if done.returncode:
            words = " ".join((done.stdout + b" " + done.stderr).decode("utf-8", "replace").split())[:200]
            raise InputUnusable(f"amd-smi {verb} failed with {done.returncode}: {words}", where=program)
        found[verb] = loads(done.stdout, where=f"amd-smi {verb}")
    return found


def parse_amd_smi(answers: dict[str, Any], *, processes_visible: bool = True) -> list[GpuState]:
    """GPUs out of the three answers.

    Raises:
        InputUnusable: they have not the shape of amd-smi's JSON.
    """
    try:
        metric = _rows(answers["metric"])
        static = {row.get("gpu"): row for row in _rows(answers["static"])}
        process = {row.get("gpu"): row for row in _rows(answers["process"])}
        return [
            _gpu(row, static.get(row.get("gpu"), {}), process.get(row.get("gpu")), processes_visible) for row in metric
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise InputUnusable(f"is no JSON of amd-smi ({type(exc).__name__}: {exc})", where="amd-smi") from None


def _rows(answer: Any) -> list[dict[str, Any]]:
    """Older versions give a list, newer ones `{"gpu_data": [..]}`."""
    rows: Any = cast("dict[str, Any]", answer)["gpu_data"] if isinstance(answer, dict) else answer
    return list(rows)


def _gpu(metric: dict[str, Any], static: dict[str, Any], process: dict[str, Any] | None, visible: bool) -> GpuState:
    pci = _at(static, "bus", "bdf")
    return GpuState(
        index=int(metric["gpu"]),
        uuid=_word(_at(static, "asic", "asic_serial")) or _word(_at(static, "uuid")),
        name=_word(_at(static, "asic", "market_name")),
        pci=bus_id(pci) if isinstance(pci, str) and ":" in pci else None,
        mem_used_mib=_int(_at(metric, "mem_usage", "used_vram")),
        mem_total_mib=_int(_at(metric, "mem_usage", "total_vram")),
        util_gpu_pct=_number(_at(metric, "usage", "gfx_activity")),
        util_mem_pct=_number(_at(metric, "usage", "umc_activity")),
        sm_clock_mhz=_int(_at(metric, "clock", "gfx_0", "clk")),
        power_w=_number(_at(metric, "power", "socket_power")),
        power_limit_w=_number(_at(static, "limit", "max_power")) or _number(_at(static, "limit", "socket_power")),
        energy_mj=_energy(_at(metric, "energy", "total_energy_consumption")),
        temp_c=_number(_at(metric, "temperature", "hotspot")),
        ecc_uncorrected=_int(_at(metric, "ecc", "total_uncorrectable_count")),
        procs=_processes(process, visible),
    )


def _processes(row: dict[str, Any] | None, visible: bool) -> list[ProcessUse] | None:
    if row is None or "process_list" not in row:
        return None
    found: list[ProcessUse] = []
    for item in row["process_list"]:
        info: Any = item.get("process_info", item)
        if not isinstance(info, dict):
            continue  # "No running processes detected"
        fields = cast("dict[str, Any]", info)
        usage = _number(_at(fields, "memory_usage", "vram_mem"))
        unit = _at(fields, "memory_usage", "vram_mem", "unit")
        mem = None if usage is None else round(usage / (1 << 20) if unit in ("B", None) else usage)
        found.append(describe(int(fields["pid"]), mem_mib=mem, kind="C", visible=visible))
    return found if found or visible else None


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(key)
    return value


def _number(value: Any) -> float | None:
    """A plain number, `{"value": number}` or a word such as "N/A" (None)."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("value")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _int(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else round(number)


def _energy(value: Any) -> int | None:
    joules = _number(value)
    return None if joules is None else round(joules * 1000)


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value not in ("", "N/A") else None
