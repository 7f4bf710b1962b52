"""What Python code spells out: names behind imports, strings and numbers behind constants, sums, joins and decodings."""

from __future__ import annotations

import ast
import os
from typing import Any

from infer_forge.guard.model import Cmd, Word

_PATH_STEPS = frozenset(
    (
        "absolute",
        "expanduser",
        "joinpath",
        "relative_to",
        "rename",
        "replace",
        "resolve",
        "with_name",
        "with_stem",
        "with_suffix",
    )
)
"""Methods of a `pathlib` path that give a path again; `read_text` and the like give something else."""
_PATH_MAKERS = ("pathlib.Path", "Path", "pathlib.PosixPath", "importlib.resources.files")
_STARTS = ("subprocess.Popen", "multiprocessing.Process", "torch.multiprocessing.Process")
_SCRATCH = ("tempfile.mkdtemp", "tempfile.mktemp")


class Values:
    """Names and constants of one module."""

    def __init__(self, cmd: Cmd, walk: Any, in_file: bool, depth: int) -> None:
        self.cmd = cmd
        self.walk = walk
        self.in_file = in_file
        self.depth = depth
        self.imports: dict[str, str] = {}
        self.values: dict[str, ast.expr] = {}
        self.iterated: dict[str, str] = {}
        self.stored: set[str] = set()
        self.branched: set[int] = set()
        self.possible: dict[str, list[ast.expr]] = {}
        self.rebound: set[str] = set()

    def dotted(self, node: ast.expr, level: int = 0) -> str:
        """`o.system` -> `os.system` after `import os as o`; also `__import__("os").system` and `getattr(os, "system")`."""
        if level > 8:
            return ""
        if isinstance(node, ast.Name):
            if node.id in self.imports:
                return self.imports[node.id]
            value = self.values.get(node.id)
            if isinstance(value, (ast.Attribute, ast.Call)):
                found = self.dotted(value, level + 1)
                return found or node.id
            return node.id
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value, level + 1)
            return f"{base}.{node.attr}" if base else f".{node.attr}"
        if isinstance(node, ast.Call):
            name = self.dotted(node.func, level + 1)
            if name in ("__import__", "importlib.import_module") and node.args:
                return self.text(node.args[0]) or ""
            if name == "getattr" and len(node.args) >= 2:
                return f"{self.dotted(node.args[0], level + 1)}.{self.text(node.args[1]) or '?'}"
            return f"{name}()"
        return ""

    def text(self, node: ast.expr | None, level: int = 0) -> str | None:
        """A string or number that the code spells out, in one of many ways."""
        if node is None or level > 12:
            return None
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bytes):
                return node.value.decode("utf-8", "replace")
            return str(node.value) if isinstance(node.value, (str, int)) else None
        if isinstance(node, ast.Name):
            return self.text(self.values.get(node.id), level + 1)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.text(node.operand, level + 1)
            return f"-{value}" if value else None
        if isinstance(node, ast.BinOp):
            return self._binary(node, level)
        if isinstance(node, ast.JoinedStr):
            parts = [self.text(v.value if isinstance(v, ast.FormattedValue) else v, level + 1) for v in node.values]
            return "".join(p for p in parts if p is not None) if all(p is not None for p in parts) else None
        if isinstance(node, ast.Call):
            return self._text_call(node, level)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, level)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "__path__":
            file = self._own_file(self.dotted(node.value.value))
            return os.path.dirname(file) if file else None
        return None

    def _attribute(self, node: ast.Attribute, level: int) -> str | None:
        """`signal.SIGKILL`, `Path(x).parent`, and the file of a module of ours by its `__file__` or the origin of its spec."""
        if node.attr == "__file__":
            return self._own_file(self.dotted(node.value))
        if node.attr == "origin":
            spec = node.value
            if isinstance(spec, ast.Attribute) and spec.attr == "__spec__":
                return self._own_file(self.dotted(spec.value))
            found = self.values.get(spec.id, spec) if isinstance(spec, ast.Name) else spec
            if isinstance(found, ast.Call) and self.dotted(found.func).endswith("find_spec") and found.args:
                return self._own_file(self.text(found.args[0], level + 1) or "")
        if node.attr == "parent":
            base = self.text(node.value, level + 1)
            return os.path.dirname(base.rstrip("/")) if base and "/" in base.rstrip("/") else None
        return node.attr if self.dotted(node).startswith("signal.") else None

    @staticmethod
    def _own_file(module: str) -> str | None:
        """Where a module of this package lies; other packages depend on the interpreter that will run the code."""
        first, *rest = module.split(".")
        if first != "infer_forge":
            return None
        base = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), *rest)
        return f"{base}.py" if rest and not os.path.isdir(base) else f"{base}/__init__.py"

    def _binary(self, node: ast.BinOp, level: int) -> str | None:
        left, right = self.text(node.left, level + 1), self.text(node.right, level + 1)
        if isinstance(node.op, ast.Add) and left is not None and right is not None:
            return left + right
        if isinstance(node.op, ast.Div) and right is not None and left is not None:
            return f"{left.rstrip('/')}/{right}"
        if isinstance(node.op, ast.Mod) and left is not None and right is not None and left.count("%") == 1:
            return left.replace("%s", right).replace("%d", right)
        return None

    def _text_call(self, node: ast.Call, level: int) -> str | None:
        name = self.dotted(node.func)
        args = [self.text(a, level + 1) for a in node.args]
        if (
            name in ("str", "int", "pathlib.Path", "pathlib.PosixPath", "Path", "os.fspath", "bytes", "shlex.quote")
            and len(args) == 1
        ):
            return args[0]
        if name in ("os.path.expanduser", "os.path.realpath", "os.path.abspath", "os.path.normpath") and args:
            home = self.walk.scope.env.get("HOME", "~")
            return args[0].replace("~", home, 1) if args[0] and args[0].startswith("~") else args[0]
        if name == "os.path.dirname" and args and args[0]:
            return os.path.dirname(args[0])
        if name in ("inspect.getfile", "inspect.getsourcefile") and node.args:
            return self._own_file(self.dotted(node.args[0]))
        if name == "importlib.resources.files" and node.args:
            file = self._own_file(args[0] or self.dotted(node.args[0]))
            return os.path.dirname(file) if file else None
        if name == "os.path.join" and all(a is not None for a in args):
            return os.path.join(*[a for a in args if a is not None])
        if name.endswith("Path.home") or name == "pathlib.Path.home":
            return self.walk.scope.env.get("HOME")
        if isinstance(node.func, ast.Attribute):
            return self._text_method(node, node.func, args, level)
        return None

    def _text_method(self, node: ast.Call, func: ast.Attribute, args: list[str | None], level: int) -> str | None:
        import base64

        if func.attr == "join" and node.args:
            first = node.args[0]
            items = (
                [self.text(e, level + 1) for e in first.elts] if isinstance(first, (ast.List, ast.Tuple)) else [None]
            )
            glue = self.text(func.value, level + 1)
            return (
                glue.join(i for i in items if i is not None)
                if glue is not None and all(i is not None for i in items)
                else None
            )
        try:
            if func.attr == "fromhex" and args and args[0]:
                return bytes.fromhex(args[0]).decode("utf-8", "replace")
            if func.attr in ("b64decode", "standard_b64decode", "urlsafe_b64decode") and args and args[0]:
                return base64.b64decode(args[0] + "===").decode("utf-8", "replace")
        except ValueError:
            return None
        base = self.text(func.value, level + 1)
        if base is None:
            return None
        if func.attr in ("decode", "encode", "strip", "lower", "expanduser", "resolve", "absolute"):
            if func.attr == "expanduser" and base.startswith("~"):
                return base.replace("~", self.walk.scope.env.get("HOME", "~"), 1)
            return base
        if func.attr == "joinpath" and all(a is not None for a in args):
            return "/".join([base, *[a for a in args if a is not None]])
        if func.attr == "replace" and len(args) == 2 and None not in args:
            return base.replace(args[0] or "", args[1] or "")
        if func.attr == "format" and len(args) == 1 and args[0] is not None:
            return base.replace("{}", args[0])
        return None

    def word(self, node: ast.expr | None) -> Word:
        """The value as a word; an unknown one is dynamic."""
        value = self.text(node)
        if value is None and node is not None and self.is_scratch(node):
            return Word("", fresh=True, quoted=True)
        return Word(value, quoted=True) if value is not None else Word("", dyn=True, quoted=True)

    def is_scratch(self, node: ast.expr) -> bool:
        """Whether an expression is the folder that `tempfile.mkdtemp()` makes, under a name that is bound only once."""
        if isinstance(node, ast.Name):
            if node.id in self.rebound:
                return False
            node = self.values.get(node.id, node)
        return isinstance(node, ast.Call) and self.dotted(node.func) in _SCRATCH

    def is_child(self, node: ast.expr, *, group: bool = False) -> bool:
        """Whether an expression is the pid of a process that this code starts itself; with `group`, of one that leads its own.

        `p.pid` after `p = subprocess.Popen(...)`, under a name that is bound once; `os.getpgid(p.pid)`.
        """
        if group and isinstance(node, ast.Call) and self.dotted(node.func) == "os.getpgid" and node.args:
            node = node.args[0]
        if not isinstance(node, ast.Attribute) or node.attr != "pid" or not isinstance(node.value, ast.Name):
            return False
        started = self.values.get(node.value.id)
        if node.value.id in self.rebound or not isinstance(started, ast.Call):
            return False
        leads = any(
            k.arg in ("start_new_session", "process_group") or self.dotted(k.value) in ("os.setsid", "os.setpgrp")
            for k in started.keywords
        )
        return self.dotted(started.func) in _STARTS and (leads or not group)

    def is_path(self, node: ast.expr) -> bool:
        """Whether an expression makes a `pathlib` path."""
        value = self.values.get(node.id, node) if isinstance(node, ast.Name) else node
        step: ast.expr = value
        for _ in range(6):
            if isinstance(step, ast.Call):
                name = self.dotted(step.func)
                if name in _PATH_MAKERS or name.endswith("Path.home"):
                    return True
                if not isinstance(step.func, ast.Attribute) or step.func.attr not in _PATH_STEPS:
                    return False
                step = step.func.value
                continue
            if isinstance(step, ast.BinOp):
                step = step.left
            elif isinstance(step, ast.Name) and step.id in self.values and self.values[step.id] is not step:
                step = self.values[step.id]
            else:
                return False
        return False
