"""What the launches of one command share: configuration, contract, prompts, load generator; and one launch with its runs."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import ForgeError, GateRefused
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.search_config import Candidate, SearchConfig
from infer_forge.bench.workload import Workload
from infer_forge.engines import frameworks, help_text, runner

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract, Scenario
    from infer_forge.bench.model import Row
    from infer_forge.bench.run_layout import Layout
    from infer_forge.engines.env import Environment
    from infer_forge.engines.fingerprint import Fingerprint


@dataclass(frozen=True)
class ClientIdentity:
    """The load generator at hand: name, version and hash of its file. Null where it cannot be told."""

    name: str
    version: str | None
    sha256: str | None


@dataclass
class Session:
    """What all launches of one command share.

    Attributes:
        purpose: `search`, `decision` or `pilot`; carried by every row.
        contract, contract_hash: the locked contract; None only for a pilot.
        fingerprint: of the model's local folder, where there is one. environments: framework -> environment digest.
        helps: framework -> help snapshot.
    """

    layout: Layout
    config: SearchConfig
    store: RowStore
    purpose: str
    contract: BenchmarkContract | None = None
    contract_hash: str | None = None
    workload: Workload | None = None
    client: ClientIdentity | None = None
    fingerprint: Fingerprint | None = None
    environments: dict[str, Environment] = field(default_factory=dict[str, "Environment"])
    helps: dict[str, help_text.Snapshot] = field(default_factory=dict[str, help_text.Snapshot])
    run_id: str | None = None
    grace_s: float = 30.0


@dataclass(frozen=True)
class Task:
    """One run of the load generator inside a launch."""

    scenario: Scenario
    concurrency: int | None
    seed: int
    repeat: int
    slot: int


@dataclass
class Launch:
    """One launch and what came of it. `absent`: the engine is not installed (whole) in that place. `point`: its deployment point."""

    id: str
    candidate: Candidate
    status: str
    reason: str | None
    rows: list[Row]
    seconds: float
    engine_folder: str | None = None
    absent: bool = False
    point: dict[str, Any] = field(default_factory=dict[str, Any])


_MODULE = (
    "import hashlib,importlib.util,sys; s=importlib.util.find_spec(sys.argv[1]); "
    "print(hashlib.sha256(open(s.origin,'rb').read()).hexdigest())"
)


def client_identity(name: str) -> ClientIdentity:
    """The load generator of that name on this machine."""
    known = frameworks.client(name)
    words = ["python3" if w == "python" else w for w in known.launch]
    here = runner.Place()
    try:
        if "-m" in words:
            told = here.run([words[0], "-c", _MODULE, words[words.index("-m") + 1]]).out.strip()
            sha = told if len(told) == 64 else None
        else:
            _, sha = help_text.binary(here, words[0])
        version = help_text.version(here, known.version_argv)
    except ForgeError:
        return ClientIdentity(known.name, None, None)
    return ClientIdentity(known.name, version, sha)


def require_client(contract: BenchmarkContract, found: ClientIdentity) -> None:
    """Refuse another load generator than the contract's, where both state something. Raises `GateRefused`."""
    wanted = contract.client
    for what, want, have in (
        ("name", wanted.name, found.name),
        ("version", wanted.version, found.version),
        ("sha256", wanted.sha256, found.sha256),
    ):
        if want and have and want != have:
            raise GateRefused(
                f"the load generator's {what} is {have}, the contract locked {want}",
                next_step="install the locked version; one client for all",
            )


def free_port() -> int:
    """A port that was free a moment ago on this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tasks(config: SearchConfig) -> list[Task]:
    """Every run of one launch, in order: scenarios, their concurrencies, the seeds."""
    seeds = len(config.seeds)
    return [
        Task(scenario, concurrency, seed, index, load * seeds + index)
        for scenario in config.grid.scenarios
        for load, concurrency in enumerate(scenario.concurrencies)
        for index, seed in enumerate(config.seeds)
    ]
