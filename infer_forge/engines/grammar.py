"""The shapes in which a framework's file states its command line, client, log, health and profile control.

A framework is one file here (`sglang.py`, `vllm.py`, `trtllm.py`, `tokenspeed.py`): it exposes `GRAMMAR`. A further load
generator is one file that exposes `CLIENT`. Everything that acts on them (`command`, `lifecycle`, `help`, `server_facts`,
`profile_control`) reads these shapes and names no framework. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Argv = tuple[str, ...]


@dataclass(frozen=True)
class ClientPlan:
    """One run of a load generator against one server, in neutral words.

    Attributes:
        base_url: address of the server.
        model: name as served. tokenizer: its path or id (None: the model's).
        input_len, output_len: tokens per request. num_prompts: requests.
        concurrency: requests in flight at most (None: no bound). request_rate: requests per second (None: all at once).
        prompts_file: the view of the workload that this client reads (`bench workload`); None: it samples lengths itself.
        result: file that the client must write.
        endpoint: path of the API. seed, temperature, top_p, ignore_eos, warmups: as the contract says.
    """

    base_url: str
    model: str
    input_len: int
    output_len: int
    num_prompts: int
    result: str
    tokenizer: str | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    prompts_file: str | None = None
    endpoint: str = "/v1/completions"
    seed: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    ignore_eos: bool = True
    warmups: int = 1


@dataclass(frozen=True)
class Client:
    """A load generator: how it is called, which help describes it, and which prompt view it reads.

    `notes` say what makes its work equal to the others' (pitfalls of flags whose defaults differ).
    """

    name: str
    launch: Argv
    argv: Callable[[ClientPlan], list[str]]
    view: str
    version_argv: Argv = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """How torch profiles are taken from a running server.

    Attributes:
        control: `http` (the routes are there), `http_if_told` (only when the launch said where to write), `launch_env`
            (the environment of the launch names iterations and file), `run_directory` (files of its own deployment).
        start_route, stop_route: POST routes.
        directory_variable: environment variable of the folder, where there is one.
        launch_flags: flags of the launch that switch it on, given the folder.
        launch_env: variables of the launch, given folder or file and the iteration range.
        request: body of the start request, given folder, steps, stages, stacks, shapes and id; None where it takes none.
        by_stage: whether it separates prefill and decode itself.
        counts_steps: whether it stops by itself after a number of steps.
        patterns: names of the files it writes.
        note: what goes wrong with it.
    """

    control: str
    start_route: str | None = None
    stop_route: str | None = None
    directory_variable: str | None = None
    launch_flags: Callable[[str], list[str]] | None = None
    launch_env: Callable[[str, int, int], dict[str, str]] | None = None
    request: Callable[[Mapping[str, object]], dict[str, object] | None] | None = None
    by_stage: bool = False
    counts_steps: bool = False
    patterns: tuple[str, ...] = ("*.trace.json.gz", "*.trace.json")
    note: str = ""


@dataclass(frozen=True)
class Log:
    """How its log is known and read.

    Attributes:
        signatures: regular expressions, any of which proves that the log is this framework's.
        facts: neutral name -> expression whose group `value` is the fact.
        states: neutral name -> (expression, value) for facts that a whole line states.
        fallbacks: expressions of lines that tell of another path than the wanted one.
        failures: kind (`oom`, `port_in_use`, `crash`, `missing_part`, `bad_config`) -> expressions.
        periodic: words of lines that come all the time and state none of these: they are passed over.
        ready: expressions of the line that says it serves.
        arguments: expressions whose group `value` holds printed server arguments, each with how they are printed
            (`repr`: `key=value, ..`; `dict`: a Python literal). The first that states a name counts.
    """

    signatures: tuple[str, ...]
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    states: Mapping[str, tuple[tuple[str, object], ...]] = field(
        default_factory=dict[str, tuple[tuple[str, object], ...]]
    )
    fallbacks: tuple[str, ...] = ()
    failures: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    ready: tuple[str, ...] = ()
    periodic: tuple[str, ...] = ('"POST /', '"GET /')
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Grammar:
    """Everything about running one framework.

    Attributes:
        name: canonical name (A38). aliases: other spellings, normalised with a note.
        launches: allowed command shapes, the first is the default (A58). A word `python` stands for any Python.
        model_flag: flag before the model; None when it is the first word after the launch.
        fixed: words that every launch carries.
        options: neutral name -> flag with a value. switches: neutral name -> (flag when true, flag when false).
        arguments: name in printed or saved server arguments -> neutral name; `!name` negates a truth value.
        help_argv: how to ask each launch for its help, appended. version_argv: whole command that prints the version.
        packages: distributions whose versions make up the environment.
        health: GET route that answers 200 when ready. facts_route: GET route that tells the server's arguments.
        flush_route: POST route that empties the prefix cache.
        metrics: what the names of its metrics begin with. Its name is the owner of the models that it lists.
        environment: prefixes of variables that configure it.
        client: its own load generator.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    launches: tuple[Argv, ...]
    model_flag: str | None
    options: Mapping[str, str]
    switches: Mapping[str, tuple[str | None, str | None]]
    arguments: Mapping[str, str]
    help_argv: Argv
    version_argv: Argv
    packages: tuple[str, ...]
    environment: tuple[str, ...]
    client: Client
    profile: Profile
    log: Log
    fixed: Argv = ()
    health: str = "/health"
    facts_route: str | None = None
    flush_route: str | None = None
    metrics: str = ""
    verified_aliases: tuple[Argv, ...] = ()


def family_argv(plan: ClientPlan, *, ratio: str = "0.0", extra: tuple[str, ...] = ()) -> list[str]:
    """Flags that `vllm bench serve` and its relatives share; a range ratio of 0 means exactly the asked length to them."""
    chat = "chat" in plan.endpoint
    words = ["--backend", "openai-chat" if chat else "openai", "--base-url", plan.base_url, "--endpoint", plan.endpoint]
    words += ["--model", plan.model]
    if plan.tokenizer:
        words += ["--tokenizer", plan.tokenizer]
    if plan.prompts_file:
        words += ["--dataset-name", "custom", "--dataset-path", plan.prompts_file]
    else:
        words += ["--dataset-name", "random", "--random-input-len", str(plan.input_len)]
        words += ["--random-output-len", str(plan.output_len), "--random-range-ratio", ratio]
    words += ["--num-prompts", str(plan.num_prompts), "--seed", str(plan.seed)]
    words += ["--request-rate", "inf" if plan.request_rate is None else f"{plan.request_rate:g}"]
    if plan.concurrency is not None:
        words += ["--max-concurrency", str(plan.concurrency)]
    if plan.ignore_eos:
        words.append("--ignore-eos")
    words += ["--temperature", f"{plan.temperature:g}", "--top-p", f"{plan.top_p:g}"]
    words += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99"]
    return [*words, *extra, "--save-result", "--save-detailed"]
