"""Wrappers: commands that run other commands. Each is opened, so that the rules see what would really run."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import Cmd, Word, program_name

SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "rbash", "mksh", "yash", "csh", "tcsh"))
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/", "/lib")
_VERSIONED = frozenset(("python", "perl", "ruby", "lua", "php", "pypy", "gcc", "g++", "clang", "clang++"))
_COMMAND_OPTION = re.compile(r"^--[\w-]*(?:command|cmd|exec|hook|program)=(.+)$", re.DOTALL)
_COMMAND_VARIABLE = re.compile(
    r"^(?:GIT_\w*(?:COMMAND|PAGER|EDITOR|ASKPASS)|GIT_SSH|GIT_EXTERNAL_DIFF|GIT_PROXY_COMMAND|PAGER|MANPAGER|EDITOR|VISUAL|BROWSER"
    r"|SSH_ASKPASS|LESSOPEN|LESSCLOSE|PROMPT_COMMAND|SUDO_ASKPASS|RSYNC_RSH|CVS_RSH|TAR_OPTIONS|MAKEFLAGS|PERL5OPT|FCEDIT)$"
)


def unwrap(cmd: Cmd, walk: Any) -> None:
    """Open a simple command: emit what it runs and follow what it changes in the shell."""
    name = cmd.name
    for variable, value in cmd.env.items():
        if _COMMAND_VARIABLE.match(variable) and value.text.strip():
            walk.nested(value.text, cmd, f"{variable}=")
        elif variable in ("BASH_ENV", "ENV") and value.text:
            _handler("shells.script")(cmd, walk, value, [])
    for word in cmd.argv[1:]:
        match = _COMMAND_OPTION.match(word.text) if word.text.startswith("--") else None
        if match and " " in match.group(1) and name not in ("git", "docker", "podman"):
            walk.nested(match.group(1), cmd, f"{name} {word.text.split('=', 1)[0]}")
    looked = "/" in cmd.argv[0].text and _of_this_text(cmd, walk)
    if looked:
        _handler("shells.script_itself")(cmd, walk)
    if name in ("cp", "ln", "install", "mv", "curl", "wget", "tee", "dd", "mkdir"):
        _copied(cmd, walk)
    handler = HANDLERS.get(name)
    if handler is not None:
        _handler(handler)(cmd, walk)
        return
    if name in SHELLS:
        _handler("shells.shell")(cmd, walk)
        return
    base = re.sub(r"-?[\d.]+$", "", name)
    handler = HANDLERS.get(base)
    if handler is not None and base in _VERSIONED:
        _handler(handler)(cmd, walk)
        return
    pol = walk.shell.pol
    spec = pol["wrappers"].get(name)
    if spec is None and (name.startswith("ld-linux") or re.match(r"^ld(?:-\d[\d.]*)?\.so", name)):
        spec = ["", ["--library-path", "--preload", "--argv0"], 0]
    if spec is not None:
        prefix(cmd, walk, spec)
    elif name in pol["launchers"]:
        launcher(cmd, walk)
    elif name in pol["terminals"]:
        _handler("shells.terminal")(cmd, walk)
    elif looked:
        return
    elif (
        name.endswith((".sh", ".bash"))
        or (cmd.argv[0].text.startswith("/") and "." in name)
        or ("/" in cmd.argv[0].text[1:] and name not in pol["known"] and not cmd.argv[0].text.startswith(_SYSTEM))
    ):
        _handler("shells.script_itself")(cmd, walk)
    elif name not in pol["known"] and len(cmd.argv) > 2:
        stranger(cmd, walk)


def _of_this_text(cmd: Cmd, walk: Any) -> bool:
    """Whether the program is a file that this text writes, or finds first because it changes PATH: its name says nothing."""
    path, notes = os.path.normpath(cmd.argv[0].text), walk.shell.notes
    return path in notes.get("written", ()) or path in notes.get("shadowing", ())


def _copied(cmd: Cmd, walk: Any) -> None:
    """Follow files that a command makes: a copy of `rm` under another name is still `rm`."""
    plain = [w for w in cmd.argv[1:] if not w.text.startswith("-") or w.dyn]
    if cmd.name in ("cp", "ln", "install", "mv") and len(plain) == 2:
        source, target = program_name(plain[0].text), plain[1].text
        if source in walk.shell.pol["known"] and re.match(r"^/(?:usr/)?(?:local/)?s?bin/", plain[0].text) and target:
            walk.scope.aliases[target] = walk.scope.aliases[f"./{target}"] = source
        walk.wrote(plain[1], None)
        if cmd.name == "ln":
            walk.shell.notes.setdefault("links", []).append(os.path.normpath(target))
            walk.shell.notes.setdefault("linked", {})[os.path.normpath(target)] = plain[0].text
    elif cmd.name in ("tee", "mkdir"):
        from infer_forge.guard.output import text_of

        content = text_of(cmd.stdin, walk) if cmd.name == "tee" and "-a" not in cmd.words() else None
        for word in plain:
            walk.wrote(word, content)
    elif cmd.name in ("curl", "wget"):
        for i, word in enumerate(cmd.argv[:-1]):
            if word.text in ("-o", "-O", "--output", "--output-document") or re.fullmatch(r"-[a-zA-Z]+[oO]", word.text):
                walk.wrote(cmd.argv[i + 1], None)
                walk.shell.notes.setdefault("fetched", set()).add(os.path.normpath(cmd.argv[i + 1].text))
    elif cmd.name == "dd":
        for word in cmd.argv:
            if word.text.startswith("of="):
                walk.wrote(word.cut(3), None)


# ---------------------------------------------------------------- prefixes


def past_options(argv: list[Word], short: str, long: list[str], start: int = 1, assignments: bool = False) -> int:
    """Index of the first word that is no option (or value of one)."""
    i = start
    while i < len(argv):
        text = argv[i].text
        if text == "--":
            return i + 1
        if text.startswith("--"):
            i += 2 if text in long else 1
        elif text.startswith("-") and len(text) > 1:
            at = next((k for k, c in enumerate(text[1:], 1) if c in short), None)
            i += 2 if at is not None and at == len(text) - 1 else 1
        elif assignments and re.match(r"^[A-Za-z_]\w*=", text):
            i += 1
        else:
            return i
    return i


def prefix(cmd: Cmd, walk: Any, spec: list[Any]) -> None:
    """`nice -n 5 CMD`: `spec` is [short options with a value, long ones, positional words to skip, assignments allowed]."""
    short, long, skip = spec[0], spec[1], spec[2]
    assignments = len(spec) > 3 and bool(spec[3])
    at = past_options(cmd.argv, short, long, assignments=assignments) + skip
    if at < len(cmd.argv):
        env = dict(cmd.env)
        for word in cmd.argv[1:at]:
            if assignments and re.match(r"^[A-Za-z_]\w*=", word.text):
                key, _, value = word.text.partition("=")
                env[key] = Word(value, word.dyn, names=word.names)
        walk.emit(cmd.inner(cmd.argv[at:], cmd.name, env=env))


def launcher(cmd: Cmd, walk: Any) -> None:
    """A runner with many options of its own (`ncu`, `mpirun`, `uv run`): whatever known program stands in its words runs."""
    known = walk.shell.pol["known"]
    if "--" in cmd.words()[1:]:
        at = cmd.words().index("--", 1)
        if at + 1 < len(cmd.argv):
            walk.emit(cmd.inner(cmd.argv[at + 1 :], cmd.name))
            return
    for i, word in enumerate(cmd.argv[1:], 1):
        name = program_name(word.text)
        plain = re.sub(r"[\d.]+$", "", name)
        if not word.text.startswith("-") and (
            name in known or plain in known or (word.text.startswith(("./", "/")) and "." in name)
        ):
            walk.emit(cmd.inner(cmd.argv[i:], cmd.name))
            return
        if (
            name.endswith(".py")
            and not word.text.startswith("-")
            and cmd.name in ("torchrun", "accelerate", "deepspeed")
        ):
            walk.emit(cmd.inner([Word("python"), *cmd.argv[i:]], cmd.name))
            return


def stranger(cmd: Cmd, walk: Any) -> None:
    """A program that the guard does not know, with the words of a destructive command behind it: it may be a wrapper.

    `tool rm NAME` alone is a subcommand; `tool rm -rf /x`, `tool -n 0 -- rm x` and `tool sh -c CODE` are not.
    """
    for i, word in enumerate(cmd.argv[1:-1], 1):
        name, after = program_name(word.text), cmd.argv[i + 1].text
        shell = name in SHELLS and after.startswith("-") and "c" in after
        carried = name in walk.shell.pol["carried"] and (
            after.startswith(("-", "/", "~")) or cmd.argv[i - 1].text in ("--", "-e", "-x")
        )
        if shell or carried:
            walk.emit(cmd.inner(cmd.argv[i:], cmd.name))
            return


def quote(word: Word) -> str:
    """A word as shell text; unknown pieces stay marked."""
    if word.dyn:
        return word.raw
    return "'" + word.text.replace("'", "'\\''") + "'"


def payload(word: Word, cmd: Cmd, walk: Any, wrapper: str, tail: str = "", **changes: Any) -> None:
    """A word that holds shell code: walk it; an unknown one is a problem."""
    if word.dyn and not word.text.strip():
        walk.shell.problem(f"what {wrapper} runs cannot be known before it runs", cmd.span)
        return
    walk.nested(f"{word.raw} {tail}".rstrip() if tail else word.raw, cmd, wrapper, **changes)


_loaded: dict[str, Any] = {}


def _handler(name: str) -> Any:
    """`shells.env` -> the function; its module is loaded when such a program first occurs."""
    found = _loaded.get(name)
    if found is None:
        import importlib

        module, _, function = name.partition(".")
        found = _loaded[name] = getattr(importlib.import_module(f"infer_forge.guard.{module}"), function)
    return found


HANDLERS: dict[str, str] = {
    "env": "shells.env",
    "eval": "shells.run_eval",
    "source": "shells.source",
    ".": "shells.source",
    "command": "shells.command",
    "trap": "shells.trap",
    "coproc": "shells.coproc",
    "{": "shells.coproc",
    "!": "shells.coproc",
    "time": "shells.time_prefix",
    "su": "shells.su",
    "runuser": "shells.su",
    "script": "shells.script_command",
    "flock": "shells.script_command",
    "alias": "shells.alias",
    "cd": "shells.cd",
    "pushd": "shells.cd",
    "popd": "shells.cd",
    "set": "shells.set_words",
    "read": "shells.read",
    "mapfile": "shells.read",
    "readarray": "shells.read",
    "printf": "shells.printf",
    "apptainer": "boxes.apptainer",
    "singularity": "boxes.apptainer",
    "sbatch": "relays.sbatch",
    "sg": "shells.su",
    "newgrp": "shells.su",
    "hash": "shells.hashed",
    "capsh": "shells.capsh",
    "machinectl": "shells.machinectl",
    "crontab": "shells.crontab",
    "man": "shells.manual",
    "watch": "shells.joined_words",
    "hyperfine": "shells.joined_words",
    "ssh": "relays.ssh",
    "autossh": "relays.ssh",
    "mosh": "relays.ssh",
    "sshpass": "shells.sshpass",
    "pdsh": "relays.pssh",
    "clush": "relays.pssh",
    "pssh": "relays.pssh",
    "parallel-ssh": "relays.pssh",
    "ansible": "relays.pssh",
    "xargs": "relays.xargs",
    "parallel": "relays.parallel",
    "find": "relays.find",
    "gfind": "relays.find",
    "fd": "relays.find",
    "fdfind": "relays.find",
    "tmux": "relays.tmux",
    "screen": "relays.screen",
    "at": "relays.at",
    "batch": "relays.at",
    "python": "pycode.command",
    "pypy": "pycode.command",
    "ipython": "pycode.command",
    "node": "othercode.node",
    "nodejs": "othercode.node",
    "bun": "othercode.node",
    "deno": "othercode.node",
    "perl": "othercode.script",
    "ruby": "othercode.script",
    "php": "othercode.script",
    "lua": "othercode.script",
    "Rscript": "othercode.script",
    "julia": "othercode.script",
    "awk": "othercode.awk",
    "gawk": "othercode.awk",
    "mawk": "othercode.awk",
    "sed": "othercode.sed",
    "vim": "othercode.editor",
    "vi": "othercode.editor",
    "nvim": "othercode.editor",
    "ex": "othercode.editor",
    "view": "othercode.editor",
    "emacs": "othercode.editor",
    "ed": "othercode.editor",
    "less": "othercode.editor",
    "gdb": "othercode.debugger",
    "cuda-gdb": "othercode.debugger",
    "lldb": "othercode.debugger",
    "sqlite3": "othercode.debugger",
    "bpftrace": "othercode.generic",
    "expect": "othercode.script",
    "tclsh": "othercode.generic",
    "wish": "othercode.generic",
    "gnuplot": "othercode.generic",
    "octave": "othercode.generic",
    "psql": "othercode.generic",
    "mysql": "othercode.generic",
    "mariadb": "othercode.generic",
    "dc": "othercode.generic",
    "m4": "othercode.generic",
    "guile": "othercode.generic",
    "racket": "othercode.generic",
    "sbcl": "othercode.generic",
    "ghci": "othercode.generic",
    "scala": "othercode.generic",
    "groovy": "othercode.generic",
    "jshell": "othercode.generic",
    "raku": "othercode.generic",
    "elixir": "othercode.generic",
    "erl": "othercode.generic",
    "R": "othercode.generic",
    "matlab": "othercode.generic",
    "osascript": "othercode.generic",
    "ftp": "othercode.generic",
    "lftp": "othercode.generic",
    **dict.fromkeys(
        ["gcc", "g++", "cc", "c++", "clang", "clang++", "nvcc", "hipcc", "tcc", "rustc", "go", "zig"],
        "compilers.compiled",
    ),
    "make": "recipes.make",
    "gmake": "recipes.make",
    "just": "recipes.make",
    "tar": "othercode.archive",
    "bsdtar": "othercode.archive",
    "rsync": "othercode.archive",
    "zip": "othercode.archive",
    "npm": "recipes.npm",
    "npx": "recipes.npx",
    "pnpm": "recipes.npm",
    "yarn": "recipes.npm",
    "git": "gitcmd.unwrap",
    "hub": "gitcmd.hub",
    "docker": "boxes.docker",
    "podman": "boxes.docker",
    "nerdctl": "boxes.docker",
    "docker-compose": "boxes.docker",
    "kubectl": "boxes.kubectl",
    "oc": "boxes.kubectl",
}
