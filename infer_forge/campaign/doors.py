"""One door for everything that is recorded, as the MCP tool needs it: records, locks, reviews, the stop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Report
from infer_forge.campaign import book


def record_any(run: str | Path | None, kind: str, data: Mapping[str, Any]) -> Report:
    """Record something of any kind, also locks (`lock_contract`, `lock_baseline`), a `review` and the `stop`.

    Raises:
        UsageFault: a field is wrong. GateRefused: its gate does not hold.
    """
    held = book.open_campaign(run)
    name = kind.replace("-", "_")
    special = _SPECIAL.get(name)
    if special is not None:
        fields, act = special
        unknown = sorted(set(data) - set(fields))
        if unknown:
            raise UsageFault(f"{name} has no field {', '.join(unknown)}", next_step=f"fields: {', '.join(fields)}")
        return act(held, data)
    from infer_forge.campaign.recording import record

    return record(held, name, data)[1]


def _contract(held: book.Campaign, data: Mapping[str, Any]) -> Report:
    from infer_forge.campaign.locking import lock_contract

    def file(name: str) -> Path | None:
        return Path(str(data[name])) if data.get(name) else None

    return lock_contract(
        held,
        config=file("config"),
        contract=file("contract"),
        settings=data.get("set") or {},
        dry_run=bool(data.get("dry_run")),
    )[1]


def _baseline(held: book.Campaign, data: Mapping[str, Any]) -> Report:
    from infer_forge.campaign.locking import lock_baseline

    return lock_baseline(
        held, min_launches=int(data.get("min_launches") or 0) or None, dry_run=bool(data.get("dry_run"))
    )[1]


def _review(held: book.Campaign, data: Mapping[str, Any]) -> Report:
    from infer_forge.campaign.reviewing import review

    return review(held, str(data.get("result")), str(data.get("reviewer") or ""), data.get("points") or {})[1]


def _stop(held: book.Campaign, data: Mapping[str, Any]) -> Report:
    from infer_forge.campaign.status import status_report
    from infer_forge.campaign.stopping import stop

    return status_report(stop(held, str(data.get("code")), data.get("evidence") or ()))


_SPECIAL: dict[str, tuple[tuple[str, ...], Any]] = {
    "lock_contract": (("config", "contract", "set", "dry_run"), _contract),
    "lock_baseline": (("min_launches", "dry_run"), _baseline),
    "review": (("result", "reviewer", "points"), _review),
    "stop": (("code", "evidence"), _stop),
}
