"""`draft.md` for gen-plan and the refined plan of the loop, both from the locked contract and the same clauses (A77 to A90, C25, C28)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.records import InputFile, Report
from infer_forge.base.tables import Table
from infer_forge.campaign.facts import Facts, facts_of, scenario_words
from infer_forge.campaign.gates import FAIL
from infer_forge.campaign.plan_lint import data, lint, lint_file
from infer_forge.campaign.rlcr.model import PLAN

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign

__all__ = ["PLAN", "draft_text", "facts_of", "plan_text", "write_draft", "write_plan"]


def _cell(value: Any) -> str:
    text = "unknown" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return " ".join(text.replace("|", "\\|").split())


def _rows(head: list[str], rows: list[list[Any]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(map(_cell, r))} |" for r in rows)]


def _goal(facts: Facts) -> list[str]:
    c = facts.contract
    better = "higher" if c.metric.higher_is_better else "lower"
    return [
        f"Make SGLang serve {facts.model} on {facts.hardware} ({facts.numbers}, {facts.topology}) at least as well as the best",
        f"reproducible result of {', '.join(facts.rivals)} in the same environment: on every locked scenario the gap verdict for",
        f"{c.metric.name} ({c.metric.unit}, {better} is better) is ahead, tie or not_behind at a threshold of {facts.threshold_pct:g} per cent,",
        "inside the SLA, by changes of SGLang code that are proved to work.",
    ]


def _places(facts: Facts) -> list[str]:
    lock = f"sha256 {facts.sha256}" if facts.sha256 else "not locked yet"
    return [
        f"- Model: {facts.model}; tokenizer {_cell(facts.contract.point.model.tokenizer or 'of the model')}",
        f"- Hardware: {facts.hardware}; {facts.numbers}; {facts.topology}",
        f"- Target: SGLang in {facts.checkout}; rivals: {', '.join(facts.rivals)}",
        f"- Contract: {facts.run}/benchmark/contract.json, {lock}",
        f"- Artifact root: {facts.root}; run directory: {facts.run}",
        f"- PR-history notes: {facts.history}",
        f"- Locked fairness diagnostics: {facts.run}/benchmark/fairness/diagnostics.md; this round's: {facts.run}/analysis/fairness-diagnostics.md",
        f"- Exact launch and benchmark commands of the winners: {facts.run}/benchmark/winning-commands.md",
    ]


def _workload(facts: Facts) -> list[str]:
    c = facts.contract
    rows = [
        [
            s.name,
            s.input_len,
            s.output_len,
            s.num_prompts,
            "/".join("unbounded" if n is None else str(n) for n in s.concurrencies),
            s.request_rate,
        ]
        for s in c.grid.scenarios
    ]
    sampling = f"temperature {c.sampling.temperature:g}, top_p {c.sampling.top_p:g}, ignore_eos {str(c.sampling.ignore_eos).lower()}"
    return [
        *_rows(["scenario", "input tokens", "output tokens", "prompts", "concurrency", "request rate"], rows),
        "",
        f"Data kind {c.grid.kind}; endpoint {c.client.endpoint}; {sampling}, streaming {str(c.sampling.streaming).lower()}; seeds {', '.join(map(str, c.seeds))}.",
        f"SLA: {facts.sla}.",
    ]


def _winners(facts: Facts) -> list[str]:
    if not facts.winners:
        return ["The baseline is not locked yet."]
    rows = [
        [w["scenario"], w["framework"], w["candidate_id"], w["mean"], w["metric"], w["launches"]] for w in facts.winners
    ]
    return _rows(["scenario", "framework", "candidate", "mean", "metric", "launches"], rows)


def _obligations() -> list[str]:
    return [f"- {ident}: {clause['plan']}" for ident, clause in data()["clauses"].items()]


def _calls() -> list[str]:
    return [f"- {text}" for text in data()["calls"].values()]


def _criteria(facts: Facts) -> list[str]:
    accuracy = ", ".join(
        f"{a.dataset} {a.metric} within {a.tolerance:g} of its baseline" for a in facts.contract.accuracy
    )
    quality = facts.contract.quality
    held = accuracy or (_quality_words(quality) if quality else "the accuracy files that the contract names")
    run = f"--run {facts.run}"
    table: list[tuple[str, str, list[str], list[str]]] = [
        (
            "AC-1",
            "The locked contract and the locked winner table are unchanged to the end.",
            [f"`infer-forge campaign check --phase contract {run}` and `--phase baseline` show no fail"],
            ["a run with another workload, a dropped scenario, another model or another SLA is refused and counts for nothing"],
        ),
        (
            "AC-2",
            "On every locked scenario the gap verdict of the accepted state is ahead, tie or not_behind; or one of the stop codes A152, A153 stands on recorded evidence.",
            [f"`infer-forge campaign stop-check {run}` exits 0"],
            ["behind, sla_fail, void or insufficient on one scenario keeps the loop open; a single faster run decides nothing"],
        ),
        (
            "AC-3",
            f"Every accepted patch cites throughput, TTFT and TPOT, peak device memory, accuracy and stability, and its mechanism is seen at work. Accuracy: {held}.",
            [f"`infer-forge campaign check --phase result {run}` shows no fail"],
            ["a patch whose mechanism is not seen, whose accuracy falls outside the tolerance, or which is not active in the measured commit is rejected"],
        ),
        (
            "AC-4",
            "Every attempt, idea, profile, dismissal and result stands in the ledger, and every row of the coverage has an answer.",
            [f"`infer-forge campaign coverage {run} --require complete` exits 0"],
            ["an edited ledger, a number without a record, or a profile of an older state is noticed and refused"],
        ),
        (
            "AC-5",
            "Each round was held by a current claim, began with a journal search, and ran no command that the guard denied; the clean-up ended only what this run started.",
            [f"`infer-forge campaign check --phase round {run}` shows no fail"],
            ["a fenced claim, a round without a search record, or a process of somebody else among those ended is refused"],
        ),
    ]  # fmt: skip
    lines: list[str] = []
    for name, says, passes, fails in table:
        lines += [f"- {name}: {says}", "  - Positive Tests (must pass):", *(f"    - {t}" for t in passes)]
        lines += ["  - Negative Tests (must be refused):", *(f"    - {t}" for t in fails)]
    return lines


def _quality_words(quality: Any) -> str:
    if quality.byte_identical:
        return "output identical byte for byte"
    bounds = [f"PSNR at least {quality.min_psnr_db:g} dB"] if quality.min_psnr_db is not None else []
    bounds += [f"SSIM at least {quality.min_ssim:g}"] if quality.min_ssim is not None else []
    return ", ".join(bounds) or "the output similarity that the contract names"


def _boundaries(facts: Facts) -> list[str]:
    fork = facts.fork or "the configured fork"
    return [
        f"- May change: SGLang sources in {facts.checkout}, on a branch of their own, and files of the run directory.",
        "- At the most: several minimal patches along the profiled bottleneck; at the least: one patch, or a stop code with its evidence.",
        "- Never changed: contract, workload, client, scoring, tolerances, tests that judge, the winners, and every other framework's checkout.",
        f"- Pull once at the beginning; no reset, no rebase, no push to upstream; a pull request goes to {fork} only.",
        "- Ended or deleted is only what this run started or declared, by its recorded id; shared model caches stay.",
        "- No secret in any file; a refused download (401, 403, 404) is recorded before a mirror is tried.",
    ]


def _milestones() -> list[str]:
    return [
        "1. Decide the gap of the accepted state; where nothing is behind, verify, report and stop.",
        "2. Explain the gap: profile both sides, triage, layer pipeline, root cause, ceiling, coverage.",
        "3. Write the idea with its expected gain (bounded by its headroom), then the smallest patch that tests it, and commit it.",
        "4. Validate on the real model: throughput, latency, memory, accuracy, stability, mechanism; accept or reject, and record both.",
        "5. Repeat from 1 until a stop code stands on evidence; then review, report, clean up.",
    ]


def plan_text(facts: Facts) -> str:
    """The refined plan."""
    b = facts.contract.budgets
    wait = f"at most {facts.wait_minutes} minutes for GPUs that others hold, then report"
    run = f"--run {facts.run}"
    lines = [f"# SOTA loop plan: SGLang on {facts.model}, {facts.hardware}", ""]

    def part(title: str, *blocks: list[str]) -> None:
        lines.extend([f"## {title}", ""])
        for block in blocks:
            lines.extend([*block, ""])

    part("Goal Description", _goal(facts))
    part("Facts", _places(facts))
    part("Locked Workload and SLA", _workload(facts))
    part("Locked Winners", _winners(facts))
    part("Acceptance Criteria", _criteria(facts))
    part("Path Boundaries", _boundaries(facts))
    part("Obligations of Every Round", _obligations())
    begin = f"Each round begins with these three calls, which `{data()['begin']}` records, and ends with `{data()['close']}`, which records them again:"
    part("Calls of Every Round", [begin], _calls())
    part("Milestones", _milestones())
    part(
        "Implementation Notes",
        [
            f"- The one next step, with its command, is always `infer-forge campaign next {run}`; the state in short is `infer-forge campaign status {run}`.",
            "- Commit the change before the round ends: the tree must be clean, and a changed file of more than 2,000 lines must not be left uncommitted.",
            f"- Limits: {b.max_launches_per_engine} launches of each engine, {facts.max_rounds} rounds; {wait}.",
            *(f"- Focus: {_cell(f)}" for f in facts.focus),
            *(f"- Required: {_cell(r)}" for r in facts.requirements),
            "- Anything that stops the work and is none of the stop codes A150 to A153 is a blocked handoff: what was tried, and what is needed.",
        ],
    )
    return "\n".join(lines).rstrip() + "\n"


def draft_text(facts: Facts) -> str:
    """The draft from which gen-plan makes a plan: what is wanted and what binds, without the plan's own structure (C28)."""
    scenarios = [f"- {scenario_words(s)}" for s in facts.contract.grid.scenarios]
    lines = [
        f"# Draft: SGLang on {facts.model}, {facts.hardware}",
        "",
        "## What is wanted",
        "",
        *_goal(facts),
        "",
        "## What is fixed",
        "",
        *_places(facts),
        "",
        *scenarios,
        "",
        f"SLA: {facts.sla}.",
        "",
        *_winners(facts),
        "",
        "## What every round owes",
        "",
        "Keep these in the plan, each as an item of its own:",
        "",
        *_obligations(),
        "",
        *_calls(),
        "",
        "## Where the work ends",
        "",
        *_boundaries(facts),
        "",
        "The plan needs: a goal, acceptance criteria named AC-1 and on, each with positive and negative tests, path boundaries,",
        "milestones, implementation notes.",
        *([""] if facts.focus or facts.requirements else []),
        *(f"- Focus: {_cell(f)}" for f in facts.focus),
        *(f"- Required: {_cell(r)}" for r in facts.requirements),
    ]
    return "\n".join(lines).rstrip() + "\n"


def write_draft(
    campaign: Campaign, to: Path | None = None, *, focus: list[str] | None = None, requirements: list[str] | None = None
) -> Report:
    """Write `draft.md` (C28).

    Raises:
        GateRefused: no contract is locked.
    """
    facts = facts_of(campaign, focus=focus, requirements=requirements)
    place = to or campaign.layout.run / "draft.md"
    _write(place, draft_text(facts))
    report = Report("campaign_draft")
    report.extra = {"path": str(place), "sha256": jsonio.sha256_file(place)}
    report.summary = [f"draft: {place}"]
    report.next_step = f"/humanize:gen-plan --input {place} --output {facts.root}/plan.md, then infer-forge campaign plan --adopt {facts.root}/plan.md"
    return report


def write_plan(
    campaign: Campaign,
    to: Path | None = None,
    *,
    adopt: Path | None = None,
    focus: list[str] | None = None,
    requirements: list[str] | None = None,
) -> Report:
    """Write the refined plan where the loop expects it (A77), and hold it against the linter and Humanize's own input rules.

    Args:
        to: another place inside the checkout.
        adopt: take this plan (of Humanize's gen-plan, or by hand) instead of our template, once the linter passes it.

    Raises:
        GateRefused: contract or baseline is not locked, a loop is active (its plan must not change), or the adopted plan fails.
        UsageFault: the place is outside of the checkout.
    """
    from infer_forge.campaign.rlcr.loops import loops_in

    facts = facts_of(campaign, focus=focus, requirements=requirements)
    if campaign.baseline is None:
        raise GateRefused(
            "no baseline is locked (A76)", where=facts.run, next_step="infer-forge campaign lock --baseline"
        )
    checkout = Path(facts.checkout)
    place = _inside(checkout, to)
    active = [item.folder.name for item in loops_in(checkout) if item.active]
    if active and place.is_file():
        raise GateRefused(
            f"the loop {active[-1]} is active: its plan must not change",
            where=str(place),
            next_step="end the loop first",
        )
    text = plan_text(facts) if adopt is None else _adopted(adopt, campaign)
    _write(place, text)
    return _plan_report(campaign, facts, place, text)


def _adopted(source: Path, campaign: Campaign) -> str:
    faults = [c for c in lint_file(source, campaign) if c.result == FAIL]
    if faults:
        told = "; ".join(f"{c.rule}: {c.evidence}" for c in faults[:4])
        raise GateRefused(f"the plan is not complete: {told}", where=str(source), next_step=faults[0].fix)
    return source.read_text(encoding="utf-8", errors="replace")


def _inside(checkout: Path, to: Path | None) -> Path:
    if to is None:
        return checkout / PLAN
    place = (checkout / to).resolve()
    if checkout.resolve() not in place.parents:
        raise UsageFault("the plan must lie inside the checkout", where=str(to), next_step=f"leave --to out: {PLAN}")
    return place


def _write(place: Path, text: str) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        jsonio.write_atomic(place, text)
    except OSError as fault:
        raise UsageFault(
            fault.strerror or str(fault), where=str(place), next_step="name a place that can be written"
        ) from None


def _plan_report(campaign: Campaign, facts: Facts, place: Path, text: str) -> Report:
    from infer_forge.campaign.rlcr.plan_input import input_faults
    from infer_forge.campaign.rlcr.tree import look

    checkout = Path(facts.checkout)
    name = place.relative_to(checkout if checkout in place.parents else checkout.resolve()).as_posix()
    refused = input_faults(name, checkout, look(checkout))
    made = lint(text, campaign)
    faults = [f"{c.rule}: {c.evidence}" for c in made if c.result == FAIL] + [f"A90: {f}" for f in refused]
    report = Report("campaign_plan")
    report.header.inputs = [InputFile.of(campaign.layout.bench.contract), InputFile.of(campaign.layout.bench.baseline)]
    report.add(Table("checks", ["rule", "result", "evidence"], [(c.rule, c.result, c.evidence) for c in made]))
    report.extra = {
        "path": str(place),
        "sha256": jsonio.sha256_file(place),
        "verdict": "fail" if faults else "pass",
        "faults": faults,
    }
    report.summary = [
        f"plan: {place}",
        f"{'fail' if faults else 'pass'}: {len(made)} rules, {len(faults)} faults",
        *faults[:5],
    ]
    report.next_step = f"infer-forge campaign record plan --run {facts.run} --set path={place}"
    return report
