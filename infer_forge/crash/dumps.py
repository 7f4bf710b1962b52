"""Level-10 dump directories of SGLang and FlashInfer, and of our own recorder: their JSON only, never a tensor file.

The folder's name and its files tell the call's fate: made before the inputs are copied, inputs saved, outputs saved.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from infer_forge.crash.calls import Calls
from infer_forge.crash.model import Call, CallLog, Origin
from infer_forge.crash.prefixes import clean, origin_of_path
from infer_forge.crash.read import Source

MAX_BYTES = 8 << 20
_NAME = re.compile(r"^(?P<ts>\d{8}_\d{6}_\d{1,6})_pid(?P<pid>\d{1,8})_(?P<fn>.+)_call(?P<n>\d{1,9})$")


@dataclass
class Dump:
    """One dumped call."""

    folder: str
    function: str
    pid: int | None
    number: int
    stamp: str
    status: str
    exception: str | None = None


def read_dumps(sources: list[Source], roots: list[Path], lost: list[str]) -> list[Dump]:
    """Every dumped call: folders by their name, metadata by its content, session files line by line."""
    found: dict[tuple[int | None, str, int], Dump] = {}
    for root in roots:
        for folder in _folders(root):
            name = _NAME.match(folder.name)
            if name is None:
                continue
            has = {p.name for p in list(folder.iterdir())[:64]}
            status = (
                "no_inputs"
                if not has & {"inputs.pt", "inputs.safetensors", "metadata.json", "metadata.jsonl", "inputs.npz"}
                else "inputs_saved"
            )
            dump = Dump(str(folder), clean(name["fn"]), int(name["pid"]), int(name["n"]), name["ts"], status)
            found[(dump.pid, dump.function, dump.number)] = dump
    for source in sources:
        if source.kind not in ("metadata", "session"):
            continue
        for record in _records(source, lost):
            function = clean(str(record.get("function_name", "?")))[:300]
            pid = record.get("process_id")
            number = record.get("call_sequence")
            folder = (
                source.path.parent
                if source.kind == "metadata"
                else source.path.parent / str(record.get("dump_dir", "")).rsplit("/", 1)[-1]
            )
            name = _NAME.match(folder.name)
            if name is not None:
                pid, number = int(name["pid"]), int(name["n"])
            if not isinstance(pid, int):
                pid = None
            key = (pid, clean(name["fn"]) if name else function, int(number) if isinstance(number, int) else 0)
            status = str(record.get("execution_status", "unknown"))[:40]
            raised = record.get("exception")
            text = (
                f"{cast('dict[str, Any]', raised).get('type')}: {cast('dict[str, Any]', raised).get('message')}"[:300]
                if isinstance(raised, dict)
                else None
            )
            found[key] = Dump(
                str(folder),
                function,
                pid,
                key[2],
                str(record.get("timestamp", name["ts"] if name else "")),
                status,
                text,
            )
    return sorted(found.values(), key=lambda d: (str(d.pid), _when(d), d.number))


def _when(dump: Dump) -> str:
    found = _NAME.match(Path(dump.folder).name)
    return found["ts"] if found else re.sub(r"\D", "", dump.stamp)


def _folders(root: Path, depth: int = 0) -> list[Path]:
    if depth > 6 or not root.is_dir() or root.is_symlink():
        return []
    found: list[Path] = []
    for path in sorted(root.iterdir())[:20_000]:
        if path.is_symlink() or not path.is_dir():
            continue
        found.append(path)
        if _NAME.match(path.name) is None:
            found += _folders(path, depth + 1)
    return found


def _records(source: Source, lost: list[str]) -> list[dict[str, Any]]:
    if source.size > (MAX_BYTES if source.kind == "metadata" else 256 << 20):
        lost.append(f"{source.shown}: too large, not read")
        return []
    try:
        text = source.path.read_text(encoding="utf-8", errors="replace")
    except OSError as exc:
        lost.append(f"{source.shown}: {exc.strerror or exc}")
        return []
    pieces = text.splitlines() if source.path.name.endswith(".jsonl") else [text]
    found: list[dict[str, Any]] = []
    for piece in pieces:
        if not piece.strip():
            continue
        try:
            data: Any = json.loads(piece)
        except (ValueError, RecursionError):
            lost.append(f"{source.shown}: a record is damaged")
            continue
        if isinstance(data, dict):
            found.append(cast("dict[str, Any]", data))
    return found


def add_to(calls: Calls, dumps: list[Dump]) -> None:
    """Make the dumped calls part of the call logs: the last ones of each process."""
    by_pid: dict[int | None, list[Dump]] = {}
    for dump in dumps:
        by_pid.setdefault(dump.pid, []).append(dump)
    for pid, found in by_pid.items():
        base = origin_of_path(found[-1].folder, found[-1].folder)
        origin = Origin(base.path, base.host, pid, base.rank, base.label)
        existing = next((log for log in calls.logs.values() if pid is not None and log.origin.pid == pid), None)
        made = [_call(d, origin) for d in found[-12:]]
        if existing is None:
            log = CallLog(origin, "sglang", made, count=len(found), level=10)
            calls.logs[("dumps", pid)] = log
            continue
        existing.level = 10
        last = made[-1]
        for call in reversed(existing.last):
            if _same(call.api, last.api):
                call.status, call.dumped, call.raised = last.status, True, call.raised or last.raised
                break


def _call(dump: Dump, origin: Origin) -> Call:
    call = Call(
        dump.function,
        0,
        Origin(dump.folder, origin.host, origin.pid, origin.rank, origin.label),
        "sglang",
        dump.stamp,
        10,
        dumped=True,
    )
    call.status = dump.status
    call.returned = dump.status == "completed"
    call.raised = dump.exception
    return call


def _same(logged: str, dumped: str) -> bool:
    return re.sub(r"\W", "_", logged) == re.sub(r"\W", "_", dumped) or logged == dumped
