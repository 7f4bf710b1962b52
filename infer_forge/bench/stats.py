"""Student-t statistics of paired launches, with no dependency: quantiles, intervals, the fixed looks, Holm.

Why t and not bootstrap: at 3 to 10 launches a percentile or BCa bootstrap of a nominal 95 % interval covers 75 to 90 %;
Student-t on paired log ratios covers 94 to 95 % (and no less with heavy tails). Why fixed looks: testing after every
launch raises a false `behind` at the boundary from 2 % to 9 %. `scripts/benches/bench_gap.py` reproduces both figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LOOKS = (5, 8, 12)
"""Numbers of paired launches at which the data may be looked at, unless the contract says otherwise."""

ALPHA = 0.05
"""Two-sided error budget of one scenario, spent in equal parts over the looks."""

THRESHOLD_PCT = 1.0
"""Default noise threshold: ratios within it are a tie."""

_SEARCH_CAP = 100_000


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (Lentz's method; Numerical Recipes 6.4)."""
    tiny = 1e-300
    qab, qap, qam = a + b, a + 1.0, a - 1.0
    c, d = 1.0, 1.0 - qab * x / qap
    d = 1.0 / (d if abs(d) > tiny else tiny)
    h = d
    for m in range(1, 400):
        even = m * (b - m) * x / ((qam + 2 * m) * (a + 2 * m))
        d = 1.0 + even * d
        c = 1.0 + even / c
        d = 1.0 / (d if abs(d) > tiny else tiny)
        c = c if abs(c) > tiny else tiny
        h *= d * c
        odd = -(a + m) * (qab + m) * x / ((a + 2 * m) * (qap + 2 * m))
        d = 1.0 + odd * d
        c = 1.0 + odd / c
        d = 1.0 / (d if abs(d) > tiny else tiny)
        c = c if abs(c) > tiny else tiny
        step = d * c
        h *= step
        if abs(step - 1.0) < 1e-15:
            break
    return h


def beta_cdf(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b) for 0 <= x <= 1."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


def t_sf(t: float, df: float) -> float:
    """P(T > t) for Student's t with `df` degrees of freedom."""
    tail = 0.5 * beta_cdf(df / 2.0, 0.5, df / (df + t * t))
    return tail if t >= 0 else 1.0 - tail


def t_quantile(p: float, df: float) -> float:
    """The p-quantile of Student's t with `df` degrees of freedom, by bisection on the tail probability.

    Raises:
        ValueError: p is not inside (0, 1) or df is not positive.
    """
    if not 0.0 < p < 1.0 or df <= 0:
        raise ValueError("p must lie inside (0, 1) and df must be positive")
    if p < 0.5:
        return -t_quantile(1.0 - p, df)
    tail = 1.0 - p
    low, high = 0.0, 1.0
    while t_sf(high, df) > tail:
        high *= 2.0
        if high > 1e300:
            return high
    for _ in range(200):
        middle = (low + high) / 2.0
        if t_sf(middle, df) > tail:
            low = middle
        else:
            high = middle
        if high - low <= 1e-13 * max(1.0, high):
            break
    return (low + high) / 2.0


@dataclass(frozen=True)
class Interval:
    """Mean of paired log ratios and its interval. `*_pct` are the same as percentages of the competitor."""

    n: int
    mean: float
    sd: float
    low: float
    high: float
    t: float
    alpha: float

    @property
    def mean_pct(self) -> float:
        """100 (exp(mean) - 1)."""
        return 100.0 * math.expm1(self.mean)

    @property
    def low_pct(self) -> float:
        """100 (exp(low) - 1)."""
        return 100.0 * math.expm1(self.low)

    @property
    def high_pct(self) -> float:
        """100 (exp(high) - 1)."""
        return 100.0 * math.expm1(self.high)

    @property
    def sd_pct(self) -> float:
        """Standard deviation of a paired difference, in percent (log scale, times 100)."""
        return 100.0 * self.sd


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n - 1); the deviation of one value is NaN."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < 2:
        return mean, math.nan
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))


def interval(values: Sequence[float], alpha: float) -> Interval:
    """Two-sided Student-t interval at level 1 - alpha.

    Raises:
        ValueError: fewer than two values.
    """
    n = len(values)
    if n < 2:
        raise ValueError("an interval needs at least two values")
    mean, sd = mean_sd(values)
    t = t_quantile(1.0 - alpha / 2.0, n - 1)
    half = t * sd / math.sqrt(n)
    return Interval(n, mean, sd, mean - half, mean + half, t, alpha)


def decide(ci: Interval, delta: float) -> str:
    """`behind`, `ahead`, `tie`, `not_behind` or `inconclusive` for an interval of log ratios and a log threshold."""
    if ci.high < -delta:
        return "behind"
    if ci.low > delta:
        return "ahead"
    if ci.low >= -delta:
        return "tie" if ci.high <= delta else "not_behind"
    return "inconclusive"


def launches_needed(ci: Interval, delta: float) -> int | None:
    """Smallest n' > n with t(n') sd / sqrt(n') <= |mean + delta|: when the lower question is settled at this noise.

    None when no n' up to 100,000 does (the mean lies on the threshold).
    """
    room = abs(ci.mean + delta)
    if room <= 0.0:
        return None

    def settled(n: int) -> bool:
        return t_quantile(1.0 - ci.alpha / 2.0, n - 1) * ci.sd / math.sqrt(n) <= room

    low, high = ci.n, ci.n + 1
    while not settled(high):
        low, high = high, high * 2
        if high > _SEARCH_CAP:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if settled(middle) else (middle, high)
    return high


def next_look(n: int, looks: Sequence[int]) -> int | None:
    """The first look above n; None past the last one."""
    return next((look for look in looks if look > n), None)


def look_for(n: int, looks: Sequence[int]) -> int | None:
    """The largest look that n launches fill; None below the first."""
    return max((look for look in looks if look <= n), default=None)


def runs_missing(ci: Interval, delta: float, n: int, looks: Sequence[int]) -> int | None:
    """How many more launches until the next useful look: `launches_needed` rounded up to a look, at most the last one.

    None past the last look: `inconclusive` is final then.
    """
    if next_look(n, looks) is None:
        return None
    needed = launches_needed(ci, delta)
    target = next((look for look in looks if needed is not None and look >= needed and look > n), looks[-1])
    return target - n


def p_behind(values: Sequence[float], delta: float) -> float:
    """One-sided p-value of H0 "not behind by more than the threshold" (mean >= -delta); small: behind."""
    mean, sd = mean_sd(values)
    if sd == 0.0 or math.isnan(sd):
        return 0.0 if sd == 0.0 and mean < -delta else 1.0
    return 1.0 - t_sf((mean + delta) / (sd / math.sqrt(len(values))), len(values) - 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = running
    return adjusted


def paired_logs(target: Sequence[float], other: Sequence[float], *, higher_is_better: bool = True) -> list[float]:
    """ln(target / other) of each pair; turned round for latencies, so that a positive value is better."""
    sign = 1.0 if higher_is_better else -1.0
    return [sign * math.log(a / b) for a, b in zip(target, other, strict=True)]
