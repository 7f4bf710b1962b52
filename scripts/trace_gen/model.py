"""Types of the trace generator: what a spec may ask for, what a plan holds, and the truth that comes with a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Item(NamedTuple):
    """One kernel of a forward pass, before it has times.

    Attributes:
        name: the kernel's name as a trace spells it.
        op: the CPU op that launches it.
        frame: the innermost model frame, `path(line): function`.
        us: mean device time in microseconds.
        part: `head`, `layer` or `tail`.
        layer: number of the layer, None outside layers.
        half: `attn` or `ffn` inside a layer, else "".
        kind: type of the layer (`dense`, `moe`, `linear`, `full`, `sliding`, `c4`, `c128`, `mtp`, ..).
        comm: a collective over all ranks.
        side: runs on the side stream beside the main one.
        free: may change places with its neighbour (independent work).
        micro: number of the micro-batch where two run side by side.
    """

    name: str
    op: str
    frame: str
    us: float
    part: str
    layer: int | None
    half: str
    kind: str
    comm: bool = False
    side: bool = False
    free: bool = False
    micro: int = 0


@dataclass(frozen=True)
class Step:
    """One step of the engine: stage, requests, new tokens; `graph` replays it as CUDA graphs (0 = eager, N = so many graphs)."""

    stage: str
    context: int = 0
    context_tokens: int = 0
    generation: int = 0
    kind: str = ""
    graph: int = 0

    @property
    def tokens(self) -> int:
        """New tokens of the step."""
        return self.context_tokens + self.generation


@dataclass(frozen=True)
class Spec:
    """What a trace is made from. Everything has a plain default; `specs.py` holds the named ones.

    Attributes:
        family: a model family of `families.py`.
        layers: number of layers.
        steps: the steps of one cycle.
        cycles: how often the cycle repeats (`events` stops earlier or later).
        annotation: spelling of the step marks: `sglang`, `sglang_detailed`, `vllm`, `vllm_detailed`, `trtllm`, `hf`, `diffusion`, `none`.
        gpu_annotation: also write `gpu_user_annotation` windows.
        ranks: tensor-parallel ranks; one file each, or one file when `merged`.
        merged: all ranks in one file, process ids as strings, correlation and External ids colliding.
        devices: devices of one process (several GPUs in one file, without ranks).
        stacks: Python stacks; `frames` is how many frames stand around each launch.
        shapes: `Input Dims` on CPU ops.
        vendor: `nvidia` or `amd` (HIP names, streams on runtime events, no occupancy figures).
        flows: `balanced`, `missing` or `unbalanced` (every second `s` lost, as around graph launches).
        external_id: `yes`, `no`, `lower` (`external id`), `correlation` (equal to it: recoverable by time only), `string`.
        ts: `float`, `int` (whole microseconds) or `string`.
        base_us: time of the first event.
        string_tid: thread ids as strings (`7_hack`) on device rows.
        list_form: a bare list instead of an object.
        layout: `kineto` (indented) or `compact`.
        jitter: relative spread of device times.
        reorder: chance that two independent neighbours change places.
        drop: chance that a kernel event is lost although its launch is there.
        cut_head, cut_tail: fraction of the first and of the last pass that the capture missed.
        custom_allreduce: custom all-reduce kernels instead of NCCL.
        host_us: host time per eager launch.
        gap_us: host time between steps.
        skew_us: how late each higher rank starts a step.
        sync_events: `cuda_sync` events.
        first_k_dense, mtp, compress_ratios, hash_layers: structure of the family where it has them.
        alternate: of dense families, every so-manyth layer has full attention and the others a sliding window; 0 = all full.
        events: stop after so many events (whole steps), None = `cycles`.
        noise_ops: further CPU ops nested around each launch.
        framework: whose source paths the frames have: `sglang` or `vllm`.
        only_rank: write this rank's file alone (the others are still simulated, so collectives are right).
        graph_nodes: `graph id` and `graph node id` on replayed kernels, as newer PyTorch writes them.
        one_window: one step mark around everything instead of one per step.
        pdl_us: kernels of one stream overlap their predecessor by up to so much (programmatic dependent launch).
        stray_ms: one lone copy stands so long before everything else, as seen in captures that begin in a pause.
        two_batch: two micro-batches of every step side by side: `streams` on a stream each, `stages` half after half on one stream,
            `shifted` the same with the second one half behind.
        latency_us: from a launch call to the earliest start on the device.
    """

    family: str = "llama"
    layers: int = 16
    steps: tuple[Step, ...] = (Step("prefill", 2, 4096), Step("decode", generation=16))
    cycles: int = 2
    annotation: str = "sglang"
    gpu_annotation: bool = True
    ranks: int = 1
    merged: bool = False
    devices: int = 1
    stacks: bool = False
    frames: int = 4
    shapes: bool = False
    vendor: str = "nvidia"
    flows: str = "balanced"
    external_id: str = "yes"
    ts: str = "float"
    base_us: int = 4_600_000_000
    string_tid: bool = False
    list_form: bool = False
    layout: str = "kineto"
    jitter: float = 0.05
    reorder: float = 0.0
    drop: float = 0.0
    cut_head: float = 0.0
    cut_tail: float = 0.0
    custom_allreduce: bool = False
    host_us: float = 5.0
    gap_us: float = 250.0
    skew_us: float = 0.0
    sync_events: bool = False
    first_k_dense: int = 0
    alternate: int = 0
    mtp: int = 0
    compress_ratios: tuple[int, ...] = ()
    hash_layers: int = 0
    events: int | None = None
    noise_ops: int = 0
    framework: str = "sglang"
    only_rank: int | None = None
    graph_nodes: bool = False
    latency_us: float = 2.0
    one_window: bool = False
    pdl_us: float = 0.0
    stray_ms: float = 0.0
    two_batch: str = ""


class Kernel(NamedTuple):
    """The truth of one device event that was written."""

    rank: int
    device: int
    stream: int
    ts_ns: int
    dur_ns: int
    name: str
    op: str
    frame: str
    stage: str
    step_kind: str
    pass_number: int
    part: str
    layer: int | None
    half: str
    layer_kind: str
    comm: bool
    graph: bool
    correlation: int
    launch_ns: tuple[int, int]
    collective: int | None
    micro: int = 0


class StepTruth(NamedTuple):
    """The truth of one step on one rank: when its device work ran, and its mark."""

    rank: int
    number: int
    name: str
    stage: str
    kind: str
    start_ns: int
    end_ns: int


class CollectiveTruth(NamedTuple):
    """One collective over all ranks: transfer floor, wait of each rank, who came last."""

    number: int
    name: str
    floor_ns: int
    wait_ns: tuple[int, ...]
    came_last: int


@dataclass
class Truth:
    """What a reader of the written trace must find."""

    kernels: list[Kernel] = field(default_factory=list[Kernel])
    steps: list[StepTruth] = field(default_factory=list[StepTruth])
    collectives: list[CollectiveTruth] = field(default_factory=list[CollectiveTruth])
    events: int = 0
    dropped: int = 0

    def device_ns(self, rank: int | None = None) -> int:
        """Sum of the durations of all device events."""
        return sum(k.dur_ns for k in self.kernels if rank is None or k.rank == rank)

    def by_name(self, rank: int | None = None) -> dict[str, tuple[int, int]]:
        """Kernel name -> (launches, device ns)."""
        found: dict[str, tuple[int, int]] = {}
        for k in self.kernels:
            if rank is None or k.rank == rank:
                count, total = found.get(k.name, (0, 0))
                found[k.name] = (count + 1, total + k.dur_ns)
        return found

    def by_stage(self, rank: int) -> dict[str, int]:
        """Stage -> device ns on a rank."""
        found: dict[str, int] = {}
        for k in self.kernels:
            if k.rank == rank:
                found[k.stage] = found.get(k.stage, 0) + k.dur_ns
        return found

    def idle_ns(self, rank: int, device: int | None = None) -> dict[str, int]:
        """Idle between the first and the last device event, by cause: `host_late`, `in_flight`, `queued`, `unknown`.

        A gap goes whole to one cause by the launch call of the event that ends it: begun after the gap began = host late;
        begun before and ended after = in flight; ended before = queued. Plain sweep; a gap is where no event of the device runs.
        Nothing is taken for an edge here: the gap behind a stray event (`Spec.stray_ms`) counts as host late.
        """
        own = sorted(
            (k for k in self.kernels if k.rank == rank and (device is None or k.device == device)),
            key=lambda k: (k.ts_ns, -k.dur_ns),
        )
        found = {"host_late": 0, "in_flight": 0, "queued": 0, "unknown": 0}
        end = own[0].ts_ns if own else 0
        for k in own:
            if k.ts_ns > end:
                begun, ended = k.launch_ns
                cause = (
                    "unknown"
                    if begun < 0
                    else "host_late"
                    if begun >= end
                    else "in_flight"
                    if ended > end
                    else "queued"
                )
                found[cause] += k.ts_ns - end
            end = max(end, k.ts_ns + k.dur_ns)
        return found
