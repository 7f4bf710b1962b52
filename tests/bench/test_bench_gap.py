"""The gap decision from result files: verdicts, what voids them, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.contracts import contract_of
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.bench import gap_plot
from infer_forge.bench.gap import Request, decide_gap, gap_report, not_to_build_on, request_of, require_decision
from infer_forge.bench.importing import read_rows
from infer_forge.bench.model import GpuState, Row
from infer_forge.bench.read import import_file

near: Any = pytest.approx  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

SideFiles = Callable[..., list[Path]]
COMP = [100.0] * 5


def rows_of(paths: Sequence[Path], **context: Any) -> list[Row]:
    """Rows of files, with fields set."""
    return [row for p in paths for row in import_file(p, context=context).rows]


def ask(sides: dict[str, list[Row]], **more: Any) -> Report:
    """The report of a gap with the first side as the target."""
    return gap_report(decide_gap(request_of(sides, next(iter(sides)), **more)))


def first(report: Report) -> dict[str, Any]:
    """The first row of table `gap`."""
    return report.tables["gap"].dicts()[0]


@pytest.mark.parametrize(
    ("target", "other", "verdict", "k"),
    [
        ([100, 101, 99, 100, 100], [103, 104, 102, 103, 103.5], "behind", None),
        ([100, 100.2, 99.9, 100.1, 100], [100, 100.1, 100, 100.05, 99.95], "tie", None),
        ([98.5, 101, 100, 99, 101.5], COMP, "inconclusive", 7),
        ([105, 104, 106, 105, 105.5], COMP, "ahead", None),
        ([98.2, 98.9, 98.5, 98.8, 98.4], COMP, "inconclusive", 3),
        ([100, 101], [100, 101], "insufficient", 3),
    ],
)
def test_check_vectors_through_result_files(
    side_files: SideFiles, target: list[float], other: list[float], verdict: str, k: int | None
) -> None:
    row = first(ask({"a": rows_of(side_files("a", target)), "b": rows_of(side_files("b", other))}))
    assert (row["verdict"], row["k_more"]) == (verdict, k)
    assert row["reason"]
    assert row["next_step"]


def test_without_a_contract_nothing_may_be_built_on_the_verdict(side_files: SideFiles) -> None:
    report = ask({"a": rows_of(side_files("a", [90, 91, 90, 91, 90])), "b": rows_of(side_files("b", COMP))})
    assert first(report)["verdict"] == "behind"
    assert first(report)["decides"] is False
    assert any("no contract" in line for line in report.summary)


def test_a_verdict_is_one_to_build_on_when_every_run_carries_the_contract(side_files: SideFiles) -> None:
    """The gate of `--require`: a contract, and the runs measured under it."""
    sides = {n: rows_of(side_files(n, r)) for n, r in (("a", [110, 111, 110, 111, 110]), ("b", COMP))}
    gap = decide_gap(request_of(sides, "a"))
    engines = [{"framework": name, "max_runs": 4, "max_minutes": 60} for name in ("sglang", "vllm")]
    grid = {"scenarios": [{"name": "chat", "input_len": 1000, "output_len": 1000}]}
    gap.request.contract = contract_of(
        {"name": "c", "point": {}, "grid": grid, "sla": {}, "client": {}, "engines": engines}
    )
    gap.request.contract_hash = "c0ffee"
    with pytest.raises(GateRefused, match="not every run carries the contract's hash"):
        require_decision(gap, "ahead")
    for row in (*sides["a"], *sides["b"]):
        row.contract_hash = "c0ffee"
    assert not_to_build_on(gap) == []
    require_decision(gap, "ahead")


@pytest.mark.parametrize("purpose", [None, "pilot"])
def test_a_copied_result_is_one_launch_whatever_its_name_and_form(side_files: SideFiles, purpose: str | None) -> None:
    """Three launches a side and two copies of the first, one of them written again, are three pairs."""
    sides: dict[str, list[Row]] = {}
    for name, rates in (("a", [105, 104, 106]), ("b", [100, 101, 99])):
        files = side_files(name, rates)
        copies = [f.with_name(f"{f.stem}_copy{n}.json") for n in range(2) for f in files[:1]]
        copies[0].write_bytes(files[0].read_bytes())
        copies[1].write_text(json.dumps(json.loads(files[0].read_text()), indent=2))
        before = rows_of(copies[:1], purpose="pilot") if purpose else []
        sides[name] = [*before, *rows_of([*files, *copies])]
    report = ask(sides)
    row = first(report)
    assert (row["verdict"], row["n_pairs"], row["k_more"]) == ("insufficient", 3, 2)
    told = [r for r in report.tables["excluded"].dicts() if "SAME_RESULT_TWICE" in r["reason"]]
    assert [(r["side"], r["run"]) for r in told] == [(s, f"{s}_0_copy{n}.json") for s in "ab" for n in range(2)]
    assert "one measurement counts once" in told[0]["reason"]


@pytest.mark.parametrize("summary_first", [True, False])
def test_a_sweeps_summary_beside_its_runs_is_no_launch_of_its_own(
    tmp_path: Path, vllm: Callable[..., dict[str, Any]], summary_first: bool
) -> None:
    files: dict[str, list[Path]] = {}
    for side in "ab":
        folder = tmp_path / side
        folder.mkdir()
        runs = [vllm(run_number=n, duration=16.0 + n, output_throughput=128 / (16.0 + n), label=side) for n in range(2)]
        for n, run in enumerate(runs):
            (folder / f"run={n}.json").write_text(json.dumps(run))
        (folder / "summary.json").write_text(json.dumps(runs, indent=4))
        files[side] = sorted(folder.iterdir(), reverse=summary_first)
    report = ask({side: rows_of(paths) for side, paths in files.items()})
    assert first(report)["n_pairs"] == 2
    assert sorted(r["launch"][2:] for r in report.tables["runs"].dicts() if r["side"] == "a") == [
        "run=0.json",
        "run=1.json",
    ]
    assert [r["run"] for r in report.tables["excluded"].dicts()] == ["summary.json", "summary.json#1"] * 2


def test_runs_appended_to_one_file_are_repeats_of_one_launch(
    side_files: SideFiles, sglang_file: Any, one_run: Any
) -> None:
    appended = sglang_file("many.jsonl", runs=[one_run(r) for r in (90, 91, 92, 93, 94)])
    sides = {"a": rows_of([appended]), "b": rows_of(side_files("b", COMP))}
    row = first(ask(sides))
    assert (row["verdict"], row["n_pairs"]) == ("insufficient", 1)
    assert first(ask(sides, launch_per="row"))["verdict"] == "behind"


def test_launch_ids_average_repeats(side_files: SideFiles) -> None:
    rows = rows_of(side_files("a", [90, 110, 90, 110, 90, 110]))
    for index, row in enumerate(rows):
        row.run_id, row.launch_id = "run", f"L{index // 2}"
    report = ask({"a": rows, "b": rows_of(side_files("b", COMP))})
    means = [r["output_token_throughput"] for r in report.tables["runs"].dicts() if r["side"] == "a"]
    assert means == near([100.0, 100.0, 100.0])


def test_blocks_pair_neighbours(side_files: SideFiles) -> None:
    a, b = rows_of(side_files("a", [100, 50, 100, 50])), rows_of(side_files("b", [100, 50, 100, 50]))
    for index, (x, y) in enumerate(zip(a, b, strict=True)):
        x.block_id = y.block_id = f"B{index // 2}"
        x.block_position, y.block_position = (0, 1) if index % 2 == 0 else (3, 2)
    decision = decide_gap(request_of({"a": a, "b": b}, "a")).decisions[0]
    assert decision.how_paired == "inside ABBA blocks"
    assert decision.pairs == [(100, 100), (50, 50), (100, 100), (50, 50)]


def test_pairs_beyond_a_look_wait_for_the_next(side_files: SideFiles) -> None:
    decision = decide_gap(
        request_of(
            {
                "a": rows_of(side_files("a", [98.2, 98.9, 98.5, 98.8, 98.4, 50, 50])),
                "b": rows_of(side_files("b", [100] * 7)),
            },
            "a",
        )
    ).decisions[0]
    assert len(decision.pairs) == 5
    assert decision.verdict == "inconclusive"
    assert decision.k_more == 1


def test_inconclusive_after_the_last_look_is_final_and_tells_the_noise(side_files: SideFiles) -> None:
    noisy = [98, 102, 97, 103, 99, 101, 98, 102, 97, 103, 99, 101]
    row = first(ask({"a": rows_of(side_files("a", noisy)), "b": rows_of(side_files("b", [100] * 12))}))
    assert (row["verdict"], row["k_more"]) == ("inconclusive", None)
    assert "final after 12 pairs: noise" in row["reason"]


def test_other_token_totals_void_the_workload(side_files: SideFiles) -> None:
    b = rows_of(side_files("b", COMP))
    for row in b:
        row.workload.measured_output_len_mean_tokens = 990.0
    row = first(ask({"a": rows_of(side_files("a", [90] * 5)), "b": b}))
    assert row["verdict"] == "void_workload"


def test_a_mislabelled_workload_voids(side_files: SideFiles) -> None:
    files = [*side_files("a", [90] * 5, total_input_tokens=40_368), *side_files("b", COMP, total_input_tokens=40_368)]
    row = first(ask({"a": rows_of(files[:5]), "b": rows_of(files[5:])}))
    assert row["verdict"] == "void_workload"
    assert "LABEL_INPUT" in row["reason"]


def test_foreign_gpu_work_voids_unless_enough_clean_launches_remain(side_files: SideFiles) -> None:
    a, b = rows_of(side_files("a", [90, 91, 90, 91, 90, 91])), rows_of(side_files("b", [100.0] * 6))
    a[0].gpu_before = GpuState(foreign_processes=["77 other"])
    report = ask({"a": a, "b": b})
    assert first(report)["verdict"] == "behind"
    assert report.tables["excluded"].dicts()[0]["reason"].startswith("FOREIGN_PROCESS")
    a[1].gpu_before = GpuState(foreign_processes=["77 other"])
    assert first(ask({"a": a, "b": b}))["verdict"] == "void_interference"


def test_impossible_rows_never_win(side_files: SideFiles) -> None:
    a = rows_of(side_files("a", [500] * 5, mean_ttft_ms=0.0, median_ttft_ms=0.0))
    report = ask({"a": a, "b": rows_of(side_files("b", COMP))})
    assert first(report)["verdict"] == "insufficient"
    assert "TTFT_ZERO" in first(report)["reason"]


def test_speculation_on_one_side_is_unfair(side_files: SideFiles) -> None:
    a, b = rows_of(side_files("a", [150] * 5)), rows_of(side_files("b", COMP))
    for row in a:
        row.spec_decode.enabled = True
    for row in b:
        row.spec_decode.enabled = False
    assert first(ask({"a": a, "b": b}))["verdict"] == "void_fairness"


def test_an_sla_that_the_target_misses_overrides_speed(side_files: SideFiles) -> None:
    sides = {"a": rows_of(side_files("a", [150] * 5)), "b": rows_of(side_files("b", COMP))}
    sides["a"][3].metrics.ttft_ms.p50 = 900.0
    row = first(ask(sides, sla="max_p50_ttft_ms=500"))
    assert (row["verdict"], row["target_sla"], row["against_sla"]) == ("sla_fail", "fail", "pass")
    assert "900" in row["reason"]


def test_a_competitor_that_misses_the_sla_is_no_leader(side_files: SideFiles) -> None:
    fast, slow = rows_of(side_files("fast", [300] * 5)), rows_of(side_files("slow", [90] * 5))
    for row in fast:
        row.metrics.ttft_ms.p50 = 900.0
    report = ask({"a": rows_of(side_files("a", COMP)), "fast": fast, "slow": slow}, sla="max_p50_ttft_ms=500")
    assert first(report)["against"] == "slow"
    assert report.tables["pairs"].dicts()[0]["against"] == "fast"
    assert report.tables["pairs"].dicts()[0]["verdict"] == "not_behind"


def test_pilot_and_profile_rows_never_decide(side_files: SideFiles) -> None:
    a = rows_of(side_files("a", [90] * 5), purpose="pilot")
    report = ask({"a": a, "b": rows_of(side_files("b", COMP))})
    assert first(report)["verdict"] == "insufficient"
    assert "purpose pilot" in first(report)["reason"]


def test_a_latency_decides_with_its_sign_turned(side_files: SideFiles) -> None:
    a, b = rows_of(side_files("a", COMP)), rows_of(side_files("b", COMP))
    for index, row in enumerate(a):
        row.metrics.ttft_ms.p50 = 200.0 + index
    assert first(ask({"a": a, "b": b}, metric="p50_ttft_ms"))["verdict"] == "ahead"


def test_a_metric_that_a_rule_forbids_does_not_decide(side_files: SideFiles) -> None:
    a, b = rows_of(side_files("a", COMP)), rows_of(side_files("b", COMP))
    for row in (*a, *b):
        row.spec_decode.enabled, row.spec_decode.mean_accept_length = True, 2.0
    row = first(ask({"a": a, "b": b}, metric="p50_itl_ms"))
    assert row["verdict"] == "insufficient"
    assert "SPEC_ITL" in row["reason"]


def test_scenarios_are_told_by_load_and_by_key(side_files: SideFiles, sglang_file: Any) -> None:
    def both(name: str, rate: float) -> list[Path]:
        return [
            sglang_file(f"{name}{c}_{i}.jsonl", rate + i, max_concurrency=c, tag=f"t{c}")
            for c in (1, 64)
            for i in range(5)
        ]

    sides = {"a": rows_of(both("a", 90)), "b": rows_of(both("b", 100))}
    report = ask(sides)
    assert [r["scenario"] for r in report.tables["gap"].dicts()] == [
        "random 1000/1000 at 8 req/s c1",
        "random 1000/1000 at 8 req/s c64",
    ]
    assert report.tables["frontier"].dicts()[0]["regressed_points"] == "c1, c64"
    assert report.extra["overall"]["verdict"] == "behind"
    keyed = ask(sides, scenario_key="tag")
    assert [r["scenario"] for r in keyed.tables["gap"].dicts()] == ["t1", "t64"]
    with pytest.raises(UsageFault, match="scenario key"):
        ask(sides, scenario_key="colour")


def test_a_scenario_that_one_side_never_ran_is_insufficient(side_files: SideFiles, sglang_file: Any) -> None:
    only = [sglang_file(f"x{i}.jsonl", 100 + i, max_concurrency=99) for i in range(5)]
    report = ask({"a": rows_of([*side_files("a", [101] * 5), *only]), "b": rows_of(side_files("b", COMP))})
    found = {r["scenario"]: r["verdict"] for r in report.tables["gap"].dicts()}
    assert found["random 1000/1000 at 8 req/s c99"] == "insufficient"
    assert report.extra["overall"]["verdict"] == "insufficient"


def test_dominance_needs_every_axis(side_files: SideFiles, sglang_file: Any) -> None:
    def points(name: str, rates: dict[int, float], tpot: dict[int, float]) -> list[Row]:
        rows = rows_of(
            [
                sglang_file(
                    f"{name}{c}_{i}.jsonl",
                    rates[c] + 0.01 * i,
                    max_concurrency=c,
                    median_tpot_ms=tpot[c] + 0.001 * i,
                    p99_tpot_ms=99.0,
                    mean_tpot_ms=tpot[c],
                )
                for c in (1, 64)
                for i in range(5)
            ]
        )
        for row in rows:
            row.hardware.gpu_count = 2
        return rows

    base = points("b", {1: 100, 64: 1000}, {1: 10, 64: 20})
    better = ask({"a": points("a", {1: 110, 64: 1100}, {1: 9, 64: 18}), "b": base})
    assert better.tables["frontier"].dicts()[0]["verdict"] == "dominates"
    mixed = ask({"c": points("c", {1: 90, 64: 1100}, {1: 11, 64: 18}), "b": base})
    assert mixed.tables["frontier"].dicts()[0]["verdict"] == "trades"
    worse = ask({"d": points("d", {1: 90, 64: 900}, {1: 11, 64: 22}), "b": base})
    assert worse.tables["frontier"].dicts()[0]["verdict"] == "dominated"


def test_energy_is_told_where_it_was_recorded(side_files: SideFiles) -> None:
    a, b = rows_of(side_files("a", COMP)), rows_of(side_files("b", COMP))
    for rows, joule in ((a, 2.0), (b, 1.0)):
        for index, row in enumerate(rows):
            row.metrics.output_tokens_per_j = joule + 0.001 * index
    assert ask({"a": a, "b": b}).tables["energy"].dicts()[0]["verdict"] == "better"


def test_usage_faults_are_told(side_files: SideFiles) -> None:
    rows = rows_of(side_files("a", COMP))
    with pytest.raises(UsageFault, match="competitor"):
        decide_gap(Request({"a": rows}, "a"))
    with pytest.raises(InputUnusable, match="target has no run"):
        decide_gap(Request({"a": [], "b": rows}, "a"))
    with pytest.raises(UsageFault, match="unknown metric"):
        ask({"a": rows, "b": rows}, metric="vibes")
    with pytest.raises(UsageFault, match="unknown SLA"):
        ask({"a": rows, "b": rows}, sla="max_p42=1")


def test_the_plot_escapes_names_and_shows_every_pair(side_files: SideFiles, tmp_path: Path) -> None:
    gap = decide_gap(
        request_of({"<a>": rows_of(side_files("a", [90, 91, 90, 91, 90])), "b": rows_of(side_files("b", COMP))}, "<a>")
    )
    picture = gap_plot.svg(gap)
    assert picture.count("<circle") == 5
    assert "&lt;a&gt;" in picture
    assert "<a>" not in picture
    gap_plot.write_html(gap, gap_report(gap), tmp_path / "gap.html")
    assert "<svg" in (tmp_path / "gap.html").read_text()


def test_the_matched_real_pair_is_insufficient_with_its_outlier_named(corpus: Path) -> None:
    folder = corpus / "bench" / "matched_sglang_vs_vllm_qwen3vl8b"
    sides = {name: read_rows(sorted(folder.glob(f"*_{name}*_rep?.json"))).rows for name in ("sglang", "vllm")}
    report = ask(sides)
    found = report.tables["gap"].dicts()
    assert {r["verdict"] for r in found} == {"insufficient"}
    assert all(r["k_more"] == 2 for r in found)
    assert "64.7 ms in the first run, 22.7, 24.1 later" in found[1]["reason"]


def test_the_report_is_json_without_non_finite_numbers(side_files: SideFiles) -> None:
    report = ask({"a": rows_of(side_files("a", [100, 101])), "b": rows_of(side_files("b", [100, 101]))})
    assert json.loads(report.render("json"))["tables"]["gap"]["columns"][1] == "verdict"
