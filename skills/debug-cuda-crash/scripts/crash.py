#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["infer-forge"]
# ///
"""The same as `infer-forge crash ...`: runs the installed package, or the command on PATH."""

import os
import shutil
import sys

WORDS = ["crash", *sys.argv[1:]]

try:
    from infer_forge.cli.main import main
except ImportError:
    command = shutil.which("infer-forge")
    if command is None:
        sys.stderr.write(
            "infer-forge is not installed here\nnext: pip install infer-forge, or run this file with uv run\n"
        )
        sys.exit(5)
    os.execv(command, [command, *WORDS])

main(WORDS)
