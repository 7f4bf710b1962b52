"""Damaged files: what can be read is read, what is lost is said, a wrong sum is never silent."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.trace.model import Trace
from infer_forge.trace.read import parse, require_device_work
from trace_gen import SPECS, generate

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A whole generated trace, uncompressed."""
    files, _ = generate(SPECS["stacks"], tmp_path_factory.mktemp("raw") / "t.json", seed=105)
    return files[0].read_bytes()


def naive_ns(data: bytes) -> int | None:
    """Sum of device work the plain way; None where the text is no JSON trace."""
    try:
        doc: Any = json.loads(data, parse_float=Decimal, parse_constant=lambda _: None)
        events = cast("list[Any]", doc["traceEvents"] if isinstance(doc, dict) else doc)
        return int(sum((_duration(e) for e in events), Decimal(0)) * 1000)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError, ArithmeticError):
        return None


def _duration(event: dict[str, Any]) -> Decimal:
    """Duration of device work with usable times, else 0."""
    category = event.get("cat")
    if event.get("ph") != "X" or not isinstance(category, str) or category not in DEVICE:
        return Decimal(0)
    try:
        if any(isinstance(event.get(k), bool) for k in ("ts", "dur")):
            return Decimal(0)
        _, duration = Decimal(event["ts"]), Decimal(event["dur"])
        return max(duration, Decimal(0))
    except (KeyError, TypeError, ArithmeticError, ValueError):
        return Decimal(0)


def test_a_file_cut_anywhere_keeps_its_whole_events_and_says_that_it_was_cut(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    whole = parse_bytes(path, raw)
    starts = [i for i in range(len(raw)) if raw.startswith(b'\n  {\n    "ph"', i)][1:]
    for cut in (starts[3] + 40, starts[200] + 1, starts[900], len(raw) - 30, len(raw) - 2):
        trace = parse_bytes(path, raw[:cut])
        assert trace.coverage.truncated
        complete = sum(1 for s in starts if s <= cut)
        assert trace.coverage.events_read in (complete, complete + 1, whole.coverage.events_read)
        assert int(trace.work.dur_ns.sum()) <= int(whole.work.dur_ns.sum())


def parse_bytes(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    return parse(path)


def test_a_truncated_gzip_says_so_and_keeps_what_it_holds(raw: bytes, tmp_path: Path) -> None:
    packed = gzip.compress(raw, mtime=0)
    trace = parse_bytes(tmp_path / "t.json.gz", packed[: len(packed) // 2])
    assert trace.coverage.truncated == "truncated gzip stream"
    assert trace.coverage.events_read > 500
    assert trace.coverage.lossy


def test_a_damaged_gzip_is_read_up_to_the_damage(raw: bytes, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(raw, mtime=0))
    at = len(packed) * 3 // 4
    packed[at : at + 40] = bytes(40)
    trace = parse_bytes(tmp_path / "t.json.gz", bytes(packed))
    assert trace.coverage.lossy
    assert trace.coverage.events_read > 1000


def test_a_wrong_checksum_is_told_though_the_text_is_whole(raw: bytes, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(raw))
    packed[-6] ^= 1
    trace = parse_bytes(tmp_path / "t.json.gz", bytes(packed))
    assert "checksum" in (trace.coverage.truncated or "")
    assert trace.coverage.lossy


def test_bytes_behind_the_gzip_stream_are_counted(raw: bytes, tmp_path: Path) -> None:
    trace = parse_bytes(tmp_path / "t.json.gz", gzip.compress(raw) + b"junk")
    assert any("4 bytes behind the gzip stream" in loss.reason for loss in trace.coverage.losses)
    assert trace.coverage.bytes_lost == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"gemm", b"ge\x01mm"),
        (b"gemm", b"ge\nmm"),
        (b"gemm", b"C:\\Users\\x"),
        (b"gemm", b"bad \\u12 escape"),
        (b"gemm", b"\xff\xfe\xc3"),
        (b'"z": 1', b'"z": inf'),
        (b'"z": 1', b'"z": -Infinity'),
        (b'"z": 1', b'"z": NaN'),
        (b'"z": 1', b'"z": '),
        (b'"z": 1', b'"z": 1e400'),
    ],
)
def test_known_faults_of_writers_are_mended_without_a_loss(
    old: bytes, new: bytes, tmp_path: Path, kernel: Make
) -> None:
    events = [kernel(k, 1.5, "gemm" if k == 3 else "other", z=1 if k == 3 else 2) for k in range(8)]
    data = json.dumps({"traceEvents": events}).encode()
    assert old in data
    trace = parse_bytes(tmp_path / "t.json", data.replace(old, new))
    assert int(trace.work.dur_ns.sum()) == 8 * 1500
    assert (trace.coverage.events_lost, trace.coverage.events_read) == (0, 8)


def test_a_value_that_no_writer_leaves_out_makes_the_sum_doubtful(tmp_path: Path, kernel: Make) -> None:
    events = [kernel(k, 1, f"k{k}", **{"Process Group Description": "tp"}) for k in range(6)]
    data = json.dumps({"traceEvents": events}).encode()
    known = parse_bytes(tmp_path / "known.json", data.replace(b'Description": "tp"', b'Description": ', 1))
    assert (known.coverage.events_repaired, known.coverage.lossy) == (1, False)
    start = data.find(b'"k2"')
    end = data.find(b', "pid"', data.find(b'"k3"'))
    joined = parse_bytes(tmp_path / "joined.json", data[:start] + data[end:])
    assert len(joined.work) == 5
    assert (joined.coverage.events_doubtful, joined.coverage.lossy) == (1, True)


def test_a_lost_event_is_counted_with_its_place_and_that_it_was_device_work(tmp_path: Path, kernel: Make) -> None:
    events = [kernel(k, 1) for k in range(20)]
    data = json.dumps({"traceEvents": events}).encode()
    at = data.find(b'"dur"', data.find(b'"ts": 7'))
    trace = parse_bytes(tmp_path / "t.json", data[:at] + b"}{]" + data[at + 3 :])
    assert len(trace.work) == 19
    assert (trace.coverage.events_lost, trace.coverage.device_events_lost) == (1, 1)
    loss = trace.coverage.losses[0]
    assert loss.offset <= at <= loss.offset + loss.size_bytes
    assert "device work" in loss.reason


def test_keys_that_damage_hides_still_leave_the_events(tmp_path: Path, kernel: Make) -> None:
    data = json.dumps({"a": 1, "traceEvents": [kernel(1, 1), kernel(2, 1)], "b": 2}).encode()
    trace = parse_bytes(tmp_path / "t.json", data.replace(b"traceEvents", b"traceEvants"))
    assert len(trace.work) == 2
    assert trace.coverage.lossy


def _mutant(raw: bytes, rnd: random.Random) -> bytes:
    kind = rnd.randrange(8)
    data = bytearray(raw)
    at = rnd.randrange(len(data) - 1)
    if kind == 0:
        return raw[: rnd.randrange(len(raw))]
    if kind == 1:
        for _ in range(rnd.randrange(1, 20)):
            data[rnd.randrange(len(data))] = rnd.randrange(256)
    elif kind == 2:
        del data[at : at + rnd.randrange(1, 800)]
    elif kind == 3:
        data[at:at] = rnd.choice([b"\x01", b"\\", b"\xff\xfe", b'"', b"\\u12", b"\n", b"]", b"}"])
    elif kind == 4:
        return _dropped_or_swapped(raw, rnd)
    elif kind == 5:
        data[at:at] = data[at // 2 : at // 2 + rnd.randrange(1, 300)]
    elif kind == 6:
        key = rnd.choice([b'"dur": ', b'"ts": ', b'"args": ', b'"cat": ', b'"correlation": '])
        start = raw.find(key, at) + len(key)
        end = next((i for i in range(start, len(raw)) if raw[i] in b",}\n"), start)
        data[start:end] = rnd.choice([b"inf", b"NaN", b"", b"1e400", b'"12.5"', b"null", b"[1,2", b"12.5.3", b"true"])
    else:
        packed = bytearray(gzip.compress(raw, 1))
        packed[rnd.randrange(10, len(packed))] ^= 1 << rnd.randrange(8)
        return bytes(packed if rnd.random() < 0.5 else packed[: rnd.randrange(20, len(packed))])
    return bytes(data)


def _dropped_or_swapped(raw: bytes, rnd: random.Random) -> bytes:
    doc: Any = json.loads(raw)
    events = cast("list[dict[str, Any]]", doc["traceEvents"] if isinstance(doc, dict) else doc)
    swaps: list[Any] = [None, "x", -1, 1.5, [], {}, True, 1 << 70, "7", [1], {"a": 1}, 1e300, -3, "NaN"]
    for _ in range(rnd.randrange(1, 12)):
        event: dict[str, Any] = rnd.choice(events)
        place: Any = event if rnd.random() < 0.6 else event.get("args")
        if not isinstance(place, dict) or not place:
            continue
        target = cast("dict[str, Any]", place)
        key = rnd.choice(list(target))
        if rnd.random() < 0.4:
            del target[key]
        else:
            target[key] = rnd.choice(swaps)
    return json.dumps(doc, indent=rnd.choice([None, 1])).encode()


@pytest.mark.stress
def test_mutated_copies_never_crash_hang_or_report_a_wrong_sum_silently(
    tmp_path: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    whole: list[tuple[bytes, int | None]] = []
    for name in ("list_form", "string_ts", "graph_piecewise"):
        files, _ = generate(SPECS[name], tmp_path / f"{name}.json", seed=106)
        data = files[0].read_bytes()
        whole.append((data, naive_ns(data)))
    path = tmp_path / "mutant.json"
    for _ in range(stress_count(2000)):
        data, truth = seeded.choice(whole)
        mutant = _mutant(data, seeded)
        path.write_bytes(mutant)
        began = time.process_time()
        try:
            trace = parse(path)
        except InputUnusable:
            continue
        assert time.process_time() - began < 10
        if not trace.coverage.lossy:
            plain = gzip.decompress(mutant) if mutant[:2] == b"\x1f\x8b" else mutant
            assert int(trace.work.dur_ns.sum()) in (naive_ns(plain), truth)


def test_a_file_that_lost_its_device_work_is_not_blamed_on_the_profiler(tmp_path: Path, raw: bytes) -> None:
    cut, damaged = tmp_path / "cut.json", tmp_path / "damaged.json"
    cut.write_bytes(raw[:3000])
    damaged.write_text('{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":-5,"args":{"device":0}}]}')
    for file in (cut, damaged):
        with pytest.raises(InputUnusable) as told:
            require_device_work(parse(file))
        assert "again" in str(told.value.next_step)
