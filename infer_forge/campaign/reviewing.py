"""`campaign review`: the nine points (C64), and the text of a pull request to the configured fork (C7, C41)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.records import Report
from infer_forge.base.tables import Column, Table
from infer_forge.campaign import book, verdicts
from infer_forge.campaign.book import Campaign

POINTS = (
    "shape",
    "dtype",
    "distributed",
    "cuda_graph",
    "fallback",
    "accuracy",
    "serving_api",
    "metrics",
    "benchmark_setup",
)
"""What a review looks at."""

EXPECTED = {"gsm8k": 1319, "mmlu": 14042}
"""Accuracy tables that a pull request of a language model shows (C41), with the questions of the whole test set: GSM8K's test
split (Cobbe et al., 2021) and MMLU's (Hendrycks et al., 2021)."""

ANSWERS = ("pass", "fail", "not_applicable")


def review(campaign: Campaign, result_id: str, reviewer: str, points: Mapping[str, Any]) -> tuple[Campaign, Report]:
    """Record a review of an accepted result.

    Args:
        points: point -> {result, evidence}; every point, each with words that show it.

    Raises:
        UsageFault: a point is missing or has no evidence. GateRefused: the reviewer is the executor, or nothing was accepted.
    """
    result = campaign.need(result_id, "result")
    if result["outcome"] != "accepted":
        raise GateRefused(f"result {result.id} was {result['outcome']}", next_step="review accepted results")
    executor = campaign.records[0].get("executor")
    if executor and reviewer.strip().lower() == str(executor).strip().lower():
        raise GateRefused(
            "the reviewer is the executor of the change (B47)",
            next_step="let somebody else, or another model, review it",
        )
    rows: list[tuple[str, str, str]] = []
    for name in POINTS:
        point: Any = points.get(name)
        answer = str(point.get("result")) if isinstance(point, Mapping) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        evidence = str(point.get("evidence") or "") if isinstance(point, Mapping) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if answer not in ANSWERS or len(evidence) < 8:
            raise UsageFault(
                f"point {name} needs a result ({', '.join(ANSWERS)}) and evidence in words",
                next_step=f"all of: {', '.join(POINTS)}",
            )
        rows.append((name, answer, evidence))
    unknown = sorted(set(points) - set(POINTS))
    if unknown:
        raise UsageFault(f"no such point: {', '.join(unknown)}")
    failed = [n for n, a, _ in rows if a == "fail"]
    table = Table("points", [Column(c, "text") for c in ("point", "result", "evidence")], rows)
    place = campaign.layout.reviews / f"{result.id}.md"
    verdict = "fail" if failed else "pass"
    jsonio.write_atomic(
        place,
        f"# Review of {result.id}\n\nReviewer {reviewer}; executor {executor or 'not named'}; verdict {verdict}.\n\n{table.to_md()}\n",
    )
    body = {
        "result": result.id,
        "reviewer": reviewer,
        "points": {n: {"result": a, "evidence": e} for n, a, e in rows},
        "failed": failed,
        "verdict": verdict,
        "path": campaign.layout.relative(place),
    }
    after = book.append(campaign, "review", body)
    report = Report(
        "campaign_review",
        summary=[f"{verdict}: {len(rows) - len(failed)} of {len(rows)} points hold", f"written {body['path']}"],
    )
    report.add(table)
    report.extra = {"id": after.records[-1].id, "verdict": verdict}
    return after, report


def pull_request(campaign: Campaign, fork: str | None = None) -> Report:
    """The text of a pull request: benchmark and accuracy tables, profile, change, tests; only for the configured fork.

    Raises:
        GateRefused: nothing is accepted and reviewed, GSM8K or the whole MMLU of the accepted commit is missing, or the remote
            is not the configured fork.
    """
    from infer_forge.campaign import gates

    gates.require(campaign, "chain", "A143", "C64", "numbers", what="a pull request")
    kept = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    if not kept:
        raise GateRefused("nothing was accepted", next_step="infer-forge campaign next")
    target = _fork(campaign, fork)
    gap = verdicts.current(campaign)
    assert gap is not None
    columns = [Column(c, "text") for c in ("scenario", "verdict", "against", "mean", "interval")]
    bench = Table(
        "benchmark",
        columns,
        [
            (
                s["scenario"],
                s["verdict"],
                s["against"],
                f"{s['mean_pct']:+.2f} %",
                f"{s['low_pct']:+.2f} % to {s['high_pct']:+.2f} %",
            )
            for s in gap["scenarios"]
            if s["mean_pct"] is not None
        ],
    )
    scores = _scores(campaign, kept[-1])
    gone = [] if _generates(campaign) else _lacking(campaign, kept[-1])
    if gone:
        raise GateRefused(
            f"C41: no accuracy table stands behind the change: {'; '.join(gone)}",
            next_step="run it on the accepted commit, infer-forge campaign record accuracy, then write the text again",
        )
    accuracy = Table("accuracy", [Column(c, "text") for c in ("dataset", "score", "record", "file")], scores)
    report = Report("campaign_pull_request")
    report.add(bench)
    report.add(accuracy)
    files = sorted({str(f) for r in kept for f in r["files"]})
    attempts = [campaign.need(str(r["attempt"]), "attempt") for r in kept]
    cause = campaign.last("root_cause")
    parts = [
        f"## Benchmark\n\nSame contract {gap['sha256'][:12]}, `{gap['path']}`.\n\n{bench.to_md()}",
        f"## Profile\n\n{'Slow stage ' + str(cause['stage']) + '; ' + str(cause['path']) if cause else 'not profiled'}",
        "## Change\n\n" + "\n".join(f"- {a['title']}" for a in attempts) + "\n\n" + "\n".join(f"- {f}" for f in files),
        "## Tests\n\n" + ("\n".join(f"- {t}" for a in attempts for t in a.words("tests")) or "none named"),
        f"## Accuracy\n\n{accuracy.to_md()}",
        "## Revalidation\n\n"
        + "\n".join(f"- {r.id}: " + ", ".join(f"{k} {v}" for k, v in r["evidence"].items()) for r in kept),
    ]
    report.text = f"To {target}\n\n" + "\n\n".join(parts)
    report.extra = {"fork": target, "text": report.text}
    report.summary = [f"pull request text for {target}"]
    report.next_step = "a person reads it and opens the pull request"
    return report


def _generates(campaign: Campaign) -> bool:
    """Whether the model makes pictures, which have a quality gate in place of accuracy."""
    return campaign.contract is not None and campaign.contract[0].quality is not None


def _own(campaign: Campaign, result: book.Record) -> list[tuple[book.Record, dict[str, Any]]]:
    """(record, score) of the accepted commit, oldest first."""
    of = campaign.of("accuracy")
    mine = [a for a in of if a["attempt"] == result["attempt"] and a["commit"] == result["commit"]]
    return [(a, s) for a in mine for s in a["scores"]]


def _scores(campaign: Campaign, result: book.Record) -> list[tuple[str, str, str, str]]:
    """(dataset, score, record, file) of the accepted commit, the newest of each dataset."""
    rows = {
        str(s["dataset"]): (str(s["dataset"]), f"{s['score']:.4f}", a.id, str(a.get("file") or a["path"]))
        for a, s in _own(campaign, result)
    }
    return list(rows.values())


def _lacking(campaign: Campaign, result: book.Record) -> list[str]:
    """What of the expected tables is missing, or was run on a part of its test set."""
    newest = {str(s["dataset"]).lower(): s.get("samples") for _, s in _own(campaign, result)}
    told: list[str] = []
    for name, whole in EXPECTED.items():
        asked = {d: int(n) for d, n in newest.items() if d.startswith(f"{name}_") and n is not None}
        # A variant such as gsm8k_cot, or a group of subjects such as mmlu_generative, which states no count of its own.
        groups = [d.removeprefix(name) for d, n in newest.items() if d.startswith(f"{name}_") and n is None]
        sums = (sum(n for d, n in asked.items() if g in d) for g in groups)
        count = newest.get(name, max([*asked.values(), *sums], default=0))
        count = sum(asked.values()) or None if count is None else count
        if name not in newest and not asked:
            told.append(f"no {name}")
        elif count is not None and count < whole:
            told.append(f"{name} on {count} of {whole} questions")
    return told


def _fork(campaign: Campaign, fork: str | None) -> str:
    """The configured fork; upstream is never one."""
    from infer_forge.base import ownership
    from infer_forge.campaign.repo import git

    run = ownership.load().runs.get(str(campaign.records[0]["run_id"]))
    allowed = list(run.push_allowed or []) if run else []
    checked = campaign.last("pr_check")
    if checked and checked["fork"] != "none":
        allowed.append(str(checked["fork"]))
    wanted = fork or (allowed[0] if allowed else None)
    if wanted is None:
        raise GateRefused("no fork is configured", next_step="name it with record pr-check --set fork=OWNER/REPO")
    if wanted not in allowed or (checked and wanted == checked["upstream"]):
        raise GateRefused(
            f"{wanted} is not the configured fork", next_step=f"configured: {', '.join(map(str, allowed)) or 'none'}"
        )
    git(campaign.checkout, "rev-parse", "HEAD")
    return str(wanted)
