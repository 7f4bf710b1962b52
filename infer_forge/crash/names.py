"""Kernel names: short form of a demangled signature, and the last name inside an Itanium-mangled one."""

from __future__ import annotations

import re

from infer_forge.crash.signatures import data

_WORD = re.compile(r"[\w$~]+")


def short(name: str) -> str:
    """`void ns::k<int, 4>(float*)` -> `k`; `_Z3fooPi` -> `foo`; other names as they are."""
    name = name.strip()
    if name.startswith("_Z"):
        return demangled(name)
    out: list[str] = []
    angle = paren = 0
    for char in name:
        if paren:
            paren += (char == "(") - (char == ")")
        elif char == "<":
            angle += 1
        elif char == ">":
            angle = max(0, angle - 1)
        elif angle:
            continue
        elif char == "(":
            text = "".join(out)
            if text.strip() and not text.endswith(("::", " ", "operator")):
                break  # the arguments begin
            paren = 1  # (anonymous namespace)
        else:
            out.append(char)
    text = "".join(out).strip()
    last = text.rsplit("::", 1)[-1].rsplit(" ", 1)[-1]
    return last or name[:120]


def demangled(name: str) -> str:
    """The innermost source name of an Itanium-mangled function: `_ZN2at6nativeL3fooE` -> `foo`."""
    at = 2
    last = ""
    nested = name[at : at + 1] == "N"
    at += nested
    while at < len(name):
        while name[at : at + 1] in ("K", "L", "V"):
            at += 1
        digits = re.match(r"\d{1,4}", name[at:])
        if not digits:
            break
        size = int(digits.group())
        at += len(digits.group())
        word = name[at : at + size]
        if len(word) < size or not _WORD.fullmatch(word):
            break
        last = word if not word.startswith("_GLOBAL__N_") else last
        at += size
        if not nested:
            break
    return last or name


def is_collective(text: str) -> bool:
    """Whether a kernel, API or frame waits for or reads from other ranks."""
    low = text.lower()
    return any(word in low for word in data()["collective_names"])


def is_replay(text: str) -> bool:
    """Whether a frame belongs to a CUDA graph replay."""
    return any(word in text for word in data()["replay_frames"])
