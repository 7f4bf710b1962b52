"""`python -m sglang.launch_server`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))
from tests.engines.fakes.cli import run_server

if __name__ == "__main__":
    sys.exit(run_server("sglang", sys.argv[1:]))
