"""What a command would print, where that is plain without running it: `echo`, `printf`, `cat` of a heredoc, `base64 -d`, `pwd`.

Used for `$(...)`, for code that is piped into an interpreter, and for targets that come through `xargs`.
"""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import Cmd, Source, Word, program_name
from infer_forge.guard.words import ansi_c

MAX_FILE = 64 * 1024


def output_of(cmds: list[Cmd] | tuple[Cmd, ...], walk: Any) -> Word | None:
    """The joined output of the commands, or None when any of it is unknown."""
    if not cmds:
        return None
    parts: list[Word] = []
    for cmd in cmds:
        word = _one(cmd, walk)
        if word is None:
            return None
        parts.append(word)
    out = parts[0]
    for part in parts[1:]:
        out = out.plus(part)
    return Word(out.text.rstrip("\n"), fresh=out.fresh, quoted=False)


def text_of(source: Source | None, walk: Any) -> str | None:
    """The text that a command reads from standard input, when it can be known."""
    if source is None:
        return None
    if source.text is not None and not source.cmds:
        return source.text
    if source.files:
        texts = [read_file(w, walk.scope.cwds, walk.shell.notes) for w in source.files]
        return "\n".join(t for t in texts if t is not None) if all(t is not None for t in texts) else None
    word = output_of(source.cmds, walk)
    return word.text if word is not None and not word.fresh else None


def read_file(word: Word, cwds: tuple[str | None, ...], notes: dict[str, Any] | None = None) -> str | None:
    """Content of a short readable file that a command names; None when it is unknown, long, binary or not there.

    `notes` are the shell's: what the same text writes into the file counts, not what lies on the disk now.
    """
    if word.dyn or word.glob or word.fresh or not word.text:
        return None
    written: dict[str, str | None] = (notes or {}).get("written", {})
    if os.path.normpath(word.text) in written:
        return written[os.path.normpath(word.text)]
    for cwd in cwds:
        path = word.text if word.text.startswith("/") else os.path.join(cwd, word.text) if cwd else None
        if path is None:
            continue
        try:
            status = os.stat(path)
            if (status.st_mode & 0o170000) != 0o100000 or status.st_size > MAX_FILE:
                continue
            with open(path, "rb") as file:
                data = file.read(MAX_FILE)
        except (OSError, ValueError):
            continue
        if b"\0" in data[:1024]:
            return None
        return data.decode("utf-8", "replace")
    return None


def _one(cmd: Cmd, walk: Any) -> Word | None:
    if any(r.op.startswith(">") for r in cmd.redirects):
        return None
    words = cmd.argv
    if not words:
        return Word("")
    name = cmd.name
    maker = _MAKERS.get(name)
    if maker is not None:
        return maker(cmd, walk)
    if name in ("true", ":", "cd", "export", "set", "sleep"):
        return Word("")
    return None


def _known(words: list[Word]) -> list[str] | None:
    return None if any(w.dyn or w.fresh for w in words) else [w.text for w in words]


def _echo(cmd: Cmd, _walk: Any) -> Word | None:
    texts = _known(cmd.argv[1:])
    if texts is None:
        return None
    escape = False
    while texts and re.fullmatch(r"-[neE]+", texts[0]):
        escape = "e" in texts.pop(0)
    line = " ".join(texts)
    return Word(ansi_c(line) if escape else line)


def _printf(cmd: Cmd, _walk: Any) -> Word | None:
    texts = _known(cmd.argv[1:])
    if texts is None:
        return None
    if texts[:1] == ["--"]:
        texts = texts[1:]
    if not texts or texts[0] == "-v":
        return Word("")
    form, args = ansi_c(texts[0].replace("%%", "\0")), texts[1:]
    slots = len(re.findall(r"%[-0-9.]*[sdbqxoc]", form))
    out: list[str] = []
    while True:
        now, args = args[:slots], args[slots:]
        values = iter(now)
        out.append(re.sub(r"%[-0-9.]*[sdbqxoc]", lambda m, rest=values: _formatted(m.group(0), next(rest, "")), form))
        if not args or not slots or len(out) > 200:
            break
    return Word("".join(out).replace("\0", "%"))


def _formatted(spec: str, value: str) -> str:
    kind = spec[-1]
    if kind == "b":
        return ansi_c(value)
    if kind in "xo" and value.isdigit():
        return format(int(value), kind)
    return value


def _cat(cmd: Cmd, walk: Any) -> Word | None:
    files = [w for w in cmd.argv[1:] if not (w.text.startswith("-") and w.text != "-")]
    if not files:
        text = text_of(cmd.stdin, walk)
        return Word(text) if text is not None else None
    texts = [read_file(w, cmd.cwds, walk.shell.notes) if w.text != "-" else text_of(cmd.stdin, walk) for w in files]
    return Word("\n".join(t for t in texts if t is not None)) if all(t is not None for t in texts) else None


def _base64(cmd: Cmd, walk: Any) -> Word | None:
    import base64

    flags = [w.text for w in cmd.argv[1:]]
    decode = any(f in ("-d", "-D", "--decode") or (re.fullmatch(r"-[a-z]*d[a-z]*", f) is not None) for f in flags)
    text = _cat(Cmd([w for w in cmd.argv if not w.text.startswith("-")], {}, [], cmd.stdin, cmd.span, cmd.cwds), walk)
    if text is None:
        return None
    try:
        data = base64.b64decode(text.text + "===") if decode else base64.b64encode(text.text.encode())
    except ValueError:
        return None
    return Word(data.decode("utf-8", "replace"))


def _xxd(cmd: Cmd, walk: Any) -> Word | None:
    text = text_of(cmd.stdin, walk)
    if text is None or not any("r" in w.text for w in cmd.argv[1:] if w.text.startswith("-")):
        return None
    try:
        return Word(bytes.fromhex("".join(text.split())).decode("utf-8", "replace"))
    except ValueError:
        return None


def _rev(cmd: Cmd, walk: Any) -> Word | None:
    text = text_of(cmd.stdin, walk)
    return None if text is None else Word("\n".join(line[::-1] for line in text.split("\n")))


def _tr(cmd: Cmd, walk: Any) -> Word | None:
    text, texts = text_of(cmd.stdin, walk), _known(cmd.argv[1:])
    if text is None or not texts:
        return None
    if texts[0] == "-d" and len(texts) == 2:
        gone = _tr_set(texts[1])
        return Word("".join(c for c in text if c not in gone))
    if len(texts) == 2 and not texts[0].startswith("-"):
        source, target = _tr_set(texts[0]), _tr_set(texts[1])
        if target:
            table = {c: target[min(i, len(target) - 1)] for i, c in enumerate(source)}
            return Word("".join(table.get(c, c) for c in text))
    return None


def _tr_set(text: str) -> str:
    return re.sub(
        r"(.)-(.)",
        lambda m: "".join(map(chr, range(ord(m.group(1)), ord(m.group(2)) + 1))),
        ansi_c(text),
        flags=re.DOTALL,
    )


def _sed(cmd: Cmd, walk: Any) -> Word | None:
    texts, text = _known(cmd.argv[1:]), text_of(cmd.stdin, walk)
    if text is None or not texts or len(texts) != 1:
        return None
    match = re.fullmatch(r"s(.)([A-Za-z0-9 _./-]*)\1([A-Za-z0-9 _./-]*)\1(g?)", texts[0])
    return (
        Word(text.replace(match.group(2), match.group(3), -1 if match.group(4) else 1))
        if match and match.group(2)
        else None
    )


def _mktemp(_cmd: Cmd, _walk: Any) -> Word | None:
    return Word("", fresh=True)


def _pwd(cmd: Cmd, _walk: Any) -> Word | None:
    return Word(cmd.cwds[0]) if len(cmd.cwds) == 1 and cmd.cwds[0] else None


def _whoami(cmd: Cmd, walk: Any) -> Word | None:
    user = walk.scope.env.get("USER")
    if cmd.name == "id" and [w.text for w in cmd.argv[1:]] != ["-un"]:
        return None
    return Word(user) if user else None


def _which(cmd: Cmd, _walk: Any) -> Word | None:
    texts = _known([w for w in cmd.argv[1:] if not w.text.startswith("-")])
    if not texts or (cmd.name in ("command", "type") and cmd.argv[1].text not in ("-v", "-p", "-P")):
        return None
    return Word(f"/usr/bin/{program_name(texts[0])}")


def _path_part(cmd: Cmd, _walk: Any) -> Word | None:
    texts = _known([w for w in cmd.argv[1:] if not w.text.startswith("-")])
    if not texts:
        return None
    if cmd.name == "dirname":
        return Word(os.path.dirname(texts[0]) or ".")
    if cmd.name == "basename":
        base = os.path.basename(texts[0].rstrip("/"))
        return Word(base[: -len(texts[1])] if len(texts) > 1 and base.endswith(texts[1]) else base)
    cwd = cmd.cwds[0] if len(cmd.cwds) == 1 else None
    return Word(os.path.realpath(os.path.join(cwd or "/", texts[0]))) if cwd or texts[0].startswith("/") else None


def _git(cmd: Cmd, _walk: Any) -> Word | None:
    if [w.text for w in cmd.argv[1:]] != ["rev-parse", "--show-toplevel"] or len(cmd.cwds) != 1:
        return None
    step = cmd.cwds[0]
    while step and step != "/":
        if os.path.exists(os.path.join(step, ".git")):
            return Word(step)
        step = os.path.dirname(step)
    return None


_MAKERS: dict[str, Any] = {
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "tee": _cat,
    "base64": _base64,
    "xxd": _xxd,
    "rev": _rev,
    "tr": _tr,
    "sed": _sed,
    "mktemp": _mktemp,
    "pwd": _pwd,
    "whoami": _whoami,
    "id": _whoami,
    "which": _which,
    "command": _which,
    "type": _which,
    "dirname": _path_part,
    "basename": _path_part,
    "realpath": _path_part,
    "readlink": _path_part,
    "git": _git,
}
