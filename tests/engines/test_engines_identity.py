"""Which framework answers: by its metrics, else by the owner of its models; one that does not tell is none."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.engines import frameworks, identity
from tests.engines.fakes.launch import engine


@contextmanager
def serving(metrics: str | None, models: str | None) -> Generator[str]:
    """A server that answers /metrics and /v1/models with these bodies; 404 where there is none."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = {"/metrics": metrics, "/v1/models": models}.get(self.path)
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _models(*owners: object) -> str:
    return json.dumps({"data": [{"id": "m", "owned_by": o} for o in owners]})


@pytest.mark.parametrize("name", frameworks.FRAMEWORKS)
def test_every_framework_tells_what_it_is(name: str) -> None:
    with engine(name) as running:
        assert identity.framework_of(running.url) == name
        identity.refuse_another(name, running.url)


@pytest.mark.parametrize(
    ("metrics", "models", "found"),
    [
        ("# HELP vllm:x\nvllm:num_requests_running 0\n", None, "vllm"),
        (None, _models("sglang"), "sglang"),
        ("process_cpu_seconds_total 1\n", _models("tokenspeed"), "tokenspeed"),
        ("tokenspeed:num_requests_total 1\n", _models("sglang"), "tokenspeed"),
        ("vllm:a 1\nsglang:b 2\n", _models("vllm", "sglang"), None),  # a router before both
        (None, _models("library"), None),
        (None, _models("vllm", "library"), None),
        (None, '{"data": 7}', None),
        (None, "[1]", None),
        (None, "<html>", None),
        (None, None, None),
    ],
)
def test_metrics_count_before_owners_and_what_is_not_told_is_not_guessed(
    metrics: str | None, models: str | None, found: str | None
) -> None:
    with serving(metrics, models) as url:
        assert identity.framework_of(url) == found


def test_an_address_where_nobody_answers_is_no_framework() -> None:
    assert identity.framework_of("http://127.0.0.1:1") is None


def test_another_framework_is_refused_with_its_name() -> None:
    with serving(None, _models("vllm")) as url:
        with pytest.raises(UsageFault, match="vLLM, not SGLang"):
            identity.refuse_another("sglang", url)
        identity.refuse_another("vllm", url)
