"""What plans, drafts and prompts say of a campaign: one set of facts, taken from its contract and its records."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import GateRefused, InputUnusable

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract, Scenario, SloLayer
    from infer_forge.campaign.book import Campaign

WAIT_MINUTES = 30
"""GPUs that somebody else holds are waited for so long, then it is reported."""

_SLO = {
    "max_p50_ttft_ms": "p50 TTFT at most {:g} ms",
    "max_p99_ttft_ms": "p99 TTFT at most {:g} ms",
    "max_p50_tpot_ms": "p50 TPOT at most {:g} ms",
    "max_p99_tpot_ms": "p99 TPOT at most {:g} ms",
    "max_p50_e2e_ms": "p50 end-to-end at most {:g} ms",
    "max_p99_e2e_ms": "p99 end-to-end at most {:g} ms",
    "min_success_rate": "success rate at least {:g}",
}


@dataclass
class Facts:
    """The facts of one campaign (C46).

    Attributes:
        contract: benchmark contract, locked or drafted; sha256 is None before the lock.
        run: run directory. root: artifact root. checkout: the SGLang checkout that is patched.
        winners: rows of the locked winner table; empty before the baseline lock.
        max_rounds: rounds that the task allows. focus, requirements: what the user asks besides.
    """

    contract: BenchmarkContract
    sha256: str | None
    run: str
    root: str
    checkout: str
    winners: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    history: str = ""
    max_rounds: int = 40
    wait_minutes: int = WAIT_MINUTES
    fork: str | None = None
    focus: list[str] = field(default_factory=list[str])
    requirements: list[str] = field(default_factory=list[str])

    @property
    def model(self) -> str:
        """The model's id."""
        return str(self.contract.point.model.id or "the model of the contract")

    @property
    def rivals(self) -> list[str]:
        """Competitors, by canonical name."""
        return [e.framework for e in self.contract.engines if e.framework != self.contract.target]

    @property
    def hardware(self) -> str:
        """Such as `8 x H200`."""
        platform = self.contract.point.accelerator_platform
        nodes = f" on {platform.nodes} nodes" if platform.nodes > 1 else ""
        return f"{platform.gpu_count or 'all'} x {platform.gpu_model or 'GPU of the contract'}{nodes}"

    @property
    def numbers(self) -> str:
        """Precision and quantization."""
        model = self.contract.point.model
        return f"{model.precision or 'precision of the contract'}, quantization {model.quantization or 'none'}"

    @property
    def topology(self) -> str:
        """Architecture and parallel sizes."""
        t = self.contract.point.serving_topology
        sizes = [
            f"{n.upper()}{v}"
            for n in ("tp", "pp", "dp", "ep")
            if (v := getattr(t, n)) is not None and (v > 1 or n == "tp")
        ]
        architecture = {
            "colocated_pd": "colocated",
            "pd_disaggregation": "PD-disaggregated",
            "epd_disaggregation": "EPD-disaggregated",
        }
        return " ".join([architecture.get(str(t.architecture), "topology of the contract"), *sizes])

    @property
    def sla(self) -> str:
        """The service levels in words."""
        return slo_words(self.contract.sla)

    @property
    def threshold_pct(self) -> float:
        """The noise threshold in per cent."""
        return round(100 * self.contract.threshold, 4)

    def named(self) -> list[tuple[str, str]]:
        """(what, value) that a plan of this campaign must name (A78)."""
        made = [
            ("the model", self.model),
            ("the run directory", self.run),
            ("the artifact root", self.root),
            ("the checkout", self.checkout),
        ]
        made += [(f"scenario {s.name}", s.name) for s in self.contract.grid.scenarios]
        made += [(f"the winner {w['candidate_id']}", str(w["candidate_id"])) for w in self.winners]
        made += [("the history notes", self.history)] if self.history else []
        return [*made, ("the contract", self.sha256[:12])] if self.sha256 else made


def slo_words(slo: SloLayer) -> str:
    """Service levels in words; none promised is said."""
    held = slo.model_dump(exclude_none=True)
    return ", ".join(_SLO[k].format(v) for k, v in held.items()) or "none promised"


def load_words(scenario: Scenario) -> str:
    """The concurrencies of a scenario, such as `1/16` or `unbounded`."""
    return "/".join("unbounded" if c is None else str(c) for c in scenario.concurrencies)


def scenario_words(scenario: Scenario, kind: str = "random") -> str:
    """A scenario in words, lengths in tokens; what a diffusion model makes has none, its name says it."""
    load = load_words(scenario)
    rate = "" if scenario.request_rate == "inf" else f", {scenario.request_rate:g} req/s"
    lengths = "" if kind == "diffusion" else f" {scenario.input_len} in, {scenario.output_len} out"
    return f"{scenario.name}{lengths}, {scenario.num_prompts} prompts, concurrency {load}{rate}"


def facts_of(campaign: Campaign, *, focus: list[str] | None = None, requirements: list[str] | None = None) -> Facts:
    """Facts of a campaign whose contract is locked.

    Raises:
        GateRefused: it is not.
    """
    if campaign.contract is None:
        raise GateRefused(
            "no contract is locked, so there is nothing to plan for",
            where=str(campaign.layout.run),
            next_step=f"infer-forge campaign next --run {campaign.layout.run}",
        )
    contract, sha256 = campaign.contract
    first = campaign.records[0]
    rounds = campaign.task().most_blocks if campaign.records else 40
    return Facts(
        contract,
        sha256,
        str(campaign.layout.run),
        str(first.get("artifact_root") or campaign.layout.run.parent.parent),
        str(campaign.checkout),
        list(campaign.baseline["winners"]) if campaign.baseline else [],
        str(campaign.layout.history_notes),
        int(rounds or 40),
        fork=campaign.inputs.get("fork"),
        focus=list(focus or []),
        requirements=list(requirements or []),
    )


def facts_from_file(path: Path, *, run: str, root: str, checkout: str, **more: Any) -> Facts:
    """Facts from a contract's file (a draft, or the content of a lock), for a prompt before anything is locked.

    Raises:
        InputUnusable: it is no benchmark contract.
    """
    from infer_forge.base import contracts, jsonio

    data: Any = jsonio.read_json(path)
    if isinstance(data, dict) and "contract" in data and "sha256" in data:
        lock = contracts.read_lock(path)
        return Facts(contracts.contract_of(lock.contract, where=str(path)), lock.sha256, run, root, checkout, **more)
    if not isinstance(data, dict):
        raise InputUnusable(
            "is no benchmark contract", where=str(path), next_step="infer-forge bench lock --dry-run drafts one"
        )
    return Facts(contracts.contract_of(data, where=str(path)), None, run, root, checkout, **more)
