"""`infer-forge campaign draft|plan|doctor|prompt`: what surrounds the review loop. `cli/campaign.py` registers `commands`."""

from __future__ import annotations

from pathlib import Path

import click

from infer_forge.base.errors import GateRefused, InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.cli.common import emit, format_options, report_command
from infer_forge.cli.given_path import GivenPath

_FILE = GivenPath(exists=True, path_type=Path, dir_okay=False)
_FOLDER = GivenPath(path_type=Path, file_okay=False)
_RUN = click.option("--run", "run_dir", type=_FOLDER, help="Run directory. Default: INFER_FORGE_RUN, or the one here.")
_FOCUS = click.option("--focus", multiple=True, help="What the work should look at first. Repeat for more.")
_REQUIRE = click.option("--requirement", "requirements", multiple=True, help="What must hold besides. Repeat for more.")


@click.command()
@_RUN
@click.option(
    "--to",
    type=GivenPath(path_type=Path, dir_okay=False),
    help="Where to write it. Default: draft.md of the run directory.",
)
@_FOCUS
@_REQUIRE
@report_command
def draft(run_dir: Path | None, to: Path | None, focus: tuple[str, ...], requirements: tuple[str, ...]) -> Report:
    """Write draft.md, from which Humanize's gen-plan makes a plan."""
    from infer_forge.campaign.book import open_campaign
    from infer_forge.campaign.plan import write_draft

    return write_draft(open_campaign(run_dir), to, focus=list(focus), requirements=list(requirements))


@click.command()
@_RUN
@click.option("--to", type=GivenPath(path_type=Path, dir_okay=False), help="Another place inside the checkout.")
@click.option(
    "--adopt", type=_FILE, help="Take this plan (of gen-plan, say) once the linter passes it, instead of our template."
)
@click.option(
    "--lint",
    "lint_path",
    type=_FILE,
    help="Only lint this plan; exit 4 when a rule fails. With --run also against the campaign.",
)
@_FOCUS
@_REQUIRE
@format_options
def plan(
    run_dir: Path | None, to: Path | None, adopt: Path | None, lint_path: Path | None, focus: tuple[str, ...],
    requirements: tuple[str, ...], form: str, out: Path | None,
) -> None:  # fmt: skip
    """Write the refined plan where the loop expects it, complete by the linter; or lint one."""
    from infer_forge.campaign.book import open_campaign

    if lint_path is not None:
        from infer_forge.campaign.plan_lint import lint_report

        report = lint_report(lint_path, open_campaign(run_dir) if run_dir else None)
    else:
        from infer_forge.campaign.plan import write_plan

        report = write_plan(open_campaign(run_dir), to, adopt=adopt, focus=list(focus), requirements=list(requirements))
    emit(report, form, out)
    if report.extra["verdict"] == "fail":
        raise GateRefused(f"the plan fails: {report.summary[-1]}", next_step=report.next_step or None)


@click.command()
@_RUN
@click.option(
    "--checkout",
    type=_FOLDER,
    help="The checkout, where there is no campaign. Default: the campaign's, else this folder.",
)
@click.option(
    "--moment",
    type=click.Choice(["before", "after", "round", "end"]),
    help="before the start, after it, at each round, at the end. Default: found out.",
)
@click.option("--setup-rc", type=int, help="Exit code of the set-up script, for the moment after.")
@click.option("--no-keep", is_flag=True, help="Do not remember what was seen for the next look.")
@click.argument("words", nargs=-1)
@format_options
def doctor(
    run_dir: Path | None, checkout: Path | None, moment: str | None, setup_rc: int | None, no_keep: bool, words: tuple[str, ...],
    form: str, out: Path | None,
) -> None:  # fmt: skip
    """Judge the review loop (Humanize RLCR 1.16/1.17) in four moments: exit 0 all pass, 4 a fail, 3 an unknown.

    WORDS, behind --, are those for (or of) the set-up script. Without them: the campaign's own plan, with --yolo.
    """
    from infer_forge.campaign.book import Campaign, open_campaign
    from infer_forge.campaign.rlcr import examine

    campaign: Campaign | None = None
    try:
        campaign = open_campaign(run_dir)
    except InputUnusable:
        if run_dir is not None:
            raise
    if (
        checkout is not None
        and campaign is not None
        and run_dir is None
        and campaign.checkout.resolve() != checkout.resolve()
    ):
        campaign = None
    place = checkout or (campaign.checkout if campaign else Path.cwd())
    report = examine(
        place, moment, words=list(words) if words else None, campaign=campaign, setup_rc=setup_rc, keep=not no_keep
    )
    emit(report, form, out)
    verdict = str(report.extra["verdict"])
    if verdict == "fail":
        raise GateRefused(report.summary[0], next_step=report.next_step or None)
    if verdict == "unknown":
        raise InputUnusable(report.summary[0], next_step=report.next_step or None)


@click.command()
@click.option(
    "--mode", type=click.Choice(["rlcr", "goal", "loop"]), help="Who keeps the loop. Default: the campaign's mode."
)
@_RUN
@click.option(
    "--contract", type=_FILE, help="A drafted contract (JSON) instead of a campaign's; needs --checkout and --root."
)
@click.option("--checkout", type=_FOLDER, help="With --contract: the SGLang checkout.")
@click.option("--root", type=_FOLDER, help="With --contract: the artifact root.")
@click.option("--fork", help="With --contract: the fork to which a pull request goes.")
@_FOCUS
@_REQUIRE
@report_command
def prompt(
    mode: str | None, run_dir: Path | None, contract: Path | None, checkout: Path | None, root: Path | None, fork: str | None,
    focus: tuple[str, ...], requirements: tuple[str, ...],
) -> Report:  # fmt: skip
    """Render the campaign's prompt for RLCR, Codex /goal (at most 4,000 characters) or Claude /loop, from one contract."""
    from infer_forge.campaign import prompts

    if contract is None:
        from infer_forge.campaign.book import open_campaign

        campaign = open_campaign(run_dir)
        chosen = mode or str(campaign.records[0]["mode"])
        return prompts.prompt_of(campaign, chosen, focus=list(focus), requirements=list(requirements))
    if checkout is None or root is None or mode is None:
        raise UsageFault("a prompt from a contract needs --mode, --checkout and --root")
    return prompts.prompt_of_file(
        contract,
        mode,
        checkout=checkout,
        root=root,
        run=run_dir,
        fork=fork,
        focus=list(focus),
        requirements=list(requirements),
    )


commands: list[click.Command] = [draft, plan, doctor, prompt]
"""What `infer-forge campaign` gains."""
