"""Error rates of the gap decision by simulation, beside the two rules that others decide by.

A launch's figure is its true value times log-normal run-to-run noise; pairs are independent. Ours: Student-t on paired
log ratios, looks at 5, 8 and 12 pairs, stopping at the first settled verdict. Single-run rule: one run each, behind when
the ratio is below 1 - 1 %. Keep plus rebench: a gain is claimed when one run is above 1 % and a second above 0.5 %
against the same base run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from benches import Row
from infer_forge.bench import stats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TRIALS = 200_000
SEED = 20261129
DELTA = math.log1p(stats.THRESHOLD_PCT / 100.0)


def plan_rates(gap_pct: float, noise_pct: float, trials: int = TRIALS, seed: int = SEED) -> dict[str, float]:
    """Share of each verdict of our plan, and the mean number of pairs, at a true gap and a run-to-run noise in percent."""
    import numpy as np

    rng = np.random.default_rng(seed)
    last = stats.LOOKS[-1]
    logs = pair_logs(rng, gap_pct, noise_pct, (trials, last))
    verdict = np.full(trials, "inconclusive", dtype="<U12")
    used = np.full(trials, last)
    for look in stats.LOOKS:
        open_ = verdict == "inconclusive"
        found = at_look(logs[:, :look])
        settled = open_ & (found != "inconclusive")
        verdict[settled], used[settled] = found[settled], look
    shares = {
        name: float((verdict == name).mean()) for name in ("behind", "ahead", "tie", "not_behind", "inconclusive")
    }
    return {**shares, "mean_pairs": float(used.mean())}


def pair_logs(rng: Any, gap_pct: float, noise_pct: float, shape: tuple[int, ...]) -> Floats:
    """Log ratios of pairs: the true gap plus the noise of both runs."""
    noise = noise_pct / 100.0
    target = rng.normal(math.log1p(gap_pct / 100.0), noise, shape)
    return target - rng.normal(0.0, noise, shape)


def at_look(logs: Floats) -> Any:
    """Verdicts of many trials at one look: `stats.decide` over arrays."""
    import numpy as np

    n = logs.shape[1]
    t = stats.t_quantile(1.0 - stats.ALPHA / len(stats.LOOKS) / 2.0, n - 1)
    mean = logs.mean(axis=1)
    half = t * logs.std(axis=1, ddof=1) / math.sqrt(n)
    low, high = mean - half, mean + half
    within = np.where(high <= DELTA, "tie", "not_behind")
    return np.select([high < -DELTA, low > DELTA, low >= -DELTA], ["behind", "ahead", within], "inconclusive")


def peeking_rate(gap_pct: float, noise_pct: float, trials: int = 40_000) -> float:
    """Share of `behind` when every number of pairs from 3 to 12 is looked at with alpha 0.05."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    logs = pair_logs(rng, gap_pct, noise_pct, (trials, 12))
    behind = np.zeros(trials, dtype=bool)
    for n in range(3, 13):
        part = logs[:, :n]
        half = stats.t_quantile(0.975, n - 1) * part.std(axis=1, ddof=1) / math.sqrt(n)
        behind |= part.mean(axis=1) + half < -DELTA
    return float(behind.mean())


def single_run_rate(gap_pct: float, noise_pct: float, trials: int = TRIALS) -> float:
    """Share of `behind` of the single-run rule."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    return float((pair_logs(rng, gap_pct, noise_pct, (trials,)) < -DELTA).mean())


def keep_plus_rebench_rate(noise_pct: float, trials: int = TRIALS) -> float:
    """Share of claimed gains on two equal systems: one run above 1 %, one above 0.5 %, against the same base run."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    noise = noise_pct / 100.0
    base, first, second = (rng.normal(0.0, noise, trials) for _ in range(3))
    return float(((first - base > math.log1p(0.01)) & (second - base > math.log1p(0.005))).mean())


def error_rates() -> list[Row]:
    """The figures of the decision, each beside the rule that others use, in one run."""
    equal, edge, behind = plan_rates(0.0, 1.0), plan_rates(-1.0, 1.0), plan_rates(-3.0, 1.0)
    single, rebench = single_run_rate(0.0, 1.0), keep_plus_rebench_rate(1.0)
    single_behind, peek = single_run_rate(-3.0, 1.0), peeking_rate(-1.0, 1.0)
    quiet = plan_rates(0.0, 0.5)

    others = f"single-run rule {100 * single:.1f} %, keep plus rebench {100 * rebench:.1f} % false gains"
    ties = quiet["tie"] + quiet["not_behind"]
    open_ = f"inconclusive {100 * equal['inconclusive']:.0f} %, mean {equal['mean_pairs']:.1f} pairs"
    return [
        _row("false `behind`, equal systems, 1 % noise", "at most 1 %", equal["behind"], others, equal["behind"] <= 0.01, open_),
        _row("false `behind` at -1 %, 1 % noise", "at most 2.5 %", edge["behind"], f"peeking {100 * peek:.1f} %", edge["behind"] <= 0.025),
        _row(
            "`behind` at -3 %, 1 % noise, within 12 launches", "at least 95 %", behind["behind"],
            f"single-run rule {100 * single_behind:.1f} %", behind["behind"] >= 0.95, f"mean {behind['mean_pairs']:.1f} pairs",
        ),
        _row("tie or not_behind, equal systems, 0.5 % noise", "stated", ties, "", True, f"mean {quiet['mean_pairs']:.1f} pairs"),
        _row("single-run rule: false `behind`, 1 % noise", "24 %", single, "the rule itself", abs(single - 0.24) < 0.01),
        _row("keep plus rebench: false gains, 1 % noise", "15 %", rebench, "the rule itself", abs(rebench - 0.15) < 0.01),
    ]  # fmt: skip


def _row(work: str, goal: str, share: float, baseline: str, ok: bool, note: str = "") -> Row:
    return Row(work, goal, round(100 * share, 2), "%", baseline, ok, note)


BENCHES = {"gap-error-rates": error_rates}
