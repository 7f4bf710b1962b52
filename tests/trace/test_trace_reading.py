"""What the reader takes from files of every layout."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from infer_forge.base.errors import InputUnusable
from infer_forge.trace.model import CallKind, WorkKind
from infer_forge.trace.read import load, parse, require_device_work

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


def events_of(kernel: Make, host: Make) -> list[dict[str, Any]]:
    return [
        {"name": "process_name", "ph": "M", "ts": 0.0, "pid": 10, "tid": 0, "args": {"name": "python"}},
        host("cpu_op", "aten::mm", 100.0, 50.0, External_id=3),
        host("cuda_runtime", "cudaLaunchKernel", 110.0, 5.0, External_id=3, correlation=77),
        kernel(120.25, 7.003, "gemm", **{"External id": 3, "correlation": 77}),
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 9, "ts": 200, "dur": 2,
         "args": {"device": 0, "stream": 9, "bytes": 4096}},
        {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 9, "ts": 210, "dur": 1,
         "args": {"device": 0, "stream": 9}},
        {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 9, "ts": 205, "dur": 90,
         "args": {"device": 0, "stream": 9, "wait_on_stream": 7, "wait_on_cuda_event_id": 4}},
        {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 300.0, "s": "g"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "layout", ["kineto", "compact", "indent", "list", "dump", "sorted", "one event a line, name first"]
)
def test_every_layout_gives_the_same_columns(layout: str, tmp_path: Path, kernel: Make, host: Make) -> None:
    events = events_of(kernel, host)
    doc: Any = {"schemaVersion": 1, "cuda_runtime_version": 12080, "traceEvents": events, "traceName": "x"}
    text = {
        "kineto": lambda: (
            json.dumps({"a": 1})[:-1]
            + ',\n  "traceEvents": [\n'
            + ",\n".join("  " + json.dumps(e, indent=4) for e in events)
            + '\n  ],\n  "traceName": "x", "cuda_runtime_version": 12080\n}\n'
        ),
        "compact": lambda: json.dumps(doc, separators=(",", ":")),
        "indent": lambda: json.dumps(doc, indent=8),
        "list": lambda: json.dumps(events),
        "dump": lambda: json.dumps(doc),
        "sorted": lambda: json.dumps(doc, sort_keys=True),
        "one event a line, name first": lambda: (
            '{"traceEvents": [\n' + ",\n".join(json.dumps(dict(sorted(e.items(), reverse=True))) for e in events) + "]}"
        ),
    }[layout]()
    path = tmp_path / "trace.json"
    path.write_text(text)
    trace = parse(path)
    assert trace.coverage.events_read == len(events)
    assert not trace.coverage.lossy
    assert trace.work.dur_ns.tolist() == [7003, 2000, 1000]
    assert trace.work.ts_ns.tolist() == [120250, 200000, 210000]
    assert [WorkKind(k).name for k in trace.work.kind] == ["KERNEL", "MEMCPY", "MEMSET"]
    assert trace.name(int(trace.work.op[0])) == "aten::mm"
    assert trace.work.bytes.tolist() == [-1, 4096, -1]
    assert trace.header.vendor == "nvidia"


def test_compression_is_told_by_content_not_by_name(tmp_path: Path, kernel: Make, host: Make) -> None:
    raw = json.dumps({"traceEvents": events_of(kernel, host)}).encode()
    for name, data in (
        ("plain.json.gz", raw),
        ("gzip.json", gzip.compress(raw)),
        ("two-members.json", gzip.compress(raw[:300]) + gzip.compress(raw[300:])),
        ("zstd.json.gz", zstandard.compress(raw)),
        ("bom.json", b"\xef\xbb\xbf" + raw),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        trace = parse(path)
        assert int(trace.work.dur_ns.sum()) == 10003, name
        assert trace.sha256 == hashlib.sha256(data).hexdigest()
        assert trace.size_bytes == len(data)
        assert not trace.coverage.lossy


def test_epoch_microseconds_with_decimals_keep_their_nanoseconds(write_trace: Write, kernel: Make) -> None:
    stamps = [1712195495505543 + k * 3 for k in range(50)]
    text = ",\n".join(
        "  " + json.dumps(kernel("TS", 1.001)).replace('"TS"', f"{ts}.{(k * 37) % 1000:03d}")
        for k, ts in enumerate(stamps)
    )
    trace = parse(write_trace(text=text))
    assert trace.work.ts_ns.tolist() == [ts * 1000 + (k * 37) % 1000 for k, ts in enumerate(stamps)]


def test_decimals_that_begin_late_in_the_file_are_noticed(write_trace: Write, kernel: Make) -> None:
    whole = ["  " + json.dumps(kernel(1712195495000000 + k, 1)) for k in range(9000)]
    late = "  " + json.dumps(kernel("TS", 1)).replace('"TS"', "1712195495999999.123")
    trace = parse(write_trace(text=",\n".join([*whole, late])))
    assert int(trace.work.ts_ns[-1]) == 1712195495999999123
    assert trace.coverage.events_read == 9001


def test_text_times_and_text_ids_count(write_trace: Write, kernel: Make, host: Make) -> None:
    events = [
        host("cuda_runtime", "cudaLaunchKernel", "10.5", "2", tid="main", correlation="9"),
        kernel("12.125", "3.5", correlation="9", stream="0x7"),
    ]
    trace = parse(write_trace(events))
    assert (trace.work.ts_ns[0], trace.work.dur_ns[0], trace.work.stream[0], trace.work.call[0]) == (12125, 3500, 7, 0)


def test_sync_events_and_hip_runtime_calls_are_never_device_work(write_trace: Write, kernel: Make, host: Make) -> None:
    events = [
        host("cuda_runtime", "hipLaunchKernel", 1, 5, correlation=4, stream="0x0", kernel="k"),
        kernel(10, 3, correlation=4),
        {"ph": "X", "cat": "cuda_sync", "name": "Context Sync", "pid": 0, "tid": 7, "ts": 2, "dur": 900,
         "args": {"device": 0, "stream": 7}},
    ]  # fmt: skip
    trace = parse(write_trace(events, hip_runtime_version=60443483))
    assert int(trace.work.dur_ns.sum()) == 3000
    assert len(trace.syncs) == 1
    assert trace.name(int(trace.calls.kernel[0])) == "k"
    assert trace.calls.kind[0] == CallKind.LAUNCH
    assert trace.header.vendor == "amd"


def test_the_vendor_comes_from_api_names_where_versions_are_missing_and_never_from_the_capability(
    write_trace: Write, kernel: Make, host: Make
) -> None:
    devices = [{"id": 0, "name": "", "computeMajor": 9, "computeMinor": 0}]
    path = write_trace([host("cuda_runtime", "hipLaunchKernel", 1, 1), kernel(3, 1)], deviceProperties=devices)
    assert parse(path).header.vendor == "amd"
    assert parse(write_trace([kernel(3, 1)], deviceProperties=devices)).header.vendor == "unknown"


def test_device_events_without_a_usable_duration_are_counted_and_in_no_sum(write_trace: Write, kernel: Make) -> None:
    events = [kernel(1, v) for v in (5, None, True, [1], "x", -3, 1e300)]
    events.append({k: v for k, v in kernel(1, 1).items() if k != "dur"})
    trace = parse(write_trace(events))
    assert int(trace.work.dur_ns.sum()) == 5000
    assert trace.coverage.device_events_unusable == 7
    assert trace.coverage.lossy


def test_a_kernel_of_zero_length_is_a_launch(write_trace: Write, kernel: Make) -> None:
    trace = parse(write_trace([kernel(1, 0), kernel(2, 0.0)]))
    assert len(trace.work) == 2
    assert not trace.coverage.lossy


def test_unknown_categories_and_phases_are_named(write_trace: Write, kernel: Make) -> None:
    odd = kernel(5, 5)
    odd["cat"] = "kernem"
    none = {k: v for k, v in kernel(5, 5).items() if k != "ph"}
    trace = parse(write_trace([kernel(1, 1), odd, none]))
    assert trace.coverage.unknown_categories == {"kernem": 1}
    assert sum(trace.coverage.unknown_phases.values()) == 1
    assert trace.coverage.lossy


def test_collective_arguments_are_kept(write_trace: Write, kernel: Make) -> None:
    args = {
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Description": "tp", "Group size": 4,
        "Process Group Ranks": "[0, 1, 2, 3]", "dtype": "BFloat16", "In msg nelems": 1024, "Out msg nelems": 1024,
    }  # fmt: skip
    trace = parse(write_trace([kernel(1, 1), kernel(2, 1, **args)]))
    assert trace.work.collective.tolist() == [-1, 0]
    made = trace.collectives[0]
    assert (made.op, made.group_desc, made.group_size, made.in_elements, made.ranks) == (
        "allreduce", "tp", 4, 1024, "[0, 1, 2, 3]",
    )  # fmt: skip


def test_facts_of_the_header_stand_before_or_behind_the_events(tmp_path: Path, kernel: Make) -> None:
    facts = '"distributedInfo": {"rank": 3, "world_size": 8}, "baseTimeNanoseconds": 17, "INFO": ["[a]", "]"], "with_stack": 1'
    body = json.dumps([kernel(1, 1), kernel(2, 1)])
    for text in (f'{{{facts}, "traceEvents": {body}}}', f'{{"traceEvents": {body}, {facts}}}'):
        path = tmp_path / "t.json"
        path.write_text(text)
        trace = parse(path)
        assert (trace.rank, trace.header.world_size, trace.header.base_time_ns, trace.header.with_stack) == (
            3,
            8,
            17,
            True,
        )
        assert not trace.coverage.lossy


def test_a_trace_without_device_work_is_refused_with_its_reason(write_trace: Write, host: Make) -> None:
    for events, word in (
        ([host("cpu_op", "aten::mm", 1, 1)], "CPU activity only"),
        ([host("cuda_runtime", "cudaLaunchKernel", 1, 1, correlation=1)], "launches but no kernel"),
        ([host("mtia_workload", "x", 1, 1)], "accelerator of another kind"),
    ):
        with pytest.raises(InputUnusable, match=word) as caught:
            require_device_work(parse(write_trace(events)))
        assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty file"),
        (b" \n", "blanks"),
        (b"<!DOCTYPE html><html>no</html>", "HTML"),
        (b"SQLite format 3\x00" + bytes(100), "SQLite"),
        (b"NVR\x00\x02\x00\x00\x00", "Nsight Compute"),
        (bytes(range(200, 256)) * 40, "binary"),
        (b"hello there, this is text", "plain text"),
        (b'{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "rocprofiler"),
        (b'{"schema": "1.0.1", "nodes": [{"id": 1, "ctrl_deps": 2}]}', "execution trace"),
        (b'{"architectures": ["Q"], "model_type": "q"}', "config.json"),
        (b'{"traceEvents": []}', "without a readable event"),
        (b'{"traceEvents": {}}', "no array"),
        (b'{"a": [1, 2]}', "another kind"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (gzip.compress(b"<html></html>", mtime=0), "HTML"),
        (b"[1, 2, 3]", "another kind|readable event"),
        (b"version https://git-lfs.github.com/spec/v1\n", "LFS"),
    ],
)
def test_a_foreign_file_is_refused_as_what_it_seems_to_be(data: bytes, word: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(InputUnusable, match=word) as caught:
        load(path, cache=False)
    assert caught.value.next_step


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputUnusable):
            load(path)
