"""Secrets in a profiler's command line: the shapes that `base.redact` knows, and values of options whose name says so."""

from __future__ import annotations

import re

from infer_forge.base.redact import is_secret_name, redact

_OPTION = re.compile(r"(--?([\w-]+)(?:=|\s+))(\"[^\"]*\"|'[^']*'|[^\s-]\S*)")


def redact_command(command: str) -> str:
    """The command with secrets masked: `--api-key X` becomes `--api-key [redacted:option]`, `--max-tokens 16` stays."""

    def mask(found: re.Match[str]) -> str:
        return f"{found[1]}[redacted:option]" if is_secret_name(found[2].replace("-", "_")) else found[0]

    return redact(_OPTION.sub(mask, command))
