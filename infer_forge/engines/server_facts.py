"""What a running server says of itself: facts from its log or its saved arguments, with the line that shows each.

A log is read with the expressions of the framework that it proves to be of, never with another's: a log that nobody
knows is refused, since another engine's words would make up figures. Standard library (YAML only for a YAML file).
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite
from infer_forge.engines import frameworks
from infer_forge.engines.grammar import Grammar

DIFFUSERS_FALLBACK = ("Falling back to diffusers backend", "Using diffusers backend", "Loaded diffusers pipeline")
"""Log strings of SGLang's image and video engine that mean: the numbers are diffusers', not the engine's (C24)."""

GATED = (
    "model",
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "cuda_graph",
    "diffusers_fallback",
)
"""Facts whose change makes a profile and a benchmark speak of different things (C23, C24)."""

_MAX_LOG_BYTES = 32 << 20
_MAX_LINE = 1 << 16
_PAIR = re.compile(
    r"(\w+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|None|True|False|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[A-Za-z][\w.]*)(?=[,)\s]|$)"
)


@dataclass(frozen=True)
class Fact:
    """One fact: its neutral name, value, and the evidence (text and 1-based line number; None for an arguments file)."""

    name: str
    value: Any
    evidence: str
    line: int | None = None


@dataclass
class ServerFacts:
    """All that a log or an arguments file told.

    Attributes:
        framework: canonical name.
        source: the file.
        facts: neutral name -> the last word on it (the log's own statement outranks the arguments it printed).
        asked: neutral name -> what the printed arguments asked for, where a later line says something else.
        fallbacks: lines that tell of another path than the wanted one.
        failures: (kind, line) in order.
        ready: whether it said that it serves; None for an arguments file.
    """

    framework: str
    source: str
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])
    asked: dict[str, Fact] = field(default_factory=dict[str, Fact])
    fallbacks: list[Fact] = field(default_factory=list[Fact])
    failures: list[Fact] = field(default_factory=list[Fact])
    ready: bool | None = None

    def value(self, name: str) -> Any:
        """A fact's value; None when it was not told."""
        fact = self.facts.get(name)
        return fact.value if fact else None

    def to_json(self) -> dict[str, Any]:
        """All of it, with evidence."""

        def one(fact: Fact) -> dict[str, Any]:
            return {"value": fact.value, "evidence": fact.evidence, "line": fact.line}

        return {
            "framework": self.framework,
            "source": self.source,
            "ready": self.ready,
            "facts": {n: one(f) for n, f in self.facts.items()},
            "asked": {n: one(f) for n, f in self.asked.items()},
            "fallbacks": [one(f) for f in self.fallbacks],
            "failures": [{"kind": f.name, **one(f)} for f in self.failures],
        }


@dataclass(frozen=True)
class Mismatch:
    """A fact in which the server differs from what was expected, with the offending line.

    `state`: `differs`, `fallback` (it left the wanted path), or `unknown` (the server did not say).
    """

    name: str
    expected: Any
    found: Any
    evidence: str
    line: int | None
    state: str


def framework_of_log(text: str, *, where: str = "log") -> str:
    """Which framework wrote a log, by its own signatures. Raises `InputUnusable` when none or several fit equally."""
    scores = {
        name: sum(len(re.findall(pattern, text[: 8 << 20])) for pattern in grammar.log.signatures)
        for name, grammar in frameworks.GRAMMARS.items()
    }
    best = max(scores, key=lambda n: scores[n])
    if not scores[best]:
        raise InputUnusable(
            "is no server log of a known framework", where=where, next_step=f"known: {', '.join(scores)}"
        )
    if sum(1 for s in scores.values() if s == scores[best]) > 1:
        raise InputUnusable("could be the log of several frameworks", where=where, next_step="name it with --framework")
    return best


def read_log(path: str | Path, framework: str | None = None) -> ServerFacts:
    """Read a server log. Raises `InputUnusable` when it cannot be read or is of no known framework."""
    try:
        text = _both_ends(finite(path))
    except OSError as fault:
        raise InputUnusable(fault.strerror or str(fault), where=str(path)) from None
    return facts_of_log(text, framework, where=str(path))


def _both_ends(path: Path) -> str:
    """A log's text; of a very large one its start and its end, with as many empty lines between as were left out."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_MAX_LOG_BYTES)
        left_out = 0
        tail = b""
        if size > 2 * _MAX_LOG_BYTES:
            while file.tell() < size - _MAX_LOG_BYTES and (block := file.read(1 << 20)):
                left_out += block.count(b"\n")
        if size > _MAX_LOG_BYTES:
            tail = file.read()
    return (head + b"\n" * left_out + tail).decode("utf-8", "replace")


def facts_of_log(text: str, framework: str | None = None, *, where: str = "log") -> ServerFacts:
    """The facts of a log's text. Raises `InputUnusable` when no known framework wrote it."""
    name = frameworks.canonical(framework) if framework else framework_of_log(text, where=where)
    grammar = frameworks.GRAMMARS[name]
    found = ServerFacts(name, where, ready=False)
    log = grammar.log
    facts = {n: re.compile(p) for n, p in log.facts.items()}
    states = [(n, re.compile(p), v) for n, pairs in log.states.items() for p, v in pairs]
    fallbacks = re.compile("|".join(log.fallbacks)) if log.fallbacks else None
    failures = [(k, re.compile("|".join(p))) for k, p in log.failures.items()]
    ready = re.compile("|".join(log.ready))
    failed = [p for patterns in log.failures.values() for p in patterns]
    words = [*log.facts.values(), *(p for _, p, _ in states), *log.fallbacks, *failed, *log.ready, *DIFFUSERS_FALLBACK]
    any_word = re.compile("|".join(re.sub(r"\?P<\w+>", "", w if isinstance(w, str) else w.pattern) for w in words))
    printed = [(re.compile(p), form) for p, form in log.arguments]
    for number, whole in enumerate(text.splitlines(), 1):
        if any(word in whole for word in log.periodic):
            continue
        line = whole[:_MAX_LINE]
        shown = line.strip()[:400]
        shown_args = next(((m, form) for p, form in printed if (m := p.search(line))), None)
        if shown_args:
            _take_printed(found, grammar, shown_args[0].group("value"), shown_args[1], shown, number)
            continue
        if not any_word.search(line):
            continue
        for fact, pattern in facts.items():
            if match := pattern.search(line):
                _state(found, fact, _number(match.group("value")), shown, number)
        for fact, pattern, value in states:
            if pattern.search(line):
                _state(found, fact, value, shown, number)
        if fallbacks and fallbacks.search(line):
            found.fallbacks.append(Fact("fallback", shown, shown, number))
        if any(s in line for s in DIFFUSERS_FALLBACK):
            _state(found, "diffusers_fallback", True, shown, number)
        for kind, pattern in failures:
            if pattern.search(line):
                found.failures.append(Fact(kind, shown, shown, number))
        found.ready = found.ready or bool(ready.search(line))
    return found


def _number(text: str) -> Any:
    bare = text.replace(",", "")
    return int(bare) if bare.isdecimal() else text.rstrip(".")


def _state(found: ServerFacts, name: str, value: Any, line: str, number: int) -> None:
    """What the running server says outranks what it was asked for; both are kept."""
    before = found.facts.get(name)
    if before is not None and before.value != value and name not in found.asked:
        found.asked[name] = before
    found.facts[name] = Fact(name, value, line, number)


def _take_printed(found: ServerFacts, grammar: Grammar, text: str, form: str, line: str, number: int) -> None:
    raw: dict[str, Any] = {}
    if form == "dict":
        value = _literal(text)
        if isinstance(value, dict):
            raw = {str(k): v for k, v in cast("dict[Any, Any]", value).items()}
    else:
        for key, word in _PAIR.findall(text):
            bare = word[0].isalpha() and word not in ("None", "True", "False")
            raw[key] = word.removeprefix("torch.") if bare else _literal(word)
    for name, value in _neutral(grammar, raw).items():
        if name not in found.facts:
            found.facts[name] = Fact(name, value, f"{line[:80]}.. {name}={value!r}", number)


def _literal(text: str) -> Any:
    """The value of a Python literal; None for anything else (a damaged line states nothing)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a stray backslash in a path is no concern of ours
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _neutral(grammar: Grammar, raw: Mapping[str, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for key, value in raw.items():
        name = grammar.arguments.get(key)
        if name is None or value is None:
            continue
        if name.startswith("!"):
            if isinstance(value, bool):
                named[name[1:]] = not value
        else:
            named[name] = value
    return named


def read_args(path: str | Path, framework: str | None = None) -> ServerFacts:
    """Read saved server arguments: JSON (SGLang's server_args.json or /get_server_info, vLLM's, ours) or YAML.

    Raises:
        InputUnusable: it is no such file, or its framework cannot be told.
    """
    where = str(path)
    try:
        text = finite(path).read_text(encoding="utf-8", errors="replace")
    except OSError as fault:
        raise InputUnusable(fault.strerror or str(fault), where=where) from None
    try:
        raw: Any = json.loads(text)
    except RecursionError:
        raw = None  # nested beyond sense
    except ValueError:
        raw = _yaml(text)
    if not isinstance(raw, dict):
        raise InputUnusable("holds no server arguments", where=where, next_step="give a JSON or YAML object")
    return facts_of_args(cast("dict[str, Any]", raw), framework, where=where)


def _yaml(text: str) -> Any:
    from infer_forge.base import yamlio

    try:
        return yamlio.parse(text, where="server arguments")
    except InputUnusable:
        return None


def facts_of_args(
    raw: Mapping[str, Any], framework: str | None = None, *, where: str = "server arguments"
) -> ServerFacts:
    """The facts of server arguments. The framework is the one named, stated, or whose argument names fit best.

    Raises:
        InputUnusable: no framework fits.
    """
    told = framework or (raw.get("framework") if isinstance(raw.get("framework"), str) else None)
    inner = raw.get("server_args")
    data = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else raw
    if told:
        name = frameworks.canonical(str(told))
    else:
        scores = {n: sum(k in g.arguments for k in data) for n, g in frameworks.GRAMMARS.items()}
        name = max(scores, key=lambda n: scores[n])
        rivals = [n for n in scores if scores[n] == scores[name]]
        if scores[name] < 2 or len(rivals) > 1:
            raise InputUnusable(
                "the framework of these arguments cannot be told", where=where, next_step="name it with --framework"
            )
    found = ServerFacts(name, where)
    for fact, value in _neutral(frameworks.GRAMMARS[name], data).items():
        found.facts[fact] = Fact(fact, value, f"{fact}={value!r}")
    return found


def compare(
    found: ServerFacts, expected: ServerFacts | Mapping[str, Any], names: Iterable[str] = GATED
) -> list[Mismatch]:
    """Where a server differs from what was expected (another server's facts, or neutral name -> value).

    A fallback line and a diffusers fallback count even where nothing was expected. Facts that only one side tells are
    `unknown`.
    """
    wanted = {n: f.value for n, f in expected.facts.items()} if isinstance(expected, ServerFacts) else dict(expected)
    result: list[Mismatch] = []
    for name in names:
        fact, want = found.facts.get(name), wanted.get(name)
        if name == "diffusers_fallback":
            if fact is not None and fact.value and not want:
                result.append(Mismatch(name, False, True, fact.evidence, fact.line, "fallback"))
            continue
        if want is None:
            continue
        if fact is None:
            result.append(Mismatch(name, want, None, "the server does not say", None, "unknown"))
        elif _same(fact.value) != _same(want):
            result.append(Mismatch(name, want, fact.value, fact.evidence, fact.line, "differs"))
    seen = {m.line for m in result if m.line is not None}
    accepted = {_words(f.value) for f in expected.fallbacks} if isinstance(expected, ServerFacts) else set[str]()
    result.extend(
        Mismatch("fallback", "the wanted path", "another path", fact.evidence, fact.line, "fallback")
        for fact in found.fallbacks
        if fact.line not in seen and _words(fact.value) not in accepted
    )
    return result


def _words(line: Any) -> str:
    """A log line without its time stamp and process ids, so that two runs' lines compare."""
    return re.sub(r"\d+", "0", str(line).rpartition("] ")[2])


def _same(value: Any) -> Any:
    return value.lower().replace("-", "_").replace("flashattention", "flash_attn") if isinstance(value, str) else value
