"""Take prefill and decode profiles from a running server; the profiler is off afterwards, whatever happens."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from infer_forge.base import jobs, jsonio, redact
from infer_forge.base.errors import GateRefused, InputUnusable, MissingPart, UsageFault
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Table
from infer_forge.capture import files
from infer_forge.capture.load import Load
from infer_forge.capture.model import DECODE, PREFILL, Plan, Taken
from infer_forge.capture.watch import Watch
from infer_forge.engines import frameworks, http, identity, lifecycle, profile_control, profile_lock
from infer_forge.engines.profile_control import HTTP, LAUNCH_ENV, RUN_DIRECTORY, Capabilities

# Pieces that each request must have streamed before the decode profile begins: the first comes from the prefill.
_DECODE_LEAD = 2
_STOP_TRIES = 3


def take(plan: Plan) -> Report:
    """Capture every workload of the plan, one after the other.

    Raises:
        MissingPart: this engine offers no way (exit 5, with the supported one).
        GateRefused: the server is busy and stacks are wanted, or a profile is being taken already.
        InputUnusable: the server does not answer, refused, or its files did not come whole; the record is none.
        UsageFault: the address is no HTTP address, the server is of another framework, or the output folder cannot be written.
    """
    _usable(plan)
    argv, env = _launch(plan)
    identity.refuse_another(plan.framework, plan.url)
    offer = profile_control.detect(plan.framework, plan.url, argv=argv, env=env, directory=plan.directory)
    if offer.way == profile_control.NONE:
        raise MissingPart(
            f"no profile can be taken here: {offer.reason}", where=plan.url, next_step=offer.next_step or None
        )
    findings = _refuse_when_busy(plan)
    server = _server(plan)
    with profile_lock.held(plan.url):
        if offer.way == RUN_DIRECTORY:
            taken = [_from_run_directory(plan, offer)]
        elif offer.way == LAUNCH_ENV:
            taken = [_from_launch(plan, offer, server)]
        else:
            taken = [_over_http(plan, offer, server, name) for name in plan.shapes]
    return _report(plan, offer, server, taken, findings)


def _usable(plan: Plan) -> None:
    """Address and output folder, before the server hears of us."""
    parts = urlsplit(plan.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageFault(
            "is no address of a server", where=plan.url or "(empty)", next_step="write --url http://HOST:PORT"
        )
    try:
        plan.out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise UsageFault(
            fault.strerror or str(fault), where=str(plan.out), next_step="name a folder that can be written"
        ) from None
    if not os.access(plan.out, os.W_OK | os.X_OK):
        raise UsageFault("may not be written", where=str(plan.out), next_step="name a folder that can be written")


def _launch(plan: Plan) -> tuple[list[str], dict[str, str]]:
    """argv and environment of the engine's own record, when one is named."""
    if plan.record is None:
        return [], {}
    read = jsonio.read_json(plan.record)
    data = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    argv: Any = data.get("argv")
    env: Any = data.get("env") or {}
    if not isinstance(argv, list) or not isinstance(env, dict):
        raise InputUnusable(
            "is no record of a launch (no argv)",
            where=str(plan.record),
            next_step="give the record that `infer-forge engine start` wrote, or leave --record out",
        )
    named = cast("dict[str, Any]", env)
    return [str(w) for w in cast("list[Any]", argv)], {k: str(v) for k, v in named.items()}


def _refuse_when_busy(plan: Plan) -> list[Finding]:
    """Stacks slow every request down: never under somebody's traffic."""
    running, waiting = profile_control.load(plan.url)
    if running is None and waiting is None:
        text = "the server does not tell its load, so other traffic could not be ruled out"
        return [Finding("LOAD_UNKNOWN", text, next_step="capture only on a server of your own")]
    busy = (running or 0) + (waiting or 0)
    if busy and (plan.stacks or plan.shapes_recorded):
        raise GateRefused(
            f"{busy} requests are in the server, and stacks or shapes would slow them down",
            where=plan.url,
            next_step="wait until it is idle, or capture without --stacks and --shapes",
        )
    if busy:
        text = "requests of others ran when the capture began; the trace holds their work too"
        return [Finding("OTHER_TRAFFIC", text, figure=busy, threshold=0, next_step="capture again on an idle server")]
    return []


def _server(plan: Plan) -> dict[str, Any]:
    """Model and server arguments as the server tells them, without secrets."""
    grammar = frameworks.grammar(plan.framework)
    if http.call(f"{plan.url}{grammar.health}").status != 200:
        raise InputUnusable(
            "the server does not answer its health route", where=plan.url, next_step="start it, or correct the address"
        )
    models = lifecycle.served_models(plan.url)
    facts = http.call(f"{plan.url}{grammar.facts_route}").json() if grammar.facts_route else None
    clean = jsonio.loads(redact.redact(jsonio.dumps(facts).decode())) if facts is not None else None
    return {"model": models[0] if models else None, "facts": clean}


def _written_to(plan: Plan, offer: Capabilities) -> Path | None:
    """The folder that the launch fixed; None where the start request names one.

    Raises:
        UsageFault: the launch fixed one that nobody told us.
    """
    place = offer.directory or plan.directory
    if place is None and frameworks.grammar(plan.framework).profile.request is None:
        raise UsageFault(
            "the server writes its traces to a folder of its launch, and that folder is not known",
            where=plan.url,
            next_step="name it with --run-directory, or give the record of `infer-forge engine start` with --record",
        )
    return Path(place) if place else None


def _warm_up(plan: Plan, server: dict[str, Any], workload: str) -> None:
    if plan.warmup <= 0:
        return
    load = Load(plan.url, server["model"], plan.shapes[workload], plan.warmup, plan.seed + 1)
    load.start(again=False)
    whole = load.join(plan.window_s)
    load.finish()
    if load.failed and not load.ok:
        raise InputUnusable(
            f"every warm-up request failed: {load.first_error}", where=plan.url, next_step="see the server's log"
        )
    if not whole:
        raise InputUnusable(
            f"the warm-up did not end within {plan.window_s:.0f} s",
            where=plan.url,
            next_step="give --window-s more, or see the server's log",
        )


def _over_http(plan: Plan, offer: Capabilities, server: dict[str, Any], workload: str) -> Taken:
    """One workload: warm up, start the profiler, load, stop, wait for the files."""
    shape = plan.shapes[workload]
    target = (plan.out / workload).absolute()
    target.mkdir(parents=True, exist_ok=True)
    folder = _written_to(plan, offer) or target
    taken = Taken(workload, shape)
    _warm_up(plan, server, workload)
    before = files.seen(folder, offer.patterns)
    load = Load(plan.url, server["model"], shape, plan.requests, plan.seed + (2 if workload == PREFILL else 3))
    wish = {
        "output_dir": str(target),
        "num_steps": plan.steps,
        "with_stack": plan.stacks,
        "record_shapes": plan.shapes_recorded,
        "profile_id": f"{workload}-{int(time.time())}",
    }
    jobs.progress(0, None, f"{workload}: profiling")
    with Watch(f"{plan.url}{frameworks.grammar(plan.framework).health}") as watch:
        ours = True
        try:
            if workload == DECODE:
                _lead_in(plan, load)
            begun = time.monotonic()
            taken.control.append(profile_control.start(offer, plan.url, wish))
            _drive(plan, load, workload)
            taken.profiled_s = time.monotonic() - begun
        except profile_control.ProfileRefused:
            ours = False  # somebody else's profile runs: it is not ours to stop
            raise
        finally:
            load.finish()
            taken.control += _stop(plan, offer) if ours else []
        _count(load, taken)
        taken.files = files.bring(files.wait_complete(folder, offer.patterns, before, plan.export_s), target)
        watch.settle(plan.export_s)
    taken.stall_s = watch.stall_s
    return taken


def _lead_in(plan: Plan, load: Load) -> None:
    """Decode: every request is past its prefill before the profiler starts."""
    load.start(again=True)
    if not load.wait_tokens(plan.requests * _DECODE_LEAD, plan.window_s):
        why = load.first_error or "no token came"
        raise InputUnusable(
            f"the decode load did not get going: {why}", where=plan.url, next_step="see the server's log"
        )


def _drive(plan: Plan, load: Load, workload: str) -> None:
    """Keep the load on until the wanted passes must have run, or the window is over."""
    if workload == DECODE:
        reached = load.wait_tokens(load.tokens + plan.steps * plan.requests, plan.window_s)
    else:
        load.start(again=True)
        reached = load.wait_tokens(plan.steps, plan.window_s)
    if not reached:
        why = load.first_error or "no token came"
        raise InputUnusable(
            f"{workload}: the passes did not run within {plan.window_s:.0f} s ({why})",
            where=plan.url,
            next_step="see the server's log",
        )


def _stop(plan: Plan, offer: Capabilities) -> list[dict[str, Any]]:
    """Stop the profiler and make sure of it; what was said is kept.

    Raises:
        InputUnusable: the server would not say that it is off.
    """
    said: list[dict[str, Any]] = []
    grammar = frameworks.grammar(plan.framework)
    for _ in range(_STOP_TRIES):
        said.append(profile_control.stop(offer, plan.url, timeout_s=plan.export_s))
        gone = said[-1]["stopped"] is None and http.call(f"{plan.url}{grammar.health}").status == 0
        if said[-1]["stopped"] or gone:
            return said  # an engine that is gone profiles no more
    raise InputUnusable(
        f"the profiler may still be on: stop_profile answered {said[-1]['answer']}",
        where=plan.url,
        next_step="restart the server before anything is measured on it",
    )


def _count(load: Load, taken: Taken) -> None:
    taken.requests_ok, taken.requests_failed, taken.tokens_seen = load.ok, load.failed, load.tokens
    taken.first_error = load.first_error
    taken.prompt_form = "text, about four characters a token" if load.as_text else "token ids"


def _from_launch(plan: Plan, offer: Capabilities, server: dict[str, Any]) -> Taken:
    """The launch named iterations and file: load the server until the file is whole."""
    workload = next(iter(plan.shapes))
    taken = Taken(workload, plan.shapes[workload])
    if not offer.directory:
        raise MissingPart("its launch names no trace file", where=plan.url, next_step=offer.next_step or None)
    traced = Path(offer.directory)
    load = Load(plan.url, server["model"], plan.shapes[workload], plan.requests, plan.seed + 2)
    patterns = (f"{traced.stem}*{traced.suffix}",) if traced.suffix else offer.patterns
    folder = traced.parent if traced.suffix else traced
    with Watch(f"{plan.url}{frameworks.grammar(plan.framework).health}") as watch:
        try:
            load.start(again=True)
            found = files.wait_complete(folder, patterns, {}, plan.export_s)
        finally:
            load.finish()
        _count(load, taken)
        taken.files = files.bring(found, plan.out / workload)
        watch.settle(plan.export_s)
    taken.stall_s = watch.stall_s
    return taken


def _from_run_directory(plan: Plan, offer: Capabilities) -> Taken:
    """Traces that the deployment itself left; no endpoint is invented (A116)."""
    workload = next(iter(plan.shapes))
    folder = Path(offer.directory or "")
    found = [p for p in files.seen(folder, offer.patterns) if files.ends_whole(p)]
    if not found:
        raise MissingPart(
            f"its run directory holds no whole trace ({', '.join(offer.patterns)})",
            where=str(folder),
            next_step="start it with its own profiler switched on, let it serve the workload, then capture again",
        )
    return Taken(workload, plan.shapes[workload], files.bring(found, plan.out / "run-directory"))


def _row(t: Taken) -> tuple[object, ...]:
    shape = (t.workload, t.shape.input_len, t.shape.output_len)
    return (*shape, t.requests_ok, t.requests_failed, t.tokens_seen, t.prompt_form, t.profiled_s, t.stall_s)


def _failures(t: Taken, plan: Plan) -> list[Finding]:
    """A request that fails is not sent again, so the passes that follow have a smaller batch than was asked for."""
    if not t.requests_failed:
        return []
    text = (
        f"{t.workload}: {t.requests_failed} requests failed under the profiler ({t.first_error}); "
        f"the batch is smaller than the {plan.requests} requests asked for"
    )
    step = "see the server's log, then capture again before the batch size of the trace is relied on"
    return [Finding("REQUESTS_FAILED", text, figure=t.requests_failed, threshold=0, next_step=step)]


def _without_work(t: Taken, seen: dict[str, bool]) -> list[Finding]:
    """A profile in which the GPU did nothing is none. One file of several may be of a process without a GPU."""
    if not t.files or any(seen[str(f)] for f in t.files):
        return []
    text = f"{t.workload}: no trace file holds device work, so nothing of the GPU was seen"
    step = "capture again with more --steps; if it stays so, see the server's log for what the profiler says of CUPTI"
    return [Finding("NO_DEVICE_WORK", text, "error", figure=0, threshold=1, next_step=step)]


def _report(
    plan: Plan, offer: Capabilities, server: dict[str, Any], taken: list[Taken], findings: list[Finding]
) -> Report:
    header = Header(inputs=[InputFile.of(f) for t in taken for f in t.files])
    header.capture = {
        "framework": plan.framework,
        "way": offer.way,
        "stacks": plan.stacks,
        "shapes": plan.shapes_recorded,
    }
    header.more = {"server": server, "plan": {"requests": plan.requests, "warmup": plan.warmup, "steps": plan.steps}}
    seen = {str(f): files.holds_device_work(f) for t in taken for f in t.files}
    found = [f for t in taken for f in (*_failures(t, plan), *_without_work(t, seen))]
    report = Report("capture", header, findings=[*findings, *found])
    columns = ["workload", "input_len", "output_len", "requests_ok", "requests_failed", "tokens_seen", "prompts"]
    report.add(Table("workloads", [*columns, "profiled_s", "stall_s"], [_row(t) for t in taken]))
    by_path = {i.path: i for i in header.inputs}
    rows = [
        (t.workload, f, by_path[f].size_bytes, by_path[f].sha256, seen[f]) for t in taken for f in map(str, t.files)
    ]
    report.add(Table("files", ["workload", "path", "size_bytes", "sha256", "device_work"], rows))
    report.extra = {"control": {t.workload: t.control for t in taken}, "note": offer.note}
    report.summary = [f"{t.workload}: {len(t.files)} trace file(s) in {t.files[0].parent}" for t in taken if t.files]
    report.summary += [f"the profiler is off; it was asked over {offer.way}"] if offer.way == HTTP else []
    report.next_step = f"infer-forge triage {plan.out}"
    jsonio.write_atomic(plan.out / "capture.json", jsonio.dumps(report.to_json()))
    return report
