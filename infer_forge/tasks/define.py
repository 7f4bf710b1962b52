"""Define, lock, clarify and start tasks. Material changes after the lock make a new task; nothing else may change."""

from __future__ import annotations

import os
from typing import Any, cast

from infer_forge.base import jsonio, yamlio
from infer_forge.base.errors import GateRefused, HumanNeeded, InputUnusable
from infer_forge.base.gitstore import Store
from infer_forge.tasks import events as history
from infer_forge.tasks import printed
from infer_forge.tasks.blocks import exhausted
from infer_forge.tasks.events import Event
from infer_forge.tasks.lineage import unproved
from infer_forge.tasks.model import TaskDefinition, missing
from infer_forge.tasks.readonly import enter_profile
from infer_forge.tasks.state import ACTIVE, BUDGET_EXHAUSTED, DEFINED, Task, fold, load, require_open
from infer_forge.tasks.verification import lock_hash as lock_hash
from infer_forge.tasks.verification import verify as verify

_MOST_DEPTH = 40


def _too_deep(data: Any) -> bool:
    """Whether plain data is nested so deep that writing it would fail."""
    level: list[Any] = [data]
    for _ in range(_MOST_DEPTH):
        parts = [list(cast("dict[str, Any]", x).values()) if isinstance(x, dict) else x for x in level]
        level = [y for x in parts if isinstance(x, list) for y in cast("list[Any]", x)]
        if not level:
            return False
    return True


def read_definition(source: str) -> dict[str, Any]:
    """A definition in the making: from a JSON or YAML file.

    Raises:
        InputUnusable: it is no such file.
    """
    if not os.path.isfile(source):  # of a name that is too long pathlib makes an error
        raise InputUnusable(
            "is no file", where=source, next_step="give playbook, a proposal's id, or a JSON or YAML file"
        )
    found: Any = jsonio.read_json(source) if source.endswith(".json") else yamlio.read_yaml(source)
    if not isinstance(found, dict):
        raise InputUnusable("holds no task definition", where=source, next_step="a mapping with type, title, contract")
    return found  # pyright: ignore[reportUnknownVariableType]


def definition_of(data: Any, where: str = "task definition") -> TaskDefinition:
    """The typed definition of plain data.

    Raises:
        InputUnusable: naming the first wrong fields.
    """
    from pydantic import ValidationError

    if _too_deep(data):
        raise InputUnusable(
            f"is nested more than {_MOST_DEPTH} levels deep",
            where=where,
            next_step="name the parts of all_of one by one",
        )
    try:
        made = TaskDefinition.model_validate(data)
    except ValidationError as exc:
        told = "; ".join(_fault(e) for e in exc.errors(include_url=False)[:4])
        raise InputUnusable(told, where=where, next_step="mend these fields") from None
    leaves = [leaf for p in made.contract.acceptance for leaf in p.leaves()]
    wrong = [f"{leaf.kind}: {why}" for leaf in leaves if (why := leaf.incomparable())]
    if wrong:
        raise InputUnusable("; ".join(wrong[:4]), where=where, next_step="mend these predicates")
    return made


def _fault(error: Any) -> str:
    """One fault in plain words."""
    place = ".".join(map(str, error["loc"])) or "definition"
    if "acceptance" in error["loc"] and isinstance(error.get("input"), str) and error["type"].startswith("model"):
        return f"{place}: free text is no acceptance: give a typed predicate, or human_decision with the statement"
    return f"{place}: {error['msg'].removeprefix('Value error, ')}"


def new(store: Store, definition: TaskDefinition, task_id: str | None = None) -> Task:
    """Keep a definition under a new id; it may still lack things, which `lock` refuses.

    Raises:
        GateRefused: the id is taken.
    """
    wanted = task_id or history.new_task_id()
    if definition.supersedes:
        load(store, definition.supersedes)
    body = definition.model_dump(mode="json", exclude_defaults=True)

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        if events:
            raise GateRefused("a task with this id exists", where=wanted, next_step="leave the id out")
        return "defined", {"definition": body}

    history.append(store, wanted, decide)
    return load(store, wanted)


def edit(store: Store, task_id: str, definition: TaskDefinition) -> Task:
    """Replace a definition before its lock.

    Raises:
        GateRefused: the contract is locked.
    """
    body = definition.model_dump(mode="json", exclude_defaults=True)

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task, locked=False)
        if task.lock is not None:
            raise GateRefused(
                "the contract is locked: a material change is a new task",
                where=task_id,
                next_step=f"infer-forge task new --from FILE --supersedes {task_id}, or infer-forge task clarify {task_id} TEXT",
            )
        return "defined", {"definition": body}

    history.append(store, task_id, decide)
    return load(store, task_id)


def lock(store: Store, task_id: str, *, baseline: dict[str, Any] | None = None) -> Task:
    """Lock the contract by hash; a second lock, or one of an incomplete definition, is refused.

    Args:
        baseline: what `baseline.keep` gave of the capability baseline in force (B67). None: the one in force is kept and
            recorded here, its tools unknown, since only a door knows them.

    Raises:
        GateRefused: with everything that is missing.
    """

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        task = fold(task_id, events)
        require_open(task, locked=False)
        if task.lock is not None:
            raise GateRefused(
                "it is locked already",
                where=task_id,
                next_step="a new contract is a new task",
            )
        lacking = missing(task.typed) + unproved(store, task.typed)
        if lacking:
            raise GateRefused(
                "the definition is not complete: " + "; ".join(lacking),
                where=task_id,
                next_step=printed.edit(task_id, lacking),
            )
        profile = "read_only" if task.typed.type == "online_diagnosis" else "ordinary"
        return "locked", {"sha256": lock_hash(task.typed), "baseline": recorded, "guard_profile": profile}

    recorded = baseline if baseline is not None else _in_force(store)
    history.append(store, task_id, decide)
    task = load(store, task_id)
    enter_profile(task)
    return task


def _in_force(store: Store) -> dict[str, Any]:
    from infer_forge.tasks.baseline import keep, manifest

    return keep(store, manifest())


def clarify(store: Store, task_id: str, text: str) -> Task:
    """Record a clarification that does not change goal, scope or acceptance; it is appended, nothing is edited."""

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]]:
        require_open(fold(task_id, events))
        return "clarified", {"text": text}

    history.append(store, task_id, decide)
    return load(store, task_id)


def start(store: Store, task_id: str) -> Task:
    """Begin work on a locked task."""

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]] | None:
        task = fold(task_id, events)
        require_open(task)
        if task.status == ACTIVE:
            return None
        if task.status != DEFINED:
            raise GateRefused(
                f"the task is {task.status}: {task.reason}",
                where=task_id,
                next_step=f"infer-forge task resume {task_id}",
            )
        return "status", {"status": ACTIVE}

    history.append(store, task_id, decide)
    task = load(store, task_id)
    enter_profile(task)
    return task


def accept(store: Store, proposal_id: str, definition: TaskDefinition | None = None) -> Task:
    """Make a task of a proposal; it is defined, not started.

    Args:
        definition: what to use in place of the proposed draft.

    Raises:
        InputUnusable: there is no such proposal. GateRefused: it was answered already.
    """
    from infer_forge.tasks import proposals

    found = proposals.proposal(store, proposal_id)
    if found["answer"] is not None:
        raise GateRefused(f"it was {found['answer']['verdict']} already", where=proposal_id)
    chosen = definition or definition_of(found["definition"], proposal_id)
    task = new(store, chosen, f"t-{proposal_id[2:]}")
    proposals.answer(store, proposal_id, "accepted", task.id)
    return task


def surface(store: Store, task_id: str) -> Any:
    """What the journal holds on a task's work (pitfalls, same ideas, best known results, words): a Report, noted on the task."""
    from infer_forge.journal import open_store, surface_records

    task = load(store, task_id)
    contract = task.typed.contract
    point = contract.deployment_point
    tools: dict[str, str | None] = {}
    if point is not None and point.runtime_profile.framework:
        tools[point.runtime_profile.framework] = point.runtime_profile.version
    with open_store() as journal:
        report = surface_records(journal, point=point, tools=tools, query=task.typed.title)
        shown = report.tables["surfaced"]
        known = {row[1] for row in shown.rows}
        by_goal = surface_records(journal, query=contract.goal).tables["surfaced"].rows
    shown.rows += [row for row in by_goal if row[1] not in known]
    report.summary = [f"{len(shown.rows)} records of the journal concern this work"] if shown.rows else report.summary
    ids = [row[1] for row in report.tables["surfaced"].rows]
    if ids and not task.ended:
        from infer_forge.tasks.execute import note

        note(store, task_id, "surfaced", {"records": ids})
    return report


def resume(
    store: Store,
    task_id: str,
    *,
    person: str | None = None,
    note: str = "",
    more_blocks: int = 0,
    more_minutes: int = 0,
) -> Task:
    """Bring a blocked or exhausted task back to active. What a person must answer needs a person.

    Args:
        more_blocks, more_minutes: what that person adds to the budgets; the lock stays as it is.

    Raises:
        HumanNeeded: the drift limit or a budget stopped it, and no person is named.
    """

    def decide(events: list[Event]) -> tuple[str, dict[str, Any]] | None:
        task = fold(task_id, events)
        require_open(task)
        if task.status == ACTIVE:
            return None
        drifted = task.drift >= task.typed.budgets.drift_limit
        if (drifted or task.status == BUDGET_EXHAUSTED) and person is None:
            raise _PersonNeeded(task)
        task.more_blocks += more_blocks
        task.more_minutes += more_minutes
        still = exhausted(task) if task.status == BUDGET_EXHAUSTED else None
        if still:
            raise GateRefused(still, where=task_id, next_step="--more-blocks N and --more-minutes M add to the budgets")
        added = {"more_blocks": more_blocks, "more_minutes": more_minutes} if person else {}
        return "status", {"status": ACTIVE, "reason": note, "person": person, "drift_answered": drifted, **added}

    try:
        history.append(store, task_id, decide)
    except GateRefused as exc:
        if isinstance(getattr(getattr(exc, "refusal", None), "data", None), _PersonNeeded):
            raise HumanNeeded(exc.what, where=task_id, next_step=exc.next_step) from None
        raise
    return load(store, task_id)


class _PersonNeeded(GateRefused):
    """Inside a decision: becomes `HumanNeeded` outside."""

    def __init__(self, task: Task) -> None:
        super().__init__(
            f"a person decides whether it goes on: {task.reason or 'it was stopped'}",
            next_step=f"a person runs at a terminal: infer-forge task resume {task.id} --person NAME --note WHY",
        )
