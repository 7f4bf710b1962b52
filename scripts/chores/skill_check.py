"""Our own lint of skills: frontmatter, length, five-question order, true commands, nothing that leaves the folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

from chores import ROOT
from chores.command_words import faults_in
from chores.launchers import LAUNCHER
from infer_forge.cli.main import COMMANDS

# The six portable fields less `compatibility`, which one client's own validator refuses.
FIELDS = {"name", "description", "license", "metadata", "allowed-tools"}
# Where a skill's knowledge belongs: the upstream project, several libraries, the life of a task, machines in operation.
SCOPES = ("sglang-upstream", "cross-lib", "task", "ops")
QUESTIONS = ("When", "Start", "Validate", "Decide", "Deliver")
MOST_SKILLS, MOST_LINES, MOST_DESCRIPTION = 8, 200, 300
_KILL_BY_NAME = re.compile(r"\b(pkill|killall)\b")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")


def frontmatter(text: str) -> tuple[dict[str, Any], str]:
    """YAML front matter and the body."""
    match = re.match(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL)
    return (yaml.safe_load(match.group(1)), match.group(2)) if match else ({}, text)


def skill_faults(folder: Path) -> list[str]:
    """Everything that is wrong with one skill folder."""
    file = folder / "SKILL.md"
    if not file.is_file():
        return [f"{folder}: no SKILL.md"]
    text = file.read_text(encoding="utf-8")
    head, body = frontmatter(text)
    faults = [f"field {f!r} is not portable" for f in set(head) - FIELDS]
    description = str(head.get("description") or "")
    if head.get("name") != folder.name:
        faults.append(f"name {head.get('name')!r} is not the folder's")
    if not 20 <= len(description) <= MOST_DESCRIPTION:
        faults.append(f"description has {len(description)} characters, 20 to {MOST_DESCRIPTION} are right")
    metadata: dict[str, Any] = head.get("metadata") or {}
    if metadata.get("scope") not in SCOPES:
        faults.append(f"metadata names no scope of {', '.join(SCOPES)}")
    if text.count("\n") > MOST_LINES:
        faults.append(f"{text.count(chr(10))} lines, {MOST_LINES} at the most")
    heads = [h.split()[0].strip(":,") for h in re.findall(r"^## +(.+)$", body, re.MULTILINE)]
    if [h for h in heads if h in QUESTIONS] != list(QUESTIONS):
        faults.append(f"sections must come in the order {', '.join(QUESTIONS)}; found {', '.join(heads)}")
    if "hard stop" not in text.lower():
        faults.append("names no hard stop")
    commands = [f for p in folder.rglob("*.md") for f in faults_in(p)]
    return [f"{file}: {f}" for f in faults] + file_faults(folder) + launcher_faults(folder) + commands


def launcher_faults(folder: Path) -> list[str]:
    """Scripts that are not the one launcher, or are named for no command."""
    faults: list[str] = []
    for path in sorted((folder / "scripts").glob("*.py")):
        if path.read_text(encoding="utf-8") != LAUNCHER:
            faults.append(f"{path}: is not the launcher that all skills share; run python -m chores.launchers")
        if path.stem not in COMMANDS:
            faults.append(f"{path}: no command is named {path.stem}")
        if not path.stat().st_mode & 0o100:
            faults.append(f"{path}: cannot be executed")
    return faults


def file_faults(folder: Path) -> list[str]:
    """Links out of the folder, deep references, kills by name, host addresses."""
    faults: list[str] = []
    for path in sorted(
        p for p in folder.rglob("*") if p.is_file() and p.suffix in (".md", ".py", ".sh", ".yaml", ".yml")
    ):
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#\s:]+)\)", text):
            if not (path.parent / target).resolve().is_relative_to(folder.resolve()):
                faults.append(f"{path}: link {target} leaves the skill")
            elif not (path.parent / target).exists():
                faults.append(f"{path}: link {target} leads nowhere")
        for number, line in enumerate(text.splitlines(), 1):
            if _KILL_BY_NAME.search(line) and "never" not in line.lower() and "deny" not in line.lower():
                faults.append(f"{path}:{number}: kills by name")
            if any(a not in ("127.0.0.1", "0.0.0.0") for a in _ADDRESS.findall(line)):
                faults.append(f"{path}:{number}: names a host address")
    deep = [p for p in (folder / "references").rglob("*") if p.is_file() and p.parent != folder / "references"]
    return faults + [f"{p}: references are one level deep" for p in deep]


def main() -> None:
    """Print every fault; exit 1 when there is one."""
    folders = sorted(p for p in (ROOT / "skills").iterdir() if p.is_dir())
    faults = [f for folder in folders for f in skill_faults(folder)]
    if len(folders) > MOST_SKILLS:
        faults.append(f"{len(folders)} skills, {MOST_SKILLS} at the most")
    print("\n".join(faults) or f"{len(folders)} skills: all in order")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
