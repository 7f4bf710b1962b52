"""Gap verdicts on the campaign's contract: the baseline's, each measurement's, and a measurement against the prior best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.base.records import InputFile, Report
from infer_forge.campaign import book

if TYPE_CHECKING:
    from infer_forge.bench.model import Row

SETTLED = ("ahead", "tie", "not_behind")
PATCHABLE = ("behind", "sla_fail")
Sides = dict[str, "list[Row]"]


def _rows(campaign: book.Campaign, wanted: set[str]) -> list[tuple[str, Row]]:
    from infer_forge.bench.ledger_rows import RowStore

    if campaign.contract is None:
        raise GateRefused("no contract is locked", next_step="infer-forge campaign lock")
    store = RowStore(campaign.layout.bench.rows)
    found = [
        (e.hash, r)
        for e, r in store.entries(contract_hash=campaign.contract[1], purposes=["decision"])
        if e.hash in wanted
    ]
    if len(found) < len(wanted):
        raise InputUnusable(
            f"{len(wanted) - len(found)} recorded rows are gone",
            where=str(campaign.layout.bench.rows),
            next_step="restore the file: rows are never removed",
        )
    return found


def sides_of(campaign: book.Campaign, measurement: book.Record | None) -> Sides:
    """Framework -> rows: of a measurement, or of the locked baseline."""
    from infer_forge.bench.search import belongs

    if campaign.baseline is None:
        raise GateRefused("no baseline is locked", next_step="infer-forge campaign lock --baseline")
    if measurement is None:
        table: dict[str, dict[str, str]] = {}
        for w in campaign.baseline["winners"]:
            table.setdefault(w["scenario"], {})[w["framework"]] = w["candidate_id"]
        wanted = {h for w in campaign.baseline["winners"] for h in w["rows"]}
    else:
        table, wanted = measurement["candidates"], set(measurement["rows"])
    for again in repeats(campaign, measurement):
        wanted |= set(again["rows"])
    sides: Sides = {}
    for _, row in _rows(campaign, wanted):
        for scenario, candidates in table.items():
            if belongs(row, scenario) and candidates.get(str(row.framework)) == row.candidate_id:
                sides.setdefault(str(row.framework), []).append(row)
    order = sorted(sides, key=lambda name: name != "sglang")
    return {name: sides[name] for name in order}


def repeats(campaign: book.Campaign, measurement: book.Record | None) -> list[book.Record]:
    """Further launches of an accepted state (of the baseline: None) that count with it (A103); those of a void round do not."""
    void = {int(c["round"]) for c in campaign.of("round_close") if c.get("void")}
    of = measurement.id if measurement else None
    return [
        m
        for m in campaign.of("measurement")
        if m["label"] == "repeat" and m["of"] == of and int(m["round"]) not in void
    ]


def decide(campaign: book.Campaign, measurement: book.Record | None) -> Report:
    """The gap report of a measurement (None: the baseline) under the locked contract."""
    from infer_forge.bench.gap import request_of, run_gap

    assert campaign.contract is not None
    request = request_of(sides_of(campaign, measurement), "sglang", *campaign.contract)
    request.inputs.append(InputFile.of(campaign.layout.bench.rows))
    return run_gap(request)


def improvement(campaign: book.Campaign, measurement: book.Record, prior: book.Record | None) -> Report:
    """The measured target against the prior best target, paired in order of start (they share no block)."""
    from infer_forge.bench.gap import request_of, run_gap

    assert campaign.contract is not None

    def alone(of: book.Record | None) -> list[Row]:
        return [r.model_copy(update={"block_id": None}) for r in sides_of(campaign, of).get("sglang", [])]

    request = request_of({"new": alone(measurement), "prior": alone(prior)}, "new", *campaign.contract)
    return run_gap(request)


def verdict_rows(report: Report) -> list[dict[str, Any]]:
    """The figures of each scenario that a record keeps."""
    keep = (
        "scenario",
        "verdict",
        "against",
        "mean_pct",
        "low_pct",
        "high_pct",
        "n_pairs",
        "k_more",
        "decides",
        "reason",
    )
    return [{k: row[k] for k in keep} for row in report.tables["gap"].dicts()]


def kept(campaign: book.Campaign, report: Report, measurement: book.Record | None, commit: str) -> dict[str, Any]:
    """Write a gap report into the run directory; gives the body of its record."""
    number = len(campaign.of("gap")) + 1
    place = campaign.layout.gap(number)
    jsonio.write_atomic(place, report.render("json"))
    rows = verdict_rows(report)
    noisy = max(
        (abs(float(r["high_pct"]) - float(r["low_pct"])) for r in rows if r["high_pct"] is not None), default=None
    )
    further = report.tables["pairs"].dicts() if "pairs" in report.tables else []
    return {
        "number": number,
        "path": campaign.layout.relative(place),
        "sha256": jsonio.sha256_file(place),
        "measurement": measurement.id if measurement else None,
        "commit": commit,
        "scenarios": rows,
        "improvement": _improved(campaign, measurement),
        "rivals": [{k: r[k] for k in ("scenario", "against", "verdict", "mean_pct")} for r in further],
        "overall": report.extra["overall"]["verdict"],
        "interval_width_pct": noisy,
    }


def _improved(campaign: book.Campaign, measurement: book.Record | None) -> list[dict[str, Any]] | None:
    """A patched measurement against the prior best; None for the accepted state itself and for a patch that is off."""
    best = best_measurement(campaign)
    if measurement is None or measurement["label"] != "patched" or (best is not None and best.id == measurement.id):
        return None
    return verdict_rows(improvement(campaign, measurement, best))


def current(campaign: book.Campaign) -> book.Record | None:
    """The newest gap record of the accepted state (a measurement that was rejected does not speak for it)."""
    accepted = accepted_measurements(campaign)
    standing = [g for g in campaign.of("gap") if g["measurement"] is None or g["measurement"] in accepted]
    best = best_measurement(campaign)
    wanted = best.id if best else None
    return next((g for g in reversed(standing) if g["measurement"] == wanted), None)


def accepted_measurements(campaign: book.Campaign) -> set[str]:
    """Ids of measurements that an accepted result cites."""
    return {str(r["measurement"]) for r in campaign.of("result") if r["outcome"] == "accepted"}


def best_measurement(campaign: book.Campaign) -> book.Record | None:
    """The measurement of the best accepted state; None: the baseline."""
    done = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    return campaign.find(str(done[-1]["measurement"])) if done else None


def accepted_commit(campaign: book.Campaign) -> str:
    """Commit of the accepted state: of the last accepted result, else the one that the baseline was measured at."""
    done = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    if done:
        return str(done[-1]["commit"])
    locked = campaign.last("baseline_lock")
    return str(locked["commit"] if locked else campaign.inputs["target_checkout"]["commit"])


def worst(record: book.Record) -> dict[str, Any] | None:
    """The scenario that is furthest behind, by verdict then by mean."""
    order = ("sla_fail", "behind", "inconclusive")
    losing = [s for s in record["scenarios"] if s["verdict"] in order]
    return min(losing, key=lambda s: (order.index(s["verdict"]), s["mean_pct"] or 0)) if losing else None


def leaders(record: book.Record) -> list[str]:
    """The best rival of every scenario that is lost, the furthest ahead first."""
    loser = worst(record)
    lost = [s for s in record["scenarios"] if s["verdict"] in PATCHABLE]
    return list(dict.fromkeys(str(s["against"]) for s in (*([loser] if loser else []), *lost)))


def leading(record: book.Record) -> list[str]:
    """Every rival that is ahead beyond the threshold in some scenario, the best first (A114, A115)."""
    rivals: list[dict[str, Any]] = record.get("rivals") or []
    further = [str(r["against"]) for r in rivals if r["verdict"] == "behind"]
    return list(dict.fromkeys([*leaders(record), *further]))


def unprofiled(campaign: book.Campaign) -> list[str]:
    """SGLang and the leading rivals that this round has neither a profile nor a blocker of (`profile NAME`)."""
    gap = current(campaign)
    if gap is None or worst(gap) is None:
        return []
    done = {str(p["framework"]) for p in campaign.in_round("profile")}
    blocked = [str(b["what"]) for b in campaign.in_round("blocker")]
    wanted = ["sglang", *leading(gap)]
    return [w for w in wanted if w not in done and not any(f"profile {w}" in b for b in blocked)]


def path_of(campaign: book.Campaign, record: book.Record) -> Path:
    """File of a record that names one."""
    return campaign.layout.run / str(record["path"])
