"""Twelve mechanical diagnostics of whether two or more engines did the same work under the same conditions.

Each is `pass`, `fail` or `unknown` with its evidence. `unknown` on parity (E1), tokens (E2), speculation (E3) or cache
(E4) blocks a decision: what nobody recorded is not known to be equal. Nothing is taken from a row that only declares
itself fair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.bench.checks import rules, thresholds
from infer_forge.bench.metrics import FAIL, PASS, UNKNOWN

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract
    from infer_forge.bench.model import Row

BLOCKING = ("E1", "E2", "E3", "E4")
"""Diagnostics whose `unknown` blocks a decision. A `fail` of any but E6 and E10 to E12 blocks too."""

_FAIL_BLOCKS = ("E1", "E2", "E3", "E4", "E5", "E7", "E8", "E9")

Sides = Mapping[str, Sequence["Row"]]


@dataclass(frozen=True)
class Diagnostic:
    """One of the twelve: its id and question, the result, the evidence, and what to do about it."""

    id: str
    question: str
    result: str
    evidence: str
    fix: str

    @property
    def blocks(self) -> bool:
        """Whether a decision may not rest on this."""
        return (self.result == UNKNOWN and self.id in BLOCKING) or (self.result == FAIL and self.id in _FAIL_BLOCKS)


# Field of the parity matrix -> whether not knowing it leaves parity unknown.
_PARITY: dict[str, bool] = {
    "identity.model_fingerprint": True, "identity.tokenizer_sha256": True, "identity.dtype": True,
    "identity.quantization": True, "hardware.gpu_model": True, "hardware.gpu_count": True,
    "hardware.visible_devices": False, "hardware.driver_version": True, "hardware.cuda_version": False,
    "workload.temperature": True, "workload.top_p": False, "workload.ignore_eos": True, "workload.streaming": False,
    "identity.chat_template_sha256": False, "identity.reasoning_parser": False,
}  # fmt: skip

# The same for rows of generated images and video; what is generated is the scenario's affair (E2).
_PARITY_DIFFUSION: dict[str, bool] = {
    "identity.model_fingerprint": True, "identity.dtype": True, "identity.quantization": True, "hardware.gpu_model": True,
    "hardware.gpu_count": True, "hardware.visible_devices": False, "hardware.driver_version": True,
}  # fmt: skip

_AUTO = ("auto",)


def _generates(sides: Sides) -> bool:
    return all(row.kind == "diffusion" for rows in sides.values() for row in rows)


def _parity(sides: Sides) -> dict[str, bool]:
    return _PARITY_DIFFUSION if _generates(sides) else _PARITY


def _values(rows: Sequence[Row], path: str) -> list[Any]:
    """Distinct known values of a field; `auto` is not known."""
    out: list[Any] = []
    for row in rows:
        value = row.value(path)
        if value is not None and value not in _AUTO and value not in out:
            out.append(value)
    return out


def _complete(rows: Sequence[Row], path: str) -> bool:
    return all(row.value(path) is not None and row.value(path) not in _AUTO for row in rows)


def _show(sides: Sides, path: str) -> str:
    parts = [f"{name} {'/'.join(_short(v) for v in _values(rows, path)) or 'unknown'}" for name, rows in sides.items()]
    return ", ".join(parts)


def _short(value: Any) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 and text.isalnum() else text


def _equal(sides: Sides, path: str) -> str:
    """`pass` when known and equal everywhere, `fail` when two known values differ, else `unknown`."""
    seen: list[Any] = []
    for rows in sides.values():
        seen += [v for v in _values(rows, path) if v not in seen]
    if len(seen) > 1:
        return FAIL
    return PASS if seen and all(_complete(rows, path) for rows in sides.values()) else UNKNOWN


def parity_matrix(sides: Sides) -> Table:
    """Field by field: the values of every side and whether they are equal."""
    table = Table("parity", ["field", *(Column(name, "text") for name in sides), "result", "required"])
    for path, required in _parity(sides).items():
        cells = ["/".join(_short(v) for v in _values(rows, path)) or None for rows in sides.values()]
        table.rows.append((path, *cells, _equal(sides, path), required))
    return table


def _model_names(sides: Sides) -> str | None:
    """Two Hugging Face ids that differ are two models; paths and aliases tell nothing."""
    names = {str(v).lower() for rows in sides.values() for v in _values(rows, "model")}
    plain = {n for n in names if n.count("/") == 1 and not n.startswith("/")}
    return f"different models: {', '.join(sorted(plain))}" if len(plain) > 1 else None


def _e1(sides: Sides) -> tuple[str, str]:
    parity = _parity(sides)
    results = {path: _equal(sides, path) for path in parity}
    bad = [f"{path.split('.')[-1]}: {_show(sides, path)}" for path, r in results.items() if r == FAIL]
    names = _model_names(sides) if results["identity.model_fingerprint"] != PASS else None
    if bad or names:
        return FAIL, "; ".join([*([names] if names else []), *bad])
    gone = [path.split(".")[-1] for path, r in results.items() if r == UNKNOWN and parity[path]]
    if gone:
        return UNKNOWN, f"not recorded on every side: {', '.join(gone)}"
    return PASS, "every required field is recorded and equal"


def _e2(sides: Sides) -> tuple[str, str]:
    from infer_forge.bench.scenarios import split

    if _generates(sides):
        return _same_generated(sides)
    limit = thresholds()["cross_framework_tokens_pct"]
    unknown: list[str] = []
    compared = 0
    for scenario in split({k: list(v) for k, v in sides.items()}):
        if len(scenario.sides) < 2:
            continue
        for name in ("measured_input_len_mean_tokens", "measured_output_len_mean_tokens"):
            means = {side: _mean(rows, name) for side, rows in scenario.sides.items()}
            known = {side: v for side, v in means.items() if v}
            if len(known) < len(means):
                unknown.append(f"{scenario.name}: {name.split('_')[1]} tokens of {', '.join(set(means) - set(known))}")
                continue
            compared += 1
            low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
            spread = 100.0 * (known[high] / known[low] - 1.0)
            if spread > limit:
                what = name.split("_")[1]
                seen = f"{low} {known[low]:.1f}, {high} {known[high]:.1f}"
                return FAIL, f"{scenario.name}: {what} tokens a request {seen} ({spread:.2f} %, limit {limit} %)"
    if unknown or not compared:
        return UNKNOWN, "; ".join(unknown[:3]) or "no scenario has runs of two sides"
    return PASS, f"{compared} totals agree within {limit} %"


def _same_generated(sides: Sides) -> tuple[str, str]:
    """Every side generated the same things: model, size, frames, steps, guidance, seed."""
    from infer_forge.bench.scenarios import split

    scenarios = split({k: list(v) for k, v in sides.items()})
    alone = [f"{s.name}: {', '.join(s.sides)} only" for s in scenarios if len(s.sides) < len(sides)]
    if len(alone) == len(scenarios):
        return FAIL, "; ".join(alone[:3])
    return (UNKNOWN, "; ".join(alone[:3])) if alone else (PASS, f"{len(scenarios)} workloads on every side")


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [getattr(row.workload, name) for row in rows]
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _e3(sides: Sides) -> tuple[str, str]:
    if _generates(sides):
        return PASS, "no speculation in diffusion"
    pretended = rules()["simulated_acceptance_variables"]
    for name, rows in sides.items():
        for row in rows:
            if row.spec_decode.simulated or any(v in (row.server_env or {}) for v in pretended):
                return FAIL, f"{name}: the acceptance length is pretended"
    state = _equal(sides, "spec_decode.enabled")
    shown = _show(sides, "spec_decode.enabled")
    if state != PASS:
        return state, f"speculation enabled: {shown}"
    if not _values(next(iter(sides.values())), "spec_decode.enabled")[0]:
        return PASS, "speculation is off everywhere"
    for path in ("spec_decode.algorithm", "spec_decode.num_steps"):
        if _equal(sides, path) == FAIL:
            return FAIL, f"{path.split('.')[-1]}: {_show(sides, path)}"
    length = _show(sides, "spec_decode.mean_accept_length")
    known = all(_complete(rows, "spec_decode.mean_accept_length") for rows in sides.values())
    return (PASS if known else UNKNOWN), f"speculation is on; acceptance length {length}"


def _e4(sides: Sides) -> tuple[str, str]:
    if _generates(sides):
        return _equal(sides, "diffusion.step_cache"), f"caching between steps: {_show(sides, 'diffusion.step_cache')}"
    state = _equal(sides, "cache.prefix_cache_enabled")
    hits = _show(sides, "cache.prefix_cache_hit_rate")
    shown = f"prefix cache enabled: {_show(sides, 'cache.prefix_cache_enabled')}; hit rate {hits}"
    if state != PASS:
        return state, shown
    if not _values(next(iter(sides.values())), "cache.prefix_cache_enabled")[0]:
        return PASS, "the prefix cache is off everywhere"
    clean = all(row.workload.prompts_unique or row.workload.cache_flushed for rows in sides.values() for row in rows)
    if clean:
        return PASS, f"{shown}; prompts unique or cache flushed in every run"
    rates = [v for rows in sides.values() for v in _values(rows, "cache.prefix_cache_hit_rate")]
    if rates and all(_complete(rows, "cache.prefix_cache_hit_rate") for rows in sides.values()):
        return (PASS if max(rates) - min(rates) <= 0.01 else FAIL), shown
    return UNKNOWN, f"{shown}; whether prompts were unique or the cache flushed is not recorded"


def _e5(sides: Sides) -> tuple[str, str]:
    paths = (
        "memory.kv_cache_dtype",
        "memory.cpu_offload_gb",
        "memory.gpu_resident_weight_gb",
        "memory.gpu_memory_utilization",
    )
    results = {path: _equal(sides, path) for path in paths[:2]}
    shown = "; ".join(f"{p.split('.')[-1]}: {_show(sides, p)}" for p in paths)
    if FAIL in results.values():
        return FAIL, shown
    return (PASS if set(results.values()) == {PASS} else UNKNOWN), shown


def _e6(sides: Sides) -> tuple[str, str]:
    paths = tuple(
        f"phase_metrics.{n}" for n in ("pre_scheduler_ms", "queue_ms", "scheduler_ms", "tokenizer_ms", "detokenizer_ms")
    )
    known = [p for p in paths if all(_values(rows, p) for rows in sides.values())]
    shown = "; ".join(f"{p.split('.')[-1]}: {_show(sides, p)}" for p in known)
    return (PASS, shown) if known else (UNKNOWN, "no phase times on every side")


def _e7(sides: Sides, contract: BenchmarkContract | None) -> tuple[str, str]:
    counts = {name: len({r.candidate_id for r in rows if r.candidate_id}) for name, rows in sides.items()}
    shown = ", ".join(f"{name} {n}" for name, n in counts.items())
    if contract is not None:
        budgets = {(e.max_runs, e.max_minutes) for e in contract.engines}
        if len(budgets) > 1:
            given = ", ".join(f"{e.framework} {e.max_runs} runs {e.max_minutes:g} min" for e in contract.engines)
            return FAIL, f"search budgets differ: {given}"
    if not all(counts.values()):
        return UNKNOWN, f"candidates seen: {shown}"
    if min(counts.values()) == 1 and max(counts.values()) > 1:
        return FAIL, f"one side has only its default candidate: {shown}"
    return PASS, f"candidates seen: {shown}"


def _e8(sides: Sides) -> tuple[str, str]:
    for path in ("client.sha256", "client.name", "client.version"):
        if _equal(sides, path) == FAIL:
            return FAIL, f"{path}: {_show(sides, path)}"
    pinned = PASS in (_equal(sides, "client.sha256"), _equal(sides, "client.version"))
    shown = f"client {_show(sides, 'client.name')}; version {_show(sides, 'client.version')}"
    return (PASS if pinned and _equal(sides, "client.name") == PASS else UNKNOWN), shown


def _e9(sides: Sides) -> tuple[str, str]:
    harmless = set(rules()["harmless_throttle_reasons"])
    looked = 0
    total = 0
    for name, rows in sides.items():
        for row in rows:
            total += 1
            states = (row.gpu_before, row.gpu_during, row.gpu_after)
            for state in states:
                if state.foreign_processes:
                    return FAIL, f"{name} {row.label()}: {', '.join(state.foreign_processes[:3])}"
            bad = [
                r for s in states[1:] for r in s.throttle_reasons or [] if r.lower().replace(" ", "_") not in harmless
            ]
            if bad:
                return FAIL, f"{name} {row.label()}: throttled ({', '.join(bad[:3])})"
            looked += row.gpu_before.foreign_processes is not None and row.gpu_after.throttle_reasons is not None
    if looked == total and total:
        return PASS, f"{total} runs: no foreign process before, no throttling after"
    return UNKNOWN, f"GPU state recorded for {looked} of {total} runs"


def _e10(sides: Sides) -> tuple[str, str]:
    spans: dict[str, tuple[str, str]] = {}
    hosts = {row.host.hostname for rows in sides.values() for row in rows}
    if len(hosts - {None}) > 1:
        return FAIL, f"measured on different hosts: {', '.join(sorted(str(h) for h in hosts if h))}"
    for name, rows in sides.items():
        starts = sorted(row.started_at for row in rows if row.started_at)
        if len(starts) < len(rows) or not starts:
            return UNKNOWN, f"{name}: when its runs started is not recorded"
        spans[name] = (starts[0], starts[-1])
    shown = "; ".join(f"{n} {a} to {b}" for n, (a, b) in spans.items())
    items = list(spans.values())
    apart = all(a[1] < b[0] or b[1] < a[0] for i, a in enumerate(items) for b in items[i + 1 :])
    return (
        FAIL if apart and len(items) > 1 else PASS
    ), f"{'one side after the other, not interleaved: ' if apart else ''}{shown}"


def _e11(sides: Sides) -> tuple[str, str]:
    shown: list[str] = []
    for name, rows in sides.items():
        if any(row.server_env is None for row in rows):
            return UNKNOWN, f"{name}: server variables are not recorded"
        names = sorted({k for row in rows for k in row.server_env or {}})
        shown.append(f"{name} {', '.join(names) or 'none'}")
        if len({tuple(sorted((row.server_env or {}).items())) for row in rows}) > 1:
            return FAIL, f"{name}: its runs had different server variables ({', '.join(names)})"
    return PASS, f"non-default server variables: {'; '.join(shown)}"


def _e12(sides: Sides) -> tuple[str, str]:
    for name, rows in sides.items():
        for row in rows:
            a = row.artifacts
            if a.server_help_sha256 is None or a.server_binary_help_sha256 is None:
                return UNKNOWN, f"{name}: no help snapshot of the binary that ran"
            if a.server_help_sha256 != a.server_binary_help_sha256:
                return FAIL, f"{name}: the help snapshot is of another binary than the one that ran"
    return PASS, "help snapshots are of the binaries that ran"


_QUESTIONS: dict[str, tuple[str, str]] = {
    "E1": ("same model, precision, GPUs, sampling", "record the missing fields on every side (infer-forge engine env), or equal them"),
    "E2": ("same tokens", "send the same prompt file to every engine, with ignore_eos and fixed output lengths"),
    "E3": ("same speculation", "switch speculation off or on everywhere, and record acceptance lengths"),
    "E4": ("same cache state", "flush the prefix cache before each run or send unique prompts; record it"),
    "E5": ("same memory policy", "record KV dtype, offload and resident weights on every side"),
    "E6": ("time before the scheduler", "collect it from the server logs or metrics"),
    "E7": ("same search budget", "give every framework the same number of candidates and minutes"),
    "E8": ("same client", "run one client of one version against every engine"),
    "E9": ("nobody else on the GPUs, no throttling", "look at processes and clocks before, during and after each run"),
    "E10": ("same host, interleaved", "interleave launches A B B A on one host"),
    "E11": ("server variables known", "record the server's environment"),
    "E12": ("flags checked against the binary that ran", "infer-forge engine help-snapshot"),
}  # fmt: skip

_DIAGNOSTICS: dict[str, Callable[[Sides], tuple[str, str]]] = {
    "E1": _e1, "E2": _e2, "E3": _e3, "E4": _e4, "E5": _e5, "E6": _e6, "E8": _e8, "E9": _e9, "E10": _e10, "E11": _e11, "E12": _e12,
}  # fmt: skip


def diagnose(sides: Sides, contract: BenchmarkContract | None = None) -> list[Diagnostic]:
    """The twelve diagnostics of at least two sides. Only E7 looks at the runs that cannot decide (search, pilot, failed)."""
    out: list[Diagnostic] = []
    deciding = {
        name: [r for r in rows if r.status == "ok" and r.purpose in (None, "decision")] for name, rows in sides.items()
    }
    judged = deciding if all(deciding.values()) else sides
    for code, (question, fix) in _QUESTIONS.items():
        result, evidence = _e7(sides, contract) if code == "E7" else _DIAGNOSTICS[code](judged)
        out.append(Diagnostic(code, question, result, evidence, "" if result == PASS else fix))
    return out


def verdict_of(diagnostics: Sequence[Diagnostic]) -> str:
    """`fail` when one that blocks failed, `unknown` when one that blocks is unknown, else `pass`."""
    blocking = [d for d in diagnostics if d.blocks]
    if any(d.result == FAIL for d in blocking):
        return FAIL
    return UNKNOWN if blocking else PASS


def fairness_report(sides: Sides, contract: BenchmarkContract | None = None) -> Report:
    """The answer of `bench fairness`: the diagnostics, the parity matrix, and whether a decision may rest on them."""
    diagnostics = diagnose(sides, contract)
    verdict = verdict_of(diagnostics)
    report = Report(
        "fairness", header=Header(thresholds={"cross_framework_tokens_pct": thresholds()["cross_framework_tokens_pct"]})
    )
    report.extra["verdict"] = verdict
    counts = {r: sum(d.result == r for d in diagnostics) for r in (PASS, FAIL, UNKNOWN)}
    blocking = [d for d in diagnostics if d.blocks]
    report.summary = [
        f"{verdict}: {', '.join(sides)}: {counts[PASS]} pass, {counts[FAIL]} fail, {counts[UNKNOWN]} unknown",
        f"blocks a decision: {', '.join(f'{d.id} ({d.question})' for d in blocking) or 'nothing'}",
    ]
    table = Table("fairness", ["id", "question", "result", "blocks", "evidence", "fix"])
    table.rows = [(d.id, d.question, d.result, d.blocks, d.evidence, d.fix) for d in diagnostics]
    report.add(table)
    report.add(parity_matrix(sides))
    report.findings = [
        Finding(
            f"FAIRNESS_{d.id}",
            f"{d.question}: {d.result}, {d.evidence}",
            "error" if d.result == FAIL else "warning",
            next_step=d.fix,
        )
        for d in blocking
    ]
    report.next_step = (
        blocking[0].fix if blocking else "infer-forge bench gap --target NAME FILE... --against NAME FILE..."
    )
    return report
