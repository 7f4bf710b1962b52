"""SGLang diffusion performance dumps (`sglang generate --perf-dump-path`): one request, its stages and denoising steps.

`total_duration_ms` is the whole request; `steps` are the pipeline stages by class name, `denoise_steps_ms` the denoising
steps; `memory_checkpoints` hold MB (2**20 bytes). What was generated stands in `meta`, as far as the caller put it
there. Source: sglang `multimodal_gen/runtime/utils/perf_logger.py`.
"""

from __future__ import annotations

import statistics
from typing import Any, cast

from infer_forge.bench import read_common as rc
from infer_forge.bench.model import Diffusion, Quality, Row

TOOL = "sglang.diffusion_perf_dump"

_META = {
    "width": ("width",), "height": ("height",), "frames": ("num_frames", "frames"),
    "steps": ("num_inference_steps", "steps"), "seed": ("seed",), "sequence_parallel": ("sp_degree", "ulysses_degree", "sp_size"),
    "tensor_parallel": ("tp_size",),
}  # fmt: skip


def matches(document: rc.Document) -> bool:
    """Whether the keys are those of a diffusion dump."""
    return {"total_duration_ms", "denoise_steps_ms"} <= document.keys() and isinstance(document.get("steps"), list)


def read(document: rc.Document, row: Row) -> None:
    """Fill a row from one dump."""
    f = rc.Fields(document, row.notes)
    row.kind = "diffusion"
    row.framework = "sglang"
    commit = f.text("commit_hash")
    row.framework_commit = commit if commit != "N/A" else None
    row.run_id = f.text("request_id")
    row.started_at = f.text("timestamp")
    d = Diffusion(end_to_end_ms=f.number("total_duration_ms"))
    _stages(f, d)
    _memory(f, d)
    meta = f.child("meta")
    if meta is not None:
        _meta(meta, row, d)
        d.quality = _quality(meta)
    timed = f.raw("denoise_steps_ms")
    if isinstance(timed, list) and timed:
        row.workload.parameters["timed_steps"] = len(cast("list[Any]", timed))
    row.diffusion = d
    row.workload.kind = "diffusion"
    row.metrics.duration_s = d.end_to_end_ms / 1000.0 if d.end_to_end_ms is not None else None
    row.metrics.e2e_ms.mean = d.end_to_end_ms


def _timed(f: rc.Fields, key: str, name_key: str) -> list[tuple[str, float]]:
    value = f.raw(key)
    out: list[tuple[str, float]] = []
    for item in cast("list[Any]", value) if isinstance(value, list) else []:
        if isinstance(item, dict):
            entry = rc.Fields(cast("rc.Document", item), f.notes, f"{key}.")
            duration = entry.number("duration_ms")
            if duration is not None:
                out.append((rc.clean(str(entry.raw(name_key)), 80), duration))
    return out


def _stages(f: rc.Fields, d: Diffusion) -> None:
    stages = _timed(f, "steps", "name")
    d.stages_ms = dict(stages[:64])
    denoise = [
        ms for name, ms in stages if name.endswith(("DenoisingStage", "RefinementStage")) and "Before" not in name
    ]
    steps = [ms for _, ms in _timed(f, "denoise_steps_ms", "step")]
    d.denoise_ms = sum(denoise) if denoise else (sum(steps) if steps else None)
    d.denoise_step_p50_ms = statistics.median(steps) if steps else None
    vae = [ms for name, ms in stages if "Decoding" in name or "VAE" in name.upper()]
    d.vae_ms = sum(vae) if vae else None
    text = [ms for name, ms in stages if "TextEncod" in name]
    d.text_encode_ms = sum(text) if text else None
    if steps:
        d.steps = len(steps)


def _memory(f: rc.Fields, d: Diffusion) -> None:
    points = f.child("memory_checkpoints")
    peaks: list[float] = []
    for name in list(points.document) if points is not None else []:
        point = points.child(name) if points is not None else None
        peak = point.number("peak_reserved_mb") if point is not None else None
        if peak is not None and peak > 0:
            peaks.append(peak)
    d.peak_memory_bytes = int(max(peaks) * 2**20) if peaks else None


def _meta(meta: rc.Fields, row: Row, d: Diffusion) -> None:
    row.model = meta.text("model", "model_path")
    for field, keys in _META.items():
        value = meta.count(*keys)
        if value is not None:
            setattr(d, field, value)
    d.guidance_scale = meta.number("guidance_scale")
    if d.guidance_scale is None:
        d.guidance_scale = meta.number("true_cfg_scale")
    cfg = meta.raw("enable_cfg_parallel")
    d.cfg_parallel = (2 if cfg else 1) if isinstance(cfg, bool) else meta.count("cfg_parallel_degree")
    d.compiled = meta.flag("enable_torch_compile")
    d.warmed_up = meta.flag("warmup")
    teacache = meta.flag("enable_teacache")
    d.step_cache = None if teacache is None else "teacache" if teacache else "none"
    d.fallback = meta.text("fallback")
    offload = [meta.flag(k) for k in list(meta.document) if k.endswith("offload")]
    known = [o for o in offload if o is not None]
    d.offload = any(known) if known else None
    row.hardware.gpu_count = meta.count("num_gpus")
    row.workload.parameters = meta.rest(known=("prompt", "quality"))


def _quality(meta: rc.Fields) -> Quality:
    """What the caller compared itself: `quality` with psnr_db, ssim and the hashes of output and reference."""
    told = meta.child("quality")
    if told is None:
        return Quality()
    return Quality(
        reference_sha256=told.text("reference_sha256"),
        output_sha256=told.text("output_sha256"),
        psnr_db=told.number("psnr_db"),
        ssim=told.number("ssim"),
    )
