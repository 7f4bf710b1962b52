"""CSV and text pages in every shape, units, print precision."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.ncu.dictionary import find, number
from infer_forge.ncu.model import NcuReport
from infer_forge.ncu.names import base_name
from infer_forge.ncu.read import load
from infer_forge.ncu.units import dims, parse_printed, scale
from tests.ncu.ncu_maker import (
    DRAM,
    DURATION,
    MEMORY,
    SM,
    SPEED_OF_LIGHT,
    Kernel,
    long_csv,
    near,
    sol_rows,
    summary_csv,
    text_page,
    wide_csv,
    write,
)

SOL = [
    (SPEED_OF_LIGHT, "Compute (SM) Throughput", "%", "21.5"),
    (SPEED_OF_LIGHT, "Memory Throughput", "%", "89.25"),
    (SPEED_OF_LIGHT, "DRAM Throughput", "%", "89.25"),
    (SPEED_OF_LIGHT, "Duration", "us", "1,408.35"),
    (SPEED_OF_LIGHT, "Elapsed Cycles", "cycle", "12,532,580"),
    ("Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "345.14"),
]


def read(path: Path, text: str) -> NcuReport:
    return load(write(path, text))


@pytest.mark.parametrize(("nvtx", "label"), [(False, False), (True, False), (False, True), (True, True)])
def test_long_pages_are_read_with_16_17_18_and_more_fields(tmp_path: Path, nvtx: bool, label: bool) -> None:
    text = long_csv([(Kernel(signature="void ns::my_kernel<4>(float *)"), SOL)], nvtx=nvtx, body_label=label)
    report = read(tmp_path / "a.csv", text)
    launch = report.launches[0]
    assert (report.form, launch.kernel, launch.grid, launch.cc) == ("csv-long", "my_kernel", (1024, 1, 1), "9.0")
    assert number(launch, "duration") == near(1_408_350.0)
    assert number(launch, "cycles_elapsed") == 12_532_580
    assert number(launch, "memory") == 89.25
    assert number(launch, "dram_rate") == near(345.14e9)


def test_the_same_label_in_two_sections_is_two_metrics(tmp_path: Path) -> None:
    launch = read(tmp_path / "a.csv", long_csv([(Kernel(), SOL)])).launches[0]
    found = [find(launch, "memory"), find(launch, "dram_rate")]
    assert [v.unit for v in found if v] == ["%", "byte/s"]


def test_chatter_and_foreign_tables_in_between_are_passed_over(tmp_path: Path) -> None:
    lines = long_csv([(Kernel(), SOL)]).splitlines()
    noise = [
        '==PROF== Profiling "my_kernel" - 0: 0%....100%',
        "loss: 0.3, it's \"fine",
        '"GPU ID","GPU Name","Link"',
        '"0","H100","18"',
        '""',
        "",
    ]
    text = "\n".join(
        ["==PROF== Connected to process 1", *noise, lines[0], *noise, *lines[1:4], *noise, *lines[4:], *noise]
    )
    report = read(tmp_path / "a.csv", text)
    assert len(report.launches) == 1
    assert number(report.launches[0], "duration") == near(1_408_350.0)
    assert number(report.launches[0], "dram_rate") == near(345.14e9)
    assert any("rows of other tables" in x for x in report.lost)


def test_metrics_by_id_stand_under_their_id(tmp_path: Path) -> None:
    rows = [
        ("Command line profiler metrics", DURATION, "us", "6.75"),
        ("Command line profiler metrics", "flop_count_hp.sum", "", "n/a"),
    ]
    launch = read(tmp_path / "a.csv", long_csv([(Kernel(), rows)])).launches[0]
    assert number(launch, "duration") == near(6750)
    assert launch.lost == ["flop_count_hp.sum: n/a"]
    assert "flop_count_hp.sum" not in launch.values


def test_rule_rows_keep_their_estimate_and_its_kind(tmp_path: Path) -> None:
    rules = [
        ("SpeedOfLight", "SOLBottleneck", "OPT", "only 0.7 full waves across all SMs.", "", ""),
        ("Occupancy", "TheoreticalOccupancy", "OPT", "limited", "global", "80.34"),
    ]
    launch = read(tmp_path / "a.csv", long_csv([(Kernel(), SOL)], rules=rules)).launches[0]
    assert [(r.rule, r.kind, r.speedup_kind, r.speedup_pct) for r in launch.rules] == [
        ("SOLBottleneck", "optimization", None, None),
        ("TheoreticalOccupancy", "optimization", "global", 80.34),
    ]
    waves = find(launch, "waves")
    assert waves is not None
    assert (waves.value, waves.name, waves.half_step) == (0.7, "Rule/waves", near(0.05))


@pytest.mark.parametrize("nvtx", [False, True])
def test_the_wide_page_takes_its_units_row_and_counts_no_launch_for_it(tmp_path: Path, nvtx: bool) -> None:
    kernels = [
        Kernel("a", {DURATION: 1.5, SM: 20.0, MEMORY: 90.0}),
        Kernel("b", {DURATION: 2.5, SM: 21.0, MEMORY: 91.0, "x__y.sum": "word"}),
    ]
    report = read(tmp_path / "a.csv", wide_csv(kernels, {DURATION: "msecond", SM: "%", MEMORY: "%"}, nvtx=nvtx))
    assert report.form == "csv-wide"
    assert [(x.kernel, number(x, "duration")) for x in report.launches] == [("a", 1.5e6), ("b", 2.5e6)]
    assert "x__y.sum" not in report.launches[0].values
    assert report.launches[1].values["x__y.sum"].value == "word"


def test_a_summary_page_says_that_it_holds_averages(tmp_path: Path) -> None:
    rows = [(s, m, u, v) for s, m, u, v in SOL]
    report = read(tmp_path / "a.csv", summary_csv(Kernel(), rows))
    assert report.form == "csv-summary"
    assert number(report.launches[0], "duration") == near(1_408_350.0)
    assert "average of 3 launches" in report.launches[0].lost[0]


def test_two_runs_in_one_file_do_not_merge_their_ids(tmp_path: Path) -> None:
    text = long_csv([(Kernel("a"), SOL)]) + long_csv([(Kernel("b"), SOL)])
    assert [x.kernel for x in read(tmp_path / "a.csv", text).launches] == ["a", "b"]


def test_a_utf16_page_of_powershell_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(long_csv([(Kernel(), SOL)]).encode("utf-16"))
    assert number(load(tmp_path / "a.csv").launches[0], "sm") == 21.5


@pytest.mark.parametrize("old", [False, True])
def test_text_pages_old_and_new_give_metrics_and_rules(tmp_path: Path, old: bool) -> None:
    rules = [
        "    OPT   Est. Speedup: 17.95%",
        "          The memory access pattern for global loads from L1TEX might not be optimal. On average, only 16.0 of the 32 bytes",
        "          transmitted per sector are utilized by each thread.",
        "",
        "    OPT   Est. Local Speedup: 89.82%",
        "          All compute pipelines are under-utilized.",
        "    INF   This workload is utilizing greater than 80.0% of the available compute or memory performance.",
    ]
    sections = {
        SPEED_OF_LIGHT: sol_rows("21.50", "89.25", "89.25"),
        "Launch Statistics": [("Grid Size", "", "8192"), ("Waves Per SM", "", "8.98")],
    }
    launch = read(
        tmp_path / "a.txt", "app output\n" + text_page(Kernel(signature="my_kernel(float *)"), sections, rules, old=old)
    ).launches[0]
    assert launch.kernel == "my_kernel"
    assert launch.grid == ((8192, 1, 1) if old else (1024, 1, 1))
    assert number(launch, "duration") == 100_000
    assert number(launch, "bytes_per_sector_load") == 16.0
    assert [(r.rule, r.speedup_kind, r.speedup_pct) for r in launch.rules] == [
        ("MemoryCacheAccessPattern", "global", 17.95),
        ("HighPipeUtilization", "local", 89.82),
        ("SOLBottleneck", None, None),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("hello\nworld\n", "without an Nsight Compute page"),
        ("<html></html>", "HTML"),
        ('{"a": 1}', "JSON"),
    ],
)
def test_text_without_a_page_is_refused(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(InputUnusable, match=words):
        read(tmp_path / "a.txt", content)


def test_a_report_of_nsight_systems_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(InputUnusable, match="Nsight Systems"):
        load(write(tmp_path / "a.nsys-rep", b"\x00\x01\x02\x03"))


def test_a_failed_collection_s_output_is_recognised_as_such(tmp_path: Path) -> None:
    with pytest.raises(InputUnusable, match="permission") as caught:
        read(tmp_path / "a.log", "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
    assert caught.value.next_step is not None
    assert "check-log" in caught.value.next_step


def test_kernel_and_launch_are_chosen_and_wrong_ones_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", long_csv([(Kernel("warmup"), SOL), (Kernel("gemm"), SOL)]))
    assert [x.kernel for x in load(path, kernel="^gem").launches] == ["gemm"]
    assert [x.kernel for x in load(path, launch=0).launches] == ["warmup"]
    with pytest.raises(InputUnusable, match="the report holds warmup"):
        load(path, kernel="softmax")
    with pytest.raises(UsageFault, match="no launch 2"):
        load(path, launch=2)
    with pytest.raises(UsageFault, match="regular expression"):
        load(path, kernel="gemm(")


@pytest.mark.parametrize(
    ("unit", "factor", "base"),
    [
        ("nsecond", 1, "ns"),
        ("us", 1e3, "ns"),
        ("usecond", 1e3, "ns"),
        ("s", 1e9, "ns"),
        ("Gbyte/s", 1e9, "byte/s"),
        ("byte/nsecond", 1e9, "byte/s"),
        ("Mbyte", 1e6, "byte"),
        ("Kbyte/block", 1e3, "byte/block"),
        ("cycle/nsecond", 1e9, "hz"),
        ("cycle/usecond", 1e6, "hz"),
        ("Ghz", 1e9, "hz"),
        ("sector/nsecond", 1e9, "sector/s"),
        ("inst/cycle", 1, "inst/cycle"),
        ("%", 1, "%"),
        ("%/Kbyte", 1e-3, "%/byte"),
        ("block/msecond", 1e3, "block/s"),
        ("register/thread", 1, "register/thread"),
        ("", 1, ""),
    ],
)
def test_old_and_new_units_come_to_one_base(unit: str, factor: float, base: str) -> None:
    got, name = scale(unit)
    assert (got, name) == (near(factor), base)


@pytest.mark.parametrize(
    ("text", "value", "half"),
    [
        ("13,485", 13485, 0),
        ("9,495.42", 9495.42, 0.005),
        ("0.44", 0.44, 0.005),
        ("1", 1, 0),
        ("1e-3", 0.001, 0),
        ("1.234,56", 1234.56, 0.005),
        ("-0.5", -0.5, 0.05),
    ],
)
def test_printed_numbers_keep_their_precision(text: str, value: float, half: float) -> None:
    got = parse_printed(text, "", "m")
    assert got is not None
    assert (got.value, got.half_step) == (near(value), near(half))


@pytest.mark.parametrize("text", ["n/a", "", "nan", "  n/a "])
def test_not_measured_is_none_and_never_zero(text: str) -> None:
    assert parse_printed(text, "%", "m") is None


@given(st.floats(0.001, 1e12), st.sampled_from(["ns", "us", "ms", "usecond", "second"]))
def test_a_duration_survives_any_unit_that_ncu_prints(nanoseconds: float, unit: str) -> None:
    factor, _ = scale(unit)
    got = parse_printed(f"{nanoseconds / factor:.9e}", unit, "m")
    assert got is not None
    assert got.value == near(nanoseconds, rel=1e-6)


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("rms_norm(float *, int)", "rms_norm"),
        ("void at::native::<unnamed>::k<float, (int)4>(int)", "k"),
        ("plain", "plain"),
        (
            "void unnamed>::dist<float, void a<b>(c)::[lambda() (instance 1)]::operator ()() lambda(int) (instance 2)]>(T1)",
            "dist",
        ),
        ("enable_if<!T7, void>::type gemv<int, P<const T>>(T13)", "gemv"),
        ("void (anonymous namespace)::f<1>(int)", "f"),
        ("broken<<<(", "broken"),
    ],
)
def test_base_names_come_out_of_whole_and_damaged_signatures(signature: str, name: str) -> None:
    assert base_name(signature) == name


def test_dimensions_are_read_and_nonsense_is_none() -> None:
    assert dims("(224, 1, 1)") == (224, 1, 1)
    assert dims("") is None


def test_dram_by_either_id(tmp_path: Path) -> None:
    rows = [("Command line profiler metrics", "dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "19.66")]
    assert number(read(tmp_path / "a.csv", long_csv([(Kernel(), rows)])).launches[0], "dram") == 19.66
    assert (
        number(read(tmp_path / "b.csv", wide_csv([Kernel(metrics={DRAM: 20.0})], {DRAM: "%"})).launches[0], "dram")
        == 20.0
    )
