"""Result files in, canonical rows out: parse, find the tool, fill the row, say what was lost.

A file that no reader knows is refused as what it is; a damaged one gives the runs that can still be read, and says how
many bytes were lost.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.inputs import files_in
from infer_forge.base.records import InputFile
from infer_forge.bench import (
    read_aiperf,
    read_diffusion,
    read_sglang,
    read_sglang_batch,
    read_tokenspeed,
    read_trtllm,
    read_vllm,
)
from infer_forge.bench.model import Part, Row, Source
from infer_forge.bench.read_common import Document, clean

Reader = Callable[[Document, Row], None]

# Order matters: the narrower sign first, the vLLM family's common keys last.
_READERS: tuple[tuple[str, Callable[[Document], bool], Reader], ...] = (
    (read_diffusion.TOOL, read_diffusion.matches, read_diffusion.read),
    (read_aiperf.AIPERF, read_aiperf.matches, read_aiperf.read),
    (read_sglang_batch.TOOL, read_sglang_batch.matches, read_sglang_batch.read),
    (read_sglang.TOOL, read_sglang.matches, read_sglang.read),
    (read_trtllm.TOOL, read_trtllm.matches, read_trtllm.read),
    (read_tokenspeed.TOOL, read_tokenspeed.matches, read_tokenspeed.read),
    (read_vllm.TOOL, read_vllm.matches, read_vllm.read),
)

TOOLS = (*(name for name, _, _ in _READERS), read_aiperf.GENAI_PERF)
"""Names for `--tool`."""

_LISTED = "`infer-forge bench import --help` lists the tools that are read"

# What else lies beside results: (keys that give it away, what it is, what to do).
_STRANGERS: tuple[tuple[set[str], str, str], ...] = (
    ({"framework", "case", "rep"}, "metadata of a driver script (no measurement in it)", "give the result file it belongs to"),
    ({"total_requests_sent", "system_output_throughput"}, "the result of a concurrency benchmark of its own, unknown here", _LISTED),
    ({"engine", "world_info", "request_info"}, "a trtllm-bench report", "use TensorRT-LLM's benchmark_serving against a server"),
    ({"traceEvents"}, "a profiler trace", "infer-forge triage FILE"),
    ({"architectures", "model_type"}, "a model config", "give a result file"),
    ({"results", "versions", "n-shot"}, "an accuracy result of lm-eval", "record it with the row's accuracy field"),
)  # fmt: skip

_MAX_BYTES = 2 << 30


@dataclass
class Imported:
    """Rows of one file, and what was lost in it."""

    file: InputFile
    rows: list[Row] = field(default_factory=list[Row])
    lost_bytes: int = 0
    lost_records: int = 0
    notes: list[str] = field(default_factory=list[str])


def import_file(path: str | Path, tool: str = "auto", context: Mapping[str, Any] | None = None) -> Imported:
    """Read every run of a result file.

    Args:
        path: the result file.
        tool: `auto`, or one of `TOOLS` where the keys are ambiguous.
        context: dotted row fields to set on every row (`framework`, `launch_id`, `workload.scenario`, ...).

    Raises:
        InputUnusable: it is no result file of a known tool; the message says what it is instead.
        UsageFault: an unknown tool or row field.
    """
    if tool != "auto" and tool not in TOOLS:
        raise UsageFault(f"unknown tool {tool!r}", next_step=f"use auto or one of {', '.join(TOOLS)}")
    file = InputFile.of(path)
    if file.size_bytes > _MAX_BYTES:
        raise InputUnusable("is larger than 2 GiB: no result file of a known tool is", where=file.path)
    documents, lost = _documents(Path(path).read_bytes(), file.path)
    out = Imported(file, lost_bytes=lost)
    reasons: list[InputUnusable] = []
    for number, document in enumerate(documents):
        try:
            out.rows.append(_row(document, file, number, tool, context))
        except InputUnusable as exc:
            reasons.append(exc)
    out.lost_records = len(reasons)
    if not out.rows:
        raise reasons[0] if reasons else InputUnusable("holds no run", where=file.path)
    if lost:
        out.notes.append(f"{lost} bytes could not be read as JSON")
    out.notes += [f"record refused: {exc.what}" for exc in reasons]
    return out


def _row(document: Any, file: InputFile, number: int, tool: str, context: Mapping[str, Any] | None) -> Row:
    if not isinstance(document, dict):
        raise InputUnusable(f"record {number} is {_kind(document)}, not a result", where=file.path)
    keys = cast("Document", document)
    name, reader = _find(keys, tool, file.path)
    row = Row(tool=name, source=_source(keys, file, number))
    row.client.name = name
    try:
        reader(keys, row)
    except (ValidationError, OverflowError, ZeroDivisionError) as exc:
        reason = " ".join(str(exc).split())[:160]
        raise InputUnusable(f"record {number} holds a figure that cannot be: {reason}", where=file.path) from None
    if context:
        annotate(row, context)
    return row


def _source(document: Document, file: InputFile, number: int) -> Source:
    """Where the record stands, and its own hash, where it can be written as JSON again (half a surrogate pair cannot)."""
    source = Source(path=file.path, sha256=file.sha256 or "", record=number)
    with contextlib.suppress(TypeError):
        source.content_sha256 = jsonio.sha256_of(jsonio.dumps(document))
    return source


def annotate(row: Row, context: Mapping[str, Any]) -> None:
    """Set row fields by dotted name; what a search or a person knows beside the result file.

    Raises:
        UsageFault: no such field, or a value of the wrong type.
    """
    for dotted, value in context.items():
        parent, _, name = dotted.rpartition(".")
        target: Any = row.value(parent) if parent else row
        if not isinstance(target, Part) or name not in type(target).model_fields:
            raise UsageFault(f"a row has no field {dotted!r}", next_step="see references/schemas/bench_row.json")
        try:
            setattr(target, name, value)
        except ValueError as exc:
            reason = " ".join(str(exc).split())[:160]
            raise UsageFault(f"{dotted} cannot be {value!r}: {reason}") from None


def _find(document: Document, tool: str, where: str) -> tuple[str, Reader]:
    if tool != "auto":
        wanted = read_aiperf.AIPERF if tool == read_aiperf.GENAI_PERF else tool
        for name, matches, reader in _READERS:
            family = name in (read_vllm.TOOL, read_tokenspeed.TOOL) and read_vllm.is_family(document)
            if name == wanted and (matches(document) or family):
                return tool, reader
        raise InputUnusable(
            f"does not have the keys of {tool}", where=where, next_step="leave --tool away: it is found by the keys"
        )
    for name, matches, reader in _READERS:
        if matches(document):
            return (read_aiperf.tool_of(document) if name == read_aiperf.AIPERF else name), reader
    for keys, what, step in _STRANGERS:
        if keys <= set(document):
            raise InputUnusable(f"is {what}", where=where, next_step=step)
    shown = ", ".join(clean(str(k), 40) for k in [*document][:6]) or "none"
    raise InputUnusable(
        f"is JSON, but not a result of a known tool (keys: {shown})",
        where=where,
        next_step=_LISTED,
    )


def _kind(value: Any) -> str:
    names: dict[str, str] = {"list": "a list", "str": "text", "int": "a number", "float": "a number", "bool": "a flag"}
    return names.get(type(value).__name__, "null")


def _documents(data: bytes, where: str) -> tuple[list[Any], int]:
    """Every JSON document of the file, and how many bytes were lost."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    stripped = data.strip()
    if not stripped:
        raise InputUnusable("is empty", where=where)
    if stripped[:2] == b"\x1f\x8b":
        raise InputUnusable("is gzip", where=where, next_step="unpack it first: gunzip FILE")
    if stripped[:1] not in (b"{", b"["):
        raise InputUnusable(
            f"is {_text_kind(stripped, where)}, not a benchmark result",
            where=where,
            next_step="give the JSON that the tool saved",
        )
    try:
        whole = jsonio.loads(data, where=where)
    except InputUnusable:
        return _pieces(data, where)
    return (cast("list[Any]", whole) if isinstance(whole, list) else [whole]), 0


def _text_kind(data: bytes, where: str) -> str:
    ending = Path(where).suffix.lower()
    if b"\x00" in data[:4096]:
        return "a binary file"
    return {".md": "Markdown text", ".txt": "plain text", ".csv": "a CSV table", ".log": "a log"}.get(ending, "text")


def _pieces(data: bytes, where: str) -> tuple[list[Any], int]:
    """Documents of a file that is no single JSON text: one a line, or several joined; what cannot be read is counted."""
    out: list[Any] = []
    lost = 0
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            out.append(jsonio.loads(line, where=where))
        except InputUnusable:
            lost += len(line)
    if any(isinstance(d, dict) for d in out):
        return [d for d in out if isinstance(d, dict)], lost
    return _joined(data, where)


def _joined(data: bytes, where: str) -> tuple[list[Any], int]:
    """Indented documents one behind the other."""
    text = data.decode("utf-8", "replace")
    spoiled = text.count("\ufffd") - data.count("\ufffd".encode())
    decoder = json.JSONDecoder()
    out: list[Any] = []
    at = 0
    while at < len(text):
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text):
            break
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        out.append(document)
    if not out:
        raise InputUnusable(
            "is damaged: no run in it can be read",
            where=where,
            next_step="run the benchmark again, or restore the file",
        )
    return out, len(text[at:].encode("utf-8", "replace")) + max(0, spoiled)


def result_files(paths: Iterable[str | Path]) -> list[tuple[Path, bool]]:
    """Files to read, each with whether it was named itself (and so must be readable) or found in a folder.

    Raises:
        InputUnusable: a path does not exist, or a folder holds no JSON or is too large to search.
    """
    out: list[tuple[Path, bool]] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            found = [p for p in files_in(path, endings=(".json", ".jsonl")) if p.is_file()]
            if not found:
                raise InputUnusable("holds no .json or .jsonl file", where=str(path))
            out += [(p, False) for p in found]
        elif path.exists():
            out.append((path, True))
        else:
            raise InputUnusable("no such file or folder", where=str(path), next_step="check the path")
    return out
