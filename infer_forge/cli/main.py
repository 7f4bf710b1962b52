"""The command `infer-forge`: the table of commands, and how errors become exit codes."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import sys
from typing import NoReturn

import click

from infer_forge import __version__
from infer_forge.base.errors import ForgeError, InputUnusable

# name -> (module under infer_forge.cli, one line of help). The module exposes `command`; it is imported when it runs.
COMMANDS: dict[str, tuple[str, str]] = {
    "triage": (
        "triage",
        "A torch-profiler trace becomes the kernel, overlap and fuse tables, and says why the GPU was idle.",
    ),
    "pipeline": ("pipeline", "Forward passes, layers, layer clusters and compute flow of a trace, for any model."),
    "ceiling": (
        "ceiling",
        "The floor of a prefill and a decode step on a deployment point, and the headroom above it.",
    ),
    "capture": ("capture", "Prefill and decode profiles taken from a running server."),
    "ncu": ("ncu", "Nsight Compute reports become a diagnosis and exactly one next edit."),
    "crash": ("crash", "Logs and dumps become one verdict; runs are recorded so that the next crash tells more."),
    "engine": ("engine", "The one recordable way to start, watch and stop an engine."),
    "bench": ("bench", "Benchmark results: import, check, lock, search, rank, fairness and the gap decision."),
    "kernel-task": ("kernel_task", "Kernel tasks: make, run and audit them against reward hacking."),
    "node": ("node", "The node registry: claims on GPU nodes, observations, fail-closed cleanup."),
    "guard": ("guard", "The safety guard: check commands, scan artifacts, own and grant."),
    "journal": ("journal", "Evidence across tasks: add, search, compare, wiki, pull-request history."),
    "task": ("task", "Tasks: definition, contract lock, loop blocks, records, handoff, deliverable."),
    "graph": ("graph", "The task graph: add, link, explain, ready, impact, stats, render."),
    "workspace": ("workspace", "The multi-repository workspace."),
    "campaign": ("campaign", "The SOTA loop as a campaign: init, lock, status, next, record, check, review, report."),
    "install": ("install", "Put skills, hook and server in place for Claude Code or Codex."),
    "uninstall": ("uninstall", "Remove what install put in place."),
    "doctor": ("doctor", "Say what the client will see, and what is missing."),
    "config": ("config", "Show the settings and which file each came from."),
    "job": ("job", "Read, wait for or cancel long work."),
    "serve": ("serve", "The MCP server (stdio by default)."),
}


class _Commands(click.Group):
    """A group whose help needs no command's module, so that `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        return importlib.import_module(f"infer_forge.cli.{entry[0]}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="infer-forge")
def cli() -> None:
    """Reproducible inference optimisation for SGLang, vLLM, TensorRT-LLM and TokenSpeed.

    Exit codes: 0 done, 2 wrong usage, 3 unusable input, 4 a gate refuses, 5 something is missing on this machine,
    6 a person must decide, 1 anything else. Every command answers with --format json on standard output alone.
    """


def _without_secrets(text: str) -> str:
    """What an error repeats of an address or a command may hold a password; errors end up in logs and issues."""
    from infer_forge.base.redact import redact

    return redact(text)


def _place_step(fault: OSError) -> str:
    if fault.errno == errno.ENOSPC:
        return "next: make room on that disk, or set INFER_FORGE_HOME to another one"
    return "next: check that place and its permissions; INFER_FORGE_HOME moves what infer-forge keeps"


def _drop_output() -> None:
    """What standard output could not take goes nowhere: Python would try again at its end, complain, and exit with 120."""
    if sys.stdout is sys.__stdout__:  # what a caller put in its place is the caller's
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code; a `ForgeError` is one or two lines on stderr."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        # without its own error handling click gives back the code of `ctx.exit(n)`
        ended: object = cli.main(args=argv, prog_name="infer-forge", standalone_mode=False)
        code = ended if isinstance(ended, int) else 0
    except ForgeError as exc:
        from infer_forge.base.text_table import visible

        click.echo(f"infer-forge: {visible(_without_secrets(str(exc)))}", err=True)
        code = exc.exit_code
    except click.exceptions.Exit as exc:
        code = exc.exit_code
    except click.Abort:
        click.echo("infer-forge: stopped", err=True)
        code = 1
    except click.ClickException as exc:
        exc.show()
        code = InputUnusable.exit_code if exc.message.endswith("is not readable.") else exc.exit_code
    except BrokenPipeError:
        _drop_output()
        code = 0
    except OSError as exc:  # of a place of ours or of stdout: inputs that cannot be read are told by who reads them
        if os.environ.get("INFER_FORGE_DEBUG"):
            raise
        reason = " ".join((exc.strerror or str(exc)).split())[:300]
        click.echo(f"infer-forge: {exc.filename or 'output'}: {reason}\n{_place_step(exc)}", err=True)
        if exc.filename is None:
            _drop_output()
        code = 1
    except Exception as exc:
        if os.environ.get("INFER_FORGE_DEBUG"):
            raise
        reason = " ".join(f"{type(exc).__name__}: {exc}".split())[:300]
        click.echo(
            f"infer-forge: internal error: {reason}\nnext: run it again with INFER_FORGE_DEBUG=1 and report it",
            err=True,
        )
        code = 1
    if argv is None:  # the process ends here: its last look for garbage would cost a tenth of a short command
        gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
