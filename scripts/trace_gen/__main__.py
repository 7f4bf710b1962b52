"""`python scripts/trace_gen --spec NAME --out FILE`: write a trace, its truth, its config.json, its capture or mapping trace."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from trace_gen import SPECS, WORKING_SEEDS, Spec, config, generate, generate_capture, generate_mapping


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("trace_gen", description="Write a generated torch-profiler trace.")
    parser.add_argument("--spec", default="sample", help="a ready spec (--list shows them)")
    parser.add_argument(
        "--out", type=Path, help="file to write; .gz compresses; several ranks get one file each beside it"
    )
    parser.add_argument("--seed", type=int, default=WORKING_SEEDS[0], help="the same seed writes the same bytes")
    parser.add_argument("--events", type=int, help="stop at the first whole step that reaches this many events")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one field of the spec, e.g. layers=4"
    )
    parser.add_argument(
        "--truth", type=Path, help="write the truth (device time by name and stage, idle by cause) as JSON"
    )
    parser.add_argument("--config", type=Path, help="write the model's config.json")
    parser.add_argument("--capture", type=Path, help="write the capture trace of the spec's CUDA graphs")
    parser.add_argument("--mapping", type=Path, help="write the eager twin of the spec")
    parser.add_argument("--list", action="store_true", help="list the ready specs")
    return parser


def _changed(spec: Spec, pairs: list[str]) -> Spec:
    kinds = {field.name: getattr(spec, field.name) for field in fields(spec)}
    changes: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or key not in kinds or key == "steps":
            raise SystemExit(f"trace_gen: no such field: {pair}; known: {', '.join(sorted(kinds))}")
        old = kinds[key]
        try:
            changes[key] = value if isinstance(old, str) else json.loads(value)
        except json.JSONDecodeError:
            raise SystemExit(f"trace_gen: {key} takes a JSON value, not {value!r}") from None
        if isinstance(old, tuple):
            changes[key] = tuple(changes[key])
    return replace(spec, **changes)


def main() -> int:
    """Run the command line."""
    options = _parser().parse_args()
    if options.list:
        for name, spec in SPECS.items():
            print(
                f"{name:18} {spec.family:12} layers={spec.layers} ranks={spec.ranks} {len(spec.steps)}x{spec.cycles} {spec.annotation}"
            )
        return 0
    if options.spec not in SPECS:
        raise SystemExit(f"trace_gen: no spec {options.spec!r}; --list shows them")
    spec = _changed(SPECS[options.spec], options.set)
    if options.events is not None:
        spec = replace(spec, events=options.events)
    if options.out is None and not (options.capture or options.mapping or options.config):
        raise SystemExit("trace_gen: --out FILE is missing")
    if options.out is not None:
        start = time.monotonic()
        files, truth = generate(spec, options.out, options.seed, truth=options.truth is not None)
        size = sum(path.stat().st_size for path in files)
        print(
            f"{', '.join(map(str, files))}: {truth.events} events, {size / 1e6:.1f} MB, {time.monotonic() - start:.1f} s",
            file=sys.stderr,
        )
        if options.truth:
            ranks = sorted({k.rank for k in truth.kernels})
            data = {
                str(rank): {
                    "device_ns": truth.device_ns(rank),
                    "by_stage": truth.by_stage(rank),
                    "by_name": truth.by_name(rank),
                    "idle_ns": truth.idle_ns(rank),
                }
                for rank in ranks
            }
            options.truth.write_text(json.dumps(data, indent=1))
    if options.config:
        options.config.write_text(json.dumps(config(spec), indent=2) + "\n")
    if options.capture:
        print(generate_capture(spec, options.capture, options.seed), file=sys.stderr)
    if options.mapping:
        print(generate_mapping(spec, options.mapping, options.seed), file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
