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
    },
)
