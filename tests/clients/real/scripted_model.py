"""A model on loopback that plays a script: both clients talk to it as they would to their maker's.

It answers the Anthropic Messages stream (`/v1/messages`) and the OpenAI Responses stream (`/v1/responses`). What it
says next is told by the request alone: as many tool calls as the conversation already holds are done, the next step of
the script follows, and behind the last one a closing text. It keeps every request, so that a test reads what the client
sent: tool definitions, tool results, refusals.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

DONE = "That is all."
_CHARACTERS_A_TOKEN = 4  # roughly, for English; a client asks before it shows the model a long answer
_USAGE = {"input_tokens": 1, "output_tokens": 1}


@dataclass
class Call:
    """A tool call of the script; `namespace` is Codex's name of the server."""

    name: str
    arguments: dict[str, Any]
    namespace: str | None = None


@dataclass
class ScriptedModel:
    """The script, and the requests that came in."""

    script: list[Call]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def main_requests(self) -> list[dict[str, Any]]:
        """The requests of the conversation; clients also ask for titles and the like, without tools."""
        return [r for r in self.requests if r.get("tools")]

    def last(self) -> dict[str, Any]:
        """The last request of the conversation: it holds all that went before."""
        return max(self.main_requests(), key=_calls_made)

    def results(self) -> list[str]:
        """What the client told the model about each call, in order, as text."""
        found: list[str] = []
        for item in _items(self.last()):
            if item.get("type") in ("tool_result", "function_call_output"):
                content = item.get("content", item.get("output"))
                found.append(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
        return found


def _items(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Content blocks of an Anthropic conversation, or items of a Responses one."""
    if "input" in request:
        yield from cast("list[dict[str, Any]]", request["input"])
        return
    for message in cast("list[dict[str, Any]]", request.get("messages", [])):
        content = message["content"]
        yield from content if isinstance(content, list) else [{"type": "text", "text": content}]


def _calls_made(request: dict[str, Any]) -> int:
    return sum(item.get("type") in ("tool_use", "function_call") for item in _items(request))


def _anthropic(step: Call | None, number: int) -> list[dict[str, Any]]:
    message: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
    }
    begin: dict[str, Any] = {"type": "message_start", "message": message | {"stop_reason": None, "usage": _USAGE}}
    if step is None:
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": DONE}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": step.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
    stop = {"stop_reason": "tool_use" if step else "end_turn", "stop_sequence": None}
    return [
        begin,
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": _USAGE},
        {"type": "message_stop"},
    ]


def _responses(step: Call | None, number: int) -> list[dict[str, Any]]:
    item: dict[str, Any]
    if step is None:
        text: dict[str, Any] = {"type": "output_text", "text": DONE, "annotations": []}
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}
    else:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": step.name}
        item["arguments"] = json.dumps(step.arguments)
        if step.namespace:
            item["namespace"] = step.namespace
    usage = {**_USAGE, "total_tokens": 2, "input_tokens_details": None, "output_tokens_details": None}
    return [
        {"type": "response.created", "response": {"id": f"resp_{number}"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": f"resp_{number}", "usage": usage}},
    ]


class _Handler(BaseHTTPRequestHandler):
    model: ScriptedModel

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Nothing on stderr."""

    def do_HEAD(self) -> None:
        self._answer(b"", "text/plain")

    def do_GET(self) -> None:
        self._answer(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        request: dict[str, Any] = json.loads(body)
        if self.path.split("?")[0].endswith("count_tokens"):
            self._answer(b'{"input_tokens": %d}' % (len(body) // _CHARACTERS_A_TOKEN), "application/json")
            return
        self.model.requests.append(request)
        done = _calls_made(request)
        step = self.model.script[done] if request.get("tools") and done < len(self.model.script) else None
        make = _responses if "input" in request else _anthropic
        events = make(step, done)
        stream = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
        self._answer(stream.encode(), "text/event-stream")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(body)


@contextlib.contextmanager
def scripted(script: list[Call]) -> Generator[ScriptedModel]:
    """Serve a script on a free loopback port."""
    model = ScriptedModel(script)
    handler = type("Handler", (_Handler,), {"model": model})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        model.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
