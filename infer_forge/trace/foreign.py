"""What a file that is no torch-profiler trace seems to be, so that the refusal helps."""

from __future__ import annotations

import re
from pathlib import Path

from infer_forge.base.errors import InputUnusable

_NEXT = "give a trace that torch.profiler wrote (export_chrome_trace, or the engine's profile endpoint)"

SQLITE = b"SQLite format 3\x00"
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (
        SQLITE,
        "an SQLite database, maybe a damaged Nsight Systems export",
        "export it again with nsys export --type sqlite",
    ),
    (b"NVR\x00", "an Nsight Compute report", "use `infer-forge ncu digest`"),
    (b"QDSTRM", "an Nsight Systems recording", "export it with `nsys export --type sqlite`"),
    (b"NVIDIA Tegra Pro", "an Nsight Systems recording", "export it with `nsys export --type sqlite`"),
    (b"NSYS", "an Nsight Systems recording", "export it with `nsys export --type sqlite`"),
    (b"\x7fELF", "an ELF file, maybe a core dump", "use `infer-forge crash triage` for dumps"),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"%PDF", "a PDF document", _NEXT),
    (b"BZh", "a bzip2 file", "unpack it first"),
    (b"\xfd7zXZ", "an xz file", "unpack it first"),
    (b"PAR1", "a Parquet file", _NEXT),
    (b"\x80\x04", "a Python pickle, maybe a memory snapshot", _NEXT),
)

_JSON: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb'"rocprofiler-sdk-(?:tool|json-tool)"|"rocprofiler'), "a rocprofiler-sdk JSON", _NEXT),
    (re.compile(rb'"schema"\s*:\s*"1\.[^"]*"[\s\S]*"nodes"|"nodes"\s*:\s*\[[\s\S]*"(?:rf_id|ctrl_deps|inputs)"'),
     "a PyTorch execution trace (the graph of ops, without times)", "give the kineto trace of the same run"),
    (re.compile(rb'"device_traces"|"segments"\s*:\s*\['), "a PyTorch memory snapshot", _NEXT),
    (re.compile(rb'"traceEvents"\s*:\s*(?!\[)'), "a trace whose traceEvents is no array", _NEXT),
    (re.compile(rb'"architectures"\s*:|"model_type"\s*:'), "a model's config.json", "use it as --config of `infer-forge pipeline`"),
    (re.compile(rb'"request_throughput"|"output_throughput"'), "a benchmark result", "use `infer-forge bench import`"),
    (re.compile(rb'"metadata"[\s\S]*"vizier|"model_path"\s*:'), "a server's arguments", "use it as --server-args"),
)  # fmt: skip


def refusal(path: Path, head: bytes, ended: str | None) -> InputUnusable:
    """The error for a file without an event array.

    Args:
        path: the file.
        head: its first uncompressed bytes.
        ended: why the byte stream stopped early, if it did.
    """
    what, step = seems(head)
    if not head and ended:
        what = f"a damaged file: {ended}"
    return InputUnusable(f"is no torch-profiler trace; it seems to be {what}", where=str(path), next_step=step or _NEXT)


def seems(head: bytes) -> tuple[str, str]:
    """What a file's first bytes look like, and what to do with it."""
    if not head.strip(b" \t\r\n\x00"):
        return ("an empty file" if not head else "a file of blanks"), "record the trace again"
    for magic, what, step in _MAGIC:
        if head.startswith(magic):
            return what, step
    if head[257:262] == b"ustar":
        return "a tar archive", "unpack it first"
    text = head[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    lower = text[:512].lower()
    if lower.startswith((b"<!doctype html", b"<html")) or b"<html" in lower:
        return "an HTML page, maybe a failed download", "download the raw file"
    if text.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer", "run `git lfs pull`"
    if text[:1] in (b"{", b"["):
        for pattern, what, step in _JSON:
            if pattern.search(head):
                return what, step
        return "JSON of another kind (no traceEvents array)", _NEXT
    if b"Time (%)" in text and b"Total Time (ns)" in text:
        if not re.search(rb'Time \(%\)"?,', text):
            step = "write it as CSV: nsys stats --report cuda_gpu_kern_sum --format csv FILE"
            return "a kernel summary of nsys as text", step
        return (
            "a kernel summary of nsys (sums, no launches)",
            (
                "infer-forge triage FILE.csv reads one such summary, alone and without --against or --html; "
                "for more: nsys export --type sqlite FILE.nsys-rep"
            ),
        )
    printable = sum(32 <= b < 127 or b in (9, 10, 13) for b in text[:1024])
    if printable < 0.85 * min(len(text), 1024):
        return "binary data of an unknown kind", _NEXT
    return "plain text, not JSON", _NEXT
