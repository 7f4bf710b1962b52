"""Conditions of a measurement: a clean checkout at the commit that its label asks for, each side launched as at the baseline."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import GateRefused
from infer_forge.campaign import accepting, book, gates, repo, verdicts
from infer_forge.campaign.inputs import TARGET

if TYPE_CHECKING:
    from infer_forge.bench.search_config import Candidate
    from infer_forge.bench.session import Session

VARIABLE = "INFER_FORGE_SOURCE_COMMIT"
"""Variable of a patched candidate that names its commit."""

_ANY_PORT = 59999


def clean(campaign: book.Campaign) -> repo.Checkout:
    """The checkout as it stands, committed; also what git was told not to see is looked at.

    Raises:
        GateRefused: it has uncommitted changes.
    """
    seen = repo.look(campaign.checkout)
    changed = seen.dirty or repo.unseen_changes(seen.path)
    if changed:
        raise GateRefused(
            f"A91: the checkout has uncommitted changes: {', '.join(changed[:4])}",
            where=str(seen.path),
            next_step="commit them: a measurement belongs to a commit",
        )
    return seen


def require_unmoved(campaign: book.Campaign, commit: str) -> None:
    """A135: every launch of a measurement is of the same commit.

    Raises:
        GateRefused: the checkout was changed meanwhile; the launches stay in the rows and count for nothing.
    """
    now = clean(campaign).commit
    if now != commit:
        raise GateRefused(
            f"A135: the checkout went from {commit[:12]} to {now[:12]} while it was measured",
            where=str(campaign.checkout),
            next_step="infer-forge campaign next; leave the checkout alone while it is measured",
        )


def head_of(campaign: book.Campaign, label: str) -> str:
    """The clean checkout's commit, where it is the one that this label asks for.

    Raises:
        GateRefused: it is not.
    """
    seen = clean(campaign)
    attempt = gates.open_attempt(campaign)
    if label == "off":
        return seen.commit
    if label == "repeat":
        wanted = verdicts.accepted_commit(campaign)
        if attempt is not None or not repo.same_tree(seen.path, wanted, seen.commit):
            raise GateRefused(
                f"an attempt is open, or the checkout is not at the accepted state {wanted[:12]}",
                where=str(seen.path),
                next_step="infer-forge campaign next",
            )
        return seen.commit
    if attempt is None:
        raise GateRefused(
            "A100: no attempt is open",
            where=str(seen.path),
            next_step="infer-forge campaign record attempt, before the change is made",
        )
    if seen.commit == attempt["base_commit"]:
        raise GateRefused(
            "A135: the checkout is still at the attempt's base: the patch is not active",
            where=str(seen.path),
            next_step="commit the change in this checkout, then measure",
        )
    if not repo.is_ancestor(seen.path, attempt["base_commit"], seen.commit):
        raise GateRefused(
            "A135: the commit is not built on the attempt's base",
            where=str(seen.path),
            next_step="put the change on its base",
        )
    _once(campaign, attempt, seen.commit)
    return seen.commit


def _once(campaign: book.Campaign, attempt: book.Record, commit: str) -> None:
    """A103: the same files are not measured until chance favours it.

    Raises:
        GateRefused: an earlier measurement of them is decided, or they had all launches that the contract allows.
    """
    assert campaign.contract is not None
    mine = [m for m in campaign.of("measurement") if m.number > attempt.number and m["label"] == "patched"]
    done = [m for m in mine if not m["failed"] and repo.same_files(campaign.checkout, str(m["commit"]), commit)]
    if not done or accepting.quality_unknown(campaign, done[-1]) is not None:
        return
    most = campaign.contract[0].budgets.max_launches_per_engine
    gap = next((g for g in reversed(campaign.of("gap")) if g["measurement"] == done[-1].id), None)
    rows: list[dict[str, Any]] = [*gap["scenarios"], *(gap["improvement"] or [])] if gap else []
    if not any(r["verdict"] == "inconclusive" for r in rows) or sum(int(m["launches"]) for m in done) >= most:
        raise GateRefused(
            f"A103: {commit[:12]} was measured as {done[-1].id}: launching it again until it looks better proves nothing",
            next_step=f"infer-forge campaign record gap --set measurement={done[-1].id}, or end the attempt",
        )


def other_source(checkout: Path, commit: str, told: str | None) -> str | None:
    """Why a package's own word of its commit is not this commit of the checkout; None when it is, or says nothing.

    An editable install tells the commit of its source, with `+dirty` when that was changed (`engines.env`).
    """
    if not told:
        return None
    if told.endswith("+dirty"):
        return f"its source was changed from {told[:12]}"
    if commit.startswith(told) or (repo.exists(checkout, told) and repo.same_files(checkout, told, commit)):
        return None
    return f"its source is at {told[:12]}"


def require_installed(campaign: book.Campaign, session: Session, commit: str) -> None:
    """A135: the engine that will be launched is of the checkout, where it tells its source.

    Raises:
        GateRefused: it is of another commit, or of changed files.
    """
    from infer_forge.engines import frameworks

    seen = session.environments.get(TARGET)
    commits: dict[str, str] = seen.facts.get("commits") or {} if seen is not None else {}
    why = other_source(campaign.checkout, commit, commits.get(frameworks.GRAMMARS[TARGET].packages[0]))
    if why is not None:
        raise GateRefused(
            f"A135: the installed {TARGET} is not the checkout at {commit[:12]}: {why}",
            where=session.config.engine(TARGET).place,
            next_step=f"install it from {campaign.checkout} (pip install -e), so that the patch is active",
        )


def require_same_launch(campaign: book.Campaign, session: Session, chosen: list[Candidate]) -> None:
    """A79: every side is launched as at the baseline: the same command but for its port, the same variables of the engine.

    A rival's environment (image, driver, packages) is that of the baseline too; the target's changes with its commit.

    Raises:
        GateRefused: it would not be.
    """
    from infer_forge.bench.row_facts import launch_of

    digests = {str(e["launch_id"]): _digest(e) for e in session.store.events("launch_ends")}
    for candidate in chosen:
        rows = verdicts.sides_of(campaign, None)[candidate.framework]
        known = [_told(r.server_command or "", r.server_env or {}) for r in rows]
        now = _told(*launch_of(session, candidate, candidate.command(session.config, _ANY_PORT)))
        if now in known:
            _require_same_environment(session, candidate, {digests.get(str(r.launch_id)) for r in rows})
            continue
        what = "variables" if any(now[0] == k[0] for k in known) else "command"
        index = 1 if what == "variables" else 0
        raise GateRefused(
            f"A79: {candidate.framework} would be launched with another {what} than at the baseline: "
            f"{_differing(known[0][index], now[index])}",
            where=session.config.name,
            next_step="launch it as the locked winner was: the same configuration, and the engine's variables as they were",
        )


def _digest(event: Mapping[str, Any]) -> str | None:
    point: dict[str, Any] = event.get("point") or {}
    runtime: dict[str, Any] = point.get("runtime_profile") or {}
    return runtime.get("environment_digest")


def _require_same_environment(session: Session, candidate: Candidate, known: set[str | None]) -> None:
    now = session.environments.get(candidate.framework)
    if candidate.framework == TARGET or now is None or None in known or not known or now.digest in known:
        return
    raise GateRefused(
        f"A55: the environment of {candidate.framework} is {now.digest[:12]}, at the baseline it was "
        + " or ".join(sorted(str(d)[:12] for d in known)),
        where=session.config.name,
        next_step="infer-forge engine env shows it: measure in the environment of the baseline, or begin a new campaign",
    )


def _told(command: str, variables: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Words of a launch, its port left out, and its variables but for the commit."""
    from infer_forge.engines.command import check_shape

    words = shlex.split(command)
    port = str(check_shape(words).port)
    named = sorted(f"{k}={v}" for k, v in variables.items() if k != VARIABLE)
    return ["PORT" if w == port else w for w in words], named


def _differing(before: list[str], now: list[str]) -> str:
    gone, new = [w for w in before if w not in now], [w for w in now if w not in before]
    return f"{' '.join(gone[:3]) or 'nothing'} became {' '.join(new[:3]) or 'nothing'}"
