"""Python code on a command line: what it kills, deletes, writes and runs, read with the standard library's `ast`.

Each effect becomes the shell command that does the same, so that one set of rules decides on both.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from infer_forge.guard.model import Cmd, Place, Redirect, Source, Word
from infer_forge.guard.output import read_file, text_of
from infer_forge.guard.pyorder import DELETE_CALLS, MOVE_CALLS, RUN_CALLS, SHELL_CALLS, Order, keyword

MAX_CODE = 64 * 1024
_VECTOR_CALLS = re.compile(r"^(?:os\.(?:exec|spawn|posix_spawn)\w*|asyncio\.create_subprocess_exec)$")
_COPY_CALLS = {"shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.copytree", "os.link", "os.symlink"}
_MODE_CALLS = {"os.chmod": "chmod", "os.chown": "chown", "shutil.chown": "chown"}
_PATH_DELETES = {"unlink": "-f", "rmdir": "-d", "rmtree": "-rf"}
_PATH_WRITES = ("write_text", "write_bytes", "touch")
_GUARD_CALLS = re.compile(
    r"^infer_forge\.(?:base\.(?:ownership\.(?:own|disown|add_grant|editing|begin_run)|clocks\.append|machine\.clocks\.\w+)"
    r"|guard\.(?:catalogue\.give|policy\.compile_policy|compile_policy|proofs\.prove|prove|clockbook\.\w+|asked\.\w+|audit\.append|compiled\.pack)"
    r"|nodes\.guarded\.\w+)$"
)
"""Calls that give leave or ownership, or write what the guard knows; `record_birth` and reading stay free."""
_BOX_METHODS = ("kill", "stop", "remove", "prune", "prune_containers", "restart", "pause", "remove_container", "rename")
_ELSEWHERE = (
    "requests", "httpx", "aiohttp", "urllib", "huggingface_hub", "push_to_hub", "boto3", "google", "azure", "s3fs", "gcsfs", "minio",
    "oss2", "paramiko", "fabric", "kubernetes", "github", "gitlab", "git", "tarfile", "zipfile", "unpack_archive",
)  # fmt: skip
"""Code without one of these words needs no `pynet`."""
_LISTERS = frozenset(("pgrep", "pidof", "ps", "nvidia-smi", "lsof", "fuser", "ss", "netstat"))
_KILL_METHODS = ("kill", "terminate", "suspend", "send_signal")


def command(cmd: Cmd, walk: Any) -> None:
    """`python -c CODE`, `-m MODULE`, `FILE`, code on standard input."""
    argv, i = cmd.argv, 1
    while i < len(argv):
        text = argv[i].text
        if text == "-c" or (re.fullmatch(r"-[bBdEiIOqsSuvx]*c", text) is not None):
            if i + 1 < len(argv):
                _inline(argv[i + 1], cmd, walk)
            return
        if text.startswith("-c") and len(text) > 2:
            _inline(argv[i].cut(2), cmd, walk)
            return
        if text == "-m" or re.fullmatch(r"-[bBdEiIOqsSuvx]*m", text):
            _module(cmd, walk, i + 1)
            return
        if text in ("-W", "-X"):
            i += 2
        elif text == "-":
            break
        elif text.startswith("-"):
            i += 1
        else:
            _file(cmd, walk, argv[i])
            return
    if cmd.stdin is not None:
        code = text_of(cmd.stdin, walk)
        if code is None and cmd.stdin.text is not None:
            code = cmd.stdin.text
        if code is None:
            walk.shell.problem(f"code is piped into {cmd.name} that cannot be seen before it runs", cmd.span)
        else:
            run(code, cmd, walk)
    elif any(w.sources for w in argv[1:]):
        walk.shell.problem(f"code is handed to {cmd.name} that cannot be seen before it runs", cmd.span)


def _inline(word: Word, cmd: Cmd, walk: Any) -> None:
    if word.dyn:
        if not word.text.strip():
            walk.shell.problem(f"what {cmd.name} -c runs cannot be known before it runs", cmd.span)
            return
        walk.shell.partial = True
    run(word.text, cmd, walk)


def _module(cmd: Cmd, walk: Any, at: int) -> None:
    if at >= len(cmd.argv):
        return
    folder = cmd.argv[0].text.rpartition("/")[0]
    module = cmd.argv[at].text
    if module in ("zipfile", "tarfile"):
        texts = [w.text for w in cmd.argv[at:]]
        where = next((i for i, t in enumerate(texts) if t in ("-e", "--extract")), None)
        if where is not None and where + 2 < len(texts):
            words = [Word("tar"), Word("-xf"), Word("archive.tar"), Word("-C"), cmd.argv[at + where + 2]]
            walk.emit(cmd.inner(words, f"{cmd.name} -m"))
        return
    name = {"pip": "pip", "ensurepip": "pip", "infer_forge": "infer-forge", "infer_forge.cli.main": "infer-forge"}.get(
        module, module.rsplit(".", 1)[-1]
    )
    if module in ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"):
        name = "torchrun"
    known = walk.shell.pol["known"]
    if name in known:
        first = Word(f"{folder}/{name}" if folder else name)
        walk.emit(cmd.inner([first, *cmd.argv[at + 1 :]], f"{cmd.name} -m"))


def _file(cmd: Cmd, walk: Any, word: Word) -> None:
    if word.text.startswith("/dev/fd/") and word.sources:
        code = text_of(Source(cmds=word.sources), walk)
        if code is None:
            walk.shell.problem(f"code is piped into {cmd.name} that cannot be seen before it runs", cmd.span)
        else:
            run(code, cmd, walk)
        return
    if word.text == "/dev/stdin" and cmd.stdin is not None:
        code = text_of(cmd.stdin, walk)
        if code is not None:
            run(code, cmd, walk)
        else:
            walk.shell.problem(f"code is piped into {cmd.name} that cannot be seen before it runs", cmd.span)
        return
    code = (
        read_file(word, cmd.cwds, walk.shell.notes) if cmd.place.container is None and cmd.place.node is None else None
    )
    if code is not None and word.text.endswith(".py"):
        run(code, cmd, walk, in_file=True)
    else:
        walk.shell.partial = True


def run(code: str, cmd: Cmd, walk: Any, *, in_file: bool = False, depth: int = 0) -> None:
    """Look into Python code. In files an argument that cannot be known is only noted; on a command line it is asked about."""
    if len(code) > MAX_CODE or depth > 3:
        walk.shell.problem("the Python code is too long or too deep to follow", cmd.span)
        return
    try:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if not in_file:
            from infer_forge.guard.shell import risk_tokens

            walk.shell.problem("the Python code could not be parsed", cmd.span, risk_tokens(code))
        return
    made = _Code(cmd, walk, in_file, depth)
    made.acts_elsewhere = any(word in code for word in _ELSEWHERE)
    made.read(tree)
    if "plumbum" in code:
        from infer_forge.guard import pyplumbum

        pyplumbum.read(made, tree)


class _Code(Order):
    """One pass over a module: names of imports and constants first, then the calls."""

    acts_elsewhere = False
    host: str | None = None

    def call(self, node: ast.Call) -> None:
        name = self.dotted(node.func)
        first = node.args[0] if node.args else None
        if name in ("exec", "eval", "compile", "builtins.exec", "builtins.eval"):
            code = self.text(first)
            if code is not None:
                run(code, self.cmd, self.walk, in_file=self.in_file, depth=self.depth + 1)
            elif not self.in_file:
                self.unknown(name)
        elif name in SHELL_CALLS or name.endswith("CDLL().system"):
            self.shell(first or keyword(node, "cmd"), name)
        elif name in RUN_CALLS:
            self.program(first or keyword(node, "args"), name, keyword(node, "shell"))
        elif _VECTOR_CALLS.match(name):
            self.vector(node, name)
        elif name in ("os.kill", "os.killpg", "signal.pidfd_send_signal", "os.tgkill"):
            self.kill(node, name)
        elif name in DELETE_CALLS:
            self.emit("rm", [Word(DELETE_CALLS[name]), self.word(first)], name)
        elif name in MOVE_CALLS and len(node.args) >= 2:
            self.emit("mv", [self.word(node.args[0]), self.word(node.args[1])], name)
        elif name in _COPY_CALLS and len(node.args) >= 2:
            self.emit("cp", [Word("-r"), self.word(node.args[0]), self.word(node.args[1])], name)
        elif name in _MODE_CALLS:
            self.emit(_MODE_CALLS[name], [Word("u+rw" if name == "os.chmod" else "root"), self.word(first)], name)
        elif name in ("open", "io.open", "builtins.open", "os.open"):
            self.opened(node, first)
        elif name.startswith(
            (
                "pynvml.nvmlDeviceSet",
                "pynvml.nvmlDeviceReset",
                "nvmlDeviceSet",
                "nvmlDeviceReset",
                "amdsmi.amdsmi_set",
                "amdsmi.amdsmi_reset",
            )
        ):
            self.emit("nvidia-smi", [Word(f"--{name.rsplit('.', 1)[-1]}")], name)
        elif name.startswith("infer_forge.cli."):
            self.own_command(node)
        elif _GUARD_CALLS.match(name):
            self.emit("infer-forge", [Word("guard"), Word("grant")], name)
        elif name in ("print", "sys.stdout.write", "pprint.pprint", "json.dumps"):
            self.printed(node)
        elif name.startswith("sh.") and any(i.split(".")[0] == "sh" for i in self.imports.values()):
            self.emit(name[3:].replace("_", "-"), [self.word(a) for a in node.args], name)
        elif self.acts_elsewhere and self.elsewhere(node, name):
            return
        elif isinstance(node.func, ast.Attribute):
            self.method(node, node.func, name)

    def elsewhere(self, node: ast.Call, name: str) -> bool:
        from infer_forge.guard import pynet

        return pynet.call(self, node, name)

    def unknown(self, what: str) -> None:
        if self.in_file:
            self.walk.shell.partial = True
        else:
            self.walk.shell.problem(f"what {what} gets cannot be known before it runs", self.cmd.span)

    def emit(
        self,
        program: str,
        args: list[Word],
        via: str,
        redirects: list[Redirect] | None = None,
        _place: Place | None = None,
    ) -> None:
        if self.in_file and any(a.dyn for a in args):
            self.walk.shell.partial = True
            return
        made = self.cmd.inner([Word(program), *args], f"{self.cmd.name}: {via}", env={}, stdin=None)
        made.redirects = redirects or []
        self.walk.emit(made)

    def shell(self, node: ast.expr | None, name: str) -> None:
        text = self.text(node)
        if text is None:
            literal = _leading_text(node)
            if literal:
                self.walk.nested(f'{literal}"$__unknown"' if not self.in_file else literal, self.cmd, name, stdin=None)
                self.walk.shell.partial = True
            else:
                self.unknown(name)
            return
        self.walk.nested(text, self.cmd, name, stdin=None)

    def program(self, node: ast.expr | None, name: str, _shell: ast.expr | None) -> None:
        value: ast.expr | None = self.values.get(node.id, node) if isinstance(node, ast.Name) else node
        value = self.joined(value)
        if isinstance(value, (ast.List, ast.Tuple)):
            words = [self.word(e) for e in value.elts]
            if words and words[0].dyn:
                if self.dotted(value.elts[0]) == "sys.executable":
                    words[0] = Word("python3")
                else:
                    self.unknown(name)
                    return
            if self.in_file and any(w.dyn for w in words):
                self.walk.shell.partial = True
            if words:
                self.walk.emit(self.cmd.inner(words, name, env={}, stdin=None))
        elif isinstance(value, ast.Call) and self.dotted(value.func) == "shlex.split" and value.args:
            self.shell(value.args[0], name)
        elif (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr == "split"
            and not value.args
        ):
            self.shell(value.func.value, name)
        else:
            self.shell(value, name)

    def joined(self, node: ast.expr | None, level: int = 0) -> ast.expr | None:
        """`["a"] + rest` as one list, with an unknown word for a rest that is not spelled out; anything else as it is."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add) or level > 12:
            return node
        left, right = (
            self.joined(self.values.get(n.id, n) if isinstance(n, ast.Name) else n, level + 1)
            for n in (node.left, node.right)
        )
        if not isinstance(left, (ast.List, ast.Tuple)):
            return node
        rest = right.elts if isinstance(right, (ast.List, ast.Tuple)) else [ast.Name("__unknown", ast.Load())]
        return ast.List([*left.elts, *rest], ast.Load())

    def vector(self, node: ast.Call, name: str) -> None:
        args = list(node.args)
        if "spawn" in name and "posix" not in name and args:
            args = args[1:]
        if len(args) >= 2 and isinstance(args[1], (ast.List, ast.Tuple)):
            words = [self.word(e) for e in args[1].elts]
            program = self.word(args[0])
            self.walk.emit(self.cmd.inner([program, *words[1:]], name, env={}, stdin=None))
        elif name.startswith(("os.execl", "os.spawnl")):
            words = [self.word(a) for a in args]
            self.walk.emit(self.cmd.inner([words[0], *words[2:]] if words else [], name, env={}, stdin=None))
        elif args:
            self.walk.emit(self.cmd.inner([self.word(a) for a in args], name, env={}, stdin=None))

    def kill(self, node: ast.Call, name: str) -> None:
        target = self.word(node.args[0] if node.args else None)
        number = self.text(node.args[1]) if len(node.args) > 1 else None
        if (
            name == "os.kill"
            and node.args
            and isinstance(node.args[0], ast.Call)
            and self.dotted(node.args[0].func) == "os.getpid"
        ):
            return
        if node.args and isinstance(node.args[0], ast.Call) and self.dotted(node.args[0].func) == "os.getppid":
            target = Word("", dyn=True, names=("PPID",))
        if node.args and self.is_child(node.args[0], group=name == "os.killpg"):
            return
        signal = number.removeprefix("SIG") if number else "TERM"
        if name == "os.killpg" and target.text:
            target = Word(f"-{target.text}")
        self.emit("kill", [Word(f"-{signal}"), Word("--"), target], name)
        if target.dyn and not target.names:
            self.listed(name)

    def listed(self, name: str) -> None:
        """A pid that the code computes, where it also lists processes by name, port or device: those are what it kills."""
        known = self.walk.shell.cmds
        lists = tuple(c for c in known if c.depth > self.cmd.depth and c.name in _LISTERS and c.span == self.cmd.span)
        if lists:
            target = Word("", dyn=True, sources=lists, quoted=True)
            self.walk.emit(self.cmd.inner([Word("kill"), Word("-9"), Word("--"), target], name, env={}, stdin=None))

    def opened(self, node: ast.Call, first: ast.expr | None) -> None:
        mode = self.text(node.args[1] if len(node.args) > 1 else keyword(node, "mode")) or "r"
        if self.dotted(node.func) == "os.open":
            mode = (
                "w"
                if len(node.args) > 1 and "O_TRUNC" in ast.dump(node.args[1])
                else "a"
                if len(node.args) > 1 and "O_WR" in ast.dump(node.args[1])
                else "r"
            )
        path = self.word(first)
        if any(c in mode for c in "wax+"):
            if path.dyn and not path.text:
                self.walk.shell.partial = True
                return
            op = ">" if "w" in mode else ">>"
            self.emit(":", [], "open", [Redirect(op, "", path)])
        elif path.text and not self.in_file:
            self.emit("cat", [path], "open")

    def printed(self, node: ast.Call) -> None:
        for arg in node.args:
            dotted = self.dotted(arg) if isinstance(arg, (ast.Attribute, ast.Name)) else ""
            if isinstance(arg, ast.Call):
                dotted = self.dotted(arg.func)
                if dotted in ("dict", "str", "repr", "json.dumps", "list", "sorted") and arg.args:
                    inner = arg.args[0]
                    dotted = self.dotted(inner.func if isinstance(inner, ast.Call) else inner)
                if dotted in ("os.getenv", "os.environ.get") and arg.args:
                    name = self.text(arg.args[0])
                    if name:
                        self.emit("printenv", [Word(name)], "print")
                    continue
            if isinstance(arg, ast.Subscript) and self.dotted(arg.value) == "os.environ":
                name = self.text(arg.slice)
                if name:
                    self.emit("printenv", [Word(name)], "print")
            elif dotted in ("os.environ", "os.environ.items", "os.environ.copy", "os.environ.values"):
                self.emit("printenv", [], "print")

    def method(self, node: ast.Call, func: ast.Attribute, name: str) -> None:
        attr = func.attr
        if attr in _PATH_DELETES and not name.startswith("os."):
            if self.is_path(func.value):
                self.emit("rm", [Word(_PATH_DELETES[attr]), self.word(func.value)], f"Path.{attr}")
            elif not self.in_file and attr in ("unlink", "rmdir", "rmtree"):
                self.unknown(f".{attr}()")
        elif attr in _PATH_WRITES and self.is_path(func.value):
            target = self.word(func.value)
            if target.text:
                self.emit(":", [], f"Path.{attr}", [Redirect(">>" if attr == "touch" else ">", "", target)])
        elif attr in ("rename", "replace") and len(node.args) == 1 and self.is_path(func.value):
            self.emit("mv", [self.word(func.value), self.word(node.args[0])], f"Path.{attr}")
        elif attr == "kill" and len(node.args) == 2 and not name.startswith("os."):
            self.kill(node, "os.kill")
        elif attr in _BOX_METHODS and any(i.split(".")[0] == "docker" for i in self.imports.values()):
            self.emit("docker", [Word("rm"), Word("-f"), Word("", dyn=True, quoted=True)], f"docker.{attr}")
        elif attr in _KILL_METHODS:
            self.killed(func)
        elif attr in ("flushall", "flushdb") and any(i.split(".")[0] == "redis" for i in self.imports.values()):
            self.emit("redis-cli", [Word(attr)], name)
        elif attr in ("append", "extend") and isinstance(func.value, ast.Name) and node.args:
            self.grown(func.value.id, node.args[0], attr)

    def grown(self, name: str, more: ast.expr, how: str) -> None:
        """A list that a name stands for gets more words before it is run."""
        known = self.values.get(name)
        if isinstance(known, ast.List):
            added = more.elts if how == "extend" and isinstance(more, (ast.List, ast.Tuple)) else [more]
            self.values[name] = ast.List([*known.elts, *added], ast.Load())

    def own_command(self, node: ast.Call) -> None:
        """A call of our own command line is the command with its words."""
        given = node.args[0] if node.args else keyword(node, "args")
        value = self.values.get(given.id, given) if isinstance(given, ast.Name) else given
        if isinstance(value, (ast.List, ast.Tuple)):
            self.emit("infer-forge", [self.word(e) for e in value.elts], "infer_forge.cli")
        else:
            self.unknown("infer_forge.cli")

    def killed(self, func: ast.Attribute) -> None:
        owner = func.value
        value = self.values.get(owner.id, owner) if isinstance(owner, ast.Name) else owner
        if isinstance(owner, ast.Name) and "process_iter" in self.iterated.get(owner.id, ""):
            self.emit("pkill", [Word("-f"), Word(".")], "psutil.process_iter")
        elif isinstance(value, ast.Call) and self.dotted(value.func) == "psutil.Process":
            self.emit("kill", [Word("-KILL"), self.word(value.args[0] if value.args else None)], "psutil.Process")
        elif isinstance(owner, ast.Name) and "children" in self.iterated.get(owner.id, ""):
            self.unknown("a kill of child processes")


def _leading_text(node: ast.expr | None) -> str | None:
    """The literal beginning of an f-string or a sum, which often holds the program's name."""
    if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
        return str(node.values[0].value)
    if isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
        return node.left.value
    if isinstance(node, ast.BinOp):
        return _leading_text(node.left)
    return None
