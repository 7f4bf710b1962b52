"""Campaign prompts for RLCR, Codex `/goal` and Claude `/loop`: one contract, one list of obligations, three ways to keep the loop.

What differs between the modes stands in the section `Mode` alone. `parse` reads a prompt back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.base.resources import load_yaml
from infer_forge.base.tables import Table
from infer_forge.campaign.facts import Facts, scenario_words
from infer_forge.campaign.plan_lint import data

if TYPE_CHECKING:
    from infer_forge.campaign.book import Campaign

MODES = ("rlcr", "goal", "loop")
GOAL_LIMIT = 4000
"""Characters that `/goal` takes, in Codex and in Claude Code."""

SECTIONS = (
    "Objective",
    "Verification",
    "Constraints",
    "Boundaries",
    "Each round",
    "Obligations",
    "Blocked",
    "Limits",
    "Mode",
)
"""Sections of a prompt, in order."""

_HEAD = re.compile(r"^\*\*([A-Z][A-Za-z ]+)\.\*\*\s*", re.MULTILINE)
_OBLIGATION = re.compile(r"^- ([A-Za-z0-9-]+): (.+)$", re.MULTILINE)
_LIMIT = re.compile(r"([a-z_]+)=([^;\s]+)")


@dataclass
class Prompt:
    """A prompt as read back: its mode, section texts, obligations by id, limits by name."""

    mode: str
    title: str
    sections: dict[str, str] = field(default_factory=dict[str, str])
    obligations: dict[str, str] = field(default_factory=dict[str, str])
    limits: dict[str, str] = field(default_factory=dict[str, str])


def limits_of(facts: Facts) -> dict[str, str]:
    """Limits of a campaign, as the prompt states and `parse` reads them; `none` is not limited."""
    b = facts.contract.budgets
    return {
        "launches_per_engine": str(b.max_launches_per_engine),
        "bench_minutes": "none" if b.max_minutes is None else f"{b.max_minutes:g}",
        "gpu_hours": "none" if b.max_gpu_hours is None else f"{b.max_gpu_hours:g}",
        "rounds": str(facts.max_rounds),
        "gpu_wait_minutes": str(facts.wait_minutes),
        "min_gpus": str(facts.contract.point.accelerator_platform.gpu_count or "none"),
    }


def _objective(facts: Facts) -> str:
    metric = facts.contract.metric
    return (
        f"SGLang on {facts.model}, {facts.hardware}, {facts.numbers}, {facts.topology}: on every locked scenario the gap verdict for "
        f"{metric.name} against {', '.join(facts.rivals)} is ahead, tie or not_behind (threshold {facts.threshold_pct:g} %), by changes of "
        f"SGLang code in `{facts.checkout}`. In the commands RUN is `{facts.run}` (artifact root `{facts.root}`); "
        "each `campaign` command takes `--run RUN`."
    )


def _verification() -> str:
    return (
        "`infer-forge campaign stop-check --run RUN` exits 0 (stop code A150 to A153). Print it. Nothing else means done, "
        "no words and no single fast run."
    )


def _constraints(facts: Facts) -> str:
    c = facts.contract
    scenarios = "; ".join(scenario_words(s, c.grid.kind) for s in c.grid.scenarios)
    accuracy = ", ".join(f"{a.dataset} {a.metric}" for a in c.accuracy)
    if not accuracy and c.quality is not None:
        accuracy = "output similarity"
    lock = f" ({facts.sha256[:12]})" if facts.sha256 else ""
    search = "each rival gets its own bounded search"
    if c.grid.kind == "diffusion":  # its launches are handed in: `campaign measure --results`
        search += ", or the reason why not is recorded (`campaign measure --results ... --no-search WORDS`)"
    words = [
        f"Contract locked once{lock}, before any result: {c.grid.kind} data, {scenarios}; SLA {facts.sla}.",
        f"Same weights, tokenizer, precision, GPUs, client and sampling for all; {search}.",
        f"No performance claim without accuracy ({accuracy or 'as the contract says'}), memory, stability and mechanism evidence.",
        *(f"Required: {r}." for r in facts.requirements),
        *([f"Focus: {', '.join(facts.focus)}."] if facts.focus else []),
    ]
    return " ".join(words)


def _boundaries(facts: Facts) -> str:
    fork = f"`{facts.fork}`" if facts.fork else "the configured fork"
    return (
        f"Edit only `{facts.checkout}` (own branch) and the run directory; other frameworks' code is read-only. One pull; no reset, "
        f"rebase or push to upstream; a PR goes to {fork}. End only processes that this run started, by id; keep shared caches; no "
        "secrets in files."
    )


def _round() -> str:
    calls = " ".join(f"({k}) {v}" for k, v in data()["calls"].items())
    return (
        "Do the one step that `infer-forge campaign next --run RUN` names; after a lost chat, `infer-forge campaign status` first. "
        f"A round begins with {calls} `{data()['begin']}` records all three; `{data()['close']}` ends it, once "
        "`infer-forge campaign check --phase round` shows no fail. No patch outside of a round."
    )


def _mode(mode: str) -> str:
    if mode == "goal":
        return (
            "goal: this Goal is the only loop. Complete only after stop-check exits 0; a spent budget is not complete. The same blocker in "
            "three turns: record it, set blocked."
        )
    if mode == "loop":
        return (
            "loop: each wake-up does one next step and reports it in two lines. While a job runs, wake in at most 20 minutes. Stop waking "
            "when stop-check exits 0 or a blocked handoff is recorded."
        )
    return (
        "rlcr: `infer-forge campaign plan --run RUN`, `infer-forge campaign doctor --moment before --run RUN`, then the start line it "
        "prints. Exit code not 0, or no active state: stop and report. Then `infer-forge campaign doctor --moment after --run "
        "RUN`. Per round: read the round prompt, write its contract, work, commit, write the summary, `infer-forge campaign doctor "
        "--moment round --run RUN`, end the turn so that the Stop hook reviews; when it blocks, follow the next prompt exactly. "
        "At the end `infer-forge campaign doctor --moment end --run RUN`."
    )


def render(mode: str, facts: Facts) -> str:
    """The prompt of a mode.

    Raises:
        UsageFault: no such mode, or a `goal` prompt longer than `/goal` takes.
    """
    if mode not in MODES:
        raise UsageFault(f"no mode is called {mode!r}", next_step=f"use one of {', '.join(MODES)}")
    obligations = "\n".join(f"- {ident}: {clause['short']}" for ident, clause in data()["clauses"].items())
    blocked = (
        "No GPUs, evidence that cannot be trusted, budget used up, or no defensible next patch: `infer-forge campaign record blocker` with "
        "what was tried and what is needed, then stop and report. That is a handoff, never complete."
    )
    limits = "; ".join(f"{k}={v}" for k, v in limits_of(facts).items())
    texts = {
        "Objective": _objective(facts),
        "Verification": _verification(),
        "Constraints": _constraints(facts),
        "Boundaries": _boundaries(facts),
        "Each round": _round(),
        "Obligations": "\n" + obligations,
        "Blocked": blocked,
        "Limits": limits,
        "Mode": _mode(mode),
    }
    body = "\n".join(f"**{name}.** {texts[name]}" for name in SECTIONS).replace(" \n", "\n")
    text = f"# SOTA campaign ({mode}): SGLang on {facts.model}, {facts.hardware}\n{body}\n"
    if mode == "goal" and len(text) > GOAL_LIMIT:
        raise UsageFault(
            f"the prompt has {len(text)} characters, /goal takes {GOAL_LIMIT}",
            next_step="shorten --focus and --require, or the paths; long requirements belong into the plan",
        )
    return text


def parse(text: str) -> Prompt:
    """Read a rendered prompt back.

    Raises:
        InputUnusable: it is none: a section is missing or they are out of order.
    """
    title = re.match(r"# SOTA campaign \((\w+)\): (.+)\n", text)
    heads = list(_HEAD.finditer(text))
    names = [h[1] for h in heads if h[1] in SECTIONS]
    if title is None or names != list(SECTIONS):
        raise InputUnusable("is no campaign prompt", next_step="infer-forge campaign prompt --mode rlcr|goal|loop")
    prompt = Prompt(title[1], title[2])
    for index, head in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(text)
        prompt.sections[head[1]] = text[head.end() : end].strip()
    prompt.obligations = dict(_OBLIGATION.findall(prompt.sections["Obligations"]))
    prompt.limits = dict(_LIMIT.findall(prompt.sections["Limits"]))
    return prompt


def prompt_report(mode: str, facts: Facts) -> Report:
    """The answer of `campaign prompt`: the text itself, its length, obligations and limits."""
    text = render(mode, facts)
    read = parse(text)
    report = Report("campaign_prompt", text=text)
    report.add(Table("obligations", ["id", "text"], list(read.obligations.items())))
    report.extra = {
        "mode": mode,
        "characters": len(text),
        "prompt": text,
        "limits": read.limits,
        "contract_sha256": facts.sha256,
    }
    report.next_step = {
        "goal": "write it with --out FILE, paste it behind /goal",
        "loop": "write it with --out FILE, paste it behind /loop",
        "rlcr": "give it to the executor, which starts the review loop itself",
    }[mode]
    if facts.sha256 and mode != "rlcr":
        report.next_step += f", and record it: infer-forge campaign record plan --run {facts.run} --set path=FILE"
    return report


def prompt_of(
    campaign: Campaign, mode: str, *, focus: list[str] | None = None, requirements: list[str] | None = None
) -> Report:
    """The prompt of a campaign with a locked contract.

    Raises:
        GateRefused: no contract is locked. UsageFault: see `render`.
    """
    from infer_forge.campaign.facts import facts_of

    return prompt_report(mode, facts_of(campaign, focus=focus, requirements=requirements))


def examples() -> list[dict[str, Any]]:
    """Entries of `references/prompt_examples.yaml`: name, mode, what for, and the contract from which the prompt is made."""
    return list(load_yaml("references/prompt_examples.yaml")["examples"])


def example_facts(entry: dict[str, Any]) -> Facts:
    """Facts of an example: its contract over the common one, places of a made-up machine.

    Raises:
        InputUnusable: its contract is none.
    """
    from infer_forge.base.contracts import contract_of

    common: dict[str, Any] = load_yaml("references/prompt_examples.yaml")["common"]
    contract = contract_of(_over(common["contract"], entry["contract"]), where=f"prompt example {entry['name']}")
    places = {**common["places"], **entry.get("places", {})}
    run = f"{places['root']}/runs/{places['day']}_{entry['slug']}_sota_humanize"
    return Facts(
        contract, None, run, places["root"], places["checkout"], history="RUN/history/model-pr-history-notes.md", fork=places["fork"],
        focus=list(entry.get("focus", [])), requirements=list(entry.get("requirements", [])),
    )  # fmt: skip


def _over(base: Any, top: Any) -> Any:
    if isinstance(base, dict) and isinstance(top, dict):
        made: dict[str, Any] = {**base}  # pyright: ignore[reportUnknownVariableType]
        for key, value in top.items():  # pyright: ignore[reportUnknownVariableType]
            made[str(key)] = _over(made.get(str(key)), value)  # pyright: ignore[reportUnknownArgumentType]
        return made
    return top


def write_examples(folder: Path) -> list[Path]:
    """Write every example as `NAME.md`; gives the paths.

    Raises:
        UsageFault: see `render`.
    """
    made: list[Path] = []
    for entry in examples():
        place = folder / f"{entry['name']}.md"
        place.write_text(render(str(entry["mode"]), example_facts(entry)), encoding="utf-8")
        made.append(place)
    return made


def prompt_of_file(
    contract: Path,
    mode: str,
    *,
    checkout: Path,
    root: Path,
    run: Path | None = None,
    fork: str | None = None,
    focus: list[str] | None = None,
    requirements: list[str] | None = None,
) -> Report:
    """The prompt of a drafted contract, before any campaign; the run directory is the one that `campaign init` would make.

    Raises:
        InputUnusable: the file is no contract. UsageFault: see `render`.
    """
    from infer_forge.campaign.facts import facts_from_file
    from infer_forge.campaign.layout import run_name

    facts = facts_from_file(
        contract, run="", root=str(root.absolute()), checkout=str(checkout.absolute()), fork=fork, focus=list(focus or []),
        requirements=list(requirements or []),
    )  # fmt: skip
    facts.run = str(run.absolute() if run else root.absolute() / "runs" / run_name(facts.model))
    return prompt_report(mode, facts)
