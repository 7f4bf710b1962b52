"""One self-contained HTML page: prose, sortable tables, SVG pictures. No network, no file beside it.

    page = Page("Triage of decode.json.gz")
    page.heading("Kernels").table(report.tables["kernel"]).svg(picture).prose("...")
    page.write(path)

All text is escaped; only `svg` takes markup, which our own code makes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.records import Report
from infer_forge.base.tables import Table, cell_text

# A page shows so many rows of a table at first; the rest comes with a button, so that 100,000 rows stay usable.
_FIRST_ROWS = 200
_MOST_ROWS = 5000
_SHORT_CHARS = 28

_STYLE = """
:root{color-scheme:light dark;--ink:#1d2330;--paper:#fff;--soft:#f3f5f9;--line:#d5dae4;--accent:#2457c5;--dim:#5b6475}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9f0;--paper:#12151c;--soft:#1b202b;--line:#323a4a;--accent:#8ab0ff;--dim:#9aa4b8}}
*{box-sizing:border-box}body{margin:0 auto;max-width:1500px;padding:24px;font:14px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:28px 0 8px}p{margin:4px 0;max-width:110ch}.dim{color:var(--dim)}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:6px;margin:8px 0}table{border-collapse:collapse;width:100%;font-size:13px}
th,td{padding:4px 10px;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}td{max-width:60ch;overflow-wrap:anywhere}
th{position:sticky;top:0;background:var(--soft);cursor:pointer;white-space:nowrap;user-select:none}th[aria-sort]::after{content:" \\25B4"}
th[aria-sort=descending]::after{content:" \\25BE"}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.n,td.s{white-space:nowrap}tr.more{display:none}
table.all tr.more{display:table-row}button{font:inherit;margin:4px 0;padding:3px 10px;border:1px solid var(--line);border-radius:5px;
background:var(--soft);color:var(--ink);cursor:pointer}input.find{font:inherit;padding:3px 8px;border:1px solid var(--line);
border-radius:5px;background:var(--paper);color:var(--ink);margin:4px 0;width:28ch}svg{max-width:100%;height:auto}svg text{fill:var(--ink)}
pre{background:var(--soft);padding:10px;border-radius:6px;overflow-x:auto}.finding{border-left:3px solid var(--accent);padding:2px 10px;margin:6px 0}
"""

_SCRIPT = """
document.querySelectorAll("table").forEach(t=>{const b=t.tBodies[0];
t.querySelectorAll("th").forEach((h,i)=>h.addEventListener("click",()=>{const down=h.getAttribute("aria-sort")==="ascending"||
(!h.hasAttribute("aria-sort")&&h.classList.contains("n"));t.querySelectorAll("th").forEach(x=>x.removeAttribute("aria-sort"));
h.setAttribute("aria-sort",down?"descending":"ascending");const v=r=>{const c=r.cells[i],s=c.dataset.v;return s===undefined?c.textContent:s===""?null:+s};
[...b.rows].sort((x,y)=>{const p=v(x),q=v(y);if(p===null||q===null)return (p===null)-(q===null);
return (typeof p==="number"&&typeof q==="number"?p-q:String(p).localeCompare(String(q)))*(down?-1:1)}).forEach(r=>b.append(r));t.classList.add("all")}));
const f=t.closest("section").querySelector("input.find");if(f)f.addEventListener("input",()=>{const q=f.value.toLowerCase();t.classList.add("all");
[...b.rows].forEach(r=>{r.hidden=q!==""&&!r.textContent.toLowerCase().includes(q)})});
const m=t.closest("section").querySelector("button.more");if(m)m.addEventListener("click",()=>{t.classList.add("all");m.remove()})});
"""


class Page:
    """Builds one page from top to bottom; every method gives the page back, so that calls chain."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        """Begin a page with its title and one line under it."""
        self.title = title
        self._parts: list[str] = [f"<h1>{_text(title)}</h1>"]
        if subtitle:
            self._parts.append(f'<p class="dim">{_text(subtitle)}</p>')
        self._scripts: list[str] = []

    def heading(self, text: str) -> Page:
        """A section's heading."""
        self._parts.append(f"<h2>{_text(text)}</h2>")
        return self

    def prose(self, *lines: str, dim: bool = False) -> Page:
        """Paragraphs, one a line."""
        kind = ' class="dim"' if dim else ""
        self._parts += [f"<p{kind}>{_text(line)}</p>" for line in lines]
        return self

    def pre(self, text: str) -> Page:
        """Text as it stands: commands, log lines."""
        self._parts.append(f"<pre>{_text(text)}</pre>")
        return self

    def svg(self, markup: str) -> Page:
        """A picture; the markup is our own (`svg_element` escapes what it is given)."""
        self._parts.append(f"<figure style='margin:8px 0'>{markup}</figure>")
        return self

    def script(self, code: str) -> Page:
        """A piece of our own JavaScript that runs after the page is there."""
        self._scripts.append(code)
        return self

    def table(self, table: Table, title: str = "") -> Page:
        """A sortable, searchable table; a click on a column's head sorts by it."""
        self._parts.append(_table(table, title))
        return self

    def report(self, report: Report) -> Page:
        """A whole report: summary, tables, findings, header."""
        self.prose(*report.summary)
        for item in report.tables.values():
            self.table(item, item.title)
        if report.findings:
            self.heading("Findings")
            for found in report.findings:
                line = (
                    f"<b>{_text(found.code)}</b> {_text(found.message)} <span class=dim>{_text(found.next_step)}</span>"
                )
                self._parts.append(f'<div class="finding">{line}</div>')
        self.heading("Evidence").pre(jsonio.dumps(report.header.to_json(), indent=True).decode())
        return self

    def to_html(self) -> str:
        """The page."""
        body = "\n".join(self._parts)
        script = _SCRIPT + "\n".join(self._scripts)
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{_text(self.title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n"
            f"<script>{script}</script></body></html>\n"
        )

    def write(self, path: str | Path) -> Path:
        """Write the page to a file, whole or not at all."""
        return jsonio.write_atomic(path, self.to_html())


def _text(text: object) -> str:
    return html.escape(str(text))


def svg_element(name: str, attributes: dict[str, Any], children: Iterable[str] = (), text: str = "") -> str:
    """One SVG element with escaped attributes and text; children are markup made by this function."""
    shown = "".join(f' {k.replace("_", "-")}="{html.escape(str(v), quote=True)}"' for k, v in attributes.items())
    return f"<{name}{shown}>{_text(text)}{''.join(children)}</{name}>"


def svg_picture(width: float, height: float, children: Iterable[str]) -> str:
    """An SVG that scales with the page."""
    box = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "role": "img", "font-size": "11"}
    return svg_element("svg", {**box, "xmlns": "http://www.w3.org/2000/svg"}, children)


def _table(table: Table, title: str) -> str:
    kinds = [c.kind for c in table.columns]
    shown = table.rows[:_MOST_ROWS]
    numeric = [any(_is_number(row[i]) for row in shown[:50]) for i in range(len(kinds))]
    heads = "".join(
        f'<th{" class=n" if n else ""} title="{html.escape(c.help, quote=True)}">{_text(c.name)}</th>'
        for c, n in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(_row(row, kinds, numeric, late=i >= _FIRST_ROWS) for i, row in enumerate(shown))
    head = f"<h2>{_text(title)}</h2>" if title else ""
    find = '<input class="find" placeholder="filter rows" aria-label="filter rows">' if len(shown) > 8 else ""
    more = f'<button class="more">show all {len(shown):,} rows</button>' if len(shown) > _FIRST_ROWS else ""
    cut = (
        f"<p class=dim>{len(table.rows) - len(shown):,} further rows are left out of this page.</p>"
        if len(table.rows) > len(shown)
        else ""
    )
    body = (
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        if shown
        else "<p class=dim>(no rows)</p>"
    )
    return f'<section>{head}{find}<div class="scroll">{body}</div>{more}{cut}</section>'


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _row(row: Sequence[Any], kinds: Sequence[str], numeric: Sequence[bool], *, late: bool) -> str:
    cells = "".join(
        f'<td class=n data-v="{value if _is_number(value) else ""}">{_text(cell_text(value, kind))}</td>'
        if is_number
        else _word_cell(cell_text(value, kind))
        for value, kind, is_number in zip(row, kinds, numeric, strict=True)
    )
    return f"<tr{' class=more' if late else ''}>{cells}</tr>"


def _word_cell(text: str) -> str:
    """A cell of words; short ones are never broken over lines."""
    return f"<td{' class=s' if len(text) <= _SHORT_CHARS else ''}>{_text(text)}</td>"
