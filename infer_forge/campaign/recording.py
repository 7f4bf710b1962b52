"""`campaign record KIND`: each kind has its gate; what is recorded before its gate is refused with what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.tables import Table
from infer_forge.campaign import (
    accepting,
    belonging,
    book,
    conditions,
    coverage,
    gates,
    mechanism,
    obligations,
    profiling,
    verdicts,
)
from infer_forge.campaign import model as forms
from infer_forge.campaign.accuracy import read_scores
from infer_forge.campaign.stability import judge_soak, read_soak


def record(campaign: book.Campaign, kind: str, data: Mapping[str, Any]) -> tuple[book.Campaign, Report]:
    """Record something of the agent's.

    Raises:
        UsageFault: no such kind, or a field is wrong. GateRefused: its gate does not hold yet.
    """
    from pydantic import ValidationError

    name = kind.replace("-", "_")
    form = forms.KINDS.get(name)
    if form is None:
        raise UsageFault(f"nothing is recorded as {kind!r}", next_step=f"kinds: {', '.join(forms.KINDS)}")
    try:
        given = form.model_validate(dict(data))
    except ValidationError as exc:
        told = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or name}: {e['msg'].removeprefix('Value error, ')}"
            for e in exc.errors()[:4]
        )
        raise UsageFault(f"{name}: {told}", next_step=f"fields: {', '.join(form.model_fields) or 'any'}") from None
    if name != "blocker" and campaign.of("stop"):
        raise GateRefused("the campaign has stopped; nothing more is recorded", next_step="infer-forge campaign status")
    after = _HANDLERS[name](campaign, given)
    return after, answer(after, campaign)


def answer(after: book.Campaign, before: book.Campaign) -> Report:
    """What was recorded, and the next step."""
    from infer_forge.campaign.advice import next_step

    new = [r for r in after.records if r.number > (before.records[-1].number if before.records else 0)]
    report = Report("campaign_record", header=Header(inputs=[InputFile.of(after.layout.ledger)]))
    report.add(Table("records", ["id", "kind", "round"], [(r.id, r.kind, r.get("round")) for r in new]))
    report.extra = {"id": new[-1].id if new else None, "record": new[-1].body if new else {}, "state": after.state}
    report.summary = [f"recorded {r.kind} {r.id}" for r in new]
    report.next_step = next_step(after).command
    return report


def _plain(given: forms.Strict) -> dict[str, Any]:
    return given.model_dump(mode="json", exclude_none=True)


# ---------------------------------------------------------------------------------------------------- before the loop


def _inputs(campaign: book.Campaign, given: Any) -> book.Campaign:
    values = {k: v for k, v in _plain(given).items() if v not in (None, "")}
    if "search_config" in values:
        values["search_config"] = book.file_facts(str(values["search_config"]))["path"]
    if campaign.of("contract_lock"):
        raise GateRefused(
            "the contract is locked: other inputs are another campaign (B31)", next_step="infer-forge campaign init"
        )
    if "model" in values:
        raise UsageFault("the model is fixed at init", next_step="begin a new campaign")
    return book.append(campaign, "inputs", {"values": values, "origins": dict.fromkeys(values, "given")})


def _companions(campaign: book.Campaign, given: forms.Companions) -> book.Campaign:
    return book.append(campaign, "companions", {"read": [book.file_facts(p) for p in given.read]})


def _history(campaign: book.Campaign, given: forms.History) -> book.Campaign:
    gates.require(campaign, "chain", "A12", what="history")
    wanted = ("sglang", *campaign.inputs["frameworks"]["selected"])
    other = sorted({i.framework for i in given.items} - set(wanted))
    if other:
        raise GateRefused(
            f"A42: {', '.join(other)} is not selected", next_step=f"read the history of {', '.join(wanted)} only"
        )
    return book.append(campaign, "history", _plain(given))


def _pr_check(campaign: book.Campaign, given: forms.PrCheck) -> book.Campaign:
    return book.append(campaign, "pr_check", _plain(given))


def _ceiling(campaign: book.Campaign, given: forms.Ceiling) -> book.Campaign:
    gates.require(campaign, "A31", what="the ceiling")
    if campaign.of("round_open"):
        raise GateRefused("round 1 has begun: the ceiling comes before it", next_step="infer-forge campaign next")
    if given.blocker:
        return book.append(campaign, "ceiling", {"blocker": given.blocker})
    from infer_forge.pipeline import step_ceiling

    config = Path(given.config) if given.config else Path(str(campaign.inputs.get("model_dir", ""))) / "config.json"
    if not config.is_file():
        raise InputUnusable(
            "no config.json of the model", where=str(config), next_step="--set config=FILE, or --set blocker=WHY"
        )
    assert campaign.contract is not None
    point = campaign.layout.bench.root / "deployment-point.json"
    body = {
        "deployment_point": campaign.contract[0].point.model_dump(mode="json", exclude_none=True),
        "grid": campaign.contract[0].grid.model_dump(mode="json"),
    }
    jsonio.write_atomic(point, jsonio.dumps(body, indent=True))
    report = step_ceiling(config, point)
    place = campaign.layout.run / "analysis" / "ceiling.json"
    jsonio.write_atomic(place, report.render("json"))
    facts = {
        "path": campaign.layout.relative(place),
        "sha256": jsonio.sha256_file(place),
        "summary": " | ".join(report.summary)[:600],
    }
    return book.append(campaign, "ceiling", {**facts, "config": book.file_facts(str(config))})


def _plan(campaign: book.Campaign, given: forms.Plan) -> book.Campaign:
    gates.require(campaign, "chain", "A43", "A31", "A51", "A55", what="the plan")
    if campaign.round is not None:
        raise GateRefused(
            "a round is open: the plan does not change inside it", next_step="infer-forge campaign record round-close"
        )
    place = Path(given.path).absolute()
    found = book.file_facts(str(place))
    text = place.read_text(encoding="utf-8", errors="replace")
    if campaign.contract is not None and campaign.contract[1][:12] not in text:
        raise GateRefused(
            f"the plan does not name the contract {campaign.contract[1][:12]}",
            where=str(place),
            next_step="render it from the contract: infer-forge campaign prompt, or campaign plan",
        )
    mode = given.mode or str(campaign.records[0]["mode"])
    if mode == "rlcr":
        from infer_forge.campaign.plan_lint import lint_file

        wrong = [c for c in lint_file(place, campaign) if c.result == gates.FAIL]
        if wrong:
            told = "; ".join(f"{c.rule}: {c.evidence}" for c in wrong[:4])
            raise GateRefused(
                f"the plan fails its linter: {told}", where=str(place), next_step="infer-forge campaign plan"
            )
    return book.append(campaign, "plan", {**found, "mode": mode})


# --------------------------------------------------------------------------------------------------------- in a round


def record_gap(campaign: book.Campaign, data: Mapping[str, Any]) -> book.Campaign:
    """Decide the gap of the accepted state or of a measurement, and keep the report."""
    gates.require(campaign, "chain", "A31", "A51", "A65", what="a gap verdict")
    wanted = data.get("measurement")
    measurement = campaign.need(str(wanted), "measurement") if wanted else verdicts.best_measurement(campaign)
    report = verdicts.decide(campaign, measurement)
    commit = str(measurement["commit"]) if measurement else verdicts.accepted_commit(campaign)
    return book.append(campaign, "gap", verdicts.kept(campaign, report, measurement, commit))


def _gap(campaign: book.Campaign, given: forms.GapWanted) -> book.Campaign:
    return record_gap(campaign, _plain(given))


def _round_open(campaign: book.Campaign, given: forms.RoundOpen) -> book.Campaign:
    return obligations.open_round(campaign, _plain(given))


def _round_close(campaign: book.Campaign, given: forms.RoundClose) -> book.Campaign:
    return obligations.close_round(campaign, _plain(given))


def _idea(campaign: book.Campaign, given: forms.Idea) -> book.Campaign:
    gates.require(campaign, "A100", what="an idea")
    same = next(
        (
            i
            for i in campaign.of("idea")
            if (i["repository"], i["path"], i.get("symbol")) == (given.repository, given.path, given.symbol)
        ),
        None,
    )
    if same is not None:
        raise GateRefused(
            f"A144: the idea stands as {same.id} (same repository, path and symbol): {same['title']}",
            next_step=f"use {same.id}, or name the other symbol",
        )
    headroom = coverage.headroom_pct(campaign, list(given.covers))
    if headroom is not None and given.expected_gain_pct > headroom + 1e-9:
        raise GateRefused(
            f"{given.expected_gain_pct:g} % is more than what it touches holds: {headroom:.2f} % of the slow stage",
            next_step="lower the expectation, or name every family that it touches",
        )
    profile = coverage.slow_profile(campaign)
    body = {**_plain(given), "profile": given.profile or (profile.id if profile else None), "headroom_pct": headroom}
    layers = campaign.last("layer_pipeline")
    return book.append(campaign, "idea", {**body, "layer": given.layer or (layers.id if layers else None)})


def _dismissal(campaign: book.Campaign, given: forms.Dismissal) -> book.Campaign:
    return book.append(campaign, "dismissal", {**_plain(given), "evidence": _shown(campaign, given.evidence)})


def _shown(campaign: book.Campaign, evidence: str) -> dict[str, Any]:
    """Evidence by the id of a record, or a file with its hash.

    Raises:
        GateRefused: it is a history note.
    """
    found = campaign.find(evidence)
    if found is not None and found.kind == "history":
        raise GateRefused(
            "A49: a history note guides, it proves nothing",
            next_step="cite a profile, a report, a measurement or a file",
        )
    return {"record": found.id} if found is not None else book.file_facts(evidence)


def _ncu(campaign: book.Campaign, given: forms.NcuRecord) -> book.Campaign:
    from infer_forge.campaign.kernel_tasks import eligible
    from infer_forge.ncu import lint_digest

    idea = campaign.need(given.idea, "idea")
    share = eligible(campaign, given.kernel, given.family)
    problems = lint_digest(given.digest)
    if problems:
        raise GateRefused(
            f"A133: {problems[0]}",
            where=given.digest,
            next_step="infer-forge ncu digest REPORT --baseline REPORT --out DIR/",
        )
    return book.append(
        campaign,
        "ncu",
        {
            **_plain(given),
            "digest": str(Path(given.digest).absolute()),
            "idea": idea.id,
            "share_pct": share,
            "blocked": (Path(given.digest) / "blocker.md").is_file(),
        },
    )


# ----------------------------------------------------------------------------------------------------------- attempts

PATCH_GATES = (
    "chain",
    "A31",
    "A51",
    "A65",
    "A100",
    "A102",
    "A104",
    "A105",
    "A114",
    "A117",
    "A122",
    "A126",
    "A46",
    "A149",
    "one-attempt",
    "round-claim",
    "round-journal",
    "round-guard",
)
"""What holds before code is touched."""


def _attempt(campaign: book.Campaign, given: forms.Attempt) -> book.Campaign:
    gates.require(campaign, *PATCH_GATES, what="a patch")
    idea = campaign.need(given.idea, "idea")
    mechanism.require_telling(given.mechanism)
    seen = conditions.clean(campaign)
    number = len(campaign.of("attempt")) + 1
    body = {
        **_plain(given),
        "number": number,
        "idea": idea.id,
        "base_commit": seen.commit,
        "branch": seen.branch,
        "gap": _id(verdicts.current(campaign)),
        "fairness": _id(campaign.last("fairness")),
        "root_cause": _id(campaign.last("root_cause")),
        "layer_pipeline": _id(campaign.last("layer_pipeline")),
        "profiles": [p.id for p in campaign.in_round("profile")],
    }
    return book.append(campaign, "attempt", body)


def _id(record: book.Record | None) -> str | None:
    return record.id if record else None


def _accuracy(campaign: book.Campaign, given: forms.AccuracyFile) -> book.Campaign:
    gates.require(campaign, "A31", what="an accuracy")
    attempt = campaign.need(given.attempt, "attempt") if given.attempt else None
    scores = read_scores(given.file, given.dataset)
    if attempt is not None:
        belonging.require_own(campaign, attempt, Path(given.file))
    else:
        belonging.require_of_side(campaign, given.framework, Path(given.file))
    belonging.require_model(campaign, Path(given.file))
    commit = conditions.clean(campaign).commit if attempt is not None else None
    rows: list[dict[str, Any]] = [
        {
            "dataset": given.dataset if given.dataset and len(scores) == 1 else s.dataset,
            "score": s.score,
            "metric": s.metric,
            "samples": s.samples,
        }
        for s in scores
    ]
    if attempt is None and campaign.baseline is None:
        from infer_forge.bench.baseline_lock import record_accuracy

        for row in rows:
            record_accuracy(campaign.layout.run, given.framework, str(row["dataset"]), float(row["score"]), given.file)
    body = {
        "framework": given.framework,
        "attempt": _id(attempt),
        "commit": commit,
        "scores": rows,
        **book.file_facts(given.file),
    }
    return book.append(campaign, "accuracy", body)


def _soak(campaign: book.Campaign, given: forms.SoakFile) -> book.Campaign:
    attempt = campaign.need(given.attempt, "attempt")
    found = read_soak(given.file)
    belonging.require_own(campaign, attempt, Path(given.file))
    belonging.require_time(attempt, float(found.get("minutes") or 0), Path(given.file))
    bounds = campaign.contract[0].soak if campaign.contract else None
    result, why = judge_soak(found, bounds)
    body = {
        "attempt": attempt.id,
        "result": result,
        "why": why,
        "peak_device_bytes": found.get("peak_device_bytes"),
        "commit": conditions.clean(campaign).commit,
    }
    return book.append(campaign, "soak", {**body, **book.file_facts(given.file)})


def _mechanism(campaign: book.Campaign, given: forms.MechanismFiles) -> book.Campaign:
    attempt = campaign.need(given.attempt, "attempt")
    pattern = given.pattern or str(attempt["mechanism"])
    mechanism.require_telling(pattern)
    for file in given.files:
        belonging.require_own(campaign, attempt, Path(file))
    verdict, looked = mechanism.search_files(pattern, [Path(f) for f in given.files])
    body: dict[str, Any] = {
        "attempt": attempt.id,
        "pattern": pattern,
        "verdict": verdict,
        "files": looked,
        "off": None,
    }
    if given.off:
        off = campaign.need(given.off, "measurement")
        wrong = mechanism.not_off(campaign, attempt, off)
        if wrong:
            raise GateRefused(
                f"{off.id} was not measured with the patch off: {wrong}",
                next_step=f"git checkout --detach {str(attempt['base_commit'])[:12]}, then infer-forge campaign measure --label off",
            )
        state, why = mechanism.off_parity(campaign, off, verdicts.best_measurement(campaign))
        body["off"] = {"measurement": off.id, "result": state, "why": why}
    return book.append(campaign, "mechanism", body)


def _result(campaign: book.Campaign, given: forms.Result) -> book.Campaign:
    return accepting.close_attempt(campaign, given)


# ----------------------------------------------------------------------------------------------------------- the rest


def _blocker(campaign: book.Campaign, given: forms.Blocker) -> book.Campaign:
    shown = [_shown(campaign, e) for e in given.evidence]
    return book.append(campaign, "blocker", {**_plain(given), "evidence": shown})


def _command(campaign: book.Campaign, given: forms.Command) -> book.Campaign:
    from infer_forge.guard import check

    verdict = check(given.command, cwd=str(campaign.checkout)).to_json()
    return book.append(
        campaign, "command", {**_plain(given), "guard": verdict["verdict"], "rule": verdict.get("rule_id")}
    )


def _kernel_task(campaign: book.Campaign, given: forms.KernelTaskWanted) -> book.Campaign:
    from infer_forge.campaign.kernel_tasks import new

    rows: Any = jsonio.read_json(given.rows) if given.rows else None
    folder = Path(given.folder) if given.folder else None
    reports = [Path(r) for r in given.reports]
    return new(campaign, folder, given.kernel, given.idea, rows=rows, sources=given.sources, more_reports=reports)[0]


def _kernel_result(campaign: book.Campaign, given: forms.KernelFolder) -> book.Campaign:
    from infer_forge.campaign.kernel_tasks import close

    return close(campaign, Path(given.folder))


def _kernel_promotion(campaign: book.Campaign, given: forms.KernelPromotion) -> book.Campaign:
    from infer_forge.campaign.kernel_tasks import promote

    return promote(campaign, Path(given.folder), [Path(t) for t in given.traces])


def _cleanup(campaign: book.Campaign, given: forms.Cleanup) -> book.Campaign:
    from infer_forge.campaign.cleaning import clean

    assert given is not None
    return book.append(campaign, "cleanup", clean(campaign))


_HANDLERS: dict[str, Callable[[book.Campaign, Any], book.Campaign]] = {
    "inputs": _inputs,
    "companions": _companions,
    "history": _history,
    "pr_check": _pr_check,
    "ceiling": _ceiling,
    "plan": _plan,
    "round_open": _round_open,
    "round_close": _round_close,
    "gap": _gap,
    "profile": profiling.record_profile,
    "idea": _idea,
    "dismissal": _dismissal,
    "ncu": _ncu,
    "attempt": _attempt,
    "accuracy": _accuracy,
    "soak": _soak,
    "mechanism": _mechanism,
    "result": _result,
    "blocker": _blocker,
    "command": _command,
    "cleanup": _cleanup,
    "kernel_task": _kernel_task,
    "kernel_result": _kernel_result,
    "kernel_promotion": _kernel_promotion,
}
