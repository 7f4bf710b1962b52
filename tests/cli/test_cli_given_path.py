"""An empty path names nothing: no command takes it for the folder where one stands."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from infer_forge.cli.given_path import GivenPath
from infer_forge.cli.main import cli


def _paths(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None
            yield from _paths(sub, click.Context(sub, parent=context, info_name=name))
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            yield f"{context.command_path} {parameter.name}", parameter


EVERY = dict(_paths(cli, click.Context(cli, info_name="infer-forge")))


def test_many_commands_take_paths() -> None:
    assert len(EVERY) > 50


@pytest.mark.parametrize("name", sorted(EVERY))
def test_an_empty_path_is_refused(name: str) -> None:
    kind = EVERY[name].type
    assert isinstance(kind, GivenPath)
    with pytest.raises(click.BadParameter, match="names nothing"):
        kind.convert("", EVERY[name], None)
