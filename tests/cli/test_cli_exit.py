"""How a command ends: its process looks for garbage no more; a caller in the same process is left as it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import gc, sys
from infer_forge.cli.main import main
try:
    main({argv})
except SystemExit as ended:
    print(ended.code, gc.get_freeze_count() > 0)
"""


@pytest.mark.parametrize(
    ("argv", "words", "left_to_the_end"), [("None", ["--version"], True), ("['--version']", [], False)]
)
def test_a_process_that_ends_does_not_look_for_garbage_and_a_caller_still_does(
    argv: str, words: list[str], left_to_the_end: bool
) -> None:
    ran = subprocess.run([sys.executable, "-c", CODE.format(argv=argv), *words], capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1].split() == ["0", str(left_to_the_end)], ran.stderr
