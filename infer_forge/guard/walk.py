"""The walk over a parsed shell text: statements in order, each simple command emitted with what surrounds it."""

from __future__ import annotations

import os
import re
from itertools import product
from math import prod
from typing import Any

from infer_forge.guard import words as quoting
from infer_forge.guard.expand import Expander, first
from infer_forge.guard.model import UNKNOWN, Cmd, Redirect, Source, Word
from infer_forge.guard.shell import (
    MAX_COMBINED,
    MAX_COMMANDS,
    MAX_DEPTH,
    MAX_NESTING,
    MAX_NODES,
    Fields,
    Scope,
    bounded,
)

_NAME_REFERENCE = re.compile(r"-[a-zA-Z]*n")
"""`declare -n`, `local -gn`: what is assigned names the variable that is meant."""


class Walk(Expander):
    """One text's walk."""

    def visit(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """Walk one statement; returns the commands that write to its standard output."""
        shell = self.shell
        shell.nodes += 1
        if shell.nodes > MAX_NODES or len(shell.cmds) > MAX_COMMANDS or self.nesting > MAX_NESTING:
            self.too_much(node)
            return []
        self.nesting += 1
        try:
            method = _VISITORS.get(node.type, Walk._children)
            return method(self, node, stdin, pipe_to)
        finally:
            self.nesting -= 1

    def _children(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        out: list[Cmd] = []
        for child in node.named_children:
            out += self.visit(child, stdin, pipe_to)
        return out

    def on_ignore(self, _node: Any, _stdin: Source | None, _pipe_to: tuple[str, ...]) -> list[Cmd]:
        """Nothing to walk."""
        return []

    def capture(self, node: Any, _stdin: Source | None, _pipe_to: tuple[str, ...]) -> list[Cmd]:
        """A substitution that stands as a statement."""
        self.captured(node)
        return []

    def on_list(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """`a && b || c; d`."""
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

    def on_conditional(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """What may or may not run: if, while, loops."""
        self.scope.conditional += 1
        before = self.scope.cwds
        try:
            return self._children(node, stdin, pipe_to)
        finally:
            self.scope.conditional -= 1
            self.scope.cwds = tuple(dict.fromkeys((*self.scope.cwds, *before)))[:4]

    def on_for(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """for and select: the variable takes each word."""
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
        self.shell.partial = self.shell.partial or len(values) > MAX_COMBINED
        self.scope.vars[name] = bounded([[v] for v in values], MAX_COMBINED)
        return self.on_conditional(body, stdin, pipe_to)

    def on_case(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """case: each branch may run."""
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

    def on_subshell(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """( ... ): changes end with it."""
        outer = self.scope
        self.scope = outer.copy()
        try:
            return self._children(node, stdin, pipe_to)
        finally:
            self.scope = outer

    def on_function(self, node: Any, _stdin: Source | None, _pipe_to: tuple[str, ...]) -> list[Cmd]:
        """A definition; its body is walked when it is called."""
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.scope.funcs[self.text(name)] = (self, body)
        return []

    def on_pipeline(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """a | b: each reads what the one before prints."""
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

    def on_redirected(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """A statement with redirections, heredocs, herestrings."""
        redirects: list[Redirect] = []
        later: list[Any] = []
        body: Any = None
        for child in node.named_children:
            if child.type == "file_redirect":
                stdin = self.file_redirect(child, redirects) or stdin
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
                self._written(redirects, made)
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

    def file_redirect(self, node: Any, redirects: list[Redirect]) -> Source | None:
        """Read one redirection; what stands behind `<` is the standard input."""
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
                    word = self.glued(child, inside="double")
                    source = Source(text=word.text) if not word.dyn else Source(text=word.text, cmds=word.sources)
            elif child.type == "file_redirect":
                self.file_redirect(child, redirects)
            elif child.type == "herestring_redirect":
                source = self._herestring(child)
            elif child.type not in ("heredoc_end", "file_descriptor"):
                if any(child == argument for argument in node.children_by_field_name("argument")):
                    self.extra.append(child)
                else:
                    later.append(child)
        return source

    def on_test(self, node: Any, _stdin: Source | None, _pipe_to: tuple[str, ...]) -> list[Cmd]:
        """[ ... ] and [[ ... ]]: only their substitutions run."""
        self.substitutions(node)
        return []

    # ------------------------------------------------------------ simple commands

    def on_assignment(self, node: Any, _stdin: Source | None, _pipe_to: tuple[str, ...]) -> list[Cmd]:
        """A plain assignment."""
        named = self._assigned(node)
        if named:
            name, fields, append = named
            self.scope.assign(name, fields, append=append)
            cmd = Cmd(
                [], {name: first(fields)}, [], None, self.span(node), self.scope.cwds, self.place, self.depth, self.via
            )
            self.shell.cmds.append(cmd)
        return []

    def _assigned(self, node: Any) -> tuple[str, Fields, str] | None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return None
        append = "text" if any(c.type == "+=" for c in node.children) else ""
        label, keyed, _ = self.text(name).partition("[")
        if keyed:
            append = "fields"
            self.shell.notes.setdefault("keyed", set()).add(label)
        if value is None:
            return label, [Word("")], append
        if value.type == "array":
            fields: Fields = []
            for child in value.named_children:
                if child.type == "concatenation" and self.text(child).startswith("["):
                    self.shell.notes.setdefault("keyed", set()).add(label)
                    word = self.glued(child, inside="none")
                    fields.append(word.cut(word.text.find("]=") + 2 if "]=" in word.text else 0))
                    continue
                for one in self.expand(child)[:1]:
                    fields += one
            return label, fields, "fields" if append else ""
        options = self.expand(value, split=False)
        if len(options) > 1:
            self.scope.vars[label] = options[:-1]
            self.scope.conditional += 1
            self.scope.assign(label, options[-1])
            self.scope.conditional -= 1
            return label, options[-1], append
        return label, options[0], append

    def on_declaration(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """export, declare, local, readonly."""
        keyword = self.text(node.children[0])
        argv, env = [Word(keyword)], dict[str, Word]()
        for child in node.named_children:
            if child.type == "variable_assignment":
                named = self._assigned(child)
                if named:
                    if any(_NAME_REFERENCE.match(w.text) for w in argv[1:]) and first(named[1]).text:
                        self.scope.refs[named[0]] = first(named[1]).text
                    else:
                        self.scope.assign(named[0], named[1], append=named[2])
                    env[named[0]] = first(named[1])
                    argv.append(Word(f"{named[0]}={first(named[1]).text}", dyn=first(named[1]).dyn))
            elif child.type == "variable_name":
                if any(_NAME_REFERENCE.match(w.text) for w in argv[1:]):
                    self.scope.refs[self.text(child)] = ""
                argv.append(Word(self.text(child)))
            else:
                argv += self.expand(child)[0]
        cmd = Cmd(argv, env, [], stdin, self.span(node), self.scope.cwds, self.place, self.depth, self.via, pipe_to)
        self.shell.cmds.append(cmd)
        return [cmd]

    def on_unset(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """unset."""
        argv = [Word("unset")]
        for child in node.named_children:
            argv.append(Word(self.text(child)))
            self.scope.vars.pop(self.text(child), None)
        cmd = Cmd(argv, {}, [], stdin, self.span(node), self.scope.cwds, self.place, self.depth, self.via, pipe_to)
        self.shell.cmds.append(cmd)
        return [cmd]

    def on_command(self, node: Any, stdin: Source | None, pipe_to: tuple[str, ...]) -> list[Cmd]:
        """A simple command, in each of its possible spellings."""
        env: dict[str, Word] = {}
        redirects: list[Redirect] = []
        slots: list[list[Fields]] = []
        for child in node.named_children:
            kind = child.type
            if kind == "variable_assignment":
                named = self._assigned(child)
                if named:
                    env[named[0]] = first(named[1])
            elif kind == "command_name":
                inner = child.named_children
                slots.append(self.expand(inner[0] if len(inner) == 1 else child))
            elif kind == "file_redirect":
                stdin = self.file_redirect(child, redirects) or stdin
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
        self._written(redirects)
        for argv in _alternatives(slots):
            cmd = Cmd(argv, env, redirects, stdin, span, self.scope.cwds, self.place, self.depth, self.via, pipe_to)
            made += self.emit(cmd)
        return made

    def _written(self, redirects: list[Redirect], made: list[Cmd] | None = None) -> None:
        """Remember which files this text writes, with their content where it is plain: a script may be run right after."""
        from infer_forge.guard.output import output_of

        for redirect in redirects:
            if redirect.op.startswith(">") or redirect.op == "&>":
                found = output_of(made, self) if made and redirect.op in (">", ">|") else None
                if found is None and redirect.target.text:
                    fetched: set[str] = self.shell.notes.setdefault("fetched", set())
                    fetched.add(os.path.normpath(redirect.target.text))
                self.wrote(redirect.target, found.text if found is not None and not found.fresh else None)

    def wrote(self, word: Word, content: str | None) -> None:
        """A file that this text writes; None when what is written cannot be known."""
        if word.text:
            written: dict[str, str | None] = self.shell.notes.setdefault("written", {})
            written[os.path.normpath(word.text)] = content

    def emit(self, cmd: Cmd) -> list[Cmd]:
        """Record a simple command and open what it runs; aliases and functions first."""
        from infer_forge.guard import unwrap

        if not cmd.argv:
            self.shell.cmds.append(cmd)
            return [cmd]
        first = cmd.argv[0]
        if first.dyn and not first.text and not first.quoted and len(cmd.argv) > 1:
            self.emit(cmd.inner(cmd.argv[1:], "unknown word"))
        if first.text and "/" not in first.text and not first.dyn and ("PATH" in cmd.env or "PATH" in self.scope.vars):
            from infer_forge.guard.search_path import found

            first = cmd.argv[0] = found(first, cmd, self)
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
            name = re.escape(cmd.argv[0].text)
            if re.search(rf"{name}\s*(?:\||&(?!&))", text):
                self.shell.cmds.append(cmd.inner([Word(":fork-bomb")], "function"))
            return [cmd]
        scope = self.scope
        outer = scope.pos
        scope.pos = [[w] for w in cmd.argv[1:]]
        inner: Walk = Walk(
            self.shell, walk.source, scope, cmd.depth + 1, cmd.span, walk.cuts, cmd.place, (*cmd.via, label)
        )
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


def _alternatives(slots: list[list[Fields]]) -> list[Fields]:
    """argv for each combination of values; beyond `MAX_COMBINED` of them at least every value of every word stands once."""
    if all(len(s) == 1 for s in slots):
        return [[w for s in slots for w in s[0]]]
    sizes = [len(s) for s in slots]
    if prod(sizes) <= MAX_COMBINED:
        return [[w for fields in combination for w in fields] for combination in product(*slots)]
    return [[w for s, size in zip(slots, sizes, strict=True) for w in s[i % size]] for i in range(max(sizes))]


def _requote(word: Word) -> str:
    if word.dyn:
        return word.raw
    if word.text and all(c.isalnum() or c in "-_./=:,+@%*?[]" for c in word.text):
        return word.text
    return "'" + word.text.replace("'", "'\\''") + "'"


_VISITORS: dict[str, Any] = {
    "command": Walk.on_command,
    "pipeline": Walk.on_pipeline,
    "list": Walk.on_list,
    "redirected_statement": Walk.on_redirected,
    "subshell": Walk.on_subshell,
    "variable_assignment": Walk.on_assignment,
    "declaration_command": Walk.on_declaration,
    "unset_command": Walk.on_unset,
    "test_command": Walk.on_test,
    "function_definition": Walk.on_function,
    "if_statement": Walk.on_conditional,
    "while_statement": Walk.on_conditional,
    "c_style_for_statement": Walk.on_conditional,
    "for_statement": Walk.on_for,
    "case_statement": Walk.on_case,
    "comment": Walk.on_ignore,
    "command_substitution": Walk.capture,
    "process_substitution": Walk.capture,
    "simple_expansion": Walk.on_ignore,
    "word": Walk.on_ignore,
    "variable_name": Walk.on_ignore,
}
