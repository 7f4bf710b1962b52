"""How a page of the wiki looks: Markdown that Obsidian and every Markdown viewer open, or HTML of a site with a search box."""

from __future__ import annotations

import functools
import html
import http.server
import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import UsageFault
from infer_forge.base.paths import paths
from infer_forge.journal import words
from infer_forge.journal.wiki_pages import Claim, WikiPage

MANIFEST = "wiki.json"
STYLE = """:root{color-scheme:light dark;--ink:#1d2330;--paper:#fff;--line:#d5dae4;--accent:#2457c5;--dim:#5b6475}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9f0;--paper:#12151c;--line:#323a4a;--accent:#8ab0ff;--dim:#9aa4b8}}
body{margin:0 auto;max-width:980px;padding:20px;font:15px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
h1{font-size:24px}h2{font-size:17px;margin:24px 0 6px}
ul{padding-left:20px}li{margin:3px 0;overflow-wrap:anywhere}code,.dim{color:var(--dim);font-size:12px}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
input{font:inherit;width:100%;box-sizing:border-box;padding:6px 10px;border:1px solid var(--line)}
input{border-radius:6px;background:var(--paper);color:var(--ink)}
table{border-collapse:collapse}td{padding:2px 12px 2px 0;vertical-align:top;overflow-wrap:anywhere}#hits:empty{display:none}
"""
_SCRIPT = """const box=document.getElementById("find"),hits=document.getElementById("hits");
const fold=t=>t.toLowerCase();
function line(title,path){const li=document.createElement("li");if(!path){li.textContent=title;return li;}
const a=document.createElement("a");a.href=ROOT+path+".html";a.textContent=title;li.append(a);return li;}
function look(){const q=fold(box.value).split(/\\s+/).filter(Boolean);hits.replaceChildren();if(!q.length)return;
const found=[];for(const [path,title,text] of PAGES){const t=fold(title),all=t+" "+fold(text);
if(q.every(w=>all.includes(w)))found.push([q.filter(w=>t.includes(w)).length,path,title]);}
found.sort((a,b)=>b[0]-a[0]);hits.append(...found.slice(0,30).map(f=>line(f[2],f[1])));
if(!found.length)hits.append(line("nothing fits"));}
box.addEventListener("input",look);
if(location.hash.startsWith("#q="))box.value=decodeURIComponent(location.hash.slice(3));
if(box.value)look();
"""
# A page loads what the search box looks through when somebody uses the box: in a large journal it is tens of megabytes.
_ASK = """let asked=false;function ask(){if(asked)return;asked=true;const s=document.createElement("script");
s.src=ROOT+"search.js";document.body.append(s);}
for(const e of ["focus","input"])document.getElementById("find").addEventListener(e,ask);
if(location.hash.startsWith("#q="))ask();"""


def wiki_folder(html_site: bool = False) -> Path:
    """Where the wiki lies when no folder is named."""
    return paths().cache / "journal" / ("wiki-html" if html_site else "wiki")


def _relative(from_page: str, to_page: str, ending: str) -> str:
    return posixpath.relpath(f"{to_page}.{ending}", posixpath.dirname(from_page) or ".")


def _md(text: str) -> str:
    """Text that cannot become Markdown syntax."""
    return "".join(f"\\{c}" if c in "\\[]*_`<>#|" else c for c in " ".join(text.split()))


def to_markdown(page: WikiPage) -> str:
    """A page as Markdown: its sources in the front matter, each claim with record id and hash."""
    head = [
        "---",
        f"title: {jsonio.dumps(page.title).decode()}",
        "generated: infer-forge journal wiki build",
        "sources:",
    ]
    head += [f"  - {{id: {record}, sha256: {sha}}}" for record, sha in page.sources] or ["  []"]
    lines = [*head, "---", "", f"# {_md(page.title)}", ""]
    lines += [f"- {_md(name)}: {_md(value)}" for name, value in page.facts]
    if page.path != "index":
        lines += ["", f"[Journal]({_relative(page.path, 'index', 'md')})"]
    for heading, claims in page.sections.items():
        lines += ["", f"## {heading}", "", *(_claim_line(page, c) for c in claims)]
    for heading, links in page.links.items():
        lines += ["", f"## {heading}", "", *(f"- [{_md(t)}]({_relative(page.path, p, 'md')})" for t, p in links)]
    if page.body:
        fence = "~" * max(3, _longest_run(page.body, "~") + 1)
        lines += ["", "## Text", "", fence + "markdown", page.body.rstrip("\n"), fence]
    return "\n".join(lines) + "\n"


def _longest_run(text: str, mark: str) -> int:
    best = now = 0
    for char in text:
        now = now + 1 if char == mark else 0
        best = max(best, now)
    return best


def _claim_line(page: WikiPage, claim: Claim) -> str:
    where = _relative(page.path, f"records/{claim.id}", "md")
    return f"- {_md(claim.text)} [{claim.id}]({where}) `sha256:{claim.sha256[:12]}`"


def search_script(rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """The search box's script in pieces; rows: (path, title, text to search) of every page."""
    yield "const PAGES=["
    for row in rows:
        yield jsonio.dumps(row).decode().replace("<", "\\u003c") + ",\n"
    yield f"];\n{_SCRIPT}"


def search_text(page: WikiPage, most_chars: int) -> str:
    """What the search box looks through of a page: its facts, the beginning of its text, and the parts of identifiers there."""
    facts = " ".join(value for name, value in page.facts if name not in ("sha256", "created"))
    text = f"{facts} {page.body[:most_chars]}"
    return " ".join(f"{text} {words.compounds(text)}".split())


def to_html(page: WikiPage) -> str:
    """A page of the static site; it works from a folder and from any web server, without a network."""
    root = "../" * page.path.count("/")
    parts = [f"<h1>{html.escape(page.title)}</h1>"]
    if page.facts:
        rows = "".join(f"<tr><td class=dim>{html.escape(n)}</td><td>{html.escape(v)}</td></tr>" for n, v in page.facts)
        parts.append(f"<table>{rows}</table>")
    for heading, claims in page.sections.items():
        items = "".join(_claim_html(page, c) for c in claims)
        parts.append(f"<h2>{html.escape(heading)}</h2><ul class=claims>{items}</ul>")
    for heading, links in page.links.items():
        items = "".join(
            f'<li><a href="{html.escape(_relative(page.path, p, "html"))}">{html.escape(t)}</a></li>' for t, p in links
        )
        parts.append(f"<h2>{html.escape(heading)}</h2><ul>{items}</ul>")
    if page.body:
        parts.append(f"<h2>Text</h2><pre>{html.escape(page.body)}</pre>")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width,initial-scale=1"><title>{html.escape(page.title)}</title>'
        f'<link rel="stylesheet" href="{root}style.css"></head><body><p><a href="{root}index.html">Journal</a></p>'
        f'<input id="find" type="search" placeholder="search the journal" aria-label="search the journal"><ul id="hits"></ul>'
        f'{"".join(parts)}<script>const ROOT="{root}";\n{_ASK}</script></body></html>\n'
    )


def _claim_html(page: WikiPage, claim: Claim) -> str:
    where = html.escape(_relative(page.path, f"records/{claim.id}", "html"))
    return (
        f'<li>{html.escape(claim.text)} <a href="{where}">{claim.id}</a> <code>sha256:{claim.sha256[:12]}</code></li>'
    )


def web_server(folder: Path, port: int = 0) -> http.server.ThreadingHTTPServer:
    """A server of a folder on this machine alone; port 0 takes a free one. `serve_forever` runs it.

    Raises:
        UsageFault: no wiki lies there, or the port is taken.
    """
    if not (folder / MANIFEST).is_file():
        raise UsageFault("no wiki lies here", where=str(folder), next_step="infer-forge journal wiki build --html")
    handler: Any = functools.partial(_Quiet, directory=str(folder))
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as exc:
        raise UsageFault(f"port {port}: {exc.strerror}", next_step="name another one with --port") from None


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing is printed for a request."""
