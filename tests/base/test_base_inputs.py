"""What is named as an input is a file that ends: pipes and devices are refused, and nobody waits for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import finite


def test_a_pipe_and_a_device_are_refused_as_what_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(InputUnusable, match="is a named pipe, not a file"):
        finite(pipe)
    with pytest.raises(InputUnusable, match="is a device, not a file"):
        finite("/dev/zero")


def test_files_links_folders_and_missing_names_pass(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "round").symlink_to("round")
    for name in ("a", "link", ".", "missing", "round"):
        assert finite(tmp_path / name) == tmp_path / name


@pytest.mark.parametrize(
    "words",
    [
        ("triage", "PIPE"),
        ("triage", "/dev/zero"),
        ("triage", "TRACE", "--server-log", "PIPE"),
        ("triage", "TRACE", "--server-args", "/dev/zero"),
        ("pipeline", "PIPE"),
        ("pipeline", "TRACE", "--no-triage", "--config", "PIPE"),
        ("ncu", "digest", "PIPE"),
        ("ncu", "check-log", "PIPE"),
        ("bench", "import", "PIPE"),
        ("bench", "import", "/dev/zero"),
        ("bench", "check", "PIPE"),
    ],
)
def test_no_command_waits_for_a_pipe_or_a_device(words: tuple[str, ...], tmp_path: Path) -> None:
    pipe, trace = tmp_path / "pipe.json", tmp_path / "trace.json"
    os.mkfifo(pipe)
    kernel = '{"ph":"X","cat":"kernel","name":"gemm","ts":1,"dur":2,"pid":0,"tid":7,"args":{"device":0,"stream":7}}'
    trace.write_text(f'{{"schemaVersion":1,"traceEvents":[{kernel}]}}')
    given = [{"PIPE": str(pipe), "TRACE": str(trace)}.get(w, w) for w in words]
    done = subprocess.run(
        [sys.executable, "-m", "infer_forge.cli.main", *given],
        capture_output=True,
        text=True,
        timeout=20,
        env={**os.environ, "INFER_FORGE_HOME": str(tmp_path / "home")},
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "not a file" in done.stderr
    assert "Traceback" not in done.stderr
