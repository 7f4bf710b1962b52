"""A recorder of calls for code that has none: what was called, with what, and whether it came back.

Standard library only, and one file on purpose: `crash record --patch` loads it into a foreign interpreter by its path.
Every line is handed to the operating system before the call goes on, so that a killed process leaves its last call.

    from infer_forge.crash.recorder import record

    @record                       # level 0 (the default): gives the function back untouched
    def my_kernel(x, y): ...

Environment, read when a function is decorated or patched: `INFER_FORGE_RECORD_LEVEL` (0 off, 1 names, 3 shapes, dtypes,
strides, devices, 5 statistics, 10 inputs and outputs saved), `_DEST` and `_DIR` (`%r` rank, `%i` pid), `_INCLUDE` and
`_EXCLUDE` (fnmatch, comma-separated), `_MAX_DUMPS` (200), `_MAX_DUMP_BYTES` (4 GiB), `_MAX_LOG_BYTES` (64 MiB, the older
half is dropped), `_PATCH` (`module:function,..`). Values between levels behave as the next lower one.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

_BAR = "=" * 80
_MAX_ITEMS, _MAX_DEPTH, _MAX_REPR = 16, 4, 200
_PREFIX = "INFER_FORGE_RECORD_"
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "LOCAL_RANK")


def _integer(name: str, default: int) -> int:
    text = os.environ.get(_PREFIX + name, "")
    try:
        return int(text) if text else default
    except ValueError:
        sys.stderr.write(f"infer-forge recorder: {_PREFIX}{name}={text!r} is no number; {default} is used\n")
        return default


def rank() -> str:
    """This process's rank as its launcher tells it; `x` when nobody tells."""
    for name in _RANKS:
        if os.environ.get(name, "").isdigit():
            return os.environ[name]
    return "x"


def filled(path: str) -> str:
    """A path with `%r` (rank) and `%i` (pid) put in."""
    return path.replace("%r", rank()).replace("%i", str(os.getpid()))


class Sink:
    """Where the lines go: one file a process, appended with one system call a record, so that a kill loses nothing."""

    def __init__(self) -> None:
        """Read the environment; the file is opened at the first line, and anew after a fork."""
        self.lock = threading.RLock()
        self.pid = 0
        self.fd = -1
        self.path = ""
        self.written = 0
        self.calls = 0
        self.dumps = 0
        self.dump_bytes = 0
        self.max_log = _integer("MAX_LOG_BYTES", 64 << 20)
        self.max_dumps = _integer("MAX_DUMPS", 200)
        self.max_dump_bytes = _integer("MAX_DUMP_BYTES", 4 << 30)

    def _open(self) -> None:
        self.pid = os.getpid()
        target = os.environ.get(_PREFIX + "DEST", "stderr")
        if target in ("stderr", "stdout"):
            self.fd, self.path = (2 if target == "stderr" else 1), ""
            return
        self.path = filled(target)
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        self.fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.written = os.fstat(self.fd).st_size

    def write(self, text: str) -> None:
        """Hand lines to the operating system now. A full disk or a closed file never breaks the program."""
        data = (text + "\n").encode("utf-8", "replace")
        with self.lock:
            try:
                if self.pid != os.getpid():
                    self._open()
                if self.path and self.written + len(data) > self.max_log // 2:
                    os.close(self.fd)
                    os.replace(self.path, self.path + ".1")
                    self._open()
                view = memoryview(data)
                while view:
                    view = view[os.write(self.fd, view) :]
                self.written += len(data)
            except OSError:
                pass

    def next_call(self) -> int:
        """Number of the next call in this process."""
        with self.lock:
            self.calls += 1
            return self.calls

    def room_for_dump(self, size: int) -> str | None:
        """None when another dump may be written, else why not."""
        if self.dumps >= self.max_dumps:
            return f"Dump limit reached ({self.max_dumps} dumps)"
        if self.dump_bytes + size > self.max_dump_bytes:
            return f"Dump size limit reached ({self.max_dump_bytes} bytes)"
        self.dumps += 1
        self.dump_bytes += size
        return None


_sink: Sink | None = None


def _forget_sink() -> None:
    """In a forked child: its lock may be held by a thread that does not exist there."""
    global _sink
    _sink = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_sink)


def _the_sink() -> Sink:
    global _sink
    if _sink is None:
        _sink = Sink()
    return _sink


# --- what torch says of the moment ------------------------------------------------------------------------------------
def _torch() -> Any:
    return sys.modules.get("torch")


def _compiling() -> bool:
    torch = _torch()
    try:
        return bool(torch is not None and torch.compiler.is_compiling())
    except Exception:
        return False


def _capturing() -> bool:
    torch = _torch()
    try:
        return bool(torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())
    except Exception:
        return False


def _is_tensor(value: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(value, torch.Tensor)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


# --- lines ------------------------------------------------------------------------------------------------------------
def _array_lines(value: Any, level: int, pad: str, capturing: bool) -> list[str]:
    shape = tuple(value.shape)
    strides = value.stride() if hasattr(value, "stride") else tuple(s // max(1, value.itemsize) for s in value.strides)
    lines = [
        f"shape={shape}",
        f"dtype={value.dtype}",
        f"stride={tuple(strides)}",
        f"device={getattr(value, 'device', 'cpu')}",
    ]
    if _is_tensor(value):
        lines += [f"requires_grad={value.requires_grad}", f"is_contiguous={value.is_contiguous()}"]
    if level >= 5:
        lines.append(_statistics(value, capturing))
    return [f"{pad}{line}" for line in lines]


def _statistics(value: Any, capturing: bool) -> str:
    """Minimum, maximum, mean, NaN and infinity counts; reading them waits for the device (a dead context shows here)."""
    if capturing:
        return "statistics=[skipped: graph capture in progress]"
    try:
        if 0 in tuple(value.shape):
            return "statistics=[empty tensor]"
        if _is_tensor(value):
            torch = _torch()
            x = value.detach()
            wide = x if not x.is_complex() else x.abs()
            wide = wide.float() if wide.is_floating_point() else wide.double()
            nan, inf = int(torch.isnan(wide).sum().item()), int(torch.isinf(wide).sum().item())
            low, high, mean = float(wide.min().item()), float(wide.max().item()), float(wide.mean().item())
        else:
            numpy: Any = sys.modules["numpy"]
            wide = value.astype("float64")
            nan, inf = int(numpy.isnan(wide).sum()), int(numpy.isinf(wide).sum())
            low, high, mean = float(wide.min()), float(wide.max()), float(wide.mean())
    except Exception as fault:
        return f"statistics=[unavailable: {type(fault).__name__}]"
    return f"min={low:.6f} max={high:.6f} mean={mean:.6f} nan_count={nan} inf_count={inf}"


def _describe(name: str, value: Any, level: int, capturing: bool, pad: str = "  ", depth: int = 0) -> list[str]:
    kind = type(value).__name__
    kept: Any = value
    if _is_tensor(value) or _is_array(value):
        form = "Tensor" if _is_tensor(value) else "Array"
        return [f"{pad}{name}={form}(", *_array_lines(value, level, pad + "    ", capturing), f"{pad})"]
    if isinstance(value, (list, tuple, dict)) and value:
        items: list[tuple[str, Any]]
        if isinstance(value, dict):
            items = [(str(k)[:80], v) for k, v in cast("dict[Any, Any]", value).items()]
        else:
            items = [(str(i), v) for i, v in enumerate(cast("Sequence[Any]", value))]
        if depth >= _MAX_DEPTH:
            return [f"{pad}{name}={kind}(...)"]
        lines = [f"{pad}{name}={kind}("]
        for key, item in items[:_MAX_ITEMS]:
            lines += _describe(key, item, level, capturing, pad + "    ", depth + 1)
        if len(items) > _MAX_ITEMS:
            lines.append(f"{pad}    ... ({len(items) - _MAX_ITEMS} more items)")
        return [*lines, f"{pad})"]
    try:
        text = repr(kept)
    except Exception as fault:
        text = f"<{kind}: repr raised {type(fault).__name__}>"
    return [f"{pad}{name}={' '.join(text[:_MAX_REPR].split())}"]


# --- dumps ------------------------------------------------------------------------------------------------------------
def _encode(value: Any, key: str, tensors: dict[str, Any], arrays: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """A value as a JSON tree; tensors and arrays go aside under their key."""
    kind = type(value).__name__
    kept: Any = value
    if _is_tensor(value):
        tensors[key] = value.detach().cpu()
        return {"t": "tensor", "key": key, "device": str(value.device), "requires_grad": bool(value.requires_grad)}
    if _is_array(value):
        if value.dtype.hasobject:
            return {"t": "opaque", "repr": "array of objects"}
        arrays[key] = value.copy()
        return {"t": "array", "key": key}
    if value is None or isinstance(value, (bool, int, str, float)):
        return {"t": "json", "value": value if not isinstance(value, float) or value - value == 0 else repr(value)}
    if isinstance(value, (list, tuple)) and depth < 16:
        items = cast("Sequence[Any]", value)
        return {
            "t": kind if kind in ("list", "tuple") else "list",
            "items": [_encode(v, f"{key}_{i}", tensors, arrays, depth + 1) for i, v in enumerate(items)],
        }
    if isinstance(value, dict) and depth < 16 and all(isinstance(k, str) for k in cast("dict[Any, Any]", value)):
        fields = cast("dict[str, Any]", value)
        return {
            "t": "dict",
            "items": {k: _encode(v, f"{key}_{k}", tensors, arrays, depth + 1) for k, v in fields.items()},
        }
    torch = _torch()
    if torch is not None and isinstance(kept, torch.dtype):
        return {"t": "dtype", "value": str(kept)}
    try:
        text = repr(kept)[:_MAX_REPR]
    except Exception:
        text = kind
    return {"t": "opaque", "repr": text}


def _nbytes(value: Any, depth: int = 0) -> int:
    if _is_tensor(value):
        return int(value.numel()) * int(value.element_size())
    if _is_array(value):
        return int(value.nbytes)
    if isinstance(value, dict) and depth < 16:
        return sum(_nbytes(v, depth + 1) for v in cast("dict[Any, Any]", value).values())
    if isinstance(value, (list, tuple)) and depth < 16:
        return sum(_nbytes(v, depth + 1) for v in cast("Sequence[Any]", value))
    return 0


class _Dump:
    """One saved call: a folder whose files tell how far the call came."""

    def __init__(self, name: str, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        now = time.time()
        stamp = time.strftime("%Y%m%d_%H%M%S", time.localtime(now)) + f"_{int(now * 1000) % 1000:03d}"
        safe = re.sub(r"[^\w.\-]", "_", name)[:120]
        base = filled(os.environ.get(_PREFIX + "DIR", "crash-evidence/dumps_rank%r"))
        self.folder = os.path.join(base, f"{stamp}_pid{os.getpid()}_{safe}_call{number:04d}")
        os.makedirs(
            self.folder, mode=0o700, exist_ok=False
        )  # before the copy: a folder without files tells a dead context
        self.meta: dict[str, Any] = {
            "function_name": name,
            "timestamp": now,
            "process_id": os.getpid(),
            "rank": rank(),
            "call_sequence": number,
        }
        tensors: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        self.meta["arguments"] = {
            "args": [_encode(v, f"arg_{i}", tensors, arrays) for i, v in enumerate(args)],
            "kwargs": {k: _encode(v, f"kwarg_{k}", tensors, arrays) for k, v in kwargs.items()},
        }
        self._save("inputs", tensors, arrays)
        self.meta["input_tensor_keys"] = [*tensors, *arrays]
        self.status("inputs_saved")

    def _save(self, what: str, tensors: dict[str, Any], arrays: dict[str, Any]) -> None:
        if tensors:
            self._whole(f"{what}.pt", lambda path: _torch().save(tensors, path))
        if arrays:
            numpy: Any = sys.modules["numpy"]
            self._whole(f"{what}.npz", lambda path: numpy.savez(path, **arrays))

    def _whole(self, name: str, save: Callable[[str], Any]) -> None:
        part = os.path.join(self.folder, f"part-{name}")
        save(part)
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, os.path.join(self.folder, name))

    def status(self, status: str, **more: Any) -> None:
        """Write the metadata whole."""
        self.meta.update(execution_status=status, **more)
        part = os.path.join(self.folder, "part-metadata.json")
        with open(part, "w", encoding="utf-8") as file:
            json.dump(self.meta, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, os.path.join(self.folder, "metadata.json"))

    def outputs(self, result: Any) -> None:
        """Save what came back."""
        tensors: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        tree = _encode(result, "result", tensors, arrays)
        self._save("outputs", tensors, arrays)
        self.status("completed", result=tree, output_tensor_keys=[*tensors, *arrays])


# --- recording --------------------------------------------------------------------------------------------------------
def wanted(name: str) -> bool:
    """Whether the include and exclude lists let a name through."""
    include = [p for p in os.environ.get(_PREFIX + "INCLUDE", "").split(",") if p]
    exclude = [p for p in os.environ.get(_PREFIX + "EXCLUDE", "").split(",") if p]
    return (not include or any(fnmatch.fnmatch(name, p) for p in include)) and not any(
        fnmatch.fnmatch(name, p) for p in exclude
    )


def record(function: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """Decorator: record the calls of a function at the level of the environment. Level 0 gives it back untouched."""
    if function is None:
        return functools.partial(record, name=name)
    level = _integer("LEVEL", 0)
    shown = (
        name or f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__name__)}"
    )
    if level <= 0 or not wanted(shown) or getattr(function, "__infer_forge_recorded__", False):
        return function

    @functools.wraps(function, updated=())
    def recorded(*args: Any, **kwargs: Any) -> Any:
        if _compiling():
            return function(*args, **kwargs)
        return _call(function, shown, level, args, kwargs)

    recorded.__infer_forge_recorded__ = True  # type: ignore[attr-defined]
    return recorded


def _stamp() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"


def _call(function: Callable[..., Any], name: str, level: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Write, call, write."""
    sink = _the_sink()
    number = sink.next_call()
    capturing = _capturing()
    sink.write(f"[{_stamp()}] Crash recorder Call: {name}")
    dump: _Dump | None = None
    if level >= 3:
        _try_lines(sink, "Positional input arguments:", {str(i): v for i, v in enumerate(args)}, level, capturing)
        _try_lines(sink, "Keyword input arguments:", kwargs, level, capturing)
    if level >= 10:
        dump = _try_dump(sink, name, number, args, kwargs, capturing)
    try:
        result = function(*args, **kwargs)
    except BaseException as fault:
        message = " ".join(str(fault).split())[:300]
        sink.write(f"[{_stamp()}] Crash recorder Exception: {name} ({type(fault).__name__}: {message})")
        if dump is not None:
            with contextlib.suppress(Exception):
                dump.status("exception", exception={"type": type(fault).__name__, "message": message})
        raise
    if level >= 3:
        _try_lines(sink, "Output:", {"result": result}, level, capturing)
    if dump is not None:
        try:
            dump.outputs(result)
            sink.write(f"Dumped outputs to: {dump.folder}")
        except Exception as fault:
            sink.write(
                f"[DUMP ERROR (outputs) in {name}]: {type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
            )
    sink.write(f"[{_stamp()}] Crash recorder Return: {name}")
    return result


def _try_lines(sink: Sink, head: str, values: dict[str, Any], level: int, capturing: bool) -> None:
    """Describe values; whatever goes wrong in describing never reaches the program."""
    if not values:
        return
    lines = [head]
    for key, value in values.items():
        try:
            lines += _describe(str(key), value, level, capturing)
        except Exception as fault:
            lines.append(f"  {key}=[unavailable: {type(fault).__name__}]")
    sink.write("\n".join(lines))


def _try_dump(
    sink: Sink, name: str, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], capturing: bool
) -> _Dump | None:
    if capturing:
        sink.write("Tensor dump skipped: graph capture in progress")
        return None
    why_not = sink.room_for_dump(_nbytes(args) + _nbytes(kwargs))
    if why_not is not None:
        sink.write(f"{why_not}. Skipping dump for {name}.")
        return None
    try:
        dump = _Dump(name, number, args, kwargs)
    except Exception as fault:
        sink.write(f"[DUMP ERROR (inputs) in {name}]: {type(fault).__name__}: {' '.join(str(fault).split())[:200]}")
        return None
    sink.write(f"Dumped inputs to: {dump.folder}")
    return dump


# --- patching -----------------------------------------------------------------------------------------------------------
def patch(targets: Sequence[str]) -> None:
    """Record functions of modules, now where the module is loaded, else when it is imported.

    Args:
        targets: `module:function` or `module:Class.method`; `torch.ops.NAMESPACE:OP` for a custom operator.

    Raises:
        ValueError: a target is not of that form.
    """
    by_module: dict[str, list[str]] = {}
    operators: dict[tuple[str, str], str] = {}
    for target in targets:
        module, colon, function = target.partition(":")
        if not colon or not module or not function:
            raise ValueError(f"{target!r} is not MODULE:FUNCTION")
        if module.startswith("torch.ops."):
            operators[(module[len("torch.ops.") :], function)] = target
        else:
            by_module.setdefault(module, []).append(function)
    if operators:
        by_module.setdefault("torch._ops", []).append("")
        _OPERATORS.update(operators)
    waiting: dict[str, list[str]] = {}
    for module, functions in by_module.items():
        loaded = sys.modules.get(module)
        if loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False):
            _patch_module(loaded, functions)
        else:
            waiting[module] = functions
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))


_OPERATORS: dict[tuple[str, str], str] = {}


def _patch_module(module: ModuleType, functions: Sequence[str]) -> None:
    for path in functions:
        if path == "" and module.__name__ == "torch._ops":
            _patch_operators(module)
            continue
        owner: Any = module
        *parents, last = path.split(".")
        try:
            for parent in parents:
                owner = getattr(owner, parent)
            raw = owner.__dict__.get(last, None) if isinstance(owner, type) else None
            function = raw if raw is not None else getattr(owner, last)
        except AttributeError:
            sys.stderr.write(f"infer-forge recorder: {module.__name__} has no {path}; it is not recorded\n")
            continue
        name = f"{module.__name__}.{path}"
        kind: Any = type(cast("object", function))
        form: Any = kind if kind in (staticmethod, classmethod) else None
        wrapped: Any = form(record(function.__func__, name=name)) if form is not None else record(function, name=name)
        setattr(owner, last, wrapped)


def _patch_operators(module: Any) -> None:
    """Custom operators appear when they are first looked up: the lookup gives the recorded one."""
    namespace = module._OpNamespace
    inner = namespace.__getattr__

    def look_up(self: Any, op: str) -> Any:
        found = inner(self, op)
        target = _OPERATORS.get((self.name, op))
        if target is None:
            return found
        wrapped = _Operator(found, f"torch.ops.{self.name}.{op}")
        self.__dict__[op] = wrapped
        return wrapped

    namespace.__getattr__ = look_up


class _Operator:
    """A recorded operator; everything but the call is the operator's own."""

    def __init__(self, operator: Any, name: str) -> None:
        self.__dict__["_operator"] = operator

        def call(*args: Any, **kwargs: Any) -> Any:
            return operator(*args, **kwargs)

        self.__dict__["_recorded"] = record(call, name=name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._recorded(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_operator"], name)


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the other finders find a module, and patches it right after it was executed."""

    def __init__(self, wanted_modules: dict[str, list[str]]) -> None:
        self.wanted = wanted_modules

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only for the modules asked for."""
        if fullname not in self.wanted:
            return None
        functions = self.wanted.pop(fullname)
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                _wrap_loader(spec.loader, functions)
                return spec
        return None


def _wrap_loader(loader: Any, functions: list[str]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _patch_module(module, functions)

    loader.exec_module = exec_module


def install_from_environment() -> None:
    """Patch what `INFER_FORGE_RECORD_PATCH` names; called by the start-up hook of `crash record`."""
    targets = [t.strip() for t in os.environ.get(_PREFIX + "PATCH", "").split(",") if t.strip()]
    if targets and _integer("LEVEL", 0) > 0:
        try:
            patch(targets)
        except ValueError as fault:
            sys.stderr.write(f"infer-forge recorder: {fault}\n")
