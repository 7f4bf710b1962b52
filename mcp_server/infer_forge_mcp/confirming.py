"""While the server runs, the claims of this machine's runs are held against the registry, so that the guard need not ask.

The guard's hook opens no network: a claim whose registry is elsewhere counts for 60 s after its last confirmation.
"""

from __future__ import annotations

import contextlib
import threading

EVERY_S = 30.0
"""Twice in the time for which a confirmation counts."""


def start() -> threading.Event:
    """Begin confirming in a thread that ends with the process, or when the event that is returned is set."""
    stop = threading.Event()
    threading.Thread(target=keep_confirmed, args=(stop,), name="confirm claims", daemon=True).start()
    return stop


def keep_confirmed(stop: threading.Event, every_s: float = EVERY_S) -> None:
    """Confirm again and again until `stop` is set; the first time after one pause, so that the start is not slowed.

    A hub that does not answer, or a damaged file, confirms nothing: the guard asks by itself then.
    """
    from infer_forge.base.errors import ForgeError

    while not stop.wait(every_s):
        with contextlib.suppress(ForgeError, OSError):
            _confirm()


def _confirm() -> None:
    from infer_forge.base import ownership

    if any(
        run.claims for run in ownership.load().runs.values()
    ):  # the registry is imported only where there are claims
        from infer_forge.nodes import verbs

        verbs.confirm_claims()
