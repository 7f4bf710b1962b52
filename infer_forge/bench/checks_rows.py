# ruff: noqa: ARG001  (every check has the same signature)
"""The checks that a condition on two fields cannot say. Each looks at one row; `SINGLE` has them by name.

A check gives the evidence as one sentence, or None where the rule does not fire (or cannot be judged: what is unknown
is told by rules of severity `unknown`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from infer_forge.bench.model import GpuState, Spread

if TYPE_CHECKING:
    from infer_forge.bench.checks import Context
    from infer_forge.bench.model import Row

Check = Callable[["Row", "Context"], "str | None"]
SINGLE: dict[str, Check] = {}

_SPREADS = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")


def _single(function: Check) -> Check:
    SINGLE[function.__name__] = function
    return function


def _spreads(row: Row) -> Iterator[tuple[str, Spread]]:
    for name in _SPREADS:
        yield name, getattr(row.metrics, name)


@_single
def empty_row(row: Row, context: Context) -> str | None:
    """Nothing measured at all in a run that says that it went well."""
    m = row.metrics
    figures = (m.request_throughput_per_s, m.output_token_throughput_per_s, m.total_token_throughput_per_s)
    timed = any(not s.empty() for _, s in _spreads(row)) or row.diffusion is not None
    if row.status != "ok" or timed or any(f is not None for f in figures):
        return None
    return "no throughput and no latency in the file"


@_single
def negative(row: Row, context: Context) -> str | None:
    """A figure below zero."""
    for part, name in ((row.metrics, "metrics"), (row.workload, "workload")):
        for key, value in part.model_dump(exclude={"parameters"}).items():
            inner = value.items() if isinstance(value, dict) else ((None, value),)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            for sub, figure in inner:  # pyright: ignore[reportUnknownVariableType]
                if isinstance(figure, (int, float)) and figure < 0:
                    return f"{name}.{key}{f'.{sub}' if sub else ''} is {figure:g}"
    return None


@_single
def disordered(row: Row, context: Context) -> str | None:
    """Percentiles that fall, or a mean outside of minimum and maximum."""
    for name, spread in _spreads(row):
        ladder = [(k, getattr(spread, k)) for k in ("min", "p50", "p90", "p95", "p99", "max")]
        known = [(k, v) for k, v in ladder if v is not None]
        for (low_name, low), (high_name, high) in itertools.pairwise(known):
            if low > high * (1 + 1e-9) + 1e-9:
                return f"{name}: {low_name} {low:g} above {high_name} {high:g}"
        if spread.mean is not None and spread.max is not None and spread.mean > spread.max * (1 + 1e-9):
            return f"{name}: mean {spread.mean:g} above max {spread.max:g}"
    return None


@_single
def throughput_identity(row: Row, context: Context) -> str | None:
    """Stated rates against counts / duration of the same row."""
    m, w = row.metrics, row.workload
    if row.kind != "serving" or not m.duration_s or m.duration_s <= 0:
        return None
    limit = context.thresholds["throughput_identity_pct"]
    pairs = (
        ("output token throughput", m.output_token_throughput_per_s, w.measured_output_tokens),
        ("request throughput", m.request_throughput_per_s, w.completed_requests),
    )
    for name, stated, total in pairs:
        if stated is None or total is None or total <= 0:
            continue
        follows = total / m.duration_s
        if abs(stated - follows) > limit / 100.0 * follows:
            return f"{name} {stated:.2f}/s stated, {follows:.2f}/s follows from {total} in {m.duration_s:.2f} s"
    return None


@_single
def recomputed(row: Row, context: Context) -> str | None:
    """The tool's own percentiles against those of the requests."""
    r = row.recomputed
    if r is None or r.largest_deviation is None:
        return None
    if 100.0 * r.largest_deviation <= context.thresholds["recomputed_pct"]:
        return None
    return f"{r.where} differs by {100 * r.largest_deviation:.1f} % from what {r.requests} requests give"


@_single
def label_input(row: Row, context: Context) -> str | None:
    """Measured input length of a random dataset against its label."""
    return _label(row, context, "input")


@_single
def label_output(row: Row, context: Context) -> str | None:
    """Measured output length of a random dataset against its label."""
    return _label(row, context, "output")


def _label(row: Row, context: Context, side: str) -> str | None:
    w = row.workload
    if not (w.kind or "").startswith("random"):
        return None
    wanted = w.input_len_label_tokens if side == "input" else w.output_len_label_tokens
    seen = w.measured_input_len_mean_tokens if side == "input" else w.measured_output_len_mean_tokens
    if not wanted or seen is None:
        return None
    off = 100.0 * (seen - wanted) / wanted
    if abs(off) <= context.thresholds["label_tolerance_pct"]:
        return None
    ratio = f", random_range_ratio {w.random_range_ratio:g}" if w.random_range_ratio is not None else ""
    both = f"{_len(w.measured_input_len_mean_tokens)} / {_len(w.measured_output_len_mean_tokens)}"
    labels = f"{_len(w.input_len_label_tokens)} / {_len(w.output_len_label_tokens)}"
    return f"{side} {off:+.1f} %: ran {both} tokens in / out a request, label {labels}{ratio}"


def _len(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f}"


@_single
def totals_unknown(row: Row, context: Context) -> str | None:
    """A label without the totals that would prove it."""
    w = row.workload
    labelled = w.input_len_label_tokens is not None or w.output_len_label_tokens is not None
    if (
        row.status != "ok"
        or not labelled
        or w.measured_output_len_mean_tokens is not None
        or w.measured_output_tokens is not None
    ):
        return None
    return f"label {_len(w.input_len_label_tokens)} / {_len(w.output_len_label_tokens)}, token totals not in the file"


@_single
def eos_unknown(row: Row, context: Context) -> str | None:
    """ignore_eos is not recorded, and output lengths do not show it."""
    w = row.workload
    if row.kind != "serving" or w.ignore_eos is not None:
        return None
    seen, wanted = w.measured_output_len_mean_tokens, w.output_len_label_tokens
    if seen is not None and wanted and abs(seen - wanted) <= 0.001 * wanted:
        return None
    return "ignore_eos is not recorded and the output lengths do not show it"


@_single
def shared_prompts(row: Row, context: Context) -> str | None:
    """Prompts that an earlier run may have left in the prefix cache."""
    w = row.workload
    if row.kind != "serving" or row.status != "ok" or row.cache.prefix_cache_enabled is False:
        return None
    if w.prompts_unique or w.cache_flushed:
        return None
    if w.prompts_unique is False and row.cache.prefix_cache_enabled:
        return "the same prompts as an earlier run, prefix cache on, not flushed"
    return "whether prompts were shared with an earlier run, or the cache flushed, is not recorded"


@_single
def trtllm_random(row: Row, context: Context) -> str | None:
    """TensorRT-LLM's random dataset without --random-ids."""
    command = row.benchmark_command or ""
    if not row.tool.startswith("tensorrt-llm") or "--dataset-name random" not in command.replace("=", " "):
        return None
    if "--random-ids" in command or "--download-path" in command:
        return None
    return "the benchmark command has --dataset-name random without --random-ids"


@_single
def ttft_zero(row: Row, context: Context) -> str | None:
    """TTFT 0 although tokens came out."""
    t, w = row.metrics.ttft_ms, row.workload
    zero = next((k for k in ("p50", "mean", "p99", "max") if getattr(t, k) == 0.0), None)
    if zero is None or row.status != "ok":
        return None
    out = w.measured_output_tokens
    if out is not None and out <= 0:
        return None
    return f"{zero} TTFT is 0.0 ms with {'unknown' if out is None else out} output tokens"


@_single
def retokenized_low(row: Row, context: Context) -> str | None:
    """Much less text than tokens."""
    w = row.workload
    if not w.retokenized_output_tokens or not w.measured_output_tokens or w.measured_output_tokens <= 0:
        return None
    ratio = w.retokenized_output_tokens / w.measured_output_tokens
    return f"retokenised / output tokens = {ratio:.2f}" if 0 < ratio < 0.9 else None


@_single
def vllm_old(row: Row, context: Context) -> str | None:
    """A vLLM client that is known to be older than the fix."""
    from infer_forge.bench.checks import concerns

    entry = next(p for p in context.data["pitfalls"] if p["id"] == "P5")["versions"][0]
    version = row.client.version or row.tool_version or row.framework_version
    if row.tool.startswith("vllm") and version is not None and concerns(entry, row):
        return f"vLLM client {version}, below {entry['below']}"
    return None


@_single
def tool_call(row: Row, context: Context) -> str | None:
    """A tool-call parser on the server."""
    if row.framework == "sglang" and "--tool-call-parser" in (row.server_command or ""):
        return "the server runs a tool-call parser: chunks may be held back"
    return None


@_single
def short_run(row: Row, context: Context) -> str | None:
    """A measured window that is mostly ramp."""
    seconds, limit = row.metrics.duration_s, context.thresholds["short_run_s"]
    if row.kind != "serving" or row.status != "ok" or seconds is None or not 0 <= seconds < limit:
        return None
    return f"measured for {seconds:.2f} s, less than {limit:g} s"


@_single
def spec_simulated(row: Row, context: Context) -> str | None:
    """The server pretended an acceptance length."""
    if row.spec_decode.simulated:
        return "the acceptance length was simulated"
    names = [n for n in context.data["simulated_acceptance_variables"] if n in (row.server_env or {})]
    return f"{names[0]} is set: the acceptance length is pretended" if names else None


@_single
def accept_impossible(row: Row, context: Context) -> str | None:
    """Acceptance length outside of [1, draft length + 1]."""
    s = row.spec_decode
    if s.mean_accept_length is None:
        return None
    if s.mean_accept_length < 1.0 - 1e-6:
        return f"acceptance length {s.mean_accept_length:g} is below 1: the bonus token alone gives 1"
    most = max((n + 1 for n in (s.num_steps, s.num_draft_tokens) if n is not None and n > 0), default=None)
    if most is not None and s.mean_accept_length > most + 1e-6:
        return f"acceptance length {s.mean_accept_length:g} is above the possible {most}"
    return None


@_single
def accept_golden(row: Row, context: Context) -> str | None:
    """Acceptance length against the published one of the same model, algorithm and draft length."""
    s = row.spec_decode
    if not s.enabled or s.mean_accept_length is None or not s.algorithm or not row.model:
        return None
    for golden in context.data["golden_accept_lengths"]:
        same = golden["model"].split("/")[-1].lower() == row.model.rstrip("/").split("/")[-1].lower()
        length = s.num_draft_tokens if row.framework != "sglang" else s.num_steps
        if same and golden["algorithm"] == s.algorithm.lower() and golden["num_draft_tokens"] == length:
            off = 100.0 * (s.mean_accept_length / golden["accept_length"] - 1.0)
            if abs(off) > context.thresholds["golden_accept_pct"]:
                published = f"published {golden['accept_length']} on {golden['dataset']}, {golden['source']}"
                return f"{s.mean_accept_length:.2f}, {off:+.0f} % off the {published}"
    return None


@_single
def profiler(row: Row, context: Context) -> str | None:
    """A profiler was on, by the record or by the command."""
    if row.profiler_on:
        return "a profiler was on during the run"
    if row.purpose == "profile":
        return "this row was made for a profile, not for a decision"
    command = f" {row.benchmark_command or ''} "
    if " --profile " in command or " --profile-by-stage " in command:
        return "the benchmark command has --profile"
    return None


def _states(row: Row) -> tuple[tuple[str, GpuState], ...]:
    return (("before", row.gpu_before), ("during", row.gpu_during), ("after", row.gpu_after))


@_single
def foreign(row: Row, context: Context) -> str | None:
    """Processes of others on the GPUs."""
    for when, state in _states(row):
        if state.foreign_processes:
            return f"{when} the run: {', '.join(state.foreign_processes[:3])}"
    return None


@_single
def throttled(row: Row, context: Context) -> str | None:
    """Throttle reasons that mean slower than asked."""
    harmless = set(context.data["harmless_throttle_reasons"])
    for when, state in _states(row):
        bad = [r for r in state.throttle_reasons or [] if r.lower().replace(" ", "_") not in harmless]
        if bad and when != "before":
            return f"{when} the run: {', '.join(bad)}"
    return None


@_single
def clock_changed(row: Row, context: Context) -> str | None:
    """The SM clock after the run is well below the one during it, and clocks are not locked."""
    during, after = row.gpu_during.sm_clock_mhz, row.gpu_before.sm_clock_mhz
    if not during or not after or row.gpu_during.clocks_locked:
        return None
    return (
        f"SM clock {after:g} MHz before, {during:g} MHz during the run, not locked" if during < 0.95 * after else None
    )


@_single
def contract_workload(row: Row, context: Context) -> str | None:
    """What really ran against the contract's scenario of that name."""
    if context.contract is None:
        return None
    grid = context.contract.grid
    w = row.workload
    scenario = next((s for s in grid.scenarios if s.name == w.scenario), None)
    if scenario is None:
        return f"scenario {w.scenario!r} is not in the contract" if w.scenario is not None else None
    limit = context.thresholds["label_tolerance_pct"] / 100.0
    for name, seen, wanted in (
        ("input", w.measured_input_len_mean_tokens, scenario.input_len),
        ("output", w.measured_output_len_mean_tokens, scenario.output_len),
    ):
        if seen is not None and abs(seen - wanted) > limit * wanted:
            return f"{name} {seen:.0f} tokens a request, the contract says {wanted}"
    if w.num_prompts is not None and w.num_prompts != scenario.num_prompts:
        return f"{w.num_prompts} prompts, the contract says {scenario.num_prompts}"
    sent = scenario.prompts_sha256 or grid.workload_sha256
    if sent and w.dataset_sha256 and w.dataset_sha256 != sent:
        return f"prompt file {w.dataset_sha256[:12]}, the contract says {sent[:12]}"
    return None


@_single
def contract_hash(row: Row, context: Context) -> str | None:
    """Another contract's row."""
    if context.contract_hash is None or row.contract_hash in (None, context.contract_hash):
        return None
    return f"the row was measured under contract {str(row.contract_hash)[:12]}, not {context.contract_hash[:12]}"


@_single
def contract_model(row: Row, context: Context) -> str | None:
    """Another model than the contract's, by fingerprint, or by name where no fingerprint tells."""
    if context.contract is None:
        return None
    model = context.contract.point.model
    wanted, seen = model.fingerprint, row.identity.model_fingerprint
    if wanted and seen:
        return f"served model {seen[:12]}, the contract says {wanted[:12]}" if wanted != seen else None
    name = row.identity.served_model or row.model
    if model.id and name and _hub_id(model.id) and _hub_id(name) and model.id.lower() != name.lower():
        return f"served model {name}, the contract says {model.id}"
    return None


def _hub_id(name: str) -> bool:
    """Whether a name is an `owner/name` id; a path or an alias tells nothing."""
    return name.count("/") == 1 and not name.startswith((".", "/", "~"))


@_single
def contract_model_unknown(row: Row, context: Context) -> str | None:
    """The contract names a fingerprint and the row has none."""
    if context.contract is None or row.status != "ok" or row.identity.model_fingerprint is not None:
        return None
    wanted = context.contract.point.model.fingerprint
    return f"the contract says model {wanted[:12]}, the row has no fingerprint" if wanted else None


def _floors(row: Row, context: Context) -> Iterator[tuple[str, float | None, float]]:
    scores = {a.benchmark: a for a in row.accuracy}
    for entry in context.contract.accuracy if context.contract is not None else []:
        own = scores.get(entry.dataset)
        yield entry.dataset, own.score if own else None, entry.floor
    named = {e.dataset for e in context.contract.accuracy} if context.contract is not None else set[str]()
    for own in row.accuracy:
        if own.benchmark not in named and own.floor is not None:
            yield own.benchmark, own.score, own.floor


@_single
def accuracy_floor(row: Row, context: Context) -> str | None:
    """An accuracy below its floor."""
    for name, score, floor in _floors(row, context):
        if score is not None and score < floor:
            return f"{name} {score:g}, floor {floor:g}"
    return None


@_single
def accuracy_unknown(row: Row, context: Context) -> str | None:
    """A floor without a score, where the contract asks for it on every engine (looked up over all of its rows)."""
    if context.contract is None or row.status != "ok":
        return None
    seen = {
        a.benchmark for r in context.rows if r.framework == row.framework for a in r.accuracy if a.score is not None
    }
    gone = [e.dataset for e in context.contract.accuracy if e.dataset not in seen]
    return f"no {', '.join(gone)} score of {row.framework or 'this engine'}" if gone else None


def _quality_floors(row: Row, context: Context) -> tuple[bool, float | None, float | None]:
    gate = context.contract.quality if context.contract is not None else None
    q = row.diffusion.quality if row.diffusion is not None else None
    psnr = gate.min_psnr_db if gate is not None else q.psnr_floor_db if q is not None else None
    ssim = gate.min_ssim if gate is not None else q.ssim_floor if q is not None else None
    return bool(gate is not None and gate.byte_identical), psnr, ssim


@_single
def diffusion_quality(row: Row, context: Context) -> str | None:
    """Byte-identical passes; otherwise every bound that the contract fixed must hold."""
    if row.diffusion is None:
        return None
    q = row.diffusion.quality
    identical = q.output_sha256 is not None and q.output_sha256 == q.reference_sha256
    if identical or q.output_sha256 is None or q.reference_sha256 is None:
        return None
    must_equal, psnr, ssim = _quality_floors(row, context)
    if must_equal:
        return "the output is not byte-identical to the reference, as the contract asks"
    if psnr is not None and q.psnr_db is not None and q.psnr_db < psnr:
        return f"PSNR {q.psnr_db:.2f} dB, floor {psnr:g} dB"
    if ssim is not None and q.ssim is not None and q.ssim < ssim:
        return f"SSIM {q.ssim:.4f}, floor {ssim:g}"
    return None


@_single
def diffusion_quality_unknown(row: Row, context: Context) -> str | None:
    """Not identical, and not compared with fixed bounds either."""
    if row.diffusion is None or row.status != "ok":
        return None
    q = row.diffusion.quality
    if q.output_sha256 is None or q.reference_sha256 is None:
        return "the output was not compared with a reference"
    _, psnr, ssim = _quality_floors(row, context)
    compared = (psnr is not None and q.psnr_db is not None) or (ssim is not None and q.ssim is not None)
    if q.output_sha256 != q.reference_sha256 and not compared:
        return "not byte-identical, and no PSNR or SSIM with a fixed bound"
    return None
