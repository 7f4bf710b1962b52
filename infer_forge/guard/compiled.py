"""The compiled policy: JSON with the hashes of what it was made from. All that the hook reads; standard library only."""

from __future__ import annotations

import json
import os
from typing import Any

from infer_forge.base.paths import place_texts, user_config_folder
from infer_forge.guard.hashing import sha256_hex

PROJECT_FILES = ("guard.yaml", ".infer-forge/guard.yaml")
VERSION = 3


class PolicyFault(Exception):
    """There is no compiled policy that may be trusted; the hook then denies what acts."""


def user_file() -> str:
    """guard.yaml of the user, beside infer-forge.yaml."""
    return f"{user_config_folder()}/guard.yaml"


def project_root(cwd: str | None) -> str | None:
    """The nearest folder above `cwd` that has a guard.yaml or a .git; None when there is none."""
    step = os.path.realpath(cwd) if cwd else None
    found = None
    while step:
        if any(os.path.isfile(os.path.join(step, name)) for name in PROJECT_FILES):
            return step
        if found is None and os.path.exists(os.path.join(step, ".git")):
            found = step
        parent = os.path.dirname(step)
        if parent == step:
            break
        step = parent
    return found


def project_file(cwd: str | None) -> str | None:
    """guard.yaml of the project that a folder lies in."""
    root = project_root(cwd)
    for name in PROJECT_FILES if root else ():
        path = os.path.join(root or "", name)
        if os.path.isfile(path):
            return path
    return None


def place(file: str | None) -> str:
    """Where the compiled policy for a project file (None: no project file) is kept."""
    key = sha256_hex(file.encode())[:16] if file else "user"
    return f"{place_texts()['state']}/guard/policy-{key}.json"


def digest(path: str) -> str | None:
    """sha256 of a file; None when it is not there."""
    try:
        with open(path, "rb") as file:
            return sha256_hex(file.read())
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise PolicyFault(f"{path} cannot be read ({exc.strerror})") from None


_HEAD, _MIDDLE = b'{"hash":"', b'","body":'
_BODY_AT = len(_HEAD) + 64 + len(_MIDDLE)


def pack(body: dict[str, Any]) -> bytes:
    """The compiled file: `{"hash": .., "body": ..}`, the hash over the very bytes of the body."""
    text = json.dumps(body, separators=(",", ":")).encode()
    return _HEAD + sha256_hex(text).encode() + _MIDDLE + text + b"}"


def unpack(data: bytes) -> dict[str, Any]:
    """The body of a compiled file.

    Raises:
        PolicyFault: it is damaged or was changed by hand.
    """
    body = data[_BODY_AT:-1]
    if not data.startswith(_HEAD) or data[_BODY_AT - len(_MIDDLE) : _BODY_AT] != _MIDDLE or data[-1:] != b"}":
        raise PolicyFault("the compiled guard policy is damaged")
    if sha256_hex(body).encode() != data[len(_HEAD) : len(_HEAD) + 64]:
        raise PolicyFault("the compiled guard policy was changed by hand")
    return json.loads(body)


def load(cwd: str | None) -> dict[str, Any]:
    """The compiled policy for a folder, proved to be whole and made from the files as they are now.

    Raises:
        PolicyFault: none is compiled, it is damaged, or a source has changed since.
    """
    target = place(project_file(cwd))
    try:
        with open(target, "rb") as file:
            body = unpack(file.read())
        sources: dict[str, str | None] = body["sources"]
    except FileNotFoundError:
        raise PolicyFault("no guard policy is compiled for this folder") from None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise PolicyFault(f"the compiled guard policy is damaged ({type(exc).__name__})") from None
    if body.get("v") != VERSION:
        raise PolicyFault("the compiled guard policy is of another version")
    for path, wanted in sources.items():
        if digest(path) != wanted:
            raise PolicyFault(f"{path} has changed since it was compiled")
    return body["policy"]
