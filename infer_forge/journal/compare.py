"""Compare records: only those equal on every dimension that is not being compared; otherwise say what differs.

No ratio across contract hashes, none without one, and none between a kernel claim and an end-to-end claim: each such
number would compare different work. What neither side states is not known to be equal, so it stands in the way too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from infer_forge.base import contracts
from infer_forge.base.contract_model import DeploymentPoint
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Table, cell_text
from infer_forge.journal.aliases import canonical
from infer_forge.journal.index import ask
from infer_forge.journal.model import Record
from infer_forge.journal.search import check_filters, condition
from infer_forge.journal.store import get

MOST_GROUPED = 200
"""Results that are grouped at once without being named: each is held against every group."""

# Dimensions that tell two measurements apart. What only describes (topic, author, date, task, verdict) does not.
_TELLING = (
    "model",
    "model_arch",
    "gpu",
    "gpu_count",
    "framework",
    "framework_rev",
    "topology",
    "precision",
    "workload",
    "scenario",
    "kernel_family",
    "metric",
)
# Without these on both sides nobody can say that two measurements are of the same thing.
_NEEDED = ("metric", "gpu")
# What a varied dimension may change besides itself: another framework has other versions and other engine settings.
_FOLLOWS = {
    "framework": ("framework_rev", "runtime_profile."),
    "framework_rev": ("runtime_profile.",),
    "gpu": ("gpu_count", "accelerator_platform."),
    "topology": ("serving_topology.", "runtime_profile.engine_config", "gpu_count", "accelerator_platform.gpu_count"),
    "precision": ("model.precision", "model.quantization", "model.fingerprint", "model.revision", "model.id"),
    "model": ("model.", "model_arch"),
    "workload": ("serving_scenario.traffic_shape",),
}
# The leaf of a deployment point behind a dimension: named once, by its leaf, when both records state a point.
_LEAF = {
    "model": "model.id",
    "precision": "model.precision",
    "topology": "serving_topology.",
    "framework": "runtime_profile.framework",
    "framework_rev": "runtime_profile.version",
    "gpu": "accelerator_platform.gpu_model",
    "gpu_count": "accelerator_platform.gpu_count",
    "workload": "serving_scenario.traffic_shape",
}
Differs = tuple[str, str | None, str | None]


def _dims(record: Record) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = defaultdict(set)
    for dim, value, _ in record.dimensions():
        found[dim].add(value)
    return {d: tuple(sorted(v)) for d, v in found.items()}


def differences(first: Record, second: Record) -> list[Differs]:
    """(field, value of the first, value of the second) of everything that keeps two records from being one measurement.

    Where both state a deployment point its leaf fields are named (`serving_topology.tp`), else the dimension (`topology`).
    """
    found: list[Differs] = []
    if first.deployment_point is not None and second.deployment_point is not None:
        apart = contracts.differences(plain_point(first.deployment_point), plain_point(second.deployment_point))
        found += [(d.field, _shown(d.left), _shown(d.right)) for d in apart]
    leaves = [f for f, _, _ in found]
    a, b = _dims(first), _dims(second)
    for dim in _TELLING:
        named = dim in _LEAF and any(f.startswith(_LEAF[dim]) for f in leaves)
        if not named and (a.get(dim) != b.get(dim) or (dim in _NEEDED and dim not in a)):
            found.append((dim, _text(a.get(dim)), _text(b.get(dim))))
    if first.contract_sha256 != second.contract_sha256 or first.contract_sha256 is None:
        found.append(("contract", _short(first.contract_sha256), _short(second.contract_sha256)))
    if first.claim != second.claim:
        found.append(("claim", first.claim, second.claim))
    if first.unit != second.unit:
        found.append(("unit", first.unit, second.unit))
    if first.epoch_fenced or second.epoch_fenced:
        found.append(("epoch", _fence(first), _fence(second)))
    return found


def plain_point(told: DeploymentPoint) -> dict[str, Any]:
    """A deployment point with one spelling for models, GPUs and precisions."""
    point = told.model_dump(mode="json", exclude_none=True)
    for layer, field, dim in (
        ("model", "id", "model"),
        ("model", "precision", "precision"),
        ("accelerator_platform", "gpu_model", "gpu"),
    ):
        if point.get(layer, {}).get(field):
            point[layer][field] = canonical(dim, point[layer][field])
    return point


def _fence(record: Record) -> str:
    return "superseded claim epoch" if record.epoch_fenced else "current"


def _shown(value: Any) -> str | None:
    return None if value is None else cell_text(value, "text")


def _text(values: tuple[str, ...] | None) -> str | None:
    return ", ".join(values) if values else None


def _short(sha: str | None) -> str | None:
    return sha[:12] if sha else None


def _allowed(field: str, varied: str | None) -> bool:
    if varied is None:
        return False
    names = (varied, _LEAF.get(varied, varied), *_FOLLOWS.get(varied, ()))
    return any(field == n or (n.endswith(".") and field.startswith(n)) for n in names)


def compare_records(store: Store, ids: Sequence[str], varied: str | None = None) -> Report:
    """Hold records against each other.

    Args:
        ids: two or more; the first is the base of every ratio.
        varied: the one dimension that may differ (`framework`, `gpu`, ...); None: nothing may.

    The report's `extra["comparable"]` says whether a ratio is allowed for all; the table says it row by row.

    Raises:
        UsageFault: fewer than two ids, or no such dimension. InputUnusable: an id is unknown.
    """
    ids = list(dict.fromkeys(ids))
    if len(ids) < 2:
        raise UsageFault("two records or more are needed", next_step="infer-forge journal compare ID ID")
    _check_dimension(varied)
    records = [get(store, i) for i in ids]
    base = records[0]
    report = Report("journal_compare", Header(more={"varied": varied, "base": base.id}))
    rows: list[tuple[Any, ...]] = []
    blocked: list[tuple[str, str, str | None, str | None]] = []
    for record in records:
        stands = [d for d in differences(base, record) if not _allowed(d[0], varied)] if record is not base else []
        blocked += [(record.id, *d) for d in stands]
        ratio = _ratio(base, record) if not stands and record is not base else None
        figures = (record.metric, record.value, record.unit, ratio, record.verdict, record.epoch_fenced)
        rows.append((record.id, record.title, *figures, _reason(stands)))
    names = ["id", "title", "metric", "value", "unit", "ratio_to_first", "verdict", "fenced", "not_comparable_because"]
    report.add(Table("records", names, rows))
    report.add(Table("differences", ["id", "field", "first", "this"], blocked))
    report.findings = _superseded(store, ids)
    report.extra = {"comparable": not blocked}
    _conclude(report, len(records), len(blocked), varied)
    return report


def _check_dimension(varied: str | None) -> None:
    if varied is not None and varied not in _TELLING:
        raise UsageFault(f"no such dimension to compare over: {varied}", next_step=f"use one of {', '.join(_TELLING)}")


def _reason(stands: Sequence[Differs]) -> str:
    told = "; ".join(f"{f}: {a or 'not stated'} / {b or 'not stated'}" for f, a, b in stands[:4])
    return told + (f"; and {len(stands) - 4} more" if len(stands) > 4 else "")


def _conclude(report: Report, count: int, blocked: int, varied: str | None) -> None:
    if not blocked:
        report.summary = [f"{count} records, comparable" + (f" over {varied}" if varied else "")]
        report.next_step = "infer-forge journal show ID for the evidence behind a figure"
        return
    beside = f" beside {varied}" if varied else ""
    report.summary = [f"not comparable: {blocked} fields differ or are not stated{beside}; those records get no ratio"]
    report.next_step = "measure again under one contract, or name the one dimension that may differ with --vary"


def _superseded(store: Store, ids: Iterable[str]) -> list[Finding]:
    named = list(ids)
    marks = ",".join("?" * len(named))
    sql = f"SELECT id, superseded_by FROM records WHERE id IN ({marks}) AND superseded_by IS NOT NULL ORDER BY id"
    rows = ask(store, lambda db: db.execute(sql, named).fetchall())
    return [
        Finding("SUPERSEDED", f"{r[0]} was superseded by {r[1]}", next_step=f"infer-forge journal show {r[1]}")
        for r in rows
    ]


def _ratio(base: Record, other: Record) -> float | None:
    if base.value is None or other.value is None or base.value == 0:
        return None
    return round(other.value / base.value, 4)


def group_results(
    store: Store, by: str, filters: Mapping[str, Sequence[str]] | None = None, *, since: str | None = None
) -> Report:
    """The results with a figure that fit the filters, grouped as `group_records` does; of many the newest `MOST_GROUPED`.

    Raises:
        UsageFault: no such dimension. InputUnusable: nothing fits, or none of what fits states `by`.
    """
    wanted = {"kind": ["result"], **(filters or {})}
    where, values = condition(check_filters(wanted), since)
    sql = (
        f"SELECT r.id FROM records r WHERE {where} AND r.superseded_by IS NULL AND r.value IS NOT NULL"
        " ORDER BY r.created DESC, r.id DESC"
    )
    ids: list[str] = [r[0] for r in ask(store, lambda db: db.execute(sql, values).fetchall())]
    if not ids:
        raise InputUnusable("no result with a figure fits", next_step="infer-forge journal filter shows what exists")
    report = group_records(store, ids[:MOST_GROUPED], by)
    report.header.more["filters"] = {k: list(v) for k, v in wanted.items()}
    if len(ids) > MOST_GROUPED:
        report.header.hidden = {"groups": f"{len(ids) - MOST_GROUPED} older results"}
        report.summary.append(f"{len(ids) - MOST_GROUPED} older results fit too: narrow the filters")
    return report


def group_records(store: Store, ids: Sequence[str], by: str) -> Report:
    """Records split into groups that are comparable inside, with `by` as the one dimension that differs.

    Raises:
        UsageFault: no such dimension. InputUnusable: none of the records has it, or an id is unknown.
    """
    _check_dimension(by)
    records = [get(store, i) for i in dict.fromkeys(ids)]
    if not any(by in _dims(r) for r in records):
        raise InputUnusable(
            f"none of the records states {by}", next_step="infer-forge journal filter shows what exists"
        )
    groups: list[list[Record]] = []
    for record in records:
        home = next((g for g in groups if all(_allowed(d[0], by) for d in differences(g[0], record))), None)
        groups.append([record]) if home is None else home.append(record)
    rows: list[tuple[Any, ...]] = []
    for number, members in enumerate(groups, 1):
        ordered = sorted(members, key=lambda r: (r.value is None, r.value if r.value is not None else 0))
        rows += [
            (number, _text(_dims(r).get(by)), r.id, r.metric, r.value, r.unit, r.verdict, r.epoch_fenced)
            for r in ordered
        ]
    report = Report("journal_group", Header(more={"by": by}))
    report.add(Table("groups", ["group", by, "id", "metric", "value", "unit", "verdict", "fenced"], rows))
    report.findings = _superseded(store, dict.fromkeys(ids))
    report.summary = [f"{len(records)} records in {len(groups)} groups; only figures of one group may be compared"]
    report.next_step = f"infer-forge journal compare ID ID --vary {by}"
    return report
