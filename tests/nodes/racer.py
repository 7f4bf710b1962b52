"""A claimant in a process of its own: claims, and says on stdout what it was told, one JSON line each.

    python -m tests.nodes.racer HUB NAME ROUNDS WIDTH SEED

Each round is a node `n<round>`; the claimant wants WIDTH neighbouring GPUs of eight. It waits for a line on stdin before
each round, so that all start together, unless ROUNDS is `free`: then it claims and releases on one node until killed.
"""

from __future__ import annotations

import json
import random
import sys

from infer_forge.base.errors import ForgeError
from infer_forge.base.gitstore import Refused
from infer_forge.nodes import claims
from infer_forge.nodes.model import GpuRef
from infer_forge.nodes.registry import Registry


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def attempt(registry: Registry, node: str, gpus: list[GpuRef], name: str) -> str | None:
    try:
        made = claims.claim(registry, node, gpus, task=name, purpose="race").claim
    except Refused as exc:
        say(node=node, won=False, why=exc.refusal.reason[:80])
        return None
    except ForgeError as exc:
        say(node=node, won=None, why=str(exc)[:300])
        return None
    say(node=node, won=True, claim=made.claim_id, epoch=made.epoch, gpus=[g.index for g in made.gpus])
    return made.claim_id


def main() -> None:
    hub, name, rounds, width, seed = sys.argv[1:]
    pick = random.Random(int(seed))
    registry = Registry.open(hub, create=True)
    say(ready=True)
    if rounds == "free":
        while True:
            first = pick.randrange(0, 9 - int(width))
            held = attempt(registry, "n0", [GpuRef(index=i) for i in range(first, first + int(width))], name)
            if held:
                claims.release(registry, held, reason="done")
                say(released=held)
    for number in range(int(rounds)):
        sys.stdin.readline()
        first = pick.randrange(0, int(width))  # any two of these ranges overlap
        attempt(registry, f"n{number}", [GpuRef(index=i) for i in range(first, first + int(width))], name)


if __name__ == "__main__":
    main()
