"""Benchmarks: result files become canonical rows, rows are checked, ranked, and decide a gap; contract, workload and search."""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.bench.baseline_lock import lock_baseline, read_baseline
    from infer_forge.bench.checks import check_report, check_rows
    from infer_forge.bench.contract_lock import lock_contract, read_contract
    from infer_forge.bench.fairness import diagnose, fairness_report
    from infer_forge.bench.gap import Request, decide_gap, gap_report
    from infer_forge.bench.importing import import_report, read_rows
    from infer_forge.bench.ledger_rows import RowStore
    from infer_forge.bench.model import Row, row_schema
    from infer_forge.bench.pilot import estimate_noise
    from infer_forge.bench.rank import rank_report
    from infer_forge.bench.read import import_file
    from infer_forge.bench.run_layout import layout
    from infer_forge.bench.search import remeasure, run_search
    from infer_forge.bench.search_config import load_config
    from infer_forge.bench.workload import verify_workload, write_workload


__all__ = [
    "Request",
    "Row",
    "RowStore",
    "check_report",
    "check_rows",
    "decide_gap",
    "diagnose",
    "estimate_noise",
    "fairness_report",
    "gap_report",
    "import_file",
    "import_report",
    "layout",
    "load_config",
    "lock_baseline",
    "lock_contract",
    "rank_report",
    "read_baseline",
    "read_contract",
    "read_rows",
    "remeasure",
    "row_schema",
    "run_search",
    "verify_workload",
    "write_workload",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Row": "model",
        "row_schema": "model",
        "import_file": "read",
        "import_report": "importing",
        "read_rows": "importing",
        "check_rows": "checks",
        "check_report": "checks",
        "rank_report": "rank",
        "diagnose": "fairness",
        "fairness_report": "fairness",
        "Request": "gap",
        "decide_gap": "gap",
        "gap_report": "gap",
        "write_workload": "workload",
        "verify_workload": "workload",
        "estimate_noise": "pilot",
        "lock_contract": "contract_lock",
        "read_contract": "contract_lock",
        "lock_baseline": "baseline_lock",
        "read_baseline": "baseline_lock",
        "load_config": "search_config",
        "run_search": "search",
        "remeasure": "search",
        "layout": "run_layout",
        "RowStore": "ledger_rows",
    },
)
