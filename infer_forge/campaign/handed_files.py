"""Result files of a diffusion benchmark as launches: read, and refused where they are not what was asked for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.campaign import book, repo

if TYPE_CHECKING:
    from infer_forge.bench.model import Row
    from infer_forge.campaign.handed import Scene


@dataclass
class Launch:
    """One file. `turn`: its place among the files of its side; `position`: its place in the block of two turns; `kept`: our copy."""

    framework: str
    file: Path
    rows: list[Row]
    turn: int = 0
    position: int = 0
    kept: Path = field(default_factory=Path)

    @property
    def started_at(self) -> str:
        """The first time that its rows state."""
        return min(str(r.started_at) for r in self.rows)

    @property
    def seconds(self) -> float:
        """Sum of its requests; starting the engine is not in it."""
        return sum(r.metrics.duration_s or 0.0 for r in self.rows)


def read(campaign: book.Campaign, scene: Scene, results: Sequence[tuple[str, Path]]) -> list[Launch]:
    """The files as launches, in order of start.

    Raises:
        GateRefused: a rule of the module's text does not hold. InputUnusable: a file cannot be read.
    """
    from infer_forge.bench.read import import_file

    made = [Launch(name, place.absolute(), import_file(place).rows) for name, place in results]
    _sides(scene, made)
    used = _used(campaign)
    for launch in made:
        _unused(launch, used)
        _workload(campaign, scene, launch)
        _fresh(scene, launch)
        _commit(campaign, scene, launch)
    _same_generated(scene, made)
    return _in_turn(made)


def _refuse(rule: str, what: str, launch: Launch, step: str) -> GateRefused:
    return GateRefused(f"{rule}: {launch.framework}: {what}", where=str(launch.file), next_step=step)


def _sides(scene: Scene, made: list[Launch]) -> None:
    engines = [e.framework for e in scene.contract.engines]
    wanted: list[str] = [scene.contract.target] if scene.label == "pilot" else list(engines)
    counts = {n: sum(x.framework == n for x in made) for n in wanted}
    odd = sorted({x.framework for x in made} - set(wanted))
    if odd:
        raise UsageFault(f"{', '.join(odd)} is no side here", next_step=f"sides: {', '.join(wanted)}")
    if len(set(counts.values())) > 1 or 0 in counts.values():
        told = ", ".join(f"{n} {c}" for n, c in counts.items())
        raise UsageFault(
            f"A103: every side is measured as often as the others ({told})", next_step="--results SIDE=FILE"
        )
    most = scene.contract.budgets.max_launches_per_engine
    if max(counts.values()) > most:
        raise GateRefused(f"A103: {max(counts.values())} launches of a side, the contract allows {most}")


def _used(campaign: book.Campaign) -> dict[str, str]:
    """Hash of a file, or id of a request, that counts already -> where."""
    from infer_forge.bench.ledger_rows import RowStore

    used: dict[str, str] = {}
    for place in (campaign.layout.bench.pilot, campaign.layout.bench.rows):
        for row in RowStore(place).rows() if place.exists() else []:
            if row.source is not None:
                used[row.source.sha256] = str(row.launch_id)
            request = row.workload.parameters.get("request_id")
            if request:
                used[str(request)] = str(row.launch_id)
    return used


def _unused(launch: Launch, used: dict[str, str]) -> None:
    """No file and no request counts twice, in this call or in an earlier block."""
    source = launch.rows[0].source
    marks = {source.sha256 if source else str(launch.file)} | {str(r.run_id) for r in launch.rows if r.run_id}
    twice = next((m for m in sorted(marks) if m in used), None)
    if twice is not None:
        raise _refuse(
            "A103", f"it counts already as launch {used[twice]}", launch, "run it again: each launch counts once"
        )
    used.update(dict.fromkeys(marks, "of this call"))


def _workload(campaign: book.Campaign, scene: Scene, launch: Launch) -> None:
    """A79: a diffusion result of the contract's model, as many requests as the scenario, its seeds, each timed."""
    contract, rows = scene.contract, launch.rows
    other = [r.tool for r in rows if r.kind != "diffusion" or r.diffusion is None]
    if other:
        raise _refuse("A79", f"is a result of {other[0]}, no diffusion", launch, "give the performance dump")
    if len(rows) != scene.scenario.num_prompts:
        what = f"holds {len(rows)} requests, {scene.scenario.name} has {scene.scenario.num_prompts}"
        raise _refuse(
            "A79", what, launch, "run the locked scenario; one file holds one launch, a record for each request"
        )
    names = {str(contract.point.model.id), str(campaign.inputs.get("model_dir") or contract.point.model.id)}
    models = {str(r.model) for r in rows}
    if not models <= names:
        what = f"is of the model {', '.join(sorted(models - names))}, the contract is about {contract.point.model.id}"
        raise _refuse("A79", what, launch, "measure the contract's model")
    seeds = {r.diffusion.seed for r in rows if r.diffusion is not None}
    if not seeds <= set(contract.seeds):
        what = f"has the seeds {sorted(map(str, seeds))}, the contract {contract.seeds}"
        raise _refuse("A79", what, launch, "use the locked seeds")


def _fresh(scene: Scene, launch: Launch) -> None:
    """Written, and by its own word begun, after the block opened."""
    limit = time_of(scene.since)
    assert limit is not None
    if launch.file.stat().st_mtime < limit:
        raise _refuse("A102", f"was written before {scene.since}, when this block began", launch, "measure now")
    for row in launch.rows:
        at = time_of(row.started_at)
        if at is None:
            raise _refuse("A102", "does not say when it ran", launch, "keep the time stamp of the dump")
        if at < limit:
            what = f"ran at {row.started_at}, before this block began at {scene.since}"
            raise _refuse("A102", what, launch, "measure now")


def time_of(text: str | None) -> float | None:
    """Seconds since 1970; a time without a zone is not taken for one."""
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo is not None else None


def _commit(campaign: book.Campaign, scene: Scene, launch: Launch) -> None:
    """A135: SGLang's file states the commit of the checkout; a rival's states none of it."""
    for told in {r.framework_commit for r in launch.rows}:
        if launch.framework == scene.contract.target:
            if not told or len(told) < 7 or not scene.commit.startswith(told):
                what = f"states the commit {told or 'nowhere'}, the checkout is at {scene.commit[:12]}"
                raise _refuse("A135", what, launch, "run the engine from the checkout, at this commit")
        elif told and repo.exists(campaign.checkout, told):
            raise _refuse(
                "A41", f"states {told[:12]}, a commit of the SGLang checkout", launch, "give the rival's file"
            )


def _same_generated(scene: Scene, made: list[Launch]) -> None:
    """A79: every file generated the same things, and the same as the rows that count already in this scenario."""
    from infer_forge.bench.scenarios import generated

    def things(rows: list[Row]) -> list[str]:
        return sorted(str(generated(r)[1:]) for r in rows)  # the model's name was held against the contract

    wanted = things(made[0].rows)
    earlier: dict[str, list[Row]] = {}
    for row in scene.store.rows(contract_hash=scene.sha256) if scene.label != "pilot" else []:
        if row.workload.scenario == scene.scenario.name:
            earlier.setdefault(str(row.launch_id), []).append(row)
    first = next(iter(earlier.values()), None)
    wanted = things(first) if first else wanted
    for launch in made:
        if things(launch.rows) != wanted:
            what = f"generated {things(launch.rows)[0]}, the others {wanted[0]} (width, height, frames, steps, guidance, seed)"
            raise _refuse("A79", what, launch, "generate the same everywhere")
        timed = {_timed(r) for rows in earlier.values() for r in rows if r.framework == launch.framework}
        timed |= {_timed(r) for x in made for r in x.rows if x.framework == launch.framework}
        if len(timed) > 1:
            what = f"timed {' or '.join(sorted(timed))} denoising steps, of the same scenario"
            raise _refuse("A79", what, launch, "every launch of a side runs the same steps")


def _timed(row: Row) -> str:
    """How many denoising steps ran by their own times, whatever the request stated; `no` where none was timed."""
    return str(row.workload.parameters.get("timed_steps", "no"))


def _in_turn(made: list[Launch]) -> list[Launch]:
    """A103: sides take turns: every launch of a turn begins before any of the next, and a block of two turns is A B B A."""
    made = sorted(made, key=lambda x: time_of(x.started_at) or 0.0)
    count: dict[str, int] = {}
    for launch in made:
        launch.turn = count.get(launch.framework, 0)
        count[launch.framework] = launch.turn + 1
    late = next((b for a, b in itertools.pairwise(made) if b.turn < a.turn), None)
    if late is not None:
        what = f"its launch {late.turn + 1} ran after the next turn had begun: sides must take turns (A B B A)"
        raise _refuse("A103", what, late, "measure again, the sides in turn")
    sides = len(count)
    for index, launch in enumerate(made):
        launch.position = index % (2 * sides)
    return made


def facts(campaign: book.Campaign, scene: Scene, launch: Launch, candidate: tuple[str, str]) -> dict[str, Any]:
    """Row fields that the file does not know, of the contract and of the campaign's inputs; null: not known."""
    contract, inputs = scene.contract, campaign.inputs
    model, platform = contract.point.model, contract.point.accelerator_platform
    source = launch.rows[0]
    return {
        "framework": launch.framework,
        "candidate_id": candidate[0],
        "server_command": candidate[1],
        "benchmark_command": candidate[1],
        "purpose": scene.purpose,
        "contract_hash": scene.sha256,
        "lane": contract.lane,
        "run_id": campaign.layout.run.name,
        "workload.scenario": scene.scenario.name,
        "workload.max_concurrency": scene.scenario.concurrencies[0],
        "workload.num_prompts": scene.scenario.num_prompts,
        "workload.completed_requests": scene.scenario.num_prompts,
        "metrics.success_rate": 1.0,  # every request of the scenario has its record
        "client.name": contract.client.name,
        "client.version": contract.client.version,
        "client.sha256": contract.client.sha256,
        "identity.model_fingerprint": model.fingerprint or fingerprint_of(campaign),
        "identity.dtype": model.precision,
        "identity.quantization": model.quantization,
        "hardware.gpu_model": platform.gpu_model,
        "hardware.gpu_count": source.hardware.gpu_count or platform.gpu_count,
        "hardware.driver_version": inputs.get("driver") or platform.driver,
        "artifacts.raw_result": str(launch.kept),
    }


def fingerprint_of(campaign: book.Campaign) -> str | None:
    """Of the model's local folder, where there is one."""
    from infer_forge.engines.fingerprint import fingerprint, local_folder

    folder = local_folder(str(campaign.inputs.get("model_dir") or campaign.inputs["model"]))
    return fingerprint(folder).sha256 if folder is not None else None
