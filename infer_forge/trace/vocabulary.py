"""The words of the format: event categories of kineto (old and new spellings) and what runtime calls do.

Categories: libkineto/include/ActivityType.h and output_json.cpp of pytorch/kineto; the capitalised ones are those of 2021.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache

from infer_forge.trace.columns import CallKind, WorkKind


class Code(IntEnum):
    """What the reader does with an event."""

    IGNORED = 0
    FRAME = 1
    OP = 2
    WORK = 3
    CALL = 4
    SYNC = 5
    ANNOTATION = 6
    GPU_ANNOTATION = 7
    FLOW_START = 8
    FLOW_END = 9
    UNKNOWN_CATEGORY = 10
    UNKNOWN_PHASE = 11


WORK_KINDS = {
    "kernel": WorkKind.KERNEL,
    "Kernel": WorkKind.KERNEL,
    "gpu_memcpy": WorkKind.MEMCPY,
    "Memcpy": WorkKind.MEMCPY,
    "gpu_memset": WorkKind.MEMSET,
    "Memset": WorkKind.MEMSET,
}
"""Category -> kind of device work; nothing else is device work, whatever its args say."""

_COMPLETE = {
    **dict.fromkeys(WORK_KINDS, Code.WORK),
    **dict.fromkeys(("cpu_op", "Operator"), Code.OP),
    **dict.fromkeys(("python_function", "Python"), Code.FRAME),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "Runtime"), Code.CALL),
    "cuda_sync": Code.SYNC,
    "user_annotation": Code.ANNOTATION,
    "gpu_user_annotation": Code.GPU_ANNOTATION,
    **dict.fromkeys(
        (
            "overhead", "Trace", "cpu_instant_event", "cuda_profiler_range", "collective_comm", "async_cpu_to_gpu", "ac2g",
            "fwdbwd", "mtia_runtime", "mtia_ccp_events", "mtia_workload", "mtia_insight", "mtia_counters", "glow_runtime",
            "xpu_runtime", "xpu_driver", "xpu_sync", "xpu_user_annotation", "privateuse1_runtime", "privateuse1_driver",
            "hpu_op", "cuda_event", "async_task", "gpu_pm_counter", "host_annotation", "Memory",
        ),
        Code.IGNORED,
    ),
}  # fmt: skip
_FLOWS = ("ac2g", "async_cpu_to_gpu", "async_gpu")
_OTHER_PHASES = frozenset("MiIRCBEbensftPNODvVaSTpF(),c")
"""Phases of the trace event format that carry no complete event."""

OTHER_DEVICES = ("mtia_workload", "mtia_ccp_events", "hpu_op", "glow_runtime", "mtia_runtime", "privateuse1_runtime")
"""Categories that show that an accelerator of another kind did the work."""

_CALLS: tuple[tuple[re.Pattern[str], CallKind], ...] = (
    (re.compile(r"^(?:cuda|cu|hip)GraphLaunch"), CallKind.GRAPH_LAUNCH),
    (re.compile(r"^(?:cuda|cu|hip)\w*Launch(?:Cooperative|Multi)*Kernel|^hip\w*LaunchByPtr|^cudaLaunch(?:_|$)|"
                r"^hipExtLaunch|^(?:cu|hip)LaunchGrid|^cuLaunch(?:_|$)"), CallKind.LAUNCH),
    (re.compile(r"^(?:cuda|cu|hip)Memcpy"), CallKind.MEMCPY),
    (re.compile(r"^(?:cuda|cu|hip)Memset"), CallKind.MEMSET),
    (re.compile(r"^(?:cuda|cu|hip)(?:Device|Thread|Stream|Event|Ctx)Synchronize"), CallKind.SYNC),
    (re.compile(r"^(?:cuda|cu|hip)EventRecord"), CallKind.EVENT_RECORD),
    (re.compile(r"^(?:cuda|cu|hip)StreamWait"), CallKind.STREAM_WAIT),
)  # fmt: skip


def code_of(phase: object, category: object) -> Code:
    """What to do with events of a phase and category."""
    if phase == "X":
        if isinstance(category, str):
            return _COMPLETE.get(category, Code.UNKNOWN_CATEGORY)
        return Code.UNKNOWN_CATEGORY
    if phase in ("s", "f") and category in _FLOWS:
        return Code.FLOW_START if phase == "s" else Code.FLOW_END
    if isinstance(phase, str) and phase in _OTHER_PHASES:
        return Code.IGNORED
    return Code.UNKNOWN_PHASE


@cache
def call_kind(name: str) -> CallKind:
    """What a runtime or driver call does, by its name (all launch forms, `_ptsz` and versioned ones too)."""
    for pattern, kind in _CALLS:
        if pattern.search(name):
            return kind
    return CallKind.OTHER
