"""The dimensions of the index. Here they stand once, in a module that costs nothing to import: every door names them."""

DIMENSIONS = (
    "model",
    "model_arch",
    "task_type",
    "gpu",
    "framework",
    "framework_rev",
    "topology",
    "precision",
    "workload",
    "scenario",
    "metric",
    "verdict",
    "claim",
    "kernel_family",
    "topic",
    "author",
)
"""Dimensions that a record may name itself; each takes one value or several."""

FACETS = ("kind", *DIMENSIONS, "gpu_count", "date", "epoch", "task")
"""Dimensions that are counted, in the order in which they are shown; a date is counted by month."""

FILTERS = (*FACETS, "contract")
"""Dimensions that can be filtered by. Contracts are not counted: their hashes tell a reader nothing."""
