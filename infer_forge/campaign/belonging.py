"""Whether an evidence file can be of the attempt that it is handed in for: written since, used for nothing else, of this model.

A file that lay there before the attempt began, or that speaks for another state already, shows nothing of this one.
"""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.campaign import book

_KINDS = ("accuracy", "soak", "mechanism", "profile")


def require_own(campaign: book.Campaign, attempt: book.Record, file: Path) -> None:
    """Refuse a file that cannot be evidence of this attempt; one that is not there is left to its reader.

    Raises:
        GateRefused: it was written before the attempt began, or speaks for another state already.
    """
    if not file.is_file():
        return
    if file.stat().st_mtime < _seconds(attempt.at):
        raise GateRefused(
            f"A87: it was written before attempt {attempt.id} began at {attempt.at}: it shows an earlier state",
            where=str(file),
            next_step="run it again on the patched commit",
        )
    _require_unused(file, [r for r in campaign.of(*_KINDS) if not _of(r, attempt)])


def _of(record: book.Record, attempt: book.Record) -> bool:
    """Whether a record speaks of the attempt: a profile does when it was taken since."""
    return record.number > attempt.number if record.kind == "profile" else record.get("attempt") == attempt.id


def require_of_side(campaign: book.Campaign, framework: str, file: Path) -> None:
    """Refuse an accuracy file of the baseline that was recorded for another framework.

    Raises:
        GateRefused: it was.
    """
    others = [r for r in campaign.of("accuracy") if r["framework"] != framework]
    _require_unused(file, others)


def _require_unused(file: Path, others: list[book.Record]) -> None:
    sha256 = jsonio.sha256_file(file) if file.is_file() else None
    taken = next((r for r in others if sha256 is not None and sha256 in _hashes(r)), None)
    if taken is not None:
        raise GateRefused(
            f"A87: this file was recorded as {taken.kind} {taken.id}, of another state",
            where=str(file),
            next_step="each state has files of its own: run it again",
        )


def _hashes(record: book.Record) -> list[str]:
    files: list[dict[str, Any]] = [*(record.get("files") or []), *(record.get("traces") or []), record.body]
    return [str(f["sha256"]) for f in files if f.get("sha256")]


def require_time(attempt: book.Record, minutes: float, file: Path) -> None:
    """Refuse a soak that claims more minutes than passed since its attempt began.

    Raises:
        GateRefused: it does.
    """
    passed = (datetime.now(timezone.utc).timestamp() - _seconds(attempt.at)) / 60
    if minutes > passed:
        raise GateRefused(
            f"C65: a soak of {minutes:g} minutes, and attempt {attempt.id} began {passed:.2f} minutes ago",
            where=str(file),
            next_step="let the patched engine run under load for so long",
        )


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()


def require_model(campaign: book.Campaign, file: Path) -> None:
    """Refuse an lm-eval result that states another model than the campaign's; one that states none says nothing.

    Raises:
        GateRefused: it does.
    """
    stated = _model_of(file)
    if stated is None:
        return
    named = [str(campaign.inputs["model"]), str(campaign.inputs.get("model_dir") or "")]
    known = {n.rstrip("/").rsplit("/", 1)[-1].lower() for n in named if n}
    if stated.rstrip("/").rsplit("/", 1)[-1].lower() in known or stated in _served(campaign):
        return
    raise GateRefused(
        f"C41: the result is of the model {stated}, the campaign is about {named[0]}",
        where=str(file),
        next_step="evaluate the campaign's model",
    )


def _served(campaign: book.Campaign) -> set[str]:
    """Words of the commands that served the model: of the winners, or before they are locked of all that was launched."""
    from infer_forge.bench.ledger_rows import RowStore

    if campaign.baseline is not None:
        commands = {str(w["server_command"]) for w in campaign.baseline["winners"]}
    else:
        sha256 = campaign.contract[1] if campaign.contract else None
        commands = {r.server_command or "" for r in RowStore(campaign.layout.bench.rows).rows(contract_hash=sha256)}
    return {word for line in commands for word in shlex.split(line)}


def _model_of(file: Path) -> str | None:
    """The model that an lm-eval result names: `model_name`, else `model` or `pretrained` among the model's arguments."""
    try:
        raw: Any = jsonio.read_json(file)
    except InputUnusable:
        return None
    if not isinstance(raw, dict):
        return None
    data = cast("dict[str, Any]", raw)
    config: Any = data.get("config")
    told: Any = cast("dict[str, Any]", config).get("model_args") if isinstance(config, dict) else None
    if isinstance(told, str):
        told = dict(p.split("=", 1) for p in told.split(",") if "=" in p)
    words = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    found: Any = data.get("model_name") or words.get("pretrained") or words.get("model")
    return found if isinstance(found, str) and found else None
