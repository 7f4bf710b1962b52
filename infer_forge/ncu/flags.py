"""Secondary findings on a launch: spills, bank conflicts, sector use, tail, imbalance, divergence, FP64, low L2 hit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from infer_forge.ncu import policy
from infer_forge.ncu.diagnose import Diagnosis
from infer_forge.ncu.dictionary import find, number
from infer_forge.ncu.model import Launch


@dataclass(frozen=True)
class Flag:
    """One finding: metric, value, unit, threshold and the threshold's source.

    Attributes:
        waste_pct: how much of the unit's work it stands for, where the report tells; None when it does not.
    """

    code: str
    metric: str
    value: float
    unit: str
    threshold: float
    source: str
    message: str
    waste_pct: float | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "code": self.code,
            "metric": self.metric,
            "value": self.value,
            "unit": self.unit,
            "threshold": self.threshold,
            "source": self.source,
            "message": self.message,
            "waste_pct": self.waste_pct,
        }


def _flag(
    code: str, metric: str, value: float, line: str, message: str, *, unit: str = "", waste: float | None = None
) -> Flag:
    found = policy.threshold(line)
    return Flag(code, metric, value, unit or found.unit, found.value, found.source, message, waste)


def _spills(launch: Launch, _: Diagnosis) -> Iterator[Flag]:
    for key, verb in (("local_spills", "spill"), ("local_loads", "load"), ("local_stores", "store")):
        value = find(launch, key)
        if value is not None and isinstance(value.value, float) and value.value > 0:
            what = (
                "register spills to local memory"
                if key == "local_spills"
                else f"local-memory {verb}s: spilled registers, or local arrays with run-time indices"
            )
            yield Flag("spills", value.name, value.value, value.unit, 0, "ours: a kernel without spills has none", what)
            return
    share = find(launch, "local_share")
    if share is not None and isinstance(share.value, float) and share.value > 0:
        what = "L1 sectors that go to local memory: spilled registers, or local arrays with run-time indices"
        yield Flag("spills", share.name, share.value, "%", 0, "ours: a kernel without spills has none", what)


def _bank_conflicts(launch: Launch, _: Diagnosis) -> Iterator[Flag]:
    for kind in ("load", "store"):
        conflicts, waves = number(launch, f"shared_conflicts_{kind}"), number(launch, f"shared_wavefronts_{kind}")
        if conflicts is None or not waves:
            continue
        share = 100 * conflicts / waves
        if share >= policy.limit("bank_conflict_pct"):
            name = find(launch, f"shared_conflicts_{kind}")
            yield _flag(
                "bank_conflicts",
                name.name if name else "",
                share,
                "bank_conflict_pct",
                f"{share:.0f} % of the wavefronts of shared {kind}s are bank conflicts",
                waste=share,
            )


def _sectors(launch: Launch, _: Diagnosis) -> Iterator[Flag]:
    """Bytes used per sector, and sectors beyond the ideal; 0 bytes means no ordinary accesses, not bad ones."""
    excess, total = number(launch, "sectors_excess"), number(launch, "sectors_total")
    waste = 100 * excess / total if excess is not None and total else None
    for kind in ("load", "store"):
        value = find(launch, f"bytes_per_sector_{kind}")
        if value is None or not isinstance(value.value, float) or value.value <= 0:
            continue
        if waste is not None and waste < policy.limit("excess_sector_pct"):
            continue  # several threads read one address: fewer bytes used, and yet no sector too many
        if value.value < policy.limit("bytes_per_sector_flag"):
            unused = 100 * (1 - value.value / policy.limit("bytes_per_sector"))
            message = f"global {kind}s use {value.value:.1f} of the 32 bytes of each sector"
            yield _flag(
                "bytes_per_sector",
                value.name,
                value.value,
                "bytes_per_sector_flag",
                message,
                unit="byte",
                waste=waste if waste is not None else unused,
            )
    if waste is not None and waste >= policy.limit("excess_sector_pct"):
        name = find(launch, "sectors_excess")
        message = f"{waste:.0f} % of the sectors that global accesses ask for are beyond the ideal number"
        yield _flag("excess_sectors", name.name if name else "", waste, "excess_sector_pct", message, waste=waste)


def _tail(launch: Launch, _: Diagnosis) -> Iterator[Flag]:
    waves = find(launch, "waves")
    theoretical, achieved = number(launch, "occupancy_theoretical"), number(launch, "occupancy_achieved")
    if waves is None or not isinstance(waves.value, float) or waves.value < 1 or not theoretical or achieved is None:
        return
    whole = int(waves.value)
    part = waves.value - whole
    share = 1 / (whole + 1)
    if part > 1e-6 and share >= policy.limit("tail_share") and achieved < policy.limit("tail_occupancy") * theoretical:
        message = f"{waves.value:.2f} waves: the last, partial wave may take up to {100 * share:.0f} % of the time"
        yield _flag("tail", waves.name, share, "tail_share", message, waste=100 * share)


def _imbalance(launch: Launch, _: Diagnosis) -> Iterator[Flag]:
    for unit, title in (("sm", "SMs"), ("l2", "L2 slices"), ("dram", "DRAM channels")):
        mean, most = number(launch, f"{unit}_active_avg"), number(launch, f"{unit}_active_max")
        elapsed = number(launch, "sm_elapsed_max")
        if mean is None or not most or not elapsed or unit != "sm":
            share = 100 * (1 - mean / most) if mean is not None and most else None
        else:
            share = 100 * (1 - mean / most) * most / elapsed
        if share is not None and share >= policy.limit("imbalance_pct"):
            name = find(launch, f"{unit}_active_max")
            message = f"the busiest of the {title} works {share:.0f} % longer than the average one"
            yield _flag("imbalance", name.name if name else "", share, "imbalance_pct", message, waste=share)


def _divergence(launch: Launch, _: Diagnosis) -> Iterator[Flag]:
    for key in ("threads_per_inst", "threads_on"):
        value = find(launch, key)
        if value is None or not isinstance(value.value, float) or value.value >= policy.limit("divergence_threads"):
            continue
        message = f"{value.value:.1f} of 32 threads {'active' if key == 'threads_per_inst' else 'not predicated off'}"
        waste = 100 * (1 - value.value / 32)
        yield _flag("divergence", value.name, value.value, "divergence_threads", message, waste=waste)
        return


def _fp64(launch: Launch, _: Diagnosis) -> Iterator[Flag]:
    double = [number(launch, k) for k in ("dadd_rate", "dmul_rate", "dfma_rate_x2")]
    single = [number(launch, k) for k in ("fadd_rate", "fmul_rate", "ffma_rate_x2")]
    have, other = sum(v or 0 for v in double), sum(v or 0 for v in single)
    if have <= 0 or other <= 0:
        return
    share = 100 * have / (have + other)
    name = next((v.name for k in ("dfma_rate_x2", "dmul_rate", "dadd_rate") if (v := find(launch, k)) and v.value), "")
    if share < policy.limit("fp64_share_pct"):
        message = (
            f"{share:.2g} % of the floating-point operations are FP64: double literals or math functions in FP32 code?"
        )
        yield _flag("fp64_literals", name, share, "fp64_share_pct", message)


def _l2_hit(launch: Launch, diagnosis: Diagnosis) -> Iterator[Flag]:
    value = find(launch, "l2_hit")
    if value is None or not isinstance(value.value, float) or diagnosis.unit not in ("dram", "l2", "memory"):
        return
    if value.value < policy.limit("l2_hit_low_pct"):
        message = f"{value.value:.0f} % of the sectors are found in L2"
        yield _flag("low_l2_hit", value.name, value.value, "l2_hit_low_pct", message)


def _dropped(launch: Launch, _: Diagnosis) -> Iterator[Flag]:
    value = find(launch, "dropped_samples")
    if value is not None and isinstance(value.value, float) and value.value > 0:
        yield Flag(
            "dropped_samples",
            value.name,
            value.value,
            "sample",
            0,
            "ours: lost samples make time series incomplete",
            "PM samples were lost",
        )


def _occupancy_gap(launch: Launch, _: Diagnosis) -> Iterator[Flag]:
    theoretical, achieved = number(launch, "occupancy_theoretical"), number(launch, "occupancy_achieved")
    if theoretical is None or achieved is None:
        return
    gap = theoretical - achieved
    if gap > policy.limit("occupancy_gap_points"):
        name = find(launch, "occupancy_achieved")
        message = (
            f"achieved occupancy {achieved:.0f} % stays {gap:.0f} points under the theoretical {theoretical:.0f} %"
        )
        yield _flag("occupancy_gap", name.name if name else "", gap, "occupancy_gap_points", message)


_CHECKS: tuple[Callable[[Launch, Diagnosis], Iterator[Flag]], ...] = (
    _spills, _bank_conflicts, _sectors, _tail, _imbalance, _divergence, _fp64, _l2_hit, _occupancy_gap, _dropped,
)  # fmt: skip


def flags(launch: Launch, diagnosis: Diagnosis) -> list[Flag]:
    """All secondary findings on a launch."""
    return [flag for check in _CHECKS for flag in check(launch, diagnosis)]
