"""A campaign of three rounds, walked by `campaign next` alone: processes die in mid-record, and a fresh one goes on."""

from __future__ import annotations

import contextlib
import json
import os

import pytest

from infer_forge.bench.driver import orphans
from infer_forge.campaign import open_campaign
from infer_forge.campaign.layout import RunLayout
from infer_forge.journal import open_store
from infer_forge.journal import search_report as search
from tests.campaign.campaign_server import Killed
from tests.campaign.campaign_walker import Walker

pytestmark = pytest.mark.timeout(900)

LEDGER, TASKS, ROWS = "humanize/ledger.jsonl", "stores/tasks", "benchmark/candidates.jsonl"

KILLS = {
    "init_campaign:1": LEDGER,  # the task is made, the campaign is not
    "lock_contract:1": f"benchmark/contract.json > {LEDGER}",  # locked, and not recorded
    "bench-search:1": f"benchmark/engines > {ROWS}",  # an engine runs
    "round_open:1": f"{TASKS} > {LEDGER}",  # the task's block is open, the round is not
    "layer-pipeline:1": f"analysis/layer-pipeline.md > {LEDGER}",
    "campaign-measure:1": f"benchmark/engines > {ROWS}",
    "result:1": f"{LEDGER} > attempt-ledger.md",  # recorded, its pages are not
    "round_close:1": f"{LEDGER} > {TASKS}",  # closed in the ledger alone
    "stop:1": f"{LEDGER} > {TASKS}",  # stopped, and the task has not ended
}
"""Step -> the write at which its process dies."""

MORE = {
    "lock_contract:1": f"{LEDGER} > {TASKS}",  # recorded, and the task not locked
    "bench-search:2": f"benchmark/engines > {ROWS}",  # a winner is measured again
    "lock_baseline:1": f"benchmark/baseline.json > {LEDGER}",
    "profile:2": f"profiles/ > {LEDGER}",
    "round_open:2": f"{LEDGER} > {TASKS}",  # recorded, and not anchored
    "campaign-measure-off:1": f"benchmark/engines > {ROWS}",
    "cleanup:1": LEDGER,
    "final:1": f"final_report.md > {LEDGER}",
}
"""The same elsewhere."""


WHOLE = pytest.mark.skipif(
    os.environ.get("INFER_FORGE_STRESS") != "1", reason="the second walk takes a minute: INFER_FORGE_STRESS=1 runs it"
)


@pytest.fixture(
    scope="module", params=[KILLS, pytest.param(MORE, marks=[pytest.mark.stress, WHOLE])], ids=["kills", "more kills"]
)
def walked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Walker:
    """The campaign at its end."""
    place = tmp_path_factory.mktemp("walk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFER_FORGE_HOME", str(place / "home"))
        walker = Walker(place, patch, request.param)
        try:
            for _ in range(2):
                with contextlib.suppress(Killed):
                    walker.init()
            walker.walk()
        finally:
            walker.server.end()
            orphans(RunLayout(walker.run).bench)  # a walk that failed leaves no engine behind
    return walker


@pytest.fixture
def ended(walked: Walker, monkeypatch: pytest.MonkeyPatch) -> Walker:
    """The same, with its surroundings."""
    monkeypatch.setenv("INFER_FORGE_HOME", str(walked.tmp / "home"))
    walked.environment(monkeypatch)
    return walked


def test_every_process_died_where_it_was_meant_to_and_a_fresh_one_went_on_by_status_and_next(ended: Walker) -> None:
    assert ended.died == [step.partition(":")[0] for step in ended.wanted]
    assert ended.kills == {}


def test_three_rounds_end_with_the_gap_closed_and_a_complete_report(ended: Walker) -> None:
    held = open_campaign(ended.run)
    assert [(r["round"], r["outcome"]) for r in held.of("result")] == [
        (1, "rejected"),
        (2, "rejected"),
        (3, "accepted"),
    ]
    assert [b.outcome for b in held.task().blocks][-3:] == ["rejected", "rejected", "confirmed"]
    checked = ended.campaign("check")
    assert checked["verdict"] == "pass", checked["tables"]
    assert checked["counts"]["unknown"] == 0
    assert ended.campaign("stop-check")["verdict"] == "may_stop"
    assert "Yes. A151" in (ended.run / "final_report.md").read_text()
    assert "delivered" in json.dumps(ended.forge("task", "status", held.task_id))


def test_what_was_rejected_was_refused_as_accepted_first(ended: Walker) -> None:
    wrong = [r for r in ended.refused if "cannot be accepted" in r]
    assert "gsm8k 0.8100 against 0.8400" in wrong[0]
    assert "A143: it is not measured better than the prior best (chat c4: tie)" in wrong[1]
    assert "the idea stands as" in ended.refused[-1]
    with open_store() as store:
        assert len(search(store, "fused norm", {"kind": ["rejection"]}).tables["hits"].rows) == 2


def test_the_guard_stood_before_every_shell_command_and_stopped_what_kills_by_name(ended: Walker) -> None:
    assert ended.denied == ["pkill -f sglang"] * len(ended.denied)
    assert len(ended.denied) >= 3


def test_no_engine_of_a_killed_measurement_lives_on_and_each_of_its_launches_is_kept(ended: Walker) -> None:
    held = open_campaign(ended.run)
    assert orphans(held.layout.bench) == []
    begun = [json.loads(line) for line in (ended.run / ROWS).read_text().splitlines()]
    ends = {e["body"]["launch_id"] for e in begun if e["kind"] == "launch_ends"}
    cut = [e for e in begun if e["kind"] == "launch_begins" and e["body"]["launch_id"] not in ends]
    assert len(cut) == sum(ROWS in at for at in ended.wanted.values())
