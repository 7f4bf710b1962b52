"""Prefixes of log lines: engines, torchrun, Docker, Kubernetes, syslog, dmesg. What they tell, and the rest of the line."""

from __future__ import annotations

import re
from calendar import timegm
from datetime import datetime, timezone
from functools import lru_cache

from infer_forge.crash.model import Line, Origin

# ECMA-48 control sequences, operating system commands, and other control characters but the tab.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NUMBER = re.compile(r"\d{19,}")
_MONTHS = {
    m: i for i, m in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1)
}
_MAX_PREFIXES = 7
_OF_PROCESS = frozenset(("sglang", "vllm_process", "torchrun", "glog", "glog_old", "nccl", "iso", "label"))
"""Prefixes that the process itself wrote; the others come from what carried its output."""

_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "k8s",
        re.compile(r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?) (?:stdout|stderr) [FP] "),
    ),
    (
        "sglang",
        re.compile(r"\[(?P<iso>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)(?P<ranks>(?: (?:DP|TP|PP|EP|CP)\d+)*)\] ?"),
    ),
    (
        "vllm_process",
        re.compile(
            r"\((?P<name>[A-Za-z][\w.:-]*)(?: rank=(?P<rank>\d+))?,? pid=(?P<pid>\d+)(?:, ip=(?P<host>[\w.:-]+))?\) ?"
        ),
    ),
    (
        "vllm_level",
        re.compile(
            r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (?P<md>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)(?: \[[^\]\s]{1,80}\])? ?"
        ),
    ),
    ("torchrun", re.compile(r"\[(?:rank|default)(?P<rank>\d+)\]: ?")),
    ("glog", re.compile(r"\[?[EWIF](?P<glog>\d{3,4} \d\d:\d\d:\d\d\.\d+)(?: +(?P<tid>\d+))? (?P<at>[\w./-]+:\d+)\] ")),
    ("glog_old", re.compile(r"\[[EWIF] [\w./-]+\.(?:cpp|h|cc):\d+\] ?")),
    ("nccl", re.compile(r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[(?P<gpu>\d+)\] (?=NCCL )")),
    (
        "syslog",
        re.compile(
            r"(?P<sys>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<host>[\w.-]+) (?P<tag>[\w./-]+)(?:\[(?P<pid>\d+)\])?: "
        ),
    ),
    (
        "iso_syslog",
        re.compile(
            r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d"
            r")) (?P<host>[A-Za-z][\w.-]*) (?P<tag>[\w./-]+)(?:\[(?P<pid>\d+)\])?: "
        ),
    ),
    (
        "iso",
        re.compile(
            r"\[?(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?"
            r"\d\d)?)\]?(?: - [\w.]+ - (?:INFO|WARNING|ERROR|CRITICAL|DEBUG) -)?[ :]+"
        ),
    ),
    ("dmesg_t", re.compile(r"\[(?P<long>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")),
    ("dmesg", re.compile(r"\[ *(?P<uptime>\d{1,9}\.\d{6})\] ")),
    ("coredump", re.compile(r"\[(?P<clock>\d\d:\d\d:\d\d\.\d{3,9})\] (?=coredump:)")),
    ("docker", re.compile(r"(?P<name>[A-Za-z0-9][\w.-]{0,60}?) +\| ")),
    ("label", re.compile(r"(?P<rank>\d{1,4}): (?=\S)")),
)
_BY_FIRST: dict[str, list[tuple[str, re.Pattern[str]]]] = {
    "[": [
        f for f in _FORMS if f[0] in ("sglang", "torchrun", "glog", "glog_old", "iso", "dmesg_t", "dmesg", "coredump")
    ],
    "(": [f for f in _FORMS if f[0] == "vllm_process"],
    "0": [f for f in _FORMS if f[0] in ("k8s", "iso_syslog", "iso", "label", "nccl", "docker")],
    "A": [f for f in _FORMS if f[0] in ("vllm_level", "glog", "syslog", "nccl", "docker")],
    "a": [f for f in _FORMS if f[0] in ("nccl", "docker")],
}
_RANK_NAME = re.compile(r"(?:^|_)(?P<labels>(?:DP|TP|PP|EP)\d+(?:_(?:DP|TP|PP|EP)\d+)*)$")
_INNER_RANK = re.compile(
    r"\[(?:PG (?:ID )?\w+ (?:PG GUID \S+ )?)?Rank (?P<rank>\d+)\]|^\[(?P<host>[\w.-]+)\] \[rank(?P<r2>\d+)\]"
)
_PATH_RANK = re.compile(r"(?:^|[/_.-])(?:rank|tp|worker)[_-]?(?P<rank>\d{1,5})(?=[/_.-]|$)", re.IGNORECASE)
_PATH_PID = re.compile(r"(?:^|[/_.-])pid[_-]?(?P<pid>\d{1,8})(?=[/_.-]|$)|kernel_api_(?P<pid2>\d{2,8})\.log")
_TORCHRUN_DIR = re.compile(r"attempt_\d+/(?P<rank>\d+)/std(?:out|err)\.log")


def clean(text: str) -> str:
    """A line without terminal escapes, control characters and numbers beyond 18 digits, so that it can be shown."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = _CONTROL.sub("", text)
    return _NUMBER.sub(lambda m: m.group()[:18], text)


def origin_of_path(path: str, shown: str) -> Origin:
    """What a file's name tells: rank and pid."""
    origin = Origin(shown)
    for pattern in (_TORCHRUN_DIR, _PATH_RANK):
        found = list(pattern.finditer(path))
        if found:
            origin.rank = int(found[-1]["rank"])  # the last one is nearest to the file
            break
    if pid := _PATH_PID.search(path):
        origin.pid = int(pid["pid"] or pid["pid2"])
    return origin


@lru_cache(4096)
def iso_time(text: str) -> float | None:
    """ISO date and time (space or T, comma or point, optional zone; without one UTC) as seconds since 1970."""
    text = text.replace(",", ".").replace(" ", "T", 1)
    head, dot, tail = text.partition(".")
    fraction, zone = 0.0, ""
    if dot:
        digits = re.match(r"\d*", tail)
        number = digits.group() if digits else ""
        fraction, zone = float(f"0.{number or 0}"), tail[len(number) :]
    else:
        head, zone = head[:19], head[19:]
    try:
        base = timegm(datetime.strptime(head[:19], "%Y-%m-%dT%H:%M:%S").timetuple())
    except ValueError:
        return None
    shift = 0
    if zone and zone != "Z":
        shift = (int(zone[1:3]) * 60 + int(zone[-2:])) * 60 * (-1 if zone[0] == "-" else 1)
    return base + fraction - shift


class Clock:
    """Stamps without a year take the one that the bundle's other stamps tell (or `year`)."""

    def __init__(self, year: int | None = None) -> None:
        """Begin with a year, by default the present one."""
        self.year = year or datetime.now(timezone.utc).year

    def part(self, month: int, day: int, clock: str) -> float | None:
        """Month, day and `HH:MM:SS[.f]`."""
        return iso_time(f"{self.year:04d}-{month:02d}-{day:02d} {clock}")


def parse(text: str, no: int, base: Origin, clock: Clock) -> Line:
    """Strip up to seven prefixes; what they tell goes over what the file's name tells.

    Args:
        text: a cleaned line. base: what is known of the file. clock: for stamps without a year.
    """
    host, pid, rank, label = base.host, base.pid, base.rank, base.label
    time: float | None = None
    stamp: str | None = None
    hit = own = False
    for _ in range(_MAX_PREFIXES):
        first = text[:1]
        kind = "0" if first.isdigit() else "A" if first.isupper() else "a" if first.islower() else first
        for name, pattern in _BY_FIRST.get(kind, ()):
            found = pattern.match(text)
            if found is None:
                continue
            groups = found.groupdict()
            if name == "docker":
                if hit or "/" in groups["name"]:
                    continue
                if (numbered := _PATH_RANK.search(groups["name"])) is not None:
                    rank = int(numbered["rank"])
                else:
                    host = host or groups["name"]
            if name == "label" and hit:
                continue
            hit = True
            own = own or name in _OF_PROCESS
            text = text[found.end() :]
            if groups.get("rank") is not None:
                rank = int(groups["rank"])
            if groups.get("pid") is not None and name != "syslog":
                pid = int(groups["pid"])
            if groups.get("host"):
                host = groups["host"]
            if name == "sglang" and groups["ranks"]:
                rank, label = _ranks(groups["ranks"].split())
            if name == "vllm_process" and (named := _RANK_NAME.search(groups["name"])):
                rank, label = _ranks(named["labels"].split("_"))
            found_time, found_stamp = _time(groups, clock)
            if found_stamp is not None and (time is None or found_time is None):
                time, stamp = (found_time, found_stamp) if time is None else (time, stamp)
            break
        else:
            break
    if rank is None and label is None and (inner := _INNER_RANK.search(text[:400])):
        rank = int(inner["rank"] or inner["r2"])
    return Line(no, text, Origin(base.path, host, pid, rank, label), time, stamp, not own)


def _ranks(parts: list[str]) -> tuple[int | None, str | None]:
    """`TP2` is rank 2; `DP1 TP4` (sizes unknown) and `DP0` (an engine process, no worker) stay labels."""
    tensor = [p for p in parts if p.startswith("TP")]
    if len(tensor) == 1 and all(p.startswith(("TP", "EP")) for p in parts):  # experts are laid over the same ranks
        return int(tensor[0][2:]), None
    return None, " ".join(parts)


def _time(groups: dict[str, str | None], clock: Clock) -> tuple[float | None, str | None]:
    if text := groups.get("iso"):
        time = iso_time(text)
        if time is not None:
            clock.year = int(text[:4])
        return time, text
    if text := groups.get("md"):
        return clock.part(int(text[:2]), int(text[3:5]), text[6:]), text
    if text := groups.get("glog"):
        date, _, rest = text.partition(" ")
        return clock.part(int(date[:-2]), int(date[-2:]), rest), text
    if text := groups.get("sys"):
        return clock.part(_MONTHS.get(text[:3], 1), int(text[4:6]), text[7:]), text
    if text := groups.get("long"):
        month = _MONTHS.get(text[4:7], 1)
        return iso_time(f"{text[-4:]}-{month:02d}-{int(text[8:10]):02d} {text[11:19]}"), text
    if text := groups.get("uptime"):
        return None, text
    if text := groups.get("clock"):
        return None, text
    return None, None
