"""`draft.md` for gen-plan and the refined plan of the loop, both from the locked contract and the same clauses (A77 to A90, C25, C28)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.records import InputFile, Report
from infer_forge.base.resources import data_path
from infer_forge.base.tables import Table
from infer_forge.campaign.facts import Facts, facts_of, load_words
from infer_forge.campaign.gates import FAIL
from infer_forge.campaign.plan_lint import data, lint, lint_file
from infer_forge.campaign.rlcr.model import PLAN

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign

__all__ = ["PLAN", "draft_text", "facts_of", "plan_text", "write_draft", "write_plan"]


def _cell(value: Any) -> str:
    text = "unknown" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return " ".join(text.replace("|", "\\|").split())


def _items(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _rows(head: list[str], rows: list[list[Any]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(map(_cell, r))} |" for r in rows)]


def _goal(facts: Facts) -> str:
    c = facts.contract
    better = "higher" if c.metric.higher_is_better else "lower"
    return (
        f"Make SGLang serve {facts.model} on {facts.hardware} ({facts.numbers}, {facts.topology}) at least as well as the best "
        f"reproducible result of {', '.join(facts.rivals)} in the same environment: on every locked scenario the gap verdict for "
        f"{c.metric.name} ({c.metric.unit}, {better} is better) is ahead, tie or not_behind at a threshold of {facts.threshold_pct:g} per "
        "cent, inside the SLA, by changes of SGLang code that are proved to work."
    )


def _places(facts: Facts) -> str:
    lock = f"sha256 {facts.sha256}" if facts.sha256 else "not locked yet"
    fairness = (
        f"{facts.run}/benchmark/fairness/diagnostics.md; this round's: {facts.run}/analysis/fairness-diagnostics.md"
    )
    lines = [
        f"Model: {facts.model}; tokenizer {_cell(facts.contract.point.model.tokenizer or 'of the model')}",
        f"Hardware: {facts.hardware}; {facts.numbers}; {facts.topology}",
        f"Target: SGLang in {facts.checkout}; rivals: {', '.join(facts.rivals)}",
        f"Contract: {facts.run}/benchmark/contract.json, {lock}",
        f"Artifact root: {facts.root}; run directory: {facts.run}",
        f"PR-history notes: {facts.history}",
        f"Locked fairness diagnostics: {fairness}",
        f"Exact launch and benchmark commands of the winners: {facts.run}/benchmark/winning-commands.md",
    ]
    return _items(lines)


def _workload(facts: Facts) -> str:
    c, s = facts.contract, facts.contract.sampling
    rows = [[w.name, w.input_len, w.output_len, w.num_prompts, load_words(w), w.request_rate] for w in c.grid.scenarios]
    told = f"temperature {s.temperature:g}, top_p {s.top_p:g}, ignore_eos {str(s.ignore_eos).lower()}, streaming {str(s.streaming).lower()}"
    return "\n".join(
        [
            *_rows(["scenario", "input tokens", "output tokens", "prompts", "concurrency", "request rate"], rows),
            "",
            f"Data kind {c.grid.kind}; endpoint {c.client.endpoint}; {told}; seeds {', '.join(map(str, c.seeds))}.",
            f"SLA: {facts.sla}.",
        ]
    )


def _winners(facts: Facts) -> str:
    if not facts.winners:
        return "The baseline is not locked yet."
    names = ["scenario", "framework", "candidate_id", "mean", "metric", "launches"]
    return "\n".join(_rows(names, [[w[n] for n in names] for w in facts.winners]))


def _boundaries(facts: Facts) -> str:
    fork = facts.fork or "the configured fork"
    lines = [
        f"May change: SGLang sources in {facts.checkout}, on a branch of their own, and files of the run directory.",
        "At the most: several minimal patches along the profiled bottleneck; at the least: one patch, or a stop code with its evidence.",
        "Never changed: contract, workload, client, scoring, tolerances, tests that judge, the winners, every other framework's checkout.",
        f"Pull once at the beginning; no reset, no rebase, no push to upstream; a pull request goes to {fork} only.",
        "Ended or deleted is only what this run started or declared, by its recorded id; shared model caches stay.",
        "No secret in any file; a refused download (401, 403, 404) is recorded before a mirror is tried.",
    ]
    return _items(lines)


def _accuracy(facts: Facts) -> str:
    held = ", ".join(f"{a.dataset} {a.metric} within {a.tolerance:g} of its baseline" for a in facts.contract.accuracy)
    quality = facts.contract.quality
    if held or quality is None:
        return held or "the accuracy files that the contract names"
    if quality.byte_identical:
        return "output identical byte for byte"
    bounds = [f"PSNR at least {quality.min_psnr_db:g} dB"] if quality.min_psnr_db is not None else []
    bounds += [f"SSIM at least {quality.min_ssim:g}"] if quality.min_ssim is not None else []
    return ", ".join(bounds) or "the output similarity that the contract names"


def _fields(facts: Facts) -> dict[str, str]:
    words = data()
    return {
        "model": facts.model,
        "hardware": facts.hardware,
        "run": facts.run,
        "goal": _goal(facts),
        "places": _places(facts),
        "workload": _workload(facts),
        "winners": _winners(facts),
        "accuracy": _accuracy(facts),
        "boundaries": _boundaries(facts),
        "obligations": _items([f"{ident}: {clause['plan']}" for ident, clause in words["clauses"].items()]),
        "calls": _items(list(words["calls"].values())),
        "begin": str(words["begin"]),
        "close": str(words["close"]),
        "launches": str(facts.contract.budgets.max_launches_per_engine),
        "rounds": str(facts.max_rounds),
        "wait": str(facts.wait_minutes),
        "asked": _items(
            [*(f"Focus: {_cell(f)}" for f in facts.focus), *(f"Required: {_cell(r)}" for r in facts.requirements)]
        ),
    }


def _filled(name: str, facts: Facts) -> str:
    template = data_path(f"references/{name}").read_text(encoding="utf-8")
    fields = _fields(facts)
    return re.sub(r"\{([a-z]+)\}", lambda m: fields[m[1]], template).rstrip() + "\n"


def plan_text(facts: Facts) -> str:
    """The refined plan, from `references/plan_template.md`."""
    return _filled("plan_template.md", facts)


def draft_text(facts: Facts) -> str:
    """The draft from which gen-plan makes a plan, from `references/draft_template.md` (C28)."""
    return _filled("draft_template.md", facts)


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
    made = f"{facts.root}/plan.md"
    report.next_step = (
        f"/humanize:gen-plan --input {place} --output {made}, then infer-forge campaign plan --adopt {made}"
    )
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
    place = checkout / (to or PLAN)
    linked = next((p for p in (place, *place.parents) if checkout in p.parents and p.is_symlink()), None)
    if linked is not None:
        raise UsageFault(
            "a link stands in the plan's path, which the loop refuses", where=str(linked), next_step="remove the link"
        )
    if to is None:
        return place
    place = place.resolve()
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
