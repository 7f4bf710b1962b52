"""The inputs of a campaign: what the user gave, what could be inferred, and from where (A12, A16 to A22, A38 to A42).

Only three things are ever asked: the model, the GPU environment, precision or quantization; and only when nothing tells.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import ForgeError, UsageFault
from infer_forge.campaign import repo
from infer_forge.campaign.layout import slug

TARGET = "sglang"
COMPETITORS = {"vllm": "vllm", "tensorrt_llm": "trtllm-serve", "tokenspeed": "tokenspeed"}
"""Competitor -> the program that shows that it is available here."""

ASKED = ("model", "gpu", "precision_or_quantization")
"""The only inputs that a person is ever asked for (A12)."""


@dataclass
class Inputs:
    """Values by name, and where each came from (`given`, a file, `nvidia-smi`, ...)."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])

    def put(self, name: str, value: Any, origin: str) -> None:
        """Keep a value; what is there already stays, since stronger sources come first."""
        if value not in (None, "", [], {}) and self.values.get(name) is None:
            self.values[name], self.origins[name] = value, origin

    def missing(self) -> list[str]:
        """What must be asked: a part of `ASKED`."""
        v = self.values
        lacking = [] if v.get("model") else ["model"]
        lacking += [] if v.get("gpu_model") and v.get("gpu_count") else ["gpu"]
        return lacking + ([] if v.get("precision") or v.get("quantization") else ["precision_or_quantization"])

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        return {"values": self.values, "origins": self.origins, "notes": self.notes, "missing": self.missing()}


def frameworks_of(
    compare: Sequence[str] = (), only: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """The comparison set (A20, A38 to A41): selected, excluded by the user, unsupported here; and notes on aliases.

    Raises:
        UsageFault: the target is named as a competitor, or nothing is left to compare with.
    """
    notes: list[str] = []
    named = [_canonical(n, notes) for n in (*compare, *only)]
    left_out = [_canonical(n, notes) for n in exclude]
    both = sorted(set(named) & set(left_out))
    if both:
        raise UsageFault(f"{', '.join(both)} is both selected and excluded")
    unsupported: dict[str, str] = {}
    if named:
        selected = list(dict.fromkeys(named))
        excluded = {n: "the user named others only" for n in COMPETITORS if n not in selected}
    else:
        excluded = dict.fromkeys(left_out, "the user excluded it")
        rest = [n for n in COMPETITORS if n not in excluded]
        unsupported = {n: f"{COMPETITORS[n]} is not installed here" for n in rest if not shutil.which(COMPETITORS[n])}
        selected = [n for n in rest if n not in unsupported]
    excluded |= dict.fromkeys((n for n in left_out), "the user excluded it")
    if not selected:
        raise UsageFault(
            "no framework is left to compare with",
            next_step="name one with --compare, for one that runs in a container too",
        )
    return {"target": TARGET, "selected": selected, "excluded": excluded, "unsupported": unsupported}, notes


def _canonical(name: str, notes: list[str]) -> str:
    from infer_forge.engines.frameworks import canonical

    found = canonical(name)
    if found == TARGET:
        raise UsageFault("sglang is the target and no competitor", next_step="leave it out of the comparison")
    if found != name:
        notes.append(f"{name} is {found}")
    return found


def gather(given: Mapping[str, Any], *, config: Path | None, checkout: Path, environ: Mapping[str, str]) -> Inputs:
    """Inputs from what was given, the search configuration, the model's folder, the environment, this machine, in that order."""
    found = Inputs()
    for name, value in given.items():
        found.put(name, value, "given")
    if config is not None:
        _from_config(found, config)
    model = found.values.get("model")
    if model:
        _from_model(found, str(model), given.get("model_dir"))
    if environ.get("CUDA_VISIBLE_DEVICES"):
        found.put("gpu_ids", environ["CUDA_VISIBLE_DEVICES"].split(","), "CUDA_VISIBLE_DEVICES")
    _from_machine(found)
    _from_place(found)
    seen = repo.look(checkout)
    found.values["target_checkout"], found.origins["target_checkout"] = seen.to_json(), "git"
    found.put("multi_node", False, "default: not allowed unless stated")
    found.values.setdefault("multi_node", False)
    if model:
        family = slug(str(model)).split("_")[0]
        found.put("family", family, f"first word of the model id {model}")
    return found


def _from_config(found: Inputs, config: Path) -> None:
    from infer_forge.bench.search_config import load_config

    wanted = load_config(config)
    where = str(config)
    found.put("model", wanted.model, where)
    for name in ("precision", "quantization", "tokenizer", "trust_remote_code"):
        found.put(name, getattr(wanted, name, None), where)
    gpu = getattr(wanted, "gpu", None)
    found.put("gpu_model", getattr(gpu, "model", None), where)
    found.put("gpu_count", getattr(gpu, "count", None), where)
    found.put("search_config", str(config.absolute()), where)


def _from_model(found: Inputs, model: str, folder: Any) -> None:
    from infer_forge.engines.fingerprint import local_folder

    place = local_folder(str(folder or model))
    if place is None:
        return
    if (place / "model_index.json").is_file():
        found.put("diffusion", True, str(place / "model_index.json"))
    file = place / "config.json"
    data: Any = jsonio.read_json(file) if file.is_file() else {}
    config = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    where = str(file)
    quant: Any = config.get("quantization_config") or {}
    method: Any = cast("dict[str, Any]", quant).get("quant_method") if isinstance(quant, dict) else None
    found.put("quantization", method or ("none" if config else None), where)
    found.put("precision", config.get("torch_dtype") or config.get("dtype"), where)
    found.put("max_context", config.get("max_position_embeddings"), where)
    architectures: Any = config.get("architectures")
    if isinstance(architectures, list) and architectures:
        found.put("architecture", str(cast("list[Any]", architectures)[0]), where)
    if config.get("model_type"):
        found.put("family", str(config["model_type"]), where)
    if any((place / n).is_file() for n in ("tokenizer.json", "tokenizer_config.json")):
        found.put("tokenizer", str(place), where)
    found.put("model_dir", str(place), "the model's local folder")
    found.put("trust_remote_code", bool(config.get("auto_map")), where)


def _from_machine(found: Inputs) -> None:
    from infer_forge.base.machine import snapshot

    try:
        state = snapshot()
    except ForgeError as fault:
        found.notes.append(f"the machine could not be looked at: {fault.what}")
        return
    told = cast("dict[str, Any]", state.to_json())
    gpus: list[dict[str, Any]] = list(told.get("gpus") or [])
    source = str(told.get("source") or "this machine")
    names = {str(g.get("name")) for g in gpus if g.get("name")}
    if len(names) == 1:
        found.put("gpu_model", names.pop(), source)
        found.put("gpu_count", len(found.values.get("gpu_ids") or gpus), source)
    found.put("driver", told.get("driver"), source)


def _from_place(found: Inputs) -> None:
    """CUDA and NCCL of the place in which engines run (A18); what it does not tell stays unknown, with a note."""
    from infer_forge.engines.env import environment
    from infer_forge.engines.runner import place

    found.put("place", "local", "default: this machine")
    spec = str(found.values["place"])
    lacking = [n for n in ("cuda", "nccl") if found.values.get(n) is None]
    if not lacking:
        return
    try:
        told = environment(place(spec)).to_json()
    except ForgeError as fault:
        found.notes.append(f"{' and '.join(lacking)} are unknown: {fault.what}")
        return
    for name in lacking:
        found.put(name, told.get(name), f"place {spec}")
    unknown = [n for n in lacking if found.values.get(n) is None]
    if unknown:
        found.notes.append(f"{' and '.join(unknown)} unknown: {spec} does not tell")


def resolve(
    given: Mapping[str, Any],
    *,
    config: Path | None,
    checkout: Path,
    compare: Sequence[str] = (),
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Inputs:
    """All inputs; what cannot be inferred is in `missing()`.

    Raises:
        UsageFault: a framework is wrong. InputUnusable: the checkout is no git checkout, the configuration unreadable.
    """
    found = gather(given, config=config, checkout=checkout, environ=os.environ if environ is None else environ)
    chosen, notes = frameworks_of(compare, only, exclude)
    found.values["frameworks"], found.origins["frameworks"] = chosen, "given" if compare or only or exclude else "PATH"
    found.notes += notes
    return found
