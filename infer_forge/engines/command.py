"""Exact command lines of servers and load generators, and the shapes that are allowed (A58, A62, A63)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.engines import frameworks
from infer_forge.engines.grammar import Argv, ClientPlan, Grammar

_PYTHON = re.compile(r"^python(3(\.\d+)?)?$")
_NUMBER = re.compile(r"^-\d")


@dataclass(frozen=True)
class Shape:
    """A launch command whose shape is allowed.

    Attributes:
        framework: canonical name. launch: the allowed shape that it has.
        alias: whether that shape is an alias, to be verified by its help (A58).
        model: the model it serves; None when it names none.
        words: what follows the launch words.
        port: the port that it names.
    """

    framework: str
    launch: Argv
    alias: bool
    model: str | None
    words: tuple[str, ...]
    port: int | None


def server_command(
    framework: str,
    model: str,
    options: Mapping[str, Any] | None = None,
    *,
    extra: Sequence[str] = (),
    launch: int = 0,
    python: str = "python3",
) -> list[str]:
    """The launch command of a framework from neutral option names (`tp`, `max_model_len`, `prefix_cache`, ...).

    Args:
        options: neutral name -> value; truth values for switches. `None` is left out.
        extra: words in the framework's own spelling, appended as they are.
        launch: which of the allowed shapes.
        python: the interpreter where the shape starts with one.

    Raises:
        UsageFault: an option that this framework does not know under that name.
    """
    grammar = frameworks.grammar(framework)
    words = [python if w == "python" else w for w in grammar.launches[launch]]
    words += [grammar.model_flag, model] if grammar.model_flag else [model]
    words += grammar.fixed
    for name, value in (options or {}).items():
        words += _option(grammar, name, value)
    return [*words, *extra]


def _option(grammar: Grammar, name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if name in grammar.switches:
        if not isinstance(value, bool):
            raise UsageFault(f"{name} is a switch: true or false, not {value!r}")
        flag = grammar.switches[name][0 if value else 1]
        return [flag] if flag else []
    if name not in grammar.options:
        known = ", ".join(sorted([*grammar.options, *grammar.switches]))
        raise UsageFault(
            f"{grammar.title} has no option {name!r} here",
            next_step=f"known: {known}; others go behind -- in its own spelling",
        )
    flag = grammar.options[name]
    if isinstance(value, (dict, list)):
        from infer_forge.base import jsonio

        return [flag, jsonio.canonical(value).decode()]
    return [flag, str(value)]


def client_command(client: str, plan: ClientPlan, *, python: str = "python3") -> list[str]:
    """The command of a load generator with the flags that make the work equal. Raises `UsageFault` for an unknown one."""
    known = frameworks.client(client)
    return [*(python if w == "python" else w for w in known.launch), *known.argv(plan)]


def check_shape(argv: Sequence[str]) -> Shape:
    """The shape of a launch command, if it is an allowed one.

    Raises:
        GateRefused: another program, a wrapper or shell, or TensorRT-LLM with another backend than PyTorch.
    """
    if not argv:
        raise UsageFault("there is no command")
    for grammar in frameworks.GRAMMARS.values():
        for alias, launches in ((False, grammar.launches), (True, grammar.verified_aliases)):
            for launch in launches:
                taken = _starts(argv, launch)
                if taken:
                    return _shape(grammar, launch, alias, tuple(argv[taken:]))
    allowed = "; ".join(" ".join((*g.launches[0], *g.fixed)) for g in frameworks.GRAMMARS.values())
    raise GateRefused(
        f"this is no allowed launch command: {' '.join(argv[:4])}",
        next_step=f"allowed: {allowed}; variables go into --env, places into --place",
    )


def _starts(argv: Sequence[str], launch: Argv) -> int:
    """How many words of the command make up the launch; 0 when it is another. Python's own switches may stand between."""
    first = argv[0].rsplit("/", 1)[-1]
    taken = 1
    if launch[0] == "python":
        if not _PYTHON.match(first):
            return 0
        while taken < len(argv) and argv[taken] in ("-S", "-u", "-O", "-B"):
            taken += 1
    elif first != launch[0]:
        return 0
    end = taken + len(launch) - 1
    return end if tuple(argv[taken:end]) == launch[1:] else 0


def _shape(grammar: Grammar, launch: Argv, alias: bool, words: tuple[str, ...]) -> Shape:
    if grammar.name == "tensorrt_llm":
        _pytorch_only(words)
    flags = {grammar.model_flag} if grammar.model_flag else {"--model"}
    if grammar.model_flag == "--model-path":
        flags.add("--model")
    model = _value(words, flags)
    if model is None and grammar.model_flag is None and words and not words[0].startswith("-"):
        model = words[0]
    port = _value(words, {grammar.options["port"]})
    return Shape(grammar.name, launch, alias, model, words, int(port) if port and port.isdigit() else None)


def _value(words: Sequence[str], flags: set[str]) -> str | None:
    """The last value given to any of these flags."""
    found = None
    for index, word in enumerate(words):
        name, equals, inline = word.partition("=")
        if name in flags:
            found = inline if equals else (words[index + 1] if index + 1 < len(words) else None)
    return found


def _pytorch_only(words: Sequence[str]) -> None:
    stated: list[str] = []
    for index, word in enumerate(words):
        name, equals, inline = word.partition("=")
        if name == "--backend":
            stated.append(inline if equals else (words[index + 1] if index + 1 < len(words) else ""))
        if name in ("--extra_llm_api_options", "--config"):
            path = inline if equals else (words[index + 1] if index + 1 < len(words) else "")
            stated += _backend_of_file(path)
    if not stated or any(b != "pytorch" for b in stated):
        raise GateRefused(
            f"TensorRT-LLM runs on its PyTorch backend only, this asks for {', '.join(stated) or 'its default'}",
            next_step="state --backend pytorch; another backend is unsupported and is never translated",
        )


def _backend_of_file(path: str) -> list[str]:
    from infer_forge.base import yamlio

    try:
        content: Any = yamlio.read_yaml(path)
    except InputUnusable:
        return []  # the file is in another place; the server's log says which backend it took
    backend = cast("dict[str, Any]", content).get("backend") if isinstance(content, dict) else None
    return [str(backend)] if backend is not None else []


def flags_of(words: Sequence[str]) -> list[str]:
    """The flags among the words, without values: `--a=b` is `--a`, `--x.y` is `--x`, `-O3` is `-O`; each once, in order."""
    found: dict[str, None] = {}
    for word in words:
        if word == "--":
            break
        if not word.startswith("-") or word == "-" or _NUMBER.match(word):
            continue
        name = word.partition("=")[0]
        if name.startswith("--"):
            name = name.split(".")[0]
        elif len(name) > 2 and name[2:].isdigit():
            name = name[:2]
        found.setdefault(name)
    return list(found)
