"""`infer-forge engine`: the one recordable way to run SGLang, vLLM, TensorRT-LLM and TokenSpeed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from infer_forge.base.errors import GateRefused, UsageFault
from infer_forge.base.records import Finding, Header, Report
from infer_forge.base.redact import redact_arguments
from infer_forge.base.tables import Column, Table
from infer_forge.cli.common import SECONDS, Finite, report_command, value_of
from infer_forge.cli.given_path import GivenPath

if TYPE_CHECKING:
    from infer_forge.engines.help_text import Snapshot
    from infer_forge.engines.lifecycle import Engine

_PASS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.group()
def command() -> None:
    """The one recordable way to start, watch and stop an engine.

    A place is `local`, `docker:NAME`, `ssh:HOST` or `ssh:HOST/docker:NAME`. ENGINE is the id, folder or record file that
    `engine start` told.
    """


def _place(function: Any) -> Any:
    return click.option("--place", "place_spec", default="local", show_default=True, help="Where it runs.")(function)


def _python(function: Any) -> Any:
    return click.option("--python", default="python3", show_default=True, help="The place's Python.")(function)


def _pairs(words: tuple[str, ...], what: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageFault(f"{what} is written NAME=VALUE, not {word!r}")
        pairs[key] = value
    return pairs


@command.command()
@click.option("--framework", help="Ask for its packages only.")
@_place
@_python
@report_command
def env(framework: str | None, place_spec: str, python: str) -> Report:
    """The environment digest of a place: image, driver, CUDA, NCCL, packages, commits."""
    from infer_forge.engines.env import environment
    from infer_forge.engines.runner import place

    told = environment(place(place_spec), framework, python=python)
    facts = told.facts
    table = Table("environment", [Column("fact", "text"), Column("value", "text")])
    for name in ("image_digest", "image_id", "driver", "cuda", "nccl", "python", "kernel", "machine", "cpu"):
        table.rows.append([name, facts.get(name)])
    packages = Table("packages", [Column("package", "text"), Column("version", "text"), Column("commit", "text")])
    for name, version in sorted(cast("dict[str, str]", facts.get("packages", {})).items()):
        packages.rows.append([name, version, facts.get("commits", {}).get(name)])
    gpus = Table("gpus", [Column("gpu", "text"), Column("memory_mib", "int"), Column("compute_capability", "text")])
    for gpu in cast("list[dict[str, Any]]", facts.get("gpus") or []):
        gpus.rows.append([gpu["name"], gpu["memory_mib"], gpu["compute_capability"]])
    report = Report("engine_env", extra={"environment": told.to_json(), "digest": told.digest})
    report.tables = {t.name: t for t in (table, packages, gpus)}
    report.summary = [f"environment digest {told.digest} of {told.place} at {told.taken_at}"]
    if facts.get("gpus") is None:
        report.summary.append("no GPU could be seen there")
    return report


def _command_findings(taken: Snapshot | None, *, masked: bool) -> list[Finding]:
    """What a reader of written commands must know: flags that nobody verified, or long ago, and words that are masked."""
    step = "infer-forge engine help-snapshot"
    found: list[Finding] = []
    if masked:
        said = "a word holds a secret; this report ends up in logs, so it is masked"
        found.append(Finding("SECRET_MASKED", said, next_step="put the value in where the command is run"))
    if taken is None:
        said = "no help snapshot was given, so no flag is verified"
        return [*found, Finding("FLAGS_UNVERIFIED", said, next_step=step)]
    from infer_forge.engines import help_text

    days = help_text.age_days(taken.server)
    if days > help_text.OLD_DAYS:
        said = f"the help snapshot is {round(days)} days old"
        found.append(Finding("HELP_OLD", said, figure=round(days), threshold=help_text.OLD_DAYS, next_step=step))
    return found


@command.command("command", context_settings=_PASS)
@click.option("--framework", required=True, help="sglang, vllm, tensorrt_llm or tokenspeed.")
@click.option("--model", required=True, help="Model id or path.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Neutral option, e.g. tp=2, prefix_cache=false."
)
@click.option(
    "--shape", type=click.IntRange(min=0), default=0, show_default=True, help="Which of the allowed launch shapes."
)
@click.option("--client", help="Load generator (default: the framework's own), e.g. 'vllm bench serve', aiperf.")
@click.option(
    "--input-len", type=click.IntRange(min=1), default=1000, show_default=True, help="Prompt length in tokens."
)
@click.option(
    "--output-len", type=click.IntRange(min=1), default=1000, show_default=True, help="Output length in tokens."
)
@click.option("--num-prompts", type=click.IntRange(min=1), default=80, show_default=True, help="Prompts of the run.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Requests in flight at most.")
@click.option("--request-rate", type=Finite(0, min_open=True), help="Requests per second (default: all at once).")
@click.option("--prompts", type=GivenPath(exists=True, path_type=Path), help="Workload folder of `bench workload`.")
@click.option("--scenario", help="Scenario of the workload.")
@click.option("--endpoint", default="/v1/completions", show_default=True, help="Route that is loaded.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the load generator.")
@click.option("--result", default="result.json", show_default=True, help="File that the client writes.")
@click.option(
    "--help-file", type=GivenPath(exists=True, path_type=Path), help="Help snapshot to hold the flags against."
)
@_python
@click.argument("extra", nargs=-1, type=click.UNPROCESSED)
@report_command
def command_(
    framework: str, model: str, settings: tuple[str, ...], shape: int, client: str | None, input_len: int, output_len: int,
    num_prompts: int, concurrency: int | None, request_rate: float | None, prompts: Path | None, scenario: str | None,
    endpoint: str, seed: int, result: str, help_file: Path | None, python: str, extra: tuple[str, ...],
) -> Report:  # fmt: skip
    """Server and client command lines with the flags that make the work equal between engines.

    Words behind `--` are added to the server command as they are. A shape outside the allowed ones, TensorRT-LLM with
    another backend than PyTorch, and (with --help-file) a flag that the program does not know are refused.
    """
    from infer_forge.engines import command as lines
    from infer_forge.engines import frameworks, help_text
    from infer_forge.engines.grammar import ClientPlan

    name = frameworks.canonical(framework)
    options: dict[str, Any] = {k: value_of(v) for k, v in _pairs(settings, "--set").items()}
    words = [w for w in extra if w != "--"]
    server = lines.server_command(name, model, options, extra=words, launch=shape, python=python)
    seen = lines.check_shape(server)
    loader = frameworks.client(client or name)
    view = str(prompts / f"{scenario}.{loader.view}.jsonl") if prompts and scenario else None
    plan = ClientPlan(
        base_url=f"http://127.0.0.1:{seen.port or 'PORT'}", model=str(options.get("served_model_name") or model),
        input_len=input_len, output_len=output_len, num_prompts=num_prompts, result=result, concurrency=concurrency,
        request_rate=request_rate, prompts_file=view, endpoint=endpoint, seed=seed, tokenizer=options.get("tokenizer"),
    )  # fmt: skip
    load = lines.client_command(loader.name, plan, python=python)
    taken = help_text.load(help_file) if help_file else None
    checks = help_text.check_flags(seen.words, taken.server if taken else None)
    own = help_text.check_flags(
        load[len(loader.launch) :], taken.client if taken and loader is frameworks.GRAMMARS[name].client else None
    )
    help_text.refuse_unknown(checks, where="server command")
    help_text.refuse_unknown(own, where="client command")
    table = Table(
        "flags", [Column("side", "text"), Column("flag", "text"), Column("state", "text"), Column("checked_at", "text")]
    )
    table.rows.extend(["server", c.flag, c.state, c.checked_at] for c in checks)
    table.rows.extend(["client", c.flag, c.state, c.checked_at] for c in own)
    report = Report("engine_command", tables={"flags": table})
    shown, shown_load = redact_arguments(server), redact_arguments(load)
    report.extra = {
        "framework": name,
        "client": loader.name,
        "server_command": shown,
        "client_command": shown_load,
        "notes": list(loader.notes),
    }
    report.summary = ["server: " + shlex.join(shown), "client: " + shlex.join(shown_load)]
    report.findings = _command_findings(taken, masked=(shown, shown_load) != (server, load))
    return report


@command.command(context_settings=_PASS)
@_place
@click.option("--folder", type=GivenPath(path_type=Path), help="Where record and log go (default: the state folder).")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Variable of the launch.")
@click.option("--cwd", help="Working folder there.")
@click.option("--url", help="Where it answers, if not at its host and port.")
@click.option(
    "--help-file", type=GivenPath(exists=True, path_type=Path), help="Help snapshot to hold the flags against."
)
@click.option("--allow-flag", multiple=True, help="Flag accepted though the help does not name it.")
@click.option(
    "--wait",
    "wait_s",
    type=SECONDS,
    default=1800.0,
    show_default=True,
    help="Seconds to wait for health; 0: do not wait.",
)
@click.option("--expect-model", help="Served model id; another one is a failure.")
@click.option("--run-id", help="Run that owns it.")
@click.option(
    "--keep-failed", is_flag=True, help="Leave an engine running that did not become healthy, to look into it."
)
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
@report_command
def start(
    place_spec: str, folder: Path | None, variables: tuple[str, ...], cwd: str | None, url: str | None, help_file: Path | None,
    allow_flag: tuple[str, ...], wait_s: float, expect_model: str | None, run_id: str | None, keep_failed: bool, argv: tuple[str, ...],
) -> Report:  # fmt: skip
    """Start an engine, record it with proof, and wait until it is healthy.

    ARGV is the launch command behind `--`. Exit 3 when it does not become healthy; its record stays.
    """
    from infer_forge.base.errors import InputUnusable
    from infer_forge.engines import help_text, lifecycle

    words = [w for w in argv[:1] if w != "--"] + list(argv[1:])
    taken = help_text.load(help_file) if help_file else None
    engine = lifecycle.start(
        words, place=place_spec, folder=folder, env=_pairs(variables, "--env"), cwd=cwd, url=url, help_of=taken,
        allow_flags=allow_flag, run_id=run_id,
    )  # fmt: skip
    if wait_s > 0:
        click.echo(f"engine {engine.id} started, waiting for health (log: {engine.log})", err=True)
        try:
            lifecycle.wait(engine, wait_s, expect_model=expect_model)
        except KeyboardInterrupt:
            lifecycle.stop(engine)
            raise
    if engine.status in lifecycle.FAILURES:
        if not keep_failed:
            lifecycle.stop(engine)
        raise InputUnusable(
            f"the engine is not healthy: {engine.status}: {engine.reason}",
            where=engine.id,
            next_step=f"read {engine.log}; infer-forge engine stop {engine.folder}",
        )
    return _engine_report(engine, "engine_start")


def _engine_report(engine: Engine, kind: str) -> Report:
    table = Table("engine", [Column("fact", "text"), Column("value", "text")])
    proof = engine.process
    shown = {
        "id": engine.id, "framework": engine.framework, "status": engine.status, "reason": engine.reason, "url": engine.url,
        "served_models": ", ".join(engine.served_models) or None, "healthy_after_s": engine.healthy_after_s, "place": engine.place,
        "pid": proof.get("pid"), "start_ticks": proof.get("start_ticks"), "boot_id": proof.get("boot_id"), "host": proof.get("host"),
        "container": proof.get("container_id"), "log": engine.log, "folder": engine.folder, "command": shlex.join(engine.argv),
    }  # fmt: skip
    table.rows.extend([k, str(v) if v is not None else None] for k, v in shown.items())
    report = Report(kind, header=Header(), tables={"engine": table}, extra={"engine": engine.to_json()})
    report.summary = [f"{engine.id}: {engine.status}" + (f" ({engine.reason})" if engine.reason else "")]
    return report


@command.command()
@click.argument("engine")
@click.option("--wait", "wait_s", type=SECONDS, default=0.0, show_default=True, help="Seconds to wait for health.")
@click.option("--require", "wanted", help="Refuse (exit 4) unless the status is one of these.")
@report_command
def health(engine: str, wait_s: float, wanted: str | None) -> Report:
    """How an engine is: process, health route, models served."""
    from infer_forge.cli.common import require
    from infer_forge.engines import lifecycle

    found = lifecycle.load(engine)
    if wait_s > 0:
        lifecycle.wait(found, wait_s)
    now = lifecycle.health(found)
    report = _engine_report(found, "engine_health")
    report.extra["health"] = now
    report.summary = [f"{found.id}: {now['status']}" + (f" ({now['reason']})" if now["reason"] else "")]
    require(str(now["status"]), wanted, report=report)
    return report


@command.command()
@click.argument("engine")
@click.option(
    "--bytes", "size_bytes", type=click.IntRange(min=1), default=16384, show_default=True, help="How much of its end."
)
@report_command
def logs(engine: str, size_bytes: int) -> Report:
    """The end of an engine's log, and what it says of attention backend, CUDA graph and fallbacks."""
    from infer_forge.base.redact import redact
    from infer_forge.engines import lifecycle

    found = lifecycle.load(engine)
    text = redact(lifecycle.logs(found, size_bytes))
    told = lifecycle.facts(found)
    table = Table(
        "facts", [Column("fact", "text"), Column("value", "text"), Column("line", "int"), Column("evidence", "text")]
    )
    table.rows.extend([f.name, str(f.value), f.line, f.evidence] for f in told.facts.values())
    table.rows.extend([f.name, "", f.line, f.evidence] for f in (*told.fallbacks, *told.failures))
    report = Report("engine_logs", tables={"facts": table}, extra={"log": text, "facts": told.to_json()})
    report.text = text
    return report


@command.command()
@click.argument("engine")
@click.option(
    "--grace", "grace_s", type=SECONDS, default=30.0, show_default=True, help="Seconds between asking and killing."
)
@report_command
def stop(engine: str, grace_s: float) -> Report:
    """Stop an engine and all that it started, and nothing else. Exit 4 when something would not go."""
    from infer_forge.engines import lifecycle

    found = lifecycle.stop(lifecycle.load(engine), grace_s=grace_s)
    ended: dict[str, Any] = found.stopped or {}
    if ended.get("left"):
        raise GateRefused(
            f"these processes would not end: {ended['left']}", where=found.id, next_step="a person must look"
        )
    report = _engine_report(found, "engine_stop")
    gone: list[Any] = ended.get("ended") or []
    report.summary = [
        f"{found.id}: stopped, {len(gone)} process(es) ended, {len(cast('list[int]', ended.get('killed') or []))} killed"
    ]
    if not gone:
        report.summary = [f"{found.id}: nothing of it was left; nothing was signalled"]
    return report


@command.command("list")
@click.option("--folder", type=GivenPath(path_type=Path), help="Folder of records (default: the state folder).")
@report_command
def list_(folder: Path | None) -> Report:
    """Every engine that was started here, with its status now."""
    from infer_forge.engines import lifecycle

    columns = [Column(n, "text") for n in ("id", "framework", "status", "url", "place", "started_at")]
    table = Table("engines", columns)
    for found in lifecycle.listed(folder):
        now = lifecycle.health(found)["status"] if found.status in ("healthy", "starting") else found.status
        table.rows.append([found.id, found.framework, now, found.url, found.place, found.started_at])
    return Report("engine_list", tables={"engines": table}, summary=[f"{len(table.rows)} engines"])


@command.command("help-snapshot")
@click.option("--framework", "frameworks_", multiple=True, help="Framework (default: all four).")
@click.option("--client", help="Another load generator than the framework's own.")
@click.option(
    "--folder",
    type=GivenPath(path_type=Path),
    default=Path("help"),
    show_default=True,
    help="Where the snapshot goes.",
)
@_place
@_python
@click.option("--require", "wanted", help="verified: refuse (exit 4) when a help could not be asked.")
@report_command
def help_snapshot(
    frameworks_: tuple[str, ...], client: str | None, folder: Path, place_spec: str, python: str, wanted: str | None
) -> Report:
    """Store server and client help with hash, binary and version. What is not installed is `unverified`, with the date."""
    from infer_forge.cli.common import require
    from infer_forge.engines import frameworks, help_text
    from infer_forge.engines.runner import place

    where = place(place_spec)
    names = ("framework", "program", "state", "version", "flags", "sha256", "binary", "taken_at", "reason")
    table = Table("help", [Column(n, "int" if n == "flags" else "text") for n in names])
    made: dict[str, Any] = {}
    for name in frameworks_ or frameworks.FRAMEWORKS:
        snap = help_text.snapshot(name, where, client=client, folder=folder, python=python)
        made[snap.framework] = snap.to_json()
        for side, told in (("server", snap.server), ("client", snap.client), *snap.aliases.items()):
            row = [
                snap.framework,
                side,
                told.state,
                told.version,
                len(told.flags) or None,
                told.sha256,
                told.binary,
                told.taken_at,
                told.reason,
            ]
            table.rows.append(row)
    states = {r[2] for r in table.rows if r[1] in ("server", "client")}
    report = Report("engine_help", tables={"help": table}, extra={"snapshots": made})
    report.summary = [
        f"{sum(r[2] == 'verified' for r in table.rows)} of {len(table.rows)} helps verified; texts in {folder}"
    ]
    verdict = "verified" if states == {"verified"} else "unverified"
    require(verdict, wanted, known=("verified", "unverified"), report=report)
    return report


@command.command()
@click.argument("model_dir", type=GivenPath(path_type=Path))
@click.option("--deep", is_flag=True, help="Hash the bytes of the weights too.")
@report_command
def fingerprint(model_dir: Path, deep: bool) -> Report:
    """The fingerprint of a model folder: names, sizes, safetensors headers, tokenizer, templates, revision."""
    from infer_forge.engines.fingerprint import fingerprint as make

    found = make(model_dir, deep=deep)
    table = Table("fingerprint", [Column("part", "text"), Column("value", "text")])
    data = found.to_json()
    table.rows.extend([k, str(v) if v is not None else None] for k, v in data.items() if k != "files")
    return Report(
        "engine_fingerprint",
        tables={"fingerprint": table},
        extra={"fingerprint": data},
        summary=[f"{found.sha256}  {found.path}"],
    )


@command.command()
@click.argument("engine_or_url")
@click.option("--framework", help="Needed with a URL.")
@click.option("--run-directory", help="Run directory that may hold traces.")
@report_command
def profiles(engine_or_url: str, framework: str | None, run_directory: str | None) -> Report:
    """What a running engine offers for torch profiles; nothing is started."""
    from dataclasses import asdict

    from infer_forge.engines import lifecycle, profile_control

    if "://" in engine_or_url:
        if framework is None:
            raise UsageFault("a URL does not tell its framework", next_step="add --framework NAME")
        offer = profile_control.detect(framework, engine_or_url, directory=run_directory)
    else:
        found = lifecycle.load(engine_or_url)
        offer = profile_control.detect(
            found.framework, found.url, argv=found.argv, env=found.env, directory=run_directory
        )
    report = Report("engine_profiles", extra={"profiles": asdict(offer)}, next_step=offer.next_step)
    report.summary = [f"{offer.framework}: {offer.way}: {offer.reason}"] + (
        [f"note: {offer.note}"] if offer.note else []
    )
    return report
