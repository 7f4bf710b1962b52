"""`campaign record profile`: traces of the current state, triaged here and kept with their hashes (A28, A87, A114, A146)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused
from infer_forge.campaign import book, gates, repo, shapes, verdicts

if TYPE_CHECKING:
    from infer_forge.campaign.model import Profile


def record_profile(campaign: book.Campaign, given: Profile) -> book.Campaign:
    """Triage traces of one framework, keep the report and a short page, and record them.

    Raises:
        GateRefused: no round is open, the framework is not selected, or the traces show another state.
    """
    gates.require(campaign, "A100", "A31", what="a profile")
    if given.framework not in ("sglang", *campaign.inputs["frameworks"]["selected"]):
        raise GateRefused(f"A42: {given.framework} is not selected", next_step="profile selected frameworks only")
    from infer_forge.profile import Options, triage

    _known_scenario(campaign, given)
    _at_accepted(campaign, given)
    _fresh(campaign, given)
    options = Options(
        mapping=Path(given.mapping) if given.mapping else None,
        server_args=Path(given.server_args) if given.server_args else None,
        server_log=Path(given.server_log) if given.server_log else None,
        min_share=0.0,
    )
    report = triage(list(given.traces), options)
    stages = {str(r["stage"]): float(r["busy_us"] or 0) for r in report.tables["stages"].dicts()}
    number = len(campaign.of("profile")) + 1
    place = campaign.layout.profiles / f"{number:03d}-{given.framework}-round-{campaign.round_number}.json"
    jsonio.write_atomic(place, report.render("json"))
    digest = campaign.layout.profile_digests / f"{place.stem}.md"
    jsonio.write_atomic(
        digest, f"# Profile {number}: {given.framework}, round {campaign.round_number}\n\n{report.render('md')}\n"
    )
    body = {
        "framework": given.framework,
        "purpose": given.purpose,
        "traces": [book.file_facts(str(t.path)) for t in report.header.inputs],
        "triage": campaign.layout.relative(place),
        "sha256": jsonio.sha256_file(place),
        "digest": campaign.layout.relative(digest),
        "stages": stages,
        "shapes": shapes.captured(list(given.traces)),
        "scenario": given.scenario,
        "commit": repo.look(campaign.checkout).commit if given.framework == "sglang" else None,
        "contract_sha256": campaign.contract[1] if campaign.contract else None,
    }
    return book.append(campaign, "profile", body)


def _known_scenario(campaign: book.Campaign, given: Profile) -> None:
    assert campaign.contract is not None
    names = [n for s in campaign.contract[0].grid.scenarios for n in shapes.statements(campaign, s.name)]
    if given.scenario is not None and given.scenario not in names:
        raise GateRefused(
            f"A117: {given.scenario} is no scenario of the contract", next_step=f"name one of {', '.join(names)}"
        )


def _at_accepted(campaign: book.Campaign, given: Profile) -> None:
    """SGLang is profiled at the accepted state; with an attempt under way only to show it (`purpose=accepted`)."""
    if given.framework != "sglang" or (given.purpose == "accepted" and gates.open_attempt(campaign) is not None):
        return
    seen, wanted = repo.look(campaign.checkout), verdicts.accepted_commit(campaign)
    if seen.dirty or not repo.same_tree(campaign.checkout, wanted, seen.commit):
        state = "has uncommitted changes" if seen.dirty else f"is at {seen.commit[:12]}"
        raise GateRefused(
            f"A87: the checkout {state}, the accepted state is {wanted[:12]}: its profile would show another engine",
            where=str(seen.path),
            next_step="infer-forge campaign next, which leads back to the accepted state; then capture again",
        )


def _fresh(campaign: book.Campaign, given: Profile) -> None:
    """Refuse a trace of an earlier state: written before the last accepted result, or recorded before it (A87)."""
    from datetime import datetime

    kept = [r for r in campaign.of("result") if r["outcome"] == "accepted"]
    locked = campaign.last("contract_lock")
    since = kept[-1] if kept and given.framework == "sglang" else locked
    if since is None:
        return
    limit = datetime.fromisoformat(since.at.replace("Z", "+00:00")).timestamp()
    for trace in given.traces:
        place = Path(trace)
        files = sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
        for file in files:
            if file.is_file() and file.stat().st_mtime < limit:
                raise GateRefused(
                    f"A87: the trace is older than {since.kind} {since.id}: it shows an earlier state",
                    where=str(file),
                    next_step="profile the current state: infer-forge capture ...",
                )
            old = next(
                (
                    p
                    for p in campaign.of("profile")
                    if any(t["sha256"] == book.file_facts(str(file))["sha256"] for t in p["traces"])
                ),
                None,
            )
            if old is not None and old.number < since.number:
                raise GateRefused(
                    f"A87: this trace was recorded as {old.id}, before {since.kind} {since.id}",
                    where=str(file),
                    next_step="profile again",
                )
