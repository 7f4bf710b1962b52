"""A triage of a kernel summary (`cuda_gpu_kern_sum` CSV): the kernel table, and nothing that the file cannot tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infer_forge.base.kernels import classify, simplify
from infer_forge.base.records import Finding, Header, InputFile, Report
from infer_forge.base.tables import Table
from infer_forge.profile.kernels import COLUMNS
from infer_forge.profile.model import Options
from infer_forge.profile.scene import pct, us
from infer_forge.trace.kernel_sum import read_kernel_sum


def summary_report(path: Path, options: Options) -> Report:
    """The kernel table of a summary.

    Raises:
        InputUnusable: the file is damaged.
    """
    kernels: dict[tuple[str, str], list[int]] = {}
    for row in read_kernel_sum(path):
        entry = kernels.setdefault((simplify(row.name), classify(row.name)), [0, 0])
        entry[0] += row.time_ns
        entry[1] += row.launches
    whole = sum(t for t, _ in kernels.values())
    rows: list[list[Any]] = []
    hidden = {"rows": 0, "time_us": 0.0, "launches": 0, "share_pct": 0.0}
    for (name, category), (time, launches) in sorted(kernels.items(), key=lambda x: -x[1][0]):
        share = pct(time, whole) or 0.0
        if share < options.min_share:
            hidden["rows"] += 1
            hidden["time_us"] += us(time)
            hidden["launches"] += launches
            hidden["share_pct"] += share
            continue
        rows.append(
            [
                None,
                None,
                "all",
                name,
                category,
                us(time),
                share,
                launches,
                us(time / launches) if launches else None,
                None,
                None,
                None,
            ]
        )
    report = Report(
        "triage",
        Header(
            [InputFile.of(path)], {"source": "nsys kernel summary"}, thresholds={"min_share_pct": options.min_share}
        ),
    )
    report.add(Table("kernel", COLUMNS, rows, "Kernel: where device time goes"))
    report.header.hidden = {"kernel": hidden}
    report.findings.append(
        Finding(
            "KERNEL_SUM_ONLY",
            "a kernel summary holds sums alone: stages, overlap, idle time, layers and sources cannot be seen",
            "info",
            next_step="give the SQLite export of the same recording: nsys export --type sqlite",
        )
    )
    report.summary = [f"{len(kernels)} kernels, {whole / 1e6:,.3f} ms device time (nsys kernel summary)"]
    report.next_step = "nsys export --type sqlite FILE.nsys-rep, then infer-forge triage on it, for stages and layers"
    return report
