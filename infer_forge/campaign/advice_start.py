"""Next steps from `init` to the start of the loop: inputs, reading, contract, search, baseline, ceiling, plan, start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base import contracts
from infer_forge.base.errors import ForgeError
from infer_forge.campaign import gates, measure
from infer_forge.campaign.book import Campaign
from infer_forge.campaign.companions import pages_to_read
from infer_forge.campaign.inputs import Inputs
from infer_forge.campaign.rules_start import unread
from infer_forge.campaign.steps import Step, command, handed, handoff, record, word

if TYPE_CHECKING:
    from infer_forge.bench.search_config import SearchConfig


def before_contract(campaign: Campaign) -> Step | None:
    """Inputs, companions, history, open pull requests, prompts, pilot, contract."""
    lacking = Inputs(campaign.inputs).missing()
    if lacking:
        fields = {"gpu": "gpu_model=TYPE --set gpu_count=N", "precision_or_quantization": "precision=VALUE"}
        words = " ".join(f"--set {fields[n]}" for n in lacking if n in fields)
        return record("inputs", campaign, words, f"ask the user for: {', '.join(lacking)}")
    if gates.look(campaign, "A9").result == "fail":
        return _companions(campaign)
    if gates.look(campaign, "A43").result == "fail" or gates.look(campaign, "A45").result == "fail":
        why = "read the pull-request history (infer-forge journal history) before anything is measured (A43)"
        return record("history", campaign, "--json FILE", f"{why}; where nothing can be read: --set blocker=WHY")
    if gates.look(campaign, "A57").result == "fail" and not campaign.of("contract_lock"):
        why = "look at open pull requests of upstream and fork (C39)"
        return record("pr-check", campaign, "--set upstream=OWNER/REPO --set fork=OWNER/REPO --set open=N,N", why)
    return None if campaign.of("contract_lock") else _contract(campaign)


def _companions(campaign: Campaign) -> Step:
    gone = unread(campaign)
    pages = pages_to_read(gone, campaign.checkout)
    read = ",".join(word(p) for p in pages) or "SKILL.md,..."
    why = f"read the companion skills first, then record that they were read (A9); not read: {', '.join(gone)}"
    return record("companions", campaign, f"--set read={read}", why)


def _config(campaign: Campaign) -> tuple[str | None, SearchConfig | None]:
    """The search configuration as a word and as read; the second is None when it cannot be read."""
    named = campaign.inputs.get("search_config")
    if not named:
        return None, None
    from infer_forge.bench.search_config import load_config

    try:
        return word(str(named)), load_config(str(named))
    except ForgeError:
        return word(str(named)), None


def _contract(campaign: Campaign) -> Step:
    if campaign.diffusion:
        return _contract_of_pictures(campaign)
    named, config = _config(campaign)
    if named is None:
        why = (
            "name the search configuration; references/search has files to copy (a contract: campaign lock --contract)"
        )
        return record("inputs", campaign, "--set search_config=FILE", why)
    from infer_forge.bench.workload import MANIFEST

    place = campaign.layout.bench
    if not (place.workload / MANIFEST).exists():
        return command(
            "bench workload", campaign, f"--config {named}", "write the exact prompts that every engine gets"
        )
    if not place.pilot.exists() and not place.contract.exists():
        why = "measure the noise before the lock: it says which threshold can be resolved"
        return command("bench pilot", campaign, f"--config {named}", why)
    lacking = _unstated(config) if config else []
    fields = "".join(f" --set {name}=VALUE" for name in lacking) + " --set accuracy=JSON --set soak=JSON"
    why = "lock the contract before any result; accuracy floors and the soak are part of it"
    return command("campaign lock", campaign, f"--config {named}{fields}", why)


def _contract_of_pictures(campaign: Campaign) -> Step:
    """Pictures and video: the contract is a file of its own, and launches are handed in."""
    place = campaign.layout.bench
    if not place.pilot.exists() and not place.contract.exists():
        words = "--label pilot --contract FILE --results sglang=FILE --results sglang=FILE --command sglang=WORDS"
        why = (
            "draft the contract (grid.kind diffusion, quality), run SGLang's command some times, a file each: "
            "the noise says which threshold can be resolved"
        )
        return command("campaign measure", campaign, words, why)
    why = "lock the contract before any result; its quality gate and the soak are part of it"
    return command("campaign lock", campaign, "--contract FILE", why)


def _hand_in(campaign: Campaign) -> Step | None:
    """The launches of the baseline, with the reason that stands in place of a search."""
    from infer_forge.bench.ledger_rows import RowStore

    assert campaign.contract is not None
    contract, sha256 = campaign.contract
    ends = [e for e in RowStore(campaign.layout.bench.rows).events("launch_ends") if e["contract_hash"] == sha256]
    count, names = _launches(campaign), [e.framework for e in contract.engines]
    if all(sum(1 for e in ends if e["framework"] == n and e["complete"]) >= count for n in names):
        return None
    commands = " ".join(f"--command {n}=WORDS" for n in names)
    words = handed(campaign).replace(" --reference DIR", "")
    why = f"run each side's command {_launches(campaign)} times, the sides in turn (A B B A), one file a launch, then hand them in"
    return command("campaign measure", campaign, f"--label baseline {words} {commands} --no-search WORDS", why)


def _help(campaign: Campaign) -> Step | None:
    """Handed-in launches asked no program for its help (A56)."""
    if not campaign.diffusion or gates.look(campaign, "A56").result != gates.FAIL:
        return None
    assert campaign.contract is not None
    names = " ".join(f"--framework {e.framework}" for e in campaign.contract[0].engines)
    why = "keep the help of every selected framework (A56)"
    return Step(f"infer-forge engine help-snapshot {names} --folder {word(campaign.layout.bench.help)}", why)


def _unstated(config: SearchConfig) -> list[str]:
    from infer_forge.bench.search_config import draft_contract

    drafted = contracts.contract_of(draft_contract(config))
    lacking = contracts.missing(drafted.point, varying=drafted.varies)
    return [f"point.{name.split('|')[0]}" for name in lacking]


def before_baseline(campaign: Campaign) -> Step | None:
    """Search, the winners afresh, accuracy of every engine, winner table, first verdict."""
    if not campaign.of("baseline_lock"):
        measured = _hand_in(campaign) if campaign.diffusion else _search(campaign)
        return measured or _accuracy(campaign) or _lock(campaign)
    helped = _help(campaign)
    if helped is not None:
        return helped
    if not campaign.of("gap"):
        return record("gap", campaign, "", "decide the gap of the baseline")
    first = next((g for g in campaign.of("gap") if g["measurement"] is None), None)
    parity = gates.look(campaign, "A55")
    if first is not None and parity.result == gates.FAIL:
        why = f"the baseline does not stand ({parity.evidence}): hand off, then normalise in a new campaign"
        return handoff(campaign, first.number, why)
    return None


def _launches(campaign: Campaign) -> int:
    assert campaign.contract is not None
    return measure.first_look(campaign.contract[0].budgets.max_launches_per_engine)


def _search(campaign: Campaign) -> Step | None:
    from infer_forge.bench import search
    from infer_forge.bench.ledger_rows import RowStore

    named, config = _config(campaign)
    assert campaign.contract is not None
    contract, sha256 = campaign.contract
    store = RowStore(campaign.layout.bench.rows)
    words = f"--config {named or 'FILE'}"
    begun = {str(e["purpose"]) for e in store.events("launch_begins")}
    todo = config is not None and any(p.state == search.TODO for p in search.plan(config, store, sha256))
    if todo or "search" not in begun:
        return command("bench search", campaign, words, "search every selected framework within its budget")
    count = _launches(campaign)
    rows = store.rows(contract_hash=sha256, purposes=["search"])
    wanted = {w.candidate_id for w in search.winners(rows, contract, sha256)}
    ends = [e for e in store.events("launch_ends") if e["purpose"] == "decision" and e["contract_hash"] == sha256]
    done = {i: sum(1 for e in ends if e["candidate_id"] == i and e["complete"]) for i in wanted}
    if not wanted or any(n < count for n in done.values()):
        return command(
            "bench search", campaign, f"{words} --remeasure --launches {count}", "measure the winners afresh"
        )
    return None


def _accuracy(campaign: Campaign) -> Step | None:
    """Every engine's baseline needs the accuracy that the contract names."""
    from infer_forge.bench.ledger_rows import RowStore

    assert campaign.contract is not None
    contract, sha256 = campaign.contract
    events: list[dict[str, Any]] = [
        e for e in RowStore(campaign.layout.bench.rows).events("accuracy") if e["contract_hash"] == sha256
    ]
    known = {(str(e["framework"]), str(e["dataset"])) for e in events}
    for floor in contract.accuracy:
        for engine in contract.engines:
            if (engine.framework, floor.dataset) not in known:
                words = f"--set framework={engine.framework} --set dataset={word(floor.dataset)} --set file=FILE"
                return record("accuracy", campaign, words, f"the contract asks for {floor.dataset} of every engine")
    return None


def _lock(campaign: Campaign) -> Step:
    words = f"--baseline --min-launches {_launches(campaign)}"
    return command("campaign lock", campaign, words, "lock the winner table")


def before_loop(campaign: Campaign) -> Step | None:
    """Ceiling, plan, and in mode rlcr the start of the review loop."""
    if not campaign.of("ceiling"):
        config = Path(str(campaign.inputs.get("model_dir") or "")) / "config.json"
        words = "" if campaign.inputs.get("model_dir") and config.is_file() else "--set config=FILE"
        why = "the floor of the deployment point comes before round 1; where it cannot be computed: --set blocker=WHY"
        return record("ceiling", campaign, words, why)
    mode = str(campaign.records[0]["mode"])
    if gates.look(campaign, "A77").result == "fail" and campaign.round is None:
        return _rlcr_plan(campaign) if mode == "rlcr" else _prompt(campaign, mode)
    return _start(campaign) if mode == "rlcr" and campaign.round is None else None


def _names_contract(campaign: Campaign, place: Path) -> bool:
    assert campaign.contract is not None
    return place.is_file() and campaign.contract[1][:12] in place.read_text(encoding="utf-8", errors="replace")


def _prompt(campaign: Campaign, mode: str) -> Step:
    place = campaign.layout.prompt
    if not _names_contract(campaign, place):
        why = f"render the prompt of the {mode} that keeps the loop"
        return command("campaign prompt", campaign, f"--mode {mode} --out {word(place)}", why)
    return record("plan", campaign, f"--set path={word(place)}", f"record the prompt, then give it to /{mode}")


def _rlcr_plan(campaign: Campaign) -> Step:
    from infer_forge.campaign.rlcr.model import PLAN

    place = campaign.checkout / PLAN
    if not _names_contract(campaign, place):
        return command("campaign plan", campaign, "", "write the refined plan where the review loop expects it (A77)")
    return record("plan", campaign, f"--set path={word(place)}", "record the plan, then start the review loop")


def _start(campaign: Campaign) -> Step | None:
    """The review loop: judged before its start, started, judged after it."""
    from infer_forge.campaign.rlcr.loops import loops_in
    from infer_forge.campaign.rlcr.memory import Memory, place_of

    running = [loop for loop in loops_in(campaign.checkout) if loop.active]
    if not running:
        if campaign.of("round_open"):
            return None  # it ended: the campaign's own verdict says what follows
        why = "judge the start of the review loop; when it passes, run the start line that it prints, then ask again"
        return command("campaign doctor", campaign, "--moment before", why)
    if not Memory(place_of(campaign.checkout, campaign)).of(running[-1]):
        return command("campaign doctor", campaign, "--moment after", "judge the loop that was started (A97, A98)")
    return None
