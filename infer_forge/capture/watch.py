"""How long a server stopped answering while it exported a profile."""

from __future__ import annotations

import threading
import time

from infer_forge.engines import http

_EVERY_S = 0.1


class Watch:
    """Asks a health route all the time in a thread; `stall_s` is the longest time without a good answer."""

    def __init__(self, health_url: str) -> None:
        """Prepare; use it as a context manager."""
        self._url = health_url
        self._stop = threading.Event()
        self._good = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.stall_s: float | None = None

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def settle(self, seconds: float) -> bool:
        """Wait until the server answers well again, so that a stall is counted to its end; whether it does."""
        return self._good.wait(seconds)

    def _run(self) -> None:
        good = time.monotonic()
        while not self._stop.is_set():
            answered = http.call(self._url, timeout_s=2.0).status == 200
            now = time.monotonic()
            self.stall_s = max(self.stall_s or 0.0, now - good)
            if answered:
                good = now
                self._good.set()
            else:
                self._good.clear()
            self._stop.wait(_EVERY_S)
