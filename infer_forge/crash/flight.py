"""NCCL flight-recorder dumps: read without running anything, compared rank by rank.

A dump is a pickle of builtins (torch/csrc/distributed/c10d/FlightRecorder: version, pg_config, entries) or the same as
JSON. The unpickler knows no class at all: a dump that names one is refused, since loading it would run its code.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from infer_forge.base.errors import InputUnusable

MAX_BYTES = 256 << 20
MAX_ENTRIES = 200_000
_UNEVEN = ("all_to_all", "send", "recv", "gather_", "scatter", "coalesced")
_FORBIDDEN = {
    "GLOBAL",
    "STACK_GLOBAL",
    "INST",
    "OBJ",
    "NEWOBJ",
    "NEWOBJ_EX",
    "REDUCE",
    "BUILD",
    "PERSID",
    "BINPERSID",
    "EXT1",
    "EXT2",
    "EXT4",
}


class _Builtins(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """No class is ever looked up."""
        raise pickle.UnpicklingError(f"names {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        """Nothing outside the file is ever fetched."""
        raise pickle.UnpicklingError("names an outside object")


def load(path: Path, shown: str) -> dict[str, Any]:
    """One dump as plain data.

    Raises:
        InputUnusable: too large, damaged, no dump, or it names a class (it would run code elsewhere).
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputUnusable("is too large for a flight-recorder dump", where=shown)
        raw = path.read_bytes()
    except OSError as exc:
        raise InputUnusable(exc.strerror or str(exc), where=shown) from None
    data = _json(raw, shown) if raw.lstrip()[:1] == b"{" else _pickle(raw, shown)
    if not isinstance(data, dict) or not isinstance(cast("dict[Any, Any]", data).get("entries"), list):
        raise InputUnusable("is no flight-recorder dump (no entries)", where=shown)
    return cast("dict[str, Any]", data)


def _json(raw: bytes, shown: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise InputUnusable("is damaged", where=shown) from None


def _pickle(raw: bytes, shown: str) -> Any:
    try:
        for opcode, _, _ in pickletools.genops(raw):
            if opcode.name in _FORBIDDEN:
                raise InputUnusable(f"is a pickle that would run code (opcode {opcode.name}): not loaded", where=shown)
        return _Builtins(io.BytesIO(raw)).load()
    except InputUnusable:
        raise
    except Exception as exc:  # a damaged pickle raises nearly anything
        raise InputUnusable(f"is a damaged pickle ({type(exc).__name__})", where=shown) from None


def rank_of(path: Path, data: dict[str, Any]) -> int | None:
    """The rank: what the dump says, else the digits that end its name."""
    told = data.get("rank")
    if isinstance(told, int):
        return told
    found = re.search(r"(\d+)(?:\.\w+)?$", path.name)
    return int(found.group(1)) if found else None


def _entries(data: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for entry in cast("list[Any]", data["entries"])[:MAX_ENTRIES]:
        if isinstance(entry, dict):
            yield cast("dict[str, Any]", entry)


def _group(entry: dict[str, Any]) -> str:
    group = entry.get("process_group")
    if isinstance(group, (list, tuple)) and group:
        return str(cast("list[Any]", group)[0])[:80]
    return str(entry.get("pg_name", entry.get("pg_id", "?")))[:80]


def _op(entry: dict[str, Any]) -> str:
    return str(entry.get("profiling_name", "?")).removeprefix("nccl:")[:80]


def _flat(value: Any) -> str:
    return json.dumps(value, default=str)[:400]


def _sizes(entry: dict[str, Any]) -> str:
    return _flat([entry.get("input_sizes"), entry.get("output_sizes")])


def _dtypes(entry: dict[str, Any]) -> str:
    return _flat([entry.get("input_dtypes"), entry.get("output_dtypes")])


def _frame(entry: dict[str, Any]) -> tuple[str, int] | None:
    frames = entry.get("frames")
    for frame in cast("list[Any]", frames)[:30] if isinstance(frames, list) else []:
        if isinstance(frame, dict):
            one = cast("dict[str, Any]", frame)
            name, line = str(one.get("filename", "")), one.get("line")
            if name and "/torch/" not in name and isinstance(line, int):
                return name, line
    return None


def analyse(dumps: dict[int, tuple[str, dict[str, Any]]]) -> dict[str, Any] | None:
    """The first divergence over all process groups, lowest sequence number first.

    Args:
        dumps: rank -> (shown path, data).

    Returns:
        None with fewer than two dumps; else kind (an enum name of PyTorch's analyzer, `MISSING_RANK`, `FULLY_MATCHED` or
        `UNDECIDED`), pg, seq, ranks, how, refs, certain, op, frame, world.
    """
    if len(dumps) < 2:
        return None
    table: dict[str, dict[int, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for rank, (_, data) in sorted(dumps.items()):
        for entry in _entries(data):
            seq = entry.get("collective_seq_id")
            if isinstance(seq, int) and not entry.get("is_p2p") and seq > 0:
                table[_group(entry)][seq].setdefault(rank, entry)
    found: list[dict[str, Any]] = []
    for group, seqs in table.items():
        if (one := _first_divergence(group, seqs, dumps)) is not None:
            found.append(one)
    if not found:
        return {"kind": "FULLY_MATCHED" if table else "UNDECIDED", "world": len(dumps)}
    return min(found, key=lambda f: (f["time"], f["seq"]))


def _members(group: str, dumps: dict[int, tuple[str, dict[str, Any]]], seen: set[int]) -> set[int]:
    for _, data in dumps.values():
        config = data.get("pg_config")
        entry = cast("dict[str, Any]", config).get(group) if isinstance(config, dict) else None
        if isinstance(entry, dict):
            ranks = cast("dict[str, Any]", entry).get("ranks")
            if isinstance(ranks, str):
                ranks = [int(r) for r in re.findall(r"\d{1,9}", ranks[:100_000])]
            if isinstance(ranks, list) and ranks:
                return {int(r) for r in cast("list[Any]", ranks) if isinstance(r, int)}
    return seen


def _first_divergence(
    group: str, seqs: dict[int, dict[int, dict[str, Any]]], dumps: dict[int, tuple[str, dict[str, Any]]]
) -> dict[str, Any] | None:
    seen = {r for ranks in seqs.values() for r in ranks}
    members = (_members(group, dumps, seen) & set(dumps)) or seen
    lows = [min(s for s, ranks in seqs.items() if r in ranks) for r in members if r in seen]
    begin = max(lows) if lows else 0  # the recorder is a ring: what only some still hold says nothing
    for seq in sorted(s for s in seqs if s >= begin):
        entries = seqs[seq]
        times = [e.get("time_created_ns") for e in entries.values()]
        base: dict[str, Any] = {
            "pg": group,
            "seq": seq,
            "world": len(members),
            "refs": [f"{dumps[r][0]}:record {entries[r].get('record_id', '?')}" for r in sorted(entries)],
            "time": min((t for t in times if isinstance(t, (int, float))), default=0),
        }
        if (mismatch := _mismatch(entries, base)) is not None:
            return mismatch
        absent = sorted(members - set(entries))
        waiting = [r for r, e in entries.items() if e.get("state") in ("scheduled", "started")]
        if absent and waiting:
            op = _op(next(iter(entries.values())))
            how = (
                f"rank {', '.join(map(str, absent))} never entered {op} (group {group}, "
                f"sequence {seq}); rank {', '.join(map(str, sorted(waiting)))} waits in it"
            )
            frame = _frame(entries[sorted(waiting)[0]])
            return base | {
                "kind": "MISSING_RANK",
                "ranks": absent,
                "how": how,
                "op": op,
                "certain": len(absent) == 1 and len(entries) >= 2,
                "frame": frame,
            }
        scheduled = sorted(r for r, e in entries.items() if e.get("state") == "scheduled")
        started = [r for r, e in entries.items() if e.get("state") in ("started", "completed")]
        if scheduled and started and not absent:
            op = _op(next(iter(entries.values())))
            how = (
                f"rank {', '.join(map(str, scheduled))} has scheduled {op} (group "
                f"{group}, sequence {seq}) and not started it: earlier GPU work blocks it"
            )
            return base | {
                "kind": "COLLECTIVE_STATE_MISMATCH",
                "ranks": scheduled,
                "how": how,
                "op": op,
                "certain": len(scheduled) == 1 and len(started) >= 2,
                "frame": _frame(entries[scheduled[0]]),
            }
    return None


def _mismatch(entries: dict[int, dict[str, Any]], base: dict[str, Any]) -> dict[str, Any] | None:
    """Another type, size or dtype at one sequence number."""
    if len(entries) < 2:
        return None
    aspects: list[tuple[str, str, Callable[[dict[str, Any]], str]]] = [
        ("COLLECTIVE_TYPE_MISMATCH", "type", _op),
        ("SIZE_OR_SYNTAX_MISMATCH", "size", _sizes),
        ("COLLECTIVE_DTYPE_MISMATCH", "dtype", _dtypes),
    ]
    for kind, word, value in aspects:
        if word == "size" and any(w in _op(next(iter(entries.values()))) for w in _UNEVEN):
            continue
        values: dict[int, str] = {r: value(e) for r, e in entries.items()}
        counts = Counter(values.values())
        if len(counts) == 1:
            continue
        common, number = counts.most_common(1)[0]
        odd = sorted(r for r, x in values.items() if x != common)
        certain = len(odd) == 1 and number >= 2
        ranks = odd if number > len(odd) else sorted(entries)
        how = (
            f"at sequence {base['seq']} of group {base['pg']} rank "
            f"{', '.join(map(str, odd))} has {word} {values[odd[0]]}, the others {common}"
        )
        return base | {
            "kind": kind,
            "ranks": ranks,
            "how": how,
            "op": _op(entries[odd[0]]),
            "certain": certain,
            "frame": _frame(entries[odd[0]]),
        }
    return None
