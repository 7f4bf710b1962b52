"""A search configuration: which engines, their base commands, what is varied, and the budget. YAML, checked whole.

Candidates come in a fixed order, so that a search can be resumed: the base first, then each named candidate, then each
parameter alone away from the base, then the rest of the grid; duplicates and excluded combinations drop out. The budget
cuts the end of the list, never the middle.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from infer_forge.base import contracts, jsonio, yamlio
from infer_forge.base.contract_model import SloLayer, WorkloadGrid
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.engines import command, frameworks

SCHEMA = "infer-forge/search/1"
_GRID_CAP = 4096


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Named(_Strict):
    """A candidate that is written out: what it changes from the base."""

    name: str = Field(min_length=1)
    set: dict[str, Any] = Field(default_factory=dict)
    flags: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    why: str | None = None


class EngineSearch(_Strict):
    """One framework: its base command in neutral names, and what is searched.

    `search` maps a neutral option (or a flag of its own, beginning with `-`) to the values to try.
    """

    framework: str
    shape: int = Field(default=0, ge=0)
    base: dict[str, Any] = Field(default_factory=dict)
    flags: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    search: dict[str, list[Any]] = Field(default_factory=dict)
    candidates: list[Named] = Field(default_factory=list[Named])
    exclude: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    place: str = "local"
    url: str | None = Field(None, description="where it answers, e.g. http://gpu7:{port}, when not at its place's host")
    python: str = "python3"
    unsupported: str | None = Field(
        None, description="why this framework cannot be searched here; then it is recorded, not run"
    )

    @model_validator(mode="after")
    def _check(self) -> EngineSearch:
        self.framework = frameworks.canonical(self.framework)
        if self.shape >= len(frameworks.GRAMMARS[self.framework].launches):
            raise ValueError(f"{self.framework} has {len(frameworks.GRAMMARS[self.framework].launches)} launch shapes")
        for name, values in self.search.items():
            if not values:
                raise ValueError(f"{name} has no values to try")
        size = 1
        for values in self.search.values():
            size *= len(values)
        if size > _GRID_CAP:
            raise ValueError(f"a grid of {size} candidates is no bounded search (at most {_GRID_CAP})")
        return self

    def address(self, argv: list[str]) -> str | None:
        """Where a launch of it answers, if the configuration says so."""
        return self.url.replace("{port}", str(command.check_shape(argv).port)) if self.url else None


class SearchBudget(_Strict):
    """What one framework may spend: launches and minutes. The same for all."""

    runs: int = Field(default=12, ge=2)
    minutes: float = Field(default=240, gt=0)
    start_timeout_s: float = Field(default=1800, gt=0)
    run_timeout_s: float = Field(default=3600, gt=0)


class GpuWish(_Strict):
    """The hardware that the configuration is for."""

    vendor: Literal["nvidia", "amd"] = "nvidia"
    model: str
    count: int = Field(ge=1)
    interconnect: str | None = None


class SearchConfig(_Strict):
    """One search over the engines of a comparison, on one model, one machine and one workload."""

    schema_id: Literal["infer-forge/search/1"] = Field(SCHEMA, alias="schema")
    name: str = Field(min_length=1)
    about: str | None = None
    checked: str | None = Field(None, description="when and how the flags were last checked")
    sources: list[str] = Field(default_factory=list)
    model: str
    model_dir: str | None = Field(
        None, description="local folder of the model, for its fingerprint, when `model` is an id"
    )
    tokenizer: str | None = None
    served_model_name: str | None = None
    precision: str
    quantization: str = "none"
    max_context: int | None = Field(default=None, gt=0)
    trust_remote_code: bool = False
    gpu: GpuWish
    architecture: str = "colocated_pd"
    tp: int = Field(default=1, ge=1)
    pp: int = Field(default=1, ge=1)
    dp: int = Field(default=1, ge=1)
    ep: int = Field(default=1, ge=1)
    client: str = "vllm bench serve"
    endpoint: str = "/v1/completions"
    grid: WorkloadGrid
    sla: SloLayer = Field(default_factory=SloLayer)
    seeds: list[int] = Field(default_factory=lambda: [1], min_length=1)
    budget: SearchBudget = Field(default_factory=SearchBudget)
    engines: list[EngineSearch] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> SearchConfig:
        names = [e.framework for e in self.engines]
        if len(set(names)) != len(names):
            raise ValueError("a framework is listed twice")
        frameworks.client(self.client)
        if self.tp * self.pp > self.gpu.count:
            raise ValueError(f"tp {self.tp} x pp {self.pp} needs more than {self.gpu.count} GPUs")
        return self

    def engine(self, framework: str) -> EngineSearch:
        """The part of one framework. Raises `UsageFault`."""
        for entry in self.engines:
            if entry.framework == frameworks.canonical(framework):
                return entry
        raise UsageFault(
            f"{framework} is not in this configuration",
            next_step=f"it has {', '.join(e.framework for e in self.engines)}",
        )


class Candidate(_Strict):
    """One launch configuration: neutral options, further words, variables; `is_base` for the first one."""

    framework: str
    name: str
    options: dict[str, Any]
    flags: list[str]
    env: dict[str, str]
    is_base: bool = False

    @property
    def id(self) -> str:
        """Framework and hash of what it is, so that the same candidate has the same id in every process."""
        return f"{self.framework}-{jsonio.sha256_of(contracts.normal([self.options, self.flags, self.env]))[:10]}"

    def command(self, config: SearchConfig, port: int) -> list[str]:
        """The exact launch command on a port."""
        entry = config.engine(self.framework)
        grammar = frameworks.GRAMMARS[self.framework]
        options: dict[str, Any] = {"port": port}
        if config.served_model_name and "served_model_name" in grammar.options:
            options["served_model_name"] = config.served_model_name
        if config.trust_remote_code:
            options["trust_remote_code"] = True
        return command.server_command(
            self.framework,
            config.model,
            {**options, **self.options},
            extra=self.flags,
            launch=entry.shape,
            python=entry.python,
        )


def load_config(path: str | Path) -> SearchConfig:
    """Read and check a configuration. Raises `InputUnusable` naming each bad field."""
    return config_of(yamlio.read_yaml(path), where=str(path))


def config_of(raw: Any, *, where: str = "search configuration") -> SearchConfig:
    """Check a configuration. Every candidate's command is built, so that a bad option is found before anything starts.

    Raises:
        InputUnusable: a field or option is wrong.
    """
    try:
        config = SearchConfig.model_validate(raw)
        for entry in config.engines:
            for candidate in candidates(config, entry.framework):
                command.check_shape(candidate.command(config, 1))
    except ValidationError as fault:
        first = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'configuration'}: {e['msg']}" for e in fault.errors()[:5])
        raise InputUnusable(first, where=where, next_step="correct these fields") from None
    except UsageFault as fault:
        raise InputUnusable(fault.what, where=where, next_step=fault.next_step) from None
    return config


def _base(config: SearchConfig, entry: EngineSearch) -> dict[str, Any]:
    """Parallel sizes and context of the comparison, where the framework has such an option, then its own base."""
    grammar = frameworks.GRAMMARS[entry.framework]
    shared: dict[str, Any] = {"tp": config.tp, "pp": config.pp, "dp": config.dp, "ep": config.ep}
    options = {k: v for k, v in shared.items() if k in grammar.options and (v > 1 or k == "tp")}
    if config.max_context and "max_model_len" in grammar.options:
        options["max_model_len"] = config.max_context
    return {**options, **entry.base}


def candidates(config: SearchConfig, framework: str) -> list[Candidate]:
    """Every candidate of a framework, in the order in which they are tried."""
    entry = config.engine(framework)
    base = _base(config, entry)
    made: list[Candidate] = [_candidate(entry, "base", base, {}, is_base=True)]
    for named in entry.candidates:
        own, words = _split(named.set)
        made.append(
            Candidate(
                framework=entry.framework,
                name=named.name,
                options={**base, **own},
                flags=[*entry.flags, *words, *named.flags],
                env={**entry.env, **named.env},
            )
        )
    for name, values in entry.search.items():
        made += [_candidate(entry, f"{name}={_short(v)}", base, {name: v}) for v in values]
    names = list(entry.search)
    for combination in itertools.product(*entry.search.values()):
        chosen = dict(zip(names, combination, strict=True))
        made.append(_candidate(entry, ",".join(f"{k}={_short(v)}" for k, v in chosen.items()) or "base", base, chosen))
    seen: dict[str, Candidate] = {}
    for candidate in made:
        if candidate.is_base or not _excluded(entry, candidate):
            seen.setdefault(candidate.id, candidate)
    return list(seen.values())


def _short(value: Any) -> str:
    return jsonio.canonical(value).decode()[:40] if isinstance(value, (dict, list)) else str(value)


def _split(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(neutral options, words of the framework's own spelling). A value of true is a bare flag, false leaves it out."""
    options: dict[str, Any] = {}
    words: list[str] = []
    for name, value in values.items():
        if not name.startswith("-"):
            options[name] = value
        elif value is True:
            words.append(name)
        elif value is not False and value is not None:
            words += [name, jsonio.canonical(value).decode() if isinstance(value, (dict, list)) else str(value)]
    return options, words


def _candidate(
    entry: EngineSearch, name: str, base: Mapping[str, Any], chosen: Mapping[str, Any], *, is_base: bool = False
) -> Candidate:
    own, words = _split(chosen)
    return Candidate(
        framework=entry.framework,
        name=name,
        options={**base, **own},
        flags=[*entry.flags, *words],
        env=dict(entry.env),
        is_base=is_base,
    )


def _excluded(entry: EngineSearch, candidate: Candidate) -> bool:
    def holds(name: str, value: Any) -> bool:
        if not name.startswith("-"):
            return candidate.options.get(name) == value
        if value is True:
            return name in candidate.flags
        return any(a == name and b == str(value) for a, b in itertools.pairwise(candidate.flags))

    return any(all(holds(k, v) for k, v in rule.items()) for rule in entry.exclude)


def draft_contract(config: SearchConfig, **changes: Any) -> dict[str, Any]:
    """The benchmark contract that this configuration suggests, to be completed and locked."""
    grid = config.grid.model_dump(mode="json")
    draft: dict[str, Any] = {
        "name": config.name,
        "target": "sglang" if any(e.framework == "sglang" for e in config.engines) else config.engines[0].framework,
        "point": {
            "model": {
                "id": config.model,
                "tokenizer": config.tokenizer or config.model,
                "precision": config.precision,
                "quantization": config.quantization,
                "max_context": config.max_context,
                "trust_remote_code": config.trust_remote_code,
            },
            "serving_scenario": {
                "modality": "text",
                "traffic_shape": "+".join(s.name for s in config.grid.scenarios),
                "slo": config.sla.model_dump(mode="json"),
            },
            "serving_topology": {
                "architecture": config.architecture,
                "tp": config.tp,
                "pp": config.pp,
                "dp": config.dp,
                "ep": config.ep,
            },
            "accelerator_platform": {
                "vendor": config.gpu.vendor,
                "gpu_model": config.gpu.model,
                "gpu_count": config.gpu.count,
                "interconnect": config.gpu.interconnect,
            },
        },
        "varies": ["runtime_profile"],
        "grid": grid,
        "sla": config.sla.model_dump(mode="json"),
        "client": {"name": frameworks.client(config.client).name, "endpoint": config.endpoint},
        "seeds": config.seeds,
        "engines": [
            {"framework": e.framework, "max_runs": config.budget.runs, "max_minutes": config.budget.minutes}
            for e in config.engines
            if e.unsupported is None
        ],
    }
    return cast("dict[str, Any]", contracts.normal({**draft, **changes}))
