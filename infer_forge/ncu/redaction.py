"""Secrets in a profiler's command line: the shapes that `base.redact` knows, and values of options whose name says so."""

from __future__ import annotations

import re

from infer_forge.base.redact import redact

_NAMED = re.compile(
    r"(?i)(--?[\w-]*(?:token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key|credential)s?)(=|\s+)(\"[^\"]*\"|'[^']*'|[^\s-]\S*)"
)


def redact_command(command: str) -> str:
    """The command with secrets masked."""
    return redact(_NAMED.sub(r"\1\2[redacted:option]", command))
