"""Containers and pods: what runs inside them, with what of the host inside."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import Cmd, Place, Word
from infer_forge.guard.unwrap import past_options

_VALUE_SHORT = "acehlmpuvwH"
_GLOBAL = (
    "--context",
    "-c",
    "--config",
    "--host",
    "-H",
    "--log-level",
    "-l",
    "--tlscacert",
    "--tlscert",
    "--tlskey",
    "--namespace",
    "-n",
    "--address",
)
_COMPOSE_GLOBAL = (
    "-f",
    "--file",
    "-p",
    "--project-name",
    "--profile",
    "--env-file",
    "--project-directory",
    "--ansi",
    "--parallel",
    "--progress",
)
RUN_VALUES = frozenset(
    [
        "--add-host",
        "--annotation",
        "-a",
        "--attach",
        "--blkio-weight",
        "--cap-add",
        "--cap-drop",
        "--cgroup-parent",
        "--cgroupns",
        "--cidfile",
        "--cpu-period",
        "--cpu-quota",
        "--cpu-shares",
        "-c",
        "--cpus",
        "--cpuset-cpus",
        "--cpuset-mems",
        "--device",
        "--device-cgroup-rule",
        "--dns",
        "--dns-option",
        "--dns-search",
        "--domainname",
        "--entrypoint",
        "-e",
        "--env",
        "--env-file",
        "--expose",
        "--gpus",
        "--group-add",
        "--health-cmd",
        "--health-interval",
        "--health-retries",
        "--health-timeout",
        "-h",
        "--hostname",
        "--ip",
        "--ip6",
        "--ipc",
        "--isolation",
        "--kernel-memory",
        "-l",
        "--label",
        "--label-file",
        "--link",
        "--log-driver",
        "--log-opt",
        "--mac-address",
        "-m",
        "--memory",
        "--memory-reservation",
        "--memory-swap",
        "--mount",
        "--name",
        "--network",
        "--net",
        "--network-alias",
        "--oom-score-adj",
        "--pid",
        "--pids-limit",
        "--platform",
        "-p",
        "--publish",
        "--pull",
        "--restart",
        "--runtime",
        "--security-opt",
        "--shm-size",
        "--stop-signal",
        "--stop-timeout",
        "--storage-opt",
        "--sysctl",
        "--tmpfs",
        "--ulimit",
        "-u",
        "--user",
        "--userns",
        "--uts",
        "-v",
        "--volume",
        "--volume-driver",
        "--volumes-from",
        "-w",
        "--workdir",
        "--detach-keys",
        "--index",
        "--privileged-mode",
    ]
)


def verb_of(cmd: Cmd) -> tuple[list[str], int]:
    """The verb words of a docker command line (`["compose", "down"]`, `["rm"]`) and the index behind them."""
    words = cmd.words()
    i = 1
    while i < len(words) and words[i].startswith("-"):
        i += 2 if words[i] in _GLOBAL and "=" not in words[i] else 1
    if cmd.name == "docker-compose":
        verbs, i = ["compose"], 1
    else:
        verbs = [words[i]] if i < len(words) else []
        i += 1
    if verbs == ["compose"]:
        while i < len(words) and words[i].startswith("-"):
            i += 2 if words[i] in _COMPOSE_GLOBAL else 1
        if i < len(words):
            verbs.append(words[i])
            i += 1
    elif (
        verbs
        and verbs[0]
        in (
            "container",
            "image",
            "volume",
            "network",
            "system",
            "builder",
            "buildx",
            "context",
            "service",
            "swarm",
            "stack",
            "node",
            "secret",
            "config",
            "plugin",
            "manifest",
            "trust",
            "pod",
            "machine",
            "namespace",
            "checkpoint",
        )
        and i < len(words)
    ):
        verbs.append(words[i])
        i += 1
    if verbs and verbs[0] == "container":
        verbs = verbs[1:]
    return verbs, i


def options(cmd: Cmd, start: int) -> tuple[list[tuple[str, Word]], int]:
    """Options (name, value) from `start` on and the index of the first positional word."""
    found: list[tuple[str, Word]] = []
    argv = cmd.argv
    i = start
    while i < len(argv):
        text = argv[i].text
        if text == "--":
            return found, i + 1
        if not text.startswith("-") or text == "-":
            return found, i
        name, eq, _ = text.partition("=")
        if text.startswith("--"):
            if eq:
                found.append((name, argv[i].cut(len(name) + 1)))
                i += 1
            elif name in RUN_VALUES and i + 1 < len(argv):
                found.append((name, argv[i + 1]))
                i += 2
            else:
                found.append((name, Word("true")))
                i += 1
        else:
            at = next((k for k, c in enumerate(text[1:], 1) if f"-{c}" in RUN_VALUES), None)
            found.extend((f"-{c}", Word("true")) for c in text[1 : at if at else None])
            if at is None:
                i += 1
            elif at < len(text) - 1:
                found.append((f"-{text[at]}", argv[i].cut(at + 1 + (text[at + 1] == "="))))
                i += 1
            else:
                found.append((f"-{text[at]}", argv[i + 1] if i + 1 < len(argv) else Word("")))
                i += 2
    return found, i


def mounts_of(found: list[tuple[str, Word]]) -> list[tuple[str, str]]:
    """(host path, path inside) of `-v` and `--mount` options."""
    out: list[tuple[str, str]] = []
    for name, value in found:
        if name in ("-v", "--volume"):
            parts = value.text.split(":")
            if len(parts) > 1 and parts[0].startswith(("/", "~", ".")):
                out.append((parts[0], parts[1]))
        elif name == "--mount":
            pairs = [p.partition("=") for p in value.text.split(",")]
            facts = {key: text for key, _, text in pairs}
            source, target = (
                facts.get("source") or facts.get("src"),
                facts.get("target") or facts.get("dst") or facts.get("destination"),
            )
            if source and target and facts.get("type", "bind") == "bind":
                out.append((source, target))
    return out


def docker(cmd: Cmd, walk: Any) -> None:
    """Open `exec` and `run`, also of compose."""
    verbs, at = verb_of(cmd)
    if not verbs:
        return
    if verbs[-1] == "unshare":
        _, i = options(cmd, at)
        if i < len(cmd.argv):
            walk.emit(cmd.inner(cmd.argv[i:], f"{cmd.name} unshare"))
        return
    scope = walk.scope.copy()
    scope.cwds = (None,)
    outer = walk.scope
    if verbs[-1] == "exec":
        found, i = options(cmd, at)
        if i >= len(cmd.argv):
            return
        target = cmd.argv[i]
        place = Place(cmd.place.node, target.text or "\0unknown", None, False)
        rest = cmd.argv[i + 1 :]
        folder = next((v for k, v in found if k in ("-w", "--workdir")), None)
        cwds: tuple[str | None, ...] = (folder.text if folder and folder.text else None,)
    elif verbs[-1] in ("run", "create") and verbs[0] != "machine":
        found, i = options(cmd, at)
        rest = cmd.argv[i + 1 :]
        values = dict(found)
        host_pids = values.get("--pid", Word("")).text == "host"
        name = values.get("--name", Word("\0new")).text
        borrowed = values.get("--volumes-from")
        if borrowed is not None or verbs[0] == "compose":
            place = Place(cmd.place.node, borrowed.text.split(":")[0] if borrowed else name, None, host_pids)
        else:
            place = Place(cmd.place.node, name or "\0new", mounts_of(found), host_pids)
        entry = values.get("--entrypoint")
        if entry and entry.text:
            rest = [entry, *rest]
        folder = values.get("-w") or values.get("--workdir")
        cwds = (folder.text if folder and folder.text else None,)
    else:
        return
    if rest:
        walk.scope = scope
        try:
            walk.emit(cmd.inner(rest, f"{cmd.name} {verbs[-1]}", place=place, cwds=cwds, env={}))
        finally:
            walk.scope = outer


def kubectl(cmd: Cmd, walk: Any) -> None:
    """Open `exec`, `run -- CMD` and `debug -- CMD`."""
    words = cmd.words()
    verb = next((w for w in words[1:] if not w.startswith("-") and w in ("exec", "run", "debug")), None)
    if verb is None or "--" not in words:
        return
    at = words.index("--")
    target = next(
        (
            w
            for w in words[words.index(verb) + 1 : at]
            if not w.startswith("-") and not re.match(r"^(?:-n|--namespace)$", w)
        ),
        "\0unknown",
    )
    rest = cmd.argv[at + 1 :]
    if rest:
        place = Place(cmd.place.node, target.split("/")[-1], None if verb != "run" else [], False)
        outer, walk.scope = walk.scope, walk.scope.copy()
        try:
            walk.emit(cmd.inner(rest, f"kubectl {verb}", place=place, cwds=(None,), env={}))
        finally:
            walk.scope = outer


def apptainer(cmd: Cmd, walk: Any) -> None:
    """apptainer exec IMAGE CMD: home, /tmp and the working folder are the host's there, so what runs is judged as here."""
    if len(cmd.argv) < 3 or cmd.argv[1].text not in ("exec", "run", "shell", "test"):
        return
    at = past_options(cmd.argv, "BHWoS", _APPTAINER_VALUES, start=2) + 1
    if at < len(cmd.argv):
        walk.emit(cmd.inner(cmd.argv[at:], cmd.name))


_APPTAINER_VALUES = [
    "--bind", "--home", "--workdir", "--overlay", "--scratch", "--env", "--env-file", "--pwd", "--cwd", "--network",
    "--hostname", "--app", "--mount", "--security", "--add-caps", "--drop-caps", "--dns", "--apply-cgroups",
]  # fmt: skip
