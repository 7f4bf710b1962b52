"""Graph replays get their ops and sources from a second trace, and every graph says how sure that is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from infer_forge.trace.mapping import BY_CATEGORY, BY_NAMES, UNVERIFIED, apply_mapping, captured_graphs
from infer_forge.trace.model import Link, Trace
from infer_forge.trace.read import parse
from trace_gen import SPECS, Truth, generate, generate_capture, generate_mapping


def right(trace: Trace, truth: Truth) -> float:
    """Share of graph items with the op and frame of the truth."""
    kernels = sorted(truth.kernels, key=lambda k: (k.ts_ns, k.device, k.stream))
    good = [
        trace.name(int(trace.work.op[i])) == k.op and trace.name(int(trace.work.source[i])) == k.frame
        for i, k in enumerate(kernels)
        if k.graph
    ]
    return sum(good) / len(good)


@pytest.mark.parametrize(
    ("name", "level"),
    [("graph", BY_CATEGORY), ("graph_piecewise", BY_CATEGORY), ("amd_graph", BY_NAMES), ("pdl", BY_CATEGORY)],
)
def test_a_capture_trace_names_every_replayed_kernel(name: str, level: str, tmp_path: Path) -> None:
    spec = SPECS[name]
    files, truth = generate(spec, tmp_path / "formal.json", seed=107)
    capture = parse(generate_capture(replace(spec, stacks=True), tmp_path / "capture.json", seed=107))
    formal = parse(files[0])
    before = formal.work.op.tolist()
    mapped = apply_mapping(formal, capture)
    assert right(mapped, truth) == 1.0
    assert {m.level for m in mapped.mappings} == {level}
    assert sum(m.matched for m in mapped.mappings) == int(formal.work.graph.sum())
    assert mapped.coverage.links.get("mapping") == int(formal.work.graph.sum())
    assert formal.work.op.tolist() == before
    assert not formal.mappings


@pytest.mark.parametrize("name", ["graph", "graph_piecewise", "amd_graph"])
def test_an_eager_trace_serves_as_well(name: str, tmp_path: Path) -> None:
    files, truth = generate(SPECS[name], tmp_path / "formal.json", seed=108)
    eager = parse(generate_mapping(SPECS[name], tmp_path / "eager.json", seed=108))
    mapped = apply_mapping(parse(files[0]), eager)
    assert right(mapped, truth) == 1.0
    assert {m.level for m in mapped.mappings} == {BY_NAMES}


def test_the_capture_of_another_model_maps_nothing(tmp_path: Path) -> None:
    files, _ = generate(SPECS["amd_graph"], tmp_path / "formal.json", seed=109)
    other = parse(generate_capture(replace(SPECS["amd_graph"], layers=5), tmp_path / "other.json", seed=109))
    assert captured_graphs(other)
    mapped = apply_mapping(parse(files[0]), other)
    assert (mapped.work.link[mapped.work.graph] == Link.GRAPH_REPLAY).all()
    assert {(m.level, m.matched) for m in mapped.mappings} == {(UNVERIFIED, 0)}
    assert all(m.note for m in mapped.mappings)


def test_equal_names_in_another_order_are_matched_by_name(tmp_path: Path) -> None:
    spec = SPECS["amd_graph"]
    files, _ = generate(spec, tmp_path / "formal.json", seed=110)
    capture = parse(generate_capture(replace(spec, stacks=True), tmp_path / "capture.json", seed=110))
    formal = parse(files[0])
    graph = np.flatnonzero(formal.work.graph)
    formal.work.name[graph[[3, 4]]] = formal.work.name[graph[[4, 3]]]
    mapped = apply_mapping(formal, capture)
    assert {m.level for m in mapped.mappings} == {BY_NAMES}
