"""Who is who: names are all that a rule like "the reviewer is not the author" has to compare."""

from __future__ import annotations


def same_person(one: str, other: str) -> bool:
    """Whether two names mean the same person: alike but for case and spaces, or one the other's part before the `@`."""
    a, b = (" ".join(name.split()).casefold() for name in (one, other))
    return a == b or ("@" not in a and b.partition("@")[0] == a) or ("@" not in b and a.partition("@")[0] == b)
