#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["infer-forge"]
# ///
"""The same as `infer-forge NAME ...`, where NAME is this file's: by the installed package, or the command on PATH."""

import os
import sys

words = [os.path.basename(__file__)[: -len(".py")], *sys.argv[1:]]
try:
    from infer_forge.cli.main import main
except (ImportError, SyntaxError) as exc:
    missing = exc
else:
    main(words)
try:
    os.execvp("infer-forge", ["infer-forge", *words])
except OSError:
    sys.stderr.write(
        f"infer-forge is not installed for {sys.executable or 'this Python'}, nor on PATH ({missing})\n"
        "next: pip install infer-forge (Python 3.10 or later), or run this file with uv run\n"
    )
    sys.exit(5)
