"""What the runtimes of this machine are now, as plain facts: environments, and the models of the engines recorded here.

A fact that could not be seen is None. Nothing is started or set; other places (containers, other hosts) are asked only by a
whole look, since a quick one must answer at once.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError

if TYPE_CHECKING:
    from infer_forge.engines.lifecycle import Engine

LOCAL = "local"
PACKAGE, COMMIT, SERVED = "package ", "commit ", "served "
_MOST_ENGINES = 20
_QUICK_S = 10.0


@dataclass(frozen=True)
class Sight:
    """What was seen of one subject.

    Attributes:
        subject: place and interpreter, or place and framework; facts of different subjects are never compared.
        facts: name -> value; None where it could not be seen. What was not looked at is left out.
        whole: every package was listed, so that one that is not among them is not installed.
        why: why nothing could be seen.
    """

    subject: str
    facts: dict[str, str | None]
    whole: bool = False
    why: str | None = None


def look(places: Sequence[str] = (), *, quick: bool = False) -> list[Sight]:
    """Look at this machine's own Python, at those of recorded engines, and at further places.

    Args:
        places: more places, as `engine env --place` takes them. quick: only this machine, without asking its GPUs.
    """
    found: list[Sight] = []
    try:
        engines = _newest()
    except ForgeError as exc:
        engines = []
        found.append(Sight(f"{LOCAL} engines", {}, why=exc.what))
    wanted = [(LOCAL, shutil.which("python3") or sys.executable), *((p, "python3") for p in places)]
    used = [(e.place, _python(e)) for e in engines]
    # nothing can run any more on an interpreter of this machine that was removed: it is gone, not unseen
    wanted += [(place, python) for place, python in used if place != LOCAL or os.path.exists(python)]
    for place, python in dict.fromkeys(wanted):
        if place == LOCAL or not quick:
            found.append(_environment(place, python, quick=quick))
    return found + _models(engines, quick=quick)


def _newest() -> list[Engine]:
    """The newest record of each place, framework and model."""
    from infer_forge.engines import lifecycle

    newest = {(e.place, e.framework, e.model): e for e in lifecycle.listed()}
    return sorted(newest.values(), key=lambda e: e.started_at)[-_MOST_ENGINES:]


def _python(engine: Engine) -> str:
    """The interpreter that a recorded engine was started with, as far as its command says."""
    word = engine.argv[0] if engine.argv else ""
    if Path(word).name.startswith("python"):
        return (shutil.which(word) or word) if engine.place == LOCAL else word
    script = shutil.which(word) if engine.place == LOCAL and word else None
    first = _first_line(Path(script)) if script else ""
    named = (first.removeprefix("#!").split() or [""])[0] if first.startswith("#!") else ""
    if Path(named).name.startswith("python") and os.path.exists(named):
        return named
    return (shutil.which("python3") or sys.executable) if engine.place == LOCAL else "python3"


def _first_line(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.readline(4096).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _environment(place: str, python: str, *, quick: bool) -> Sight:
    """One interpreter of one place: versions and commits of the installed distributions, driver, CUDA, image."""
    from infer_forge.engines import runner
    from infer_forge.engines.env import environment

    subject = f"{place} {python}"
    try:
        told = environment(
            runner.place(place), python=python, gpus=not quick, timeout_s=_QUICK_S if quick else 120.0
        ).facts
    except ForgeError as exc:
        return Sight(subject, {}, why=exc.what)
    facts: dict[str, str | None] = {k: told.get(k) for k in ("python", "driver", "cuda")}
    facts["image"] = told.get("image_id")
    if quick:  # without the GPUs' own tool these may be there and not told
        facts = {k: v for k, v in facts.items() if v is not None}
    facts |= {f"{PACKAGE}{n}": v for n, v in told.get("packages", {}).items()}
    facts |= {f"{COMMIT}{n}": v for n, v in told.get("commits", {}).items()}
    return Sight(subject, facts, whole=True)


def _models(engines: Iterable[Engine], *, quick: bool) -> list[Sight]:
    """Models that the engines serve, a subject for each place and framework: the id, and the hash of its config."""
    found: dict[str, dict[str, str | None]] = {}
    for engine in engines:
        if engine.model:
            facts = found.setdefault(f"{engine.place} {engine.framework} models", {})
            facts[f"{SERVED}{engine.model}"] = "yes"
            facts |= _model(engine.model, engine.place, quick=quick)
    return [Sight(subject, facts, whole=True) for subject, facts in found.items()]


def _model(model: str, place: str, *, quick: bool) -> dict[str, str | None]:
    """Hashes of a model's config and, with a whole look, of its weights' headers and its tokenizer."""
    from infer_forge.engines.fingerprint import fingerprint, local_folder

    names = ("config",) if quick else ("config", "revision", "weights", "tokenizer")
    facts: dict[str, str | None] = {f"{n} {model}": None for n in names}
    folder = local_folder(model) if place == LOCAL else None
    try:
        if folder is not None and (folder / "config.json").is_file():
            facts[f"config {model}"] = jsonio.sha256_file(folder / "config.json")
        if folder is not None and not quick:
            told = fingerprint(folder)
            facts[f"revision {model}"] = told.revision
            facts[f"weights {model}"], facts[f"tokenizer {model}"] = told.weights_sha256, told.tokenizer_sha256
    except (ForgeError, OSError):
        return facts  # what was seen until then; the rest stays unknown
    return facts
