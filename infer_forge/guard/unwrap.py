"""Wrappers: commands that run other commands. Each is opened, so that the rules see what would really run."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import Cmd, Place, Source, Word, program_name
from infer_forge.guard.output import read_file, text_of

SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "rbash", "mksh", "yash", "csh", "tcsh"))
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
            _script(cmd, walk, value, [])
    for word in cmd.argv[1:]:
        match = _COMMAND_OPTION.match(word.text) if word.text.startswith("--") else None
        if match and " " in match.group(1) and name not in ("git", "docker", "podman"):
            walk.nested(match.group(1), cmd, f"{name} {word.text.split('=', 1)[0]}")
    handler = _HANDLERS.get(name)
    if handler is not None:
        handler(cmd, walk)
        return
    if name in SHELLS:
        shell(cmd, walk)
        return
    base = re.sub(r"[\d.]+$", "", name)
    handler = _HANDLERS.get(base)
    if handler is not None and base in ("python", "perl", "ruby", "lua", "php", "pypy"):
        handler(cmd, walk)
        return
    pol = walk.shell.pol
    spec = pol["wrappers"].get(name)
    if spec is not None:
        prefix(cmd, walk, spec)
    elif name in pol["launchers"]:
        launcher(cmd, walk)
    elif name.endswith((".sh", ".bash")) or (cmd.argv[0].text.startswith(("./", "/", "../")) and "." in name) or cmd.argv[0].text.startswith(("./", "../")):
        _script_itself(cmd, walk)


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
    short, long, skip, assignments = (*spec, False)[:4]
    at = past_options(cmd.argv, short, long, assignments=bool(assignments)) + skip
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


def _env(cmd: Cmd, walk: Any) -> None:
    i, argv = 1, cmd.argv
    env, cwds = dict(cmd.env), cmd.cwds
    while i < len(argv):
        text = argv[i].text
        if text in ("-S", "--split-string") or (
            text.startswith("-") and not text.startswith("--") and text.endswith("S") and len(text) < 5
        ):
            rest = " ".join(_quote(w) for w in argv[i + 2 :])
            payload = argv[i + 1] if i + 1 < len(argv) else Word("")
            _payload(payload, cmd, walk, "env -S", tail=rest)
            return
        if text.startswith("-S") or text.startswith("--split-string="):
            payload = argv[i].cut(2 if text.startswith("-S") else len("--split-string="))
            _payload(payload, cmd, walk, "env -S", tail=" ".join(_quote(w) for w in argv[i + 1 :]))
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


def _quote(word: Word) -> str:
    if word.dyn:
        return word.raw
    return "'" + word.text.replace("'", "'\\''") + "'"


def _payload(word: Word, cmd: Cmd, walk: Any, wrapper: str, tail: str = "", **changes: Any) -> None:
    """A word that holds shell code: walk it; an unknown one is a problem."""
    if word.dyn and not word.text.strip():
        walk.shell.problem(f"what {wrapper} runs cannot be known before it runs", cmd.span)
        return
    walk.nested(f"{word.raw} {tail}".rstrip() if tail else word.raw, cmd, wrapper, **changes)


# ---------------------------------------------------------------- shells and scripts


def shell(cmd: Cmd, walk: Any) -> None:
    """`sh -c CODE`, `sh FILE`, code on standard input."""
    argv, i = cmd.argv, 1
    has_code = False
    dry = False
    while i < len(argv):
        text = argv[i].text
        if text in ("--rcfile", "--init-file", "-o", "+o", "-O", "+O"):
            if text in ("--rcfile", "--init-file") and i + 1 < len(argv):
                _script(cmd, walk, argv[i + 1], [])
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
            _payload(rest[0], cmd, walk, f"{cmd.name} -c", scope=scope)
        return
    if rest and rest[0].text not in ("-", "/dev/stdin"):
        if rest[0].text.startswith("/dev/fd/") and rest[0].sources:
            _stdin_code(cmd, walk, Source(cmds=rest[0].sources), scope)
            return
        _script(cmd, walk, rest[0], rest[1:])
        return
    if cmd.stdin is not None:
        _stdin_code(cmd, walk, cmd.stdin, scope)
    elif len(argv) > 1 and any(w.text == "-s" for w in argv):
        walk.shell.problem(f"{cmd.name} reads code that cannot be seen", cmd.span)


def _stdin_code(cmd: Cmd, walk: Any, source: Source, scope: Any, place: Place | None = None) -> None:
    text = text_of(source, walk)
    if text is None and source.text is not None:
        text = source.text
        walk.shell.partial = True
    if text is None:
        walk.shell.problem(f"code is piped into {cmd.name} that cannot be seen before it runs", cmd.span)
        return
    walk.nested(text, cmd, f"{cmd.name} <", scope=scope, stdin=None, place=place or cmd.place)


def _script(cmd: Cmd, walk: Any, word: Word, args: list[Word]) -> None:
    """A script on disk: read it when it is readable and short, otherwise ask."""
    text = read_file(word, cmd.cwds) if cmd.place.container is None and cmd.place.node is None else None
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


def _script_itself(cmd: Cmd, walk: Any) -> None:
    """`./cleanup.sh`: a readable shell or Python script is looked into; a program that is no text is left alone."""
    text = read_file(cmd.argv[0], cmd.cwds) if cmd.place.container is None and cmd.place.node is None else None
    name = cmd.name
    if text is None:
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
        _script(cmd, walk, cmd.argv[0], cmd.argv[1:])


def _source(cmd: Cmd, walk: Any) -> None:
    if len(cmd.argv) < 2:
        return
    word = cmd.argv[1]
    if word.text in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-") and cmd.stdin is not None:
        _stdin_code(cmd, walk, cmd.stdin, walk.scope)
        return
    if word.sources and word.dyn:
        _stdin_code(cmd, walk, Source(cmds=word.sources), walk.scope)
        return
    if re.search(r"/bin/activate(?:\.\w+)?$", word.text):
        for cwd in cmd.cwds:
            path = word.text if word.text.startswith("/") else os.path.join(cwd or "/", word.text)
            walk.scope.venvs.append(os.path.normpath(path.rsplit("/bin/", 1)[0]))
        return
    text = read_file(word, cmd.cwds)
    if text is None:
        walk.shell.problem(f"the file {word.text or '(unknown)'} is sourced and cannot be read here", cmd.span)
        return
    walk.shell.in_file += 1
    walk.nested(text, cmd, f"source {word.text}")
    walk.shell.in_file -= 1


def _eval(cmd: Cmd, walk: Any) -> None:
    if any(w.dyn for w in cmd.argv[1:]):
        harmless = all(not w.dyn or _known_eval(w) for w in cmd.argv[1:])
        if harmless:
            return
        walk.shell.problem("what eval runs cannot be known before it runs", cmd.span)
    walk.nested(" ".join(w.raw for w in cmd.argv[1:]), cmd, "eval")


def _known_eval(word: Word) -> bool:
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


def _command(cmd: Cmd, walk: Any) -> None:
    if len(cmd.argv) > 1 and cmd.argv[1].text in ("-v", "-V"):
        return
    prefix(cmd, walk, ["", [], 0])


def _words(cmd: Cmd, walk: Any) -> None:
    """`watch CMD ...` and others that join their words into shell text."""
    short, long = {
        "watch": ("n", ["--interval"]),
        "hyperfine": ("wmMrnpc", ["--warmup", "--runs", "--min-runs", "--max-runs", "--prepare", "--cleanup"]),
    }.get(cmd.name, ("", []))
    at = past_options(cmd.argv, short, list(long))
    if cmd.name == "hyperfine":
        for word in cmd.argv[at:]:
            _payload(word, cmd, walk, cmd.name)
    elif at < len(cmd.argv):
        walk.nested(" ".join(w.raw for w in cmd.argv[at:]), cmd, cmd.name)


def _trap(cmd: Cmd, walk: Any) -> None:
    rest = [w for w in cmd.argv[1:] if w.text not in ("--", "-p", "-l")]
    if len(rest) > 1 and rest[0].text not in ("-", ""):
        _payload(rest[0], cmd, walk, "trap")


def _coproc(cmd: Cmd, walk: Any) -> None:
    rest = cmd.argv[1:]
    if len(rest) > 1 and rest[1].text in ("{", "("):
        rest = rest[1:]
    while rest and rest[0].text in ("{", "(", "!"):
        rest = rest[1:]
    if rest:
        walk.emit(cmd.inner(rest, cmd.name))


def _su(cmd: Cmd, walk: Any) -> None:
    texts = cmd.words()
    for i, text in enumerate(texts[1:], 1):
        if text in ("-c", "--command", "--session-command") and i + 1 < len(texts):
            _payload(cmd.argv[i + 1], cmd, walk, cmd.name)
            return
        if text.startswith("--command="):
            _payload(cmd.argv[i].cut(10), cmd, walk, cmd.name)
            return
    if cmd.name == "runuser":
        at = past_options(cmd.argv, "ugG", ["--user", "--group"])
        if at < len(cmd.argv):
            walk.emit(cmd.inner(cmd.argv[at:], cmd.name))
    elif cmd.stdin is not None:
        _stdin_code(cmd, walk, cmd.stdin, walk.scope.copy())


def _script_command(cmd: Cmd, walk: Any) -> None:
    """script(1), flock(1): `-c CODE`; flock also `FILE CMD`."""
    texts = cmd.words()
    for i, text in enumerate(texts[1:], 1):
        if (text in ("-c", "--command") or re.fullmatch(r"-[a-z]+c", text)) and i + 1 < len(texts):
            _payload(cmd.argv[i + 1], cmd, walk, cmd.name)
            return
    if cmd.name == "flock":
        prefix(cmd, walk, ["wE", ["--wait", "--timeout", "--conflict-exit-code"], 1])


def _alias(cmd: Cmd, walk: Any) -> None:
    for word in cmd.argv[1:]:
        key, eq, value = word.text.partition("=")
        if eq:
            walk.scope.aliases[key] = value


def _cd(cmd: Cmd, walk: Any) -> None:
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
    return tuple(
        os.path.normpath(word.text if word.text.startswith("/") else os.path.join(c, word.text))
        if c or word.text.startswith("/")
        else None
        for c in cwds
    )


def _set(cmd: Cmd, walk: Any) -> None:
    words = cmd.words()
    if "--" in words:
        walk.scope.pos = [[w] for w in cmd.argv[words.index("--") + 1 :]]


def _read(cmd: Cmd, walk: Any) -> None:
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


def _printf(cmd: Cmd, walk: Any) -> None:
    words = cmd.words()
    if words[1:2] == ["-v"] and len(words) > 3:
        from infer_forge.guard.output import output_of

        made = output_of([cmd.inner([cmd.argv[0], *cmd.argv[3:]], "printf")], walk)
        walk.scope.assign(words[2], [made or Word("", dyn=True)])


# ---------------------------------------------------------------- other hosts and batches


def _ssh(cmd: Cmd, walk: Any) -> None:
    argv, i = cmd.argv, 1
    quiet = False
    while i < len(argv) and argv[i].text.startswith("-"):
        text = argv[i].text
        quiet = quiet or text in ("-N", "-V", "-Q", "-G") or (text[1:2] not in "bcDEeFIiJLlmOopQRSWw" and "N" in text)
        option = ""
        if text[1:2] in "BbcDEeFIiJLlmOopQRSWw":
            option = text[2:] or (argv[i + 1].text if i + 1 < len(argv) else "")
            step = 1 if text[2:] else 2
        else:
            step = 2 if text[-1:] in "BbcDEeFIiJLlmOopQRSWw" and len(text) > 2 else 1
        match = re.match(r"(?i)(ProxyCommand|LocalCommand|KnownHostsCommand)[= ](.*)", option)
        if match and match.group(2) != "none":
            walk.nested(match.group(2), cmd, f"ssh -o {match.group(1)}")
        i += step
    if i >= len(argv) or quiet:
        return
    host = argv[i].text.rsplit("@", 1)[-1].removeprefix("ssh://").split(":")[0]
    place = Place(node=host or "\0unknown", container=None)
    rest = argv[i + 1 :]
    while rest and rest[0].text == "--":
        rest = rest[1:]
    scope = walk.scope.copy()
    scope.cwds = (None,)
    if rest:
        if any(w.dyn and not w.text for w in rest):
            walk.shell.partial = True
        walk.nested(" ".join(_as_sent(w) for w in rest), cmd, f"ssh {host}", scope=scope, place=place, stdin=None)
        tail = program_name(rest[0].text)
        if tail in SHELLS and len(rest) <= 2 and cmd.stdin is not None:
            _stdin_code(cmd, walk, cmd.stdin, scope, place)
    elif cmd.stdin is not None:
        _stdin_code(cmd, walk, cmd.stdin, scope, place)
    else:
        walk.shell.problem(f"an interactive shell on {host} cannot be checked", cmd.span)


def _as_sent(word: Word) -> str:
    """ssh joins its words with spaces; what the local shell left of an unknown word stays unknown."""
    return word.raw


def _pssh(cmd: Cmd, walk: Any) -> None:
    at = past_options(
        cmd.argv, "hHlptoexAOwfgNuRS", ["--hosts", "--host", "--user", "--par", "--timeout", "--outdir", "--errdir"]
    )
    scope = walk.scope.copy()
    scope.cwds = (None,)
    rest = cmd.argv[at:]
    if cmd.name == "clush" or cmd.name == "pdsh":
        at = past_options(cmd.argv, "wxlgtufRKMoc", ["--worker"])
        rest = cmd.argv[at:]
    if cmd.name == "ansible":
        texts = cmd.words()
        rest = [cmd.argv[i + 1] for i, t in enumerate(texts[:-1]) if t in ("-a", "--args")]
    if rest:
        walk.nested(" ".join(w.raw for w in rest), cmd, cmd.name, scope=scope, place=Place(node="\0many"))


def _xargs(cmd: Cmd, walk: Any) -> None:
    argv = cmd.argv
    texts = cmd.words()
    at = past_options(
        argv,
        "aEeIiLlnPsd",
        ["--arg-file", "--delimiter", "--max-lines", "--max-args", "--max-procs", "--max-chars", "--replace"],
    )
    mark = None
    for i, text in enumerate(texts[1:at], 1):
        if text in ("-I", "--replace", "-J") and i + 1 < len(texts):
            mark = texts[i + 1]
        elif text.startswith("-I") and len(text) > 2:
            mark = text[2:]
        elif text.startswith("--replace="):
            mark = text[10:]
        elif text in ("-i",):
            mark = "{}"
    if mark and texts[1:2] == ["-i"]:
        at = past_options(argv, "aEILnPsd", [])
    items = _items(cmd, walk)
    inner = argv[at:] or [Word("echo")]
    if mark:
        for item in items[:8]:
            walk.emit(cmd.inner([replaced(w, mark, item) for w in inner], "xargs", stdin=None))
    else:
        walk.emit(cmd.inner([*inner, *items], "xargs", stdin=None))


def _items(cmd: Cmd, walk: Any) -> list[Word]:
    """What xargs and parallel read: known words, or one unknown word that knows where it comes from."""
    texts = cmd.words()
    for i, text in enumerate(texts[:-1]):
        if text in ("-a", "--arg-file"):
            content = read_file(cmd.argv[i + 1], cmd.cwds)
            return [Word(w) for w in content.split()] if content is not None else [Word("", dyn=True, quoted=True)]
    text = text_of(cmd.stdin, walk)
    if text is not None:
        return [Word(w) for w in re.split(r"[\s\0]+", text) if w][:500]
    sources = cmd.stdin.cmds if cmd.stdin else ()
    return [Word("", dyn=True, sources=sources, quoted=True)]


def replaced(word: Word, mark: str, item: Word) -> Word:
    """The word with the place holder replaced by the item."""
    if mark not in word.text:
        return word
    return Word(
        word.text.replace(mark, item.text),
        word.dyn or item.dyn,
        word.glob or item.glob,
        word.sources + item.sources,
        word.names + item.names,
        False,
        True,
        word.raw.replace(mark, item.raw),
    )


def _parallel(cmd: Cmd, walk: Any) -> None:
    at = past_options(
        cmd.argv,
        "jNnLPSaIC",
        ["--jobs", "--delay", "--timeout", "--retries", "--joblog", "--results", "--colsep", "--tagstring"],
    )
    rest = cmd.argv[at:]
    texts = [w.text for w in rest]
    split = next((i for i, t in enumerate(texts) if t in (":::", ":::+", "::::")), len(rest))
    body, items = rest[:split], [w for w in rest[split + 1 :] if not w.text.startswith(":::")]
    if split < len(rest) and texts[split] == "::::":
        items = [Word("", dyn=True, quoted=True)]
    elif split == len(rest):
        items = _items(cmd, walk)
    template = " ".join(w.raw for w in body)
    words = list(cmd.argv)
    for item in items[:8]:
        piece = item.raw
        cmd.argv = [*cmd.argv[: len(words)], item] if item.dyn else cmd.argv[: len(words)]
        if not template:
            walk.nested(piece, cmd, "parallel", stdin=None)
        else:
            text = re.sub(r"\{[.\d/#%]*\}", lambda _: piece, template) if "{" in template else f"{template} {piece}"
            walk.nested(text, cmd, "parallel", stdin=None)
    cmd.argv = words


def _find(cmd: Cmd, walk: Any) -> None:
    argv = cmd.argv
    texts = cmd.words()
    roots: list[Word] = []
    for word in argv[1:]:
        if word.text in ("-H", "-L", "-P", "-D", "-O"):
            continue
        if word.text.startswith(("-", "(", "!")) and word.text != "-":
            break
        roots.append(word)
    if cmd.name in ("fd", "fdfind"):
        at = next((i for i, t in enumerate(texts) if t in ("-x", "-X", "--exec", "--exec-batch")), None)
        positional = [w for w in argv[1:at] if not w.text.startswith("-")]
        roots = positional[1:] or [Word(".")]
        spans = [(at + 1, len(argv))] if at else []
    else:
        spans = []
        for i, text in enumerate(texts):
            if text in ("-exec", "-execdir", "-ok", "-okdir"):
                end = next((k for k in range(i + 1, len(texts)) if texts[k] in (";", "+")), len(texts))
                spans.append((i + 1, end))
    for start, end in spans:
        for root in roots or [Word(".")]:
            under = Word(root.text, root.dyn, True, root.sources, root.names, root.fresh, True)
            inner = [replaced(w, "{}", under) if w.text != "{}" else under for w in argv[start:end]]
            if "{}" not in [w.text for w in argv[start:end]] and cmd.name in ("fd", "fdfind"):
                inner.append(under)
            if inner:
                walk.emit(cmd.inner(inner, cmd.name))


def _tmux(cmd: Cmd, walk: Any) -> None:
    argv = cmd.argv
    at = past_options(argv, "fLScT", [])
    if at >= len(argv):
        return
    verb = argv[at].text
    rest = argv[at + 1 :]
    if verb in ("send-keys", "send"):
        keys = rest[past_options(rest, "tNc", [], start=0) :]
        text = "".join(
            "\n" if w.text in ("Enter", "C-m", "C-j", "KPEnter") else " " if w.text == "Space" else w.raw for w in keys
        )
        walk.nested(text, cmd, "tmux send-keys", stdin=None)
    elif verb in _TMUX_VERBS:
        words = rest[past_options(rest, _TMUX_VERBS[verb], [], start=0) :]
        if len(words) == 1:
            _payload(words[0], cmd, walk, f"tmux {verb}", stdin=None)
        elif words and verb in ("if", "if-shell"):
            for word in words:
                walk.nested(word.raw, cmd, f"tmux {verb}", stdin=None)
        elif words:
            walk.emit(cmd.inner(words, f"tmux {verb}", stdin=None))


# tmux(1): verbs that run a command, and their options with a value
_TMUX_VERBS = {
    **dict.fromkeys(("new", "new-session"), "cefFnstxy"),
    **dict.fromkeys(("neww", "new-window"), "ceFnt"),
    **dict.fromkeys(("splitw", "split-window"), "ceFlpt"),
    **dict.fromkeys(("respawn-pane", "respawnp", "respawn-window", "respawnw"), "cet"),
    **dict.fromkeys(("run", "run-shell"), "cdt"),
    **dict.fromkeys(("if", "if-shell", "pipe-pane", "pipep"), "t"),
    **dict.fromkeys(("display-popup", "popup"), "bcdehsStTwxy"),
}


def _screen(cmd: Cmd, walk: Any) -> None:
    texts = cmd.words()
    for i, text in enumerate(texts):
        if text == "stuff" and i + 1 < len(texts):
            from infer_forge.guard.words import ansi_c

            walk.nested(ansi_c(cmd.argv[i + 1].text.replace("^M", "\n")), cmd, "screen stuff", stdin=None)
            return
    if "-X" in texts:
        return
    at = past_options(cmd.argv, "cehpsSTt", [])
    if at < len(cmd.argv):
        walk.emit(cmd.inner(cmd.argv[at:], "screen"))


def _at(cmd: Cmd, walk: Any) -> None:
    texts = cmd.words()
    if any(t in ("-l", "-c", "-r", "-d", "-V") for t in texts[1:]):
        return
    if "-f" in texts[:-1]:
        _script(cmd, walk, cmd.argv[texts.index("-f") + 1], [])
    elif cmd.stdin is not None:
        _stdin_code(cmd, walk, cmd.stdin, walk.scope.copy())


def _time(cmd: Cmd, walk: Any) -> None:
    prefix(cmd, walk, ["fo", ["--format", "--output"], 0, True])


def _code(module: str) -> Any:
    """A handler in a module that is only loaded when such a program occurs."""

    def handler(cmd: Cmd, walk: Any) -> None:
        import importlib

        name, function = module.split(".")
        getattr(importlib.import_module(f"infer_forge.guard.{name}"), function)(cmd, walk)

    return handler


_HANDLERS: dict[str, Any] = {
    "env": _env,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "command": _command,
    "trap": _trap,
    "coproc": _coproc,
    "{": _coproc,
    "!": _coproc,
    "time": _time,
    "su": _su,
    "runuser": _su,
    "script": _script_command,
    "flock": _script_command,
    "alias": _alias,
    "cd": _cd,
    "pushd": _cd,
    "popd": _cd,
    "set": _set,
    "read": _read,
    "mapfile": _read,
    "readarray": _read,
    "printf": _printf,
    "watch": _words,
    "hyperfine": _words,
    "ssh": _ssh,
    "autossh": _ssh,
    "mosh": _ssh,
    "sshpass": lambda c, w: prefix(c, w, ["fdpP", [], 0]),
    "pdsh": _pssh,
    "clush": _pssh,
    "pssh": _pssh,
    "parallel-ssh": _pssh,
    "ansible": _pssh,
    "xargs": _xargs,
    "parallel": _parallel,
    "find": _find,
    "gfind": _find,
    "fd": _find,
    "fdfind": _find,
    "tmux": _tmux,
    "screen": _screen,
    "at": _at,
    "batch": _at,
    "python": _code("pycode.command"),
    "pypy": _code("pycode.command"),
    "ipython": _code("pycode.command"),
    "node": _code("othercode.node"),
    "nodejs": _code("othercode.node"),
    "bun": _code("othercode.node"),
    "deno": _code("othercode.node"),
    "perl": _code("othercode.script"),
    "ruby": _code("othercode.script"),
    "php": _code("othercode.script"),
    "lua": _code("othercode.script"),
    "Rscript": _code("othercode.script"),
    "julia": _code("othercode.script"),
    "awk": _code("othercode.awk"),
    "gawk": _code("othercode.awk"),
    "mawk": _code("othercode.awk"),
    "sed": _code("othercode.sed"),
    "vim": _code("othercode.editor"),
    "vi": _code("othercode.editor"),
    "nvim": _code("othercode.editor"),
    "ex": _code("othercode.editor"),
    "view": _code("othercode.editor"),
    "emacs": _code("othercode.editor"),
    "ed": _code("othercode.editor"),
    "less": _code("othercode.editor"),
    "gdb": _code("othercode.debugger"),
    "cuda-gdb": _code("othercode.debugger"),
    "lldb": _code("othercode.debugger"),
    "sqlite3": _code("othercode.debugger"),
    "expect": _code("othercode.script"),
    "make": _code("othercode.make"),
    "gmake": _code("othercode.make"),
    "just": _code("othercode.make"),
    "tar": _code("othercode.archive"),
    "bsdtar": _code("othercode.archive"),
    "rsync": _code("othercode.archive"),
    "zip": _code("othercode.archive"),
    "npm": _code("othercode.npm"),
    "pnpm": _code("othercode.npm"),
    "yarn": _code("othercode.npm"),
    "git": _code("gitcmd.unwrap"),
    "docker": _code("boxes.docker"),
    "podman": _code("boxes.docker"),
    "nerdctl": _code("boxes.docker"),
    "docker-compose": _code("boxes.docker"),
    "kubectl": _code("boxes.kubectl"),
    "oc": _code("boxes.kubectl"),
}
