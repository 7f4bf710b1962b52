"""Python libraries that act elsewhere: web clients, the model hub, object stores, ssh, Kubernetes, git, forges, archives.

Like the rest of what Python code does, each call becomes the shell command that does the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from infer_forge.guard.model import Word

_METHODS = frozenset(("post", "put", "patch", "delete", "request", "urlopen"))
_HUB_UPLOADS = r"^(?:upload_\w+|create_commit\w*|push_to_hub\w*|duplicate_\w+)$"
_HUB_CHANGES = r"^(?:create|delete|move|update|super_squash|add|merge|comment)_\w+$"
_STORE_WRITES = r"^(?:upload|put|copy)(?:_|$)"
_STORE_DELETES = r"^(?:delete|terminate|remove|rm)(?:_|$)"
_KUBE = r"^(delete|create|patch|replace)_(?:namespaced_|collection_namespaced_)?(\w+)$"
_FORGE = r"^(?:create|delete|edit|merge|add|remove|update|upload|close)(?:_\w+)?$"
_GIT_KEYWORDS = ("force", "tags", "hard", "mirror", "delete", "all", "no_verify", "force_with_lease", "amend")


def call(code: Any, node: ast.Call, name: str) -> bool:
    """Whether `name` is a call of one of these libraries; its command is then emitted.

    Args:
        code: the pass over the module (`pycode`), which knows names and values.
        node: the call.
        name: its dotted name behind imports and assignments, such as `requests.Session().post`.
    """
    head, _, last = name.rpartition(".")
    if last in ("push_to_hub", "push_to_hub_mixin"):
        return _hub(code, node, head, last)
    for beginnings, handler in _LIBRARIES:
        if name.startswith(beginnings):
            return handler(code, node, head, last)
    return False


def _value(code: Any, node: ast.expr | None) -> ast.expr | None:
    return code.values.get(node.id, node) if isinstance(node, ast.Name) else node


def _given(node: ast.Call, at: int, *names: str) -> ast.expr | None:
    named = next((k.value for k in node.keywords if k.arg in names), None)
    return named if named is not None else node.args[at] if len(node.args) > at else None


def _root(node: ast.expr, code: Any, wanted: str) -> ast.Call | None:
    """The call below an expression whose name ends in `wanted`: `Connection("h")` below `Connection("h").run`."""
    for _ in range(12):
        found = _value(code, node)
        if isinstance(found, ast.Call):
            if code.dotted(found.func).endswith(wanted):
                return found
            node = found.func
        elif isinstance(found, ast.Attribute):
            node = found.value
        else:
            return None
    return None


def _is_file(code: Any, node: ast.expr | None) -> bool:
    found = _value(code, node)
    return isinstance(found, ast.Call) and code.dotted(found.func) in ("open", "io.open")


def _web(code: Any, node: ast.Call, _head: str, last: str) -> bool:
    """A request that sends something, as curl; reading ones are left alone."""
    if last not in _METHODS:
        return False
    method, url, data = last.upper(), _given(node, 0, "url"), _given(node, 1, "data", "json", "content")
    if last == "request":
        method, url = (code.text(_given(node, 0, "method")) or "POST").upper(), _given(node, 1, "url")
        data = _given(node, 9, "data", "json", "content")
    elif last == "urlopen":
        request = _value(code, url)
        if isinstance(request, ast.Call):
            url, data = _given(request, 0, "url"), _given(request, 1, "data") or data
            method = code.text(_given(request, 9, "method")) or "POST"
        if data is None and method in ("URLOPEN", "GET"):
            return True
        method = "POST" if method == "URLOPEN" else method.upper()
    text = code.text(url) or _beginning(code, url)
    if method in ("GET", "HEAD", "OPTIONS") or not text:
        return True
    words = [Word("-X"), Word(method)]
    files = _given(node, 9, "files")
    if files is not None or _is_file(code, data):
        words += [Word("-F"), Word(f"file=@{_file_of(code, files if files is not None else data)}", quoted=True)]
    elif data is not None:
        words += [Word("-d"), Word(ast.unparse(data)[:2000], quoted=True)]
    code.emit("curl", [*words, Word(text, quoted=True)], f"{last}()")
    return True


def _beginning(code: Any, node: ast.expr | None) -> str | None:
    """What is known of a URL up to its first unknown piece."""
    found = _value(code, node)
    if isinstance(found, ast.JoinedStr):
        made = ""
        for piece in found.values:
            text = code.text(piece.value if isinstance(piece, ast.FormattedValue) else piece)
            if text is None:
                break
            made += text
        return made or None
    return (code.text(found.left) or _beginning(code, found.left)) if isinstance(found, ast.BinOp) else None


def _file_of(code: Any, node: ast.expr | None) -> str:
    """The path that is opened somewhere in an expression, or a name for a file that is not known."""
    for step in ast.walk(node) if node is not None else ():
        found = _value(code, step) if isinstance(step, ast.expr) else None
        if isinstance(found, ast.Call) and code.dotted(found.func) in ("open", "io.open") and found.args:
            return code.text(found.args[0]) or "file"
    return "file"


def _hub(code: Any, node: ast.Call, _head: str, last: str) -> bool:
    if re.match(_HUB_UPLOADS, last):
        repo = code.text(_given(node, 9 if last.startswith("upload") else 0, "repo_id")) or "repo"
        path = code.text(_given(node, 0, "folder_path", "path_or_fileobj")) if last.startswith("upload") else None
        code.emit("hf", [Word("upload"), Word(repo), *([Word(path, quoted=True)] if path else [])], last)
    elif re.match(_HUB_CHANGES, last):
        code.emit("hf", [Word("repo"), Word("delete" if last.startswith("delete") else "settings")], last)
    return True


def _store(code: Any, node: ast.Call, head: str, last: str) -> bool:
    if re.match(_STORE_DELETES, last):
        code.emit("aws", [Word("s3"), Word("rm"), Word("s3://bucket/key")], f"{head.split('.')[0]}: {last}")
    elif re.match(_STORE_WRITES, last):
        path = code.text(_given(node, 0, "Filename", "filename", "lpath")) or "file"
        code.emit("aws", [Word("s3"), Word("cp"), Word(path, quoted=True), Word("s3://bucket/key")], last)
    return True


def _remote(code: Any, node: ast.Call, head: str, last: str) -> bool:
    """paramiko and fabric: a command on another host, or a file that goes there."""
    if last == "connect":
        code.host = code.text(_given(node, 0, "hostname")) or code.host
        return True
    made = _root(node.func, code, "Connection")
    host = (code.text(_given(made, 0, "host")) if made is not None else None) or code.host or "unknown-host"
    if last in ("exec_command", "run", "sudo"):
        command = code.word(_given(node, 0, "command"))
        prefix = [Word("sudo")] if last == "sudo" else []
        code.emit("ssh", [Word(host.rpartition("@")[2]), *prefix, command], f"{head.split('.')[0]}: {last}")
    elif last in ("put", "putfo"):
        code.emit("scp", [code.word(_given(node, 0, "local")), Word(f"{host}:there")], last)
    return True


def _kube(code: Any, node: ast.Call, _head: str, last: str) -> bool:
    match = re.match(_KUBE, last)
    if match is None:
        return False
    verb, kind = match.groups()
    if "collection" in last:
        code.emit("kubectl", [Word(verb), Word(kind), Word("--all")], last)
        return True
    space = code.text(_given(node, 1, "namespace"))
    words = [Word(verb), Word(kind.replace("_", "")), Word(code.text(_given(node, 0, "name")) or "unknown")]
    code.emit("kubectl", [*words, *([Word("-n"), Word(space)] if space else [])], last)
    return True


def _git(code: Any, node: ast.Call, head: str, last: str) -> bool:
    """GitPython: `repo.git.VERB(words, flag=True)`, `repo.remotes.NAME.push(...)`, `repo.head.reset(working_tree=True)`."""
    made = _root(node.func, code, "Repo")
    place = code.text(made.args[0]) if made is not None and made.args else None
    words: list[Word] = [Word("-C"), Word(place, quoted=True)] if place not in (None, ".") else []
    true = [k.arg for k in node.keywords if k.arg and not (isinstance(k.value, ast.Constant) and not k.value.value)]
    flags = [Word(f"--{f.replace('_', '-')}") for f in true if f in _GIT_KEYWORDS]
    given = [code.word(a) for a in node.args]
    remote = re.search(r"\.remotes\.(\w+)$", head)
    called = _root(node.func, code, ".remote")
    if head.endswith(".git"):
        code.emit("git", [*words, Word(last.replace("_", "-")), *flags, *given], f"git.{last}")
    elif last == "push":
        name = remote.group(1) if remote else code.text(_given(called, 0, "name")) if called is not None else None
        given = given or [code.word(k.value) for k in node.keywords if k.arg == "refspec"]
        code.emit("git", [*words, Word("push"), *flags, Word(name or "origin"), *given], "GitPython push")
    elif last == "reset" and "working_tree" in true:
        code.emit("git", [*words, Word("reset"), Word("--hard"), *given], "GitPython reset")
    elif last == "commit" and "skip_hooks" in true:
        code.emit("git", [*words, Word("commit"), Word("--no-verify"), Word("-m"), Word("x")], "GitPython commit")
    return True


def _forge(code: Any, _node: ast.Call, _head: str, last: str) -> bool:
    if re.match(_FORGE, last):
        hard = last.startswith(("merge", "delete", "update", "remove"))
        code.emit("gh", [Word("pr"), Word("merge" if hard else "comment")], f"github: {last}")
    return True


def _archive(code: Any, node: ast.Call, _head: str, last: str) -> bool:
    """Unpacking: where the files go is what counts."""
    if last not in ("extractall", "extract", "unpack_archive"):
        return False
    folder = _given(node, 0 if last == "extractall" else 1, "path", "extract_dir")
    if folder is not None:
        code.emit("tar", [Word("-xf"), Word("archive.tar"), Word("-C"), code.word(folder)], last)
    return True


_Handler = Callable[[Any, ast.Call, str, str], bool]
_LIBRARIES: tuple[tuple[tuple[str, ...], _Handler], ...] = (
    (("requests.", "httpx.", "aiohttp.", "urllib3.", "urllib.request."), _web),
    (("huggingface_hub.",), _hub),
    (("boto3.", "google.cloud.", "azure.", "s3fs.", "gcsfs.", "minio.", "oss2."), _store),
    (("paramiko.", "fabric."), _remote),
    (("kubernetes.",), _kube),
    (("git.Repo",), _git),
    (("github.", "gitlab."), _forge),
    (("tarfile.", "zipfile.", "shutil.unpack_archive"), _archive),
)
