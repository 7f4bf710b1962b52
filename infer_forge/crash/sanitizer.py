"""compute-sanitizer and cuda-memcheck records: memcheck, racecheck, synccheck, initcheck; three generations of format.

Source of the forms: Compute Sanitizer manual 13.5 and outputs of 11.x to 13.x. The line prefix (`--prefix`) is learnt
from the record's own first line.
"""

from __future__ import annotations

import re
from typing import Any

from infer_forge.crash import names
from infer_forge.crash.model import MAX_TEXT, Event, Line

ANCHORS = (
    "COMPUTE-SANITIZER",
    "CUDA-MEMCHECK",
    "nvalid __",
    "Uninitialized __",
    "Host API memory access error",
    "Race reported between",
    "hazard detected at",
    "Barrier error detected",
    "Deadlock detected in",
    "Program hit ",
    "Tensor Memory column",
    "Leaked ",
    "ERROR SUMMARY:",
    "RACECHECK SUMMARY:",
    "LEAK SUMMARY:",
    "before first instrumented API call",
    "Internal Sanitizer Error",
    "process didn't terminate successfully",
)

_HEADS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (
        "ima_precise_sanitizer",
        "memcheck",
        re.compile(
            r"(?P<potential>Potential i|I)nvalid __(?P<space>\w+?)__ (?P<acc"
            r"ess>read|write|atomic)(?: of size (?P<size>[\d,]+)(?: bytes)?)?"
        ),
    ),
    (
        "initcheck_kernel",
        "initcheck",
        re.compile(
            r"Uninitialized __(?P<space>\w+?)__ memory (?P<access>read|write)(?: of size (?P<size>[\d,]+) bytes)?"
        ),
    ),
    (
        "initcheck_host_api",
        "initcheck",
        re.compile(
            r"Host API memory access error at host access to (?P<address>0x[0-9a-fA-F]+) of size (?P<size>[\d,]+) bytes"
        ),
    ),
    (
        "racecheck_hazard",
        "racecheck",
        re.compile(r"Race reported between (?P<access>Read|Write|Atomic) access at (?P<where>.+)$"),
    ),
    (
        "racecheck_hazard",
        "racecheck",
        re.compile(
            r"Potential (?P<hazard>RAW|WAR|WAW) hazard detected at __share"
            r"d__ (?P<address>0x[0-9a-fA-F]+) in block (?P<block>\([^)]*\))"
        ),
    ),
    ("synccheck_barrier", "synccheck", re.compile(r"Barrier error detected\. ?(?P<reason>.*)$")),
    ("synccheck_barrier", "synccheck", re.compile(r"(?P<reason>Deadlock detected in .*)$")),
    (
        "sanitizer_api_error",
        "memcheck",
        re.compile(
            r"Program hit (?P<error>\w+)(?: \(error (?P<number>\d+)\))? du"
            r"e to \"(?P<reason>[^\"]*)\" on CUDA API call to (?P<call>\w+)"
        ),
    ),
    (
        "tmem_leak",
        "memcheck",
        re.compile(
            r"Tensor Memory column (?P<column>\d+) being accessed by instruction (?P<instruction>\S+) is not allocated"
        ),
    ),
    ("sanitizer_leak", "memcheck", re.compile(r"Leaked (?P<size>[\d,]+) bytes at (?P<address>0x[0-9a-fA-F]+)")),
    ("sanitizer_never_ran", "none", re.compile(r"terminated before first instrumented API call")),
    ("sanitizer_internal", "none", re.compile(r"Internal Sanitizer Error")),
    ("sanitizer_summary", "none", re.compile(r"(?<!LEAK )(?<!RACECHECK )(?:ERROR SUMMARY: (?P<errors>\d+) errors?)")),
    ("sanitizer_summary", "racecheck", re.compile(r"RACECHECK SUMMARY: (?P<errors>\d+) hazards? displayed")),
    ("sanitizer_start", "none", re.compile(r"COMPUTE-SANITIZER|CUDA-MEMCHECK")),
)
_AT_FILE_KERNEL = re.compile(r"at (?P<offset>0x[0-9a-fA-F]+) in (?P<file>[^\s:]+\.\w+):(?P<line>\d+):(?P<kernel>.+)$")
_AT_KERNEL = re.compile(r"at (?P<offset>0x[0-9a-fA-F]+) in (?P<kernel>.+)$")
_AT_NEW = re.compile(r"at (?P<kernel>.+?)\+(?P<offset>0x[0-9a-fA-F]+)(?: in (?P<file>\S+):(?P<line>\d+))?\s*$")
_WHERE = re.compile(
    r"(?P<kernel>.+?)\+(?P<offset>0x[0-9a-fA-F]+)(?: in (?P<file>"
    r"\S+):(?P<line>\d+))?(?: \[(?P<hazards>[\d,]+) hazards?\])?\s*$"
)
_THREAD = re.compile(r"by thread (?P<thread>\([^)]*\)) in block (?P<block>\([^)]*\))")
_ADDRESS = re.compile(r"(?:Address|Access (?:to|at)) (?P<address>0x[0-9a-fA-F]+)(?: is (?P<state>.+?))?$")
_NEAREST = re.compile(
    r"and is (?P<distance>[\d,]+) bytes (?P<side>before|after|inside) the nearest allocation at (?P<"
    r"base>0x[0-9a-fA-F]+) of size (?P<alloc>[\d,]+) bytes|(?P<inside>inside the nearest allocation)"
)
_AND = re.compile(r"and (?P<access>Read|Write|Atomic) access at (?P<where>.+)$")
_HAZARD = re.compile(r"(?P<access>Read|Write|Atomic) Thread (?P<thread>\([^)]*\)) at (?P<where>.+)$")
_OLD_WHERE = re.compile(r"0x[0-9a-fA-F]+ in (?:(?P<file>[^\s:]+\.\w+):(?P<line>\d+):)?(?P<kernel>.+)$")
_UNINIT = re.compile(r"Uninitialized access at (?P<address>0x[0-9a-fA-F]+) on access by (?P<by>.+)$")
_HOST = re.compile(r"(?:Host|Device) Frame: ?(?P<name>[^\[]*?)(?: ?\[0x[0-9a-fA-F]+\]|$)")
_MAX_RECORD = 400
GPU_FAULTS = ("ima_precise_sanitizer", "tmem_leak")


def head_of(text: str) -> tuple[str, str, re.Match[str]] | None:
    """(signature, tool, match) of a record's first line."""
    for sig, tool, pattern in _HEADS:
        if found := pattern.search(text):
            return sig, tool, found
    return None


def _number(text: str | None) -> int | None:
    return int(text.replace(",", "")[:18] or 0) if text else None


class Record:
    """One record of the sanitizer."""

    def __init__(self, line: Line, sink: list[Event]) -> None:
        """Open at a line for which `head_of` knows a form."""
        self.origin = line.origin
        self.sink = sink
        head = head_of(line.text)
        self.done = head is None
        self.took = not self.done
        self.prefix = ""
        self.lines = self.foreign = 0
        self.head = line
        self.facts: dict[str, Any] = {}
        self.host: list[str] = []
        if head is None:
            return
        self.sig, self.tool, found = head
        before = line.text[: found.start()].split()
        self.prefix = before[0] if before and before[0].rstrip(":").lower() not in ("error", "warning") else ""
        self.facts = {k: v for k, v in found.groupdict().items() if v is not None} | {"tool": self.tool}
        if re.search(r"\bwarning\b", line.text[: found.start()], re.IGNORECASE):
            self.facts["severity"] = "warning"
        if "where" in self.facts:
            self._race(self.facts.pop("where"), self.facts.pop("access"))

    def feed(self, line: Line) -> bool:
        """Lines with the same prefix go on with the record; program output between them is passed over."""
        text = line.text
        self.lines += 1
        self.took = False
        if self.done:
            return False
        body = text.strip()
        if self.prefix and not body.startswith(self.prefix):
            self.foreign += 1
            if self.foreign > 40 or self.lines > _MAX_RECORD:
                self.finish()
                return False
            return True
        body = body[len(self.prefix) :].strip()
        if not body or head_of(body) is not None or self.lines > _MAX_RECORD:
            self.finish()
            return False
        if not self._take(body) and not self.prefix:
            self.finish()
            return False
        self.took = True
        return True

    def _take(self, body: str) -> bool:
        facts = self.facts
        if found := _THREAD.search(body):
            facts.setdefault("thread", found["thread"])
            facts.setdefault("block", found["block"])
        elif found := _UNINIT.search(body):
            facts.update(uninitialized=found["address"], by=found["by"])
        elif found := _NEAREST.search(body):
            if found["inside"]:
                facts["side"] = "inside"
            else:
                facts.update(
                    distance_bytes=_number(found["distance"]),
                    side=found["side"],
                    allocation_bytes=_number(found["alloc"]),
                )
        elif found := _ADDRESS.match(body):
            facts["address"] = found["address"]
            if found["state"]:
                facts["state"] = found["state"].split(" and is ")[0].split(",")[0]
        elif found := _AND.match(body):
            self._race(found["where"], found["access"])
        elif found := _HOST.match(body):
            name = found["name"].strip()
            if body.startswith("Device"):
                facts.setdefault("device_frames", []).append(name)
            elif name and len(self.host) < 40:
                self.host.append(name)
        elif found := _HAZARD.match(body):
            self._race(found["where"], found["access"], found["thread"])
        elif "kernel" not in facts and (
            found := _AT_FILE_KERNEL.match(body) or _AT_NEW.match(body) or _AT_KERNEL.match(body)
        ):
            facts.update({k: v for k, v in found.groupdict().items() if v is not None})
        elif not body.startswith(
            ("Saved host", "in ", "at ", "Barrier", "...", "=", "and", "Write", "Read", "Current", "by ")
        ):
            return False
        return True

    def _race(self, where: str, access: str, thread: str | None = None) -> None:
        """One access of a hazard, in analysis or hazard mode, of either generation."""
        found = _OLD_WHERE.match(where) or _WHERE.match(where)
        told = found.groupdict() if found else {"kernel": where}
        entry: dict[str, Any] = {"access": access.lower(), "at": where.strip()}
        if told.get("hazards"):
            entry["hazards"] = _number(told["hazards"])
        if thread:
            entry["thread"] = thread
        self.facts.setdefault("accesses", []).append(entry)
        self.facts.setdefault("kernel", told["kernel"].strip())
        if told.get("file"):
            self.facts.setdefault("file", told["file"])
            self.facts.setdefault("line", told["line"])

    def finish(self) -> None:
        """Give the record once."""
        if self.done:
            return
        self.done = True
        facts = self.facts
        if "kernel" in facts:
            facts["kernel_short"] = names.short(str(facts["kernel"]))
        if self.host:
            facts["host_frames"] = self.host[:12]
        if "size" in facts:
            facts["size_bytes"] = _number(facts.pop("size"))
        group = (
            "cuda"
            if self.sig
            in (
                "ima_precise_sanitizer",
                "tmem_leak",
                "racecheck_hazard",
                "synccheck_barrier",
                "initcheck_kernel",
                "initcheck_host_api",
            )
            else "info"
        )
        line = self.head
        self.sink.append(
            Event(
                self.sig, group, line.no, line.text[:MAX_TEXT], line.origin, line.time, line.stamp, "sanitizer", facts
            )
        )
