"""A shell text becomes the simple commands that it would run, with words expanded as far as they can be known.

`walk` keeps what a shell keeps (variables, working folder, functions, aliases, standard input) and marks what it
cannot know. Wrappers and nested code are opened by `unwrap`. Nothing is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infer_forge.guard import words as quoting
from infer_forge.guard.grammar import parse
from infer_forge.guard.model import HERE, Cmd, Place, Source, Word

if TYPE_CHECKING:
    from infer_forge.guard.walk import Walk

Fields = list[Word]
MAX_DEPTH = 8
"""Wrappers and nested shells inside each other; deeper is answered with ask."""
MAX_NESTING = 60
MAX_NODES = 6000
MAX_COMMANDS = 400
MAX_PIECES = 600
"""Quoted and unquoted pieces of one word, or words of one command."""
MAX_ALTERNATIVES = 8
MAX_COMBINED = 32
"""Values of a loop, of glued words, and spellings of one command."""
MAX_BYTES = 64 * 1024
"""Longer texts are parsed as far as `MAX_PARSED` and answered with ask at least."""
MAX_PARSED = 256 * 1024
MAX_QUOTES = 4000
"""A long text with more quotes is not parsed: one word of many pieces costs the parser more than the hook has."""


class Problem:
    """Something that could not be read or followed: at least ask."""

    __slots__ = ("span", "tokens", "why")

    def __init__(self, why: str, span: tuple[int, int], tokens: tuple[str, ...] = ()) -> None:
        self.why = why
        self.span = span
        self.tokens = tokens


class Scope:
    """What a shell knows at one point of the text."""

    __slots__ = ("aliases", "conditional", "cwds", "env", "funcs", "pos", "refs", "vars", "venvs")

    def __init__(self, cwd: str | None, env: dict[str, str]) -> None:
        self.vars: dict[str, list[Fields]] = {}
        self.cwds: tuple[str | None, ...] = (cwd,)
        self.funcs: dict[str, tuple[Walk, Any]] = {}
        self.aliases: dict[str, str] = {}
        self.refs: dict[str, str] = {}
        self.env = env
        self.pos: list[Fields] | None = None
        self.conditional = 0
        self.venvs: list[str] = []

    def copy(self) -> Scope:
        """For a subshell, whose changes end with it."""
        made = Scope(None, self.env)
        made.vars, made.refs = dict(self.vars), dict(self.refs)
        made.cwds, made.funcs, made.aliases = self.cwds, dict(self.funcs), dict(self.aliases)
        made.pos, made.conditional, made.venvs = self.pos, self.conditional, list(self.venvs)
        return made

    def meant(self, name: str) -> str:
        """The variable behind a name reference (`declare -n name=other`, bash(1) "Parameters"); other names as they are."""
        for _ in range(MAX_DEPTH):
            if not self.refs.get(name):
                break
            name = self.refs[name]
        return name

    def assign(self, name: str, fields: Fields, *, append: str = "") -> None:
        """Set a variable; inside a condition or a loop the old values stay possible.

        Args:
            append: `text` for `x+=y`, `fields` for `x+=(y)` and `x[k]=y`, empty to replace.
        """
        if self.refs.get(name) == "" and fields:
            self.refs[name] = fields[0].text
            return
        name = self.meant(name)
        old = self.vars.get(name, [])
        made = [_appended(o, fields, append) for o in old or [[Word("")]]] if append else [fields]
        self.vars[name] = bounded([*old, *made] if self.conditional else made)


def bounded(options: list[Fields], limit: int = MAX_ALTERNATIVES) -> list[Fields]:
    """At most so many alternatives: what is left out becomes one word that is unknown behind its common beginning."""
    if len(options) <= limit:
        return options
    rest = [w.text for fields in options[limit - 1 :] for w in fields[:1]]
    low, high = min(rest, default=""), max(rest, default="")
    same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return [*options[: limit - 1], [Word(low[:same], dyn=True)]]


def _appended(old: Fields, new: Fields, how: str) -> Fields:
    if how == "fields":
        return [*(w for w in old if w.text or w.dyn or w.fresh), *new]
    if len(old) == 1 and len(new) == 1:
        return [old[0].plus(new[0])]
    return [*old, *new]


class Shell:
    """One check: the commands found, the problems met, and the counters that bound the work."""

    def __init__(self, ctx: Any, pol: dict[str, Any]) -> None:
        self.ctx = ctx
        self.pol = pol
        self.cmds: list[Cmd] = []
        self.problems: list[Problem] = []
        self.notes: dict[str, Any] = {}
        self.nodes = 0
        self.partial = False
        self.in_file = 0

    def problem(self, why: str, span: tuple[int, int] = (0, 0), tokens: tuple[str, ...] = ()) -> None:
        """Remember that something could not be followed."""
        self.partial = True
        if len(self.problems) < 50:
            self.problems.append(Problem(why, span, tokens))

    def run(
        self,
        text: str,
        scope: Scope,
        *,
        depth: int = 0,
        span: tuple[int, int] | None = None,
        place: Place = HERE,
        via: tuple[str, ...] = (),
        stdin: Source | None = None,
    ) -> list[Cmd]:
        """Walk a shell text; returns the commands whose output is the text's output."""
        where = span or (0, len(text.encode("utf-8", "replace")))
        if depth > MAX_DEPTH:
            self.problem("commands are nested too deep to follow", where, risk_tokens(text))
            return []
        if len(text) > MAX_BYTES:
            self.problem("the command is longer than the guard reads whole", where)
            if len(text) > MAX_PARSED or sum(map(text.count, "'\"\\")) > MAX_QUOTES:
                self.problem("the command is too large to follow", where, risk_tokens(text))
                return []
        joined, cuts = quoting.join_lines(text)
        source = joined.encode("utf-8", "replace")
        tree = parse(source)
        if tree.root_node.has_error:
            mended = _command_braces(joined)
            if mended is not None:
                again = mended.encode("utf-8", "replace")
                other = parse(again)
                if not other.root_node.has_error:
                    source, tree = again, other
        from infer_forge.guard.walk import Walk

        walk = Walk(self, source, scope, depth, span, cuts, place, via)
        if tree.root_node.has_error:
            self.problem("the shell text could not be parsed in full", where, risk_tokens(joined))
        return walk.visit(tree.root_node, stdin, ())


def risk_tokens(text: str) -> tuple[str, ...]:
    """The words of a text that could not be parsed, for the rule that denies when a risky one is among them."""
    cleaned = "".join(" " if c in ";&|(){}<>\n\t,`$\"'=" else c for c in text[:MAX_PARSED].replace("\\", ""))
    return tuple(dict.fromkeys(cleaned.split()))[:20000]


def _command_braces(text: str) -> str | None:
    """`{rm,-rf,x}` where a command stands, which tree-sitter cannot read, written as plain words of the same length."""
    import re

    def plain(match: re.Match[str]) -> str:
        return match.group(1) + " " + match.group(2).replace(",", " ") + " "

    made = re.sub(r"((?:^|[;&|(\n]|\b(?:do|then|else)\b)\s*)\{([^\s{}()]*,[^\s{}()]*)\}", plain, text)
    return made if made != text else None
