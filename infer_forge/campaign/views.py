"""Markdown views of the ledger (A24, A32, A140 to A145): rewritten after every record, never a source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.tables import Column, Table
from infer_forge.campaign import pages, verdicts
from infer_forge.campaign.book import Campaign, Record


def _table(columns: list[str], rows: list[list[Any]]) -> str:
    return Table("t", [Column(c, "text") for c in columns], rows).to_md()


def manifest(campaign: Campaign) -> str:
    """Target, comparison set, exclusions with reasons, inputs with origins, status, index of artifacts (A24)."""
    first, values = campaign.records[0], campaign.inputs
    origins: dict[str, str] = {}
    for record in campaign.of("init", "inputs"):
        origins |= record["origins"]
    chosen = values["frameworks"]
    sets = [["sglang", "target", ""], *([n, "selected", ""] for n in chosen["selected"])]
    sets += [[n, "excluded by the user", why] for n, why in chosen["excluded"].items()]
    sets += [[n, "unsupported here", why] for n, why in chosen["unsupported"].items()]
    shown = [[k, v, origins.get(k)] for k, v in values.items() if k not in ("frameworks",)]
    files = sorted(
        {str(r[k]) for r in campaign.records for k in ("path", "triage", "patch") if isinstance(r.get(k), str)}
    )
    reviewer = first.get("reviewer") or "the same agent (self-check)"
    who = f"mode {first['mode']}, executor {first.get('executor') or 'not named'}, reviewer {reviewer}"
    return "\n\n".join(
        [
            f"State: {campaign.state}. Task {campaign.task_id}, loop {campaign.loop_id}; {who}.",
            "## Frameworks\n\n" + _table(["framework", "state", "reason"], sets),
            "## Inputs\n\n" + _table(["input", "value", "origin"], shown),
            "## Artifacts\n\nLedgers lie in this run directory, not in the checkout.\n\n"
            + ("\n".join(f"- `{f}`" for f in files) or "none yet"),
        ]
    )


def attempts(campaign: Campaign) -> str:
    """Every attempt, the failed ones too (A142)."""
    results = {str(r["attempt"]): r for r in campaign.of("result")}
    rows: list[list[Any]] = []
    for a in campaign.of("attempt"):
        r = results.get(a.id)
        gain = f"{r['gain_pct']:+.2f} %" if r and r.get("gain_pct") is not None else None
        rows.append(
            [
                a["number"],
                a.id,
                a["round"],
                a["title"],
                a["idea"],
                str(a["base_commit"])[:12],
                str(r.get("commit") or "")[:12] if r else None,
                r["outcome"] if r else "open",
                gain,
                r["reason"] if r else None,
            ]
        )
    return _table(["no", "id", "round", "title", "idea", "base", "commit", "outcome", "gain", "reason"], rows)


def optimizations(campaign: Campaign) -> str:
    """Only what is correct, measured better and reviewed (A143)."""
    reviewed = {str(r["result"]) for r in campaign.of("review") if r["verdict"] == "pass"}
    rows: list[list[Any]] = []
    for r in campaign.of("result"):
        if r["outcome"] == "accepted" and r.id in reviewed:
            e = r["evidence"]
            rows.append(
                [
                    r.id,
                    r["attempt"],
                    str(r["commit"])[:12],
                    f"{r['gain_pct']:+.2f} %",
                    e["throughput"],
                    e["accuracy"],
                    e["memory"],
                    e["stability"],
                ]
            )
    return _table(["result", "attempt", "commit", "gain", "verdict", "accuracy", "memory", "stability"], rows)


def ideas(campaign: Campaign) -> str:
    """Source ideas with profile, layer and NCU evidence and provenance (A144, A147)."""
    tried: dict[str, str] = {}
    outcomes = {str(r["attempt"]): str(r["outcome"]) for r in campaign.of("result")}
    for a in campaign.of("attempt"):
        tried[str(a["idea"])] = outcomes.get(a.id, "open")
    digests = {str(n["idea"]): str(n["digest"]) for n in campaign.of("ncu")}
    rows = [
        [
            i.id,
            i["round"],
            i["title"],
            i["repository"],
            i["path"],
            i.get("symbol"),
            i["covers"],
            f"{i['expected_gain_pct']:g} %",
            i.get("profile"),
            i.get("layer"),
            digests.get(i.id) or i.get("ncu"),
            i["provenance"],
            i.get("history"),
            tried.get(i.id, "untried"),
        ]
        for i in campaign.of("idea")
    ]
    head = [
        "id",
        "round",
        "title",
        "repository",
        "path",
        "symbol",
        "covers",
        "at most",
        "profile",
        "layer",
        "ncu",
        "provenance",
        "history",
        "state",
    ]
    dismissed = [
        [d.id, d["round"], d["covers"], d["reason"], str(d["evidence"].get("path") or d["evidence"].get("record"))]
        for d in campaign.of("dismissal")
    ]
    return (
        _table(head, rows) + "\n\n## Dismissed\n\n" + _table(["id", "round", "covers", "reason", "evidence"], dismissed)
    )


def history(campaign: Campaign) -> str:
    """History notes (A47). They guide; they prove nothing (A49)."""
    out: list[str] = []
    for r in campaign.of("history"):
        if r.get("blocker"):
            out.append(f"Blocker ({r.at[:10]}, {r.id}): {r['blocker']}")
        for i in r.get("items", []):
            state = (
                f"{i['state']}, head {i['head_sha']}: a candidate, not in the recorded source"
                if i["state"] == "open"
                else i["state"]
            )
            out.append(
                f"## {i['framework']} #{i['pr']} ({state})\n\n- read: {i['path']} at {i['source_commit']}\n"
                f"- files: {', '.join(i['files'])}\n"
                f"- symbols: {', '.join(i.get('symbols') or []) or 'none named'}\n- validation: {i['validation']}\n"
                f"- limits: {i['limits']}\n- risk: {i['risk']}\n- decision: {i['decision']}"
            )
    for p in campaign.of("pr_check"):
        out.append(
            f"Open pull requests, {p.at[:10]} ({p.id}): upstream {p['upstream']}, fork {p['fork']}: "
            f"{', '.join(map(str, p['open'])) or 'none'}"
        )
    return "\n\n".join(out) or "nothing yet"


def checkpoint(campaign: Campaign) -> str:
    """What a new session needs and nothing else (A140, A141)."""
    values, best, gap = campaign.inputs, verdicts.best_measurement(campaign), verdicts.current(campaign)
    lines = [
        f"- model {values.get('model')}, tokenizer {values.get('tokenizer')}",
        f"- precision {values.get('precision')}, quantization {values.get('quantization')}",
        f"- hardware {values.get('gpu_count')}x {values.get('gpu_model')}; artifact root `{campaign.layout.run}`",
    ]
    if campaign.contract is not None:
        contract, sha = campaign.contract
        grid = ", ".join(f"{s.name} {s.input_len}/{s.output_len}" for s in contract.grid.scenarios)
        sla = ", ".join(f"{k} {v:g}" for k, v in contract.sla.model_dump().items() if v is not None) or "none"
        lines += [f"- contract {sha}; workload {grid}; SLA {sla}; threshold {100 * contract.threshold:g} %"]
    if campaign.baseline is not None:
        lines += [
            f"- winner {w['framework']} {w['scenario']}: `{w['server_command']}`" for w in campaign.baseline["winners"]
        ]
    seen = values["target_checkout"]
    accepted = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    done = [
        f"- checkout `{seen['path']}`, branch {seen['branch']}, accepted commit {verdicts.accepted_commit(campaign)}",
        f"- accepted: {'; '.join(_accepted(campaign, r) for r in accepted) or 'nothing yet'}",
        f"- best SGLang measurement: {best.id if best else 'the baseline'}",
    ]
    worst = verdicts.worst(gap) if gap else None
    rejected = [r for r in campaign.of("result") if r["outcome"] != "accepted"]
    untried = [i for i in campaign.of("idea") if not any(a["idea"] == i.id for a in campaign.of("attempt"))]
    rest = [
        f"- remaining gap: {worst['scenario']} {worst['verdict']} {worst['mean_pct']}"
        if worst
        else f"- remaining gap: none ({gap['overall'] if gap else 'not decided'})",
        f"- profiles: {', '.join(p.id for p in campaign.of('profile')[-6:]) or 'none'}; history notes: `history/model-pr-history-notes.md`",
        f"- layer notes: {', '.join(p.id for p in campaign.of('layer_pipeline')[-3:]) or 'none'}",
        f"- NCU digests: {', '.join(str(n['digest']) for n in campaign.of('ncu')[-3:]) or 'none'}",
        f"- rejected: {'; '.join(str(r['reason']) for r in rejected[-5:]) or 'nothing'}",
        f"- planned next: {untried[-1]['title'] if untried else 'not planned'}",
    ]
    return "\n".join(
        ["## What is fixed", "", *lines, "", "## What is done", "", *done, "", "## What is left", "", *rest]
    )


def _accepted(campaign: Campaign, result: Record) -> str:
    attempt = campaign.find(str(result["attempt"]))
    tests = ", ".join(attempt.get("tests") or []) if attempt else ""
    return (
        f"{result.id} commit {str(result['commit'])[:12]} {result['gain_pct']:+.2f} % (tests: {tests or 'none named'})"
    )


def lineage(campaign: Campaign) -> bytes:
    """Parent -> child of commits, measurements, attempts and rows, one JSON line each (A145)."""
    out: list[bytes] = []
    for r in campaign.records:
        links: list[tuple[str, str, str]] = []
        if r.kind == "attempt":
            links = [("commit", str(r["base_commit"]), r.id), ("idea", str(r["idea"]), r.id)]
        elif r.kind == "measurement":
            links = [("commit", str(r["commit"]), r.id), *(("row", r.id, str(h)) for h in r["rows"])]
        elif r.kind == "result":
            links = [
                ("attempt", str(r["attempt"]), r.id),
                *([("commit", r.id, str(r["commit"]))] if r.get("commit") else []),
            ]
        out += [jsonio.dumps({"kind": k, "parent": p, "child": c, "round": r.get("round")}) for k, p, c in links]
    return b"".join(line + b"\n" for line in out) or b"{}\n"


VIEWS: dict[str, tuple[str, Callable[[Campaign], str]]] = {
    "manifest.md": ("Manifest", manifest),
    "history/model-pr-history-notes.md": ("History notes", history),
    "humanize/attempt-ledger.md": ("Attempts", attempts),
    "humanize/optimization-ledger.md": ("Optimizations", optimizations),
    "humanize/source-idea-ledger.md": ("Source ideas", ideas),
    "humanize/model-loop-checkpoint.md": ("Checkpoint", checkpoint),
}
"""Relative path -> title and the function that renders it."""


def write_views(campaign: Campaign) -> None:
    """Rewrite every view whose content changed."""
    for name, (title, render) in VIEWS.items():
        place = campaign.layout.run / name
        if name.startswith("history/") and not campaign.of("history"):
            continue
        body = render(campaign)
        if not pages.same_as(place, body):
            place.parent.mkdir(parents=True, exist_ok=True)
            pages.write_page(place, title, body)
    data = lineage(campaign)
    if not campaign.layout.lineage.is_file() or campaign.layout.lineage.read_bytes() != data:
        jsonio.write_atomic(campaign.layout.lineage, data)


def edited(campaign: Campaign) -> list[str]:
    """Views whose generated part is not what the ledger says."""
    wrong: list[str] = []
    for name, (_, render) in VIEWS.items():
        place: Path = campaign.layout.run / name
        if place.is_file() and not pages.same_as(place, render(campaign)):
            wrong.append(name)
    return wrong


def kept_files(record: Record) -> list[tuple[str, str]]:
    """(path in the run, sha256) of every file that a record wrote there."""
    body = record.body
    nested: list[dict[str, Any]] = [*(body.get("comparisons") or []), *([body["report"]] if body.get("report") else [])]
    pairs = [("triage" if record.kind == "profile" else "path", "sha256"), ("patch", "patch_sha256")]
    found = [(body.get(p), body.get(s)) for p, s in pairs] + [(n.get("path"), n.get("sha256")) for n in nested]
    return [(str(p), str(s)) for p, s in found if p and s and not Path(str(p)).is_absolute()]


def altered(campaign: Campaign) -> list[str]:
    """Files of the run that are not what the newest record of them says: gap reports, triages, comparisons, pipelines, ceiling, patches."""
    kept = {path: sha for r in campaign.of(*KEPT) for path, sha in kept_files(r)}
    places = {path: campaign.layout.run / path for path in kept}
    return sorted(p for p, f in places.items() if not f.is_file() or jsonio.sha256_file(f) != kept[p])


KEPT = ("gap", "profile", "ceiling", "root_cause", "layer_pipeline", "result")
"""Records that wrote files into the run beside the pages."""
