"""The multi-repository workspace: one root that holds coordination only, its repositories as git submodules with roles.

Verbs: `init_workspace`, `find_root`, `add_repo`, `sync_repos`, `status`, `pin`, `verify`, `task_worktrees`,
`close_worktrees`, `capture`, `prove_commit`, `make_bundle`, `secure_commit`, `lint_root`, `known_repos`.
Git is driven through GitPython's command layer; nothing
here pushes, merges or rewrites history.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.workspace.adding import add_repo
    from infer_forge.workspace.captures import capture, verify
    from infer_forge.workspace.layout import find_root, init_workspace, known_repos
    from infer_forge.workspace.linting import lint_root
    from infer_forge.workspace.pinning import pin
    from infer_forge.workspace.proofs import make_bundle, prove_commit, secure_commit
    from infer_forge.workspace.states import status
    from infer_forge.workspace.syncing import sync_repos
    from infer_forge.workspace.worktrees import close_worktrees, task_worktrees

__all__ = [
    "add_repo",
    "capture",
    "close_worktrees",
    "find_root",
    "init_workspace",
    "known_repos",
    "lint_root",
    "make_bundle",
    "pin",
    "prove_commit",
    "secure_commit",
    "status",
    "sync_repos",
    "task_worktrees",
    "verify",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "add_repo": "adding",
        "capture": "captures",
        "close_worktrees": "worktrees",
        "find_root": "layout",
        "init_workspace": "layout",
        "known_repos": "layout",
        "lint_root": "linting",
        "make_bundle": "proofs",
        "pin": "pinning",
        "prove_commit": "proofs",
        "secure_commit": "proofs",
        "status": "states",
        "sync_repos": "syncing",
        "task_worktrees": "worktrees",
        "verify": "captures",
    },
)
