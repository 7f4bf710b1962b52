"""Types of the crash room: lines, events, stacks, calls, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Certainty = Literal["proven", "bounded", "surfaced_only", "unknown"]
CERTAINTIES: tuple[Certainty, ...] = ("proven", "bounded", "surfaced_only", "unknown")
MAX_TEXT = 500


@dataclass(slots=True)
class Origin:
    """Who wrote a line: file, host, pid, rank. None where nothing tells.

    Attributes:
        rank: the number of a rank with one dimension (`TP2`, `[rank2]`, `Rank 2`): 2.
        label: how the log spells it (`DP1 TP4`).
    """

    path: str
    host: str | None = None
    pid: int | None = None
    rank: int | None = None
    label: str | None = None

    @property
    def key(self) -> tuple[str, str | None, int | None, str | int | None]:
        """Identity of the stream that the line belongs to."""
        return (self.path, self.host, self.pid, self.label or self.rank)

    @property
    def process(self) -> tuple[str | None, str | int | None]:
        """Identity of the process for causes and consequences: host with rank, else pid, else the file."""
        if self.label or self.rank is not None:
            return (self.host, self.label or f"rank{self.rank}")
        return (self.host, self.pid if self.pid is not None else self.path)


@dataclass(slots=True)
class Line:
    """One line without its prefixes.

    Attributes:
        time: seconds since 1970 (naive stamps are read as UTC), or None.
        bare: the process put no prefix before it (Docker, Kubernetes or syslog may have).
    """

    no: int
    text: str
    origin: Origin
    time: float | None = None
    stamp: str | None = None
    bare: bool = False


@dataclass(slots=True)
class Event:
    """Something that a line (or a record of lines) says.

    Attributes:
        sig: id of the signature. group: its group. source: what kind of evidence it is (`log`, `sanitizer`, `coredump`,
            `kernel_log`, `api_log`, `dump_dir`, `flight_recorder`, `stacks`, `record`).
        facts: named groups of the pattern and what its parser adds.
        frames: Python frames (file, line, function), outermost first.
        order: place in the order of reading; sorts what has no time.
        count: how many equal ones were seen.
    """

    sig: str
    group: str
    line_no: int
    text: str
    origin: Origin
    time: float | None = None
    stamp: str | None = None
    source: str = "log"
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    frames: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])
    order: int = 0
    count: int = 1
    before: list[str] = field(default_factory=list[str])

    @property
    def rank(self) -> int | str | None:
        """Number of the rank, or its spelled label when it has several dimensions."""
        return self.origin.rank if self.origin.rank is not None else self.origin.label

    @property
    def ref(self) -> str:
        """`file:line`, for every claim."""
        return f"{self.origin.path}:{self.line_no}"

    def to_json(self) -> dict[str, Any]:
        """What a reader needs to find the line again."""
        return {
            "signature": self.sig,
            "ts": self.stamp,
            "host": self.origin.host,
            "pid": self.origin.pid,
            "rank": self.rank,
            "source": self.source,
            "path": self.origin.path,
            "line_no": self.line_no,
            "text": self.text,
        }


@dataclass(slots=True)
class Call:
    """One call of a kernel-API log.

    Attributes:
        returned: an `Output:` section was seen. poisoned_in, poisoned_out: statistics could not be computed there.
        raised: exception type and message of the log.
        bad_values: NaN or infinity counts: {"in": n, "out": n}.
        status: `execution_status` of a dump directory.
    """

    api: str
    line_no: int
    origin: Origin
    library: str = "sglang"
    stamp: str | None = None
    level: int = 1
    returned: bool = False
    in_output: bool = False
    poisoned_in: str | None = None
    poisoned_out: str | None = None
    poison_line: int | None = None
    raised: str | None = None
    dumped: bool = False
    capture: bool = False
    status: str | None = None
    bad_values: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def ref(self) -> str:
        """`file:line`."""
        return f"{self.origin.path}:{self.line_no}"


@dataclass
class CallLog:
    """The calls of one stream: the last ones, and the first that shows poison."""

    origin: Origin
    library: str
    last: list[Call] = field(default_factory=list[Call])
    poisoned: Call | None = None
    before_poison: list[Call] = field(default_factory=list[Call])
    first_bad_values: Call | None = None
    count: int = 0
    level: int = 1


@dataclass
class Stack:
    """One thread's stack, innermost frame first."""

    origin: Origin
    line_no: int
    pid: int | None
    process: str | None
    thread: str
    active: bool | None
    frames: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    form: str = "py-spy"


@dataclass
class Suspect:
    """A candidate, with the lines that speak for it; never a culprit by itself."""

    what: str
    why: str
    strength: Literal["high", "medium", "low"]
    refs: list[str]

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {"what": self.what, "why": self.why, "strength": self.strength, "refs": self.refs}


@dataclass
class Step:
    """The one next command, its environment, why, and the line to expect."""

    command: str
    env: dict[str, str]
    why: str
    expected_line: str

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {"command": self.command, "env": self.env, "why": self.why, "expected_line": self.expected_line}


@dataclass
class Verdict:
    """The answer of a triage. See `docs/crash.md` for every key."""

    cls: str = "no_evidence"
    certainty: Certainty = "unknown"
    meaning: str = ""
    cuda_crash: bool | None = None
    secondary: list[str] = field(default_factory=list[str])
    first_event: Event | None = None
    surfaced_at: dict[str, Any] | None = None
    kernel: str | None = None
    api: str | None = None
    rank: int | str | None = None
    device: dict[str, Any] | None = None
    location: dict[str, Any] | None = None
    sync_boundary: dict[str, Any] | None = None
    suspects: list[Suspect] = field(default_factory=list[Suspect])
    cascade_count: int = 0
    contradictory: list[str] = field(default_factory=list[str])
    not_evidence: list[str] = field(default_factory=list[str])
    missing_inputs: list[str] = field(default_factory=list[str])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    hang: dict[str, Any] | None = None
    hardware: dict[str, Any] | None = None
    step: str = "give_log"
    step_words: dict[str, str] = field(default_factory=dict[str, str])
    next: Step | None = None


@dataclass
class Context:
    """What the user states about the run; None: not stated.

    Attributes:
        command: the command that crashed, to be put into the next command.
        launch_blocking: CUDA_LAUNCH_BLOCKING=1 was set. graphs: CUDA graphs were on. world: number of ranks.
    """

    engine: str | None = None
    launch_blocking: bool | None = None
    graphs: bool | None = None
    caching_allocator: bool | None = None
    world: int | None = None
    host: str | None = None
    command: str | None = None
