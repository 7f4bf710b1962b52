"""The typed content of a benchmark contract and of its deployment point (pydantic; reach it through `base.contracts`).

Every field may be absent while a contract is being drafted: whether enough is known is asked of
`base.contracts.missing`, which names what is missing, so that a draft is a draft and a lock is complete. What is
present must have the right type, and no unknown field is accepted: a typing slip never becomes an unlocked condition.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Framework = Literal["sglang", "vllm", "tensorrt_llm", "tokenspeed"]
"""Canonical names of the frameworks (A38)."""

Architecture = Literal["colocated_pd", "pd_disaggregation", "epd_disaggregation"]
"""Deployment architectures (B2): prefill and decode together, apart, or with an encoder apart too."""

Lane = Literal["common", "native_agentic"]
"""`common`: the same workload for every engine. `native_agentic`: a framework's own agentic workload (A64)."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True, protected_namespaces=())


class ModelLayer(_Strict):
    """Layer 1, the model: which weights, read with which tokenizer, in which numbers."""

    id: str | None = None
    revision: str | None = None
    fingerprint: str | None = None
    tokenizer: str | None = None
    tokenizer_sha256: str | None = None
    chat_template_sha256: str | None = None
    modalities: list[str] = Field(default_factory=lambda: ["text"])
    execution_path: str | None = None
    precision: str | None = None
    quantization: str | None = None
    max_context: int | None = Field(default=None, gt=0)
    trust_remote_code: bool | None = None


class SloLayer(_Strict):
    """The service level that a serving scenario promises. Null: no promise on that figure."""

    max_p50_ttft_ms: float | None = Field(default=None, gt=0)
    max_p99_ttft_ms: float | None = Field(default=None, gt=0)
    max_p50_tpot_ms: float | None = Field(default=None, gt=0)
    max_p99_tpot_ms: float | None = Field(default=None, gt=0)
    max_p50_e2e_ms: float | None = Field(default=None, gt=0)
    max_p99_e2e_ms: float | None = Field(default=None, gt=0)
    min_success_rate: float | None = Field(default=None, ge=0, le=1)


class ScenarioLayer(_Strict):
    """Layer 2, the serving scenario: what comes in, in which shape, and what is promised."""

    modality: str | None = None
    traffic_shape: str | None = None
    slo: SloLayer | None = None


class TopologyLayer(_Strict):
    """Layer 3, the serving topology: deployment architecture and parallel strategy (1 is a statement, null is not)."""

    architecture: Architecture | None = None
    tp: int | None = Field(default=None, ge=1)
    pp: int | None = Field(default=None, ge=1)
    dp: int | None = Field(default=None, ge=1)
    ep: int | None = Field(default=None, ge=1)
    replicas: int = Field(default=1, ge=1)
    more: dict[str, Any] = Field(default_factory=dict)


class RuntimeLayer(_Strict):
    """Layer 4, the versioned runtime profile: engine, its build, its image and its configuration."""

    framework: Framework | None = None
    version: str | None = None
    commits: dict[str, str] = Field(default_factory=dict)
    image_digest: str | None = None
    environment_digest: str | None = None
    service_revision: str | None = None
    engine_config: dict[str, Any] | None = None


class PlatformLayer(_Strict):
    """Layer 5, the accelerator platform."""

    vendor: str | None = None
    gpu_model: str | None = None
    gpu_count: int | None = Field(default=None, ge=1)
    gpus_per_node: int | None = Field(default=None, ge=1)
    nodes: int = Field(default=1, ge=1)
    gpu_ids: list[str] | None = None
    interconnect: str | None = None
    driver: str | None = None
    cuda: str | None = None


class DeploymentPoint(_Strict):
    """The whole chain on which a performance claim stands (B1): model, scenario, topology, runtime, platform."""

    model: ModelLayer = Field(default_factory=ModelLayer)
    serving_scenario: ScenarioLayer = Field(default_factory=ScenarioLayer)
    serving_topology: TopologyLayer = Field(default_factory=TopologyLayer)
    runtime_profile: RuntimeLayer = Field(default_factory=RuntimeLayer)
    accelerator_platform: PlatformLayer = Field(default_factory=PlatformLayer)


class Scenario(_Strict):
    """One aligned (input, output) pair of the workload grid, never a product of lists (A60)."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    input_len: int = Field(gt=0)
    output_len: int = Field(gt=0)
    num_prompts: int = Field(default=80, gt=0)
    concurrencies: list[int | None] = Field(default_factory=lambda: [None], min_length=1)
    request_rate: float | Literal["inf"] = "inf"
    prompts_sha256: str | None = None
    prefix_share: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _check(self) -> Scenario:
        if len(set(self.concurrencies)) != len(self.concurrencies):
            raise ValueError("a concurrency is listed twice")
        if any(c is not None and c < 1 for c in self.concurrencies):
            raise ValueError("a concurrency is below 1")
        if self.request_rate != "inf" and not self.request_rate > 0:
            raise ValueError("request_rate must be above 0, or the word inf")
        return self


class WorkloadGrid(_Strict):
    """What every engine is asked: the kind of data and the scenarios."""

    kind: str = "random"
    dataset_path: str | None = None
    dataset_sha256: str | None = None
    workload_sha256: str | None = None
    lengths_by: Literal["tokenizer", "characters"] | None = None
    scenarios: list[Scenario] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> WorkloadGrid:
        names = [s.name for s in self.scenarios]
        if len(set(names)) != len(names):
            raise ValueError("two scenarios share a name")
        return self


class PrimaryMetric(_Strict):
    """The one figure that decides. `higher_is_better` is stated, so that nobody has to guess the sign."""

    name: str = "output_token_throughput"
    unit: str = "tok/s"
    higher_is_better: bool = True


class Client(_Strict):
    """The one load generator, for every engine the same: name, version, and hash of the executable or script."""

    name: str | None = None
    version: str | None = None
    sha256: str | None = None
    endpoint: str = "/v1/completions"


class Sampling(_Strict):
    """Sampling settings sent with every request; stated, since the engines' defaults differ."""

    temperature: float = 0.0
    top_p: float = 1.0
    ignore_eos: bool = True
    streaming: bool = True


class EngineBudget(_Strict):
    """One framework of the comparison and how much search it may spend; equal for all by the fairness rules."""

    framework: Framework
    max_runs: int = Field(gt=0)
    max_minutes: float = Field(gt=0)
    baseline_command: list[str] | None = None


class Budgets(_Strict):
    """What the whole comparison may cost. `max_launches_per_engine` bounds the looks of the gap decision."""

    max_launches_per_engine: int = Field(default=12, ge=2)
    max_minutes: float | None = Field(default=None, gt=0)
    max_gpu_hours: float | None = Field(default=None, gt=0)


class AccuracyFloor(_Strict):
    """Accuracy that every engine's baseline must reach before its speed counts, and the tolerance of a change."""

    dataset: str
    metric: str
    floor: float
    tolerance: float = Field(default=0.0, ge=0)


class QualityGate(_Strict):
    """For image and video models: byte identity, else similarity bounds fixed before measuring."""

    byte_identical: bool = False
    min_psnr_db: float | None = Field(default=None, gt=0)
    min_ssim: float | None = Field(default=None, gt=0, le=1)


class Soak(_Strict):
    """How stability is shown: repeats, minutes under load, and the slopes allowed."""

    repeats: int = Field(default=3, ge=1)
    minutes: float = Field(default=30, gt=0)
    max_memory_growth_bytes_per_hour: float | None = Field(default=None, ge=0)
    max_p99_growth_per_hour: float | None = Field(default=None, ge=0)


class PilotEvidence(_Strict):
    """What the A/A launches before the lock measured: run-to-run noise and what it allows to be resolved."""

    launches: int = Field(ge=2)
    noise_cv: float = Field(ge=0)
    resolvable_threshold: float | None = None
    rows_head: str | None = None


class Acceptance(_Strict):
    """A person accepts a threshold that the budget cannot resolve: who, when, and in which words."""

    by: str = Field(min_length=1)
    at: str
    reason: str = Field(min_length=1)


class BenchmarkContract(_Strict):
    """Everything that decides what a result means, fixed before the first result or profile."""

    schema_version: Literal[1] = 1
    name: str = Field(min_length=1)
    target: Framework = "sglang"
    point: DeploymentPoint
    varies: list[str] = Field(default_factory=lambda: ["runtime_profile"])
    lane: Lane = "common"
    lane_chosen_by: str | None = None
    grid: WorkloadGrid
    sla: SloLayer
    metric: PrimaryMetric = Field(default_factory=PrimaryMetric)
    threshold: float = Field(default=0.01, gt=0, lt=1)
    client: Client
    sampling: Sampling = Field(default_factory=Sampling)
    seeds: list[int] = Field(default_factory=lambda: [1], min_length=1)
    engines: list[EngineBudget] = Field(min_length=1)
    budgets: Budgets = Field(default_factory=Budgets)
    accuracy: list[AccuracyFloor] = Field(default_factory=list[AccuracyFloor])
    quality: QualityGate | None = None
    soak: Soak | None = None
    pilot: PilotEvidence | None = None
    accepted: Acceptance | None = None
    notes: str | None = None

    @model_validator(mode="after")
    def _check(self) -> BenchmarkContract:
        names = [e.framework for e in self.engines]
        if len(set(names)) != len(names):
            raise ValueError("a framework is listed twice in engines")
        if self.target not in names:
            raise ValueError(f"the target {self.target} is not among the engines")
        return self
