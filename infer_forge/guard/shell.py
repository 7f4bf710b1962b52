"""A shell text becomes the simple commands that it would run, with words expanded as far as they can be known.

The walk keeps what a shell keeps (variables, working folder, functions, aliases, standard input) and marks what it
cannot know. Wrappers and nested code are opened by `unwrap`. Nothing is run.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from infer_forge.guard import words as quoting
from infer_forge.guard.grammar import parse
from infer_forge.guard.model import HERE, UNKNOWN, Cmd, Place, Redirect, Source, Word

Fields = list[Word]
MAX_DEPTH = 8
"""Wrappers and nested shells inside each other; deeper is answered with ask."""
MAX_NESTING = 60
MAX_NODES = 6000
MAX_COMMANDS = 400
MAX_PIECES = 600
"""Quoted and unquoted pieces of one word, or words of one command."""
MAX_ALTERNATIVES = 8
MAX_BYTES = 64 * 1024
"""Longer texts are parsed as far as `MAX_PARSED` and answered with ask at least."""
MAX_PARSED = 256 * 1024


class Problem:
    """Something that could not be read or followed: at least ask."""

    __slots__ = ("span", "tokens", "why")

    def __init__(self, why: str, span: tuple[int, int], tokens: tuple[str, ...] = ()) -> None:
        self.why = why
        self.span = span
        self.tokens = tokens


class Scope:
    """What a shell knows at one point of the text."""

    __slots__ = ("aliases", "conditional", "cwds", "env", "funcs", "pos", "vars", "venvs")

    def __init__(self, cwd: str | None, env: dict[str, str]) -> None:
        self.vars: dict[str, list[Fields]] = {}
        self.cwds: tuple[str | None, ...] = (cwd,)
        self.funcs: dict[str, tuple[Walk, Any]] = {}
        self.aliases: dict[str, str] = {}
        self.env = env
        self.pos: list[Fields] | None = None
        self.conditional = 0
        self.venvs: list[str] = []

    def copy(self) -> Scope:
        """For a subshell, whose changes end with it."""
        made = Scope(None, self.env)
        made.vars = dict(self.vars)
        made.cwds, made.funcs, made.aliases = self.cwds, dict(self.funcs), dict(self.aliases)
        made.pos, made.conditional, made.venvs = self.pos, self.conditional, list(self.venvs)
        return made

    def assign(self, name: str, fields: Fields, *, append: bool = False) -> None:
        """Set a variable; inside a condition or a loop the old values stay possible."""
        old = self.vars.get(name, [])
        if append:
            made = [_appended(o, fields) for o in (old or [[Word("")]])]
        else:
            made = [fields]
        self.vars[name] = ([*old, *made] if self.conditional else made)[-MAX_ALTERNATIVES:]


def _appended(old: Fields, new: Fields) -> Fields:
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
            if len(text) > MAX_PARSED:
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
        walk = Walk(self, source, scope, depth, span, cuts, place, via)
        if tree.root_node.has_error:
            self.problem("the shell text could not be parsed in full", where, risk_tokens(joined))
        return walk.visit(tree.root_node, stdin, ())


def risk_tokens(text: str) -> tuple[str, ...]:
    """The words of a text that could not be parsed, for the rule that denies when a risky one is among them."""
    cleaned = "".join(" " if c in ";&|(){}<>\n\t,`$\"'=" else c for c in text[:MAX_BYTES].replace("\\", ""))
    return tuple(dict.fromkeys(cleaned.split()))[:20000]


def _command_braces(text: str) -> str | None:
    """`{rm,-rf,x}` where a command stands, which tree-sitter cannot read, written as plain words of the same length."""
    import re

    def plain(match: re.Match[str]) -> str:
        return match.group(1) + " " + match.group(2).replace(",", " ") + " "

    made = re.sub(r"((?:^|[;&|(\n]|\b(?:do|then|else)\b)\s*)\{([^\s{}()]*,[^\s{}()]*)\}", plain, text)
    return made if made != text else None


class Walk:
    """The walk over one parsed text."""

    def __init__(
        self,
        shell: Shell,
        source: bytes,
        scope: Scope,
        depth: int,
        span: tuple[int, int] | None,
        cuts: list[int],
        place: Place,
        via: tuple[str, ...],
    ) -> None:
        self.shell = shell
        self.source = source
        self.scope = scope
        self.depth = depth
        self.fixed_span = span
        self.cuts = cuts
        self.place = place
        self.via = via
        self.nesting = 0
        self.extra: list[Any] = []

    # ------------------------------------------------------------ statements

    def text(self, node: Any) -> str:
        """Source text of a node."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def span(self, node: Any) -> tuple[int, int]:
        """Byte range in the text that was handed in."""
        if self.fixed_span:
            return self.fixed_span
        start, end = node.start_byte, node.end_byte
        if self.cuts:
            return quoting.original_offset(start, self.cuts), quoting.original_offset(end, self.cuts)
        return start, end

    def visit(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """Walk one statement; returns the commands that write to its standard output."""
        shell = self.shell
        shell.nodes += 1
        if shell.nodes > MAX_NODES or len(shell.cmds) > MAX_COMMANDS or self.nesting > MAX_NESTING:
            self._too_much(node)
            return []
        self.nesting += 1
        try:
            method = _VISITORS.get(node.type, Walk._children)
            return method(self, node, stdin, pipe_to)
        finally:
            self.nesting -= 1

    def _too_much(self, node: Any) -> None:
        """Say once that the rest is not followed; a risky word in it then denies."""
        if not self.shell.notes.get("too-much"):
            self.shell.notes["too-much"] = True
            tokens = risk_tokens(self.source.decode("utf-8", "replace"))
            self.shell.problem("the command is too large to follow", self.span(node), tokens)

    def _children(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        out: list[Cmd] = []
        for child in node.named_children:
            out += self.visit(child, stdin, pipe_to)
        return out

    def _ignore(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        return []

    def _list(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        out: list[Cmd] = []
        maybe = False
        before = self.scope.cwds
        for child in node.children:
            if child.type == "||":
                maybe = True
                continue
            if not child.is_named:
                continue
            if maybe:
                self.scope.conditional += 1
                after = self.scope.cwds
                self.scope.cwds = tuple(dict.fromkeys((*after, *before)))
            out += self.visit(child, stdin, pipe_to)
            if maybe:
                self.scope.conditional -= 1
        return out

    def _conditional(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        self.scope.conditional += 1
        before = self.scope.cwds
        try:
            return self._children(node, stdin, pipe_to)
        finally:
            self.scope.conditional -= 1
            self.scope.cwds = tuple(dict.fromkeys((*self.scope.cwds, *before)))[:4]

    def _for(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        name, values, body = None, list[Word](), None
        for child in node.named_children:
            if child.type == "variable_name" and name is None:
                name = self.text(child)
            elif child.type in ("do_group", "compound_statement"):
                body = child
            else:
                for fields in self.expand(child):
                    values += fields
        if name is None or body is None:
            return self._children(node, stdin, pipe_to)
        if not values:
            values = [Word("", dyn=True)]
        if len(values) > 2 * MAX_ALTERNATIVES:
            values = values[: 2 * MAX_ALTERNATIVES]
            self.shell.partial = True
        self.scope.vars[name] = [[v] for v in values]
        return self._conditional(body, stdin, pipe_to)

    def _case(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        out: list[Cmd] = []
        for child in node.named_children:
            if child.type == "case_item":
                patterns = child.children_by_field_name("value")
                keep = {(p.start_byte, p.end_byte) for p in patterns}
                self.scope.conditional += 1
                for part in child.named_children:
                    if (part.start_byte, part.end_byte) not in keep:
                        out += self.visit(part, stdin, pipe_to)
                self.scope.conditional -= 1
            else:
                self.expand(child)
        return out

    def _subshell(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        outer = self.scope
        self.scope = outer.copy()
        try:
            return self._children(node, stdin, pipe_to)
        finally:
            self.scope = outer

    def _function(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.scope.funcs[self.text(name)] = (self, body)
        return []

    def _pipeline(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        parts = [c for c in node.named_children if c.type != "comment"]
        heads = [self._head(p) for p in parts]
        made: list[Cmd] = []
        for i, part in enumerate(parts):
            outer = self.scope
            self.scope = outer.copy() if len(parts) > 1 else outer
            source = stdin if i == 0 else Source(cmds=tuple(made))
            made = self.visit(part, source, (*heads[i + 1 :], *pipe_to))
            self.scope = outer
        return made

    def _head(self, node: Any) -> str:
        from infer_forge.guard.model import program_name

        step = node
        while step is not None and step.type != "command_name":
            step = step.child_by_field_name("name") or (step.named_children[0] if step.named_children else None)
        return program_name(quoting.unescape(self.text(step))) if step is not None else ""

    def _redirected(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        redirects: list[Redirect] = []
        later: list[Any] = []
        body: Any = None
        for child in node.named_children:
            if child.type == "file_redirect":
                stdin = self._file_redirect(child, redirects) or stdin
            elif child.type == "herestring_redirect":
                stdin = self._herestring(child)
            elif child.type == "heredoc_redirect":
                stdin = self._heredoc(child, redirects, later) or stdin
            else:
                body = child
        if body is None:
            made = [self._bare(node, redirects)]
        else:
            if later:
                pipe_to = (*(h for part in later for h in [self._head(part)]), *pipe_to)
            mark = len(self.shell.cmds)
            made = self.visit(body, stdin, pipe_to)
            if redirects:
                top = made or self.shell.cmds[mark:]
                if top:
                    for cmd in top:
                        cmd.redirects = [*cmd.redirects, *redirects]
                else:
                    self._bare(node, redirects)
        for part in later:
            made = self.visit(part, Source(cmds=tuple(made)), ())
        return made

    def _bare(self, node: Any, redirects: list[Redirect]) -> Cmd:
        cmd = Cmd([], {}, redirects, None, self.span(node), self.scope.cwds, self.place, self.depth, self.via)
        self.shell.cmds.append(cmd)
        return cmd

    def _file_redirect(self, node: Any, redirects: list[Redirect]) -> Source | None:
        operator, fd, target = "", "", None
        for child in node.children:
            if child.type == "file_descriptor":
                fd = self.text(child)
            elif not child.is_named:
                operator = self.text(child)
            else:
                target = child
        if target is None:
            return None
        for fields in self.expand(target):
            for word in fields[:1]:
                redirects.append(Redirect(operator, fd, word))
                if operator == "<" and fd in ("", "0"):
                    if target.type == "process_substitution":
                        return Source(cmds=word.sources)
                    return Source(files=(word,))
        return None

    def _herestring(self, node: Any) -> Source:
        for child in node.named_children:
            for fields in self.expand(child):
                if all(not w.dyn for w in fields):
                    return Source(text=" ".join(w.text for w in fields) + "\n")
                return Source(cmds=tuple(c for w in fields for c in w.sources))
        return Source(text="")

    def _heredoc(self, node: Any, redirects: list[Redirect], later: list[Any]) -> Source | None:
        quoted, source = False, Source(text="")
        for child in node.named_children:
            if child.type == "heredoc_start":
                quoted = any(q in self.text(child) for q in "'\"\\")
            elif child.type == "heredoc_body":
                if quoted:
                    source = Source(text=self.text(child))
                else:
                    word = self._glued(child, inside="double")
                    source = Source(text=word.text) if not word.dyn else Source(text=word.text, cmds=word.sources)
            elif child.type == "file_redirect":
                self._file_redirect(child, redirects)
            elif child.type == "herestring_redirect":
                source = self._herestring(child)
            elif child.type not in ("heredoc_end", "file_descriptor"):
                if any(child == argument for argument in node.children_by_field_name("argument")):
                    self.extra.append(child)
                else:
                    later.append(child)
        return source

    def _test(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        self._substitutions(node)
        return []

    def _substitutions(self, node: Any) -> None:
        """Walk the command substitutions inside something whose words do not matter."""
        for child in node.named_children:
            if child.type in ("command_substitution", "process_substitution"):
                self._captured(child)
            else:
                self._substitutions(child)

    # ------------------------------------------------------------ simple commands

    def _assignment(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        named = self._assigned(node)
        if named:
            name, fields, append = named
            self.scope.assign(name, fields, append=append)
            cmd = Cmd(
                [], {name: _first(fields)}, [], None, self.span(node), self.scope.cwds, self.place, self.depth, self.via
            )
            self.shell.cmds.append(cmd)
        return []

    def _assigned(self, node: Any) -> tuple[str, Fields, bool] | None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return None
        append = any(c.type == "+=" for c in node.children)
        label = self.text(name).split("[", 1)[0]
        if value is None:
            return label, [Word("")], append
        if value.type == "array":
            fields: Fields = []
            for child in value.named_children:
                for one in self.expand(child)[:1]:
                    fields += one
            return label, fields, append
        options = self.expand(value, split=False)
        if len(options) > 1:
            self.scope.vars[label] = options[:-1]
            self.scope.conditional += 1
            self.scope.assign(label, options[-1])
            self.scope.conditional -= 1
            return label, options[-1], append
        return label, options[0], append

    def _declaration(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        keyword = self.text(node.children[0])
        argv, env = [Word(keyword)], dict[str, Word]()
        for child in node.named_children:
            if child.type == "variable_assignment":
                named = self._assigned(child)
                if named:
                    self.scope.assign(named[0], named[1], append=named[2])
                    env[named[0]] = _first(named[1])
                    argv.append(Word(f"{named[0]}={_first(named[1]).text}", dyn=_first(named[1]).dyn))
            elif child.type == "variable_name":
                argv.append(Word(self.text(child)))
            else:
                argv += self.expand(child)[0]
        cmd = Cmd(argv, env, [], stdin, self.span(node), self.scope.cwds, self.place, self.depth, self.via, pipe_to)
        self.shell.cmds.append(cmd)
        return [cmd]

    def _unset(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        argv = [Word("unset")]
        for child in node.named_children:
            argv.append(Word(self.text(child)))
            self.scope.vars.pop(self.text(child), None)
        cmd = Cmd(argv, {}, [], stdin, self.span(node), self.scope.cwds, self.place, self.depth, self.via, pipe_to)
        self.shell.cmds.append(cmd)
        return [cmd]

    def _command(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        env: dict[str, Word] = {}
        redirects: list[Redirect] = []
        slots: list[list[Fields]] = []
        for child in node.named_children:
            kind = child.type
            if kind == "variable_assignment":
                named = self._assigned(child)
                if named:
                    env[named[0]] = _first(named[1])
            elif kind == "command_name":
                inner = child.named_children
                slots.append(self.expand(inner[0] if len(inner) == 1 else child))
            elif kind == "file_redirect":
                stdin = self._file_redirect(child, redirects) or stdin
            elif kind == "herestring_redirect":
                stdin = self._herestring(child)
            elif kind == "heredoc_redirect":
                stdin = self._heredoc(child, redirects, []) or stdin
            elif kind != "comment":
                slots.append(self.expand(child))
        extra, self.extra = self.extra, []
        slots += [self.expand(child) for child in extra]
        made: list[Cmd] = []
        span = self.span(node)
        for argv in _alternatives(slots):
            cmd = Cmd(argv, env, redirects, stdin, span, self.scope.cwds, self.place, self.depth, self.via, pipe_to)
            made += self.emit(cmd)
        return made

    def emit(self, cmd: Cmd) -> list[Cmd]:
        """Record a simple command and open what it runs; aliases and functions first."""
        from infer_forge.guard import unwrap

        if not cmd.argv:
            self.shell.cmds.append(cmd)
            return [cmd]
        first = cmd.argv[0]
        if first.dyn and not first.text and not first.quoted and len(cmd.argv) > 1:
            self.emit(cmd.inner(cmd.argv[1:], "unknown word"))
        alias = self.scope.aliases.get(first.text)
        if alias is not None and "alias" not in cmd.via:
            rest = " ".join(_requote(w) for w in cmd.argv[1:])
            return self.nested(f"{alias} {rest}", cmd, "alias")
        function = self.scope.funcs.get(first.text)
        if function is not None:
            return self._call(function, cmd)
        self.shell.cmds.append(cmd)
        unwrap.unwrap(cmd, self)
        return [cmd]

    def _call(self, function: tuple[Walk, Any], cmd: Cmd) -> list[Cmd]:
        walk, body = function
        label = f"function {cmd.argv[0].text}"
        if label in cmd.via or label in self.via:
            text = walk.text(body)
            if "&" in text.replace("&&", "") or text.count(cmd.argv[0].text) > 1:
                self.shell.cmds.append(cmd.inner([Word(":fork-bomb")], "function"))
            return [cmd]
        scope = self.scope
        outer = scope.pos
        scope.pos = [[w] for w in cmd.argv[1:]]
        inner = Walk(self.shell, walk.source, scope, cmd.depth + 1, cmd.span, walk.cuts, cmd.place, (*cmd.via, label))
        inner.nesting = self.nesting
        try:
            if cmd.depth >= MAX_DEPTH:
                self.shell.problem("functions are nested too deep to follow", cmd.span)
                return []
            return inner.visit(body, cmd.stdin, cmd.pipe_to)
        finally:
            scope.pos = outer

    def nested(self, text: str, cmd: Cmd, wrapper: str, **changes: Any) -> list[Cmd]:
        """Walk code that a command carries as a string (`sh -c`, `ssh`, ...)."""
        scope: Scope = changes.get("scope", self.scope)
        if UNKNOWN in text:
            text = text.replace(UNKNOWN, "$__unknown")
            words = [w for w in cmd.argv if w.dyn]
            sources = tuple(s for w in words for s in w.sources)
            names = tuple(n for w in words for n in w.names)
            scope.vars["__unknown"] = [[Word("", dyn=True, sources=sources, names=names)]]
            self.shell.partial = True
        return self.shell.run(
            text,
            scope,
            depth=cmd.depth + 1,
            span=cmd.span,
            place=changes.get("place", cmd.place),
            via=(*cmd.via, wrapper),
            stdin=changes.get("stdin", cmd.stdin),
        )

    # ------------------------------------------------------------ words

    def expand(self, node: Any, *, split: bool = True) -> list[Fields]:
        """All values that a word may have; each is a list of fields. Never empty."""
        shell = self.shell
        shell.nodes += 1
        kind = node.type
        if shell.nodes > MAX_NODES or node.child_count > MAX_PIECES:
            self._too_much(node)
            return [[Word("", dyn=True)]]
        if kind == "word":
            return self._word(node)
        if kind == "raw_string":
            return [[Word(self.text(node)[1:-1], quoted=True)]]
        if kind == "number":
            return [[self._glued(node, inside="none")] if node.named_children else [Word(self.text(node))]]
        if kind == "ansi_c_string":
            return [[Word(quoting.ansi_c(self.text(node)[2:-1]), quoted=True)]]
        if kind in ("string", "translated_string"):
            return self._string(node)
        if kind in ("simple_expansion", "expansion"):
            options = self._variable(node)
            return [_split(f, self._separators()) if split else [_joined(f)] for f in options]
        if kind == "command_substitution":
            word = self._captured(node)
            return [_split([word], self._separators()) if split else [word]]
        if kind == "process_substitution":
            word = self._captured(node)
            return [[Word("/dev/fd/63", dyn=True, sources=word.sources, quoted=True)]]
        if kind == "concatenation":
            return self._concatenation(node)
        if kind == "brace_expression":
            return self._braced(self.text(node)) or [[Word(self.text(node))]]
        if kind == "arithmetic_expansion":
            self._substitutions(node)
            return [[Word("", dyn=True, quoted=True)]]
        if kind == "array":
            return [[w for child in node.named_children for w in self.expand(child)[0]]]
        if node.named_child_count:
            return [[self._glued(node, inside="none")]]
        return [[Word(quoting.unescape(self.text(node)))]]

    def _word(self, node: Any) -> list[Fields]:
        raw = self.text(node)
        if "{" in raw:
            braced = self._braced(raw)
            if braced:
                return braced
        return [[self._plain(raw, tilde=True)]]

    def _plain(self, raw: str, *, tilde: bool) -> Word:
        if tilde and raw.startswith("~"):
            user, slash, rest = raw.partition("/")
            home = self.scope.env.get("HOME")
            if user == "~" and home:
                return Word(home + slash + quoting.unescape(rest), glob=quoting.has_glob(rest))
            if user != "~":
                return Word(f"/home/{user[1:]}{slash}{quoting.unescape(rest)}", glob=quoting.has_glob(rest))
        return Word(quoting.unescape(raw), glob=quoting.has_glob(raw))

    def _braced(self, raw: str) -> list[Fields] | None:
        pieces = quoting.braces(raw)
        if len(pieces) < 2:
            return None
        fields: Fields = []
        for piece in pieces:
            tree = parse(b": " + piece.encode("utf-8", "replace"))
            walk = Walk(
                self.shell,
                b": " + piece.encode("utf-8", "replace"),
                self.scope,
                self.depth,
                (0, 0),
                [],
                self.place,
                self.via,
            )
            command = tree.root_node.named_children[0] if tree.root_node.named_children else None
            for child in command.named_children[1:] if command is not None else []:
                fields += walk.expand(child)[0]
        return [fields] if fields else None

    def _string(self, node: Any) -> list[Fields]:
        children = node.named_children
        if not children:
            raw = self.text(node)
            return [[Word(quoting.unescape_double(raw[raw.find('"') + 1 : -1]), quoted=True)]]
        inner = [c for c in children if c.type != "string_content"]
        if len(inner) == 1 and len(children) == 1 and inner[0].type in ("simple_expansion", "expansion"):
            return [_quoted(f) for f in self._variable(inner[0])]
        word = self._glued(node, inside="double")
        return [[word]]

    def _glued(self, node: Any, *, inside: str) -> Word:
        """Literal text and expansions of a node written as one field (first value of each)."""
        out = Word("", quoted=inside == "double")
        at = node.start_byte
        end = node.end_byte
        if node.type == "string":
            at += 1
            end -= 1
        elif node.type == "translated_string":
            at += 2
            end -= 1
        decode = quoting.unescape_double if inside == "double" else quoting.unescape
        for child in node.named_children:
            if child.type in ("string_content", "heredoc_content"):
                continue
            gap = self.source[at : max(at, child.start_byte)].decode("utf-8", "replace")
            if gap:
                out = out.plus(Word(decode(gap), glob=inside == "none" and quoting.has_glob(gap)))
            options = self.expand(child, split=False)
            out = out.plus(_joined(options[-1]))
            at = child.end_byte
        gap = self.source[at:end].decode("utf-8", "replace")
        return out.plus(Word(decode(gap))) if gap else out

    def _concatenation(self, node: Any) -> list[Fields]:
        raw = self.text(node)
        if "{" in raw:
            braced = self._braced(raw)
            if braced:
                return braced
        options: list[Fields] = [[]]
        at = node.start_byte
        for i, child in enumerate(node.named_children):
            if child.start_byte > at:
                gap = self.source[at : child.start_byte].decode("utf-8", "replace")
                options = [_glue(o, [Word(quoting.unescape(gap))]) for o in options]
            at = child.end_byte
            if child.type == "word":
                values = [[self._plain(self.text(child), tilde=i == 0)]]
            elif child.type in ("simple_expansion", "expansion"):
                values = [_split(f, self._separators(), edges=True) for f in self._variable(child)]
            else:
                values = self.expand(child)
            options = [_glue(o, v) for o, v in product(options, values)][:MAX_ALTERNATIVES]
        return [[w for w in o if w.text or w.dyn or w.quoted or w.fresh] for o in options]

    def _separators(self) -> str:
        """The characters of IFS where it is set in the text, else blanks."""
        values = self.scope.vars.get("IFS")
        return values[-1][0].text if values and values[-1] and not values[-1][0].dyn else " \t\n"

    def _captured(self, node: Any) -> Word:
        """A command or process substitution: walk it and, where its output is known, give it."""
        from infer_forge.guard.output import output_of

        outer, conditional = self.scope, self.scope.conditional
        self.scope = outer.copy()
        mark = len(self.shell.cmds)
        redirects: list[Redirect] = []
        made: list[Cmd] = []
        for child in node.named_children:
            if child.type == "file_redirect":
                source = self._file_redirect(child, redirects)
                if source and source.files:
                    made = [
                        Cmd(
                            [Word("cat"), *source.files],
                            {},
                            [],
                            None,
                            self.span(child),
                            self.scope.cwds,
                            self.place,
                            self.depth,
                        )
                    ]
            else:
                made += self.visit(child, None, ())
        self.scope = outer
        outer.conditional = conditional
        found = output_of(made, self)
        if found is not None:
            found.sources = tuple(made)
            return found
        return Word("", dyn=True, sources=tuple(made) or tuple(self.shell.cmds[mark:]))

    def _variable(self, node: Any) -> list[Fields]:
        """Values of `$x`, `${x...}`; unknown ones are a dynamic word without text."""
        name, subscript = "", ""
        operator = ""
        rest: list[Any] = []
        for child in node.children:
            kind = child.type
            if kind in ("variable_name", "special_variable_name") and not name:
                name = self.text(child)
            elif kind == "subscript" and not name:
                whole = self.text(child)
                name, _, subscript = whole.partition("[")
                subscript = subscript.rstrip("]")
            elif kind in ("${", "}", "$"):
                continue
            elif not child.is_named:
                operator = operator or self.text(child)
            else:
                rest.append(child)
        values = self._lookup(name, subscript)
        if not operator and not rest:
            return values
        if operator in ("#", "!") and not rest:
            return [[Word("", dyn=True)]] if operator == "!" else [[Word("0", dyn=True)]]
        options = [w for child in rest for w in self.expand(child, split=False)]
        if operator in (":-", "-", ":=", "="):
            known = [v for v in values if any(not w.dyn and w.text for w in v)]
            default = options or [[Word("")]]
            if operator in (":=", "=") and not known:
                self.scope.vars[name] = default
            return (
                [*known, *default]
                if known or name in self.scope.vars
                else [*default, [Word("", dyn=True, names=(name,))]]
            )
        if operator in (":+", "+"):
            return [*(options or [[Word("")]]), [Word("")]]
        return [[Word("", dyn=True, names=(name,))]]

    def _lookup(self, name: str, subscript: str) -> list[Fields]:
        scope = self.scope
        if name in scope.vars:
            values = scope.vars[name]
            if subscript.isdigit():
                return [v[int(subscript) : int(subscript) + 1] or [Word("")] for v in values]
            if subscript in ("@", "*"):
                return values
            return [v[:1] or [Word("")] for v in values]
        if name.isdigit() and scope.pos is not None:
            at = int(name) - 1
            return [scope.pos[at] if 0 <= at < len(scope.pos) else [Word("")]]
        if name in ("@", "*") and scope.pos is not None:
            return [[w for f in scope.pos for w in f]]
        value = scope.env.get(name)
        if name == "IFS":
            return [[Word(" \t\n")]]
        if name == "PWD" and scope.cwds[0]:
            value = scope.cwds[0]
        if value is not None:
            return [[Word(value, names=(name,))]]
        return [[Word("", dyn=True, names=(name,))]]


def _first(fields: Fields) -> Word:
    return fields[0] if fields else Word("")


def _joined(fields: Fields) -> Word:
    if len(fields) == 1:
        return fields[0]
    out = Word("")
    for i, field in enumerate(fields):
        out = out.plus(Word(" ")).plus(field) if i else out.plus(field)
    return out


def _quoted(fields: Fields) -> Fields:
    return [Word(w.text, w.dyn, False, w.sources, w.names, w.fresh, True, w.raw) for w in fields]


def _split(fields: Fields, separators: str = " \t\n", *, edges: bool = False) -> Fields:
    """Field splitting of an unquoted expansion; an empty one vanishes.

    With `edges` a separator at the beginning or end gives an empty field there, so that what is glued on stays apart.
    """
    out: Fields = []
    for word in fields:
        text = word.text
        parts = text.split() if separators == " \t\n" else _cut(text, separators)
        if not parts and not (edges and text):
            if word.dyn or word.fresh:
                out.append(word)
            continue
        if edges and text[:1] in separators and text:
            out.append(Word(""))
        for part in parts:
            out.append(Word(part, word.dyn, quoting.has_glob(part), word.sources, word.names, word.fresh))
        if edges and text[-1:] in separators and text:
            out.append(Word(""))
    return out


def _cut(text: str, separators: str) -> list[str]:
    for separator in separators[1:]:
        text = text.replace(separator, separators[0])
    return [part for part in text.split(separators[0]) if part] if separators else [text]


def _glue(left: Fields, right: Fields) -> Fields:
    if not left:
        return list(right)
    if not right:
        return left
    return [*left[:-1], left[-1].plus(right[0]), *right[1:]]


def _alternatives(slots: list[list[Fields]]) -> list[Fields]:
    """argv for each combination of values, at most `MAX_ALTERNATIVES` of them."""
    if all(len(s) == 1 for s in slots):
        return [[w for s in slots for w in s[0]]]
    out: list[Fields] = []
    for combination in product(*slots):
        out.append([w for fields in combination for w in fields])
        if len(out) >= 4 * MAX_ALTERNATIVES:
            break
    return out


def _requote(word: Word) -> str:
    if word.dyn:
        return word.raw
    if word.text and all(c.isalnum() or c in "-_./=:,+@%*?[]" for c in word.text):
        return word.text
    return "'" + word.text.replace("'", "'\\''") + "'"


_VISITORS: dict[str, Any] = {
    "command": Walk._command,
    "pipeline": Walk._pipeline,
    "list": Walk._list,
    "redirected_statement": Walk._redirected,
    "subshell": Walk._subshell,
    "variable_assignment": Walk._assignment,
    "declaration_command": Walk._declaration,
    "unset_command": Walk._unset,
    "test_command": Walk._test,
    "function_definition": Walk._function,
    "if_statement": Walk._conditional,
    "while_statement": Walk._conditional,
    "c_style_for_statement": Walk._conditional,
    "for_statement": Walk._for,
    "case_statement": Walk._case,
    "comment": Walk._ignore,
    "command_substitution": lambda w, n, s, p: (w._captured(n), [])[1],  # pyright: ignore
    "process_substitution": lambda w, n, s, p: (w._captured(n), [])[1],  # pyright: ignore
    "simple_expansion": Walk._ignore,
    "word": Walk._ignore,
    "variable_name": Walk._ignore,
}
