"""Passes of a stack of layers without head, tail or copies, as a middle rank of a pipeline has: by graph launches and by gaps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infer_forge import trace
from infer_forge.pipeline import borders
from infer_forge.pipeline.model import Lane
from infer_forge.pipeline.structure import build
from trace_gen import SPECS, WORKING_SEEDS, Spec, Step, generate

SEED = WORKING_SEEDS[5]
OUTSIDE = ("Memcpy", "void at::native", "void flashinfer::norm::RMSNormKernel", "nvjet_tst_64x8")


def bare(spec: Spec, folder: Path) -> Lane:
    """The trace of a spec without what stands outside of layers, and without marks."""
    files, _ = generate(replace(spec, annotation="none"), folder / "t.json", SEED)
    document = json.loads(files[0].read_bytes())
    document["traceEvents"] = [e for e in document["traceEvents"] if not e["name"].startswith(OUTSIDE)]
    files[0].write_text(json.dumps(document))
    one = trace.load(files[0], cache=False)
    return build(one, None, 0, None)


@pytest.mark.parametrize("graph", [0, 1])
@pytest.mark.parametrize("family", ["llama", "deepseek_v3"])
def test_passes_without_head_and_tail_are_told_by_the_launch_structure(family: str, graph: int, tmp_path: Path) -> None:
    spec = replace(SPECS[family], ranks=1, steps=(Step("decode", generation=16, graph=graph),), cycles=6)
    lane = bare(spec, tmp_path)
    assert [len(p.layers) for p in lane.passes] == [spec.layers] * 6
    assert not any(p.partial for p in lane.passes)


@pytest.mark.parametrize("graph", [0, 1])
def test_the_cut_ones_among_them_are_partial(graph: int, tmp_path: Path) -> None:
    step = Step("decode", generation=16, graph=graph)
    spec = replace(SPECS["llama"], steps=(step,), cycles=6, cut_head=0.4, cut_tail=0.3)
    lane = bare(spec, tmp_path)
    assert [bool(p.partial) for p in lane.passes] == [True, *[False] * 4, True]
    assert lane.passes[0].layers[-1].number == lane.passes[1].layers[-1].number == 15
    assert lane.passes[-1].layers[0].number == 0


def test_a_stack_without_gaps_stays_one_run(tmp_path: Path) -> None:
    spec = replace(SPECS["llama"], steps=(Step("decode", generation=16),), cycles=1)
    assert [len(p.layers) for p in bare(spec, tmp_path).passes] == [spec.layers]


def test_gaps_in_one_run_of_many_alike_are_no_borders() -> None:
    """Twenty layers between head and tail, nine times; lost kernels left even gaps in one of the passes."""
    none: list[int] = []
    runs = [(20, [5, 11, 17] if k == 6 else none) for k in range(9)]
    assert borders.agreed(runs) == [[]] * 9
    bare: list[tuple[int, list[int]]] = [
        (24, [8, 16]),
        (24, [8, 16]),
        (24, []),
        (11, [3]),
    ]  # a copy after every third pass of a middle rank
    assert borders.agreed(bare) == [[8, 16], [8, 16], [], [3]]
