"""Is a kernel's output right, all of it, every time, and computed from what is in the inputs now?

Each side goes through the same checks on every row: poisoned outputs between guard bands, inputs unchanged, shape and
type, numbers against the reference, the same input twice, other values at the same addresses, NaN and infinity. A
finding is `{rule, row, side, evidence}`; the rules are in `references/kernel_task_rules.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from infer_forge.kernel_task import arrays

Kernel = Callable[..., Any]
Finding = dict[str, Any]


@dataclass
class Case:
    """What stays the same over all checks of one row."""

    row: str
    params: Mapping[str, Any]
    make_inputs: Callable[[Mapping[str, Any], int], Sequence[Any]]
    reference: Kernel
    destination_passing: bool
    atol: float
    rtol: float
    seeds: Sequence[int]
    findings: list[Finding] = field(default_factory=list[Finding])
    paths: set[str] = field(default_factory=set[str])
    worst: dict[str, float | None] = field(default_factory=dict[str, "float | None"])


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Outputs as a tuple, whether a kernel gives one or several."""
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, (tuple, list)) else (value,)


def expected_of(case: Case, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The reference's outputs, from copies, so that it cannot touch the kernel's inputs."""
    return as_tuple(case.reference(*[_copy(v) for v in inputs]))


def _copy(value: Any) -> Any:
    if arrays.is_tensor(value):
        return value.clone()
    return value.copy() if arrays.is_array(value) else value


@dataclass
class Outputs:
    """Where a kernel writes: guarded buffers under destination passing, nothing otherwise."""

    buffers: list[arrays.Guarded]

    @classmethod
    def like(cls, case: Case, expected: Sequence[Any]) -> Outputs:
        """Buffers for the expected outputs."""
        return cls([arrays.Guarded(e) for e in expected] if case.destination_passing else [])

    def call(self, kernel: Kernel, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Run the kernel and give its outputs."""
        if not self.buffers:
            return as_tuple(kernel(*inputs))
        views = [b.view for b in self.buffers]
        kernel(*inputs, out=views[0] if len(views) == 1 else views)
        return tuple(views)

    def poison(self) -> None:
        """Poison every buffer."""
        for buffer in self.buffers:
            buffer.poison()


def check(case: Case, side: str, kernel: Kernel) -> bool:
    """Run all checks of one side on one row; True when nothing was found."""
    before = len(case.findings)
    try:
        inputs = list(case.make_inputs(case.params, case.seeds[0]))
        _first(case, side, kernel, inputs)
        if len(case.findings) == before:
            _same_address(case, side, kernel, inputs)
            _one_element(case, side, kernel)
            _not_finite(case, side, kernel)
    except Exception as exc:  # a candidate may raise anything; the row fails, the run goes on
        _note(case, "RUNTIME_ERROR", side, f"{type(exc).__name__}: {' '.join(str(exc).split())[:200]}")
    path = getattr(kernel, "last_path", None)
    if side == "candidate" and isinstance(path, str):
        case.paths.add(path)
    return len(case.findings) == before


def _note(case: Case, rule: str, side: str, evidence: str) -> None:
    case.findings.append({"rule": rule, "row": case.row, "side": side, "evidence": evidence})


def _first(case: Case, side: str, kernel: Kernel, inputs: Sequence[Any]) -> None:
    expected = expected_of(case, inputs)
    host = [arrays.numpy_of(e) for e in expected]
    outputs = Outputs.like(case, expected)
    before = arrays.digest(inputs)
    seen = outputs.call(kernel, inputs)
    arrays.synchronise(inputs)
    if arrays.digest(inputs) != before:
        _note(case, "INPUT_MUTATED", side, "the inputs differ after the call")
        return
    if not _shaped(case, side, seen, expected):
        return
    _written(case, side, outputs, host)
    if not _right(case, side, seen, host, "INCORRECT"):
        return
    first = [arrays.numpy_of(s) for s in seen]
    outputs.poison()
    again = outputs.call(kernel, inputs)
    arrays.synchronise(inputs)
    if any(not _close(arrays.numpy_of(a), f, case)[0] for a, f in zip(again, first, strict=True)):
        _note(case, "NONDETERMINISTIC", side, "the same input gave another output beyond the tolerance")


def _shaped(case: Case, side: str, seen: Sequence[Any], expected: Sequence[Any]) -> bool:
    if len(seen) != len(expected):
        _note(case, "WRONG_SHAPE", side, f"{len(seen)} outputs, expected {len(expected)}")
        return False
    for got, want in zip(seen, expected, strict=True):
        if not arrays.is_array(got) or not arrays.plain(got):
            _note(case, "LAZY_OUTPUT", side, f"the output is {type(got).__name__}, not a plain array")
            return False
        if tuple(got.shape) != tuple(want.shape):
            _note(case, "WRONG_SHAPE", side, f"shape {tuple(got.shape)}, expected {tuple(want.shape)}")
            return False
        if arrays.dtype_name(got) != arrays.dtype_name(want):
            _note(case, "WRONG_DTYPE", side, f"{arrays.dtype_name(got)}, expected {arrays.dtype_name(want)}")
            return False
    return True


def _written(case: Case, side: str, outputs: Outputs, host: Sequence[Any]) -> None:
    for buffer, want in zip(outputs.buffers, host, strict=False):
        left = buffer.poison_left(want)
        if left:
            _note(case, "POISON_LEFT", side, f"{left} of {want.size} elements were never written")
        if not buffer.bands_intact():
            _note(case, "OUT_OF_BOUNDS", side, "bytes beside the output were written")


def _right(case: Case, side: str, seen: Sequence[Any], host: Sequence[Any], rule: str) -> bool:
    for got, want in zip(seen, host, strict=True):
        good, worst = _close(arrays.numpy_of(got), want, case)
        key = f"{side} max_absolute_error"
        if worst is not None:
            case.worst[key] = max(case.worst.get(key) or 0.0, worst)
        if not good:
            bound = f"atol {case.atol:g}, rtol {case.rtol:g}"
            _note(
                case, rule, side, f"largest difference {'not a number' if worst is None else f'{worst:.3g}'}, {bound}"
            )
            return False
    return True


def _close(got: Any, want: Any, case: Case) -> tuple[bool, float | None]:
    """Whether all elements are within the tolerances (NaN equals NaN), and the largest absolute difference."""
    import numpy as np

    if got.dtype.kind not in "fc":
        same = bool(np.array_equal(got, want))
        if got.dtype.kind == "b" or got.size == 0:
            return same, 0.0 if same else 1.0
        worst = float(np.max(np.abs(got.astype(np.float64) - want.astype(np.float64))))
        return bool(np.all(np.abs(got.astype(np.float64) - want) <= case.atol + case.rtol * np.abs(want))), worst
    with np.errstate(invalid="ignore", over="ignore"):
        good = bool(np.allclose(got, want, rtol=case.rtol, atol=case.atol, equal_nan=True))
        difference = np.abs(got.astype(np.complex128 if got.dtype.kind == "c" else np.float64) - want)
    finite = difference[np.isfinite(difference)]
    return good, float(finite.max()) if finite.size else (0.0 if good else None)


def close_to(case: Case, seen: Sequence[Any], host: Sequence[Any]) -> bool:
    """Whether outputs equal the expected host arrays within the task's tolerances."""
    if len(seen) != len(host) or not all(
        arrays.is_array(s) and tuple(s.shape) == h.shape for s, h in zip(seen, host, strict=True)
    ):
        return False
    return all(_close(arrays.numpy_of(s), h, case)[0] for s, h in zip(seen, host, strict=True))


def _same_address(case: Case, side: str, kernel: Kernel, inputs: list[Any]) -> None:
    """Other values in the same buffers: an output kept for the address shows."""
    old = [arrays.numpy_of(e) for e in expected_of(case, inputs)]
    fresh = case.make_inputs(case.params, case.seeds[1])
    for target, source in zip(inputs, fresh, strict=True):
        if arrays.is_array(target):
            arrays.copy_into(target, source)
    now = [source if not arrays.is_array(target) else target for target, source in zip(inputs, fresh, strict=True)]
    expected = expected_of(case, now)
    host = [arrays.numpy_of(e) for e in expected]
    outputs = Outputs.like(case, expected)
    seen = outputs.call(kernel, now)
    arrays.synchronise(now)
    got = [arrays.numpy_of(s) for s in seen]
    good = all(_close(g, w, case)[0] for g, w in zip(got, host, strict=True))
    stale = all(_close(g, o, case)[0] for g, o in zip(got, old, strict=True) if g.shape == o.shape)
    if not good:
        rule = "STALE_OUTPUT" if stale else "INCORRECT"
        text = (
            "the output of earlier values at the same addresses came back"
            if stale
            else "wrong after the values at the same addresses changed"
        )
        _note(case, rule, side, text)
    _written(case, side, outputs, host)


def _one_element(case: Case, side: str, kernel: Kernel) -> None:
    """One element in the middle of every floating input changes in place: a cache that looks at a few values shows."""
    import numpy as np

    inputs = list(case.make_inputs(case.params, case.seeds[3]))
    old = [arrays.numpy_of(e) for e in expected_of(case, inputs)]
    outputs = Outputs.like(case, expected_of(case, inputs))
    outputs.call(kernel, inputs)
    for value in inputs:
        size = int(np.prod(tuple(value.shape))) if arrays.is_array(value) and numpy_kind(value) == "f" else 0
        if size >= 3:
            flat = arrays.numpy_of(value).reshape(-1)
            place = 1 + case.seeds[3] % (size - 2)
            flat[place] = flat[place] * 3.0 + 1.0
            arrays.copy_into(value, _like(value, flat.reshape(tuple(value.shape))))
    host = [arrays.numpy_of(e) for e in expected_of(case, inputs)]
    if all(_close(h, o, case)[0] for h, o in zip(host, old, strict=True)):
        return
    outputs.poison()
    seen = outputs.call(kernel, inputs)
    arrays.synchronise(inputs)
    if not close_to(case, seen, host):
        rule = "STALE_OUTPUT" if close_to(case, seen, old) else "INCORRECT"
        _note(case, rule, side, "after one element changed in place the output does not follow")


def _not_finite(case: Case, side: str, kernel: Kernel) -> None:
    """NaN and infinity in the first floating input must come out as in the reference."""
    import numpy as np

    inputs = list(case.make_inputs(case.params, case.seeds[2]))
    floats: list[Any] = [v for v in inputs if arrays.is_array(v) and numpy_kind(v) == "f"]
    if not floats or int(np.prod(tuple(floats[0].shape))) < 2:
        return
    flat = floats[0].reshape(-1)
    spoiled = arrays.numpy_of(flat)
    spoiled[0], spoiled[-1] = np.nan, np.inf
    replacement = _like(flat, spoiled)
    arrays.copy_into(floats[0], replacement.reshape(tuple(floats[0].shape)))
    with np.errstate(all="ignore"):
        expected = expected_of(case, inputs)
        host = [arrays.numpy_of(e) for e in expected]
        seen = Outputs.like(case, expected).call(kernel, inputs)
    arrays.synchronise(inputs)
    for got, want in zip((arrays.numpy_of(s) for s in seen), host, strict=True):
        if got.dtype.kind != "f":
            continue
        if not np.array_equal(np.isnan(got), np.isnan(want)) or not np.array_equal(got == np.inf, want == np.inf):
            lost = int((np.isnan(want) & ~np.isnan(got)).sum())
            _note(case, "NAN_INF_DIFFERS", side, f"NaN or infinity differs from the reference ({lost} NaN lost)")
            return


def numpy_kind(value: Any) -> str:
    """`f` for floating, else the kind letter of numpy."""
    if arrays.is_tensor(value):
        return "f" if value.dtype.is_floating_point else "i"
    return str(value.dtype.kind)


def _like(template: Any, host: Any) -> Any:
    """A host array as the kind (library, type, device) of the template."""
    if arrays.is_tensor(template):
        import sys

        return sys.modules["torch"].from_numpy(host).to(template.device, template.dtype)
    return host


def check_rejects(case: Case, side: str, kernel: Kernel) -> bool:
    """A row that must be refused: the kernel has to raise."""
    try:
        inputs = list(case.make_inputs(case.params, case.seeds[0]))
    except Exception as exc:  # an adapter that cannot make the input is a fault of the task
        _note(case, "RUNTIME_ERROR", side, f"make_inputs: {type(exc).__name__}: {exc}")
        return False
    try:
        if case.destination_passing:
            kernel(*inputs, out=_copy(inputs[0]))
        else:
            kernel(*inputs)
        arrays.synchronise(inputs)
    except Exception:  # any refusal is a refusal
        return True
    _note(case, "ACCEPTED_BAD_INPUT", side, "an input that must be refused was taken")
    return False
