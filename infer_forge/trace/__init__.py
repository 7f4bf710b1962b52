"""The trace room: a torch-profiler trace becomes columns, read once and cached.

Verbs: `load(path, cache=True) -> Trace`, `load_many(paths, cache=True) -> TraceSet`, `apply_mapping(trace, capture) -> Trace`.
Types are in `infer_forge.trace.model`.
"""

from infer_forge.base.lazy import attach

__getattr__, __dir__ = attach(
    __name__,
    {
        "load": "read",
        "load_many": "many",
        "apply_mapping": "mapping",
        "clear_cache": "cache",
    },
)
