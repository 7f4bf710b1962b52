"""What every result reader shares: typed fields that never invent a value, latency spreads, recomputed percentiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

from infer_forge.bench.model import Recomputed, Row, Spread

Document = dict[str, Any]

_INT_LIMIT = 2**63 - 1
_TEXT_LIMIT = 400
_PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}


def clean(text: str, limit: int = _TEXT_LIMIT) -> str:
    """Printable UTF-8 text, cut to `limit` characters (lone surrogates are replaced)."""
    return text.encode("utf-8", "replace").decode("utf-8")[:limit]


class Fields:
    """Typed access to a result document. A value of the wrong type is null and leaves a note; nothing is converted by guess."""

    def __init__(self, document: Document, notes: list[str], where: str = "") -> None:
        self.document = document
        self.notes = notes
        self.where = where
        self.seen: set[str] = set()

    def _note(self, key: str, why: str) -> None:
        self.notes.append(f"{self.where}{key} {why}: taken as unknown")

    def raw(self, key: str) -> Any:
        """The value as written; None when absent."""
        self.seen.add(key)
        return self.document.get(key)

    def number(self, *keys: str) -> float | None:
        """A finite number under the first of the keys that is present."""
        for key in keys:
            value = self.raw(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                self._note(key, f"is {type(value).__name__}, not a number")
            elif isinstance(value, float) and not math.isfinite(value):
                self._note(key, "is not finite")
            elif abs(value) > _INT_LIMIT:
                self._note(key, "is beyond any range of its unit")
            else:
                return float(value)
        return None

    def count(self, *keys: str) -> int | None:
        """A whole number under the first of the keys that is present."""
        value = self.number(*keys)
        if value is None:
            return None
        if value != int(value):
            self._note(keys[0], "is not a whole number")
            return None
        return int(value)

    def text(self, *keys: str) -> str | None:
        """A non-empty string under the first of the keys that is present."""
        for key in keys:
            value = self.raw(key)
            if isinstance(value, str) and value:
                return clean(value)
            if value is not None and not isinstance(value, str):
                self._note(key, f"is {type(value).__name__}, not text")
        return None

    def flag(self, key: str) -> bool | None:
        """A boolean; anything else is unknown."""
        value = self.raw(key)
        if isinstance(value, bool):
            return value
        if value is not None:
            self._note(key, f"is {type(value).__name__}, not true or false")
        return None

    def child(self, key: str) -> Fields | None:
        """A dictionary inside; None when it is none."""
        value = self.raw(key)
        return Fields(cast("Document", value), self.notes, f"{self.where}{key}.") if isinstance(value, dict) else None

    def numbers(self, key: str) -> list[float] | None:
        """A list of finite numbers; None when it is absent or holds anything else."""
        value = self.raw(key)
        if not isinstance(value, list) or not value:
            return None
        items = cast("list[Any]", value)
        if not all(_is_number(v) for v in items):
            self._note(key, "holds something that is no number")
            return None
        return [float(v) for v in items]

    def rest(self, known: Iterable[str] = (), limit: int = 64) -> dict[str, Any]:
        """Scalars under keys that nobody asked for: what a driver added (sweep parameters, metadata)."""
        out: dict[str, Any] = {}
        skip = self.seen | set(known)
        for key, value in self.document.items():
            if key in skip or len(out) >= limit:
                continue
            if isinstance(value, str):
                out[clean(key, 80)] = clean(value, 200)
            elif isinstance(value, bool) or _is_number(value):
                out[clean(key, 80)] = value
        return out


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= _INT_LIMIT
        and math.isfinite(value)
    )


def spread(fields: Fields, stem: str) -> Spread:
    """`{mean,median|p50,p90,p95,p99,std,min,max}_<stem>_ms` of the bench_serving family, in milliseconds."""
    return Spread(
        mean=fields.number(f"mean_{stem}_ms"),
        p50=fields.number(f"median_{stem}_ms", f"p50_{stem}_ms"),
        p90=fields.number(f"p90_{stem}_ms"),
        p95=fields.number(f"p95_{stem}_ms"),
        p99=fields.number(f"p99_{stem}_ms"),
        std=fields.number(f"std_{stem}_ms"),
        min=fields.number(f"min_{stem}_ms"),
        max=fields.number(f"max_{stem}_ms"),
    )


def request_rate(fields: Fields, row: Row) -> None:
    """The request rate: a number, `Infinity` or `"inf"` (no pacing), or another schedule by name."""
    value = fields.raw("request_rate")
    if value in ("inf", "Infinity") or (isinstance(value, float) and math.isinf(value) and value > 0):
        row.workload.request_rate_unlimited = True
    elif _is_number(value):
        row.workload.request_rate_per_s = float(value)
        row.workload.request_rate_unlimited = False
    elif isinstance(value, str):
        row.workload.parameters["request_rate"] = clean(value, 40)
        row.workload.request_rate_unlimited = False


def started_at(fields: Fields) -> str | None:
    """vLLM-family `date` "YYYYmmdd-HHMMSS" (local time of the client) as ISO without a zone."""
    value = fields.text("date")
    if value is None:
        return None
    digits = value.replace("-", "")
    if len(digits) == 14 and digits.isascii() and digits.isdigit():
        d = digits
        return f"{d[:4]}-{d[4:6]}-{d[6:8]}T{d[8:10]}:{d[10:12]}:{d[12:14]}"
    return value


def mean_lengths(row: Row) -> None:
    """Measured mean lengths from the token totals: total / completed requests."""
    work = row.workload
    if not work.completed_requests or work.completed_requests < 0:
        return
    if work.measured_input_tokens is not None:
        work.measured_input_len_mean_tokens = work.measured_input_tokens / work.completed_requests
    if work.measured_output_tokens is not None:
        work.measured_output_len_mean_tokens = work.measured_output_tokens / work.completed_requests


def error_counts(fields: Fields, row: Row) -> list[bool] | None:
    """Counts the `errors` array into the row; gives, per request, whether it succeeded (None: no such array)."""
    value = fields.raw("errors")
    if not isinstance(value, list) or not value:
        return None
    texts = [e if isinstance(e, str) else "" if e is None else str(e) for e in cast("list[Any]", value)]
    counts = Counter(clean(t.strip().splitlines()[0], 120) for t in texts if t.strip())
    row.errors = dict(counts.most_common(20))
    return [not t.strip() for t in texts]


def settle_status(row: Row) -> None:
    """Status and success rate from the counts; nothing completed is a failure, and its zero latencies are unknown."""
    work = row.workload
    if work.failed_requests is None and work.num_prompts is not None and work.completed_requests is not None:
        missing = work.num_prompts - work.completed_requests
        work.failed_requests = missing if missing >= 0 else None
    sent = work.num_prompts
    if sent is None and work.completed_requests is not None and work.failed_requests is not None:
        sent = work.completed_requests + work.failed_requests
    if sent and work.completed_requests is not None:
        row.metrics.success_rate = work.completed_requests / sent
    if work.completed_requests == 0:
        row.status = _failure_kind(row.errors)
        row.failure_reason = next(iter(row.errors), None) or "no request completed"
        _forget_zeros(row)


def _failure_kind(errors: Mapping[str, int]) -> Any:
    text = " ".join(errors).lower()
    if "out of memory" in text or "oom" in text.split():
        return "oom"
    return "timeout" if "timed out" in text or "timeout" in text else "failed"


def _forget_zeros(row: Row) -> None:
    """Latencies and rates of no request at all are not zero but unknown."""
    dropped: list[str] = []
    m = row.metrics
    for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"):
        if not getattr(m, name).empty():
            setattr(m, name, Spread())
            dropped.append(name)
    for name in type(m).model_fields:
        value = getattr(m, name)
        if name not in ("duration_s", "success_rate") and isinstance(value, float) and value == 0.0:
            setattr(m, name, None)
            dropped.append(name)
    if dropped:
        row.notes.append(f"no request completed: {', '.join(dropped)} of the file are unknown, not zero")


def per_request(fields: Fields, row: Row, ok: list[bool] | None, latency_key: str | None) -> None:
    """Percentiles computed again from the per-request arrays (seconds) of the requests that succeeded.

    They replace the tool's own; the largest relative disagreement is kept in `row.recomputed`.
    """
    lengths = fields.numbers("output_lens")
    inputs = fields.numbers("input_lens")
    first = _kept(fields.numbers("ttfts"), ok)
    total = _kept(fields.numbers(latency_key), ok) if latency_key else None
    if inputs:
        row.workload.input_len_p50_tokens, row.workload.input_len_p95_tokens = _two(_kept(inputs, ok))
    if lengths:
        row.workload.output_len_p50_tokens, row.workload.output_len_p95_tokens = _two(_kept(lengths, ok))
    gaps, answered = _gaps(fields, ok)
    worst: tuple[float, str] | None = None
    count = 0
    for name, values, requests in (
        ("ttft_ms", first, len(first or ())),
        ("itl_ms", gaps, answered),
        ("e2e_ms", total, len(total or ())),
    ):
        if values:
            count = max(count, requests)
            worst = _replace(row, name, values, worst)
    if count:
        deviation, where = worst if worst is not None else (None, None)
        row.recomputed = Recomputed(requests=count, largest_deviation=deviation, where=where)


def _kept(values: list[float] | None, ok: list[bool] | None) -> list[float] | None:
    if values is None or ok is None or len(ok) != len(values):
        return values
    return [v for v, good in zip(values, ok, strict=True) if good]


def _gaps(fields: Fields, ok: list[bool] | None) -> tuple[list[float] | None, int]:
    """All gaps between tokens, and of how many requests."""
    value = fields.raw("itls")
    if not isinstance(value, list):
        return None, 0
    lists = cast("list[Any]", value)
    if ok is not None and len(ok) == len(lists):
        lists = [v for v, good in zip(lists, ok, strict=True) if good]
    flat: list[float] = []
    for item in lists:
        if not isinstance(item, list) or not all(_is_number(v) for v in cast("list[Any]", item)):
            return None, 0
        flat.extend(cast("list[float]", item))
    return flat, len(lists)


def _two(values: list[float] | None) -> tuple[float | None, float | None]:
    import numpy as np

    if not values:
        return None, None
    p50, p95 = np.percentile(values, [50.0, 95.0])
    return float(p50), float(p95)


def _replace(row: Row, name: str, seconds: list[float], worst: tuple[float, str] | None) -> tuple[float, str] | None:
    import numpy as np

    array = np.asarray(seconds, dtype=float) * 1000.0
    current: Spread = getattr(row.metrics, name)
    figures = {"mean": float(array.mean()), "min": float(array.min()), "max": float(array.max())}
    figures |= dict(zip(_PERCENTILES, map(float, np.percentile(array, list(_PERCENTILES.values()))), strict=True))
    for key, figure in figures.items():
        own = getattr(current, key)
        if own is not None and own > 0:
            deviation = abs(figure - own) / own
            if worst is None or deviation > worst[0]:
                worst = (deviation, f"{name}.{key}")
        setattr(current, key, figure)
    return worst
