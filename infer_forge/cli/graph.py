"""`infer-forge graph`: the task graph, its evidence, what is ready and what depends on what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from infer_forge.cli.common import emit, format_options, report_command, write
from infer_forge.cli.given_path import GivenPath

if TYPE_CHECKING:
    from infer_forge.base.records import Report
    from infer_forge.tasks.graph.view import View

_PROJECT = click.option("--project", default="main", show_default=True, help="Which graph of the task store.")
_GOAL = click.option("--goal", type=click.Choice(["delivery", "capability"]), help="Only this part of the graph.")
_LANE = click.option("--workstream", help="Only this workstream.")
_TYPES = "plan research code integration evaluation release online_diagnosis capability custom".split()  # noqa: SIM905
_STATES = "active delivered handed_off rejected superseded unreleased withdrawn".split()  # noqa: SIM905


@click.group("graph")
def command() -> None:
    """The task graph: only a handoff edge carries a verified result, and every path stays with its reasons."""


def _look(project: str) -> View:
    from infer_forge.tasks import graph, open_store

    return graph.look(open_store(), project)


def _answer(project: str, *node_ids: str) -> Report:
    """The nodes that a change touched, as they stand now."""
    from infer_forge.tasks.graph import answers

    view = _look(project)
    nodes = [view.node(name) for name in node_ids]
    names = {n.id for n in nodes}
    report = answers.begin("graph_change", view)
    report.add(answers.Table("nodes", answers.NODE_COLUMNS, [answers.node_row(view, n) for n in nodes]))
    touched = [e for e in view.graph.edges.values() if names & {e.source, e.target}]
    if len(names) > 1:
        touched = [e for e in touched if names >= {e.source, e.target}]
    report.add(answers.Table("edges", answers.EDGE_COLUMNS, [answers.edge_row(e) for e in touched]))
    return report


@command.command("add")
@click.argument("node", required=False)
@click.option(
    "--kind",
    type=click.Choice(["task", "shared_repo", "external"]),
    default="task",
    show_default=True,
    help="Which element.",
)
@click.option("--type", "type_", type=click.Choice(_TYPES), help="Task type of a planned task node.")
@click.option("--title", help="What it is, in a few words. A task brings its own.")
@click.option("--goal", type=click.Choice(["delivery", "capability"]), help="Which part of the graph it belongs to.")
@click.option("--workstream", help="The line of work that it belongs to.")
@click.option("--author", help="Who makes it (default: the task's author, or you).")
@click.option("--task", help="The task of the store that it stands for; the id may then be left out.")
@click.option("--supersedes", help="The node whose place it takes: rework and contract changes are new nodes.")
@click.option("--url", help="Where a shared repo or external system is.")
@_PROJECT
@report_command
def add(node: str | None, type_: str | None, project: str, **more: Any) -> Report:
    """Add a task node, a shared repo or an external system."""
    from infer_forge.tasks import graph, open_store

    return _answer(project, graph.add_node(open_store(), project, node, type=type_, **more).id)


@command.command("bind")
@click.argument("node")
@click.argument("task")
@_PROJECT
@report_command
def bind(node: str, task: str, project: str) -> Report:
    """Let the planned NODE stand for TASK of the store; refused when the task imports what was not handed over."""
    from infer_forge.tasks import graph, open_store

    return _answer(project, graph.bind(open_store(), project, node, task).id)


@command.command("link")
@click.argument("source")
@click.argument("target")
@click.option(
    "--kind",
    type=click.Choice(["handoff", "state", "control"]),
    default="handoff",
    show_default=True,
    help="Which edge.",
)
@click.option("--action", type=click.Choice(["triggers", "returns", "redirects"]), help="What a control edge does.")
@click.option("--mode", type=click.Choice(["read", "write"]), help="How a state edge uses the shared repo.")
@click.option("--note", default="", help="Why, in a few words.")
@_PROJECT
@report_command
def link(source: str, target: str, project: str, kind: str, **more: Any) -> Report:
    """Join SOURCE to TARGET; an edge that breaks a rule is refused with the rule."""
    from infer_forge.tasks import graph, open_store

    edge = graph.link(open_store(), project, source, target, kind, **more)
    return _answer(project, edge.source, edge.target)


@command.command("unlink")
@click.argument("edge")
@click.option("--reason", required=True, help="Why it goes; kept.")
@_PROJECT
@report_command
def unlink(edge: str, reason: str, project: str) -> Report:
    """Take a planned EDGE (its name as `show` prints it) out of the graph. What was handed over stays."""
    from infer_forge.tasks import graph, open_store

    found = graph.unlink(open_store(), project, edge, reason)
    return _answer(project, found.source, found.target)


@command.command("handover")
@click.argument("producer")
@click.argument("consumer")
@click.option("--reviewer", required=True, help="Who verified the result: never an author of it.")
@click.option("--sha256", help="Hash of the evidence, for a producer without a task in the store.")
@click.option("--journal", help="Journal record of the evidence, for a producer without a task in the store.")
@_PROJECT
@report_command
def handover(producer: str, consumer: str, project: str, **more: Any) -> Report:
    """Let the handoff from PRODUCER to CONSUMER carry the producer's deliverable or follow-up handoff."""
    from infer_forge.tasks import graph, open_store

    edge = graph.hand_over(open_store(), project, producer, consumer, **more)
    return _answer(project, edge.source, edge.target)


@command.command("import")
@click.argument("consumer")
@click.argument("producer")
@_PROJECT
@report_command
def take(consumer: str, producer: str, project: str) -> Report:
    """Record that CONSUMER took what PRODUCER handed over; refused before that, and when it is doubtful."""
    from infer_forge.tasks import graph, open_store

    edge = graph.take_import(open_store(), project, consumer, producer)
    return _answer(project, edge.source, edge.target)


@command.command("mark")
@click.argument("node")
@click.argument("status", type=click.Choice(_STATES))
@click.option("--reason", default="", help="Why; a judgement needs it, and it stays with the path.")
@click.option("--by", "replaced_by", help="The node that took its place (superseded).")
@click.option(
    "--outcome", type=click.Choice(["add", "update", "merge", "retire", "no_change"]), help="Of a capability node."
)
@click.option("--record", "records", multiple=True, help="Journal record that the outcome cites; repeat it.")
@click.option("--evidence", multiple=True, help="Further evidence: a path, hash or address; repeat it.")
@_PROJECT
@report_command
def mark(node: str, status: str, project: str, **more: Any) -> Report:
    """Judge a path (rejected, superseded, unreleased, withdrawn), or record the status of a node that has no task."""
    from infer_forge.tasks import graph, open_store

    return _answer(project, graph.mark(open_store(), project, node, status, **more).id)


@command.command("rejudge")
@click.argument("producer")
@click.argument("consumer")
@click.option("--reviewer", required=True, help="Who judged it: an author of neither.")
@click.option("--reason", required=True, help="Why what was taken still holds.")
@_PROJECT
@report_command
def rejudge(producer: str, consumer: str, project: str, **more: Any) -> Report:
    """Answer the doubt on what CONSUMER took from PRODUCER: it still holds."""
    from infer_forge.tasks import graph, open_store

    edge = graph.rejudge(open_store(), project, producer, consumer, **more)
    return _answer(project, edge.source, edge.target)


@command.command("load")
@click.argument("file", type=GivenPath(path_type=Path))
@_PROJECT
@report_command
def load(file: Path, project: str) -> Report:
    """Load nodes and edges from a YAML or JSON FILE, all or nothing, held against every rule.

    Keys of a node: id, kind, type, title, goal, workstream, author, url, supersedes, created, started, delivered,
    handed_off, judgement, judged, reason, by, outcome, records, evidence. Of an edge: from, to, kind, action, mode, note,
    linked; of a verified handoff also reviewer, sha256, journal, result, verified, imported.
    """
    from infer_forge.tasks import graph, open_store

    graph.load_file(open_store(), project, file)
    return graph.show(_look(project))


@command.command("show")
@_GOAL
@_LANE
@_PROJECT
@report_command
def show(project: str, goal: str | None, workstream: str | None) -> Report:
    """All elements and edges, or those of one goal or workstream."""
    from infer_forge.tasks import graph

    return graph.show(_look(project), goal, workstream)


@command.command("explain")
@click.argument("node")
@_PROJECT
@report_command
def explain(node: str, project: str) -> Report:
    """Why NODE is as it is: evidence, what it waits for, doubts with their chain, and the paths that were not taken."""
    from infer_forge.tasks import graph, open_store

    return graph.explain(open_store(), node, project)


@command.command("ready")
@_PROJECT
@report_command
def ready(project: str) -> Report:
    """Task nodes that may begin, and what the others wait for."""
    from infer_forge.tasks import graph

    return graph.ready(_look(project))


@command.command("impact")
@click.argument("node")
@_PROJECT
@report_command
def impact(node: str, project: str) -> Report:
    """What stands on NODE: what would become suspect, what would wait."""
    from infer_forge.tasks import graph

    return graph.impact(_look(project), node)


@command.command("stats")
@_GOAL
@_LANE
@_PROJECT
@report_command
def stats(project: str, goal: str | None, workstream: str | None) -> Report:
    """Created, archived, in flight now and at the peak, median lifetime: by type, workstream and month."""
    from infer_forge.tasks import graph

    return graph.stats(_look(project), goal, workstream)


@command.command("check")
@_PROJECT
@format_options
@click.pass_context
def check(ctx: click.Context, project: str, form: str, out: Path | None) -> None:
    """Read the whole history and hold every element against the rules: 0 pass, 4 fail, 3 a task is not in this store."""
    from infer_forge.tasks import graph, open_store

    report, verdict = graph.check(open_store(), project)
    emit(report, form, out)
    ctx.exit({"pass": 0, "fail": 4}.get(verdict, 3))


@command.command("render")
@click.option(
    "--as",
    "form",
    type=click.Choice(["mermaid", "dot", "html"]),
    default="mermaid",
    show_default=True,
    help="Which form.",
)
@click.option("--out", type=GivenPath(path_type=Path, dir_okay=False), help="Write it to this file, not to stdout.")
@_GOAL
@_LANE
@_PROJECT
def render(form: str, out: Path | None, project: str, goal: str | None, workstream: str | None) -> None:
    """The graph as a picture: Mermaid, DOT, or one HTML page to pan and search, without network."""
    from infer_forge.tasks import graph

    write(graph.render(_look(project), form, goal, workstream), out)
