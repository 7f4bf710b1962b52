"""Types of a kernel task: rows, tolerances, buckets, what is protected. `references/schemas/kernel_task.json` is made of them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

SCHEMA = "infer-forge/kernel-task/1"

RowKind = Literal["production", "regression", "must_reject"]


class Strict(BaseModel):
    """Unknown keys and non-finite numbers are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class TaskRow(Strict):
    """One shape. `production` rows come from real model runs; `regression` rows surround them; `must_reject` ones must raise."""

    id: str = Field(min_length=1)
    kind: RowKind = "production"
    params: dict[str, Any] = Field(
        default_factory=dict, description="what adapter.make_inputs gets: sizes, dtypes, layout"
    )
    weight: float = Field(default=1.0, gt=0)
    bytes_moved: int | None = Field(
        None, ge=0, description="least bytes that the operation must move; null: inputs + outputs"
    )
    flops: float | None = Field(default=None, ge=0)
    provenance: str | None = Field(default=None, description="the run that this shape was seen in")


class Tolerances(Strict):
    """Largest difference from the reference: |a - b| <= atol + rtol |b|. Zero for copies."""

    atol: float = Field(default=0.0, ge=0)
    rtol: float = Field(default=0.0, ge=0)


class Bucket(Strict):
    """A part of a shape-specialised dispatch: when it applies, which path it takes, and what runs otherwise."""

    name: str
    predicate: str = Field(description="expression over row params, such as `m <= 64 and n % 128 == 0`")
    path: str
    fallback: str | None = None
    no_op: bool = Field(default=False, description="accepted without a gain: near the physical limit, with evidence")
    evidence: str | None = None


class Entry(Strict):
    """Where the callables are: `file.py:name`, relative to the task's folder."""

    adapter: str = "adapter.py:make_inputs"
    reference: str = "reference.py:reference"
    baseline: str = "baseline.py:kernel"
    candidate: str = "candidate.py:kernel"


class Timing(Strict):
    """How long a sample is and how many are taken; A/B blocks are always interleaved A B B A."""

    min_sample_ms: float = Field(default=1.0, gt=0)
    blocks: int = Field(default=5, ge=2, description="ABBA blocks a run")
    runs: int = Field(default=3, ge=1, description="independent runs with fresh allocations")
    warmup: int = Field(default=3, ge=0)


class Limits(Strict):
    """Physical peaks of the device: a time below what they allow is a fault, not a speed-up. Null: not judged."""

    peak_bytes_per_s: float | None = Field(default=None, gt=0)
    peak_flops_per_s: float | None = Field(default=None, gt=0)
    implausible_speedup: float = Field(default=10.0, gt=1, description="above this a person must look")


class Lineage(Strict):
    """Where the baseline's source was copied from."""

    url: str | None = None
    commit: str | None = None
    files: list[str] = Field(default_factory=list[str])


class Claim(Strict):
    """What is said of the result. A kernel task is never sold as an end-to-end gain without the evidence named here."""

    kind: Literal["kernel_task", "model_e2e"] = "kernel_task"
    text: str = ""
    gap_report: str | None = Field(
        default=None, description="file of the gap verdict that an end-to-end claim rests on"
    )
    kernel_in_trace: str | None = Field(default=None, description="name of the kernel in the trace of the real path")


class KernelTask(Strict):
    """One kernel task, fixed before anything is measured."""

    schema_id: Literal["infer-forge/kernel-task/1"] = SCHEMA
    name: str = Field(min_length=1)
    operation: str = Field(min_length=1)
    destination_passing: bool = Field(
        True, description="kernel(*inputs, out=...) fills outputs that the harness allocates"
    )
    entry: Entry = Field(default_factory=Entry)
    rows: list[TaskRow] = Field(min_length=1)
    tolerances: Tolerances = Field(default_factory=Tolerances)
    buckets: list[Bucket] = Field(default_factory=list[Bucket])
    protected: list[str] = Field(
        default_factory=lambda: ["task.json", "adapter.py", "reference.py", "baseline.py", "bench/**"],
        description="files (globs) that no candidate may change",
    )
    allowed_paths: list[str] = Field(
        default_factory=lambda: ["candidate.py", "candidate/**"], description="files (globs) that the work may change"
    )
    build: dict[Literal["baseline", "candidate"], list[str]] = Field(
        default_factory=dict[Literal["baseline", "candidate"], list[str]],
        description="compile_commands.json, build.ninja or Python build scripts of each side",
    )
    timing: Timing = Field(default_factory=Timing)
    limits: Limits = Field(default_factory=Limits)
    lineage: Lineage = Field(default_factory=Lineage)
    platform: str | None = Field(default=None, description="GPU type and driver that the task is about")
    claim: Claim = Field(default_factory=Claim)

    @model_validator(mode="after")
    def _unique_rows(self) -> KernelTask:
        ids = [row.id for row in self.rows]
        twice = sorted({i for i in ids if ids.count(i) > 1})
        if twice:
            raise ValueError(f"row ids are given twice: {', '.join(twice)}")
        return self


def task_schema() -> dict[str, Any]:
    """JSON schema of `task.json`."""
    schema = KernelTask.model_json_schema()
    schema["$id"] = SCHEMA
    return schema
