"""The data folders `skills/ playbooks/ prompts/ references/`, found the same way from a checkout, a wheel and an editable install."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from infer_forge.base.errors import MissingPart

FOLDERS = ("skills", "playbooks", "prompts", "references")


@cache
def data_root() -> Path:
    """The folder that holds the data folders: inside the package in a wheel, beside it in a checkout.

    Raises:
        MissingPart: neither place has them (a broken installation).
    """
    package = Path(__file__).resolve().parent.parent
    for root in (package / "_data", package.parent):
        if (root / "references").is_dir():
            return root
    raise MissingPart(
        "the data folders of infer-forge are not installed", where=str(package), next_step="install infer-forge again"
    )


def data_path(name: str) -> Path:
    """Path of a data file or folder, for example `data_path("references/kernel_classes.yaml")`.

    Raises:
        MissingPart: it is not there.
    """
    path = data_root() / name
    if not path.exists():
        raise MissingPart(
            "this data file of infer-forge is missing", where=str(path), next_step="install infer-forge again"
        )
    return path


@cache
def load_yaml(name: str) -> Any:
    """Parsed content of a YAML data file, read once a process with the C loader where PyYAML has it. Do not change what it returns."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with open(data_path(name), "rb") as file:
        return yaml.load(file, Loader=loader)  # a safe loader in either case
