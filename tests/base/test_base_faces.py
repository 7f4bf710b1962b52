"""The face of each room: its verbs load, are known to the type checker, and cost nothing before they are used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import infer_forge

PACKAGE = Path(infer_forge.__file__).parent
ROOMS = sorted(p.parent.name for p in PACKAGE.glob("*/__init__.py") if p.parent.name not in ("base", "cli", "engines"))


@pytest.mark.parametrize("room", ROOMS)
def test_every_verb_of_a_room_loads(room: str) -> None:
    face = importlib.import_module(f"infer_forge.{room}")
    for verb in dir(face):
        assert getattr(face, verb) is not None


@pytest.mark.parametrize("room", ROOMS)
def test_no_verb_has_the_name_of_a_module_since_the_import_of_one_would_hide_the_other(room: str) -> None:
    face = importlib.import_module(f"infer_forge.{room}")
    assert not {v for v in dir(face) if (PACKAGE / room / f"{v}.py").exists() or (PACKAGE / room / v).is_dir()}


@pytest.mark.parametrize("room", ROOMS)
def test_the_type_checker_sees_the_same_verbs(room: str) -> None:
    face = importlib.import_module(f"infer_forge.{room}")
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text())
    blocks = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    imports = [n for block in blocks for n in block.body if isinstance(n, ast.ImportFrom)]
    assert {alias.name for node in imports for alias in node.names} == set(dir(face))


def test_the_faces_of_all_rooms_load_nothing_heavy() -> None:
    rooms = ", ".join(f"infer_forge.{r}" for r in ROOMS)
    heavy = [
        "numpy",
        "pandas",
        "pydantic",
        "yaml",
        "orjson",
        "msgspec",
        "networkx",
        "dulwich",
        "git",
        "psutil",
        "tree_sitter",
    ]
    code = f"import sys, {rooms}; print([m for m in {heavy!r} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert shown == "[]"
