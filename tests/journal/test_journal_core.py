"""Records go in once, are found, compared and surfaced; the index is only a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_forge.base.errors import InputUnusable, UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.base.records import InputFile
from infer_forge.journal import (
    add,
    compare,
    compare_records,
    facet_report,
    get,
    group_records,
    group_results,
    markdown,
    open_store,
    related_records,
    search_report,
    show_report,
    surface_records,
)
from infer_forge.journal.index import ask, index_file
from infer_forge.journal.model import Idea, VersionRange
from infer_forge.journal.search import facets, search
from infer_forge.journal.versions import in_range, version_key
from infer_forge.journal.words import terms
from tests.journal.journal_records import CONTRACT, POINT, WHEN, note, result


def found(store: Store, query: str, **filters: list[str]) -> list[str]:
    return [h.id for h in search(store, query, filters)]


# Records


@settings(max_examples=60, deadline=None)
@given(
    title=st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=3, max_size=60),
    body=st.lists(
        st.sampled_from(["---", "\n", "\r\n", "--- x", "a: b"]) | st.text(st.characters(codec="utf-8"), max_size=60)
    ).map("".join),
    symptoms=st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=30), max_size=3),
    extra=st.dictionaries(
        st.text(max_size=8), st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9), max_size=3
    ),
    value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_record_read_back_from_its_markdown_is_equal(
    title: str, body: str, symptoms: list[str], extra: dict[str, Any], value: float | None
) -> None:
    record = note(title, body, symptoms=symptoms, extra=extra, value=value, dims={"model": ["DSv3"]})
    again = markdown.read(markdown.write(record))
    assert again == record
    assert again.body == record.body
    assert markdown.write(again) == markdown.write(record)


def test_the_same_record_written_twice_is_one(store: Store) -> None:
    first = add(store, [note("a note of mine", "text")])
    assert add(store, [note("a note of mine", "text")]) == first
    assert ask(store, lambda db: db.execute("SELECT count(*) FROM records WHERE kind='note'").fetchone()) == (1,)


def test_spellings_become_one(store: Store) -> None:
    (one,) = add(store, [note("spelled long", dims={"gpu": "NVIDIA H200 141GB", "model": "deepseek-ai/DeepSeek-V3"})])
    assert found(store, "spelled", gpu=["h200"], model=["DSv3"]) == [one]


def test_secrets_are_masked_wherever_they_stand(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "hf_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7"
    monkeypatch.setenv("TEAM_API_KEY", "plain-words-value-77")
    (record_id,) = add(store, [note(token, f"uses {token} and plain-words-value-77", extra={"k": [token]})])
    text = markdown.write(get(store, record_id))
    assert token not in text
    assert "plain-words-value-77" not in text
    assert "[redacted:huggingface-token]" in text


def test_an_end_to_end_claim_without_a_deployment_point_is_refused() -> None:
    with pytest.raises(InputUnusable, match="deployment point"):
        markdown.make({"kind": "result", "title": "fast", "created": WHEN, "claim": "model_e2e"})


@pytest.mark.parametrize("point", [{}, {"model": {}}, {"serving_topology": {"replicas": 1}}])
def test_a_deployment_point_that_states_nothing_is_none(point: dict[str, Any]) -> None:
    with pytest.raises(InputUnusable, match="states nothing"):
        result(1.0, deployment_point=point)


def test_a_hit_names_the_metric_of_its_figure_and_the_kind_of_claim(store: Store) -> None:
    add(store, [result(100.0)])
    (hit,) = search_report(store, "reaches", {}).tables["hits"].dicts()
    assert (hit["claim"], hit["metric"], hit["value"]) == ("model_e2e", "output_throughput", 100.0)


def test_as_many_hits_as_were_asked_for_may_not_be_all(store: Store) -> None:
    add(store, [note(f"tile {i}") for i in range(3)])
    assert "there may be more" in search_report(store, "tile", {}, limit=2).summary[0]
    assert search_report(store, "tile", {}).summary == ["3 records"]


def test_an_unknown_id_and_a_path_as_id_are_refused(store: Store) -> None:
    for wrong in ("20261101-000000-0000000000", "../../../etc/passwd", ""):
        with pytest.raises(InputUnusable, match="no record has the id"):
            get(store, wrong)


def test_an_artifact_that_changed_or_vanished_is_told(store: Store, tmp_path: Path) -> None:
    for name in ("same", "changed", "gone"):
        (tmp_path / name).write_text(name)
    files = [InputFile.of(tmp_path / n) for n in ("same", "changed", "gone")]
    artifacts = [{"path": f.path, "sha256": f.sha256} for f in files]
    (record_id,) = add(store, [note("stands on files", artifacts=artifacts)])
    (tmp_path / "changed").write_text("other")
    (tmp_path / "gone").unlink()
    report = show_report(store, record_id)
    assert [r[2] for r in report.tables["artifacts"].rows] == ["same", "changed", "gone"]
    assert [f.code for f in report.findings] == ["ARTIFACT_CHANGED", "ARTIFACT_GONE"]


# Search


def test_identifiers_are_found_whole_and_in_parts(store: Store) -> None:
    (one,) = add(store, [note("hot kernel", "RMSNormFused calls fused_moe_kernel<int8_t, 128>")])
    for query in ("RMSNormFused", "rms norm", "fused_moe_kernel", "moe kernel", "int8_t"):
        assert found(store, query) == [one], query


def test_a_word_is_found_in_its_other_forms_and_the_snippet_shows_where(store: Store) -> None:
    before = "words before it " * 40
    (one,) = add(store, [note("graph trouble", f"{before}the server crashes while it captures graphs of all kernels")])
    for query in ("capturing", "captured graph", "kernel crash", "servers crashed"):
        assert found(store, query) == [one], query
    assert "captures graphs" in search(store, "capturing")[0].snippet
    assert found(store, "captain") == []


def test_a_question_with_words_that_nobody_wrote_is_answered_by_the_rest_of_it(store: Store) -> None:
    add(store, [note(f"number {i}", f"something else entirely, {i}") for i in range(300)])
    ids = add(store, [note("mooncake stalls", f"the transfer waits, {i}") for i in range(2)])
    assert set(found(store, "mooncake stall unheard unseen")) == set(ids)
    assert found(store, "mooncake unheard unseen unknown") == []


def test_one_rare_word_of_many_is_a_coincidence_but_not_beside_words_that_stand_everywhere(store: Store) -> None:
    add(store, [note(f"number {i}", "tile of the kernel") for i in range(100)])
    ids = add(store, [note("a camera", "rare"), note("half and half", "sundry"), note("half", "sundry")])
    assert set(found(store, "camera sundry half")) == set(ids[1:])
    assert found(store, "camera tile kernel") == [ids[0]]


def test_chinese_is_found_by_two_characters_and_by_a_sentence(store: Store) -> None:
    (one,) = add(store, [note("FP8 的开销", "H200 上激活量化的开销很大")])
    for query in ("激活", "量化", "激活量化的开销", "H200激活量化"):
        assert found(store, query) == [one], query
    assert found(store, "编译") == []


def test_a_part_of_a_word_is_no_hit(store: Store) -> None:
    add(store, [note("restart the engine", "start")])
    assert found(store, "art") == []


def test_nothing_is_said_when_nothing_fits(store: Store) -> None:
    add(store, [note("moe kernel tuned", "tile sizes of the moe kernel")])
    assert found(store, "banana pancake recipe") == []
    assert search_report(store, "banana pancake", {}).summary == ["nothing in the journal fits"]


def test_hostile_queries_are_words_like_others(store: Store) -> None:
    add(store, [note("moe kernel tuned", "tile")])
    for query in ('"', "NEAR(", "AND OR NOT", "a*b:^c", "title:moe", "'; DROP TABLE records;--", "\x00", "(" * 500):
        search(store, query)
    assert found(store, "tile")


def test_a_superseded_record_gives_way(store: Store) -> None:
    (old,) = add(store, [note("tile size is 64", "measured")])
    (new,) = add(store, [note("tile size is 128", "measured again", links=[{"rel": "supersedes", "id": old}])])
    assert found(store, "tile size") == [new]
    assert {h.id for h in search(store, "tile size", include_superseded=True)} == {old, new}


def test_the_symptom_of_a_pitfall_finds_it(store: Store) -> None:
    for query in (
        "TTFT and ITL are 0.0 ms in bench_serving for a reasoning model although output tokens are counted",
        "Mean TTFT 0.00 with streaming",
        "推理模型 TTFT 为 0",
    ):
        top = search(store, query)[0]
        assert top.fields["title"].startswith("P3"), query


def test_an_unknown_dimension_is_refused(store: Store) -> None:
    with pytest.raises(UsageFault, match="colour"):
        search(store, "x", {"colour": ["red"]})


def test_a_dimension_with_more_values_than_are_shown_says_how_many_are_left_out(store: Store) -> None:
    add(store, [note(f"note {i}", dims={"scenario": [f"s{i}"]}) for i in range(15)])
    report = facet_report(store, {})
    assert len([r for r in report.tables["facets"].rows if r[0] == "scenario"]) == 12
    assert report.header.hidden == {"scenario": "3 rarer values"}
    assert "3 rarer values" in report.render("text")


def test_facets_count_exactly(store: Store) -> None:
    add(store, [note(f"note {i}", dims={"gpu": ["H200" if i % 3 else "H100"], "model": ["DSv3"]}) for i in range(9)])
    counted = facets(store, {"model": ["deepseek-v3"]})
    assert counted["count"] == 9
    assert counted["facets"]["gpu"] == [("NVIDIA H200", 6), ("NVIDIA H100", 3)]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("推理模型TTFT为0", [["推", "理"], ["理", "模"], ["模", "型"], ["ttft"], ["0"]]),
        ('"激活量化" moe', [["激", "活", "量", "化"], ["moe"]]),
        ("the of", [["the"], ["of"]]),
        ("why is moe slow", [["moe"], ["slow"]]),
    ],
)
def test_a_query_becomes_terms(query: str, wanted: list[list[str]]) -> None:
    assert terms(query) == wanted


# Comparison


def test_results_of_one_contract_compare_over_the_framework(store: Store) -> None:
    ids = add(store, [result(100.0), result(110.0, framework="vllm")])
    report = compare_records(store, ids, "framework")
    assert report.extra["comparable"]
    assert report.tables["records"].dicts()[1]["ratio_to_first"] == 1.1
    alone = compare_records(store, ids)
    assert not alone.extra["comparable"]
    assert alone.tables["records"].dicts()[1]["ratio_to_first"] is None
    assert "runtime_profile.framework" in [r[1] for r in alone.tables["differences"].rows]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"contract_sha256": "2" * 64}, "contract"),
        ({"contract_sha256": None}, "contract"),
        ({"claim": "kernel_task"}, "claim"),
        ({"metric": "mean_ttft"}, "metric"),
        ({"unit": "req/s"}, "unit"),
        ({"epoch_fenced": True}, "epoch"),
    ],
)
def test_no_ratio_between_different_work(store: Store, more: dict[str, Any], field: str) -> None:
    ids = add(store, [result(100.0), result(110.0, **more)])
    report = compare_records(store, ids, "framework")
    assert report.tables["records"].dicts()[1]["ratio_to_first"] is None
    assert field in [r[1] for r in report.tables["differences"].rows]


def test_what_neither_side_states_is_not_known_to_be_equal(store: Store) -> None:
    bare = {"kind": "result", "claim": "kernel_task", "created": WHEN, "metric": "time_us", "contract_sha256": CONTRACT}
    ids = add(store, [markdown.make({**bare, "title": f"kernel {v}", "value": v}) for v in (1.0, 2.0)])
    report = compare_records(store, ids)
    assert [r[1] for r in report.tables["differences"].rows] == ["gpu"]


def test_groups_hold_what_is_comparable(store: Store) -> None:
    ids = add(store, [result(1.0), result(2.0, framework="vllm"), result(3.0, contract_sha256="3" * 64)])
    rows = group_records(store, ids, "framework").tables["groups"].dicts()
    assert [(r["group"], r["value"]) for r in rows] == [(1, 1.0), (1, 2.0), (2, 3.0)]


def test_results_that_the_filters_choose_are_grouped_and_the_rest_is_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = add(store, [result(1.0)])
    corrected = result(1.5, links=[{"rel": "supersedes", "id": old}])
    add(store, [corrected, result(2.0, framework="vllm"), result(3.0, contract_sha256="3" * 64), note("no result")])
    report = group_results(store, "framework", {"model": ["qwen3-8b"]})
    assert sorted((r["group"], r["value"]) for r in report.tables["groups"].dicts()) in (
        [(1, 1.5), (1, 2.0), (2, 3.0)],
        [(1, 3.0), (2, 1.5), (2, 2.0)],
    )
    with pytest.raises(InputUnusable, match="no result with a figure fits"):
        group_results(store, "framework", {"gpu": ["H100"]})
    monkeypatch.setattr(compare, "MOST_GROUPED", 2)
    report = group_results(store, "framework")
    assert len(report.tables["groups"].rows) == 2
    assert report.header.hidden == {"groups": "1 older results"}


# What surfaces


def test_pitfalls_are_matched_by_version(store: Store) -> None:
    def titles(tools: dict[str, str | None]) -> dict[str, str]:
        rows = surface_records(store, tools=tools, limit=50).tables["surfaced"].rows
        return {r[2].split(":")[0]: r[3] for r in rows}

    old, new, unknown = titles({"vllm": "0.5.4"}), titles({"vLLM": "0.11.0"}), titles({"vllm": None})
    assert "affected" in old["P5"]
    assert "P5" not in new
    assert "unknown" in unknown["P5"]
    assert "P1" not in old
    assert "P9" in titles({"TRT-LLM": "1.0.0"})


def test_what_does_not_fit_is_counted_when_records_surface(store: Store) -> None:
    whole = surface_records(store, tools={"vllm": "0.5.4"}, limit=50)
    assert whole.header.hidden == {}
    count = len(whole.tables["surfaced"].rows)
    few = surface_records(store, tools={"vllm": "0.5.4"}, limit=2)
    assert len(few.tables["surfaced"].rows) == 2
    assert few.header.hidden == {"pitfall": count - 2}
    assert few.summary == [
        f"{count} records of the journal concern this work",
        f"{count - 2} more of pitfall are not shown: --limit {count}",
    ]


def test_an_earlier_rejection_of_the_same_idea_surfaces(store: Store) -> None:
    idea = {"repository": "sgl-project/sglang", "path": "python/sglang/srt/layers/moe.py", "symbol": "fused_moe"}
    (one,) = add(
        store, [markdown.make({"kind": "rejection", "title": "wider tiles lost", "created": WHEN, "idea": idea})]
    )
    add(store, [note("same file name elsewhere", idea={**idea, "repository": "other/repo"})])
    rows = surface_records(store, ideas=[Idea(**idea)]).tables["surfaced"].rows
    assert [(r[0], r[1]) for r in rows] == [("same idea", one)]


def test_the_best_known_result_of_the_point_surfaces(store: Store) -> None:
    from infer_forge.base.contracts import point_of

    ids = add(store, [result(100.0), result(140.0), result(900.0, epoch_fenced=True), result(500.0, framework="vllm")])
    rows = surface_records(store, point=point_of(POINT)).tables["surfaced"].rows
    assert [r[1] for r in rows] == [ids[1], ids[0]]


def test_related_records_are_linked_both_ways(store: Store) -> None:
    (first,) = add(store, [note("ground truth of tiles")])
    (second,) = add(
        store, [note("builds on it", links=[{"rel": "supports", "id": first}, {"rel": "about", "id": "#12"}])]
    )
    assert related_records(store, first).tables["related"].rows[0][:1] == (second,)
    assert related_records(store, second).tables["related"].rows[0][:1] == (first,)


# Versions


def test_versions_are_ordered_as_pep_440_orders_them() -> None:
    order = ["0.5.9", "0.6.0.dev3", "0.6.0a1", "v0.6.0rc1", "0.6.0rc2", "0.6", "0.6.0.post1", "0.6.1", "0.10"]
    keys = [version_key(v) for v in order]
    assert None not in keys
    assert sorted(keys, key=lambda k: k or ((), 0, 0, 0, 0)) == keys
    assert version_key("0.6") == version_key("0.6.0") == version_key("0.6.0+cu128")
    assert version_key("main") is None


def test_a_range_with_a_good_version_but_no_fix_leaves_the_middle_open() -> None:
    span = VersionRange(tool="sglang", good_from="0.5.23")
    assert in_range("0.5.23", span) is False
    assert in_range("0.5.1", span) is None
    assert in_range(None, span) is None
    assert in_range("main", VersionRange(tool="x", fixed_in="1.0")) is None
    assert in_range("0.9rc1", VersionRange(tool="x", fixed_in="0.9")) is True


# The index


@pytest.mark.parametrize("harm", ["gone", "garbage", "cut", "middle", "old shape"])
def test_a_damaged_index_is_made_anew_without_a_word(store: Store, harm: str) -> None:
    add(store, [note(f"record number {i}", "words " * 50) for i in range(40)])
    assert len(search(store, "record number", limit=50)) == 40
    file = index_file(store)
    data = file.read_bytes()
    if harm == "gone":
        file.unlink()
    elif harm == "garbage":
        file.write_bytes(b"no database" * 1000)
    elif harm == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif harm == "middle":
        file.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    else:
        ask(store, lambda db: db.execute("UPDATE meta SET value='0' WHERE key='shape'"))
    assert len(search(store, "record number", limit=50)) == 40


def test_another_store_at_the_same_place_is_indexed_anew(store: Store, tmp_path: Path) -> None:
    import shutil

    place = tmp_path / "journal.git"
    with open_store(place) as first:
        add(first, [note("first life")])
        assert search(first, "life")
    shutil.rmtree(place)
    with open_store(place) as second:
        (one,) = add(second, [note("second life")])
        assert [h.id for h in search(second, "life")] == [one]


# The team's hub


def test_records_reach_the_team_and_wait_here_while_the_hub_is_away(tmp_path: Path) -> None:
    from infer_forge.journal import record_report
    from infer_forge.journal.store import sync_report, unsent

    hub = tmp_path / "hub.git"
    Store.open(hub).close()
    with Store.open(tmp_path / "ann.git", str(hub)) as ann, Store.open(tmp_path / "bob.git", str(hub)) as bob:
        add(ann, [note("ann saw it")])
        hub.rename(tmp_path / "away")
        report = record_report(bob, {"kind": "note", "title": "bob saw it", "created": WHEN})
        assert [f.code for f in report.findings] == ["KEPT_HERE"]
        assert found(bob, "saw") == report.extra["ids"]
        (tmp_path / "away").rename(hub)
        sync_report(bob)
        assert not unsent(bob)
        assert len(found(bob, "saw")) == 2
        sync_report(ann)
        assert len(found(ann, "saw")) == 2
