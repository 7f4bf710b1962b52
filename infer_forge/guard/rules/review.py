"""Cross-model adversarial review: who wrote the change never approves it."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import ASK, DENY, Cmd
from infer_forge.guard.rules import flag, option


def family(model: str) -> str:
    """The maker's line of a model name: a newer version of the coder is still the coder."""
    name = model.lower().rsplit("/", 1)[-1]
    for known in (
        "claude",
        "gpt",
        "codex",
        "gemini",
        "qwen",
        "deepseek",
        "glm",
        "kimi",
        "llama",
        "mistral",
        "grok",
        "minimax",
    ):
        if known in name:
            return "gpt" if known == "codex" else known
    return re.split(r"[-_:@. ]", name, maxsplit=1)[0]


def allowed(coder: str, reviewer: str) -> bool:
    """Whether `reviewer` may review what `coder` wrote: another model of another family."""
    return bool(coder) and bool(reviewer) and family(coder) != family(reviewer)


def review(cmd: Cmd, bench: Any) -> None:
    """Approving one's own pull request, signing as reviewer, starting the coder as reviewer."""
    words = cmd.words()[1:]
    plain = [w for w in words if not w.startswith("-")]
    if cmd.name in ("gh", "glab") and plain[:2] in (["pr", "review"], ["mr", "approve"]):
        if "approve" in plain or flag(cmd, "a", "--approve"):
            bench.hit(
                DENY,
                "review.self",
                "an agent does not approve: a reviewer of another model reports, a person approves",
                cmd,
            )
        return
    coder = bench.ctx.coder
    if cmd.name == "git" and "commit" in plain[:2]:
        for word in words:
            for match in re.finditer(r"(?im)^\s*(?:reviewed|approved|acked|tested)-by:\s*(.+)$", word):
                if coder is None or family(match.group(1)) == family(coder):
                    bench.hit(
                        DENY if coder else ASK,
                        "review.self",
                        "a review trailer must name another model or a person, and come from them",
                        cmd,
                    )
    elif cmd.name in ("codex", "claude"):
        wants_review = "review" in plain[:2] or any(re.search(r"^/?review\b|\badversarial review\b", w) for w in plain)
        if wants_review and coder:
            model = option(cmd, "-m", "--model")
            reviewer = model.text if model is not None and model.text else cmd.name
            if not allowed(coder, reviewer):
                bench.hit(DENY, "review.self", f"{reviewer} is of the same family as the coder {coder}", cmd)
