"""The CSV of `nsys stats --report cuda_gpu_kern_sum`: sums by kernel, without times of single launches.

Chatter of nsys may stand before the header. Only a kernel table can be made of it: no stages, gaps, layers or links.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite

_NEEDED = ("Total Time (ns)", "Instances", "Name")
_HEAD = 1 << 14


class KernelSum(NamedTuple):
    """One kernel of the summary."""

    name: str
    time_ns: int
    launches: int
    min_ns: int | None
    max_ns: int | None


def is_kernel_sum(path: Path) -> bool:
    """Whether a file's beginning holds the header of the summary as CSV."""
    try:
        with open(finite(path), "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    return any(_is_header(line) for line in head.decode("utf-8", "replace").splitlines()[:40])


def _is_header(line: str) -> bool:
    return line.startswith(("Time (%)", '"Time (%)')) and all(part in line for part in _NEEDED)


def read_kernel_sum(path: Path) -> list[KernelSum]:
    """Kernels of the summary, as listed.

    Raises:
        InputUnusable: the file is no such CSV, or a row of it is damaged.
    """
    text = path.read_bytes().decode("utf-8-sig", "replace").splitlines()
    begin = next((k for k, line in enumerate(text) if _is_header(line)), None)
    if begin is None:
        raise InputUnusable(
            "is no kernel summary of nsys",
            where=str(path),
            next_step="nsys stats --report cuda_gpu_kern_sum --format csv FILE.nsys-rep",
        )
    rows: list[KernelSum] = []
    for number, row in enumerate(csv.DictReader(text[begin:])):
        try:
            rows.append(
                KernelSum(
                    str(row["Name"]),
                    int(float(row["Total Time (ns)"])),
                    int(row["Instances"]),
                    _whole(row.get("Min (ns)")),
                    _whole(row.get("Max (ns)")),
                )
            )
        except (TypeError, ValueError, KeyError):
            if row.get("Name") is None and not any(
                v for v in row.values() if isinstance(v, str) and v.strip().replace(".", "").isdigit()
            ):
                break  # what follows the table
            raise InputUnusable(
                f"row {number + 1} of the kernel summary is damaged",
                where=str(path),
                next_step="make it again with nsys stats",
            ) from None
    if not rows:
        raise InputUnusable(
            "the kernel summary of nsys lists no kernel",
            where=str(path),
            next_step="record with nsys profile --trace cuda,nvtx",
        )
    return rows


def _whole(value: str | None) -> int | None:
    return int(float(value)) if value else None
