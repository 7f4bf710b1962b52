"""The few things that the harness does with an array, for PyTorch tensors (CPU or CUDA) and plain numpy arrays.

PyTorch is imported only when a tensor is handed in.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from typing import Any

GUARD_BYTES = 256
"""Bytes of poison before and behind every output that the harness allocates."""

POISON_BYTE = 0xA5


def is_tensor(value: Any) -> bool:
    """Whether the value is a PyTorch tensor (without importing PyTorch)."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: Any) -> bool:
    """Whether the value is a numpy array or a tensor."""
    import numpy as np

    return isinstance(value, np.ndarray) or is_tensor(value)


def plain(value: Any) -> bool:
    """Whether it is exactly an array of its library and no subclass: a lazy stand-in could compute later, outside the timed window."""
    import numpy as np

    torch = sys.modules.get("torch")
    exact: set[Any] = {np.ndarray} | ({torch.Tensor, torch.nn.Parameter} if torch is not None else set[Any]())
    return type(value) in exact


def numpy_of(value: Any) -> Any:
    """A numpy copy on the host (bfloat16 as float32)."""
    import numpy as np

    if is_tensor(value):
        host = value.detach().to("cpu")
        torch = sys.modules["torch"]
        return (
            host.to(torch.float32).numpy().copy() if host.dtype == torch.bfloat16 else host.contiguous().numpy().copy()
        )
    return np.array(value, copy=True)


def dtype_name(value: Any) -> str:
    """Name of the element type."""
    return str(value.dtype).removeprefix("torch.")


def byte_size(value: Any) -> int:
    """Bytes of the elements."""
    return int(value.numel() * value.element_size()) if is_tensor(value) else int(value.nbytes)


def digest(values: Sequence[Any]) -> str:
    """sha256 over shape, type and bytes of the arrays."""
    out = hashlib.sha256()
    for value in values:
        if is_array(value):
            host = numpy_of(value)
            out.update(f"{tuple(host.shape)} {dtype_name(value)}".encode())
            out.update(host.tobytes())
        else:
            out.update(repr(value).encode())
    return out.hexdigest()


def copy_into(target: Any, source: Any) -> None:
    """New values at the same address."""
    if is_tensor(target):
        target.copy_(source)
    else:
        target[...] = source


def synchronise(values: Sequence[Any]) -> None:
    """Wait for the whole device (every stream) of the first CUDA tensor; nothing to wait for on the CPU."""
    torch = sys.modules.get("torch")
    if torch is not None and any(is_tensor(v) and v.is_cuda for v in values):
        torch.cuda.synchronize()


def on_cuda(values: Sequence[Any]) -> bool:
    """Whether any of them is a CUDA tensor."""
    return any(is_tensor(v) and v.is_cuda for v in values)


class Guarded:
    """An output of the given shape between two bands of poison, poisoned itself before each call."""

    raw: Any
    view: Any

    def __init__(self, like: Any) -> None:
        self.like = like
        size = byte_size(like)
        if is_tensor(like):
            torch = sys.modules["torch"]
            self.raw = torch.empty(size + 2 * GUARD_BYTES, dtype=torch.uint8, device=like.device)
            self.view = self.raw[GUARD_BYTES : GUARD_BYTES + size].view(like.dtype).view(like.shape)
        else:
            import numpy as np

            self.raw = np.empty(size + 2 * GUARD_BYTES, dtype=np.uint8)
            self.view = self.raw[GUARD_BYTES : GUARD_BYTES + size].view(like.dtype).reshape(like.shape)
        self.poison()

    def poison(self) -> None:
        """Fill bands and output: NaN for floating types, 0xA5 bytes otherwise."""
        if is_tensor(self.raw):
            self.raw.fill_(POISON_BYTE)
            if self.view.dtype.is_floating_point or self.view.dtype.is_complex:
                self.view.fill_(float("nan"))
            return
        self.raw[...] = POISON_BYTE
        if self.view.dtype.kind in "fc":
            self.view[...] = float("nan")

    def bands_intact(self) -> bool:
        """Whether nothing was written outside of the output."""
        bands = (self.raw[:GUARD_BYTES], self.raw[len(self.raw) - GUARD_BYTES :])
        return all(bool((band == POISON_BYTE).all()) for band in bands)

    def poison_left(self, expected: Any) -> int:
        """How many elements still hold the poison where the expected value is another."""
        import numpy as np

        seen = numpy_of(self.view)
        if seen.dtype.kind in "fc":
            return int((np.isnan(seen) & ~np.isnan(expected)).sum())
        pattern = np.frombuffer(bytes([POISON_BYTE]) * seen.dtype.itemsize, dtype=seen.dtype)[0]
        return int(((seen == pattern) & (expected != pattern)).sum())
