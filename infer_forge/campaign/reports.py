"""`campaign report`: fairness, root cause, layer pipeline, final report; made from records, then completed by the agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.campaign import book, coverage, gates, pages, verdicts
from infer_forge.campaign.book import Campaign, Record

KINDS = ("fairness", "root-cause", "layer-pipeline", "final", "all")


def write_report(
    campaign: Campaign, kind: str, *, code: str | None = None, evidence: Sequence[str] = (), stage: str | None = None
) -> tuple[Campaign, Report]:
    """Write one report and record it.

    Raises:
        UsageFault: no such kind. GateRefused: its gate does not hold.
    """
    if kind == "fairness":
        after = _fairness(campaign)
    elif kind == "root-cause":
        after = _root_cause(campaign, stage)
    elif kind == "layer-pipeline":
        after = _layers(campaign, stage)
    elif kind == "final":
        from infer_forge.campaign.final import write_final

        after = write_final(campaign, code, evidence)
    elif kind == "all":
        from infer_forge.campaign.views import write_views

        write_views(campaign)
        after = campaign
    else:
        raise UsageFault(f"there is no report {kind!r}", next_step=f"use one of {', '.join(KINDS)}")
    from infer_forge.campaign.advice import next_step

    report = Report("campaign_report", header=Header(inputs=[InputFile.of(after.layout.ledger)]))
    last = after.records[-1]
    report.extra = {
        "id": last.id if after is not campaign else None,
        "path": last.get("path") if after is not campaign else None,
        "kind_of_report": kind,
    }
    report.summary = [f"written {last['path']} ({last.id})" if after is not campaign else "views written again"]
    report.next_step = next_step(after).command
    return after, report


def _keep(
    campaign: Campaign, kind: str, place: Path, title: str, body: str, invitation: str, facts: dict[str, Any]
) -> Campaign:
    part = pages.write_page(place, title, body, invitation)
    return book.append(campaign, kind, {"path": campaign.layout.relative(place), "part_sha256": part, **facts})


def _sides_text(campaign: Campaign, measurement: Record | None) -> tuple[str, list[str]]:
    """The fairness report of some rows as Markdown, and what blocks."""
    from infer_forge.base.tables import Column, Table
    from infer_forge.bench.fairness import diagnose, parity_matrix

    assert campaign.contract is not None
    sides = verdicts.sides_of(campaign, measurement)
    found = diagnose(sides, campaign.contract[0])
    table = Table(
        "t",
        [Column(c, "text") for c in ("id", "question", "result", "blocks", "evidence")],
        [(d.id, d.question, d.result, d.blocks, d.evidence) for d in found],
    )
    chosen = campaign.inputs["frameworks"]
    names = [f"Selected: sglang (target), {', '.join(chosen['selected'])}."]
    names += [f"Excluded by the user: {n} ({why})." for n, why in chosen["excluded"].items()]
    names += [f"Unsupported here: {n} ({why})." for n, why in chosen["unsupported"].items()]
    own = _framework_facts(sides)
    text = "\n\n".join(
        [" ".join(names), "## Diagnostics\n\n" + table.to_md(), "## Parity\n\n" + parity_matrix(sides).to_md(), *own]
    )
    blocking = [f"{d.id} {d.question}: {d.result}, {d.evidence}" for d in found if d.blocks and d.id != "E9"]
    return text, blocking


def _framework_facts(sides: verdicts.Sides) -> list[str]:
    """A107 to A111: speculation, phase times, cache, memory by framework; a framework's own parameters from its command."""
    from infer_forge.base.tables import Column, Table

    fields = [f"spec_decode.{n}" for n in ("enabled", "algorithm", "num_steps", "mean_accept_length")]
    fields += [f"phase_metrics.{n}_ms" for n in ("queue", "scheduler", "tokenizer", "detokenizer")]
    fields += ["cache.prefix_cache_enabled", "cache.prefix_cache_hit_rate"]
    memory = ("gpu_memory_utilization", "kv_cache_dtype", "cpu_offload_gb", "gpu_resident_weight_gb")
    fields += [f"memory.{n}" for n in memory]
    rows = [
        [f, *(next((r.value(f) for r in rows if r.value(f) is not None), None) for rows in sides.values())]
        for f in fields
    ]
    table = Table("t", [Column("field", "text"), *(Column(n, "text") for n in sides)], rows)
    commands = [f"- {name}: `{rows[-1].server_command}`" for name, rows in sides.items() if rows]
    return ["## Speculation, phases, cache, memory\n\n" + table.to_md(), "## Commands\n\n" + "\n".join(commands)]


def write_locked_fairness(campaign: Campaign) -> None:
    """The locked fairness report of the baseline (A27)."""
    text, _ = _sides_text(campaign, None)
    assert campaign.contract is not None
    jsonio.write_atomic(
        campaign.layout.fairness_locked,
        f"# Fairness of the locked baseline\n\ncontract {campaign.contract[1]}\n\n{text}\n",
    )


def _fairness(campaign: Campaign) -> Campaign:
    gates.require(campaign, "A51", "A100", "A102", what="the fairness report")
    gap = verdicts.current(campaign)
    if gap is None:
        raise GateRefused("no gap verdict of the accepted state", next_step="infer-forge campaign record gap")
    measurement = campaign.find(str(gap["measurement"])) if gap["measurement"] else None
    text, blocking = _sides_text(campaign, measurement)
    head = f"Gap {gap.id} ({gap['overall']}), round {campaign.round_number}. Locked report: `benchmark/fairness/diagnostics.md`."
    return _keep(
        campaign,
        "fairness",
        campaign.layout.fairness_current,
        "Fairness of the current rows",
        f"{head}\n\n{text}",
        "Notes:",
        {"gap": gap.id, "blocking": blocking},
    )


def _loser(campaign: Campaign) -> tuple[Record, dict[str, Any]]:
    gap = verdicts.current(campaign)
    loser = verdicts.worst(gap) if gap else None
    if gap is None or loser is None:
        raise GateRefused("SGLang is not behind: there is no gap to explain", next_step="infer-forge campaign next")
    return gap, loser


def _profile(campaign: Campaign, framework: str) -> Record | None:
    return next((p for p in reversed(campaign.in_round("profile")) if p["framework"] == framework), None)


def _traces(profile: Record) -> list[str]:
    for trace in profile["traces"]:
        if trace["sha256"] and jsonio.sha256_file(str(trace["path"])) != trace["sha256"]:
            raise GateRefused(
                "the trace is not the one that was recorded",
                where=str(trace["path"]),
                next_step="restore it, or profile again",
            )
    return [str(t["path"]) for t in profile["traces"]]


def _root_cause(campaign: Campaign, stage: str | None) -> Campaign:
    gates.require(campaign, "A100", "A102", "A114", what="the root-cause report")
    gap, loser = _loser(campaign)
    mine = _profile(campaign, "sglang")
    if mine is None:
        raise GateRefused("SGLang was not profiled in this round", next_step="infer-forge campaign record profile")
    interval = f"(interval {_pct(loser['low_pct'])} to {_pct(loser['high_pct'])})"
    whom = f"{loser['scenario']} {loser['verdict']} against {loser['against']}"
    lines = [f"Gap {gap.id}: {whom}, {_pct(loser['mean_pct'])} {interval}."]
    profiles, comparisons, slow, common = [mine.id], list[dict[str, Any]](), None, list[str]()
    tables: list[tuple[str, Report]] = []
    for rival in verdicts.leading(gap):
        theirs = _profile(campaign, rival)
        if theirs is None:
            lines.append(f"{rival} could not be profiled; its blocker is in the ledger.")
            continue
        report, kept = _compared(campaign, gap, mine, theirs, first=not comparisons)
        profiles.append(theirs.id)
        comparisons.append(kept)
        tables.append((rival, report))
        shared = [s for s in mine["stages"] if s in theirs["stages"] and s in (common or mine["stages"])]
        common = shared or common
        slow = slow or _slower([r for r in report.tables["stages"].dicts() if r["stage"] in shared])
        lines.append(f"Comparison (a is SGLang, b is {rival}): `{kept['path']}`.")
    chosen = stage or slow or _longest(mine, common)
    if chosen not in mine["stages"]:
        raise UsageFault(f"SGLang's profile has no stage {chosen}", next_step=f"stages: {', '.join(mine['stages'])}")
    shares = coverage.families(coverage.triage(campaign, mine), chosen)[:12]
    lines.append(f"Slower stage: {chosen}.")
    hot = "\n".join(f"- {n}: {s:.2f} %" for n, s in shares)
    parts = [" ".join(lines), f"## SGLang kernels of {chosen}\n\n{hot}"]
    parts += [part for rival, report in tables for part in _comparison(rival, report, chosen)]
    facts: dict[str, Any] = {"gap": gap.id, "profiles": profiles, "comparisons": comparisons}
    facts |= {"stage": chosen, "families": [n for n, _ in shares]}
    facts |= {"comparison": comparisons[0]} if comparisons else {}
    invitation = "Candidates in the source (path, symbol, why):"
    place = campaign.layout.root_cause
    return _keep(campaign, "root_cause", place, "Root cause", "\n\n".join(parts), invitation, facts)


def _compared(
    campaign: Campaign, gap: Record, mine: Record, theirs: Record, *, first: bool
) -> tuple[Report, dict[str, Any]]:
    """SGLang's profile against a rival's, kept as a report of its own."""
    from infer_forge.profile import Options, compare

    report = compare(_traces(mine), _traces(theirs), Options(min_share=0.0))
    name = f"compare-{gap.id}" + ("" if first else f"-{theirs['framework']}")
    place = campaign.layout.run / "analysis" / f"{name}.json"
    jsonio.write_atomic(place, report.render("json"))
    kept = {
        "path": campaign.layout.relative(place),
        "sha256": jsonio.sha256_file(place),
        "against": theirs["framework"],
    }
    return report, kept


def _comparison(rival: str, report: Report, stage: str) -> list[str]:
    """The tables of one comparison as sections."""
    names = ("stages", "kernel", "overlap", "fuse", "host")
    return [f"## {n} against {rival}\n\n{_top(report.tables[n], stage)}" for n in names if n in report.tables]


def _pct(value: Any) -> str:
    return "unknown" if value is None else f"{float(value):.2f} %"


def _longest(profile: Record, common: Sequence[str] = ()) -> str:
    """The longest stage, of those that the rivals' profiles show too where there are any."""
    return str(max(common or profile["stages"], key=lambda s: profile["stages"][s] or 0.0))


def _slower(rows: list[dict[str, Any]]) -> str | None:
    """The stage in which SGLang (a) loses the most wall time a step."""
    losing = [r for r in rows if r["diff_ms_per_step"] is not None and r["diff_ms_per_step"] < 0]
    return str(min(losing, key=lambda r: float(r["diff_ms_per_step"]))["stage"]) if losing else None


def _top(table: Any, stage: str, most: int = 12) -> str:
    from infer_forge.base.tables import Table

    rows = table.rows
    if "stage" in table.names and table.name != "stages":
        index = table.names.index("stage")
        rows = [r for r in rows if r[index] == stage]
    return Table(table.name, table.columns, rows[:most]).to_md()


def _layers(campaign: Campaign, stage: str | None) -> Campaign:
    gates.require(campaign, "A100", "A114", "A122", what="the layer-pipeline report")
    _, _ = _loser(campaign)
    mine, cause = _profile(campaign, "sglang"), campaign.last("root_cause")
    assert mine is not None
    assert cause is not None
    from infer_forge.pipeline import Options, analyse_pipeline

    config = Path(str(campaign.inputs.get("model_dir", ""))) / "config.json"
    chosen = stage or str(cause["stage"])
    known = config if config.is_file() and _shaped(config) else None
    options = Options(config=known, stage=chosen, triage=campaign.layout.run / str(mine["triage"]))
    report = analyse_pipeline(_traces(mine), options)
    place = campaign.layout.run / "analysis" / f"pipeline-{cause.id}.json"
    jsonio.write_atomic(place, report.render("json"))
    flow = report.tables["flow"].dicts() if "flow" in report.tables else []
    hot = sorted(flow, key=lambda r: -float(r["dur_us"] or 0))
    kernels = list(dict.fromkeys(str(r["kernel"]) for r in hot))[:10]
    names = ("passes", "clusters", "layers", "flow", "ranges")
    tables = [f"## {n}\n\n{_top(report.tables[n], chosen, 24)}" for n in names if n in report.tables]
    head = "\n".join(f"- {line.strip()}" for line in report.summary)
    whose = (
        f"model config `{config}`"
        if known
        else "the model's config.json is not at hand: layers are found from the kernels alone"
    )
    body = "\n\n".join(
        [f"Stage {chosen}; trace {mine.id}; {whose}; report `{campaign.layout.relative(place)}`.", head, *tables]
    )
    facts = {
        "gap": cause["gap"],
        "root_cause": cause.id,
        "profile": mine.id,
        "stage": chosen,
        "kernels": kernels,
        "report": {"path": campaign.layout.relative(place), "sha256": jsonio.sha256_file(place)},
        "config_sha256": jsonio.sha256_file(config) if known else None,
    }
    return _keep(
        campaign,
        "layer_pipeline",
        campaign.layout.layer_pipeline,
        "Layer pipeline",
        body,
        "Why this pass and these layers:",
        facts,
    )


def _shaped(config: Path) -> bool:
    """Whether the config states layers, so that it can be held against the trace."""
    data: Any = jsonio.read_json(config)
    return isinstance(data, dict) and "num_hidden_layers" in data
