"""What the clients' own caps leave of an answer that is far over them: the model still reads how to go on and where the rest is.

The server's cap is raised (setting `mcp.max_chars`) until the clients' own ones cut. Claude Code puts what is over 50,000
characters into a file and shows the first 2,000; what is over MAX_MCP_OUTPUT_TOKENS (25,000), into a file alone. Codex cuts
the middle out of what is over some 12,000 characters, for a model that it does not know.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from infer_forge.base.config import KEYS
from tests.clients.real.programs import Home
from tests.clients.real.scripted_model import Call, scripted
from tests.clients.real.test_clients_real_tools import ALLOWED, CODEX_SERVER, SERVER, installed

KERNELS = 500
MOST = (KEYS["mcp.max_chars"].between or (0, 0))[1]
NAME = "vendor::attention::kernel_number_{:04d}_of_a_family_with_a_long_name"


@pytest.fixture
def many_kernels(tmp_path: Path) -> Path:
    """A trace with so many kernels, each by a long name of its own."""
    events = [
        {
            "ph": "X", "cat": "kernel", "name": NAME.format(i), "ts": 100 * i, "dur": 50, "pid": 0, "tid": 7,
            "args": {"device": 0, "stream": 7},
        }
        for i in range(KERNELS)
    ]  # fmt: skip
    file = tmp_path / "many.json"
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return file


def asked(home: Home, client: str, trace: Path, limit: int, **environment: str) -> str:
    """What the client told the model of a triage with so many kernels, the server's own cap as high as it goes."""
    installed(home, client)
    home.state.mkdir(parents=True, exist_ok=True)
    (home.state / "infer-forge.yaml").write_text(f"mcp: {{max_chars: {MOST}}}\n")
    prefix = SERVER if client == "claude" else ""
    arguments = {"trace": str(trace), "min_share": 0, "limit": limit}
    with scripted([Call(f"{prefix}triage_trace", arguments, CODEX_SERVER if client == "codex" else None)]) as model:
        if client == "claude":
            home.claude(model, *ALLOWED, **environment)
        else:
            home.codex(model)
    return model.results()[0].replace('\\"', '"')


def check_whole(path: str) -> None:
    assert len(json.loads(Path(path).read_text())["tables"]["kernel"]["rows"]) == KERNELS


@pytest.mark.parametrize(("client", "mark"), [("claude", "tool-results"), ("codex", "tokens truncated")])
def test_of_an_answer_that_the_client_cuts_the_model_still_reads_the_next_step_and_where_the_whole_is(
    home: Home, many_kernels: Path, client: str, mark: str
) -> None:
    told = asked(home, client, many_kernels, KERNELS)
    assert mark in told  # else the client did not cut, and this test shows nothing
    assert len(told) < 15_000
    assert '"next_step":"infer-forge pipeline' in told
    path, _, rest = told.partition('"artifact":{"path":"')[2].partition('"')
    assert rest.startswith(f',"sha256":"{hashlib.sha256(Path(path).read_bytes()).hexdigest()}"')
    check_whole(path)


def test_an_answer_over_the_tokens_that_claude_allows_lies_in_the_file_that_it_names(
    home: Home, many_kernels: Path
) -> None:
    """Somebody set MAX_MCP_OUTPUT_TOKENS low: the client shows the model no word of the answer, only where it lies."""
    told = asked(home, "claude", many_kernels, 150, MAX_MCP_OUTPUT_TOKENS="3000")
    assert "exceeds maximum allowed tokens" in told
    assert "next_step: string" in told
    named = re.search(r"saved to (\S+\.txt)", told)
    assert named
    answer = json.loads(Path(named[1]).read_text())
    assert answer["next_step"].startswith("infer-forge pipeline")
    check_whole(answer["artifact"]["path"])
