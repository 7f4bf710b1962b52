from __future__ import annotations

import random
import string

import pytest

from infer_forge.base import redact


def made(prefix: str, length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return prefix + "".join(random.Random(7).choices(alphabet, k=length))


SAMPLES = {
    "huggingface-token": made("hf_", 34),
    "openai-key": made("sk-proj-", 40),
    "anthropic-key": made("sk-ant-api03-", 40),
    "github-token": made("ghp_", 36),
    "gitlab-token": made("glpat-", 20),
    "aws-access-key": made("AKIA", 16, string.ascii_uppercase + string.digits),
    "slack-token": made("xoxb-", 24),
    "nvidia-key": made("nvapi-", 40),
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.abcDEF123456",
    "bearer-token": "Authorization: Bearer " + made("", 30),
    "url-password": "https://ann:" + made("", 12) + "@git.local/x.git",
    "private-key": "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----",
    "wandb-key": "WANDB_API_KEY=" + made("", 40, "0123456789abcdef"),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_each_kind_of_secret_is_found_and_taken_out(kind: str) -> None:
    text = f"before {SAMPLES[kind]} after"
    assert [h.kind for h in redact.find(text)] == [kind]
    clean = redact.redact(text)
    assert redact.find(clean) == []
    assert clean.startswith("before ")
    assert clean.endswith(" after")


@pytest.mark.parametrize(
    "text",
    [
        "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-learn and task-based-scheduling-of-long-names",
        "https://user:$TOKEN@host/x",
        "git@github.com:sgl-project/sglang.git",
        "http://host:8000/v1@latest",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "void sglang::kernel_hf_attention(float*)",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact.redact(text) == text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("OPENAI_API_KEY", True),
        ("DB_PASSWORD", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("GITHUB_PAT", True),
        ("MAX_TOKENS", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("SSH_KEY_FILE", False),
        ("KEYBOARD", False),
        ("PATH", False),
        ("MONKEY", False),
    ],
)
def test_variables_that_hold_secrets_are_told_by_name(name: str, secret: bool) -> None:
    assert redact.is_secret_name(name) is secret


def test_the_exact_value_of_a_secret_variable_is_found_whatever_its_format() -> None:
    known = redact.environment_secrets({"TEAM_PASSWORD": "correct horse", "HOME": "/home/ann", "X_TOKEN": "12345678"})
    assert known == {"correct horse": "TEAM_PASSWORD"}
    assert redact.redact("a correct horse b", known) == "a [redacted:value-of:TEAM_PASSWORD] b"


def test_an_environment_is_written_down_without_its_secrets() -> None:
    env = redact.redact_environment({"HF_TOKEN": "abc", "A": SAMPLES["github-token"], "PATH": "/bin"})
    assert env == {"HF_TOKEN": "[redacted:HF_TOKEN]", "A": "[redacted:github-token]", "PATH": "/bin"}


def test_the_value_of_a_secret_flag_is_masked_however_it_looks() -> None:
    words = [
        "vllm",
        "serve",
        "m",
        "--api-key",
        "plain",
        "--hf-token=plain",
        "--ssl-keyfile-password",
        "plain",
        "--max-num-batched-tokens",
        "8",
        "-x",
    ]
    shown = redact.redact_arguments(words)
    assert "plain" not in " ".join(shown)
    assert shown[:5] == ["vllm", "serve", "m", "--api-key", redact.MASK.format("api-key")]
    assert shown[-3:] == ["--max-num-batched-tokens", "8", "-x"]
    assert redact.redact_arguments(["--api-key", "--port", "8"]) == ["--api-key", "--port", "8"]


def test_a_pattern_that_is_left_out_because_its_beginning_is_missing_could_not_have_matched() -> None:
    for kind, sample in SAMPLES.items():
        for text in (
            sample,
            sample.replace("Authorization", "AUTHORIZATION").replace("WANDB_API_KEY", "wandb_api_key"),
        ):
            assert [h.kind for h in redact.find(f"x {text} y")] == [kind]
    assert {kind for kind, _ in redact._PATTERNS} == set(redact._LITERALS)  # pyright: ignore[reportPrivateUsage]


def test_a_secret_right_behind_a_letter_is_only_found_when_that_is_asked_for() -> None:
    token = SAMPLES["huggingface-token"]
    assert redact.find(f"W{token}") == []
    assert [(h.kind, h.start) for h in redact.glued(f"W{token}")] == [("huggingface-token", 1)]
    assert redact.glued(f"({token}") == []
