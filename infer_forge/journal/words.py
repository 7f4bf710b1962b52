"""How texts become search words: identifiers are split (camel case, snake case, template arguments), CJK goes by characters.

SQLite's own tokenizer does the rest (it separates at `_`, `::`, `<`, `>`), so an identifier is found whole, as a phrase,
and by its parts; a run of CJK is found by any of its characters, as a phrase too.
"""

from __future__ import annotations

import re

_CJK = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_CAMEL_WORD = re.compile(r"\b[A-Za-z]*[a-z][A-Z][A-Za-z0-9]*\b|\b[A-Z]{2,}[a-z][A-Za-z0-9]*\b")
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


def humps(text: str) -> str:
    """The parts of all camel-case words of a text, to be indexed beside it."""
    return " ".join(_HUMP.sub(" ", word) for word in _CAMEL_WORD.findall(text))


def parts(term: str) -> list[str]:
    """The index words of one query term, lower case, in order."""
    return [w.lower() for w in _WORD.findall(spaced(_HUMP.sub(" ", term)))]


def terms(query: str) -> list[list[str]]:
    """Query -> terms, each a phrase of index words; quoted parts stay together; stop words go unless nothing else is left."""
    found = [parts(quoted or word) for quoted, word in _TERM.findall(query)]
    found = [t for t in found if t]
    useful = [t for t in found if not (len(t) == 1 and t[0] in STOP)]
    unique = {tuple(t): t for t in useful or found}
    return list(unique.values())


def phrase(words: list[str]) -> str:
    """An FTS5 string for one term."""
    joined = " ".join(words).replace('"', "")
    return f'"{joined}"'
