"""`.ncu-rep` and `.ncu-repz`: the container by our own reader, the metrics by NVIDIA's `ncu_report` in a subprocess."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infer_forge.base.errors import InputUnusable, MissingPart
from infer_forge.ncu import dictionary
from infer_forge.ncu.container import MAGIC, ZSTD, Container, Entry, read_container
from infer_forge.ncu.model import HotSpot, Launch, NcuReport, RuleResult
from infer_forge.ncu.names import identity
from infer_forge.ncu.read import choose_launches, no_kernel, no_launch, ordinals, to_values

MEMORY_BYTES = 1 << 30
TIMEOUT_S = 120
_MAX_UNPACKED = 8 << 30
_CSV_WAY = "pip install 'infer-forge[ncu]', or export on the machine that has ncu: ncu --import FILE --csv --page raw > FILE.csv"


def load_binary(
    file: Path, head: bytes, pattern: re.Pattern[str] | None, launch: int | None, *, hot: int, cap: int
) -> NcuReport:
    """Read the chosen launches of a binary report; see `read.load` for arguments and errors."""
    with _unpacked(file, head) as plain:
        try:
            box = read_container(plain)
        except InputUnusable as exc:
            raise InputUnusable(exc.what, where=str(file), next_step=exc.next_step) from None
        report = NcuReport(str(file), "ncu-rep", session=box.session, in_file=len(box.results))
        report.names = dict(Counter(e.kernel for e in box.results))
        _refuse_empty(box, file)
        if box.other_results and (mixed := _mixed(box, plain, report, pattern, launch, hot=hot, cap=cap)):
            return mixed
        chosen = _choose(box, pattern, launch, str(file))
        indices = _within(chosen, cap, report)
        with _readable(box, plain, report, kernels_only=bool(box.other_results)) as readable:
            answer = ask(readable, indices, hot=hot, where=str(file))
    names = [identity(e.kernel, e.demangled) for e in box.results]
    _take(answer, report, {e.index: e for e in chosen}, ordinals(names))
    return report


def _mixed(
    box: Container,
    plain: Path,
    report: NcuReport,
    pattern: re.Pattern[str] | None,
    launch: int | None,
    *,
    hot: int,
    cap: int,
) -> NcuReport | None:
    """A report with range, graph or command-list results, in the library's order; None: only its kernels can be read."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in box.other_results.items())
    try:
        with _readable(box, plain, report) as readable:
            answer = ask(readable, None, hot=hot, where=report.path, most=cap)
    except InputUnusable as exc:
        nothing: dict[str, Any] = {"actions": [], "why": exc.what}
        answer = nothing
    if answer["actions"]:
        report.in_file = len(box.results) + sum(box.other_results.values())
        _take(answer, report, {}, [])
        report.launches = choose_launches(report, pattern, launch)
        return report
    if not box.results:
        raise InputUnusable(
            f"holds {kinds} results and no kernel result, and ncu_report cannot read them",
            where=report.path,
            next_step="collect with --replay-mode kernel and --graph-profiling node for single kernels",
        )
    report.lost.append(f"{kinds} results are counted, not read: {answer.get('why', 'ncu_report shows none')}")
    return None


def _refuse_empty(box: Container, file: Path) -> None:
    if box.results:
        return
    if box.cut:
        raise InputUnusable(
            f"is cut before its first whole result ({box.cut})",
            where=str(file),
            next_step="copy or collect the report again",
        )
    if box.other_results:
        return
    raise InputUnusable(
        "holds no result: no kernel was profiled",
        where=str(file),
        next_step="infer-forge ncu check-log LOG on the output of ncu",
    )


@contextmanager
def _unpacked(file: Path, head: bytes) -> Generator[Path]:
    """The file as a plain container: zstd content (`.ncu-repz`) is unpacked into a temporary file first."""
    if not head.startswith(ZSTD):
        yield file
        return
    try:
        zstandard: Any = importlib.import_module("zstandard")
    except ImportError:
        raise MissingPart(
            "the report is compressed and zstandard is not installed",
            where=str(file),
            next_step=f"pip install 'infer-forge[zst]', or: zstd -d {file} -o report.ncu-rep",
        ) from None
    with tempfile.TemporaryDirectory(prefix="infer-forge-ncu-") as folder:
        plain = Path(folder) / "report.ncu-rep"
        try:
            with open(file, "rb") as source, open(plain, "wb") as target:
                stream = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
                while chunk := stream.read(1 << 22):
                    if target.tell() == 0 and not chunk.startswith(MAGIC):
                        raise InputUnusable("is zstd data, but no Nsight Compute report", where=str(file))
                    target.write(chunk)
                    if target.tell() > _MAX_UNPACKED:
                        raise InputUnusable("unpacks to more than 8 GiB", where=str(file))
        except zstandard.ZstdError as exc:
            raise InputUnusable(f"is damaged zstd data ({exc})", where=str(file)) from None
        yield plain


@contextmanager
def _readable(box: Container, plain: Path, report: NcuReport, *, kernels_only: bool = False) -> Generator[Path]:
    """The file itself, or a copy of what of it can be read.

    `ncu_report` reads a cut file as empty, so its whole blocks are copied; `kernels_only` leaves the blocks of other
    results out.
    """
    if not box.cut and not kernels_only:
        yield plain
        return
    if box.cut:
        note = f"the file is cut: {box.cut}; {len(box.results)} whole results before it were read"
        report.lost += [note] if note not in report.lost else []
    with tempfile.TemporaryDirectory(prefix="infer-forge-ncu-") as folder:
        copy = Path(folder) / "whole.ncu-rep"
        skip = [*(box.other_spans if kernels_only else []), (box.whole_bytes, box.whole_bytes)]
        with open(plain, "rb") as source, open(copy, "wb") as target:
            for begin, end in skip:
                while (left := begin - source.tell()) > 0 and (chunk := source.read(min(left, 1 << 22))):
                    target.write(chunk)
                source.seek(end)
        yield copy


def _choose(box: Container, pattern: re.Pattern[str] | None, launch: int | None, where: str) -> list[Entry]:
    if launch is not None and not 0 <= launch < len(box.results):
        raise no_launch(launch, len(box.results), where)
    entries = [e for e in box.results if launch is None or e.index == launch]
    entries = [e for e in entries if pattern is None or pattern.search(e.kernel) or pattern.search(e.demangled)]
    if not entries:
        raise no_kernel(pattern, dict(Counter(e.kernel for e in box.results)), where)
    return entries


def _within(entries: list[Entry], cap: int, report: NcuReport) -> list[int]:
    """At most `cap` launches: kernels by their total time, round robin over their launches, so that each is seen."""
    if len(entries) <= cap:
        return [e.index for e in entries]
    by_kernel: dict[str, list[Entry]] = {}
    for entry in entries:
        by_kernel.setdefault(identity(entry.kernel, entry.demangled), []).append(entry)
    queues = sorted(by_kernel.values(), key=lambda q: -sum(e.duration_ns or 0 for e in q))
    taken: list[int] = []
    depth = 0
    while len(taken) < cap:
        layer = [q[depth].index for q in queues if depth < len(q)]
        if not layer:
            break
        taken += layer[: cap - len(taken)]
        depth += 1
    report.capped = (
        f"{len(taken)} of {len(entries)} launches were read (cap), the kernels with the most time first; "
        "choose with --kernel or --launch"
    )
    return sorted(taken)


def ask(
    path: Path, indices: list[int] | None, *, hot: int, where: str, memory_bytes: int = MEMORY_BYTES, most: int = 0
) -> dict[str, Any]:
    """One question to the subprocess that holds `ncu_report`: the results at `indices`, or the first `most` of any kind.

    Raises:
        MissingPart: the extra `ncu` is not installed.
        InputUnusable: the library failed on the file or took too long.
    """
    names, pattern = dictionary.wanted()
    request: dict[str, Any] = {
        "path": str(path.resolve()),
        "wanted": names,
        "pattern": pattern,
        "indices": indices,
        "max_actions": most if indices is None else len(indices),
        "memory_bytes": memory_bytes,
        "hot": hot,
        "sys_path": search_path(),
    }
    script = Path(__file__).with_name("worker.py")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(script)],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputUnusable(
            f"ncu_report did not answer within {TIMEOUT_S} s",
            where=where,
            next_step="choose fewer launches with --kernel or --launch",
        ) from None
    if "missing" in (answer := _parsed(done, where)):
        raise MissingPart(
            "reading metrics of a .ncu-rep needs NVIDIA's ncu-report (extra `ncu`), which is not installed",
            where=where,
            next_step=_CSV_WAY,
        )
    if "error" in answer:
        raise InputUnusable(f"ncu_report cannot read it ({answer['error']})", where=where, next_step=_CSV_WAY)
    return answer


def search_path() -> list[str]:
    """Where the subprocess looks for `ncu_report`: where this process would."""
    return [p for p in sys.path if p]


def _parsed(done: subprocess.CompletedProcess[bytes], where: str) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
        raise InputUnusable(
            f"ncu_report died on it (exit {done.returncode}) {last[0][:200]}".strip(),
            where=where,
            next_step="export it with ncu --import FILE --csv --page raw and digest the CSV",
        ) from None
    return answer


def _take(answer: dict[str, Any], report: NcuReport, entries: dict[int, Entry], places: list[int]) -> None:
    """The worker's answer into the report."""
    for item in answer["actions"]:
        entry = entries.get(item["index"])
        launch = Launch(
            index=item["index"],
            kernel=item["kernel"],
            demangled=item["demangled"] or item["kernel"],
            grid=entry.grid if entry else None,
            block=entry.block if entry else None,
            workload=item["workload"],
            ordinal=places[int(item["index"])] if int(item["index"]) < len(places) else 0,
            values=to_values(item["values"]),
            breakdown=item["breakdown"],
            rules=[RuleResult(**rule) for rule in item["rules"]],
            hot=[HotSpot(**spot) for spot in item["hot"]],
            sections=item["sections"],
        )
        if entry and entry.kernel and entry.kernel != launch.kernel:
            launch.lost.append(f"the container names this launch {entry.kernel}")
        report.launches.append(launch)
    for index, why in answer["failed"]:
        report.lost.append(f"launch {index} could not be read: {why}")
    report.capped = answer["capped"] or report.capped
    if not report.launches:
        raise InputUnusable(
            f"no launch could be read ({report.capped or '; '.join(report.lost) or 'ncu_report sees none'})",
            where=report.path,
            next_step=_CSV_WAY,
        )
