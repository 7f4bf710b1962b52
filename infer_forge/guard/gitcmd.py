"""git command lines: global options, aliases and command variables, and what the repository's configuration says."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import Cmd, Word

_VALUE_GLOBALS = (
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--super-prefix",
    "--config-env",
    "--attr-source",
)
_SHELL_KEYS = re.compile(
    r"^(?:core\.(?:pager|editor|sshcommand|askpass|fsmonitor|gitproxy|alternaterefscommand)|sequence\.editor|pager\.\w+|credential(?:\..*)?\.helper"
    r"|diff\.external|diff\..*\.(?:command|textconv)|merge\..*\.driver|mergetool\..*\.cmd|difftool\..*\.cmd|gpg(?:\..*)?\.program"
    r"|filter\..*\.(?:clean|smudge|process)|uploadpack\.packobjectshook|sendemail\.(?:tocmd|cccmd)|browser\..*\.cmd|man\..*\.cmd|interactive\.difffilter"
    r"|submodule\..*\.update|remote\..*\.(?:uploadpack|receivepack|vcs))$",
    re.IGNORECASE,
)


class Git:
    """A parsed git command line.

    Attributes:
        verb: the subcommand, aliases resolved where the configuration can be read.
        args: the words behind it.
        config: `-c key=value` pairs, keys in lower case.
        cwds: folders after every `-C`.
    """

    __slots__ = ("args", "config", "cwds", "git_dir", "verb")

    def __init__(self, cmd: Cmd) -> None:
        from infer_forge.guard.shells import moved

        argv = cmd.argv
        self.config: dict[str, str] = {}
        self.cwds = cmd.cwds
        self.git_dir: str | None = None
        i = 1
        while i < len(argv):
            text = argv[i].text
            value = argv[i + 1] if i + 1 < len(argv) else Word("")
            if text == "-C":
                self.cwds = moved(self.cwds, value)
            elif text == "-c" or text == "--config-env":
                key, _, setting = value.text.partition("=")
                self.config[key.lower()] = setting
            elif text == "--git-dir":
                self.git_dir = value.text
            elif text.startswith("--git-dir="):
                self.git_dir = text[10:]
            elif not text.startswith("-"):
                break
            i += 2 if text in _VALUE_GLOBALS else 1
        self.verb = argv[i].text if i < len(argv) else ""
        self.args = argv[i + 1 :]
        if self.verb in ("clone", "init"):
            for at, word in enumerate(self.args):
                pair = word.text.partition("=")[2] if word.text.startswith("--config=") else ""
                if word.text in ("-c", "--config") and at + 1 < len(self.args):
                    pair = self.args[at + 1].text
                key, _, setting = pair.partition("=")
                if key:
                    self.config[key.lower()] = setting
        for name, value in cmd.env.items():
            if name == "GIT_DIR":
                self.git_dir = value.text
            elif re.match(r"GIT_CONFIG_KEY_\d+$", name):
                setting = cmd.env.get(name.replace("KEY", "VALUE"))
                self.config[value.text.lower()] = setting.text if setting else ""
            elif name == "GIT_CONFIG_PARAMETERS":
                for pair in re.findall(r"'([^']*)'", value.text):
                    key, _, setting_text = pair.partition("=")
                    self.config[key.lower()] = setting_text

    def texts(self) -> list[str]:
        """Plain texts of the arguments."""
        return [w.text for w in self.args]


_OF_HUB = frozenset(
    (
        "api",
        "browse",
        "ci-status",
        "compare",
        "create",
        "delete",
        "fork",
        "gist",
        "issue",
        "pr",
        "pull-request",
        "release",
    )
)
"""hub(1): its own verbs; every other one is handed to git."""


def hub(cmd: Cmd, walk: Any) -> None:
    """`hub VERB` is `git VERB` for the verbs of git."""
    if len(cmd.argv) > 1 and cmd.argv[1].text not in _OF_HUB:
        walk.emit(cmd.inner([Word("git"), *cmd.argv[1:]], "hub"))


def unwrap(cmd: Cmd, walk: Any) -> None:
    """Open what git itself runs: aliases, command settings, `rebase --exec`, `bisect run`, `submodule foreach`."""
    git = Git(cmd)
    for key, value in git.config.items():
        if key.startswith("alias.") and value:
            _alias(value, cmd, walk, git.args if key == f"alias.{git.verb}" else [])
        elif _SHELL_KEYS.match(key) and value:
            walk.nested(value.lstrip("!"), cmd, f"git -c {key}", stdin=None)
    texts = git.texts()
    if git.verb == "config" and len(texts) >= 2:
        plain = [t for t in texts if not t.startswith("-") and t not in ("set", "get", "add")]
        if len(plain) >= 2:
            if plain[0].lower().startswith("alias."):
                _alias(plain[1], cmd, walk, [])
            elif _SHELL_KEYS.match(plain[0]) and not plain[0].startswith("credential"):
                walk.nested(plain[1].lstrip("!"), cmd, f"git config {plain[0]}", stdin=None)
    elif git.verb == "bisect" and texts[:1] == ["run"] and len(git.args) > 1:
        walk.emit(cmd.inner(git.args[1:], "git bisect run", cwds=git.cwds))
    elif git.verb == "submodule" and "foreach" in texts:
        rest = [w for w in git.args[texts.index("foreach") + 1 :] if w.text not in ("--recursive", "--quiet", "-q")]
        walk.nested(" ".join(w.text for w in rest), cmd, "git submodule foreach", stdin=None)
    elif git.verb in (
        "rebase",
        "filter-branch",
        "difftool",
        "mergetool",
        "grep",
        "ls-remote",
        "fetch",
        "clone",
        "pull",
        "push",
        "archive",
    ):
        options = (
            "-x",
            "--exec",
            "--tree-filter",
            "--index-filter",
            "--msg-filter",
            "--env-filter",
            "--commit-filter",
            "--extcmd",
            "--upload-pack",
            "-u",
            "--receive-pack",
            "--open-files-in-pager",
            "-O",
        )
        for i, text in enumerate(texts):
            name, eq, value = text.partition("=")
            if name in options and name not in (
                ("-u", "-x", "-O") if git.verb in ("push", "fetch", "pull", "clone") else ()
            ):
                payload = value if eq else texts[i + 1] if i + 1 < len(texts) and not name.startswith("--open") else ""
                if payload and (git.verb != "grep" or name in ("-O", "--open-files-in-pager")):
                    walk.nested(payload, cmd, f"git {git.verb} {name}", stdin=None)
    elif git.verb and git.verb not in _KNOWN and f"alias.{git.verb}" not in git.config:
        value = repository(git.cwds[0] if git.cwds else None, git.git_dir, walk.shell.ctx.home).get(
            f"alias.{git.verb}", [""]
        )[-1]
        if value:
            _alias(value, cmd, walk, git.args)
    for text in texts:
        match = re.match(r"ext::(.+)", text)
        if match:
            walk.nested(match.group(1).replace("% ", " "), cmd, "git ext::", stdin=None)


def _alias(value: str, cmd: Cmd, walk: Any, args: list[Word]) -> None:
    if len([v for v in cmd.via if v == "git alias"]) > 3:
        return
    if value.startswith("!"):
        tail = " ".join("'" + w.text.replace("'", "'\\''") + "'" for w in args)
        walk.nested(f"{value[1:]} {tail}".rstrip(), cmd, "git alias", stdin=None)
    else:
        walk.nested(
            f"git {value} " + " ".join("'" + w.text.replace("'", "'\\''") + "'" for w in args),
            cmd,
            "git alias",
            stdin=None,
        )


_KNOWN = frozenset(
    [
        "add",
        "am",
        "annotate",
        "apply",
        "archive",
        "bisect",
        "blame",
        "branch",
        "bundle",
        "cat-file",
        "check-attr",
        "check-ignore",
        "checkout",
        "cherry",
        "cherry-pick",
        "clean",
        "clone",
        "commit",
        "commit-tree",
        "config",
        "count-objects",
        "describe",
        "diff",
        "diff-tree",
        "diff-index",
        "difftool",
        "fetch",
        "filter-branch",
        "filter-repo",
        "for-each-ref",
        "format-patch",
        "fsck",
        "gc",
        "grep",
        "hash-object",
        "help",
        "init",
        "log",
        "ls-files",
        "ls-remote",
        "ls-tree",
        "maintenance",
        "merge",
        "merge-base",
        "mergetool",
        "mktag",
        "mktree",
        "mv",
        "name-rev",
        "notes",
        "pull",
        "push",
        "range-diff",
        "read-tree",
        "rebase",
        "reflog",
        "remote",
        "repack",
        "replace",
        "rerere",
        "reset",
        "restore",
        "rev-list",
        "rev-parse",
        "revert",
        "rm",
        "send-email",
        "shortlog",
        "show",
        "show-ref",
        "show-branch",
        "sparse-checkout",
        "stash",
        "status",
        "submodule",
        "subtree",
        "switch",
        "symbolic-ref",
        "tag",
        "update-index",
        "update-ref",
        "var",
        "verify-commit",
        "version",
        "whatchanged",
        "worktree",
        "write-tree",
        "lfs",
        "citool",
        "gui",
    ]
)


# ---------------------------------------------------------------- configuration files


def git_dir_of(cwd: str | None, explicit: str | None = None) -> str | None:
    """The .git folder that git would use in a folder; None when there is none."""
    if explicit:
        path = explicit if explicit.startswith("/") else os.path.join(cwd or "/", explicit)
        return path if os.path.isdir(path) else None
    step = cwd
    while step:
        dot = os.path.join(step, ".git")
        if os.path.isdir(dot):
            return dot
        if os.path.isfile(dot):
            try:
                with open(dot, encoding="utf-8", errors="replace") as file:
                    line = file.read(4096)
            except OSError:
                return None
            if line.startswith("gitdir:"):
                path = line[7:].strip()
                return path if path.startswith("/") else os.path.normpath(os.path.join(step, path))
            return None
        if os.path.isfile(os.path.join(step, "HEAD")) and os.path.isdir(os.path.join(step, "refs")):
            return step
        parent = os.path.dirname(step)
        if parent == step:
            return None
        step = parent
    return None


def common_dir(git_dir: str) -> str:
    """The folder with the shared configuration (a worktree has its own HEAD only)."""
    try:
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8") as file:
            path = file.read().strip()
    except OSError:
        return git_dir
    return path if path.startswith("/") else os.path.normpath(os.path.join(git_dir, path))


def repository(cwd: str | None, explicit: str | None, home: str) -> dict[str, list[str]]:
    """All settings that apply in a folder: system, user, repository; each key (lower case) with its values in order."""
    settings: dict[str, list[str]] = {}
    for path in ("/etc/gitconfig", os.path.join(home, ".config/git/config"), os.path.join(home, ".gitconfig")):
        read_config(path, settings)
    git_dir = git_dir_of(cwd, explicit)
    if git_dir:
        common = common_dir(git_dir)
        read_config(os.path.join(common, "config"), settings)
        if common != git_dir:
            read_config(os.path.join(git_dir, "config.worktree"), settings)
    return settings


def read_config(path: str, into: dict[str, list[str]], level: int = 0) -> None:
    """Read one git configuration file and its includes (conditional ones too: what could apply counts)."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(256 * 1024)
    except OSError:
        return
    section = ""
    for raw in text.replace("\\\n", "").split("\n"):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        head = re.match(r'^\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]\s*(.*)$', line)
        if head:
            section = head.group(1).lower() + (f".{_unquote(head.group(2))}" if head.group(2) is not None else "")
            line = head.group(3)
            if not line:
                continue
        key, eq, value = line.partition("=")
        name = f"{section}.{key.strip().lower()}"
        setting = _value(value.strip()) if eq else "true"
        into.setdefault(name, []).append(setting)
        if name.startswith("include") and name.endswith(".path") and level < 4:
            inner = os.path.expanduser(setting)
            read_config(inner if inner.startswith("/") else os.path.join(os.path.dirname(path), inner), into, level + 1)


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _value(text: str) -> str:
    out: list[str] = []
    quoted = False
    i = 0
    while i < len(text):
        c = text[i]
        if c == '"':
            quoted = not quoted
        elif c == "\\" and i + 1 < len(text):
            i += 1
            out.append({"n": "\n", "t": "\t"}.get(text[i], text[i]))
        elif c in "#;" and not quoted:
            break
        else:
            out.append(c)
        i += 1
    return "".join(out).strip()


def head_branch(cwd: str | None, explicit: str | None = None) -> str | None:
    """The branch that HEAD points to; None when detached or unreadable."""
    git_dir = git_dir_of(cwd, explicit)
    if not git_dir:
        return None
    try:
        with open(os.path.join(git_dir, "HEAD"), encoding="utf-8") as file:
            line = file.read(4096).strip()
    except OSError:
        return None
    return line[16:] if line.startswith("ref: refs/heads/") else None


def push_urls(remote: str, settings: dict[str, list[str]]) -> list[str]:
    """Where a push to a remote really goes: pushurl before url, then pushInsteadOf and insteadOf."""
    pushed = settings.get(f"remote.{remote}.pushurl")
    urls = pushed or settings.get(f"remote.{remote}.url") or []
    return [rewritten(u, settings, push=not pushed) for u in urls]


def rewritten(url: str, settings: dict[str, list[str]], *, push: bool = True) -> str:
    """A URL after `url.<base>.insteadOf` (longest match wins, as git does)."""
    best: tuple[int, str] = (0, url)
    for suffix in ((".pushinsteadof",) if push else ()) + (".insteadof",):
        for key, values in settings.items():
            if key.startswith("url.") and key.endswith(suffix):
                base = key[4 : -len(suffix)]
                for value in values:
                    if value and url.startswith(value) and len(value) > best[0]:
                        best = (len(value), base + url[len(value) :])
        if best[0]:
            return best[1]
    return best[1]


def same_url(a: str, b: str) -> bool:
    """Whether two spellings name one repository: scheme, user, port 22/443, `.git` and case of the host do not count."""
    return canonical_url(a) == canonical_url(b)


def canonical_url(url: str) -> str:
    """`host/path` of a git URL, or the real path of a local one."""
    text = url.strip()
    match = re.match(r"^(?:[a-z][a-z0-9+.-]*://)(?:[^/@]*@)?([^/:]+)(?::\d+)?/(.*)$", text, re.IGNORECASE)
    if match is None and "://" not in text:
        match = re.match(r"^(?:[^/@:]+@)?([^/:]+):(?!\\)/?(.*)$", text)
    if match is None:
        if text.startswith("file://"):
            text = text[7:]
        return os.path.realpath(text).removesuffix("/").removesuffix(".git")
    path = match.group(2).strip("/").removesuffix(".git")
    return f"{match.group(1).lower()}/{path}".rstrip("/").lower()
