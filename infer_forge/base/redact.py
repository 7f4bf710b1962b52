"""Secret patterns: finding them in text and bytes, and taking them out. Standard library only; the guard's hook imports this.

The formats are those that the makers document (GitHub: docs.github.com "about authentication to GitHub"; Hugging Face
`hf_`; OpenAI and Anthropic `sk-`; GitLab `glpat-`; AWS `AKIA`/`ASIA`; Slack `xox?-`; NVIDIA NGC `nvapi-`; PEM RFC 7468;
JWT RFC 7519), plus exact values of variables whose name says that they hold one, which also catches unknown formats.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

MASK = "[redacted:{}]"

_PATTERNS: tuple[tuple[str, str], ...] = (
    ("huggingface-token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("anthropic-key", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    ("openai-key", r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}"),
    ("github-token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})"),
    ("gitlab-token", r"\bgl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_-]{20,}"),
    ("aws-access-key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("nvidia-key", r"\bnvapi-[A-Za-z0-9_-]{20,}"),
    ("google-key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("pypi-token", r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    (
        "private-key",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----[\s\S]{0,8192}?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY-----|\Z)",
    ),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    (
        "bearer-token",
        r"(?i:\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+)(?P<secret>[A-Za-z0-9._~+/=-]{12,})",
    ),
    ("wandb-key", r"(?i:\bwandb[_a-z]*key[\"']?\s*[:=]\s*[\"']?)(?P<secret>[0-9a-f]{40})\b"),
    ("url-password", r"\b[a-z][a-z0-9+.-]{1,15}://[^\s/:@\"'<>]{1,64}:(?P<secret>[^\s/@\"'<>$\[{]{3,128})@"),
    ("aws-secret", r"(?i:\baws[_a-z]*secret[_a-z]*key[\"']?\s*[:=]\s*[\"']?)(?P<secret>[A-Za-z0-9/+=]{40})\b"),
)

# A group cannot have one name twice in an alternation, so each pattern is its own program; a cheap screen goes first.
_SCREEN = re.compile(
    rb"hf_|sk-|gh[pousr]_|github_pat_|gl(?:pat|ptt|dt|rt|cbt|soat)-|AKIA|ASIA|xox[abeoprs]-|nvapi-|AIza|pypi-AgE|npm_"
    rb"|PRIVATE KEY|eyJ|://|[Aa][Uu][Tt][Hh][Oo][Rr][Ii][Zz]|[Ww][Aa][Nn][Dd][Bb]|[Aa][Ww][Ss]"
)
_LITERALS: dict[str, tuple[str, ...]] = {
    "huggingface-token": ("hf_",),
    "anthropic-key": ("sk-ant-",),
    "openai-key": ("sk-",),
    "github-token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "gitlab-token": ("glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glsoat-"),
    "aws-access-key": ("akia", "asia"),
    "slack-token": ("xox",),
    "nvidia-key": ("nvapi-",),
    "google-key": ("aiza",),
    "pypi-token": ("pypi-age",),
    "npm-token": ("npm_",),
    "private-key": ("private key",),
    "jwt": ("eyj",),
    "bearer-token": ("authorization",),
    "wandb-key": ("wandb",),
    "url-password": ("://",),
    "aws-secret": ("aws",),
}
"""What a text in lower case holds wherever a pattern can match: looking for it takes a hundredth of the pattern's time."""
_compiled: list[tuple[str, re.Pattern[str]]] = []
_glued: list[tuple[str, re.Pattern[str]]] = []

SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|KEY|APIKEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|PAT)(?:$|_(?:ID$)?(?!FILE|PATH|DIR|TYPE|LEN|NAME))",
    re.IGNORECASE,
)
_NOT_SECRET_NAME = re.compile(
    r"^(?:KEY|SSH_AUTH_SOCK|TOKENIZERS_PARALLELISM)$|PUBLIC_KEY|KEY(?:BOARD|RING|MAP)|_(?:FILE|PATH|DIR|NAME|TYPE)$|MAX_TOKEN|NUM_TOKEN|TOKENIZER",
    re.IGNORECASE,
)


class Secret(NamedTuple):
    """One hit: what kind it is and where it stands in the text (the value itself is never carried along)."""

    kind: str
    start: int
    end: int


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret: HF_TOKEN, OPENAI_API_KEY, DB_PASSWORD; not MAX_TOKENS, not KEY_FILE."""
    return bool(SECRET_NAME.search(name)) and not _NOT_SECRET_NAME.search(name)


def environment_secrets(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Value -> variable name of every variable that holds a secret of at least eight characters."""
    env = os.environ if environ is None else environ
    return {
        value: name for name, value in env.items() if len(value) >= 8 and is_secret_name(name) and not _plain(value)
    }


def _plain(value: str) -> bool:
    """Values that are no secret whatever the variable's name: numbers, booleans, existing files."""
    return (
        value.isdigit()
        or value.lower() in ("disabled", "required", "optional")
        or (value[:1] == "/" and os.path.exists(value))
    )


def find(text: str, known: Mapping[str, str] | None = None) -> list[Secret]:
    """All secrets in a text, leftmost first, without overlaps.

    Args:
        text: what to look through.
        known: exact value -> its name, from `environment_secrets()`.
    """
    hits: list[Secret] = []
    if _SCREEN.search(text.encode("utf-8", "replace")):
        if not _compiled:
            _compiled.extend((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
        for kind, pattern in _possible(text, _compiled):
            for match in pattern.finditer(text):
                group = "secret" if "secret" in pattern.groupindex else 0
                if not _placeholder(match.group(group)):
                    hits.append(Secret(kind, match.start(group), match.end(group)))
    for value, name in (known or {}).items():
        at = text.find(value)
        while at >= 0:
            hits.append(Secret(f"value-of:{name}", at, at + len(value)))
            at = text.find(value, at + len(value))
    return _merged(hits)


def may_hold(data: bytes) -> bool:
    """The cheap screen: False where no secret of a known format can stand."""
    return _SCREEN.search(data) is not None


def glued(text: str) -> list[Secret]:
    """What looks like a secret but stands right behind a letter or a digit, which `find` takes for the same word.

    In a binary file (decoded as Latin-1) the character in front may be a length; whether it is, the caller decides.
    """
    if not _glued:
        _glued.extend((k, re.compile(rf"(?<=\w){p[2:]}")) for k, p in _PATTERNS if p.startswith(r"\b"))
    live = _possible(text, _glued)
    return [Secret(kind, match.start(), match.end()) for kind, pattern in live for match in pattern.finditer(text)]


def _possible(text: str, patterns: list[tuple[str, re.Pattern[str]]]) -> list[tuple[str, re.Pattern[str]]]:
    low = text.lower()
    return [(kind, pattern) for kind, pattern in patterns if any(literal in low for literal in _LITERALS[kind])]


def _placeholder(value: str) -> bool:
    """Documentation stand-ins: `hf_xxxxxxxx`, `sk-...your-key...`, `password`; a real one has more than a few distinct characters."""
    body = value.lower()
    return (
        len(set(body[4:])) <= 2
        or "your" in body
        or "example" in body
        or body in ("password", "pass", "token", "secret")
    )


def _merged(hits: Iterable[Secret]) -> list[Secret]:
    kept: list[Secret] = []
    for hit in sorted(hits, key=lambda h: (h.start, -h.end)):
        if kept and hit.start < kept[-1].end:
            if hit.end > kept[-1].end:
                kept[-1] = Secret(kept[-1].kind, kept[-1].start, hit.end)
            continue
        kept.append(hit)
    return kept


def redact(text: str, known: Mapping[str, str] | None = None) -> str:
    """The text with every secret replaced by a mark that names its kind."""
    hits = find(text, known)
    if not hits:
        return text
    parts: list[str] = []
    at = 0
    for hit in hits:
        parts += [text[at : hit.start], MASK.format(hit.kind)]
        at = hit.end
    return "".join([*parts, text[at:]])


def redact_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment that may be written down: values of secret variables masked, secrets in other values too."""
    return {k: MASK.format(k) if is_secret_name(k) and v else redact(v) for k, v in environ.items()}


def redact_arguments(words: Sequence[str]) -> list[str]:
    """A command line that may be written down: the values of `--api-key`, `--hf-token` and their kind masked, however
    they look; other secrets where they are recognised."""
    out: list[str] = []
    hide = ""
    for word in words:
        name, equals, _ = word.partition("=")
        if hide and not word.startswith("-"):
            out.append(MASK.format(hide))
            hide = ""
            continue
        secret = name.startswith("-") and is_secret_name(name.lstrip("-").replace("-", "_"))
        hide = name.lstrip("-") if secret and not equals else ""
        out.append(f"{name}={MASK.format(name.lstrip('-'))}" if secret and equals else redact(word))
    return out
