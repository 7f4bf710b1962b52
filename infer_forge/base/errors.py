"""One family of errors. Each carries the exit code of the command line and the next step for the reader.

Raise the child whose meaning fits; the doors (command line, MCP tools) print it in one or two lines without a traceback.
"""

from __future__ import annotations


class ForgeError(Exception):
    """A failure that is told to the user.

    Args:
        what: the cause, in one line, without a full stop.
        where: the file, record or field that is meant, when there is one.
        next_step: what the reader should do now, as a command or one sentence.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, next_step: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" if self.where else self.what
        return f"{line}\nnext: {self.next_step}" if self.next_step else line


class UsageFault(ForgeError):
    """The words of the command or the arguments of the tool are wrong (exit 2)."""

    exit_code = 2


class InputUnusable(ForgeError):
    """A file or other input cannot be used: wrong kind, empty, too damaged (exit 3)."""

    exit_code = 3


class GateRefused(ForgeError):
    """A gate refuses to go on; the message says which and what is missing (exit 4)."""

    exit_code = 4


class MissingPart(ForgeError):
    """Something that the machine must have is missing: a program, an extra, a device (exit 5)."""

    exit_code = 5


class HumanNeeded(ForgeError):
    """A person must decide before this can go on (exit 6)."""

    exit_code = 6
