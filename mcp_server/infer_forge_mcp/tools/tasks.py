"""Tools of the tasks room: define, lock, read, work in blocks, record, check the goal, end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from infer_forge_mcp.toolkit import Answer, tool

TaskId = Annotated[str, Field(description="Id of the task, such as t-20261129-154501-1a2b3c.", max_length=80)]
Kind = Literal[
    "plan", "research", "code", "integration", "evaluation", "release", "online_diagnosis", "capability", "custom"
]


@tool(toolset="tasks", read_only=False, idempotent=False)
def define_task(
    definition: Annotated[
        dict[str, Any] | None,
        Field(
            description="type, title, contract {goal, scope, acceptance [typed predicates], verification, "
            "deployment_point, may_vary}, context, exit_criteria, budgets. Default: the playbook's draft."
        ),
    ] = None,
    task_type: Annotated[
        Kind | None, Field(description="Type, when the playbook's draft is wanted. Default: none.")
    ] = None,
    title: Annotated[str | None, Field(description="Title. Default: the definition's.", max_length=200)] = None,
    goal: Annotated[str | None, Field(description="Goal. Default: the definition's.", max_length=2000)] = None,
    scope: Annotated[str | None, Field(description="Scope. Default: the definition's.", max_length=2000)] = None,
    task_id: Annotated[
        str | None, Field(description="Change this task before its lock. Default: a new task.", max_length=80)
    ] = None,
    proposal: Annotated[
        str | None,
        Field(description="Make the task of this proposal (p-..). Default: none.", pattern=r"^p-[0-9a-z]{1,40}$"),
    ] = None,
) -> Answer:
    """Use it before work starts: defines a task (or changes one that is not locked) and names what its definition still
    lacks. Acceptance is typed predicates that are evaluated on recorded evidence; free text is refused."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.tasks import verbs

    fields = {"title": title, "goal": goal, "scope": scope}
    if proposal is not None:
        if definition is not None or task_id is not None:
            raise UsageFault(
                "a proposal brings its own definition", next_step="give title, goal or scope, or change it later"
            )
        return verbs.new(proposal, fields={k: v for k, v in fields.items() if v})
    return verbs.define_task(definition, kind=task_type, fields=fields, task_id=task_id)


@tool(toolset="tasks", read_only=False)
def lock_task(
    task_id: TaskId, start: Annotated[bool, Field(description="Also start it. Default: true.")] = True
) -> Answer:
    """Use it when the definition is complete: locks the contract by hash, once, and starts the task with what the journal
    holds on it. Afterwards a material change is a new task. An online diagnosis makes the guard read-only."""
    from infer_forge.tasks import verbs

    locked = verbs.lock(task_id, _definitions())
    return verbs.start(task_id) if start else locked


@tool(toolset="tasks", read_only=True)
def read_task(
    task_id: Annotated[str | None, Field(description="One task. Default: the list.", max_length=80)] = None,
    view: Annotated[
        Literal["status", "verify", "list", "inbox", "inflight", "proposals", "baseline"],
        Field(
            description="status or verify of one task; list, inbox (what waits for a person), inflight, proposals; "
            "baseline (capability baseline and check suite; of a task: what is missing). Default: status."
        ),
    ] = "status",
) -> Answer:
    """Use it to see a task (contract, acceptance, blocks, executions, evidence, next command), all tasks, what waits for a
    person, what is proposed, or how many are in flight. After a restart read the task instead of remembering."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.tasks import baseline_view, verbs, waking

    if view == "inbox":
        return verbs.inbox()
    if view == "inflight":
        return verbs.inflight()
    if view == "proposals":
        return waking.listed()
    if view == "baseline":
        return baseline_view.shown(task_id, _definitions())
    if view == "list" or (task_id is None and view == "status"):
        return verbs.listed()
    if task_id is None:
        raise UsageFault(f"{view} is of one task", next_step="give task_id")
    return verbs.verify(task_id) if view == "verify" else verbs.status(task_id)


@tool(toolset="tasks", read_only=False, open_world=True)
def propose_task(
    on: Annotated[
        Literal["journal", "schedule", "runtime"],
        Field(description="New journal records, time gone by, or a changed runtime or model. Default: runtime."),
    ] = "runtime",
    what: Annotated[
        str, Field(description="With runtime: somebody's word for the change. Default: look.", max_length=300)
    ] = "",
    places: Annotated[
        list[str] | None,
        Field(description="With runtime: docker:NAME, ssh:HOST to look at too. Default: none.", max_length=10),
    ] = None,
    every_days: Annotated[int, Field(ge=1, le=366, description="With schedule: 1 to 366 days. Default: 30.")] = 30,
    dismiss: Annotated[
        str | None, Field(description="Answer this proposal with no, instead of looking. Default: none.", max_length=80)
    ] = None,
) -> Answer:
    """Use it to look whether something calls for a capability task: packages, commits, driver, image and models are held
    against the last look. It proposes and never starts; what cannot be seen is told, not taken for unchanged. read_task
    shows proposals, define_task takes one."""
    from infer_forge.tasks import waking
    from infer_forge_mcp.toolkit import run_command

    if dismiss:
        return waking.dismiss(dismiss)
    words = ["task", "wake", f"--on={on}", f"--every-days={every_days}", *(f"--place={p}" for p in places or ())]
    return run_command([*words, f"--what={what}"] if what else words)


@tool(toolset="tasks", read_only=False, idempotent=False)
def open_block(
    task_id: TaskId,
    sub_target: Annotated[str, Field(description="What this block is to reach.", max_length=500)],
    exit_condition: Annotated[str, Field(description="When it ends.", max_length=500)],
    uncertainty: Annotated[
        Literal["low", "medium", "high"],
        Field(description="How hard the reasoning is; proposes the tier. Default: medium."),
    ] = "medium",
    inputs: Annotated[
        list[str] | None,
        Field(description="Files and folders it reads; their size proposes the topology. Default: none."),
    ] = None,
    tier: Annotated[
        Literal["lower", "mid", "strongest"] | None, Field(description="Another tier than proposed. Default: proposed.")
    ] = None,
    topology: Annotated[
        Literal["single", "multi"] | None, Field(description="Another topology than proposed. Default: proposed.")
    ] = None,
    reason: Annotated[str, Field(description="Why it differs from the proposal. Default: empty.", max_length=500)] = "",
    fallback: Annotated[
        str, Field(description="What is used instead where the choice is not to be had.", max_length=500)
    ] = "",
    executor: Annotated[str | None, Field(description="Who works. Default: not named.", max_length=100)] = None,
    reviewer: Annotated[
        str | None, Field(description="Who reviews; never the executor. Default: nobody.", max_length=100)
    ] = None,
) -> Answer:
    """Use it to begin the next loop block: one at a time, and only after the last one ended and check_goal said continue.
    Proposes model tier and agent topology and records proposal, choice, reason and fallback."""
    from infer_forge.tasks import routing, verbs
    from infer_forge.tasks.blocks import input_bytes

    route = routing(
        uncertainty,
        input_bytes(Path(p) for p in inputs or ()),
        tier=tier,
        topology=topology,
        reason=reason,
        fallback=fallback,
        executor=executor,
        reviewer=reviewer,
    )
    return verbs.open_block(task_id, sub_target, exit_condition, route, runner="mcp")


@tool(toolset="tasks", read_only=False, idempotent=False)
def close_block(
    task_id: TaskId,
    outcome: Annotated[
        Literal["confirmed", "rejected", "constraint", "blocked"], Field(description="What the block showed.")
    ],
    progress: Annotated[
        Literal["advanced", "stalled", "regressed"], Field(description="Against the goal, not activity.")
    ],
    note: Annotated[str, Field(description="What was learned. Default: empty.", max_length=2000)] = "",
    handoff: Annotated[
        str, Field(description="State the next block begins with. Default: empty.", max_length=4000)
    ] = "",
) -> Answer:
    """Use it when a block's exit condition is reached or shown unreachable. A closed block does not finish the task: call
    check_goal next. Too many blocks without progress stop the task for a person."""
    from infer_forge.tasks import verbs

    return verbs.close_block(task_id, outcome, progress, note, handoff)


@tool(toolset="tasks", read_only=False, idempotent=False)
def record_execution(
    task_id: TaskId,
    argv: Annotated[list[str], Field(description="Program and arguments, no shell.", min_length=1, max_length=200)],
    label: Annotated[str | None, Field(description="Name for acceptance and resume. Default: the program.")] = None,
    evidence: Annotated[
        list[str] | None, Field(description="KIND=FILE that the command writes. Default: none.", max_length=20)
    ] = None,
    cwd: Annotated[str | None, Field(description="Where it runs. Default: the server's folder.")] = None,
    timeout_s: Annotated[
        float | None, Field(gt=0, description="Seconds after which it is ended. Default: none.")
    ] = None,
    again: Annotated[bool, Field(description="Run one that ran already under this label. Default: false.")] = False,
) -> Answer:
    """Use it for every command whose result counts: the guard is asked, intent, start and result are recorded, files become
    evidence. Over 15 s it goes on as a job. A command that ran already, or is open, is refused rather than run again."""
    from infer_forge.base import jobs
    from infer_forge_mcp.toolkit import JOB_WAIT_S, job_answer

    words = ["task", "record", task_id, "--format", "json", "--exit-zero", *(["--again"] if again else [])]
    for name, value in (("--label", label), ("--cwd", cwd), ("--timeout", timeout_s)):
        words += [name, str(value)] if value is not None else []
    for item in evidence or ():
        words += ["--evidence", item]
    return job_answer(jobs.wait(jobs.start([*words, "--", *argv]).id, JOB_WAIT_S))


@tool(toolset="tasks", read_only=False)
def check_goal(task_id: TaskId) -> Answer:
    """Use it after each block: evaluates the locked acceptance on recorded evidence, never on a claim. verdict is met,
    continue or cannot_tell; each condition says pass, fail or unknown with the evidence that decided."""
    from infer_forge.tasks import verbs

    return verbs.goal_met(task_id)


@tool(toolset="tasks", read_only=False)
def write_handoff(
    task_id: TaskId,
    done: Annotated[str, Field(description="What is done.", max_length=4000)],
    next_entry: Annotated[str, Field(description="Where the next task starts.", max_length=2000)],
    still_holds: Annotated[list[str] | None, Field(description="Judgements that still hold. Default: none.")] = None,
    open_questions: Annotated[list[str] | None, Field(description="Open questions. Default: none.")] = None,
) -> Answer:
    """Use it when a task cannot reach its goal here: ends it with a follow-up handoff, archived to the journal. Writes that
    were denied in an online diagnosis become its items. Abandoning is a person's, at the command line."""
    from infer_forge.tasks import verbs

    return verbs.handoff(task_id, done, next_entry, still_holds=still_holds or (), open_questions=open_questions or ())


@tool(toolset="tasks", read_only=False)
def write_deliverable(
    task_id: TaskId,
    summary: Annotated[str, Field(description="What was achieved, in a sentence or more.", max_length=4000)],
    outcome: Annotated[
        Literal["add", "update", "merge", "retire", "no_change"] | None,
        Field(description="Of a capability task only. Default: none."),
    ] = None,
    cites: Annotated[
        list[str] | None, Field(description="Of a capability task: journal records. Default: none.", max_length=50)
    ] = None,
) -> Answer:
    """Use it when check_goal says met: ends the task with its deliverable. The goal is checked again and the reproduction
    path (commits, image, point, commands, results, failed attempts) is verified first; what is not shown is refused."""
    from infer_forge.tasks import verbs

    capability = {"outcome": outcome, "records": cites or []} if outcome or cites else None
    return verbs.deliver(task_id, summary, capability=capability, tools=_definitions())


def _definitions() -> dict[str, Any]:
    """Definitions of every tool of this server, for the capability baseline."""
    from infer_forge_mcp.server import found_tools
    from infer_forge_mcp.toolkit import build

    built = {name: build(function) for name, (_, function) in found_tools().items()}
    return {name: {"description": t.description, "parameters": t.parameters} for name, t in built.items()}
