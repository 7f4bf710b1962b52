"""Look at GPU clocks through nvidia-smi, and give locked ones back: checked before, checked after, recorded.

There is no way to read a locked range (see `base.clocks`), so a lock is judged by the SM clock that it allows: above its
upper end it cannot be in force; below its lower end only an idle GPU or a slow-down explains the clock. What is not in
force any more was changed by somebody else, and is left as it is.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from infer_forge.base import clocks
from infer_forge.base.clocks import Book, Lock, Range
from infer_forge.base.errors import InputUnusable, MissingPart, UsageFault

TIMEOUT_S = 20
TOLERANCE_MHZ = 15
"""Step of the clock grid of data-centre GPUs (`nvidia-smi -q -d SUPPORTED_CLOCKS`); a lock snaps to it."""
_IDLE, _SLOWED = 0x1, 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80
# nvmlClocksEventReason*: GpuIdle 1, SwPowerCap 4, HwSlowdown 8, SyncBoost 10, SwThermal 20, HwThermal 40, HwPowerBrake 80
_FIELDS = ("index", "uuid", "clocks.sm", "clocks.max.sm", "clocks.applications.graphics", "driver_version")
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active", None)
_SETTLE_S = 1.0


@dataclass(frozen=True)
class Look:
    """A GPU's clocks at one moment, MHz; None is unknown.

    Attributes:
        reasons: the bits of `clocks_event_reasons.active`.
    """

    gpu: int
    uuid: str
    sm_mhz: int | None
    max_mhz: int | None
    applications_mhz: int | None
    driver: str
    reasons: int | None

    @property
    def idle(self) -> bool:
        """Whether the driver says that the clock is low because nothing runs."""
        return bool((self.reasons or 0) & _IDLE)


@dataclass(frozen=True)
class Outcome:
    """What became of one lock.

    Attributes:
        result: `restored`, `gone` (not in force, by somebody else's hand; nothing was changed), `unsure` (asked, never seen
            to run, and the clock does not tell), `failed`.
        target: what it went back to; None is the driver's default.
        verified: the clock afterwards fits; None when it cannot tell.
    """

    lock: Lock
    result: str
    why: str
    target: Range | None = None
    verified: bool | None = None

    @property
    def text(self) -> str:
        """One line for people."""
        low, high = self.lock.want
        return f"GPU {self.lock.gpu} locked at {low},{high} MHz: {self.result} ({self.why})"


def program() -> str:
    """nvidia-smi, or what `INFER_FORGE_NVIDIA_SMI` names.

    Raises:
        MissingPart: it is not installed.
    """
    found = os.environ.get("INFER_FORGE_NVIDIA_SMI") or shutil.which("nvidia-smi")
    if not found:
        raise MissingPart("nvidia-smi is not installed", where="PATH", next_step="run this on the GPU node itself")
    return found


def _run(argv: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {TIMEOUT_S} s"
    except OSError as exc:
        return 127, str(exc)
    return done.returncode, " ".join((done.stdout + " " + done.stderr).split())


def look(gpus: Iterable[int | str] | None = None) -> list[Look]:
    """Read the clocks of GPUs (indices or UUIDs; None: all).

    Raises:
        MissingPart: nvidia-smi is not there.
        InputUnusable: it does not answer, or not what was asked.
    """
    smi = program()
    chosen = [] if gpus is None else ["-i", ",".join(map(str, gpus))]
    said = ""
    for reasons in _REASONS:  # drivers before 535 know the older name, and refuse a query with a name they do not know
        names = [*_FIELDS, *([reasons] if reasons else [])]
        argv = [smi, *chosen, f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise InputUnusable(f"nvidia-smi does not answer ({exc})", where=smi) from None
        if done.returncode == 0:
            return [_row(line, reasons is not None) for line in done.stdout.splitlines() if line.strip()]
        said = " ".join((done.stdout + done.stderr).split())[:200]
    raise InputUnusable(f"nvidia-smi does not tell the clocks: {said}", where=smi)


def _row(line: str, reasons: bool) -> Look:
    cells = [c.strip() for c in line.split(",")]
    if len(cells) != len(_FIELDS) + reasons or not cells[0].isdigit():
        raise InputUnusable(f"nvidia-smi answered {line[:120]!r}", where="--query-gpu")
    mhz = [int(c) if c.isdigit() else None for c in cells[2:5]]
    bits = cells[6] if reasons else ""
    mask = int(bits, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", bits) else None
    return Look(int(cells[0]), cells[1], mhz[0], mhz[1], mhz[2], cells[5], mask)


def record(gpus: Iterable[int] | None = None) -> list[Look]:
    """Look at GPUs and write down what was seen, so that a lock on them may be asked for.

    Raises:
        MissingPart, InputUnusable: see `look`.
    """
    found = look(gpus)
    for one in found:
        before = (clocks.read().seen.get(one.gpu) or {}).get("idle_mhz")
        clocks.append(
            "seen", gpu=one.gpu, uuid=one.uuid, sm_mhz=one.sm_mhz, max_mhz=one.max_mhz, driver=one.driver,
            applications_mhz=one.applications_mhz, reasons=one.reasons, idle_mhz=one.sm_mhz if one.idle else before,
        )  # fmt: skip
    return found


def in_force(lock: Lock, now: Look, idle_mhz: int | None) -> bool | None:
    """Whether a lock is in force, by the clock that it allows: None when the clock cannot tell."""
    if now.sm_mhz is None:
        return None
    low, high = lock.want
    if now.sm_mhz > high + TOLERANCE_MHZ:
        return False
    if now.sm_mhz >= low - TOLERANCE_MHZ:
        return True
    if now.reasons is None or now.reasons & _SLOWED:
        return None
    if now.idle and (idle_mhz is None or now.sm_mhz <= idle_mhz + TOLERANCE_MHZ):
        return None
    return False


@contextmanager
def _alone() -> Generator[None]:
    path = clocks.file() + ".lock"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def restore(claim_id: str | None = None, *, idents: Iterable[str] | None = None, force: bool = False) -> list[Outcome]:
    """Give clocks back: of a claim, of the locks named, or all of this machine that are open. Again is harmless.

    Args:
        force: a person says so: also what was only asked about, and what the clock speaks against.
    """
    wanted = None if idents is None else set(idents)
    with _alone():
        book = clocks.read()
        leaving = [k for k in book.open(claim_id) if wanted is None or k.ident in wanted]
        out: list[Outcome] = []
        for gpu in sorted({k.gpu for k in leaving}):
            mine = [k for k in leaving if k.gpu == gpu]
            out += _one_gpu(book, mine, force=force)
        for done in out:
            _write(done)
    return out


def _write(done: Outcome) -> None:
    event = {"failed": "restore_failed", "unsure": None}.get(done.result, done.result)
    if event:
        clocks.append(event, id=done.lock.ident, gpu=done.lock.gpu, why=done.why, verified=done.verified)


def _one_gpu(book: Book, mine: list[Lock], *, force: bool) -> list[Outcome]:
    """The locks of one GPU that go: the newest was in force, and what lay under the oldest comes back."""
    newest, oldest = mine[-1], mine[0]
    later = [k for k in book.locks[book.locks.index(newest) + 1 :] if k.gpu == newest.gpu and k.is_open and k.confirmed]
    if later and not force:
        why = f"a later lock stands on it (run {later[0].run_id}, claim {later[0].claim_id}), which is left alone"
        return [Outcome(k, "gone", why) for k in mine]
    key = newest.uuid or str(newest.gpu)
    try:
        now = look([key])[0]
    except (MissingPart, InputUnusable, IndexError) as exc:
        why = exc.what if isinstance(exc, (MissingPart, InputUnusable)) else "the GPU is not listed"
        return [Outcome(k, "failed", why) for k in mine]
    idle = (book.seen.get(newest.gpu) or {}).get("idle_mhz")
    sure = [k for k in mine if k.confirmed]
    held = in_force((sure or mine)[-1], now, idle)
    target = book.before(oldest, mine)
    if not force:
        if held is False:
            return [_gone(k, now, target) for k in mine]
        if held is None and not sure:
            why = f"it was asked for and not seen to run, and {now.sm_mhz} MHz does not tell"
            return [Outcome(k, "unsure", why) for k in mine]
    for k in mine:
        clocks.append("restoring", id=k.ident, gpu=k.gpu, why="")
    fault = _set(key, target, root=any(k.root for k in mine))
    if fault:
        return [Outcome(k, "failed", fault, target) for k in mine]
    verified, mhz = _settled(key, newest, target)
    back = f"{target[0]},{target[1]} MHz" if target else "the driver's default"
    return [Outcome(k, "restored", f"back to {back}; SM clock now {mhz} MHz", target, verified) for k in mine]


def _gone(lock: Lock, now: Look, target: Range | None) -> Outcome:
    if lock.state == "restoring":
        return Outcome(lock, "restored", f"an interrupted restoring had taken effect: {now.sm_mhz} MHz", target)
    standing = f"; the standing lock {target[0]},{target[1]} is a person's to set" if target else ""
    return Outcome(lock, "gone", f"{now.sm_mhz} MHz: somebody else changed it, left as it is{standing}")


def _set(key: str, target: Range | None, *, root: bool) -> str | None:
    """Run the one command that gives a GPU back; what went wrong, or None."""
    words = ["-i", key, *(["-lgc", f"{target[0]},{target[1]}"] if target else ["-rgc"])]
    smi = program()
    code, said = _run([smi, *words])
    refused = code != 0 or "not have permission" in said
    sudo = shutil.which("sudo") if refused and root and os.geteuid() != 0 else None
    if sudo:
        code, said = _run([sudo, "-n", smi, *words])
    if code == 0 and "not have permission" not in said and "not supported" not in said.lower():
        return None
    return f"{'sudo -n ' if sudo else ''}nvidia-smi {' '.join(words)} failed with {code}: {said[:160]}"


def _settled(key: str, lock: Lock, target: Range | None) -> tuple[bool | None, int | None]:
    """Whether the clock fits what was set (a moment is given to it), and the clock; None when it cannot tell."""
    until = time.monotonic() + _SETTLE_S
    while True:
        try:
            mhz = look([key])[0].sm_mhz
        except (MissingPart, InputUnusable, IndexError):
            return None, None
        if mhz is not None:
            low, high = target or lock.want
            inside = low - TOLERANCE_MHZ <= mhz <= high + TOLERANCE_MHZ
            if inside is (target is not None):
                return True, mhz
        if time.monotonic() > until:
            return None, mhz
        time.sleep(0.1)


def declare(gpus: Iterable[int], mhz: Range | None, by: str) -> None:
    """A person says which lock these GPUs always have (None: none); it is what they go back to.

    Raises:
        UsageFault: the range is none.
    """
    if mhz is not None and not 0 < mhz[0] <= mhz[1]:
        raise UsageFault(f"{mhz[0]},{mhz[1]} is no clock range", next_step="write it as MIN,MAX in MHz, or none")
    for gpu in gpus:
        clocks.append("standing", gpu=gpu, mhz=list(mhz) if mhz else None, by=by)


def drop(ident: str, by: str) -> int:
    """A person says that a lock is none of ours any more; how many GPUs it covered.

    Raises:
        UsageFault: no open lock has this id.
    """
    hits = [k for k in clocks.read().open() if k.ident.startswith(ident)]
    if not hits or len({k.ident for k in hits}) > 1:
        raise UsageFault("no open lock, or several, have this id", where=ident, next_step="infer-forge guard clocks")
    clocks.append("dropped", id=hits[0].ident, gpu=None, why=f"{by} took it off")
    return len(hits)
