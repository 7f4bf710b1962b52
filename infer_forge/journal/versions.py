"""Order of tool versions: releases, pre-releases, post-releases, as PEP 440 orders them, with looser spellings accepted."""

from __future__ import annotations

import re

from infer_forge.journal.model import VersionRange

_VERSION = re.compile(
    r"^\W*v?(?P<release>\d+(?:\.\d+)*)[-_.]?(?:(?P<pre>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?:[-_.]?(?:post|rev|r)[-_.]?(?P<post>\d*))?(?:[-_.]?dev[-_.]?(?P<dev>\d*))?",
    re.IGNORECASE,
)
_PRE = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
Key = tuple[tuple[int, ...], int, int, int, int]


def version_key(version: str) -> Key | None:
    """Sort key of a version; None when it is none (a branch name, a commit).

    `1.0.dev1` < `1.0a1` < `1.0rc1` < `1.0` < `1.0.post1`; `1.0` equals `1.0.0`; what follows `+` does not count (PEP 440).
    """
    match = _VERSION.match(version.strip())
    if not match:
        return None
    release = tuple(int(n) for n in match["release"].split("."))
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    pre = _PRE[match["pre"].lower()] if match["pre"] else 3
    post = int(match["post"] or 0) + 1 if match["post"] is not None else 0
    dev = int(match["dev"] or 0) if match["dev"] is not None else 1 << 30
    if match["dev"] is not None and not match["pre"] and not post:
        pre = -1
    return release, pre, int(match["pre_n"] or 0), post, dev


def in_range(version: str | None, span: VersionRange) -> bool | None:
    """Whether a version is affected; None when it cannot be told: version unknown, or between the known bounds."""
    key = version_key(version) if version else None
    if key is None:
        return True if version and not (span.first or span.fixed_in or span.good_from) else None
    bounds = [version_key(b) if b else None for b in (span.first, span.fixed_in, span.good_from)]
    first, end, good = bounds
    if (first and key < first) or (end and key >= end) or (good and key >= good):
        return False
    unclear = (span.first and not first) or (span.fixed_in and not end) or (span.good_from and not end)
    return None if unclear else True
