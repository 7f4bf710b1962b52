"""A git repository as an append-only store: read a tree at a tip, decide, commit, advance one ref.

The whole use:

    store = Store.open(paths().store("registry"), remote="file:///srv/registry.git")
    commit = store.update("refs/registry/claims", decide, "claim gpu1")   # decide(Snapshot) -> Changes | Refuse
    store.read("refs/registry/claims").get("nodes/gpu1.json")

- *Without a remote* the local ref is the truth: `update` advances it by compare-and-swap.
- *With a remote* the hub's ref is the truth: `update` pushes with a lease on the tip that was decided on, and the local
  ref only ever follows. A lost race is fetched and **decided again**; text is never merged.
- `update(..., local=True)` commits here whatever the remote says; `sync` brings such commits to the hub, replaying them
  on its tip when both moved (new files only, unless the caller gives its own `replay`).
- `replace` keeps a ref without history (a parentless commit), for state that is superseded every minute.

Why dulwich for objects and refs, and the `git` program for the network: one small commit costs 1 ms through dulwich
and 14 ms through `git` processes (`scripts/benches/gitstore.py`); pygit2 is as fast, but a compiled library for each
platform; GitPython starts a process for many of its calls, and stays where its checkouts, submodules and diffs are wanted,
in the workspace room. And over file:// and ssh:// the `git` program brings what users have configured (keys, hooks, credential
helpers). Hubs that are a folder of this machine are read in process.

Crashes: objects are written under a temporary name and renamed, the ref last, so a kill at any instant loses at most
what was not acknowledged. A lock file left by a killed process is taken over under an flock that dies with its holder.
"""

from infer_forge.base.gitstore.model import (
    Changes,
    Commit,
    Contention,
    Diverged,
    HistoryRewritten,
    HubUnreachable,
    PushRefused,
    Refuse,
    Refused,
    SyncReport,
    fan_out,
)
from infer_forge.base.gitstore.snapshot import Snapshot
from infer_forge.base.gitstore.store import Store

__all__ = [
    "Changes",
    "Commit",
    "Contention",
    "Diverged",
    "HistoryRewritten",
    "HubUnreachable",
    "PushRefused",
    "Refuse",
    "Refused",
    "Snapshot",
    "Store",
    "SyncReport",
    "fan_out",
]
