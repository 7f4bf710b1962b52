"""The campaign's ledger and what is folded from it: one append-only, hash-chained file is the truth, all pages are views.

Every entry is also anchored: its hash stands in the task store (git), so that a cut-off end is noticed too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import redact
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable
from infer_forge.base.ledger import GENESIS, Ledger
from infer_forge.campaign.layout import RunLayout, find_run

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract
    from infer_forge.base.gitstore import Snapshot
    from infer_forge.tasks.state import Task

STATES = ("init", "inputs", "history", "contract_locked", "baseline_locked", "plan", "loop", "final")
"""The states of a campaign, in order (A2)."""

ANCHORS = "refs/campaign-ledgers/"
"""Refs of the task store, one a task, that hold the newest head of its campaign's ledger."""

_HEAD = "head.json"


@dataclass(frozen=True)
class Record:
    """One entry: `id` is the beginning of its hash, `number` its place in the ledger."""

    id: str
    number: int
    at: str
    kind: str
    body: dict[str, Any]
    sha256: str

    def __getitem__(self, name: str) -> Any:
        return self.body[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A field of the body."""
        return self.body.get(name, default)

    def words(self, name: str) -> list[str]:
        """A field that is a list of words; empty where it is absent."""
        given: list[Any] = self.body.get(name) or []
        return [str(w) for w in given]


@dataclass
class Campaign:
    """A campaign as its ledger tells it now."""

    layout: RunLayout
    records: list[Record] = field(default_factory=list[Record])
    head: str = GENESIS

    def of(self, *kinds: str) -> list[Record]:
        """Records of these kinds, oldest first."""
        return [r for r in self.records if r.kind in kinds]

    def last(self, *kinds: str) -> Record | None:
        """The newest record of these kinds."""
        return next((r for r in reversed(self.records) if r.kind in kinds), None)

    def find(self, record_id: str | None) -> Record | None:
        """A record by its id, or the beginning of it (8 characters at least)."""
        if not record_id or len(record_id) < 8:
            return None
        return next((r for r in self.records if r.sha256.startswith(record_id)), None)

    def need(self, record_id: str | None, *kinds: str) -> Record:
        """A record that must be there.

        Raises:
            InputUnusable: it is not, or is of another kind.
        """
        found = self.find(record_id)
        if found is None or (kinds and found.kind not in kinds):
            wanted = "/".join(kinds) or "record"
            raise InputUnusable(
                f"there is no {wanted} with the id {record_id!r}", next_step="infer-forge campaign check shows ids"
            )
        return found

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Input values by name, the newest word of each."""
        values: dict[str, Any] = {}
        for record in self.of("init", "inputs"):
            values |= {k: v for k, v in record["values"].items() if v is not None}
        return values

    @property
    def task_id(self) -> str:
        """Id of the campaign's task."""
        return str(self.records[0]["task_id"])

    @property
    def loop_id(self) -> str:
        """The one loop id that all evidence carries (A3)."""
        return str(self.records[0]["loop_id"])

    @property
    def checkout(self) -> Path:
        """The checkout that is patched."""
        return Path(self.inputs["target_checkout"]["path"])

    @cached_property
    def contract(self) -> tuple[BenchmarkContract, str] | None:
        """The locked contract and its hash; None before the lock.

        Raises:
            InputUnusable: it was edited.
        """
        from infer_forge.bench.contract_lock import read_contract

        return read_contract(self.layout.run) if self.layout.bench.contract.exists() else None

    @cached_property
    def baseline(self) -> dict[str, Any] | None:
        """The locked winner table; None before the lock."""
        from infer_forge.bench.baseline_lock import read_baseline

        return read_baseline(self.layout.run) if self.layout.bench.baseline.exists() else None

    @property
    def diffusion(self) -> bool:
        """Whether pictures or video are made: by the locked contract, before it by what is known of the model."""
        if self.contract is not None:
            return self.contract[0].grid.kind == "diffusion"
        return bool(self.inputs.get("diffusion"))

    def task(self) -> Task:
        """The campaign's task as it stands."""
        from infer_forge.tasks import load, open_store

        with open_store() as store:
            return load(store, self.task_id)

    @property
    def round(self) -> Record | None:
        """The open round; None between rounds."""
        last = self.last("round_open", "round_close")
        return last if last is not None and last.kind == "round_open" else None

    @property
    def round_number(self) -> int:
        """Number of the open or last round, 0 before the first."""
        opened = self.of("round_open")
        return int(opened[-1]["round"]) if opened else 0

    def in_round(self, *kinds: str) -> list[Record]:
        """Records of these kinds since the open (or last) round began."""
        opened = self.last("round_open")
        return [r for r in self.of(*kinds) if opened is not None and r.number > opened.number]

    @property
    def state(self) -> str:
        """The furthest state reached."""
        from infer_forge.campaign.inputs import Inputs

        marks = [
            ("final", bool(self.of("stop"))),
            ("loop", bool(self.of("round_open"))),
            ("plan", bool(self.of("plan"))),
            ("baseline_locked", bool(self.of("baseline_lock"))),
            ("contract_locked", bool(self.of("contract_lock"))),
            ("history", bool(self.of("history"))),
            ("inputs", not Inputs(self.inputs).missing()),
        ]
        return next((name for name, reached in marks if reached), "init")

    def reached(self, state: str) -> bool:
        """Whether a state is reached."""
        return STATES.index(self.state) >= STATES.index(state)


def read(path: Path) -> Campaign:
    """A run directory's campaign.

    Raises:
        InputUnusable: the ledger is damaged.
    """
    ledger = Ledger(path / "humanize" / "ledger.jsonl")
    entries = ledger.entries()
    if not entries:
        raise InputUnusable("holds no campaign", where=str(path), next_step="infer-forge campaign init")
    made = [Record(e.hash[:12], e.seq, e.at, e.kind, e.body, e.hash) for e in entries]
    return Campaign(RunLayout(path), made, entries[-1].hash)


def open_campaign(given: str | Path | None = None) -> Campaign:
    """The campaign of a run directory (see `layout.find_run`)."""
    return read(find_run(given))


def file_facts(path: str | Path) -> dict[str, Any]:
    """A file as records name it: absolute path, sha256, size."""
    from infer_forge.base.records import InputFile

    found = InputFile.of(Path(path).absolute())
    return {"path": found.path, "sha256": found.sha256, "size_bytes": found.size_bytes}


def append(campaign: Campaign, kind: str, body: Mapping[str, Any]) -> Campaign:
    """Record one entry behind the head that the campaign was read at, anchor it, and renew the views.

    Raises:
        GateRefused: the ledger was changed, or somebody else recorded something since; read again and decide again.
    """
    from infer_forge.base import jsonio

    if campaign.records:
        result, seen = verify(campaign)
        if result == "fail":
            raise GateRefused(
                f"chain: {seen}", where=str(campaign.layout.ledger), next_step="restore the ledger from a copy"
            )

    plain: dict[str, Any] = jsonio.loads(redact.redact(jsonio.dumps(dict(body)).decode()))
    number = campaign.round_number
    facts = {"loop_id": body.get("loop_id") or (campaign.loop_id if campaign.records else None), "round": number}
    ledger = Ledger(campaign.layout.ledger)
    entry = ledger.append(kind, {**facts, **plain}, expect=campaign.head)
    fresh = read(campaign.layout.run)
    anchor(fresh, entry.hash)
    from infer_forge.campaign.views import write_views

    write_views(fresh)
    return fresh


def anchor(campaign: Campaign, head: str) -> None:
    """Keep a head of the ledger in the task store, in a ref of the campaign's own: one file, its history in git.

    Only the newest head is needed, because the chain covers all before it; a file that grew with the campaign would slow
    every record down.
    """
    from infer_forge.base import jsonio
    from infer_forge.base.gitstore import Changes, Refuse
    from infer_forge.tasks import open_store

    number = next((r.number for r in campaign.records if r.sha256 == head), 0)

    def step(snapshot: Snapshot) -> Changes | Refuse:
        kept = _anchored(snapshot)
        if kept is not None and kept[0] >= number:
            return Changes()
        return Changes(put={_HEAD: jsonio.dumps({"entries": number, "head": head})})

    with open_store() as store:
        store.update(f"{ANCHORS}{campaign.task_id}", step, "campaign ledger")


def _anchored(snapshot: Snapshot) -> tuple[int, str] | None:
    """(number of entries, head) as the anchor says; None where there is none."""
    data: dict[str, Any] | None = snapshot.get_json(_HEAD)
    return (int(data["entries"]), str(data["head"])) if data else None


def verify(campaign: Campaign) -> tuple[str, str]:
    """(`pass` | `fail` | `unknown`, what was seen): the chain, and that every anchored head is still in it."""
    from infer_forge.tasks import open_store

    try:  # the anchor first: what another process records meanwhile is in the ledger before it is anchored
        with open_store() as store:
            found = _anchored(store.read(f"{ANCHORS}{campaign.task_id}"))
        unseen = None if found else "the task store holds no anchor of it"
    except ForgeError as fault:
        found, unseen = None, f"the task store that anchors it cannot be read: {fault.what}"
    ledger = Ledger(campaign.layout.ledger)
    walked = ledger.verify()
    if not walked.ok:
        return "fail", f"line {walked.fault_line}: {walked.fault}"
    if found is None:
        return "unknown", str(unseen)
    number, head = found
    if not any(e.hash == head for e in ledger.entries()):
        return "fail", f"recorded entries are gone: entry {number}, {head[:12]}, is anchored and not in the ledger"
    return "pass", f"{walked.entries} entries, anchored up to {number}"
