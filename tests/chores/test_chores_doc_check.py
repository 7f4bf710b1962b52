"""The check of the documents sees a link to a file or a heading that is not there."""

from __future__ import annotations

from pathlib import Path

from chores.doc_check import broken_links, documents


def test_links_to_files_and_headings_that_are_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Other\n\n## What `it` is, and is not\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n[a](other.md) [b](other.md#what-it-is-and-is-not) [c](#page) [d](https://x.example/y#z)\n"
        "[e](gone.md) [f](other.md#page) [g](#other)\n"
    )
    assert [fault.removeprefix(f"{page}: ") for fault in broken_links(page)] == [
        "link to gone.md: no such file",
        "link to other.md#page: no such heading",
        "link to #other: no such heading",
    ]


def test_every_link_of_the_documents_leads_somewhere() -> None:
    assert [fault for page in documents() for fault in broken_links(page)] == []
