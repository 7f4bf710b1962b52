"""The exact prompts of a grid, as files with hashes, so that every engine is asked the same.

Lengths are token counts by a given tokenizer (a `tokenizer.json`, with the `tokenizers` package), else four characters for
a token, and the manifest says which. Every prompt is unique from its first words on, so that no prefix cache answers for
the engine; `prefix_share` asks for a shared beginning on purpose. Each load generator reads a view of the same prompts.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from infer_forge.base import jsonio
from infer_forge.base.errors import GateRefused, InputUnusable, MissingPart

if TYPE_CHECKING:
    from infer_forge.base.contract_model import Scenario, WorkloadGrid

MANIFEST = "manifest.json"
CHARACTERS_PER_TOKEN = 4
"""Rule of thumb for English text; used, and said, when no tokenizer is at hand."""

_WORDS = [
    "river",
    "stone",
    "window",
    "garden",
    "letter",
    "market",
    "silver",
    "forest",
    "engine",
    "paper",
    "winter",
    "music",
    "summer",
    "bridge",
    "copper",
    "valley",
    "harbor",
    "candle",
    "mirror",
    "planet",
    "thunder",
    "orchard",
    "lantern",
    "meadow",
    "anchor",
    "feather",
    "marble",
    "pepper",
    "saddle",
    "velvet",
    "walnut",
    "zephyr",
    "ribbon",
    "canyon",
    "beacon",
    "cotton",
    "ember",
    "falcon",
    "glacier",
    "hollow",
    "island",
    "jasmine",
    "kettle",
    "lagoon",
    "magnet",
    "needle",
    "oyster",
    "parcel",
    "quarry",
    "rocket",
    "shelter",
    "temple",
    "umbrella",
    "violet",
    "whistle",
    "yonder",
    "acorn",
    "basket",
    "cradle",
    "dragon",
]


class Tokenizer(Protocol):
    """What is needed of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""
        ...

    def decode(self, ids: list[int]) -> str:
        """The text of token ids."""
        ...


@dataclass(frozen=True)
class Prompts:
    """Prompts of one scenario on disk: `prompts` of them for each of `slots` runs inside one launch, all different."""

    scenario: str
    file: str
    sha256: str
    prompts: int
    input_len: int
    output_len: int
    input_len_min: int
    input_len_max: int
    slots: int = 1
    views: dict[str, list[dict[str, str]]] = field(default_factory=dict[str, list[dict[str, str]]])

    def view(self, name: str, slot: int) -> str | None:
        """File of a view for the n-th run inside a launch; None when there are not so many."""
        return self.views[name][slot]["file"] if slot < self.slots else None


@dataclass(frozen=True)
class Workload:
    """A whole workload: one hash over all its prompts."""

    folder: str
    sha256: str
    seed: int
    lengths_by: str
    tokenizer_sha256: str | None
    scenarios: dict[str, Prompts]


def _load_tokenizer(path: str | Path) -> tuple[Tokenizer, str]:
    place = Path(path)
    place = place / "tokenizer.json" if place.is_dir() else place
    if not place.is_file():
        raise InputUnusable(
            "there is no tokenizer.json", where=str(place), next_step="give the model folder, or leave --tokenizer away"
        )
    try:
        import tokenizers  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingPart(
            "the package tokenizers is not installed",
            where=str(place),
            next_step="pip install tokenizers, or leave --tokenizer away",
        ) from None
    loaded: Any = tokenizers.Tokenizer.from_file(str(place))  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]

    class _Loaded:
        def encode(self, text: str) -> list[int]:
            return list(loaded.encode(text, add_special_tokens=False).ids)

        def decode(self, ids: list[int]) -> str:
            return str(loaded.decode(ids, skip_special_tokens=False))

    return _Loaded(), jsonio.sha256_file(place)


def _words(generator: random.Random, characters: int) -> str:
    count = characters // 5 + 8
    return " ".join(generator.choices(_WORDS, k=count))


def _by_characters(start: str, generator: random.Random, length: int) -> tuple[str, int]:
    size = length * CHARACTERS_PER_TOKEN
    text = f"{start} {_words(generator, size)}"[:size]
    return text.rstrip().ljust(size, "."), length


def _by_tokens(start: str, generator: random.Random, length: int, tokenizer: Tokenizer) -> tuple[str, int]:
    """A text of exactly `length` tokens, if the tokenizer allows it; else the nearest found in a few tries."""
    best = ("", -1)
    for _ in range(12):
        text = f"{start} {_words(generator, length * 8)}"
        ids = tokenizer.encode(text)[:length]
        for _ in range(4):
            text = tokenizer.decode(ids)
            seen = len(tokenizer.encode(text))
            if best[1] < 0 or abs(seen - length) < abs(best[1] - length):
                best = (text, seen)
            if seen == length:
                return best
            ids = (
                ids[: len(ids) - (seen - length)]
                if seen > length
                else [*ids, *tokenizer.encode(f" {generator.choice(_WORDS)}")][: length + 2]
            )
    return best


def _view_vllm(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"prompt": row["prompt"], "output_tokens": row["output_len"]}


def _view_sglang(row: Mapping[str, Any]) -> dict[str, Any]:
    answer = "x" * 8
    return {"conversations": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": answer}]}


def _view_aiperf(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": row["prompt"], "output_length": row["output_len"]}


VIEWS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "vllm": _view_vllm,
    "sglang": _view_sglang,
    "aiperf": _view_aiperf,
}
"""View name (of `engines.grammar.Client.view`) -> a prompt in that load generator's own form."""


def write_workload(
    grid: WorkloadGrid,
    folder: str | Path,
    *,
    seed: int = 1,
    repeats: int = 1,
    tokenizer: Tokenizer | None = None,
    tokenizer_path: str | Path | None = None,
) -> Workload:
    """Write the prompts of every scenario, their views, and the manifest.

    The same grid, seed and tokenizer give the same bytes. Every concurrency of a scenario, `repeats` times, has prompts of
    its own, so that no run inside a launch finds another's in the prefix cache.

    Raises:
        GateRefused: another workload stands there already (a locked one is never replaced).
        InputUnusable, MissingPart: the tokenizer cannot be used.
    """
    place = Path(folder)
    digest: str | None = None
    if tokenizer is None and tokenizer_path is not None:
        tokenizer, digest = _load_tokenizer(tokenizer_path)
    parts = {s.name: _rows(s, seed, repeats, tokenizer) for s in grid.scenarios}
    whole = jsonio.sha256_of({n: _text_sha(rows) for n, rows in parts.items()})
    if (place / MANIFEST).exists():
        before = read_workload(place)
        if before.sha256 != whole:
            raise GateRefused(
                "another workload stands there",
                where=str(place),
                next_step="write it into another folder: a new workload is a new task",
            )
        return before
    made: dict[str, Prompts] = {}
    for scenario in grid.scenarios:
        made[scenario.name] = _write_scenario(scenario, parts[scenario.name], place)
    workload = Workload(str(place), whole, seed, "tokenizer" if tokenizer else "characters", digest, made)
    data = {**asdict(workload), "characters_per_token": None if tokenizer else CHARACTERS_PER_TOKEN}
    jsonio.write_atomic(place / MANIFEST, jsonio.dumps(data, indent=True) + b"\n")
    return workload


def _text_sha(rows: list[dict[str, Any]]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(jsonio.canonical(row) + b"\n")
    return digest.hexdigest()


def _rows(scenario: Scenario, seed: int, repeats: int, tokenizer: Tokenizer | None) -> list[dict[str, Any]]:
    generator = random.Random(f"{seed}/{scenario.name}/{scenario.input_len}/{scenario.output_len}")
    shared = ""
    if scenario.prefix_share:
        shared = (
            _by_characters(
                "", random.Random(f"{seed}/shared"), max(1, int(scenario.input_len * scenario.prefix_share))
            )[0]
            + " "
        )
    rows: list[dict[str, Any]] = []
    for index in range(scenario.num_prompts * len(scenario.concurrencies) * repeats):
        mark = hashlib.sha256(f"{seed}/{scenario.name}/{index}".encode()).hexdigest()[:12]
        start = f"{shared}{mark}"
        if tokenizer:
            text, seen = _by_tokens(start, generator, scenario.input_len, tokenizer)
        else:
            text, seen = _by_characters(start, generator, scenario.input_len)
        place = {"id": f"{scenario.name}-{index}", "slot": index // scenario.num_prompts}
        rows.append({**place, "prompt": text, "input_len": seen, "output_len": scenario.output_len})
    return rows


def _write_scenario(scenario: Scenario, rows: list[dict[str, Any]], place: Path) -> Prompts:
    name = f"{scenario.name}.jsonl"
    jsonio.write_atomic(place / name, b"".join(jsonio.canonical(r) + b"\n" for r in rows))
    slots = len(rows) // scenario.num_prompts
    views: dict[str, list[dict[str, str]]] = {}
    for view, shape in VIEWS.items():
        for slot in range(slots):
            data = b"".join(jsonio.canonical(shape(r)) + b"\n" for r in rows if r["slot"] == slot)
            file = f"{scenario.name}.{view}{f'.{slot}' if slot else ''}.jsonl"
            jsonio.write_atomic(place / file, data)
            views.setdefault(view, []).append({"file": file, "sha256": hashlib.sha256(data).hexdigest()})
    lens = [int(r["input_len"]) for r in rows]
    return Prompts(
        scenario.name,
        name,
        _text_sha(rows),
        scenario.num_prompts,
        scenario.input_len,
        scenario.output_len,
        min(lens),
        max(lens),
        slots,
        views,
    )


def read_workload(folder: str | Path) -> Workload:
    """Read a manifest. Raises `InputUnusable` when it is none."""
    place = Path(folder)
    raw = jsonio.read_json(place / MANIFEST)
    try:
        data = cast("dict[str, Any]", raw)
        scenarios = {n: Prompts(**p) for n, p in data["scenarios"].items()}
        return Workload(
            str(place), data["sha256"], data["seed"], data["lengths_by"], data["tokenizer_sha256"], scenarios
        )
    except (KeyError, TypeError, AttributeError):
        raise InputUnusable(
            "is no workload manifest", where=str(place / MANIFEST), next_step="infer-forge bench workload"
        ) from None


def verify_workload(folder: str | Path, *, expected_sha256: str | None = None) -> Workload:
    """Read a workload and hash every file again.

    Raises:
        GateRefused: a prompt file or view was changed, or it is another workload than expected.
    """
    found = read_workload(folder)
    parts: dict[str, str] = {}
    for name, prompts in found.scenarios.items():
        path = Path(folder) / prompts.file
        files = [
            (path, prompts.sha256),
            *((Path(folder) / v["file"], v["sha256"]) for vs in prompts.views.values() for v in vs),
        ]
        for file, wanted in files:
            seen = jsonio.sha256_file(file) if file.exists() else "gone"
            if seen != wanted:
                raise GateRefused(
                    f"was changed after it was written ({seen[:12]}, not {wanted[:12]})",
                    where=str(file),
                    next_step="restore it; results stand on its hash",
                )
        parts[name] = prompts.sha256
    if jsonio.sha256_of(parts) != found.sha256 or (expected_sha256 is not None and found.sha256 != expected_sha256):
        raise GateRefused(
            f"is workload {found.sha256[:12]}, not {str(expected_sha256)[:12]}",
            where=str(folder),
            next_step="use the workload that the contract locked",
        )
    return found


def fill_grid(grid: WorkloadGrid, workload: Workload) -> WorkloadGrid:
    """The grid with the hashes of its workload, for the contract. Raises `GateRefused` when they do not belong together."""
    names = {s.name for s in grid.scenarios}
    if names != set(workload.scenarios):
        raise GateRefused(
            f"the workload has scenarios {', '.join(sorted(workload.scenarios))}, the grid {', '.join(sorted(names))}",
            where=workload.folder,
        )
    for scenario in grid.scenarios:
        prompts = workload.scenarios[scenario.name]
        wanted = (scenario.input_len, scenario.output_len, scenario.num_prompts)
        if (prompts.input_len, prompts.output_len, prompts.prompts) != wanted:
            have = f"{prompts.input_len}/{prompts.output_len}, {prompts.prompts} of them"
            raise GateRefused(f"scenario {scenario.name} asks {wanted}, its prompts are {have}", where=workload.folder)
    data = grid.model_dump()
    data |= {"workload_sha256": workload.sha256, "lengths_by": workload.lengths_by}
    for entry in data["scenarios"]:
        entry["prompts_sha256"] = workload.scenarios[entry["name"]].sha256
    return type(grid).model_validate(data)
