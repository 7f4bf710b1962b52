"""What is named as an input is a file that ends: pipes and devices are refused, and nobody waits for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infer_forge.base import inputs
from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import files_in, finite
from infer_forge.cli.main import main


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


def test_files_of_a_folder_come_in_order_without_hidden_ones_and_links_to_folders(tmp_path: Path) -> None:
    for name in ("b/2.JSON", "a/1.json", "c.txt", ".git/3.json", "a/.4.json"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("{}")
    (tmp_path / "round").symlink_to(tmp_path, target_is_directory=True)
    assert files_in(tmp_path, endings=(".json",)) == [tmp_path / "a" / "1.json", tmp_path / "b" / "2.JSON"]


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """Eight folders with a JSON file each."""
    for number in range(8):
        (tmp_path / "deep" / f"{number}").mkdir(parents=True)
        (tmp_path / "deep" / f"{number}" / "trace.json").write_text("{}")
    return tmp_path / "deep"


def test_a_folder_that_is_too_large_says_how_much_of_it_was_looked_at(
    deep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MOST_ENTRIES", 16)
    assert len(files_in(deep, endings=(".json",))) == 8
    monkeypatch.setattr(inputs, "MOST_ENTRIES", 9)
    with pytest.raises(InputUnusable, match=r"10 files and folders were looked at, 1 of them end as wanted"):
        files_in(deep, endings=(".json",))


@pytest.mark.parametrize("command", ["triage", "pipeline", "bench import"])
def test_no_command_walks_a_whole_system(
    command: str, deep: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inputs, "MOST_ENTRIES", 9)
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), str(deep)])
    assert ended.value.code == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{deep}: is too large a folder to search: 10 files and folders were looked at" in told.err
    assert "next: name the folder inside it" in told.err
