"""What every command shares: `--format`, `--out`, `--require`, and printing a Report."""

from __future__ import annotations

import functools
import math
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ParamSpec, cast

import click

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.inputs import apart
from infer_forge.base.records import FORMATS, Report
from infer_forge.cli.given_path import GivenPath

P = ParamSpec("P")


class Finite(click.FloatRange):
    """A number in a range. NaN, which passes every comparison of a range, and endless ones are wrong usage."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no number to reckon with.", param, ctx)
        return number


SECONDS = Finite(0)
"""Seconds to wait: none is fine, less is not."""


def format_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--format` and `--out`; the function gets them as `form` and `out`."""
    function = click.option(
        "--out", type=GivenPath(path_type=Path, dir_okay=False), help="Write the answer to this file, not to stdout."
    )(function)
    return click.option(
        "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="Form of the answer."
    )(function)


class Judged(GateRefused):
    """A gate refuses what a report says: the door prints the report, and then the refusal."""

    def __init__(self, what: str, report: Report, *, where: str | None = None) -> None:
        super().__init__(what, where=where)
        self.report = report


def report_command(function: Callable[P, Report | None]) -> Callable[..., None]:
    """For commands that answer with a Report: adds `--format` and `--out` and prints what the function returns, or what
    its `require(.., report=..)` refuses.

    Put it under `@click.command(...)` and its options:

        @click.command()
        @click.argument("traces", nargs=-1)
        @report_command
        def command(traces): return triage(...)
    """

    @format_options
    @functools.wraps(function)
    def run(*args: Any, form: str, out: Path | None, **kwargs: Any) -> None:
        if out is not None:
            apart(out, _paths((*args, *kwargs.values())))
        try:
            report = function(*args, **kwargs)
        except Judged as refused:
            emit(refused.report, form, out)
            raise
        if report is not None:
            emit(report, form, out)

    return run


def _paths(values: Iterable[object]) -> list[Path]:
    """The paths among the arguments of a command, those in lists of them too."""
    found: list[Path] = []
    for value in values:
        several = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        found += [p for p in several if isinstance(p, Path)]
    return found


def emit(report: Report, form: str, out: Path | None) -> None:
    """Print a report (or write it to `out`), findings of severity `error` also to stderr.

    Raises:
        UsageFault: `out` cannot be written, or is a file that the report was made from.
    """
    if out is not None:
        apart(out, [Path(i.path) for i in report.header.inputs])
    width = shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() and out is None else 0
    write(report.render(form, width), out)


def write(text: str, out: Path | None) -> None:
    """Write an answer to a file or to stdout, with one line end."""
    data = text if text.endswith("\n") else f"{text}\n"
    if out is None:
        sys.stdout.write(data)
        sys.stdout.flush()
        return
    try:
        jsonio.write_atomic(out, data)
    except OSError as exc:
        raise UsageFault(
            exc.strerror or str(exc), where=str(out), next_step="name a file that can be written"
        ) from None
    click.echo(f"written: {out}", err=True)


def require(
    verdict: str,
    wanted: str | None,
    *,
    known: Iterable[str] = (),
    report: Report | None = None,
    where: str | None = None,
) -> None:
    """`--require V[,V]`: refuse (exit 4) unless the verdict is one of those named.

    Args:
        report: what is still to be printed when the gate refuses; leave it out where it was printed before.
        where: what the verdict speaks of, where a report holds several.

    Raises:
        GateRefused: another verdict came out.
        UsageFault: a verdict is named that this command never gives.
    """
    if not wanted:
        return
    names = {v.strip() for v in wanted.split(",") if v.strip()}
    unknown = names - set(known) if known else set[str]()
    if unknown:
        raise UsageFault(
            f"no such verdict: {', '.join(sorted(unknown))}", next_step=f"use one of {', '.join(sorted(known))}"
        )
    if verdict not in names:
        what = f"the verdict is {verdict}, required was {wanted}"
        raise Judged(what, report, where=where) if report is not None else GateRefused(what, where=where)


def value_of(text: str) -> Any:
    """What NAME=VALUE means: JSON where it is JSON, else the text. What may be an id stays text: a number of more than 15
    characters, and digits around one `e` of 8 characters or more (a hexadecimal id, seen: `225651604e13` read as 2.25e+21)."""
    import json

    try:
        value: Any = json.loads(text)
    except ValueError:
        return text
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return text if number and (len(text) > 15 or re.fullmatch(r"(?=.{8})\d+e\d+", text)) else value


def existing(path: str | Path) -> Path:
    """A path that must exist.

    Raises:
        InputUnusable: it does not, or a folder above it may not be entered.
    """
    found = Path(path)
    try:
        there = found.exists()
    except OSError as exc:
        raise InputUnusable(exc.strerror or str(exc), where=str(path), next_step="check its permissions") from None
    if not there:
        raise InputUnusable("no such file or folder", where=str(path), next_step="check the path")
    return found
