"""`infer-forge bench workload|pilot|lock|search`: what runs before a verdict. `cli/bench.py` registers these commands."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from infer_forge.base.errors import UsageFault
from infer_forge.base.records import Header, InputFile, Report
from infer_forge.base.redact import redact_arguments
from infer_forge.base.tables import Column, Table
from infer_forge.cli.common import Finite, report_command, require, value_of
from infer_forge.cli.given_path import GivenPath

if TYPE_CHECKING:
    from infer_forge.bench.session import Session

_RUN = click.option(
    "--run", "run_dir", type=GivenPath(path_type=Path, file_okay=False), required=True, help="The run directory."
)
_FILE = GivenPath(exists=True, path_type=Path, dir_okay=False)


def _settings(words: tuple[str, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise UsageFault(f"--set is written FIELD=VALUE, not {word!r}")
        made[name] = value_of(text)
    return made


def _grid(config: Path | None, input_len: tuple[int, ...], output_len: tuple[int, ...], num_prompts: int) -> Any:
    from infer_forge.base import contracts

    if config is not None:
        from infer_forge.bench.search_config import load_config

        if input_len or output_len:
            raise UsageFault("the configuration fixes the grid", next_step="leave --input-len and --output-len away")
        return load_config(config).grid
    if not input_len and not output_len:
        grid = contracts.default_grid()
        for scenario in grid.scenarios:
            scenario.num_prompts = num_prompts
        return grid
    return contracts.grid_of(input_len, output_len, num_prompts=num_prompts)


@click.command()
@click.option(
    "--run",
    "run_dir",
    type=GivenPath(path_type=Path, file_okay=False),
    help="Run directory: writes its benchmark/workload.",
)
@click.option("--out-dir", type=GivenPath(path_type=Path, file_okay=False), help="Write here instead.")
@click.option("--config", type=_FILE, help="Search configuration that fixes the grid.")
@click.option(
    "--input-len", type=click.IntRange(min=1), multiple=True, help="Input tokens; repeat for further scenarios."
)
@click.option(
    "--output-len", type=click.IntRange(min=1), multiple=True, help="Output tokens, aligned with --input-len."
)
@click.option("--num-prompts", type=click.IntRange(min=1), default=80, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--tokenizer",
    type=GivenPath(exists=True, path_type=Path),
    help="tokenizer.json or its folder; else characters count.",
)
@click.option("--verify", is_flag=True, help="Hash what stands there again instead of writing.")
@report_command
def workload(
    run_dir: Path | None, out_dir: Path | None, config: Path | None, input_len: tuple[int, ...], output_len: tuple[int, ...],
    num_prompts: int, seed: int, tokenizer: Path | None, verify: bool,
) -> Report:  # fmt: skip
    """Write the exact prompts of the grid, so that every engine is asked the same (default: chat and summarization)."""
    from infer_forge.bench import workload as work
    from infer_forge.bench.run_layout import layout

    if (run_dir is None) == (out_dir is None):
        raise UsageFault("give one of --run and --out-dir")
    folder = out_dir or layout(run_dir or ".").workload
    if verify:
        made = work.verify_workload(folder)
    else:
        made = work.write_workload(
            _grid(config, input_len, output_len, num_prompts), folder, seed=seed, tokenizer_path=tokenizer
        )
    names = ("prompts", "slots", "input_len", "input_len_min", "input_len_max", "output_len")
    table = Table(
        "scenarios",
        [
            Column("scenario", "text"),
            *(Column(n, "int") for n in names),
            Column("sha256", "text"),
            Column("file", "text"),
        ],
    )
    for p in made.scenarios.values():
        table.rows.append(
            [
                p.scenario,
                p.prompts,
                p.slots,
                p.input_len,
                p.input_len_min,
                p.input_len_max,
                p.output_len,
                p.sha256,
                p.file,
            ]
        )
    report = Report(
        "bench_workload", header=Header(inputs=[InputFile.of(folder / work.MANIFEST)]), tables={"scenarios": table}
    )
    report.extra = {"workload_sha256": made.sha256, "lengths_by": made.lengths_by, "folder": str(folder)}
    how = (
        "counted by the tokenizer"
        if made.lengths_by == "tokenizer"
        else "by characters (4 for a token), no tokenizer was given"
    )
    report.summary = [f"workload {made.sha256}", f"lengths are {how}; seed {made.seed}; every prompt is unique"]
    report.next_step = "infer-forge bench pilot --run DIR --config FILE"
    return report


def _end_tidily() -> None:
    """Let a polite end (a cancelled job) unwind, so that the server that is being measured is stopped."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def _session(run_dir: Path, config: Path, purpose: str, *, helps: bool) -> Session:
    from infer_forge.bench.prepare import prepare

    _end_tidily()
    return prepare(run_dir, config, purpose, helps=helps)


@click.command()
@_RUN
@click.option("--config", type=_FILE, help="Search configuration; its base candidate of the target is launched.")
@click.option(
    "--rows", type=_FILE, multiple=True, help="Only estimate, from these result files or ledgers of equal launches."
)
@click.option("--framework", default="sglang", show_default=True)
@click.option("--launches", type=click.IntRange(2, 24), default=5, show_default=True)
@click.option("--metric", default="output_token_throughput", show_default=True)
@click.option(
    "--threshold",
    type=Finite(0, 1, min_open=True, max_open=True),
    default=0.01,
    show_default=True,
    help="Ratio that the contract wants to resolve.",
)
@click.option(
    "--max-launches",
    type=click.IntRange(min=2),
    default=12,
    show_default=True,
    help="Launches an engine that the contract will allow.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be launched.")
@click.option("--require", "wanted", help="resolved: refuse (exit 4) when the threshold cannot be resolved.")
@report_command
def pilot(
    run_dir: Path, config: Path | None, rows: tuple[Path, ...], framework: str, launches: int, metric: str, threshold: float,
    max_launches: int, dry_run: bool, wanted: str | None,
) -> Report:  # fmt: skip
    """Launch one engine against itself before the lock: run-to-run noise, launches needed, threshold that can be resolved."""
    from infer_forge.bench import pilot as trial

    if (config is None) == (not rows):
        raise UsageFault("give one of --config and --rows")
    if rows:
        from infer_forge.bench.importing import read_rows

        found = read_rows(rows).rows
    else:
        assert config is not None
        from infer_forge.bench.search_config import candidates, load_config

        base = candidates(load_config(config), framework)[0]
        if dry_run:
            words = redact_arguments(base.command(load_config(config), 0))
            report = Report("bench_pilot", extra={"command": words, "launches": launches})
            report.summary = [f"{launches} launches of {base.id}: {shlex.join(words)}"]
            return report
        found = trial.run(_session(run_dir, config, "pilot", helps=False), framework, launches)
    made = trial.report(trial.estimate_noise(found, metric=metric, threshold=threshold, max_launches=max_launches))
    require(str(made.extra["verdict"]), wanted, known=("resolved", "unresolved"), report=made)
    return made


@click.command()
@_RUN
@click.option("--contract", type=_FILE, help="The contract to lock (JSON).")
@click.option("--config", type=_FILE, help="Search configuration from which the contract is drafted.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Field of the contract, e.g. point.model.revision=abc.",
)
@click.option("--baseline", is_flag=True, help="Lock the winner table instead, after the winners were measured again.")
@click.option(
    "--min-launches",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="With --baseline: launches that every winner needs.",
)
@click.option(
    "--accuracy",
    multiple=True,
    metavar="FRAMEWORK:DATASET=SCORE:FILE",
    help="Accuracy of an engine's baseline, with its result file.",
)
@click.option("--accept-by", help="A person accepts a threshold that cannot be resolved; needs a terminal.")
@click.option("--reason", help="Why, in their words.")
@click.option("--dry-run", is_flag=True, help="Check everything, lock nothing.")
@report_command
def lock(
    run_dir: Path, contract: Path | None, config: Path | None, settings: tuple[str, ...], baseline: bool, min_launches: int,
    accuracy: tuple[str, ...], accept_by: str | None, reason: str | None, dry_run: bool,
) -> Report:  # fmt: skip
    """Lock the contract before any result, or the baseline after the winners were measured again. Each is locked once."""
    from infer_forge.base import jsonio
    from infer_forge.bench import baseline_lock, contract_lock

    if baseline:
        if contract or config or accept_by:
            raise UsageFault("--baseline takes no contract: it cites the locked one")
        for word in accuracy:
            _record_accuracy(run_dir, word)
        return baseline_lock.lock_baseline(run_dir, min_launches=min_launches, dry_run=dry_run)
    if (contract is None) == (config is None):
        raise UsageFault("give one of --contract and --config, or --baseline")
    if accept_by:
        from infer_forge.base.person import require_person

        require_person("an acceptance", "a person runs this command with --accept-by NAME --reason TEXT")
    if config is not None:
        from infer_forge.bench.search_config import draft_contract, load_config

        data: Any = draft_contract(load_config(config))
    else:
        assert contract is not None
        data = jsonio.read_json(contract)
    if not isinstance(data, dict):
        raise UsageFault("a contract is a JSON object")
    made = contract_lock.set_fields(data, _settings(settings))  # pyright: ignore[reportUnknownArgumentType]
    return contract_lock.lock_contract(run_dir, made, accepted_by=accept_by, reason=reason, dry_run=dry_run)


def _record_accuracy(run_dir: Path, word: str) -> None:
    from infer_forge.bench import baseline_lock
    from infer_forge.engines.frameworks import canonical

    name, _, rest = word.partition(":")
    dataset, equals, tail = rest.partition("=")
    score, _, file = tail.partition(":")
    try:
        number = float(score)
    except ValueError:
        number = -1.0
    if not equals or not file or number < 0:
        raise UsageFault(f"--accuracy is written FRAMEWORK:DATASET=SCORE:FILE, not {word!r}")
    baseline_lock.record_accuracy(run_dir, canonical(name), dataset, number, file)


@click.command()
@_RUN
@click.option(
    "--config", type=_FILE, required=True, help="Search configuration (YAML); ready ones lie in references/search."
)
@click.option("--framework", "only", multiple=True, help="Search only these.")
@click.option("--dry-run", is_flag=True, help="Print the plan with exact commands; nothing starts.")
@click.option("--max-launches", type=click.IntRange(min=1), help="Stop after so many launches; run it again to go on.")
@click.option("--retry-failed", is_flag=True, help="Launch candidates again that failed.")
@click.option("--remeasure", is_flag=True, help="Launch the winners afresh, interleaved; only these rows decide.")
@click.option(
    "--launches",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="With --remeasure: launches of each winner.",
)
@click.option(
    "--no-help-check", is_flag=True, help="Do not ask the programs for their help first; every flag is unverified then."
)
@report_command
def search(
    run_dir: Path, config: Path, only: tuple[str, ...], dry_run: bool, max_launches: int | None, retry_failed: bool, remeasure: bool,
    launches: int, no_help_check: bool,
) -> Report:  # fmt: skip
    """A bounded search for the best launch command of every engine: resumable, failures kept, driven against real servers."""
    from infer_forge.base.jobs import progress
    from infer_forge.bench import search as find
    from infer_forge.bench import search_config
    from infer_forge.bench.ledger_rows import RowStore
    from infer_forge.bench.run_layout import layout

    wanted = search_config.load_config(config)
    if dry_run:
        from infer_forge.bench import contract_lock

        held = layout(run_dir).contract.exists()
        locked = contract_lock.read_contract(run_dir) if held else None
        if locked:
            find.require_same(wanted, locked[0])
        store, sha256 = RowStore(layout(run_dir).rows), locked[1] if locked else None
        report = find.plan_report(wanted, find.plan(wanted, store, sha256, only), store, sha256)
        report.next_step = (
            "infer-forge bench search --run DIR --config FILE"
            if locked
            else "infer-forge bench lock --run DIR --config FILE"
        )
        return report
    session = _session(run_dir, config, "decision" if remeasure else "search", helps=not no_help_check)
    assert session.contract is not None
    assert session.contract_hash is not None
    find.require_same(wanted, session.contract)

    def told(done: int, total: int, what: str) -> None:
        progress(done, total, what)
        click.echo(f"[{done + 1}/{total}] {what}", err=True)

    if remeasure:
        made = find.remeasure(session, find.finalists(session), launches, told=told)
    else:
        made = find.run_search(session, only, max_launches=max_launches, retry_failed=retry_failed, told=told)
    find.write_pages(session.layout, session.contract, session.contract_hash)
    report = find.result_report(session, made, find.plan(wanted, session.store, session.contract_hash, only))
    if remeasure:
        report.next_step = "infer-forge bench lock --run DIR --baseline"
    return report


commands: list[click.Command] = [workload, pilot, lock, search]
"""What `cli/bench.py` registers."""
