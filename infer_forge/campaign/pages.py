"""Pages that are generated and then completed: the generated part stands between two marks, an agent's words around it.

The generated part is never edited by hand: it is compared with what was recorded, and figures in the words around it must be
figures of the generated part.
"""

from __future__ import annotations

import re
from pathlib import Path

from infer_forge.base import jsonio

BEGIN, END = "<!-- generated: do not edit -->", "<!-- end of the generated part -->"
_FIGURE = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s?(%|tok/s|ms|us|x\b|times\b)")
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def write_page(path: Path, title: str, body: str, invitation: str = "") -> str:
    """Write (or renew) the generated part and keep the words around it; gives the sha256 of the generated part."""
    head, tail = f"# {title}\n\n", f"\n{invitation}\n" if invitation else "\n"
    if path.is_file():
        text = path.read_text(encoding="utf-8")
        if BEGIN in text and END in text:
            head, tail = text.split(BEGIN, 1)[0], text.rsplit(END, 1)[1]
    part = f"\n\n{body.strip()}\n\n"
    jsonio.write_atomic(path, f"{head}{BEGIN}{part}{END}{tail}")
    return jsonio.sha256_of(part)


def generated(path: Path) -> str | None:
    """The generated part as it stands in the file; None when the marks are gone."""
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    return text.split(BEGIN, 1)[1].rsplit(END, 1)[0] if BEGIN in text and END in text else None


def part_sha256(path: Path) -> str | None:
    """Hash of the generated part as it stands; None when the marks are gone."""
    part = generated(path)
    return None if part is None else jsonio.sha256_of(part)


def same_as(path: Path, body: str) -> bool:
    """Whether the generated part is what it would be now."""
    return generated(path) == f"\n\n{body.strip()}\n\n"


def stray_figures(path: Path) -> list[str]:
    """Figures with a unit in the words around the generated part that stand nowhere in it."""
    part = generated(path)
    if part is None:
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    words = text.split(BEGIN, 1)[0] + text.rsplit(END, 1)[1]
    known = {_value(m.group()) for m in _NUMBER.finditer(part)}
    return [
        m.group() for m in _FIGURE.finditer(words) if not any(_close(_value(m.group(1)), m.group(1), k) for k in known)
    ]


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _close(value: float, text: str, known: float) -> bool:
    """Equal after rounding to the digits that were written."""
    digits = len(text.partition(".")[2])
    return round(known, digits) == value


def links(text: str) -> list[str]:
    """Paths that a page names in backticks or links (without addresses and anchors)."""
    found = re.findall(r"\]\(([^)#\s]+)\)", text) + re.findall(r"`([\w./@+-]+/[\w./@+-]+\.\w{1,9})`", text)
    return [f for f in dict.fromkeys(found) if "://" not in f]
