"""Kernel-API logs of SGLang and FlashInfer: which call was last, which came back, where the context was first poisoned.

Forms: sgl-project/sglang python/sglang/kernel_api_logging.py (324a4d77) and flashinfer/api_logging.py (fb28d724). Both
write one line at a time; a compiled region and a graph replay write none. Statistics of level 5 read values from the
device, so they wait for the work before: `unavailable` there means that the context was dead at that moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from infer_forge.crash.model import Call, CallLog, Line

KEEP = 12
MAX_STREAMS = 4096
ANCHORS = (
    "Kernel API Call: ",
    "FlashInfer API Call: ",
    "Kernel API Exception: ",
    "Crash recorder Call: ",
    "Crash recorder Exception: ",
    "Crash recorder Return: ",
    "statistics=[unavailable",
    "[statistics error",
    "[DUMP ERROR",
    "[LOGGING ERROR",
    "umped to: ",
    "Failed to dump outputs",
    "Output:",
    "Output value:",
    "statistics=[skipped: graph capture",
    "statistics skipped: CUDA graph capture",
    "Positional input arguments:",
)
EXTRA = rb"nan_count=[1-9]|inf_count=[1-9]"
_CALL = re.compile(
    rb"\[(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\] (?P<lib>SGLang Kernel|FlashInfer) API Cal"
    rb"l: (?P<fn>[^\r\n]{1,300})|\[(?P<ts2>[^\]]{8,40})\] Crash recorder Call: (?P<fn2>[^\r\n]{1,300})"
)
_RAISED = re.compile(r"(?:Kernel API|Crash recorder) Exception: (?P<fn>.+?) \((?P<type>[\w.]+): (?P<message>.*?)\)?$")
_UNAVAILABLE = re.compile(r"statistics=\[unavailable: (?P<type>[\w.]+)")
_FI_ERROR = re.compile(r"\[statistics error: (?P<message>.*?)\]?$")
_DUMP_ERROR = re.compile(
    r"\[(?:DUMP|LOGGING) ERROR(?: \((?P<side>inputs|outputs)\))? in (?P<fn>[^\]"
    r"()]+?)(?: \((?P<side2>pre-execution|outputs)\))?\](?:: ?(?P<message>.*))?$"
)
_COUNTS = re.compile(r"(?P<kind>nan|inf)_count=(?P<n>[1-9]\d*)")
CUDA_TYPES = ("AcceleratorError", "RuntimeError", "torch.AcceleratorError", "CudaError")
"""Exception types whose `unavailable` counts; an unsupported dtype (NotImplementedError, TypeError) is no CUDA fault."""


class Calls:
    """All call logs of a triage, fed with the raw hit lines of the scanner."""

    def __init__(self) -> None:
        """Begin empty."""
        self.logs: dict[tuple[object, ...], CallLog] = {}
        self._keys: dict[tuple[str, bytes], tuple[object, ...]] = {}
        self._current: dict[str, tuple[object, ...]] = {}
        self.dropped = 0
        self.statistics: set[str] = set()

    def fast_call(self, raw: bytes, no: int, path: str, parse: Callable[[], Line]) -> bool:
        """A `Call:` line without decoding its prefix anew; False when it is none."""
        found = _CALL.search(raw)
        if found is None:
            return False
        head = (path, raw[: found.start()])
        key = self._keys.get(head)
        if key is None:
            origin = parse().origin
            key = origin.key
            if len(self._keys) < 65536:
                self._keys[head] = key
            if key not in self.logs:
                if len(self.logs) >= MAX_STREAMS:
                    self.dropped += 1
                    return True
                library = "recorder" if found["fn2"] else "flashinfer" if found["lib"] == b"FlashInfer" else "sglang"
                self.logs[key] = CallLog(origin, library)
        log = self.logs[key]
        self._current[path] = key
        name = (found["fn"] or found["fn2"]).decode("utf-8", "replace").strip()
        stamp = (found["ts"] or found["ts2"]).decode("ascii", "replace")
        library = "recorder" if found["fn2"] else "flashinfer" if found["lib"] == b"FlashInfer" else "sglang"
        call = Call(name, no, log.origin, library, stamp)
        log.count += 1
        log.last.append(call)
        if len(log.last) > KEEP:
            del log.last[0]
        return True

    def detail(self, line: Line) -> bool:
        """A line inside a call's record; False when no call is open in its stream."""
        log = self._log(line)
        if log is None or not log.last:
            return False
        text = line.text
        call = log.last[-1]
        if found := _RAISED.search(text):
            self._raised(log, line, found)
        elif "Crash recorder Return: " in text:
            call.returned = True
        elif "Output:" in text or "Output value:" in text:
            call.returned = call.in_output = True
            log.level = max(log.level, 3)
        elif "Positional input arguments:" in text:
            log.level = max(log.level, 3)
        elif found := _UNAVAILABLE.search(text):
            log.level = max(log.level, 5)
            if found["type"] in CUDA_TYPES:
                self._poison(log, call, line, found["type"])
        elif found := _FI_ERROR.search(text):
            log.level = max(log.level, 5)
            if "CUDA error" in found["message"] or "Accelerator" in found["message"]:
                self._poison(log, call, line, found["message"][:120])
        elif found := _DUMP_ERROR.search(text):
            log.level = max(log.level, 10)
            side = found["side"] or ("outputs" if found["side2"] == "outputs" else "inputs")
            named = next((c for c in reversed(log.last) if c.api == found["fn"].strip()), call)
            named.in_output = side == "outputs"
            self._poison(log, named, line, (found["message"] or "dump error")[:120])
        elif "umped to: " in text:
            log.level = max(log.level, 10)
            call.dumped = True
            if "Outputs dumped" in text or "Dumped outputs" in text:
                call.status = "completed"
        elif "Failed to dump outputs" in text:
            call.in_output = True
            self._poison(log, call, line, "outputs could not be dumped")
        elif "graph capture" in text:
            call.capture = True
        else:
            self._values(log, call, text)
        return True

    def _log(self, line: Line) -> CallLog | None:
        key = self._current.get(line.origin.path) if line.bare else line.origin.key
        return self.logs.get(key) if key is not None else None

    def _raised(self, log: CallLog, line: Line, found: re.Match[str]) -> None:
        name = found["fn"].strip()
        call = next((c for c in reversed(log.last) if c.api == name and c.raised is None), None)
        if call is None:
            call = Call(name, line.no, log.origin, log.library, line.stamp)
            log.last.append(call)
        call.raised = f"{found['type']}: {found['message']}"[:300]
        call.poison_line = call.poison_line or line.no

    def _poison(self, log: CallLog, call: Call, line: Line, what: str) -> None:
        call.poison_line = call.poison_line or line.no
        if call.in_output:
            call.poisoned_out = call.poisoned_out or what
        else:
            call.poisoned_in = call.poisoned_in or what
        if log.poisoned is None:
            log.poisoned = call
            log.before_poison = [c for c in log.last if c is not call][-3:]

    def _values(self, log: CallLog, call: Call, text: str) -> None:
        log.level = max(log.level, 5)
        found = _COUNTS.search(text)
        if found is None:
            return
        side = "out" if call.in_output else "in"
        call.bad_values[side] = call.bad_values.get(side, 0) + int(found["n"])
        if log.first_bad_values is None:
            log.first_bad_values = call


def with_levels(calls: Calls) -> None:
    """Files with statistics were written at level 5 or higher."""
    for log in calls.logs.values():
        if log.origin.path in calls.statistics:
            log.level = max(log.level, 5)


def merged(logs: dict[tuple[object, ...], CallLog]) -> list[CallLog]:
    """Logs with calls, in the order of their streams."""
    return [log for log in logs.values() if log.last]
