"""The text details page of `ncu`, old and new: kernels, sections with their metric tables, rules."""

from __future__ import annotations

import re
from collections.abc import Iterable

from infer_forge.ncu.csvpage import RULE_KINDS
from infer_forge.ncu.model import Launch, NcuReport, RuleResult
from infer_forge.ncu.names import base_name
from infer_forge.ncu.units import dims, parse_printed

_KERNEL = re.compile(
    r"^  (?P<name>\S.*?)(?: (?P<grid>\(\d+, \d+, \d+\))x(?P<block>\(\d+, \d+, \d+\))|, \d{4}-\w{3}-\d\d \d\d:\d\d:\d\d)"
    r", Context \d+, Stream \d+(?:, Device (?P<device>\d+), CC (?P<cc>\d+\.\d+))?\s*$"
)
_SECTION = re.compile(r"^    Section: (.+?)\s*$")
_DASHES = re.compile(r"^    -{3,}( -{3,})+\s*$")
_RULE = re.compile(r"^    (OPT|INF|WRN|ERR|OK)\s+(.*)$")
_MORE = re.compile(r"^ {8,}(\S.*)$")
_ESTIMATE = re.compile(r"^Est\. (Local )?Speedup: ([\d.,]+)%\s*$")


def is_kernel_line(line: str) -> bool:
    """Whether the line names a profiled kernel on a text page."""
    return line.startswith("  ") and ", Context " in line and _KERNEL.match(line) is not None


class _Reader:
    """State while lines go by."""

    def __init__(self, report: NcuReport) -> None:
        self.report = report
        self.launch: Launch | None = None
        self.section = ""
        self.spans: list[tuple[int, int]] = []
        self.rule: list[str] = []

    def line(self, text: str) -> None:
        if is_kernel_line(text):
            self.end_rule()
            self.kernel(text)
        elif self.launch is None:
            return
        elif found := _SECTION.match(text):
            self.end_rule()
            self.section, self.spans = found[1], []
            self.launch.sections.append(self.section)
        elif _DASHES.match(text):
            self.end_rule()
            self.spans = [(m.start(), m.end()) for m in re.finditer(r"-+", text)]
        elif found := _RULE.match(text):
            self.end_rule()
            self.rule = [found[1], found[2].strip()]
        elif self.rule and (more := _MORE.match(text)):
            self.rule.append(more[1].strip())
        elif text.startswith("==") or not text.strip():
            self.end_rule()
        elif len(self.spans) >= 2 and text.startswith("    "):
            self.metric(text)

    def kernel(self, text: str) -> None:
        found = _KERNEL.match(text)
        assert found  # the caller has tested it
        self.launch = Launch(
            index=len(self.report.launches),
            kernel=base_name(found["name"]),
            demangled=found["name"],
            grid=dims(found["grid"] or ""),
            block=dims(found["block"] or ""),
            cc=found["cc"],
        )
        self.report.launches.append(self.launch)
        self.section, self.spans = "", []

    def metric(self, text: str) -> None:
        """One row of a table: the first column is the label, the last the value, the unit in between."""
        assert self.launch
        cells = [text[a:b].strip() for a, b in self.spans[:-1]]
        cells.append(text[self.spans[-1][0] :].strip())
        label, unit, value = cells[0], cells[1] if len(cells) > 2 else "", cells[-1]
        if label == "Metric Name" or not label or not value:
            return
        name = label if "__" in label else f"{self.section}/{label}"
        parsed = parse_printed(value, unit, name)
        if parsed is None:
            self.launch.lost.append(f"{name}: {value}")
        else:
            self.launch.values.setdefault(name, parsed)

    def end_rule(self) -> None:
        if not self.rule or self.launch is None:
            self.rule = []
            return
        kind, *texts = self.rule
        estimate = _ESTIMATE.match(texts[0]) if texts else None
        self.launch.rules.append(
            RuleResult(
                rule=None,
                section=self.section,
                kind=RULE_KINDS[kind],
                title="",
                message=" ".join(texts[1:] if estimate else texts),
                speedup_kind=("local" if estimate[1] else "global") if estimate else None,
                speedup_pct=float(estimate[2].replace(",", "")) if estimate else None,
            )
        )
        self.rule = []


def read_text(lines: Iterable[str], report: NcuReport) -> None:
    """Fill `report` with the launches of a text details page."""
    report.form = "text"
    reader = _Reader(report)
    for line in lines:
        reader.line(line)
    reader.end_rule()
    for launch in report.launches:
        for name, attribute in (("Grid Size", "grid"), ("Block Size", "block")):
            value = launch.values.get(f"Launch Statistics/{name}")
            if getattr(launch, attribute) is None and value is not None and isinstance(value.value, float):
                setattr(launch, attribute, (int(value.value), 1, 1))
