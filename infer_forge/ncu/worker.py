"""The subprocess that imports NVIDIA's `ncu_report`: request as JSON on stdin, answer as JSON on stdout.

It lives in a process of its own because the library never gives memory back (about 7 MB an action of a full report) and
can die on damaged input; nothing else of infer-forge imports it. Standard library only besides `ncu_report`.
"""

from __future__ import annotations

import collections
import importlib
import json
import math
import os
import re
import sys
from typing import Any

_RULE_KINDS = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}
_SPEEDUP_KINDS = {1: "local", 2: "global"}
_WORKLOADS = {0: "kernel", 1: "range", 2: "graph", 3: "cmdlist", 4: "subgrid"}
_STALL = "smsp__pcsamp_warps_issue_stalled_"


def _cap_memory(limit_bytes: int, path: str) -> None:
    """A hard limit of the address space: twice the soft cap, the library itself, and the file, which it may map twice."""
    try:
        import resource
    except ImportError:  # Windows: the soft cap alone
        return
    most = limit_bytes * 2 + (1 << 30) + 2 * os.path.getsize(path)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        try:
            import resource
        except ImportError:  # Windows: unknown, so the launch cap alone holds
            return 0
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _value(metric: Any) -> float | str | None:
    """The metric's value; None for a metric without one. NaN is no value."""
    value = metric.value()
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else None
    return value if isinstance(value, str) else None


def _metrics(action: Any, wanted: list[str], pattern: re.Pattern[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """`{name: [value, unit]}` and `{throughput: [sub-metric names]}`."""
    names = set(action.metric_names())
    take = [n for n in wanted if n in names]
    if pattern:
        take += [n for n in names if pattern.search(n)]
    breakdown = {
        n.partition(":")[2]: [p.strip() for p in str(action.metric_by_name(n).value()).split(",") if p.strip()]
        for n in names
        if n.startswith("breakdown:") and ".avg." in n
    }
    take += [s for subs in breakdown.values() for s in subs if s in names]
    out: dict[str, Any] = {}
    for name in dict.fromkeys(take):
        metric: Any = action.metric_by_name(name)
        value = _value(metric) if metric is not None else None
        if value is not None and metric is not None:
            out[name] = [value, metric.unit() or ""]
    return out, breakdown


def _rules(action: Any) -> list[dict[str, Any]]:
    """NVIDIA's rule results under the keys that they have; results without a message are left out."""
    out: list[dict[str, Any]] = []
    for item in action.rule_results_as_dicts():
        message: dict[str, Any] = item.get("rule_message") or {}
        kind = int(message.get("type") or 0)
        if not message.get("message") or kind == 0:
            continue
        estimate: dict[str, Any] = item.get("speedup_estimation") or {}
        out.append(
            {
                "rule": item.get("rule_identifier"),
                "section": item.get("section_identifier") or "",
                "kind": _RULE_KINDS.get(kind, "none"),
                "title": message.get("title") or "",
                "message": message["message"],
                "speedup_kind": _SPEEDUP_KINDS.get(int(estimate.get("type") or 0)),
                "speedup_pct": estimate.get("speedup"),
            }
        )
    return out


def _samples(action: Any, names: set[str]) -> dict[int, collections.Counter[str]]:
    """Stall samples per program counter."""
    by_pc: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for name in names:
        if not name.startswith(_STALL) or name.endswith("_not_issued"):
            continue
        metric = action.metric_by_name(name)
        if metric is None or not metric.has_correlation_ids():
            continue
        pcs = metric.correlation_ids()
        reason = name[len(_STALL) :]
        for i in range(min(metric.num_instances(), pcs.num_instances())):
            count = int(metric.as_double(i))
            if count:
                by_pc[int(pcs.as_uint64(i))][reason] += count
    return by_pc


def _hot(action: Any, limit: int) -> list[dict[str, Any]]:
    """The program counters with the most stall samples: source line where the report has one, SASS always."""
    by_pc = _samples(action, set(action.metric_names()))
    total = sum(sum(c.values()) for c in by_pc.values())
    out: list[dict[str, Any]] = []
    for pc in sorted(by_pc, key=lambda p: -sum(by_pc[p].values()))[:limit]:
        count = sum(by_pc[pc].values())
        stalls = [(n, r) for r, n in by_pc[pc].items() if r not in ("selected", "not_selected")]
        top = max(stalls, default=None)
        info = action.source_info(pc)
        file = info.file_name() if info is not None else ""
        line = info.line() if info is not None else 0
        out.append(
            {
                "where": f"{file}:{line}" if file and line and file != "?" else "",
                "sass": str(action.sass_by_pc(pc) or "").strip(),
                "samples": count,
                "share_pct": 100.0 * count / total,
                "stall": top[1] if top else None,
                "stall_share_pct": 100.0 * top[0] / count if top else None,
            }
        )
    return out


def _action(action: Any, index: int, request: dict[str, Any], pattern: re.Pattern[str] | None) -> dict[str, Any]:
    if action.name() is None:
        raise ValueError("the result is damaged: ncu_report finds no kernel name in it")
    values, breakdown = _metrics(action, request["wanted"], pattern)
    return {
        "index": index,
        "kernel": action.name(),
        "demangled": action.name(action.NameBase_DEMANGLED),
        "workload": _WORKLOADS.get(int(action.workload_type()), "unknown"),
        "values": values,
        "breakdown": breakdown,
        "rules": _rules(action),
        "sections": [s.identifier() for s in action.sections()],
        "hot": _hot(action, request["hot"]) if request["hot"] else [],
    }


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Read the wanted actions (`indices`, or all up to `max_actions`) of `path`; stop early at the memory cap."""
    ncu_report: Any = importlib.import_module("ncu_report")
    pattern = re.compile(request["pattern"]) if request.get("pattern") else None
    context = ncu_report.load_report(request["path"])
    places = [(r, a) for r in range(context.num_ranges()) for a in range(context.range_by_idx(r).num_actions())]
    indices = request["indices"] if request["indices"] is not None else list(range(len(places)))
    answer: dict[str, Any] = {"actions": [], "in_report": len(places), "capped": None, "failed": []}
    for n, index in enumerate(indices):
        if index >= len(places):
            answer["failed"].append([index, "not in the report"])
            continue
        if n >= request["max_actions"]:
            answer["capped"] = f"stopped after {n} launches (the cap)"
            break
        if _resident_bytes() > request["memory_bytes"]:
            answer["capped"] = f"stopped after {n} launches at the memory cap of {request['memory_bytes'] >> 20} MiB"
            break
        where = places[index]
        try:
            action = context.range_by_idx(where[0]).action_by_idx(where[1])
            answer["actions"].append(_action(action, index, request, pattern))
        except (RuntimeError, ValueError, KeyError, AttributeError, TypeError, UnicodeDecodeError) as exc:
            answer["failed"].append([index, f"{type(exc).__name__}: {exc}"])
        except MemoryError:
            answer["capped"] = f"stopped after {n} launches: out of memory"
            break
    answer["resident_bytes"] = _resident_bytes()
    return answer


def main() -> int:
    """Answer one request."""
    request = json.load(sys.stdin)
    sys.path += [p for p in request.get("sys_path", []) if p not in sys.path]
    _cap_memory(request["memory_bytes"], request["path"])
    try:
        answer = read(request)
    except ImportError as exc:
        answer = {"missing": str(exc)}
    except (MemoryError, RuntimeError, OSError) as exc:
        answer = {"error": f"{type(exc).__name__}: {exc}"}
    json.dump(answer, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # the library's own teardown costs time and has crashed


if __name__ == "__main__":
    main()
