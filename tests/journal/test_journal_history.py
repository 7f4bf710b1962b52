"""Pull requests of real git repositories become cards; questions to them say what is in the source and what is not."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infer_forge.base import workers
from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.records import Report
from infer_forge.cli.journal_history import command
from infer_forge.journal import build_history, check_notes, history_read, list_history, query_history, show_card
from infer_forge.journal.families import family_of, read_families
from infer_forge.journal.gitlog import commits, symbol_name
from infer_forge.journal.pr_numbers import number_of, reverts_of, title_of

HEAD = "a" * 40


class Repo:
    """A git repository in a folder, with a clock of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.time = 1_780_000_000
        path.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        self.time += 60
        env = {
            **os.environ,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": f"{self.time} +0000",
            "GIT_COMMITTER_DATE": f"{self.time} +0000",
            **{
                f"GIT_{who}_{what}": "someone@example.org"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
        }
        done = subprocess.run(
            ["git", "-C", str(self.path), *words], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, subject: str, files: dict[str, str], body: str = "") -> str:
        for name, text in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject, *(["-m", body] if body else []))
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "sglang")
    made.commit("Initial commit", {"README.md": "x\n"})
    model = "python/sglang/srt/models/qwen3_moe.py"
    made.commit(
        "Fuse the gate of Qwen3 MoE (#7)",
        {model: "class Qwen3MoeForCausalLM:\n    def forward(self):\n        return 1\n"},
        "Throughput 1.12x on H200. Only for TP 1.",
    )
    text = "class Qwen3MoeForCausalLM:\n    def forward(self):\n        x = 2\n        return x\n"
    made.commit("[Perf] Speed up (#11) of decode graph (#42)", {model: text, "python/sglang/srt/graph.py": "g = 1\n"})
    made.commit("Tune deepseek mla (#50)", {"python/sglang/srt/layers/mla/x.py": "a = 1\n"})
    return made


def cards(report: Report) -> dict[str, dict[str, object]]:
    return {str(r["pr"]).rpartition("#")[2]: r for r in report.tables["cards"].dicts()}


@pytest.mark.parametrize(
    ("subject", "body", "number"),
    [
        ("Fix a thing (#7)", "", 7),
        ("Fix #12 in the cache (#99)", "", 99),
        ('Revert "Fix a thing (#7)" (#8)', "", 8),
        ("Merge pull request #31 from someone/branch", "The title", 31),
        ("Auto merge of #1234 - a:b, r=c", "", 1234),
        ("Merge #5", "", 5),
        ("Merge branch 'x' into 'main'", "Title\n\nSee merge request group/project!77", 77),
        ("Sync (sgl-project/sglang#55)", "", 55),
        ("Fix issue #12", "", None),
        ("Use 4 (#x)", "", None),
        (f"Too long (#{'9' * 20})", "", None),
        (f"Merge pull request #{'9' * 5000} from a/b", "", None),
        ("Not our digits (#\u0663)", "", None),
    ],
)
def test_the_number_of_a_pull_request_is_read_from_every_form(subject: str, body: str, number: int | None) -> None:
    assert number_of(subject, body) == number


def test_what_a_commit_takes_back() -> None:
    assert reverts_of('Revert "Fix a thing (#7)" (#8)') == ({7}, set())
    assert reverts_of("[Revert] x", "This reverts commit " + "b" * 40) == (set(), {"b" * 40})
    assert reverts_of('Reapply "Fix a thing (#7)" (#9)', "This reverts commit " + "c" * 40) == (set(), set())
    assert reverts_of(f"Revert #{'9' * 20}", f"Reverts #{'9' * 20}") == (set(), set())
    assert title_of("Merge branch 'x' into 'main'", "\nThe title\n\nSee merge request a/b!77") == "The title"
    assert title_of("Merge pull request #31 from a/b", "\nThe title\n\nmore") == "The title"


def test_symbols_are_named_as_git_shows_them() -> None:
    assert symbol_name("    def forward(self, x):") == "forward"
    assert symbol_name("class Qwen3MoeForCausalLM(nn.Module):") == "Qwen3MoeForCausalLM"
    assert symbol_name("__global__ void fused_kernel(int* x) {") == "fused_kernel"
    assert symbol_name("import os") is None


def test_cards_hold_number_commit_files_lines_symbols_and_families(repo: Repo) -> None:
    build_history(repo.path)
    report = query_history("Qwen/Qwen3-30B-A3B")
    assert report.extra["family"]["name"] == "qwen3"
    found = cards(report)
    assert set(found) == {"7", "42"}
    assert found["42"]["lines"] == "+3 -1"
    assert "forward" in str(found["42"]["symbols"])
    note = next(n for n in report.extra["notes"] if n["pr"].endswith("#7"))
    assert note["merge_commit"] == repo.git("rev-list", "--reverse", "HEAD").split()[1]
    assert note["source_commit"] == repo.git("rev-parse", "HEAD")
    assert "1.12x" in note["validation_evidence"][0]
    assert "Only for TP 1" in note["known_limits"][0]
    assert list_history().tables["repositories"].dicts()[0]["framework"] == "sglang"


def test_unusual_paths_renames_deletions_and_binary_files_are_read(repo: Repo) -> None:
    repo.commit("Odd (#60)", {'a b/näme "q".py': "1\n", "x\ty.py": "2\n", "-- lines.txt": "-- a/b\n++ c\n--- d\n"})
    repo.commit("Shrink (#61)", {"-- lines.txt": "@@ -1 +1 @@ def no(\n"})
    repo.git("mv", "python/sglang/srt/graph.py", "python/sglang/srt/qwen3_graph.py")
    (repo.path / "blob.bin").write_bytes(bytes(range(256)) * 8)
    (repo.path / "x\ty.py").unlink()
    repo.commit("Move it (#62)", {})
    read = {c.subject: c for c in commits(repo.path, None, "HEAD")}
    assert {f.path for f in read["Odd (#60)"].files} == {'a b/näme "q".py', "x\ty.py", "-- lines.txt"}
    assert [(f.added, f.removed) for f in read["Shrink (#61)"].files] == [(1, 3)]
    assert read["Shrink (#61)"].symbols == []
    moved = {f.path: f for f in read["Move it (#62)"].files}
    assert moved["python/sglang/srt/qwen3_graph.py"].renamed_from == "python/sglang/srt/graph.py"
    assert set(moved) == {"python/sglang/srt/qwen3_graph.py", "blob.bin", "x\ty.py"}


def test_a_merge_commit_is_one_card_with_the_whole_change(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit("step one", {"python/sglang/srt/qwen3_a.py": "1\n"})
    repo.commit("step two", {"python/sglang/srt/qwen3_b.py": "1\n2\n"})
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "topic", "-m", "Merge pull request #9 from me/topic\n\nTwo steps for qwen3")
    build_history(repo.path)
    found = cards(query_history("qwen3"))["9"]
    assert found["title"] == "Two steps for qwen3"
    assert found["lines"] == "+3 -0"


def test_a_reverted_card_is_not_in_the_source_until_the_revert_is_taken_back(repo: Repo) -> None:
    build_history(repo.path)
    repo.commit('Revert "Fuse the gate of Qwen3 MoE (#7)" (#70)', {"python/sglang/srt/models/qwen3_moe.py": "x = 1\n"})
    assert build_history(repo.path).header.coverage["mode"] == "added"
    found = cards(query_history("qwen3"))
    assert (found["7"]["reverted_by"], found["7"]["in_source"]) == ("#70", False)
    repo.commit(
        'Revert "Revert "Fuse the gate of Qwen3 MoE (#7)" (#70)" (#71)',
        {"python/sglang/srt/models/qwen3_moe.py": "x = 2\n"},
    )
    build_history(repo.path)
    found = cards(query_history("qwen3"))
    assert (found["70"]["in_source"], found["7"]["in_source"]) == (False, True)


def test_the_next_build_reads_only_what_is_new_and_a_rewritten_history_anew(repo: Repo) -> None:
    assert build_history(repo.path).header.coverage["commits_read"] == 4
    assert build_history(repo.path).header.coverage["commits_read"] == 0
    repo.commit("More of qwen3 (#80)", {"qwen3.txt": "1\n"})
    assert build_history(repo.path).header.coverage["commits_read"] == 1
    repo.git("reset", "-q", "--hard", "HEAD~2")
    repo.commit("Another (#81)", {"qwen3.txt": "2\n"})
    report = build_history(repo.path)
    assert "rewritten" in report.header.coverage["mode"]
    assert set(cards(query_history("qwen3"))) == {"7", "42", "81"}


def test_an_incremental_history_equals_one_built_at_once(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(90, 96):
        build_history(repo.path)
        repo.commit(f"Part of qwen3 (#{number})", {f"qwen3_{number}.py": "1\n"})
    build_history(repo.path)
    step_by_step = query_history("qwen3", limit=50).to_json()
    monkeypatch.setenv("INFER_FORGE_HOME", str(tmp_path / "other"))
    build_history(repo.path)
    assert query_history("qwen3", limit=50).to_json() == step_by_step


def test_saved_pulls_are_candidates_and_an_open_one_needs_its_head(repo: Repo, tmp_path: Path) -> None:
    pulls = [
        {
            "number": 101,
            "state": "open",
            "title": "Faster qwen3",
            "head": {"sha": HEAD},
            "files": [{"filename": "qwen3.py"}],
        },
        {"number": 102, "state": "OPEN", "title": "No head for qwen3", "headRefOid": HEAD[:12]},
        {"number": 103, "state": "closed", "title": "Given up", "files": [{"path": "qwen3.py", "additions": 3}]},
        {"number": 7, "state": "closed", "merged_at": "2026-01-01", "title": "known to git"},
    ]
    file = tmp_path / "pulls.json"
    file.write_text(json.dumps(pulls))
    report = build_history(repo.path, pulls=file)
    assert [r[0] for r in report.tables["refused_pulls"].rows] == ["#102"]
    found = query_history("qwen3")
    table = cards(found)
    assert (table["101"]["state"], table["101"]["in_source"], table["101"]["commit"]) == ("open", False, HEAD)
    assert table["103"]["state"] == "closed-unmerged"
    assert "OPEN_PULLS" in [f.code for f in found.findings]
    repo.commit("Faster qwen3 (#101)", {"qwen3.py": "1\n"})
    build_history(repo.path)
    assert cards(query_history("qwen3"))["101"]["state"] == "merged"


def test_notes_are_complete_but_for_the_decision(repo: Repo) -> None:
    build_history(repo.path)
    notes = query_history("qwen3").extra["notes"]
    assert {f.message.split(": ")[1] for f in check_notes(notes)} == {"decision is missing"}
    done = [{**n, "decision": "take the fused gate as baseline"} for n in notes]
    assert check_notes(done) == []


def test_an_open_note_told_as_present_is_refused(repo: Repo) -> None:
    build_history(repo.path)
    (note, *_) = query_history("qwen3").extra["notes"]
    note = {**note, "decision": "x", "state": "open", "head_sha": "abc", "in_source": True}
    assert [f.code for f in check_notes([note])] == ["NOTE_OPEN_HEAD", "NOTE_NOT_PRESENT"]


def test_an_open_note_with_a_merge_commit_and_a_decision_of_blanks_are_refused(repo: Repo) -> None:
    build_history(repo.path)
    (note, *_) = query_history("qwen3").extra["notes"]
    note = {**note, "decision": " \n", "state": "open", "head_sha": HEAD, "in_source": False}
    assert [f.code for f in check_notes([{**note, "merge_commit": None}])] == ["NOTE_INCOMPLETE"]
    assert [f.code for f in check_notes([{**note, "decision": "x", "merge_commit": HEAD}])] == ["NOTE_NOT_PRESENT"]


def test_saved_pulls_of_another_shape_are_told_and_take_no_other_with_them(repo: Repo, tmp_path: Path) -> None:
    one = {"state": "open", "title": "qwen3", "head": {"sha": HEAD}}
    odd: list[dict[str, Any]] = [
        {**one, "number": number, "files": files}
        for number, files in (
            (10**19, []),
            (0, []),
            (True, []),
            (201, [3]),
            (202, "qwen3.py"),
            (203, [{"filename": None}]),
            (204, [{"path": "a", "additions": "many"}]),
        )
    ]
    file = tmp_path / "pulls.json"
    file.write_text(json.dumps([*odd, {**one, "number": 205, "files": ["qwen3.py"]}]))
    report = build_history(repo.path, pulls=file)
    assert len(report.tables["refused_pulls"].rows) == len(odd)
    assert cards(query_history("qwen3"))["205"]["files"] == "qwen3.py"


@pytest.mark.parametrize("program", [None, "raise SystemExit(3)"])
def test_a_history_read_by_several_processes_equals_one_read_by_one(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None
) -> None:
    for number in range(200, 212):
        repo.commit(
            f"Part of qwen3 (#{number})", {f"qwen3_{number % 4}.py": f"def f{number}(x):\n    return {number}\n"}
        )
    repo.git("checkout", "-q", "-b", "topic", "HEAD~5")
    repo.commit("aside", {"aside.py": "1\n"})
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-ff", "topic", "-m", "Merge pull request #300 from me/topic\n\nAside of qwen3")
    alone = list(commits(repo.path, None, "HEAD"))
    monkeypatch.setattr(history_read, "MANY", 3)
    monkeypatch.setattr(workers, "cores", lambda: 3)
    if program is not None:
        monkeypatch.setattr(history_read, "_PROGRAM", program)
    assert list(history_read.history(repo.path, None, "HEAD")) == alone
    assert list(history_read.history(repo.path, "HEAD~9", "HEAD")) == alone[:9]
    build_history(repo.path)
    assert show_card("sglang", 300).tables["cards"].rows[0][5] == "+1 -0"


def test_another_families_file_sorts_anew_without_reading_git(repo: Repo, tmp_path: Path) -> None:
    build_history(repo.path)
    file = tmp_path / "families.yaml"
    file.write_text("families:\n  mine: {globs: ['*graph.py'], ids: [mymodel]}\n")
    assert build_history(repo.path, file).header.coverage["commits_read"] == 0
    assert set(cards(query_history("MyModel-7B", families_file=file))) == {"42"}
    repo.commit("Again (#43)", {"python/sglang/srt/graph.py": "g = 2\n", "python/sglang/srt/pool.py": "p = 1\n"})
    repo.commit("And again (#44)", {"python/sglang/srt/graph.py": "g = 3\n", "python/sglang/srt/pool.py": "p = 2\n"})
    build_history(repo.path, file)
    beside = query_history("mymodel", families_file=file).tables["changed_together"].rows
    assert [r[0] for r in beside] == ["python/sglang/srt/pool.py"]  # the family's own file is not beside it


def test_families_are_found_by_id_architecture_and_spelling() -> None:
    families = read_families()
    assert family_of("deepseek-ai/DeepSeek-V3", families).family == "deepseek"
    assert family_of("Qwen3MoeForCausalLM", families).family == "qwen3"
    assert family_of("DSv3", families).certain
    close = family_of("depseek-v9", families)
    assert (close.family, close.certain) == ("deepseek", False)
    assert family_of("zzzz", families).family is None
    newer = family_of("Qwen/Qwen4-32B", families)
    assert (newer.family, newer.certain) == ("qwen2", False)
    for sure in ("Qwen/Qwen3-8B", "Qwen2.5-7B", "Qwen-7B", "google/gemma-3-27b", "llama4", "openai/gpt-oss-120b"):
        assert family_of(sure, families).certain, sure


def test_one_card_in_full_and_unknown_ones(repo: Repo) -> None:
    with pytest.raises(InputUnusable, match="no pull-request history"):
        query_history("qwen3")
    build_history(repo.path)
    assert show_card("sglang", 42).tables["files"].rows[0][0].startswith("python/sglang")
    with pytest.raises(InputUnusable, match="no card"):
        show_card("sglang", 4711)
    with pytest.raises(UsageFault, match="vllm"):
        query_history("qwen3", framework="vllm")
    with pytest.raises(InputUnusable):
        build_history(repo.path.parent)


def test_notes_of_nothing_are_accepted_only_with_the_blocker_that_they_stand_for(tmp_path: Path) -> None:
    file = tmp_path / "notes.json"
    nothing: tuple[Any, ...] = ([], {"notes": []}, {"notes": [], "blocker": " "})
    for told in nothing:
        file.write_text(json.dumps(told))
        done = CliRunner().invoke(command, ["check-notes", str(file)])
        assert isinstance(done.exception, InputUnusable), told
    file.write_text(json.dumps({"notes": [], "blocker": "no checkout here, and no network"}))
    assert CliRunner().invoke(command, ["check-notes", str(file)]).exit_code == 0
