"""Words of a shell text: quoting, variables, braces, command substitutions, with all values that they may have."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from infer_forge.guard import words as quoting
from infer_forge.guard.grammar import parse
from infer_forge.guard.model import Cmd, Place, Redirect, Source, Word
from infer_forge.guard.shell import MAX_COMBINED, MAX_NODES, MAX_PIECES, Fields, Scope, Shell, bounded, risk_tokens

if TYPE_CHECKING:
    pass


class Expander:
    """Expands the words of one parsed text; `Walk` adds the statements."""

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
        self.nesting: int = 0
        self.extra: list[Any] = []

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

    def too_much(self, node: Any) -> None:
        """Say once that the rest is not followed; a risky word in it then denies."""
        if not self.shell.notes.get("too-much"):
            self.shell.notes["too-much"] = True
            tokens = risk_tokens(self.source.decode("utf-8", "replace"))
            self.shell.problem("the command is too large to follow", self.span(node), tokens)

    def substitutions(self, node: Any) -> None:
        """Walk the command substitutions inside something whose words do not matter."""
        for child in node.named_children:
            if child.type in ("command_substitution", "process_substitution"):
                self.captured(child)
            else:
                self.substitutions(child)

    def visit(self, _node: Any, _stdin: Source | None, _pipe_to: tuple[str, ...]) -> list[Cmd]:
        """Walk one statement; see `Walk`."""
        raise TypeError("only a Walk visits statements")

    def file_redirect(self, _node: Any, _redirects: list[Redirect]) -> Source | None:
        """Read one redirection; see `Walk`."""
        raise TypeError("only a Walk reads redirections")

    def expand(self, node: Any, *, split: bool = True) -> list[Fields]:
        """All values that a word may have; each is a list of fields. Never empty."""
        shell = self.shell
        shell.nodes += 1
        kind = node.type
        if shell.nodes > MAX_NODES or node.child_count > MAX_PIECES:
            self.too_much(node)
            return [[Word("", dyn=True)]]
        if kind == "word":
            return self._word(node)
        if kind == "raw_string":
            return [[Word(self.text(node)[1:-1], quoted=True)]]
        if kind == "number":
            return [[self.glued(node, inside="none")] if node.named_children else [Word(self.text(node))]]
        if kind == "ansi_c_string":
            return [[Word(quoting.ansi_c(self.text(node)[2:-1]), quoted=True)]]
        if kind in ("string", "translated_string"):
            return self._string(node)
        if kind in ("simple_expansion", "expansion"):
            options = self._variable(node)
            return [_split(f, self._separators()) if split else [_joined(f)] for f in options]
        if kind == "command_substitution":
            word = self.captured(node)
            return [_split([word], self._separators()) if split else [word]]
        if kind == "process_substitution":
            word = self.captured(node)
            return [[Word("/dev/fd/63", dyn=True, sources=word.sources, quoted=True)]]
        if kind == "concatenation":
            return self._concatenation(node)
        if kind == "brace_expression":
            return self._braced(self.text(node)) or [[Word(self.text(node))]]
        if kind == "arithmetic_expansion":
            self.substitutions(node)
            return [[Word("", dyn=True, quoted=True)]]
        if kind == "array":
            return [[w for child in node.named_children for w in self.expand(child)[0]]]
        if node.named_child_count:
            return [[self.glued(node, inside="none")]]
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
            walk = type(self)(
                self.shell,
                b": " + piece.encode("utf-8", "replace"),
                self.scope,
                self.depth,
                (0, 0),
                [],
                self.place,
                self.via,
            )
            commands: list[Any] = tree.root_node.named_children[:1]
            for child in [c for command in commands for c in command.named_children[1:]]:
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
        word = self.glued(node, inside="double")
        return [[word]]

    def glued(self, node: Any, *, inside: str) -> Word:
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
            options = bounded([_glue(o, v) for o, v in product(options, values)], MAX_COMBINED)
        return [[w for w in o if w.text or w.dyn or w.quoted or w.fresh] for o in options]

    def _separators(self) -> str:
        """The characters of IFS where it is set in the text, else blanks."""
        values = self.scope.vars.get("IFS")
        return values[-1][0].text if values and values[-1] and not values[-1][0].dyn else " \t\n"

    def captured(self, node: Any) -> Word:
        """A command or process substitution: walk it and, where its output is known, give it."""
        from infer_forge.guard.output import output_of

        outer, conditional = self.scope, self.scope.conditional
        self.scope = outer.copy()
        mark = len(self.shell.cmds)
        redirects: list[Redirect] = []
        made: list[Cmd] = []
        for child in node.named_children:
            if child.type == "file_redirect":
                source = self.file_redirect(child, redirects)
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
        name = scope.meant(name)
        if name in scope.vars:
            values = scope.vars[name]
            if subscript.isdigit() and name not in self.shell.notes.get("keyed", ()):
                return [v[int(subscript) : int(subscript) + 1] or [Word("")] for v in values]
            if subscript in ("@", "*"):
                return values
            if subscript or name in self.shell.notes.get("keyed", ()):
                each = [w for v in values for w in v]
                return bounded([[w] for w in each], MAX_COMBINED) or [[Word("", dyn=True, names=(name,))]]
            return [v[:1] or [Word("")] for v in values]
        if name.isdigit() and scope.pos is not None:
            at = int(name) - 1
            split = next((f for f in scope.pos[: at + 1] if any(w.dyn and not w.quoted for w in f)), None)
            return [split or (scope.pos[at] if 0 <= at < len(scope.pos) else [Word("")])]
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


def first(fields: Fields) -> Word:
    """The first field, or an empty one."""
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
