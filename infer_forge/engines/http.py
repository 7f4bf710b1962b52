"""Short HTTP calls to an engine: no proxy, a deadline, and an answer instead of an exception. Standard library only."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What came back: status (0 when nothing did), body, and the reason when nothing did."""

    status: int
    body: bytes
    reason: str = ""

    def json(self) -> Any:
        """The body as JSON; None when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """An engine does not redirect; following one would ask somebody else."""


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


def call(
    url: str,
    *,
    method: str = "GET",
    body: Any = None,
    timeout_s: float = 5.0,
    headers: Mapping[str, str] | None = None,
    limit_bytes: int | None = None,
) -> Answer:
    """One call. A refused connection, a time-out and a broken answer give status 0 with the reason.

    Args:
        headers: further ones, such as `Authorization`. limit_bytes: read no more of the body than this.
    """
    data = json.dumps(body).encode() if body is not None else (b"" if method == "POST" else None)
    most = -1 if limit_bytes is None else limit_bytes
    try:
        fields = {"Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(url, data, fields, method=method)
        with _OPENER.open(request, timeout=timeout_s) as answer:
            return Answer(int(answer.status), answer.read(most))
    except urllib.error.HTTPError as fault:
        with fault:
            return Answer(fault.code, fault.read(most))
    except (OSError, http.client.HTTPException, ValueError) as fault:
        reason = getattr(fault, "reason", None) or fault
        return Answer(0, b"", str(reason) or type(fault).__name__)
