"""One step of `campaign next`: a command, why now, and the words that most steps share."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from infer_forge.campaign.book import Campaign


@dataclass(frozen=True)
class Step:
    """One step: the command, and why now. Words in capitals are what the agent fills in."""

    command: str
    why: str


def of_run(campaign: Campaign) -> str:
    """`--run DIR`, quoted."""
    return f"--run {word(campaign.layout.run)}"


def word(value: str | Path) -> str:
    """A value as one word of a command line."""
    return shlex.quote(str(value))


def record(kind: str, campaign: Campaign, rest: str, why: str) -> Step:
    """`campaign record KIND --run DIR ...`."""
    return Step(f"infer-forge campaign record {kind} {of_run(campaign)} {rest}".rstrip(), why)


def command(words: str, campaign: Campaign, rest: str, why: str) -> Step:
    """`WORDS --run DIR ...`."""
    return Step(f"infer-forge {words} {of_run(campaign)} {rest}".rstrip(), why)


def measure(campaign: Campaign, rest: str, why: str) -> Step:
    """`campaign measure --run DIR ...`; of a diffusion campaign with the result files of each side, in turn."""
    if not campaign.diffusion:
        return command("campaign measure", campaign, rest, why)
    label = rest.split(" --launches")[0]
    count = rest.partition("--launches ")[2] or "several"
    told = f"{why}; run the locked commands yourself, the sides in turn (A B B A), {count} launches of each, one file a launch"
    return command("campaign measure", campaign, f"{label} {handed(campaign)}".strip(), told)


def handed(campaign: Campaign) -> str:
    """`--results SIDE=FILE` of each side, and the folders of pictures where the contract has a quality gate."""
    assert campaign.contract is not None
    contract = campaign.contract[0]
    words = " ".join(f"--results {e.framework}=FILE" for e in contract.engines)
    return words + (" --outputs DIR --reference DIR" if contract.quality is not None else "")


def git(campaign: Campaign, rest: str, why: str) -> Step:
    """A git command in the checkout."""
    return Step(f"git -C {word(campaign.checkout)} {rest}", why)


def handoff(campaign: Campaign, since: int, why: str) -> Step:
    """The next step to a blocked handoff, where nothing else leads on (C43): blocker, cleanup, final report, stop.

    Args:
        since: number of the record that shows the dead end; an older blocker is about something else.
    """
    blocker = campaign.last("blocker")
    if blocker is None or blocker.number < since:
        return record("blocker", campaign, "--set what=WORDS --set tried=WORDS,WORDS --set needs=WORDS", why)
    cleanup, final = campaign.last("cleanup"), campaign.last("final")
    if cleanup is None or cleanup.number < blocker.number:
        return record("cleanup", campaign, "", "stop what this run started, with the machine's state before and after")
    if final is None or final["code"] != "blocked" or final.number < blocker.number:
        return command("campaign report final", campaign, "--code blocked", f"blocker {blocker.id} stands: {why}")
    return command("campaign stop", campaign, "--code blocked", "the final report stands: hand off")
