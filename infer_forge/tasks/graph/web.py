"""The graph as one HTML page without network: drag to pan, wheel to zoom, search, click a node for its facts and its paths."""

from __future__ import annotations

from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.page import Page, svg_element
from infer_forge.base.tables import Table
from infer_forge.tasks.graph.answers import EDGE_COLUMNS, NODE_COLUMNS, edge_row, edge_state, node_row
from infer_forge.tasks.graph.drawing import COLOURS, edge_label, look_of
from infer_forge.tasks.graph.model import CONTROL, HANDOFF, SHARED_REPO, STATE, TASK, Edge, Node
from infer_forge.tasks.graph.placing import HEIGHT, WIDTH, Lane, Plan, place
from infer_forge.tasks.graph.view import View
from infer_forge.tasks.graph.web_parts import SCRIPT, STYLE

_MEANING = {
    "planned": "planned, waits",
    "ready": "ready",
    "active": "in flight",
    "done": "delivered or handed off",
    "not_taken": "rejected, superseded, unreleased, withdrawn",
    "suspect": "suspect",
    "place": "shared repo or external system",
}
_LINES = {HANDOFF: "", STATE: "2 4", CONTROL: "7 5"}


def page(view: View, nodes: list[Node], edges: list[Edge]) -> str:
    """The page's HTML."""
    made = Page(
        f"Task graph {view.graph.project}", f"{len(nodes)} elements, {len(edges)} edges; {view.graph.last_seq} events"
    )
    made.svg(
        _bar()
        + _picture(view, nodes, edges)
        + '<div id="facts" class="facts" aria-live="polite">Click an element.</div>'
    )
    made.table(Table("nodes", NODE_COLUMNS, [node_row(view, n) for n in nodes]), "Elements")
    made.table(Table("edges", EDGE_COLUMNS, [edge_row(e) for e in edges]), "Edges")
    facts = {n.id: _facts(view, n) for n in nodes}
    links = [[e.source, e.target, e.kind] for e in edges]
    made.script(f"const FACTS={_embedded(facts)},LINKS={_embedded(links)};{SCRIPT}")
    return made.to_html()


def _embedded(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end the element."""
    text = jsonio.dumps(value).decode()
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _bar() -> str:
    """Search, zoom and legend."""
    legend = "".join(
        svg_element("span", {"style": f"background:{fill};border-color:{stroke}"}, text=_MEANING[name])
        for name, (fill, stroke) in COLOURS.items()
    )
    buttons = "".join(svg_element("button", {"id": i, "title": t}, text=c) for i, t, c in _BUTTONS)
    find = '<input id="seek" class="find" placeholder="search: id, title, type, status" aria-label="search the graph">'
    return f'<style>{STYLE}</style><div class="bar">{find}<b id="hits"></b>{buttons}<span class="legend">{legend}</span></div>'


_BUTTONS = (("zin", "zoom in", "+"), ("zout", "zoom out", "-"), ("fit", "show all", "fit"))


def _picture(view: View, nodes: list[Node], edges: list[Edge]) -> str:
    plan = place(nodes, edges)
    heads = "".join(
        svg_element(
            "marker",
            {
                "id": f"h-{kind}",
                "viewBox": "0 0 8 8",
                "refX": 7,
                "refY": 4,
                "markerWidth": 7,
                "markerHeight": 7,
                "orient": "auto",
            },
            [svg_element("path", {"d": "M0,0L8,4L0,8z", "class": f"head {kind}"})],
        )
        for kind in _LINES
    )
    lanes = "".join(_lane(s, plan.width) for s in plan.lanes)
    content = lanes + "".join(_edge(e, plan) for e in edges) + "".join(_node(view, n, plan) for n in nodes)
    box = {"id": "graph", "viewBox": f"0 0 {plan.width:g} {plan.height:g}", "role": "img", "tabindex": 0}
    label = {"aria-label": "task graph"}
    return svg_element(
        "svg", {**box, **label, "xmlns": "http://www.w3.org/2000/svg"}, [svg_element("defs", {}, [heads]), content]
    )


def _lane(lane: Lane, width: float) -> str:
    box = {
        "x": 8,
        "y": f"{lane.top:g}",
        "width": f"{width - 16:g}",
        "height": f"{lane.height:g}",
        "class": "lane",
        "rx": 8,
    }
    name = {"x": 20, "y": f"{lane.top + 17:g}", "class": "lanename"}
    return svg_element("rect", box) + svg_element("text", name, text=lane.title)


def _edge(edge: Edge, plan: Plan) -> str:
    path, (x, y) = _curve(plan.at[edge.source], plan.at[edge.target])
    state, label = edge_state(edge), edge_label(edge)
    tip = svg_element("title", {}, text=f"{edge.id}: {state}{f', {edge.note}' if edge.note else ''}")
    shown = label if edge.kind != STATE else ""
    text = svg_element("text", {"x": f"{x:g}", "y": f"{y - 4:g}", "class": "edgename"}, text=shown) if shown else ""
    line = {"d": path, "class": f"line {edge.kind} {state}", "marker-end": f"url(#h-{edge.kind})"}
    if dashes := _LINES[edge.kind] or ("1 4" if state == "planned" else ""):
        line["stroke-dasharray"] = dashes
    return svg_element(
        "g", {"class": "edge", "data-a": edge.source, "data-b": edge.target}, [tip, svg_element("path", line), text]
    )


Point = tuple[float, float]


def _curve(a: Point, b: Point) -> tuple[str, Point]:
    """A curve between two boxes (their top left corners), and the point where its label stands.

    Forward it leaves on the right and arrives on the left; otherwise it goes from the nearer long side to the other's.
    """
    if b[0] > a[0]:
        p, q, bend = (a[0] + WIDTH, a[1] + HEIGHT / 2), (b[0], b[1] + HEIGHT / 2), (46.0, 0.0)
    else:
        down = b[1] > a[1]
        p = (a[0] + WIDTH / 2, a[1] + (HEIGHT if down else 0))
        q = (b[0] + WIDTH / 2, b[1] + (0 if down or b[1] == a[1] else HEIGHT))
        bend = (0.0, 34.0 if down else -34.0)
    far = (q[0] - bend[0], q[1] - bend[1] if b[1] != a[1] or b[0] > a[0] else q[1] + bend[1])
    near = (p[0] + bend[0], p[1] + bend[1])
    middle = ((p[0] + 3 * near[0] + 3 * far[0] + q[0]) / 8, (p[1] + 3 * near[1] + 3 * far[1] + q[1]) / 8)
    return f"M{p[0]:g},{p[1]:g}C{near[0]:g},{near[1]:g} {far[0]:g},{far[1]:g} {q[0]:g},{q[1]:g}", middle


def _node(view: View, node: Node, plan: Plan) -> str:
    x, y = plan.at[node.id]
    name = look_of(view, node)
    fill, stroke = COLOURS[name]
    round_ = {TASK: 6, SHARED_REPO: 18}.get(node.kind, 0)
    box = {"width": WIDTH, "height": HEIGHT, "rx": round_, "fill": fill, "stroke": stroke, "stroke-width": 1.6}
    if name == "not_taken":
        box["stroke-dasharray"] = "6 4"
    status = f"{node.type}, {view.status(node)}" if node.kind == TASK else node.kind.replace("_", " ")
    lines = [
        svg_element("rect", box),
        svg_element("text", {"x": 10, "y": 17, "class": "name"}, text=_cut(node.id, 26)),
        svg_element("text", {"x": 10, "y": 32}, text=_cut(node.title, 33)),
        svg_element("text", {"x": 10, "y": 46, "class": "dim"}, text=_cut(status, 34)),
        svg_element("title", {}, text=f"{node.id}: {node.title}"),
    ]
    return svg_element("g", {"class": "node", "data-id": node.id, "transform": f"translate({x:g},{y:g})"}, lines)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _facts(view: View, node: Node) -> dict[str, Any]:
    """What the page tells on a click."""
    created, started, ended = view.times(node)
    doubt = view.doubts.get(node.id)
    told = {
        "title": node.title,
        "type": node.type or node.kind,
        "status": view.status(node) if node.kind == TASK else None,
        "reason": view.reason(node),
        "workstream": node.workstream,
        "authors": ", ".join(view.authors(node)),
        "task": node.task,
        "url": node.url,
        "created": created,
        "started": started,
        "ended": ended,
        "supersedes": node.supersedes,
        "replaced by": node.replaced_by,
        "outcome": node.outcome,
        "suspect": doubt.why if doubt else None,
        "waits for": "; ".join(view.waits(node))
        if node.kind == TASK and not view.is_ready(node) and not ended
        else None,
    }
    return {k: v for k, v in told.items() if v}
