"""The text with which a client works on a task: `/loop` or `/goal`, limits as parsed, stop conditions, the proving command.

Both clients judge an end by the transcript alone, so the text names the one command whose printed line is the proof.
Claude Code takes 4,000 characters for a `/goal` condition.
"""

from __future__ import annotations

from infer_forge.base.errors import UsageFault
from infer_forge.tasks.state import Task

CLIENTS = ("claude", "codex")
FORMS = ("loop", "goal")
GOAL_LIMIT = 4000
MAY_STOP, MUST_GO_ON, CANNOT_TELL = "MAY STOP", "MUST GO ON", "CANNOT TELL"
_LONGEST = 500


def text_for(task: Task, client: str, form: str | None = None) -> str:
    """The prompt of a task.

    Args:
        form: `loop` or `goal`; by default Claude Code's `/loop` and Codex's `/goal`.

    Raises:
        UsageFault: another client or form, a form that the client does not have, or a task that is not locked.
    """
    if client not in CLIENTS:
        raise UsageFault(f"no client {client!r}", next_step=f"use one of {', '.join(CLIENTS)}")
    chosen = form or ("loop" if client == "claude" else "goal")
    if chosen not in FORMS or (client == "codex" and chosen == "loop"):
        raise UsageFault(f"{client} has no {chosen}", next_step="--as goal")
    if task.lock is None:
        raise UsageFault("the contract is not locked yet", where=task.id, next_step=f"infer-forge task lock {task.id}")
    text = _text(task, chosen, _LONGEST)
    if chosen == "goal" and len(text) > GOAL_LIMIT:
        text = _text(task, chosen, 120)
    return text


# One paragraph a line; the fields come from `_text`.
_TEMPLATE = """\
{head}
Task ({type}): {title}
Goal: {goal}
Scope: {scope}
Accepted by {count} typed conditions that `infer-forge task goal-met {id}` evaluates on recorded evidence. \
Contract {lock} is locked; change nothing of it.
Limits as parsed: {blocks} loop blocks ({used} used), {minutes} minutes, \
stop for a person after {drift} blocks without progress.
Each turn:
1. `infer-forge task status {id}` and do what its last line says. After a restart: `infer-forge task resume {id}`.
2. One block at a time: \
`infer-forge task block open {id} --sub-target TEXT --exit TEXT --uncertainty low|medium|high`.
3. What counts runs through `infer-forge task record {id} --label NAME --evidence KIND=FILE -- COMMAND`.
4. `infer-forge task block close {id} --outcome confirmed|rejected|constraint|blocked \
--progress advanced|stalled|regressed --note WHY`, then `infer-forge task goal-met {id}`.
5. Goal met: `infer-forge task deliver {id} --summary TEXT`. \
Cannot go on: `infer-forge task handoff {id} --done TEXT --next TEXT`.
A finished block does not finish the task. What a person must decide is left to a person: say so and stop. \
Never run an open execution again.
Run `{proof}` at the end of each turn and show its output: \
{may} (exit 0), {must} (4), {unclear} (3). Stop conditions: delivered, handed off, or waiting for a person."""


def _text(task: Task, form: str, longest: int) -> str:
    budgets, contract = task.typed.budgets, task.typed.contract
    proof = f"infer-forge task stop-check {task.id}"
    if form == "goal":
        head = f"/goal The output of `{proof}` in this transcript begins with `{MAY_STOP}`."
    else:
        head = f"/loop Work on infer-forge task {task.id} until `{proof}` prints a line that begins with `{MAY_STOP}`."
    return _TEMPLATE.format(
        head=head,
        id=task.id,
        type=task.typed.type,
        title=_cut(task.typed.title, longest),
        goal=_cut(contract.goal, longest),
        scope=_cut(contract.scope, longest),
        count=len(contract.acceptance),
        lock=(task.lock_sha or "")[:12],
        blocks=task.most_blocks,
        used=len(task.blocks),
        minutes=task.most_minutes,
        drift=budgets.drift_limit,
        proof=proof,
        may=MAY_STOP,
        must=MUST_GO_ON,
        unclear=CANNOT_TELL,
    )


def _cut(text: str, longest: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else f"{flat[: longest - 3]}..."
