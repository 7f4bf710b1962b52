"""The final report (A155): every figure from a record, every path resolves, and a plain yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.tables import Column, Table
from infer_forge.campaign import book, coverage, gates, mechanism, pages, repo, verdicts
from infer_forge.campaign.book import Campaign, Record


def write_final(campaign: Campaign, code: str | None, evidence: Sequence[str]) -> Campaign:
    """Write and record the final report of a stop code.

    Raises:
        GateRefused: the code is not met. UsageFault: no code.
    """
    from infer_forge.campaign.stopping import COMPLETE, judge

    if not code:
        raise UsageFault("the final report needs a stop code", next_step="--code A150|A151|A152|A153|blocked")
    gates.require(campaign, "chain", what="the final report")
    result, seen, fix = judge(campaign, code, evidence)
    if result != gates.PASS:
        raise GateRefused(f"{code} is not met: {seen}", where=campaign.layout.run.name, next_step=fix or None)
    gap = verdicts.current(campaign)
    body = render(campaign, code, seen, reached=code in ("A150", "A151"))
    part = pages.write_page(
        campaign.layout.final_report, f"Final report of {campaign.layout.run.name}", body, "Remarks:"
    )
    from infer_forge.base import jsonio

    facts = {
        "code": code,
        "complete": code in COMPLETE,
        "gap": gap.id if gap else None,
        "path": "final_report.md",
        "part_sha256": part,
    }
    return book.append(campaign, "final", {**facts, "sha256": jsonio.sha256_file(campaign.layout.final_report)})


def render(campaign: Campaign, code: str, seen: str, *, reached: bool) -> str:
    """The generated part."""
    from infer_forge.campaign.rules_end import SECTIONS

    makers = (
        _fixed, _after, _commands, _history, _profiles, _layers, _ncu, _files, _tests, _remaining, _reviews,
    )  # fmt: skip
    parts = [f"Stop code {code}: {seen}."]
    parts += [f"## {title}\n\n{make(campaign)}" for title, make in zip(SECTIONS, makers, strict=False)]
    answer = "Yes" if reached else "No"
    parts.append(f"## {SECTIONS[-1]}\n\n{answer}. {code}: {seen}.")
    return "\n\n".join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return Table("t", [Column(c, "text") for c in columns], list(rows)).to_md()


def _fixed(campaign: Campaign) -> str:
    if campaign.baseline is None:
        return "No baseline was locked."
    rows = [
        (w["scenario"], w["framework"], w["candidate_id"], w["launches"], f"{w['mean']:.2f}", w["metric"])
        for w in campaign.baseline["winners"]
    ]
    first = next((g for g in campaign.of("gap") if g["measurement"] is None), None)
    return (
        f"Contract `benchmark/contract.json` {campaign.baseline['contract_sha256']}.\n\n"
        + _table(("scenario", "framework", "candidate", "launches", "mean", "metric"), rows)
        + ("\n\n" + _verdicts(first) if first else "")
    )


def _verdicts(gap: Record) -> str:
    rows = [
        (
            s["scenario"],
            s["verdict"],
            s["against"],
            _pct(s["mean_pct"]),
            _pct(s["low_pct"]),
            _pct(s["high_pct"]),
            s["n_pairs"],
        )
        for s in gap["scenarios"]
    ]
    return f"Gap {gap.id}, report `{gap['path']}`:\n\n" + _table(
        ("scenario", "verdict", "against", "mean", "low", "high", "pairs"), rows
    )


def _pct(value: Any) -> str | None:
    return None if value is None else f"{float(value):+.2f} %"


def _after(campaign: Campaign) -> str:
    best, gap = verdicts.best_measurement(campaign), verdicts.current(campaign)
    if best is None or gap is None:
        return "No patch was accepted."
    kept = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    single, total = mechanism.sum_of_gains(campaign)
    rows = [
        (r.id, str(r["commit"])[:12], _pct(r["gain_pct"]), r["evidence"]["accuracy"], r["evidence"]["stability"])
        for r in kept
    ]
    told = (
        f"Sum of single gains {single:+.2f} %, verified total {total:+.2f} %, difference {total - single:+.2f} %."
        if total is not None
        else ""
    )
    told += _origin(best)
    return _table(("result", "commit", "gain", "accuracy", "stability"), rows) + f"\n\n{told}\n\n" + _verdicts(gap)


def _origin(measurement: Record) -> str:
    """Of launches that were handed in: how many files a recorded run wrote."""
    files: list[dict[str, Any]] = measurement.get("files") or []
    seen = sum(f.get("execution") is not None for f in files)
    return f" Of {len(files)} files handed in, recorded runs wrote {seen}." if files else ""


def _commands(campaign: Campaign) -> str:
    if campaign.baseline is None:
        return "None."
    lines = [
        f"- {w['framework']}, {w['scenario']}: `{w['server_command']}` measured with `{w['benchmark_command']}`"
        for w in campaign.baseline["winners"]
    ]
    page = "benchmark/winning-commands.md"
    return (f"All of them: `{page}`.\n\n" if (campaign.layout.run / page).is_file() else "") + "\n".join(lines)


def _history(campaign: Campaign) -> str:
    return "`history/model-pr-history-notes.md`" if campaign.layout.history_notes.is_file() else "None was read."


def _profiles(campaign: Campaign) -> str:
    made = [f"- round {p['round']}, {p['framework']}: `{p['triage']}`, `{p['digest']}`" for p in campaign.of("profile")]
    cause = [f"- root cause: `{campaign.last('root_cause')['path']}`"] if campaign.last("root_cause") else []  # pyright: ignore[reportOptionalSubscript]
    return "\n".join([*made, *cause]) or "Not profiled: SGLang was not behind."


def _layers(campaign: Campaign) -> str:
    found = campaign.of("layer_pipeline")
    return (
        "\n".join([f"- `{found[-1]['path']}`", *(f"- `{p['report']['path']}`" for p in found)])
        if found
        else "Not used."
    )


def _ncu(campaign: Campaign) -> str:
    return "\n".join(f"- {n['kernel']}: {n['digest']}" for n in campaign.of("ncu")) or "Not used."


def _files(campaign: Campaign) -> str:
    base, head = str(campaign.inputs["target_checkout"]["commit"]), verdicts.accepted_commit(campaign)
    files = repo.changed_files(campaign.checkout, base, head) if base != head else []
    patches = [
        f"- patch `{r['patch']}`" for r in campaign.of("result") if r["outcome"] == "accepted" and r.get("patch")
    ]
    return "\n".join([*(f"- {f}" for f in files), *patches]) or "None."


def _tests(campaign: Campaign) -> str:
    named = [t for a in campaign.of("attempt") for t in a.words("tests")]
    scores = [
        f"- {a.id}: " + ", ".join(f"{s['dataset']} {s['score']:.4f}" for s in a["scores"])
        for a in campaign.of("accuracy")
    ]
    return "\n".join([*(f"- {t}" for t in named), *scores]) or "None."


def _remaining(campaign: Campaign) -> str:
    return _table(("part", "count", "what"), coverage.remaining(campaign))


def _reviews(campaign: Campaign) -> str:
    return "\n".join(f"- `{r['path']}`: {r['verdict']}, {r['reviewer']}" for r in campaign.of("review")) or "None."
