"""The one structured answer of every tool, and how it is kept small.

Both Claude Code and Codex feed the structured content to the model and drop the text block, so the structured content is
the compact thing: tables as columns and rows, capped; the whole answer goes to an artifact file with path and sha256.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel, Field

from infer_forge.base import jsonio
from infer_forge.base.config import settings
from infer_forge.base.paths import paths

_HEADER_ALWAYS = ("inputs", "tool_version")
_LEAST_ROWS = 3
# Codex 0.171.0 cuts the middle out of an answer of about 12,000 characters, Claude Code 2.1.332 shows the first 2,000 of one
# over 50,000 (both seen): a team that raises mcp.max_chars gets a file with the whole of every answer over this.
_PASSED_ON_CHARS = 10_000


class TableResult(BaseModel):
    """A table as columns and rows."""

    columns: list[str]
    rows: list[list[Any]]


class Artifact(BaseModel):
    """A file that holds the whole answer."""

    path: str
    sha256: str


class ForgeResult(BaseModel):
    """What a tool answers. Null or absent means unknown, never zero.

    The order is that of the wire: how to go on and where the whole answer is stand first, because a client that finds an
    answer too long shows the model its beginning (Claude Code), or its beginning and end (Codex).
    """

    kind: str = Field(description="The verb that made the answer.")
    next_step: str = Field(default="", description="The one thing to do next.")
    artifact: Artifact | None = Field(
        default=None, description="File with the whole answer, when something was left out."
    )
    next_cursor: str | None = Field(
        default=None, description="Pass it as cursor to get the next rows of the paged table."
    )
    job: dict[str, Any] | None = Field(default=None, description="Long work: its id and state; read it with read_job.")
    omitted_rows: dict[str, int] = Field(default_factory=dict, description="Rows left out, per table.")
    summary: list[str] = Field(default_factory=list, description="The answer in a few lines.")
    tables: dict[str, TableResult] = Field(default_factory=dict, description="Tables as columns and rows.")
    findings: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="Coded remarks: code, figure, threshold, what to do."
    )
    data: dict[str, Any] = Field(default_factory=dict, description="Further keys of this verb's answer.")
    header: dict[str, Any] = Field(default_factory=dict, description="Inputs with hashes, coverage, thresholds.")


def max_chars() -> int:
    """Upper bound of a structured answer in characters (setting `mcp.max_chars`)."""
    return int(settings().get("mcp.max_chars"))


def capped(
    answer: dict[str, Any], *, paged: str | None = None, limit: int | None = None, cursor: str | None = None
) -> ForgeResult:
    """Turn a report's JSON into a ForgeResult of at most `max_chars()` characters.

    Args:
        answer: the JSON of a `Report`: kind, header, tables, findings, summary, next_step, and further keys.
        paged: the table that `limit` and `cursor` page through; other tables are cut from their end.
        limit: rows of the paged table at the most.
        cursor: row number, as text, that the page begins with.
    """
    result, start = _whole(answer, paged, limit, cursor)
    total = {name: len(t.get("rows", ())) for name, t in answer.get("tables", {}).items()}
    # The rest of the answer (rows left out, artifact path) is made afterwards and needs room too.
    budget = max_chars() - 400 - 24 * len(total)
    if _size(result) > budget:
        _trim(result, budget, paged)
    result.omitted_rows = {n: total[n] - len(t.rows) for n, t in result.tables.items() if total[n] > len(t.rows)}
    if paged in result.tables:
        stop = start + len(result.tables[paged].rows)
        result.next_cursor = str(stop) if stop < total[paged] else None
    if result.omitted_rows or result.header.get("trimmed") or _size(result) > _PASSED_ON_CHARS:
        result.artifact = keep_artifact(answer)
    return result


def _whole(answer: dict[str, Any], paged: str | None, limit: int | None, cursor: str | None) -> tuple[ForgeResult, int]:
    known = {"kind", "header", "tables", "findings", "summary", "next_step"}
    tables = {n: TableResult(columns=t["columns"], rows=t["rows"]) for n, t in answer.get("tables", {}).items()}
    start = int(cursor) if cursor and cursor.isdecimal() else 0
    if paged in tables:
        stop = None if limit is None else start + limit
        tables[paged].rows = tables[paged].rows[start:stop]
    return ForgeResult(
        kind=answer.get("kind", ""),
        summary=answer.get("summary", []),
        tables=tables,
        findings=answer.get("findings", []),
        data={k: v for k, v in answer.items() if k not in known},
        header=answer.get("header", {}),
        next_step=answer.get("next_step", ""),
    ), start


def _size(result: ForgeResult) -> int:
    return len(result.model_dump_json(exclude_none=True))


def _trim(result: ForgeResult, budget: int, paged: str | None) -> None:
    """Leave out what tells least: header details first, then rows from the end of the largest tables, the paged one last."""
    if _size(result) > budget:
        small = {k: v for k, v in result.header.items() if k in _HEADER_ALWAYS}
        inputs: list[Any] = small.get("inputs") or []
        if len(inputs) > 4:
            small["inputs"] = [*inputs[:4], {"more_inputs": len(inputs) - 4}]
        result.header = {**small, "trimmed": True}
    for keep in (paged, None):
        while _size(result) > budget:
            candidates = {n: t for n, t in result.tables.items() if len(t.rows) > _LEAST_ROWS and n != keep}
            if not candidates:
                break
            name = max(candidates, key=lambda n: len(jsonio.dumps(candidates[n].rows)))
            table = candidates[name]
            table.rows = table.rows[: max(_LEAST_ROWS, len(table.rows) * 4 // 5)]
    if _size(result) > budget:
        _cut_long_values(result, budget)


def _cut_long_values(result: ForgeResult, budget: int) -> None:
    """Last resort for answers whose few rows or data are themselves huge."""
    for cap in (400, 160, 60):
        result.data = {k: _cut(v, cap) for k, v in result.data.items()}
        result.summary = [_cut(line, cap) for line in result.summary[:20]]
        result.findings = [_cut(f, cap) for f in result.findings[:12]]
        for table in result.tables.values():
            table.rows = [[_cut(v, cap) for v in row] for row in table.rows]
        result.header = {**_cut(result.header, cap), "trimmed": True}
        if _size(result) <= budget:
            return
    result.header = {"trimmed": True}
    while _size(result) > budget and result.tables:
        result.tables.popitem()
    if _size(result) > budget:
        result.data = {"left_out": sorted(result.data)[:40]}


def _cut(value: Any, cap: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= cap else f"{value[: cap - 1]}…"
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_cut(v, cap) for v in items[: max(3, cap // 10)]]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {k: _cut(v, cap) for k, v in list(fields.items())[: max(8, cap // 4)]}
    return value


def keep_artifact(answer: dict[str, Any]) -> Artifact:
    """Write the whole answer to `<state>/artifacts/<sha256>.json`."""
    data = jsonio.dumps(answer)
    sha = jsonio.sha256_of(data)
    path = paths().artifacts / f"{sha[:32]}.json"
    if not path.is_file():
        jsonio.write_atomic(path, data)
    return Artifact(path=str(path), sha256=sha)
