"""What a program's own help says: stored with its hash, and every flag of a command held against it (A56, A57, A63).

The help of the image at hand is the authority; what we know of flags is only a draft. What could not be asked (the program
is not installed here) is `unverified`, with the date.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable, MissingPart
from infer_forge.engines import frameworks
from infer_forge.engines.command import Shape, flags_of
from infer_forge.engines.runner import Place

_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_WHERE = 'p=$(command -v "$1") || exit 1; echo "$p"; if command -v sha256sum >/dev/null 2>&1; then sha256sum < "$(readlink -f "$p")"; fi'
_BRACKET = re.compile(r"--\[no-\]([A-Za-z][\w-]*)")
OLD_DAYS = 14
"""A help snapshot older than this is told: images are rebuilt, flags come and go (A57)."""

TIMEOUT_S = 180
"""Importing a real engine for its help takes tens of seconds."""


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Help:
    """The help of one program: how it was asked, its text's hash and flags, the binary, or why it could not be asked."""

    argv: list[str]
    state: str
    taken_at: str
    sha256: str | None = None
    binary: str | None = None
    binary_sha256: str | None = None
    version: str | None = None
    flags: list[str] = field(default_factory=list[str])
    reason: str | None = None
    file: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """Server and client help of a framework in one place."""

    framework: str
    place: str
    server: Help
    client: Help
    aliases: dict[str, Help] = field(default_factory=dict[str, Help])

    def to_json(self) -> dict[str, Any]:
        """All of it but the texts, which stand in the files."""
        return asdict(self)

    def sha256(self) -> str:
        """One hash for the pair, for rows to carry."""
        return jsonio.sha256_of([self.framework, self.server.sha256, self.client.sha256])


def flags_in(text: str) -> list[str]:
    """Every flag that a help text names, `--[no-]x` as both."""
    both = [f"--{prefix}{name}" for name in _BRACKET.findall(text) for prefix in ("", "no-")]
    return sorted({*_FLAG.findall(text), *both})


def ask(place: Place, argv: Sequence[str], version_argv: Sequence[str], *, folder: Path | None, name: str) -> Help:
    """Ask a program for its help and version in a place; keep the text in `folder`. Never raises for an absent program."""
    words = list(argv)
    try:
        done = place.run(words, timeout_s=TIMEOUT_S)
        if not flags_in(done.out) and words[-1] == "--help=all":
            words[-1] = "--help"
            done = place.run(words, timeout_s=TIMEOUT_S)
    except MissingPart as fault:
        return Help(words, "unverified", _now(), reason=str(fault.what))
    text = done.out
    if done.timed_out or done.code != 0 or not flags_in(text):
        told = (done.err.strip() or text.strip()).splitlines()[-1:] or ["no help came"]
        return Help(words, "unverified", _now(), reason="no answer in time" if done.timed_out else told[0][:200])
    path = None
    if folder is not None:
        path = jsonio.write_atomic(folder / f"{name}.txt", text)
    path_there, binary_sha = binary(place, words[0])
    told_version = version(place, version_argv)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Help(
        words,
        "verified",
        _now(),
        digest,
        path_there,
        binary_sha,
        told_version,
        flags_in(text),
        file=str(path) if path else None,
    )


def binary(place: Place, program: str) -> tuple[str | None, str | None]:
    """(path, sha256) of a program in a place; None where it cannot be told."""
    try:
        lines = place.shell(_WHERE, program).out.split()
    except MissingPart:
        return None, None
    return (lines[0] if lines else None), (lines[1] if len(lines) > 1 else None)


def version(place: Place, argv: Sequence[str]) -> str | None:
    """What a program says its version is (the last line of its answer); None where it does not say."""
    if not argv:
        return None
    words = ["python3" if w == "python" else w for w in argv]
    try:
        done = place.run(words, timeout_s=TIMEOUT_S)
    except MissingPart:
        return None
    text = done.out.strip().splitlines()[-1:] if done.code == 0 else []
    return text[0].strip() if text else None


def snapshot(
    framework: str, place: Place, *, client: str | None = None, folder: Path | None = None, python: str = "python3"
) -> Snapshot:
    """Store server and client help of a framework as the place has them (`help/NAME-server.txt` and so on)."""
    grammar = frameworks.grammar(framework)
    loader = frameworks.client(client) if client else grammar.client

    def words(launch: Sequence[str]) -> list[str]:
        return [python if w == "python" else w for w in launch]

    server = ask(
        place,
        [*words(grammar.launches[0]), *grammar.help_argv],
        words(grammar.version_argv),
        folder=folder,
        name=f"{grammar.name}-server",
    )
    load = ask(
        place,
        [*words(loader.launch), "--help"],
        words(loader.version_argv),
        folder=folder,
        name=f"{grammar.name}-client",
    )
    aliases = {
        " ".join(a): ask(place, [*a, *grammar.help_argv], (), folder=None, name="") for a in grammar.verified_aliases
    }
    made = Snapshot(grammar.name, place.spec, server, load, aliases)
    if folder is not None:
        jsonio.write_atomic(folder / f"{grammar.name}.json", jsonio.dumps(made.to_json(), indent=True) + b"\n")
    return made


def load(path: str | Path) -> Snapshot:
    """Read a stored snapshot. Raises `InputUnusable` when it is none."""
    raw = jsonio.read_json(path)
    try:
        data = cast("dict[str, Any]", raw)
        return Snapshot(
            data["framework"],
            data["place"],
            Help(**data["server"]),
            Help(**data["client"]),
            {k: Help(**v) for k, v in data["aliases"].items()},
        )
    except (KeyError, TypeError, AttributeError):
        raise InputUnusable(
            "is no help snapshot", where=str(path), next_step="infer-forge engine help-snapshot"
        ) from None


def age_days(taken: Help) -> float:
    """Days since a help was taken."""
    at = datetime.strptime(taken.taken_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    return (datetime.now(timezone.utc) - at).total_seconds() / 86400


@dataclass(frozen=True)
class FlagCheck:
    """One flag of a command: `known`, `unknown` (the help does not name it), or `unverified` (no help was at hand)."""

    flag: str
    state: str
    checked_at: str
    hint: str = ""


def check_flags(words: Sequence[str], help_of: Help | None) -> list[FlagCheck]:
    """Hold every flag of a command against a help."""
    if help_of is None or help_of.state != "verified":
        when = help_of.taken_at if help_of else _now()
        return [FlagCheck(f, "unverified", when, "no help was at hand") for f in flags_of(words)]
    known = set(help_of.flags)
    result: list[FlagCheck] = []
    for flag in flags_of(words):
        if flag in known or flag.replace("_", "-") in known:
            result.append(FlagCheck(flag, "known", help_of.taken_at))
        else:
            near = difflib.get_close_matches(flag, sorted(known), 1)
            result.append(FlagCheck(flag, "unknown", help_of.taken_at, f"did you mean {near[0]}?" if near else ""))
    return result


def refuse_unknown(checks: Sequence[FlagCheck], *, where: str, allowed: Sequence[str] = ()) -> None:
    """Refuse a command with flags that the program's help does not name. Raises `GateRefused`."""
    bad = [c for c in checks if c.state == "unknown" and c.flag not in allowed]
    if bad:
        told = ", ".join(f"{c.flag} ({c.hint})" if c.hint else c.flag for c in bad)
        raise GateRefused(
            f"the program's help does not name {told}",
            where=where,
            next_step="correct the flag, or take a new help snapshot",
        )


def refuse_unverified_alias(shape: Shape, taken: Snapshot | None) -> None:
    """Refuse an alias whose help is not that of the name it stands for (A58). Raises `GateRefused`."""
    if not shape.alias:
        return
    name = " ".join(shape.launch)
    alias = taken.aliases.get(name) if taken else None
    if alias is None or taken is None or alias.state != "verified" or alias.flags != taken.server.flags:
        raise GateRefused(
            f"{name} is an alias that was not verified",
            next_step="use the full name, or take a help snapshot where both exist",
        )
