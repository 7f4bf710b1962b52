"""Python code in the order in which it stands: which value a name has where a call uses it, in which folder, by whom it is called."""

from __future__ import annotations

import ast

from infer_forge.guard.pyvalues import Values

_BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.IfExp)
MAX_REPEATS = 200
"""Calls that are judged again with another value."""
MAX_BRANCHES = 6
"""Values of one name from different branches that are followed."""
SHELL_CALLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "commands.getoutput",
    "pexpect.spawn",
    "pexpect.run",
    "invoke.run",
    "delegator.run",
}
RUN_CALLS = {
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "subprocess.Popen",
    "pty.spawn",
    "ptyprocess.PtyProcess.spawn",
    "ptyprocess.PtyProcessUnicode.spawn",
    "sh.Command",
}
DELETE_CALLS = {
    "shutil.rmtree": "-rf",
    "os.remove": "-f",
    "os.unlink": "-f",
    "os.rmdir": "-d",
    "os.removedirs": "-d",
    "os.truncate": "-f",
    "send2trash.send2trash": "-rf",
}
MOVE_CALLS = {"os.rename", "os.replace", "os.renames", "shutil.move"}
_SHELLS = ("sh", "bash", "zsh", "dash", "ksh")
_EACH = ("map", "imap", "imap_unordered", "map_async", "starmap", "for_each")
_HANDED = frozenset((*SHELL_CALLS, *RUN_CALLS, *DELETE_CALLS, *MOVE_CALLS, "os.kill", "os.killpg"))
"""Calls that count when their function is handed to another one."""


_BY_STAR = (
    *_HANDED, "os.execv", "os.execvp", "os.execl", "os.execlp", "os.chmod", "os.chown", "os.environ", "os.chdir", "os.path", "os.link",
    "os.symlink", "shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.copytree", "pathlib.Path", "psutil.process_iter",
    "psutil.Process", "plumbum.local", "plumbum.cmd", "sys.executable",
)  # fmt: skip
"""What `from os import *` and the like bring in, as far as it is looked at."""


def starred(node: ast.ImportFrom) -> dict[str, str]:
    """Names behind `from MODULE import *`: the calls of that module that are looked at."""
    if not any(n.name == "*" for n in node.names):
        return {}
    head = f"{node.module}."
    return {name[len(head) :].split(".")[0]: name for name in _BY_STAR if name.startswith(head)}


def keyword(node: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((k.value for k in node.keywords if k.arg == name), None)


class Order(Values):
    """One pass over a module: names of imports and constants first, then the calls as they stand in the text."""

    several = False
    repeats = 0

    def call(self, node: ast.Call) -> None:
        """What one call does."""
        raise NotImplementedError

    def unknown(self, what: str) -> None:
        """An argument that cannot be known."""
        raise NotImplementedError

    def read(self, tree: ast.AST) -> None:
        """Take names and calls out of a module and judge the calls."""
        calls: list[ast.Call] = []
        bound: list[tuple[str, ast.expr, int, int]] = []
        for count, node in enumerate(ast.walk(tree)):
            if count > 20000:
                self.walk.shell.partial = True
                break
            if isinstance(node, ast.Import):
                for name in node.names:
                    self.imports[name.asname or name.name.split(".")[0]] = (
                        name.name if name.asname else name.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                self.imports.update(starred(node))
                for name in node.names:
                    self.imports[name.asname or name.name] = f"{node.module}.{name.name}"
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                bound.append((node.targets[0].id, node.value, node.end_lineno or node.lineno, node.end_col_offset or 0))
            elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
                where = node.optional_vars
                bound.append((where.id, node.context_expr, where.lineno, where.col_offset))
            elif (
                isinstance(node, (ast.For, ast.comprehension))
                and isinstance(node.target, ast.Name)
                and isinstance(node.iter, ast.Call)
            ):
                self.iterated[node.target.id] = self.dotted(node.iter.func)
            elif isinstance(node, ast.Call):
                calls.append(node)
            if isinstance(node, _BRANCHES) and id(node) not in self.branched:
                self.branched.update(id(n.value) if isinstance(n, ast.Assign) else id(n) for n in ast.walk(node))
            if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
                name = node.arg if isinstance(node, ast.arg) else node.id
                (self.rebound if name in self.stored else self.stored).add(name)
        outer = self.cmd.cwds, self.walk.scope.cwds
        try:
            self._in_order(calls, bound)
        finally:
            self.cmd.cwds, self.walk.scope.cwds = outer

    def _in_order(self, calls: list[ast.Call], bound: list[tuple[str, ast.expr, int, int]]) -> None:
        """The calls as they stand in the text, each with the values that names have there; at first a name has its first one."""
        bound.sort(key=lambda b: b[2:])
        for name, value, _, _ in reversed(bound):
            self.values[name] = value
        calls.sort(key=lambda c: (c.lineno, c.col_offset))
        waiting = iter(bound)
        following = next(waiting, None)
        for call in calls:
            while following is not None and following[2:] <= (call.lineno, call.col_offset):
                self._bind(following[0], following[1])
                following = next(waiting, None)
            self.placed(call)
            self._otherwise(call)

    def _bind(self, name: str, value: ast.expr) -> None:
        """A name gets a value; inside of a branch the earlier ones stay possible."""
        earlier = self.possible.get(name, [])
        self.possible[name] = [*earlier, value][-MAX_BRANCHES:] if id(value) in self.branched else [value]
        self.several = self.several or len(self.possible[name]) > 1
        self.values[name] = value

    def _otherwise(self, node: ast.Call) -> None:
        """The call once more for each other value that a name among its arguments may have and that is spelled out."""
        if not self.several:
            return
        for name in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
            if len(self.possible.get(name, ())) < 2:
                continue
            now = self.values[name]
            for value in self.possible[name][:-1]:
                self.repeats += 1
                if self.repeats > MAX_REPEATS:
                    self.walk.shell.partial = True
                elif self.text(value) is not None:
                    self.values[name] = value
                    self.placed(node)
            self.values[name] = now

    def placed(self, node: ast.Call) -> None:
        """A call in the folder that `cwd=` names; a function that is handed to another one counts as called."""
        name = self.dotted(node.func)
        folder = keyword(node, "cwd")
        outer = self.cmd.cwds, self.walk.scope.cwds
        if folder is not None:
            self.moves(folder)
        try:
            if name == "os.chdir" and node.args:
                self.moves(node.args[0])
                return
            self.call(node)
            self.handed(node)
            self.spoken(node, name)
        finally:
            if folder is not None:
                self.cmd.cwds, self.walk.scope.cwds = outer

    def moves(self, folder: ast.expr) -> None:
        """What follows runs in another folder."""
        from infer_forge.guard.shells import moved

        word = self.word(folder)
        if not (word.dyn and self.in_file) and not (isinstance(folder, ast.Constant) and folder.value is None):
            self.cmd.cwds = self.walk.scope.cwds = moved(self.cmd.cwds, word)

    def handed(self, node: ast.Call) -> None:
        """`Thread(target=os.system, args=("...",))`, `pool.submit(shutil.rmtree, p)`, `map(os.remove, paths)`."""
        given = [(i, a) for i, a in enumerate(node.args)] + [(99, k.value) for k in node.keywords if k.arg == "target"]
        for at, function in given:
            if not isinstance(function, (ast.Name, ast.Attribute)) or self.dotted(function) not in _HANDED:
                continue
            rest, tupled = node.args[at + 1 :], keyword(node, "args")
            if isinstance(tupled, (ast.Tuple, ast.List)):
                rest = tupled.elts
            elif self.dotted(node.func).rpartition(".")[2] in _EACH:
                listed = self.values.get(rest[0].id, rest[0]) if rest and isinstance(rest[0], ast.Name) else rest[0:1]
                source = listed if isinstance(listed, ast.expr) else (rest[0] if rest else None)
                each = source.elts if isinstance(source, (ast.List, ast.Tuple)) else [ast.Name("__unknown", ast.Load())]
                for element in each:
                    self.call(ast.Call(function, [element], []))
                continue
            self.call(ast.Call(function, list(rest), []))

    def spoken(self, node: ast.Call, name: str) -> None:
        """What a shell gets to read: `run("bash", input="...")`, `Popen(["sh"], stdin=PIPE).communicate(b"...")`."""
        started, said = node, keyword(node, "input")
        if name.endswith(".communicate") and isinstance(node.func, ast.Attribute):
            value = node.func.value
            found = self.values.get(value.id, value) if isinstance(value, ast.Name) else value
            if not isinstance(found, ast.Call):
                return
            started, said = found, node.args[0] if node.args else said
        if said is None or self.dotted(started.func) not in RUN_CALLS or not started.args:
            return
        first = started.args[0]
        first = first.elts[0] if isinstance(first, (ast.List, ast.Tuple)) and first.elts else first
        program, text = self.text(first) or "", self.text(said)
        if program.rpartition("/")[2].split(" ")[0] in _SHELLS:
            if text is None:
                self.unknown(f"{program} by its input")
            else:
                self.walk.nested(text, self.cmd, f"{program} input", stdin=None)
