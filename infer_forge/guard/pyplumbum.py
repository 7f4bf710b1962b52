"""plumbum, which makes programs into Python values: `local["rm"]["-rf", x]()`, `from plumbum.cmd import rm`, other machines.

A command that is put together counts as run: nobody binds arguments to a program for another reason.
Names of the library: plumbum documentation, "Local Commands" and "Remote".
"""

from __future__ import annotations

import ast
import re
from typing import Any

from infer_forge.guard.model import Word

_PROGRAM = re.compile(r"plumbum\.(?:local\.)?cmd\.(\w+)")
_LOCAL = ("plumbum.local", "plumbum.machines.local")
_MACHINE = re.compile(r"\b(?:Ssh|Paramiko|Putty)Machine\(\)$")
_RUNS = ("run", "popen", "run_fg", "run_bg", "run_tf", "run_tee", "run_nohup", "bound_command", "with_env", "with_cwd")


def read(code: Any, tree: ast.AST) -> None:
    """Emit each command that the module puts together; the longest spelling of each is among them.

    Args:
        code: the pass over the module (`pycode`), which knows names and values.
        tree: the module.
    """
    for node in ast.walk(tree):
        words = _words(code, node) if isinstance(node, (ast.Call, ast.Subscript)) else None
        if words:
            code.walk.emit(code.cmd.inner(words, "plumbum", env={}, stdin=None))


def _words(code: Any, node: ast.expr, level: int = 0) -> list[Word] | None:
    """The program and the arguments bound so far, or None where an expression is no command of plumbum."""
    if level > 12:
        return None
    if isinstance(node, ast.Name) and node.id in code.values:
        return _words(code, code.values[node.id], level + 1)
    if isinstance(node, (ast.Name, ast.Attribute)):
        match = _PROGRAM.fullmatch(code.dotted(node))
        return [Word(match.group(1).replace("_", "-"))] if match else None
    if isinstance(node, ast.Subscript):
        machine = code.dotted(node.value)
        if machine in _LOCAL:
            return [code.word(node.slice)]
        if _MACHINE.search(machine):
            return [Word("ssh"), code.word(_host(code, node.value)), code.word(node.slice)]
        return _bound(code, node.value, node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice], level)
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _RUNS:
            return _bound(code, func.value, [] if func.attr.startswith("run") else node.args, level)
        return _bound(code, func, node.args, level)
    return None


def _bound(code: Any, program: ast.expr, arguments: list[ast.expr], level: int) -> list[Word] | None:
    words = _words(code, program, level + 1)
    if words is None:
        return None
    for argument in arguments:
        words = [*words, *(_words(code, argument, level + 1) or [code.word(argument)])]
    return words


def _host(code: Any, machine: ast.expr) -> ast.expr | None:
    found = code.values.get(machine.id, machine) if isinstance(machine, ast.Name) else machine
    return found.args[0] if isinstance(found, ast.Call) and found.args else None
