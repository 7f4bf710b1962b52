"""Graph replays that are resolved through a capture trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.profile import triage
from infer_forge.profile.model import Options
from trace_gen import generate, generate_capture
from trace_gen.model import Spec, Step

# HIP launches name their kernel, so that a mapping can be verified by names.
SPEC = Spec(
    family="llama", layers=4, steps=(Step("decode", generation=8, graph=1),), cycles=4, stacks=True, vendor="amd"
)


def test_a_mapping_gives_replayed_kernels_their_ops_and_names_its_level(tmp_path: Path) -> None:
    files, truth = generate(SPEC, tmp_path / "t.trace.json.gz", seed=4)
    capture = generate_capture(SPEC, tmp_path / "capture.trace.json.gz", seed=4)
    blind = triage(files, Options(cache=False, min_share=0.0))
    assert "GRAPH_HIDES_OPS" in {f.code for f in blind.findings}
    seen = triage(files, Options(cache=False, min_share=0.0, mapping=capture))
    assert "GRAPH_HIDES_OPS" not in {f.code for f in seen.findings}
    assert {m["level"] for m in seen.header.more["mapping"]} == {"verified by names"}
    assert seen.header.more["mapping_input"]["path"] == str(capture)
    ops = {k.name: k.op for k in truth.kernels if k.graph}
    assert ops
    found = {r["cpu_op"] for r in seen.tables["kernel"].dicts()}
    assert set(ops.values()) <= found
    sums = [sum(round(r["time_us"] * 1000) for r in x.tables["kernel"].dicts()) for x in (seen, blind)]
    assert sums[0] == sums[1] == sum(k.dur_ns for k in truth.kernels)


def test_a_capture_that_is_not_there_is_refused(tmp_path: Path) -> None:
    files, _ = generate(SPEC, tmp_path / "t.trace.json.gz", seed=4)
    with pytest.raises(InputUnusable, match="no such capture"):
        triage(files, Options(cache=False, mapping=tmp_path / "none.json"))
