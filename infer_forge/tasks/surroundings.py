"""What a run stands on: the environment that decides results, and the commit of each repository (B44, B16)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio, redact

# Variables that decide what a run of an inference engine does; everything else (session, terminal, credentials) is left out.
_NAMES = frozenset(
    "PATH LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH VIRTUAL_ENV CONDA_PREFIX OMP_NUM_THREADS MASTER_ADDR HF_HOME".split()  # noqa: SIM905
)
_PREFIXES = (
    *("CUDA_", "NVIDIA_", "NCCL_", "ROCM_", "HIP_", "HSA_", "UCX_"),
    *("TORCH", "PYTORCH_", "TRITON_", "FLASHINFER_", "DG_", "HF_HUB_"),
    *("SGLANG_", "SGL_", "VLLM_", "TRTLLM_", "TLLM_"),
)
_MOST_PATCH_BYTES = 4 << 20
_GIT_TIMEOUT_S = 20


def environment() -> dict[str, Any]:
    """The deciding variables (secrets masked), the Python that would run, and a digest of both."""
    chosen = {k: v for k, v in sorted(os.environ.items()) if k in _NAMES or k.startswith(_PREFIXES)}
    shown = {k: redact.redact(v) for k, v in chosen.items()}
    facts = {"variables": shown, "python": sys.version.split()[0], "executable": sys.executable}
    return {"digest": jsonio.sha256_of(facts), **facts}


def _git(folder: str | Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def repository(folder: str | Path, keep: Path | None = None) -> dict[str, Any] | None:
    """The repository around a folder: top folder, git folder (a worktree's outlives it), commit, branch, remote, differences.

    Args:
        keep: where the difference to the commit is kept as a patch, so that a run on changed files can be repeated.

    Returns:
        None when the folder lies in no repository, or in one without a commit. Where git does not tell what was changed,
        `changed` and `untracked` are None and `unseen` says so: nobody may take such a run for one on a clean commit.
    """
    top, commit = (_git(folder, "rev-parse", *w) for w in (("--show-toplevel",), ("--verify", "HEAD")))
    if not top or not commit:
        return None
    root = top.strip()
    told = _git(root, "status", "--porcelain", "--untracked-files=normal")
    status = [] if told is None else told.splitlines()
    remote = _git(root, "remote", "get-url", "origin")
    branch = _git(root, "symbolic-ref", "--short", "-q", "HEAD")
    shared = _git(root, "rev-parse", "--path-format=absolute", "--git-common-dir")
    facts: dict[str, Any] = {
        "path": root,
        "git_dir": shared.strip() if shared else None,
        "commit": commit.strip(),
        "branch": branch.strip() if branch else None,
        "remote": redact.redact(remote.strip()) if remote else None,
        "changed": None if told is None else sum(1 for line in status if not line.startswith("??")),
        "untracked": None if told is None else [line[3:] for line in status if line.startswith("??")][:50],
        "patch": None,
    }
    if told is None:
        facts["unseen"] = f"git status failed, or took more than {_GIT_TIMEOUT_S} s"
    if facts["changed"] and keep is not None:
        facts["patch"] = _patch(root, keep)
    return facts


def _patch(root: str, keep: Path) -> dict[str, Any] | None:
    text = _git(root, "diff", "--binary", "HEAD")
    if not text or len(text) > _MOST_PATCH_BYTES:
        return None
    clean = redact.redact(text)
    jsonio.write_atomic(keep, clean)
    return {"path": str(keep), "sha256": jsonio.sha256_file(keep), "size_bytes": len(clean.encode())}


def commit_state(root: str, commit: str) -> str:
    """Whether a commit is in its repository: `here`, `missing`, `unseen` (no such folder on this machine)."""
    if not Path(root).is_dir():
        return "unseen"
    return "missing" if _git(root, "cat-file", "-e", f"{commit}^{{commit}}") is None else "here"
