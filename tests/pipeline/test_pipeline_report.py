"""The whole report: passes, partial and cold ones, triage first, flow, ranges, export, anchors."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infer_forge import pipeline, trace
from infer_forge.base import report_store
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.pipeline import steady, structure
from infer_forge.pipeline.model import Options
from trace_gen import SPECS, Spec, config, generate

MOE = SPECS["qwen3_moe"]


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Write a trace and its config."""

    def make(spec: Spec = MOE, seed: int = 104) -> tuple[Path, Path]:
        files, _ = generate(spec, tmp_path / "t.json.gz", seed)
        shape = tmp_path / "config.json"
        shape.write_text(json.dumps(config(spec)))
        return files[0], shape

    return make


def run(trace: Path, shape: Path | None = None, **more: Any) -> Report:
    options: dict[str, Any] = {"no_triage": True, "cache": False, "keep": False, **more}
    return pipeline.analyse_pipeline([trace], Options(config=shape, **options))


def test_passes_have_the_fixed_columns_and_the_layer_count_of_the_config(
    made: Callable[..., tuple[Path, Path]],
) -> None:
    report = run(*made())
    table = report.tables["passes"]
    assert table.names[:12] == [
        "pass",
        "rank",
        "stage",
        "batch",
        "tokens",
        "start_ms",
        "wall_ms",
        "device_ms",
        "idle_ms",
        "layers",
        "avg_layer_us",
        "note",
    ]
    assert [r["layers"] for r in table.dicts()] == [16] * 9
    assert {r["stage"] for r in table.dicts()} == {"prefill", "decode"}
    assert report.extra["checklist"]["2_model"]["agrees"] is True
    assert report.extra["checklist"]["9_method"]["confidence"] == "high"


def test_a_config_that_disagrees_is_said_beside_what_was_found(made: Callable[..., tuple[Path, Path]]) -> None:
    trace, shape = made()
    shape.write_text(json.dumps({**config(MOE), "num_hidden_layers": 20}))
    report = run(trace, shape)
    assert any(f.code == "LAYER_COUNT" and "16" in f.message and "20" in f.message for f in report.findings)
    assert report.extra["checklist"]["2_model"]["agrees"] is False


def test_one_layer_too_many_is_said_and_draft_layers_of_the_config_are_not_too_many(
    made: Callable[..., tuple[Path, Path]],
) -> None:
    trace, shape = made()
    for layers, drafts, said in ((15, 0, True), (16, 0, False), (14, 2, False), (15, 2, True)):
        shape.write_text(json.dumps({**config(MOE), "num_hidden_layers": layers, "num_nextn_predict_layers": drafts}))
        codes = {f.code for f in run(trace, shape).findings}
        assert ("LAYER_COUNT" in codes) is said, (layers, drafts)


def test_cut_passes_are_partial_numbered_from_their_end_and_never_chosen(
    made: Callable[..., tuple[Path, Path]],
) -> None:
    report = run(*made(replace(MOE, cut_head=0.5, cut_tail=0.5)))
    rows = report.tables["passes"].dicts()
    assert "began inside" in rows[0]["note"]
    assert "to 15" in rows[0]["note"]
    assert "ended inside" in rows[-1]["note"]
    assert rows[-1]["note"].count("layers 0 to")
    chosen = {c["pass"] for c in report.extra["checklist"]["3_passes"]["chosen"]}
    assert not chosen & {rows[0]["pass"], rows[-1]["pass"]}


@pytest.mark.parametrize("with_config", [True, False])
def test_the_last_pass_of_a_file_that_was_cut_off_is_partial_and_never_chosen(
    made: Callable[..., tuple[Path, Path]], tmp_path: Path, with_config: bool
) -> None:
    trace, shape = made(SPECS["llama"])
    text = gzip.decompress(trace.read_bytes())
    cut = tmp_path / "cut.json"
    cut.write_bytes(text[: len(text) * 7 // 10])
    report = run(cut, shape if with_config else None)
    passes = report.tables["passes"].dicts()
    assert 0 < passes[-1]["layers"] < 16
    assert passes[-1]["note"].startswith("partial: the file was cut off inside it")
    assert [p["note"] for p in passes[:-1]] == [""] * (len(passes) - 1)
    assert {p["layers"] for p in passes[:-1]} == {16}
    assert "DAMAGED_FILE" in {f.code for f in report.findings}
    assert {r["stage"] for r in report.tables["layers"].dicts()} == {"prefill", "decode"}
    assert len(report.tables["layers"]) == 32


def test_a_slow_first_pass_is_cold_by_its_duration_against_the_later_ones(tmp_path: Path) -> None:
    files, _ = generate(replace(SPECS["llama"], cycles=4), tmp_path / "t.json", 105)
    document = json.loads(files[0].read_bytes())
    kernels = [e for e in document["traceEvents"] if e.get("cat") == "kernel"]
    first = min(e["ts"] for e in kernels)
    marks = [e for e in document["traceEvents"] if e.get("cat") == "gpu_user_annotation"]
    end = min(m["ts"] + m["dur"] for m in marks)
    for event in document[
        "traceEvents"
    ]:  # everything behind the first pass comes 50 ms later, its last kernel lasts so long
        if "ts" in event and event["ts"] >= end:
            event["ts"] += 50_000
    last = max((e for e in kernels if first <= e["ts"] < end), key=lambda e: e["ts"])
    last["dur"] += 40_000
    files[0].write_text(json.dumps(document))
    report = run(files[0])
    rows = report.tables["passes"].dicts()
    assert rows[0]["temperature"] == "cold"
    assert "median" in rows[0]["note"]
    assert all(r["temperature"] != "cold" for r in rows[1:])


@pytest.mark.parametrize("spec", ["unmarked", "hf"])
def test_long_passes_between_short_ones_are_of_another_size_not_cold(spec: str, tmp_path: Path) -> None:
    files, _ = generate(SPECS[spec], tmp_path / "t.json", 105)
    one = trace.load(files[0], cache=False)
    lane = structure.build(one, None, 0, None)
    steady.temper(lane)
    walls = sorted(p.wall_ns for p in lane.passes)
    assert walls[-1] > 5 * walls[0]  # prefills and decodes, before their stage is inferred
    assert {p.temperature for p in lane.passes} <= {"steady", ""}
    choice = steady.representative(lane, lane.passes[0].stage)
    assert choice is not None
    assert "of another size left out" in choice.reason


def test_without_a_triage_no_layer_is_picked_and_asking_for_one_is_refused(
    made: Callable[..., tuple[Path, Path]],
) -> None:
    trace, shape = made()
    report = run(trace, shape, no_triage=False)
    assert any(f.code == "NO_TRIAGE" for f in report.findings)
    assert not report.tables["flow"].rows
    assert report.tables["clusters"].rows
    with pytest.raises(GateRefused):
        run(trace, shape, no_triage=False, layer=3)


def test_a_stored_triage_of_the_same_trace_is_named(made: Callable[..., tuple[Path, Path]]) -> None:
    trace, shape = made()
    file = report_store.keep(Report("triage", Header([InputFile.of(trace)])))
    report = run(trace, shape, no_triage=False)
    assert report.header.more["triage"]["report"] == str(file)
    assert report.tables["flow"].rows


def test_a_triage_of_another_trace_is_refused(made: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    trace, shape = made()
    other = tmp_path / "triage.json"
    other.write_text(json.dumps({"kind": "triage", "header": {"inputs": [{"sha256": "0" * 64}]}}))
    with pytest.raises(GateRefused, match="another trace"):
        run(trace, shape, no_triage=False, triage=other)


def test_unlike_layers_fall_into_clusters_named_by_the_config(tmp_path: Path) -> None:
    spec = SPECS["deepseek_v4"]
    files, _ = generate(spec, tmp_path / "t.json.gz", 106)
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps(config(spec)))
    report = run(files[0], shape, stage="decode")
    found = {r["type"]: r["members"] for r in report.tables["clusters"].dicts()}
    assert {"C4_LIGHT+MOE", "C128_HEAVY+MOE", "FULL_ATTN+MOE", "FULL_ATTN+HASH", "C4_LIGHT+HASH"} == set(found)
    assert "layers' device time" in report.extra["dominant"]["decode"]


def test_the_flow_is_in_order_with_its_range_over_the_cluster_and_halves(
    made: Callable[..., tuple[Path, Path]],
) -> None:
    rows = run(*made(), stage="decode").tables["flow"].dicts()
    assert [r["order"] for r in rows] == list(range(len(rows)))
    assert [r["half"] for r in rows] == sorted((r["half"] for r in rows), key=["attn", "ffn"].index)
    assert all(r["dur_min_us"] <= r["dur_us"] <= r["dur_max_us"] for r in rows)
    assert sum(r["share_pct"] for r in rows) == pytest.approx(100, abs=0.1)
    assert rows[0]["gap_us"] is None


def test_the_hot_list_is_sorted_and_two_layers_are_aligned(made: Callable[..., tuple[Path, Path]]) -> None:
    report = run(*made(), stage="decode", sort="duration", layer=2, compare_layer=9)
    durations = [r["dur_us"] for r in report.tables["flow"].dicts()]
    assert durations == sorted(durations, reverse=True)
    assert all(r["delta_us"] is not None for r in report.tables["compare"].dicts())


def test_ranges_count_from_the_earliest_event_with_a_duration(made: Callable[..., tuple[Path, Path]]) -> None:
    trace, shape = made()
    document = json.loads(gzip.decompress(trace.read_bytes()))
    events = [e for e in document["traceEvents"] if e.get("ph") == "X"]
    origin = min(e["ts"] for e in events)
    marks = [e for e in events if e.get("cat") == "gpu_user_annotation"]
    first = next(r for r in run(trace, shape).tables["ranges"].dicts() if r["what"] == "pass")
    assert first["start_s"] == pytest.approx((marks[0]["ts"] - origin) / 1e6, abs=2e-6)


def test_an_exported_pass_reads_back_with_the_same_layers(
    made: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    trace, shape = made()
    out = tmp_path / "pass.json.gz"
    report = run(trace, shape, stage="decode", export=out)
    assert report.extra["export"]["pass"] == report.extra["checklist"]["3_passes"]["chosen"][0]["pass"]
    again = run(out, shape)
    before = next(r for r in report.tables["passes"].dicts() if r["pass"] == report.extra["export"]["pass"])
    after = again.tables["passes"].dicts()
    assert [r["layers"] for r in after] == [16]
    assert after[0]["device_ms"] == pytest.approx(before["device_ms"], abs=1e-3)


def test_some_layers_of_every_rank_can_be_exported(tmp_path: Path) -> None:
    generate(MOE, tmp_path / "run" / "t.json.gz", 107)
    out = tmp_path / "some.json"
    options = Options(no_triage=True, cache=False, keep=False, export=out, export_layers=(3, 4), export_ranks=True)
    report = pipeline.analyse_pipeline([tmp_path / "run"], options)
    assert report.extra["export"]["ranks"] == [0, 1]
    layers = {e["args"]["layer"] for e in json.loads(out.read_bytes())["traceEvents"] if e.get("cat") == "kernel"}
    assert layers == {3, 4}


@pytest.mark.parametrize("with_config", [True, False])
def test_exported_layers_keep_their_numbers_and_types_when_they_are_read_again(
    made: Callable[..., tuple[Path, Path]], tmp_path: Path, with_config: bool
) -> None:
    trace, shape = made(replace(SPECS["deepseek_v3"], ranks=1))
    out = tmp_path / "some.json.gz"
    run(trace, shape, stage="decode", export=out, export_layers=(1, 2, 3, 4))
    again = run(out, shape if with_config else None)
    passes, layers = again.tables["passes"].dicts(), again.tables["layers"].dicts()
    assert [r["layer"] for r in layers] == [1, 2, 3, 4]
    assert "layers 1 to 4 of an exported pass" in passes[0]["note"]
    wanted = ["MLA+DENSE", "MLA+DENSE", "MLA+MOE", "MLA+MOE"]
    assert [r["type"] for r in layers] == wanted
    assert not [f for f in again.findings if f.code in ("LAYER_COUNT", "CONFIG_DISAGREES", "NO_WHOLE_PASS")]
    assert {r["layer"] for r in run(out, shape, layer=3).tables["flow"].dicts()} == {3}


def test_an_anchor_begins_every_layer_and_one_that_ends_it_is_told_so(made: Callable[..., tuple[Path, Path]]) -> None:
    trace, shape = made()
    begins = run(trace, shape, anchor="fused_qknorm", stage="decode")
    assert {r["layers"] for r in begins.tables["passes"].dicts()} == {16}
    assert begins.extra["checklist"]["9_method"]["method"].startswith("anchor")
    ends = run(trace, shape, anchor="_moe_sum_reduce:end", stage="decode")
    assert {r["layers"] for r in ends.tables["passes"].dicts()} == {16}
    with pytest.raises(UsageFault, match="no kernel"):
        run(trace, shape, anchor="nothing_like_it")


@pytest.mark.parametrize("more", [{"pass_number": 99}, {"layer": 99}, {"stage": "denoise"}, {"rank": 9}])
def test_what_is_not_there_is_wrong_usage_with_what_is(
    made: Callable[..., tuple[Path, Path]], more: dict[str, Any]
) -> None:
    with pytest.raises(UsageFault):
        run(*made(), **more)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"triage": Path("t.json")}, "contradict"),
        ({"export_layers": (3,)}, "no file to export"),
        ({"export_ranks": True}, "no file to export"),
        ({"export": Path("out.txt")}, "ends in"),
        ({"anchor": ""}, "names no kernel"),
        ({"anchor": ":end"}, "names no kernel"),
        ({"pass_number": 0, "stage": "decode"}, "of stage prefill"),
    ],
)
def test_an_option_that_would_be_dropped_in_silence_is_refused(
    made: Callable[..., tuple[Path, Path]], more: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageFault, match=told):
        run(*made(), **more)


def test_no_export_overwrites_what_was_read(made: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    trace, shape = made()
    link = tmp_path / "link.json.gz"
    link.symlink_to(trace)
    before = trace.read_bytes(), shape.read_bytes()
    for target in (trace, link, shape):
        with pytest.raises(UsageFault, match="overwritten"):
            run(trace, shape, export=target)
    options = Options(no_triage=True, cache=False, keep=False, export=trace)
    with pytest.raises(UsageFault, match="overwritten"):  # a trace that a folder brought in
        pipeline.analyse_pipeline([trace.parent], options)
    assert (trace.read_bytes(), shape.read_bytes()) == before


@pytest.mark.parametrize(
    "words",
    [["--out", "t"], ["--out", "config"], ["--out", "new.json", "--export", "new.json"], ["--export-layers", "5-2"]],
)
def test_the_command_writes_over_none_of_its_files(made: Callable[..., tuple[Path, Path]], words: list[str]) -> None:
    trace, shape = made()
    before = trace.read_bytes(), shape.read_bytes()
    named = {"t": str(trace), "config": str(shape), "new.json": str(trace.parent / "new.json")}
    given = ["pipeline", str(trace), "--config", str(shape), "--no-triage", *(named.get(w, w) for w in words)]
    done = subprocess.run(
        [sys.executable, "-m", "infer_forge.cli.main", *given], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "next:" in done.stderr
    assert (trace.read_bytes(), shape.read_bytes()) == before
    assert not (trace.parent / "new.json").exists()


def test_an_answer_is_not_written_over_a_trace_of_the_folder_that_was_read(
    made: Callable[..., tuple[Path, Path]],
) -> None:
    trace, _ = made()
    before = trace.read_bytes()
    for words in (["pipeline", "--no-triage"], ["triage"]):
        done = subprocess.run(
            [sys.executable, "-m", "infer_forge.cli.main", *words, str(trace.parent), "--out", str(trace)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert "overwritten" in done.stderr
    assert trace.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        *(["pipeline", "t.json", option, ""] for option in ("--config", "--mapping", "--triage", "--export")),
        ["ceiling", "--config", "", "--deployment-point", "p.json"],
        ["ceiling", "--config", "c.json", "--deployment-point", ""],
    ],
)
def test_an_option_with_an_empty_path_is_wrong_usage_and_never_the_folder_where_one_stands(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "infer_forge.cli.main", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "an empty path names nothing" in done.stderr


def test_a_trace_without_layers_says_so_and_has_no_confidence(tmp_path: Path) -> None:
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": "copy_things",
            "pid": 0,
            "tid": 7,
            "ts": 10.0 * k,
            "dur": 2.0,
            "args": {"stream": 7, "device": 0},
        }
        for k in range(40)
    ]
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    report = run(trace)
    assert any(f.code == "NO_LAYERS" for f in report.findings)
    assert report.extra["checklist"]["9_method"]["confidence"] == "none"


def test_a_config_that_is_none_is_refused(made: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    trace, _ = made()
    for text in ("[]", "not json", "{}"):
        wrong = tmp_path / "wrong.json"
        wrong.write_text(text)
        with pytest.raises(InputUnusable):
            run(trace, wrong)


def test_the_command_prints_json_alone_and_takes_its_flags(made: Callable[..., tuple[Path, Path]]) -> None:
    trace, shape = made()
    words = [
        "pipeline",
        str(trace),
        "--config",
        str(shape),
        "--no-triage",
        "--stage",
        "decode",
        "--limit",
        "5",
        "--format",
        "json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "infer_forge.cli.main", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer["tables"]) == {"passes", "layers", "clusters", "flow", "ranges"}
    assert len(answer["tables"]["layers"]["rows"]) == 5
    assert answer["header"]["hidden"]["omitted_rows"]["layers"] == 11


def test_the_flow_names_the_module_the_op_and_the_source_where_stacks_and_shapes_were_recorded(
    made: Callable[..., tuple[Path, Path]],
) -> None:
    trace, shape = made(replace(SPECS["stacks"], frames=6))
    report = run(trace, shape, stage="decode", layer=3)
    rows = report.tables["flow"].dicts()
    assert all(r["op"] and r["source"] for r in rows)
    assert any(r["dims"] for r in rows)
    assert all(r["module"] is None or "DecoderLayer_3" in r["module"] for r in rows)
    assert any(r["module"] for r in rows)
