"""The task graph: task nodes, shared repositories and external systems, joined by handoff, state and control edges.

A graph is a git ref of append-only events (`log`), as a task is; its state is folded from them. What a node that stands
for a task of the store looks like comes from that task (`facts`). Verbs: `build` (add_node, bind, mark), `edges` (link,
unlink, hand_over, take_import, rejudge), `bulk` (load_file), `answers` (show, ready, impact), `explaining` (explain),
`checking` (check, import_faults, start_faults), `counting` (stats), `drawing` (render).
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.tasks.graph.answers import impact, ready, show
    from infer_forge.tasks.graph.build import add_node, bind, mark
    from infer_forge.tasks.graph.bulk import load_file
    from infer_forge.tasks.graph.checking import check, import_faults, start_faults
    from infer_forge.tasks.graph.counting import stats
    from infer_forge.tasks.graph.drawing import render
    from infer_forge.tasks.graph.edges import hand_over, link, rejudge, take_import, unlink
    from infer_forge.tasks.graph.explaining import explain
    from infer_forge.tasks.graph.view import look

__all__ = [
    "add_node",
    "bind",
    "check",
    "explain",
    "hand_over",
    "impact",
    "import_faults",
    "link",
    "load_file",
    "look",
    "mark",
    "ready",
    "rejudge",
    "render",
    "show",
    "start_faults",
    "stats",
    "take_import",
    "unlink",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "add_node": "build",
        "bind": "build",
        "check": "checking",
        "explain": "explaining",
        "hand_over": "edges",
        "impact": "answers",
        "import_faults": "checking",
        "link": "edges",
        "load_file": "bulk",
        "look": "view",
        "mark": "build",
        "ready": "answers",
        "rejudge": "edges",
        "render": "drawing",
        "show": "answers",
        "start_faults": "checking",
        "stats": "counting",
        "take_import": "edges",
        "unlink": "edges",
    },
)
