"""The example of 40 tasks, answers on it, and the history underneath."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable
from infer_forge.base.gitstore import Changes, Store
from infer_forge.base.paths import paths
from infer_forge.tasks import graph, open_store
from infer_forge.tasks.graph import log
from infer_forge.tasks.graph.counting import peak
from infer_forge.tasks.graph.view import View

P = "example"


@pytest.fixture
def example(project_root: Path) -> tuple[Store, View]:
    """The store and the view of the example in the docs."""
    store = open_store()
    graph.load_file(store, P, project_root / "docs" / "graph_example.yaml")
    return store, graph.look(store, P)


def test_the_example_has_40_tasks_of_7_types_and_breaks_no_rule(example: tuple[Store, View]) -> None:
    store, view = example
    report = graph.stats(view)
    rows = {r["type"]: r for r in report.tables["by_type"].dicts()}
    whole = rows.pop("all")
    assert (whole["created"], len(rows)) == (40, 7)
    assert (whole["archived"], whole["in_flight"], whole["not_taken"]) == (35, 2, 6)
    assert whole["peak_in_flight"] == 8
    assert whole["median_lifetime_h"] == pytest.approx(13.0)
    assert rows["capability"]["archived"] == 5
    assert graph.check(store, P)[1] == "pass"
    outcomes = {view.node(n).outcome for n in ("cap-race", "cap-leak", "cap-two", "cap-old", "cap-new")}
    assert outcomes == {"add", "update", "merge", "retire", "no_change"}


def test_impact_names_what_would_fall_with_a_node(example: tuple[Store, View]) -> None:
    report = graph.impact(example[1], "chat-norm-2")
    found = {r["node"]: r for r in report.tables["affected"].dicts()}
    assert set(found) == {"chat-join", "chat-eval", "chat-ship", "chat-watch", "canary-pool", "img-join", "img-eval"}
    assert found["img-eval"]["effect"].startswith("waits")
    assert found["chat-ship"]["chain"] == "chat-norm-2 > chat-join > chat-eval > chat-ship"
    assert found["img-join"]["effect"] == "suspect: it imported the result"
    shared = {r["repo"]: r for r in report.tables["shared"].dicts()}
    assert "doc-fp8" in shared["kernel-lib"]["read_by"]


def test_ready_and_explain_tell_evidence_and_the_paths_that_were_not_taken(example: tuple[Store, View]) -> None:
    store, view = example
    assert [r["node"] for r in graph.ready(view).tables["ready"].dicts()] == ["doc-ship"]
    report = graph.explain(store, "doc-ship", P)
    assert report.tables["imports"].dicts()[0]["reviewer"] == "gus"
    assert {r["node"]: r["status"] for r in report.tables["not_taken"].dicts()} == {"doc-eval": "superseded"}
    with pytest.raises(InputUnusable, match="no node 'nothing'"):
        graph.explain(store, "nothing", P)


def test_goal_and_workstream_choose_a_part(example: tuple[Store, View]) -> None:
    view = example[1]
    nodes = {r["node"] for r in graph.show(view, goal="capability").tables["nodes"].dicts()}
    assert nodes == {"cap-race", "cap-leak", "cap-two", "cap-old", "cap-new", "journal", "upstream"}
    assert len(graph.stats(view, workstream="image prompts").tables["by_type"].dicts()) == 6


def test_mermaid_and_dot_hold_every_node_and_edge(example: tuple[Store, View]) -> None:
    view = example[1]
    mermaid, dot = graph.render(view, "mermaid"), graph.render(view, "dot")
    edges = list(view.graph.open_edges())
    assert len(re.findall(r"^  n\d+ (?:==>|-->|-\.->)", mermaid, re.MULTILINE)) == len(edges)
    assert mermaid.count(":::") == len(view.graph.nodes)
    assert dot.count(" -> ") == len(edges)
    assert graph.render(view, "mermaid") == mermaid
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=dot.encode(), check=True, capture_output=True)


HOSTILE = 'x"]; end <script>alert(1)</script> \\ | ` & {{#}} \u2028'


class _Outside(HTMLParser):
    """Collects what a page would load, and its script elements."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.loads += [str(v) for k, v in attrs if k in ("src", "href") and v]


def test_pictures_of_hostile_titles_stay_pictures(tmp_path: Path) -> None:
    store = open_store()
    graph.add_node(store, P, "code-1", type="code", title=HOSTILE, workstream=HOSTILE)
    graph.add_node(store, P, "code-2", type="code", title="plain", workstream="a-b")
    graph.link(store, P, "code-1", "code-2", note=HOSTILE)
    view = graph.look(store, P)
    page = _Outside()
    page.feed(graph.render(view, "html"))
    assert (page.loads, page.scripts) == ([], 1)
    assert "<script>" not in graph.render(view, "mermaid")
    label = next(x for x in graph.render(view, "mermaid").splitlines() if "code-1<br/>" in x)
    assert label.count('"') == 2
    assert re.sub(r"\\.", "", graph.render(view, "dot")).count('"') % 2 == 0


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here to look at the page with")
def test_a_browser_shows_the_page_searches_it_and_tells_a_nodes_facts(
    example: tuple[Store, View], tmp_path: Path
) -> None:
    page = graph.render(example[1], "html")
    probe = """<script>
    const q = document.getElementById("seek"); q.value = "under a race"; q.dispatchEvent(new Event("input"));

    const before = document.getElementById("graph").getAttribute("viewBox");
    q.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
    const hits = document.getElementById("hits").textContent;
    const after = document.getElementById("graph").getAttribute("viewBox");
    document.title = JSON.stringify([hits, before !== after, document.getElementById("facts").textContent.split("\\n")[0]]);
    </script></body>"""
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", probe))
    argv = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    done = subprocess.run([*argv, file.as_uri()], capture_output=True, timeout=120, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout.decode())
    assert title is not None
    assert json.loads(title.group(1).replace("&quot;", '"')) == ["1 of 1", True, "chat-norm"]


def test_a_file_that_breaks_a_rule_is_loaded_not_at_all(tmp_path: Path) -> None:
    store, file = open_store(), tmp_path / "g.json"
    done = {"started": "2026-01-01T01:00:00Z", "delivered": "2026-01-02T00:00:00Z", "created": "2026-01-01T00:00:00Z"}
    a = {"id": "a", "type": "code", "title": "a node", "author": "ana", **done}
    b = {"id": "b", "type": "integration", "title": "b node"}
    hand = {"from": "a", "to": "b", "reviewer": "gus", "sha256": "a" * 64}
    for nodes, edges, why in (
        ([a, b], [hand | {"reviewer": "ana"}], "is an author of a"),
        ([a | {"delivered": "2025-12-01T00:00:00Z"}], [], "ended before it was created"),
        ([a, b], [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}], "form a cycle"),
        ([b, a | {"delivered": None}], [hand], "has not ended, and hands over"),
        ([a, a], [], "a exists"),
        ([a | {"judgement": "rejected"}], [], "with a reason"),
        ([a, b], [{"from": "a", "to": "c"}], "no node 'c'"),
        ([a | {"created": "yesterday"}], [], "is no time"),
        ([a, b | {"started": "2026-01-03T00:00:00Z"}], [{"from": "a", "to": "b"}], "was started before a"),
    ):
        file.write_text(json.dumps({"nodes": nodes, "edges": edges}))
        with pytest.raises(GateRefused, match=why):
            graph.load_file(store, P, file)
    assert not log.load(store, P).nodes
    for text in ("[1, 2]", "nodes: 3", "nodes: [{id: a, colour: red}]", "nodes: [1]", "{unclosed", "", "\x00"):
        file.write_text(text)
        with pytest.raises(InputUnusable):
            graph.load_file(store, P, file)


def test_a_lifetime_that_never_was_is_left_out_and_named(example: tuple[Store, View]) -> None:
    view = example[1]
    view.graph.nodes["chat-plan"].ended_at = "2020-01-01T00:00:00+00:00"
    report = graph.stats(view)
    assert report.extra["totals"]["excluded_lifetimes"] == 1
    assert report.findings[0].code == "LIFETIME_EXCLUDED"


def test_the_peak_counts_spans_that_are_open_together() -> None:
    assert peak([(0, 2), (1, 3), (2, 4)]) == (2, 1)
    assert peak([]) == (0, None)


def test_a_changed_event_is_found(example: tuple[Store, View]) -> None:
    store, _ = example

    def forge(snapshot: object) -> Changes:
        first = next(log.events(store, P))
        lines = [jsonio.dumps(asdict(e)) for e in log.events(store, P)]
        lines[0] = jsonio.dumps(asdict(replace(first, data={**first.data, "title": "another"})))
        return Changes(put={log.path_of(1): b"\n".join(lines)})

    store.update(log.ref_of(P), forge, "a forgery")
    with pytest.raises(InputUnusable, match="history was changed"):
        graph.look(store, P)


def test_a_missing_piece_of_the_history_is_found() -> None:
    store = open_store()
    for n in range(3):
        graph.add_node(store, P, f"code-{n}", type="code", title="a node")
    store.update(log.ref_of(P), lambda _: Changes(delete={log.path_of(2)}), "a loss")
    with pytest.raises(InputUnusable, match="missing from the history"):
        graph.look(store, P)


def test_the_kept_state_says_what_the_history_says(example: tuple[Store, View]) -> None:
    store, view = example
    kept = list((paths().cache / "graphs").glob(f"{P}-*.msgpack"))
    assert len(kept) == 1
    graph.add_node(store, P, "code-late", type="code", title="added after the state was kept")
    now, whole = log.load(store, P), log.load(store, P, whole=True)
    now.last_blob = whole.last_blob
    assert now == whole
    kept[0].write_bytes(b"{}")
    assert set(graph.look(store, P).graph.nodes) == {*view.graph.nodes, "code-late"}


def test_secrets_in_a_title_are_masked_in_the_history() -> None:
    store = open_store()
    graph.add_node(store, P, "code-1", type="code", title="use ghp_" + "a1B2" * 9 + " here")
    assert "a1B2a1B2" not in json.dumps([asdict(e) for e in log.events(store, P)])


@pytest.mark.stress
def test_writers_that_race_lose_nothing_and_break_no_rule(
    stress_count: Callable[[int], int], seeded: random.Random
) -> None:
    store, count = open_store(), 4 * stress_count(60)
    for n in range(6):
        graph.add_node(store, P, f"code-{n}", type="code", title="a node")
    pairs = [(seeded.randrange(6), seeded.randrange(6)) for _ in range(count)]

    def write(pair: tuple[int, int]) -> bool:
        try:
            graph.link(Store.open(store.gitdir), P, f"code-{pair[0]}", f"code-{pair[1]}")
        except GateRefused:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        kept = {p for p, done in zip(pairs, pool.map(write, pairs), strict=True) if done}
    found = {(int(e.source[5:]), int(e.target[5:])) for e in graph.look(store, P).graph.open_edges()}
    assert found == kept
    assert graph.check(store, P)[1] == "pass"


def test_the_command_line_speaks_for_every_verb(project_root: Path, tmp_path: Path) -> None:
    def run(*words: str, code: int = 0) -> str:
        argv = [sys.executable, "-m", "infer_forge", "graph", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path, env=dict(os.environ))
        assert done.returncode == code, done.stderr
        return done.stdout

    run("load", str(project_root / "docs" / "graph_example.yaml"), "--project", P)
    assert json.loads(run("stats", "--project", P, "--format", "json"))["totals"]["created"] == 40
    run("mark", "doc-mem", "rejected", "--reason", "it read the wrong counter", "--project", P)
    told = json.loads(run("explain", "doc-ship", "--project", P, "--format", "json"))
    assert told["node"]["suspect_chain"][0] == "doc-mem"
    run("link", "doc-ship", "doc-plan", "--project", P, code=4)
    assert json.loads(run("check", "--project", P, "--format", "json"))["verdict"] == "pass"
    run("render", "--as", "html", "--out", "g.html", "--project", P)
    assert (tmp_path / "g.html").stat().st_size > 20_000
    run("ready", "--project", "../x", code=2)
