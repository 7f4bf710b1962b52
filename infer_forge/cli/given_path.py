"""The type of every path that a command takes. It stands alone because the guard's commands cannot afford `cli.common`."""

from __future__ import annotations

from typing import Any

import click


class GivenPath(click.Path):
    """A path that is not empty: an unset variable in quotes would mean the folder where one stands, and read it whole."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "":
            self.fail("an empty path names nothing.", param, ctx)
        return super().convert(value, param, ctx)
