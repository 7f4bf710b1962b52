"""The full-log scan: review findings in the reviewer's cached logs that the Stop hook, which reads only their end, missed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infer_forge.campaign.rlcr.model import rules_data

_LOG = re.compile(r"^round-(\d{1,6})-codex-review\.log$")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class LogFinding:
    """A line of a review log with a severity marker; `hook_sees` says whether the hook's own scan finds it."""

    round: int
    line: int
    text: str
    hook_sees: bool


def cache_folder(checkout: Path, loop: str, environ: Mapping[str, str], home: Path) -> Path | None:
    """Where the hook keeps the reviewer's output of a loop; None when it kept none."""
    base = Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "humanize"
    exact = [re.sub(r"[^A-Za-z0-9._-]", "-", str(p)) for p in (checkout, checkout.resolve())]
    for name in dict.fromkeys((*exact, *(re.sub(r"-+", "-", n) for n in exact))):
        if (base / name / loop).is_dir():
            return base / name / loop
    return None


def logs_in(folder: Path) -> dict[int, Path]:
    """Review logs by round."""
    found = {int(m[1]): p for p in folder.iterdir() if (m := _LOG.match(p.name))}
    return dict(sorted(found.items()))


def scan(path: Path, number: int) -> list[LogFinding]:
    """Every line with a marker such as [P1], in the whole log; read line by line, whatever its size."""
    data = rules_data()
    marker, found, count = re.compile(data["review_marker"]), list[tuple[int, str]](), 0
    with path.open("r", encoding="utf-8", errors="replace") as file:
        for count, line in enumerate(file, 1):
            plain = _ANSI.sub("", line.rstrip("\n"))
            if marker.search(plain):
                found.append((count, plain))
    first = count - int(data["hook_log_lines"])
    columns = int(data["hook_log_columns"])
    return [
        LogFinding(number, n, text.strip()[:200], n > first and bool(marker.search(text[: columns + 3])))
        for n, text in found
    ]


def missed(findings: list[LogFinding], result: str | None) -> list[LogFinding]:
    """Findings that are in no review result: the hook saw none of them, so the loop went on as if the review were clean."""
    if result is None:
        return findings
    plain = " ".join(result.split())
    return [f for f in findings if " ".join(f.text.split()) not in plain]
