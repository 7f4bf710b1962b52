"""Evidence across tasks: records, index, search, compare, wiki, PR history.

Verbs: `open_store`, `add`, `get`; `search_report`, `facet_report`, `show_report`; `compare_records`, `group_records`,
`related_records`, `surface_records`. Truth is a git store, one Markdown file a record (`model.Record`); the SQLite index
is a cache of it.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.journal.answers import facet_report, search_report, show_report
    from infer_forge.journal.compare import compare_records, group_records
    from infer_forge.journal.model import Record
    from infer_forge.journal.related import related_records, surface_records
    from infer_forge.journal.store import add, get, open_store

__all__ = [
    "Record",
    "add",
    "compare_records",
    "facet_report",
    "get",
    "group_records",
    "open_store",
    "related_records",
    "search_report",
    "show_report",
    "surface_records",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Record": "model",
        "add": "store",
        "compare_records": "compare",
        "facet_report": "answers",
        "get": "store",
        "group_records": "compare",
        "open_store": "store",
        "related_records": "related",
        "search_report": "answers",
        "show_report": "answers",
        "surface_records": "related",
    },
)
