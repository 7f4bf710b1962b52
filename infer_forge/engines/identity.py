"""Which framework a running server is, by what it says of itself.

Sources: the prefixes of their Prometheus metrics, and `owned_by` of the models that /v1/models lists, which the protocol classes
of SGLang, vLLM, TensorRT-LLM and TokenSpeed each set to their own name.
"""

from __future__ import annotations

import re
from typing import Any, cast

from infer_forge.base.errors import UsageFault
from infer_forge.engines import frameworks, http

_METRICS_BYTES = 1 << 20


def framework_of(url: str) -> str | None:
    """Canonical name of the framework that answers; None where it does not tell (a router, an old version, no answer)."""
    text = http.call(f"{url}/metrics", limit_bytes=_METRICS_BYTES).body.decode("utf-8", "replace")
    named = [
        g.name for g in frameworks.GRAMMARS.values() if g.metrics and re.search(f"^{g.metrics}", text, re.MULTILINE)
    ]
    if len(named) == 1:
        return named[0]
    listed: Any = http.call(f"{url}/v1/models").json()
    rows: Any = cast("dict[str, Any]", listed).get("data") if isinstance(listed, dict) else None
    models = cast("list[Any]", rows) if isinstance(rows, list) else []
    owners = {str(cast("dict[str, Any]", m).get("owned_by")) for m in models if isinstance(m, dict)}
    known = sorted(owners & {*frameworks.GRAMMARS})
    return known[0] if len(known) == 1 and len(owners) == 1 else None


def refuse_another(framework: str, url: str) -> None:
    """Refuse a server that says it is of another framework than the one named.

    Raises:
        UsageFault: it does.
    """
    found = framework_of(url)
    if found is None or found == frameworks.canonical(framework):
        return
    titles = (frameworks.grammar(found).title, frameworks.grammar(framework).title)
    raise UsageFault(
        f"the server says that it is {titles[0]}, not {titles[1]}",
        where=url,
        next_step=f"--framework {found}, or another address",
    )
