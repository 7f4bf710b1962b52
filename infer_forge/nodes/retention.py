"""Retention: whole months of observations are dropped, then the repository is packed. Claims are kept for ever."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from infer_forge.base.gitstore.remote import gitdir_of, local_path
from infer_forge.base.gitstore.sync import collect_garbage
from infer_forge.nodes.registry import ALL, NOTES, OBS, Registry

_MONTH = re.compile(r"/(\d{4})-(\d{2})$")


@dataclass
class Collected:
    """What was dropped (or would be), and the sizes of the repositories before and after, in bytes."""

    dropped: list[str]
    kept: int
    sizes: dict[str, tuple[int, int]]


def gc(
    registry: Registry, *, months: int | None = None, execute: bool = False, now: datetime | None = None
) -> Collected:
    """Drop observations of months that ended more than `months` months ago, here and on the hub, and pack both.

    A hub behind ssh packs itself (`receive.autogc`); a hub on this machine is packed here.

    Args:
        months: default: the policy's `retention_months`.
        execute: False only tells.
    """
    registry.store.refresh(ALL)
    keep = months if months is not None else registry.policy().retention_months
    today = now or datetime.now(timezone.utc)
    newest = today.year * 12 + today.month - 1
    old: list[str] = []
    refs = [*registry.store.tips(OBS), *registry.store.tips(NOTES)]
    for ref in refs:
        month = _MONTH.search(ref)
        if month and newest - (int(month[1]) * 12 + int(month[2]) - 1) > keep:
            old.append(ref)
    sizes: dict[str, tuple[int, int]] = {}
    if execute:
        for ref in old:
            registry.store.delete(ref)
        hub = local_path(registry.store.remote.url) if registry.store.remote else None
        hub_dir = gitdir_of(hub) if hub else None
        for place in (registry.store.gitdir, *([hub_dir] if hub_dir else ())):
            before = size_of(place)
            registry.store.close()
            collect_garbage(place, "1.hour.ago")
            sizes[str(place)] = (before, size_of(place))
    return Collected(old, len(refs) - len(old), sizes)


def size_of(gitdir: Path) -> int:
    """Bytes of a repository's objects, as `git count-objects -v` counts (loose and packed)."""
    done = subprocess.run(
        ["git", f"--git-dir={gitdir}", "count-objects", "-v"], capture_output=True, text=True, check=True
    )
    lines = dict(line.split(": ") for line in done.stdout.splitlines() if ": " in line)
    return (int(lines["size"]) + int(lines["size-pack"])) * 1024
