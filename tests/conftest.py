"""Fixtures that every room shares."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is the machine's business: it may be busy with other things.
settings.register_profile("infer-forge", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("infer-forge")
ROOT = Path(__file__).resolve().parent.parent
STRESS_VARIABLE = "INFER_FORGE_STRESS"


@pytest.fixture(autouse=True)
def forge_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has an INFER_FORGE_HOME of its own, so that none sees another's state or the user's."""
    home = tmp_path_factory.mktemp("forge-home")
    monkeypatch.setenv("INFER_FORGE_HOME", str(home))
    for name in list(os.environ):
        if name.startswith("INFER_FORGE_") and name not in ("INFER_FORGE_HOME", STRESS_VARIABLE, "INFER_FORGE_CORPUS"):
            monkeypatch.delenv(name)
    return home


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Real files of other people: `../shared/corpus` beside the checkout, or `INFER_FORGE_CORPUS`. Skips where absent."""
    place = Path(os.environ.get("INFER_FORGE_CORPUS") or ROOT.parent / "shared" / "corpus")
    if not place.is_dir():
        pytest.skip(f"no corpus of real files at {place}; set INFER_FORGE_CORPUS to its folder")
    return place


_stress_ran: dict[str, tuple[int, int]] = {}


@pytest.fixture
def stress_count(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """How many rounds a stress test runs: `full` with INFER_FORGE_STRESS=1, else a 5 % slice (at least one)."""

    def count(full: int) -> int:
        rounds = full if os.environ.get(STRESS_VARIABLE) == "1" else max(1, full // 20)
        _stress_ran[request.node.nodeid] = (rounds, full)
        request.node.user_properties.append(("stress", f"{rounds}/{full}"))
        return rounds

    return count


@pytest.fixture
def seeded() -> random.Random:
    """A random generator with a fixed seed (INFER_FORGE_SEED overrides it)."""
    return random.Random(int(os.environ.get("INFER_FORGE_SEED", "20261129")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line that says how many stress rounds ran, out of how many."""
    done = whole = 0
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for key, value in getattr(report, "user_properties", ()):
            if key == "stress" and getattr(report, "when", "") == "call":
                ran, full = str(value).split("/")
                done, whole = done + int(ran), whole + int(full)
    if whole:
        terminalreporter.write_line(f"stress rounds: {done} of {whole} ran")
