"""Git objects: small ones written and read in process.

Writing is ours and not dulwich's: dulwich locks each object by a `.lock` file, which a killed process leaves behind
and which then blocks that content for ever. Git's own way (temporary name, then rename) has no such state.
Reading goes to loose files directly and to dulwich for packs and alternates.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.gitstore.model import Commit

if TYPE_CHECKING:
    from dulwich.object_store import DiskObjectStore

KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
TREE_MODE = 0o040000
FILE_MODE = 0o100644
KEPT_TREES = 4096
Entry = tuple[int, str]


class Objects:
    """The object database of one repository.

    Args:
        gitdir: the repository folder (bare, or the `.git` of a checkout).
        durable: flush each object to the disk before the ref names it.
    """

    def __init__(self, gitdir: Path, *, durable: bool = True) -> None:
        self.folder = gitdir / "objects"
        self.durable = durable
        self._place = str(self.folder)
        self._trees: dict[str, dict[str, Entry]] = {}
        self._packs: DiskObjectStore | None = None

    def _loose(self, sha: str) -> str:
        return f"{self._place}/{sha[:2]}/{sha[2:]}"

    def packs(self) -> DiskObjectStore:
        """dulwich's view of the same folder (packs, alternates)."""
        if self._packs is None:
            from dulwich.object_store import DiskObjectStore

            self._packs = DiskObjectStore(str(self.folder))
            weakref.finalize(self, self._packs.close)  # dulwich warns of packs that nobody closed
        return self._packs

    def close(self) -> None:
        """Let go of open pack files."""
        if self._packs is not None:
            self._packs.close()
            self._packs = None

    def has(self, sha: str) -> bool:
        """Whether the object is here, loose or packed."""
        return os.path.exists(self._loose(sha)) or self.packs().contains_packed(sha.encode())  # pyright: ignore[reportArgumentType]

    def raw(self, sha: str) -> tuple[str, bytes]:
        """Kind and content of an object.

        Raises:
            KeyError: it is not here.
            InputUnusable: its file is damaged.
        """
        try:
            with open(self._loose(sha), "rb", buffering=0) as file:
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            number, content = self.packs().get_raw(sha.encode())  # pyright: ignore[reportArgumentType]
            return KINDS[number], content
        try:
            whole = zlib.decompress(data)
            head, _, content = whole.partition(b"\0")
            if hashlib.sha1(whole, usedforsecurity=False).hexdigest() != sha:
                raise InputUnusable("the object's content is not what its name says", where=self._loose(sha))
            return head.split(b" ", 1)[0].decode(), content
        except zlib.error as exc:
            raise InputUnusable(
                f"the object is damaged ({exc})",
                where=self._loose(sha),
                next_step=f"git -C {self.folder.parent} fsck --full",
            ) from None

    def content(self, sha: str, kind: str) -> bytes:
        """Content of an object that must be of `kind`; a missing one is an `InputUnusable`."""
        try:
            found, data = self.raw(sha)
        except KeyError:
            raise InputUnusable(
                f"{kind} {sha} is missing from the store",
                where=str(self.folder.parent),
                next_step=f"git -C {self.folder.parent} fsck --full",
            ) from None
        if found != kind:
            raise InputUnusable(f"{sha} is a {found}, not a {kind}", where=str(self.folder.parent))
        return data

    def write(self, kind: str, content: bytes) -> str:
        """Write an object unless it is here already; its sha."""
        whole = b"%s %d\0%s" % (kind.encode(), len(content), content)
        sha = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        target = self._loose(sha)
        if _freshen(target):
            return sha
        os.makedirs(os.path.dirname(target), exist_ok=True)
        fd, name = tempfile.mkstemp(dir=self.folder, prefix="tmp_obj_")  # the name that `git gc` cleans up
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(zlib.compress(whole, 1))
                if self.durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.chmod(name, 0o444)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return sha

    def drop_loose(self, sha: str) -> None:
        """Delete a loose object that nothing refers to any more."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._loose(sha))

    # Trees

    def tree(self, sha: str) -> dict[str, Entry]:
        """Entries of a tree: name -> (mode, sha). Kept, since trees never change: do not change what it gives."""
        from dulwich.objects import parse_tree

        known = self._trees.get(sha)
        if known is None:
            entries = parse_tree(self.content(sha, "tree"), 20)
            known = {name.decode("utf-8", "surrogateescape"): (mode, _hex(child)) for name, mode, child in entries}
            if len(self._trees) >= KEPT_TREES:
                self._trees.clear()
            self._trees[sha] = known
        return known

    def write_tree(self, entries: Mapping[str, Entry]) -> str:
        """Write a tree in git's order; its sha."""
        keyed = sorted(
            (name.encode() + (b"/" if mode == TREE_MODE else b""), name, mode, sha)
            for name, (mode, sha) in entries.items()
        )
        return self.write(
            "tree", b"".join(b"%o %s\0%s" % (mode, name.encode(), bytes.fromhex(sha)) for _, name, mode, sha in keyed)
        )

    def changed_tree(self, root: str | None, put: Mapping[str, str], delete: frozenset[str]) -> str:
        """Write `root` with files put (path -> blob sha) and paths deleted; only the folders on their way are rewritten."""
        made = self._change(root, [(p.split("/"), s) for p, s in put.items()], [p.split("/") for p in delete])
        return made or self.write_tree({})

    def _change(self, sha: str | None, put: list[tuple[list[str], str]], delete: list[list[str]]) -> str | None:
        entries = dict(self.tree(sha)) if sha else {}
        below: dict[str, tuple[list[tuple[list[str], str]], list[list[str]]]] = {}
        for parts in delete:
            if len(parts) == 1:
                entries.pop(parts[0], None)
            else:
                below.setdefault(parts[0], ([], []))[1].append(parts[1:])
        for parts, blob in put:
            if len(parts) == 1:
                if entries.get(parts[0], (FILE_MODE, ""))[0] == TREE_MODE:
                    raise UsageFault("a folder of the store has this name", where=parts[0])
                entries[parts[0]] = (FILE_MODE, blob)
            else:
                below.setdefault(parts[0], ([], []))[0].append((parts[1:], blob))
        for name, (puts, deletes) in below.items():
            mode, old = entries.get(name, (TREE_MODE, ""))
            if mode != TREE_MODE:
                if puts:
                    raise UsageFault("a file of the store has this name", where=name)
                continue
            child = self._change(old or None, puts, deletes)
            if child is None:
                entries.pop(name, None)
            else:
                entries[name] = (TREE_MODE, child)
        return self.write_tree(entries) if entries else None

    def files(self, tree: str, prefix: str = "") -> Iterator[tuple[str, str]]:
        """All files below `prefix` (a folder, or a file, or the start of names in a folder): (path, blob sha), in order."""
        folder, _, start = prefix.rpartition("/")
        current = tree
        for part in folder.split("/") if folder else ():
            mode, current = self.tree(current).get(part, (0, ""))
            if mode != TREE_MODE:
                return
        yield from self._walk(current, f"{folder}/" if folder else "", start)

    def _walk(self, tree: str, path: str, start: str = "") -> Iterator[tuple[str, str]]:
        for name, (mode, sha) in self.tree(tree).items():
            if name.startswith(start):
                if mode == TREE_MODE:
                    yield from self._walk(sha, f"{path}{name}/")
                else:
                    yield path + name, sha

    # Commits

    def write_commit(self, tree: str, parent: str | None, author: str, when: int, message: str) -> str:
        """Write a commit; its sha."""
        stamp = f"{author} {when} +0000"
        head = f"tree {tree}\n" + (f"parent {parent}\n" if parent else "")
        return self.write("commit", f"{head}author {stamp}\ncommitter {stamp}\n\n{message}".encode())

    def commit(self, sha: str) -> Commit:
        """Read a commit."""
        return parse_commit(sha, self.content(sha, "commit"))


def parse_commit(sha: str, content: bytes) -> Commit:
    """Read a commit's text."""
    head, _, body = content.decode("utf-8", "replace").partition("\n\n")
    fields: dict[str, str] = {}
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        fields.setdefault(key, value)
    author, _, rest = fields.get("author", "").rpartition("> ")
    message, trailers = split_trailers(body)
    when = rest.split(" ")[0]
    return Commit(
        id=sha,
        parent=fields.get("parent"),
        tree=fields["tree"],
        message=message,
        trailers=trailers,
        author=f"{author}>",
        time=int(when) if when.lstrip("-").isdigit() else 0,
    )


def split_trailers(body: str) -> tuple[str, dict[str, str]]:
    """A commit message's text and the `Key: value` lines of its last paragraph."""
    text, _, last = body.rstrip("\n").rpartition("\n\n")
    lines = last.split("\n")
    pairs = [line.partition(": ") for line in lines]
    if text and all(sep and key and " " not in key for key, sep, _ in pairs):
        return text, {key: value for key, _, value in pairs}
    return body.rstrip("\n"), {}


def join_trailers(message: str, trailers: Mapping[str, str]) -> str:
    """A commit message with its trailers; line breaks inside a value become spaces."""
    lines = [f"{key}: {' '.join(str(value).split())}" for key, value in trailers.items()]
    return f"{message.strip() or 'update'}\n\n" + "\n".join(lines) + "\n"


def check_path(path: str) -> str:
    """A path that every git accepts in a tree.

    Raises:
        UsageFault: it is empty, absolute, climbs, or has a part that `git fsck --strict` refuses.
    """
    for part in path.split("/"):
        bad = part in ("", ".", "..") or part.lower().rstrip(". ") in (".git", "git~1", ".gitmodules")
        if bad or any(ord(c) < 32 or c == "\\" for c in part):
            raise UsageFault("is no path that the store can hold", where=repr(path))
    return path


def _freshen(path: str) -> bool:
    """Renew the age of an object that is here, so that it is not pruned before a commit names it; False: not here."""
    try:
        os.utime(path)
    except OSError:
        return False
    return True


def _hex(sha: bytes) -> str:
    """dulwich gives 20 raw bytes in one build and 40 hex digits in another."""
    return sha.hex() if len(sha) == 20 else sha.decode()
