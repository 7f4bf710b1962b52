"""The harness: an honest kernel passes, and each known trick is caught with its own rule."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_forge.kernel_task.harness import compare

near: Any = pytest.approx  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

# What a loaded machine may do to an honest measurement.
NOISE = {"SHORT_SAMPLES", "IMPLAUSIBLE_SPEEDUP"}

ROWS: list[dict[str, Any]] = [
    {"id": "p1", "kind": "production", "params": {"m": 64, "n": 256}},
    {"id": "r1", "kind": "regression", "params": {"m": 7, "n": 33}},
]
QUICK: dict[str, Any] = {"blocks": 2, "runs": 1, "min_sample_ms": 0.2, "warmup": 1}


def make_inputs(params: Mapping[str, Any], seed: int) -> list[Any]:
    """One random matrix."""
    return [np.random.default_rng(seed).standard_normal((params["m"], params["n"])).astype(np.float32)]


def reference(x: Any) -> Any:
    """What must come out."""
    with np.errstate(all="ignore"):
        return (x.astype(np.float64) * 2.0 + 1.0).astype(np.float32)


def honest(x: Any, out: Any) -> None:
    """The plain kernel."""
    with np.errstate(all="ignore"):
        np.add(x * np.float32(2.0), np.float32(1.0), out=out)


def outcome(candidate: Callable[..., Any], **more: Any) -> dict[str, Any]:
    """The harness on a destination-passing candidate against the honest kernel."""
    options: dict[str, Any] = {
        "reference": reference,
        "destination_passing": True,
        "atol": 1e-6,
        "rtol": 1e-6,
        **QUICK,
        **more,
    }
    rows = options.pop("rows", ROWS)
    return compare(honest, candidate, rows, make_inputs, **options)


def rules(result: Mapping[str, Any], side: str = "candidate") -> set[str]:
    """Rules that fired on a side."""
    return {f["rule"] for f in result["findings"] if f["side"] == side}


def test_an_honest_kernel_is_clean_and_timed_row_by_row() -> None:
    result = outcome(honest)
    assert rules(result) <= NOISE, result["findings"]
    assert 0.1 < result["geomean_speedup"] < 10
    timed = {r["id"]: r for r in result["rows"]}
    assert (
        timed["p1"]["candidate"]["min_ns"]
        <= timed["p1"]["candidate"]["median_ns"]
        <= timed["p1"]["candidate"]["max_ns"]
    )
    assert timed["r1"]["speedup"] is None
    assert result["seeds_drawn_at"] >= result["frozen_at"]
    assert result["claim"] == "kernel_task"


class PointerCache:
    """Keeps the output for an address."""

    def __init__(self) -> None:
        self.kept: dict[int, Any] = {}

    def __call__(self, x: Any, out: Any) -> None:
        key = x.ctypes.data
        if key not in self.kept:
            self.kept[key] = reference(x)
        out[...] = self.kept[key]


class PeekCache:
    """Keeps the output as long as the first and last elements are the same."""

    def __init__(self) -> None:
        self.key: tuple[Any, ...] = ()
        self.kept: Any = None

    def __call__(self, x: Any, out: Any) -> None:
        key = (x.ctypes.data, float(x.flat[0]), float(x.flat[-1]))
        if key != self.key:
            self.key, self.kept = key, reference(x)
        out[...] = self.kept


def heavy(x: Any, out: Any) -> None:
    """The plain kernel, forty times over."""
    for _ in range(40):
        honest(x, out)


class SkipsRepeats:
    """Does the heavy work for new values and nothing when called again on the very same ones."""

    def __init__(self) -> None:
        self.seen: tuple[Any, ...] = ()

    def __call__(self, x: Any, out: Any) -> None:
        sample = (x.ctypes.data, x.tobytes(), out.ctypes.data)
        if sample != self.seen or np.isnan(out.flat[0]):
            heavy(x, out)
        self.seen = sample


def tail_unwritten(x: Any, out: Any) -> None:
    """Leaves the last row."""
    honest(x[:-1], out[:-1])


def beyond(x: Any, out: Any) -> None:
    """Writes behind the output."""
    honest(x, out)
    whole = np.lib.stride_tricks.as_strided(out.reshape(-1), shape=(out.size + 4,), strides=(4,))
    whole[out.size + 1] = 3.0


def mutates(x: Any, out: Any) -> None:
    """Uses its input as scratch."""
    x *= 2.0
    np.add(x, 1.0, out=out)


def cleans_nan(x: Any, out: Any) -> None:
    """Hides NaN."""
    honest(np.nan_to_num(x), out)


def wrong(x: Any, out: Any) -> None:
    """Another function."""
    np.multiply(x, 2.0, out=out)


class Wavers:
    """Gives now a little more, now a little less."""

    def __init__(self) -> None:
        self.sign: Any = np.float32(1.0)

    def __call__(self, x: Any, out: Any) -> None:
        honest(x, out)
        self.sign = -self.sign
        out += self.sign * np.float32(0.15)


def sets_environment(x: Any, out: Any) -> None:
    """Moves a switch of the process."""
    os.environ["FAST_PLEASE"] = str(len(os.environ))
    honest(x, out)


def raises(x: Any, out: Any) -> None:
    """Cannot."""
    raise RuntimeError("illegal memory access")


@pytest.mark.parametrize(
    ("candidate", "rule"),
    [
        (PointerCache(), "STALE_OUTPUT"), (PeekCache(), "STALE_OUTPUT"), (tail_unwritten, "POISON_LEFT"), (beyond, "OUT_OF_BOUNDS"),
        (mutates, "INPUT_MUTATED"), (cleans_nan, "NAN_INF_DIFFERS"), (wrong, "INCORRECT"), (sets_environment, "ENVIRONMENT_ONE_SIDED"),
        (raises, "RUNTIME_ERROR"),
    ],
)  # fmt: skip
def test_a_trick_is_void_under_its_rule(
    candidate: Callable[..., Any], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAST_PLEASE", raising=False)
    result = outcome(candidate)
    assert rule in rules(result), result["findings"]
    assert result["verdict"] == "void"
    assert rule not in rules(result, "baseline")


def test_an_output_that_wavers_beyond_the_tolerance_is_seen() -> None:
    assert "INCORRECT" in rules(outcome(Wavers()))
    assert "NONDETERMINISTIC" in rules(outcome(Wavers(), atol=0.2))


def test_work_that_is_skipped_in_repeated_calls_is_seen() -> None:
    options: dict[str, Any] = {
        "reference": reference,
        "destination_passing": True,
        "atol": 1e-6,
        **QUICK,
        "min_sample_ms": 4.0,
    }
    result = compare(heavy, SkipsRepeats(), ROWS, make_inputs, **options)
    assert "WORK_SKIPPED" in rules(result), result["rows"]


def test_a_kernel_that_raises_ends_its_row_and_not_the_run() -> None:
    result = outcome(raises)
    assert [r["status"] for r in result["rows"]] == ["RUNTIME_ERROR", "RUNTIME_ERROR"]
    assert result["geomean_speedup"] is None


def test_kernels_that_return_their_output_are_checked_too() -> None:
    def returns(x: Any) -> Any:
        return x * np.float32(2.0) + np.float32(1.0)

    assert rules(compare(returns, returns, ROWS, make_inputs, reference=reference, atol=1e-6, **QUICK)) <= NOISE

    def other_shape(x: Any) -> Any:
        return (x * np.float32(2.0) + np.float32(1.0)).reshape(-1)

    result = compare(returns, other_shape, ROWS, make_inputs, reference=reference, atol=1e-6, **QUICK)
    assert "WRONG_SHAPE" in rules(result)

    def wider(x: Any) -> Any:
        return x.astype(np.float64) * 2.0 + 1.0

    assert "WRONG_DTYPE" in rules(compare(returns, wider, ROWS, make_inputs, reference=reference, atol=1e-6, **QUICK))

    class Later(np.ndarray):
        """A stand-in that could compute later."""

    def lazy(x: Any) -> Any:
        return returns(x).view(Later)

    assert "LAZY_OUTPUT" in rules(compare(returns, lazy, ROWS, make_inputs, reference=reference, atol=1e-6, **QUICK))


def test_a_row_that_must_be_refused_has_to_raise() -> None:
    rows = [*ROWS, {"id": "bad", "kind": "must_reject", "params": {"m": 3, "n": 3}}]

    def checks(x: Any, out: Any) -> None:
        if x.shape[0] == 3:
            raise ValueError("no")
        honest(x, out)

    result = compare(
        checks, honest, rows, make_inputs, reference=reference, destination_passing=True, atol=1e-6, **QUICK
    )
    assert rules(result) - NOISE == {"ACCEPTED_BAD_INPUT"}
    fair = compare(checks, checks, rows, make_inputs, reference=reference, destination_passing=True, atol=1e-6, **QUICK)
    assert rules(fair) <= NOISE


def test_faster_than_the_device_can_move_the_data_is_void() -> None:
    assert "FASTER_THAN_LIMIT" in rules(outcome(honest, peak_bytes_per_s=1e3))
    result = outcome(honest, peak_bytes_per_s=1e15)
    assert "FASTER_THAN_LIMIT" not in rules(result)
    assert result["rows"][0]["limit_ns"] == near(1e9 * 2 * 64 * 256 * 4 / 1e15)


def test_an_implausible_speedup_asks_for_a_person() -> None:
    def slow(x: Any, out: Any) -> None:
        for _ in range(200):
            honest(x, out)

    result = compare(slow, honest, ROWS, make_inputs, reference=reference, destination_passing=True, atol=1e-6, **QUICK)
    assert "IMPLAUSIBLE_SPEEDUP" in rules(result)
    assert result["verdict"] == "suspect"


def bucketed() -> Callable[..., Any]:
    """A dispatch with two paths that tells which one it took."""

    def kernel(x: Any, out: Any) -> None:
        kernel.last_path = "small" if x.shape[0] <= 8 else "general"  # type: ignore[attr-defined]
        honest(x, out)

    return kernel


GOOD_BUCKETS: list[dict[str, Any]] = [
    {"name": "small", "predicate": "m <= 8", "path": "small", "fallback": "general"},
    {"name": "rest", "predicate": "m > 8", "path": "general", "fallback": "general"},
]


def test_buckets_have_condition_path_latency_and_fallback() -> None:
    result = outcome(bucketed(), buckets=GOOD_BUCKETS)
    assert rules(result) <= NOISE, result["findings"]
    assert result["paths_seen"] == ["general", "small"]
    by_name = {b["name"]: b for b in result["buckets"]}
    assert by_name["rest"]["rows"] == ["p1"]
    assert by_name["rest"]["geomean_speedup"] is not None


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"predicate": "m <= 100"}, "BUCKET_OVERLAP"), ({"predicate": "m <= 3"}, "BUCKET_GAP"), ({"fallback": None}, "BUCKET_NO_FALLBACK"),
        ({"fallback": "library"}, "FALLBACK_NOT_RUN"),
    ],
)  # fmt: skip
def test_faults_of_the_dispatch(change: dict[str, Any], rule: str) -> None:
    assert rule in rules(outcome(bucketed(), buckets=[{**GOOD_BUCKETS[0], **change}, GOOD_BUCKETS[1]]))


def test_a_candidate_that_rewrites_itself_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "candidate.py"
    file.write_text("one")

    def rewrites(x: Any, out: Any) -> None:
        file.write_text("two")
        honest(x, out)

    assert "CANDIDATE_CHANGED" in rules(outcome(rewrites, frozen=[file]))


def test_several_outputs_and_integers_are_poisoned_and_checked() -> None:
    def two(x: Any) -> Any:
        return x + 1, (x > 0).astype(np.int32)

    def make(params: Mapping[str, Any], seed: int) -> Sequence[Any]:
        return [np.random.default_rng(seed).integers(-50, 50, (params["m"], params["n"]), dtype=np.int32)]

    def both(x: Any, out: Any) -> None:
        np.add(x, 1, out=out[0])
        out[1][...] = x > 0

    def half(x: Any, out: Any) -> None:
        np.add(x, 1, out=out[0])
        out[1][:-1] = x[:-1] > 0

    good = compare(both, both, ROWS, make, reference=two, destination_passing=True, **QUICK)
    assert rules(good) <= NOISE, good["findings"]
    assert "POISON_LEFT" in rules(compare(both, half, ROWS, make, reference=two, destination_passing=True, **QUICK))


def test_other_threads_do_not_trouble_an_honest_kernel() -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert rules(outcome(honest)) <= NOISE
    finally:
        done.set()
        other.join()


def test_torch_tensors_go_through_the_same_checks() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

    def make(params: Mapping[str, Any], seed: int) -> list[Any]:
        return [torch.from_numpy(make_inputs(params, seed)[0])]

    def plain(x: Any, out: Any) -> None:
        torch.add(x * 2.0, 1.0, out=out)

    kept: dict[int, Any] = {}

    def cached(x: Any, out: Any) -> None:
        out.copy_(kept.setdefault(x.data_ptr(), x * 2.0 + 1.0))

    def expected(x: Any) -> Any:
        return x * 2.0 + 1.0

    options: dict[str, Any] = {"reference": expected, "destination_passing": True, "atol": 1e-6, **QUICK}
    assert rules(compare(plain, plain, ROWS, make, **options)) <= NOISE
    assert "STALE_OUTPUT" in rules(compare(plain, cached, ROWS, make, **options))


def test_torch_tricks_are_caught_in_half_precision_too() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

    def make(params: Mapping[str, Any], seed: int) -> list[Any]:
        return [torch.from_numpy(make_inputs(params, seed)[0]).to(torch.bfloat16)]

    def expected(x: Any) -> Any:
        return x * 2 + 1

    def plain(x: Any, out: Any) -> None:
        torch.add(x * 2, 1, out=out)

    def tail(x: Any, out: Any) -> None:
        out[:-1] = x[:-1] * 2 + 1

    def scratch(x: Any, out: Any) -> None:
        x.mul_(2)
        torch.add(x, 1, out=out)

    def switch(x: Any, out: Any) -> None:
        torch.set_float32_matmul_precision("medium")
        plain(x, out)

    class Stand(torch.Tensor):  # pyright: ignore[reportUntypedBaseClass]
        """A stand-in that could compute later."""

    def lazy(x: Any) -> Any:
        return expected(x).as_subclass(Stand)

    options: dict[str, Any] = {"reference": expected, "destination_passing": True, "atol": 0.05, "rtol": 0.02, **QUICK}
    assert rules(compare(plain, plain, ROWS, make, **options)) <= NOISE
    assert "POISON_LEFT" in rules(compare(plain, tail, ROWS, make, **options))
    assert "INPUT_MUTATED" in rules(compare(plain, scratch, ROWS, make, **options))
    precision = torch.get_float32_matmul_precision()
    try:
        assert "ENVIRONMENT_ONE_SIDED" in rules(compare(plain, switch, ROWS, make, **options))
    finally:
        torch.set_float32_matmul_precision(precision)
    options["destination_passing"] = False
    assert "LAZY_OUTPUT" in rules(compare(expected, lazy, ROWS, make, **options))
