"""Evidence of a task: files with hash and content, accepted only where the locked contract was measured (B5, B31, B32).

What was measured at another deployment point, or under another benchmark contract, is no evidence of this task: it is
refused, and the task that it would be evidence of is proposed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks.events import Event
from infer_forge.tasks.state import Execution, Task, fold, load, require_open

_MOST_DATA_BYTES = 256_000
_DEPTH = 4


def evidence_of(kind: str, path: Path, trust: str = "recorded") -> dict[str, Any]:
    """A file as evidence: hash, and its content when it is JSON of moderate size.

    Raises:
        InputUnusable: it is not there.
    """
    if not path.is_file():
        raise InputUnusable("no such file", where=str(path), next_step="name the file that holds the evidence")
    data: dict[str, Any] = {}
    if path.stat().st_size <= _MOST_DATA_BYTES:
        try:
            content: Any = jsonio.read_json(path)
            data = cast("dict[str, Any]", content) if isinstance(content, dict) else {"content": content}
            jsonio.dumps(data)
        except (InputUnusable, TypeError):  # no JSON, or what cannot be written again: too deep, integers past 64 bits
            data = {}
    return {
        "kind": kind,
        "path": str(path.absolute()),
        "sha256": jsonio.sha256_file(path),
        "trust": trust,
        "data": data,
    }


def new_id() -> str:
    """Id of an evidence item."""
    return f"e-{secrets.token_hex(5)}"


def expected(execution: Execution) -> list[dict[str, Any]]:
    """The files that an execution was to write and that are there: `observed` when written since its intent, else `recorded`."""
    intent, found = execution.intent, list[dict[str, Any]]()
    claims, epoch = intent.get("claims", []), intent.get("epoch")
    for kind, name in intent.get("evidence", []):
        path = Path(name)
        if path.is_file():
            fresh = path.stat().st_mtime >= float(intent.get("began") or 0) - 1.0
            fact = evidence_of(kind, path, "observed" if fresh else "recorded")
            own = {"id": new_id(), "label": execution.label, "block": execution.block, "execution": execution.id}
            found.append({**fact, **own, "claims": claims, "epoch": epoch, "lock": intent.get("lock")})
    return found


def sort_out(task: Task, result: dict[str, Any]) -> dict[str, Any]:
    """A result whose evidence was held against the contract: what is of another place is kept aside, with the reason."""
    good: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for item in result.get("evidence", []):
        why = elsewhere(task, item["data"])
        if why:
            refused.append({k: item[k] for k in ("kind", "path", "sha256")} | {"why": why})
        else:
            good.append(item)
    return {**result, "evidence": good, "refused": refused}


def points_in(data: Any, depth: int = _DEPTH) -> Iterator[dict[str, Any]]:
    """Deployment points anywhere in a report."""
    if depth < 0:
        return
    if isinstance(data, dict):
        for key, value in cast("dict[str, Any]", data).items():
            if key in ("deployment_point", "point") and isinstance(value, dict):
                point = cast("dict[str, Any]", value)
                if set(point) & set(contracts.LAYERS):
                    yield point
            else:
                yield from points_in(value, depth - 1)
    elif isinstance(data, list):
        for value in cast("list[Any]", data)[:200]:
            yield from points_in(value, depth - 1)


def elsewhere(task: Task, data: dict[str, Any]) -> list[str]:
    """How evidence differs from where the contract says it is measured; empty when nothing is known to differ."""
    contract = task.typed.contract
    told: list[str] = []
    wanted = contract.benchmark_contract_sha256
    for sha in contract_hashes(data):
        if wanted and sha != wanted:
            told.append(f"measured under benchmark contract {sha[:12]}, not {wanted[:12]}")
    if contract.deployment_point is not None:
        own = contract.deployment_point.model_dump(mode="json", exclude_defaults=True)
        for point in points_in(data):
            for found in contracts.differences(own, point, varying=contract.may_vary):
                if found.state == "differs" and not found.varied:
                    told.append(f"{found.field} is {found.right!r}, the contract says {found.left!r}")
    return list(dict.fromkeys(told))


def contract_hashes(data: dict[str, Any]) -> Iterator[str]:
    """Hashes of benchmark contracts that a report says it was measured under."""
    header: Any = data.get("header")
    for place in (data, cast("dict[str, Any]", header) if isinstance(header, dict) else {}):
        value = place.get("contract_sha256")
        if isinstance(value, str):
            yield value


def add_evidence(
    store: Store, task_id: str, fact: dict[str, Any], *, label: str = "", epoch: int | None = None
) -> Task:
    """Append one evidence item (see `evidence_of`); one without a file or data is not taken.

    Raises:
        GateRefused: it was measured elsewhere than the contract says; the task it belongs to is proposed.
    """
    if fact["sha256"] is None:
        return load(store, task_id)
    task = load(store, task_id)
    why = elsewhere(task, fact["data"])
    if why:
        from infer_forge.tasks.proposals import propose_elsewhere

        made = propose_elsewhere(store, task, fact, why)
        raise GateRefused(
            f"it is no evidence of this task: {'; '.join(why[:3])}",
            where=fact.get("path"),
            next_step=f"a new task is proposed: infer-forge task new --from {made}",
        )
    item_id, claims = new_id(), _claims_now() if epoch is None else []
    newest = max((int(c.get("epoch") or 0) for c in claims), default=epoch)

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        now = fold(task_id, events)
        require_open(now)
        block = now.active_block
        own = {"id": item_id, "label": label, "block": block.number if block else None, "lock": now.lock_sha}
        return "evidence", {**own, "epoch": newest, "claims": claims, **fact}

    history.append(store, task_id, decide, op=item_id)
    return load(store, task_id)


def _claims_now() -> list[dict[str, Any]]:
    """The claims that this run holds, as the guard's context knows them."""
    from infer_forge.base import ownership

    run = ownership.load().current()
    return [dict(c) for c in run.claims] if run is not None else []
