"""Reading on a real Dask cluster of this machine: the same traces as without it, from paths and from URLs."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_forge.base.errors import InputUnusable, MissingPart
from infer_forge.trace import load_many, load_on_cluster
from trace_gen import SPECS, generate

distributed = pytest.importorskip("dask.distributed", reason="the extra `cluster` is not installed")
pytestmark = pytest.mark.filterwarnings("default")  # the library's own warnings are not ours to mend


@pytest.fixture(scope="module")
def cluster() -> Generator[Any]:
    made: Any = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
    yield made
    made.close()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    generate(SPECS["qwen3_moe"], folder / "run.trace.json.gz", seed=117)
    (folder / "notes.json").write_text("<html>")
    return folder


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_cluster_gives_the_traces_that_this_machine_gives(cluster: Any, ranks: Path, form: str) -> None:
    here, there = load_many(ranks), load_on_cluster([form.format(ranks)], cluster.scheduler_address)
    assert there.ranks == here.ranks
    for one, other in zip(here.traces, there.traces, strict=True):
        assert one.path.name == other.path.name
        assert one.sha256 == other.sha256
        for name, column in one.work.arrays().items():
            assert np.array_equal(column, other.work.arrays()[name]), name
    assert [s.path.name for s in there.skipped] == ["notes.json"]


def test_a_file_named_by_itself_that_is_no_trace_is_refused_by_its_worker(cluster: Any, ranks: Path) -> None:
    with pytest.raises(InputUnusable, match="HTML"):
        load_on_cluster([ranks / "notes.json"], cluster.scheduler_address)
    with pytest.raises(InputUnusable, match="no such file"):
        load_on_cluster([ranks / "absent"], cluster.scheduler_address)


def test_a_scheduler_that_is_not_there_is_told(ranks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infer_forge.trace.cluster._CONNECT_S", 0.3)
    with pytest.raises(MissingPart, match="does not answer"):
        load_on_cluster([ranks], "tcp://127.0.0.1:9")
