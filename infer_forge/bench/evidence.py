"""What server arguments, server logs and help snapshots tell of one side, put into its rows where the rows say nothing.

A row's own word is never replaced; where a file contradicts it, that is a note on the row and the file's word is not
taken. So unknown fields become known, and nothing becomes equal by being asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import UsageFault
from infer_forge.bench.read import annotate

if TYPE_CHECKING:
    from infer_forge.bench.model import Row

# Neutral name of engines.server_facts -> row field.
_FIELDS = {
    "model": "identity.served_model", "tokenizer": "identity.tokenizer", "dtype": "identity.dtype", "quantization": "identity.quantization",
    "tp": "identity.tensor_parallel", "pp": "identity.pipeline_parallel", "dp": "identity.data_parallel",
    "attention_backend": "identity.attention_backend", "seed": "identity.server_seed", "kv_cache_dtype": "memory.kv_cache_dtype",
    "memory_fraction": "memory.gpu_memory_utilization", "prefix_cache": "cache.prefix_cache_enabled",
    "kv_cache_tokens": "cache.kv_cache_tokens", "speculative_algorithm": "spec_decode.algorithm",
    "speculative_steps": "spec_decode.num_steps", "version": "framework_version",
}  # fmt: skip


def add_facts(rows: Sequence[Row], path: str | Path, kind: str) -> None:
    """Fill the rows of one side from a server log (`log`) or saved server arguments (`args`).

    Raises:
        InputUnusable: the file is neither of a known framework.
    """
    from infer_forge.engines import server_facts

    framework = next((row.framework for row in rows if row.framework), None)
    told = (server_facts.read_log if kind == "log" else server_facts.read_args)(path, framework)
    values = {field: told.value(name) for name, field in _FIELDS.items() if told.value(name) is not None}
    if "speculative_algorithm" in told.facts or kind == "args":
        values["spec_decode.enabled"] = bool(told.value("speculative_algorithm"))
    if told.fallbacks and any(row.kind == "diffusion" for row in rows):
        values["diffusion.fallback"] = told.fallbacks[0].evidence[:160]
    for row in rows:
        _fill(row, values, Path(path).name)
        setattr(row.artifacts, "server_log" if kind == "log" else "server_args", str(path))


def _fill(row: Row, values: Mapping[str, Any], name: str) -> None:
    for field, value in values.items():
        held = row.value(field)
        if held is not None and held != "auto":
            if held != value:
                row.notes.append(f"{field} is {held!r} in the row and {value!r} in {name}: the row's word stands")
            continue
        try:
            annotate(row, {field: value})
        except UsageFault as exc:
            row.notes.append(f"{name}: {exc.what}")


def add_help(rows: Sequence[Row], path: str | Path) -> None:
    """Take a help snapshot into the rows: its hash, beside that of the binary that ran where the row knows it.

    Raises:
        InputUnusable: it is no help snapshot.
    """
    from infer_forge.engines import help_text

    taken = help_text.load(path)
    for row in rows:
        row.artifacts.server_help = str(path)
        row.artifacts.server_help_sha256 = row.artifacts.server_help_sha256 or taken.server.sha256


def apply(sides: Mapping[str, Sequence[Row]], given: Sequence[tuple[str, str]]) -> None:
    """Apply evidence files, each as (kind, `NAME=FILE`), kind one of `args`, `log`, `help`.

    Raises:
        UsageFault: a name is no side.
        InputUnusable: a file cannot be used.
    """
    for kind, text in given:
        name, sep, path = text.partition("=")
        if not sep or name not in sides:
            raise UsageFault(f"{text!r} is not SIDE=FILE of a side", next_step=f"sides are {', '.join(sides)}")
        if kind == "help":
            add_help(sides[name], path)
        else:
            add_facts(sides[name], path, kind)
