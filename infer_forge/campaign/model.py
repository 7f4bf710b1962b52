"""What an agent hands in, by kind of record. Everything else (hashes, figures, verdicts) is computed, never taken over."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _listed(value: Any) -> Any:
    """`a,b` from a command line is a list too."""
    return [p.strip() for p in value.split(",") if p.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]
Words = Annotated[str, Field(min_length=3)]


class Strict(BaseModel):
    """Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), coerce_numbers_to_str=True)


class HistoryItem(Strict):
    """One pull request that was read (A47, A48). An open one is a candidate only, with its head commit."""

    path: Words
    framework: Literal["sglang", "vllm", "tensorrt_llm", "tokenspeed"]
    pr: int = Field(gt=0)
    source_commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    state: Literal["open", "merged", "closed-unmerged"]
    head_sha: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    in_source: bool = False
    files: Names = Field(min_length=1)
    symbols: Names = Field(default_factory=list)
    validation: Words
    limits: Words
    risk: Words
    decision: Words

    @model_validator(mode="after")
    def _open(self) -> HistoryItem:
        if self.state == "open" and self.head_sha is None:
            raise ValueError("an open pull request needs its full head commit (A48)")
        if self.state != "merged" and self.in_source:
            raise ValueError(f"a pull request that is {self.state} is not in the recorded source (A48)")
        return self


class History(Strict):
    """History notes, or why there are none (A50)."""

    items: list[HistoryItem] = Field(default_factory=list["HistoryItem"])
    blocker: str | None = None
    slug: str | None = None

    @model_validator(mode="after")
    def _something(self) -> History:
        if not self.items and not self.blocker:
            raise ValueError("give items, or a blocker that says why nothing could be read")
        return self


class Companions(Strict):
    """Files of companion skills that were read."""

    read: Names = Field(min_length=1)


class PrCheck(Strict):
    """A look at open pull requests of upstream and of the working fork (C39, A57)."""

    upstream: Words
    fork: str = "none"
    open: Names = Field(default_factory=list)
    note: str = ""


class Ceiling(Strict):
    """Where the model's config is (default: the model's folder), or why no ceiling can be computed."""

    config: str | None = None
    blocker: str | None = None


class Plan(Strict):
    """The plan file (rlcr) or the rendered prompt (goal, loop)."""

    path: Words
    mode: Literal["rlcr", "goal", "loop"] | None = None


class GapWanted(Strict):
    """Which measurement to decide on; none: the accepted state."""

    measurement: str | None = None


class Profile(Strict):
    """Traces of one framework; the triage is made here.

    `scenario`: of the contract, at whose lengths the traces were taken, where no capture record lies beside them; of mixed
    data with its bucket (`chat p95`).
    """

    framework: Literal["sglang", "vllm", "tensorrt_llm", "tokenspeed"]
    traces: Names = Field(min_length=1)
    mapping: str | None = None
    server_args: str | None = None
    server_log: str | None = None
    scenario: str | None = None
    purpose: Literal["gap", "accepted"] = "gap"


class Idea(Strict):
    """One source idea (A144): where, why, what it answers, what it may gain at the most."""

    title: Words
    repository: Words
    path: Words
    symbol: str | None = None
    provenance: str = ""
    covers: Names = Field(min_length=1)
    questions: Names | None = None
    expected_gain_pct: float = Field(gt=0)
    profile: str | None = None
    layer: str | None = None
    ncu: str | None = None
    history: list[int] = Field(default_factory=list[int])


class Dismissal(Strict):
    """Why a row of the coverage is left as it is, with the file that shows it."""

    covers: Names = Field(min_length=1)
    questions: Names | None = None
    reason: str = Field(min_length=15)
    evidence: Words


class NcuRecord(Strict):
    """A digest folder, and what makes the kernel eligible (A127 to A131)."""

    kernel: Words
    digest: Words
    idea: Words
    correctness: Words
    shape: Words
    wiring: Words
    family: str | None = None


class Attempt(Strict):
    """A patch that is about to be made. `alters_numerics` is told to the reviewer: accuracy is measured either way."""

    title: Words
    idea: Words
    alters_numerics: bool = True
    mechanism: Words
    tests: Names = Field(default_factory=list)
    paths: Names = Field(default_factory=list)


class AccuracyFile(Strict):
    """A result file of an accuracy run."""

    file: Words
    dataset: str | None = None
    attempt: str | None = None
    framework: Literal["sglang", "vllm", "tensorrt_llm", "tokenspeed"] = "sglang"


class SoakFile(Strict):
    """A soak's record of an attempt (see `stability`)."""

    file: Words
    attempt: Words


class MechanismFiles(Strict):
    """Traces or logs of the patched state, and the measurement with the patch switched off."""

    attempt: Words
    files: Names = Field(min_length=1)
    pattern: str | None = None
    off: str | None = None


class Result(Strict):
    """The end of an attempt."""

    attempt: Words
    outcome: Literal["accepted", "rejected", "partial"]
    reason: Words
    measurement: str | None = None


class Blocker(Strict):
    """Something that could not be done: what, what was tried, what is needed; `evidence`: files or record ids that show it."""

    what: Words
    tried: Names = Field(min_length=1)
    needs: Words
    evidence: Names = Field(default_factory=list)


class Command(Strict):
    """A shell command that the agent ran, for the traceable path."""

    command: Words
    exit_code: int | None = None
    label: str = ""


class NewInputs(Strict):
    """Inputs that were asked for or stated, by name (A16 to A18); the model is named at `init` alone.

    `diffusion`: the model makes pictures or video.
    """

    model: str | None = None
    model_dir: str | None = None
    tokenizer: str | None = None
    precision: str | None = None
    quantization: str | None = None
    trust_remote_code: bool | None = None
    max_context: int | None = Field(default=None, gt=0)
    family: str | None = None
    gpu_model: str | None = None
    gpu_count: int | None = Field(default=None, ge=1)
    gpu_ids: Names | None = None
    place: str | None = None
    cuda: str | None = None
    nccl: str | None = None
    driver: str | None = None
    multi_node: bool | None = None
    search_config: str | None = None
    diffusion: bool | None = None


class RoundOpen(Strict):
    """What a round begins with."""

    claim_id: Words
    epoch: int = Field(ge=1)
    query: Words
    sub_target: str | None = None


class RoundClose(Strict):
    """Words at the end of a round; `void` when its claim was lost, so that nothing of it counts."""

    note: str = ""
    void: bool = False


class Cleanup(Strict):
    """Nothing: what the run started is known."""


class KernelTaskWanted(Strict):
    """An isolated kernel task for an idea; rows (a JSON file) only where no trace recorded shapes."""

    kernel: Words
    idea: Words
    folder: str | None = None
    rows: str | None = None
    sources: Names = Field(default_factory=list)
    reports: Names = Field(default_factory=list)


class KernelFolder(Strict):
    """A kernel task that was run."""

    folder: Words


class KernelPromotion(Strict):
    """A kernel task whose gain shall be claimed for the model, and traces of the accepted state."""

    folder: Words
    traces: Names = Field(min_length=1)


KINDS: dict[str, type[Strict]] = {
    "inputs": NewInputs,
    "companions": Companions,
    "history": History,
    "pr_check": PrCheck,
    "ceiling": Ceiling,
    "plan": Plan,
    "round_open": RoundOpen,
    "round_close": RoundClose,
    "gap": GapWanted,
    "profile": Profile,
    "idea": Idea,
    "dismissal": Dismissal,
    "ncu": NcuRecord,
    "attempt": Attempt,
    "accuracy": AccuracyFile,
    "soak": SoakFile,
    "mechanism": MechanismFiles,
    "result": Result,
    "blocker": Blocker,
    "command": Command,
    "cleanup": Cleanup,
    "kernel_task": KernelTaskWanted,
    "kernel_result": KernelFolder,
    "kernel_promotion": KernelPromotion,
}
"""Kind -> what is handed in."""
