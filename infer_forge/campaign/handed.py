"""Measurements of a diffusion campaign: result files that a person or agent produced, held to what a launch of ours is held to.

Serving engines are launched by `measure`; a diffusion benchmark is one command a launch (`sglang generate
--perf-dump-path FILE`), so its files are handed in. Each file is one launch. What makes it count: the contract's
workload and seeds, the model, the commit of the checkout, times after the block opened, sides in turn, and no file or
request twice.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import contracts, jsonio
from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.records import Report
from infer_forge.base.tables import Table
from infer_forge.campaign import book, conditions, gates, handed_files, handed_quality, measure, verdicts

if TYPE_CHECKING:
    from infer_forge.base.contract_model import BenchmarkContract, Scenario
    from infer_forge.bench.ledger_rows import RowStore
    from infer_forge.campaign.handed_files import Launch

ORIGIN = "; of the others the command is their author's word (infer-forge task record TASK --evidence diffusion=FILE -- COMMAND)"

LABELS = ("pilot", "baseline", *measure.LABELS)
"""`pilot` before the contract, `baseline` before the winner table, then as `measure` labels them."""


@dataclass(frozen=True)
class Given:
    """What is handed in.

    Attributes:
        results: (framework, file) in any order; the files say when they ran.
        commands: framework -> its command line; for pilot and baseline alone, later the locked ones stand.
        reason: why no options were searched (baseline).
        outputs, reference: folders of what SGLang generated now, and at the baseline.
        contract: the drafted contract (pilot).
    """

    results: Sequence[tuple[str, Path]]
    scenario: str | None = None
    commands: dict[str, str] = field(default_factory=dict[str, str])
    reason: str | None = None
    outputs: Path | None = None
    reference: Path | None = None
    contract: Path | None = None


@dataclass(frozen=True)
class Scene:
    """What the files are held against; `sha256` is null before the contract is locked."""

    contract: BenchmarkContract
    sha256: str | None
    scenario: Scenario
    label: str
    commit: str
    since: str
    store: RowStore

    @property
    def purpose(self) -> str:
        """As rows carry it."""
        return "pilot" if self.label == "pilot" else "decision"


def hand_in(campaign: book.Campaign, given: Given, label: str = "patched") -> tuple[book.Campaign, Report]:
    """Take result files as launches of the contract and record them.

    Raises:
        GateRefused: the step is not due, or a file is not what the contract, the checkout and the block ask for.
    """
    scene = _scene(campaign, given, label)
    launches = handed_files.read(campaign, scene, given.results)
    ids = _candidates(campaign, scene, given)
    quality = handed_quality.judge(campaign, scene, given, launches)
    if label == "baseline":
        _no_search(scene, ids, str(given.reason))
    ident = f"{'p' if label == 'pilot' else 'm'}-{secrets.token_hex(4)}"
    rows = [h for launch in launches for h in _store(campaign, scene, launch, ident, ids[launch.framework])]
    body: dict[str, Any] = {
        "measurement": ident,
        "label": label,
        "of": None,
        "commit": scene.commit,
        "launches": len(launches) // len(ids),
        "candidates": {_named(scene.scenario): {name: i for name, (i, _) in ids.items()}},
        "rows": rows,
        "failed": [],
        "contract_sha256": scene.sha256,
        "files": _files(campaign, launches),
        "quality": quality,
    }
    if label == "repeat":
        again = verdicts.best_measurement(campaign)
        body["of"] = again.id if again else None
    if label == "baseline":
        body["reason"] = given.reason
    kind = "measurement" if label in measure.LABELS else "handed"
    after = book.append(book.read(campaign.layout.run), kind, body)
    return after, _report(after, body, launches)


def _files(campaign: book.Campaign, launches: list[Launch]) -> list[dict[str, Any]]:
    """The files, each with the recorded run of the task that wrote it; null: that the locked command wrote it is its author's word."""
    observed = {e.sha256: e.execution for e in campaign.task().evidence if e.trust == "observed" and not e.fenced}
    made = [{**book.file_facts(x.file), "framework": x.framework, "kept": str(x.kept)} for x in launches]
    return [{**f, "execution": observed.get(f["sha256"])} for f in made]


def _scene(campaign: book.Campaign, given: Given, label: str) -> Scene:
    if label not in LABELS:
        raise UsageFault(f"a measurement is labelled {' or '.join(LABELS)}, not {label!r}")
    from infer_forge.bench.ledger_rows import RowStore

    contract, sha256 = _contract(campaign, given, label)
    if contract.grid.kind != "diffusion":
        raise GateRefused(
            "A71: the contract is of serving engines, which are launched here and not handed in",
            next_step="infer-forge campaign measure without --results",
        )
    bench = campaign.layout.bench
    store = RowStore(bench.pilot if label == "pilot" else bench.rows)
    if label in measure.LABELS:
        gates.require(campaign, "A51", "A100", "chain", "round-claim", what="measure")
        commit, since = conditions.head_of(campaign, label), _begin(campaign, label)
    else:
        gates.require(campaign, "chain", "A12", *(["A43", "A31"] if label == "baseline" else []), what=label)
        if campaign.of("baseline_lock") or (label == "pilot" and campaign.of("contract_lock")):
            raise GateRefused(f"A51: it is locked already; no {label} follows", next_step="infer-forge campaign next")
        commit, since = conditions.clean(campaign).commit, (campaign.last("contract_lock") or campaign.records[0]).at
    return Scene(contract, sha256, _scenario(contract, given.scenario), label, commit, since, store)


def _contract(campaign: book.Campaign, given: Given, label: str) -> tuple[BenchmarkContract, str | None]:
    if label != "pilot":
        if campaign.contract is None:
            raise GateRefused("A31: no contract is locked", next_step="infer-forge campaign lock --contract FILE")
        return campaign.contract
    if given.contract is None:
        raise UsageFault("a pilot comes before the lock: name the drafted contract", next_step="--contract FILE")
    return contracts.contract_of(jsonio.read_json(given.contract), where=str(given.contract)), None


def require_contract(contract: BenchmarkContract) -> None:
    """Refuse a diffusion contract that no handed-in launch could meet or no accepted change could satisfy.

    Raises:
        GateRefused: it has several scenarios, another concurrency than one, or no quality gate with a bound.
    """
    scenarios, gate = contract.grid.scenarios, contract.quality
    if len(scenarios) > 1:
        raise GateRefused(
            f"A79: {len(scenarios)} scenarios, and a measurement of handed-in launches covers one",
            next_step="a campaign for each scenario",
        )
    if scenarios[0].concurrencies not in ([1], [None]):
        raise GateRefused(
            f"A79: {scenarios[0].name} asks for concurrency {scenarios[0].concurrencies}, a diffusion dump is of one request at a time",
            next_step="a contract with concurrency 1",
        )
    if gate is None or not (gate.byte_identical or gate.min_psnr_db or gate.min_ssim):
        raise GateRefused(
            "C41: the contract fixes no quality of what is generated, so no change could be accepted",
            next_step="quality: byte_identical, or min_psnr_db and min_ssim",
        )


def _scenario(contract: BenchmarkContract, name: str | None) -> Scenario:
    require_contract(contract)
    only = contract.grid.scenarios[0]
    if name not in (None, only.name):
        raise GateRefused(f"A79: {name} is no scenario of the contract", next_step=f"its scenario is {only.name}")
    return only


def _named(scenario: Scenario) -> str:
    """As verdicts name it."""
    load = scenario.concurrencies[0]
    return scenario.name if load is None else f"{scenario.name} c{load}"


def _begin(campaign: book.Campaign, label: str) -> str:
    """When the block began: the round, or the attempt in it."""
    opened, attempt = campaign.round, gates.open_attempt(campaign)
    assert opened is not None
    return max(opened.at, attempt.at) if attempt is not None and label != "repeat" else opened.at


def _candidates(campaign: book.Campaign, scene: Scene, given: Given) -> dict[str, tuple[str, str]]:
    """Framework -> (candidate id, command). After the baseline the locked command, and for SGLang the commit, are the candidate."""
    names = [e.framework for e in scene.contract.engines]
    names = [scene.contract.target] if scene.label == "pilot" else names
    if scene.label not in measure.LABELS:
        gone = [n for n in names if not given.commands.get(n, "").strip()]
        if gone:
            raise UsageFault(f"no command of {', '.join(gone)}", next_step="--command SIDE='WORDS' for each side")
        if scene.label == "baseline" and not (given.reason or "").strip():
            raise UsageFault("A53: no options were searched, and no reason is given", next_step="--no-search 'WORDS'")
        return {n: (_id(n, given.commands[n]), given.commands[n]) for n in names}
    if given.commands or given.reason:
        raise GateRefused(
            "A79: the commands are locked in the baseline", next_step="leave --command and --no-search away"
        )
    assert campaign.baseline is not None
    won: list[dict[str, Any]] = [w for w in campaign.baseline["winners"] if w["scenario"] == _named(scene.scenario)]
    commit = _state(campaign, scene)
    made: dict[str, tuple[str, str]] = {}
    for w in won:
        name, line = str(w["framework"]), str(w["server_command"])
        patched = name == scene.contract.target and commit is not None
        made[name] = (_id(name, line, str(commit)[:12]) if patched else str(w["candidate_id"]), line)
    return made


def _state(campaign: book.Campaign, scene: Scene) -> str | None:
    """The commit that makes SGLang another candidate than the baseline's; None: it is the baseline's own."""
    if scene.label != "repeat":
        return scene.commit
    again = verdicts.best_measurement(campaign)
    return str(again["commit"]) if again else None


def _id(framework: str, *parts: str) -> str:
    return f"{framework}-{jsonio.sha256_of(list(parts))[:10]}"


def _store(campaign: book.Campaign, scene: Scene, launch: Launch, ident: str, candidate: tuple[str, str]) -> list[str]:
    """Keep the file in the run, and its rows between the events of a launch; gives their evidence ids."""
    from infer_forge.bench.read import annotate

    launch_id = f"h-{secrets.token_hex(5)}"
    folder = campaign.layout.bench.results / launch_id
    folder.mkdir(parents=True, exist_ok=True)
    launch.kept = folder / launch.file.name
    shutil.copy2(launch.file, launch.kept)
    runtime = {
        "framework": launch.framework,
        "engine_config": {"command": candidate[1]},
        "commits": {launch.framework: told} if (told := launch.rows[0].framework_commit) else {},
    }
    point = contracts.normal({**scene.contract.point.model_dump(mode="json"), "runtime_profile": runtime})
    about: dict[str, Any] = {
        "launch_id": launch_id, "candidate_id": candidate[0], "framework": launch.framework, "purpose": scene.purpose,
        "contract_hash": scene.sha256, "candidate": "handed in",
    }  # fmt: skip
    scene.store.event("launch_begins", block_id=f"{ident}-{launch.turn // 2}", **about)
    for row in launch.rows:
        facts = handed_files.facts(campaign, scene, launch, candidate) | {
            "launch_id": launch_id,
            "block_id": f"{ident}-{launch.turn // 2}",
            "block_position": launch.position,
            "deployment_point_hash": contracts.point_sha256(point),
        }
        row.workload.parameters["request_id"] = row.run_id
        annotate(row, {k: v for k, v in facts.items() if v is not None})
    hashes = [e.hash for e in scene.store.add(launch.rows)]
    scene.store.event(
        "launch_ends", status="ok", reason=None, rows=len(hashes), seconds=round(launch.seconds, 3), complete=True,
        absent=False, point=point, deployment_point_hash=contracts.point_sha256(point), **about,
    )  # fmt: skip
    return hashes


def _no_search(scene: Scene, ids: dict[str, tuple[str, str]], reason: str) -> None:
    known = {(e["framework"], e["contract_hash"]) for e in scene.store.events("no_search")}
    for name in ids:
        if (name, scene.sha256) not in known:
            scene.store.event("no_search", framework=name, contract_hash=scene.sha256, reason=reason)


def _report(after: book.Campaign, body: dict[str, Any], launches: list[Launch]) -> Report:
    from infer_forge.campaign.advice import next_step

    report = Report("campaign_measure")
    rows = [(x.framework, str(x.file), x.turn + 1, x.started_at, round(x.seconds, 3)) for x in launches]
    report.add(Table("launches", ["framework", "file", "turn", "started_at", "seconds"], rows))
    last = after.records[-1]
    report.extra = {"id": last.id, **body}
    report.summary = [f"{body['label']} {last.id} of commit {body['commit'][:12]}: {len(launches)} launches handed in"]
    told = sum(f["execution"] is not None for f in body["files"])
    report.summary.append(
        f"{told} of {len(launches)} files were written by recorded runs of the task" + ORIGIN * (told < len(launches))
    )
    report.summary += [f"quality: {body['quality']['why']}"] if body["quality"] else []
    report.next_step = next_step(after).command
    return report
