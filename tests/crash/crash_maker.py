"""Incidents of many ranks with a known cause: logs in every engine's spelling, dumps, kernel logs, noise, truncation."""

from __future__ import annotations

import gzip
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

START = datetime(2026, 3, 1, 10, 0, 0, tzinfo=timezone.utc)
KERNELS = ("paged_attention_v9_kernel", "moe_gate_up_kernel", "rope_inplace_kernel", "kv_scatter_kernel")


@dataclass
class Block:
    """Lines that one process writes at one moment. `bare`: without the engine's prefix (stderr of native code)."""

    at_s: float
    rank: int
    lines: list[str]
    bare: bool = False
    raw: bool = False
    key: bool = False


@dataclass
class Truth:
    """What a triage must say: classes, rank, and the only culprits that it may name."""

    classes: tuple[str, ...]
    rank: int | None
    culprits: tuple[str, ...] = ()
    any_rank: bool = False


@dataclass
class Incident:
    """An incident before it is written."""

    kind: str
    world: int
    style: str
    truth: Truth
    blocks: list[Block] = field(default_factory=list[Block])
    files: dict[str, str | bytes] = field(default_factory=dict[str, str | bytes])


def pid_of(rank: int) -> int:
    return 41000 + rank * 7


def trace(where: list[tuple[str, int, str, str]], error: list[str]) -> list[str]:
    """A traceback of frames (file, line, function, code) and the error's lines."""
    lines = ["Traceback (most recent call last):"]
    for file, line, function, code in where:
        lines += [f'  File "{file}", line {line}, in {function}', f"    {code}"]
    return lines + error


ASYNC = [
    (
        "CUDA kernel errors might be asynchronously reported at some "
        "other API call, so the stacktrace below might be incorrect."
    ),
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
]
SYNC_FRAMES = [
    ("/srv/engine/scheduler.py", 711, "event_loop", "self.step(batch)"),
    ("/srv/engine/sampler.py", 88, "sample", "ids = logits.argmax(-1).tolist()"),
]
REPLAY_FRAMES = [
    ("/srv/engine/model_runner.py", 512, "forward", "return self.graphs[bs].replay()"),
    ("/usr/lib/python3/site-packages/torch/cuda/graphs.py", 90, "replay", "super().replay()"),
]
REDUCE_FRAMES = [("/srv/engine/parallel.py", 55, "all_reduce", "self.comm.all_reduce(x)")]


def watchdogs(
    incident: Incident, ranks: list[int], at_s: float, *, seq: int = 900, op: str = "ALLREDUCE", pg: int = 2
) -> None:
    """NCCL's words of ranks that waited."""
    for rank in ranks:
        now = START + timedelta(seconds=at_s + rank * 0.01)
        head = f"[rank{rank}]:[E{now:%m%d %H:%M:%S}.{now.microsecond:06d} ProcessGroupNCCL.cpp:700]"
        incident.blocks.append(
            Block(
                at_s + rank * 0.01,
                rank,
                [
                    (
                        f"{head} [Rank {rank}] Watchdog caught collective "
                        f"operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
                        f"NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) "
                        f"ran for 600{rank:03d} milliseconds before timing out."
                    ),
                    (
                        f"{head} [PG ID {pg} PG GUID {pg} Rank {rank}]  failure detected by watchdog at work "
                        f"sequence id: {seq} PG status: last enqueued work: {seq}, last completed work: {seq - 1}"
                    ),
                ],
                raw=True,
            )
        )


def aftermath(incident: Incident, rng: random.Random, bad: int, at_s: float) -> None:
    """What other ranks and the parent say later."""
    others = [r for r in range(incident.world) if r != bad]
    if rng.random() < 0.6:
        watchdogs(incident, others, at_s + 600)
    for rank in others:
        if rng.random() < 0.4:
            incident.blocks.append(
                Block(
                    at_s + 3 + rank * 0.1,
                    rank,
                    trace(
                        [("/srv/engine/dist.py", 9, "recv", "work.wait()")],
                        [
                            (
                                "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] "
                                "Connection closed by peer [10.0.0.9]:4711"
                            )
                        ],
                    ),
                )
            )
    if rng.random() < 0.5:
        incident.blocks.append(
            Block(
                at_s + 4,
                bad,
                [
                    (
                        f"[rank{bad}]: Process group watchdog thread terminated with "
                        f"exception: CUDA error: an illegal memory access was encountered"
                    )
                ],
                raw=True,
            )
        ) if incident.truth.classes[0].startswith("ima") else None
    if rng.random() < 0.5:
        incident.blocks.append(
            Block(at_s + 5, 0, ["Received sigquit from a child process. It usually means the child failed."])
        )


def later_errors(incident: Incident, rng: random.Random, bad: int, at_s: float, text: str) -> None:
    """Other ranks see the same CUDA error later, in a collective or in unrelated kernels."""
    for rank in range(incident.world):
        if rank != bad and rng.random() < 0.5:
            frames = REDUCE_FRAMES if rng.random() < 0.7 else SYNC_FRAMES
            incident.blocks.append(
                Block(at_s + 2.5 + rank, rank, trace(frames, [f"RuntimeError: CUDA error: {text}", *ASYNC]))
            )


def ima(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(("ima_async",), bad)
    incident.blocks.append(
        Block(
            50,
            bad,
            trace(
                SYNC_FRAMES, ["torch.AcceleratorError: CUDA error: an illegal memory access was encountered", *ASYNC]
            ),
            key=True,
        )
    )
    later_errors(incident, rng, bad, 50, "an illegal memory access was encountered")
    aftermath(incident, rng, bad, 50)


def ima_replay(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(("ima_graph_replay",), bad)
    incident.blocks.append(
        Block(
            50,
            bad,
            trace(REPLAY_FRAMES, ["RuntimeError: CUDA error: an illegal memory access was encountered", *ASYNC]),
            key=True,
        )
    )
    aftermath(incident, rng, bad, 50)


def misaligned(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(("misaligned",), bad)
    incident.blocks.append(
        Block(50, bad, trace(SYNC_FRAMES, ["RuntimeError: CUDA error: misaligned address", *ASYNC]), key=True)
    )
    aftermath(incident, rng, bad, 50)


def device_assert(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    kernel = rng.choice(KERNELS)
    incident.truth = Truth(("device_assert",), bad, (kernel,))
    lines = [
        f"/src/kernels/gather.cu:{77}: {kernel}: block: [{b},0,0], thread: [{t},0,0] Assertion `row < num_rows` failed."
        for b in range(2)
        for t in range(rng.randrange(1, 30))
    ]
    prefix = f"[rank{bad}]:" if incident.style == "torchrun" else f"(Worker_TP{bad} pid={pid_of(bad)})"
    incident.blocks.append(Block(49.9, bad, [f"{prefix} {x}" for x in lines], raw=True, key=True))
    incident.blocks.append(
        Block(50, bad, trace(SYNC_FRAMES, ["RuntimeError: CUDA error: device-side assert triggered", *ASYNC]))
    )
    later_errors(incident, rng, bad, 50, "device-side assert triggered")
    aftermath(incident, rng, bad, 50)


def sanitizer(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    kernel = rng.choice(KERNELS)
    incident.truth = Truth(("ima_precise_sanitizer",), bad, (kernel,))
    where = rng.choice(
        (
            f"    at 0xda0 in /srv/kernels/moe.py:175:{kernel}",
            f"    at {kernel}+0xec0 in moe.py:43",
            f"    at void ns::{kernel}<int, (bool)1>(const float *, int)+0x540",
        )
    )
    phrase = rng.choice(("Address 0x7f00deadb000 is out of bounds", "Access to 0x7f00deadb000 is out of bounds"))
    lines = [
        "========= COMPUTE-SANITIZER",
        f"========= Invalid __global__ {rng.choice(('read', 'write'))} of size 16 bytes",
        f"========= {where}",
        "=========     by thread (3,0,0) in block (44,0,0)",
        f"=========     {phrase}",
        (
            "=========     and is 1,241,911,296 bytes before the nearest "
            "allocation at 0x7f00e0000000 of size 5,033,164,800 bytes"
        ),
        "=========     Saved host backtrace up to driver entry point at kernel launch time",
        "=========     Host Frame: [0x2f26f0]",
        "=========                in /usr/lib/libcuda.so.1",
        "========= ",
    ]
    if rng.random() < 0.5:
        lines.insert(4, "program output between the lines of a record")
    incident.files[f"rank{bad}/sanitizer.log"] = "\n".join(lines) + "\n"
    incident.blocks.append(
        Block(50, bad, trace(SYNC_FRAMES, ["RuntimeError: CUDA error: unspecified launch failure", *ASYNC]))
    )
    aftermath(incident, rng, bad, 50)


def coredump(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    kernel = rng.choice(KERNELS)
    incident.truth = Truth(("ima_coredump",), bad, (kernel,))
    for rank in range(incident.world):
        name = f"/crash/cuda_coredump_node1.{pid_of(rank)}.{int(START.timestamp()) + 50 + (0 if rank == bad else 1)}"
        focus = (
            f"[Current focus set to CUDA kernel 0, grid 9, block (1,0,0), "
            f"thread (0,0,0), device {rank}, sm 12, warp 1, lane 0]"
        )
        if rank == bad:
            text = [
                f"Opening GPU coredump: {name}",
                "",
                "CUDA Exception: Warp Illegal Address",
                f"The exception was triggered at PC 0x7f31abb9f6d0  void ns::{kernel}<float>(float*, int)",
                focus,
                f"#0  0x00007f31abb9f6e0 in void ns::{kernel}<float>(float*, int)<<<(1,1,1),(256,1,1)>>> ()",
            ]
        else:
            text = [
                f"Opening GPU coredump: {name}",
                "",
                focus,
                "#0  0x00007f31abb9f6e0 in ncclDevKernel_AllReduce_Sum_bf16_RING_LL<<<(24,1,1),(544,1,1)>>> ()",
            ]
        incident.files[f"gdb/rank{rank}.txt"] = "\n".join(text) + "\n"
    incident.blocks.append(
        Block(
            52,
            (bad + 1) % incident.world,
            trace(REDUCE_FRAMES, ["RuntimeError: CUDA error: an illegal memory access was encountered", *ASYNC]),
        )
    )
    aftermath(incident, rng, bad, 50)


def oom(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(("oom",), bad, ("forward",))
    where = [("/srv/engine/model.py", 300, "forward", "x = torch.empty(n)")]
    incident.blocks.append(
        Block(
            50,
            bad,
            trace(
                where,
                [
                    (
                        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. "
                        f"GPU {bad} has a total capacity of 79.14 GiB of which 1.02 GiB is free."
                    )
                ],
            ),
            key=True,
        )
    )
    watchdogs(incident, [r for r in range(incident.world) if r != bad], 650)


def missing_rank(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(("nccl_timeout",), bad)
    watchdogs(incident, [r for r in range(incident.world) if r != bad], 650)
    now = START + timedelta(seconds=650.5)
    incident.blocks.append(
        Block(
            650.5,
            bad,
            [
                (
                    f"[rank{bad}]:[E{now:%m%d %H:%M:%S}.{now.microsecond:06d} "
                    f"ProcessGroupNCCL.cpp:1700] [PG ID 2 PG GUID 2 Rank {bad}] Received "
                    f"a dump signal due to a collective timeout from another rank. "
                    f"Last enqueued NCCL work: 899, last completed NCCL work: 899."
                )
            ],
            raw=True,
            key=True,
        )
    )


def desync(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(("nccl_desync",), bad)
    watchdogs(incident, [r for r in range(incident.world) if r != bad], 650, seq=900)
    if rng.random() < 0.5:
        watchdogs(incident, [bad], 650, seq=871)
    else:
        watchdogs(incident, [bad], 650, seq=900, op="BROADCAST")


def flight_recorder(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    how = rng.choice(("missing", "type", "size", "dtype"))
    incident.truth = Truth(
        ("nccl_timeout",) if how == "missing" else ("nccl_desync",), bad, ("all_reduce", "all_gather", "broadcast")
    )
    for rank in range(incident.world):
        entries: list[dict[str, Any]] = []
        for seq in range(1, 41):
            if rank == bad and how == "missing" and seq == 40:
                continue
            odd = rank == bad and seq == 40
            entries.append(
                {
                    "record_id": seq,
                    "process_group": ("2", "tp"),
                    "collective_seq_id": seq,
                    "p2p_seq_id": 0,
                    "is_p2p": False,
                    "profiling_name": "nccl:broadcast" if odd and how == "type" else "nccl:all_reduce",
                    "input_sizes": [[512 if odd and how == "size" else 4096]],
                    "output_sizes": [[512 if odd and how == "size" else 4096]],
                    "input_dtypes": ["Float" if odd and how == "dtype" else "BFloat16"],
                    "output_dtypes": ["BFloat16"],
                    "state": "completed" if seq < 40 else "started",
                    "time_created_ns": int((START.timestamp() + seq) * 1e9),
                    "frames": [{"name": "forward", "filename": "/srv/engine/layers.py", "line": 12}],
                }
            )
        ranks = str(list(range(incident.world)))
        incident.files[f"fr/nccl_trace_rank_{rank}"] = pickle.dumps(
            {"version": "2.5", "pg_config": {"2": {"name": "2", "desc": "tp", "ranks": ranks}}, "entries": entries}
        )
    watchdogs(incident, [r for r in range(incident.world) if r != bad or how != "missing"], 650, seq=40)


def py_spy(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(("watchdog_hang",), bad)
    for rank in range(incident.world):
        frames = (
            ["    tokenize_on_host (host_work.py:31)", "    prepare (scheduler.py:90)"]
            if rank == bad
            else ["    all_reduce (distributed_c10d.py:2500)", "    forward (layers.py:44)"]
        )
        head = [
            f"Pyspy dump for PID {pid_of(rank)}:",
            f"Process {pid_of(rank)}: sglang::scheduler_TP{rank}",
            "Python v3.12.12 (/usr/bin/python3)",
            "",
            f'Thread {pid_of(rank)} (active): "MainThread"',
        ]
        incident.blocks.append(Block(350 + rank, rank, ["Watchdog timeout (self.watchdog_timeout=300)"]))
        incident.blocks.append(
            Block(
                350.5 + rank,
                rank,
                [
                    *head,
                    *frames,
                    "    event_loop (scheduler.py:700)",
                    f'Thread {pid_of(rank) + 1} (idle): "Thread-1"',
                    "    wait (threading.py:355)",
                ],
            )
        )


def hardware(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    number = rng.choice((79, 48, 95, 119, 74))
    text = {
        79: "GPU has fallen off the bus.",
        48: "DBE (double bit error) ECC Error",
        95: "Uncontained ECC error",
        119: "Timeout waiting for RPC from GSP!",
        74: "NVLink: fatal error detected on link 3",
    }[number]
    incident.truth = Truth((f"xid_{number}",), None, any_rank=True)
    now = START + timedelta(seconds=49)
    stamp = f"{now:%a %b} {now.day:2d} {now:%H:%M:%S %Y}"
    incident.files["dmesg.txt"] = (
        f"[{stamp}] usb 1-1: new device\n[{stamp}] NVRM: Xid "
        f"(PCI:0000:{0x10 + bad:02x}:00): {number}, pid={pid_of(bad)}, "
        f"name=python3, {text}\n[{stamp}] NVRM: Xid (PCI:0000:{0x10 + bad:02x}:00): "
        f"45, pid={pid_of(bad)}, name=python3, Ch 00000008\n"
    )
    incident.blocks.append(
        Block(50, bad, trace(SYNC_FRAMES, ["RuntimeError: CUDA error: unspecified launch failure", *ASYNC]))
    )
    aftermath(incident, rng, bad, 50)


def xid_and_ima(incident: Incident, rng: random.Random) -> None:
    ima(incident, rng)
    bad = incident.truth.rank or 0
    now = START + timedelta(seconds=49)
    stamp = f"{now:%b} {now.day:2d} {now:%H:%M:%S}"
    incident.files["kern.log"] = (
        f"{stamp} node1 kernel: [  100.123456] NVRM: Xid (PCI:0000:{0x10 + bad:02x}:00): "
        f"31, pid={pid_of(bad)}, name=python3, Ch 00000010, intr "
        f"00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_0 faulted @ "
        f"0x7f29_5b8c9000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ\n"
    )


def poisoned(incident: Incident, rng: random.Random) -> None:
    """A level-5 kernel-API log of the rank that faulted."""
    bad = rng.randrange(incident.world)
    in_output = rng.random() < 0.5
    names = [f"engine.ops.{k}" for k in KERNELS]
    guilty = names[2]
    incident.truth = Truth(("ima_async",), bad, (guilty,) if in_output else ())
    lines: list[str] = []
    for i, name in enumerate([*names[:2] * 20, guilty, *([] if in_output else [names[3]])]):
        stats = "min=0.000000 max=1.000000 mean=0.500000 nan_count=0 inf_count=0"
        bad_stats = "statistics=[unavailable: AcceleratorError]"
        last_in = name == names[3]
        lines += [
            "=" * 80,
            f"[2026-03-01 10:00:{min(59, i):02d}] SGLang Kernel API Call: {name}",
            "Positional input arguments:",
            "  0=Tensor(",
            "      shape=(4, 1024)",
            "      dtype=torch.bfloat16",
            "      device=cuda:0",
            f"      {bad_stats if last_in else stats}",
            "    )",
        ]
        if last_in:
            break
        lines += [
            "Output:",
            "  Tensor(",
            "      shape=(4, 1024)",
            f"      {bad_stats if name == guilty and in_output else stats}",
            "    )",
        ]
        if name == guilty and in_output:
            break
    incident.files[f"kernel_api_rank{bad}_pid{pid_of(bad)}.log"] = "\n".join(lines) + "\n"
    incident.blocks.append(
        Block(
            60,
            bad,
            trace(
                SYNC_FRAMES, ["torch.AcceleratorError: CUDA error: an illegal memory access was encountered", *ASYNC]
            ),
            key=True,
        )
    )
    aftermath(incident, rng, bad, 60)


def python_error(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(("python_exception",), bad, ("pick_experts",))
    where = [
        ("/srv/engine/model.py", 44, "forward", "y = self.pick_experts(x)"),
        ("/srv/engine/moe.py", 9, "pick_experts", "return table[key]"),
    ]
    incident.blocks.append(Block(50, bad, trace(where, ["KeyError: 'expert_17'"]), key=True))
    watchdogs(incident, [r for r in range(incident.world) if r != bad], 650)


def host_oom(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(
        ("killed_host",), bad if incident.style != "torchrun" else None, any_rank=incident.style == "torchrun"
    )
    now = START + timedelta(seconds=50)
    stamp = f"{now:%a %b} {now.day:2d} {now:%H:%M:%S %Y}"
    incident.files["dmesg.txt"] = (
        f"[{stamp}] Out of memory: Killed process {pid_of(bad)} (python3) total-vm:88kB, anon-rss:77kB\n"
    )
    for rank in range(incident.world):
        incident.blocks.append(
            Block(
                10 + rank * 0.1,
                rank,
                [f"worker ready pid {pid_of(rank)} exit code -9 never seen"]
                if rank == bad and incident.style == "vllm"
                else ["worker ready"],
            )
        )
    incident.blocks.append(Block(52, 0, ["Received sigquit from a child process. It usually means the child failed."]))
    if incident.style == "sglang":
        incident.truth = Truth(("killed_host",), None, any_rank=True)


def no_kv(incident: Incident, rng: random.Random) -> None:
    bad = rng.randrange(incident.world)
    incident.truth = Truth(("kv_no_memory",), bad, ("check_room",), any_rank=True)
    where = [("/srv/engine/kv.py", 740, "check_room", "raise ValueError(")]
    incident.blocks.append(
        Block(
            20,
            bad,
            trace(where, ["ValueError: No available memory for the cache blocks. Try increasing the utilization."]),
            key=True,
        )
    )
    incident.blocks.append(
        Block(
            21,
            bad,
            trace(
                [("/srv/engine/core.py", 9, "start", "wait()")],
                ["RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"],
            ),
        )
    )


KINDS: dict[str, Callable[[Incident, random.Random], None]] = {
    "ima": ima,
    "ima_replay": ima_replay,
    "misaligned": misaligned,
    "device_assert": device_assert,
    "sanitizer": sanitizer,
    "coredump": coredump,
    "oom": oom,
    "missing_rank": missing_rank,
    "desync": desync,
    "flight_recorder": flight_recorder,
    "py_spy": py_spy,
    "hardware": hardware,
    "xid_and_ima": xid_and_ima,
    "poisoned": poisoned,
    "python_error": python_error,
    "host_oom": host_oom,
    "no_kv": no_kv,
}
STYLES = ("sglang", "vllm", "torchrun")
NOISE = (
    "Decode batch. #running-req: 12, #token: 4711, token usage: 0.42, gen throughput (token/s): 1234.56",
    "Avg prompt throughput: 12.0 tokens/s, Avg generation throughput: 99.1 tokens/s, Running: 4 reqs",
    'INFO:     10.0.0.2:5555 - "POST /generate HTTP/1.1" 200 OK',
    "loss 1.2345 lr 0.0001 grad norm 3.2",
    "Prefill batch. #new-seq: 1, #new-token: 512, #cached-token: 0",
)


def prefixed(style: str, block: Block, line: str, first: bool, rng: random.Random) -> str:
    """A line as the engine writes it."""
    now = START + timedelta(seconds=block.at_s)
    if block.raw:
        return line
    if style == "sglang":
        return f"[{now:%Y-%m-%d %H:%M:%S} TP{block.rank}] {line}" if first else line
    if style == "vllm":
        level = "ERROR" if block.key else "INFO"
        return (
            f"(Worker_TP{block.rank} pid={pid_of(block.rank)}) {level} "
            f"{now:%m-%d %H:%M:%S} [multiproc_executor.py:{rng.randrange(100, 999)}] {line}"
        )
    return f"[rank{block.rank}]: {line}"


def make(seed: int, kind: str | None = None, *, noise: int | None = None) -> Incident:
    """An incident; the seed decides everything that is not named."""
    rng = random.Random(seed)
    name = kind or rng.choice(list(KINDS))
    style = "sglang" if name == "py_spy" else rng.choice(STYLES)
    incident = Incident(name, rng.choice((4, 8)), style, Truth((), None))
    KINDS[name](incident, rng)
    count = noise if noise is not None else rng.choice((50, 500, 3000))
    end = max([b.at_s for b in incident.blocks], default=60.0)
    for _ in range(count):
        at = rng.uniform(0, end)
        incident.blocks.append(Block(at, rng.randrange(incident.world), [rng.choice(NOISE)]))
    incident.blocks.sort(key=lambda b: b.at_s)
    return incident


def write(incident: Incident, folder: Path, seed: int) -> Path:
    """Write an incident: one file or one a rank, wrapped, coloured, compressed, cut, as the seed says."""
    rng = random.Random(seed + 1)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in incident.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    merged = rng.random() < 0.5 or incident.style == "torchrun"
    wrapper = rng.choice(("none", "none", "k8s", "docker", "ansi"))
    logs: dict[str, list[str]] = {}
    for block in incident.blocks:
        name = "server.log" if merged else f"logs/rank{block.rank}.log"
        out = logs.setdefault(name, [])
        now = START + timedelta(seconds=block.at_s)
        for i, line in enumerate(block.lines):
            text = prefixed(incident.style, block, line, i == 0, rng)
            if wrapper == "k8s":
                text = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond:06d}123Z stdout F {text}"
            elif wrapper == "docker":
                text = f"engine-main  | {text}"
            elif wrapper == "ansi":
                text = f"\x1b[36m{text}\x1b[0m"
            out.append(text)
    for name, lines in logs.items():
        if rng.random() < 0.3:
            lines = (
                lines[rng.randrange(0, max(1, len(lines) // 20)) :]
                if not any(b.at_s < 12 and b.key for b in incident.blocks)
                else lines
            )
        data = ("\n".join(lines) + ("\n" if rng.random() < 0.8 else "")).encode()
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if rng.random() < 0.2:
            path.with_suffix(".log.gz").write_bytes(gzip.compress(data, 1))
        else:
            path.write_bytes(data)
    return folder
