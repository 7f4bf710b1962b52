"""The wiki is made from records alone, and lint tells everything in it that records do not carry."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import UsageFault
from infer_forge.base.gitstore import Store
from infer_forge.journal import add, build_wiki, lint_wiki, markdown
from infer_forge.journal.wiki_pages import slug
from infer_forge.journal.wiki_site import web_server
from tests.journal.journal_records import WHEN, note


def result(value: float, **more: Any) -> Any:
    fields = {
        "kind": "result",
        "title": f"throughput {value}",
        "created": WHEN,
        "claim": "kernel_task",
        "metric": "time_us",
        "value": value,
        "contract_sha256": "1" * 64,
        "dims": {"gpu": ["H200"], "kernel_family": ["moe"]},
    }
    return markdown.make(fields | more)


def rules(store: Store, folder: Path) -> dict[str, int]:
    counts: dict[str, int] = lint_wiki(store, folder).extra["counts"]
    counts.pop("ORPHAN_RECORD", None)
    return counts


def test_pages_cite_each_record_with_id_and_hash_and_link_both_ways(store: Store, tmp_path: Path) -> None:
    (one,) = add(store, [note("MoE is hot", "text *here*", dims={"model": ["DSv3"], "gpu": ["H200"]})])
    build_wiki(store, tmp_path)
    page = (tmp_path / "models/deepseek-v3.md").read_text()
    assert f"[{one}](../records/{one}.md) `sha256:" in page
    assert "[NVIDIA H200](../gpus/nvidia-h200.md)" in page
    record = (tmp_path / f"records/{one}.md").read_text()
    assert "(../models/deepseek-v3.md)" in record
    assert "text *here*" in record
    assert "(models/deepseek-v3.md)" in (tmp_path / "index.md").read_text()
    assert rules(store, tmp_path) == {}


def test_a_figure_on_a_page_names_the_kind_of_claim_that_it_is(store: Store, tmp_path: Path) -> None:
    add(store, [result(1.0)])
    build_wiki(store, tmp_path)
    assert "(kernel\\_task; time\\_us 1)" in (tmp_path / "kernels/moe.md").read_text()


def test_every_link_of_the_wiki_leads_somewhere(store: Store, tmp_path: Path) -> None:
    import re

    ids = add(store, [note("first", dims={"gpu": ["A/B card"]}), note("with ] brackets | and `ticks`", "~~~\n~~~~\n")])
    add(store, [note("second", links=[{"rel": "supports", "id": ids[0]}])])
    build_wiki(store, tmp_path)
    for file in tmp_path.rglob("*.md"):
        for target in re.findall(r"\]\(([^)]+)\)", file.read_text()):
            assert (file.parent / target).is_file(), (file, target)
    assert slug("A/B card") != slug("A-B card")


def test_the_same_records_give_the_same_files_and_a_new_one_changes_few(store: Store, tmp_path: Path) -> None:
    add(store, [result(1.0), note("x of y", dims={"framework": ["vllm"]})])
    build_wiki(store, tmp_path)
    assert build_wiki(store, tmp_path).extra["written"] == 0
    add(store, [note("another thing", dims={"gpu": ["H200"]})])
    assert "STALE" in rules(store, tmp_path)
    assert build_wiki(store, tmp_path).extra["written"] == 3  # its page, its record, the index
    assert rules(store, tmp_path) == {}


def test_a_claim_written_by_hand_a_wrong_hash_and_a_loose_page_are_told(store: Store, tmp_path: Path) -> None:
    (one,) = add(store, [result(1.0)])
    build_wiki(store, tmp_path)
    page = tmp_path / "kernels/moe.md"
    text = page.read_text()
    page.write_text(text.replace("## Results\n\n", "## Results\n\n- everything got 3x faster\n"))
    assert rules(store, tmp_path) == {"UNSOURCED": 1, "STALE": 1}
    page.write_text(text.replace(f"[{one}]", "[20261101-000000-ffffffffff]"))
    assert rules(store, tmp_path)["UNSOURCED"] == 1
    page.write_text(text)
    (tmp_path / "models").mkdir(exist_ok=True)
    (tmp_path / "models/loose.md").write_text("---\nsources: []\n---\n# loose\n")
    assert rules(store, tmp_path) == {"STALE": 1, "ORPHAN_PAGE": 1}


def test_figures_that_contradict_each_other_at_one_point_are_told_until_one_is_superseded(
    store: Store, tmp_path: Path
) -> None:
    first, second, _ = add(store, [result(10.0), result(20.0), result(99.0, contract_sha256="2" * 64)])
    build_wiki(store, tmp_path)
    assert rules(store, tmp_path) == {"CONTRADICTION": 1}
    add(store, [result(10.1, links=[{"rel": "supersedes", "id": second}])])
    build_wiki(store, tmp_path)
    assert rules(store, tmp_path) == {}
    assert "## Superseded" in (tmp_path / "kernels/moe.md").read_text()
    assert first in (tmp_path / "kernels/moe.md").read_text()


def test_a_text_with_other_line_ends_gives_no_stale_page(store: Store, tmp_path: Path) -> None:
    add(store, [note("from windows", "one\r\ntwo\rthree\r\n")])
    build_wiki(store, tmp_path)
    assert rules(store, tmp_path) == {}


def test_an_artifact_that_vanished_is_told(store: Store, tmp_path: Path) -> None:
    add(store, [result(1.0, artifacts=[{"path": str(tmp_path / "no"), "sha256": "a" * 64}])])
    build_wiki(store, tmp_path / "wiki")
    assert rules(store, tmp_path / "wiki") == {"ARTIFACT_GONE": 1}


def test_a_record_without_a_page_is_told_but_not_one_that_infer_forge_ships(store: Store, tmp_path: Path) -> None:
    build_wiki(store, tmp_path)
    assert lint_wiki(store, tmp_path).extra["counts"] == {}
    add(store, [note("of nothing in particular")])
    build_wiki(store, tmp_path)
    assert lint_wiki(store, tmp_path).extra["counts"] == {"ORPHAN_RECORD": 1}


def test_a_folder_with_other_things_is_left_alone(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageFault, match="no wiki"):
        build_wiki(store, tmp_path)
    with pytest.raises(UsageFault, match="no Markdown wiki"):
        lint_wiki(store, tmp_path)


def _browser() -> str:
    found = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
    if found is None:
        pytest.skip("no headless browser here: install chromium")
    return found


def _seen(browser: str, url: str) -> str:
    """The page's DOM after its scripts ran."""
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom", url]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_site_finds_records_in_a_browser_from_a_folder_and_from_a_server(store: Store, tmp_path: Path) -> None:
    browser = _browser()
    hostile = "</script><script>document.title='owned'</script>"
    (one,) = add(store, [note("激活量化 of fused_moe_kernel", hostile, dims={"gpu": ["H200"]})])
    build_wiki(store, tmp_path, html_site=True)
    page = _seen(browser, f"{(tmp_path / 'gpus/nvidia-h200.html').as_uri()}#q=moe%20量化")
    assert f'<ul id="hits"><li><a href="../records/{one}.html">' in page
    assert 'src="../search.js"' in page
    unasked = _seen(browser, (tmp_path / "gpus/nvidia-h200.html").as_uri())
    assert 'src="../search.js"' not in unasked  # what nobody asks is not loaded
    assert "owned" not in page.split("<title>")[1].split("</title>")[0]
    with web_server(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            page = _seen(browser, f"http://127.0.0.1:{server.server_address[1]}/index.html#q=zebra")
        finally:
            server.shutdown()
            thread.join()
    assert "nothing fits" in page


def test_a_build_reads_only_the_records_whose_pages_change(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infer_forge.journal import wiki_build

    (first,) = add(store, [note("first of all", dims={"gpu": ["H200"]})])
    add(store, [note(f"note {n}") for n in range(5)])
    build_wiki(store, tmp_path)
    read: list[str] = []
    whole = wiki_build._record  # pyright: ignore[reportPrivateUsage]

    def told(content: bytes | None, record_id: str, path: str) -> Any:
        read.append(record_id)
        return whole(content, record_id, path)

    monkeypatch.setattr(wiki_build, "_record", told)
    build_wiki(store, tmp_path)
    assert read == []
    (second,) = add(store, [note("second of all", links=[{"rel": "supersedes", "id": first}])])
    build_wiki(store, tmp_path)
    assert sorted(read) == sorted([first, second])
    assert "## Superseded" in (tmp_path / "gpus/nvidia-h200.md").read_text()
    assert f"({second}.md)" in (tmp_path / f"records/{first}.md").read_text()
    assert rules(store, tmp_path) == {}


def test_a_build_mends_what_a_hand_changed_and_takes_away_what_is_gone(store: Store, tmp_path: Path) -> None:
    add(store, [result(1.0)])
    build_wiki(store, tmp_path)
    page = tmp_path / "kernels/moe.md"
    good = page.read_text()
    page.write_text(good.replace("1", "2"))
    (tmp_path / "gpus/nvidia-h200.md").unlink()
    (tmp_path / "mine.md").write_text("a note of somebody, linked from nowhere")
    assert build_wiki(store, tmp_path).extra["written"] == 2
    assert page.read_text() == good
    assert (tmp_path / "mine.md").is_file()
    assert not list(tmp_path.rglob(".*"))


def test_the_search_box_of_a_large_site_knows_less_of_each_record_and_the_report_says_so(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infer_forge.journal import wiki_build

    monkeypatch.setattr(wiki_build, "_SEARCH_CHARS", 1000)
    add(store, [note(f"note {n}", "word " * 300 + f"last{n}") for n in range(20)])
    report = build_wiki(store, tmp_path, html_site=True)
    assert "the search box knows the first 32 characters of each record's text" in report.summary
    script = (tmp_path / "search.js").read_text()
    assert "note 7" in script
    assert "last7" not in script
