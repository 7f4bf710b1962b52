"""Occupancy: what limits the blocks on an SM, and what would lift the limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infer_forge.ncu.dictionary import number
from infer_forge.ncu.model import Launch

_LIMITS = ("registers", "shared_mem", "warps", "blocks", "barriers")
_REGISTERS_PER_SM = 65536  # compute capability 7.0 to 12.0 (CUDA C++ Programming Guide, technical specifications)
_REGISTER_STEP = 8  # registers are given out in steps of 8 a thread (same table, allocation unit 256 a warp)


@dataclass(frozen=True)
class Occupancy:
    """Theoretical and achieved occupancy in percent, the limiting resources, and what would lift them."""

    theoretical_pct: float | None
    achieved_pct: float | None
    limited_by: list[str]
    blocks_per_sm: float | None
    lift: str | None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "theoretical_pct": self.theoretical_pct,
            "achieved_pct": self.achieved_pct,
            "limited_by": self.limited_by,
            "blocks_per_sm": self.blocks_per_sm,
            "lift": self.lift,
        }


def _blocks(launch: Launch) -> dict[str, float]:
    return {k: v for k in _LIMITS if (v := number(launch, f"limit_{k}")) is not None}


def limiters(launch: Launch) -> list[str]:
    """Resources that give the lowest number of blocks; all of them when they tie."""
    blocks = _blocks(launch)
    low = min(blocks.values(), default=None)
    return [k for k, v in blocks.items() if v == low]


def occupancy(launch: Launch) -> Occupancy | None:
    """The launch's occupancy; None when nothing of it was collected."""
    theoretical, achieved = number(launch, "occupancy_theoretical"), number(launch, "occupancy_achieved")
    blocks = _blocks(launch)
    if theoretical is None and achieved is None and not blocks:
        return None
    limited = limiters(launch)
    low = min(blocks.values(), default=None)
    lift = None
    if low is not None and (theoretical is None or theoretical < 100):
        lift = "; ".join(filter(None, (_lift(launch, what, low) for what in limited))) or None
    return Occupancy(theoretical, achieved, limited, low, lift)


def _lift(launch: Launch, what: str, blocks: float) -> str | None:
    """What one more block on an SM needs from one resource."""
    threads = number(launch, "block") or (launch.block[0] * launch.block[1] * launch.block[2] if launch.block else None)
    wanted = int(blocks) + 1
    if what == "registers" and threads:
        warps = -(-int(threads) // 32)
        per_thread = (number(launch, "registers_per_sm") or _REGISTERS_PER_SM) / (wanted * warps * 32)
        fit = int(per_thread) // _REGISTER_STEP * _REGISTER_STEP
        now = number(launch, "registers")
        said = f"{fit} registers a thread or fewer" + (f" (now {now:g})" if now is not None else "")
        return f"{said} let {wanted} blocks fit: __launch_bounds__ or a smaller tile" if fit >= 16 else None
    if what == "shared_mem":
        parts = [number(launch, k) for k in ("shared_static", "shared_dynamic", "shared_driver")]
        whole, config = number(launch, "shared_per_sm"), number(launch, "shared_config")
        now = sum(p for p in parts if p is not None)
        if (whole or config) and now:
            fit = int((whole or config or 0) / wanted)
            carve = "" if whole else " at this carve-out"
            return f"{fit:,} bytes of shared memory a block or fewer (now {int(now):,}) let {wanted} blocks fit{carve}"
        return "less shared memory a block lets more blocks fit"
    if what == "blocks":
        return "the SM's block slots are the limit: larger blocks"
    if what == "warps":
        return "the warps of a block do not divide the SM's: another block size"
    return "fewer barriers a block" if what == "barriers" else None
