"""Types of the registry. What stands in git is the JSON of these; `references/schemas/node_*.json` are their schemas."""

from __future__ import annotations

import os
import re
import secrets
import time
from typing import Any, Literal, TypeVar

import msgspec

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.machine.model import GpuState, RuntimeState

RUNTIME_KINDS = ("pid", "container", "slurm", "k8s")
_NODE = re.compile(r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$")
T = TypeVar("T")


class GpuRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU (or MIG slice) of a node by what is known of it; at least one of the two.

    Attributes:
        index: as nvidia-smi counts.
        uuid: `GPU-..` or `MIG-..`.
    """

    index: int | None = None
    uuid: str | None = None

    def __str__(self) -> str:
        return str(self.index) if self.index is not None else str(self.uuid)

    def same(self, other: GpuRef) -> bool:
        """Whether the two may be one GPU, or a slice and its GPU. What cannot be told apart counts as the same."""
        if self.uuid and other.uuid:
            if self.uuid == other.uuid:
                return True
            if self.is_slice == other.is_slice:
                return False
        if self.index is not None and other.index is not None:
            return self.index == other.index
        return True

    @property
    def is_slice(self) -> bool:
        """Whether this is a MIG slice; its `index` is its GPU's."""
        return bool(self.uuid and self.uuid.startswith("MIG-"))


class RuntimeId(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A runtime of a claim: a pid with its start time, a container id, a Slurm job, a pod uid."""

    kind: Literal["pid", "container", "slurm", "k8s"]
    id: str
    start_ticks: int | None = None


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a claim. `session` is a run or, without one, this installation; it decides whose claim it is."""

    agent: str | None
    user: str
    host: str
    session: str


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim on GPUs of one node.

    Attributes:
        epoch: the node's last epoch + 1; carried by everything made under the claim.
        policy_id: hash of the policy it was made under.
        claimed_at_wall, expires_at_wall: by the claimer's clock, for people. Expiry frees nothing; it asks for review.
        probe_id: the live probe that it stands on, when its GPUs were in use before.
        prev_commit: the registry's tip that it was decided on.
    """

    v: int = 1
    claim_id: str
    node: str
    gpus: list[GpuRef]
    task_id: str
    run_id: str | None = None
    holder: Holder
    epoch: int
    policy_id: str
    purpose: str
    claimed_at_wall: float
    expires_at_wall: float | None = None
    runtime_ids: list[RuntimeId] = []
    state: Literal["held"] = "held"
    probe_id: str | None = None
    prev_commit: str | None = None


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a claim that ended: its epoch never comes back.

    Attributes:
        how: `released` by its holder, `forced` by a person, `cleanup` on evidence.
        evidence: hash of the evaluated tips, of a clean-up.
    """

    claim_id: str
    epoch: int
    gpus: list[GpuRef]
    task_id: str
    how: Literal["released", "forced", "cleanup"]
    at_wall: float
    by: Holder
    reason: str
    evidence: str | None = None


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A live look at freed GPUs that found them idle and healthy. It holds for the epoch it was taken under only."""

    probe_id: str
    gpus: list[GpuRef]
    epoch: int
    at_wall: float
    expires_at_wall: float
    by: Holder
    source: str
    sample_sha256: str


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A node that may not be claimed: broken, or being emptied. Only a person lifts it."""

    state: Literal["unhealthy", "drain"]
    reason: str
    evidence: str | None
    by: Holder
    at_wall: float


class NodeRecord(msgspec.Struct, kw_only=True):
    """One node: `nodes/<node>.json` of the claims ref.

    Attributes:
        last_epoch: of the newest claim; kept for ever.
        unverified: GPUs that were held and not probed since.
        released: the newest twenty ended claims; the commits hold them all.
    """

    v: int = 1
    node: str
    last_epoch: int = 0
    claims: list[Claim] = []
    released: list[Released] = []
    unverified: list[GpuRef] = []
    probe: Probe | None = None
    mark: Mark | None = None

    def find(self, claim_id: str) -> Claim | None:
        """A held claim by its id or the start of it (8 characters or more)."""
        found = [
            c for c in self.claims if c.claim_id == claim_id or (len(claim_id) >= 8 and c.claim_id.startswith(claim_id))
        ]
        return found[0] if len(found) == 1 else None


class IdlePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a GPU counts as idle; see `references/node_policy.yaml`."""

    util_pct: float
    mem_used_mib: int
    power_margin_w: float
    power_w: dict[str, float]
    default_w: float
    default_share: float

    def power_limit_w(self, gpu: GpuState) -> float | None:
        """Mean power up to which this GPU counts as idle; None when it is not listed and says no power limit."""
        name = gpu.name or ""
        known = max((key for key in self.power_w if name.startswith(key)), key=len, default=None)
        if known is not None:
            return self.power_w[known] + self.power_margin_w
        if gpu.power_limit_w is None:
            return None
        return min(self.default_w, self.default_share * gpu.power_limit_w) + self.power_margin_w


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The registry's rules; see `references/node_policy.yaml` for meaning and defaults."""

    cadence_s: float
    window_s: float
    max_gap_s: float
    freshness_s: float
    min_samples: int
    skew_max_s: float
    min_claim_age_s: float
    seal_s: float
    reuse_ttl_s: float
    quorum: int
    retention_months: int
    verify_after_release: bool
    application_xids: list[int]
    idle: IdlePolicy

    @property
    def policy_id(self) -> str:
        """First 16 hex digits of the sha256 of its canonical JSON."""
        from infer_forge.base.jsonio import sha256_of

        return sha256_of(msgspec.to_builtins(self))[:16]

    def check(self) -> Policy:
        """Refuse values under which "idle for the whole window" would mean less than it says.

        Raises:
            UsageFault: which one, and why.
        """
        positive = ("cadence_s", "window_s", "max_gap_s", "freshness_s", "seal_s", "reuse_ttl_s")
        for name in positive:
            if getattr(self, name) <= 0:
                raise UsageFault(f"{name} must be above 0", where="policy")
        rules = [
            (self.max_gap_s >= self.cadence_s, "max_gap_s must be at least cadence_s"),
            (self.window_s >= self.max_gap_s, "window_s must be at least max_gap_s"),
            (self.freshness_s >= self.cadence_s, "freshness_s must be at least cadence_s"),
            (self.min_samples >= 2, "min_samples must be at least 2: no single sample decides"),
            (self.min_samples <= self.window_s / self.cadence_s + 1, "min_samples is more than the window can hold"),
            (self.skew_max_s >= 0, "skew_max_s must not be negative"),
            (self.min_claim_age_s >= 0, "min_claim_age_s must not be negative"),
            (self.quorum >= 1, "quorum must be at least 1"),
            (self.retention_months >= 1, "retention_months must be at least 1"),
            (0 <= self.idle.util_pct <= 20, "idle.util_pct must lie between 0 and 20"),
        ]
        for good, words in rules:
            if not good:
                raise UsageFault(words, where="policy")
        return self


class Collector(msgspec.Struct, frozen=True, kw_only=True):
    """A registered collector: `collectors/<id>.json` of the policy ref. `key` is its Ed25519 public key (hex)."""

    id: str
    node: str
    key: str
    registered_at_wall: float
    by: Holder
    retired: bool = False


class ClaimSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A claim as the collector read it in the registry when it took the sample."""

    claim_id: str
    epoch: int


class Observation(msgspec.Struct, kw_only=True):
    """One sample of one collector, or (`source_kind: agent`) what an agent says that it saw.

    Attributes:
        seq, prev_sha: the chain; `prev_sha` is the `sha` of the sample before.
        claims: claims on the node at that moment; None when the hub could not be asked.
        runtime: what the claims' runtimes and other holders of GPU devices did; None: could not see.
        complete: whether every process of the node could be looked into.
        vouched: whether that is an operator's word (`--sees-all-processes`) and was not found out.
    """

    v: int = 1
    collector_id: str
    source_kind: Literal["collector", "agent"]
    node: str
    boot_id: str | None
    seq: int
    t_wall: float
    t_mono_ns: int
    prev_sha: str | None
    interval_s: float
    driver: str | None
    source: str
    gpus: list[GpuState] | None
    runtime: list[RuntimeState] | None
    claims: list[ClaimSeen] | None
    complete: bool
    vouched: bool = False
    errors: list[str]
    note: str | None = None


def decode(kind: type[T], data: bytes | str, where: str) -> T:
    """Read one record.

    Raises:
        InputUnusable: it is not of this type (or of a newer version).
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        raise InputUnusable(
            f"is no {kind.__name__} ({exc})", where=where, next_step="a person must look at the registry's history"
        ) from None


def encode(value: Any) -> bytes:
    """A record as it stands in git: indented, so that `git log -p` reads well."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def check_node(node: str) -> str:
    """A node's name: letters, digits, dots, dashes, underscores.

    Raises:
        UsageFault: something else.
    """
    if not _NODE.match(node) or ".." in node or node.endswith(".lock"):
        raise UsageFault("is no node name (letters, digits, . - _)", where=repr(node))
    return node


def uuid7() -> str:
    """A time-ordered id (RFC 9562, version 7)."""
    value = (int(time.time() * 1000) & ((1 << 48) - 1)) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(3 << 62) | 2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def short_id() -> str:
    """A random id of 16 hex digits."""
    return secrets.token_hex(8)


def parse_gpus(text: str) -> list[GpuRef]:
    """`0,1`, `0-3`, `GPU-..`, `MIG-..`, mixed with commas.

    Raises:
        UsageFault: something else, nothing, or one twice.
    """
    found: list[GpuRef] = []
    for part in (p.strip() for p in text.split(",")):
        span = re.fullmatch(r"(\d{1,3})-(\d{1,3})", part)
        if span and int(span[1]) <= int(span[2]):
            found += [GpuRef(index=i) for i in range(int(span[1]), int(span[2]) + 1)]
        elif re.fullmatch(r"\d{1,3}", part):
            found.append(GpuRef(index=int(part)))
        elif re.fullmatch(r"(GPU|MIG)-[0-9A-Za-z/-]{4,80}", part):
            found.append(GpuRef(uuid=part))
        else:
            raise UsageFault(f"{part!r} names no GPU", next_step="give indices (0,1 or 0-3) or UUIDs (GPU-.., MIG-..)")
    if len(set(found)) != len(found):
        raise UsageFault("a GPU is named twice", where=text)
    return found


def parse_runtime(text: str) -> RuntimeId:
    """`pid:1234`, `container:ID`, `slurm:JOB`, `k8s:POD-UID`; a pid of this machine gets its start time.

    Raises:
        UsageFault: something else, or the process is gone.
    """
    from infer_forge.base.ownership import process_start

    kind, _, ident = text.partition(":")
    if kind not in RUNTIME_KINDS or not re.fullmatch(r"[A-Za-z0-9_.@-]{1,128}", ident):
        raise UsageFault(f"{text!r} names no runtime", next_step="give pid:N, container:ID, slurm:JOB or k8s:POD-UID")
    if kind != "pid":
        return RuntimeId(kind=kind, id=ident)  # pyright: ignore[reportArgumentType]
    pid, _, ticks = ident.partition("@")
    if not pid.isdigit():
        raise UsageFault(f"{ident!r} is no pid", next_step="give pid:N, or pid:N@TICKS for another machine's")
    start = int(ticks) if ticks.isdigit() else process_start(int(pid))
    if start is None:
        raise UsageFault(f"process {pid} is not here", next_step="give pid:N@TICKS for a process of another machine")
    return RuntimeId(kind="pid", id=pid, start_ticks=start)
