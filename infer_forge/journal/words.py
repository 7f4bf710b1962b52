"""How texts become search words: identifiers are split (camel case, snake case, template arguments), CJK goes by characters.

SQLite's own tokenizer does the rest (it separates at `_`, `::`, `<`, `>`), so an identifier is found whole, as a phrase,
and by its parts; a run of CJK is found by any of its characters, as a phrase too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_CJK = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_PIECES = re.compile(f"{_CJK.pattern[1:-1]}+|{_CJK.pattern[1:-1].replace('[', '[^', 1)}+")
# Characters that join Chinese words and mean little themselves.
_CJK_STOP = re.compile("[的了是为在和与时后吗呢但就都也而及或被把将对]")
_COMPOUND = re.compile(
    r"\b[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)+\b|\b[A-Za-z]*[a-z][A-Z][A-Za-z0-9]*\b|\b[A-Z]{2,}[a-z][A-Za-z0-9]*\b"
)
_MARKED = re.compile(r"[A-Z_][A-Za-z0-9_]*")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_MOST_PARTS = 7
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_TERM = re.compile(r"\"([^\"]+)\"|(\S+)")
# English words that carry nothing in a query; the index keeps them.
STOP = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by do does for from has have how i in is it not of on or that the this to was we what when"
        " which why with",
    )
)


def spaced(text: str) -> str:
    """Text with CJK characters apart from each other, for the index and for queries."""
    return text if text.isascii() else _CJK.sub(r" \1 ", text)


def compounds(text: str) -> str:
    """What is indexed beside a text for its identifiers: the parts of camel-case words, and every run of two or more parts joined.

    `fused_moe_kernel` gives `fusedmoe moekernel fusedmoekernel`: a part of an identifier is then one word of the index, which
    is found at once, where a phrase of common words would need all their places.
    """
    return " ".join(filter(None, map(_runs, dict.fromkeys(_names(text)))))


def _names(text: str) -> Iterator[str]:
    """Runs of letters, digits and `_` that hold a capital or a `_`, three characters or more.

    Looked for from the first capital or `_` on, and back from there: most words of a text hold none and cost nothing.
    """
    for match in _MARKED.finditer(text):
        start, end = match.span()
        while start and text[start - 1] in _PLAIN:
            start -= 1
        if end - start > 2:
            yield text[start:end]


@lru_cache(maxsize=100_000)
def _runs(name: str) -> str:
    """The index words of one name; empty when it is no identifier of several parts."""
    pieces = _HUMP.sub(" ", name.replace("_", " ")).lower().split()[:_MOST_PARTS]
    if len(pieces) < 2:
        return ""
    runs = ["".join(pieces[i:j]) for i in range(len(pieces)) for j in range(i + 2, len(pieces) + 1)]
    return " ".join(runs if "_" in name.strip("_") else pieces + runs)


def parts(term: str) -> list[str]:
    """The index words of one query term, lower case, in order."""
    return [w.lower() for w in _WORD.findall(spaced(_HUMP.sub(" ", term)))]


def terms(query: str, *, whole: bool = True) -> list[list[str]]:
    """Query -> terms, each a phrase of index words; quoted parts stay together; stop words go unless nothing else is left.

    `whole`: an identifier is one word (see `compounds`); else the phrase of its parts, as it stands in prose.

    A longer run of CJK characters becomes its pairs of neighbours, since nobody puts spaces between the words there.
    """
    found: list[list[str]] = []
    for quoted, word in _TERM.findall(query):
        found += [parts(quoted)] if quoted else [t for piece in _PIECES.findall(word) for t in _pairs(piece, whole)]
    found = [t for t in found if t]
    useful = [t for t in found if not (len(t) == 1 and (t[0] in STOP or _CJK_STOP.fullmatch(t[0])))]
    unique = {tuple(t): t for t in useful or found}
    return list(unique.values())


def _pairs(piece: str, whole: bool) -> list[list[str]]:
    """The terms of a piece of one script: itself, or its pairs when it is a run of CJK characters."""
    if not _CJK.match(piece):
        return [["".join(parts(piece))] if whole and _COMPOUND.fullmatch(piece) else parts(piece)]
    runs = [r for r in _CJK_STOP.split(piece) if r] or [piece]
    return [list(r[i : i + 2]) for r in runs for i in range(max(1, len(r) - 1))]


def phrase(words: list[str]) -> str:
    """An FTS5 string for one term."""
    joined = " ".join(words).replace('"', "")
    return f'"{joined}"'
