"""D1 to D6: what the machine must have before the set-up script is called."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import Any, cast

from infer_forge.base.errors import ForgeError
from infer_forge.campaign.rlcr import runtime
from infer_forge.campaign.rlcr.model import Case, Rule, Seen, good, rules_data, unclear, wrong

GET = "install the Humanize plug-in 1.16 or 1.17, or set HUMANIZE_RUNTIME_ROOT to its checkout"


def _found(case: Case) -> runtime.Runtime:
    return runtime.find(case.environ, case.user_home)


def d1_runtime(case: Case) -> Seen:
    """Runtime and version; the rewrite is refused by name."""
    found = _found(case)
    if found.root is None:
        if found.rewrite:
            return wrong(
                f"no RLCR runtime: only the rewrite of Humanize was found ({found.rewrite}); it has no such loop", GET
            )
        return wrong(f"no RLCR runtime; tried {', '.join(found.tried)}", GET)
    if found.rewrite:
        return wrong(f"{found.rewrite} is the rewrite of Humanize, whose loop is another", GET)
    if found.version is None:
        return unclear(f"{found.root} states no version", "look at .claude-plugin/plugin.json of the runtime")
    if not found.known:
        versions = " and ".join(rules_data()["versions"])
        return unclear(
            f"{found.root} is {found.version}; known are {versions}",
            "look whether its state file and hook are the same",
        )
    return good(f"{found.root}, {found.version}")


def d2_programs(case: Case) -> Seen:
    """Programs on PATH."""
    path, data = case.environ.get("PATH"), rules_data()
    gone = [n for n in data["needs"] if shutil.which(n, path=path) is None]
    if not any(shutil.which(str(n), path=path) for n in data["timeout_programs"]):
        gone.append("timeout")
    refused = any(n in ("codex", "jq", "git") for n in gone)
    return (
        wrong(f"not on PATH: {', '.join(gone)}", f"install {', '.join(gone)}", refused=refused)
        if gone
        else good("all there")
    )


def d3_flags(case: Case) -> Seen:
    """Flags of the hook against codex's own help; a hook feature that was renamed is told."""
    flags = runtime.hook_flags(_found(case), case.environ)
    refused, unread = runtime.refused_flags(flags, case.environ)
    if refused:
        return wrong(
            f"this codex does not know {', '.join(refused)}: every review would fail",
            "use a codex that has them (--full-auto went in 0.147.0), a runtime whose hook no longer passes them, or mode goal",
        )
    if unread:
        return unclear("; ".join(dict.fromkeys(unread)), "install codex and log in, then look again")
    data, listed = rules_data(), runtime.ask(["codex", "features", "list"], case.environ)
    names = (
        set(re.findall(r"^\s*([a-z_]+)\b(?!.*\bremoved\b)", listed.text, re.MULTILINE))
        if listed.rc == 0
        else set[str]()
    )
    if (
        "--disable" in flags.get("exec", [])
        and data["new_hook_feature"] in names
        and data["old_hook_feature"] not in names
    ):
        return unclear(
            f"the feature is called {data['new_hook_feature']} now; the hook disables {data['old_hook_feature']}, "
            "so the reviewer's own hooks may run",
            "make sure that the reviewer's codex runs without this Stop hook (its own CODEX_HOME)",
        )
    bypass = " (the reviewer runs without a sandbox)" if data["bypass_flag"] in flags["exec"] else ""
    return good(f"{', '.join(sorted({f for v in flags.values() for f in v}))}{bypass}")


def d4_login(case: Case) -> Seen:
    """`codex login status`."""
    said = runtime.ask(["codex", "login", "status"], case.environ)
    if said.rc is None:
        return unclear(str(said.why), "codex login")
    told = [text.strip() for text in said.text.split("\n") if text.strip() and not text.startswith("WARNING")]
    line = told[-1] if told else f"it ended with {said.rc}"
    return good(line[:80]) if said.rc == 0 else wrong(line[:120], "codex login")


def d5_hook(case: Case) -> Seen:
    """The Stop hook in a client's settings, or the plug-in that brings it."""
    name = rules_data()["stop_hook"]
    seen: list[str] = []
    claude = Path(case.environ.get("CLAUDE_CONFIG_DIR") or case.user_home / ".claude")
    codex = Path(case.environ.get("CODEX_HOME") or case.user_home / ".codex")
    for file in (
        claude / "settings.json",
        case.checkout / ".claude/settings.json",
        case.checkout / ".claude/settings.local.json",
    ):
        data = _json(file)
        if name in str(data.get("hooks", "")):
            return good(f"registered in {file}")
        on = [
            k
            for k, v in cast("dict[str, Any]", data.get("enabledPlugins") or {}).items()
            if v and k.split("@")[0] == "humanize"
        ]
        if on:
            return good(f"plug-in {on[0]} is enabled in {file}")
        seen.append(str(file))
    for file in (codex / "hooks.json", case.checkout / ".codex/hooks.json"):
        if name in str(_json(file).get("hooks", "")):
            return unclear(
                f"registered in {file}; whether Codex trusts it cannot be seen here",
                "start codex, open /hooks and trust it",
            )
        seen.append(str(file))
    return wrong(
        f"no client has it; looked at {', '.join(seen)}", "enable the Humanize plug-in, or register its Stop hook"
    )


def _json(file: Path) -> dict[str, Any]:
    from infer_forge.clients import settings_json

    with contextlib.suppress(ForgeError, OSError):
        return settings_json.read(file)
    return {}


def d6_project(case: Case) -> Seen:
    """CLAUDE_PROJECT_DIR wins over the folder in which the script is called."""
    named = case.environ.get("CLAUDE_PROJECT_DIR")
    if not named:
        return good("unset")
    if os.path.realpath(named) == os.path.realpath(case.checkout):
        return good("names this checkout")
    return wrong(f"it names {named}", f"start the client in {case.checkout}, or unset CLAUDE_PROJECT_DIR")


RULES: dict[str, Rule] = {
    "D1": d1_runtime, "D2": d2_programs, "D3": d3_flags, "D4": d4_login, "D5": d5_hook, "D6": d6_project,
}  # fmt: skip
"""Rule id -> what looks."""
