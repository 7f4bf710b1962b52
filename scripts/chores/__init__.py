"""The project's own chores, one module each; `scripts/bootstrap.py` runs them in the environment."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
