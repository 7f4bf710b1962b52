"""Task definition, loop blocks, task memory, handoff; the task graph is inside (`tasks.graph`).

A task is a git ref with append-only events (`events`); its state is folded from them (`state.load`). Verbs: `define` (new,
edit, lock, clarify, start, accept, surface), `blocks`, `execute` (record, probe, settle), `evidence`, `goal` (goal_met,
stop_verdict), `resuming.take_up`, `ending` (deliver, handoff), `verification`, `proposals` (wake), `baseline` (manifest),
`playbook` (draft), `views` (status, list, inflight, inbox), `prompt`.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.tasks.baseline import manifest
    from infer_forge.tasks.blocks import close_block, open_block, routing
    from infer_forge.tasks.define import accept, clarify, definition_of, edit, lock, new, resume, start, surface, verify
    from infer_forge.tasks.ending import deliver, handoff
    from infer_forge.tasks.events import open_store
    from infer_forge.tasks.evidence import add_evidence, evidence_of
    from infer_forge.tasks.execute import probe, record, settle
    from infer_forge.tasks.goal import decide_as_person, goal_met, stop_verdict
    from infer_forge.tasks.proposals import propose, wake
    from infer_forge.tasks.resuming import take_up
    from infer_forge.tasks.state import load

__all__ = [
    "accept",
    "add_evidence",
    "clarify",
    "close_block",
    "decide_as_person",
    "definition_of",
    "deliver",
    "edit",
    "evidence_of",
    "goal_met",
    "handoff",
    "load",
    "lock",
    "manifest",
    "new",
    "open_block",
    "open_store",
    "probe",
    "propose",
    "record",
    "resume",
    "routing",
    "settle",
    "start",
    "stop_verdict",
    "surface",
    "take_up",
    "verify",
    "wake",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "accept": "define",
        "add_evidence": "evidence",
        "clarify": "define",
        "close_block": "blocks",
        "decide_as_person": "goal",
        "definition_of": "define",
        "deliver": "ending",
        "edit": "define",
        "evidence_of": "evidence",
        "goal_met": "goal",
        "handoff": "ending",
        "load": "state",
        "lock": "define",
        "manifest": "baseline",
        "new": "define",
        "open_block": "blocks",
        "open_store": "events",
        "probe": "execute",
        "propose": "proposals",
        "record": "execute",
        "resume": "define",
        "routing": "blocks",
        "settle": "execute",
        "start": "define",
        "stop_verdict": "goal",
        "surface": "define",
        "take_up": "resuming",
        "verify": "define",
        "wake": "proposals",
    },
)
