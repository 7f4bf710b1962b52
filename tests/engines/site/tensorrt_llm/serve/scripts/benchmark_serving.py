"""`python -m tensorrt_llm.serve.scripts.benchmark_serving`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[6]))
from tests.engines.fakes.bench import main

if __name__ == "__main__":
    sys.exit(main("tensorrt_llm", sys.argv[1:]))
