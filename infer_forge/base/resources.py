"""The data folders `skills/ playbooks/ prompts/ references/`, found the same way from a checkout, a wheel and an editable install."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable, MissingPart

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
    """Parsed content of a YAML data file, read once a process. Do not change what it returns.

    Its JSON twin in the cache folder spares later processes the YAML library; the twin is named for the file's size and
    time, is written only when it says exactly the same, and may be deleted at any time.
    """
    from infer_forge.base import jsonio
    from infer_forge.base.paths import paths

    path = data_path(name)
    state = path.stat()
    twin = paths().cache / "data" / f"{jsonio.sha256_of(str(path))[:16]}-{state.st_mtime_ns:x}-{state.st_size:x}.json"
    try:
        return jsonio.loads(twin.read_bytes())
    except (OSError, InputUnusable):
        pass
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with open(path, "rb") as file:
        data: Any = yaml.load(file, Loader=loader)  # a safe loader in either case
    try:
        text = jsonio.dumps(data)
        if jsonio.loads(text) == data:
            jsonio.write_atomic(twin, text)
    except (OSError, TypeError):
        pass  # no twin: the next process reads the YAML again
    return data
