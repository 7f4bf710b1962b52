"""Base names and identities of kernels from what the pages of Nsight Compute print."""

from __future__ import annotations

import re

# These names say nothing: hundreds of different kernels carry them, and only the signature tells them apart.
_GENERIC = {
    "kernel", "kernel2", "_kernel", "kernel_", "main_kernel", "device_kernel", "elementwise_kernel", "reduce_kernel",
    "vectorized_elementwise_kernel", "unrolled_elementwise_kernel",
}  # fmt: skip


def base_name(signature: str) -> str:
    """`void ns::k<float, (int)4>(float *)` -> `k`; also for the damaged forms that the pages print (`void unnamed>::k<..>`)."""
    text = (
        re.sub(r"<?unnamed>", "anon", signature)
        .replace("(anonymous namespace)", "anon")
        .replace("operator ()", "operator")
    )
    return (
        _last_word(_outside_brackets(text)) or _last_word(re.split(r"[<(]", text, maxsplit=1)[0]) or signature.strip()
    )


def _outside_brackets(text: str) -> str:
    """The characters outside all `<>` and `()`; empty when these do not balance."""
    kept: list[str] = []
    depth = 0
    for char in text:
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth -= 1
            if depth < 0:
                return ""
        elif depth == 0:
            kept.append(char)
    return "".join(kept) if depth == 0 else ""


def _last_word(text: str) -> str:
    words = text.split()
    return words[-1].rpartition("::")[2] if words else ""


def identity(kernel: str, demangled: str) -> str:
    """What makes two launches of one report the same kernel: the whole signature, where the report has it."""
    return demangled or kernel


def display(kernel: str, demangled: str, width: int = 90) -> str:
    """The name for a table: the base name, followed by the signature where the base name says nothing."""
    if kernel.lower() not in _GENERIC or not demangled or demangled == kernel:
        return kernel
    text = re.sub(r"\s+", " ", demangled)
    return text if len(text) <= width else f"{text[: width - 1]}…"
