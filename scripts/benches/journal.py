"""Benches of the journal: what searches find, what they cost at 100,000 records, and the history of 20,000 commits.

Prepared inputs are kept (see `journal_prepared`), so that a second run measures at once. `INFER_FORGE_BENCH_RECORDS` and
`INFER_FORGE_BENCH_COMMITS` make the sizes smaller for a quick look.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

from benches import Row
from benches.journal_notes import generated
from benches.journal_prepared import fill, known, prepared_repository, prepared_store, told
from benches.journal_queries import NOTHING, SYMPTOMS, WRITTEN
from benches.places import home
from infer_forge.base.gitstore import Store
from infer_forge.journal import add, build_history, markdown, open_store, query_history
from infer_forge.journal.index import ask, index_file
from infer_forge.journal.search import facets, search

RECORDS = int(os.environ.get("INFER_FORGE_BENCH_RECORDS", "100000"))
COMMITS = int(os.environ.get("INFER_FORGE_BENCH_COMMITS", "20000"))


def _ranked(store: Store, queries: list[tuple[str, str]]) -> tuple[float, float, float, float]:
    """R@1, R@10, MRR and median ms of queries with one right record each."""
    places: list[int] = []
    times: list[float] = []
    for query, wanted in queries:
        began = time.perf_counter()
        ids = [h.id for h in search(store, query, limit=10)]
        times.append((time.perf_counter() - began) * 1e3)
        places.append(ids.index(wanted) + 1 if wanted in ids else 0)
    found = [p for p in places if p]
    n = len(places) or 1
    return sum(p == 1 for p in places) / n, len(found) / n, sum(1 / p for p in found) / n, statistics.median(times)


def _retrieval_row(work: str, store: Store, queries: list[tuple[str, str]], goal: float) -> Row:
    first, ten, mrr, ms = _ranked(store, queries)
    note = f"R@1 {first:.3f}, MRR {mrr:.3f}, {ms:.1f} ms a query (median), {len(queries)} queries"
    return Row(work, f"R@10 at least {goal}", round(ten, 3), "R@10", "one right record a query", ten >= goal, note)


def retrieval() -> list[Row]:
    """What searches find among 5,000 generated records, the shipped pitfalls, and notes written for it."""
    with home(INFER_FORGE_NO_FSYNC="1"), open_store() as store:
        fill(store, 5000)
        held = known(5000)
        written = add(store, [markdown.make(w["record"]) for w in WRITTEN])
        pitfalls = _pitfall_ids(store)
        rnd = random.Random(11)
        sample = rnd.sample(held, 200)
        rows = [
            _retrieval_row("known item by its title", store, [(k["title"], i) for i, k in sample], 0.95),
            _retrieval_row("known item by one identifier", store, [(k["rare"][1], i) for i, k in sample], 0.99),
            _retrieval_row("known item by six words of its body", store, [(_six(rnd, k), i) for i, k in sample], 0.5),
            _retrieval_row(
                "Chinese, twelve characters", store, [(k["chinese"], i) for i, k in held if k["chinese"]][:200], 0.99
            ),
            _retrieval_row(
                "symptom to pitfall, English and Chinese", store, [(q, pitfalls[p]) for q, p in SYMPTOMS], 0.9
            ),
            _retrieval_row(
                "questions to written notes",
                store,
                [(q, i) for i, w in zip(written, WRITTEN, strict=True) for q in w["queries"]],
                0.9,
            ),
        ]
        rows += [_nothing(store), _facets(store)]
    return rows


def _six(rnd: random.Random, known: dict[str, Any]) -> str:
    return " ".join(rnd.sample(known["body"], 6))


def _pitfall_ids(store: Store) -> dict[str, str]:
    rows = ask(store, lambda db: db.execute("SELECT title, id FROM records WHERE kind='pitfall'").fetchall())
    return {title.split(":")[0]: record for title, record in rows}


def _nothing(store: Store) -> Row:
    quiet = [q for q in NOTHING if not search(store, q)]
    loud = [q for q in NOTHING if q not in quiet]
    share = len(quiet) / len(NOTHING)
    return Row("queries that must find nothing", "all stay empty", share, "share", "none", not loud, "; ".join(loud))


def _facets(store: Store) -> Row:
    """Filters against a plain count over all records."""
    wrong = 0
    combos = list(itertools.product(("NVIDIA H200", "AMD MI300X"), ("deepseek-v3", "qwen3-8b"), ("sglang", "vllm")))
    truth = [record.dims for record, _ in generated(5000)]
    for gpu, model, framework in combos:
        wanted = sum(d["gpu"] == [gpu] and d["model"] == [model] and d["framework"] == [framework] for d in truth)
        counted = facets(store, {"gpu": [gpu], "model": [model], "framework": [framework]})["count"]
        wrong += counted != wanted
    return Row("filters against a plain count", "all equal", wrong, "wrong", f"{len(combos)} combinations", wrong == 0)


def _p95(work: Callable[[], Any], count: int) -> float:
    times: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1e3)
    return sorted(times)[int(count * 0.95)]


def scale() -> list[Row]:
    """Index and search of 100,000 records of 300 words."""
    with home(INFER_FORGE_NO_FSYNC="1") as folder:
        prepared_store(RECORDS, folder)
        return _scale()


def _scale() -> list[Row]:
    with open_store() as store:
        held = known(RECORDS)
        told("building the index")
        began = time.perf_counter()
        search(store, "warm")
        build = time.perf_counter() - began
        told(f"built in {build:.1f} s; searching")
        size = index_file(store).stat().st_size / 1e6
        rnd = random.Random(5)

        def of_one(count: int) -> str:
            return " ".join(rnd.sample(rnd.choice(held)[1]["body"], count))

        def visible() -> None:
            title = f"fresh{rnd.randrange(1 << 60)}"
            (one,) = add(store, [markdown.make({"kind": "note", "title": title, "created": "2026-11-01"})])
            assert [h.id for h in search(store, title)] == [one]

        def of_kind() -> None:
            facts = rnd.choice(held)[1]
            chosen = {d: facts["dims"][d] for d in ("gpu", "model")}
            search(store, " ".join(rnd.sample(facts["body"], 2)), chosen)

        filtered = _p95(of_kind, 200)
        every = _p95(lambda: search(store, of_one(3)), 200)
        some = _p95(lambda: search(store, f"{of_one(2)} {of_one(2)}"), 200)
        added = _p95(visible, 40)
    name = f"{RECORDS:,} records of 300 words"
    return [
        Row(f"index of {name}", "at most 90 s", build, "s", f"{size:.0f} MB of index", build <= 90),
        Row(f"filtered search, {name}", "p95 at most 30 ms", filtered, "ms", "two words, two filters", filtered <= 30),
        Row(f"search of three words of one record, {name}", "p95 at most 30 ms", every, "ms", "all terms", every <= 30),
        Row(f"search of words of two records, {name}", "p95 at most 150 ms", some, "ms", "any term", some <= 150),
        Row(f"an added record is found, {name}", "p95 at most 100 ms", added, "ms", "add and search", added <= 100),
    ]


def history() -> list[Row]:
    """Cards of a generated repository against `git log -p -U0` to nowhere."""
    with home(INFER_FORGE_NO_FSYNC="1"):
        place = prepared_repository(COMMITS)
        told("git log -p -U0, three times")
        words = ["git", "-C", str(place), "log", "-p", "-U0"]
        plain = min(_seconds(lambda: subprocess.run(words, stdout=subprocess.DEVNULL, check=True)) for _ in range(3))
        told(f"{plain:.1f} s; building the history")
        first = _seconds(lambda: build_history(place))
        again = _seconds(lambda: build_history(place))
        asked = _p95(lambda: query_history("Qwen/Qwen3-30B-A3B"), 20)
    ratio = first / plain
    name = f"history of {COMMITS:,} commits"
    return [
        Row(name, "at most 1.5 x git log -p -U0", ratio, "x", f"git log {plain:.1f} s", ratio <= 1.5, f"{first:.1f} s"),
        Row(f"{name}, nothing new", "by what is new: under 1 s", again, "s", "second build", again < 1),
        Row(f"{name}, one query", "under 300 ms", asked, "ms", "p95 of 20", asked < 300),
    ]


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


BENCHES: dict[str, Callable[[], list[Row]]] = {
    "journal-retrieval": retrieval,
    "journal-scale": scale,
    "journal-history": history,
}
