"""Full-jitter back-off: up to 20 ms, doubled at each loss, at most 1 s, until the patience ends."""

from __future__ import annotations

import random
import time

from infer_forge.base.gitstore.model import Contention

PATIENCE_S = 30.0
FIRST_S = 0.02
CAP_S = 1.0


class Pace:
    """One operation's patience.

    Attributes:
        deadline: when it ends (`time.monotonic`).
        tries: how often it lost.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.deadline = time.monotonic() + patience_s
        self.tries = 0

    @property
    def left_s(self) -> float:
        """Seconds of patience left; never below 0."""
        return max(0.0, self.deadline - time.monotonic())

    def back_off(self, ref: str, where: str) -> None:
        """Wait after a lost race.

        Raises:
            Contention: the patience is over.
        """
        if not self.left_s:
            raise Contention(
                f"others kept winning {ref} over {self.tries + 1} tries; nothing was written",
                where=where,
                next_step="try again in a moment",
            )
        time.sleep(random.uniform(0, min(CAP_S, FIRST_S * 2**self.tries)))
        self.tries += 1
