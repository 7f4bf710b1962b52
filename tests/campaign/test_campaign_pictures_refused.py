"""What a handed-in launch must be: each fault of a file, of its time, of its commit or of its pictures is refused by its rule."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL", reason="the extra `diffusion` is not installed")
pytest.importorskip("skimage", reason="the extra `diffusion` is not installed")

from infer_forge.base.errors import GateRefused
from infer_forge.bench import pictures
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.campaign import handed_quality, open_campaign
from infer_forge.tasks import open_store, record
from tests.campaign.campaign_agent import Refused, git
from tests.campaign.campaign_pictures import Painter, commands, contract, words
from tests.campaign.test_campaign_pictures import WHY, answer, baseline, idea, open_round, open_rows

pytestmark = pytest.mark.timeout(600)


class Kept:
    """The campaign up to an attempt that waits for its measurement, kept at two stations."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.live, self.notes = root, root / "live", dict[str, str]()
        self.live.mkdir()
        patch.setenv("INFER_FORGE_HOME", str(self.live / "home"))
        self.agent = Painter(self.live, patch)
        baseline(self.agent)
        self.agent.plan()
        self.agent.claim_gpu()
        open_round(self.agent)
        names = open_rows(self.agent)
        made = idea(self.agent, "fused_step", names[:1])
        answer(self.agent, names[1:])
        self.agent.notes["early"] = str(self.agent.dump("sglang"))
        self.agent.record("attempt", title="fused", idea=made, mechanism="rmsnorm_kernel", paths=["painter.txt"])
        self.agent.change("fused_step")
        shutil.copytree(self.live, root / "changed", symlinks=True)
        self.notes = dict(self.agent.notes)

    def back(self) -> Painter:
        """Begin again at the change that is not measured."""
        shutil.rmtree(self.live)
        shutil.copytree(self.root / "changed", self.live, symlinks=True)
        self.agent.notes = dict(self.notes)
        return self.agent


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Played once."""
    with pytest.MonkeyPatch.context() as patch:
        return Kept(tmp_path_factory.mktemp("refused"), patch)


@pytest.fixture
def agent(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Painter:
    """At the change that waits for its measurement."""
    monkeypatch.setenv("INFER_FORGE_HOME", str(kept.live / "home"))
    kept.agent.environment(monkeypatch)
    return kept.back()


def refused(agent: Painter, match: str, results: list[str], *more: str, label: str = "patched", ok: int = 4) -> None:
    """Handing it in is refused with these words, and nothing is recorded."""
    held = open_campaign(agent.run)
    rows = held.layout.bench.rows.read_bytes()
    pair = more or ("--outputs", str(agent.paint()), "--reference", agent.notes["reference"])
    told = agent.forge("campaign", "measure", "--run", str(agent.run), "--label", label, *results, *pair, ok=ok)
    assert match in str(told["stderr"])
    assert open_campaign(agent.run).head == held.head
    assert held.layout.bench.rows.read_bytes() == rows


def turned(agent: Painter, first: Path) -> list[str]:
    """Results of three turns of which SGLang's first file is this one."""
    rest = [("vllm", agent.dump("vllm"))]
    for turn in range(2):
        rest += [(n, agent.dump(n)) for n in (("vllm", "sglang") if turn == 0 else ("sglang", "vllm"))]
    return words("--results", [f"sglang={first}", *(f"{n}={p}" for n, p in rest)])


def grid(*scenarios: tuple[str, list[int]]) -> dict[str, Any]:
    """A diffusion grid of (name, concurrencies)."""
    shapes = {"input_len": 77, "output_len": 1, "num_prompts": 2}
    return {"kind": "diffusion", "scenarios": [{"name": n, "concurrencies": c, **shapes} for n, c in scenarios]}


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "another size": ({"meta": {"width": 128}}, "A79: sglang: generated"),
    "another seed": ({"meta": {"seed": 2}}, "A79: sglang: has the seeds"),
    "another model": ({"meta": {"model": "org/other"}}, "A79: sglang: is of the model org/other"),
    "fewer steps": (
        {"denoise_steps_ms": [{"step": 0, "duration_ms": 1.0}]},
        "A79: sglang: timed 1 or 2 denoising steps",
    ),
    "no commit": ({"commit_hash": "N/A"}, "A135: sglang: states the commit nowhere"),
    "another commit": ({"commit_hash": "a" * 40}, "A135: sglang: states the commit aaaa"),
    "an old time": ({"timestamp": "2020-01-01T00:00:00+00:00"}, "A102: sglang: ran at 2020-01-01"),
    "no time": ({"timestamp": None}, "A102: sglang: does not say when it ran"),
    "a time without a zone": ({"timestamp": "2099-01-01T00:00:00"}, "A102: sglang: does not say when it ran"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_shows_something_else_is_refused_by_its_rule(agent: Painter, what: str) -> None:
    change, match = CHANGES[what]
    refused(agent, match, turned(agent, agent.dump("sglang", **change)))


def test_a_file_of_before_the_attempt_is_refused(agent: Painter) -> None:
    early = Path(agent.notes["early"])
    refused(agent, "A102: sglang: was written before", turned(agent, early))
    os.utime(early)
    refused(agent, "A102: sglang: ran at", turned(agent, early))


def test_a_file_or_request_counts_once(agent: Painter) -> None:
    pair = ("--outputs", str(agent.paint()), "--reference", agent.notes["reference"])
    good = agent.turns()
    agent.hand_in("patched", *good, *pair)
    refused(agent, "launching it again until it looks better proves nothing", agent.turns())
    refused(agent, "A103: sglang: it counts already as launch h-", good, label="off")
    first = Path(good[1].partition("=")[2])
    again = agent.tmp / "again.jsonl"
    again.write_text(first.read_text().replace('"warmup": true', '"warmup":  true'))
    refused(agent, "it counts already as launch h-", turned(agent, again), label="off")


def test_a_file_given_twice_is_refused(agent: Painter) -> None:
    place = agent.dump("sglang")
    refused(agent, "it counts already as launch of this call", words("--results", [f"sglang={place}", f"vllm={place}"]))


def test_sides_that_did_not_take_turns_are_refused(agent: Painter) -> None:
    files = [(n, agent.dump(n)) for n in ("sglang", "sglang", "vllm", "vllm")]
    refused(agent, "sides must take turns", words("--results", [f"{n}={p}" for n, p in files]))


def test_sides_are_measured_equally_often_and_within_the_budget(agent: Painter) -> None:
    refused(agent, "every side is measured as often", words("--results", [f"sglang={agent.dump('sglang')}"]), ok=2)
    refused(agent, "4 launches of a side, the contract allows 3", agent.turns(4))


def test_a_rival_whose_file_is_of_the_checkout_is_no_rival(agent: Painter) -> None:
    commit = git(agent.checkout, "rev-parse", "HEAD")
    files = [f"sglang={agent.dump('sglang')}", f"vllm={agent.dump('vllm', commit_hash=commit)}"]
    refused(agent, "a commit of the SGLang checkout", words("--results", files))


def test_a_request_less_is_another_workload(agent: Painter) -> None:
    place = agent.dump("sglang")
    place.write_text(place.read_text().splitlines()[0] + "\n")
    refused(agent, "holds 1 requests", turned(agent, place))


def test_pictures_are_needed_of_now_and_against_the_baselines(agent: Painter) -> None:
    refused(agent, "C41: the contract has a quality gate", agent.turns(), "--scenario", "64x64-2-steps")
    refused(agent, "C41: nothing to compare with", agent.turns(), "--outputs", str(agent.paint()))
    other = str(agent.paint())
    refused(
        agent, "is not what SGLang generated at the baseline", agent.turns(), "--outputs", other, "--reference", other
    )
    old = agent.notes["reference"]
    refused(agent, "A102: was written before", agent.turns(), "--outputs", old, "--reference", old)


def test_uncommitted_code_is_not_measured(agent: Painter) -> None:
    results = agent.turns()
    (agent.checkout / "painter.txt").write_text("base")
    refused(agent, "A91: the checkout has uncommitted changes", results, "--scenario", "64x64-2-steps")


def test_commands_and_the_baseline_are_locked(agent: Painter) -> None:
    refused(agent, "A79: the commands are locked", agent.turns(), *commands(), "--outputs", str(agent.paint()))
    refused(agent, "A51: it is locked already", agent.turns(), *commands(), "--no-search", WHY, label="baseline")


def test_launches_are_not_made_by_us(agent: Painter) -> None:
    told = agent.forge("campaign", "measure", "--run", str(agent.run), ok=4)
    assert "--results SIDE=FILE" in told["stderr"]


def test_quality_that_the_files_state_is_read_and_what_they_leave_out_stays_unknown_and_blocks(agent: Painter) -> None:
    reference = pictures.fingerprint(Path(agent.notes["reference"]))
    told = {"reference_sha256": reference, "output_sha256": "b" * 64, "psnr_db": 41.0}
    order = [n for turn in range(3) for n in (("sglang", "vllm") if turn % 2 == 0 else ("vllm", "sglang"))]
    files = [f"{n}={agent.dump(n, meta={'quality': told} if n == 'sglang' else {})}" for n in order]
    found = agent.hand_in("patched", *words("--results", files))
    assert found["quality"]["result"] == "unknown"
    assert "ssim was not measured" in found["quality"]["why"]
    agent.record("gap", measurement=found["id"])
    assert agent.step[1:3] == ["campaign", "measure"]
    assert "--outputs" in agent.step
    attempt = open_campaign(agent.run).of("attempt")[0].id
    with pytest.raises(Refused, match="accuracy: unknown: .*ssim was not measured"):
        agent.record("result", attempt=attempt, outcome="accepted", reason="it is fast")


def test_a_lost_claim_stops_the_measurement(agent: Painter) -> None:
    from infer_forge.nodes import verbs

    verbs.release(str(agent.claim["claim_id"]), reason="somebody needs it")
    refused(agent, "round-claim", agent.turns())


def test_rows_that_were_handed_in_carry_what_the_verdict_needs(agent: Painter) -> None:
    pair = ("--outputs", str(agent.paint()), "--reference", agent.notes["reference"])
    found = agent.hand_in("patched", *agent.turns(), *pair)
    held = open_campaign(agent.run)
    rows = [r for e, r in RowStore(held.layout.bench.rows).entries() if e.hash in found["rows"]]
    assert len({r.block_id for r in rows}) == 2
    assert sorted({r.block_position for r in rows if r.block_position is not None}) == [0, 1, 2, 3]
    assert {r.framework_commit for r in rows if r.framework == "sglang"} == {found["commit"]}
    assert {json.dumps(r.hardware.gpu_model) for r in rows} == {'"H200"'}


CONTRACTS: dict[str, tuple[dict[str, Any], str]] = {
    "no quality": ({"quality": None}, "C41: the contract fixes no quality"),
    "a quality without a bound": ({"quality": {}}, "C41: the contract fixes no quality"),
    "two scenarios": ({"grid": grid(("a", [1]), ("b", [1]))}, "A79: 2 scenarios"),
    "many at once": ({"grid": grid(("a", [4]))}, "A79: a asks for concurrency"),
}


@pytest.mark.parametrize("what", CONTRACTS)
def test_a_contract_that_handed_in_launches_cannot_meet_is_not_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    change, match = CONTRACTS[what]
    agent = Painter(tmp_path, monkeypatch)
    agent.begin()
    agent.draft.write_text(json.dumps(contract(**change)))
    with pytest.raises(Refused, match=match):
        agent.record("lock_contract", contract=str(agent.draft))
    assert open_campaign(agent.run).contract is None


def test_a_baseline_that_was_stored_and_not_recorded_is_still_the_reference(agent: Painter) -> None:
    """A process that dies between the rows and the record: the winner table knows the pictures by its rows."""
    held = open_campaign(agent.run)
    held.records = [r for r in held.records if r.kind != "handed"]
    handed_quality.same_reference(held, {pictures.fingerprint(Path(agent.notes["reference"]))})
    with pytest.raises(GateRefused, match="is not what SGLang generated at the baseline"):
        handed_quality.same_reference(held, {"a" * 64})


def test_a_file_that_a_recorded_run_wrote_names_that_run_and_the_others_are_told(agent: Painter) -> None:
    first, made = agent.dump("sglang"), agent.tmp / "observed.jsonl"
    task, argv = open_campaign(agent.run).task_id, ["cp", str(first), str(made)]
    with open_store() as store:
        record(store, task, argv, label="launch", evidence=[("diffusion", made)], cwd=str(agent.tmp))
    told = agent.hand_in(
        "patched", *turned(agent, made), "--outputs", str(agent.paint()), "--reference", agent.notes["reference"]
    )
    assert any("1 of 6 files were written by recorded runs" in line for line in told["summary"])
    runs = {f["path"]: f["execution"] for f in open_campaign(agent.run).of("measurement")[-1]["files"]}
    assert [Path(p).name for p, run in runs.items() if run] == ["observed.jsonl"]
