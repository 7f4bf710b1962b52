"""`campaign init`: the run directory, the inputs and the task. Again with the same root it answers what stands."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infer_forge.base import ownership
from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.records import Finding, Report
from infer_forge.base.tables import Table
from infer_forge.campaign import book, companions, inputs
from infer_forge.campaign.layout import RunLayout, run_name

MODES = ("rlcr", "goal", "loop")


def init(
    given: Mapping[str, Any],
    *,
    checkout: Path,
    root: Path,
    config: Path | None = None,
    compare: Sequence[str] = (),
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    mode: str = "goal",
    executor: str | None = None,
    reviewer: str | None = None,
) -> Report:
    """Make (or find) the run directory of a campaign.

    Args:
        given: what the user said: model, tokenizer, precision, quantization, gpu_model, gpu_count, gpu_ids, ...
        root: artifact root; the run directory lies in `root/runs/`.
        mode: `rlcr`, `goal` or `loop` (C45); executor and reviewer are recorded with it.

    Raises:
        UsageFault: no model anywhere, the root lies in the checkout's tracked tree, or reviewer and executor are one.
    """
    if mode not in MODES:
        raise UsageFault(f"no mode is called {mode!r}", next_step=f"use one of {', '.join(MODES)}")
    if reviewer is not None and reviewer == executor:
        raise UsageFault("the reviewer is not the executor", next_step="name another reviewer")
    stated = checked(given)
    found = inputs.resolve(stated, config=config, checkout=checkout, compare=compare, only=only, exclude=exclude)
    if not found.values.get("model"):
        raise UsageFault(
            "the model is not known", next_step="ask for it, then --model ID (or a path, or --config FILE)"
        )
    base, tree = root.absolute(), checkout.absolute()
    if base == tree or tree in base.parents:
        raise UsageFault("the artifact root lies inside the checkout", where=str(base), next_step="name another --root")
    run = existing(base, str(found.values["model"])) or base / "runs" / run_name(str(found.values["model"]))
    layout = RunLayout(run)
    layout.create()
    if layout.ledger.exists():
        return described(book.read(run), "it stands already")
    task_id = _task(found, run, mode)
    ownership.begin_run(run.name, run)
    first = book.Campaign(layout)
    companion = [f.to_json() for f in companions.survey(checkout)]
    body = {
        **found.to_json(),
        "task_id": task_id,
        "loop_id": f"l-{secrets.token_hex(5)}",
        "run_id": run.name,
        "mode": mode,
        "executor": executor,
        "reviewer": reviewer,
        "companions": companion,
        "artifact_root": str(base),
    }
    try:
        made = book.append(first, "init", body)
    except GateRefused:  # another process was first
        made = book.read(run)
    return described(made, "made")


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the user said, typed.

    Raises:
        UsageFault: a name or a value is wrong.
    """
    from pydantic import ValidationError

    from infer_forge.campaign.model import NewInputs

    try:
        typed = NewInputs.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as exc:
        told = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors()[:4])
        raise UsageFault(told, next_step=f"inputs: {', '.join(NewInputs.model_fields)}") from None
    return typed.model_dump(mode="json", exclude_none=True)


def existing(root: Path, model: str) -> Path | None:
    """The unfinished campaign of this model under the root: init again finds it, also on another day."""
    suffix = run_name(model, datetime.date.min)[8:]
    for place in sorted((root / "runs").glob(f"*{suffix}"), reverse=True):
        if (place / "humanize" / "ledger.jsonl").is_file() and not book.read(place).of("stop"):
            return place
    return None


def _task(found: inputs.Inputs, run: Path, mode: str) -> str:
    from infer_forge.campaign.ending import acceptance
    from infer_forge.tasks import open_store
    from infer_forge.tasks.define import definition_of, new

    v = found.values
    rivals = ", ".join(v["frameworks"]["selected"])
    title = f"SGLang on {v['model']} against {rivals}"[:200]
    definition = definition_of(
        {
            "type": "custom",
            "title": title,
            "contract": {
                "goal": f"SGLang meets or beats the best reproducible result of {rivals} on {v['model']}",
                "scope": f"changes of the SGLang checkout {v['target_checkout']['path']}, measured in {run}",
                "acceptance": acceptance(run),
                "verification": [f"infer-forge campaign check --run {run}"],
                "may_vary": ["runtime_profile"],
            },
            "exit_criteria": [
                "deliver: one of the stop codes A150 to A153 with its evidence",
                "hand off: anything else that ends the work, with what was tried and what is needed",
            ],
            "budgets": {"blocks": 40, "minutes": 60 * 24 * 7, "drift_limit": 6},
            "extra": {"run": str(run), "mode": mode},
        }
    )
    with open_store() as store:
        return new(store, definition).id


def described(campaign: book.Campaign, how: str) -> Report:
    """What stands: inputs with origin, frameworks, companions, what is missing."""
    first, values = campaign.records[0], campaign.inputs
    report = Report("campaign_init")
    origins: dict[str, str] = {}
    for record in campaign.of("init", "inputs"):
        origins |= record["origins"]
    shown = {k: v for k, v in values.items() if k not in ("frameworks", "target_checkout")}
    report.add(Table("inputs", ["input", "value", "origin"], [(k, str(v), origins.get(k)) for k, v in shown.items()]))
    chosen = values["frameworks"]
    rows = [("sglang", "target", None), *((n, "selected", None) for n in chosen["selected"])]
    rows += [(n, "excluded", why) for n, why in chosen["excluded"].items()]
    rows += [(n, "unsupported", why) for n, why in chosen["unsupported"].items()]
    report.add(Table("frameworks", ["framework", "state", "reason"], rows))
    seen = [(c["name"], c["path"], None if c["path"] else "; ".join(c["tried"])) for c in first["companions"]]
    report.add(Table("companions", ["name", "path", "tried"], seen))
    lacking = inputs.Inputs(values).missing()
    report.extra = {
        "run": str(campaign.layout.run),
        "task_id": campaign.task_id,
        "missing": lacking,
        "state": campaign.state,
    }
    report.summary = [
        f"campaign {campaign.layout.run.name} ({how}), state {campaign.state}",
        f"run {campaign.layout.run}",
    ]
    gone = [c["name"] for c in first["companions"] if not c["path"]]
    if gone:
        report.findings.append(
            Finding("COMPANION_MISSING", f"not found: {', '.join(gone)}", "info", next_step="see table companions")
        )
    if lacking:
        report.summary.append(f"ask for: {', '.join(lacking)}")
    from infer_forge.campaign.advice import next_step

    report.next_step = next_step(campaign).command
    return report
