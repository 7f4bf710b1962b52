"""What a journal record is: one Markdown file with typed YAML front matter, immutable once it is archived."""

from __future__ import annotations

import datetime
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from infer_forge.base import jsonio
from infer_forge.base.contract_model import DeploymentPoint
from infer_forge.journal.aliases import canonical
from infer_forge.journal.dimensions import DIMENSIONS

Kind = Literal[
    "task_record",
    "result",
    "rejection",
    "pitfall",
    "pr_card",
    "crash_case",
    "profile_digest",
    "ncu_digest",
    "note",
    "handoff",
]
KINDS: tuple[str, ...] = Kind.__args__

_ALIASED = ("model", "gpu", "framework", "precision")


DEEPEST = 64
"""Nesting that a record may have: what lies deeper cannot be written by every serializer."""


def deeper_than(value: Any, most: int) -> bool:
    """Whether mappings and lists stand in one another more than so many times."""
    level: list[Any] = [value]
    for _ in range(most + 1):
        parts: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                parts += cast("dict[Any, Any]", part).values()
            elif isinstance(part, list):
                parts += cast("list[Any]", part)
        level = [p for p in parts if isinstance(p, (dict, list))]
        if not level:
            return False
    return True


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Artifact(_Strict):
    """A file that a record stands on: where it lay, and its sha256."""

    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int | None = None


class Link(_Strict):
    """A relation to another record or to something outside: `rel` says which."""

    rel: Literal["supports", "contradicts", "supersedes", "reworks", "uses", "about", "part_of"]
    id: str


class Idea(_Strict):
    """Where an idea touches code; equal (repository, path, symbol) is the same idea (A144)."""

    repository: str
    path: str
    symbol: str | None = None


class VersionRange(_Strict):
    """Versions of a tool that something holds for: `[first, fixed_in)`, either end open; `any` stands for every tool.

    `good_from`: a version that was looked at and is free of it, where the first good one is not known.
    """

    tool: str
    first: str | None = None
    fixed_in: str | None = None
    good_from: str | None = None
    note: str | None = None


class Record(_Strict):
    """One record.

    Attributes:
        id: by time and content, given when it is written (empty before).
        dims: further dimension -> values; those of the deployment point are added by themselves.
        claim: `kernel_task` or `model_e2e`; the two are never compared.
        value, unit, metric: the figure that a result states.
        contract_sha256: hash of the locked contract the figure was measured under.
        epoch_fenced: true when the evidence was made under a superseded claim epoch.
        applies_to: for a pitfall: tools and versions that have it.
        symptoms: for a pitfall or crash case: what somebody sees who has it, in their words.
    """

    id: str = ""
    kind: Kind
    title: str = Field(min_length=3, max_length=300)
    created: datetime.datetime
    task_id: str | None = None
    claim: Literal["kernel_task", "model_e2e"] | None = None
    dims: dict[str, list[str]] = Field(default_factory=dict)
    deployment_point: DeploymentPoint | None = None
    contract_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    metric: str | None = None
    value: float | None = Field(default=None, allow_inf_nan=False)
    unit: str | None = None
    higher_is_better: bool | None = None
    verdict: str | None = None
    claim_id: str | None = None
    epoch: int | None = None
    epoch_fenced: bool = False
    idea: Idea | None = None
    applies_to: list[VersionRange] = Field(default_factory=list["VersionRange"])
    symptoms: list[str] = Field(default_factory=list)
    artifacts: list[Artifact] = Field(default_factory=list["Artifact"])
    links: list[Link] = Field(default_factory=list["Link"])
    source: str | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    body: str = Field(default="", exclude=True)

    @field_validator("created")
    @classmethod
    def _aware(cls, value: datetime.datetime) -> datetime.datetime:
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        try:
            year = aware.astimezone(datetime.timezone.utc).year
        except OverflowError:
            year = 0
        if year < 1000:  # an id holds four digits of it
            raise ValueError("no date that a record can have")
        return aware

    @field_validator("dims", mode="before")
    @classmethod
    def _many(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        given: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        unknown = set(given) - set(DIMENSIONS)
        if unknown:
            raise ValueError(f"no such dimension: {', '.join(sorted(unknown))}; known are {', '.join(DIMENSIONS)}")
        lists: dict[str, list[Any]] = {k: v if isinstance(v, list) else [v] for k, v in given.items() if v is not None}
        return {k: [canonical(k, str(x)) if k in _ALIASED else str(x).strip() for x in v] for k, v in lists.items()}

    @field_validator("extra", "deployment_point", mode="before")
    @classmethod
    def _not_too_deep(cls, value: Any) -> Any:
        if deeper_than(value, DEEPEST):
            raise ValueError(f"is nested more than {DEEPEST} deep")
        return value

    @field_validator("deployment_point", mode="before")
    @classmethod
    def _known_framework(cls, value: Any) -> Any:
        """A deployment point knows each framework by one name only; a record may be written with another spelling."""
        point = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        runtime: Any = point.get("runtime_profile")
        if not isinstance(runtime, dict):
            return cast("Any", value)
        layer = cast("dict[str, Any]", runtime)
        name: Any = layer.get("framework")
        known = canonical("framework", name) if isinstance(name, str) else name
        return {**point, "runtime_profile": {**layer, "framework": known}}

    @model_validator(mode="after")
    def _claims_have_a_point(self) -> Record:
        if self.kind == "result":
            if self.claim is None:
                raise ValueError("a result says whether it is a kernel_task or a model_e2e claim")
            if self.claim == "model_e2e" and self.deployment_point in (None, DeploymentPoint()):
                raise ValueError(
                    "a model_e2e claim without a deployment point, or with one that states nothing, is refused"
                )
        return self

    def dimensions(self) -> list[tuple[str, str, str]]:
        """(dimension, value, source) of everything that the index can filter by; source is `record` or `deployment_point`."""
        found = [(d, v, "record") for d, values in self.dims.items() for v in values]
        simple = {"kind": self.kind, "metric": self.metric, "verdict": self.verdict, "claim": self.claim}
        found += [(d, v, "record") for d, v in simple.items() if v]
        found += [("task", self.task_id, "record")] if self.task_id else []
        found += [("contract", self.contract_sha256, "record")] if self.contract_sha256 else []
        found.append(("date", self.created.astimezone(datetime.timezone.utc).strftime("%Y-%m"), "record"))
        if self.epoch is not None:
            found.append(("epoch", str(self.epoch), "record"))
        if self.deployment_point is not None:
            found += [(d, v, "deployment_point") for d, v in point_dimensions(self.deployment_point)]
        return list(dict.fromkeys(found))


def point_dimensions(point: DeploymentPoint) -> list[tuple[str, str]]:
    """(dimension, value) pairs that a deployment point states."""
    topology, runtime, platform = point.serving_topology, point.runtime_profile, point.accelerator_platform
    parallel = {n: getattr(topology, n) for n in ("tp", "pp", "dp", "ep")}
    shown = "/".join(f"{n}{v}" for n, v in parallel.items() if v)
    parts = [p for p in (topology.architecture, shown) if p]
    values: dict[str, str | None] = {
        "model": point.model.id and canonical("model", point.model.id),
        "precision": point.model.precision and canonical("precision", point.model.precision),
        "topology": " ".join(parts) or None,
        "framework": runtime.framework,
        "framework_rev": runtime.version,
        "gpu": platform.gpu_model and canonical("gpu", platform.gpu_model),
        "gpu_count": str(platform.gpu_count) if platform.gpu_count else None,
        "workload": point.serving_scenario.traffic_shape,
    }
    return [(d, v) for d, v in values.items() if v]


def new_id(record: Record) -> str:
    """Id by time and content: `20261129-154501-1a2b3c4d`; the same record written twice gets the same id."""
    content = record.model_dump(mode="json", exclude={"id"}, exclude_defaults=True) | {"body": record.body}
    stamp = record.created.astimezone(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{jsonio.sha256_of(content)[:10]}"
