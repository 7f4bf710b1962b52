"""Accuracy result files: lm-eval (`results*.json`) and SGLang's own benchmarks (`accuracy` or `Score` lines and JSON)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract

_LINE = re.compile(r"^\s*(?:accuracy|average accuracy|score|mean_score)\s*[:=]\s*([01](?:\.\d+)?)\s*%?$", re.IGNORECASE)
_PREFERRED = (
    "exact_match,strict-match",
    "exact_match,flexible-extract",
    "acc,none",
    "acc_norm,none",
    "exact_match,none",
)


@dataclass(frozen=True)
class Score:
    """One dataset's score, 0 to 1, of so many samples (None: not stated), by which metric."""

    dataset: str
    score: float
    metric: str
    samples: int | None = None


def read_scores(path: str | Path, dataset: str | None = None) -> list[Score]:
    """Scores of a result file.

    Args:
        dataset: what was asked, where the file does not say.

    Raises:
        InputUnusable: it holds no score.
    """
    place = Path(path)
    if not place.is_file():
        raise InputUnusable("no such file", where=str(place), next_step="name the result file")
    text = place.read_text(encoding="utf-8", errors="replace")
    found = _lm_eval(text) or _json_lines(text, dataset, place) or _text(text, dataset, place)
    if not found:
        raise InputUnusable(
            "holds no accuracy: neither lm-eval results nor an SGLang benchmark's accuracy",
            where=str(place),
            next_step="give lm-eval's results_*.json, or the JSON or output of sglang's benchmark",
        )
    wrong = next((s for s in found if not 0 <= s.score <= 1), None)
    if wrong is not None:
        raise InputUnusable(f"an accuracy lies between 0 and 1, not {wrong.score:g}", where=str(place))
    return found


def _object(text: str) -> dict[str, Any]:
    try:
        data: Any = jsonio.loads(text)
    except InputUnusable:
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _lm_eval(text: str) -> list[Score]:
    data = _object(text)
    results: Any = data.get("results")
    if not isinstance(results, dict):
        return []
    samples: Any = data.get("n-samples") or {}
    out: list[Score] = []
    for task, figures in cast("dict[str, Any]", results).items():
        if not isinstance(figures, dict):
            continue
        numbers = {
            k: float(v)
            for k, v in cast("dict[str, Any]", figures).items()
            if isinstance(v, (int, float)) and not isinstance(v, bool) and "stderr" not in k
        }
        name = next(
            (p for p in _PREFERRED if p in numbers),
            next((k for k in numbers if k.startswith(("acc", "exact", "pass"))), None),
        )
        if name is not None:
            told: Any = cast("dict[str, Any]", samples).get(str(task)) if isinstance(samples, dict) else None
            count: Any = cast("dict[str, Any]", told).get("effective") if isinstance(told, dict) else None
            out.append(Score(str(task), numbers[name], name, int(count) if isinstance(count, int) else None))
    return out


def _json_lines(text: str, dataset: str | None, place: Path) -> list[Score]:
    out: list[Score] = []
    for line in [text] if _object(text) else text.splitlines():
        data = _object(line)
        for key in ("accuracy", "score", "mean_score"):
            value: Any = data.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                told: Any = data.get("num_requests") or data.get("num_examples") or data.get("num_questions")
                name = dataset or str(data.get("task") or data.get("eval_name") or place.stem)
                out.append(Score(name, float(value), key, int(told) if isinstance(told, int) else None))
                break
    return out


def _text(text: str, dataset: str | None, place: Path) -> list[Score]:
    hits = [m for line in text.splitlines() if (m := _LINE.match(line))]
    return [Score(dataset or place.stem, float(hits[-1].group(1)), "accuracy")] if hits else []


def judge(contract: BenchmarkContract, dataset: str, score: float, base: float | None) -> tuple[str, str]:
    """(`pass` | `fail` | `unknown`, why) of a candidate's score against the contract's floor and tolerance."""
    floor = next((f for f in contract.accuracy if f.dataset == dataset), None)
    if floor is None:
        return "unknown", f"the contract fixes no tolerance for {dataset}"
    if score < floor.floor:
        return "fail", f"{dataset} {score:.4f} is below the floor {floor.floor:.4f}"
    if base is None:
        return "unknown", f"no {dataset} score of the baseline"
    if score < base - floor.tolerance:
        return "fail", f"{dataset} {score:.4f} against {base:.4f}, tolerance {floor.tolerance:.4f}"
    return "pass", f"{dataset} {score:.4f} against {base:.4f}, tolerance {floor.tolerance:.4f}, floor {floor.floor:.4f}"


def judge_quality(contract: BenchmarkContract, quality: dict[str, Any]) -> tuple[str, str]:
    """The same for generated images and video: byte identity, else PSNR and SSIM as the contract says."""
    gate = contract.quality
    if gate is None:
        return "unknown", "the contract fixes no quality gate"
    same = quality.get("output_sha256") and quality.get("output_sha256") == quality.get("reference_sha256")
    if same:
        return "pass", "byte-identical"
    if gate.byte_identical:
        return "fail", "the contract asks for identical bytes"
    parts: list[tuple[str, str]] = []
    for name, floor in (("psnr_db", gate.min_psnr_db), ("ssim", gate.min_ssim)):
        if floor is None:
            continue
        value = quality.get(name)
        if value is None:
            parts.append(("unknown", f"{name} was not measured"))
        else:
            parts.append(("pass" if value >= floor else "fail", f"{name} {value:g}, floor {floor:g}"))
    words = {p[0] for p in parts}
    result = "fail" if "fail" in words else "unknown" if "unknown" in words or not parts else "pass"
    return result, "; ".join(p[1] for p in parts) or "no floor is set"
