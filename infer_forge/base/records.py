"""Shared types of reports: input files with their hash, findings, the header, the report itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from infer_forge import __version__
from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.inputs import finite
from infer_forge.base.tables import Table, cell_text
from infer_forge.base.text_table import visible

FORMATS = ("text", "md", "json")


@dataclass(frozen=True)
class InputFile:
    """One input of a report: where it lies, its sha256 (None when it was not hashed) and its size."""

    path: str
    sha256: str | None
    size_bytes: int

    @classmethod
    def of(cls, path: str | Path) -> InputFile:
        """Hash a file.

        Raises:
            InputUnusable: it cannot be read.
        """
        try:
            return cls(str(path), jsonio.sha256_file(finite(path)), Path(path).stat().st_size)
        except OSError as exc:
            raise InputUnusable(exc.strerror or str(exc), where=str(path)) from None

    def to_json(self) -> dict[str, Any]:
        """Path, hash, size."""
        return {"path": self.path, "sha256": self.sha256, "size_bytes": self.size_bytes}


@dataclass(frozen=True)
class Finding:
    """A coded remark: what was noticed, the figure and the threshold that it crossed, what to do.

    Attributes:
        code: stable upper-case id, e.g. `LOW_LINKAGE`.
        message: one sentence.
        severity: `info`, `warning` or `error`.
        figure: what was measured. threshold: what it was held against. next_step: what to do.
    """

    code: str
    message: str
    severity: str = "warning"
    figure: float | int | str | None = None
    threshold: float | int | str | None = None
    next_step: str = ""

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "figure": self.figure,
            "threshold": self.threshold,
            "next_step": self.next_step,
        }


@dataclass
class Header:
    """What every report carries: inputs, tool version, how the evidence was captured, how much of it was seen.

    Attributes:
        capture: capture mode (CUDA graph on/off, stacks, shapes, ranks ...); null where unknown.
        coverage: events read, skipped, salvaged; kernels linked ...
        thresholds: every threshold that decided something.
        hidden: rows hidden and their share, per table.
        more: further header keys that a report's own text names.
    """

    inputs: list[InputFile] = field(default_factory=list[InputFile])
    capture: dict[str, Any] = field(default_factory=dict[str, Any])
    coverage: dict[str, Any] = field(default_factory=dict[str, Any])
    thresholds: dict[str, Any] = field(default_factory=dict[str, Any])
    hidden: dict[str, Any] = field(default_factory=dict[str, Any])
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """The header of the report's JSON; `tool_version` is this package's."""
        return {
            "inputs": [i.to_json() for i in self.inputs],
            "tool_version": __version__,
            "capture": self.capture,
            "coverage": self.coverage,
            "thresholds": self.thresholds,
            "hidden": self.hidden,
            **self.more,
        }


@dataclass
class Report:
    """An answer of infer-forge: header, tables, findings, further JSON keys, summary lines, and the next step.

    Attributes:
        kind: `triage`, `pipeline`, `ncu`, `crash`, ...: the verb that made it.
        tables: in the order in which they print.
        extra: further top-level JSON keys, as the verb documents them.
        summary: lines for people, printed first.
        next_step: the one thing to do next.
        text: replaces the generated text form when a verb prints its own; JSON is not touched, Markdown only where there is nothing else.
    """

    kind: str
    header: Header = field(default_factory=Header)
    tables: dict[str, Table] = field(default_factory=dict[str, Table])
    findings: list[Finding] = field(default_factory=list[Finding])
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    summary: list[str] = field(default_factory=list[str])
    next_step: str = ""
    text: str | None = None

    def add(self, table: Table) -> Table:
        """Add a table under its own name, and give it back."""
        self.tables[table.name] = table
        return table

    def to_json(self) -> dict[str, Any]:
        """`{"kind", "header", "tables", "findings", "summary", "next_step", ...extra}`."""
        return {
            "kind": self.kind,
            "header": self.header.to_json(),
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "findings": [f.to_json() for f in self.findings],
            "summary": self.summary,
            "next_step": self.next_step,
            **self.extra,
        }

    def render(self, form: str, width: int = 0) -> str:
        """The report as `text`, `md` or `json`.

        Raises:
            UsageFault: another form is asked for.
        """
        if form == "json":
            return jsonio.dumps(self.to_json()).decode()
        if form == "md":
            if self.text is not None and not (self.summary or self.tables or self.findings):
                return visible(self.text)  # the answer is that text alone
            return self._render(heading="## ", table=Table.to_md)
        if form == "text":
            return visible(self.text) if self.text is not None else self._render("", lambda t: t.to_text(width))
        raise UsageFault(f"unknown format {form!r}", next_step=f"use one of {', '.join(FORMATS)}")

    def _render(self, heading: str, table: Callable[[Table], str]) -> str:
        parts: list[str] = []
        bullet = "- " if heading else ""
        if self.summary:
            parts.append("\n".join(f"{bullet}{line}" for line in self.summary))
        for item in self.tables.values():
            title = f"{heading}{item.title}" if heading else f"== {item.title} =="
            parts.append(f"{title}\n\n{table(item)}" if heading else f"{title}\n{table(item)}")
        if self.findings:
            title = f"{heading}Findings\n" if heading else "== Findings =="
            parts.append("\n".join([title, *(f"{bullet}{_finding_line(f)}" for f in self.findings)]))
        parts.append("\n".join([f"{heading}Evidence" + ("\n" if heading else ":"), *self._evidence(bullet)]))
        if self.next_step:
            parts.append(f"next: {self.next_step}")
        return visible("\n\n".join(parts))

    def _evidence(self, bullet: str) -> list[str]:
        """The header in a few lines."""
        h = self.header
        lines = [
            f"{bullet}input {i.path} sha256 {(i.sha256 or 'not hashed')[:16]} ({i.size_bytes:,} bytes)"
            for i in h.inputs
        ]
        groups: dict[str, Any] = {
            "capture": h.capture,
            "coverage": h.coverage,
            "thresholds": h.thresholds,
            "hidden": h.hidden,
            **h.more,
        }
        for name, group in groups.items():
            if isinstance(group, dict) and group:
                shown = ", ".join(f"{k}={_short(v)}" for k, v in cast("dict[str, Any]", group).items())
                lines.append(f"{bullet}{name}: {shown}")
        lines.append(f"{bullet}infer-forge {__version__}")
        return lines


def _short(value: Any) -> str:
    text = cell_text(value, "number") if not isinstance(value, dict) else jsonio.dumps(value).decode()
    return text if len(text) <= 160 else f"{text[:157]}..."


def _finding_line(finding: Finding) -> str:
    numbers = ""
    if finding.figure is not None:
        limit = f", threshold {cell_text(finding.threshold, 'number')}" if finding.threshold is not None else ""
        numbers = f" ({cell_text(finding.figure, 'number')}{limit})"
    step = f" -> {finding.next_step}" if finding.next_step else ""
    return f"[{finding.severity}] {finding.code}: {finding.message}{numbers}{step}"
