"""The runtime of the loop and the reviewer's program: version, rewrite, and the flags that the hook passes, really asked for."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.campaign import companions
from infer_forge.campaign.rlcr.loops import text_of
from infer_forge.campaign.rlcr.model import rules_data

PROBE_S = 20.0
"""A program that does not answer `--help` within this time counts as not seen."""

MOST_BYTES = 1 << 20
"""A program that writes more than this about itself is ended too."""

_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)")
_CODEX_LINE = re.compile(r"CODEX\w*(?:ARGS|FLAGS?)\w*\+?=|\bcodex\s+(?:exec|review)\b")


@dataclass
class Runtime:
    """What stands for Humanize on this machine. `root` is None when there is no loop runtime; `rewrite` names what was found instead."""

    root: Path | None
    version: str | None = None
    tried: list[str] = field(default_factory=list[str])
    rewrite: str | None = None
    hook: Path | None = None

    @property
    def known(self) -> bool:
        """Whether its version is one whose files we know."""
        return self.version is not None and any(
            self.version == v or self.version.startswith(f"{v}.") for v in rules_data()["versions"]
        )


def _version(root: Path) -> str | None:
    for name in (".claude-plugin/plugin.json", ".codex-plugin/plugin.json", "plugin.json"):
        with contextlib.suppress(OSError, InputUnusable):
            data: Any = jsonio.read_json(root / name)
            version: Any = cast("dict[str, Any]", data).get("version") if isinstance(data, dict) else None
            if isinstance(version, str):
                return version
    return None


def rewrite_in(place: Path) -> str | None:
    """Why a folder is the rewrite without the loop; None when it is not."""
    data = rules_data()["rewrite"]
    project = text_of(place / "pyproject.toml") or ""
    named = re.search(r'^\s*name\s*=\s*"([^"]+)"', project, re.MULTILINE)
    if named and named[1] in data["packages"]:
        return f"{place}: package {named[1]}"
    script = re.search(rf"^\s*({'|'.join(data['programs'])})\s*=", project, re.MULTILINE)
    if script:
        return f"{place}: program {script[1]}"
    here = next((f for f in data["folders"] if (place / f / "__init__.py").is_file()), None)
    return f"{place}: folder {here}" if here else None


def find(environ: Mapping[str, str], home: Path) -> Runtime:
    """The runtime (A6), or the rewrite, or nothing with every place tried."""
    found = companions.find_runtime(environ, home)
    if found.path is not None:
        hook = next(iter(sorted(found.path.glob(f"hooks/{rules_data()['stop_hook']}*"))), None)
        return Runtime(found.path, _version(found.path), found.tried, rewrite_in(found.path), hook)
    made = Runtime(None, tried=found.tried)
    made.rewrite = next((why for p in found.tried if (why := rewrite_in(Path(p)))), None)
    if made.rewrite is None:
        path, names = environ.get("PATH"), cast("list[str]", rules_data()["rewrite"]["programs"])
        program = next((p for n in names if (p := shutil.which(n, path=path))), None)
        made.rewrite = f"program {program}" if program else None
    return made


@dataclass(frozen=True)
class Said:
    """What a program answered. `why` says why there is no answer."""

    rc: int | None
    text: str
    why: str | None = None


def ask(words: list[str], environ: Mapping[str, str], *, limit_s: float = PROBE_S) -> Said:
    """Run a program that only tells about itself; ended after `limit_s`, with everything that it started."""
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        return Said(None, "", f"{words[0]} is not on PATH")
    try:
        process = subprocess.Popen(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as fault:
        return Said(None, "", f"{program}: {fault.strerror or fault}")
    with process:
        out, finished = _read(process, limit_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if not finished:
        return Said(None, "", f"{' '.join(words)} gave no answer in {limit_s:g} s")
    return Said(process.returncode, out.decode("utf-8", "replace"))


def _read(process: subprocess.Popen[bytes], limit_s: float) -> tuple[bytes, bool]:
    """(what it wrote, at most `MOST_BYTES`, whether it ended by itself in time)."""
    assert process.stdout is not None
    out, end = bytearray(), time.monotonic() + limit_s
    while (left := end - time.monotonic()) > 0 and len(out) < MOST_BYTES:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        piece = os.read(process.stdout.fileno(), 1 << 16)
        if not piece:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, end - time.monotonic()))
            break
        out += piece
    return bytes(out), process.poll() is not None


def hook_flags(runtime: Runtime, environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Subcommand of codex -> flags that the hook gives it.

    Read from the hook and its library, where they lie; else those known of 1.16. A known flag stays as long as its word stands
    anywhere in them, so that a spelling that we do not follow hides nothing.
    """
    data = rules_data()
    flags: dict[str, list[str]] = {k: list(v) for k, v in data["codex_flags"].items()}
    text = _hook_text(runtime)
    if text:
        flags = {k: [f for f in v if f in text] for k, v in flags.items()}
        code = [line for line in text.split("\n") if _CODEX_LINE.search(line) and not line.lstrip().startswith("#")]
        for line in code:
            flags["review" if "REVIEW" in line.upper() else "exec"] += _FLAG.findall(line)
    bypass, sandboxed = str(data["bypass_flag"]), environ.get(data["bypass_variable"], "").lower() not in ("1", "true")
    drop = bypass if sandboxed else "--full-auto"
    made = {k: [f for f in dict.fromkeys(v) if f not in (drop, "--help")] for k, v in flags.items()}
    if not sandboxed and bypass not in made["exec"]:
        made["exec"].append(bypass)
    return made


def _hook_text(runtime: Runtime) -> str:
    if runtime.hook is None or runtime.root is None:
        return ""
    files = [runtime.hook, *sorted(runtime.root.glob("hooks/lib/*.sh"))]
    return "\n".join(text_of(f) or "" for f in files)


def refused_flags(flags: Mapping[str, list[str]], environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """(flags that codex's own help does not name, why a help could not be read)."""
    refused, unread = list[str](), list[str]()
    for command, names in flags.items():
        if not names:
            continue
        said = ask(["codex", command, "--help"], environ)
        if said.rc != 0 or not said.text.strip():
            unread.append(said.why or f"codex {command} --help ended with {said.rc}")
            continue
        helped = set(_FLAG.findall(said.text))
        refused += [f"codex {command} {n}" for n in names if n not in helped]
    return refused, unread
