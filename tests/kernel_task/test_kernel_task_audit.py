"""The audit: a sample task is clean, and every change that would cheat is named by its rule."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base import contracts
from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.ledger import Ledger
from infer_forge.base.records import Report
from infer_forge.kernel_task import audit, new, run
from infer_forge.kernel_task.predicates import holds
from infer_forge.kernel_task.rules import all_rules, severity


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample task that was run once."""
    folder = tmp_path_factory.mktemp("kernel") / "task"
    new(folder, "sample")
    edit(folder / "task.json", lambda d: d["timing"].update(blocks=2, min_sample_ms=0.3))
    run(folder)
    return folder


@pytest.fixture
def task(measured: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoiled."""
    return Path(shutil.copytree(measured, tmp_path / "task"))


def edit(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a JSON file in place."""
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def rules(report: Report) -> set[str]:
    """Rule ids of an audit."""
    return {row[0] for row in report.tables["findings"].rows}


# A loaded machine may spoil a sample's length or make two equal kernels look unequal; neither is what these tests are about.
NOISE = {"SHORT_SAMPLES", "IMPLAUSIBLE_SPEEDUP"}


def test_the_sample_runs_and_is_clean(task: Path) -> None:
    report = audit(task)
    assert rules(report) - NOISE == set()
    assert report.extra["claim"] == "kernel_task"
    results = json.loads((task / "results.json").read_text())
    spoiled = {"INTEGRITY"} if rules(report) & NOISE else set[str]()
    assert {r["status"] for r in results["rows"]} - spoiled <= {"PASSED"}
    assert results["locked_at"] <= results["started_at"]


def test_every_finding_of_the_code_is_a_rule_of_the_file(project_root: Path) -> None:
    import re

    known = set(all_rules())
    for file in (project_root / "infer_forge" / "kernel_task").glob("*.py"):
        text = file.read_text()
        named = set(re.findall(r'(?:yield |\(|_note\(case, |"rule": )"([A-Z][A-Z0-9_]{5,})"', text))
        assert named <= known | {"INTEGRITY"}, file.name
    assert severity("NO_SUCH_RULE") == "void"


SPOILED: list[tuple[str, str, Callable[[Path], object]]] = [
    ("rows changed", "WORKLOAD_CHANGED", lambda d: edit(d / "task.json", lambda t: t["rows"][0]["params"].update(m=8))),
    (
        "tolerance widened",
        "WORKLOAD_CHANGED",
        lambda d: edit(d / "task.json", lambda t: t["tolerances"].update(atol=1.0)),
    ),
    (
        "adapter edited",
        "HARNESS_CHANGED",
        lambda d: (d / "adapter.py").write_text((d / "adapter.py").read_text() + "\n"),
    ),
    ("bench file added", "HARNESS_CHANGED", lambda d: ((d / "bench").mkdir(), (d / "bench" / "x.py").write_text(""))),
    ("reference removed", "HARNESS_CHANGED", lambda d: (d / "reference.py").unlink()),
    ("lock removed", "NO_LOCK", lambda d: (d / "lock.json").unlink()),
    ("results removed", "NO_RESULTS", lambda d: (d / "results.json").unlink()),
    ("results damaged", "RESULTS_DAMAGED", lambda d: (d / "results.json").write_text("{")),
    ("slow row dropped", "ROW_DROPPED", lambda d: edit(d / "results.json", lambda r: r["rows"].pop())),
    (
        "row added",
        "ROW_ADDED",
        lambda d: edit(d / "results.json", lambda r: r["rows"].append({"id": "easy", "kind": "production"})),
    ),
    ("geomean polished", "GEOMEAN_WRONG", lambda d: edit(d / "results.json", lambda r: r.update(geomean_speedup=3.0))),
    ("time polished", "GEOMEAN_WRONG", lambda d: edit(d / "results.json", lambda r: r["rows"][0].update(speedup=3.0))),
    (
        "measured before the lock",
        "LOCKED_AFTER_RESULTS",
        lambda d: edit(d / "results.json", lambda r: r.update(started_at="2001-01-01")),
    ),
    (
        "other harness",
        "HARNESS_FOREIGN",
        lambda d: edit(d / "results.json", lambda r: r.update(harness_sha256="0" * 64)),
    ),
    ("hashes missing", "HARNESS_CHANGED", lambda d: edit(d / "results.json", lambda r: r.pop("protected_after"))),
    (
        "harness swapped while measured",
        "HARNESS_CHANGED",
        lambda d: edit(d / "results.json", lambda r: r["protected_after"].update({"adapter.py": "0"})),
    ),
    (
        "seeds first",
        "SEED_BEFORE_FREEZE",
        lambda d: edit(d / "results.json", lambda r: r.update(seeds_drawn_at="2001-01-01")),
    ),
    (
        "candidate changed later",
        "CANDIDATE_CHANGED",
        lambda d: (d / "candidate.py").write_text((d / "candidate.py").read_text() + "\n"),
    ),
    ("not interleaved", "NOT_INTERLEAVED", lambda d: edit(d / "results.json", lambda r: r.update(interleaving="AB"))),
    (
        "one run",
        "FEW_RUNS",
        lambda d: edit(
            d / "results.json", lambda r: [x["candidate"].update(runs=1) for x in r["rows"] if x["candidate"]]
        ),
    ),
    ("other file touched", "PATH_SCOPE", lambda d: (d / "README.md").write_text("x")),
    (
        "harness finding",
        "POISON_LEFT",
        lambda d: edit(
            d / "results.json",
            lambda r: r["findings"].append(
                {"rule": "POISON_LEFT", "row": "decode-64", "side": "candidate", "evidence": "3 of 9"}
            ),
        ),
    ),
    ("early profile", "LOCKED_AFTER_RESULTS", lambda d: early_profile(d)),
    (
        "sold as end to end",
        "CLAIM_E2E",
        lambda d: edit(d / "task.json", lambda t: t["claim"].update(text="gives 2x end-to-end")),
    ),
    (
        "end to end without evidence",
        "CLAIM_E2E",
        lambda d: edit(d / "task.json", lambda t: t["claim"].update(kind="model_e2e")),
    ),
]


def early_profile(folder: Path) -> None:
    """A profile that was taken before the lock."""
    import os

    (folder / "profiles").mkdir()
    file = folder / "profiles" / "a.ncu-rep"
    file.write_bytes(b"x")
    os.utime(file, (1_000_000_000, 1_000_000_000))


@pytest.mark.parametrize(("rule", "spoil"), [s[1:] for s in SPOILED], ids=[s[0] for s in SPOILED])
def test_a_spoiled_task_is_named_by_its_rule(task: Path, rule: str, spoil: Callable[[Path], object]) -> None:
    spoil(task)
    report = audit(task)
    assert rule in rules(report)
    assert report.extra["verdict"] == ("void" if severity(rule) == "void" else report.extra["verdict"])
    assert report.extra["verdict"] != "clean"


SOURCES: list[tuple[str, str]] = [
    ("import time\ntime.perf_counter = lambda: 0\n", "HARNESS_ACCESS"),
    ("import sys\nsys.modules['infer_forge'] = None\n", "HARNESS_ACCESS"),
    ("CACHE = {}\ndef key(x):\n    return x.data_ptr()\n", "POINTER_CACHE"),
    ("import functools\n@functools.cache\ndef f(x):\n    return x\n", "POINTER_CACHE"),
    ("def s(torch):\n    return torch.cuda.Stream()\n", "STREAM_INJECTION"),
    ("def h(x):\n    return x.half()\n", "PRECISION_DOWNGRADE"),
    ("from baseline import kernel as base\n", "CALLS_BASELINE"),
    ("SRC = 'float y = __expf(x);'\n", "FAST_INTRINSICS"),
]


@pytest.mark.parametrize(("text", "rule"), SOURCES)
def test_sources_of_the_candidate_are_read(task: Path, text: str, rule: str) -> None:
    file = task / "candidate.py"
    file.write_text(file.read_text() + text)
    assert rule in rules(audit(task))


def test_a_word_in_a_comment_accuses_nobody(task: Path) -> None:
    file = task / "candidate.py"
    file.write_text(file.read_text() + '# no data_ptr(), no __expf, no perf_counter here\n"""and no lru_cache"""\n')
    assert not rules(audit(task)) & {"POINTER_CACHE", "FAST_INTRINSICS", "HARNESS_ACCESS"}


def test_the_same_intrinsics_on_both_sides_are_fair(task: Path) -> None:
    for name in ("baseline.py", "candidate.py"):
        (task / name).write_text((task / name).read_text() + "SRC = '__expf(x)'\n")
    assert "FAST_INTRINSICS" not in rules(audit(task))


def with_flags(task: Path, baseline: str, candidate: str) -> set[str]:
    """Rules after both sides get a build script."""
    for side, flags in (("baseline", baseline), ("candidate", candidate)):
        (task / f"{side}_build.py").write_text(f"load(name='k', sources=[], extra_cuda_cflags={flags})\n")
    edit(
        task / "task.json",
        lambda t: t.update(build={"baseline": ["baseline_build.py"], "candidate": ["candidate_build.py"]}),
    )
    return rules(audit(task))


def test_fast_math_on_one_side_is_void_and_on_both_sides_fair(task: Path) -> None:
    assert "COMPILE_FLAGS_DIFFER" in with_flags(task, "['-O3']", "['-O3', '--use_fast_math']")
    assert "COMPILE_FLAGS_DIFFER" in with_flags(task, "['-O2']", "['-O3']")
    assert not {"COMPILE_FLAGS_DIFFER", "COMPILE_FLAGS_OTHER"} & with_flags(
        task, "['-use_fast_math']", "['--use_fast_math']"
    )
    assert "COMPILE_FLAGS_OTHER" in with_flags(task, "['-O3']", "['-O3', '--expt-relaxed-constexpr']")


def test_flags_come_from_compile_commands_and_ninja_too(task: Path) -> None:
    (task / "b").mkdir()
    (task / "b" / "compile_commands.json").write_text(
        json.dumps([{"command": "nvcc -O3 -c k.cu -I/x", "file": "k.cu"}])
    )
    (task / "build.ninja").write_text("cuda_cflags = -O3 --ftz=true -I/y\n")
    edit(
        task / "task.json",
        lambda t: t.update(build={"baseline": ["b/compile_commands.json"], "candidate": ["build.ninja"]}),
    )
    found = {r[0]: r[3] for r in audit(task).tables["findings"].rows}
    assert found["COMPILE_FLAGS_DIFFER"] == "-ftz=true (candidate only)"


def test_another_signature_and_a_lighter_wrapper_are_seen(task: Path) -> None:
    file = task / "candidate.py"
    file.write_text(file.read_text().replace("def kernel(x, out)", "def kernel(x, out, cache=None)"))
    assert "ABI_DIFFERS" in rules(audit(task))
    file.write_text("def kernel(x, out):\n    out[...] = x\n")
    assert "WRAPPER_DIFFERS" in rules(audit(task))


def test_buckets_must_be_disjoint_exhaustive_and_have_a_fallback(task: Path) -> None:
    def buckets(*items: dict[str, Any]) -> set[str]:
        edit(task / "task.json", lambda t: t.update(buckets=list(items)))
        return rules(audit(task))

    low = {"name": "low", "predicate": "m < 65", "path": "a", "fallback": "g"}
    high = {"name": "high", "predicate": "m > 65", "path": "g", "fallback": "g"}
    assert "BUCKET_GAP" in buckets(low, high)
    assert "BUCKET_OVERLAP" in buckets(low, {**high, "predicate": "m >= 64"})
    assert "BUCKET_NO_FALLBACK" in buckets(low, {**high, "predicate": "m >= 65", "fallback": None})
    assert "NO_OP_WITHOUT_EVIDENCE" in buckets({**low, "no_op": True}, {**high, "predicate": "m >= 65"})


def test_one_shape_alone_is_suspect(task: Path) -> None:
    edit(task / "task.json", lambda t: t.update(rows=t["rows"][:1]))
    assert "SINGLE_SHAPE" in rules(audit(task))


def test_an_end_to_end_claim_may_rest_on_a_gap_verdict(task: Path) -> None:
    (task / "gap.json").write_text(json.dumps({"overall": {"verdict": "ahead"}}))
    edit(
        task / "task.json", lambda t: t["claim"].update(kind="model_e2e", gap_report="gap.json", kernel_in_trace="silu")
    )
    assert "CLAIM_E2E" not in rules(audit(task))
    (task / "gap.json").write_text(json.dumps({"overall": {"verdict": "inconclusive"}}))
    assert "CLAIM_E2E" in rules(audit(task))


def test_run_refuses_a_task_that_changed_since_the_lock(task: Path) -> None:
    edit(task / "task.json", lambda t: t["rows"].pop())
    with pytest.raises(GateRefused, match="locked and changed"):
        run(task)


def test_run_refuses_results_without_a_lock(task: Path) -> None:
    (task / "lock.json").unlink()
    with pytest.raises(GateRefused, match="not fixed before"):
        run(task)


def test_run_says_which_file_cannot_be_used(tmp_path: Path) -> None:
    new(tmp_path / "t")
    (tmp_path / "t" / "candidate.py").write_text("def kernel(:\n")
    with pytest.raises(InputUnusable, match="SyntaxError"):
        run(tmp_path / "t")
    with pytest.raises(InputUnusable, match="has no task"):
        run(tmp_path)


def test_new_never_writes_over_something(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(UsageFault, match="empty"):
        new(tmp_path)


def test_a_bad_task_names_its_field(tmp_path: Path) -> None:
    new(tmp_path / "t")
    edit(tmp_path / "t" / "task.json", lambda t: t["rows"][0].update(kind="fun"))
    with pytest.raises(InputUnusable, match=r"rows\.0\.kind"):
        audit(tmp_path / "t")


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("m <= 64 and n % 128 == 0", True),
        ("not (m > 3)", False),
        ("m in (64, 65)", True),
        ("1 < m < 100", True),
        ("-m < 0 or n", True),
    ],
)
def test_predicates_are_small_expressions(expression: str, wanted: bool) -> None:
    assert holds(expression, {"m": 64, "n": 256}) is wanted


@pytest.mark.parametrize(
    "expression", ["__import__('os')", "m.__class__", "open('x')", "m <", "q > 1", "m / 0 > 1", "[x for x in n]"]
)
def test_predicates_cannot_do_anything_else(expression: str) -> None:
    with pytest.raises(InputUnusable):
        holds(expression, {"m": 64, "n": 256})


# --- serving results

CONTRACT = {
    "name": "c",
    "point": {},
    "grid": {"scenarios": [{"name": "chat", "input_len": 10, "output_len": 10}]},
    "sla": {},
    "client": {},
    "engines": [{"framework": "sglang", "max_runs": 4, "max_minutes": 60}],
}


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    """A run folder with a locked contract, one decision row and its result file."""
    folder = tmp_path / "serving"
    lock = contracts.lock_once(folder / "contract.json", "benchmark_contract", CONTRACT)
    result = folder / "raw.json"
    result.write_text("{}")
    from infer_forge.base.jsonio import sha256_file

    Ledger(folder / "candidates.jsonl").append("row", row(lock.sha256, str(result), sha256_file(result)))
    return folder


def row(contract: str, path: str, sha: str, **over: Any) -> dict[str, Any]:
    """A decision row as the ledger keeps it."""
    return {
        "purpose": "decision",
        "contract_hash": contract,
        "started_at": "2999-01-01T00:00:00Z",
        "workload": {"scenario": "chat", "measured_output_tokens": 100},
        "metrics": {"duration_s": 10.0, "output_token_throughput_per_s": 10.0},
        "source": {"path": path, "sha256": sha},
        **over,
    }


def test_a_serving_result_in_order_is_clean(serving: Path) -> None:
    report = audit(serving)
    assert report.extra["verdict"] == "clean", report.render("text")
    assert report.extra["subject"] == "serving result"


def test_serving_results_that_were_touched_are_void(serving: Path) -> None:
    (serving / "raw.json").write_text('{"better": 1}')
    assert "RESULT_EDITED" in rules(audit(serving))
    (serving / "raw.json").unlink()
    assert "RESULT_GONE" in rules(audit(serving))
    ledger = serving / "candidates.jsonl"
    ledger.write_text(
        ledger.read_text().replace('"output_token_throughput_per_s":10.0', '"output_token_throughput_per_s":99.0')
    )
    assert "LEDGER_BROKEN" in rules(audit(serving))


@pytest.mark.parametrize(
    ("over", "rule"),
    [
        ({"contract_hash": "0" * 64}, "FOREIGN_CONTRACT"),
        ({"workload": {"scenario": "easy"}}, "SCENARIO_ADDED"),
        ({"started_at": "2001-01-01T00:00:00Z"}, "LOCKED_AFTER_RESULTS"),
        ({"server_env": {"SGLANG_SIMULATE_ACC_LEN": "3"}}, "ACCEPTANCE_SIMULATED"),
        ({"metrics": {"duration_s": 10.0, "output_token_throughput_per_s": 25.0}}, "FIGURES_DISAGREE"),
    ],
)
def test_rows_that_do_not_belong_are_named(serving: Path, over: dict[str, Any], rule: str) -> None:
    lock = contracts.read_lock(serving / "contract.json")
    Ledger(serving / "candidates.jsonl").append("row", row(lock.sha256, "", "", **over))
    assert rule in rules(audit(serving))


def test_an_edited_contract_and_a_dropped_scenario_are_seen(serving: Path) -> None:
    file = serving / "contract.json"
    file.chmod(0o644)
    file.write_text(file.read_text().replace('"input_len": 10', '"input_len": 11'))
    assert "WORKLOAD_CHANGED" in rules(audit(serving))


def test_a_scenario_without_a_decision_row_is_dropped(tmp_path: Path) -> None:
    contracts.lock_once(tmp_path / "c.json", "benchmark_contract", CONTRACT)
    assert "SCENARIO_DROPPED" in rules(audit(tmp_path))


def test_an_empty_folder_is_neither(tmp_path: Path) -> None:
    with pytest.raises(InputUnusable, match="neither"):
        audit(tmp_path)
