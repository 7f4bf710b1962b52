"""The load of a capture: requests with unique prompts, streamed, in threads that end when they are told to.

Every prompt is different from its first token on, so that a prefix cache does not serve a prefill that should be computed.
Prompts are token ids where the server takes them (their number is then exact), else text, which is said.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from infer_forge.capture.model import Shape

# Ids in this range exist in every vocabulary in use and are ordinary text pieces there, not control tokens.
_FIRST_ID, _LAST_ID = 1000, 30000
_CHARS_PER_TOKEN = 4
_READ_TIMEOUT_S = 120.0


def prompt_ids(shape: Shape, generator: random.Random) -> list[int]:
    """Token ids of one unique prompt."""
    return generator.choices(range(_FIRST_ID, _LAST_ID + 1), k=shape.input_len)


def prompt_text(shape: Shape, generator: random.Random) -> str:
    """Text of about the wanted number of tokens (four characters each)."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ("".join(generator.choices(letters, k=_CHARS_PER_TOKEN - 1)) for _ in range(shape.input_len))
    return " ".join(words)


class Load:
    """Requests of one shape against one server; `start` begins them, `finish` ends them.

    Attributes:
        ok, failed: requests that ended well, or not. tokens: streamed pieces seen. as_text: ids were refused.
        first_error: what the first failed request said.
    """

    def __init__(self, url: str, model: str | None, shape: Shape, requests: int, seed: int) -> None:
        """Prepare; nothing is sent yet."""
        self._place = urlsplit(url)
        self._model, self._shape, self._requests = model, shape, requests
        self._generator = random.Random(seed)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self.ok = self.failed = self.tokens = 0
        self.as_text = False
        self.first_error = ""
        self._progress = threading.Condition(self._lock)

    def start(self, *, again: bool) -> None:
        """Begin. `again`: each worker sends the next request when one ends, until `finish`."""
        for _ in range(self._requests):
            thread = threading.Thread(target=self._work, args=(again,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def wait_tokens(self, tokens: int, seconds: float) -> bool:
        """Wait until so many pieces were seen, or every worker ended; whether the number was reached."""
        end = time.monotonic() + seconds
        with self._progress:
            while self.tokens < tokens:
                left = end - time.monotonic()
                if left <= 0 or not any(t.is_alive() for t in self._threads):
                    break
                self._progress.wait(min(left, 0.2))
            return self.tokens >= tokens

    def join(self, seconds: float) -> bool:
        """Wait until all workers ended; whether they did."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(t.is_alive() for t in self._threads)

    def finish(self, seconds: float = 30.0) -> None:
        """Stop sending; requests in flight are cut off by closing their connections."""
        self._stop.set()
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(
                        socket.SHUT_RDWR
                    )  # the reader sees the end of the stream; closing it here would pull it away
        self.join(seconds)

    def _work(self, again: bool) -> None:
        while not self._stop.is_set():
            try:
                self._one()
            except (OSError, ValueError, http.client.HTTPException) as fault:
                if not self._stop.is_set():
                    kind = "" if type(fault) is http.client.HTTPException else f"{type(fault).__name__}: "
                    self._count_failure(f"{kind}{fault}")
                    return
            if not again:
                return

    def _count_failure(self, text: str) -> None:
        with self._progress:
            self.failed += 1
            self.first_error = self.first_error or text
            self._progress.notify_all()

    def _one(self) -> None:
        with self._lock:
            as_text = self.as_text
            prompt: Any = (prompt_text if as_text else prompt_ids)(self._shape, self._generator)
        status, said = self._send(prompt)
        if status in (400, 422) and not as_text:
            with self._lock:
                self.as_text = True
                prompt = prompt_text(self._shape, self._generator)
            status, said = self._send(prompt)
        if self._stop.is_set():
            return  # cut off by us: neither good nor bad
        if status == 200:
            with self._progress:
                self.ok += 1
                self._progress.notify_all()
        else:
            raise http.client.HTTPException(f"{status} {said}")

    def _send(self, prompt: Any) -> tuple[int, str]:
        body = {
            "prompt": prompt,
            "max_tokens": self._shape.output_len,
            "temperature": 0,
            "stream": True,
            "ignore_eos": True,
        }
        if self._model:
            body["model"] = self._model
        connection = http.client.HTTPConnection(
            self._place.hostname or "", self._place.port or 80, timeout=_READ_TIMEOUT_S
        )
        connection.connect()
        sock = connection.sock
        with self._lock:
            self._open.add(sock)
        try:
            path = f"{self._place.path.rstrip('/')}/v1/completions"
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                return answer.status, answer.read(300).decode("utf-8", "replace")
            self._read_stream(answer)
            return 200, ""
        finally:
            with self._lock:
                self._open.discard(sock)
            connection.close()

    def _read_stream(self, answer: http.client.HTTPResponse) -> None:
        while not self._stop.is_set():
            line = answer.readline()
            if not line or line.startswith(b"data: [DONE]"):
                return
            if line.startswith(b"data:"):
                with self._progress:
                    self.tokens += 1
                    self._progress.notify_all()
