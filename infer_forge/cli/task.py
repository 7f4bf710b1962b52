"""`infer-forge task`: definition, contract lock, loop blocks, records, goal check, ends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from infer_forge.base.errors import UsageFault
from infer_forge.cli import task_restore, task_views, task_work
from infer_forge.cli.common import report_command
from infer_forge.cli.given_path import GivenPath
from infer_forge.cli.task_fields import acceptance_of, definition_options, fields_of

if TYPE_CHECKING:
    from infer_forge.base.records import Report

_TYPES = click.Choice(
    ["plan", "research", "code", "integration", "evaluation", "release", "online_diagnosis", "capability", "custom"]
)


class _Source(click.types.StringParamType):
    """Where a definition comes from; where it is left out the choices are told."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "Give playbook (with --type), a JSON or YAML file, or a proposal (p-..)."


@click.group("task", no_args_is_help=True)
def command() -> None:
    """Tasks: define, lock, work in blocks, record, check the goal from evidence, end with a deliverable or a handoff.

    Everything stands in a git store; nothing but it is needed to go on, in another process or on another node.
    """


@command.command("new")
@click.option("--type", "kind", type=_TYPES, help="Type of the task; needed with --from playbook.")
@click.option(
    "--from", "source", type=_Source(), required=True, help="`playbook`, a JSON or YAML file, or a proposal (p-..)."
)
@click.option("--id", "task_id", help="Id of the task (default: made from the time).")
@click.option("--supersedes", help="The task whose contract this one changes materially.")
@definition_options
@report_command
def new(kind: str | None, source: str, task_id: str | None, supersedes: str | None, **options: Any) -> Report:
    """Define a task; it may still lack things, which `lock` refuses and this names.

    \b
    Acceptance is typed, one JSON object an --acceptance:
      {"kind": "exit_is", "selector": {"label": "tests"}, "value": 0}
      {"kind": "verdict_is", "selector": {"evidence": "bench_gap"}, "field": "verdict", "value": ["tie", "ahead"]}
      {"kind": "metric_compare", "selector": {"evidence": "bench_row"}, "field": "ttft_ms.p50", "operator": "<=",
       "value": 200, "unit": "ms", "minimum_trust": "observed"}
      {"kind": "file_hash_is", "field": "PATH", "value": "SHA256"}
      {"kind": "record_field_is", "selector": {"journal": "ID"}, "field": "verdict", "value": "ok"}
      {"kind": "all_of" or "any_of", "of": [..]}
      {"kind": "human_decision", "statement": "the canary may be expanded", "by": "ann"}
    """
    from infer_forge.tasks import verbs

    return verbs.new(
        source,
        kind=kind,
        fields=fields_of(options),
        acceptance=acceptance_of(options),
        supersedes=supersedes,
        task_id=task_id,
    )


@command.command("edit")
@click.argument("task")
@click.option("--from", "source", help="Take the whole definition from this JSON or YAML file.")
@click.option(
    "--drop-acceptance",
    type=click.IntRange(min=1),
    multiple=True,
    help="Take out the condition of this number (the first that task status lists is 1); repeatable.",
)
@definition_options
@report_command
def edit(task: str, source: str | None, drop_acceptance: tuple[int, ...], **options: Any) -> Report:
    """Change the definition of TASK before its lock; lists are added to, single fields replaced."""
    from infer_forge.tasks import verbs

    return verbs.edit(task, source, fields_of(options), acceptance_of(options), drop_acceptance)


@command.command("lock")
@click.argument("task")
@report_command
def lock(task: str) -> Report:
    """Lock the contract of TASK by hash, once, with the capability baseline in force.

    An incomplete or vague contract is refused with everything that is missing. Locking an online diagnosis makes the guard
    of this run read-only until the task ends.
    """
    from infer_forge.cli.task_fields import tool_definitions
    from infer_forge.tasks import verbs

    return verbs.lock(task, tool_definitions())


@command.command("clarify")
@click.argument("task")
@click.argument("text")
@report_command
def clarify(task: str, text: str) -> Report:
    """Append a clarification that changes nothing of goal, scope or acceptance. A material change is a new task."""
    from infer_forge.tasks import verbs

    return verbs.clarify(task, text)


@command.command("start")
@click.argument("task")
@report_command
def start(task: str) -> Report:
    """Begin work on the locked TASK; shows what the journal holds on it, and binds this folder to it for the Stop hook."""
    from infer_forge.tasks import verbs

    return verbs.start(task)


@command.command("deliver")
@click.argument("task")
@click.option("--summary", required=True, help="What was achieved, in a sentence or more.")
@click.option(
    "--outcome",
    type=click.Choice(["add", "update", "merge", "retire", "no_change"]),
    help="Of a capability task: what happened to the capability baseline.",
)
@click.option("--cites", multiple=True, help="Of a capability task: a journal record it stands on; repeatable.")
@click.option(
    "--accept-baseline",
    help="A person (named here, at a terminal) accepts a capability baseline or check suite that changed, or a runtime unseen.",
)
@report_command
def deliver(
    task: str, summary: str, outcome: str | None, cites: tuple[str, ...], accept_baseline: str | None
) -> Report:
    """End TASK with its deliverable: the goal is checked again, the reproduction path verified, and all of it archived.

    The path is commits, image, deployment point, commands, results and failed attempts, taken from the records. A capability
    task needs recorded runs of exactly the commands of the check suite (`task baseline` shows them), each with exit 0, after
    the runtime last changed and on the skills and references that it delivers.
    """
    from infer_forge.cli.task_fields import person_at_terminal, tool_definitions
    from infer_forge.tasks import verbs

    who = person_at_terminal("accepting a changed baseline", accept_baseline) if accept_baseline else None
    capability = {"outcome": outcome, "records": list(cites)} if outcome or cites else None
    return verbs.deliver(task, summary, capability=capability, tools=tool_definitions(), accepted_by=who)


@command.command("handoff")
@click.argument("task")
@click.option("--done", required=True, help="What is done.")
@click.option("--next", "next_entry", required=True, help="Where the next task starts.")
@click.option("--still-holds", multiple=True, help="A judgement that still holds; repeatable.")
@click.option("--open", "open_questions", multiple=True, help="An open question; repeatable.")
@click.option(
    "--abandon", is_flag=True, help="A person abandons the task (asks for a terminal, --person and --reason)."
)
@click.option("--person", help="Who abandons it.")
@click.option("--reason", default="", help="Why it is abandoned.")
@report_command
def handoff(
    task: str,
    done: str,
    next_entry: str,
    still_holds: tuple[str, ...],
    open_questions: tuple[str, ...],
    abandon: bool,
    person: str | None,
    reason: str,
) -> Report:
    """End TASK with a follow-up handoff. Writes that were denied during an online diagnosis become its items."""
    from infer_forge.cli.task_fields import person_at_terminal
    from infer_forge.tasks import verbs

    who = person_at_terminal("abandoning a task", person) if abandon else None
    return verbs.handoff(
        task,
        done,
        next_entry,
        still_holds=still_holds,
        open_questions=open_questions,
        outcome="abandoned" if abandon else "follow_up",
        person=who,
        reason=reason,
    )


@command.command("resume")
@click.argument("task")
@click.option("--person", help="Who answers a drift stop or a used-up budget (asks for a terminal).")
@click.option("--note", default="", help="What was decided, and why.")
@click.option("--more-blocks", type=click.IntRange(0, 1000), default=0, help="Blocks that the person adds.")
@click.option("--more-minutes", type=click.IntRange(min=0), default=0, help="Minutes that the person adds.")
@click.option("--take-over", is_flag=True, help="Work of a lost node that ran under no claim is given up.")
@report_command
def resume(task: str, person: str | None, note: str, take_over: bool, more_blocks: int, more_minutes: int) -> Report:
    """Go on with TASK from its records: what is open is probed, never run again, and a stopped task becomes active.

    Work that died on another node under a claim needs a new claim and a fresh probe; what the old one made is fenced.
    """
    from infer_forge.cli.task_fields import person_at_terminal
    from infer_forge.tasks import verbs

    who = person_at_terminal("answering for a stopped task", person) if person else None
    if (more_blocks or more_minutes) and who is None:
        raise UsageFault("only a person adds to a budget", next_step="--person NAME, at a terminal")
    return verbs.resume(
        task, person=who, note=note, take_over=take_over, more_blocks=more_blocks, more_minutes=more_minutes
    )


@command.command("decide")
@click.argument("task")
@click.option("--statement", required=True, help="What the contract (or a review) asks a person; see `task inbox`.")
@click.option("--answer", type=click.Choice(["yes", "no"]), required=True, help="The decision.")
@click.option("--person", help="Who decides (default: the setting identity.user, else the account).")
@click.option("--stand-in", default="", help="Why another than the block's reviewer answers a review (a model's, say).")
@report_command
def decide(task: str, statement: str, answer: str, person: str | None, stand_in: str) -> Report:
    """Record a person's decision. It needs a person at a terminal; an agent is refused.

    What the contract leaves to somebody, or a block to its reviewer, is answered under that name; nobody reviews what he or
    she executed. Names are compared, not proved: the account that wrote the answer is recorded and shown beside it.
    """
    from infer_forge.cli.task_fields import person_at_terminal
    from infer_forge.tasks import verbs

    return verbs.decide(task, statement, answer, person_at_terminal("a decision", person), stand_in)


@command.command("evidence")
@click.argument("task")
@click.option("--kind", required=True, help="Kind of evidence, as the acceptance names it.")
@click.option("--file", "path", required=True, type=GivenPath(path_type=Path), help="The file; JSON is read.")
@click.option("--label", default="", help="A name for it.")
@report_command
def evidence(task: str, kind: str, path: Path, label: str) -> Report:
    """Hand in a file as evidence of trust `recorded`. One of another deployment point is refused, and a task proposed."""
    from infer_forge.tasks import verbs

    return verbs.evidence(task, kind, path, label)


for _one in (*task_work.COMMANDS, *task_views.COMMANDS, *task_restore.COMMANDS):
    command.add_command(_one)
