"""The root: its descriptor, its folders, the map of the inference stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio, yamlio
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.resources import load_yaml
from infer_forge.workspace import gitcall
from infer_forge.workspace.model import ROLES, Entry, Workspace

DESCRIPTOR = "infer-forge-workspace.yaml"
TASKS, WORKTREES = "tasks", "worktrees"
_IGNORED = f"/{WORKTREES}/\n"
_README = """# Workspace

Repositories lie under `stack/`, `harness/` and `builtin/` as git submodules; `{descriptor}` names them. This root holds
coordination only: the descriptor, `tasks/` (which repositories and branches a task uses, and the commits of its results),
skills and playbooks. Code stays in its repository. `worktrees/` (not tracked) holds one worktree a task and repository.
"""


def known_repos() -> dict[str, dict[str, Any]]:
    """The map of the inference stack: name -> url, branch (None where it is not sure), role, verified, what."""
    return load_yaml("references/stack_map.yaml")["repositories"]


def init_workspace(folder: Path) -> Workspace:
    """Make a workspace in a folder, or find the one that is there.

    Raises:
        UsageFault: the folder lies inside another repository, or holds something else.
    """
    root = folder.expanduser().absolute()
    if (root / DESCRIPTOR).is_file():
        return read(root)
    root.mkdir(parents=True, exist_ok=True)
    top = gitcall.ask(root, "rev-parse", "--show-toplevel")
    if top is not None and Path(top.strip()).resolve() != root.resolve():
        raise UsageFault(
            f"it lies inside the repository {top.strip()}", where=str(root), next_step="name a folder of its own"
        )
    if top is None:
        if any(root.iterdir()):
            raise UsageFault("the folder is not empty", where=str(root), next_step="name a new or an empty folder")
        gitcall.call(root, "init", "--quiet", "--initial-branch=main")
    workspace = Workspace(root)
    write(workspace)
    for name, text in ((".gitignore", _IGNORED), ("README.md", _README.format(descriptor=DESCRIPTOR))):
        if not (root / name).exists():
            jsonio.write_atomic(root / name, text)
    if _IGNORED.strip() not in (root / ".gitignore").read_text().split():
        jsonio.write_atomic(root / ".gitignore", (root / ".gitignore").read_text().rstrip("\n") + f"\n{_IGNORED}")
    gitcall.commit_all(root, "A workspace", DESCRIPTOR, ".gitignore", "README.md")
    return workspace


def find_root(start: Path | None = None) -> Path:
    """The root around a folder.

    Raises:
        InputUnusable: none.
    """
    place = (start or Path.cwd()).expanduser().absolute()
    for folder in (place, *place.parents):
        if (folder / DESCRIPTOR).is_file():
            return folder
    raise InputUnusable("no workspace here or above", where=str(place), next_step="infer-forge workspace init FOLDER")


def read(root: Path) -> Workspace:
    """Read a workspace's descriptor.

    Raises:
        InputUnusable: it cannot be read, or an entry is not whole.
    """
    file = root / DESCRIPTOR
    data: Any = yamlio.read_yaml(file) or {}
    try:
        items = cast("dict[str, dict[str, Any]]", data.get("repositories") or {})
        entries = {n: Entry(n, i["url"], i["branch"], i["role"], i["path"]) for n, i in items.items()}
    except (KeyError, TypeError, AttributeError) as exc:
        raise InputUnusable(
            f"an entry is not whole ({exc!r})",
            where=str(file),
            next_step=f"git -C {root} log -p -- {DESCRIPTOR} shows how it was",
        ) from None
    for entry in entries.values():
        if not all(isinstance(items[entry.name][field], str) for field in ("url", "branch", "role", "path")):
            raise InputUnusable(f"{entry.name}: address, branch, role and path are text", where=str(file))
        inside = (root / entry.path).resolve().is_relative_to(root.resolve())
        if entry.role not in ROLES or not inside or entry.path.startswith("/"):
            raise InputUnusable(f"{entry.name}: role or path is wrong", where=str(file))
        try:
            gitcall.checked_url(entry.url)
        except UsageFault as exc:
            raise InputUnusable(f"{entry.name}: {exc.what}", where=str(file)) from None
    return Workspace(root, entries)


def write(workspace: Workspace) -> None:
    """Write the descriptor, entries in the order of their names."""
    items = {n: {k: v for k, v in e.to_json().items() if k != "name"} for n, e in sorted(workspace.entries.items())}
    text = yaml_text({"schema": 1, "repositories": items})
    jsonio.write_atomic(
        workspace.root / DESCRIPTOR, f"# Repositories of this workspace; `infer-forge workspace add` writes it.\n{text}"
    )


def yaml_text(data: Any) -> str:
    """Data as YAML, in the order that it has."""
    import yaml

    dump: Any = yaml.safe_dump  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return dump(data, sort_keys=False, allow_unicode=True)
