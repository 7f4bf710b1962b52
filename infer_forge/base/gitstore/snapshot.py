"""A store's files at one commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infer_forge.base.gitstore.objects import TREE_MODE, Objects


class Snapshot:
    """The files of one ref at one commit; never changes, and reads lazily.

    Attributes:
        ref: the ref that was read.
        tip: the commit, None when the ref does not exist yet (then there are no files).
    """

    def __init__(self, objects: Objects, ref: str, tip: str | None) -> None:
        self.ref = ref
        self.tip = tip
        self._objects = objects
        self._tree: str | None = None

    @property
    def gitdir(self) -> Path:
        """The repository's folder."""
        return self._objects.folder.parent

    @property
    def tree(self) -> str | None:
        """sha of the root tree: equal trees hold equal files."""
        if self._tree is None and self.tip is not None:
            self._tree = self._objects.commit(self.tip).tree
        return self._tree

    def blob_id(self, path: str) -> str | None:
        """sha of a file's content, None when it is not there: cheap to compare, and a key for caches."""
        current = self.tree
        parts = path.split("/")
        for i, part in enumerate(parts):
            if current is None:
                return None
            mode, current = self._objects.tree(current).get(part, (0, ""))
            if not current or (mode == TREE_MODE) == (i == len(parts) - 1):
                return None
        return current

    def folder_id(self, folder: str) -> str | None:
        """sha of a folder's tree, None when it is not there: equal ids hold equal files, so unchanged folders need no reading."""
        current = self.tree
        for part in folder.strip("/").split("/"):
            mode, current = self._objects.tree(current).get(part, (0, None)) if current else (0, None)
            if mode != TREE_MODE:
                return None
        return current

    def get(self, path: str) -> bytes | None:
        """Content of a file, None when it is not there."""
        blob = self.blob_id(path)
        return None if blob is None else self._objects.content(blob, "blob")

    def get_json(self, path: str) -> Any:
        """A JSON file's value, None when it is not there.

        Raises:
            InputUnusable: the file is no JSON.
        """
        from infer_forge.base.jsonio import loads

        data = self.get(path)
        return None if data is None else loads(data, where=f"{self.ref}:{path}")

    def children(self, folder: str = "") -> list[str]:
        """Names directly in a folder, in git's order, folders with a `/` at the end; reads no deeper."""
        current = self.tree
        for part in folder.strip("/").split("/") if folder.strip("/") else ():
            mode, current = self._objects.tree(current).get(part, (0, None)) if current else (0, None)
            if mode != TREE_MODE:
                return []
        entries = self._objects.tree(current) if current else {}
        return [f"{name}/" if mode == TREE_MODE else name for name, (mode, _) in entries.items()]

    def files_in(self, folder: str) -> dict[str, str]:
        """name -> sha of its content, of the files directly in a folder, in git's order."""
        tree = self.folder_id(folder)
        entries = self._objects.tree(tree) if tree else {}
        return {name: sha for name, (mode, sha) in entries.items() if mode != TREE_MODE}

    def list(self, prefix: str = "") -> list[str]:
        """Paths of all files whose path starts with `prefix`, in git's order."""
        return [path for path, _ in self._files(prefix)]

    def entries(self, prefix: str = "") -> dict[str, str]:
        """path -> sha of its content, below `prefix`: what an index compares to find what is new."""
        return dict(self._files(prefix))

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes]]:
        """(path, content) of all files below `prefix`, streamed."""
        for path, blob in self._files(prefix):
            yield path, self._objects.content(blob, "blob")

    def _files(self, prefix: str) -> Iterator[tuple[str, str]]:
        return iter(()) if self.tree is None else self._objects.files(self.tree, prefix)
