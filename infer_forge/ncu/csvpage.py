"""`ncu --csv` output in every shape: long details (16/20, 17/21, 18/22 fields), wide raw page, per-kernel summary.

Columns are found by name, rows by their field count; profiler chatter, program output and foreign tables (NVLink, GPU
lists) in between are passed over and counted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from infer_forge.ncu.model import Launch, NcuReport, RuleResult
from infer_forge.ncu.names import base_name
from infer_forge.ncu.units import dims, parse_printed

_ROW = re.compile(r'^"[^"]*",')
_COMMAND_LINE = "Command line profiler metrics"
RULE_KINDS = {"OPT": "optimization", "INF": "ok", "WRN": "warning", "ERR": "error", "OK": "ok"}
_ID_COLUMNS = {
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "Invocations", "Kernel Time", "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
}  # fmt: skip
_MAX_JOINED = 200


def is_header(line: str) -> bool:
    """Whether the line is the header of one of the shapes."""
    return line.startswith('"') and '"Kernel Name"' in line and ('"CC"' in line or '"Metric Name"' in line)


@dataclass
class _Reader:
    """State while lines go by."""

    report: NcuReport
    columns: dict[str, int] = field(default_factory=dict[str, int])
    order: list[str] = field(default_factory=list[str])
    shape: str = ""
    units: list[str] | None = None
    run: int = 0
    launches: dict[tuple[str, ...], Launch] = field(default_factory=dict[tuple[str, ...], Launch])
    foreign: int = 0

    def header(self, row: list[str]) -> None:
        self.columns = {name: i for i, name in enumerate(row)}
        self.order = row
        self.run += 1
        self.units = None
        if "Metric Name" not in self.columns:
            self.shape = "csv-wide"
        elif "Average" in self.columns:
            self.shape = "csv-summary"
        else:
            self.shape = "csv-long"
        if self.report.form not in ("", self.shape):
            self.report.lost.append(f"the file mixes {self.report.form} and {self.shape} pages")
        self.report.form = self.report.form or self.shape

    def cell(self, row: list[str], name: str) -> str:
        at = self.columns.get(name, -1)
        return row[at].strip() if 0 <= at < len(row) else ""

    def launch(self, row: list[str]) -> Launch:
        key = (str(self.run), *(self.cell(row, n) for n in ("ID", "Process ID")))
        if self.shape == "csv-summary":
            key = (str(self.run), *(self.cell(row, n) for n in ("Kernel Name", "Grid Size", "Block Size", "Device")))
        if key not in self.launches:
            signature = self.cell(row, "Kernel Name")
            launch = Launch(
                index=len(self.launches),
                kernel=base_name(signature),
                demangled=signature,
                grid=dims(self.cell(row, "Grid Size")),
                block=dims(self.cell(row, "Block Size")),
                cc=self.cell(row, "CC") or None,
            )
            if launch.kernel.lower() in ("range", "graph") and launch.grid is None:
                launch.workload = launch.kernel.lower()
            if self.shape == "csv-summary":
                launch.lost.append(f"average of {self.cell(row, 'Invocations') or 'several'} launches (summary page)")
            self.launches[key] = launch
        return self.launches[key]

    def row(self, row: list[str]) -> None:
        if self.shape == "csv-wide":
            self.wide(row)
        elif len(row) > self.columns["Metric Name"] + 1 and self.cell(row, "Kernel Name"):
            self.long(row)
        else:
            self.foreign += 1

    def wide(self, row: list[str]) -> None:
        if len(row) != len(self.order):
            self.foreign += 1
            return
        if not self.cell(row, "ID") and not self.cell(row, "Kernel Name"):
            self.units = row
            return
        if not self.cell(row, "ID").isdecimal():
            self.foreign += 1
            return
        launch = self.launch(row)
        units = self.units or [""] * len(row)
        for name, unit, text in zip(self.order, units, row, strict=True):
            if name not in _ID_COLUMNS and "__" in name:
                self.store(launch, name, unit, text)

    def long(self, row: list[str]) -> None:
        launch = self.launch(row)
        section, metric = self.cell(row, "Section Name"), self.cell(row, "Metric Name")
        if metric:
            value = "Average" if self.shape == "csv-summary" else "Metric Value"
            name = metric if section == _COMMAND_LINE or "__" in metric else f"{section}/{metric}"
            self.store(launch, name, self.cell(row, "Metric Unit"), self.cell(row, value))
            if section not in launch.sections:
                launch.sections.append(section)
        elif rule := self.cell(row, "Rule Name"):
            estimate = parse_printed(self.cell(row, "Estimated Speedup"), "%", rule)
            launch.rules.append(
                RuleResult(
                    rule=rule,
                    section=section,
                    kind=RULE_KINDS.get(self.cell(row, "Rule Type"), "ok"),
                    title="",
                    message=self.cell(row, "Rule Description"),
                    speedup_kind=self.cell(row, "Estimated Speedup Type").lower() or None,
                    speedup_pct=estimate.value if estimate and isinstance(estimate.value, float) else None,
                )
            )

    def store(self, launch: Launch, name: str, unit: str, text: str) -> None:
        if name in launch.values:
            return
        value = parse_printed(text, unit, name)
        if value is not None:
            launch.values[name] = value
            if name.startswith("breakdown:") and isinstance(value.value, str):
                launch.breakdown[name.partition(":")[2]] = [p.strip() for p in value.value.split(",") if p.strip()]
        elif text:
            launch.lost.append(f"{name}: {text}")


def _rows(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Each line with its fields; a quoted field that runs over lines is joined, within reason."""
    pending: list[str] = []
    for line in lines:
        if pending:
            pending.append(line)
            if line.count('"') % 2 == 0 and len(pending) < _MAX_JOINED:
                continue
            line = "\n".join(pending)
            pending = []
        elif line.count('"') % 2 and _ROW.match(line):
            pending = [line]
            continue
        yield line, _fields(line)
    if pending:
        yield "\n".join(pending), []


def _fields(line: str) -> list[str]:
    """The fields of a line; none for chatter, and for a line that is damaged beyond reading."""
    if not line.startswith('"'):
        return []
    try:
        return next(csv.reader([line]), [])  # pyright: ignore[reportUnknownArgumentType]
    except csv.Error:
        return [""]


def read_csv(lines: Iterable[str], report: NcuReport) -> None:
    """Fill `report` with the launches of an `ncu --csv` output."""
    reader = _Reader(report)
    for line, row in _rows(lines):
        if is_header(line):
            reader.header(row)
        elif row and reader.columns:
            reader.row(row)
    report.launches = list(reader.launches.values())
    if reader.foreign:
        report.lost.append(f"{reader.foreign} rows of other tables passed over")
