"""Go on with a task in a fresh process, a fresh clone, or on another node: from its records, never from a transcript."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infer_forge.base import ownership
from infer_forge.base.errors import ForgeError, GateRefused
from infer_forge.base.gitstore import Store
from infer_forge.tasks import fencing, running
from infer_forge.tasks.archive import archive
from infer_forge.tasks.define import resume
from infer_forge.tasks.execute import probe, resolve, settle
from infer_forge.tasks.readonly import enter_profile
from infer_forge.tasks.state import BLOCKED, BUDGET_EXHAUSTED, Execution, Task, load, require_open


@dataclass(frozen=True)
class Probed:
    """What became of one execution that was open: its state, its exit code when one is known, and what that means."""

    id: str
    label: str
    state: str
    exit_code: int | None
    said: str


_SAID = {
    running.ENDED: "it had ended; its exit code and evidence are recorded",
    running.LOST: "its process is gone and nobody saw how it ended: look at its output, --again runs it once more",
    running.NEVER_STARTED: "it never started and never will; run it again",
    running.RUNNING: "it runs still: wait for it, then resume again",
    running.UNKNOWN: "its node was left; how it ended is not known; what it made is fenced",
}


def take_up(
    store: Store,
    task_id: str,
    *,
    person: str | None = None,
    note: str = "",
    take_over: bool = False,
    more_blocks: int = 0,
    more_minutes: int = 0,
) -> tuple[Task, list[Probed]]:
    """Probe what was open, fence what a lost node made, and bring a stopped task back to active where that is allowed.

    Args:
        person: who answers a drift stop or a used-up budget (the command line asks for a terminal), and may add to it.
        take_over: executions of another node count as lost, though no claim proves that the work moved.

    Raises:
        GateRefused: work is open on another node and nothing proves that it may be left. HumanNeeded: see `define.resume`.
    """
    task = load(store, task_id)
    if task.ended and task.archived is None:
        return archive(store, task), []
    require_open(task)
    found: list[Probed] = []
    for execution in task.open_executions:
        state = probe(execution)
        if state == running.UNKNOWN:
            _leave_node(store, task, execution, take_over=take_over)
        elif state != running.RUNNING:
            task = settle(store, task_id, execution.id)
        now = load(store, task_id).executions[execution.id]
        found.append(Probed(execution.id, execution.label, state, now.exit_code, _SAID[state]))
    fencing.fence_ended(store, task_id)
    task = load(store, task_id)
    enter_profile(task)
    if task.status in (BLOCKED, BUDGET_EXHAUSTED):
        task = resume(store, task_id, person=person, note=note, more_blocks=more_blocks, more_minutes=more_minutes)
    return task, found


def _leave_node(store: Store, task: Task, execution: Execution, *, take_over: bool) -> None:
    """Give up an execution of another node: with a new claim and a fresh probe where it ran under a claim."""
    old = [str(c["claim_id"]) for c in execution.intent.get("claims", []) if c.get("claim_id")]
    node = execution.intent.get("node")
    if old:
        proof = _new_claim(task, set(old))
    elif take_over:
        proof: dict[str, Any] = {"take_over": True}
    else:
        raise GateRefused(
            f"{execution.id} ({execution.label}) is open on node {node}, and cannot be probed from here",
            where=task.id,
            next_step=f"resume it on {node}; if that node is lost: infer-forge task resume {task.id} --take-over",
        )
    why = f"the task left node {node} while {execution.label} was open"
    fencing.mark(store, task.id, old, why, facts={"node": ownership.node_name(), "left": node, **proof})
    resolve(store, task.id, execution.id, None, why)


def _new_claim(task: Task, old: set[str]) -> dict[str, Any]:
    """The claim of this run on which the task goes on, and the live probe that it stands on.

    Raises:
        GateRefused: there is none, it is not current, or its GPUs were not probed.
    """
    from infer_forge.nodes.claims import check_epoch
    from infer_forge.nodes.registry import CLAIMS, Registry

    run = ownership.load().current()
    held = [c for c in (run.claims if run else []) if c.get("claim_id") and c["claim_id"] not in old]
    here = ownership.node_name()
    need = f"infer-forge node verify {here}, then infer-forge node claim {here} --gpus .. --task {task.id}"
    if not held:
        raise GateRefused(
            f"it was made under claim {', '.join(sorted(old))}, and this run holds no new one", next_step=need
        )
    try:
        registry = Registry.open()
        registry.store.refresh(CLAIMS)
    except ForgeError as exc:
        raise GateRefused(f"the new claim cannot be looked up: {exc.what}", next_step=exc.next_step) from None
    for entry in held:
        claim_id, epoch = str(entry["claim_id"]), int(entry.get("epoch") or 0)
        if check_epoch(registry, claim_id, epoch) != "current":
            continue
        record, index = registry.find_claim(claim_id)
        fresh = record.probe if record.probe and record.probe.epoch == epoch - 1 else None
        stands_on = record.claims[index].probe_id or (fresh.probe_id if fresh else None)
        if stands_on is None:
            raise GateRefused(f"no live probe of {record.node} stands behind claim {claim_id}", next_step=need)
        return {"claim_id": claim_id, "epoch": epoch, "probe_id": stands_on}
    raise GateRefused("the claims of this run are not current", next_step=need)
