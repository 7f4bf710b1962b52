"""The canonical benchmark row: one measured run of one candidate, whatever tool wrote the result file.

Units stand in the names (`_ms`, `_s`, `_per_s`, `_tokens`, `_bytes`, `_j`). What a tool did not write is null, never 0.
Every key is known: an unknown one is refused, so that a typing error cannot hide a figure. The JSON schema of `Row`
is kept at `references/schemas/bench_row.json` (`row_schema()` makes it).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = "infer-forge/bench-row/1"

Status = Literal["ok", "failed", "oom", "timeout", "skipped"]
Purpose = Literal["decision", "search", "pilot", "flow_check", "profile"]
Kind = Literal["serving", "offline_batch", "diffusion"]


class Part(BaseModel):
    """Base of the row and its parts: unknown keys and non-finite numbers are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, validate_assignment=True)


class Hardware(Part):
    """What the run used. `gpu_count` is the number of accelerators that serve the model."""

    gpu_model: str | None = None
    gpu_count: int | None = None
    visible_devices: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None


class Workload(Part):
    """What was asked for (`*_label`) and what really ran (`measured_*`, from the tool's own totals).

    `random_range_ratio` means opposite things in SGLang and in the vLLM family; see rule P1.
    """

    kind: str | None = Field(default=None, description="dataset name: random, sharegpt, ...")
    scenario: str | None = None
    dataset_path: str | None = None
    dataset_sha256: str | None = Field(default=None, description="sha256 of the prompt file that was sent")
    prompts_unique: bool | None = Field(default=None, description="whether no prompt was shared with an earlier run")
    cache_flushed: bool | None = None
    input_len_label_tokens: float | None = None
    output_len_label_tokens: float | None = None
    random_range_ratio: float | None = None
    num_prompts: int | None = None
    request_rate_per_s: float | None = None
    request_rate_unlimited: bool | None = None
    max_concurrency: int | None = None
    burstiness: float | None = None
    endpoint: str | None = None
    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    ignore_eos: bool | None = None
    streaming: bool | None = None
    warmup_requests: int | None = None
    completed_requests: int | None = None
    failed_requests: int | None = None
    measured_input_tokens: int | None = Field(default=None, description="sum over the completed requests")
    measured_output_tokens: int | None = None
    retokenized_output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    measured_input_len_mean_tokens: float | None = None
    measured_output_len_mean_tokens: float | None = None
    input_len_p50_tokens: float | None = None
    input_len_p95_tokens: float | None = None
    output_len_p50_tokens: float | None = None
    output_len_p95_tokens: float | None = None
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="further keys that a driver added to the result (sweep parameters, metadata)"
    )


class Spread(Part):
    """A latency distribution in milliseconds. Percentiles that the tool did not compute are null."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None

    def empty(self) -> bool:
        """Whether nothing at all was measured."""
        return all(v is None for v in self.model_dump().values())


class Metrics(Part):
    """Figures of the run. Throughputs are per second of the measured window `duration_s`."""

    duration_s: float | None = None
    request_throughput_per_s: float | None = None
    input_token_throughput_per_s: float | None = None
    output_token_throughput_per_s: float | None = None
    total_token_throughput_per_s: float | None = None
    goodput_requests_per_s: float | None = None
    max_output_tokens_per_s: float | None = None
    concurrency_mean: float | None = None
    max_concurrent_requests: float | None = None
    success_rate: float | None = Field(default=None, description="completed / sent")
    ttft_ms: Spread = Field(default_factory=Spread)
    tpot_ms: Spread = Field(default_factory=Spread)
    itl_ms: Spread = Field(default_factory=Spread)
    e2e_ms: Spread = Field(default_factory=Spread)
    tokens_per_s_per_user: float | None = None
    tokens_per_s_per_gpu: float | None = None
    energy_j: float | None = None
    output_tokens_per_j: float | None = None


class SpecDecode(Part):
    """Speculative decoding. `mean_accept_length` counts tokens a verify step, the bonus token included."""

    enabled: bool | None = None
    algorithm: str | None = None
    draft_model: str | None = None
    num_steps: int | None = None
    num_draft_tokens: int | None = None
    mean_accept_length: float | None = None
    acceptance_rate: float | None = Field(default=None, description="accepted / proposed draft tokens, 0 to 1")
    simulated: bool | None = Field(default=None, description="the server was told to pretend an acceptance length")


class PhaseMetrics(Part):
    """Where a request waited before and beside the model, when logs give it (means, milliseconds)."""

    pre_scheduler_ms: float | None = None
    scheduler_ms: float | None = None
    tokenizer_ms: float | None = None
    detokenizer_ms: float | None = None
    queue_ms: float | None = None


class Cache(Part):
    """Prefix and KV cache. `prefix_cache_hit_rate` is 0 to 1."""

    prefix_cache_enabled: bool | None = None
    prefix_cache_hit_rate: float | None = None
    kv_cache_tokens: int | None = None
    kv_cache_utilization: float | None = None


class Memory(Part):
    """Memory policy and residency."""

    gpu_memory_utilization: float | None = None
    kv_cache_dtype: str | None = None
    cpu_offload_gb: float | None = None
    gpu_resident_weight_gb: float | None = None


class Identity(Part):
    """What the server really served: the parity matrix is made of these."""

    served_model: str | None = None
    model_fingerprint: str | None = None
    tokenizer: str | None = None
    tokenizer_sha256: str | None = None
    chat_template_sha256: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    expert_parallel: int | None = None
    attention_backend: str | None = None
    server_seed: int | None = None
    reasoning_parser: str | None = None


class HostAudit(Part):
    """State of the host around the run; unknown stays null."""

    hostname: str | None = None
    boot_id: str | None = None
    cpu_governor: str | None = None
    cpu_boost: bool | None = None
    smt: bool | None = None
    numa_nodes: int | None = None
    numa_bound: bool | None = None
    cgroup_cpu_quota: float | None = Field(default=None, description="CPUs; null: no quota or unknown")
    cgroup_memory_bytes: int | None = None
    load_average_1m: float | None = None
    other_tenants: list[str] | None = Field(
        default=None, description="foreign containers or users seen; empty: looked, none"
    )


class GpuState(Part):
    """One look at the GPUs: before or after the run."""

    idle: bool | None = None
    foreign_processes: list[str] | None = Field(
        default=None, description="processes not of this run; empty: looked, none"
    )
    throttle_reasons: list[str] | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    clocks_locked: bool | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    energy_counter_j: float | None = None


class Client(Part):
    """The load generator, pinned."""

    name: str | None = None
    version: str | None = None
    sha256: str | None = None
    command_sha256: str | None = None


class Accuracy(Part):
    """One accuracy measurement and the floor it is held against (0 to 1)."""

    benchmark: str
    score: float | None = None
    floor: float | None = None
    samples: int | None = None


class Quality(Part):
    """Quality of generated images or video against a reference output, with the thresholds fixed in the contract."""

    reference_sha256: str | None = None
    output_sha256: str | None = None
    psnr_db: float | None = None
    ssim: float | None = None
    psnr_floor_db: float | None = None
    ssim_floor: float | None = None


class Diffusion(Part):
    """One generation: what was generated, how, and where the time went."""

    width: int | None = None
    height: int | None = None
    frames: int | None = None
    steps: int | None = None
    guidance_scale: float | None = None
    seed: int | None = None
    cfg_parallel: int | None = None
    sequence_parallel: int | None = None
    tensor_parallel: int | None = None
    offload: bool | None = None
    compiled: bool | None = None
    step_cache: str | None = Field(
        default=None, description="caching between denoising steps, such as teacache; none: off"
    )
    fallback: str | None = Field(default=None, description="a slower or other path that the engine said it took")
    warmed_up: bool | None = None
    end_to_end_ms: float | None = None
    denoise_ms: float | None = None
    denoise_step_p50_ms: float | None = None
    text_encode_ms: float | None = None
    vae_ms: float | None = None
    peak_memory_bytes: int | None = None
    stages_ms: dict[str, float] = Field(default_factory=dict)
    quality: Quality = Field(default_factory=Quality)


class Artifacts(Part):
    """Files that this row rests on, as paths."""

    raw_result: str | None = None
    server_log: str | None = None
    server_args: str | None = None
    server_help: str | None = None
    benchmark_help: str | None = None
    server_help_sha256: str | None = None
    server_binary_help_sha256: str | None = Field(
        default=None, description="hash of the help of the binary that was run"
    )


class Source(Part):
    """Where the row was read: file, its hash, and which record of it."""

    path: str
    sha256: str
    record: int = Field(default=0, description="0-based record in the file")
    content_sha256: str | None = Field(
        default=None, description="hash of the record itself, so that its copy in any other file is known for one"
    )


class Recomputed(Part):
    """Percentiles computed again from per-request arrays, and the largest relative disagreement with the tool's own."""

    requests: int
    largest_deviation: float | None = None
    where: str | None = None


class Row(Part):
    """One run. See the module's text."""

    schema_id: Literal["infer-forge/bench-row/1"] = SCHEMA
    kind: Kind = "serving"
    tool: str
    tool_version: str | None = None
    framework: str | None = None
    framework_version: str | None = None
    framework_commit: str | None = None
    image_digest: str | None = None
    candidate_id: str | None = None
    model: str | None = None
    lane: str | None = None
    status: Status = "ok"
    failure_reason: str | None = None

    run_id: str | None = None
    launch_id: str | None = Field(default=None, description="one server launch: the unit of independence")
    repeat_index: int | None = None
    block_id: str | None = None
    block_position: int | None = None
    started_at: str | None = None
    purpose: Purpose | None = None
    contract_hash: str | None = None
    deployment_point_hash: str | None = None

    hardware: Hardware = Field(default_factory=Hardware)
    workload: Workload = Field(default_factory=Workload)
    metrics: Metrics = Field(default_factory=Metrics)
    spec_decode: SpecDecode = Field(default_factory=SpecDecode)
    phase_metrics: PhaseMetrics = Field(default_factory=PhaseMetrics)
    cache: Cache = Field(default_factory=Cache)
    memory: Memory = Field(default_factory=Memory)
    identity: Identity = Field(default_factory=Identity)
    host: HostAudit = Field(default_factory=HostAudit)
    gpu_before: GpuState = Field(default_factory=GpuState)
    gpu_during: GpuState = Field(default_factory=GpuState)
    gpu_after: GpuState = Field(default_factory=GpuState)
    client: Client = Field(default_factory=Client)
    accuracy: list[Accuracy] = Field(default_factory=list[Accuracy])
    diffusion: Diffusion | None = None

    server_command: str | None = None
    benchmark_command: str | None = None
    server_env: dict[str, str] | None = Field(
        default=None, description="non-default server variables; empty: looked, none"
    )
    profiler_on: bool | None = None
    validated_cli_flags: dict[str, str] = Field(default_factory=dict)
    finish_reasons: dict[str, int] | None = None
    errors: dict[str, int] = Field(default_factory=dict, description="error text -> how often")
    artifacts: Artifacts = Field(default_factory=Artifacts)
    recomputed: Recomputed | None = None
    source: Source | None = None
    notes: list[str] = Field(default_factory=list, description="what import could not take over, and why")

    def label(self) -> str:
        """Short name for people: candidate and launch where they are recorded, else file and record."""
        if self.candidate_id and self.launch_id:
            return f"{self.candidate_id}/{self.launch_id}" + (f"#{self.repeat_index}" if self.repeat_index else "")
        if self.source is None:
            return self.candidate_id or self.run_id or "row"
        name = self.source.path.rsplit("/", 1)[-1]
        return f"{name}#{self.source.record}" if self.source.record else name

    def value(self, dotted: str) -> Any:
        """A field by its dotted name (`metrics.ttft_ms.p50`); None where any part of the path is absent."""
        current: Any = self
        for part in dotted.split("."):
            if isinstance(current, dict):
                current = current.get(part)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            elif isinstance(current, BaseModel) and part in type(current).model_fields:
                current = getattr(current, part)
            else:
                return None
        return current  # pyright: ignore[reportUnknownVariableType]


def row_schema() -> dict[str, Any]:
    """JSON schema of `Row`; the same as `references/schemas/bench_row.json`."""
    schema = Row.model_json_schema()
    schema["$id"] = SCHEMA
    return schema
