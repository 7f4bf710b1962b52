"""What the guard knows of the caller: owned things with proof, claims, remotes, grants.

A context handed in counts as proved (tests, dry runs). The hook and the server make theirs from the ownership file and
prove processes by their start time at that moment; proofs that only age (containers, jobs, ports) are stale after 60 s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from infer_forge.base import ownership
from infer_forge.base.ownership import within

OWNED, STALE, FOREIGN, UNKNOWN, ANCESTOR = "owned", "stale", "foreign", "unknown", "ancestor"
PROOF_MAX_AGE_S = 60.0
_ENV_NAMES = [
    "HOME",
    "USER",
    "PWD",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "TRANSFORMERS_CACHE",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "INFER_FORGE_RUN_ID",
    "INFER_FORGE_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
]


class Context:
    """One caller's standing. Sets and maps are plain, so that rules read them directly."""

    def __init__(self) -> None:
        self.present = False
        self.handed = False
        self.damaged = ""
        self.run_id: str | None = None
        self.user = os.environ.get("USER") or os.environ.get("LOGNAME") or "root"
        self.node = ownership.node_name()
        self.cwd: str | None = None
        self.home = os.path.expanduser("~")
        self.env: dict[str, str] = {}
        self.pids: dict[int, bool] = {}
        self.pgids: dict[int, bool] = {}
        self.paths: list[str] = []
        self.containers: dict[str, dict[str, Any]] = {}
        self.jobs: dict[str, bool] = {}
        self.k8s: dict[tuple[str, str], bool] = {}
        self.ports: dict[int, bool] = {}
        self.clusters: dict[str, bool] = {}
        self.claims: list[dict[str, Any]] = []
        self.remotes: dict[str, str] = {}
        self.push_allowed: list[str] = []
        self.protected_branches: list[str] = []
        self.protected_paths: list[str] = []
        self.branch: str | None = None
        self.coder: str | None = None
        self.grants: list[ownership.Grant] = []
        self.venv: str | None = None
        self.profile = "ordinary"
        self._ancestors: list[int] | None = None

    def absent(self) -> str:
        """Why nothing is proved owned: there is no run, or its record cannot be read."""
        return f"what runs own cannot be read ({self.damaged})" if self.damaged else "no run is recorded here"

    # ------------------------------------------------------------ proofs

    def ancestors(self) -> list[int]:
        """This process and its parents: a kill may never reach them."""
        if self._ancestors is None:
            self._ancestors = ownership.ancestors()
        return self._ancestors

    def pid(self, pid: int) -> str:
        """Standing of a process."""
        if pid in (0, 1) or pid in self.ancestors():
            return ANCESTOR
        known = self._fresh(self.pids, pid)
        if known == FOREIGN and self.pids and not self.handed and set(ownership.ancestors(pid)) & set(self.pids):
            return OWNED  # a child of a process whose birth is recorded, seen at this moment
        return known

    def pgid(self, pgid: int) -> str:
        """Standing of a process group."""
        if pgid in (0, 1) or any(ownership.group_of(p) == pgid for p in self.ancestors() if p != 1):
            return ANCESTOR
        return self._fresh(self.pgids, pgid)

    @staticmethod
    def _fresh(table: Mapping[Any, bool], key: Any) -> str:
        fresh = table.get(key)
        return FOREIGN if fresh is None else OWNED if fresh else STALE

    def container(self, name: str) -> str:
        """Standing of a container, by name or by id prefix of at least twelve characters."""
        facts = self.containers.get(name)
        if facts is None and len(name) >= 12:
            facts = next((f for f in self.containers.values() if str(f.get("id", "")).startswith(name)), None)
        return FOREIGN if facts is None else OWNED if facts.get("fresh", True) else STALE

    def host_pids(self, name: str) -> bool:
        """Whether an owned container shares the host's process ids."""
        return self.containers.get(name, {}).get("pid_mode") == "host"

    def job(self, job: str) -> str:
        """Standing of a scheduler job; array elements and steps belong to their job."""
        return self._fresh(self.jobs, job.split("_")[0].split(".")[0])

    def pod(self, namespace: str | None, name: str) -> str:
        """Standing of a Kubernetes object."""
        if namespace is not None:
            return self._fresh(self.k8s, (namespace, name))
        spaces = {n for n, _ in self.k8s}
        return self._fresh(self.k8s, (next(iter(spaces)), name)) if len(spaces) == 1 else FOREIGN

    def port(self, port: int) -> str:
        """Standing of a listening port."""
        return self._fresh(self.ports, port)

    def owns_path(self, path: str) -> bool:
        """Whether an absolute, resolved path is owned or lies under an owned one."""
        return any(within(path, root) for root in self.paths)

    def claimed_gpus(self, node: str | None = None) -> set[int] | None:
        """GPU indices that the run claims on a node, fenced claims included; None when the run has no claims at all."""
        if not self.claims:
            return None
        return {g for c in self._claims_on(node) for g in _gpus(c)}

    def _claims_on(self, node: str | None) -> list[dict[str, Any]]:
        where = node or self.node
        return [c for c in self.claims if c.get("node") == where]

    def claim_state(self, gpus: set[int], node: str | None = None) -> tuple[str, str]:
        """Standing of the claims that cover these GPUs: `held`, `stale` or `fenced`, and why; the worst one counts."""
        if self.handed:
            return "held", ""
        worst = ("held", "")
        for gpu in sorted(gpus):
            faults = [claim_fault(c) for c in self._claims_on(node) if gpu in _gpus(c)]
            fault = min(faults, key=_claim_rank, default=("held", ""))  # a newer claim on the same GPU is enough
            worst = max(worst, fault, key=_claim_rank)
        return worst

    def claimed_uuids(self, node: str | None = None) -> list[str]:
        """UUIDs of the GPUs that the run claims on a node, where the registry knew them."""
        return [str(u) for c in self._claims_on(node) for u in c.get("uuids", [])]

    def claim_of(self, gpus: set[int]) -> dict[str, Any]:
        """Run, claim and epoch under which these GPUs of this node are held."""
        mine = sorted(self._claims_on(None), key=lambda c: -len(gpus & _gpus(c)))
        found: dict[str, Any] = mine[0] if mine and gpus & _gpus(mine[0]) else {}
        return {"run_id": self.run_id, "claim_id": found.get("claim_id"), "epoch": found.get("epoch")}

    def claims_node(self, node: str) -> bool:
        """Whether the run holds a claim on a host that has not ended."""
        return self.node_state(node)[0] != ""

    def node_state(self, node: str) -> tuple[str, str]:
        """Standing of a host: `held` (it is this one, or a claim on it holds), `stale`, or `` without a claim; and why."""
        if node == self.node:
            return "held", ""
        short = node.split(".")[0]
        mine = [c for c in self.claims if str(c.get("node", "")).split(".")[0] == short]
        if self.handed:
            return ("held", "") if mine else ("", "")
        best = min((claim_fault(c) for c in mine), key=_claim_rank, default=("fenced", ""))
        return best if best[0] != "fenced" else ("", best[1])


_CLAIM_ORDER = ("held", "stale", "fenced")


def _claim_rank(fault: tuple[str, str]) -> int:
    return _CLAIM_ORDER.index(fault[0])


def _gpus(claim: Mapping[str, Any]) -> set[int]:
    return {int(g) for g in claim.get("gpus", []) if str(g).isdigit()}


def claim_fault(claim: Mapping[str, Any], now: float | None = None) -> tuple[str, str]:
    """Whether a claim on file still holds, as far as files tell: (`held`, `stale` or `fenced`, why).

    Where the registry's truth is a git store on this machine (no hub, or a hub in a folder), its tip is one small file:
    the tip of the last confirmation proves the claim at this moment, another tip says that the registry has moved on.
    Elsewhere the time of the last confirmation counts.
    """
    name = str(claim.get("claim_id", ""))[:13]
    if claim.get("fenced"):
        return "fenced", f"claim {name} ended or was overtaken (epoch {claim.get('epoch')}): claim the GPUs again"
    again = "infer-forge node status confirms it"
    truth, tip = claim.get("truth"), claim.get("tip")
    if truth and tip:
        now_at = loose_ref(str(truth), "refs/registry/claims")
        if now_at == tip:
            return "held", ""
        return "stale", f"the registry moved on since claim {name} was confirmed; {again}"
    confirmed = claim.get("confirmed_at")
    age = (time.time() if now is None else now) - confirmed if isinstance(confirmed, (int, float)) else None
    if age is not None and -PROOF_MAX_AGE_S <= age <= PROOF_MAX_AGE_S:
        return "held", ""
    since = "was never confirmed by the registry" if age is None else f"was last confirmed {age:.0f} s ago"
    return "stale", f"claim {name} {since}; {again}"


def loose_ref(gitdir: str, ref: str) -> str | None:
    """The commit of a ref, read from its file or from packed-refs (gitrepository-layout(5)); None when it cannot be read."""
    try:
        with open(os.path.join(gitdir, ref), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        pass
    try:
        with open(os.path.join(gitdir, "packed-refs"), encoding="ascii") as file:
            for line in file:
                sha, _, name = line.strip().partition(" ")
                if name == ref:
                    return sha
    except (OSError, ValueError):
        pass
    return None


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {k: environ[k] for k in _ENV_NAMES if k in environ}


def _number(item: Any, key: str) -> int:
    """`4242` or `{"pid": 4242, ...}`."""
    return int(item[key] if isinstance(item, dict) else item)  # pyright: ignore[reportUnknownArgumentType]


def from_dict(given: Mapping[str, Any]) -> Context:
    """A context that is handed in; everything that it names counts as proved.

    Raises:
        InputUnusable: it is no mapping, or a field has the wrong shape.
    """
    from infer_forge.base.errors import InputUnusable

    ctx = Context()
    ctx.present = ctx.handed = True
    data: dict[str, Any] = dict(given)

    def listed(key: str) -> list[Any]:
        return list(data.get(key) or [])

    try:
        ctx.run_id = data.get("run_id")
        ctx.user = data.get("user") or ctx.user
        ctx.node = data.get("node") or ctx.node
        ctx.cwd = data.get("cwd") or os.getcwd()
        ctx.home = data.get("home") or ctx.home
        ctx.env = {**_environment(os.environ), "USER": ctx.user, "HOME": ctx.home, **dict(data.get("env") or {})}
        ctx.env.pop("PWD", None)
        if "VIRTUAL_ENV" not in (data.get("env") or {}):
            ctx.env.pop("VIRTUAL_ENV", None)
        ctx.venv = data.get("venv") or ctx.env.get("VIRTUAL_ENV")
        ctx.pids = {_number(p, "pid"): True for p in listed("owned_pids")}
        ctx.pgids = {int(p): True for p in listed("owned_pgids")}
        ctx.paths = [os.path.realpath(str(p)) for p in listed("owned_paths")]
        for item in listed("owned_containers"):
            facts: dict[str, Any] = item if isinstance(item, dict) else {"name": item}  # pyright: ignore[reportUnknownVariableType]
            ctx.containers[str(facts["name"])] = facts
        ctx.jobs = {str(j): True for j in listed("owned_jobs")}
        k8s: Any = data.get("owned_k8s") or {}
        groups: list[Any] = list(k8s) if isinstance(k8s, list) else [k8s]  # pyright: ignore[reportUnknownArgumentType]
        for group in groups:
            for name in group.get("names", []):
                ctx.k8s[str(group.get("namespace", "default")), str(name)] = True
        ctx.ports = {_number(p, "port"): True for p in listed("owned_ports")}
        ctx.clusters = {str(c): True for c in listed("owned_clusters")}
        ctx.claims = [dict(c) for c in listed("claims")]
        ctx.remotes = dict(data.get("remotes") or {})
        ctx.push_allowed = list(listed("push_allowed"))
        ctx.protected_branches = list(listed("protected_branches"))
        ctx.protected_paths = list(listed("protected_paths"))
        ctx.branch = data.get("branch")
        ctx.coder = data.get("coder")
        ctx.profile = str(data.get("profile") or "ordinary")
        ctx.grants = [
            ownership.Grant(
                str(g["action"]),
                str(g.get("target", "*")),
                float(g["until"]),
                str(g.get("by", "")),
                str(g.get("reason", "")),
            )
            for g in listed("grants")
        ]
    except (TypeError, ValueError, KeyError, AttributeError) as exc:
        raise InputUnusable(
            f"the context has a field of the wrong shape ({exc})", next_step="see infer-forge guard check --help"
        ) from None
    return ctx


def from_ownership(cwd: str | None = None, environ: Mapping[str, str] | None = None) -> Context:
    """The context of a caller as the ownership file proves it now; a damaged file gives one that owns nothing."""
    from infer_forge.base.errors import ForgeError

    env = os.environ if environ is None else environ
    ctx = Context()
    ctx.cwd = cwd or os.getcwd()
    ctx.env = _environment(env)
    ctx.env.pop("PWD", None)
    ctx.env.setdefault("HOME", ctx.home)
    ctx.env.setdefault("USER", ctx.user)
    ctx.venv = env.get("VIRTUAL_ENV")
    try:
        run = ownership.load().current(ctx.cwd, env)
    except ForgeError as exc:
        ctx.damaged = exc.what
        return ctx
    if run is not None:
        _fill(ctx, run)
    return ctx


def _fill(ctx: Context, run: ownership.Run) -> None:
    ctx.present = True
    ctx.run_id = run.run_id
    now = time.time()
    here = ctx.node
    if run.root:
        ctx.paths.append(run.root)
    for item in run.owned:
        fresh = now - item.checked_at <= PROOF_MAX_AGE_S
        if item.kind in ("pid", "pgid"):
            if item.node == here and item.holds():
                (ctx.pids if item.kind == "pid" else ctx.pgids)[int(item.target)] = True
        elif item.kind == "path":
            ctx.paths.append(item.target)
        elif item.kind == "container":
            ctx.containers[item.target] = {**item.detail, "fresh": fresh}
        elif item.kind == "job":
            ctx.jobs[item.target] = fresh
        elif item.kind == "k8s":
            space, _, name = item.target.partition("/")
            ctx.k8s[space, name] = fresh
        elif item.kind == "port" and item.node == here:
            ctx.ports[int(item.target)] = fresh
        elif item.kind == "cluster":
            ctx.clusters[item.target] = fresh
    ctx.claims = list(run.claims)
    ctx.remotes = dict(run.remotes)
    ctx.push_allowed = list(run.push_allowed)
    ctx.protected_branches = list(run.protected_branches)
    ctx.protected_paths = list(run.protected_paths)
    ctx.coder = run.coder
    ctx.profile = run.profile
    ctx.grants = [g for g in run.grants if g.live(now)]
