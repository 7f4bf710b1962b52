"""The hook as a process, as the clients start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_bytecode = tempfile.TemporaryDirectory(prefix="guard-bytecode-")  # an installed hook has its bytecode
HOOK = Path(sys.executable).parent / "infer-forge-guard"


def speak(
    data: bytes | dict[str, Any], *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Send one input to the hook."""
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    surroundings = {**os.environ, "PYTHONPYCACHEPREFIX": _bytecode.name, **(env or {})}
    surroundings.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        [str(HOOK), *words], input=text, capture_output=True, timeout=30, check=False, env=surroundings
    )
