"""Containers and images: only those of the run, by exact name or id; nothing by filter, nothing at large."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.boxes import mounts_of, options, verb_of
from infer_forge.guard.context import OWNED, STALE
from infer_forge.guard.model import ASK, DENY, Cmd, Word
from infer_forge.guard.rules import gpu, option
from infer_forge.guard.rules.where import matches

_READ = frozenset(
    [
        "ps",
        "ls",
        "list",
        "images",
        "logs",
        "inspect",
        "top",
        "stats",
        "port",
        "diff",
        "version",
        "info",
        "history",
        "events",
        "search",
        "df",
        "wait",
        "attach-readonly",
        "context",
        "login-status",
    ]
)
_CHANGE = frozenset(
    [
        "rm",
        "kill",
        "stop",
        "restart",
        "pause",
        "unpause",
        "update",
        "rename",
        "exec",
        "cp",
        "attach",
        "start",
        "commit",
        "export",
        "remove",
    ]
)


def docker(cmd: Cmd, bench: Any) -> None:
    """docker, podman, nerdctl and compose."""
    verbs, at = verb_of(cmd)
    if not verbs:
        return
    verb = verbs[-1]
    if verbs[0] == "compose":
        _compose(verb, cmd, bench)
    elif verb == "prune":
        bench.hit(
            DENY, "containers.prune", f"{cmd.name} {' '.join(verbs)} removes what other runs left on purpose", cmd
        )
    elif verbs[0] in ("image", "rmi") or verb == "rmi":
        if verb in ("rm", "rmi", "remove"):
            bench.hit(ASK, "containers.image", "other runs may be using the image, and it is long to pull again", cmd)
    elif verbs[0] in ("volume", "network") and verb in ("rm", "remove", "disconnect"):
        bench.hit(
            DENY if verbs[0] == "volume" else ASK, "containers.volume", f"whose {verbs[0]} this is is not proved", cmd
        )
    elif verbs[0] in ("swarm", "service", "stack", "node", "plugin") and verb not in ("ls", "ps", "inspect", "logs"):
        bench.hit(DENY, "containers.cluster", f"{cmd.name} {' '.join(verbs)} changes a service that others use", cmd)
    elif verbs[0] == "pod" and verb in ("rm", "stop", "kill", "restart", "pause"):
        bench.hit(DENY, "containers.foreign", "whose pod this is is not proved", cmd)
    elif verbs[0] == "context" and verb in ("use", "rm", "update", "import"):
        bench.hit(ASK, "containers.engine", "this changes which container engine later commands reach", cmd)
    elif verbs[0] in ("system", "machine") and verb in ("reset", "rm", "stop", "migrate", "renumber"):
        bench.hit(DENY, "containers.prune", f"{cmd.name} {' '.join(verbs)} reaches all containers of the node", cmd)
    elif verb in ("run", "create") and verbs[0] not in ("secret", "config", "volume", "network", "context"):
        _run(cmd, bench, at)
    elif verb in _CHANGE and len(verbs) == 1:
        _targets(verb, cmd, bench, at)


def _targets(verb: str, cmd: Cmd, bench: Any, at: int) -> None:
    found, i = options(cmd, at)
    rest = [w for w in cmd.argv[i:] if not w.text.startswith("-") or w.dyn]
    if verb == "exec":
        rest = rest[:1]
        if any(k == "--privileged" for k, _ in found):
            bench.hit(ASK, "containers.privileged", "a privileged process in the container reaches the host", cmd)
    elif verb in ("cp", "commit", "export", "rename"):
        if verb == "cp":
            if len(rest) < 2 or ":" not in rest[-1].text:
                return
            rest = [Word(rest[-1].text.split(":")[0])]
        elif verb == "export" or verb == "commit":
            return
        else:
            rest = rest[:1]
    if any(k in ("-a", "--all", "-l", "--latest", "--filter") for k, _ in found) and verb in (
        "rm",
        "stop",
        "kill",
        "restart",
        "pause",
    ):
        bench.hit(DENY, "containers.foreign", f"{cmd.name} {verb} reaches containers that it does not name", cmd)
    for word in rest:
        if word.dyn:
            by_list = any(s.name in ("docker", "podman", "nerdctl", "grep", "awk", "xargs") for s in word.sources)
            bench.hit(
                DENY if by_list or not bench.ctx.present else ASK,
                "containers.foreign",
                "which containers this reaches is not known, and a list is no proof",
                cmd,
                targets=("(unknown)",),
            )
            continue
        state = bench.ctx.container(word.text) if bench.here(cmd) and not _elsewhere(cmd, at, bench) else "foreign"
        if state == STALE:
            bench.hit(
                ASK,
                "containers.stale",
                f"the proof for container {word.text} is older than 60 s",
                cmd,
                safer=f"infer-forge guard own --container {word.text}",
                targets=(word.text,),
            )
        elif state != OWNED:
            bench.hit(
                DENY,
                "containers.foreign",
                f"container {word.text} is not proved to be this run's",
                cmd,
                targets=(word.text,),
            )


def _elsewhere(cmd: Cmd, at: int, bench: Any) -> bool:
    """Whether another engine than this node's is meant: `-H ssh://host`, `--context prod`, DOCKER_HOST, DOCKER_CONTEXT."""
    before = [c for c in bench.shell.cmds if c.name in ("", "export") and c.span < cmd.span]
    named = [
        c.env[n] for n in ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST") for c in (*before, cmd) if n in c.env
    ]
    for i, word in enumerate(cmd.argv[1:at], 1):
        name, equals, _ = word.text.partition("=")
        if name in ("-H", "--host", "--context", "-c", "--url", "--connection"):
            named.append(word.cut(len(name) + 1) if equals else cmd.argv[i + 1])
        elif word.text.startswith("-H") and len(word.text) > 2:
            named.append(word.cut(2))
    return any(w.dyn or (w.text not in ("", "default") and not w.text.startswith("unix://")) for w in named)


def _compose(verb: str, cmd: Cmd, bench: Any) -> None:
    if verb in ("down", "rm", "kill", "stop", "restart", "pause", "start"):
        bench.hit(
            ASK if bench.ctx.present else DENY,
            "containers.compose",
            "whether this run created the compose project is not proved",
            cmd,
        )


def _run(cmd: Cmd, bench: Any, at: int) -> None:
    found, _ = options(cmd, at)
    values = dict(found)
    gpus = values.get("--gpus")
    if gpus is not None:
        gpu.requested(gpus, cmd, bench)
    for name in ("--pid", "--ipc", "--uts", "--userns", "--network", "--net"):
        value = values.get(name)
        if value is not None and value.text == "host" and name in ("--pid", "--uts", "--userns"):
            bench.hit(
                ASK,
                "containers.privileged",
                f"{name}=host lets the container reach the host's processes or settings",
                cmd,
            )
    for name, value in found:
        if name in ("-e", "--env") and value.text.startswith("NVIDIA_VISIBLE_DEVICES="):
            wanted = value.text.split("=", 1)[1]
            gpu.requested(Word(wanted if wanted == "all" else f"device={wanted}", value.dyn), cmd, bench)
    if values.get("--privileged", Word("false")).text == "true":
        bench.hit(
            ASK, "containers.privileged", "a privileged container reaches every device and setting of the node", cmd
        )
    if any(
        k == "--cap-add" and v.text.upper().removeprefix("CAP_") in ("ALL", "SYS_MODULE", "SYS_BOOT", "SYS_RAWIO")
        for k, v in found
    ):
        bench.hit(ASK, "containers.privileged", "the capability lets the container change the node", cmd)
    for source, _target in mounts_of(found):
        if source in (
            "/",
            "/etc",
            "/proc",
            "/sys",
            "/dev",
            "/boot",
            "/usr",
            "/var",
            "/home",
            "/root",
        ) or source.endswith("docker.sock"):
            bench.hit(ASK, "containers.mount", f"the container gets {source} of the host", cmd, targets=(source,))
        elif matches(source, bench.pol["self_patterns"]):
            bench.hit(
                ASK,
                "containers.mount",
                f"the container gets {source}, which belongs to the guard",
                cmd,
                targets=(source,),
            )


def socket(cmd: Cmd, bench: Any) -> None:
    """curl to the container engine's socket: reading passes, the rest goes round the rules of docker."""
    sock = option(cmd, "--unix-socket")
    if sock is None or not re.search(r"(?:docker|podman|containerd|crio)[\w.-]*\.sock$", sock.text):
        return
    method = option(cmd, "-X", "--request")
    sends = any(re.match(r"^(?:-d|--data|--json|-F|--form|-T|--upload)", w) for w in cmd.words()[1:])
    name = method.text.upper() if method is not None else "POST" if sends else "GET"
    if name not in ("GET", "HEAD"):
        bench.hit(DENY, "containers.foreign", f"{name} on the engine's socket reaches every container of the node", cmd)


def other(cmd: Cmd, bench: Any) -> None:
    """ctr, crictl, buildah, apptainer and others: removing and stopping."""
    texts = [t for t in cmd.words()[1:] if not t.startswith("-")]
    verbs = [t for t in texts if re.fullmatch(r"rm|rmi|rmp|remove|delete|kill|stop|stopp|prune|stop-all", t)]
    if verbs and not (cmd.name in ("apptainer", "singularity") and "cache" not in texts and "instance" not in texts):
        owned = list(texts[texts.index(verbs[0]) + 1 :])
        if owned and all(bench.ctx.container(t) == OWNED for t in owned):
            return
        bench.hit(DENY, "containers.foreign", f"{cmd.name} {verbs[0]} reaches what is not proved to be this run's", cmd)
