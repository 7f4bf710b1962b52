"""Where everything of a campaign lies (A23 to A36). The benchmark part is `bench.run_layout.Layout`."""

from __future__ import annotations

import datetime
import os
import re
from dataclasses import dataclass
from pathlib import Path

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.bench.run_layout import Layout

LEDGER = "humanize/ledger.jsonl"
_FOLDERS = (
    "help",
    "benchmark/fairness",
    "profiles",
    "analysis",
    "history",
    "kernel/ncu-digests",
    "patches",
    "humanize/profile-digests",
    "reviews",
)


def slug(text: str) -> str:
    """Lower case, `[a-z0-9_]`, at most 60 characters (A23).

    Raises:
        UsageFault: nothing is left.
    """
    made = re.sub(r"[^a-z0-9]+", "_", text.strip().rstrip("/").rsplit("/", 1)[-1].lower()).strip("_")[:60].strip("_")
    if not made:
        raise UsageFault(f"no folder name can be made of the model {text!r}", next_step="name the model")
    return made


def run_name(model: str, day: datetime.date | None = None) -> str:
    """`YYYYMMDD_<model slug>_sota_humanize` (A23)."""
    return f"{(day or datetime.date.today()):%Y%m%d}_{slug(model)}_sota_humanize"


@dataclass(frozen=True)
class RunLayout:
    """Files and folders of one run."""

    run: Path

    @property
    def bench(self) -> Layout:
        """Files of the benchmark."""
        return Layout(self.run)

    @property
    def ledger(self) -> Path:
        """The one truth: every record of the campaign, hash-chained."""
        return self.run / LEDGER

    @property
    def manifest(self) -> Path:
        """`manifest.md` (A24), a view."""
        return self.run / "manifest.md"

    @property
    def fairness_locked(self) -> Path:
        """The fairness report of the baseline (A27)."""
        return self.run / "benchmark" / "fairness" / "diagnostics.md"

    @property
    def fairness_current(self) -> Path:
        """The fairness report of this round (A31)."""
        return self.run / "analysis" / "fairness-diagnostics.md"

    @property
    def root_cause(self) -> Path:
        """`analysis/root-cause.md` (A29)."""
        return self.run / "analysis" / "root-cause.md"

    @property
    def layer_pipeline(self) -> Path:
        """`analysis/layer-pipeline.md` (A30)."""
        return self.run / "analysis" / "layer-pipeline.md"

    @property
    def history_notes(self) -> Path:
        """`history/model-pr-history-notes.md` (A32), a view."""
        return self.run / "history" / "model-pr-history-notes.md"

    @property
    def digests(self) -> Path:
        """Folder of Nsight Compute digests (A33)."""
        return self.run / "kernel" / "ncu-digests"

    @property
    def kernel_tasks(self) -> Path:
        """Folder of kernel tasks."""
        return self.run / "kernel" / "tasks"

    @property
    def patches(self) -> Path:
        """Folder of patches (A34)."""
        return self.run / "patches"

    @property
    def profiles(self) -> Path:
        """Folder of traces and triage reports (A28)."""
        return self.run / "profiles"

    @property
    def profile_digests(self) -> Path:
        """Folder of one short page a profile (A146)."""
        return self.run / "humanize" / "profile-digests"

    @property
    def checkpoint(self) -> Path:
        """`humanize/model-loop-checkpoint.md` (A35, A140), a view."""
        return self.run / "humanize" / "model-loop-checkpoint.md"

    @property
    def lineage(self) -> Path:
        """A145, a view for machines."""
        return self.run / "humanize" / "lineage.jsonl"

    @property
    def prompt(self) -> Path:
        """The prompt of the goal or loop that keeps the campaign."""
        return self.run / "humanize" / "prompt.md"

    @property
    def reviews(self) -> Path:
        """Nine-point reviews (C64)."""
        return self.run / "reviews"

    @property
    def final_report(self) -> Path:
        """`final_report.md` (A36)."""
        return self.run / "final_report.md"

    def gap(self, number: int) -> Path:
        """Report of the n-th gap decision."""
        return self.run / "benchmark" / f"gap-{number:03d}.json"

    def create(self) -> None:
        """Make the tree; again is harmless."""
        for folder in _FOLDERS:
            (self.run / folder).mkdir(parents=True, exist_ok=True)

    def relative(self, path: Path) -> str:
        """A path as the reports name it: from the run directory where it lies inside."""
        try:
            return path.resolve().relative_to(self.run.resolve()).as_posix()
        except ValueError:
            return str(path)


FILES: dict[str, tuple[str, ...]] = {
    "init": ("manifest.md", LEDGER),
    "history": ("history/model-pr-history-notes.md",),
    "contract_locked": ("benchmark/contract.json",),
    "baseline_locked": (
        "benchmark/candidates.jsonl",
        "benchmark/summary.md",
        "benchmark/winning-commands.md",
        "benchmark/fairness/diagnostics.md",
        "benchmark/baseline.json",
    ),
    "loop": ("humanize/model-loop-checkpoint.md", "humanize/attempt-ledger.md", "humanize/source-idea-ledger.md"),
    "final": ("final_report.md", "humanize/optimization-ledger.md", "humanize/lineage.jsonl"),
}
"""State -> the files that must stand from that state on (A24 to A36, A71 to A75)."""


def find_run(given: str | os.PathLike[str] | None = None) -> Path:
    """The run directory that is meant: the one given, `INFER_FORGE_RUN`, this folder, or the only one under `runs/`.

    Raises:
        InputUnusable: none, or several.
    """
    named = given or os.environ.get("INFER_FORGE_RUN")
    if named:
        place = Path(named).absolute()
        if not (place / LEDGER).is_file():
            raise InputUnusable(
                "is no run directory of a campaign",
                where=str(place),
                next_step="infer-forge campaign init --model M --target-checkout DIR --root DIR",
            )
        return place
    here = Path.cwd()
    for place in (here, *here.parents):
        if (place / LEDGER).is_file():
            return place
    found = sorted(p.parent.parent for base in (here, here / "runs") for p in base.glob(f"*/{LEDGER}"))
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} campaigns lie here" if found else "no campaign lies here"
    raise InputUnusable(
        what, where=str(here), next_step="name its run directory: --run DIR, or export INFER_FORGE_RUN=DIR"
    )
