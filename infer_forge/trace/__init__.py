"""The trace room: a torch-profiler trace becomes columns, read once and cached.

Verbs: `load(path, cache=True) -> Trace`, `load_many(paths, cache=True) -> TraceSet` (directories, ranks, merged files),
`load_on_cluster(paths, address) -> TraceSet` (the same on an existing Dask cluster),
`apply_mapping(trace, capture) -> Trace`, `captured_graphs(trace)` (empty unless a trace shows the capture of CUDA graphs),
`require_device_work(trace)` (refuses with the reason), `no_work_reason(trace)`, `clear_cache()`.
Types are in `infer_forge.trace.model`.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.trace.cache import clear_cache
    from infer_forge.trace.cluster import load_on_cluster
    from infer_forge.trace.many import load_many
    from infer_forge.trace.mapping import apply_mapping, captured_graphs
    from infer_forge.trace.read import load, no_work_reason, require_device_work


__all__ = [
    "apply_mapping",
    "captured_graphs",
    "clear_cache",
    "load",
    "load_many",
    "load_on_cluster",
    "no_work_reason",
    "require_device_work",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "load": "read",
        "load_many": "many",
        "load_on_cluster": "cluster",
        "apply_mapping": "mapping",
        "clear_cache": "cache",
        "no_work_reason": "read",
        "require_device_work": "read",
        "captured_graphs": "mapping",
    },
)
