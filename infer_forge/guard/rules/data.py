"""Data: governed paths stay where they are; uploads to outside need a person."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import ASK, DENY, Cmd, Word
from infer_forge.guard.rules import flag, option, plain_targets
from infer_forge.guard.rules.where import candidates, matches

_REMOTE = re.compile(r"^(?:[^/\s@:]+@)?([A-Za-z0-9][\w.-]*):(?!\\|//)(.*)$")
_LOCAL_HOSTS = re.compile(r"^(?:localhost|127\.|0\.0\.0\.0|\[?::1|host\.docker\.internal)")


def governed(cmd: Cmd, bench: Any) -> None:
    """Governed data may be read in place; a command that names it and sends or copies it away is denied."""
    patterns: list[str] = bench.pol["governed_paths"]
    if not patterns or cmd.name not in (
        "cp",
        "scp",
        "rsync",
        "mv",
        "tar",
        "zip",
        "curl",
        "hf",
        "huggingface-cli",
        "aws",
        "gsutil",
        "rclone",
        "sftp",
        "dd",
        "ln",
        "base64",
        "7z",
    ):
        return
    for word in cmd.argv[1:]:
        paths = candidates(word, cmd, bench, follow=True) if word.text and not word.text.startswith("-") else None
        if any(matches(p, patterns) for p in paths or []):
            bench.hit(
                DENY, "data.governed", f"{word.text} is governed data and stays where it is", cmd, targets=(word.text,)
            )


def upload(cmd: Cmd, bench: Any) -> None:
    """Programs that send files to another place."""
    handler = _HANDLERS.get(cmd.name)
    if handler is not None:
        handler(cmd, [t for t in cmd.words()[1:] if not t.startswith("-")], bench)


def _ask(what: str, cmd: Cmd, bench: Any, *targets: str) -> None:
    bench.hit(ASK, "data.upload", what, cmd, targets=targets)


def _hub(cmd: Cmd, plain: list[str], bench: Any) -> None:
    if plain[:1] and plain[0] in ("upload", "upload-large-folder", "lfs-multipart-upload"):
        _ask(f"{cmd.name} {plain[0]} publishes files", cmd, bench, *plain[1:2])
    elif plain[:2] in (
        ["repo", "create"],
        ["repo", "tag"],
        ["repo", "branch"],
        ["repo", "settings"],
        ["repo", "move"],
        ["jobs", "run"],
        ["endpoints", "deploy"],
    ):
        _ask(f"{cmd.name} {' '.join(plain[:2])} changes something on the hub", cmd, bench)
    elif plain[:2] in (["repo", "delete"], ["repo-files", "delete"]):
        bench.hit(DENY, "data.remote_delete", f"{cmd.name} {' '.join(plain[:2])} deletes on the hub", cmd)


def _object_store(cmd: Cmd, plain: list[str], bench: Any) -> None:
    scheme = re.compile(r"^(?:s3|gs|az|abfss?|oss|cos|r2)://|^https://\S*(?:blob\.core|amazonaws)")
    text = " ".join(plain)
    if re.search(
        r"^(?:s3 (?:rm|rb)|s3api delete|storage (?:rm|buckets delete)|storage blob delete|rm\b|rb\b|del\b|remove\b"
        r"|ec2 terminate|ec2 stop|compute instances (?:delete|stop))",
        text,
    ):
        bench.hit(DENY, "data.remote_delete", f"{cmd.name} {' '.join(plain[:3])} deletes what others may use", cmd)
        return
    if re.search(
        r"^(?:s3 (?:cp|mv|sync)|s3api put|storage (?:cp|mv|rsync)|storage blob upload|(?:cp|mv|rsync|sync|put|mirror|copy|copyto)\b)",
        text,
    ):
        positional = [p for p in plain if "/" in p or p in (".", "-") or (cmd.name == "rclone" and ":" in p)]
        last = positional[-1] if positional else ""
        if cmd.name in ("rclone", "mc") and len(positional) > 1:
            if re.match(r"^[\w-]+:", last) or (cmd.name == "mc" and not last.startswith((".", "/"))):
                _ask(f"{cmd.name} sends files to {last}", cmd, bench, last)
        elif scheme.match(last) or "put" in text.split()[:2] or "upload" in text:
            _ask(f"{cmd.name} sends files to {last}", cmd, bench, last)
        if "--delete" in cmd.words():
            bench.hit(DENY, "data.remote_delete", "--delete removes what the destination has and the source lacks", cmd)
    elif (
        cmd.name in ("aws", "gcloud", "az")
        and re.search(
            r"\b(?:create|delete|terminate|put|update|modify|run-instances|deploy|set|add|remove|start|stop|attach|detach)\b|-instances\b",
            text,
        )
        and not re.search(r"\b(?:describe|list|get|config(?:ure)?|show|login)\b", text)
    ):
        bench.hit(ASK, "gate.cloud", f"{cmd.name} {' '.join(plain[:3])} changes something in the cloud", cmd)


def _copy(cmd: Cmd, _plain: list[str], bench: Any) -> None:
    targets = plain_targets(
        cmd, "cFiJloPSDXefTBM", ("--rsh", "--exclude", "--include", "--files-from", "--exclude-from")
    )
    match = _REMOTE.match(targets[-1].text) if len(targets) > 1 else None
    if match and not bench.ctx.claims_node(match.group(1)) and not _LOCAL_HOSTS.match(match.group(1)):
        _ask(f"this sends files to {match.group(1)}, which is no node of this run", cmd, bench, match.group(1))


def _session(cmd: Cmd, plain: list[str], bench: Any) -> None:
    host = plain[-1] if plain else ""
    _ask(f"what is sent to {host or 'the other side'} cannot be seen", cmd, bench, host)


def _socket(cmd: Cmd, plain: list[str], bench: Any) -> None:
    words = cmd.words()[1:]
    if any(re.fullmatch(r"-[a-z]*z[a-z]*", w) for w in words):
        return
    if any(re.fullmatch(r"-[a-z]*[ec]", w) or w in ("--exec", "--sh-exec") for w in words) or (
        cmd.name == "socat" and any("EXEC:" in w.upper() or "SYSTEM:" in w.upper() for w in words)
    ):
        bench.hit(DENY, "data.shell", "this hands a shell to the other side", cmd)
    elif cmd.stdin is not None and plain and not _LOCAL_HOSTS.match(plain[0]):
        _ask("what goes through the socket leaves the node", cmd, bench, plain[0])


def _experiment(cmd: Cmd, plain: list[str], bench: Any) -> None:
    if plain[:2] in (
        ["artifact", "put"],
        ["datasets", "create"],
        ["datasets", "version"],
        ["kernels", "push"],
        ["models", "create"],
    ) or plain[:1] in (["upload"], ["sync"]):
        _ask(f"{cmd.name} {' '.join(plain[:2])} publishes files", cmd, bench)


def _web(cmd: Cmd, _plain: list[str], bench: Any) -> None:
    """curl and wget that send a file."""
    words = cmd.argv
    sends: list[str] = []
    for i, word in enumerate(words[1:], 1):
        text = word.text
        value = words[i + 1].text if i + 1 < len(words) else ""
        if text in ("-T", "--upload-file", "--post-file", "--body-file") or (
            text
            in (
                "-d",
                "--data",
                "--data-binary",
                "--data-ascii",
                "--data-urlencode",
                "--json",
                "-F",
                "--form",
            )
            and re.search(r"(?:^|=)[@<]", value)
        ):
            sends.append(value)
        elif re.match(
            r"^--(?:data(?:-binary|-ascii|-urlencode)?|form|post-file|body-file|json|upload-file)=", text
        ) and ("@" in text or "file=" in text):
            sends.append(text)
    if not sends:
        return
    urls = [
        host_of(w.text)
        for w in words[1:]
        if re.match(r"^(?:https?|ftps?|sftp|scp)://|^[\w.-]+\.[a-z]{2,}(?:[:/]|$)|^localhost", w.text)
    ]
    if urls and all(_LOCAL_HOSTS.match(u) or bench.ctx.claims_node(u) for u in urls):
        return
    _ask(f"this sends a file to {urls[0] if urls else 'an address that is not known'}", cmd, bench, *urls[:1])


def _transfer(cmd: Cmd, plain: list[str], bench: Any) -> None:
    if cmd.name == "transfer" or any(w in ("send", "upload") for w in plain):
        _ask("this sends files away", cmd, bench)


def host_of(url: str) -> str:
    """Host of a URL."""
    match = re.match(r"^(?:[a-z]+://)?(?:[^/@]*@)?(\[[^\]]+\]|[^/:?#]+)", url)
    return match.group(1) if match else url


def destination(word: Word) -> str:
    """Host that a `host:path` word names."""
    match = _REMOTE.match(word.text)
    return match.group(1) if match else ""


_HANDLERS: dict[str, Any] = {
    "hf": _hub,
    "huggingface-cli": _hub,
    "modelscope": _hub,
    "aws": _object_store,
    "gsutil": _object_store,
    "gcloud": _object_store,
    "az": _object_store,
    "azcopy": _object_store,
    "rclone": _object_store,
    "s3cmd": _object_store,
    "s5cmd": _object_store,
    "mc": _object_store,
    "scp": _copy,
    "rsync": _copy,
    "sftp": _session,
    "ftp": _session,
    "nc": _socket,
    "ncat": _socket,
    "netcat": _socket,
    "socat": _socket,
    "wandb": _experiment,
    "kaggle": _experiment,
    "curl": _web,
    "wget": _web,
    **dict.fromkeys(("transfer", "croc", "wormhole", "magic-wormhole", "ffsend"), _transfer),
}


def cleanup(cmd: Cmd, bench: Any) -> None:
    """Stores of models and artifacts that several runs share, and caches of the user."""
    plain = [w for w in cmd.words()[1:] if not w.startswith("-")]
    if bench.inside(cmd) in ("new", "owned"):
        return
    if cmd.name == "ollama" and plain[:1] == ["rm"]:
        bench.hit(DENY, "files.shared", "ollama rm deletes a model of everybody who uses this server", cmd)
    elif (cmd.name in ("mlflow", "dvc") and plain[:1] in (["gc"], ["destroy"])) or (
        cmd.name == "wandb" and plain[:3] == ["artifact", "cache", "cleanup"]
    ):
        bench.hit(
            ASK, "data.remote_delete", f"{' '.join([cmd.name, *plain[:2]])} deletes what other runs may need", cmd
        )
    elif (cmd.name == "npm" and plain[:2] == ["cache", "clean"]) or (
        cmd.name == "ccache" and any(w in ("-C", "--clear", "-c", "--cleanup") for w in cmd.words()[1:])
    ):
        bench.hit(ASK, "files.user_cache", "the cache is shared with other runs of this user", cmd)


def scratch(cmd: Cmd, bench: Any) -> None:
    """pytest removes whatever `--basetemp` names before it starts."""
    from infer_forge.guard.rules.files import remove

    folder = option(cmd, "--basetemp")
    if folder is not None:
        remove(cmd.inner([Word("rm"), Word("-rf"), folder], cmd.name), bench)


def cleaner(cmd: Cmd, bench: Any) -> None:
    """Tools that look for files below folders and delete them: duplicates, old files."""
    from infer_forge.guard.rules.files import remove

    words = cmd.words()[1:]
    deletes = {
        "fdupes": flag(cmd, "d", "--delete"),
        "jdupes": flag(cmd, "d", "--delete"),
        "rdfind": "-deleteduplicates true" in " ".join(words),
    }.get(cmd.name, not flag(cmd, "t", "--test"))
    targets = [w for w in cmd.argv[1:] if "/" in w.text or w.dyn or w.text == "."]
    if deletes and targets:
        remove(cmd.inner([Word("rm"), Word("-rf"), *targets], cmd.name), bench)


def fio(cmd: Cmd, bench: Any) -> None:
    """fio that writes to a disk itself, not to a file."""
    text = " ".join(cmd.words()[1:])
    if re.search(r"--filename=/dev/(?!shm/)", text) and re.search(r"--(?:rw|readwrite)=\w*w", text):
        bench.hit(DENY, "files.disk", "fio writes over the disk", cmd)


def tunnel(cmd: Cmd, bench: Any) -> None:
    """ngrok, cloudflared and their kin: a server of this node is opened to the internet."""
    if cmd.name == "cloudflared" and "tunnel" not in cmd.words()[1:3]:
        return
    if not any(w in ("--help", "-h", "--version", "version", "help") for w in cmd.words()[1:]):
        _ask("this opens a server of the node to the internet", cmd, bench)


def compress(cmd: Cmd, bench: Any) -> None:
    """gzip and its kin put another file in the place of each, unless they keep it."""
    from infer_forge.guard.rules.files import remove

    keeps = cmd.name in ("zstd", "lz4") and not flag(cmd, "", "--rm")
    if keeps or flag(cmd, "cklthV", "--stdout", "--keep", "--list", "--test", "--help", "--version", "--to-stdout"):
        return
    targets = plain_targets(cmd, "SbpPT", ("--suffix", "--threads"))
    if targets:
        remove(cmd.inner([Word("rm"), *targets], cmd.name), bench)
