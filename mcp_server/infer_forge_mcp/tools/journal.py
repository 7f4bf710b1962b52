"""Tools of the journal: search, record, compare, filter, read; pull-request history; records as resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio.to_thread
from pydantic import Field

from infer_forge.journal.dimensions import FILTERS
from infer_forge_mcp.toolkit import Answer, tool

if TYPE_CHECKING:
    from mcp.server import MCPServer

Filters = Annotated[
    dict[str, list[str]] | None,
    Field(description=f"Any of {', '.join(FILTERS)} -> values. A date is YYYY, YYYY-MM or YYYY-MM-DD."),
]
_TEMPLATE = "journal://{record_id}"
Since = Annotated[str | None, Field(description="Only records from this date on, YYYY-MM-DD.")]


@tool(toolset="journal", default=True, read_only=True, further=("since",))
def search_journal(
    query: Annotated[str, Field(description="Words, identifiers, a symptom. Empty: the newest.")],
    filters: Filters = None,
    since: Since = None,
    limit: Annotated[int, Field(ge=1, le=50, description="1 to 50; default 8.")] = 8,
) -> Answer:
    """Use it before you try an idea, trust a figure or debug a symptom: earlier records. Results, rejections,
    pitfalls, crash cases; filtered first, then ranked; each hit says why it fits. Nothing found means that no
    record fits."""
    from infer_forge.journal import open_store, search_report

    with open_store() as store:
        return search_report(store, query, filters or {}, since=since, limit=limit)


@tool(toolset="journal", default=True, read_only=False)
def record_journal(
    kind: Annotated[
        Literal[
            "note",
            "result",
            "rejection",
            "pitfall",
            "crash_case",
            "profile_digest",
            "ncu_digest",
            "pr_card",
            "task_record",
        ],
        Field(description="result needs fields.claim; model_e2e also deployment_point."),
    ],
    title: Annotated[str, Field(min_length=3, max_length=300, description="One line.")],
    body: Annotated[str, Field(description="Done, seen, concluded; Markdown.")],
    dims: Annotated[dict[str, list[str]] | None, Field(description="As search_journal's filters.")] = None,
    fields: Annotated[
        dict[str, Any] | None,
        Field(
            description="claim, metric, value, unit, contract_sha256,"
            " deployment_point, idea {repository, path, symbol}, applies_to, symptoms, links, task_id, verdict."
        ),
    ] = None,
    artifacts: Annotated[list[str] | None, Field(description="Files that it stands on.")] = None,
) -> Answer:
    """Use it when something was learned that the next task must find: a result, rejection, pitfall or crash. Records
    are immutable: a correction is a new record with a supersedes link. Secrets are masked before anything is
    written."""
    from infer_forge.journal import open_store, record_report

    more = {"kind": kind, "title": title, "body": body, "dims": dims or {}}
    with open_store() as store:
        return record_report(store, {**(fields or {}), **more}, artifacts or [])


@tool(toolset="journal", read_only=True)
def compare_records(
    ids: Annotated[list[str], Field(min_length=2, description="Record ids; the first is the base of every ratio.")],
    vary: Annotated[
        str | None,
        Field(description="The one dimension that may differ: framework, gpu, topology, ... Default: none may."),
    ] = None,
) -> Answer:
    """Use it to hold results of the journal against each other. A ratio is given only where the records are equal on every
    other dimension and stand on one contract; else it lists what differs. Kernel and end-to-end claims never compare."""
    from infer_forge.journal import compare_records, open_store

    with open_store() as store:
        return compare_records(store, ids, vary)


@tool(toolset="journal", read_only=True)
def filter_journal(filters: Filters = None, since: Since = None) -> Answer:
    """Use it to see what the journal holds before you search: how many records fit, and how they spread over models, GPUs,
    frameworks, kinds and the other dimensions."""
    from infer_forge.journal import facet_report, open_store

    with open_store() as store:
        return facet_report(store, filters or {}, since=since)


@tool(toolset="journal", read_only=True)
def read_record(record_id: Annotated[str, Field(description="Id from search_journal.")]) -> Answer:
    """Use it to read one record of the journal in full, after a search named it. Says whether the files that it stands on
    are still what they were."""
    from infer_forge.journal import open_store, show_report

    with open_store() as store:
        return show_report(store, record_id)


@tool(toolset="journal", read_only=True)
def search_pr_history(
    model: Annotated[str, Field(description="Model id, architecture or family, for example Qwen/Qwen3-30B-A3B.")],
    framework: Annotated[
        str | None, Field(description="sglang, vllm, tensorrt_llm or tokenspeed. Default: all.")
    ] = None,
    about: Annotated[str, Field(description="Words that the pull requests must hold. Default: none.")] = "",
    path: Annotated[str | None, Field(description="Only those that touch this file or folder.")] = None,
    limit: Annotated[int, Field(ge=1, le=30, description="Pull requests at the most, 1 to 30. Default 8.")] = 8,
) -> Answer:
    """Use it before the benchmark contract and before you plan a patch: merged, reverted and open pull requests of a model's
    family, with files, symbols and notes to keep. An open one is a candidate, never present behaviour. History is no
    measured proof. Built by `infer-forge journal history build`."""
    from infer_forge.journal import query_history

    return query_history(model, framework=framework, about=about, path=path, limit=limit)


def register(server: MCPServer) -> None:
    """Records as resources: `journal://{id}` is the record's Markdown; a client can have an id completed."""
    from mcp_types import Completion

    @server.resource(
        _TEMPLATE,
        name="journal_record",
        title="Journal record",
        description="One record of the journal as Markdown with its front matter.",
        mime_type="text/markdown",
    )
    def journal_record(record_id: str) -> str:  # pyright: ignore[reportUnusedFunction]
        from infer_forge.journal import get, markdown, open_store

        with open_store() as store:
            return markdown.write(get(store, record_id))

    @server.completion()
    async def complete(ref: Any, argument: Any, _: Any) -> Completion | None:  # pyright: ignore[reportUnusedFunction]
        if getattr(ref, "uri", None) != _TEMPLATE:
            return None
        values, total = await anyio.to_thread.run_sync(_ids_beginning, argument.value)
        return Completion(values=values, total=total, has_more=total > len(values))


def _ids_beginning(start: str) -> tuple[list[str], int]:
    from infer_forge.journal import open_store
    from infer_forge.journal.search import ids_beginning

    with open_store() as store:
        return ids_beginning(store, start)
