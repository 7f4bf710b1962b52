"""What the product knows of TokenSpeed."""

from __future__ import annotations

# --- profiles: source paths -----------------------------------------------------------------------------------------
# lightseekorg/tokenspeed. No step annotation of its own was found in its public source, so its steps are told by what
# it shares with others: a `step[MODE ..]` span is read with SGLang's grammar.

SOURCES = ("python/tokenspeed/", "tokenspeed/runtime/", "tokenspeed_kernel/", "tokenspeed/")
"""Path pieces of its own Python code."""

MODEL_SOURCES = ("tokenspeed/runtime/models/", "tokenspeed/runtime/layers/", "tokenspeed_kernel/")
"""Where its models and layers stand."""

PLUMBING = (
    "tokenspeed/runtime/execution/",
    "tokenspeed/runtime/managers/",
    "tokenspeed/runtime/cache/",
    "tokenspeed/runtime/engine/",
    "tokenspeed/runtime/utils",
)
"""Own code that launches or schedules, but is not the model."""
