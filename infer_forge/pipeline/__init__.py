"""Forward passes, layers, layer clusters and compute flow of any model; Perfetto ranges; roofline and ceiling.

Verbs: `analyse_pipeline(paths, Options) -> Report`, `step_ceiling(...) -> Report`, `read_config(path) -> ModelShape`.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.pipeline.ceilings import step_ceiling
    from infer_forge.pipeline.model import Options
    from infer_forge.pipeline.model_config import read_config
    from infer_forge.pipeline.report import analyse_pipeline

__all__ = ["Options", "analyse_pipeline", "read_config", "step_ceiling"]

__getattr__, __dir__ = attach(
    __name__,
    {"analyse_pipeline": "report", "step_ceiling": "ceilings", "read_config": "model_config", "Options": "model"},
)
