"""Commands that hand work on: other hosts, batches of arguments, terminals, later times."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import Cmd, Place, Word, program_name
from infer_forge.guard.output import read_file, text_of
from infer_forge.guard.shells import script, stdin_code
from infer_forge.guard.unwrap import SHELLS, past_options, payload


def ssh(cmd: Cmd, walk: Any) -> None:
    """ssh, autossh, mosh: the words behind the host are shell text there."""
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
        walk.nested(" ".join(as_sent(w) for w in rest), cmd, f"ssh {host}", scope=scope, place=place, stdin=None)
        tail = program_name(rest[0].text)
        if tail in SHELLS and len(rest) <= 2 and cmd.stdin is not None:
            stdin_code(cmd, walk, cmd.stdin, scope, place)
    elif cmd.stdin is not None:
        stdin_code(cmd, walk, cmd.stdin, scope, place)
    else:
        walk.shell.problem(f"an interactive shell on {host} cannot be checked", cmd.span)


def as_sent(word: Word) -> str:
    """ssh joins its words with spaces; what the local shell left of an unknown word stays unknown."""
    return word.raw


def pssh(cmd: Cmd, walk: Any) -> None:
    """pdsh, clush, parallel-ssh, ansible: one command on many hosts."""
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


def xargs(cmd: Cmd, walk: Any) -> None:
    """xargs: the command with what it reads."""
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
    found = items(cmd, walk)
    inner = argv[at:] or [Word("echo")]
    if mark:
        for item in found[:8]:
            walk.emit(cmd.inner([replaced(w, mark, item) for w in inner], "xargs", stdin=None))
    else:
        walk.emit(cmd.inner([*inner, *found], "xargs", stdin=None))


def items(cmd: Cmd, walk: Any) -> list[Word]:
    """What xargs and parallel read: known words, or one unknown word that knows where it comes from."""
    texts = cmd.words()
    for i, text in enumerate(texts[:-1]):
        if text in ("-a", "--arg-file"):
            content = read_file(cmd.argv[i + 1], cmd.cwds, walk.shell.notes)
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


def parallel(cmd: Cmd, walk: Any) -> None:
    """GNU parallel: the template with each argument is shell text."""
    at = past_options(
        cmd.argv,
        "jNnLPSaIC",
        ["--jobs", "--delay", "--timeout", "--retries", "--joblog", "--results", "--colsep", "--tagstring"],
    )
    rest = cmd.argv[at:]
    texts = [w.text for w in rest]
    split = next((i for i, t in enumerate(texts) if t in (":::", ":::+", "::::")), len(rest))
    body, found = rest[:split], [w for w in rest[split + 1 :] if not w.text.startswith(":::")]
    if split < len(rest) and texts[split] == "::::":
        found = [Word("", dyn=True, quoted=True)]
    elif split == len(rest):
        found = items(cmd, walk)
    template = " ".join(w.raw for w in body)
    words = list(cmd.argv)
    for item in found[:8]:
        piece = item.raw
        cmd.argv = [*cmd.argv[: len(words)], item] if item.dyn else cmd.argv[: len(words)]
        if not template:
            walk.nested(piece, cmd, "parallel", stdin=None)
        else:
            text = (
                re.sub(r"\{[.\d/#%]*\}", lambda _, text=piece: text, template)
                if "{" in template
                else f"{template} {piece}"
            )
            walk.nested(text, cmd, "parallel", stdin=None)
    cmd.argv = words


def find(cmd: Cmd, walk: Any) -> None:
    """find -exec and fd -x: the command with something below the roots."""
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
        spans = list[tuple[int, int]]()
        for i, text in enumerate(texts):
            if text in ("-exec", "-execdir", "-ok", "-okdir"):
                end = next((k for k in range(i + 1, len(texts)) if texts[k] in (";", "+")), len(texts))
                spans.append((i + 1, end))
    names = _secret_names(texts, walk) if spans else []
    for start, end in spans:
        for root in roots or [Word(".")]:
            under = Word(root.text, root.dyn, True, root.sources, root.names, root.fresh, True)
            inner = [replaced(w, "{}", under) if w.text != "{}" else under for w in argv[start:end]]
            if "{}" not in [w.text for w in argv[start:end]] and cmd.name in ("fd", "fdfind"):
                inner.append(under)
            if inner:
                walk.emit(cmd.inner(inner, cmd.name))
            for name in names:
                found = Word(f"{root.text.rstrip('/')}/{name}", quoted=True)
                walk.emit(cmd.inner([found if w is under else w for w in inner], cmd.name))


def _secret_names(texts: list[str], walk: Any) -> list[str]:
    """Names that find looks for and that are those of credential files."""
    wanted = [
        texts[i + 1].strip("*") for i, t in enumerate(texts[:-1]) if t in ("-name", "-iname", "-path", "-wholename")
    ]
    patterns = walk.shell.pol["secret_files"]
    return [w for w in wanted if w and any(re.search(p, f"/{w}") for p in patterns)]


def tmux(cmd: Cmd, walk: Any) -> None:
    """tmux: keys that are sent, and verbs that start commands."""
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
            payload(words[0], cmd, walk, f"tmux {verb}", stdin=None)
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


def screen(cmd: Cmd, walk: Any) -> None:
    """screen: text that is stuffed in, and the command of a new session."""
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


def at(cmd: Cmd, walk: Any) -> None:
    """at and batch: code for later."""
    texts = cmd.words()
    if any(t in ("-l", "-c", "-r", "-d", "-V") for t in texts[1:]):
        return
    if "-f" in texts[:-1]:
        script(cmd, walk, cmd.argv[texts.index("-f") + 1], [])
    elif cmd.stdin is not None:
        stdin_code(cmd, walk, cmd.stdin, walk.scope.copy())


def sbatch(cmd: Cmd, walk: Any) -> None:
    """sbatch: `--wrap CODE`, or a script that is looked into where it can be read; it runs later, as this user."""
    texts = cmd.words()
    for i, text in enumerate(texts[1:], 1):
        if text == "--wrap" and i + 1 < len(texts):
            payload(cmd.argv[i + 1], cmd, walk, "sbatch --wrap", stdin=None)
            return
        if text.startswith("--wrap="):
            payload(cmd.argv[i].cut(7), cmd, walk, "sbatch --wrap", stdin=None)
            return
    at = past_options(cmd.argv, "AaBbCcDdeFGgiJkLlMmNnopqQrStuvVwx", _SBATCH_VALUES)
    if at < len(cmd.argv) and read_file(cmd.argv[at], cmd.cwds, walk.shell.notes) is not None:
        script(cmd, walk, cmd.argv[at], cmd.argv[at + 1 :])
    elif at >= len(cmd.argv) and cmd.stdin is not None:
        stdin_code(cmd, walk, cmd.stdin, walk.scope.copy())
    else:
        walk.shell.partial = True


_SBATCH_VALUES = [
    "--comment", "--job-name", "--output", "--error", "--partition", "--nodes", "--ntasks", "--gpus", "--gres",
    "--time", "--account", "--export", "--chdir", "--array", "--dependency", "--nodelist", "--mem", "--qos",
]  # fmt: skip
