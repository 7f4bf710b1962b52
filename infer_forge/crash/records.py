"""Collectors: what follows an opening line until a record is whole. Each is fed lines of its own stream.

`feed` answers `True` while it wants more. `event()` gives the finished record.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from infer_forge.crash import names, signatures
from infer_forge.crash.model import MAX_TEXT, Event, Line, Origin, Stack

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]{1,400})", line (?P<line>\d+),? in (?P<fn>.{1,200}?)$')
_EXCEPTION = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z_a-z]\w*)(?:: ?(?P<message>.*))?$")
_LOOKS = re.compile(r"(?:Error|Exception|Interrupt|Exit|Timeout|Failure|Fault|OutOfResources|Empty|Full|Dead)\w*$")
MAX_FRAMES = 80


class Collector(Protocol):
    """A record that is being read."""

    origin: Origin

    def feed(self, line: Line) -> bool:
        """Take a line; False when the record is over (the line was not taken unless `took`)."""
        ...

    def finish(self) -> None:
        """The input ended."""
        ...

    @property
    def took(self) -> bool:
        """Whether the last line belonged to the record."""
        ...


class Traceback:
    """A Python traceback, with or without its header."""

    def __init__(self, line: Line, sink: list[Event], *, chained: bool) -> None:
        """Open at its header (or at its first frame); the event goes to `sink`."""
        self.origin = line.origin
        self.head = line
        self.frames: list[tuple[str, int, str]] = []
        self.code: list[str] = []
        self.stray = 0
        self.took = True
        self.chained = chained
        self.sink = sink
        self.closed = False
        self._frame(line.text)

    def _frame(self, text: str) -> bool:
        found = _FRAME.match(text)
        if found and len(self.frames) < MAX_FRAMES:
            self.frames.append((found["file"], int(found["line"]), found["fn"]))
        return bool(found)

    def feed(self, line: Line) -> bool:
        """Frames, their code, then the line that names the exception."""
        text = line.text
        self.took = True
        if self._frame(text):
            return True
        if not text.strip() or text[:1] in " \t" or set(text.strip()) <= set("^~"):
            if set(text.strip()) - set("^~ "):
                self.code.append(text.strip()[:200])
            return True
        if "Traceback (most recent call last)" in text:
            self.took = False
            self.finish()
            return False
        found = _EXCEPTION.match(text)
        if found and (
            _LOOKS.search(found["type"])
            or (
                found["message"] is not None
                and found["type"][-9:] in text
                and found["type"].rsplit(".", 1)[-1][0].isupper()
                and self.frames
            )
        ):
            self._close(line, found["type"])
            return False
        self.took = False
        self.stray += 1
        if self.stray > 4:
            self.finish()
            return False
        return True

    def _close(self, line: Line, kind: str) -> None:
        self.closed = True
        matched = signatures.match(line.text)
        facts: dict[str, Any] = {"exception": kind, "code": self.code[-8:]}
        if self.chained:
            facts["chained"] = True
        sig, group = ("python_exception", "python")
        if matched:
            sig, group = matched[0].id, matched[0].group
            facts.update({k: v for k, v in matched[1].groupdict().items() if v is not None})
        self.sink.append(
            Event(
                sig,
                group,
                line.no,
                line.text[:MAX_TEXT],
                self.origin,
                self.head.time or line.time,
                self.head.stamp or line.stamp,
                "log",
                facts,
                self.frames,
            )
        )

    def finish(self) -> None:
        """A traceback that ends before its exception."""
        if not self.closed and self.frames:
            self.closed = True
            facts: dict[str, Any] = {"code": self.code[-8:], "cut": True}
            self.sink.append(
                Event(
                    "traceback_cut",
                    "python",
                    self.head.no,
                    self.head.text[:MAX_TEXT],
                    self.origin,
                    self.head.time,
                    self.head.stamp,
                    "log",
                    facts,
                    self.frames,
                )
            )


_PROCESS = re.compile(r"^\s*Process (?P<pid>\d+): (?P<name>.*)$")
_PYSPY = re.compile(r"Pyspy dump for PID (?P<pid>\d+)")
_THREAD = re.compile(
    r"^\s*(?:Current t|T)hread (?P<tid>0x[0-9a-fA-F]+|\d+)(?: \((?P<"
    r'state>active|idle|active\+gil)\))?(?::? ?"?(?P<name>[^"(]*)"?)?'
)
_SPY_FRAME = re.compile(r"^\s+(?P<fn>\S.*?) \((?P<file>[^()]+):(?P<line>\d+)\)$")
_FAULT_FRAME = re.compile(r'^\s*File "(?P<file>[^"]{1,400})", line (?P<line>\d+) in (?P<fn>.{1,200})$')


class Stacks:
    """A py-spy dump or a faulthandler print: all its threads."""

    def __init__(self, line: Line, sink: list[Stack]) -> None:
        """Open at `Process N`, `Pyspy dump for PID N`, or a thread's head."""
        self.origin = line.origin
        self.sink = sink
        self.pid: int | None = line.origin.pid
        self.process: str | None = None
        self.stray = 0
        self.lines = 0
        self.took = True
        self.current: Stack | None = None
        self.feed(line)

    def feed(self, line: Line) -> bool:
        """Heads and frames; ends after a few foreign lines."""
        text = line.text
        self.took = True
        self.lines += 1
        if self.lines > 4000:
            return False
        if found := _PROCESS.match(text) or _PYSPY.search(text):
            pid = int(found["pid"])
            if self.pid is not None and pid != self.pid and self.current is not None:
                self.took = False
                return False
            self.pid = pid
            self.process = found.groupdict().get("name") or self.process
            return True
        if text.lstrip().startswith(("Python v", "Fatal Python error")):
            return True
        if found := _THREAD.match(text):
            form = "faulthandler" if "most recent call first" in text else "py-spy"
            state = found["state"]
            name = (found["name"] or "").strip() or ("current" if "Current" in text else found["tid"])
            active = state.startswith("active") if state else (True if "Current" in text else None)
            self.current = Stack(self.origin, line.no, self.pid, self.process, name, active, form=form)
            if len(self.sink) < 20_000:
                self.sink.append(self.current)
            return True
        found = _SPY_FRAME.match(text) or _FAULT_FRAME.match(text)
        if found and self.current is not None:
            if len(self.current.frames) < MAX_FRAMES:
                self.current.frames.append((found["fn"].strip(), found["file"], int(found["line"])))
            return True
        if not text.strip() or text.strip().startswith("..."):
            return True
        self.took = False
        self.stray += 1
        return self.stray <= 3

    def finish(self) -> None:
        """Nothing to add: every stack is in the sink."""


_DETECTED = re.compile(r"coredump: Detected an exception of type (?P<name>\w+) \((?P<code>\d+)\)")
_PROGRESS = re.compile(r"coredump:\s+- (?P<key>Device|SM|Warp|PC):? (?P<value>\S+)")
_PROGRESS_FRAME = re.compile(r"coredump:\s+#0\s+0x[0-9a-fA-F]+\s+(?P<name>\S.*)$")
_WRITING = re.compile(r"Writing ELF file to (?P<file>\S+)|Opening GPU coredump: (?P<file2>\S+)")
_EXC_LINE = re.compile(r"^\s*CUDA Exception: (?P<name>.+?)\s*$")
_AT_PC = re.compile(r"exception was triggered at PC (?P<pc>0x[0-9a-fA-F]+)\s*(?P<name>\S.*)?$")
_FOCUS = re.compile(
    r"focus set to CUDA kernel (?P<n>\d+), grid (?P<grid>\d+)(?:, cluster \([^)]*\))?, block (?P<block>"
    r"\([^)]*\)), thread (?P<thread>\([^)]*\)), device (?P<device>\d+), sm (?P<sm>\d+), warp (?P<warp>\d+)"
)
_GDB_FRAME = re.compile(
    r"^#0\s+(?:0x[0-9a-fA-F]+ in )?(?P<name>.+?)\s*<<<(?P<launch>"
    r"[^>]*)>>>\s*\(.*?\)(?: at (?P<file>[^\s:]+):(?P<line>\d+))?"
)
_FILE_OWNER = re.compile(r"coredump_(?P<host>[\w.-]+?)\.(?P<pid>\d+)\.(?P<time>\d+)")


class Coredump:
    """Progress lines of a GPU core dump, or a cuda-gdb session on one."""

    def __init__(self, line: Line, sink: list[Event]) -> None:
        """Open at the first line that speaks of it."""
        self.origin = line.origin
        self.head = line
        self.sink = sink
        self.facts: dict[str, Any] = {}
        self.took = True
        self.lines = 0
        self.stray = 0
        self.done = False
        self.feed(line)

    def feed(self, line: Line) -> bool:
        """Exception, place, kernel, file; a second dump opens another record."""
        text = line.text
        self.took = True
        self.lines += 1
        if ("Detected an exception" in text and "exception" in self.facts) or (
            "Opening GPU coredump" in text and self.lines > 1 and (self.facts.get("file") or "kernel" in self.facts)
        ):
            self.took = False
            self.finish()
            return False
        if found := _DETECTED.search(text):
            self.facts.update(exception=found["name"], code=int(found["code"]))
        elif found := _PROGRESS.search(text):
            self.facts[found["key"].lower()] = found["value"]
        elif found := _PROGRESS_FRAME.search(text):
            self.facts.setdefault("kernel", found["name"])
        elif found := _WRITING.search(text):
            self.facts["file"] = found["file"] or found["file2"]
        elif found := _EXC_LINE.match(text):
            self.facts["exception"] = found["name"]
        elif found := _AT_PC.search(text):
            self.facts["pc"] = found["pc"]
            if found["name"]:
                self.facts["kernel"] = found["name"].strip()
        elif found := _FOCUS.search(text):
            self.facts.update(
                device=found["device"],
                sm=found["sm"],
                warp=found["warp"],
                block=found["block"],
                thread=found["thread"],
                focus=True,
            )
        elif found := _GDB_FRAME.match(text):
            self.facts["frame_kernel"] = found["name"].strip()
            if found["file"]:
                self.facts.update(source_file=found["file"], source_line=int(found["line"]))
        elif "coredump" in text or not text.strip() or text.startswith(("(cuda-gdb)", "#", "$")):
            pass
        else:
            self.took = False
            self.stray += 1
        if self.lines > 200 or self.stray > 6:
            self.finish()
            return False
        return True

    def finish(self) -> None:
        """Give the record, if it says anything."""
        if self.done or not self.facts:
            return
        self.done = True
        owner = _FILE_OWNER.search(str(self.facts.get("file", "")))
        origin, time = self.origin, self.head.time
        if owner:
            origin = Origin(
                origin.path, origin.host or owner["host"], origin.pid or int(owner["pid"]), origin.rank, origin.label
            )
            time = time or float(owner["time"])
        kernel = self.facts.get("kernel") or self.facts.get("frame_kernel")
        if kernel:
            self.facts["kernel"] = kernel
            self.facts["kernel_short"] = names.short(str(kernel))
        sig = "ima_coredump" if "exception" in self.facts else "coredump_no_exception"
        group = "cuda" if "exception" in self.facts else "info"
        self.sink.append(
            Event(
                sig,
                group,
                self.head.no,
                self.head.text[:MAX_TEXT],
                origin,
                time,
                self.head.stamp,
                "coredump",
                self.facts,
            )
        )


_ELASTIC = re.compile(r"^\s*(?P<key>time|host|rank|exitcode)\s*: (?P<value>\S+)(?: \((?P<more>[^)]*)\))?")


class FirstFailure:
    """torchrun's own note of the first failure that it observed: time, host, rank, exit code, pid."""

    def __init__(self, line: Line, sink: list[Event]) -> None:
        """Open at `Root Cause (first observed failure)`."""
        self.origin = line.origin
        self.head = line
        self.sink = sink
        self.told: dict[str, str] = {}
        self.lines = 0
        self.took = True
        self.done = False

    def feed(self, line: Line) -> bool:
        """Up to twelve lines of `key : value`."""
        self.lines += 1
        found = _ELASTIC.match(line.text)
        self.took = found is not None
        if found:
            self.told[found["key"]] = found["value"]
            if found["key"] == "exitcode" and (found["more"] or "").startswith("pid: "):
                self.told["pid"] = found["more"][5:]
        if self.lines >= 12 or "exitcode" in self.told:
            self.finish()
            return False
        return True

    def finish(self) -> None:
        """Give the note once, when it names a rank."""
        rank = self.told.get("rank", "")
        if self.done or not rank.isdigit():
            return
        self.done = True
        pid = self.told.get("pid", "")
        origin = Origin(self.origin.path, self.told.get("host"), int(pid) if pid.isdigit() else None, int(rank))
        facts: dict[str, Any] = {"exitcode": self.told.get("exitcode"), "time": self.told.get("time")}
        head = self.head
        self.sink.append(
            Event(
                "torchrun_first_failure",
                "info",
                head.no,
                head.text[:MAX_TEXT],
                origin,
                head.time,
                head.stamp,
                "log",
                facts,
            )
        )
