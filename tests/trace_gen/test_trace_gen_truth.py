"""The generated traces: valid, deterministic, and telling the truth about themselves."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from infer_forge.base.kernels import classify
from infer_forge.engines.annotations import parse
from trace_gen import FAMILIES, SPECS, Spec, Step, config, forward, generate, generate_capture, generate_mapping

Event = dict[str, Any]
SMALL = [name for name, spec in SPECS.items() if spec.events is None and name not in ("windows4k", "window1")]


def _load(path: Path) -> list[Event]:
    raw = path.read_bytes()
    data: Any = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw, parse_float=Decimal)
    return cast("list[Event]", data if isinstance(data, list) else data["traceEvents"])


def _ns(value: Any) -> int:
    return int(Decimal(value) * 1000)


def _device(events: list[Event]) -> list[Event]:
    return [event for event in events if event["ph"] == "X" and event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]


@pytest.mark.parametrize("name", SMALL)
def test_a_naive_sum_over_the_json_equals_the_truth(name: str, tmp_path: Path) -> None:
    files, truth = generate(SPECS[name], tmp_path / "t.json", seed=101)
    count = written = total = 0
    for path in files:
        events = _load(path)
        count += len(events)
        device = _device(events)
        written += len(device)
        total += sum(_ns(event["dur"]) for event in device)
    ranks = {k.rank for k in truth.kernels}
    assert count == truth.events
    assert written == len(truth.kernels)
    assert total == truth.device_ns()
    assert SPECS[name].only_rank is None or ranks == {SPECS[name].only_rank}


@pytest.mark.parametrize("name", ["sample", "graph", "amd", "deepseek_v4", "merged_tp4", "int_ts", "rough"])
def test_kernels_of_one_stream_never_overlap_and_start_after_their_launch(name: str, tmp_path: Path) -> None:
    _, truth = generate(SPECS[name], tmp_path / "t.json", seed=102)
    ends: dict[tuple[int, int, int], int] = {}
    for k in sorted(truth.kernels, key=lambda k: k.ts_ns):
        key = (k.rank, k.device, k.stream)
        assert k.ts_ns >= ends.get(key, 0)
        assert k.ts_ns >= k.launch_ns[0]
        ends[key] = k.ts_ns + k.dur_ns


def test_every_pass_holds_every_layer_in_order_with_both_halves(tmp_path: Path) -> None:
    spec = SPECS["deepseek_v4"]
    _, truth = generate(spec, tmp_path / "t.json", seed=103)
    passes = {k.pass_number for k in truth.kernels}
    assert len(passes) == len(spec.steps) * spec.cycles
    for number in passes:
        own = [k for k in truth.kernels if k.pass_number == number and k.part == "layer"]
        layers = [k.layer for k in own if k.stream == 7]
        assert layers == sorted(cast("list[int]", layers))
        assert {(k.layer, k.half) for k in own} == {(n, half) for n in range(spec.layers) for half in ("attn", "ffn")}
    kinds = {k.layer: k.layer_kind for k in truth.kernels if k.layer is not None}
    assert kinds[0] == "hash_full"
    assert (kinds[3], kinds[4]) == ("c128", "c4")
    ratios = cast("list[int]", config(spec)["compress_ratios"])
    assert all(kinds[n].endswith(f"c{ratio}" if ratio else "full") for n, ratio in enumerate(ratios))


def test_step_marks_are_read_back_with_their_stage(tmp_path: Path) -> None:
    for name in ("llama", "sglang_detailed", "vllm_mixed", "vllm_detailed", "trtllm", "verify", "flux"):
        spec = SPECS[name]
        files, truth = generate(spec, tmp_path / f"{name}.json", seed=104)
        marks = [parse(event["name"]) for event in _load(files[0]) if event.get("cat") == "user_annotation"]
        found = [(mark.stage, mark.kind) for mark in marks if mark]
        assert [stage for stage, _ in found] == [step.stage for step in truth.steps]
        assert ("verify" in [kind for _, kind in found]) == (name == "verify")


def test_a_wait_is_planted_and_collectives_end_together(tmp_path: Path) -> None:
    _, truth = generate(SPECS["sample_tp2"], tmp_path / "t.json", seed=105)
    assert len(truth.collectives) == 2 * 5 * (1 + 2 * 12)
    by_number: dict[int, list[int]] = {}
    for k in truth.kernels:
        if k.collective is not None:
            by_number.setdefault(k.collective, []).append(k.ts_ns + k.dur_ns)
    assert all(len(set(ends)) == 1 and len(ends) == 2 for ends in by_number.values())
    late = [c for c in truth.collectives if max(c.wait_ns) > 10_000]
    assert late
    assert all(c.wait_ns[c.came_last] == 0 for c in truth.collectives)


def test_idle_has_every_cause(tmp_path: Path) -> None:
    _, truth = generate(SPECS["sample"], tmp_path / "t.json", seed=106)
    idle = truth.idle_ns(0)
    assert idle["host_late"] > 0
    assert idle["queued"] > 0
    own = sorted((k.ts_ns, k.ts_ns + k.dur_ns) for k in truth.kernels)
    busy = end = 0
    for begin, stop in own:
        busy += max(0, stop - max(begin, end))
        end = max(end, stop)
    assert sum(idle.values()) == end - own[0][0] - busy


def test_the_same_seed_writes_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    one = generate(SPECS["rough"], tmp_path / "a.json.gz", seed=107)[0][0].read_bytes()
    two = generate(SPECS["rough"], tmp_path / "a.json.gz", seed=107, truth=False)[0][0].read_bytes()
    three = generate(SPECS["rough"], tmp_path / "a.json.gz", seed=108)[0][0].read_bytes()
    assert one == two
    assert one != three


def test_a_replay_shares_its_launch_and_its_capture_has_the_same_launches(tmp_path: Path) -> None:
    spec = SPECS["graph"]
    files, truth = generate(spec, tmp_path / "t.json", seed=109)
    events = _load(files[0])
    launches = [event for event in events if event["name"] == "cudaGraphLaunch"]
    replayed = [k for k in truth.kernels if k.graph]
    assert len(launches) == 2 * 3
    assert {k.correlation for k in replayed} == {event["args"]["correlation"] for event in launches}
    ends = sum(1 for event in events if event["ph"] == "f")
    assert ends > sum(1 for event in events if event["ph"] == "s")
    capture = _load(generate_capture(spec, tmp_path / "c.json", seed=109))
    assert not _device(capture)
    per_replay = len(replayed) // len(launches)
    calls = [str(event["name"]) for event in capture if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    assert sum("LaunchKernel" in call for call in calls) == per_replay
    assert (calls[0], calls[-2]) == ("cudaStreamBeginCapture", "cudaStreamEndCapture")
    mapping = _load(generate_mapping(spec, tmp_path / "m.json", seed=109))
    assert {event["name"] for event in _device(mapping)} == {k.name for k in truth.kernels}


def test_amd_captures_name_the_kernel_and_streams_stand_on_runtime_events(tmp_path: Path) -> None:
    files, _ = generate(SPECS["amd"], tmp_path / "t.json", seed=110)
    text = files[0].read_text()
    assert '"hip_runtime_version"' in text
    assert "cuda_runtime_version" not in text
    capture = _load(generate_capture(SPECS["amd_graph"], tmp_path / "c.json", seed=110))
    assert all("kernel" in event["args"] for event in capture if "LaunchKernel" in str(event["name"]))


def test_merged_ranks_collide_in_their_ids(tmp_path: Path) -> None:
    files, truth = generate(SPECS["merged_tp4"], tmp_path / "t.json", seed=111)
    assert len(files) == 1
    kernels = [k for k in truth.kernels if k.name.startswith("nccl")]
    seen = {rank: {k.correlation for k in kernels if k.rank == rank} for rank in range(4)}
    assert seen[0] == seen[1] == seen[3]
    assert all(isinstance(event["pid"], str) for event in _load(files[0]))


def test_dependent_launches_overlap_on_one_stream_and_a_stray_event_stands_alone(tmp_path: Path) -> None:
    _, overlapped = generate(SPECS["pdl"], tmp_path / "p.json", seed=114)
    own = [k for k in overlapped.kernels if k.stream == 7]
    assert any(b.ts_ns < a.ts_ns + a.dur_ns for a, b in pairwise(own))
    _, stray = generate(SPECS["stray"], tmp_path / "s.json", seed=114)
    first, second = stray.kernels[:2]
    assert second.ts_ns - first.ts_ns > 470_000_000


def test_attention_alternates_where_the_family_says_so(tmp_path: Path) -> None:
    _, truth = generate(SPECS["alternating"], tmp_path / "t.json", seed=115)
    kinds = {k.layer: k.layer_kind for k in truth.kernels if k.layer is not None}
    assert [n for n, kind in kinds.items() if kind == "full"] == [5, 11]
    names = {
        kind: {k.name for k in truth.kernels if k.layer_kind == kind and "FlashAttn" in k.name}
        for kind in ("full", "sliding")
    }
    assert names["full"].isdisjoint(names["sliding"])


def test_two_devices_of_one_process_share_no_correlation(tmp_path: Path) -> None:
    _, truth = generate(SPECS["two_devices"], tmp_path / "t.json", seed=116)
    seen = [{k.correlation for k in truth.kernels if k.device == device} for device in (0, 1)]
    assert seen[0]
    assert seen[0].isdisjoint(seen[1])


def test_a_cut_capture_begins_and_ends_inside_a_pass(tmp_path: Path) -> None:
    spec = SPECS["cut"]
    _, truth = generate(spec, tmp_path / "t.json", seed=112)
    first = [k for k in truth.kernels if k.pass_number == 0]
    last = [k for k in truth.kernels if k.pass_number == 7]
    whole = [k for k in truth.kernels if k.pass_number == 3]
    assert first[0].layer not in (None, 0)
    assert len(first) < len(whole)
    assert len(last) < len(whole)
    assert last[-1].part == "layer"


def test_one_window_and_many_hold_the_same_kernels(tmp_path: Path) -> None:
    many, truth = generate(replace(SPECS["windows4k"], cycles=40), tmp_path / "m.json", seed=113)
    one, same = generate(replace(SPECS["window1"], cycles=40), tmp_path / "o.json", seed=113)
    assert truth.kernels == same.kernels
    assert len(truth.kernels) == 40 * 10
    marks = [[e for e in _load(path) if e.get("cat") == "gpu_user_annotation"] for path in (many[0], one[0])]
    assert (len(marks[0]), len(marks[1])) == (40, 1)
    begin, end = _ns(marks[1][0]["ts"]), _ns(marks[1][0]["ts"]) + _ns(marks[1][0]["dur"])
    assert all(begin <= k.ts_ns and k.ts_ns + k.dur_ns <= end for k in truth.kernels)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_kernels_that_the_classifier_knows(family: str) -> None:
    spec = Spec(family, 8, (Step("prefill"),), ranks=2, first_k_dense=2, compress_ratios=(0, 4, 128), hash_layers=1)
    for stage in ("prefill", "decode"):
        for vendor in ("nvidia", "amd"):
            items = list(forward(replace(spec, vendor=vendor), stage))
            assert not [item.name for item in items if classify(item.name) == "other"]
            assert all((classify(item.name) == "communication") == item.comm for item in items)


def test_the_command_line_works_without_an_installation(tmp_path: Path, project_root: Path) -> None:
    out, truth, model = tmp_path / "x.trace.json.gz", tmp_path / "truth.json", tmp_path / "config.json"
    command = [
        sys.executable,
        "-I",
        str(project_root / "scripts" / "trace_gen"),
        "--spec",
        "llama",
        "--set",
        "layers=2",
        "--out",
        str(out),
    ]
    done = subprocess.run(
        [*command, "--truth", str(truth), "--config", str(model)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(truth.read_text())["0"]["device_ns"] == sum(_ns(event["dur"]) for event in _device(_load(out)))
    assert json.loads(model.read_text())["num_hidden_layers"] == 2
    wrong = subprocess.run([*command[:-4], "--set", "nonsense=1"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "no such field" in wrong.stderr
