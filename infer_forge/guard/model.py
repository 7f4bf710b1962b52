"""Types of the guard: words and commands of a parsed shell text, hits of rules, and the verdict.

Plain slotted classes: the hook pays for every import.
"""

from __future__ import annotations

from typing import Any

ALLOW, ASK, DENY = "allow", "ask", "deny"
RANK = {ALLOW: 0, ASK: 1, DENY: 2}
UNKNOWN = "\ue000"
"""Stands for an unknown piece inside of code."""


class Word:
    """One field of a command after expansion.

    Attributes:
        text: its value; a piece that cannot be known is left out.
        dyn: some piece is unknown.
        glob: unquoted pattern characters stand in it.
        sources: commands whose output makes an unknown piece.
        names: variables that it refers to.
        fresh: it is the path that `mktemp` gives in this same command line.
        quoted: no field splitting happens to it.
        raw: the text with `UNKNOWN` where a piece is left out, for words that are code themselves.
    """

    __slots__ = ("dyn", "fresh", "glob", "names", "quoted", "raw", "sources", "text")

    def __init__(
        self,
        text: str,
        dyn: bool = False,
        glob: bool = False,
        sources: tuple[Cmd, ...] = (),
        names: tuple[str, ...] = (),
        fresh: bool = False,
        quoted: bool = False,
        raw: str | None = None,
    ) -> None:
        self.raw = raw if raw is not None else text + UNKNOWN if dyn else text
        self.text = text
        self.dyn = dyn
        self.glob = glob
        self.sources = sources
        self.names = names
        self.fresh = fresh
        self.quoted = quoted

    def plus(self, other: Word) -> Word:
        """The two written without a space between them."""
        return Word(
            self.text + other.text,
            self.dyn or other.dyn,
            self.glob or other.glob,
            self.sources + other.sources,
            self.names + other.names,
            (self.fresh and not self.text.startswith("/")) or (other.fresh and not self.text),
            self.quoted or other.quoted,
            self.raw + other.raw,
        )

    def cut(self, start: int, end: int | None = None) -> Word:
        """Part of the text with the same flags."""
        return Word(self.text[start:end], self.dyn, self.glob, self.sources, self.names, self.fresh, self.quoted)

    def __repr__(self) -> str:
        return f"Word({self.text!r}{', dyn' if self.dyn else ''})"


class Place:
    """Where a command runs: this host, another host, a container.

    Attributes:
        node: host name for ssh and the like; None is this host.
        container: container or pod name; None is the host itself.
        mounts: (path on the host, path inside) pairs that are known; None when they cannot be known.
        host_pids: the container shares the process ids of the host.
    """

    __slots__ = ("container", "host_pids", "mounts", "node")

    def __init__(
        self,
        node: str | None = None,
        container: str | None = None,
        mounts: list[tuple[str, str]] | None = None,
        host_pids: bool = False,
    ) -> None:
        self.node = node
        self.container = container
        self.mounts = mounts
        self.host_pids = host_pids


HERE = Place()


class Source:
    """What a command reads from standard input: a text, files, the output of other commands, or something unknown."""

    __slots__ = ("cmds", "files", "text")

    def __init__(self, text: str | None = None, files: tuple[Word, ...] = (), cmds: tuple[Cmd, ...] = ()) -> None:
        self.text = text
        self.files = files
        self.cmds = cmds


class Redirect:
    """One redirection: operator, descriptor, target."""

    __slots__ = ("fd", "op", "target")

    def __init__(self, op: str, fd: str, target: Word) -> None:
        self.op = op
        self.fd = fd
        self.target = target


class Cmd:
    """One simple command, ready for the rules.

    Attributes:
        argv: its words; `argv[0]` is the program.
        env: assignments in front of it.
        redirects: its own redirections.
        stdin: what it reads.
        span: byte range in the text that was checked.
        cwds: folders in which it may run; None stands for one that is not known.
        place: host or container.
        depth: number of wrappers around it.
        via: names of the wrappers around it, outermost first.
        pipe_to: the programs behind it in the pipe.
    """

    __slots__ = ("argv", "cwds", "depth", "env", "name", "pipe_to", "place", "redirects", "span", "stdin", "via")

    def __init__(
        self,
        argv: list[Word],
        env: dict[str, Word],
        redirects: list[Redirect],
        stdin: Source | None,
        span: tuple[int, int],
        cwds: tuple[str | None, ...],
        place: Place = HERE,
        depth: int = 0,
        via: tuple[str, ...] = (),
        pipe_to: tuple[str, ...] = (),
    ) -> None:
        self.argv = argv
        self.env = env
        self.redirects = redirects
        self.stdin = stdin
        self.span = span
        self.cwds = cwds
        self.place = place
        self.depth = depth
        self.via = via
        self.pipe_to = pipe_to
        self.name = program_name(argv[0].text) if argv else ""

    def words(self) -> list[str]:
        """The plain texts of argv."""
        return [w.text for w in self.argv]

    def inner(self, argv: list[Word], wrapper: str, **changes: Any) -> Cmd:
        """The command that a wrapper runs, in the same surroundings."""
        return Cmd(
            argv,
            changes.get("env", self.env),
            [],
            changes.get("stdin", self.stdin),
            self.span,
            changes.get("cwds", self.cwds),
            changes.get("place", self.place),
            self.depth + 1,
            (*self.via, wrapper),
            self.pipe_to,
        )


def program_name(text: str) -> str:
    """`/usr/bin/rm` -> `rm`; a Windows suffix goes."""
    name = text.rsplit("/", 1)[-1]
    return name[:-4] if name.endswith(".exe") else name


class Hit:
    """What one rule says of one command; `facts` are for whoever acts on it later (a clock lock that is to be given back)."""

    __slots__ = ("argv", "facts", "rule", "safer", "span", "targets", "verdict", "why")

    def __init__(
        self, verdict: str, rule: str, why: str, safer: str = "", targets: tuple[str, ...] = (), cmd: Cmd | None = None
    ) -> None:
        self.verdict = verdict
        self.rule = rule
        self.why = why
        self.safer = safer
        self.targets = targets
        self.facts: dict[str, Any] = {}
        self.span = cmd.span if cmd else (0, 0)
        self.argv = cmd.words() if cmd else []


class Verdict:
    """The answer of `check`.

    Attributes:
        verdict: `allow`, `ask` or `deny`.
        rule_id: the rule that decided; None when nothing spoke against the command.
        span: byte range of the simple command that decided.
        argv: its words after expansion.
        why: one sentence.
        safer: what to run instead.
        coverage: `full`, or `partial` when a part could not be seen (an unknown variable as a target, an opaque script).
        hits: every rule that spoke, strictest first: (verdict, rule, why).
        granted: hits that a person's grant has lifted.
    """

    __slots__ = ("argv", "coverage", "granted", "hits", "rule_id", "safer", "span", "verdict", "why")

    def __init__(
        self, verdict: str, hit: Hit | None, coverage: str, hits: list[Hit], granted: list[Hit] | None = None
    ) -> None:
        self.verdict = verdict
        self.rule_id = hit.rule if hit else None
        self.span = hit.span if hit else None
        self.argv = hit.argv if hit else []
        self.why = hit.why if hit else "nothing in it is on a list of the guard"
        self.safer = hit.safer if hit else ""
        self.coverage = coverage
        self.hits = hits
        self.granted = granted or []

    def to_json(self) -> dict[str, Any]:
        """For JSON output; secrets in words are masked."""
        from infer_forge.base.redact import redact

        return {
            "verdict": self.verdict,
            "rule_id": self.rule_id,
            "span": list(self.span) if self.span else None,
            "argv": [redact(a) for a in self.argv],
            "why": redact(self.why),
            "safer": redact(self.safer),
            "coverage": self.coverage,
            "hits": [[h.verdict, h.rule, redact(h.why)] for h in self.hits],
        }
