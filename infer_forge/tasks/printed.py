"""Commands that reports and refusals print as the next step: each with every option that it cannot run without.

What the reader fills in is in capitals.
"""

from __future__ import annotations

import shlex

from infer_forge.base.text_table import one_line
from infer_forge.tasks.check_suite import LABEL as SUITE
from infer_forge.tasks.model import Predicate
from infer_forge.tasks.predicates import is_line, select
from infer_forge.tasks.state import Task

_LACKING = {
    "contract.goal": " --goal TEXT",
    "contract.scope": " --scope TEXT",
    "contract.acceptance: at least": " --acceptance JSON",
    "target": " --acceptance JSON",
    "contract.verification": " --verification TEXT",
    "exit_criteria": " --exit-criteria TEXT",
    "contract.deployment_point": " --deployment-point FILE",
}


def draft(kind: str) -> str:
    """Defines a task of a type from its playbook."""
    return (
        f"infer-forge task new --type {kind} --from playbook --title TEXT --goal TEXT --scope TEXT --acceptance JSON; "
        "infer-forge task new --help shows the forms of an acceptance"
    )


def edit(task_id: str, lacking: list[str]) -> str:
    """Says what a definition lacks, option by option; where no option says it, the help that names all."""
    options = [option for begin, option in _LACKING.items() if any(item.startswith(begin) for item in lacking)]
    return f"infer-forge task edit {task_id}{''.join(dict.fromkeys(options)) or ' --help'}"


def block_open(task_id: str) -> str:
    """Opens the next block."""
    return f"infer-forge task block open {task_id} --sub-target TEXT --exit TEXT"


def block_close(task_id: str) -> str:
    """Closes the active block, with the words that its two options take."""
    return (
        f"infer-forge task block close {task_id} --outcome OUTCOME --progress PROGRESS "
        "(confirmed, rejected, constraint or blocked; advanced, stalled or regressed)"
    )


def deliver(task_id: str) -> str:
    """Ends a task whose goal is met."""
    return f"infer-forge task deliver {task_id} --summary TEXT"


def handoff(task_id: str) -> str:
    """Ends a task with what is open."""
    return f"infer-forge task handoff {task_id} --done TEXT --next TEXT"


def decide(task_id: str, statement: str, person: str | None = None) -> str:
    """Answers what a contract or a block leaves to a person."""
    who = f" --person {shlex.quote(person)}" if person else ""
    return f"infer-forge task decide {task_id} --statement {shlex.quote(statement)} --answer YES_OR_NO{who}"


def record(task: Task) -> str:
    """Runs what the acceptance still waits for, under the label, kind of evidence and command line that it looks for."""
    wanted = next((p for p in _looking(task) if not _seen(task, p)), None)
    chosen = wanted.selector if wanted else None
    label = shlex.quote((chosen and chosen.label) or "NAME")
    file = f" --evidence {shlex.quote(f'{chosen.evidence}=FILE')}" if chosen and chosen.evidence else ""
    line = _line(chosen and chosen.command)
    return one_line(f"infer-forge task record {task.id} --label {label}{file} -- {line}")


def _line(command: str | None) -> str:
    """A pinned command line as one is to type it, without the lone `*` that lets further words follow."""
    words = shlex.split(command or "COMMAND")
    return shlex.join(words[:-1] if words[-1:] == ["*"] else words)


def uncounted(task: Task, label: str, kinds: set[str], argv: list[str]) -> str | None:
    """Why a run moves no condition: none looks at its label or its evidence, or all that do want another command line.

    None when one does, and when no condition looks at runs.
    """
    if task.typed.type == "capability" and label == SUITE:
        return None
    asked = _looking(task)
    near = [
        p
        for p in asked
        if p.selector.label in (None, label)
        and (p.selector.evidence in kinds if p.selector.evidence else p.selector.label == label)
    ]
    if not asked or any(p.selector.command is None or is_line(argv, p.selector.command) for p in near):
        return None
    lines = sorted({str(p.selector.command) for p in near})
    if lines:
        return one_line(f"the acceptance counts another command line under the label {label}: {' or '.join(lines)}")
    labels = sorted({f"the label {p.selector.label}" for p in asked if p.selector.label})
    kinds_asked = sorted({f"evidence {p.selector.evidence}" for p in asked if p.selector.evidence})
    asked_for = ", ".join([*labels, *kinds_asked])
    return one_line(f"no condition looks at this run (label {label}): the acceptance looks at {asked_for}")


def _looking(task: Task) -> list[Predicate]:
    """The conditions that a recorded run can move."""
    leaves = [leaf for p in task.typed.contract.acceptance for leaf in p.leaves()]
    return [p for p in leaves if p.kind in ("exit_is", "verdict_is", "metric_compare") and _moved(p)]


def _moved(condition: Predicate) -> bool:
    chosen = condition.selector
    return bool(chosen.label or chosen.evidence) and not (chosen.id or chosen.journal)


def _seen(task: Task, condition: Predicate) -> bool:
    """Whether something stands on the record that the condition looks at."""
    if condition.kind != "exit_is":
        return select(task, condition) is not None
    label, line = condition.selector.label, condition.selector.command
    runs = [e for e in task.executions.values() if e.label == label and e.phase == "result"]
    return any(line is None or is_line(e.argv, line) for e in runs)
