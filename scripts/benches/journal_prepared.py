"""Prepared inputs of the journal's benches: made once a machine, and gone on with where an earlier run stopped.

They lie in `infer-forge-bench` of the folder for temporary files (`TMPDIR` moves it), and may be deleted at any time.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.journal_notes import generated
from infer_forge.base.gitstore import Changes, Store
from infer_forge.journal import markdown
from infer_forge.journal.model import new_id
from infer_forge.journal.store import REF, record_path

_PART = 10_000
_HELD = 2000
_STEP = 2000
# Changes when the generators change: inputs of another number are made anew.
_SHAPE = 2


def cache() -> Path:
    """Where prepared inputs are kept."""
    return Path(tempfile.gettempdir()) / "infer-forge-bench"


def told(text: str) -> None:
    """One line of progress."""
    sys.stderr.write(f"  {text}\n")
    sys.stderr.flush()


def known(count: int) -> list[tuple[str, dict[str, Any]]]:
    """(id, what is known of it) of the first generated records."""
    found: list[tuple[str, dict[str, Any]]] = []
    for record, facts in generated(min(count, _HELD)):
        found.append((new_id(record), facts | {"title": record.title, "dims": record.dims}))
    return found


def fill(store: Store, count: int) -> None:
    """Write generated records in commits of 10,000; those that an earlier run wrote are not written again."""
    records = generated(count)
    for part in range(-(-count // _PART)):
        put: dict[str, bytes | str] = {}
        done = sum(1 for _ in store.history(REF)) > part
        for record, _ in itertools.islice(records, _PART):
            if not done:
                record.id = new_id(record)
                put[record_path(record.id)] = markdown.write(record)
        if not done:
            store.update(REF, lambda _, put=put: Changes(put=put), "generated")
            told(f"{min(count, (part + 1) * _PART):,} of {count:,} records written")


def prepared_store(count: int, home: Path) -> None:
    """Put a store of generated records into a home: made in the cache, then linked from there (objects never change)."""
    place = cache() / f"journal-{_SHAPE}-{count}.git"
    with Store.open(place) as store:
        fill(store, count)
    target = home / "stores" / "journal.git"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(place, target, copy_function=_linked)


def _linked(source: str, target: str) -> str:
    """A hard link to an object of a store; a copy of everything that changes (refs, config), or across file systems."""
    if "/objects/" not in source:
        return shutil.copy2(source, target)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def prepared_repository(count: int) -> Path:
    """A repository like a framework's: squash commits with numbers, some reverts (git fast-import, 2,000 commits at a time)."""
    place = cache() / f"history-{_SHAPE}-{count}"
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q", "-b", "main", str(place)], check=True)
    there = subprocess.run(["git", "-C", str(place), "rev-list", "--count", "main"], capture_output=True, text=True)
    done = int(there.stdout or 0) if there.returncode == 0 else 0
    if done < count:
        _write_commits(place, done, count)
        told("packing")
        subprocess.run(["git", "-C", str(place), "repack", "-adq"], check=True)
    return place


def _write_commits(place: Path, done: int, count: int) -> None:
    """Commits after the first `done`; those are generated too, since each builds on the one before."""
    commits = _Commits()
    for _ in range(done):
        commits.next()
    for start in range(done, count, _STEP):
        words = ["git", "-C", str(place), "-c", "core.compression=1", "fast-import", "--quiet"]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
            assert child.stdin is not None
            for number in range(start, min(start + _STEP, count)):
                commits.next(child.stdin.write, onto_main=number == start > 0)
        told(f"{min(start + _STEP, count):,} of {count:,} commits written")


_FOLDERS = (
    "models",
    "layers",
    "managers",
    "layers/moe",
    "layers/quantization",
    "mem_cache",
    "speculative",
    "entrypoints",
)
_FILES = ["qwen3_moe", "deepseek_v2", "llama", "attention", "moe", "scheduler", "cache", "graph", "sampler", "glm4"]
_LINES = 300


class _Commits:
    """The generated history, one commit after the other."""

    def __init__(self) -> None:
        self.random = random.Random(3)
        self.files = [f"python/sglang/srt/{a}/{b}.py" for a in _FOLDERS for b in _FILES]
        self.files += [f"sgl-kernel/csrc/{n}.cu" for n in ("moe", "gemm", "quant", "allreduce")]
        self.texts = {f: [self._line(f, i) for i in range(_LINES)] for f in self.files}
        self.number = 0

    def next(self, write: Callable[[bytes], object] | None = None, *, onto_main: bool = False) -> None:
        """Make the next commit; with `write` give it to fast-import, onto the branch's tip where a new import begins."""
        self.number += 1
        rnd, number = self.random, self.number
        touched = rnd.sample(self.files, rnd.choice((1, 1, 2, 2, 3, 5)))
        subject = f"Tune {Path(touched[0]).stem} for {rnd.choice(('H200', 'B200', 'MI300X'))} (#{number})"
        if number % 97 == 0:
            subject = f'Revert "x (#{number - 5})" (#{number})'
        body = f"{subject}\n\nThroughput {rnd.random() + 1:.2f}x.\n"
        for file in touched:
            self._edit(file)
        if write is None:
            return
        who = f"committer a <a@b.c> {1_700_000_000 + number * 600} +0000"
        onto = "from refs/heads/main^0\n" if onto_main else ""
        write(f"commit refs/heads/main\n{who}\ndata {len(body)}\n{body}{onto}".encode())
        for file in touched:
            data = "\n".join(self.texts[file]).encode() + b"\n"
            write(f"M 100644 inline {file}\ndata {len(data)}\n".encode() + data + b"\n")

    def _edit(self, file: str) -> None:
        """One to six hunks; a file keeps its size in the long run."""
        rnd, lines = self.random, self.texts[file]
        for _ in range(rnd.randint(1, 6)):
            at = rnd.randrange(len(lines))
            gone, come = rnd.randint(0, 3), rnd.randint(0, 3) if len(lines) > _LINES else rnd.randint(1, 3)
            lines[at : at + gone] = [self._line(file, self.number) for _ in range(come)]

    def _line(self, file: str, number: int) -> str:
        rnd = self.random
        if rnd.random() < 0.12:
            name = f"step_{number}_{rnd.randrange(99)}"
            return f"def {name}(x, y):" if file.endswith(".py") else f"__global__ void {name}(int* x) {{"
        return f"    y = fused_{rnd.randrange(999)}(x, scale={rnd.randrange(99)}, block={rnd.choice((64, 128, 256))})"
