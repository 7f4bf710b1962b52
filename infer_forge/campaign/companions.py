"""Where companion skills and the review loop's runtime lie (A4 to A10), and a record of what was read (A9)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infer_forge.base.errors import MissingPart
from infer_forge.base.person import client_of
from infer_forge.base.resources import data_path

SKILLS = {
    "serving benchmark": "llm-serving-auto-benchmark",
    "torch profiler": "llm-torch-profiler-analysis",
    "pipeline": "llm-pipeline-analysis",
    "ncu": "ncu-report",
    "PR history": "model-pr-history-knowledge",
}
"""What is needed -> name of the skill that gives it. `ncu` is read only in a kernel round (A10)."""

SETUP = "scripts/setup-rlcr-loop.sh"


@dataclass
class Found:
    """One thing that was looked for: where it is (None: nowhere) and every place that was tried."""

    name: str
    path: Path | None
    tried: list[str] = field(default_factory=list[str])

    def to_json(self) -> dict[str, Any]:
        """Name, path, places tried."""
        return {"name": self.name, "path": str(self.path) if self.path else None, "tried": self.tried}


def skill_roots(environ: Mapping[str, str] | None = None, home: Path | None = None) -> list[Path]:
    """Skill roots in order (A4): the running client's, the other's, the checkout's."""
    env = os.environ if environ is None else environ
    base = home or Path(env.get("HOME") or "~").expanduser()
    claude, codex = base / ".claude" / "skills", Path(env.get("CODEX_HOME") or base / ".codex") / "skills"
    first = [codex, claude] if client_of(env) == "codex" else [claude, codex]
    try:
        return [*first, data_path("skills")]
    except MissingPart:  # a wheel carries no skills
        return first


def find_skill(name: str, environ: Mapping[str, str] | None = None, home: Path | None = None) -> Found:
    """A skill's folder, symlinks followed (A5)."""
    found = Found(name, None)
    for root in skill_roots(environ, home):
        place = root / name
        found.tried.append(str(place))
        if (place / "SKILL.md").is_file():
            found.path = place.resolve()
            break
    return found


def find_runtime(environ: Mapping[str, str] | None = None, home: Path | None = None) -> Found:
    """The root that holds `scripts/setup-rlcr-loop.sh` (A6); when there is none, every place tried."""
    env = os.environ if environ is None else environ
    base = home or Path(env.get("HOME") or "~").expanduser()
    found = Found("humanize", None)
    named = env.get("HUMANIZE_RUNTIME_ROOT")
    places = [Path(named)] if named else [root / "humanize" for root in skill_roots(env, base)[:2]]
    if not named:
        plugins = base / ".claude" / "plugins"
        places += sorted({p.parent.parent for p in plugins.glob(f"**/{SETUP}")}) if plugins.is_dir() else [plugins]
    for place in places:
        found.tried.append(str(place))
        if (place / SETUP).is_file():
            found.path = place.resolve()
            break
    return found


def find_history(checkout: Path | None, environ: Mapping[str, str] | None = None, home: Path | None = None) -> Found:
    """Knowledge base of pull-request history (A8)."""
    found = Found("PR history", None)
    places = [checkout / "model-pr-optimization-history"] if checkout else []
    places += [root / "model-pr-history-knowledge" for root in skill_roots(environ, home)]
    for place in places:
        found.tried.append(str(place))
        if place.is_dir():
            found.path = place.resolve()
            break
    return found


def pages_to_read(words: Iterable[str], checkout: Path | None) -> list[Path]:
    """`SKILL.md` of the companions whose name holds one of these words (A9), as far as they are found."""
    history = find_history(checkout).path
    folders = [find_skill(n).path for n in (*SKILLS.values(), "model-pr-history")]
    pages = [f / "SKILL.md" for f in (history, *folders) if f is not None and (f / "SKILL.md").is_file()]
    chosen = (next((p for p in pages if word in p.parent.name), None) for word in words)
    return list(dict.fromkeys(p for p in chosen if p is not None))


def survey(checkout: Path | None) -> list[Found]:
    """Everything that a campaign leans on, with where it was found."""
    found = [find_skill(name) for name in SKILLS.values() if name != SKILLS["PR history"]]
    found += [find_history(checkout), find_runtime()]
    ncu = shutil.which("ncu")
    found.append(Found("ncu program", Path(ncu) if ncu else None, ["PATH"]))
    return found
