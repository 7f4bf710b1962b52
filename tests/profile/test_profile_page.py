"""The page of a triage: whole, self-contained, and shown by a real browser where one is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_forge.profile import write_page
from infer_forge.profile.model import Options

Make = Callable[..., Any]


@pytest.fixture
def page(trace_writer: Make, tmp_path: Path) -> Path:
    made = trace_writer()
    for i in range(8):
        stage = "EXTEND bs=1 toks=64" if i % 2 else "DECODE bs=4"
        made.step(f"step[{stage}]", 1000 + 100 * i, 90)
        made.kernel("<script>alert(1)</script>_kernel", 1000 + 100 * i, 40)
        made.kernel("void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(int)", 1030 + 100 * i, 30, stream=9)
    out = tmp_path / "page.html"
    write_page([made.write()], Options(cache=False), out)
    return out


def test_a_page_has_both_pictures_and_every_table_and_names_nothing_outside(page: Path) -> None:
    text = page.read_text()
    assert text.count("<svg") == 2
    assert {"prefill", "decode", "communication"} <= set(re.findall(r">([a-z_]+)</text>", text))
    assert text.count("<table") >= 8
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text)
    assert "<script>alert(1)" not in text


def test_a_headless_browser_draws_it_and_sorts_its_tables(page: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("chromium is not installed: the page is not shown by a real browser")
    words = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
        "--virtual-time-budget=3000",
    ]
    click = "document.querySelector('th').click();document.title='sorted '+document.querySelectorAll('th[aria-sort]').length"
    page.write_text(page.read_text().replace("</body>", f"<script>{click}</script></body>"))
    done = subprocess.run(
        [*words, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert "<title>sorted 1</title>" in done.stdout, done.stderr[-500:]
    assert done.stdout.count("<rect") > 20
