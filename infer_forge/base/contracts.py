"""Locks and deployment points: canonical form, hash, what is missing, what differs, and the lock that is set once.

A contract is a JSON object. Its canonical form drops null members (unknown and absent are the same), writes whole
floats as integers, sorts keys and uses no spaces; its hash is the SHA-256 of those bytes. A locked file holds the
canonical object beside its hash and the time, is written once, and is never replaced: a new contract is a new task.

The pydantic types (`DeploymentPoint`, `BenchmarkContract` and their parts, in `base.contract_model`) are imported when
first asked for; the rest of this module needs none of them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault

if TYPE_CHECKING:
    from pydantic import ValidationError

    from infer_forge.base.contract_model import (
        Acceptance,
        BenchmarkContract,
        DeploymentPoint,
        EngineBudget,
        PilotEvidence,
        Scenario,
        SloLayer,
        WorkloadGrid,
    )

_MODELS = (
    "Acceptance",
    "BenchmarkContract",
    "DeploymentPoint",
    "EngineBudget",
    "PilotEvidence",
    "Scenario",
    "SloLayer",
    "WorkloadGrid",
)
__all__ = [
    "LAYERS",
    "Acceptance",
    "BenchmarkContract",
    "DeploymentPoint",
    "Difference",
    "EngineBudget",
    "Lock",
    "PilotEvidence",
    "Scenario",
    "SloLayer",
    "WorkloadGrid",
    "contract_of",
    "contract_sha256",
    "default_grid",
    "differences",
    "grid_of",
    "lock_once",
    "missing",
    "normal",
    "point_of",
    "point_sha256",
    "read_lock",
    "require_complete",
]

LAYERS = ("model", "serving_scenario", "serving_topology", "runtime_profile", "accelerator_platform")
"""The five layers of a deployment point, in the order of the chain (B1)."""

_REQUIRED: dict[str, tuple[str, ...]] = {
    "model": ("id", "revision|fingerprint", "tokenizer", "precision", "quantization"),
    "serving_scenario": ("modality", "traffic_shape", "slo"),
    "serving_topology": ("architecture", "tp", "pp", "dp", "ep"),
    "runtime_profile": ("framework", "version|commits", "image_digest|environment_digest", "engine_config"),
    "accelerator_platform": ("gpu_model", "gpu_count"),
}
"""What a complete point states; `a|b` means one of them. `engine_config` may be empty, but must be stated."""


def __getattr__(name: str) -> Any:
    if name in _MODELS:
        from infer_forge.base import contract_model

        return getattr(contract_model, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def normal(value: Any) -> Any:
    """The value with null members dropped and whole floats as integers: what the canonical form is made of.

    Raises `UsageFault` for what JSON cannot say (a float that is not finite, a key that is no text).
    """
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, item in cast("Mapping[Any, Any]", value).items():
            if not isinstance(key, str):
                raise UsageFault(f"a contract's keys are text, not {key!r}")
            if item is not None:
                result[key] = normal(item)
        return result
    if isinstance(value, (list, tuple)):
        return [normal(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise UsageFault(
                "a contract holds no NaN and no infinity", next_step='write "inf" as text, unknown as null'
            )
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


def contract_sha256(contract: Any) -> str:
    """Hash (hex) of the canonical form of a contract, a point or any other JSON object."""
    return jsonio.sha256_of(jsonio.canonical(normal(contract)))


def _told(fault: ValidationError, where: str) -> InputUnusable:
    lines = [f"{'.'.join(map(str, e['loc'])) or 'contract'}: {e['msg']}" for e in fault.errors()[:6]]
    more = len(fault.errors()) - len(lines)
    text = "; ".join(lines) + (f"; and {more} more" if more > 0 else "")
    return InputUnusable(text, where=where, next_step="correct these fields")


def point_of(data: Any, *, where: str = "deployment point") -> DeploymentPoint:
    """The typed deployment point of a JSON object; it may be incomplete. Raises `InputUnusable` naming each bad field."""
    from pydantic import ValidationError

    from infer_forge.base.contract_model import DeploymentPoint

    try:
        return DeploymentPoint.model_validate(data)
    except ValidationError as fault:
        raise _told(fault, where) from None


def contract_of(data: Any, *, where: str = "contract") -> BenchmarkContract:
    """The typed benchmark contract of a JSON object. Raises `InputUnusable` naming each bad field."""
    from pydantic import ValidationError

    from infer_forge.base.contract_model import BenchmarkContract

    try:
        return BenchmarkContract.model_validate(data)
    except ValidationError as fault:
        raise _told(fault, where) from None


def grid_of(
    input_lens: Sequence[int], output_lens: Sequence[int], *, names: Sequence[str] | None = None, **more: Any
) -> WorkloadGrid:
    """A grid of aligned pairs: the i-th input with the i-th output (A60). `more` goes into every scenario.

    Raises `UsageFault` when the lists differ in length: they are pairs, never a product.
    """
    from infer_forge.base.contract_model import Scenario, WorkloadGrid

    if len(input_lens) != len(output_lens):
        raise UsageFault(
            f"{len(input_lens)} input lengths and {len(output_lens)} output lengths: the lists are aligned pairs",
            next_step="give one output length for each input length",
        )
    if names is not None and len(names) != len(input_lens):
        raise UsageFault(f"{len(names)} names for {len(input_lens)} scenarios")
    chosen = names or [f"in{i}_out{o}" for i, o in zip(input_lens, output_lens, strict=True)]
    return WorkloadGrid(
        scenarios=[
            Scenario(name=n, input_len=i, output_len=o, **more)
            for n, i, o in zip(chosen, input_lens, output_lens, strict=True)
        ]
    )


def default_grid() -> WorkloadGrid:
    """The workload when the user gave none: `chat` 1000/1000 and `summarization` 8000/1000, 80 prompts (A59)."""
    return grid_of([1000, 8000], [1000, 1000], names=["chat", "summarization"], num_prompts=80)


def missing(point: Any, *, varying: Iterable[str] = ()) -> list[str]:
    """Names of what a deployment point does not state yet, as `layer.field` (`layer.a|b`: one of them).

    `varying`: fields or layers that are the compared dimension, so that each row states them instead.
    """
    from pydantic import BaseModel

    raw: Any = point.model_dump(mode="json") if isinstance(point, BaseModel) else point
    if not isinstance(raw, Mapping):
        raise InputUnusable(
            "a deployment point is a JSON object of five layers", next_step=f"layers: {', '.join(LAYERS)}"
        )
    data = cast("Mapping[str, Any]", raw)
    skip = tuple(varying)
    lacking: list[str] = []
    for layer, fields in _REQUIRED.items():
        content: Any = data.get(layer) or {}
        if not isinstance(content, Mapping):
            lacking.append(layer)
            continue
        stated = cast("Mapping[str, Any]", content)
        for field in fields:
            names = field.split("|")
            if any(_covered(f"{layer}.{n}", skip) for n in names):
                continue
            if not any(_stated(stated.get(n), n) for n in names):
                lacking.append(f"{layer}.{field}")
    return lacking


def _stated(value: Any, name: str) -> bool:
    if name == "engine_config":
        return value is not None
    return value not in (None, "", {}, [])


def require_complete(point: Any, *, varying: Iterable[str] = (), where: str = "deployment point") -> None:
    """Refuse a performance claim whose deployment point is incomplete (B3). Raises `GateRefused` naming what is missing."""
    lacking = missing(point, varying=varying)
    if lacking:
        raise GateRefused(
            f"the deployment point is incomplete: {', '.join(lacking)}",
            where=where,
            next_step="state these fields; a claim without them cannot be reproduced or compared",
        )


def point_sha256(point: Any, *, without: Iterable[str] = ()) -> str:
    """Hash of a deployment point, without the named fields or layers: two rows with the same one share those conditions."""
    skip = tuple(without)
    flat = {k: v for k, v in _flat(normal(point)).items() if not _covered(k, skip)}
    return contract_sha256(flat)


@dataclass(frozen=True)
class Difference:
    """One field in which two points (or contracts) are not known to be equal.

    `state`: `differs` (both known), or `unknown` (one side does not say). `varied`: the field was declared to vary.
    """

    field: str
    left: Any
    right: Any
    state: str
    varied: bool


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping) and value:
        result: dict[str, Any] = {}
        for key, item in cast("Mapping[str, Any]", value).items():
            result.update(_flat(item, f"{prefix}.{key}" if prefix else key))
        return result
    return {prefix: value}


def _covered(field: str, names: Iterable[str]) -> bool:
    return any(field == n or field.startswith(n.rstrip("*").rstrip(".") + ".") for n in names)


def differences(left: Any, right: Any, *, varying: Iterable[str] = ()) -> list[Difference]:
    """Every field in which two points are not known to be equal, by dotted name (B4).

    Two claims are comparable when each difference left is `varied`.
    """
    a, b = _flat(normal(left)), _flat(normal(right))
    skip = tuple(varying)
    found: list[Difference] = []
    for field in sorted({*a, *b} - {""}):
        one, two = a.get(field), b.get(field)
        if one in (None, {}, []) and two in (None, {}, []):
            continue
        if one != two or type(one) is not type(two):
            known = field in a and field in b
            found.append(Difference(field, one, two, "differs" if known else "unknown", _covered(field, skip)))
    return found


@dataclass(frozen=True)
class Lock:
    """A locked contract as it stands on disk."""

    kind: str
    sha256: str
    locked_at: str
    contract: dict[str, Any]
    path: str

    def to_json(self) -> dict[str, Any]:
        """What the file holds."""
        return {"kind": self.kind, "sha256": self.sha256, "locked_at": self.locked_at, "contract": self.contract}


def lock_once(path: str | os.PathLike[str], kind: str, contract: Any) -> Lock:
    """Lock a contract: write it with its hash and the time, once, and read-only; two that race cannot both win.

    Raises:
        GateRefused: a lock stands there already. A new contract is a new task.
    """
    target = Path(path)
    content = cast("dict[str, Any]", normal(contract))
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    lock = Lock(kind, contract_sha256(content), now, content, str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(jsonio.dumps(lock.to_json(), indent=True) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o444)
        os.link(name, target)  # fails when the target exists, whoever made it
    except FileExistsError:
        raise _already(target, kind, lock.sha256) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return lock


def _already(target: Path, kind: str, wanted: str) -> GateRefused:
    try:
        held = read_lock(target, kind)
        same = "the same content" if held.sha256 == wanted else "other content"
        what = f"is locked since {held.locked_at} as {held.sha256[:12]} ({same})"
    except InputUnusable as fault:
        what = f"holds a lock that cannot be trusted ({fault.what})"
    return GateRefused(
        f"{what}; a second lock is refused",
        where=str(target),
        next_step="a new contract is a new task: use a new run directory",
    )


def read_lock(path: str | os.PathLike[str], kind: str | None = None) -> Lock:
    """Read a locked contract and check its hash.

    Raises:
        InputUnusable: it is absent, of another kind, or was edited after locking.
    """
    raw = jsonio.read_json(Path(path))
    where = str(path)
    data = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    contract = data.get("contract")
    if not isinstance(contract, dict) or not all(isinstance(data.get(k), str) for k in ("kind", "sha256", "locked_at")):
        raise InputUnusable("is no locked contract", where=where)
    lock = Lock(data["kind"], data["sha256"], data["locked_at"], cast("dict[str, Any]", contract), where)
    if kind is not None and lock.kind != kind:
        raise InputUnusable(f"is a lock of kind {lock.kind}, not {kind}", where=where)
    found = contract_sha256(lock.contract)
    if found != lock.sha256:
        raise InputUnusable(
            f"was edited after it was locked: its hash is {found[:12]}, the lock says {lock.sha256[:12]}",
            where=where,
            next_step="restore the locked file; results stand on the hash",
        )
    return lock
