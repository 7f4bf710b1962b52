"""Shells, scripts and the shell's own commands: what they run, and what they change for the commands behind them."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import Cmd, Place, Source, Word
from infer_forge.guard.output import read_file, text_of
from infer_forge.guard.unwrap import past_options, payload, prefix, quote


def env(cmd: Cmd, walk: Any) -> None:
    """env: assignments, -S, -C and the command behind them."""
    i, argv = 1, cmd.argv
    env, cwds = dict(cmd.env), cmd.cwds
    while i < len(argv):
        text = argv[i].text
        if text in ("-S", "--split-string") or (
            text.startswith("-") and not text.startswith("--") and text.endswith("S") and len(text) < 5
        ):
            rest = " ".join(quote(w) for w in argv[i + 2 :])
            code = argv[i + 1] if i + 1 < len(argv) else Word("")
            payload(code, cmd, walk, "env -S", tail=rest)
            return
        if text.startswith(("-S", "--split-string=")):
            code = argv[i].cut(2 if text.startswith("-S") else len("--split-string="))
            payload(code, cmd, walk, "env -S", tail=" ".join(quote(w) for w in argv[i + 1 :]))
            return
        if text in ("-u", "--unset", "-C", "--chdir", "-a", "--argv0"):
            if text in ("-C", "--chdir") and i + 1 < len(argv):
                cwds = moved(cmd.cwds, argv[i + 1])
            i += 2
        elif text == "--":
            i += 1
            break
        elif text.startswith("-"):
            i += 1
        elif re.match(r"^[A-Za-z_]\w*=", text):
            key, _, value = text.partition("=")
            env[key] = Word(value, argv[i].dyn, names=argv[i].names)
            i += 1
        else:
            break
    if i < len(argv):
        walk.emit(cmd.inner(argv[i:], "env", env=env, cwds=cwds))


def shell(cmd: Cmd, walk: Any) -> None:
    """`sh -c CODE`, `sh FILE`, code on standard input."""
    argv, i = cmd.argv, 1
    has_code = False
    dry = False
    while i < len(argv):
        text = argv[i].text
        if text in ("--rcfile", "--init-file", "-o", "+o", "-O", "+O"):
            if text in ("--rcfile", "--init-file") and i + 1 < len(argv):
                script(cmd, walk, argv[i + 1], [])
            i += 2
        elif text == "--":
            i += 1
            break
        elif text.startswith("--"):
            if text == "--command":
                has_code = True
            i += 1
        elif text.startswith(("-", "+")) and len(text) > 1:
            has_code = has_code or "c" in text[1:]
            dry = dry or (text[0] == "-" and "n" in text[1:] and "c" not in text)
            i += 2 if text.endswith(("o", "O")) and text[0] == "-" and "c" not in text else 1
        else:
            break
    if dry:
        return
    rest = argv[i:]
    scope = walk.scope.copy()
    for variable, value in cmd.env.items():
        scope.vars[variable] = [[value]]
    if has_code:
        if rest:
            scope.pos = [[w] for w in rest[2:]]
            scope.vars["0"] = [[rest[1] if len(rest) > 1 else Word(cmd.name)]]
            payload(rest[0], cmd, walk, f"{cmd.name} -c", scope=scope)
        return
    if rest and rest[0].text not in ("-", "/dev/stdin"):
        if rest[0].text.startswith("/dev/fd/") and rest[0].sources:
            stdin_code(cmd, walk, Source(cmds=rest[0].sources), scope)
            return
        script(cmd, walk, rest[0], rest[1:])
        return
    if cmd.stdin is not None:
        stdin_code(cmd, walk, cmd.stdin, scope)
    elif len(argv) > 1 and any(w.text == "-s" for w in argv):
        walk.shell.problem(f"{cmd.name} reads code that cannot be seen", cmd.span)


def stdin_code(cmd: Cmd, walk: Any, source: Source, scope: Any, place: Place | None = None) -> None:
    """Code on standard input."""
    text = text_of(source, walk)
    if text is None and source.text is not None:
        text = source.text
        walk.shell.partial = True
    if text is None:
        walk.shell.problem(f"code is piped into {cmd.name} that cannot be seen before it runs", cmd.span)
        return
    walk.nested(text, cmd, f"{cmd.name} <", scope=scope, stdin=None, place=place or cmd.place)


def script(cmd: Cmd, walk: Any, word: Word, args: list[Word]) -> None:
    """A script on disk: read it when it is readable and short, otherwise ask."""
    text = (
        read_file(word, cmd.cwds, walk.shell.notes) if cmd.place.container is None and cmd.place.node is None else None
    )
    if text is None:
        walk.shell.problem(
            f"the script {word.text or '(unknown)'} cannot be read here, so what it does is not known", cmd.span
        )
        return
    scope = walk.scope.copy()
    scope.pos = [[w] for w in args]
    walk.shell.in_file += 1
    try:
        walk.nested(text, cmd, f"script {word.text}", scope=scope)
    finally:
        walk.shell.in_file -= 1


def script_itself(cmd: Cmd, walk: Any) -> None:
    """`./cleanup.sh`: a readable shell or Python script is looked into; a program that is no text is left alone."""
    text = (
        read_file(cmd.argv[0], cmd.cwds, walk.shell.notes)
        if cmd.place.container is None and cmd.place.node is None
        else None
    )
    name = cmd.name
    if text is None:
        if os.path.normpath(cmd.argv[0].text) in walk.shell.notes.get("fetched", ()):
            walk.shell.problem(f"{cmd.argv[0].text} is made by this same line, so what it does is not known", cmd.span)
            return
        if name.endswith((".sh", ".bash")):
            walk.shell.problem(
                f"the script {cmd.argv[0].text} cannot be read here, so what it does is not known", cmd.span
            )
        return
    head = text.split("\n", 1)[0]
    if name.endswith(".py") or "python" in head:
        from infer_forge.guard import pycode

        pycode.run(text, cmd, walk, in_file=True)
    elif name.endswith((".sh", ".bash")) or (head.startswith("#!") and re.search(r"\b(?:ba|z|da|k)?sh\b", head)):
        script(cmd, walk, cmd.argv[0], cmd.argv[1:])


def source(cmd: Cmd, walk: Any) -> None:
    """source and `.`: a file that is read into this shell."""
    if len(cmd.argv) < 2:
        return
    word = cmd.argv[1]
    if word.text in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-") and cmd.stdin is not None:
        stdin_code(cmd, walk, cmd.stdin, walk.scope)
        return
    if word.sources and word.dyn:
        stdin_code(cmd, walk, Source(cmds=word.sources), walk.scope)
        return
    if re.search(r"/bin/activate(?:\.\w+)?$", word.text):
        for cwd in cmd.cwds:
            path = word.text if word.text.startswith("/") else os.path.join(cwd or "/", word.text)
            walk.scope.venvs.append(os.path.normpath(path.rsplit("/bin/", 1)[0]))
        return
    text = read_file(word, cmd.cwds, walk.shell.notes)
    if text is None:
        walk.shell.problem(f"the file {word.text or '(unknown)'} is sourced and cannot be read here", cmd.span)
        return
    walk.shell.in_file += 1
    walk.nested(text, cmd, f"source {word.text}")
    walk.shell.in_file -= 1


def run_eval(cmd: Cmd, walk: Any) -> None:
    """eval joins its words into shell text."""
    if any(w.dyn for w in cmd.argv[1:]):
        harmless = all(not w.dyn or known_eval(w) for w in cmd.argv[1:])
        if harmless:
            return
        walk.shell.problem("what eval runs cannot be known before it runs", cmd.span)
    walk.nested(" ".join(w.raw for w in cmd.argv[1:]), cmd, "eval")


def known_eval(word: Word) -> bool:
    """`eval "$(ssh-agent -s)"` and the like: code that a known tool prints for this purpose."""
    makers = {
        "ssh-agent",
        "conda",
        "direnv",
        "pyenv",
        "rbenv",
        "brew",
        "dircolors",
        "starship",
        "zoxide",
        "micromamba",
        "mise",
        "fnm",
    }
    return bool(word.sources) and all(c.name in makers for c in word.sources)


def command(cmd: Cmd, walk: Any) -> None:
    """command: `-v` only asks."""
    if len(cmd.argv) > 1 and cmd.argv[1].text in ("-v", "-V"):
        return
    prefix(cmd, walk, ["", [], 0])


def joined_words(cmd: Cmd, walk: Any) -> None:
    """`watch CMD ...` and others that join their words into shell text."""
    short, long = {
        "watch": ("n", ["--interval"]),
        "hyperfine": ("wmMrnpc", ["--warmup", "--runs", "--min-runs", "--max-runs", "--prepare", "--cleanup"]),
    }.get(cmd.name, ("", []))
    at = past_options(cmd.argv, short, list(long))
    if cmd.name == "hyperfine":
        for word in cmd.argv[at:]:
            payload(word, cmd, walk, cmd.name)
    elif at < len(cmd.argv):
        walk.nested(" ".join(w.raw for w in cmd.argv[at:]), cmd, cmd.name)


def hashed(cmd: Cmd, walk: Any) -> None:
    """hash -p PATH NAME: another program under a known name."""
    texts = cmd.words()
    if "-p" in texts[:-2]:
        at = texts.index("-p")
        walk.scope.aliases[texts[at + 2]] = texts[at + 1]


def trap(cmd: Cmd, walk: Any) -> None:
    """trap: code for later."""
    rest = [w for w in cmd.argv[1:] if w.text not in ("--", "-p", "-l")]
    if len(rest) > 1 and rest[0].text not in ("-", ""):
        if any(w.text in ("EXIT", "0") for w in rest[1:]) and "$" in rest[0].text:
            walk.shell.notes.setdefault("traps", []).append(
                (rest[0], cmd, walk, walk.scope)
            )  # its variables are set by then
        else:
            payload(rest[0], cmd, walk, "trap")


def late_traps(shell: Any) -> None:
    """Walk what `trap ... EXIT` runs, with the variables as they are at the end."""
    for word, cmd, walk, scope in shell.notes.pop("traps", []):
        payload(word, cmd, walk, "trap", scope=scope)


def terminal(cmd: Cmd, walk: Any) -> None:
    """`xterm -e CMD ...`, `gnome-terminal -- CMD`: one word is shell text, several are a command."""
    texts = cmd.words()
    at = next((i for i, t in enumerate(texts) if t in ("-e", "-x", "--", "--command", "-c")), None)
    rest = cmd.argv[at + 1 :] if at else []
    if len(rest) == 1:
        payload(rest[0], cmd, walk, cmd.name)
    elif rest:
        walk.emit(cmd.inner(rest, cmd.name))


def capsh(cmd: Cmd, walk: Any) -> None:
    """capsh: what stands behind `--` are words for bash."""
    texts = cmd.words()
    if "--" in texts:
        shell(cmd.inner([Word("bash"), *cmd.argv[texts.index("--") + 1 :]], "capsh"), walk)


def machinectl(cmd: Cmd, walk: Any) -> None:
    """machinectl shell [USER@]MACHINE PROGRAM: a program of that machine, `.host` being this one."""
    at = past_options(cmd.argv, "pMnoEH", ["--uid", "--setenv", "--machine"])
    if at < len(cmd.argv) and cmd.argv[at].text == "shell" and at + 2 < len(cmd.argv):
        walk.emit(cmd.inner(cmd.argv[at + 2 :], "machinectl shell"))


def crontab(cmd: Cmd, walk: Any) -> None:
    """crontab FILE, or a table on standard input: the command of each line."""
    plain = [w for w in cmd.argv[1:] if not w.text.startswith("-")]
    known = read_file(plain[-1], cmd.cwds, walk.shell.notes) if plain else text_of(cmd.stdin, walk)
    parts = [known] if known is not None else [text_of(Source(cmds=(c,)), walk) for c in _printers(cmd)]
    for line in "\n".join(p for p in parts if p).split("\n"):
        match = re.match(r"\s*(?:@\w+|(?:\S+\s+){4}\S+)\s+(.+)", line)
        if match and not line.lstrip().startswith("#"):
            walk.nested(match.group(1), cmd, "crontab", stdin=None)


def _printers(cmd: Cmd) -> tuple[Cmd, ...]:
    return cmd.stdin.cmds if cmd.stdin else ()


def manual(cmd: Cmd, walk: Any) -> None:
    """man -P PAGER."""
    texts = cmd.words()
    for i, text in enumerate(texts[1:], 1):
        if text in ("-P", "--pager") and i + 1 < len(texts):
            payload(cmd.argv[i + 1], cmd, walk, "man -P")
        elif text.startswith("-P") and len(text) > 2:
            payload(cmd.argv[i].cut(2), cmd, walk, "man -P")


def coproc(cmd: Cmd, walk: Any) -> None:
    """coproc, `{` and `!`: the command behind them."""
    rest = cmd.argv[1:]
    if len(rest) > 1 and rest[1].text in ("{", "("):
        rest = rest[1:]
    while rest and rest[0].text in ("{", "(", "!"):
        rest = rest[1:]
    if rest:
        walk.emit(cmd.inner(rest, cmd.name))


def su(cmd: Cmd, walk: Any) -> None:
    """su and runuser."""
    texts = cmd.words()
    for i, text in enumerate(texts[1:], 1):
        if text in ("-c", "--command", "--session-command") and i + 1 < len(texts):
            payload(cmd.argv[i + 1], cmd, walk, cmd.name)
            return
        if text.startswith("--command="):
            payload(cmd.argv[i].cut(10), cmd, walk, cmd.name)
            return
    if cmd.name == "runuser":
        at = past_options(cmd.argv, "ugG", ["--user", "--group"])
        if at < len(cmd.argv):
            walk.emit(cmd.inner(cmd.argv[at:], cmd.name))
    elif cmd.stdin is not None:
        stdin_code(cmd, walk, cmd.stdin, walk.scope.copy())


def script_command(cmd: Cmd, walk: Any) -> None:
    """script(1), flock(1): `-c CODE`; flock also `FILE CMD`, script of the BSDs too, and of util-linux behind `--`."""
    for i, text in enumerate(cmd.words()[1:], 1):
        code = _code_of(cmd, i, text)
        if code is not None:
            payload(code, cmd, walk, cmd.name)
            return
    behind = cmd.words().index("--") + 1 if cmd.name == "script" and "--" in cmd.words() else 0
    if behind:
        walk.emit(cmd.inner(cmd.argv[behind:], cmd.name))
    else:
        prefix(cmd, walk, _BEHIND_A_FILE[cmd.name])


_BEHIND_A_FILE: dict[str, list[Any]] = {
    "flock": ["wE", ["--wait", "--timeout", "--conflict-exit-code"], 1],
    "script": ["BEIOTmoFt", ["--log-in", "--log-io", "--log-out", "--log-timing", "--logging-format"], 1],
}


def _code_of(cmd: Cmd, i: int, text: str) -> Word | None:
    """The code that `-c CODE`, `-qcCODE`, `--command CODE` or `--command=CODE` at this place gives."""
    if text in ("-c", "--command") or re.fullmatch(r"-[a-z]+c", text):
        return cmd.argv[i + 1] if i + 1 < len(cmd.argv) else None
    attached = re.match(r"--command=|-[aefq]*c", text)
    return cmd.argv[i].cut(attached.end()) if attached else None


def alias(cmd: Cmd, walk: Any) -> None:
    """alias: a name for later."""
    for word in cmd.argv[1:]:
        key, eq, value = word.text.partition("=")
        if eq:
            walk.scope.aliases[key] = value


def cd(cmd: Cmd, walk: Any) -> None:
    """cd, pushd, popd: the folder of what follows."""
    rest = [w for w in cmd.argv[1:] if w.text not in ("-P", "-L", "-e", "--", "-n")]
    scope = walk.scope
    if cmd.name == "popd":
        scope.cwds = (*scope.cwds, None)
        return
    if not rest:
        scope.cwds = (scope.env.get("HOME"),) if cmd.name == "cd" else (None,)
        return
    if rest[0].fresh and not rest[0].dyn:
        scope.cwds = ("\0fresh",)
        return
    made = (None,) if rest[0].text == "-" else moved(scope.cwds, rest[0])
    scope.cwds = tuple(dict.fromkeys((*made, *scope.cwds) if scope.conditional else made))[:4]


def moved(cwds: tuple[str | None, ...], word: Word) -> tuple[str | None, ...]:
    """The folders that `cd WORD` may lead to."""
    if word.dyn or word.glob or not word.text:
        return (None,)
    if word.text.startswith("/"):
        return (os.path.normpath(word.text),)
    return tuple(os.path.normpath(os.path.join(c, word.text)) if c else None for c in cwds)


def set_words(cmd: Cmd, walk: Any) -> None:
    """set --: positional words."""
    words = cmd.words()
    if "--" in words:
        walk.scope.pos = [[w] for w in cmd.argv[words.index("--") + 1 :]]


def read(cmd: Cmd, walk: Any) -> None:
    """read, mapfile: variables from standard input."""
    at = past_options(cmd.argv, "adinNptu", [])
    names = [w.text for w in cmd.argv[at:]] or ["REPLY" if cmd.name == "read" else "MAPFILE"]
    if "-a" in cmd.words():
        names.append(
            cmd.argv[cmd.words().index("-a") + 1].text if cmd.words().index("-a") + 1 < len(cmd.argv) else "REPLY"
        )
    text = text_of(cmd.stdin, walk)
    sources = cmd.stdin.cmds if cmd.stdin else ()
    lines = [line for line in (text or "").split("\n") if line]
    for i, name in enumerate(names):
        if text is not None and cmd.name == "read":
            values = [line.split(None, len(names) - 1) if len(names) > 1 else [line] for line in lines[:8]]
            walk.scope.vars[name] = [[Word(v[i] if i < len(v) else "")] for v in values] or [[Word("")]]
        elif text is not None:
            walk.scope.vars[name] = [[Word(line) for line in lines]]
        else:
            walk.scope.vars[name] = [[Word("", dyn=True, sources=sources, names=(name,))]]


def printf(cmd: Cmd, walk: Any) -> None:
    """printf -v: a variable from a format."""
    words = cmd.words()
    if words[1:2] == ["-v"] and len(words) > 3:
        from infer_forge.guard.output import output_of

        made = output_of([cmd.inner([cmd.argv[0], *cmd.argv[3:]], "printf")], walk)
        walk.scope.assign(words[2], [made or Word("", dyn=True)])


def time_prefix(cmd: Cmd, walk: Any) -> None:
    """time: the command behind it."""
    prefix(cmd, walk, ["fo", ["--format", "--output"], 0, True])


def sshpass(cmd: Cmd, walk: Any) -> None:
    """sshpass CMD."""
    prefix(cmd, walk, ["fdpP", [], 0])
