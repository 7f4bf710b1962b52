"""Task definition, loop blocks, task memory, handoff; the task graph is inside (`tasks.graph`).

A task is a git ref with append-only events (`events`); its state is folded from them (`state.load`). Verbs: `define`
(new, edit, lock, clarify, start, resume, verify), `blocks`, `execute` (record, probe, resolve), `goal` (goal_met, stop_verdict).
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.tasks.blocks import close_block, open_block, routing
    from infer_forge.tasks.events import open_store
    from infer_forge.tasks.execute import record
    from infer_forge.tasks.goal import goal_met, stop_verdict
    from infer_forge.tasks.state import load

__all__ = ["close_block", "goal_met", "load", "open_block", "open_store", "record", "routing", "stop_verdict"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "close_block": "blocks",
        "goal_met": "goal",
        "load": "state",
        "open_block": "blocks",
        "open_store": "events",
        "record": "execute",
        "routing": "blocks",
        "stop_verdict": "goal",
    },
)
