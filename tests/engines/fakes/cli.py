"""The fake programs' command lines: `sglang`, `vllm`, `trtllm-serve`, `tokenspeed`, and what `python -m` starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from tests.engines.fakes import helps, logs, settings
from tests.engines.fakes.server import Engine, serve

SERVERS = {
    "sglang": ("sglang serve", helps.SGLANG_SERVER, ""),
    "vllm": ("vllm serve", helps.VLLM_SERVER, "model_tag"),
    "tensorrt_llm": ("trtllm-serve serve", helps.TRTLLM_SERVER, "MODEL"),
    "tokenspeed": ("tokenspeed serve", helps.TOKENSPEED_SERVER, "model"),
}
_PORTS = {"sglang": 30000, "vllm": 8000, "tensorrt_llm": 8000, "tokenspeed": 8000}


def _fake_words(argv: list[str]) -> tuple[list[str], list[str]]:
    """(the engine's own words, the words of --fake)."""
    own: list[str] = []
    fake: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--fake" and words:
            fake.append(words.pop(0))
        else:
            own.append(word)
    return own, fake


def run_server(framework: str, argv: list[str]) -> int:
    """`serve` of one framework."""
    usage, flags, positional = SERVERS[framework]
    if any(w in ("-h", "--help", "--help=all") for w in argv):
        print(helps.help_text(usage, flags, positional=positional), end="")
        return 0
    own, fake = _fake_words(argv)
    chosen = settings.read(fake)
    raw = helps.parse(flags, own, prog=usage, positional=positional)
    model = raw.get(positional) if positional else None
    model = model or raw.get("model_path") or raw.get("model")
    if not model:
        print(
            f"{usage}: error: the following arguments are required: {positional or '--model-path/--model'}",
            file=sys.stderr,
        )
        return 2
    if framework == "tensorrt_llm" and raw.get("backend", "pytorch") != "pytorch":
        print("the fake serves the PyTorch backend only", file=sys.stderr)
        return 2
    options: dict[str, Any] = dict(raw) | {"model": model, "host": raw.get("host") or "127.0.0.1"}
    options["port"] = int(raw.get("port") or _PORTS[framework])
    options["tp"] = int(raw.get("tensor_parallel_size") or raw.get("tp_size") or raw.get("attn_tp_size") or 1)
    name: Any = raw.get("served_model_name")
    options["served_model_name"] = name[0] if isinstance(name, list) and name else name
    if raw.get("disable_cuda_graph") or raw.get("enforce_eager"):
        chosen.no_cuda_graph = True
    return _serve(framework, options, chosen)


def _leave(number: int, frame: object) -> None:
    os._exit(0)


def _die(framework: str, kind: str) -> int:
    print(logs.line(framework, "server is starting"), file=sys.stderr)
    print(logs.crash(framework, kind), file=sys.stderr, flush=True)
    return 1


def _serve(framework: str, options: dict[str, Any], chosen: settings.Settings) -> int:
    if chosen.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, _leave)
    children = [
        subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"]) for _ in range(chosen.workers)
    ]
    if chosen.hang_start:
        threading.Event().wait()
    if chosen.crash_start:
        return _die(framework, "cuda" if chosen.crash_start == "1" else chosen.crash_start)
    if chosen.oom_start:
        return _die(framework, "oom")
    if chosen.port_in_use:
        return _die(framework, "port")
    engine = Engine(framework, options, chosen)
    engine.profiler.directory = _profile_directory(framework, options)
    for text in logs.start_lines(engine):
        engine.log(text)
    time.sleep(chosen.slow_start)
    host = "127.0.0.1" if options["host"] in ("0.0.0.0", "::", "localhost") else str(options["host"])

    def ready(port: int) -> None:
        engine.log(logs.ready_line(framework, host, port))

    try:
        serve(engine, host, options["port"], ready)
    except OSError as fault:
        print(
            f"[Errno {fault.errno}] error while attempting to bind on address ('{host}', {options['port']}): address already in use",
            file=sys.stderr,
        )
        return 1
    finally:
        for child in children:
            child.kill()
    return 0


def _profile_directory(framework: str, options: dict[str, Any]) -> str:
    if framework == "vllm":
        import json

        config: dict[str, Any] = json.loads(options.get("profiler_config") or "{}")
        return str(config.get("torch_profiler_dir") or os.environ.get("VLLM_TORCH_PROFILER_DIR") or "")
    variable = {"sglang": "SGLANG_TORCH_PROFILER_DIR", "tokenspeed": "TOKENSPEED_PROFILER_DIR"}.get(framework, "")
    return os.environ.get(variable, "")


def main(program: str, argv: list[str]) -> int:
    """Run one of the programs by its name."""
    if program == "sglang":
        return _sglang(argv)
    if program in ("vllm", "tokenspeed", "ts"):
        framework = "vllm" if program == "vllm" else "tokenspeed"
        return _family(framework, argv)
    if program == "trtllm-serve":
        words = argv[1:] if argv[:1] == ["serve"] else argv
        if words[:1] == ["--version"]:
            print(logs.VERSIONS["tensorrt_llm"])
            return 0
        return run_server("tensorrt_llm", words)
    if program == "aiperf":
        return _bench("aiperf", argv[1:] if argv[:1] == ["profile"] else argv)
    raise SystemExit(f"fake engine: no program {program}")


def _bench(tool: str, argv: list[str]) -> int:
    from tests.engines.fakes import bench

    return bench.main(tool, argv)


def _sglang(argv: list[str]) -> int:
    if argv[:1] == ["serve"]:
        return run_server("sglang", argv[1:])
    if argv[:1] in (["version"], ["--version"]):
        print(f"sglang version: {logs.VERSIONS['sglang']}")
        return 0
    print("usage: sglang {serve,generate,version} ...")
    return 0 if argv[:1] in (["-h"], ["--help"]) else 2


def _family(framework: str, argv: list[str]) -> int:
    if argv[:1] == ["serve"]:
        return run_server(framework, argv[1:])
    if argv[:2] == ["bench", "serve"]:
        return _bench(framework, argv[2:])
    if argv[:1] in (["version"], ["--version"], ["-v"]):
        version = logs.VERSIONS[framework]
        print(f"TokenSpeed v{version}" if framework == "tokenspeed" else version)
        return 0
    if framework == "tokenspeed" and argv[:1] == ["env"]:
        print(f"Python: {sys.version.split()[0]}\nCUDA available: False\ntokenspeed: {logs.VERSIONS['tokenspeed']}")
        return 0
    print(f"usage: {framework} {{serve,bench,version}} ...")
    return 0 if argv[:1] in (["-h"], ["--help"]) else 2
