"""Whether profiles were taken at the lengths of the slow scenario (A117, A118), by the capture's own record.

Prefill is the scenario's input with one token out, decode one token in with the scenario's output. Of mixed data the
lengths are the p50 or p95 bucket that benchmark rows of the slow scenario recorded; where no capture record shows the
lengths, the bucket is stated with the scenario (`chat p95`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError
from infer_forge.campaign import verdicts

if TYPE_CHECKING:
    from infer_forge.base.contract_model import Scenario
    from infer_forge.campaign.book import Campaign, Record

RECORD = "capture.json"
"""What `infer-forge capture` writes into its output folder, above the folders of the traces."""


BUCKETS = ("p50", "p95")
"""Lengths of mixed data at which a profile stands for it (A118)."""


@dataclass(frozen=True)
class Judged:
    """A profile of this round: `pass`, `fail` or `unknown`, and why."""

    framework: str
    result: str
    why: str


def captured(traces: list[str]) -> list[dict[str, Any]]:
    """Of each trace its workload and lengths by the capture record that names the trace by its hash; null where none does."""
    made: list[dict[str, Any]] = []
    for trace in traces:
        place = Path(trace).absolute()
        files = sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
        found = [f for file in files if (f := _of_file(file)) is not None]
        made += found or [
            {"trace": str(place), "workload": None, "input_len": None, "output_len": None, "record": None}
        ]
    return made


def _of_file(file: Path) -> dict[str, Any] | None:
    for folder in list(file.parents)[:3]:
        if (folder / RECORD).is_file():
            return _in_record(folder / RECORD, file)
    return None


def _in_record(record: Path, file: Path) -> dict[str, Any] | None:
    try:
        report: dict[str, Any] = jsonio.read_json(record)
        lengths = {str(r["workload"]): r for r in _rows(report, "workloads")}
        sha256 = jsonio.sha256_file(file)
        mine = next((r for r in _rows(report, "files") if r["sha256"] == sha256), None)
    except (ForgeError, OSError, KeyError, TypeError, AttributeError):
        return None
    row = lengths.get(str(mine["workload"])) if mine else None
    if row is None:
        return None
    keep = {k: row[k] for k in ("workload", "input_len", "output_len")}
    return {"trace": str(file), **keep, "record": str(record)}


def _rows(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    table: dict[str, Any] = report["tables"][name]
    return [dict(zip(table["columns"], r, strict=True)) for r in table["rows"]]


def slow_scenario(campaign: Campaign) -> Scenario | None:
    """The contract's scenario that the current gap verdict calls furthest behind; None while nothing is lost."""
    gap = verdicts.current(campaign)
    loser = verdicts.worst(gap) if gap else None
    if loser is None or campaign.contract is None:
        return None
    name = str(loser["scenario"])
    known = campaign.contract[0].grid.scenarios
    return next((s for s in known if name == s.name or name in [f"{s.name} c{c}" for c in s.concurrencies]), None)


def mixed(campaign: Campaign) -> bool:
    """Whether the contract's data has many lengths, so that a scenario's name alone tells none."""
    return campaign.contract is not None and not campaign.contract[0].grid.kind.startswith("random")


def statements(campaign: Campaign, scenario: str) -> list[str]:
    """What may be stated of traces taken for a scenario: its name, and of mixed data the bucket too."""
    return [f"{scenario} {b}" for b in BUCKETS] if mixed(campaign) else [scenario]


def allowed(campaign: Campaign, scenario: Scenario) -> dict[str, set[int]]:
    """Lengths at which a profile shows the scenario: `prefill` by its input, `decode` by its output."""
    assert campaign.contract is not None
    if not mixed(campaign):
        return {"prefill": {scenario.input_len}, "decode": {scenario.output_len}}
    lengths: dict[str, set[int]] = {"prefill": set(), "decode": set()}
    for rows in verdicts.sides_of(campaign, verdicts.best_measurement(campaign)).values():
        for w in (r.workload for r in rows if r.workload.scenario == scenario.name):
            lengths["prefill"] |= {round(v) for v in (w.input_len_p50_tokens, w.input_len_p95_tokens) if v is not None}
            lengths["decode"] |= {round(v) for v in (w.output_len_p50_tokens, w.output_len_p95_tokens) if v is not None}
    return lengths


def judged(campaign: Campaign) -> list[Judged]:
    """The newest profile of each framework in this round; empty while no token scenario is lost."""
    scenario = slow_scenario(campaign)
    if scenario is None or campaign.diffusion:
        return []
    newest = {str(p["framework"]): p for p in campaign.in_round("profile")}
    wanted = allowed(campaign, scenario)
    stated = statements(campaign, scenario.name)
    return [Judged(name, *_judge(profile, scenario.name, wanted, stated)) for name, profile in newest.items()]


def _judge(profile: Record, scenario: str, wanted: dict[str, set[int]], statable: list[str]) -> tuple[str, str]:
    seen: list[dict[str, Any]] = profile.get("shapes") or []
    told = [s for s in seen if s["workload"] is not None]
    for shape in told:
        long, short = ("input_len", "output_len") if shape["workload"] == "prefill" else ("output_len", "input_len")
        fits = wanted.get(str(shape["workload"]), set())
        at = f"{shape['workload']} of {shape['input_len']} in and {shape['output_len']} out"
        if not fits:
            return "unknown", f"{at}: no row of {scenario} recorded its p50 or p95 lengths"
        if int(shape[long]) not in fits or int(shape[short]) != 1:
            return "fail", f"{at}; {scenario} has {'/'.join(map(str, sorted(fits)))} tokens of {long.split('_')[0]}"
    if told and len(told) == len(seen):
        return "pass", f"{len(told)} traces at the lengths of {scenario}"
    stated = profile.get("scenario")
    if stated is None:
        return "unknown", "no capture record lies beside the traces, and no scenario is stated"
    if stated not in statable:
        return "fail", f"taken at {stated}, the slow scenario is {' or '.join(statable)}"
    if not any(wanted.values()):
        return "unknown", f"stated to be taken at {stated}, and no row of {scenario} recorded its p50 or p95 lengths"
    return "pass", f"stated to be taken at {stated}; no capture record shows it"
