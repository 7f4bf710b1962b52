"""The end of an attempt: rejecting needs a reason, accepting needs five kinds of evidence and a measured gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused
from infer_forge.campaign import accuracy, book, repo, verdicts

if TYPE_CHECKING:
    from infer_forge.campaign.model import Result

EVIDENCE = ("throughput", "latency", "memory", "accuracy", "stability")
"""What an accepted attempt cites (C65)."""


def close_attempt(campaign: book.Campaign, given: Result) -> book.Campaign:
    """Record the result of an attempt.

    Raises:
        GateRefused: it has one already; or it is accepted and something of its evidence is missing or speaks against it.
    """
    attempt = campaign.need(given.attempt, "attempt")
    if any(r["attempt"] == attempt.id for r in campaign.of("result")):
        raise GateRefused(f"attempt {attempt.id} has a result", next_step="record a new attempt")
    body: dict[str, Any] = {
        "attempt": attempt.id,
        "outcome": given.outcome,
        "reason": given.reason,
        "gain_pct": None,
        "measurement": None,
    }
    measurement = _measurement(campaign, attempt, given)
    if measurement is not None:
        body |= {"measurement": measurement.id, "commit": measurement["commit"]}
        body["files"] = repo.changed_files(campaign.checkout, str(attempt["base_commit"]), str(measurement["commit"]))
        report = verdicts.improvement(campaign, measurement, verdicts.best_measurement(campaign))
        rows = verdicts.verdict_rows(report)
        means = [float(r["mean_pct"]) for r in rows if r["mean_pct"] is not None]
        body |= {"improvement": rows, "gain_pct": round(sum(means) / len(means), 4) if means else None}
        gap = next((g for g in reversed(campaign.of("gap")) if g["measurement"] == measurement.id), None)
        body["gap"] = gap.id if gap else None
        patch = campaign.layout.patches / f"{int(attempt['number']):03d}-{str(measurement['commit'])[:12]}.patch"
        jsonio.write_atomic(
            patch, repo.patch(campaign.checkout, str(attempt["base_commit"]), str(measurement["commit"]))
        )
        body |= {"patch": campaign.layout.relative(patch), "patch_sha256": jsonio.sha256_file(patch)}
    if given.outcome == "accepted":
        body["evidence"] = _accept(campaign, attempt, measurement, body)
    return book.append(campaign, "result", body)


def _measurement(campaign: book.Campaign, attempt: book.Record, given: Result) -> book.Record | None:
    """The newest measurement of the attempt's patch; an earlier one, or one of another state, is never chosen over it.

    Raises:
        GateRefused: another one is named.
    """
    mine = [m for m in campaign.of("measurement") if m.number > attempt.number and m["label"] == "patched"]
    if given.measurement:
        found = campaign.need(given.measurement, "measurement")
        if found.id != (mine[-1].id if mine else None):
            told = f"the newest of attempt {attempt.id} is {mine[-1].id}" if mine else "the patch was not measured"
            raise GateRefused(
                f"A135: {found.id} is no measurement of this patch that counts: {told}",
                next_step="leave measurement away" if mine else "infer-forge campaign measure",
            )
    return mine[-1] if mine else None


def _accept(
    campaign: book.Campaign, attempt: book.Record, measurement: book.Record | None, body: dict[str, Any]
) -> dict[str, str]:
    """The five evidence ids.

    Raises:
        GateRefused: naming everything that is missing or against it.
    """
    if measurement is None:
        raise GateRefused("A87: nothing was measured with the patch", next_step="infer-forge campaign measure")
    wrong: list[str] = []
    cited: dict[str, str] = {}
    if measurement["failed"]:
        wrong.append(f"A136: launches failed: {measurement['failed'][0]}")
    words = {str(r["verdict"]) for r in body["improvement"]}
    if "ahead" not in words or words & {"behind", "sla_fail"} or any(w.startswith("void") for w in words):
        told = "; ".join(f"{r['scenario']}: {r['verdict']}" for r in body["improvement"])
        wrong.append(f"A143: it is not measured better than the prior best ({told})")
    if body["gap"] is None:
        wrong.append("A102: no gap verdict of this measurement (record gap --set measurement=ID)")
    else:
        cited |= {"throughput": str(body["gap"]), "latency": str(body["gap"])}
    wrong += _scope(attempt, body) + _accuracy(campaign, attempt, measurement, cited)
    wrong += _soak(campaign, attempt, measurement, cited) + _mechanism(campaign, attempt)
    if wrong:
        raise GateRefused(
            f"the attempt cannot be accepted: {'; '.join(wrong)}",
            where=attempt.id,
            next_step="show what is missing, or record it as rejected or partial",
        )
    return cited


def _scope(attempt: book.Record, body: dict[str, Any]) -> list[str]:
    """A85: code of the target changed, inside the paths that the attempt named."""
    files = [str(f) for f in body["files"]]
    if not files:
        return ["A85: the commit changes no file"]
    allowed = attempt.words("paths")
    outside = [f for f in files if allowed and not any(f == p or f.startswith(p.rstrip("/*") + "/") for p in allowed)]
    return [f"C47: changed outside of the attempt's paths: {', '.join(outside[:3])}"] if outside else []


def _accuracy(
    campaign: book.Campaign, attempt: book.Record, measurement: book.Record, cited: dict[str, str]
) -> list[str]:
    """C41: every dataset of the contract is inside its tolerance, whatever its author says of numerics; diffusion by its quality."""
    assert campaign.contract is not None
    if campaign.diffusion:
        result, why = _quality(campaign, measurement)
        cited["accuracy"] = measurement.id
        return [] if result == "pass" else [f"accuracy: {result}: {why}"]
    if not campaign.contract[0].accuracy:
        return ["accuracy: the contract fixes no accuracy floor, so no claim can rest on it"]
    return _scores(campaign, attempt, measurement, cited)


def _quality(campaign: book.Campaign, measurement: book.Record) -> tuple[str, str]:
    """The worst of SGLang's rows against the contract's quality gate; no row is unknown."""
    assert campaign.contract is not None
    sides = verdicts.sides_of(campaign, measurement).get("sglang", [])
    seen = [r.diffusion.quality.model_dump() for r in sides if r.diffusion is not None]
    judged = [accuracy.judge_quality(campaign.contract[0], q) for q in seen]
    found = (j for word in ("fail", "unknown", "pass") for j in judged if j[0] == word)
    return next(found, ("unknown", "no row of SGLang"))


def quality_unknown(campaign: book.Campaign, measurement: book.Record) -> str | None:
    """Why the quality of what a diffusion measurement generated is not known; None when it is, and for token models."""
    if not campaign.diffusion:
        return None
    result, why = _quality(campaign, measurement)
    return why if result == "unknown" else None


def _scores(
    campaign: book.Campaign, attempt: book.Record, measurement: book.Record, cited: dict[str, str]
) -> list[str]:
    """Every dataset of the contract against its floor and tolerance."""
    assert campaign.contract is not None
    contract, mine = campaign.contract[0], _own_scores(campaign, attempt, measurement)
    faults: list[str] = []
    for floor in contract.accuracy:
        found = [(a, s) for a in mine for s in a["scores"] if s["dataset"] == floor.dataset]
        if not found:
            faults.append(f"accuracy: no {floor.dataset} of commit {str(measurement['commit'])[:12]}")
            continue
        record, score = found[-1]
        cited["accuracy"] = record.id
        result, why = accuracy.judge(
            contract, floor.dataset, float(score["score"]), base_score(campaign, floor.dataset)
        )
        if result != "pass":
            faults.append(f"accuracy: {why}")
    return faults


def lost(campaign: book.Campaign, attempt: book.Record, measurement: book.Record) -> str | None:
    """What already speaks against accepting a measured attempt, whatever else is recorded; None while nothing does."""
    if measurement["failed"]:
        return f"A136: launches failed: {measurement['failed'][0]}"
    if campaign.diffusion and (seen := _quality(campaign, measurement))[0] == "fail":
        return f"accuracy: {seen[1]}"
    gap = next((g for g in reversed(campaign.of("gap")) if g["measurement"] == measurement.id), None)
    rows: list[dict[str, Any]] = (gap.get("improvement") if gap else None) or []
    words = {str(r["verdict"]) for r in rows}
    open_ = any(r["verdict"] == "inconclusive" and r["k_more"] for r in rows)
    if rows and not open_ and ("ahead" not in words or words & {"behind", "sla_fail"}):
        return "A143: " + "; ".join(f"{r['scenario']}: {r['verdict']} against the prior best" for r in rows)
    faults = [f for f in _scores(campaign, attempt, measurement, {}) if not f.startswith("accuracy: no ")]
    soaks = [s for s in campaign.of("soak") if s["attempt"] == attempt.id and s["commit"] == measurement["commit"]]
    faults += [f"stability: {soaks[-1]['why']}"] if soaks and soaks[-1]["result"] == "fail" else []
    shown = [m for m in campaign.of("mechanism") if m["attempt"] == attempt.id]
    faults += ["mechanism: not_seen"] if shown and shown[-1]["verdict"] == "not_seen" else []
    off = next((m["off"] for m in reversed(shown) if m["off"]), None)
    faults += [f"switch-off: {off['why']}"] if off and off["result"] == "fail" else []
    return faults[0] if faults else None


def unscored(campaign: book.Campaign, attempt: book.Record, measurement: book.Record) -> str | None:
    """A dataset of the contract that the measured commit still needs a score of."""
    assert campaign.contract is not None
    mine = _own_scores(campaign, attempt, measurement)
    seen = {str(s["dataset"]) for a in mine for s in a["scores"]}
    return next((f.dataset for f in campaign.contract[0].accuracy if f.dataset not in seen), None)


def _own_scores(campaign: book.Campaign, attempt: book.Record, measurement: book.Record) -> list[book.Record]:
    of = campaign.of("accuracy")
    return [a for a in of if a["attempt"] == attempt.id and a["commit"] == measurement["commit"]]


def base_score(campaign: book.Campaign, dataset: str) -> float | None:
    """SGLang's score of a dataset at the baseline."""
    found: list[dict[str, Any]] = campaign.baseline["accuracy"] if campaign.baseline else []
    mine = [f["score"] for f in found if f["framework"] == "sglang" and f["dataset"] == dataset]
    return float(mine[-1]) if mine else None


def _soak(campaign: book.Campaign, attempt: book.Record, measurement: book.Record, cited: dict[str, str]) -> list[str]:
    mine = [s for s in campaign.of("soak") if s["attempt"] == attempt.id and s["commit"] == measurement["commit"]]
    if not mine:
        return ["memory and stability: no soak of this commit"]
    cited["stability"] = mine[-1].id
    faults = [] if mine[-1]["result"] == "pass" else [f"stability: {mine[-1]['why']}"]
    if mine[-1]["peak_device_bytes"] is None:
        return [*faults, "memory: the soak states no peak_device_bytes"]
    cited["memory"] = mine[-1].id
    return faults


def _mechanism(campaign: book.Campaign, attempt: book.Record) -> list[str]:
    mine = [m for m in campaign.of("mechanism") if m["attempt"] == attempt.id]
    if not mine:
        return ["mechanism: nothing shows that the patch is at work"]
    faults = (
        [] if mine[-1]["verdict"] == "seen" else [f"mechanism: {mine[-1]['verdict']} in {len(mine[-1]['files'])} files"]
    )
    off = next((m["off"] for m in reversed(mine) if m["off"]), None)
    if off is None:
        return [*faults, "switch-off: nothing was measured with the patch off"]
    return faults if off["result"] == "pass" else [*faults, f"switch-off: {off['result']}: {off['why']}"]
