"""Benchmarks: result files become canonical rows, rows are checked, ranked, and decide a gap; contract, workload and search."""

from infer_forge.base.lazy import attach

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
