"""The frameworks and load generators that are known, by name. Adding one is one file and one entry here."""

from __future__ import annotations

from infer_forge.base.errors import UsageFault
from infer_forge.engines import aiperf, sglang, tokenspeed, trtllm, vllm
from infer_forge.engines.grammar import Client, Grammar

GRAMMARS: dict[str, Grammar] = {m.GRAMMAR.name: m.GRAMMAR for m in (sglang, vllm, trtllm, tokenspeed)}
"""Canonical name -> grammar."""

CLIENTS: dict[str, Client] = {
    c.name: c for c in (vllm.CLIENT, sglang.CLIENT, trtllm.CLIENT, tokenspeed.CLIENT, aiperf.CLIENT)
}
"""Load generator -> how it is called. The first is the one to use for all engines of a comparison."""

FRAMEWORKS = tuple(GRAMMARS)
"""Canonical names (A38)."""


def canonical(name: str) -> str:
    """Canonical name of a framework; aliases are normalised. Raises `UsageFault` for an unknown one."""
    wanted = name.strip().lower()
    for grammar in GRAMMARS.values():
        if wanted in (grammar.name, *grammar.aliases):
            return grammar.name
    raise UsageFault(f"no framework is called {name!r}", next_step=f"use one of {', '.join(FRAMEWORKS)}")


def grammar(name: str) -> Grammar:
    """The grammar of a framework by any of its names. Raises `UsageFault`."""
    return GRAMMARS[canonical(name)]


def client(name: str) -> Client:
    """A load generator by its name, or the one of a framework. Raises `UsageFault`."""
    if name in CLIENTS:
        return CLIENTS[name]
    for entry in GRAMMARS.values():
        if name in (entry.name, *entry.aliases):
            return entry.client
    raise UsageFault(f"no load generator is called {name!r}", next_step=f"use one of {', '.join(CLIENTS)}")
