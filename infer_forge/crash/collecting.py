"""The verbs `collect` and `resend`: a read-only bundle of a live server, and its failing requests against another one.

Only GET is ever sent to the observed server, and none that makes it generate. Bodies are capped, secrets redacted.
"""

from __future__ import annotations

import ast
import json
import os
import re
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from infer_forge.base import jsonio, redact
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable, UsageFault
from infer_forge.base.paths import paths
from infer_forge.base.records import Header, Report
from infer_forge.base.tables import Column, Table
from infer_forge.engines import http

ENDPOINTS = (
    "/health",
    "/v1/models",
    "/model_info",
    "/get_model_info",
    "/server_info",
    "/get_server_info",
    "/v1/loads",
    "/get_load",
    "/metrics",
    "/version",
    "/ping",
)
"""SGLang's, vLLM's, TensorRT-LLM's and TokenSpeed's read-only routes; `/health_generate` is left out: it runs the model."""

MAX_BODY = 2 << 20
MAX_BUNDLE = 16 << 20
LOG_TAIL = 4 << 20
MAX_REQUESTS = 100
_RECEIVED = re.compile(r"Receive: obj=GenerateReqInput\((?P<fields>.*)\)\s*$")
_FINISHED = re.compile(r"Finish: obj=GenerateReqInput\(.*?rid='(?P<rid>[^']+)'")
_FIELD = re.compile(
    r"(?P<name>rid|text|input_ids|sampling_params)=(?P<value>'(?:["
    r"^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|\{[^{}]*\}|None)"
)
_VLLM = re.compile(r"Received request (?P<rid>[\w.-]+): prompt: (?P<prompt>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_HTTP = re.compile(r'"(?P<method>POST|GET) (?P<path>/\S*) HTTP/[\d.]+" (?P<status>\d{3})')


def collect(
    url: str,
    *,
    out: Path | None = None,
    log: Path | None = None,
    requests: Path | None = None,
    token_env: str | None = None,
    timeout_s: float = 10.0,
) -> Report:
    """A bundle of a live server: routes, GPU snapshot, end of its log, failing requests. Nothing is written to the server.

    Args:
        log: the server's log file. requests: JSON lines `{"path", "body"}` of requests that fail.
        token_env: variable that holds a bearer token; the token itself is never written.

    Returns:
        Report with `bundle` (folder) and table `endpoints`.

    Raises:
        UsageFault: the address is none, or the folder is not empty. InputUnusable: log or requests cannot be read.
    """
    base = _address(url)
    folder = (
        out or paths().runs / "crash-collect" / f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{os.getpid()}"
    ).resolve()
    if folder.exists() and any(folder.iterdir()):
        raise UsageFault("the folder is not empty", where=str(folder), next_step="name a new folder")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    headers = _authorization(token_env)
    known = redact.environment_secrets()
    rows, total = _ask(base, folder, headers, known, timeout_s)
    tail = _log_tail(log, folder, known) if log is not None else ""
    saved = _requests(requests, tail, known)
    jsonio.write_atomic(folder / "requests.jsonl", "".join(json.dumps(r) + "\n" for r in saved))
    gpus = _gpus()
    jsonio.write_atomic(folder / "gpus.json", jsonio.dumps(gpus, indent=True))
    bundle = {
        "kind": "crash-bundle",
        "url": base,
        "taken": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "endpoints": [dict(zip(("path", "status", "bytes", "cut", "ms", "reason"), r, strict=True)) for r in rows],
        "requests": len(saved),
        "log": str(log) if log else None,
    }
    jsonio.write_atomic(folder / "bundle.json", jsonio.dumps(bundle, indent=True))
    report = _report(rows, total, len(tail), len(saved))
    alive = next((r[1] for r in rows if r[0] == "/health"), 0)
    report.extra = {"bundle": str(folder), "url": base, "health": alive, "requests": len(saved)}
    report.summary = [
        (
            f"bundle in {folder}: {sum(r[1] == 200 for r in rows)} of {len(rows)} routes "
            f"answered, health {alive or 'no answer'}, {len(saved)} failing requests"
        )
    ]
    report.next_step = f"infer-forge crash triage {folder}"
    return report


def _report(rows: list[Any], total: int, log_bytes: int, requests: int) -> Report:
    """Coverage, limits and the table of routes."""
    report = Report(
        "crash-collect",
        Header(
            coverage={
                "endpoints": len(rows),
                "answered": sum(r[1] not in (0, 404) for r in rows),
                "bytes": total,
                "log_bytes": log_bytes,
                "requests": requests,
            },
            thresholds={"max_body_bytes": MAX_BODY, "max_bundle_bytes": MAX_BUNDLE, "log_tail_bytes": LOG_TAIL},
        ),
    )
    report.add(
        Table(
            "endpoints",
            [
                Column("path", "text"),
                Column("status", "number"),
                Column("size_bytes", "bytes"),
                "cut",
                Column("time_ms", "ms"),
                "reason",
            ],
            rows,
            "Routes (GET only)",
        )
    )
    return report


def _address(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageFault(f"{url!r} is no address", next_step="write http://HOST:PORT")
    if parts.username or parts.password:
        raise UsageFault("an address with a password in it is not taken", next_step="use --token-env")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _authorization(token_env: str | None) -> dict[str, str]:
    if token_env is None:
        return {}
    token = os.environ.get(token_env)
    if not token:
        raise UsageFault(f"{token_env} is not set")
    return {"Authorization": f"Bearer {token}"}


def _ask(
    base: str, folder: Path, headers: dict[str, str], known: dict[str, str], timeout_s: float
) -> tuple[list[tuple[Any, ...]], int]:
    rows: list[tuple[Any, ...]] = []
    total = 0
    for path in ENDPOINTS:
        begin = time.monotonic()
        room = min(MAX_BODY, MAX_BUNDLE - total)
        answer = http.call(base + path, timeout_s=timeout_s, headers=headers, limit_bytes=room + 1)
        took = round((time.monotonic() - begin) * 1000, 1)
        body = answer.body[:room]
        rows.append((path, answer.status, len(body), len(answer.body) > room, took, answer.reason[:200]))
        if answer.status and body and answer.status != 404:
            text = redacted_body(body.decode("utf-8", "replace"), known)
            name = path.strip("/").replace("/", "_")
            jsonio.write_atomic(folder / f"{name}.txt", f"# GET {path} -> {answer.status}\n{text}\n")
            total += len(body)
    return rows, total


def redacted_body(text: str, known: dict[str, str] | None = None) -> str:
    """A body without secrets: values of fields whose name says so, and every known pattern."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return redact.redact(text, known)
    return redact.redact(json.dumps(_masked(data), ensure_ascii=False), known)


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {
            k: redact.MASK.format(k)
            if isinstance(v, str) and v and redact.is_secret_name(str(k).upper())
            else _masked(v)
            for k, v in fields.items()
        }
    if isinstance(value, list):
        return [_masked(v) for v in cast("list[Any]", value)]
    return value


def _log_tail(log: Path, folder: Path, known: dict[str, str]) -> str:
    try:
        with open(log, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_TAIL))
            data = file.read(LOG_TAIL)
    except OSError as exc:
        raise InputUnusable(
            exc.strerror or str(exc), where=str(log), next_step="name the server's log, or leave --log away"
        ) from None
    if size > LOG_TAIL:
        data = data[data.find(b"\n") + 1 :]
    text = redact.redact(data.decode("utf-8", "replace"), known)
    jsonio.write_atomic(folder / "server_tail.log", text)
    return text


def _requests(given: Path | None, tail: str, known: dict[str, str]) -> list[dict[str, Any]]:
    """Requests that fail: those given, and those that the log received and never finished."""
    found: list[dict[str, Any]] = []
    if given is not None:
        try:
            lines = given.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as exc:
            raise InputUnusable(exc.strerror or str(exc), where=str(given)) from None
        for number, line in enumerate(lines[: MAX_REQUESTS * 10], 1):
            if not line.strip():
                continue
            data = jsonio.loads(line, where=f"{given}:{number}")
            if (
                not isinstance(data, dict)
                or not str(cast("dict[str, Any]", data).get("path", "")).startswith("/")
                or "body" not in data
            ):
                raise InputUnusable('is no request: {"path": "/..", "body": {..}}', where=f"{given}:{number}")
            item = cast("dict[str, Any]", data)
            found.append({"path": item["path"], "body": item["body"], "from": "given"})
    found += unfinished(tail)
    return [json.loads(redact.redact(json.dumps(r), known)) for r in found[:MAX_REQUESTS]]


def unfinished(text: str) -> list[dict[str, Any]]:
    """Requests of a log that were received and not finished; only where the engine was told to log requests."""
    waiting: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        if done := _FINISHED.search(line):
            waiting.pop(done["rid"], None)
        elif received := _RECEIVED.search(line):
            fields = {m["name"]: _literal(m["value"]) for m in _FIELD.finditer(received["fields"][:200_000])}
            rid = str(fields.pop("rid", len(waiting)))
            body = {k: v for k, v in fields.items() if v is not None}
            if "text" in body or "input_ids" in body:
                waiting[rid] = {"path": "/generate", "body": body, "from": "log"}
        elif asked := _VLLM.search(line):
            waiting[asked["rid"]] = {
                "path": "/v1/completions",
                "body": {"prompt": _literal(asked["prompt"]), "max_tokens": 16},
                "from": "log",
            }
        elif (ended := re.search(r"(?:Finished|Aborted) request (?P<rid>[\w.-]+)", line)) is not None:
            waiting.pop(ended["rid"].rstrip("."), None)
    return list(waiting.values())[-MAX_REQUESTS:]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def http_failures(text: str) -> list[tuple[str, str, int]]:
    """(method, path, status) of access-log lines with status 500 or more."""
    return [(m["method"], m["path"], int(m["status"])) for m in _HTTP.finditer(text) if int(m["status"]) >= 500]


def _gpus() -> Any:
    from infer_forge.base.machine import snapshot

    try:
        return snapshot().to_json()
    except ForgeError as fault:
        return {"unknown": fault.what}


def resend(bundle: Path, url: str, *, timeout_s: float = 120.0, only: Sequence[int] = ()) -> Report:
    """Send a bundle's saved requests to another server: one made for the purpose, never the observed one.

    Raises:
        InputUnusable: it is no bundle. GateRefused: the address is the one that was observed.
    """
    data = jsonio.read_json(bundle / "bundle.json")
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get("kind") != "crash-bundle":
        raise InputUnusable("is no bundle", where=str(bundle))
    target = _address(url)
    if urlsplit(target).netloc == urlsplit(str(cast("dict[str, Any]", data)["url"])).netloc:
        raise GateRefused(
            "this is the server that was observed: on-call use never writes to it",
            next_step="start another server and send there",
        )
    rows: list[tuple[Any, ...]] = []
    lines = (bundle / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if only and number not in only:
            continue
        item = cast("dict[str, Any]", jsonio.loads(line, where=f"{bundle}:{number}"))
        begin = time.monotonic()
        answer = http.call(
            target + str(item["path"]), method="POST", body=item["body"], timeout_s=timeout_s, limit_bytes=MAX_BODY
        )
        rows.append(
            (number, item["path"], answer.status, round((time.monotonic() - begin) * 1000, 1), answer.reason[:200])
        )
    failing = [r for r in rows if r[2] != 200]
    report = Report("crash-resend", Header(coverage={"requests": len(rows)}))
    report.add(
        Table(
            "requests",
            [Column("request", "int"), "path", Column("status", "number"), Column("time_ms", "ms"), "reason"],
            rows,
            "Requests",
        )
    )
    report.extra = {
        "verdict": "fails" if failing else "passes" if rows else "no_requests",
        "failing": [r[0] for r in failing],
    }
    report.summary = [f"{len(failing)} of {len(rows)} requests fail at {target}"]
    report.next_step = (
        "infer-forge crash record -- SERVER_COMMAND, then send again"
        if failing
        else "the requests alone do not reproduce it: load, order or state matter"
    )
    return report
