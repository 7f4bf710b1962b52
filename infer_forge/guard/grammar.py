"""The tree-sitter parser for bash, loaded once and without what the wheel's package imports beside it.

`tree_sitter_bash/__init__.py` imports importlib.resources for its query files, which costs the hook more than the
grammar itself; so the extension module is loaded straight from the package's folder, with the plain import as fall-back.
"""

from __future__ import annotations

import sys
from typing import Any

_parser: Any = None


def _language_pointer() -> Any:
    if "tree_sitter_bash" in sys.modules:
        return sys.modules["tree_sitter_bash"].language()
    from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder

    spec = PathFinder.find_spec("tree_sitter_bash")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for suffix in EXTENSION_SUFFIXES:
            path = f"{folder}/_binding{suffix}"
            try:
                loader = ExtensionFileLoader("tree_sitter_bash._binding", path)
                module: Any = loader.create_module(ModuleSpec("tree_sitter_bash._binding", loader, origin=path))
                loader.exec_module(module)
                return module.language()
            except (ImportError, OSError, AttributeError):
                continue
    import tree_sitter_bash

    return tree_sitter_bash.language()


def parse(source: bytes) -> Any:
    """The tree of a shell text; tree-sitter never raises, it marks what it cannot read as ERROR or MISSING."""
    global _parser
    if _parser is None:
        import tree_sitter

        _parser = tree_sitter.Parser(tree_sitter.Language(_language_pointer()))  # pyright: ignore[reportDeprecated]
    return _parser.parse(source)
