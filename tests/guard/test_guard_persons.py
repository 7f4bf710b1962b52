"""What infer-forge asks a person for is denied to an agent, whatever makes the terminal that it runs in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
import pytest

from infer_forge.base.errors import HumanNeeded
from infer_forge.base.person import require_person
from infer_forge.cli.main import cli
from infer_forge.guard.model import Verdict
from infer_forge.guard.rules.persons import COMMANDS

Check = Callable[[str], Verdict]


def _every(command: click.Command, path: tuple[str, ...], context: click.Context) -> Iterator[tuple[str, ...]]:
    """Commands and options whose help says that a terminal is needed, as (words.., option or nothing)."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None
            yield from _every(sub, (*path, name), click.Context(sub, parent=context, info_name=name))
    if "terminal" in (command.help or ""):
        yield (*path, "")
    for option in command.params:
        if "terminal" in (getattr(option, "help", None) or ""):
            yield (*path, option.opts[0])


def test_each_command_whose_help_asks_for_a_terminal_is_denied_to_an_agent() -> None:
    told = set(_every(cli, (), click.Context(cli)))
    known = {(*words, option) for words, options in COMMANDS.items() for option in options or ("",)}
    assert len(told) > 10
    assert told <= known
    assert {k[:2] for k in known} == {t[:2] for t in told}


PERSONS = [
    "infer-forge task decide t-1 --statement s --answer yes",
    "infer-forge task resume t-1 --person=ann",
    "infer-forge task resume t-1 --more-blocks 3",
    "infer-forge task handoff t-1 --abandon --person ann --reason r",
    "infer-forge task deliver t-1 --summary s --accept-baseline ann",
    "infer-forge task restore refs/tasks/t-1 --commit abc",
    "infer-forge bench lock --run-dir r --contract c.json --accept-by ann --reason r",
    "infer-forge campaign lock --contract c.json --accept-by ann",
    "script -qec 'infer-forge task decide t-1 --answer yes' /dev/null",
    "script -qc'infer-forge task decide t-1 --answer yes'",
    "script --command='infer-forge task decide t-1 --answer yes' /dev/null",
    "script -q /dev/null infer-forge task decide t-1 --answer yes",
    "script /dev/null -- infer-forge task decide t-1 --answer yes",
    "unbuffer infer-forge task decide t-1 --answer yes",
    "uvx infer-forge guard grant pid 1",
    "infer-forge task decide t-1 --statement s --answer yes --person -h",
    "script -qc 'infer-forge task decide t-1 --answer yes --statement --help' /dev/null",
    "infer-forge guard grant -- pid -h",
    "env -u CLAUDECODE script -qec 'infer-forge guard own --root /data' /dev/null",
    """python3 -c 'import pty; pty.spawn(["infer-forge", "guard", "own", "--root", "/data"])'""",
    """python3 -c 'import ptyprocess; ptyprocess.PtyProcess.spawn(["pkill", "-f", "sglang"])'""",
]
ANYBODYS = [
    "infer-forge task resume t-1",
    "infer-forge task restore",
    "infer-forge task decide --help",
    "infer-forge task decide t-1 --person=ann --help",
    "infer-forge task decide t-1 --person ann -h",
    "infer-forge journal search task decide",
    "infer-forge bench lock --run-dir r --contract c.json",
    "script -qec 'nvidia-smi' /dev/null",
    "script -a bench.log -c 'python3 bench.py'",
    "script typescript",
    "flock /tmp/l true",
]


@pytest.mark.parametrize("line", PERSONS)
def test_a_line_that_needs_a_person_is_denied(line: str, check: Check) -> None:
    assert check(line).verdict == "deny"


@pytest.mark.parametrize("line", ANYBODYS)
def test_the_same_commands_without_the_persons_option_pass(line: str, check: Check) -> None:
    assert check(line).verdict == "allow"


class _Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("variable", ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX"])
def test_a_terminal_inside_of_a_client_is_no_persons(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for name in ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", _Terminal())
    for own in ("CODEX_HOME", "CODEX_API_KEY", "CODEX_CA_CERTIFICATE"):  # a person's own settings
        monkeypatch.setenv(own, "/home/ann/.codex")
    require_person("a decision", "type it")
    monkeypatch.setenv(variable, "1")
    with pytest.raises(HumanNeeded, match=f"a decision is for a person at a terminal: {variable} says"):
        require_person("a decision", "type it")
