"""The keys around the event array -> facts of the trace."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

from infer_forge.trace.model import TraceHeader

_NVIDIA = ("cuda_runtime_version", "cuda_driver_version", "cupti_version")
_AMD = ("hip_runtime_version", "hip_driver_version", "roctracer_version", "rocprofiler_version")
_TAKEN = {"deviceProperties", "distributedInfo", "baseTimeNanoseconds", "trace_id", "traceEvents", *_NVIDIA, *_AMD}
_CUDA_CALL, _HIP_CALL = re.compile(r"^(?:cuda|cu)[A-Z]"), re.compile(r"^hip[A-Z]")


def read_header(keys: dict[str, Any], names: Iterable[str]) -> TraceHeader:
    """Facts from the top-level keys.

    Args:
        keys: decoded top-level keys of the file.
        names: event names, which show the vendor where the version fields are missing.
    """
    devices = [cast("dict[str, Any]", d) for d in _items(keys.get("deviceProperties")) if isinstance(d, dict)]
    distributed = keys.get("distributedInfo")
    base = keys.get("baseTimeNanoseconds")
    trace_id = keys.get("trace_id")
    scalars = {k: v for k, v in keys.items() if k not in _TAKEN and isinstance(v, (str, int, float, bool))}
    return TraceHeader(
        vendor=_vendor(keys, names),
        versions={k: keys[k] for k in (*_NVIDIA, *_AMD) if k in keys},
        devices=devices,
        distributed=cast("dict[str, Any]", distributed) if isinstance(distributed, dict) else {},
        base_time_ns=base if isinstance(base, int) and not isinstance(base, bool) else None,
        trace_id=trace_id if isinstance(trace_id, str) else None,
        with_stack=_flag(keys, "with_stack"),
        record_shapes=_flag(keys, "record_shapes"),
        profile_memory=_flag(keys, "profile_memory"),
        extra=scalars,
    )


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _flag(keys: dict[str, Any], key: str) -> bool | None:
    return bool(keys[key]) if key in keys else None


def _vendor(keys: dict[str, Any], names: Iterable[str]) -> str:
    """A CUDA or HIP version field decides, else the API names; a compute capability never does (MI210 reports 9.0)."""
    if any(k in keys for k in _AMD):
        return "amd"
    if any(k in keys for k in _NVIDIA):
        return "nvidia"
    amd = nvidia = 0
    for name in names:
        amd += bool(_HIP_CALL.match(name))
        nvidia += bool(_CUDA_CALL.match(name))
    return "amd" if amd > nvidia else "nvidia" if nvidia else "unknown"
