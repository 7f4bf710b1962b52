"""Layers of a pass with their times by category, and layers that are made alike as clusters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from infer_forge.base.kernels import classify
from infer_forge.pipeline.model import Lane, Layer, Pass
from infer_forge.pipeline.model_config import ModelShape
from infer_forge.pipeline.roles import numbers
from infer_forge.pipeline.segment import Template

OUTLIER_PCT = 15.0
"""A layer whose wall differs from its cluster's median by more is an outlier (and by more than three median deviations)."""


@dataclass
class LayerTime:
    """Times of one layer, medians over the passes that were looked at."""

    number: int
    label: str
    templates: tuple[int, ...]
    wall_ns: float
    device_ns: float
    by_category: dict[str, float]
    kernels: int
    exact: bool
    """Made of its halves kernel by kernel, in every pass that was looked at."""


@dataclass
class Cluster:
    """Layers made of the same halves (and of the same type, where the config says it)."""

    number: int
    label: str
    templates: tuple[int, ...]
    layers: list[LayerTime]
    variants: list[int] = field(default_factory=list[int])
    """Edge layers that differ in a kernel or two, such as the first one's norm."""

    @property
    def wall_ns(self) -> float:
        """Median wall of its layers."""
        return median(x.wall_ns for x in self.layers)

    @property
    def device_ns(self) -> float:
        """Median device time of its layers."""
        return median(x.device_ns for x in self.layers)

    @property
    def total_ns(self) -> float:
        """Device time of all its layers."""
        return sum(x.device_ns for x in self.layers)

    @property
    def spread_pct(self) -> float:
        """Half the distance between the 5th and the 95th percentile of wall, as a share of the median."""
        walls = np.array([x.wall_ns for x in self.layers])
        low, high = np.percentile(walls, [5, 95])
        return round(50.0 * float(high - low) / self.wall_ns, 2) if self.wall_ns else 0.0

    def outliers(self) -> list[int]:
        """Layers whose wall stands out."""
        middle = self.wall_ns
        deviation = median(abs(x.wall_ns - middle) for x in self.layers)
        bar = max(OUTLIER_PCT / 100 * middle, 3 * deviation)
        return [x.number for x in self.layers if abs(x.wall_ns - middle) > bar]


def layer_times(lane: Lane, passes: list[Pass], shape: ModelShape | None) -> list[LayerTime]:
    """Layers with the medians of the given passes (all of the same layers)."""
    each: dict[int, list[tuple[Layer, float, float, dict[str, float]]]] = {}
    for p in passes:
        for layer in p.layers:
            each.setdefault(layer.number, []).append((layer, *_times(lane, layer)))
    found: list[LayerTime] = []
    for number, seen in sorted(each.items()):
        kinds = Counter(s[0].templates for s in seen).most_common(1)[0][0]
        categories = sorted({c for s in seen for c in s[3]})
        found.append(
            LayerTime(
                number,
                label_of(number, kinds, lane.templates, lane, shape),
                kinds,
                median(s[1] for s in seen),
                median(s[2] for s in seen),
                {c: median(s[3].get(c, 0.0) for s in seen) for c in categories},
                round(median(len(s[0].rows) for s in seen)),
                all(s[0].exact for s in seen),
            )
        )
    return found


def _times(lane: Lane, layer: Layer) -> tuple[float, float, dict[str, float]]:
    work = lane.trace.work
    if not len(layer.rows):
        return 0.0, 0.0, {}
    start, dur, name = work.ts_ns[layer.rows], work.dur_ns[layer.rows], work.name[layer.rows]
    by: dict[str, float] = {}
    for n, d in zip(name.tolist(), dur.tolist(), strict=True):
        category = classify(lane.trace.names[int(n)])
        by[category] = by.get(category, 0.0) + d
    return float((start + dur).max() - start.min()), float(dur.sum()), by


def label_of(
    number: int, kinds: tuple[int, ...], templates: list[Template], lane: Lane, shape: ModelShape | None
) -> str:
    """Type of a layer: the config's where its count fits, else what its kernels show."""
    if shape and shape.layers and number < len(shape.types) and _agrees(lane, shape):
        return shape.types[number].label
    if shape and shape.layers and shape.drafts and shape.layers <= number < shape.layers + shape.drafts:
        return "MTP"
    seen = {classify(lane.trace.names[n]) for t in kinds for n in templates[t].names}
    mixer = next(
        (
            label
            for c, label in (("linear_attention", "LINEAR_ATTN"), ("mla", "MLA"), ("attention", "ATTN"))
            if c in seen
        ),
        "ATTN" if "softmax" in seen else "",
    )
    feed = "HASH" if "hash" in seen else "MOE" if "moe" in seen else "DENSE" if "activation" in seen else ""
    return "+".join(x for x in (mixer, feed) if x) or "UNKNOWN"


def _agrees(lane: Lane, shape: ModelShape) -> bool:
    whole = [p for p in lane.passes if p.layers and not p.partial]
    counts = {len(p.layers) for p in whole}
    if any(p.given and p.layers[-1].number < len(shape.types) for p in whole):
        return not lane.against
    return bool(counts & {shape.layers, (shape.layers or 0) + shape.drafts}) and not lane.against


def cluster(layers: list[LayerTime], templates: list[Template], shape: ModelShape | None = None) -> list[Cluster]:
    """Clusters in the order of their device time; edge layers that differ little join their neighbours'."""
    groups: dict[tuple[str, tuple[int, ...]], list[LayerTime]] = {}
    for layer in layers:
        groups.setdefault((layer.label, layer.templates), []).append(layer)
    found = [Cluster(0, label, kinds, members) for (label, kinds), members in groups.items()]
    found.sort(key=lambda c: -len(c.layers))
    bar = numbers("learning")["variant_similarity"]
    kept: list[Cluster] = []
    for one in found:
        home = next((c for c in kept if _near(one, c, templates, bar, shape is not None)), None)
        if home is not None and len(one.layers) <= max(2, 0.15 * len(home.layers)):
            home.variants += [x.number for x in one.layers]
            home.layers += one.layers
        else:
            kept.append(one)
    kept.sort(key=lambda c: -c.total_ns)
    for k, one in enumerate(kept):
        one.number = k
        one.layers.sort(key=lambda x: x.number)
        inner = {x.kernels for x in one.layers[1:-1]}
        ends = (one.layers[0], one.layers[-1])
        one.variants += [
            x.number for x in ends if len(inner) == 1 and x.kernels not in inner and x.number not in one.variants
        ]
        one.variants.sort()
    return kept


def _near(one: Cluster, home: Cluster, templates: list[Template], bar: float, typed: bool) -> bool:
    """Whether two clusters have nearly the same kernels: by category where the names differ."""
    if typed and one.label != home.label:
        return False
    a = Counter(n for t in one.templates for n in templates[t].names)
    b = Counter(n for t in home.templates for n in templates[t].names)
    common = sum((a & b).values())
    return common >= bar * max(sum(a.values()), sum(b.values()))


def dominance(clusters: list[Cluster]) -> str:
    """Which cluster dominates, in words."""
    whole = sum(c.total_ns for c in clusters)
    if not clusters or not whole:
        return ""
    first = clusters[0]
    share = 100 * first.total_ns / whole
    top = max(first.layers, key=lambda x: x.device_ns)
    sums = Counter[str]()
    for layer in first.layers:
        sums.update(layer.by_category)
    category, spent = max(sums.items(), key=lambda x: x[1])
    text = f"{first.label} ({len(first.layers)} layers) holds {share:.0f} % of the layers' device time"
    text += f"; {category} is {100 * spent / first.total_ns:.0f} % of it"
    if len(clusters) > 1:
        other = clusters[1]
        text += f"; next {other.label} ({len(other.layers)} layers) with {100 * other.total_ns / whole:.0f} %"
    return text + f"; longest layer {top.number}"
