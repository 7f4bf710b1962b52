"""The verb `replay`: run a saved call again against a function, and compare element by element. Nothing is unpickled.

Tensors are loaded with `weights_only=True`, arrays with `allow_pickle=False`; the rest is JSON.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable, MissingPart, UsageFault
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.tables import Column, Table


def load_function(target: str) -> Callable[..., Any]:
    """`module:function` or `path/file.py:function`.

    Raises:
        UsageFault: it is not of that form, or there is no such function. MissingPart: it cannot be imported.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise UsageFault(f"{target!r} is not MODULE:FUNCTION", next_step="write module:function or file.py:function")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            if spec is None or spec.loader is None or not Path(place).is_file():
                raise UsageFault("no such file", where=place)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
    except UsageFault:
        raise
    except Exception as fault:
        raise MissingPart(f"cannot be imported: {type(fault).__name__}: {fault}", where=place) from None
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UsageFault(f"{place} has no function {name}")
    return found


def _saved(folder: Path, what: str, device: str | None) -> dict[str, Any]:
    """Tensors and arrays of `inputs` or `outputs`, by key."""
    values: dict[str, Any] = {}
    tensors = folder / f"{what}.pt"
    if tensors.is_file():
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            raise MissingPart(
                "the call holds tensors and torch is not installed",
                where=str(tensors),
                next_step="install torch, or replay where it is",
            ) from None
        try:
            loaded = torch.load(tensors, map_location=device or "cpu", weights_only=True)
        except Exception as fault:
            raise InputUnusable(
                f"holds more than tensors, or is damaged ({type(fault).__name__}): not loaded", where=str(tensors)
            ) from None
        if isinstance(loaded, dict):
            values |= {str(k): v for k, v in cast("dict[Any, Any]", loaded).items()}
    arrays = folder / f"{what}.npz"
    if arrays.is_file():
        import numpy

        try:
            with numpy.load(arrays, allow_pickle=False) as loaded:
                values |= {k: loaded[k] for k in loaded.files}
        except Exception as fault:
            raise InputUnusable(f"is damaged ({type(fault).__name__})", where=str(arrays)) from None
    return values


def decode(tree: Any, values: dict[str, Any], where: str) -> Any:
    """A saved tree as a value.

    Raises:
        InputUnusable: it holds something that could not be saved, or a tensor that is missing.
    """
    if not isinstance(tree, dict):
        raise InputUnusable("is no saved call", where=where)
    node = cast("dict[str, Any]", tree)
    kind = node.get("t")
    if kind in ("tensor", "array"):
        if node["key"] not in values:
            raise InputUnusable(f"{node['key']} is missing", where=where)
        value = values[node["key"]]
        return value.requires_grad_(True) if node.get("requires_grad") and hasattr(value, "requires_grad_") else value
    if kind == "json":
        return node.get("value")
    if kind in ("list", "tuple"):
        items = [decode(v, values, where) for v in node["items"]]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {k: decode(v, values, where) for k, v in node["items"].items()}
    if kind == "dtype":
        torch = sys.modules.get("torch")
        return getattr(torch, str(node["value"]).removeprefix("torch."), None)
    raise InputUnusable(
        f"an argument could not be saved: {node.get('repr', '?')}",
        where=where,
        next_step="replay with a wrapper that makes it",
    )


def _arguments(folder: Path, meta: dict[str, Any], device: str | None) -> tuple[list[Any], dict[str, Any]]:
    where = str(folder)
    values = _saved(folder, "inputs", device)
    tree = meta.get("arguments")
    if isinstance(tree, dict):
        saved = cast("dict[str, Any]", tree)
        return [decode(v, values, where) for v in saved["args"]], {
            k: decode(v, values, where) for k, v in saved["kwargs"].items()
        }
    positional = sorted((k for k in values if k.startswith("arg_") and k[4:].isdigit()), key=lambda k: int(k[4:]))
    named = {k[6:]: v for k, v in values.items() if k.startswith("kwarg_")}
    if [int(k[4:]) for k in positional] != list(range(len(positional))):
        raise InputUnusable(
            "only tensors were saved and some positions are missing",
            where=where,
            next_step="replay with a wrapper that adds the other arguments",
        )
    return [values[k] for k in positional], named


def replay(
    folder: str | Path,
    target: str | Callable[..., Any],
    *,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    device: str | None = None,
) -> Report:
    """Run a saved call again and compare its outputs with the saved ones.

    Args:
        folder: a dump of level 10 (our recorder's, or SGLang's and FlashInfer's with tensors alone).
        target: the function, or where it is (`module:function`, `file.py:function`).
        rtol, atol: an element differs when |new - old| > atol + rtol * |old|.

    Returns:
        Report with `verdict`: `same`, `differs`, `raised`, `no_saved_output`.

    Raises:
        InputUnusable: the folder is no saved call. UsageFault, MissingPart: the function cannot be had.
    """
    place = Path(folder)
    meta_path = place / "metadata.json"
    records = place / "metadata.jsonl"
    if not meta_path.is_file() and not records.is_file():
        raise InputUnusable(
            "is no saved call (no metadata.json)", where=str(place), next_step="name a folder ..._pid.._.._call.."
        )
    meta: Any = (
        jsonio.read_json(meta_path)
        if meta_path.is_file()
        else jsonio.loads(records.read_text(encoding="utf-8", errors="replace").splitlines()[-1], where=str(records))
    )
    if not isinstance(meta, dict):
        raise InputUnusable("is no saved call", where=str(meta_path))
    data = cast("dict[str, Any]", meta)
    args, kwargs = _arguments(place, data, device)
    function = load_function(target) if isinstance(target, str) else target
    report = Report(
        "crash-replay",
        Header(
            inputs=[InputFile.of(meta_path if meta_path.is_file() else records)],
            thresholds={"rtol": rtol, "atol": atol},
        ),
    )
    report.extra = {
        "function": data.get("function_name"),
        "saved_status": data.get("execution_status"),
        "raised": None,
        "seconds": None,
    }
    begin = time.perf_counter()
    try:
        result = function(*args, **kwargs)
        _synchronise()
    except Exception as fault:
        report.extra |= {"verdict": "raised", "raised": f"{type(fault).__name__}: {fault}"[:500]}
        report.summary = [f"raised: {report.extra['raised']}", f"the saved run ended as {data.get('execution_status')}"]
        report.next_step = "the inputs are enough to reproduce it: run this replay under compute-sanitizer"
        return report
    report.extra["seconds"] = time.perf_counter() - begin
    return _compare(report, place, data, result, rtol, atol, device)


def _synchronise() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def _leaves(value: Any, key: str) -> dict[str, Any]:
    """Leaves by the same keys as the recorder's."""
    if isinstance(value, (list, tuple)):
        found: dict[str, Any] = {}
        for i, item in enumerate(cast("list[Any]", value)):
            found |= _leaves(item, f"{key}_{i}")
        return found
    if isinstance(value, dict):
        found = {}
        for name, item in cast("dict[Any, Any]", value).items():
            found |= _leaves(item, f"{key}_{name}")
        return found
    return {key: value}


def _compare(
    report: Report, place: Path, data: dict[str, Any], result: Any, rtol: float, atol: float, device: str | None
) -> Report:
    saved = _saved(place, "outputs", device)
    tree = data.get("result")
    old = _leaves(decode(tree, saved, str(place)), "result") if isinstance(tree, dict) else saved
    if not old or data.get("execution_status") != "completed":
        report.extra["verdict"] = "no_saved_output"
        report.summary = [
            f"it came back; the saved run ended as {data.get('execution_status')}, so there is nothing to compare with"
        ]
        report.next_step = (
            "the same inputs did not fail here: the fault needs other state (earlier kernels, the graph, other ranks)"
        )
        return report
    new = _leaves(result, "result" if isinstance(tree, dict) or isinstance(result, (list, tuple, dict)) else "result_0")
    rows = [_row(key, old.get(key), new.get(key), rtol, atol) for key in sorted({*old, *new})]
    columns = [
        Column("output", "text"),
        "state",
        Column("elements", "int"),
        Column("differing", "int"),
        Column("max_abs", "number"),
        Column("max_rel", "number"),
        Column("first_index", "text"),
        Column("saved", "text"),
        Column("now", "text"),
    ]
    table = report.add(Table("outputs", columns, rows, "Outputs, element by element"))
    bad = [r for r in rows if r[1] != "same"]
    report.extra["verdict"] = "differs" if bad else "same"
    report.summary = [
        f"{report.extra['verdict']}: {len(bad)} of {len(table)} outputs differ"
        if bad
        else f"same: all {len(table)} outputs within tolerance"
    ]
    report.next_step = (
        "compare the first differing index with the kernel's tiling"
        if bad
        else "the call is sound by itself: look at what runs around it"
    )
    return report


def _row(key: str, old: Any, new: Any, rtol: float, atol: float) -> tuple[Any, ...]:
    """One output; NaN equals NaN, an infinity only the same one."""
    if not hasattr(old, "shape") or not hasattr(new, "shape"):
        same = type(old) is type(new) and (
            old == new
            or (
                isinstance(old, float)
                and isinstance(new, (int, float))
                and math.isclose(old, new, rel_tol=rtol, abs_tol=atol)
            )
        )
        return (key, "same" if same else "differs", 1, 0 if same else 1, None, None, None, str(old)[:60], str(new)[:60])
    if tuple(old.shape) != tuple(new.shape) or str(old.dtype) != str(new.dtype):
        return (
            key,
            "other_form",
            None,
            None,
            None,
            None,
            None,
            f"{tuple(old.shape)} {old.dtype}",
            f"{tuple(new.shape)} {new.dtype}",
        )
    import numpy

    a, b = _wide(old), _wide(new)
    with numpy.errstate(invalid="ignore", over="ignore", divide="ignore"):
        difference = numpy.abs(b - a)
        close = difference <= atol + rtol * numpy.abs(a)
        close |= (a == b) | (numpy.isnan(a) & numpy.isnan(b))
        wrong = ~close
        relative = difference / numpy.maximum(numpy.abs(a), atol or 1e-30)
    count = int(wrong.sum())
    finite = difference[numpy.isfinite(difference)]
    index = tuple(int(i) for i in numpy.argwhere(wrong)[0]) if count else None
    largest = float(finite.max()) if finite.size else 0.0
    relative_max = float(relative[numpy.isfinite(relative)].max()) if numpy.isfinite(relative).any() else None
    shown = (str(a[index]), str(b[index])) if index is not None else (None, None)
    return (
        key,
        "differs" if count else "same",
        int(a.size),
        count,
        largest,
        relative_max,
        str(index) if index is not None else None,
        *shown,
    )


def _wide(value: Any) -> Any:
    import numpy

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.double() if not value.is_complex() else value
        value = value.numpy()
    return value.astype(numpy.complex128) if numpy.iscomplexobj(value) else value.astype(numpy.float64)
