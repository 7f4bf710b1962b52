"""The bench tools of the server: the same answers as the command line, within the size cap, refusals in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base import contracts
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.bench.importing import record
from infer_forge.bench.read import import_file
from infer_forge.kernel_task import new
from infer_forge_mcp.results import ForgeResult, capped
from infer_forge_mcp.tools.bench import audit_evidence, check_results, decide_gap, import_results

SideFiles = Callable[..., list[Path]]


def report(answer: object) -> Report:
    """The answer as a report."""
    assert isinstance(answer, Report)
    return answer


def test_import_keeps_whole_rows_in_an_artifact_and_stays_small(side_files: SideFiles) -> None:
    answer = import_results([str(p) for p in side_files("a", [100.0 + i for i in range(60)])])
    assert isinstance(answer, ForgeResult)
    assert answer.artifact is not None
    assert '"rows"' in Path(answer.artifact.path).read_text()
    assert len(answer.model_dump_json(exclude_none=True)) <= 8000


def test_check_names_rule_and_fix(sglang_file: Any) -> None:
    found = report(check_results([str(sglang_file("z.jsonl", mean_ttft_ms=0.0))]))
    assert found.extra["verdict"] == "fail"
    assert len(capped(found.to_json()).model_dump_json(exclude_none=True)) <= 8000


def test_decide_gap_names_its_target_among_the_sides(side_files: SideFiles) -> None:
    sides = {
        name: [str(p) for p in side_files(name, rates)]
        for name, rates in (("b", [100.0] * 5), ("a", [90.0, 91, 90, 91, 90]))
    }
    found = report(decide_gap("a", sides))
    assert found.extra["overall"]["verdict"] == "behind"
    with pytest.raises(UsageFault, match="none of the sides"):
        decide_gap("c", sides)


def test_decide_gap_takes_the_contracts_own_rows(side_files: SideFiles, tmp_path: Path) -> None:
    engines = [{"framework": name, "max_runs": 4, "max_minutes": 60} for name in ("sglang", "vllm")]
    grid = {"scenarios": [{"name": "chat", "input_len": 1000, "output_len": 1000}]}
    lock = contracts.lock_once(
        tmp_path / "run" / "contract.json",
        "benchmark_contract",
        {"name": "c", "point": {}, "grid": grid, "sla": {}, "client": {}, "engines": engines},
    )
    context = {"contract_hash": lock.sha256, "purpose": "decision", "workload.scenario": "chat"}
    for name, rates in (("sglang", [90.0, 91, 90, 91, 90]), ("vllm", [100.0] * 5)):
        for path in side_files(name, rates):
            rows = import_file(
                path, context={**context, "framework": name, "candidate_id": f"{name}-w", "launch_id": path.name}
            ).rows
            record(rows, tmp_path / "run" / "candidates.jsonl")
    found = report(decide_gap("sglang", {"sglang": [], "vllm": []}, contract=str(tmp_path / "run" / "contract.json")))
    row = found.tables["gap"].dicts()[0]
    assert (row["verdict"], row["n_pairs"], row["decides"]) == ("void_fairness", 5, False)
    assert "E1" in row["reason"]
    record(
        import_file(
            side_files("x", [95.0])[0], context={**context, "framework": "vllm", "candidate_id": "vllm-other"}
        ).rows,
        tmp_path / "run" / "candidates.jsonl",
    )
    with pytest.raises(InputUnusable, match="several candidates"):
        decide_gap("sglang", {"sglang": [], "vllm": []}, contract=str(tmp_path / "run" / "contract.json"))


def test_audit_judges_a_kernel_task(tmp_path: Path) -> None:
    new(tmp_path / "t")
    found = report(audit_evidence(str(tmp_path / "t")))
    assert found.extra["verdict"] == "suspect"
    assert [r[0] for r in found.tables["findings"].rows] == ["NO_LOCK", "NO_RESULTS"]
