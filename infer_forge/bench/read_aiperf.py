"""aiperf (`profile_export_aiperf.json`) and genai-perf (`profile_export_genai_perf.json`): one JSON document a run.

A metric is `{unit, avg, p1 .. p99, min, max, std}`; the unit is read, not assumed. A run that was cancelled or is not
complete is no result. Source: aiperf 0.13.0, export schema 1.4.
"""

from __future__ import annotations

from infer_forge.bench import read_common as rc
from infer_forge.bench.model import Row, Spread

AIPERF = "aiperf"
GENAI_PERF = "genai-perf"

_METRICS = {"request_throughput", "request_latency", "time_to_first_token", "output_token_throughput"}
_TO_MS = {"ms": 1.0, "milliseconds": 1.0, "s": 1000.0, "sec": 1000.0, "seconds": 1000.0, "us": 0.001, "ns": 1e-6}
_TO_S = {unit: factor / 1000.0 for unit, factor in _TO_MS.items()}
_RATES = {"requests/sec": 1.0, "tokens/sec": 1.0, "requests/s": 1.0, "tokens/s": 1.0, "tokens/sec/user": 1.0}
_COUNTS = {"requests": 1.0, "tokens": 1.0, "count": 1.0, "": 1.0}


def matches(document: rc.Document) -> bool:
    """Whether it is one of the two exports."""
    return sum(isinstance(document.get(k), dict) and "unit" in document[k] for k in _METRICS) >= 2


def tool_of(document: rc.Document) -> str:
    """aiperf names itself; without that the export is genai-perf's."""
    return AIPERF if "aiperf_version" in document else GENAI_PERF


def read(document: rc.Document, row: Row) -> None:
    """Fill a row from one export."""
    f = rc.Fields(document, row.notes)
    row.tool_version = f.text("aiperf_version")
    row.run_id = f.text("benchmark_id")
    _metrics(f, row)
    _workload(f, row)
    _settings(f, row)
    rc.settle_status(row)
    if f.flag("was_cancelled"):
        row.status, row.failure_reason = "failed", "the run was cancelled"
    elif f.flag("is_complete") is False:
        row.status = "failed"
        row.failure_reason = f.text("incomplete_reason") or "the tool says that the run is not complete"


def _one(f: rc.Fields, key: str, units: dict[str, float], statistic: str = "avg") -> float | None:
    metric = f.child(key)
    if metric is None:
        return None
    factor = _factor(metric, key, units)
    value = metric.number(statistic)
    return value * factor if value is not None and factor is not None else None


def _factor(metric: rc.Fields, key: str, units: dict[str, float]) -> float | None:
    unit = metric.text("unit") or ""
    factor = units.get(unit.lower())
    if factor is None:
        metric.notes.append(f"{key} has the unit {unit!r}, which is not known here: taken as unknown")
    return factor


def _spread(f: rc.Fields, key: str) -> Spread:
    metric = f.child(key)
    factor = _factor(metric, key, _TO_MS) if metric is not None else None
    if metric is None or factor is None:
        return Spread()
    names = {
        "mean": "avg",
        "p50": "p50",
        "p90": "p90",
        "p95": "p95",
        "p99": "p99",
        "std": "std",
        "min": "min",
        "max": "max",
    }
    values = {ours: metric.number(theirs) for ours, theirs in names.items()}
    return Spread(**{k: v * factor for k, v in values.items() if v is not None})


def _metrics(f: rc.Fields, row: Row) -> None:
    m = row.metrics
    m.duration_s = _one(f, "benchmark_duration", _TO_S)
    m.request_throughput_per_s = _one(f, "request_throughput", _RATES)
    m.output_token_throughput_per_s = _one(f, "output_token_throughput", _RATES)
    m.total_token_throughput_per_s = _one(f, "total_token_throughput", _RATES)
    m.goodput_requests_per_s = _one(f, "goodput", _RATES)
    m.tokens_per_s_per_user = _one(f, "output_token_throughput_per_user", _RATES)
    m.ttft_ms = _spread(f, "time_to_first_token")
    m.e2e_ms = _spread(f, "request_latency")
    # aiperf's inter_token_latency is (latency - TTFT) / (tokens - 1) of a request: a TPOT; a gap between chunks is ITL.
    m.tpot_ms = _spread(f, "inter_token_latency")
    m.itl_ms = _spread(f, "inter_chunk_latency")


def _workload(f: rc.Fields, row: Row) -> None:
    w = row.workload
    completed = _one(f, "request_count", _COUNTS)
    errors = _one(f, "error_request_count", _COUNTS)
    w.completed_requests = int(completed) if completed is not None else None
    w.failed_requests = int(errors) if errors is not None else None
    if "error_summary" in f.document and f.document["error_summary"] == [] and w.failed_requests is None:
        w.failed_requests = 0
    w.measured_input_len_mean_tokens = _one(f, "input_sequence_length", _COUNTS)
    w.measured_output_len_mean_tokens = _one(f, "output_sequence_length", _COUNTS)
    w.input_len_p50_tokens = _one(f, "input_sequence_length", _COUNTS, "p50")
    w.input_len_p95_tokens = _one(f, "input_sequence_length", _COUNTS, "p95")
    w.output_len_p50_tokens = _one(f, "output_sequence_length", _COUNTS, "p50")
    w.output_len_p95_tokens = _one(f, "output_sequence_length", _COUNTS, "p95")
    totals = (_one(f, "total_isl", _COUNTS), _one(f, "total_osl", _COUNTS))
    w.measured_input_tokens = int(totals[0]) if totals[0] is not None else None
    w.measured_output_tokens = int(totals[1]) if totals[1] is not None else None


def _settings(f: rc.Fields, row: Row) -> None:
    settings = f.child("input_config")
    if settings is None:
        return
    load, endpoint, data = settings.child("loadgen"), settings.child("endpoint"), settings.child("input")
    if load is not None:
        row.workload.max_concurrency = load.count("concurrency")
        rc.request_rate(load, row)
        row.workload.num_prompts = load.count("request_count")
        row.workload.warmup_requests = load.count("warmup_request_count")
    if endpoint is not None:
        names = endpoint.raw("model_names")
        row.model = rc.clean(names[0]) if isinstance(names, list) and names and isinstance(names[0], str) else None
        row.workload.endpoint = endpoint.text("type")
        row.workload.streaming = endpoint.flag("streaming")
    if data is not None:
        row.workload.seed = data.count("random_seed")
