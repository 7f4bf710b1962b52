"""`python -m sglang.bench_serving`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4]))
from tests.engines.fakes.bench import main

if __name__ == "__main__":
    sys.exit(main("sglang", sys.argv[1:]))
