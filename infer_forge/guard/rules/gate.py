"""Human gate: publishing and changing things outside, and the team's own rules from guard.yaml."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import ASK, DENY, Cmd
from infer_forge.guard.rules import flag, option, plain_targets
from infer_forge.guard.rules.data import host_of


def publish(cmd: Cmd, bench: Any) -> None:
    """Package and image registries."""
    plain = [t for t in cmd.words()[1:] if not t.startswith("-")]
    first = plain[0] if plain else ""
    if first == "compose":
        return
    publishing = {
        "twine": ("upload",),
        "npm": ("publish", "unpublish", "deprecate", "dist-tag", "owner", "access"),
        "cargo": ("publish", "yank", "owner"),
        "docker": ("push",),
        "podman": ("push",),
        "uv": ("publish",),
        "poetry": ("publish",),
        "flit": ("publish",),
        "hatch": ("publish",),
        "gem": ("push", "yank"),
        "helm": ("push",),
    }.get(cmd.name, ())
    if (first in publishing or (first in ("image", "manifest") and plain[1:2] == ["push"])) and not flag(
        cmd, "", "--dry-run"
    ):
        bench.hit(
            ASK, "gate.publish", f"{cmd.name} {first} publishes: a person decides", cmd, targets=tuple(plain[1:2])
        )
    if cmd.name == "docker" and first in ("buildx", "build") and flag(cmd, "", "--push"):
        bench.hit(ASK, "gate.publish", "--push publishes the image: a person decides", cmd)


_FORGE_HOSTS = re.compile(
    r"(?:^|\.)(?:api\.github\.com|gitlab\.[\w.]+|uploads\.github\.com|huggingface\.co|hf\.co|api\.bitbucket\.org)$"
)


_ADDRESS = re.compile(
    r"^(?:https?://|(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9][\w.-]*(?=:\d))(?::\d+)?/)"
)
"""What curl takes for an address: with its scheme, or a host with a dot or a port and a path behind it."""
_ACTS = re.compile(
    r"/(?:shutdown|sleep|reset_prefix_cache|flush_cache|abort_request|update_weights\w*|release_memory_occupation|unload\w*)(?:$|\?)"
)
_ACTS_ON_GET = re.compile(
    r"/(?:flush_cache|release_memory_occupation|resume_memory_occupation|clear_hicache_storage_backend)(?:$|\?)"
)
"""SGLang's http_server takes GET for these as well as POST."""
_LOCAL = re.compile(r"^(?:localhost|127\.|0\.0\.0\.0|\[::1\])")


def web(cmd: Cmd, bench: Any) -> None:
    """Requests that change something: on forges and production endpoints they need a person."""
    words = cmd.argv
    urls = [w.text if "://" in w.text else f"http://{w.text}" for w in words[1:] if _ADDRESS.match(w.text)]
    method = option(cmd, "-X", "--request", "--method")
    sends = any(re.match(r"^(?:-d|--data|--json|-F|--form|-T|--upload|--post)", w.text) for w in words[1:])
    name = method.text.upper() if method is not None and method.text else "POST" if sends else "GET"
    if cmd.name in ("http", "https", "xh", "httpie"):
        name = next(
            (w.text.upper() for w in words[1:3] if re.fullmatch(r"(?i)get|post|put|patch|delete|head|options", w.text)),
            "POST" if any(re.search(r":?=", w.text) for w in words[2:]) else "GET",
        )
    if name in ("GET", "HEAD", "OPTIONS"):
        urls = [u for u in urls if name == "GET" and _ACTS_ON_GET.search(u)]
    body = " ".join(w.text for w in words)
    for url in urls:
        host = host_of(url)
        if "/start_profile" in url and re.search(r"with_stack\W{0,4}(?:true|1)\b", body, re.IGNORECASE):
            why = "stacks taken from a busy server can deadlock it; only an idle one is profiled with them"
            bench.hit(ASK, "gate.profile_stacks", why, cmd, targets=(host,))
        if _FORGE_HOSTS.search(host):
            hard = name in ("DELETE", "PUT") or re.search(r"/merges?(?:$|/)|/git/refs|/contents/", url)
            bench.hit(
                DENY if hard else ASK,
                "push.publish",
                f"{name} {host} changes something that others see",
                cmd,
                targets=(host,),
            )
        elif name in ("DELETE", "PUT", "PATCH") and not _LOCAL.match(host) and not bench.ctx.claims_node(host):
            why = f"{name} changes something at {host}, which is no node of this run"
            bench.hit(ASK, "gate.server", why, cmd, targets=(host,))
        elif _ACTS.search(url) or _ACTS_ON_GET.search(url):
            port = re.search(r":(\d+)(?:/|$)", url.split("//", 1)[1])
            local = _LOCAL.match(host)
            if not (local and port and bench.ctx.port(int(port.group(1))) == "owned"):
                bench.hit(
                    ASK,
                    "gate.server",
                    f"this changes a server at {host} that is not proved to be this run's",
                    cmd,
                    targets=(host,),
                )


def production(cmd: Cmd, bench: Any) -> None:
    """Production profiles: only the verbs that a profile lists as reading may reach its endpoints."""
    for profile in bench.pol["production"]:
        if not _reaches(profile, cmd):
            continue
        if not _reads(profile, cmd):
            bench.hit(
                DENY,
                "production.write",
                f"{profile['name']} is production, and this does more than read",
                cmd,
                targets=(profile["name"],),
            )


def _reaches(profile: dict[str, Any], cmd: Cmd) -> bool:
    if cmd.place.node and any(re.fullmatch(p, cmd.place.node) for p in profile["hosts"]):
        return True
    for word in cmd.argv[1:]:
        text = word.text
        if any(re.search(p, text) for p in profile["urls"]):
            return True
        if cmd.name not in ("ssh", "echo", "printf", "grep", "rg", "git") and profile["hosts"]:
            host = host_of(text) if "://" in text else text.split("@")[-1].split(":")[0] if ":" in text else ""
            if host and any(re.fullmatch(p, host) for p in profile["hosts"]):
                return True
    context = option(cmd, "--context", "--kube-context")
    return context is not None and any(re.fullmatch(p, context.text) for p in profile["contexts"])


_VALUES = ("--context", "--kube-context", "--namespace", "--kubeconfig", "--selector", "--output", "--tail", "--since")


def _reads(profile: dict[str, Any], cmd: Cmd) -> bool:
    words = cmd.words()
    if cmd.name in ("curl", "wget", "http", "https", "xh"):
        method = option(cmd, "-X", "--request", "--method")
        sends = any(re.match(r"^(?:-d|--data|--json|-F|--form|-T|--upload|--post)", w) for w in words[1:])
        name = method.text.upper() if method is not None else "POST" if sends else "GET"
        return name in profile["methods"]
    plain = [w.text for w in plain_targets(cmd, "nofl", _VALUES)]
    line = " ".join([cmd.name, *plain])
    if cmd.name in ("ssh", "kubectl", "docker") and cmd.name == "ssh":
        return True
    return any(line == v or line.startswith(f"{v} ") for v in profile["verbs"]) and not any(
        r.op.startswith(">") for r in cmd.redirects
    )


def custom(cmd: Cmd, bench: Any) -> None:
    """The team's own rules: prefixes of argv, each position a word or a list of words."""
    words = cmd.words()
    if not words:
        return
    words[0] = cmd.name
    for rule in bench.pol["custom"]:
        prefix: list[Any] = rule["prefix"]
        if len(words) >= len(prefix) and all(
            words[i] == p if isinstance(p, str) else words[i] in p for i, p in enumerate(prefix)
        ):
            bench.hit(
                rule["decision"],
                rule["id"],
                rule["why"],
                cmd,
                safer=rule.get("safer", ""),
                targets=tuple(words[len(prefix) : len(prefix) + 1]),
            )


_SHELL_WORDS = [
    "cd",
    "export",
    "set",
    "true",
    "false",
    ":",
    "[",
    "[[",
    "test",
    "echo",
    "printf",
    "sleep",
    "wait",
    "exit",
    "return",
    "local",
    "read",
    "shift",
    "declare",
    "pwd",
    "type",
    "command",
]


def unclaimed(cmd: Cmd, bench: Any) -> None:
    """A node without a claim of this run: reading passes, anything else asks."""
    node = cmd.place.node
    if not node or cmd.name in _SHELL_WORDS or cmd.name in bench.pol["wrappers"]:
        return
    state, why = bench.ctx.node_state(node)
    if state == "held":
        return
    words = [w.text for w in cmd.argv[1:] if not w.text.startswith("-")]
    line = " ".join([cmd.name, *words[:2]])
    if any(line == v or line.startswith(f"{v} ") for v in bench.pol["reading"]) or "bash sh zsh".find(cmd.name) >= 0:
        return
    where = node if not node.startswith("\0") else "many nodes"
    if state == "stale":
        bench.hit(ASK, "claim.stale", f"{where}: {why}", cmd, targets=(node,))
    else:
        bench.hit(ASK, "remote.unclaimed", f"{where}: {why or 'this run has no claim there'}", cmd, targets=(node,))


_REMOVING = re.compile(
    r"(?i)\b(?:flushall|flushdb|shutdown|debug\s+sleep|drop\s+(?:database|table|schema|index|user|role|view)|truncate\b|delete\s+from|dropDatabase|deleteMany|remove\(|drop\(\))"
)


def database(cmd: Cmd, bench: Any) -> None:
    """redis-cli, psql, mysql, mongo, etcdctl, consul: what removes asks, unless it goes to a port of the run."""
    words = cmd.words()[1:]
    plain = [w for w in words if not w.startswith("-")]
    text = " ".join([*words, cmd.stdin.text or "" if cmd.stdin else ""])
    verbs = {"etcdctl": ("del", "rm", "rmdir"), "consul": ("delete", "leave", "force-leave")}.get(cmd.name, ())
    removing = any(w in verbs for w in plain[:3]) if verbs else _REMOVING.search(text) is not None
    removing = removing or (cmd.name == "redis-cli" and plain[:1] in (["del"], ["DEL"], ["unlink"], ["UNLINK"]))
    port = option(cmd, "-p", "--port")
    mine = port is not None and port.text.isdigit() and bench.ctx.port(int(port.text)) == "owned"
    if removing and not mine and bench.inside(cmd) not in ("new", "owned"):
        bench.hit(ASK, "gate.database", f"{cmd.name} removes something that is not proved to be this run's", cmd)
