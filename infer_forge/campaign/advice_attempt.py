"""Next steps of an attempt under way: change, measurement, verdict, accuracy, soak, the patch off, mechanism, result."""

from __future__ import annotations

from infer_forge.base.errors import ForgeError
from infer_forge.campaign import accepting, gates, mechanism, repo
from infer_forge.campaign.book import Campaign, Record
from infer_forge.campaign.steps import Step, command, git, measure, record, word


def in_attempt(campaign: Campaign) -> Step | None:
    """The next step of the open attempt; None when none is open."""
    attempt = gates.open_attempt(campaign)
    if attempt is None:
        return None
    try:
        seen = repo.look(campaign.checkout)
    except ForgeError as fault:
        return command("campaign check", campaign, "", fault.what)
    measured = [m for m in campaign.of("measurement") if m.number > attempt.number]
    patched = [m for m in measured if m["label"] == "patched"]
    if not patched:
        return _first(campaign, attempt, seen)
    last = patched[-1]
    if not any(g["measurement"] == last.id for g in campaign.of("gap")):
        return record("gap", campaign, f"--set measurement={last.id}", "decide the gap with the patch")
    lost = accepting.lost(campaign, attempt, last)
    if lost is not None:
        words = f"--set attempt={attempt.id} --set outcome=rejected|partial --set reason=WORDS"
        return record("result", campaign, words, f"it cannot be accepted ({lost}): end the attempt")
    unknown = accepting.quality_unknown(campaign, last)
    if unknown is not None:
        return measure(
            campaign, "", f"the quality of what it generates is unknown ({unknown}): measure it with outputs"
        )
    return _evidence(campaign, attempt, last, seen) or record(
        "result",
        campaign,
        f"--set attempt={attempt.id} --set outcome=accepted|rejected|partial --set reason=WORDS",
        "end the attempt",
    )


def _first(campaign: Campaign, attempt: Record, seen: repo.Checkout) -> Step:
    ident = attempt.id
    if seen.dirty or seen.commit == attempt["base_commit"]:
        return git(campaign, "commit -a -m WORDS", f"make the change of attempt {ident} and commit it")
    return measure(campaign, "", f"measure attempt {ident}")


def _evidence(campaign: Campaign, attempt: Record, last: Record, seen: repo.Checkout) -> Step | None:
    """Accuracy, soak, the patch off and on again, mechanism: whatever is still missing, in this order."""
    ident, commit = attempt.id, str(last["commit"])

    def missing(kind: str) -> bool:
        return not any(r["attempt"] == ident and r.get("commit", commit) == commit for r in campaign.of(kind))

    gone = accepting.unscored(campaign, attempt, last)
    off = [m for m in campaign.of("measurement") if mechanism.not_off(campaign, attempt, m) is None]
    if (gone or missing("soak") or off) and seen.commit != commit:
        branch = str(attempt["branch"])
        target = word(branch) if branch != "HEAD" else commit[:12]
        return git(campaign, f"checkout {target}", f"go back to the patched commit {commit[:12]}")
    if gone:
        words = f"--set attempt={ident} --set dataset={word(gone)} --set file=FILE"
        return record("accuracy", campaign, words, "whether the change altered numerics is measured")
    if missing("soak"):
        words = f"--set attempt={ident} --set file=FILE"
        return record("soak", campaign, words, "memory and stability of the patched engine")
    if not off:
        if seen.commit == commit:
            why = "switch the patch off: the base of the attempt"
            return git(campaign, f"checkout --detach {str(attempt['base_commit'])[:12]}", why)
        return measure(campaign, "--label off", "measure with the patch off, then put it back")
    if not any(m["attempt"] == ident and m["off"] for m in campaign.of("mechanism")):
        words = f"--set attempt={ident} --set files=TRACE,LOG --set off={off[-1].id}"
        return record("mechanism", campaign, words, "show the mechanism at work")
    return None
