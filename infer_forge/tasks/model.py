"""Task definition: type, starting context, contract with typed acceptance, budgets, exit criteria (B18 to B37)."""

from __future__ import annotations

import math
import re
import shlex
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from infer_forge.base.contract_model import DeploymentPoint

TaskType = Literal[
    "plan", "research", "code", "integration", "evaluation", "release", "online_diagnosis", "capability", "custom"
]
TASK_TYPES: tuple[str, ...] = TaskType.__args__

DELIVERABLES: dict[str, str] = {
    "plan": "an executable plan: goal, constraints, decomposition",
    "research": "a conclusion with stated limits on one bounded uncertainty",
    "code": "a change with its verification evidence",
    "integration": "a composed change of several tasks or repositories, verified as a whole",
    "evaluation": "evidence against the acceptance: function, performance, accuracy, stress, stability",
    "release": "approval, canary, expansion or rollback of a validated candidate",
    "online_diagnosis": "read-only findings, and a handoff of the changes that are needed",
    "capability": "a decision on skills and tools: add, update, merge, retire, no_change",
    "custom": "what the contract says",
}
"""What each type ends with (B21 to B29)."""

TRUST = ("recorded", "observed", "human")
"""Trust of evidence, rising: a file somebody handed in; what our own run of a command produced; a person's decision."""

Operator = Literal["==", "!=", ">=", "<=", ">", "<", "in"]
Kind = Literal[
    "verdict_is",
    "metric_compare",
    "exit_is",
    "file_hash_is",
    "record_field_is",
    "all_of",
    "any_of",
    "human_decision",
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class ContextItem(_Strict):
    """One item of the starting context: known state apart from assumption (B33, B34)."""

    name: str = Field(min_length=1)
    kind: Literal["custom_setup", "imported_context"] = "custom_setup"
    value: Any = None
    origin: str = Field(min_length=1)
    status: Literal["verified", "unverified", "stale"] = "unverified"
    lineage: list[str] = Field(default_factory=list)


class Selector(_Strict):
    """Which evidence a predicate looks at: the newest of this kind that fits; or one journal record by id.

    `command`: only what a recorded run of exactly this command line showed, so that another command under the same label, or
    the same with an option that looks at less, proves nothing; a lone `*` at its end lets further words follow.
    """

    evidence: str | None = None
    label: str | None = None
    block: int | None = None
    journal: str | None = None
    id: str | None = None
    command: str | None = Field(default=None, min_length=1)


class Predicate(_Strict):
    """One acceptance condition, evaluated by the tool on recorded evidence, never on a report's text.

    Attributes:
        field: where in the evidence: dotted, with `tables.gap[scenario=chat].verdict` for a cell of a columnar table.
        unit: must equal the evidence's unit where it states one.
        minimum_trust: see `TRUST`.
        of: parts of `all_of` and `any_of`. by, statement: for `human_decision`.
    """

    kind: Kind
    selector: Selector = Field(default_factory=Selector)
    field: str | None = None
    operator: Operator = "=="
    value: Any = None
    unit: str | None = None
    minimum_trust: Literal["recorded", "observed", "human"] = "recorded"
    of: list[Predicate] = Field(default_factory=list["Predicate"])
    by: str | None = None
    statement: str | None = None

    @model_validator(mode="after")
    def _whole(self) -> Predicate:
        lacking = {
            "verdict_is": self.value is None
            or not (self.selector.evidence or self.selector.journal or self.selector.id),
            "metric_compare": self.value is None or not self.field,
            "exit_is": self.value is None or not (self.selector.label or self.selector.id),
            "file_hash_is": not self.field or not isinstance(self.value, str),
            "record_field_is": not self.selector.journal or not self.field,
            "all_of": not self.of,
            "any_of": not self.of,
            "human_decision": not self.statement,
        }[self.kind]
        if lacking:
            raise ValueError(f"the predicate {self.kind} is incomplete; see `infer-forge task new --help`")
        return self

    def incomparable(self) -> str | None:
        """Why no evidence could ever be compared so; None when it could. Asked of new definitions, not of recorded ones."""
        if self.selector.command is not None and not _words(self.selector.command):
            return f"{self.selector.command!r} is no command line"
        several = isinstance(self.value, list)
        values = _as_list(self.value)
        if self.operator == "in" and not several:
            return "the operator in takes a list of values"
        if several and self.operator != "in" and self.kind in ("metric_compare", "exit_is"):
            return f"a list of values goes with the operator in, not with {self.operator}"
        numbers = [isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in values]
        if self.kind in ("metric_compare", "exit_is") and not (numbers and all(numbers)):
            return f"{self.value!r} is no number to compare with"
        if self.kind == "file_hash_is" and not re.fullmatch(r"[0-9a-f]{64}", str(self.value)):
            return f"{self.value!r} is no sha256 (64 lower-case hex digits)"
        return None

    def open_to_any_command(self) -> bool:
        """Whether it looks at what a recorded run made, and every command line would do (`selector.command` names none)."""
        chosen = self.selector
        looks = self.kind in ("verdict_is", "metric_compare", "exit_is")
        return looks and not (chosen.command or chosen.id or chosen.journal)

    def leaves(self) -> list[Predicate]:
        """The predicate's own parts that look at evidence."""
        return [leaf for part in self.of for leaf in part.leaves()] if self.of else [self]


def _words(line: str) -> list[str]:
    """A command line as words; none when it cannot be read as one."""
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


class TaskContract(_Strict):
    """Goal, scope, acceptance, verification (B31), and what of the deployment point may vary (B5)."""

    goal: str
    scope: str
    acceptance: list[Predicate] = Field(default_factory=list["Predicate"])
    verification: list[str] = Field(default_factory=list)
    deployment_point: DeploymentPoint | None = None
    may_vary: list[str] = Field(default_factory=list)
    benchmark_contract_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class Budgets(_Strict):
    """Limits; every one has a value, and none means unlimited."""

    blocks: int = Field(default=20, ge=1, le=1000)
    minutes: int = Field(default=24 * 60, ge=1)
    drift_limit: int = Field(default=3, ge=1, le=50)


class TaskDefinition(_Strict):
    """Everything that is fixed before work starts (B19)."""

    type: TaskType
    title: str = Field(min_length=3, max_length=200)
    context: list[ContextItem] = Field(default_factory=list["ContextItem"])
    contract: TaskContract
    exit_criteria: list[str] = Field(default_factory=list)
    budgets: Budgets = Field(default_factory=Budgets)
    playbook: str | None = None
    repositories: list[str] = Field(default_factory=list)
    supersedes: str | None = None
    goal_tag: Literal["delivery", "capability"] = "delivery"
    extra: dict[str, Any] = Field(default_factory=dict)


def is_performance(definition: TaskDefinition) -> bool:
    """Whether its acceptance makes a performance claim, which needs a whole deployment point (B3)."""
    kinds = {"bench_gap", "bench_row", "bench_rank", "campaign"}
    leaves = [leaf for p in definition.contract.acceptance for leaf in p.leaves()]
    return any(p.kind == "metric_compare" or (p.selector.evidence in kinds) for p in leaves)


_SPEED = re.compile(
    r"\b(?:optimi[sz]\w*|faster|speed\w*|perform\w*|throughput|latency|ttft|tpot|tokens?/s|slower|quicker|accelerat\w*|tun(?:e|es|ed|ing)|qps|itl|mfu)\b",
    re.IGNORECASE,
)
_MAKES_CLAIMS = ("code", "integration", "evaluation", "release", "custom")


def _targets(leaf: Predicate) -> bool:
    """Whether a predicate compares a figure, or takes the verdict of a measurement."""
    if leaf.kind == "verdict_is":
        measured = (leaf.selector.evidence or "").startswith(("bench", "campaign", "kernel_task"))
        return measured or leaf.selector.journal is not None
    return leaf.kind in ("metric_compare", "record_field_is")


def _vague(definition: TaskDefinition) -> list[str]:
    """What a goal that speaks of speed lacks: model, hardware, workload, target (C61)."""
    contract = definition.contract
    if definition.type not in _MAKES_CLAIMS or not _SPEED.search(contract.goal):
        return []
    point = contract.deployment_point
    named = {
        "model": point and point.model.id,
        "hardware": point and point.accelerator_platform.gpu_model,
        "workload": point and (point.serving_scenario.traffic_shape or contract.benchmark_contract_sha256),
    }
    lacking = [
        f"{what}: the goal speaks of speed, and the deployment point names none"
        for what, value in named.items()
        if not value
    ]
    leaves = [leaf for p in contract.acceptance for leaf in p.leaves()]
    if not any(_targets(leaf) for leaf in leaves):
        lacking.append(
            "target: an acceptance that compares a metric (metric_compare) or a verdict on benchmark evidence"
        )
    return lacking


def missing(definition: TaskDefinition) -> list[str]:
    """What a definition lacks before it may be locked; each item says what to add. Empty: it is complete."""
    from infer_forge.base import contracts

    contract, lacking = definition.contract, list[str]()
    for name in ("goal", "scope"):
        if len(getattr(contract, name).split()) < 3:
            lacking.append(f"contract.{name}: say it in a sentence")
    if not contract.acceptance:
        lacking.append("contract.acceptance: at least one typed predicate (free text is no acceptance)")
    if not contract.verification:
        lacking.append("contract.verification: the evidence or command that shows the acceptance")
    if not definition.exit_criteria:
        lacking.append("exit_criteria: when to stop with a deliverable, and when with a handoff")
    lacking += _vague(definition)
    if is_performance(definition):
        point: Any = contract.deployment_point
        what = (
            contracts.missing(point, varying=contract.may_vary)
            if point is not None
            else ["model", "hardware", "workload"]
        )
        lacking += [f"contract.deployment_point: {w}" for w in what]
    leaves = [leaf for p in contract.acceptance for leaf in p.leaves()]
    lacking += [
        f"contract.acceptance: the path {leaf.field} of file_hash_is must be absolute"
        for leaf in leaves
        if leaf.kind == "file_hash_is" and not (leaf.field or "").startswith("/")
    ]
    lacking += [
        f"context.{item.name}: imported context names its lineage"
        for item in definition.context
        if item.kind == "imported_context" and not item.lineage
    ]
    known = [f for f in contract.may_vary if f.split(".")[0] not in contracts.LAYERS]
    lacking += [f"contract.may_vary: {f} is no field of a deployment point" for f in known]
    return lacking
