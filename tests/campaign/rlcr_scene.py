"""A checkout, a runtime and a reviewer's program as the doctor meets them, and loop folders of our own making."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

STAMP = "2026-02-03_04-05-06"
FLAGS = "--full-auto --disable --model --config --cd --base"

PLAN = """# Plan

## Goal
Serve faster than the rival.

## Acceptance Criteria
- AC-1: the workload stays.
- AC-2: the verdict is tie or ahead.

## Notes
Only python/ may change.
"""


def git(place: Path, *words: str) -> str:
    """Plain git with a fixed identity."""
    fixed = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}
    env = {**os.environ, **fixed, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", str(place), *words], check=True, capture_output=True, text=True, env=env
    ).stdout.strip()


def program(place: Path, text: str) -> None:
    """An executable shell script."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("#!/bin/sh\n" + text)
    place.chmod(place.stat().st_mode | stat.S_IXUSR)


def codex(folder: Path, *, flags: str = FLAGS, features: str = "codex_hooks stable true", login: int = 0) -> None:
    """A reviewer's program that tells about itself and does nothing."""
    program(
        folder / "codex",
        f'case "$1" in\n exec|review) echo "options: {flags}";;\n features) echo "{features}";;\n'
        f' login) echo "Logged in"; exit {login};;\n *) exit 9;;\nesac\n',
    )


@dataclass
class Scene:
    """One made-up machine: folder of programs, home with the runtime, checkout on a branch of its own."""

    place: Path
    branch: str = "opt/demo"
    environ: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def repo(self) -> Path:
        """The checkout."""
        return self.place / "repo"

    @property
    def home(self) -> Path:
        """The user's folder."""
        return self.place / "home"

    @property
    def bin(self) -> Path:
        """PATH."""
        return self.place / "bin"

    @property
    def loop(self) -> Path:
        """The loop folder."""
        return self.repo / ".humanize" / "rlcr" / STAMP

    def build(self) -> Scene:
        """Make it all."""
        for name in ("git", "python3", "bash", "sh"):
            found = shutil.which(name)
            assert found
            self.bin.mkdir(parents=True, exist_ok=True)
            (self.bin / name).symlink_to(found)
        for name in ("jq", "perl", "timeout"):
            program(self.bin / name, "exit 0\n")
        codex(self.bin)
        runtime = self.home / ".claude" / "skills" / "humanize"
        program(runtime / "scripts" / "setup-rlcr-loop.sh", "exit 0\n")
        program(
            runtime / "hooks" / "loop-codex-stop-hook.sh",
            'CODEX_EXEC_ARGS+=("--full-auto" "--disable" x)\ncodex review --base "$b"\n',
        )
        (runtime / ".claude-plugin").mkdir()
        (runtime / ".claude-plugin" / "plugin.json").write_text('{"name": "humanize", "version": "1.16.0"}')
        (self.home / ".claude" / "settings.json").write_text('{"enabledPlugins": {"humanize@x": true}}')
        self.environ = {"PATH": str(self.bin), "HOME": str(self.home)}
        (self.repo / "python").mkdir(parents=True)
        (self.repo / "python" / "mod.py").write_text("x = 1\n")
        (self.repo / ".gitignore").write_text(".humanize*\n")
        git(self.repo, "init", "-q", "-b", "main")
        git(self.repo, "add", ".")
        git(self.repo, "commit", "-qm", "first")
        git(self.repo, "switch", "-qc", self.branch)
        return self

    def copy(self, place: Path) -> Scene:
        """The same machine somewhere else."""
        shutil.copytree(self.place, place, symlinks=True)
        return Scene(place, self.branch, {"PATH": str(place / "bin"), "HOME": str(place / "home")})

    def commit(self, text: str = "x = 2\n") -> str:
        """A change of the branch."""
        (self.repo / "python" / "mod.py").write_text(text)
        git(self.repo, "commit", "-qam", "change")
        return git(self.repo, "rev-parse", "HEAD")

    def plan(self, text: str = PLAN, name: str = ".humanize/p.md") -> Path:
        """A plan file."""
        place = self.repo / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def state(self, **changes: object) -> dict[str, str]:
        """Fields of a state file, as the set-up writes them."""
        base = git(self.repo, "rev-parse", "main")
        fields = {
            "current_round": "0", "max_iterations": "8", "codex_model": "gpt-5.5", "codex_effort": "high", "codex_timeout": "5400",
            "push_every_round": "false", "full_review_round": "5", "plan_file": ".humanize/p.md", "plan_tracked": "false",
            "start_branch": self.branch, "base_branch": "main", "base_commit": base, "review_started": "false",
            "ask_codex_question": "false", "session_id": "", "agent_teams": "false", "privacy_mode": "true", "bitlesson_required": "true",
            "bitlesson_file": ".humanize/bitlesson.md", "bitlesson_allow_empty_none": "true", "mainline_stall_count": "0",
            "last_mainline_verdict": "unknown", "drift_status": "normal", "started_at": "2026-02-03T04:05:06Z",
        }  # fmt: skip
        return {**fields, **{k: str(v) for k, v in changes.items()}}

    def write_state(self, file: str = "state.md", /, **changes: object) -> None:
        """The state file, under a name."""
        self.loop.mkdir(parents=True, exist_ok=True)
        for old in self.loop.glob("*state.md"):
            old.unlink()
        lines = [f"{k}: {v}".rstrip() for k, v in self.state(**changes).items()]
        (self.loop / file).write_text("\n".join(["---", *lines, "---", ""]))

    def start(self, **changes: object) -> None:
        """A loop as it stands right after its start."""
        plan = self.plan()
        self.write_state(**changes)
        (self.loop / "plan.md").write_text(plan.read_text())
        (self.loop / "round-0-prompt.md").write_text("## Round Contract Setup (first)\n")
        (self.loop / "round-0-summary.md").write_text(
            "# Round 0\n\n## Done\n\n[Say what was done]\n\nNotes: [what and why]\n"
        )
        self.tracker("[To be written]")

    def tracker(self, task: str = "close the gap", goal: str = "Serve faster.") -> None:
        """The goal tracker, with the stray plan headings that the set-up copies into it."""
        (self.loop / "goal-tracker.md").write_text(
            f"# Tracker\n\n## IMMUTABLE SECTION\n<!-- keep -->\n\n### Ultimate Goal\n{goal}\n\n## Acceptance Criteria\n\n"
            "### Acceptance Criteria\n<!-- c -->\n\n- AC-1: a\n- AC-2: b\n\n## Path Boundaries\n\n---\n\n## MUTABLE SECTION\n\n"
            f"#### Active Tasks\n| Task |\n|---|\n| {task} |\n"
        )

    def round(
        self, number: int, verdict: str = "ADVANCED", last: str = "- more", *, review: bool = True, **changes: object
    ) -> None:
        """Round `number` worked on, committed, and reviewed unless `review` is off; the state stands at the next round then."""
        self.commit(f"x = {number + 10}\n")
        self.tracker()
        (self.loop / f"round-{number}-prompt.md").write_text("## Round Contract Setup\n")
        (self.loop / f"round-{number}-contract.md").write_text(
            "- Mainline Objective: close the gap\n- Target ACs: AC-2\n- Success Criteria: tie\n"
        )
        (self.loop / f"round-{number}-summary.md").write_text("# Summary\n\n## Done\n- a patch\n")
        if review:
            self.review(number, f"# Review\n\nMainline Progress Verdict: {verdict}\n\n{last}\n")
            (self.loop / f"round-{number + 1}-prompt.md").write_text("go on\n")
        self.write_state(
            **{
                "current_round": number + review,
                "last_mainline_verdict": verdict.lower() if review else "unknown",
                **changes,
            }
        )

    def review(self, number: int, text: str, *, stale: bool = False) -> None:
        """A review's prompt and result."""
        prompt, result = self.loop / f"round-{number}-review-prompt.md", self.loop / f"round-{number}-review-result.md"
        prompt.write_text("review\n")
        result.write_text(text)
        os.utime(prompt, (1000, 1000))
        os.utime(result, (900, 900) if stale else (1001, 1001))

    def log(self, number: int, text: str) -> Path:
        """A cached log of a code review."""
        name = "".join(c if c.isalnum() or c in "._-" else "-" for c in str(self.repo))
        place = self.home / ".cache" / "humanize" / name / STAMP / f"round-{number}-codex-review.log"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place
