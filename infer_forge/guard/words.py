"""Quoting, escapes and brace expansion of shell words, done by ourselves so that no spelling hides a program's name."""

from __future__ import annotations

import re

_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_UNESCAPE = re.compile(r"\\(\n|.)", re.DOTALL)
_GLOB = re.compile(r"(?<!\\)[*?\[]")
_RANGE = re.compile(r"^(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?$")
MAX_BRACE = 256


def ansi_c(body: str) -> str:
    """Value of the inside of `$'...'` (bash manual, ANSI-C quoting)."""

    def one(match: re.Match[str]) -> str:
        hexa, u4, u8, octal, control, other = match.groups()
        if hexa or u4 or u8:
            code = int(hexa or u4 or u8, 16)
            return chr(code) if 0 < code < 0x110000 else ""
        if octal:
            return chr(int(octal, 8) & 0xFF)
        if control:
            return chr(ord(control) & 0x1F)
        return _SIMPLE.get(other, other if other in "\\'\"?" else "\\" + other)

    return _ANSI.sub(one, body).split("\0", 1)[0]


def unescape(text: str) -> str:
    """Value of an unquoted word: a backslash keeps the next character and goes; with a newline both go."""
    if "\\" not in text:
        return text
    return _UNESCAPE.sub(lambda m: "" if m.group(1) == "\n" else m.group(1), text)


def unescape_double(text: str) -> str:
    """Value of text inside double quotes: only `$`, backtick, quote, backslash and newline can be escaped."""
    if "\\" not in text:
        return text
    return re.sub(r'\\([$`"\\\n])', lambda m: "" if m.group(1) == "\n" else m.group(1), text)


def has_glob(text: str) -> bool:
    """Whether an unquoted word has pattern characters."""
    return bool(_GLOB.search(text))


def join_lines(text: str) -> tuple[str, list[int]]:
    """Take `\\<newline>` out where the shell does: outside single quotes and comments.

    Returns the text and the positions (in the new text) at which two characters went missing.
    """
    if "\\\n" not in text:
        return text, []
    out: list[str] = []
    cuts: list[int] = []
    quote = ""
    i, n, size = 0, len(text), 0
    while i < n:
        c = text[i]
        if quote == "'":
            quote = "" if c == "'" else quote
        elif quote == "$":
            if c == "\\" and i + 1 < n:
                out.append(text[i : i + 2])
                size += 2
                i += 2
                continue
            quote = "" if c == "'" else quote
        elif quote == "#":
            quote = "" if c == "\n" else quote
        elif c == "\\" and i + 1 < n:
            if text[i + 1] == "\n":
                cuts.append(size)
            else:
                out.append(text[i : i + 2])
                size += 2
            i += 2
            continue
        elif quote == '"':
            quote = "" if c == '"' else quote
        elif c == "'":
            quote = "$" if i and text[i - 1] == "$" else "'"
        elif c == '"':
            quote = '"'
        elif c == "#" and (i == 0 or text[i - 1] in " \t\n;&|("):
            quote = "#"
        out.append(c)
        size += 1
        i += 1
    return "".join(out), cuts


def original_offset(offset: int, cuts: list[int]) -> int:
    """Position in the text before `join_lines` took characters out."""
    return offset + 2 * sum(1 for c in cuts if c < offset)


def braces(raw: str) -> list[str]:
    """Brace expansion of a raw word, quotes kept: `a{b,c}` -> `ab`, `ac`; more than `MAX_BRACE` results give the word itself."""
    found = _first_brace(raw)
    if found is None:
        return [raw]
    start, end, items = found
    head, tail = raw[:start], raw[end:]
    out: list[str] = []
    for item in items:
        for middle in braces(item):
            for rest in braces(tail):
                out.append(head + middle + rest)
                if len(out) > MAX_BRACE:
                    return [raw]
    return out


def _first_brace(raw: str) -> tuple[int, int, list[str]] | None:
    i, n = 0, len(raw)
    while i < n:
        c = raw[i]
        if c == "\\":
            i += 2
            continue
        if c in "'\"":
            i = _past_quote(raw, i)
            continue
        if c == "$" and raw[i : i + 2] in ("${", "$("):
            i = _past_dollar(raw, i)
            continue
        if c == "{":
            group = _group(raw, i)
            if group:
                return group
        i += 1
    return None


def _past_quote(raw: str, i: int) -> int:
    quote = raw[i]
    i += 1
    while i < len(raw) and raw[i] != quote:
        i += 2 if raw[i] == "\\" and quote == '"' else 1
    return i + 1


def _past_dollar(raw: str, i: int) -> int:
    close = "}" if raw[i + 1] == "{" else ")"
    depth = 0
    while i < len(raw):
        if raw[i] in "{(" and raw[i] == ("{" if close == "}" else "("):
            depth += 1
        elif raw[i] == close:
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return i


def _group(raw: str, start: int) -> tuple[int, int, list[str]] | None:
    """The items of the brace group that opens at `start`, when it is one (has a comma or a range)."""
    depth, i, at = 0, start, start + 1
    items: list[str] = []
    while i < len(raw):
        c = raw[i]
        if c == "\\":
            i += 2
            continue
        if c in "'\"":
            i = _past_quote(raw, i)
            continue
        if c == "{":
            depth += 1
        elif c == "," and depth == 1:
            items.append(raw[at:i])
            at = i + 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                items.append(raw[at:i])
                if len(items) > 1:
                    return start, i + 1, items
                span = _range(items[0])
                return (start, i + 1, span) if span else None
        i += 1
    return None


def _range(text: str) -> list[str] | None:
    match = _RANGE.match(text)
    if not match:
        return None
    first, last, by = match.groups()
    if first.lstrip("-").isdigit() != last.lstrip("-").isdigit():
        return None
    number = first.lstrip("-").isdigit()
    a, b = (int(first), int(last)) if number else (ord(first), ord(last))
    step = abs(int(by)) if by and int(by) else 1
    if abs(b - a) // step > MAX_BRACE:
        return None
    values = range(a, b + 1, step) if a <= b else range(a, b - 1, -step)
    return [str(v) if number else chr(v) for v in values]
