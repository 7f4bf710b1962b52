"""Kernel tasks of a campaign (C47 to C60): isolated folders whose rows come from named traces, a prompt made of today's evidence.

A kernel task's result is of kind `kernel_task`. It becomes an end-to-end claim only by a gap verdict on the campaign's
contract and the kernel's name in a new trace.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.campaign import book, coverage, gates, mechanism, repo, verdicts
from infer_forge.campaign.book import Campaign, Record

FACTS = "campaign.json"
HOT_PCT = 1.0
"""Least share of the slow stage that a kernel or its family has (A129)."""


def eligible(campaign: Campaign, kernel: str, family: str | None = None) -> float:
    """The kernel's (or its family's) share of the slow stage, when it may be worked on.

    Raises:
        GateRefused: A128 to A130: the round is not explained, the share is below 1 %, or the layer report does not name it.
    """
    gates.require(campaign, "A100", "A104", "A114", "A126", what=f"work on {kernel}")
    profile = coverage.slow_profile(campaign)
    assert profile is not None
    shares = dict(coverage.families(coverage.triage(campaign, profile), coverage.slow_stage(campaign, profile)))
    wanted = family or kernel
    share = sum(v for k, v in shares.items() if wanted in k)
    if share < HOT_PCT:
        raise GateRefused(
            f"A129: {wanted} has {share:.2f} % of the slow stage, 1 % is needed",
            next_step="take a larger kernel or family",
        )
    page = campaign.in_round("layer_pipeline")[-1]
    if not any(kernel in str(k) or str(k) in kernel for k in page["kernels"]):
        raise GateRefused(
            f"A130: {kernel} is not among the hot kernels of this round's layer-pipeline report",
            next_step="take one of these: " + ", ".join(map(str, page["kernels"][:4])),
        )
    return share


def rows_of(reports: Sequence[tuple[str, Mapping[str, Any]]], kernel: str) -> list[dict[str, Any]]:
    """Rows of a kernel from pipeline reports, merged: one for each input shape, weighted by time, with every trace it was seen in.

    Args:
        reports: (trace or model name, pipeline report as JSON).
    """
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for name, report in reports:
        table: Mapping[str, Any] = report.get("tables", {}).get("flow") or {"columns": [], "rows": []}
        for cells in table["rows"]:
            row = dict(zip(table["columns"], cells, strict=True))
            if kernel not in str(row.get("kernel")) or not row.get("dims"):
                continue
            key = (str(row["dims"]), str(row.get("dtypes")))
            held = merged.setdefault(key, {"dims": key[0], "dtypes": key[1], "time_us": 0.0, "seen": []})
            held["time_us"] += float(row["dur_us"] or 0.0)
            told = f"{name} {row.get('stage')} layer {row.get('layer')}"
            if told not in held["seen"]:
                held["seen"].append(told)
    return [
        {
            "id": f"r{number}",
            "kind": "production",
            "params": {"dims": row["dims"], "dtypes": row["dtypes"]},
            "weight": max(row["time_us"], 1e-3),
            "provenance": "; ".join(row["seen"])[:400],
        }
        for number, row in enumerate(sorted(merged.values(), key=lambda r: -float(r["time_us"])), 1)
    ]


def new(
    campaign: Campaign,
    folder: Path | None,
    kernel: str,
    idea_id: str,
    *,
    rows: Sequence[Mapping[str, Any]] | None = None,
    sources: Sequence[str] = (),
    more_reports: Sequence[Path] = (),
) -> tuple[Campaign, Path]:
    """Make the isolated folder of a kernel task: baseline with lineage, rows, allowed paths, prompt, facts of the campaign.

    Args:
        folder: a new folder; by default under `kernel/tasks/` of the run.
        rows: shapes as `task.json` has them; by default from this round's pipeline report and `more_reports` (other models).
        sources: files of the checkout from which the baseline comes; they are copied to `upstream/`.

    Raises:
        GateRefused: the kernel is not eligible, or no trace recorded its shapes and no rows are given.
    """
    share = eligible(campaign, kernel)
    idea = campaign.need(idea_id, "idea")
    page = campaign.in_round("layer_pipeline")[-1]
    reports = [
        (
            f"{campaign.inputs['model']} {page['profile']}",
            jsonio.read_json(campaign.layout.run / str(page["report"]["path"])),
        )
    ]
    reports += [(p.name, jsonio.read_json(p)) for p in more_reports]
    found = [dict(r) for r in rows] if rows else rows_of(reports, kernel)
    if not found:
        raise GateRefused(
            f"no trace recorded the shapes of {kernel}",
            next_step="infer-forge capture --shapes, then infer-forge campaign report layer-pipeline; or give rows",
        )
    seen = repo.look(campaign.checkout)
    name = re.sub(r"[^A-Za-z0-9]+", "-", kernel).strip("-")[:40].lower()
    place = folder or campaign.layout.kernel_tasks / f"{name}-{len(campaign.of('kernel_task')) + 1}"
    from infer_forge.kernel_task import KernelTask
    from infer_forge.kernel_task import new as make

    make(place, name)
    (place / "upstream").mkdir()
    for source in sources:
        file = campaign.checkout / source
        if not file.is_file() or campaign.checkout.resolve() not in file.resolve().parents:
            raise InputUnusable("no such file of the checkout", where=source)
        shutil.copy2(file, place / "upstream" / file.name)
    data: dict[str, Any] = jsonio.read_json(place / "task.json")
    data |= {"operation": kernel, "rows": found, "platform": f"{campaign.inputs.get('gpu_model')}"}
    data["lineage"] = {
        "url": str(idea["repository"]),
        "commit": seen.commit,
        "files": list(sources) or [str(idea["path"])],
    }
    data["protected"] = [*data["protected"], "upstream/**", FACTS]
    task = KernelTask.model_validate(data)
    jsonio.write_atomic(place / "task.json", jsonio.dumps(task.model_dump(mode="json"), indent=True))
    facts = {
        "campaign": str(campaign.layout.run), "contract_sha256": campaign.contract[1] if campaign.contract else None, "idea": idea.id,
        "kernel": kernel, "share_pct": share, "model": campaign.inputs["model"], "gpu": campaign.inputs.get("gpu_model"),
    }  # fmt: skip
    jsonio.write_atomic(place / FACTS, jsonio.dumps(facts, indent=True))
    body = {"folder": str(place.absolute()), "kernel": kernel, "idea": idea.id, "share_pct": share, "rows": len(found)}
    after = book.append(campaign, "kernel_task", body)
    refresh(after, place)
    return after, place


def refresh(campaign: Campaign, folder: Path) -> Path:
    """Write `prompt.md` anew from the current evidence (C53): rows, last results, journal hits, the last NCU digest."""
    facts: dict[str, Any] = jsonio.read_json(folder / FACTS)
    task: dict[str, Any] = jsonio.read_json(folder / "task.json")
    lines = [
        f"# Kernel task: {facts['kernel']}",
        "",
        f"{facts['share_pct']:.2f} % of the slow stage of {facts['model']} on {facts['gpu']}.",
        f"Contract {str(facts['contract_sha256'])[:12]}.",
        "Only `candidate.py` and `candidate/` may change. Same ABI, same build flags, every row correct, fallback kept.",
        "A bucket near the roofline may end as a no-op with its evidence. The result is no end-to-end gain.",
        "",
        "## Rows",
        "",
        *(f"- {r['id']}: {r['params']} (weight {r['weight']:.4g}; {r['provenance']})" for r in task["rows"]),
        "",
        "## Last results",
        "",
        *_results(folder),
        "",
        "## Known from the journal",
        "",
        *_journal(str(facts["kernel"])),
        "",
        "## Last NCU digest",
        "",
        _digest(campaign, str(facts["kernel"])),
        "",
        "Next: `infer-forge kernel-task run .`, then `infer-forge kernel-task audit .`",
        "",
    ]
    place = folder / "prompt.md"
    jsonio.write_atomic(place, "\n".join(lines))
    return place


def _results(folder: Path) -> list[str]:
    file = folder / "results.json"
    if not file.is_file():
        return ["not measured yet"]
    data: dict[str, Any] = jsonio.read_json(file)
    head = [f"- {data['verdict']}, geometric mean {data['geomean_speedup']}"]
    return head + [f"- {r['id']}: {r['speedup']}" for r in data["rows"]]


def _journal(kernel: str) -> list[str]:
    from infer_forge.journal import open_store, search_report

    with open_store() as store:
        hits = search_report(store, kernel, {}).tables["hits"].dicts()
    return [f"- {h['id']} {h['kind']}: {h['title']}" for h in hits[:6]] or ["nothing"]


def _digest(campaign: Campaign, kernel: str) -> str:
    mine = [n for n in campaign.of("ncu") if kernel in str(n["kernel"]) or str(n["kernel"]) in kernel]
    if not mine:
        return "none"
    file = Path(str(mine[-1]["digest"])) / "digest.json"
    if not file.is_file():
        return f"blocked: {mine[-1]['digest']}"
    edit: dict[str, Any] = jsonio.read_json(file)["next_edit"]
    return f"{edit['edit']} (because {edit['why']}); verify: `{edit['verify_command']}`"


def close(campaign: Campaign, folder: Path) -> Campaign:
    """Audit a kernel task and record its result, per row and as geometric mean; an audit that is not clean is recorded as such."""
    from infer_forge.kernel_task import audit

    task = _task_of(campaign, folder)
    report = audit(folder)
    data: dict[str, Any] = jsonio.read_json(folder / "results.json")
    refresh(campaign, folder)
    speed = data["geomean_speedup"]
    no_op = any(b.get("no_op") for b in data.get("buckets", []))
    clean = report.extra["verdict"] == "clean"
    outcome = "accepted" if clean and speed is not None and speed > 1 else "no_op" if clean and no_op else "rejected"
    body = {
        "kernel_task": task.id, "claim": "kernel_task", "audit": report.extra["verdict"], "geomean_speedup": speed, "outcome": outcome,
        "rows": {str(r["id"]): r["speedup"] for r in data["rows"]}, "results_sha256": jsonio.sha256_file(folder / "results.json"),
    }  # fmt: skip
    return book.append(campaign, "kernel_result", body)


def promote(campaign: Campaign, folder: Path, traces: Sequence[Path]) -> Campaign:
    """Turn a kernel result into an end-to-end claim (C55, C59).

    Raises:
        GateRefused: no clean accepted result, no accepted attempt with a deciding gap verdict, or the kernel is in no new trace.
    """
    task = _task_of(campaign, folder)
    mine = [r for r in campaign.of("kernel_result") if r["kernel_task"] == task.id]
    if not mine or mine[-1]["outcome"] != "accepted":
        raise GateRefused(
            "the kernel task has no clean, faster result",
            where=str(folder),
            next_step=f"infer-forge kernel-task run {folder}",
        )
    attempt = next((a for a in reversed(campaign.of("attempt")) if a["idea"] == task["idea"]), None)
    result = next(
        (r for r in campaign.of("result") if attempt and r["attempt"] == attempt.id and r["outcome"] == "accepted"),
        None,
    )
    if attempt is None or result is None:
        raise GateRefused(
            "no accepted attempt of its idea: a kernel gain is no gain of the model",
            next_step="wire it in, infer-forge campaign record attempt, measure, record result",
        )
    gap = campaign.find(str(result["gap"]))
    if gap is None or any(str(s["verdict"]).startswith("void") for s in gap["scenarios"]):
        raise GateRefused(
            "no gap verdict on the contract stands behind it", next_step="infer-forge campaign record gap"
        )
    fresh = _new_traces(campaign, attempt, result, traces)
    state, _ = mechanism.search_files(re.escape(str(task["kernel"])), fresh)
    if state != mechanism.SEEN:
        raise GateRefused(
            f"the kernel is {state} in {len(fresh)} new traces", next_step="capture the accepted state, then promote"
        )
    body = {
        "kernel_task": task.id,
        "claim": "model_e2e",
        "gap": gap.id,
        "result": result.id,
        "traces": [str(t) for t in fresh],
    }
    return book.append(
        campaign, "kernel_promotion", {**body, "measurement": result["measurement"], "best": _best(campaign)}
    )


def _new_traces(campaign: Campaign, attempt: Record, result: Record, traces: Sequence[Path]) -> list[Path]:
    """Traces written since the attempt began that no earlier profile was made of."""
    old = {str(t["sha256"]) for p in campaign.of("profile") if p.number < result.number for t in p["traces"]}
    since = datetime.fromisoformat(attempt.at.replace("Z", "+00:00")).timestamp()
    there = [t for t in traces if t.is_file() and t.stat().st_mtime >= since]
    return [t for t in there if jsonio.sha256_file(t) not in old]


def _best(campaign: Campaign) -> str | None:
    best = verdicts.best_measurement(campaign)
    return best.id if best else None


def _task_of(campaign: Campaign, folder: Path) -> Record:
    wanted = str(folder.absolute())
    found = next((k for k in reversed(campaign.of("kernel_task")) if k["folder"] == wanted), None)
    if found is None:
        raise InputUnusable(
            "is no kernel task of this campaign", where=wanted, next_step="infer-forge kernel-task new --campaign RUN"
        )
    return found
