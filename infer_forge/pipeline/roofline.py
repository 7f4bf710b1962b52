"""Achieved share of the GPU's peak, kernel by kernel: from the op's dims where they were recorded, else from the config.

What a kernel does is known in two ways. *dims*: the CPU op that launched it says its shapes and types (an own figure, exact).
*config*: the model's sizes and the step's tokens give the operator (`infer_forge.pipeline.cost`); the longest kernels of an
operator's family in a half stand for it. Everything else stays unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from infer_forge.base import jsonio
from infer_forge.base.kernels import GpuPeaks, gpu_peaks
from infer_forge.engines.annotations import parse
from infer_forge.pipeline.cost import Cost, Load, Split, layer_costs
from infer_forge.pipeline.flow import Row
from infer_forge.pipeline.model import Lane, Pass
from infer_forge.pipeline.model_config import ModelShape

_SIZES = {
    "double": 8,
    "float": 4,
    "float32": 4,
    "c10::bfloat16": 2,
    "bfloat16": 2,
    "c10::half": 2,
    "half": 2,
    "c10::float8_e4m3fn": 1,
    "c10::float8_e5m2": 1,
    "c10::float8_e4m3fnuz": 1,
    "signed char": 1,
    "unsigned char": 1,
    "int": 4,
    "long": 8,
    "long int": 8,
    "bool": 1,
}
_PRODUCTS = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1, "_scaled_mm": 0, "linear": 0, "matmul": 0}
"""Ops that are one product; the number is where the first factor stands."""
_STREAMED = frozenset({"norm", "activation", "elementwise", "copy", "quantization", "softmax", "rope", "reduce"})
"""Categories whose work is bounded by reading the inputs and writing one of them."""


@dataclass
class Coverage:
    """How much of the flow's device time has a figure, by its basis, and what lies above the peak."""

    by_dims_ns: float = 0.0
    by_config_ns: float = 0.0
    total_ns: float = 0.0
    above: list[str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Shares of device time, for the header."""
        whole = self.total_ns or 1.0
        return {
            "device_time_pct": round(100 * (self.by_dims_ns + self.by_config_ns) / whole, 2),
            "from_dims_pct": round(100 * self.by_dims_ns / whole, 2),
            "from_config_pct": round(100 * self.by_config_ns / whole, 2),
        }


def peaks_of(lane: Lane) -> GpuPeaks | None:
    """Peaks of the lane's GPU, by its name; by compute capability for NVIDIA only."""
    header = lane.trace.header
    for device in header.devices:
        if device.get("id") not in (None, lane.device) and len(header.devices) > lane.device >= 0:
            continue
        name = str(device.get("name") or "")
        found = gpu_peaks(name) if name else None
        if found is None and header.vendor == "nvidia" and device.get("computeMajor") is not None:
            found = gpu_peaks(f"{device['computeMajor']}.{device.get('computeMinor', 0)}")
        if found is not None:
            return found
    return None


def _sums(p: Pass, lane: Lane) -> dict[str, int]:
    """Context sums of the pass's annotation, else of one that stands around it on the host (as patched profilers write them)."""
    parsed = parse(p.step) if p.step else None
    if parsed is None or parsed.sums or p.window < 0:
        return parsed.sums if parsed else {}
    marks, begin = lane.trace.annotations, int(lane.trace.windows.host_start_ns[p.window])
    if begin < 0:
        return {}
    around = (~marks.gpu) & (marks.ts_ns <= begin) & (begin <= marks.ts_ns + marks.dur_ns)
    names: list[int] = marks.name[np.flatnonzero(around)].tolist()
    for name in names:
        outer = parse(lane.trace.names[name])
        if outer is not None and outer.sums and outer.stage == parsed.stage and outer.batch == parsed.batch:
            return outer.sums
    return {}


def load_of(p: Pass, lane: Lane) -> Load | None:
    """What a pass had to do, as far as its annotation says: pairs and cached tokens only from the sums of detailed ones."""
    tokens = p.tokens if p.tokens is not None else (p.batch if p.stage == "decode" and p.kind != "verify" else None)
    if tokens is None or p.batch is None:
        return None
    sums = _sums(p, lane)
    pairs, cached = 0.0, 0.0
    known = False
    for side in ("context", "generation"):
        if f"{side}_sqsk" in sums and f"{side}_sk" in sums:
            known = True
            sq, sqsq = sums.get(f"{side}_sq", 0), sums.get(f"{side}_sqsq", 0)
            pairs += sums[f"{side}_sqsk"] - (sqsq - sq) / 2
            cached += sums[f"{side}_sk"]
    return Load(tokens, p.batch, pairs if known else None, cached if known else None)


def assess(rows: list[Row], lane: Lane, p: Pass, label_index: int, shape: ModelShape | None, split: Split) -> Coverage:
    """Fill `roofline_pct` of the flow's rows. `split` is the parallelism of the run."""
    peaks = peaks_of(lane)
    found = Coverage(total_ns=sum(r.dur_ns for r in rows), above=[])
    if peaks is None:
        return found
    assigned = _assigned(rows, p, lane, label_index, shape, split)
    for row in rows:
        cost, basis = _from_dims(row) or _from_message(row, lane), "dims"
        if cost is None:
            cost, basis = assigned.get(row.order), "config"
        if cost is None or not row.dur_ns:
            continue
        floor, _ = cost.floor_s(peaks)
        if not floor:
            continue
        row.roofline_pct = round(100 * floor * 1e9 / row.dur_ns, 2)
        if basis == "dims":
            found.by_dims_ns += row.dur_ns
        else:
            found.by_config_ns += row.dur_ns
        if row.roofline_pct > 100 and found.above is not None:
            found.above.append(f"{row.kernel[:50]} ({row.roofline_pct:.0f} %, {basis})")
    return found


def _from_message(row: Row, lane: Lane) -> Cost | None:
    """A collective whose kernel carries its message: bytes over the link by the bound of ring algorithms (of NCCL's tests)."""
    at = int(lane.trace.work.collective[row.row])
    if row.category != "communication" or at < 0:
        return None
    c = lane.trace.collectives[at]
    size, count = (
        _SIZES.get(c.dtype.lower().removeprefix("c10::")) or _SIZES.get(f"c10::{c.dtype.lower()}"),
        c.group_size,
    )
    if size is None or not count or count < 2:
        return None
    name, share = c.op.lower().replace("_", ""), (count - 1) / count
    if "allreduce" in name and c.in_elements:
        link = 2 * share * c.in_elements * size
    elif "allgather" in name and c.out_elements:
        link = share * c.out_elements * size
    elif "reducescatter" in name and c.in_elements:
        link = share * c.in_elements * size
    else:
        return None
    return Cost("communication", c.op, 0, link_bytes=link)


def _from_dims(row: Row) -> Cost | None:
    if row.dims is None or row.op is None:
        return None
    try:
        shapes = cast("list[Any]", jsonio.loads(row.dims))
        types = [str(t) for t in cast("list[Any]", jsonio.loads(row.dtypes or "[]"))]
    except Exception:
        return None
    op = row.op.rpartition("::")[2]
    tensors = [(s, types[k] if k < len(types) else "") for k, s in enumerate(shapes) if _dims(s)]
    if row.category == "gemm" and op in _PRODUCTS:
        return _product(op, shapes, types)
    if row.category in _STREAMED and tensors:
        if row.category == "rope":  # of the table of angles only the rows of the step's positions are read
            tokens = next((s[0] for s, _ in tensors if len(s) > 1), 0)
            tensors = [(s, t) for s, t in tensors if s[0] == tokens and len(s) > 1]
        sizes = [_numel(s) * _SIZES.get(t.lower(), 0) for s, t in tensors]
        if not sizes or not all(sizes):
            return None
        return Cost(row.category, op, 0, activation_bytes=sum(sizes) + max(sizes))
    return None


def _dims(value: Any) -> bool:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return bool(items) and all(isinstance(x, int) for x in items)


def _numel(dims: list[int]) -> int:
    n = 1
    for d in dims:
        n *= d
    return n


def _product(op: str, shapes: list[Any], types: list[str]) -> Cost | None:
    at = _PRODUCTS[op]
    if len(shapes) < at + 2 or not (_dims(shapes[at]) and _dims(shapes[at + 1])):
        return None
    a, b = cast("list[int]", shapes[at]), cast("list[int]", shapes[at + 1])
    if len(a) < 2 or len(b) < 2:
        return None
    k = a[-1]
    n = b[-2] if op == "linear" else b[-1]
    if (b[-1] if op == "linear" else b[-2]) != k:
        return None
    m = _numel(a) // k if k else 0
    batch = _numel(b[:-2]) if len(b) > 2 else 1
    kind = types[at].lower() if at < len(types) else ""
    size = _SIZES.get(kind)
    if size is None:
        return None
    dtype = {8: "fp64", 4: "tf32", 2: "bf16", 1: "fp8"}[size]
    return Cost("gemm", op, 2.0 * m * n * k, batch * k * n * size, activation_bytes=(m * k + m * n) * size, dtype=dtype)


def _assigned(
    rows: list[Row], p: Pass, lane: Lane, number: int, shape: ModelShape | None, split: Split
) -> dict[int, Cost]:
    """Operators of the config given to kernels: by half, category and order, the longest first where there are more kernels."""
    load = load_of(p, lane)
    if shape is None or load is None or number >= len(shape.types) or shape.hidden is None:
        return {}
    costs = layer_costs(shape, shape.types[number], load, split)
    found: dict[int, Cost] = {}
    for half in ("attn", "ffn"):
        mine = [r for r in rows if r.half == half]
        _give(found, _category(mine, "communication"), [c for c in costs if c.operator == f"{half} all-reduce"])
        _give(found, _category(mine, "moe"), [c for c in costs if c.family == "moe" and half == "ffn"])
        wanted = [c for c in costs if c.family in ("attention", "mla", "linear_attention") and half == "attn"]
        _give(found, [r for r in mine if r.category in ("attention", "mla", "linear_attention")], wanted)
        gemms = [c for c in costs if c.family == "gemm" and (_of_attention(c.operator) == (half == "attn"))]
        _give_gemms(found, mine, gemms)
        _give(
            found,
            _category(mine, "norm")[:1],
            [c for c in costs if c.operator == ("input norm" if half == "attn" else "post-attention norm")],
        )
        _give(found, _category(mine, "activation"), [c for c in costs if c.family == "activation"])
        _give(found, _category(mine, "rope"), [c for c in costs if c.family == "rope" and half == "attn"])
    return found


def _of_attention(operator: str) -> bool:
    return operator in (
        "qkv projection",
        "o projection",
        "kv_a projection",
        "q_a projection",
        "q_b projection",
        "q projection",
        "kv_b projection",
        "qkvz projection",
    )


def _category(rows: list[Row], category: str) -> list[Row]:
    return [r for r in rows if r.category == category]


def _give(found: dict[int, Cost], rows: list[Row], costs: list[Cost]) -> None:
    """As many of the longest kernels as there are operators, in order; nothing where there are fewer kernels than operators."""
    if not costs or len(rows) < len(costs):
        return
    chosen = sorted(sorted(rows, key=lambda r: -r.dur_ns)[: len(costs)], key=lambda r: r.order)
    for row, cost in zip(chosen, costs, strict=True):
        found[row.order] = cost


def _give_gemms(found: dict[int, Cost], mine: list[Row], costs: list[Cost]) -> None:
    """Dense products: only where the half has exactly as many kernels of them as operators (split-K reductions aside)."""
    rows = [
        r
        for r in _category(mine, "gemm")
        if "reduce" not in r.kernel.lower() and "splitkreduce" not in r.kernel.lower()
    ]
    if rows and len(rows) == len(costs):
        order = {
            "qkv projection": 0,
            "qkvz projection": 0,
            "o projection": 9,
            "router": 0,
            "gate and up projection": 1,
            "down projection": 2,
        }
        if any(c.operator not in order for c in costs):
            return
        for row, cost in zip(rows, sorted(costs, key=lambda c: order[c.operator]), strict=True):
            found[row.order] = cost
