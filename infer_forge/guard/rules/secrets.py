"""Secrets: never in arguments, transcripts, files or commits. A variable is passed by name."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.base import redact
from infer_forge.guard.model import ASK, DENY, Cmd, Word
from infer_forge.guard.rules import flag, option, plain_targets
from infer_forge.guard.rules.where import matches


def text(command: str, bench: Any) -> None:
    """A literal secret anywhere in the command text is already in the transcript and would be in ps and logs."""
    hits = redact.find(command)
    if hits:
        from infer_forge.guard.model import Hit

        made = Hit(
            DENY,
            "secrets.literal",
            f"the command text holds a secret ({hits[0].kind})",
            bench.pol["rules"].get("secrets.literal", {}).get("safer", ""),
        )
        made.span = (len(command[: hits[0].start].encode()), len(command[: hits[0].end].encode()))
        bench.hits.append(made)


def _secret_names(words: list[Word]) -> list[str]:
    return [n for w in words for n in w.names if redact.is_secret_name(n)]


def argv(cmd: Cmd, bench: Any) -> None:
    """A secret variable expanded into the arguments of a program stands in ps for everybody on the node."""
    names = _secret_names(cmd.argv[1:])
    if not names or cmd.name in (
        "export",
        "declare",
        "typeset",
        "local",
        "readonly",
        "test",
        "[",
        "[[",
        "read",
        "unset",
        "env",
        "set",
        ":",
        "true",
        "eval",
    ):
        return
    if cmd.name in ("echo", "printf") and not cmd.pipe_to and not any(r.op.startswith(">") for r in cmd.redirects):
        bench.hit(DENY, "secrets.show", f"this prints ${names[0]} into the transcript", cmd, targets=(names[0],))
    elif cmd.name in ("echo", "printf"):
        sinks = {
            "docker",
            "podman",
            "gh",
            "hf",
            "huggingface-cli",
            "wc",
            "sha256sum",
            "md5sum",
            "cut",
            "grep",
            "npm",
            "kubectl",
            "vault",
            "git",
            "openssl",
        }
        if (
            cmd.pipe_to
            and cmd.pipe_to[0] in sinks
            and cmd.pipe_to[-1] in sinks - {"cut", "grep"}
            and not any(r.op.startswith(">") for r in cmd.redirects)
        ):
            return
        bench.hit(DENY, "secrets.show", f"this writes ${names[0]} out", cmd, targets=(names[0],))
    else:
        bench.hit(
            DENY,
            "secrets.argv",
            f"${names[0]} would stand in the arguments of {cmd.name}, which ps shows to everybody",
            cmd,
            targets=(names[0],),
        )


def show(cmd: Cmd, bench: Any) -> None:
    """Printing the environment, and reading credential files."""
    name = cmd.name
    words = cmd.words()[1:]
    if name == "printenv":
        plain = [w for w in words if not w.startswith("-")]
        if not plain:
            if not _filtered(cmd, bench):
                bench.hit(DENY, "secrets.environment", "this prints every variable, secrets included", cmd)
        elif any(redact.is_secret_name(p) for p in plain):
            bench.hit(DENY, "secrets.show", "this prints a secret into the transcript", cmd, targets=tuple(plain[:1]))
        return
    if name == "env":
        i = 0
        while i < len(words) and (words[i].startswith("-") or re.match(r"^\w+=", words[i])):
            if words[i] in ("-i", "-", "--ignore-environment") or words[i].startswith(("-S", "--split")):
                return
            i += 2 if words[i] in ("-u", "-C", "--unset", "--chdir") else 1
        if i >= len(words) and not _filtered(cmd, bench):
            bench.hit(DENY, "secrets.environment", "this prints every variable, secrets included", cmd)
        return
    if name in ("set", "export", "declare", "typeset"):
        if not words or (name != "set" and words in (["-p"], ["-x"], ["-px"], ["-xp"])):
            bench.hit(DENY, "secrets.environment", "this prints every variable, secrets included", cmd)
        elif words[0] == "-p" and any(redact.is_secret_name(w) for w in words[1:]):
            bench.hit(DENY, "secrets.show", "this prints a secret into the transcript", cmd)
        return
    if name == "ps":
        bsd = words[0] if words and not words[0].startswith("-") else ""
        if ("e" in bsd and not bsd.startswith("--")) or any(w in ("eww", "ewww", "e") for w in words[1:]):
            bench.hit(DENY, "secrets.environment", "this prints the environment of every process", cmd)
        return
    if name in ("history", "compgen", "echo", "printf"):
        return
    files(cmd, bench)


_PLAIN_NAMES = re.compile(
    r"(?:CUDA|NCCL|TORCH|PYTORCH|SGLANG|SGL|VLLM|TRTLLM|TRITON|LD_|LIBRARY|PATH|PYTHON|CONDA|VIRTUAL_ENV|SLURM|OMP|MKL|CUBLAS|CUDNN|FLASHINFER|GLOO|UCX|MPI"
    r"|OMPI|NVIDIA|NVTE|HIP|ROC|HSA|HF_HOME|HF_HUB_CACHE|TRANSFORMERS_CACHE|HOME|USER|LANG|LC_|TERM|SHELL|RANK|LOCAL_RANK|WORLD_SIZE|MASTER_|TMPDIR"
    r"|INFER_FORGE|XDG|JAX|XLA|NUMBA|DEEPSPEED|ACCELERATE|TOKENIZERS|OPENBLAS|VISIBLE)[\w.*=]*"
)
"""Beginnings of variable names that hold settings and no secrets."""


def _shows_secret(pieces: list[str]) -> bool:
    """Whether a pattern would show a variable of this environment that holds a secret (`grep USER` and DB_USER_PASSWORD)."""
    for name, value in os.environ.items():
        if not redact.is_secret_name(name):
            continue
        for piece in pieces:
            try:
                hit = re.search(piece, f"{name}={value}", re.IGNORECASE)
            except re.error:
                return True
            if hit:
                return True
    return False


_ORDER = re.compile(r"-[bcdfghinruVz]+|--(?:reverse|unique|ignore-case|version-sort)")
"""Options of sort and uniq that neither write a file nor leave parts of lines out."""


def _filtered(cmd: Cmd, bench: Any) -> bool:
    """Whether what is printed ends in a count, in names alone, or in lines of variables that hold no secrets."""
    for reader in bench.shell.cmds:
        if reader.stdin is None or cmd not in reader.stdin.cmds or not reader.argv:
            continue
        texts = reader.words()[1:]
        if reader.name in ("sort", "uniq", "tac") and not reader.redirects and all(_ORDER.fullmatch(t) for t in texts):
            return _filtered(reader, bench)
        if reader.name == "wc":
            return True
        if reader.name == "cut":
            return "-f1" in texts and ("-d=" in texts or "=" in texts)
        if reader.name in ("grep", "egrep", "rg"):
            options = "".join(t[1:] for t in texts if t.startswith("-"))
            plain = [t for t in texts if not t.startswith("-")]
            if reader.argv[-1].dyn or len(plain) != 1 or not set(options) <= set("EFGPcqinowhsI"):
                return False
            if "c" in options or "q" in options:
                return True
            pieces = [re.sub(r"[\^$()\\]", "", p) for p in plain[0].replace("\\|", "|").split("|")]
            good = all(_PLAIN_NAMES.fullmatch(p.upper() if "i" in options else p) for p in pieces)
            return good and not any(redact.is_secret_name(p) for p in pieces) and not _shows_secret(pieces)
        return False
    return False


_READERS = frozenset(
    [
        "jq",
        "yq",
        "openssl",
        "cat",
        "less",
        "more",
        "head",
        "tail",
        "bat",
        "xxd",
        "base64",
        "strings",
        "od",
        "grep",
        "rg",
        "awk",
        "sed",
        "cut",
        "tac",
        "nl",
        "vim",
        "vi",
        "nano",
        "hexdump",
        "sort",
        "diff",
        "cp",
        "scp",
        "rsync",
        "tar",
        "zip",
    ]
)
_QUIET = ("-q", "--quiet", "--silent", "-c", "--count", "-l", "--files-with-matches", "-L")


def files(cmd: Cmd, bench: Any) -> None:
    """Reading or copying files that hold credentials."""
    if cmd.name not in _READERS or (cmd.name in ("grep", "rg") and any(w in _QUIET for w in cmd.words()[1:])):
        return
    values = {
        "grep": "efmABC",
        "rg": "efmABCgt",
        "head": "nc",
        "tail": "nc",
        "awk": "fFv",
        "sed": "ef",
        "cut": "dfcb",
        "sort": "kto",
        "diff": "",
    }.get(cmd.name, "")
    if cmd.name == "openssl":
        key = option(cmd, "-in")
        if key is not None and not any(w in ("-noout", "-pubout", "-pubin") for w in cmd.words()):
            _file(key, cmd, bench)
        return
    targets = plain_targets(cmd, values)
    if cmd.name in ("grep", "rg", "awk", "sed", "jq", "yq") and targets and option(cmd, "-e", "-f") is None:
        targets = targets[1:]
    for word in targets:
        _file(word, cmd, bench)


def _file(word: Word, cmd: Cmd, bench: Any) -> None:
    path = word.text.split(":", 1)[-1] if cmd.name in ("scp", "rsync") else word.text
    if word.glob and path.endswith("/*"):
        path = path[:-2]
    if word.dyn and "HF_HOME" in word.names:
        path = f"/.cache/huggingface{path}"
    if path and matches(path, bench.pol["secret_files"]) and not matches(path, bench.pol["secret_files_not"]):
        bench.hit(DENY, "secrets.file", f"{word.text} holds credentials", cmd, targets=(word.text,))


def stdin(cmd: Cmd, bench: Any) -> None:
    """`< file` with credentials."""
    for redirect in cmd.redirects:
        if redirect.op == "<":
            _file(redirect.target, cmd, bench)


def tools(cmd: Cmd, bench: Any) -> None:
    """Programs that print, store or take secrets by value."""
    handler = _TOOLS.get(cmd.name)
    if handler is not None:
        handler(cmd, [w.text for w in cmd.argv[1:]], bench)


def _docker(cmd: Cmd, words: list[str], bench: Any) -> None:
    plain = [w for w in words if not w.startswith("-")]
    for i, word in enumerate(cmd.argv[:-1]):
        if word.text in ("-e", "--env"):
            _by_value(cmd.argv[i + 1], cmd, bench)
    for word in cmd.argv[1:]:
        if word.text.startswith("--env="):
            _by_value(word.cut(6), cmd, bench)
    if "login" in plain and option(cmd, "-p", "--password") is not None:
        bench.hit(DENY, "secrets.argv", "a password in the arguments is seen in ps", cmd, safer="--password-stdin")
    if "inspect" in plain[:2]:
        form = option(cmd, "-f", "--format")
        if form is not None and re.search(r"\.Env\b|json \.Config\b|json \.\}|json \.$", form.text):
            bench.hit(DENY, "secrets.environment", "this prints the container's environment, secrets included", cmd)
        elif (
            form is None
            and "image" not in plain[:1]
            and not any(p in ("jq", "grep", "head", "wc") for p in cmd.pipe_to[:1])
        ):
            bench.hit(
                ASK,
                "secrets.environment",
                "the whole answer holds the container's environment, secrets included",
                cmd,
                safer="docker inspect --format '{{.State.Status}}' NAME",
            )


def _by_value(word: Word, cmd: Cmd, bench: Any) -> None:
    name, eq, value = word.text.partition("=")
    if eq and redact.is_secret_name(name) and (value or word.dyn):
        bench.hit(
            DENY,
            "secrets.argv",
            f"{name} is passed by value, which ps and docker inspect show",
            cmd,
            safer=f"-e {name}",
            targets=(name,),
        )


def _git(cmd: Cmd, _words: list[str], bench: Any) -> None:
    from infer_forge.guard import gitcmd

    parsed = gitcmd.Git(cmd)
    args = parsed.texts()
    if (
        parsed.verb == "config"
        and any("credential" in a.lower() and "helper" in a.lower() for a in args)
        and any(a.startswith("store") for a in args)
    ):
        bench.hit(
            DENY,
            "secrets.store",
            "credential.helper store keeps passwords in clear text",
            cmd,
            safer="git config credential.helper cache",
        )
    elif (parsed.verb == "credential" and args[:1] == ["fill"]) or (parsed.verb == "credential-store"):
        bench.hit(DENY, "secrets.show", "this prints stored credentials", cmd)
    elif parsed.verb == "add":
        for word in parsed.args:
            if (
                not word.text.startswith("-")
                and matches(word.text, bench.pol["secret_files"])
                and not matches(word.text, bench.pol["secret_files_not"])
            ):
                bench.hit(
                    DENY,
                    "secrets.commit",
                    f"{word.text} holds credentials and may not be committed",
                    cmd,
                    targets=(word.text,),
                )


def _gh(cmd: Cmd, words: list[str], bench: Any) -> None:
    plain = [w for w in words if not w.startswith("-")]
    if plain[:2] == ["auth", "token"] or (plain[:2] == ["auth", "status"] and flag(cmd, "t", "--show-token")):
        bench.hit(DENY, "secrets.show", "this prints a token into the transcript", cmd)


def _cloud(cmd: Cmd, words: list[str], bench: Any) -> None:
    plain = [w for w in words if not w.startswith("-")]
    joined = " ".join(plain[:4])
    printing = {
        "aws": (
            r"^configure (?:get|export-credentials)|^secretsmanager get-secret-value|^ssm get-parameter"
            r"|^sts (?:get-session-token|assume-role)|^ecr get-login-password"
        ),
        "gcloud": r"^auth (?:print|application-default print)|^secrets versions access",
        "az": r"^account get-access-token|^keyvault secret (?:show|download)",
        "vault": r"^(?:kv get|read|token)",
        "op": r"^(?:read|item get|signin)",
        "pass": r"^(?:show|[\w/]+$)",
        "security": r"^find-(?:generic|internet)-password",
        "gpg": r"^$",
        "wandb": r"^$",
        "ngc": r"^config (?:current|get)",
    }.get(cmd.name, r"^$")
    if (
        plain
        and re.search(printing, joined)
        and not (cmd.name == "aws" and "get-login-password" in joined and cmd.pipe_to)
    ):
        bench.hit(DENY, "secrets.show", f"{cmd.name} {joined.split(' --')[0]} prints a secret into the transcript", cmd)
    if cmd.name == "gpg" and any("export-secret" in w for w in words):
        bench.hit(DENY, "secrets.show", "this prints a private key", cmd)
    if cmd.name == "wandb" and plain[:1] == ["login"] and len(plain) > 1:
        bench.hit(
            DENY,
            "secrets.argv",
            "the key in the arguments is seen in ps",
            cmd,
            safer="WANDB_API_KEY in the environment",
        )


def _hf(cmd: Cmd, words: list[str], bench: Any) -> None:
    if [w for w in words if not w.startswith("-")][:2] == ["auth", "token"]:
        bench.hit(DENY, "secrets.show", "this prints a token into the transcript", cmd)
    token = option(cmd, "--token")
    if token is not None and (token.text or token.dyn):
        bench.hit(
            DENY, "secrets.argv", "a token in the arguments is seen in ps", cmd, safer="HF_TOKEN in the environment"
        )


def _kubectl(cmd: Cmd, words: list[str], bench: Any) -> None:
    plain = [w for w in words if not w.startswith("-")]
    form = option(cmd, "-o", "--output")
    if (
        plain[:1] == ["get"]
        and len(plain) > 1
        and re.match(r"^secrets?(?:/|$|,)", plain[1])
        and form is not None
        and form.text not in ("name", "wide")
    ):
        bench.hit(DENY, "secrets.show", "this prints the values of secrets", cmd)
    if plain[:2] == ["create", "secret"] and any(w.startswith("--from-literal") for w in words):
        bench.hit(
            DENY, "secrets.argv", "a secret in the arguments is seen in ps", cmd, safer="--from-file or --from-env-file"
        )
    if plain[:2] == ["config", "view"] and "--raw" in words:
        bench.hit(DENY, "secrets.show", "--raw prints keys and tokens", cmd)


def _curl(cmd: Cmd, words: list[str], bench: Any) -> None:
    for i, word in enumerate(words):
        path = word[7:] if word.startswith("file://") else ""
        if "@" in word and (word.startswith("@") or "=@" in word or re.match(r"^(?:-d|-F|--data|--form)", word)):
            path = word.partition("@")[2].split(";")[0]
        elif i and words[i - 1] in ("-T", "--upload-file", "--post-file", "--body-file"):
            path = word
        elif word.startswith(("--post-file=", "--body-file=", "--upload-file=")):
            path = word.partition("=")[2]
        if path and matches(path, bench.pol["secret_files"]) and not matches(path, bench.pol["secret_files_not"]):
            bench.hit(DENY, "secrets.file", f"{path} holds credentials", cmd, targets=(word,))
    user = option(cmd, "-u", "--user", "--proxy-user")
    if user is not None and re.search(r":.", user.text):
        why = "a password in the arguments is seen in ps"
        bench.hit(
            DENY, "secrets.argv", why, cmd, safer="curl --netrc, or --config - with the password on standard input"
        )


_TOOLS: dict[str, Any] = {
    "curl": _curl,
    "wget": _curl,
    "docker": _docker,
    "podman": _docker,
    "docker-compose": _docker,
    "git": _git,
    "gh": _gh,
    "aws": _cloud,
    "gcloud": _cloud,
    "az": _cloud,
    "vault": _cloud,
    "op": _cloud,
    "pass": _cloud,
    "security": _cloud,
    "gpg": _cloud,
    "wandb": _cloud,
    "ngc": _cloud,
    "hf": _hf,
    "huggingface-cli": _hf,
    "kubectl": _kubectl,
}
