"""Code in other languages on a command line: Node, Perl, Ruby, awk, sed, editors, debuggers, make, archivers.

No full parser for each: strings that reach a known way out (system, exec, unlink) are taken out and checked; where a way
out is used and no string can be followed, the answer is ask.
"""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import Cmd, Redirect, Word
from infer_forge.guard.output import read_file, text_of

_STRING = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|`((?:[^`\\]|\\.)*)`", re.DOTALL)
_WAYS_OUT = re.compile(
    r"\b(?:system|exec\w*|spawn\w*|popen|qx|fork|shell_exec|passthru|proc_open|child_process|unlink\w*|rmtree|remove_tree|rm_rf?|rmSync|rmdir\w*|"
    r"rm|kill|killpg|truncate\w*|FileUtils|remove|delete|io\.popen|os\.execute|os\.remove|open3|IO\.popen|writeFile\w*|Deno|run|send_user|sh)\b|`"
)
_DELETERS = re.compile(
    r"\b(?:unlink\w*|rmtree|remove_tree|rm_rf?|rmSync|rmdirSync|rmdir|rm|os\.remove|File\.delete|FileUtils\.\w+|remove_dir|truncate\w*|removeSync|unlinkSync|writeFile\w*)"
    r"\s*\(?\s*(?:\[\s*)?(?:(?P<q>['\"])(?P<path>.*?)(?P=q)|(?P<name>[$@\w][^,)]*))",
    re.DOTALL,
)
_WRITERS = re.compile(
    r"""\b(?:File|IO)\.(?:write|binwrite)\s*\(?\s*['"]([^'"]+)['"]|\bfile_put_contents\s*\(\s*['"]([^'"]+)['"]"""
    r"""|\b(?:fopen|open|File\.open|File\.new|io\.open)\s*\(?\s*['"]([^'"<>|]+)['"]\s*,\s*['"][waxr]*[wax+][^'"]*['"]"""
    r"""|\bopen\s*\(?\s*(?:my\s+)?[$\w]+\s*,\s*['"]>{1,2}\s*([^'"]+)['"]"""
    r"""|\bopen\s*\(?\s*(?:my\s+)?[$\w]+\s*,\s*['"]\+?>{1,2}(?::\w+)?['"]\s*,\s*['"]([^'"]+)['"]"""
)
"""Calls of Ruby, PHP, Perl and Lua that open a file for writing, with the path as a string."""
_REQUESTS = re.compile(
    r"""\bfetch\s*\(\s*['"`](?P<url>https?://[^'"`]+)['"`]\s*,\s*\{[^}]*?\bmethod['"]?\s*:\s*['"](?P<method>\w+)['"]"""
    r"""|\b(?:axios|got|superagent|ky)\.(?P<verb>post|put|patch|delete|del)\s*\(\s*['"`](?P<to>https?://[^'"`]+)['"`]"""
)
"""Requests of Node that name their method and address."""
_PERL_PATTERNS = re.compile(
    r"(?:(?<=[\s(!~;{])|^)(?:(?:s|tr|y)/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/[gimsxorcd]*|(?:m|qr)?/(?:[^/\\\n]|\\.)+/[gimsxo]*)(?=[\s;)&|}]|$)"
)
"""Patterns and substitutions of Perl whose text runs nothing (`s///e` is left in)."""
_ENVIRONMENT = re.compile(
    r"\bprocess\.env\b(?!\s*[.\[])|\bENV\.(?:to_h|each|inspect|map)|(?:puts|p|print)\s+ENV\b|%ENV\b|getenv\(\s*\)"
)
_KILLERS = re.compile(r"\bkill\w*\s*\(?\s*(?P<args>[^;)]*)")
_RUNNERS = re.compile(
    r"\b(?:system|exec|execSync|execFileSync|execFile|spawn|spawnSync|popen|shell_exec|passthru|proc_open|os\.execute|io\.popen|IO\.popen|qx|%x|run|Command)"
    r"\s*[({\[/]?\s*(?P<rest>.*)",
    re.DOTALL,
)


def _code_of(cmd: Cmd, flags: tuple[str, ...]) -> list[Word]:
    out: list[Word] = []
    for i, word in enumerate(cmd.argv[1:], 1):
        text = word.text
        if text in flags and i + 1 < len(cmd.argv):
            out.append(cmd.argv[i + 1])
        elif any(text.startswith(f) and f.startswith("--") and text[len(f) : len(f) + 1] == "=" for f in flags):
            out.append(word.cut(text.find("=") + 1))
        elif re.fullmatch(r"-[a-zA-Z0-9]*[eE]", text) and "-e" in flags and i + 1 < len(cmd.argv) and text not in flags:
            out.append(cmd.argv[i + 1])
        elif "-e" in flags and text.startswith("-e") and len(text) > 2 and not text.startswith("--"):
            out.append(word.cut(2))
    return out


def node(cmd: Cmd, walk: Any) -> None:
    """`node -e CODE`, `-p CODE`, `deno eval`, code on standard input."""
    words = _code_of(cmd, ("-e", "-p", "-pe", "-ep", "--eval", "--print", "eval"))
    plain = [w for w in cmd.argv[1:] if not w.text.startswith("-")]
    if not words and not plain and cmd.stdin is not None:
        _from_stdin(cmd, walk)
        return
    for word in words:
        scan(word, cmd, walk)


def script(cmd: Cmd, walk: Any) -> None:
    """`perl -e`, `ruby -e`, `php -r`, `lua -e`, `Rscript -e`, `julia -e`, `expect -c`."""
    words = _code_of(cmd, ("-e", "-E", "-r", "-c", "--eval", "--run"))
    plain = [w for w in cmd.argv[1:] if not w.text.startswith("-")]
    if not words and not plain and cmd.stdin is not None:
        _from_stdin(cmd, walk)
        return
    for word in words:
        scan(word, cmd, walk)
        if cmd.name == "expect":
            for match in re.finditer(r"\bspawn\s+(?:-\w+\s+)*([^;\n]+)", word.text):
                walk.nested(match.group(1), cmd, "expect spawn", stdin=None)
    if cmd.name == "perl" and any(re.fullmatch(r"-[a-z0-9]*i[.\w]*[a-z]*", w.text) for w in cmd.argv[1:]) and words:
        for word in plain[1:]:
            walk.emit(cmd.inner([Word("sed"), Word("-i"), Word("s/a/b/"), word], "perl -i"))


def generic(cmd: Cmd, walk: Any) -> None:
    """Other interpreters and shells of databases: strings that reach a way out, and lines that begin with an escape."""
    texts = [w.text for w in cmd.argv[1:] if len(w.text) > 3]
    if cmd.stdin is not None:
        found = text_of(cmd.stdin, walk)
        if found is None:
            walk.shell.problem(f"code is piped into {cmd.name} that cannot be seen before it runs", cmd.span)
        else:
            texts.append(found)
    for text in texts:
        for match in re.finditer(r"(?:^|[;\n])\s*(?:\\?!|\\!|system\s|exec\s|syscmd\(|esyscmd\()\s*([^\n;)]+)", text):
            walk.nested(match.group(1).strip("`'\" "), cmd, f"{cmd.name} !", stdin=None)
        scan(Word(text), cmd, walk)


def _from_stdin(cmd: Cmd, walk: Any) -> None:
    code = text_of(cmd.stdin, walk)
    if code is None and cmd.stdin is not None:
        code = cmd.stdin.text
    if code is None:
        walk.shell.problem(f"code is piped into {cmd.name} that cannot be seen before it runs", cmd.span)
    else:
        scan(Word(code), cmd, walk)


def scan(word: Word, cmd: Cmd, walk: Any) -> None:
    """Look through code for ways out; follow their strings."""
    code = word.text
    if word.dyn and not code.strip():
        walk.shell.problem(f"what {cmd.name} runs cannot be known before it runs", cmd.span)
        return
    flat = _folded(code)
    if cmd.name == "perl":
        flat = _PERL_PATTERNS.sub(" ", flat)
    if _ENVIRONMENT.search(flat):
        walk.emit(cmd.inner([Word("printenv")], f"{cmd.name}: environment", env={}, stdin=None))
    for match in _WRITERS.finditer(flat):
        made = cmd.inner([Word(":")], f"{cmd.name}: write", env={}, stdin=None)
        made.redirects = [Redirect(">", "", Word(next(g for g in match.groups() if g is not None), quoted=True))]
        walk.emit(made)
    for match in _REQUESTS.finditer(flat):
        method = match.group("verb") or match.group("method")
        words = [Word("-X"), Word(method.upper()), Word(match.group("url") or match.group("to"), quoted=True)]
        walk.emit(cmd.inner([Word("curl"), *words], f"{cmd.name}: request", env={}, stdin=None))
    if not _WAYS_OUT.search(flat):
        return
    followed = False
    for match in _DELETERS.finditer(flat):
        followed = True
        target = (
            Word(match.group("path"), quoted=True)
            if match.group("path") is not None
            else Word("", dyn=True, quoted=True)
        )
        walk.emit(
            cmd.inner(
                [Word("rm"), Word("-rf"), target], f"{cmd.name}: {match.group(0).split('(')[0].split()[0]}", stdin=None
            )
        )
    for match in _KILLERS.finditer(flat):
        numbers = re.findall(r"-?\b\d+\b", match.group("args"))
        if match.group("args").strip():
            followed = True
            pids = (
                numbers[1:]
                if len(numbers) > 1
                and re.match(r"\s*(?:\d+|['\"]?[A-Z]+)", match.group("args"))
                and cmd.name in ("perl", "ruby")
                else numbers
            )
            words = [Word(p) for p in pids] or [Word("", dyn=True, quoted=True)]
            walk.emit(cmd.inner([Word("kill"), Word("-9"), Word("--"), *words], f"{cmd.name}: kill", stdin=None))
    for match in _RUNNERS.finditer(flat):
        strings = [next((g for g in s.groups() if g is not None), "") for s in _STRING.finditer(match.group("rest"))]
        vector = re.search(r"\[(.*?)\]", match.group("rest"), re.DOTALL)
        if strings:
            followed = True
            walk.nested(strings[0], cmd, f"{cmd.name}: system", stdin=None)
            if len(strings) > 1 and (vector or cmd.name in ("perl", "ruby", "php", "lua")):
                walk.emit(cmd.inner([Word(s, quoted=True) for s in strings], f"{cmd.name}: exec", stdin=None))
        bare = re.match(r"([^\"'`)}]+)[)}/]", match.group("rest"))
        if bare and match.group(0).lstrip().startswith(("qx", "%x")):
            followed = True
            walk.nested(bare.group(1), cmd, f"{cmd.name}: qx", stdin=None)
    for match in re.finditer(r"\bqw\s*[({\[]([^)}\]]+)[)}\]]", flat if cmd.name == "perl" else ""):
        followed = True
        walk.emit(cmd.inner([Word(w) for w in match.group(1).split()], "perl: qw", stdin=None))
    for match in re.finditer(r"`((?:[^`\\]|\\.)+)`", flat):
        if cmd.name in ("perl", "ruby", "php") or flat[: match.start()].endswith("$"):
            followed = True
            walk.nested(match.group(1), cmd, f"{cmd.name}: backticks", stdin=None)
    if not followed and re.search(
        r"\b(?:system|exec\w*|spawn\w*|popen|child_process|unlink\w*|rmtree|rm_rf|rmSync|FileUtils|os\.execute)\b", flat
    ):
        walk.shell.problem(f"the {cmd.name} code may run or delete something that cannot be followed", cmd.span)


def _folded(code: str) -> str:
    """`'a' + 'b'` and `"a" . "b"` become one string."""
    for _ in range(4):
        made = re.sub(r"(['\"])\s*[+.]\s*\1", "", code)
        if made == code:
            break
        code = made
    return code


def awk(cmd: Cmd, walk: Any) -> None:
    """awk's `system()`, pipes to commands and `print > file`."""
    i = 1
    argv = cmd.argv
    programs: list[str] = []
    while i < len(argv):
        text = argv[i].text
        if text in ("-F", "-v", "--assign", "--field-separator"):
            i += 2
        elif text in ("-f", "--file") and i + 1 < len(argv):
            found = read_file(argv[i + 1], cmd.cwds, walk.shell.notes)
            programs += [found] if found else []
            i += 2
        elif text.startswith("-") and text != "--":
            i += 1
        else:
            if not programs:
                programs.append(argv[i].text)
            break
    for program in programs:
        if re.search(r"\bin\s+ENVIRON\b", program):
            walk.emit(cmd.inner([Word("printenv")], "awk ENVIRON", env={}, stdin=None))
        for match in re.finditer(r"system\s*\(\s*((?:\"(?:[^\"\\]|\\.)*\"|[^)])*)\)", program):
            _awk_text(match.group(1), cmd, walk)
        for match in re.finditer(
            r"\|\s*(?:&\s*)?(\"(?:[^\"\\]|\\.)*\")|(\"(?:[^\"\\]|\\.)*\")\s*\|\s*&?\s*getline", program
        ):
            _awk_text(match.group(1) or match.group(2), cmd, walk)
        for match in re.finditer(r"print[^;}|]*?>{1,2}\s*\"((?:[^\"\\]|\\.)*)\"", program):
            made = cmd.inner([Word(":")], "awk print", stdin=None)
            made.redirects = [Redirect(">", "", Word(match.group(1)))]
            walk.emit(made)


def _awk_text(expression: str, cmd: Cmd, walk: Any) -> None:
    strings = re.findall(r"\"((?:[^\"\\]|\\.)*)\"", expression)
    rest = re.sub(r"\"(?:[^\"\\]|\\.)*\"", "", expression).strip()
    if not strings:
        walk.shell.problem("awk runs a command that cannot be known before it runs", cmd.span)
        return
    text = "".join(s.replace('\\"', '"') for s in strings)
    walk.nested(f'{text}"$__unknown"' if rest else text, cmd, "awk system", stdin=None)


def sed(cmd: Cmd, walk: Any) -> None:
    """GNU sed's `e` command and the `e` flag run their text; `w` writes files."""
    scripts = [w.text for w in _code_of(cmd, ("-e", "--expression"))]
    if not scripts:
        scripts = [next((w.text for w in cmd.argv[1:] if not w.text.startswith("-")), "")]
    for text in scripts:
        for match in re.finditer(r"(?:^|[;}\n]|\d)\s*e\s+([^;\n]+)", text):
            walk.nested(match.group(1), cmd, "sed e", stdin=None)
        flagged = re.search(r"s(?P<d>[|/#,!@])(?:\\.|(?!(?P=d)).)*(?P=d)((?:\\.|(?!(?P=d)).)*)(?P=d)[gipm\d]*e", text)
        if flagged:
            walk.nested(flagged.group(2), cmd, "sed s///e", stdin=None)
            walk.shell.problem("sed runs what its input holds", cmd.span)


def editor(cmd: Cmd, walk: Any) -> None:
    """Editors: `vim -c ':!CMD'`, `+CMD`, `emacs --eval`, ed scripts."""
    texts: list[str] = []
    for i, word in enumerate(cmd.argv[1:], 1):
        if word.text in (
            "-c",
            "--cmd",
            "-S",
            "--eval",
            "-eval",
            "-e",
            "--exec",
            "-sc",
            "-esc",
            "-Esc",
            "-nc",
        ) and i + 1 < len(cmd.argv):
            texts.append(cmd.argv[i + 1].text)
        elif word.text.startswith("+") and len(word.text) > 1:
            texts.append(word.text[1:])
    if cmd.stdin is not None:
        found = text_of(cmd.stdin, walk)
        if found is not None:
            texts += found.split("\n")
        elif cmd.name in ("ed", "ex"):
            walk.shell.problem(f"{cmd.name} reads commands that cannot be seen", cmd.span)
    for text in texts:
        bang = re.search(r"(?:^|[|:%\d,$.'<>r ])!\s*(.+)", text, re.DOTALL)
        if bang:
            walk.nested(bang.group(1), cmd, f"{cmd.name} !", stdin=None)
        call = re.search(
            r"\b(?:system|delete|shell-command|delete-file|delete-directory|call-process|jobstart|termopen|terminal|execute)\b(.*)",
            text,
        )
        if call:
            strings = [next((g for g in s.groups() if g is not None), "") for s in _STRING.finditer(call.group(1))]
            deletes = "delete" in call.group(0).split("(")[0].split('"')[0]
            for string in strings[:1]:
                if deletes:
                    walk.emit(cmd.inner([Word("rm"), Word("-rf"), Word(string)], f"{cmd.name} delete", stdin=None))
                else:
                    walk.nested(string, cmd, f"{cmd.name} system", stdin=None)
            if not strings:
                walk.nested(call.group(1), cmd, f"{cmd.name} command", stdin=None)


def debugger(cmd: Cmd, walk: Any) -> None:
    """gdb, cuda-gdb, lldb (`-ex 'shell CMD'`, `--args PROGRAM`), sqlite3 (`.shell`, `.system`)."""
    words = cmd.argv
    for i, word in enumerate(words[1:], 1):
        text = word.text
        if text in ("-ex", "-iex", "--ex", "-eval-command", "-o", "-O", "--one-line", "-cmd") and i + 1 < len(words):
            text = words[i + 1].text
        match = re.match(r"\s*(?:shell|!|\.shell|\.system|platform shell|pipe [^|]*\|)\s*(.+)", text, re.DOTALL)
        if match:
            walk.nested(match.group(1), cmd, f"{cmd.name} shell", stdin=None)
        match = re.match(r"\s*(?:python|script)\s+(.+)", text, re.DOTALL)
        if match and cmd.name != "sqlite3":
            from infer_forge.guard import pycode

            pycode.run(match.group(1), cmd, walk)
    if "--args" in cmd.words():
        at = cmd.words().index("--args")
        if at + 1 < len(words):
            walk.emit(cmd.inner(words[at + 1 :], cmd.name))


def archive(cmd: Cmd, walk: Any) -> None:
    """tar, rsync, zip: options that carry a command."""
    words = cmd.argv
    carriers = {
        "tar": (
            "--to-command",
            "--use-compress-program",
            "-I",
            "--info-script",
            "-F",
            "--new-volume-script",
            "--rsh-command",
        ),
        "bsdtar": ("--use-compress-program",),
        "rsync": ("-e", "--rsh", "--rsync-path"),
        "zip": ("-TT", "--unzip-command"),
    }[cmd.name]
    for i, word in enumerate(words[1:], 1):
        text = word.text
        for option in carriers:
            value = None
            if text == option and i + 1 < len(words):
                value = words[i + 1].text
            elif text.startswith(f"{option}="):
                value = text[len(option) + 1 :]
            elif not option.startswith("--") and len(option) == 2 and text.startswith(option) and len(text) > 2:
                value = text[2:]
            if value and (" " in value or "/" in value):
                walk.nested(value, cmd, f"{cmd.name} {option}", stdin=None)
            elif value:
                walk.emit(cmd.inner([Word(value)], f"{cmd.name} {option}", stdin=None))
        match = re.match(r"--checkpoint-action=exec=(.+)", text, re.DOTALL)
        if match:
            walk.nested(match.group(1), cmd, "tar --checkpoint-action", stdin=None)
