"""Files in: what kind of profile it is, and its launches."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.inputs import finite
from infer_forge.ncu import dictionary
from infer_forge.ncu.commands import pattern_of
from infer_forge.ncu.container import MAGIC, ZSTD, looks_like
from infer_forge.ncu.csvpage import is_header, read_csv
from infer_forge.ncu.model import Launch, NcuReport
from infer_forge.ncu.names import identity
from infer_forge.ncu.rulefacts import settle_rules
from infer_forge.ncu.textio import encoding_of, read_lines
from infer_forge.ncu.textpage import is_kernel_line, read_text

MAX_LAUNCHES = 64
_HEAD = 1 << 16
_SYSTEMS = (".nsys-rep", ".qdrep", ".qdstrm")


def load(
    path: str | Path, *, kernel: str | None = None, launch: int | None = None, hot: int = 0, cap: int = MAX_LAUNCHES
) -> NcuReport:
    """Read one report of Nsight Compute, whatever its form.

    Args:
        path: `.ncu-rep`, `.ncu-repz`, `ncu --csv` output or a text details page.
        kernel: regular expression; only launches whose base name or signature it finds are read.
        launch: only the launch at this place in the report (from 0, counted over all kernels).
        hot: how many of the most sampled instructions to bring (binary reports only).
        cap: most launches to read of a binary report.

    Raises:
        InputUnusable: no report, or nothing whole in it, or no kernel matches.
        UsageFault: the expression or the launch is wrong.
        MissingPart: a binary report, and the extra `ncu` is not installed.
    """
    file = Path(path)
    pattern = pattern_of(kernel)
    head = _head(file)
    if head.startswith((MAGIC, ZSTD)):
        from infer_forge.ncu.binary import load_binary  # the binary path is not paid for by text pages

        report = load_binary(file, head, pattern, launch, hot=hot, cap=cap)
    else:
        report = _load_page(file, head)
        report.launches = choose_launches(report, pattern, launch)
    for item in report.launches:
        dictionary.settle_labels(item)
        settle_rules(item)
        _fill(item)
    return report


def _head(file: Path) -> bytes:
    if file.is_dir():
        raise InputUnusable(
            "is a folder", where=str(file), next_step="give one report file; several reports: name each"
        )
    try:
        with open(finite(file), "rb") as stream:
            return stream.read(_HEAD)
    except OSError as exc:
        raise InputUnusable(exc.strerror or str(exc), where=str(file), next_step="check the path") from None


def _load_page(file: Path, head: bytes) -> NcuReport:
    """A CSV or text page; the first line that belongs to either decides."""
    encoding = encoding_of(head)
    where, step = str(file), "give a .ncu-rep, .ncu-repz, ncu --csv or ncu text file"
    if not head:
        raise InputUnusable("is empty", where=where, next_step="collect the report again")
    if file.suffix in _SYSTEMS:
        step = "per-kernel metrics: infer-forge ncu plan; a timeline: infer-forge capture and infer-forge triage"
        raise InputUnusable("is a report of Nsight Systems, not of Nsight Compute", where=where, next_step=step)
    known = looks_like(head)
    if encoding is None or (known.startswith(("an ", "a ")) and not head.startswith(b"{")):
        raise InputUnusable(f"is {known}", where=where, next_step=step)
    report = NcuReport(where, "")
    form = next((f for line in read_lines(file, encoding) if (f := _form_of(line))), None)
    if form is None:
        from infer_forge.ncu.checklog import first_failure

        failure = first_failure(read_lines(file, encoding))
        if failure:
            raise InputUnusable(
                f"holds no profile: {failure.title}", where=where, next_step=f"infer-forge ncu check-log {where}"
            )
        kind = "JSON" if head.startswith((b"{", b"[")) else "text without an Nsight Compute page"
        raise InputUnusable(f"is {kind}", where=where, next_step=step)
    (read_csv if form == "csv" else read_text)(read_lines(file, encoding), report)
    for item, place in zip(
        report.launches, ordinals([identity(x.kernel, x.demangled) for x in report.launches]), strict=True
    ):
        item.ordinal = place
    report.in_file = len(report.launches)
    report.names = dict(Counter(item.kernel for item in report.launches))
    if not report.launches:
        raise InputUnusable("holds a page header but no kernel", where=where, next_step="collect the report again")
    return report


def ordinals(identities: list[str]) -> list[int]:
    """For each launch, how many of the same kernel stand before it."""
    seen: Counter[str] = Counter()
    out: list[int] = []
    for name in identities:
        out.append(seen[name])
        seen[name] += 1
    return out


def _form_of(line: str) -> str | None:
    if is_header(line):
        return "csv"
    return "text" if is_kernel_line(line) else None


def choose_launches(report: NcuReport, pattern: re.Pattern[str] | None, launch: int | None) -> list[Launch]:
    """The launches of a report that were asked for, by place and by name."""
    if launch is not None and not 0 <= launch < len(report.launches):
        raise no_launch(launch, len(report.launches), report.path)
    chosen = [item for item in report.launches if launch is None or item.index == launch]
    chosen = [i for i in chosen if pattern is None or pattern.search(i.kernel) or pattern.search(i.demangled)]
    if not chosen:
        raise no_kernel(pattern, report.names, report.path)
    return chosen


def no_launch(launch: int, count: int, where: str) -> UsageFault:
    """The error for a launch that the report does not have."""
    return UsageFault(
        f"there is no launch {launch}: the report holds {count}",
        where=where,
        next_step=f"--launch 0 to {count - 1}, or leave it out",
    )


def no_kernel(pattern: re.Pattern[str] | None, names: dict[str, int], where: str) -> InputUnusable:
    """The error for an expression that finds no kernel; it names those that are there."""
    shown = ", ".join(f"{n} ({c})" for n, c in sorted(names.items(), key=lambda x: -x[1])[:8])
    return InputUnusable(
        f"no kernel matches {pattern.pattern if pattern else ''!r}; the report holds {shown}",
        where=where,
        next_step="choose --kernel from these names",
    )


def _fill(launch: Launch) -> None:
    """Launch facts that stand among the metrics: dimensions, device, compute capability."""
    number = dictionary.number
    if launch.grid is None and (x := number(launch, "grid_x")):
        launch.grid = (int(x), int(number(launch, "grid_y") or 1), int(number(launch, "grid_z") or 1))
    if launch.block is None and (x := number(launch, "block_x")):
        launch.block = (int(x), int(number(launch, "block_y") or 1), int(number(launch, "block_z") or 1))
    device = dictionary.find(launch, "device_name")
    if launch.device is None and device is not None:
        launch.device = str(device.value)
    major, minor = number(launch, "cc_major"), number(launch, "cc_minor")
    if launch.cc is None and major is not None:
        launch.cc = f"{int(major)}.{int(minor or 0)}"
    if not launch.demangled:
        launch.demangled = launch.kernel


def groups(report: NcuReport) -> dict[str, list[Launch]]:
    """Launches by kernel identity, in order of first appearance."""
    out: dict[str, list[Launch]] = {}
    for item in report.launches:
        out.setdefault(identity(item.kernel, item.demangled), []).append(item)
    return out


def to_values(raw: dict[str, list[Any]]) -> dict[str, Any]:
    """`{name: [value, unit]}` of the worker in base units."""
    from infer_forge.ncu.units import normalise

    return {name: normalise(value, unit, name) for name, (value, unit) in raw.items()}
