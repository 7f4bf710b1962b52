"""Options and helpers that several `infer-forge task` commands share."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from infer_forge.base import jsonio
from infer_forge.base.errors import UsageFault
from infer_forge.cli.given_path import GivenPath

_OPTIONS = (
    click.option("--title", help="Title, one line."),
    click.option("--goal", help="Expected result: model, hardware, workload and target where it speaks of speed."),
    click.option("--scope", help="Bounds: what may be touched, and what not."),
    click.option(
        "--acceptance", multiple=True, help="A typed predicate as JSON, or @FILE with one or a list; repeatable."
    ),
    click.option("--verification", multiple=True, help="Evidence or command that shows the acceptance; repeatable."),
    click.option("--exit-criteria", multiple=True, help="When to stop, and with what; repeatable."),
    click.option("--context", multiple=True, help="Starting context as JSON: name, value, origin, status, lineage."),
    click.option("--deployment-point", type=GivenPath(path_type=Path), help="JSON file of the deployment point."),
    click.option("--may-vary", multiple=True, help="Field of the deployment point that may vary; repeatable."),
    click.option("--benchmark-contract", help="sha256 of the locked benchmark contract."),
    click.option("--repository", multiple=True, help="A repository that the task needs; repeatable."),
    click.option("--blocks", type=click.IntRange(1, 1000), help="Most loop blocks."),
    click.option("--minutes", type=click.IntRange(min=1), help="Most minutes from its creation."),
    click.option("--drift-limit", type=click.IntRange(1, 50), help="Blocks without progress before a person decides."),
)


def definition_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say single fields of a definition."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def fields_of(options: dict[str, Any]) -> dict[str, Any]:
    """The definition's fields among the options."""
    point = options["deployment_point"]
    budgets = {k: options[k] for k in ("blocks", "minutes", "drift_limit") if options[k]}
    return {
        "title": options["title"],
        "goal": options["goal"],
        "scope": options["scope"],
        "verification": list(options["verification"]),
        "exit_criteria": list(options["exit_criteria"]),
        "context": [jsonio.loads(c, where="--context") for c in options["context"]],
        "deployment_point": jsonio.read_json(point) if point else None,
        "may_vary": list(options["may_vary"]),
        "benchmark_contract_sha256": options["benchmark_contract"],
        "repositories": list(options["repository"]),
        "budgets": budgets,
    }


def acceptance_of(options: dict[str, Any]) -> list[Any]:
    """The acceptance predicates among the options; free text stays text, which the definition refuses with the reason."""
    found: list[Any] = []
    for text in options["acceptance"]:
        if text.startswith("@"):
            data: Any = jsonio.read_json(text[1:])
            found += data if isinstance(data, list) else [data]
        elif text.lstrip().startswith("{"):
            found.append(jsonio.loads(text, where="--acceptance"))
        else:
            found.append(text)
    return found


def person_at_terminal(what: str, name: str | None) -> str:
    """The person who acts; refuses an agent and a pipe.

    Raises:
        HumanNeeded: nobody sits at a terminal.
    """
    from infer_forge.base.person import require_person
    from infer_forge.tasks.events import who

    require_person(what, "a person runs the same command at a terminal")
    return name or who()


def tool_definitions() -> dict[str, Any] | None:
    """Tool name -> description and input schema of the server of this installation; None where it is not installed."""
    try:
        server: Any = importlib.import_module("infer_forge_mcp.server")
        toolkit: Any = importlib.import_module("infer_forge_mcp.toolkit")
    except ModuleNotFoundError:
        return None
    built = {name: toolkit.build(function) for name, (_, function) in server.found_tools().items()}
    return {name: {"description": t.description, "parameters": t.parameters} for name, t in built.items()}


def pairs(values: tuple[str, ...], what: str) -> list[tuple[str, str]]:
    """`NAME=VALUE` options.

    Raises:
        UsageFault: one has no `=`.
    """
    found: list[tuple[str, str]] = []
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name or not rest:
            raise UsageFault(f"{value!r} is no {what}")
        found.append((name, rest))
    return found
