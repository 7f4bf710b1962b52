"""The HTTP face of a fake engine: OpenAI-compatible completions with streaming, health, metrics, and its own routes."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.engines.fakes import logs
from tests.engines.fakes.profiler import Profiler
from tests.engines.fakes.scheduler import Request, Scheduler
from tests.engines.fakes.settings import Settings


class Engine:
    """State behind the routes: scheduler, profiler, counters, faults."""

    def __init__(self, framework: str, options: dict[str, Any], settings: Settings) -> None:
        self.framework, self.options, self.settings = framework, options, settings
        self.model = settings.wrong_model or str(options.get("served_model_name") or options["model"])
        self.profiler = Profiler(framework, settings, int(options.get("tp") or 1), self.log)
        self.scheduler = Scheduler(settings, self.profiler.on_step)
        self.profiler.scheduler = self.scheduler
        self.requests = self.prompt_tokens = self.generated = 0
        self._lock = threading.Lock()
        self.scheduler.start()

    def log(self, text: str) -> None:
        """One line in the engine's own log style, on stderr."""
        print(logs.line(self.framework, text), file=sys.stderr, flush=True)

    def count(self) -> int:
        """Number of this request, from 1; carries out the faults that count requests."""
        with self._lock:
            self.requests += 1
            number = self.requests
        settings = self.settings
        if settings.crash_after and number >= settings.crash_after:
            print(logs.crash(self.framework, "cuda"), file=sys.stderr, flush=True)
            os._exit(139 if self.framework == "tensorrt_llm" else 1)
        if settings.hang_after and number >= settings.hang_after:
            threading.Event().wait()
        return number

    def healthy(self) -> bool:
        """What /health says."""
        stalled = self.scheduler.stalled_until > time.monotonic()
        sick = self.settings.sick_after and self.requests >= self.settings.sick_after
        return not (stalled or sick)


def _tokens(prompt: Any) -> int:
    """Length of a prompt: token ids are counted, text counts a token for every four characters."""
    if isinstance(prompt, list):
        return len(prompt)  # pyright: ignore[reportUnknownArgumentType]
    return max(1, -(-len(str(prompt)) // 4))


class Handler(BaseHTTPRequestHandler):
    """The routes."""

    protocol_version = "HTTP/1.1"
    engine: Engine

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Quiet: engines log requests in their own style, and tests do not need it."""

    def _answer(self, status: int, body: Any = None, kind: str = "application/json") -> None:
        data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        """Health, models, server facts, metrics, route list."""
        path = self.path.split("?")[0]
        engine = self.engine
        if path in ("/health", "/health_generate", "/ping"):
            self._answer(200 if engine.healthy() else 503)
        elif path == "/v1/models":
            entry = {
                "id": engine.model,
                "object": "model",
                "owned_by": engine.framework,
                "root": engine.options["model"],
            }
            self._answer(200, {"object": "list", "data": [{**entry, "max_model_len": 40960}]})
        elif path == "/metrics":
            self._answer(200, logs.metrics(engine), "text/plain; version=0.0.4")
        elif path == "/openapi.json":
            self._answer(200, {"openapi": "3.1.0", "paths": {r: {} for r in self._routes()}})
        elif path == "/fake/speed":
            s = engine.settings
            speed = {"ttft_ms": s.ttft_ms, "itl_ms": s.itl_ms, "prefill_us_per_token": s.prefill_us_per_token}
            more = {"noise": s.noise, "seed": s.seed, "accept_length": s.accept_length, "launch": os.getpid()}
            self._answer(200, {**speed, **more})
        elif path == "/version" and engine.framework in ("vllm", "tensorrt_llm"):
            self._answer(200, {"version": logs.version(engine.framework, engine.settings)})
        elif path in ("/get_server_info", "/server_info") and engine.framework == "sglang":
            self._answer(200, logs.server_info(engine))
        elif path == "/get_model_info" and engine.framework == "sglang":
            self._answer(200, {"model_path": engine.options["model"], "is_generation": True})
        elif path == "/flush_cache" and engine.framework == "sglang":
            self._answer(200, "Cache flushed.\n", "text/plain")
        else:
            self._answer(404, {"detail": "Not Found"})

    def _routes(self) -> list[str]:
        routes = ["/health", "/v1/models", "/v1/completions", "/v1/chat/completions", "/metrics"]
        if self._profiles():
            routes += ["/start_profile", "/stop_profile"]
        return routes

    def _profiles(self) -> bool:
        engine = self.engine
        if engine.settings.no_profile:
            return False
        return {
            "sglang": True,
            "vllm": bool(engine.profiler.directory),
            "tokenspeed": engine.settings.profile_route,
        }.get(engine.framework, False)

    def do_OPTIONS(self) -> None:
        """405 for a route that exists, as the real servers do."""
        self._answer(405 if self.path.split("?")[0] in self._routes() else 404)

    def do_POST(self) -> None:
        """Completions and profile control."""
        path = self.path.split("?")[0]
        size = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(size) if size else b""
        try:
            body: dict[str, Any] = json.loads(raw) if raw else {}
        except ValueError:
            self._answer(400, {"error": "invalid JSON"})
            return
        if path in ("/v1/completions", "/v1/chat/completions", "/generate"):
            self._complete(path, body)
        elif path in ("/start_profile", "/stop_profile") and self._profiles():
            self._profile(path, body)
        elif path in ("/reset_prefix_cache", "/flush_cache"):
            self._answer(200, "")
        else:
            self._answer(404, {"detail": "Not Found"})

    def _profile(self, path: str, body: dict[str, Any]) -> None:
        profiler = self.engine.profiler
        if path == "/start_profile":
            fault = profiler.start({} if self.engine.framework == "vllm" else body)
            text = "Start profiling.\n"
        else:
            fault = profiler.stop()
            text = "Stop profiling. This will take some time.\n"
        if fault:
            self._answer(500 if self.engine.framework == "vllm" else 400, fault, "text/plain")
        else:
            self._answer(200, "" if self.engine.framework == "vllm" else text, "text/plain")

    def _complete(self, path: str, body: dict[str, Any]) -> None:
        engine, settings = self.engine, self.engine.settings
        number = engine.count()
        if settings.error_every and number % settings.error_every == 0:
            self._answer(500, {"object": "error", "message": "Internal Server Error", "code": 500})
            return
        wanted = body.get("model")
        if path != "/generate" and wanted is not None and wanted not in (engine.model, engine.options["model"]):
            self._answer(404, {"object": "error", "message": f"The model `{wanted}` does not exist.", "code": 404})
            return
        chat = path.endswith("chat/completions")
        prompt: Any = body.get("prompt", body.get("input_ids", body.get("text", "")))
        if chat:
            prompt = " ".join(str(m.get("content", "")) for m in body.get("messages", []))
        sampling: dict[str, Any] = body.get("sampling_params") or body
        limit = int(
            sampling.get("max_tokens") or sampling.get("max_completion_tokens") or sampling.get("max_new_tokens") or 16
        )
        if settings.eos_at and not sampling.get("ignore_eos"):
            limit = min(limit, settings.eos_at)
        request = Request(_tokens(prompt), 0 if settings.empty_output else limit)
        engine.scheduler.submit(request)
        self._reply(request, chat, bool(body.get("stream")), "stop" if settings.eos_at else "length")

    def _piece(self, chat: bool, text: str, finish: str | None) -> dict[str, Any]:
        field = "reasoning_content" if self.engine.settings.reasoning else "content"
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        choice |= {"delta": {field: text}} if chat else {"text": text}
        kind = "chat.completion.chunk" if chat else "text_completion"
        return {"id": "cmpl-0", "object": kind, "created": 0, "model": self.engine.model, "choices": [choice]}

    def _reply(self, request: Request, chat: bool, stream: bool, finish: str) -> None:
        usage = {"prompt_tokens": request.prompt_tokens, "completion_tokens": 0, "total_tokens": 0}
        if not stream:
            while (got := request.out.get()) is not None:
                usage["completion_tokens"] += got
            self._count(usage)
            text = " tok" * usage["completion_tokens"]
            choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
            choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            self._answer(200, {"id": "cmpl-0", "model": self.engine.model, "choices": [choice], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while (got := request.out.get()) is not None:
                usage["completion_tokens"] += got
                self._event(self._piece(chat, " tok" * got, None))
            self._count(usage)
            self._event({**self._piece(chat, "", finish), "usage": usage})
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _count(self, usage: dict[str, int]) -> None:
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        self.engine.prompt_tokens += usage["prompt_tokens"]
        self.engine.generated += usage["completion_tokens"]

    def _event(self, data: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True


def serve(engine: Engine, host: str, port: int, ready: Callable[[int], None]) -> None:
    """Listen and serve for ever; `ready` is told the port. Raises `OSError` when the port is taken."""
    handler = type("BoundHandler", (Handler,), {"engine": engine})
    with _Server((host, port), handler) as server:
        ready(int(server.server_address[1]))
        server.serve_forever(poll_interval=0.05)
