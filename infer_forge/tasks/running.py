"""Start a command so that its start and its end are on disk before anybody waits for them, and look at them later.

A small shell stands between the recorder and the command. It makes the file `started` (its pid, boot, and start time) by
hard link, which fails when the file is there, and runs the command only if that worked; afterwards it writes the exit
code to `exit`. So a recorder that is killed loses nothing: the command ends by itself and its exit code lies there. And
whoever looks at an intent without a `started` file takes that file first (`fence`): then the command never runs.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infer_forge.base import ownership, process_group

# $1 is the run folder, the command follows. `ln` is atomic with its content in place; 125: somebody else took the start.
_SHELL = """d=$1; shift; b=; s=
read -r b < /proc/sys/kernel/random/boot_id
read -r s < /proc/$$/stat
printf '%s\\n%s\\n%s\\n' $$ "$b" "$s" > "$d/started.$$" && ln "$d/started.$$" "$d/started" 2> /dev/null || exit 125
rm -f "$d/started.$$"
"$@"
c=$?
printf '%s\\n' $c > "$d/exit.tmp" && mv "$d/exit.tmp" "$d/exit"
exit $c
"""
_FENCE = "fenced\n"
_GRACE_S = 10.0

RUNNING, ENDED, LOST, NEVER_STARTED, UNKNOWN = "running", "ended", "lost", "never_started", "unknown"


def launch(argv: Sequence[str], cwd: str, folder: Path, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, with its output in the run folder; `environ` is added to ours."""
    words = ["/bin/sh", "-c", _SHELL, "infer-forge-run", str(folder), *argv]
    with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


def wait(process: subprocess.Popen[bytes], timeout_s: float | None) -> str | None:
    """Wait for the end; why the whole group was ended by us, if it was: `timeout`, `interrupt`."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        why = "timeout"
    except KeyboardInterrupt:
        why = "interrupt"
    else:
        return None
    process_group.end(process, grace_s=_GRACE_S)
    return why


def exit_code(folder: Path) -> int | None:
    """What the run folder says of the end; None while it says nothing."""
    try:
        return int((folder / "exit").read_text().strip())
    except (OSError, ValueError):
        return None


def start_facts(folder: Path) -> dict[str, Any] | None:
    """pid, boot and start time (clock ticks) of the start that the run folder holds; None without one, {} for a fence."""
    try:
        text = (folder / "started").read_text(errors="replace")
    except OSError:
        return None
    if text == _FENCE:
        return {}
    lines = [*text.splitlines(), "", ""]
    fields = lines[2][lines[2].rfind(")") + 2 :].split()
    ticks = int(fields[19]) if len(fields) > 19 else None
    return {"pid": int(lines[0]), "boot_id": lines[1] or None, "start_ticks": ticks}


def fence(folder: Path) -> bool:
    """Take the start of a command that has not started: True when it can never run any more, False when it had started."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f"started.{os.getpid()}.{time.monotonic_ns()}"
    mark.write_text(_FENCE)
    try:
        os.link(mark, folder / "started")
    except FileExistsError:
        return start_facts(folder) == {}
    finally:
        mark.unlink()
    return True


def look(folder: Path) -> tuple[str, int | None]:
    """(state, exit code) of a command started here, now: running, ended, lost (gone without an exit code), never_started.

    A command without a start is fenced first, so that `never_started` stays true.
    """
    facts = start_facts(folder)
    if facts is None:
        if fence(folder):
            return NEVER_STARTED, None
        facts = start_facts(folder)
    if not facts:
        return NEVER_STARTED, None
    alive = facts["boot_id"] == ownership.boot_id() and process_group.alive(facts["pid"], facts["start_ticks"])
    code = exit_code(folder)  # looked at last: what ended meanwhile is told as ended
    if code is not None:
        return ENDED, code
    return (RUNNING, None) if alive else (LOST, None)
