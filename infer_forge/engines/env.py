"""The environment digest: what a measured engine stood on, told by the place it runs in (A56, B65).

Image, driver, CUDA, NCCL, GPUs, packages with versions and commits, the engine's own variables, the kernel. What the place
does not tell is null. The digest is the hash of what decides speed and numbers; host name, time and free memory are told
beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import MissingPart
from infer_forge.base.redact import redact_environment
from infer_forge.engines import frameworks
from infer_forge.engines.runner import Place

# Runs with whatever Python the place has (3.8 and later); imports no engine and no torch.
_PROBE = r"""
import json, os, platform, re, subprocess, sys
out = {"python": platform.python_version(), "executable": sys.executable, "kernel": platform.release()}
out["machine"] = platform.machine(); out["host"] = platform.node()
try:
    import importlib.metadata as md
except ImportError:
    md = None
wanted = json.loads(sys.argv[1]); prefixes = tuple(json.loads(sys.argv[2]))
packages = {}; commits = {}
families = ("nvidia-", "torch", "triton", "flash", "sgl", "vllm", "tensorrt", "tokenspeed", "deep-", "mooncake", "nixl")
if md:
    for dist in md.distributions():
        name = (dist.metadata["Name"] or "").lower().replace("_", "-")
        keep = name in wanted or name.startswith(families)
        if not keep:
            continue
        packages[name] = dist.version
        try:
            info = json.loads(dist.read_text("direct_url.json") or "{}")
        except Exception:
            info = {}
        vcs = info.get("vcs_info", {}).get("commit_id")
        url = info.get("url", "")
        if vcs:
            commits[name] = vcs
        elif info.get("dir_info", {}).get("editable") and url.startswith("file://"):
            try:
                done = subprocess.run(["git", "-C", url[7:], "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
                dirty = subprocess.run(["git", "-C", url[7:], "status", "--porcelain", "-uno"], capture_output=True, text=True, timeout=20)
                if done.returncode == 0:
                    commits[name] = done.stdout.strip() + ("+dirty" if dirty.stdout.strip() else "")
            except Exception:
                pass
out["packages"] = packages; out["commits"] = commits
out["env"] = {k: v for k, v in os.environ.items() if k.startswith(prefixes)}
def text(path):
    try:
        with open(path) as f: return f.read().strip()
    except Exception: return None
out["driver"] = (re.search(r"(\d+\.\d+(?:\.\d+)?)", text("/proc/driver/nvidia/version") or "") or [None, None])[1]
out["cpu"] = (re.search(r"model name\s*:\s*(.*)", text("/proc/cpuinfo") or "") or [None, None])[1]
for path in ("/usr/local/cuda/version.json",):
    raw = text(path)
    if raw:
        try: out["cuda_toolkit"] = json.loads(raw)["cuda"]["version"]
        except Exception: pass
try:
    if not json.loads(sys.argv[3]):
        raise OSError
    q = "name,driver_version,pci.bus_id,memory.total,compute_cap"
    done = subprocess.run(["nvidia-smi", "--query-gpu=" + q, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20)
    if done.returncode == 0:
        rows = [[c.strip() for c in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
        out["gpus"] = [{"name": r[0], "memory_mib": int(r[3]), "compute_capability": r[4]} for r in rows]
        out["driver"] = out["driver"] or (rows[0][1] if rows else None)
        top = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=20).stdout
        m = re.search(r"CUDA Version:\s*([\d.]+)", top)
        out["cuda_driver_api"] = m.group(1) if m else None
except Exception:
    pass
print(json.dumps(out))
"""


@dataclass(frozen=True)
class Environment:
    """What a place told of itself."""

    place: str
    framework: str | None
    taken_at: str
    digest: str
    facts: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "place": self.place,
            "framework": self.framework,
            "taken_at": self.taken_at,
            "digest": self.digest,
            **self.facts,
        }


def _image(place: Place) -> tuple[str | None, str | None]:
    """(image id, repository digest) of the container."""
    if not place.container:
        return None, None
    try:
        done = Place(place.host).run(["docker", "inspect", "--format", "{{.Image}}", place.container])
    except MissingPart:
        return None, None
    image = done.out.strip() if done.code == 0 else None
    if not image:
        return None, None
    form = "{{if .RepoDigests}}{{index .RepoDigests 0}}{{end}}"
    digest = Place(place.host).run(["docker", "inspect", "--format", form, image])
    return image, (digest.out.strip() or None) if digest.code == 0 else None


def environment(
    place: Place,
    framework: str | None = None,
    *,
    python: str = "python3",
    env: Mapping[str, str] | None = None,
    gpus: bool = True,
    timeout_s: float = 120.0,
) -> Environment:
    """The environment digest of a place, for one framework's packages (or all).

    Args:
        gpus: ask nvidia-smi too; without it GPUs are null, and the digest is another.

    Raises:
        MissingPart: the place cannot be reached or has no Python.
    """
    grammars = [frameworks.grammar(framework)] if framework else list(frameworks.GRAMMARS.values())
    wanted = sorted({p.lower().replace("_", "-") for g in grammars for p in g.packages})
    prefixes = sorted({p for g in grammars for p in g.environment} | {"CUDA_", "NCCL_", "TORCH", "PYTORCH_", "OMP_"})
    words = [python, "-c", _PROBE, json.dumps(wanted), json.dumps(prefixes), json.dumps(gpus)]
    done = place.run(words, timeout_s=timeout_s, env=env)
    try:
        facts = cast("dict[str, Any]", json.loads(done.out.strip().splitlines()[-1]))
    except (ValueError, IndexError):
        reason = (done.err.strip().splitlines() or ["no answer"])[-1][:200]
        raise MissingPart(f"the place does not tell its environment: {reason}", where=place.spec) from None
    facts["env"] = redact_environment(facts.get("env", {}))
    facts["image_id"], facts["image_digest"] = _image(place)
    packages: dict[str, str] = facts.get("packages", {})
    facts["nccl"] = next((v for k, v in sorted(packages.items()) if k.startswith("nvidia-nccl")), None)
    facts["cuda"] = facts.pop("cuda_toolkit", None) or facts.get("cuda_driver_api")
    facts["versions"] = {g.name: packages.get(g.packages[0].lower().replace("_", "-")) for g in grammars}
    decides = {
        k: facts.get(k)
        for k in ("python", "machine", "packages", "commits", "env", "driver", "cuda", "gpus", "cpu", "image_id")
    }
    taken = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Environment(place.spec, grammars[0].name if framework else None, taken, jsonio.sha256_of(decides), facts)
