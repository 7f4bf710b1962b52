"""The skill's files: the harness compiles and says what it needs, the launcher runs the same command."""

from __future__ import annotations

import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ncu.ncu_maker import DURATION, Kernel, busy, wide_csv, write


@pytest.fixture(scope="module")
def harness(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed: the CUDA harness is not compiled")
    out = tmp_path_factory.mktemp("harness") / "harness"
    source = project_root / "skills" / "ncu-report" / "assets" / "kernel_harness.cu"
    words = [
        nvcc,
        "-O1",
        "-std=c++17",
        "-lineinfo",
        "-arch=sm_80",
        "-Werror",
        "all-warnings",
        "-o",
        str(out),
        str(source),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_the_cuda_harness_compiles_and_refuses_wrong_shapes(harness: Path) -> None:
    done = subprocess.run([str(harness), "--tokens", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_the_cuda_harness_never_reports_success_without_a_gpu(harness: Path) -> None:
    done = subprocess.run(
        [str(harness), "--tokens", "4", "--hidden", "64"], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        assert "correct yes" in done.stdout
    else:
        assert done.returncode == 3
        assert "cuda" in done.stderr


def test_the_python_harness_is_valid_python(project_root: Path, tmp_path: Path) -> None:
    source = project_root / "skills" / "ncu-report" / "assets" / "kernel_harness.py"
    py_compile.compile(str(source), cfile=str(tmp_path / "harness.pyc"), doraise=True)


def test_the_launcher_is_the_same_command(project_root: Path, tmp_path: Path) -> None:
    page = write(tmp_path / "a.csv", wide_csv([Kernel("k", busy())], {DURATION: "ns"}))
    script = project_root / "skills" / "ncu-report" / "scripts" / "ncu.py"
    done = subprocess.run(
        [sys.executable, str(script), "digest", str(page)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Next edit:") == 1
