"""The command line under careless hands: numbers out of range, closed and full outputs, places that cannot be written, Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

KERNEL = '{"ph":"X","cat":"kernel","name":"gemm","ts":1,"dur":2,"pid":0,"tid":7,"args":{"device":0,"stream":7}}'


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.json"
    file.write_text(f'{{"schemaVersion":1,"traceEvents":[{KERNEL}]}}')
    return file


def run(home: Path, *words: str | Path, stdout: int | None = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own; its places lie under `home`."""
    return subprocess.run(
        [sys.executable, "-m", "infer_forge.cli.main", *map(str, words)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        env={**os.environ, "INFER_FORGE_HOME": str(home / "home")},
    )


@pytest.mark.parametrize(
    "words", [("--min-share", "nan"), ("--cursor", "²"), ("--cursor", "9" * 23), ("--cursor", "-5")]
)
def test_a_number_that_is_none_is_wrong_usage(words: tuple[str, ...], trace: Path, tmp_path: Path) -> None:
    done = run(tmp_path, "triage", trace, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "internal error" not in done.stderr


def test_a_cursor_behind_the_end_is_an_empty_page(trace: Path, tmp_path: Path) -> None:
    import json

    done = run(tmp_path, "triage", trace, "--cursor", "500", "--format", "json")
    answer = json.loads(done.stdout)
    assert answer["tables"]["kernel"]["rows"] == []
    assert answer["header"]["omitted_rows"]["kernel"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("capture", "--framework", "sglang", "--url", "http://127.0.0.1:1", "--out", "d", "--window-s", "nan"),
        ("capture", "--framework", "sglang", "--url", "http://127.0.0.1:1", "--out", "d", "--export-s", "-1"),
        ("engine", "command", "--framework", "sglang", "--model", "m", "--input-len", "-5"),
        ("engine", "command", "--framework", "sglang", "--model", "m", "--request-rate", "nan"),
        ("engine", "command", "--framework", "sglang", "--model", "m", "--concurrency", "0"),
        ("bench", "workload", "--out-dir", "d", "--input-len", "0", "--output-len", "10"),
        ("bench", "workload", "--out-dir", "d", "--num-prompts", "-1"),
        ("ncu", "plan", "--launch-count", "0"),
        ("ncu", "plan", "--kernel", "gemm("),
    ],
)
def test_lengths_counts_and_seconds_have_ranges(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr


def test_a_trace_without_ranks_says_that_it_names_none(trace: Path, tmp_path: Path) -> None:
    for command in (("triage",), ("pipeline", "--no-triage")):
        done = run(tmp_path, *command, trace, "--rank", "3")
        assert done.returncode == 2
        assert "the trace names no rank: leave --rank out" in done.stderr


def test_a_closed_output_ends_without_a_word(trace: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m infer_forge.cli.main triage {trace} >&-"],
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        env={**os.environ, "INFER_FORGE_HOME": str(tmp_path / "home")},
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("buffered", [True, False])
def test_a_full_output_names_the_cause(
    buffered: bool, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if buffered else "1")
    with open("/dev/full", "w") as full:
        done = run(tmp_path, "triage", trace, stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr.startswith("infer-forge: output: No space left on device\nnext: make room")


def test_a_place_that_cannot_be_written_is_named_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    done = run(tmp_path, "bench", "workload", "--out-dir", tmp_path / "file" / "w")
    assert done.returncode in (1, 2)
    assert str(tmp_path / "file") in done.stderr
    assert "Not a directory" in done.stderr
    assert "internal error" not in done.stderr


def test_ctrl_c_while_modules_are_imported_is_one_line(tmp_path: Path) -> None:
    script = "import infer_forge.cli, os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile True: pass\n"
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode in (-signal.SIGINT, 130)
    assert done.stderr.strip() == "infer-forge: stopped"


def test_an_input_that_may_not_be_read_is_unusable_not_wrong_usage(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infer_forge.cli.main import main

    def refuse(path: object, mode: int) -> bool:
        return False

    monkeypatch.setattr(os, "access", refuse)
    with pytest.raises(SystemExit) as ended:
        main(["triage", str(trace)])
    assert ended.value.code == 3


def test_a_file_in_a_folder_that_may_not_be_entered_is_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    from infer_forge.base.errors import InputUnusable
    from infer_forge.cli.common import existing

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(InputUnusable, match="Permission denied"):
        existing("a/b")


@pytest.mark.parametrize("command", ["triage", "pipeline", "bench import", "engine fingerprint", "kernel-task audit"])
def test_an_empty_path_is_not_the_folder_where_one_stands(command: str, tmp_path: Path) -> None:
    done = run(tmp_path, *command.split(), "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "an empty path names nothing" in done.stderr


def test_an_error_repeats_no_password(tmp_path: Path) -> None:
    url = "http://user:correct-horse-battery@127.0.0.1:1"
    done = run(tmp_path, "capture", "--framework", "sglang", "--url", url, "--out", tmp_path / "c")
    assert done.returncode == 3
    assert "correct-horse" not in done.stderr
    assert "the server does not answer" in done.stderr


def on_terminal(columns: int, home: Path, *words: str | Path) -> list[str]:
    """Lines that the command prints on a terminal of so many columns."""
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "infer_forge.cli.main", *map(str, words)],
        stdout=terminal,
        env={**environment, "INFER_FORGE_HOME": str(home)},
    )
    os.close(terminal)
    told = b""
    with contextlib.suppress(OSError):  # the terminal is gone once the process has ended
        while piece := os.read(main, 65536):
            told += piece
    os.close(main)
    assert process.wait(timeout=120) == 0
    return told.decode().replace("\r\n", "\n").splitlines()


def test_tables_fit_the_terminal_and_are_whole_through_a_pipe(trace: Path, tmp_path: Path) -> None:
    trace.write_text(trace.read_text().replace("gemm", "gemm_" + "x" * 90))
    table = slice(1, 4)  # header, rule, row

    def kernels(lines: list[str]) -> list[str]:
        return lines[next(i for i, line in enumerate(lines) if line.startswith("== Kernel")) :][table]

    shown = kernels(on_terminal(80, tmp_path / "home", "triage", trace))
    piped = kernels(run(tmp_path, "triage", trace).stdout.splitlines())
    assert max(map(len, shown)) <= 80 < max(map(len, piped))
    assert "…" in shown[2]
    assert "gemm_" + "x" * 90 in piped[2]
