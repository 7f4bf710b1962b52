"""Evidence across tasks: records, index, search, compare, wiki, PR history.

Verbs of records: `open_store`, `add`, `record_report`, `get`; `search_report`, `facet_report`, `show_report`;
`compare_records`, `group_records`, `group_results`, `related_records`, `surface_records`. Verbs of pull requests: `build_history`,
`query_history`, `show_card`, `list_history`, `check_notes`. Verbs of the wiki: `build_wiki`, `lint_wiki`. Truth is a git
store, one Markdown file a record (`model.Record`); the SQLite index is a cache of it.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.journal.answers import facet_report, record_report, search_report, show_report
    from infer_forge.journal.compare import compare_records, group_records, group_results
    from infer_forge.journal.history_build import build_history
    from infer_forge.journal.history_query import list_history, query_history, show_card
    from infer_forge.journal.model import Record
    from infer_forge.journal.pr_notes import check_notes
    from infer_forge.journal.related import related_records, surface_records
    from infer_forge.journal.store import add, get, open_store
    from infer_forge.journal.wiki_build import build_wiki
    from infer_forge.journal.wiki_lint import lint_wiki

__all__ = [
    "Record",
    "add",
    "build_history",
    "build_wiki",
    "check_notes",
    "compare_records",
    "facet_report",
    "get",
    "group_records",
    "group_results",
    "lint_wiki",
    "list_history",
    "open_store",
    "query_history",
    "record_report",
    "related_records",
    "search_report",
    "show_card",
    "show_report",
    "surface_records",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Record": "model",
        "add": "store",
        "build_history": "history_build",
        "build_wiki": "wiki_build",
        "check_notes": "pr_notes",
        "compare_records": "compare",
        "facet_report": "answers",
        "get": "store",
        "group_records": "compare",
        "group_results": "compare",
        "lint_wiki": "wiki_lint",
        "list_history": "history_query",
        "open_store": "store",
        "query_history": "history_query",
        "record_report": "answers",
        "related_records": "related",
        "search_report": "answers",
        "show_card": "history_query",
        "show_report": "answers",
        "surface_records": "related",
    },
)
