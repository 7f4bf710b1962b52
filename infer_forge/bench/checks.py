"""Is a row possible, and can it be trusted? Rules are data (`references/bench_rules.yaml`); this module applies them.

A rule fires on a row with its id, the evidence from the row and what to do. A refused row never ranks and never decides;
a marked one does, with the remark beside it. `bench check` passes when nothing is refused and nothing that a decision
needs is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.resources import load_yaml
from infer_forge.base.tables import Column, Table

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract
    from infer_forge.bench.model import Row

RULES = "references/bench_rules.yaml"

REFUSED, UNKNOWN, MARKED, OK, FAILED = "refused", "unknown", "marked", "ok", "failed"
_SEVERITY = {"refuse": "error", "unknown": "error", "mark": "warning", "note": "info"}


@dataclass(frozen=True)
class RowFinding:
    """One rule that fired on one row.

    Attributes:
        rule: its id. severity: refuse, unknown, mark or note. row: index into the rows given.
        void: the verdict that a gap decision on this row gets. forbids: metrics that must not decide.
    """

    rule: str
    severity: str
    row: int
    label: str
    evidence: str
    fix: str
    kind: str
    pitfall: str | None = None
    void: str | None = None
    forbids: tuple[str, ...] = ()
    versions: str | None = None


@dataclass
class Context:
    """What the checks may look at beside one row."""

    rows: Sequence[Row]
    contract: BenchmarkContract | None = None
    contract_hash: str | None = None
    thresholds: dict[str, float] = field(default_factory=dict[str, float])
    data: dict[str, Any] = field(default_factory=dict[str, Any])


def rules() -> dict[str, Any]:
    """The rule file: thresholds, pitfalls, rules, golden acceptance lengths."""
    return load_yaml(RULES)


def thresholds() -> dict[str, float]:
    """Figures that the checks hold a row against."""
    return rules()["thresholds"]


def check_rows(
    rows: Sequence[Row], contract: BenchmarkContract | None = None, contract_hash: str | None = None
) -> list[RowFinding]:
    """Every rule that fires, in the order of the rows and of the rule file."""
    from infer_forge.bench.checks_across import ACROSS
    from infer_forge.bench.checks_rows import SINGLE

    data = rules()
    context = Context(rows, contract, contract_hash, data["thresholds"], data)
    pitfalls = {p["id"]: p for p in data["pitfalls"]}
    out: list[RowFinding] = []
    for rule in data["rules"]:
        if rule.get("rows") == "all":
            for index, evidence in ACROSS[rule["code"]](context):
                out.append(_finding(rule, pitfalls, rows[index], index, evidence))
            continue
        for index, row in enumerate(rows):
            evidence = _evidence(rule, row, context, SINGLE)
            if evidence is not None:
                out.append(_finding(rule, pitfalls, row, index, evidence))
    order = {rule["id"]: n for n, rule in enumerate(data["rules"])}
    return sorted(out, key=lambda f: (f.row, order[f.rule]))


def _evidence(rule: dict[str, Any], row: Row, context: Context, codes: dict[str, Any]) -> str | None:
    code = rule.get("code")
    if code is not None:
        return codes[code](row, context)
    return fill(rule["say"], row) if all(_holds(c, row) for c in rule["all"]) else None


def _finding(rule: dict[str, Any], pitfalls: dict[str, Any], row: Row, index: int, evidence: str) -> RowFinding:
    pitfall = rule.get("pitfall")
    return RowFinding(
        rule=rule["id"],
        severity=rule["severity"],
        row=index,
        label=row.label(),
        evidence=evidence,
        fix=rule["fix"],
        kind=rule["kind"],
        pitfall=pitfall,
        void=rule.get("void"),
        forbids=tuple(rule.get("forbids", ())),
        versions=version_note(pitfalls[pitfall], row) if pitfall else None,
    )


def _holds(condition: dict[str, Any], row: Row) -> bool:
    """One condition of a rule; a null field meets only `is_null`."""
    value, op = row.value(condition["field"]), condition["op"]
    if op == "is_null":
        return value is None
    if op == "not_null":
        return value is not None
    if op == "not_empty":
        return bool(value)
    if value is None and op != "!=":
        return False
    other = row.value(condition["other"]) if "other" in condition else condition["value"]
    if other is None:
        return False
    if "factor" in condition:
        other = other * condition["factor"]
    return _compare(value, op, other)


def _compare(value: Any, op: str, other: Any) -> bool:
    if op == "starts":
        return str(value).startswith(other)
    if op in ("==", "!="):
        return (value == other) == (op == "==")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return {"<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other}[op]


_HOLE = re.compile(r"\{([a-z_.0-9]+)(?::(\d))?\}")


def fill(template: str, row: Row) -> str:
    """A sentence with row fields: `{metrics.duration_s:1}` is the field with one decimal; an unknown one is `unknown`."""

    def one(match: re.Match[str]) -> str:
        value = row.value(match[1])
        if value is None:
            return "unknown"
        if match[2] is not None and isinstance(value, (int, float)):
            return f"{value:.{match[2]}f}"
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    return _HOLE.sub(one, template)


def parse_version(text: str | None) -> tuple[int, ...] | None:
    """The leading numbers of a version; None when there are none, or for development builds such as 0.0.0.dev1."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", text or "")
    if match is None:
        return None
    numbers = tuple(int(n) for n in match[1].split("."))
    return numbers if any(numbers) else None


def _range_version(entry: dict[str, Any], row: Row) -> tuple[int, ...] | None:
    """The version that a range speaks of: the client tool's where the tool is the framework's own, else the framework's."""
    if row.tool.startswith(entry["of"]) and (row.client.version or row.tool_version):
        return parse_version(row.client.version or row.tool_version)
    return parse_version(row.framework_version) if row.framework == entry["of"] else None


def concerns(entry: dict[str, Any], row: Row) -> bool | None:
    """Whether a version range concerns the row: True, False, or None when the version is not known well enough."""
    if entry["of"] != "any" and entry["of"] != row.framework and not row.tool.startswith(entry["of"]):
        return False
    version = _range_version(entry, row)
    good, below = parse_version(entry.get("good_from")), parse_version(entry.get("below"))
    if version is None:
        return True if entry.get("open") else None
    if good is not None and version >= good:
        return False
    if below is not None:
        return version < below
    return True if entry.get("open") else None


def version_note(pitfall: dict[str, Any], row: Row) -> str | None:
    """What the version ranges of a pitfall say of this row; None when none names its tool or framework."""
    parts: list[str] = []
    for entry in pitfall["versions"]:
        hit = concerns(entry, row)
        if hit is False and not (
            entry.get("good_from") and (entry["of"] == row.framework or row.tool.startswith(entry["of"]))
        ):
            continue
        name = f"{entry['of']}{' ' + entry['note'] if 'note' in entry else ''}"
        if hit is False:
            parts.append(f"{name}: this version is good (from {entry['good_from']})")
        elif entry.get("open"):
            parts.append(f"{name}: open when last checked")
        else:
            span = entry.get("fixed_by") or f"below {entry.get('below')}"
            when = f", {entry['fixed_on']}" if "fixed_on" in entry else ""
            parts.append(f"{name}: {span}{when}{'' if hit else '; the version of this row is not known'}")
    return "; ".join(parts) or None


def row_verdicts(rows: Sequence[Row], findings: Iterable[RowFinding]) -> list[str]:
    """`refused`, `unknown`, `marked` or `ok` of every row."""
    rank = {"refuse": 0, "unknown": 1, "mark": 2, "note": 3}
    names = (REFUSED, UNKNOWN, MARKED, OK)
    worst = [3] * len(rows)
    for finding in findings:
        worst[finding.row] = min(worst[finding.row], rank[finding.severity])
    return [names[w] for w in worst]


def _told_failures(verdicts: list[str], findings: Iterable[RowFinding]) -> list[str]:
    """A run that is recorded as failed, and of which nothing else is wrong, is an honest row: `failed`, no fault of the rows."""
    refusals: dict[int, set[str]] = {}
    for finding in findings:
        if finding.severity == "refuse":
            refusals.setdefault(finding.row, set()).add(finding.rule)
    return [FAILED if refusals.get(i) == {"NOT_OK"} else verdict for i, verdict in enumerate(verdicts)]


def check_report(
    rows: Sequence[Row], contract: BenchmarkContract | None = None, contract_hash: str | None = None
) -> Report:
    """The answer of `bench check`: a verdict a row and every rule that fired. `extra["verdict"]` is pass, fail or unknown."""
    findings = check_rows(rows, contract, contract_hash)
    verdicts = _told_failures(row_verdicts(rows, findings), findings)
    counts = Counter(verdicts)
    verdict = "fail" if counts[REFUSED] else "unknown" if counts[UNKNOWN] else "pass"
    report = Report("bench_check", header=Header(thresholds=dict(thresholds())))
    report.extra["verdict"] = verdict
    report.summary = [
        f"{verdict}: {len(rows)} rows, "
        + ", ".join(f"{counts[v]} {v}" for v in (OK, MARKED, FAILED, UNKNOWN, REFUSED) if counts[v])
    ]
    report.add(_rows_table(rows, findings, verdicts))
    report.add(findings_table(findings))
    report.findings = [
        Finding(
            rule,
            f"{n} row{'s' if n > 1 else ''}: {example.evidence}",
            _SEVERITY[example.severity],
            next_step=example.fix,
        )
        for rule, n, example in _grouped(findings)
        if example.severity != "note"
    ]
    report.next_step = report.findings[0].next_step if report.findings else "infer-forge bench rank FILE..."
    return report


def _grouped(findings: Sequence[RowFinding]) -> list[tuple[str, int, RowFinding]]:
    counts = Counter(f.rule for f in findings)
    first: dict[str, RowFinding] = {}
    for finding in findings:
        first.setdefault(finding.rule, finding)
    rank = {"refuse": 0, "unknown": 1, "mark": 2, "note": 3}
    order = sorted(first, key=lambda r: (rank[first[r].severity], -counts[r]))
    return [(r, counts[r], first[r]) for r in order]


def _rows_table(rows: Sequence[Row], findings: Sequence[RowFinding], verdicts: Sequence[str]) -> Table:
    by_row: dict[int, list[str]] = {}
    for finding in findings:
        if finding.severity != "note":
            by_row.setdefault(finding.row, []).append(finding.rule)
    table = Table("rows", [Column("row", "text"), "tool", "framework", "status", "verdict", Column("rules", "text")])
    table.rows = [
        (row.label(), row.tool, row.framework, row.status, verdicts[i], ", ".join(by_row.get(i, [])))
        for i, row in enumerate(rows)
    ]
    return table


def findings_table(findings: Sequence[RowFinding]) -> Table:
    """Every finding as a table row."""
    table = Table("findings", [Column("row", "text"), "rule", "severity", "pitfall", "evidence", "fix", "versions"])
    table.rows = [(f.label, f.rule, f.severity, f.pitfall, f.evidence, f.fix, f.versions) for f in findings]
    return table
