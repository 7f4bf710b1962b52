"""The graph as a picture: Mermaid, DOT, or one HTML page."""

from __future__ import annotations

import re

from infer_forge.base.errors import UsageFault
from infer_forge.tasks.graph.answers import chosen, edge_state
from infer_forge.tasks.graph.model import CONTROL, EXTERNAL, HANDOFF, SHARED_REPO, STATE, TASK, Edge, Node
from infer_forge.tasks.graph.view import DONE, IN_FLIGHT, View

FORMS = ("mermaid", "dot", "html")

# fill, stroke: light enough for black text on paper and screens
COLOURS = {
    "planned": ("#ffffff", "#8a94a6"),
    "ready": ("#e3f1ff", "#1f6fd1"),
    "active": ("#fff3cf", "#b98300"),
    "done": ("#dff3e1", "#2b8a3e"),
    "not_taken": ("#f1f1f1", "#8a8a8a"),
    "suspect": ("#ffe3e0", "#c92a2a"),
    "place": ("#efeafc", "#6741d9"),
}


def render(view: View, form: str, goal: str | None = None, workstream: str | None = None) -> str:
    """The picture's text.

    Raises:
        UsageFault: another form is asked for.
    """
    nodes = chosen(view, goal, workstream)
    names = {n.id for n in nodes}
    edges = [e for e in view.graph.open_edges() if e.source in names and e.target in names]
    if form == "mermaid":
        return _mermaid(view, nodes, edges)
    if form == "dot":
        return _dot(view, nodes, edges)
    if form == "html":
        from infer_forge.tasks.graph.web import page

        return page(view, nodes, edges)
    raise UsageFault(f"a picture is one of {', '.join(FORMS)}")


def look_of(view: View, node: Node) -> str:
    """Which of `COLOURS` a node is shown in."""
    if node.kind != TASK:
        return "place"
    if node.judgement:
        return "not_taken"
    if node.id in view.doubts:
        return "suspect"
    status = view.lifecycle(node)
    if status in DONE:
        return "done"
    if status in IN_FLIGHT:
        return "active"
    return "ready" if view.is_ready(node) else "planned"


def edge_label(edge: Edge) -> str:
    """What stands on an edge."""
    if edge.kind == HANDOFF:
        return {"deliverable": "", "follow_up_handoff": "follow-up", None: "planned"}[edge.result]
    return (edge.action if edge.kind == CONTROL else edge.mode) or ""


def _mermaid(view: View, nodes: list[Node], edges: list[Edge]) -> str:
    """Mermaid flowchart (https://mermaid.js.org/syntax/flowchart.html)."""
    number = {n.id: f"n{i}" for i, n in enumerate(nodes)}
    shapes = {TASK: ('["', '"]'), SHARED_REPO: ('[("', '")]'), EXTERNAL: ('{{"', '"}}')}
    lines = ["flowchart LR"]
    for lane in sorted({n.workstream or "" for n in nodes}):
        inside = [n for n in nodes if (n.workstream or "") == lane]
        lines += [f'  subgraph w{_plain(lane)}["{_quoted(lane)}"]'] if lane else []
        for node in inside:
            left, right = shapes[node.kind]
            text = f"{node.id}<br/>{_quoted(node.title)}"
            lines.append(f"    {number[node.id]}{left}{text}{right}:::{look_of(view, node)}")
        lines += ["  end"] if lane else []
    for edge in edges:
        label = edge_label(edge)
        arrow = {HANDOFF: "==>" if edge.verified else "-->", STATE: "-.->", CONTROL: "-.->"}[edge.kind]
        lines.append(f"  {number[edge.source]} {arrow}{f'|{label}|' if label else ''} {number[edge.target]}")
    for name, (fill, stroke) in COLOURS.items():
        dash = ",stroke-dasharray:5 4" if name == "not_taken" else ""
        lines.append(f"  classDef {name} fill:{fill},stroke:{stroke},color:#111{dash}")
    amber = [str(i) for i, e in enumerate(edges) if e.kind == CONTROL]
    lines += [f"  linkStyle {','.join(amber)} stroke:#b98300"] if amber else []
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """A Mermaid id that two different texts do not share."""
    return re.sub(r"[^A-Za-z0-9]", lambda m: f"_{ord(m.group()):x}", text)


def _quoted(text: str) -> str:
    """Text inside a Mermaid label: entities for what would end or change it."""
    clean = " ".join(text.split())
    return "".join(f"#{ord(c)};" if c in '"#<>`\\;|[]{}&' else c for c in clean)


def _dot(view: View, nodes: list[Node], edges: list[Edge]) -> str:
    """Graphviz DOT (https://graphviz.org/doc/info/lang.html)."""
    shapes = {TASK: "box", SHARED_REPO: "cylinder", EXTERNAL: "hexagon"}
    lines = [f"digraph {_string(view.graph.project)} {{", '  rankdir=LR; node [style="filled" fontname="sans-serif"];']
    lanes = sorted({n.workstream or "" for n in nodes})
    for number, lane in enumerate(lanes):
        lines += [f"  subgraph cluster_{number} {{ label={_string(lane)};"] if lane else []
        for node in (n for n in nodes if (n.workstream or "") == lane):
            name = look_of(view, node)
            fill, stroke = COLOURS[name]
            style = ' style="filled,dashed"' if name == "not_taken" else ""
            label = _string(f"{node.id}\n{node.title}")
            tip = _string(view.reason(node) or (view.status(node) if node.kind == TASK else node.kind))
            lines.append(
                f"    {_string(node.id)} [shape={shapes[node.kind]} label={label} tooltip={tip}"
                f' fillcolor="{fill}" color="{stroke}"{style}];'
            )
        lines += ["  }"] if lane else []
    styles = {HANDOFF: "solid", STATE: "dotted", CONTROL: "dashed"}
    for edge in edges:
        more = ' color="#b98300" constraint=false' if edge.kind == CONTROL else " penwidth=2" if edge.verified else ""
        tip = _string(f"{edge.id}: {edge_state(edge)}")
        lines.append(
            f"  {_string(edge.source)} -> {_string(edge.target)} [style={styles[edge.kind]}"
            f" label={_string(edge_label(edge))} tooltip={tip}{more}];"
        )
    return "\n".join([*lines, "}"]) + "\n"


def _string(text: str) -> str:
    """A quoted DOT string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
