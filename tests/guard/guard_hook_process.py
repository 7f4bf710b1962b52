"""The hook as a process, as the clients start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HOOK = Path(sys.executable).parent / "infer-forge-guard"


def speak(
    data: bytes | dict[str, Any], *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Send one input to the hook."""
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    surroundings = {**os.environ, **(env or {})}
    return subprocess.run(
        [str(HOOK), *words], input=text, capture_output=True, timeout=30, check=False, env=surroundings
    )
