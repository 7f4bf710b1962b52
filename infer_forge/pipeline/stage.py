"""The stage of passes that no annotation marks, inferred from their own kernels, with the evidence and how sure it is.

In this order: telling attention kernels, dims of the ops, a whole-pass graph replay; then passes made of the kernels of a pass
whose stage is known; then classes of work a layer. Where the evidence is silent or contradicts itself the stage is `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from infer_forge.base.kernels import simplify
from infer_forge.base.records import Finding
from infer_forge.pipeline.model import Lane, Pass
from infer_forge.pipeline.stage_evidence import Evidence, framework_of, gather, limit, trains

UNKNOWN = "unknown"
UNMARKED = ("all", "step")
"""Stages of passes whose mark says nothing: there is none, or it is a profiler's step."""

_MOST_FINDINGS = 6


@dataclass(frozen=True)
class Verdict:
    """A stage with its kind, how sure it is (`high`, `medium`, `low`), and why."""

    stage: str
    kind: str | None
    confidence: str
    why: str


def infer(lane: Lane) -> None:
    """Give every unmarked pass of a lane its stage, kind, batch and tokens as far as its kernels show them."""
    passes = [p for p in lane.passes if p.stage in UNMARKED]
    if not passes:
        return
    training = trains(lane)
    engine = framework_of(lane)
    seen = {p.number: gather(lane, p) for p in passes}
    found: dict[int, Verdict] = {}
    for p in passes:
        e = seen[p.number]
        if training:
            found[p.number] = Verdict(UNKNOWN, None, "none", f"the trace trains: {simplify(training)[:40]}")
        elif verdict := by_itself(e, engine):
            found[p.number] = verdict
        if e.tokens is not None or e.requests is not None:
            _load(p, e)
    if not training:
        _alike(lane, passes, seen, found)
        _classes(passes, seen, found, engine)
    for p in passes:
        _tell(p, found.get(p.number) or Verdict(UNKNOWN, None, "none", "its kernels serve every stage"))


def findings(lane: Lane) -> list[Finding]:
    """What was inferred of a lane's stages, one line a stage, and what could not be."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for p in lane.passes:
        if p.stage_from == "kernels":
            why = p.stage_evidence if p.stage_confidence != "low" else p.stage_evidence.split(" (", 1)[0]
            groups.setdefault((p.stage, p.stage_confidence, why), []).append(p.number)
    out: list[Finding] = []
    for (name, sure, why), numbers in sorted(groups.items(), key=lambda x: -len(x[1]))[:_MOST_FINDINGS]:
        code = "STAGE_UNKNOWN" if name == UNKNOWN else "STAGE_INFERRED"
        text = f"no annotation marks {len(numbers)} passes; stage {name}" + (
            f" ({sure} confidence)" if name != UNKNOWN else ""
        )
        severity = "info" if sure in ("high", "medium") else "warning"
        step = "capture with step annotations" if severity == "warning" else ""
        out.append(Finding(code, f"{text}: {why}", severity, len(numbers), next_step=step))
    return out


def _tell(p: Pass, verdict: Verdict) -> None:
    if verdict.stage == UNKNOWN and p.stage == "step":
        p.stage_evidence = verdict.why  # the profiler's step is a mark: it stays one
        return
    p.stage, p.stage_from = verdict.stage, "kernels"
    p.kind = verdict.kind if verdict.kind else p.kind
    p.stage_confidence, p.stage_evidence = verdict.confidence, verdict.why


def _load(p: Pass, e: Evidence) -> None:
    """Batch and tokens where operands show them."""
    p.tokens = e.tokens if p.tokens is None else p.tokens
    batch = e.requests if e.requests is not None else e.sequences[0] if e.sequences else None
    p.batch = batch if p.batch is None else p.batch


def by_itself(e: Evidence, engine: str | None) -> Verdict | None:
    """What a pass shows alone; None where that is nothing."""
    return _by_kernels(e) or _by_dims(e, engine) or _by_graph(e)


def _by_kernels(e: Evidence) -> Verdict | None:
    shown = {stage: simplify(name)[:60] for stage, name in e.kernels.items()}
    several = e.tokens is not None and e.requests is not None and e.tokens > e.requests
    if "verify" in shown:
        return Verdict("decode", "verify", "high", f"drafts are verified: {shown['verify']}")
    if "prefill" in shown and "decode" in shown:
        if e.only_always:
            why = f"prefill or mixed: {shown['prefill']} beside {shown['decode']}, which every step launches"
            return Verdict(UNKNOWN, None, "none", why)
        return Verdict("mixed", None, "medium", f"{shown['prefill']} and {shown['decode']} in one pass")
    if "prefill" in shown:
        if e.tokens is not None and e.tokens == e.requests and e.tokens > 1:
            why = f"contradiction: {shown['prefill']}, and one token a request ({e.tokens})"
            return Verdict(UNKNOWN, None, "none", why)
        return Verdict("prefill", None, "high", f"attention kernel {shown['prefill']}")
    if "decode" not in shown:
        return None
    if several and (e.tokens or 0) > limit("verify_tokens") * (e.requests or 0):
        why = f"contradiction: {shown['decode']}, and {e.tokens} tokens of {e.requests} requests"
        return Verdict(UNKNOWN, None, "none", why)
    kind = None if e.tokens is None or e.requests is None else "verify" if several else "decode"
    return Verdict("decode", kind, "high", f"attention kernel {shown['decode']}")


def _by_dims(e: Evidence, engine: str | None) -> Verdict | None:
    if not e.serving or e.tokens is None or e.requests is None:
        return None
    if e.tokens == e.requests:
        if e.sequences is not None and e.sequences[1] > 1:
            return None  # whole sequences, and logits of every token
        return Verdict(
            "decode", "decode", "medium", f"one token a request: {e.tokens} rows in the layers and of logits"
        )
    if e.tokens < e.requests:
        return None
    return _many(f"{e.tokens} tokens of {e.requests} requests", engine, "medium")


def _many(why: str, engine: str | None, confidence: str) -> Verdict:
    """More tokens than requests. SGLang mixes prefill and decode only when told to (--enable-mixed-chunk); vLLM does as a rule."""
    if engine == "sglang":
        return Verdict("prefill", None, confidence, f"{why}; SGLang mixes stages only when told to")
    return Verdict(UNKNOWN, None, "none", f"prefill or mixed: {why}")


def _by_graph(e: Evidence) -> Verdict | None:
    if e.graph_launches != 1 or not e.serving:
        return None
    why = "all layers are one graph replay, which engines keep for decode batches"
    return Verdict("decode", None, "medium", why)


def _alike(lane: Lane, passes: list[Pass], seen: dict[int, Evidence], found: dict[int, Verdict]) -> None:
    """A pass made of the kernels of one stage's passes, whose products take about as long, is of that stage."""
    known: dict[tuple[str, str | None], list[Evidence]] = {}
    for p in lane.passes:
        if p.number in seen:
            verdict = found.get(p.number)
            if verdict is not None and verdict.stage != UNKNOWN:
                known.setdefault((verdict.stage, verdict.kind), []).append(seen[p.number])
        elif p.layers:
            known.setdefault((p.stage, p.kind), []).append(gather(lane, p))
    near = limit("near")
    for p in passes:
        e = seen[p.number]
        if p.number in found or not e.names or e.work_us is None:
            continue
        fits = {k for k, others in known.items() if any(_same(e, o, near) for o in others)}
        if len({stage for stage, _ in fits}) == 1:
            stage, kind = min(fits, key=str)
            found[p.number] = Verdict(
                stage, kind if len(fits) == 1 else None, "medium", f"made as the {stage} passes are"
            )


def _same(e: Evidence, other: Evidence, near: float) -> bool:
    if e.work_us is None or not other.work_us:
        return False
    shared = len(e.names & other.names) / max(1, min(len(e.names), len(other.names)))
    return shared >= 0.9 and 1 / near <= e.work_us / other.work_us <= near


def _classes(passes: list[Pass], seen: dict[int, Evidence], found: dict[int, Verdict], engine: str | None) -> None:
    """Dense products that take several times longer than those of the short passes hold many more tokens: the weights are the same."""
    known = [seen[n].work_us for n, v in found.items() if v.stage == "decode" and seen[n].work_us]
    open_now = [p for p in passes if p.number not in found and seen[p.number].work_us and seen[p.number].serving]
    if not open_now:
        return
    times = {p.number: float(seen[p.number].work_us or 0) for p in open_now}
    ratio = limit("class_ratio")
    if known:
        base = median(float(x or 0) for x in known)
    else:
        least = min(times.values())
        short = [n for n, t in times.items() if t <= limit("near") * least]
        longer = [t for n, t in times.items() if n not in short]
        if len(short) < limit("class_members") or not longer or min(longer) < ratio * least:
            return
        base = median(times[n] for n in short)
        for n in short:
            why = f"the short class of passes ({base:.0f} us of dense products a layer; the others {min(longer) / base:.1f} times and more)"
            found[n] = Verdict("decode", None, "low", why)
    for p in open_now:
        if p.number not in found and times[p.number] >= ratio * base:
            why = f"its dense products take {times[p.number] / base:.1f} times as long as those of decode passes"
            found[p.number] = _many(why, engine, "low")
