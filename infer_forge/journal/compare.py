"""Compare records: only those equal on every dimension that is not being compared; otherwise say what differs.

No ratio across contract hashes, and none between a kernel claim and an end-to-end claim: each such number would compare
different work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Table
from infer_forge.journal.model import Record
from infer_forge.journal.store import get

# Dimensions that tell two measurements apart. What only describes (topic, author, date) does not.
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
    "metric",
)


def _dims(record: Record) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for dim, value, _ in record.dimensions():
        found[dim].append(value)
    return {d: tuple(sorted(v)) for d, v in found.items()}


def differences(first: Record, second: Record) -> list[tuple[str, str | None, str | None]]:
    """(field, value of the first, value of the second) of everything that tells two records apart as measurements.

    Names the leaf fields of the deployment point where both have one, so that `tp` is named and not the whole point.
    """
    a, b = _dims(first), _dims(second)
    found = [(d, _text(a.get(d)), _text(b.get(d))) for d in _TELLING if a.get(d) != b.get(d)]
    if first.deployment_point is not None and second.deployment_point is not None:
        left, right = _leaves(first), _leaves(second)
        known = {d for d, _, _ in found}
        found += [
            (k, left.get(k), right.get(k))
            for k in sorted({*left, *right})
            if left.get(k) != right.get(k) and k not in known
        ]
    if first.contract_sha256 != second.contract_sha256:
        found.append(("contract", _short(first.contract_sha256), _short(second.contract_sha256)))
    if first.claim != second.claim:
        found.append(("claim", first.claim, second.claim))
    return found


def _leaves(record: Record) -> dict[str, str]:
    found: dict[str, str] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for k, v in value.items():  # pyright: ignore[reportUnknownVariableType]
                walk(v, f"{path}.{k}" if path else str(k))  # pyright: ignore[reportUnknownArgumentType]
        elif value is not None and value != []:
            found[path] = str(value)

    assert record.deployment_point is not None
    walk(record.deployment_point.model_dump(mode="json", exclude_none=True), "")
    return found


def _text(values: tuple[str, ...] | None) -> str | None:
    return ", ".join(values) if values else None


def _short(sha: str | None) -> str | None:
    return sha[:12] if sha else None


# What a varied dimension may change besides itself: another framework has other versions and other engine settings.
_FOLLOWS = {
    "framework": ("framework_rev", "runtime_profile."),
    "framework_rev": ("runtime_profile.",),
    "gpu": ("gpu_count", "accelerator_platform."),
    "topology": ("serving_topology.", "runtime_profile.engine_config"),
    "precision": ("model.precision", "model.quantization", "model.fingerprint", "model.revision", "model.id"),
    "model": ("model.", "model_arch"),
}


def _allowed(field: str, varied: str | None) -> bool:
    if varied is None:
        return False
    return field == varied or any(
        field == f or (f.endswith(".") and field.startswith(f)) for f in _FOLLOWS.get(varied, ())
    )


def compare_records(store: Store, ids: Sequence[str], varied: str | None = None) -> Report:
    """Hold records against each other.

    Args:
        ids: two or more; the first is the base of every ratio.
        varied: the one dimension that may differ (`framework`, `gpu`, ...); None: nothing may.

    The report's `extra["comparable"]` says whether a ratio is allowed for all; the table says it row by row.

    Raises:
        UsageFault: fewer than two ids. InputUnusable: an id is unknown.
    """
    if len(set(ids)) < 2:
        raise UsageFault("two records or more are needed", next_step="infer-forge journal compare ID ID")
    records = [get(store, i) for i in ids]
    base = records[0]
    report = Report("journal_compare", Header(more={"varied": varied, "base": base.id}))
    rows: list[tuple[Any, ...]] = []
    blocked: list[tuple[str, str, str | None, str | None]] = []
    for record in records:
        stands = [(f, a, b) for f, a, b in differences(base, record) if not _allowed(f, varied)]
        blocked += [(record.id, f, a, b) for f, a, b in stands]
        ratio = _ratio(base, record) if not stands and record is not base else None
        reason = "; ".join(f"{f}: {a or 'not stated'} / {b or 'not stated'}" for f, a, b in stands[:4])
        rows.append(
            (
                record.id,
                record.title,
                record.metric,
                record.value,
                record.unit,
                ratio,
                record.verdict,
                record.epoch_fenced,
                reason,
            )
        )
    columns = [
        "id",
        "title",
        "metric",
        "value",
        "unit",
        "ratio_to_first",
        "verdict",
        "fenced",
        "not_comparable_because",
    ]
    report.add(Table("records", columns, rows))
    report.add(Table("differences", ["id", "field", "first", "this"], blocked))
    comparable = not blocked
    report.extra = {"comparable": comparable}
    report.summary = [
        f"{len(records)} records, comparable" + (f" over {varied}" if varied else "")
        if comparable
        else f"not comparable: {len(blocked)} fields differ beside {varied or 'nothing'}; no ratio is given for those records"
    ]
    report.next_step = (
        "infer-forge journal show ID for the evidence behind a figure"
        if comparable
        else "measure again under one contract, or name the one dimension that may differ with --vary"
    )
    return report


def _ratio(base: Record, other: Record) -> float | None:
    if (
        base.metric != other.metric
        or base.unit != other.unit
        or base.value is None
        or other.value is None
        or base.value == 0
    ):
        return None
    return round(other.value / base.value, 4)


def group_records(store: Store, ids: Sequence[str], by: str) -> Report:
    """Records split into groups that are comparable inside, with `by` as the one dimension that differs.

    Raises:
        InputUnusable: none of the records has that dimension.
    """
    records = [get(store, i) for i in ids]
    groups: list[list[Record]] = []
    for record in records:
        for found in groups:
            if all(_allowed(f, by) for f, _, _ in differences(found[0], record)):
                found.append(record)
                break
        else:
            groups.append([record])
    if not any(by in _dims(r) for r in records):
        raise InputUnusable(
            f"none of the records states {by}", next_step="infer-forge journal filter shows what exists"
        )
    rows: list[tuple[Any, ...]] = []
    for number, members in enumerate(groups, 1):
        ordered = sorted(members, key=lambda r: (r.value is None, r.value if r.value is not None else 0))
        rows += [
            (number, _text(_dims(r).get(by)), r.id, r.metric, r.value, r.unit, r.verdict, r.epoch_fenced)
            for r in ordered
        ]
    report = Report("journal_group", Header(more={"by": by}))
    report.add(Table("groups", ["group", by, "id", "metric", "value", "unit", "verdict", "fenced"], rows))
    report.summary = [f"{len(records)} records in {len(groups)} groups; only figures of one group may be compared"]
    report.next_step = "infer-forge journal compare ID ID --vary " + by
    return report
