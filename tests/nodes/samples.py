"""Made-up nodes, claims and sample chains for the registry's tests, and a machine whose GPUs the test decides."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from infer_forge.base.errors import ForgeError
from infer_forge.base.machine import nvidia_smi
from infer_forge.base.machine.model import GpuState, ProcessUse, RuntimeState
from infer_forge.nodes.keys import public_key, sign
from infer_forge.nodes.looking import pack
from infer_forge.nodes.model import Claim, ClaimSeen, GpuRef, Holder, Observation, Policy, RuntimeId
from infer_forge.nodes.read import Head, Record, Sample, unpack
from infer_forge.nodes.registry import default_policy
from infer_forge.nodes.states import Arrival, Evaluation, evaluate

KEY = bytes(range(32))
PUBLIC = public_key(KEY)
NOW = 1_800_000_000.0
WHO = Holder(agent=None, user="ann", host="box", session="s1")
FAKE_SMI = Path(__file__).parent / "fakes" / "nvidia-smi"


def make_claim(gpus: tuple[int, ...] = (0, 1), *, runtimes: tuple[RuntimeId, ...] = (), age_s: float = 7200) -> Claim:
    return Claim(
        claim_id="c-1",
        node="gpu07",
        gpus=[GpuRef(index=i, uuid=f"GPU-{i}") for i in gpus],
        task_id="t",
        holder=WHO,
        epoch=3,
        policy_id="p",
        purpose="test",
        claimed_at_wall=NOW - age_s,
        runtime_ids=list(runtimes),
    )


def idle_gpu(index: int, step: int) -> GpuState:
    return GpuState(
        index=index,
        minor=index,
        uuid=f"GPU-{index}",
        name="NVIDIA H100 80GB HBM3",
        mig=False,
        mem_used_mib=4,
        mem_total_mib=81559,
        mem_reserved_mib=551,
        util_gpu_pct=0.0,
        util_mem_pct=0.0,
        pstate="P0",
        power_w=70.0,
        power_limit_w=700.0,
        energy_mj=70_000 * 60 * step,
        procs=[],
        recovery_action="none",
    )


Change = Callable[[int, Observation], None]


@dataclass
class Window:
    """A chain of samples that ends at NOW, one a minute; `change(step, obs)` bends single ones before they are signed."""

    count: int = 32
    every_s: float = 60.0
    claim: Claim = field(default_factory=make_claim)
    change: Change | None = None
    collector: str = "gpu07"
    end: float = NOW
    first_seq: int = 100

    def samples(self) -> list[Sample]:
        found: list[Sample] = []
        previous: str | None = "0" * 64
        for step in range(self.count):
            wall = self.end - (self.count - 1 - step) * self.every_s
            obs = Observation(
                collector_id=self.collector,
                source_kind="collector",
                node="gpu07",
                boot_id="boot-1",
                seq=self.first_seq + step,
                t_wall=wall,
                t_mono_ns=int((1_000_000 + wall - NOW) * 1e9),
                prev_sha=previous,
                interval_s=self.every_s,
                driver="580.95.05",
                source="nvml",
                gpus=[idle_gpu(i, step) for i in range(4)],
                runtime=[
                    RuntimeState(kind=r.kind, id=r.id, claim_id=self.claim.claim_id, alive=False)
                    for r in self.claim.runtime_ids
                ],
                claims=[ClaimSeen(claim_id=self.claim.claim_id, epoch=self.claim.epoch)],
                complete=True,
                errors=[],
            )
            if self.change:
                self.change(step, obs)
            data, previous, _ = pack(obs, KEY)
            found.append(unpack(data, "test"))
        return found

    def record(self) -> Record:
        return record_of(self.samples(), self.collector)


def head_of(sample: Sample, key: bytes = KEY) -> Head:
    return Head(seq=sample.obs.seq, sha=sample.sha, sig=sign(key, sample.sha))


def record_of(samples: list[Sample], collector: str = "gpu07", head: Head | None = None) -> Record:
    last = head or (head_of(samples[-1]) if samples else None)
    return Record(collector, samples, last, {f"refs/registry/live/{collector}": "0" * 40}, [])


def judge(
    *records: Record,
    claim: Claim | None = None,
    now: float = NOW + 5,
    arrival_s: float | None = 5.0,
    policy: Policy | None = None,
    notes: tuple[Observation, ...] = (),
    expected: tuple[str, ...] | None = None,
) -> Evaluation:
    ids = [r.collector_id for r in records]
    return evaluate(
        claim or make_claim(),
        list(records),
        policy or default_policy(),
        now,
        {cid: Arrival(arrival_s) for cid in ids},
        keys=dict.fromkeys(ids, PUBLIC),
        notes=notes,
        expected=ids if expected is None else expected,
    )


def process(pid: int, **more: Any) -> ProcessUse:
    return ProcessUse(host_pid=pid, start_ticks=77, mem_mib=60_000, type="C", **more)


def altered(sample: Sample, **fields: Any) -> Sample:
    """The sample with other content: what tampering with a stored record gives."""
    return unpack(pack(msgspec.structs.replace(sample.obs, **fields), None)[0], "test")


class FakeMachine:
    """Sets what `nvidia-smi` says on this machine."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "smi.json"
        program = folder / "nvidia-smi"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE_SMI}" "$@"\n')
        program.chmod(0o755)
        monkeypatch.setenv("INFER_FORGE_NVIDIA_SMI", str(program))
        monkeypatch.setenv("FAKE_SMI", str(self.file))
        monkeypatch.setenv("INFER_FORGE_NO_FSYNC", "1")
        self.answer: bytes | ForgeError | None = None
        real = nvidia_smi.run

        def once() -> bytes:
            """The program's answer; it is started again only when the test changed the machine."""
            if self.answer is None:
                try:
                    self.answer = real()
                except ForgeError as exc:
                    self.answer = exc
            if isinstance(self.answer, ForgeError):
                raise self.answer
            return self.answer

        monkeypatch.setattr(nvidia_smi, "run", once)
        self.set()

    def set(self, *gpus: dict[str, Any], mode: str = "ok", schema: int = 13) -> None:
        shown = gpus or tuple({"index": i} for i in range(2))
        self.answer = None
        self.file.write_text(json.dumps({"mode": mode, "schema": schema, "gpus": shown}))


class Clock:
    """The clocks of the collector and of the evaluator, moved by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.mono = NOW, 50_000.0
        for module in ("base.machine.looking", "nodes.eligibility", "nodes.claims", "nodes.reports"):
            monkeypatch.setattr(f"infer_forge.{module}.time", self)

    CLOCK_BOOTTIME = 7
    CLOCK_MONOTONIC = 1

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.mono

    def clock_gettime_ns(self, _: int) -> int:
        return int(self.mono * 1e9)

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.mono += seconds
