"""GPU tools: the read-only grammar is allowed, every setting is denied (it outlives the run), the clock lock is asked about."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import ALLOW, ASK, DENY, Cmd, Word
from infer_forge.guard.rules import option

_VISIBLE = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
)


def nvidia_smi(cmd: Cmd, bench: Any) -> None:
    """Walk the words with the read-only grammar of the policy; the first word outside of it decides."""
    grammar: dict[str, Any] = bench.pol["nvidia_smi"]
    flags, values = set(grammar["flags"]), set(grammar["values"])
    verbs: dict[str, list[str]] = grammar["verbs"]
    argv = cmd.argv
    i = 1
    if len(argv) > 1 and not argv[1].text.startswith("-"):
        verb = argv[1].text
        if verb not in verbs:
            _deny(cmd, bench, verb, "is not a read-only subcommand")
            return
        flags, values = (
            {f for f in verbs[verb] if not f.endswith("=")},
            {f[:-1] for f in verbs[verb] if f.endswith("=")},
        )
        i = 2
    clock: Word | None = None
    while i < len(argv):
        text = argv[i].text
        name, eq, _ = text.partition("=")
        if argv[i].dyn and not text:
            bench.hit(ASK, "gpu.unknown", "an option of nvidia-smi is unknown before it runs", cmd)
        elif name in ("-lgc", "--lock-gpu-clocks") and not argv[1].text.startswith("m"):
            clock = argv[i].cut(len(name) + 1) if eq else argv[i + 1] if i + 1 < len(argv) else Word("")
            i += 0 if eq else 1
        elif name in ("-f", "--filename"):
            target = argv[i].cut(len(name) + 1) if eq else argv[i + 1] if i + 1 < len(argv) else Word("")
            _output(target, cmd, bench)
            i += 0 if eq else 1
        elif name in values:
            i += 0 if eq else 1
        elif (
            text in flags
            or (eq and name in flags)
            or (re.fullmatch(r"-l=?\d+|-lms=?\d+|-i=?[\d,]+|-c=?\d+", text) and name[:2] in {f[:2] for f in values})
        ):
            pass
        elif name.startswith("--query-") and not argv[1].text[:1].isalpha():
            i += 0 if eq else 1
        elif not text.startswith("-") and i > 1 and (argv[i - 1].text in flags or text.isdigit()):
            pass
        else:
            _deny(cmd, bench, text, "writes a setting of the node or is not known to be read-only")
            return
        i += 1
    if clock is not None:
        _clock(clock, cmd, bench)


def _deny(cmd: Cmd, bench: Any, text: str, why: str) -> None:
    bench.hit(DENY, "gpu.setting", f"{cmd.name} {text} {why}", cmd, targets=(text,))


def _output(target: Word, cmd: Cmd, bench: Any) -> None:
    from infer_forge.guard.rules.where import write

    verdict, rule, why = write(target, cmd, bench, truncating=True)
    if verdict != ALLOW:
        bench.hit(verdict, rule, why, cmd, targets=(target.text,))


def _clock(value: Word, cmd: Cmd, bench: Any) -> None:
    """`-lgc` inside an exclusive claim is the one setting that may be asked for, once the old clocks are written down."""
    claimed = bench.ctx.claimed_gpus(cmd.place.node)
    chosen = option(cmd, "-i", "--id")
    several = sum(w.text == "--id" or w.text.startswith(("-i", "--id=")) for w in cmd.argv[1:]) > 1
    wanted = _indices(chosen.text) if chosen is not None and not chosen.dyn and not several else None
    if not claimed or not wanted or not wanted <= claimed:
        bench.hit(DENY, "gpu.setting", "the clock is locked on GPUs outside of this run's claim", cmd)
        return
    if not bench.here(cmd) or cmd.place.container is not None:
        why = "a clock that is locked on another host or from a container could not be given back from here"
        bench.hit(DENY, "gpu.setting", why, cmd, safer="lock it on the node itself")
        return
    match = re.fullmatch(r"(\d+)(?:,(\d+))?", value.text)
    if match is None or value.dyn:
        bench.hit(DENY, "gpu.setting", "the clocks are not written as MIN,MAX in MHz", cmd)
        return
    lean(wanted, cmd, bench)
    text = chosen.text if chosen else ""
    if not bench.ctx.handed:
        from infer_forge.base import clocks

        unseen = clocks.unseen(wanted)
        if unseen:
            why = f"what the clock of GPU {_list(set(unseen))} is now has not been written down"
            step = f"infer-forge guard clocks --record --gpus {text}, and then this command again"
            bench.hit(DENY, "gpu.clock_unrecorded", why, cmd, safer=step)
            return
    low, high = int(match.group(1)), int(match.group(2) or match.group(1))
    facts = {"gpus": sorted(wanted), "mhz": [low, high], "root": "sudo" in cmd.via, **bench.ctx.claim_of(wanted)}
    why = "the clock lock outlives the run, until the claim is released"
    bench.hit(ASK, "gpu.clock_lock", why, cmd, targets=(text,), facts=facts)


def lean(wanted: set[int], cmd: Cmd, bench: Any) -> None:
    """What leans on a claim needs one that holds: ended or overtaken it denies, not confirmed lately it asks."""
    state, why = bench.ctx.claim_state(wanted, cmd.place.node)
    if state == "fenced":
        bench.hit(DENY, "claim.fenced", why, cmd, targets=(_list(wanted),))
    elif state == "stale":
        bench.hit(ASK, "claim.stale", why, cmd, targets=(_list(wanted),))


def _indices(text: str) -> set[int] | None:
    out: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", piece.strip())
        if not match:
            return None
        out.update(range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1))
    return out


def amd_smi(cmd: Cmd, bench: Any) -> None:
    """amd-smi, rocm-smi and others: read-only verbs and `--show...` pass, everything else writes."""
    texts = cmd.words()[1:]
    if cmd.name.startswith("rocm"):
        readers = re.compile(
            r"^(?:--show\w*|-[aicCftgpPMsSuvbdlhVT]+|--(?:json|csv|log|loglevel|help|version|alldevices|device|id|gpu|rawids|tempgraph|showtempgraph))(?:=.*)?$"
        )
        bad = next((t for t in texts if t.startswith("-") and not readers.match(t)), None)
        if bad:
            _deny(cmd, bench, bad, "writes a setting of the node")
        return
    readers_verbs = bench.pol["smi_verbs"]
    verb = next((t for t in texts if not t.startswith("-")), "")
    if verb and verb not in readers_verbs:
        _deny(cmd, bench, verb, "is not a read-only subcommand")
        return
    for text in texts:
        if re.match(r"^--(?:set|reset|clean|clear|partition-set)\b", text):
            _deny(cmd, bench, text, "writes a setting of the node")
            return
    target = option(cmd, "--file")
    if target is not None:
        _output(target, cmd, bench)


def tools(cmd: Cmd, bench: Any) -> None:
    """DCGM, MPS, persistence daemon, fabric manager, firmware tools."""
    texts = cmd.words()[1:]
    verb = next((t for t in texts if not t.startswith("-")), "")
    if any(t in ("--help", "-h", "--version", "-v") for t in texts):
        return
    if cmd.name == "dcgmi":
        if verb in ("discovery", "dmon", "topo", "modules", "nvlink", "introspect", "test"):
            return
        if (
            verb in ("health", "stats", "config", "policy", "group", "fieldgroup", "profile")
            and any(t in ("-c", "--check", "-l", "--list", "--get", "-g", "-v", "-j", "--json", "-i") for t in texts)
            and not any(
                t
                in (
                    "--set",
                    "-s",
                    "--enforce",
                    "--pause",
                    "--resume",
                    "-d",
                    "-e",
                    "--create",
                    "--delete",
                    "--add",
                    "--remove",
                )
                for t in texts
            )
        ):
            return
        if verb == "diag":
            bench.hit(ASK, "gpu.load", "a diagnosis loads every GPU of the node", cmd)
            return
        _deny(cmd, bench, verb, "changes what the node's monitoring does")
        return
    if cmd.name == "nvidia-settings" and all(
        t in ("-q", "--query", "-t", "--terse", "-d", "--describe") or not t.startswith("-") for t in texts
    ):
        return
    if cmd.name == "nvidia-ctk" and verb in ("cdi", "info") and "generate" not in texts:
        return
    _deny(cmd, bench, " ".join(texts[:1]), "changes a service or setting that the whole node shares")


def visible(cmd: Cmd, bench: Any) -> None:
    """`CUDA_VISIBLE_DEVICES=5 ...`: GPUs outside of the claim belong to somebody else."""
    claimed = bench.ctx.claimed_gpus(cmd.place.node)
    if claimed is None or cmd.place.container is not None:
        return
    for name in _VISIBLE:
        word = cmd.env.get(name)
        if word is None or word.dyn:
            continue
        if word.text == "all":
            bench.hit(ASK, "gpu.claim", f"{name}=all reaches GPUs that this run has not claimed", cmd, targets=("all",))
            continue
        if _foreign_uuid(word.text, cmd, bench):
            continue
        wanted = (
            _indices(word.text) if word.text.strip() not in ("", "-1", "void", "none", "NoDevFiles") else set[int]()
        )
        if wanted and not wanted <= claimed:
            bench.hit(
                DENY,
                "gpu.claim",
                f"GPU {_list(wanted - claimed)} is not in this run's claim",
                cmd,
                targets=(word.text,),
            )
        elif wanted:
            lean(wanted, cmd, bench)


def _foreign_uuid(text: str, cmd: Cmd, bench: Any) -> bool:
    """GPUs that are named by UUID: those of the claim pass; what is not known to be one of them asks, or is denied."""
    names = [p.strip() for p in text.split(",") if p.strip().startswith(("GPU-", "MIG-"))]
    mine = bench.ctx.claimed_uuids(cmd.place.node)
    unknown = [n for n in names if not any(u.startswith(n) for u in mine)]
    if unknown:
        why = f"{unknown[0]} is not known to be in this run's claim"
        bench.hit(DENY if mine else ASK, "gpu.claim", why, cmd, targets=(text,))
    return bool(names)


def _list(gpus: set[int]) -> str:
    return ", ".join(str(g) for g in sorted(gpus))


def requested(value: Word, cmd: Cmd, bench: Any) -> None:
    """`docker run --gpus VALUE`: within the claim it passes."""
    claimed = bench.ctx.claimed_gpus(cmd.place.node)
    text = value.text.strip("'\"")
    match = re.search(r"device=([\d,]+)", text)
    if match:
        wanted = _indices(match.group(1)) or set()
        if claimed is not None and not wanted <= claimed:
            bench.hit(
                DENY, "gpu.claim", f"GPU {_list(wanted - claimed)} is not in this run's claim", cmd, targets=(text,)
            )
        elif wanted and claimed is not None:
            lean(wanted, cmd, bench)
    elif claimed is not None or bench.pol["require_claims"]:
        bench.hit(
            ASK,
            "gpu.claim",
            f"--gpus {text or '(unknown)'} may reach GPUs that this run has not claimed",
            cmd,
            targets=(text,),
        )


def engine(cmd: Cmd, bench: Any) -> None:
    """Serving engines: `--base-gpu-id` with the tensor-parallel size must stay inside the claim."""
    claimed = bench.ctx.claimed_gpus(cmd.place.node)
    base = option(cmd, "--base-gpu-id")
    if claimed is None or base is None or not base.text.isdigit():
        return
    size = option(cmd, "--tp", "--tp-size", "--tensor-parallel-size")
    count = int(size.text) if size is not None and size.text.isdigit() else 1
    wanted = set(range(int(base.text), int(base.text) + count))
    if not wanted <= claimed:
        bench.hit(DENY, "gpu.claim", f"GPU {_list(wanted - claimed)} is not in this run's claim", cmd)
    else:
        lean(wanted, cmd, bench)
