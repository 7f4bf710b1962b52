"""The column cache: the same answer, sooner; never a wrong one, whatever happens to its files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.trace import cache
from infer_forge.trace.columns import Columns
from infer_forge.trace.model import Trace
from infer_forge.trace.read import load
from trace_gen import SPECS, generate

TABLES = ("work", "calls", "syncs", "annotations", "windows", "ops", "frames")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return generate(SPECS["merged_tp4"], tmp_path / "t.trace.json.gz", seed=111)[0][0]


def same(a: Trace, b: Trace) -> bool:
    for table in TABLES:
        left, right = getattr(a, table), getattr(b, table)
        assert isinstance(left, Columns)
        for name, column in left.arrays().items():
            assert np.array_equal(column, getattr(right, name)), (table, name)
    facts = ("names", "stages", "groups", "threads", "header", "coverage", "collectives", "shapes", "sha256", "hints")
    assert all(getattr(a, k) == getattr(b, k) for k in facts)
    assert a.op_texts == b.op_texts
    return True


def test_the_second_reading_comes_from_the_cache_and_is_the_same(file: Path) -> None:
    first, second = load(file), load(file)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert same(first, second)


def test_without_cache_nothing_is_read_from_it_or_written_to_it(file: Path) -> None:
    assert not load(file, cache=False).from_cache
    assert not cache.folder().exists()
    load(file)
    assert not load(file, cache=False).from_cache


def test_a_changed_file_is_read_again(file: Path) -> None:
    load(file)
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert not load(file).from_cache


def test_other_content_of_the_same_size_and_time_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    event = '{"ph":"X","cat":"kernel","name":"NAME","ts":1,"dur":2,"pid":0,"tid":7,"args":{"device":0,"stream":7}}'
    text = '{"schemaVersion":1,"traceEvents":[' + event + "]}"
    file.write_text(text.replace("NAME", "gemm_a"))
    before = file.stat()
    assert "gemm_a" in load(file).names
    file.write_text(text.replace("NAME", "gemm_b"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = load(file)
    assert (again.from_cache, "gemm_b" in again.names) == (False, True)


def test_a_change_of_the_reader_makes_old_columns_unfit(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(file)
    monkeypatch.setattr(cache, "reader_version", lambda: "another")
    assert not load(file).from_cache


@pytest.mark.stress
def test_a_damaged_cache_file_is_thrown_away(
    file: Path, stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    truth = load(file)
    key = cache.key_of(file)
    for _ in range(stress_count(200)):
        place = cache.folder() / f"{key}.kt"
        data = bytearray(place.read_bytes())
        header = 24 + int.from_bytes(data[8:16], "little")
        if seeded.random() < 0.5:
            data = data[: seeded.randrange(len(data))]
        else:
            data[seeded.randrange(header)] ^= 1 << seeded.randrange(8)
        place.write_bytes(bytes(data))
        again = load(file)
        assert same(truth, again)


def test_an_evicted_event_layer_is_made_again(file: Path) -> None:
    truth = load(file)
    (cache.folder() / f"{cache.key_of(file)}.ev").unlink()
    again = load(file)
    assert again.from_cache
    assert same(truth, again)
    assert (cache.folder() / f"{cache.key_of(file)}.ev").exists()


def test_an_event_layer_of_a_file_that_changed_meanwhile_is_refused(file: Path) -> None:
    load(file)
    trace = load(file)
    (cache.folder() / f"{cache.key_of(file)}.ev").unlink()
    file.write_bytes(b"{}")
    with pytest.raises(InputUnusable, match="changed"):
        _ = trace.ops


def test_the_bound_drops_event_layers_first_and_the_oldest_first(tmp_path: Path) -> None:
    files = [generate(SPECS["stacks"], tmp_path / f"{k}.json", seed=112 + k)[0][0] for k in range(3)]
    for age, path in enumerate(files):
        load(path)
        for layer in ("kt", "ev"):
            os.utime(cache.folder() / f"{cache.key_of(path)}.{layer}", (age, age))
    sizes = {p.name: p.stat().st_size for p in cache.folder().iterdir()}
    events = [f"{cache.key_of(p)}.ev" for p in files]
    cache.trim(sum(sizes.values()) - 1)
    assert not (cache.folder() / events[0]).exists()
    assert (cache.folder() / events[1]).exists()
    cache.trim(sum(s for n, s in sizes.items() if n.endswith(".kt")))
    assert sorted(p.suffix for p in cache.folder().iterdir()) == [".kt"] * 3
    assert cache.clear_cache() > 0
    assert not list(cache.folder().iterdir())


def test_a_cache_that_cannot_be_written_is_no_error(file: Path, forge_home: Path) -> None:
    (forge_home / "cache").write_text("a file where a folder belongs")
    assert not load(file).from_cache
    assert not load(file).from_cache


@pytest.mark.stress
def test_many_processes_may_read_write_and_clear_at_once(file: Path, stress_count: Callable[[int], int]) -> None:
    program = (
        "import sys\nfrom infer_forge.trace.read import load\nfrom infer_forge.trace.cache import clear_cache\n"
        "for k in range(int(sys.argv[2])):\n"
        "    t = load(sys.argv[1])\n"
        "    print(int(t.work.dur_ns.sum()), len(t.frames))\n"
        "    if k % 3 == int(sys.argv[3]): clear_cache()\n"
    )
    rounds = str(max(3, stress_count(60)))
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(file), rounds, str(n)], stdout=subprocess.PIPE)
        for n in range(4)
    ]
    answers = {line for p in running for line in p.communicate()[0].splitlines()}
    assert [p.returncode for p in running] == [0] * 4
    assert len(answers) == 1
