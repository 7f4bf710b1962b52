"""Writer of small Nsight Compute files for tests: the documented container (version 7), CSV in every shape, text pages.

Everything here is made up by this project; nothing of a real report is in it.
"""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from infer_forge.ncu.wire import encode_varint

SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
DURATION = "gpu__time_duration.sum"
PREAMBLE = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
SHAPE = ["Block Size", "Grid Size", "Device", "CC"]
NVTX_COLUMNS = (
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
)
TAIL = ["Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"]


def message(*parts: tuple[int, int | float | str | bytes]) -> bytes:
    """One protocol-buffer message: numbers as varints, floats as doubles, text and bytes with their length."""
    out = bytearray()
    for number, value in parts:
        if isinstance(value, float):
            out += encode_varint(number << 3 | 1) + struct.pack("<d", value)
        elif isinstance(value, int):
            out += encode_varint(number << 3) + encode_varint(value)
        else:
            raw = value.encode() if isinstance(value, str) else value
            out += encode_varint(number << 3 | 2) + encode_varint(len(raw)) + raw
    return bytes(out)


@dataclass
class Kernel:
    """A made-up launch: names, dimensions, metrics (doubles or words)."""

    name: str = "my_kernel"
    metrics: Mapping[str, float | str] = field(default_factory=dict[str, float | str])
    signature: str = ""
    grid: tuple[int, int, int] = (1024, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    padding: int = 0  # bytes of an unknown field, for large files

    @property
    def demangled(self) -> str:
        return self.signature or f"{self.name}(float *, int)"


def busy(
    sm: float = 20.0, memory: float = 85.0, dram: float | None = None, ns: float = 100_000.0, **more: float
) -> dict[str, float | str]:
    """Metrics of an ordinary launch; `more` by our own names is not supported: pass metric ids through `|`."""
    base: dict[str, float | str] = {
        SM: sm, MEMORY: memory, DRAM: memory if dram is None else dram, DURATION: ns,
        "launch__waves_per_multiprocessor": 8.0, "launch__grid_size": 1024.0, "launch__block_size": 256.0,
        "device__attribute_multiprocessor_count": 114.0, "gpc__cycles_elapsed.avg.per_second": 1.1e9,
        "sm__maximum_warps_per_active_cycle_pct": 100.0, "sm__warps_active.avg.pct_of_peak_sustained_active": 95.0,
        "lts__t_sector_hit_rate.pct": 60.0, "l1tex__t_sector_hit_rate.pct": 50.0,
    }  # fmt: skip
    return base | more


def _block(header: bytes, payload: bytes = b"") -> bytes:
    return struct.pack("<I", len(header)) + header + payload


def _metric(number: int, value: float | str) -> bytes:
    held = message((3, float(value))) if not isinstance(value, str) else message((1, value))
    return message((1, number), (2, held), (4, 0))


def container(
    kernels: Sequence[Kernel],
    *,
    command: str | None = "ncu --set full -o report ./app",
    version: str = "2025.1.0.0 (build 1) (public-release)",
    driver: str | None = "570.1",
    extra: Mapping[int, int] | None = None,
) -> bytes:
    """Bytes of a report: session blocks, then one block a kernel. `extra`: further counts of the first block (7 to 9)."""
    out = bytearray(b"NVR\0")
    head = message((1, 7))
    out += struct.pack("<I", len(head)) + head
    details = [message((2, 1_700_000_000)), message((8, message((1, "CUDA Version"), (2, "12.8"))))]
    details.append(message((8, message((1, "Nsight Compute Target"), (2, version)))))
    if driver:
        details.append(message((8, message((1, "Display Driver Version"), (2, driver)))))
    if command is not None:
        details.append(message((11, command)))
    for i, text in enumerate(details):
        more = [(n, v) for n, v in (extra or {}).items()] if i == 0 else []
        out += _block(message((1, 0), (2, 0), *more, (3, text), (5, 0)))
    names: dict[str, int] = {}
    for kernel in kernels:
        fresh = [n for n in kernel.metrics if n not in names]
        names |= {n: len(names) + i for i, n in enumerate(fresh)}
        body = message(
            (1, 4242),
            (2, 1),
            (3, 1_000_000),
            (4, 2_000_000),
            (5, f"_Z{kernel.name}"),
            (6, kernel.name),
            (7, kernel.demangled),
            (8, 3),
        )
        body += message((9, message((1, 0), (2, 0), (3, 0))))
        body += message((10, message(*enumerate(kernel.grid, 1))), (11, message(*enumerate(kernel.block, 1))))
        body += message((14, 1_700_000_000), (15, message((1, 94489280513))), (16, 0))
        for name, value in kernel.metrics.items():
            body += message((13, _metric(names[name], value)))
        body += message((22, 1), (23, 7), (25, message((1, 1), (2, 1))))
        body += message((900, bytes(kernel.padding))) if kernel.padding else b""
        payload = struct.pack("<I", len(body)) + body
        header = message((1, 0), (2, 1), (4, message(*((1, n) for n in fresh))), (5, len(payload)))
        out += _block(header, payload)
    return bytes(out)


def block_ends(data: bytes) -> list[int]:
    """Positions after the file header and after each block."""
    from infer_forge.ncu.wire import fields

    (size,) = struct.unpack_from("<I", data, 4)
    at = 8 + size
    ends = [at]
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        header = dict(fields(data[at + 4 : at + 4 + size]))
        payload = header.get(5, 0)
        at += 4 + size + (payload if isinstance(payload, int) else 0)
        ends.append(at)
    return ends


def _quoted(rows: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _left(kernel: Kernel, index: int, nvtx: int) -> list[str]:
    grid, block = (f"({', '.join(map(str, d))})" for d in (kernel.grid, kernel.block))
    return [str(index), "77", "python3", "127.0.0.1", *[""] * nvtx, kernel.demangled, "1", "7", block, grid, "0", "9.0"]


def long_csv(
    kernels: Sequence[tuple[Kernel, Sequence[tuple[str, str, str, str]]]],
    *,
    rules: Sequence[tuple[str, str, str, str, str, str]] = (),
    nvtx: bool = False,
    body_label: bool = False,
) -> str:
    """Details page: rows (section, metric, unit, value) a kernel; metric rows lack the rule fields (ragged), as ncu writes them."""
    extra = list(NVTX_COLUMNS) if nvtx else []
    label = ["Body Item Label"] if body_label else []
    header = [
        *PREAMBLE[:4],
        *extra,
        *PREAMBLE[4:],
        *SHAPE,
        "Section Name",
        *label,
        "Metric Name",
        "Metric Unit",
        "Metric Value",
        *TAIL,
    ]
    text = _quoted([header])
    for index, (kernel, rows) in enumerate(kernels):
        left = _left(kernel, index, len(extra))
        for section, metric, unit, value in rows:
            text += _quoted([[*left, section, *([""] * len(label)), metric, unit, value]])[:-1] + ",\n"
        for section, rule, kind, said, how, much in rules:
            text += _quoted([[*left, section, *([""] * len(label)), "", "", "", rule, kind, said, how, much]])
    return text


def wide_csv(kernels: Sequence[Kernel], units: Mapping[str, str], *, nvtx: bool = False) -> str:
    """Raw page: header, units row, one row a launch."""
    extra = ["thread Domain:Push/Pop_Range", "Id:Domain:Start/Stop_Range"] if nvtx else []
    names = list(dict.fromkeys(n for k in kernels for n in k.metrics))
    left = [*PREAMBLE[:4], *extra, *PREAMBLE[4:], *SHAPE]
    rows = [[*left, *names], [*[""] * len(left), *(units.get(n, "") for n in names)]]
    for index, kernel in enumerate(kernels):
        values = [str(kernel.metrics.get(n, "n/a")) for n in names]
        rows.append([*_left(kernel, index, len(extra)), *values])
    return _quoted(rows)


def summary_csv(kernel: Kernel, rows: Sequence[tuple[str, str, str, str]], invocations: int = 3) -> str:
    """`--print-summary per-kernel`: minimum, maximum, average, and no ID."""
    header = [
        *PREAMBLE[1:],
        *SHAPE,
        "Invocations",
        "Section Name",
        "Metric Name",
        "Metric Unit",
        "Minimum",
        "Maximum",
        "Average",
    ]
    left = _left(kernel, 0, 0)[1:]
    return _quoted([header, *([*left, str(invocations), s, m, u, v, v, v] for s, m, u, v in rows)])


def text_page(
    kernel: Kernel,
    sections: Mapping[str, Sequence[tuple[str, str, str]]],
    rules: Sequence[str] = (),
    *,
    old: bool = False,
) -> str:
    """A details page as text; `old`: without dimensions in the kernel's line, as before 2023."""
    grid, block = (f"({', '.join(map(str, d))})" for d in (kernel.grid, kernel.block))
    place = (
        ", 2021-Oct-05 12:34:56, Context 1, Stream 7"
        if old
        else f" {grid}x{block}, Context 1, Stream 7, Device 0, CC 9.0"
    )
    lines = ["[4242] app@127.0.0.1", f"  {kernel.demangled}{place}"]
    for section, rows in sections.items():
        widths = [max(len(r[i]) for r in [("Metric Name", "Metric Unit", "Metric Value"), *rows]) for i in range(3)]
        dashes = "    " + " ".join("-" * w for w in widths)
        named = f"    {'Metric Name':<{widths[0]}} {'Metric Unit':>{widths[1]}} {'Metric Value':>{widths[2]}}"
        lines += [f"    Section: {section}", dashes, named, dashes]
        lines += [f"    {a:<{widths[0]}} {b:>{widths[1]}} {c:>{widths[2]}}" for a, b, c in rows]
        lines += [dashes, ""]
    return "\n".join([*lines, *rules, ""]) + "\n"


SPEED_OF_LIGHT = "GPU Speed Of Light Throughput"


def sol_rows(sm: str, memory: str, dram: str, duration: str = "100", unit: str = "us") -> list[tuple[str, str, str]]:
    """The speed-of-light table of a text page: (label, unit, value)."""
    return [
        ("Memory Throughput", "%", memory), ("DRAM Throughput", "%", dram), ("Duration", unit, duration),
        ("Compute (SM) Throughput", "%", sm), ("SM Frequency", "Ghz", "1.10"),
    ]  # fmt: skip


def write(path: Path, content: bytes | str) -> Path:
    """Write a fixture and give its path back."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def near(value: float, rel: float = 1e-6) -> Any:
    """`pytest.approx`, typed."""
    return pytest.approx(value, rel=rel)  # pyright: ignore[reportUnknownMemberType]
