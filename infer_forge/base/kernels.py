"""The one kernel classifier: category, readable name and family of a device kernel; and the peaks of GPUs.

The rules are data (`references/kernel_classes.yaml`, with labelled examples in `references/kernel_examples.tsv`). Names are
judged once per distinct name: every function here is cached. Standard library and PyYAML only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

from infer_forge.base.resources import load_yaml

RULES = "references/kernel_classes.yaml"
PEAKS = "references/gpu_peaks.yaml"
_CACHE = 1 << 17
_SEEN, _SEEN_FULL = 256, 640
"""Characters that the rules look at: what a kernel is stands at the front, tuning parameters behind."""

_WRAPPERS = frozenset(
    (
        *(
            "cutlass::device_kernel",
            "cutlass::kernel",
            "cutlass::kernel2",
            "cutlass__5x_cudnn::kernel",
            "device_kernel",
        ),
        *("ck_tile::kentry", "ck_tile::kentry2", "kentry", "flash::enable_sm90_or_later", "flash::enable_sm90"),
        *("flash::enable_sm80_to_sm89", "enable_sm90_or_later", "enable_sm100", "cutlass::enable_sm90_or_later"),
    )
)
_NUMBER_TYPES = re.compile(
    r"cutlass::(?:bfloat16_t|half_t|tfloat32_t|float_e\w+|nv_float\w+|integer_subbyte<[^<>]*>)|(?:c10::)(?:bfloat16|half|float8_\w+)"
    r"|__(?:nv|hip)_(?:bfloat16|fp8_\w+)|ck_tile::(?:bf16_t|half_t|fp8_t)"
)
_DIGITS = frozenset("0123456789")
_PARENS = re.compile(r"[()]")
_INDUCTOR = re.compile(r"^triton_(?:poi|red|per|tem|for|unk|mm|bmm|split_scan)_")
_CUTE = re.compile(r"_object_at_.*$")
_LAMBDA = re.compile(r"\{lambda[^{}]*\}|\$_\d+|\.constprop\.\d+|\[clone [^\]]*\]")


class Subject(NamedTuple):
    """A name prepared for matching, lower case: `own` (the kernel's qualified name), `full` (with template arguments), `inductor`."""

    own: str
    full: str
    inductor: str


class Rule(NamedTuple):
    """One compiled rule of `kernel_classes.yaml`."""

    category: str
    field: int
    words: tuple[str, ...]
    pattern: re.Pattern[str] | None
    refuse: tuple[str, ...]
    why: str


class GpuPeaks(NamedTuple):
    """Vendor figures of one accelerator: dense peaks in TFLOP/s by number type (None where unknown), bandwidths in GB/s.

    `nvlink_gb_s` is the sum of both directions of all links of one GPU (Infinity Fabric for AMD); `sm_count` counts CUs on AMD.
    """

    name: str
    vendor: str
    compute_capability: str | None
    sm_count: int | None
    memory_gib: float | None
    hbm_gb_s: float | None
    nvlink_gb_s: float | None
    dense_tflops: dict[str, float | None]
    source: str

    def flops(self, dtype: str) -> float | None:
        """Peak dense FLOP/s (operations per second) of a number type such as `bf16`, or None when it is not known."""
        value = self.dense_tflops.get(dtype)
        return None if value is None else value * 1e12


# --- names ----------------------------------------------------------------------------------------------------------


def _cut_parameters(name: str) -> str:
    """Drop the parameter list at the end: `f<T>(int, T*)` -> `f<T>`. Scans parentheses from the right only."""
    end = name.rfind(")")
    if end < 0 or name.endswith(">"):
        return name
    depth = 0
    for found in reversed(list(_PARENS.finditer(name, 0, end + 1))):
        depth += 1 if found.group() == ")" else -1
        if depth == 0:
            start = found.start()
            return (
                name[:start]
                if start and (name[start - 1] == ">" or name[start - 1].isalnum() or name[start - 1] == "_")
                else name
            )
    return name


def _identifiers(mangled: str, start: int) -> tuple[list[str], int]:
    """Length-prefixed identifiers of an Itanium-mangled name from `start`, and where they end."""
    found: list[str] = []
    at = start
    while at < len(mangled) and mangled[at] in _DIGITS:
        digits = at
        while digits < len(mangled) and mangled[digits] in _DIGITS:
            digits += 1
        length = int(mangled[at:digits][:4])
        if not length or digits + length > len(mangled):
            break
        found.append(mangled[digits : digits + length])
        at = digits + length
    return found, at


_SKIPPED = re.compile(r"L[a-z]?n?\d*E?|S[tabsiod](?=[^_])|S[0-9A-Z]*_|T\d*_|DF\d+b?_?|D[a-z]|.", re.DOTALL)


def _inner_names(mangled: str, at: int) -> list[str]:
    """Qualified names that occur among the template arguments of a mangled name, at most 24."""
    found: list[str] = []
    while at < len(mangled) and len(found) < 24:
        if mangled[at] in _DIGITS:
            parts, after = _identifiers(mangled, at)
            if parts:
                found.append("::".join(parts))
                at = after
                continue
        skipped = _SKIPPED.match(mangled, at)
        at = skipped.end() if skipped else at + 1
    return found


def demangle(name: str) -> str:
    """The qualified name of an Itanium-mangled symbol with its inner names as template arguments; other names unchanged.

    `_ZN5aiter24add_rmsnorm_quant_kernelIDF16b..` -> `aiter::add_rmsnorm_quant_kernel<>`. Types are not reconstructed.
    """
    if not name.startswith("_Z"):
        return name
    at = 2
    while at < len(name) and name[at] in "NKLVr":
        at += 1
    head, end = _identifiers(name, at)
    if not head:
        return name
    head = [part for part in head if not part.startswith("_GLOBAL__N")]
    has_arguments = end < len(name) and name[end] == "I"
    inner = _inner_names(name, end + 1) if has_arguments else []
    return "::".join(head) + (f"<{', '.join(inner)}>" if has_arguments else "")


def _plain(name: str) -> str:
    """Demangled, without anonymous namespaces, lambdas, return type and parameters."""
    text = demangle(name.strip()).replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    text = _cut_parameters(text)
    if text.startswith("void "):
        text = text[5:]
    if text.startswith("std::enable_if<") and ">::type " in text:
        return text.partition(">::type ")[2]
    head = text.split("<", 1)[0]
    if " " in head and "->" not in text[: len(head) + 2] and not head.startswith(("Memcpy", "Memset")):
        text = text[head.rfind(" ") + 1 :]
    return text


def _first_argument(text: str) -> str | None:
    """First type argument of a template: `k<1, ns::X<..>>` -> `ns::X<..>` (numbers are passed over)."""
    start = text.find("<")
    rest = text[start + 1 :] if start >= 0 else ""
    for _ in range(4):
        rest = rest.lstrip(" (")
        if not rest:
            return None
        if rest[0].isalpha() or rest[0] == "_":
            return rest
        comma = rest.find(",")
        rest = rest[comma + 1 :] if comma >= 0 else ""
    return None


def _own(text: str) -> str:
    """The kernel's own qualified name, with known wrappers opened."""
    for _ in range(4):
        head = text.split("<", 1)[0]
        if head.lower() not in _WRAPPERS:
            break
        inner = _first_argument(text)
        if inner is None:
            break
        text = inner
    head = re.split(r"[<,(>]", text, maxsplit=1)[0].strip()
    return head[: -len("::Params")] if head.endswith("::Params") else head


@lru_cache(maxsize=_CACHE)
def subject(name: str) -> Subject:
    """What the rules look at for a kernel name."""
    text = _plain(name)
    own = _CUTE.sub("", _own(text)[:_SEEN]).lower() or name[:_SEEN].lower()
    full = _NUMBER_TYPES.sub("", text[:_SEEN_FULL].lower()) if "<" in text else own
    return Subject(own, full, own if _INDUCTOR.match(own) else "")


# --- categories -----------------------------------------------------------------------------------------------------


@cache
def rules() -> tuple[Rule, ...]:
    """The ordered rules, compiled once a process."""
    data: dict[str, Any] = load_yaml(RULES)
    fields = {"own": 0, "full": 1, "inductor": 2}
    compiled: list[Rule] = []
    for row in cast("list[dict[str, Any]]", data["rules"]):
        pattern = re.compile(row["re"]) if "re" in row else None
        words = tuple(str(row.get("any", "")).lower().split())
        refuse = tuple(str(row.get("not", "")).lower().split())
        compiled.append(Rule(row["class"], fields[row.get("in", "own")], words, pattern, refuse, row["why"]))
    return tuple(compiled)


@cache
def categories() -> dict[str, str]:
    """Every category with what it means."""
    return cast("dict[str, str]", load_yaml(RULES)["classes"])


def _matches(rule: Rule, text: str) -> bool:
    for word in rule.words:
        if word in text:
            break
    else:
        if rule.words or rule.pattern is None:
            return False
    if rule.pattern is not None and rule.pattern.search(text) is None:
        return False
    return not any(word in text for word in rule.refuse)


@cache
def _by_field() -> tuple[tuple[tuple[int, Rule], ...], ...]:
    numbered = tuple(enumerate(rules()))
    return tuple(tuple(pair for pair in numbered if pair[1].field == field) for field in range(3))


@lru_cache(maxsize=_CACHE)
def _first_by_own(own: str) -> int:
    """Number of the first rule that the own name satisfies; names with thousands of template variants share it."""
    return _first(0, own, len(rules()))


def _first(field: int, text: str, below: int) -> int:
    """Number of the first rule on `field` that `text` satisfies, or `below` when none stands before it."""
    for number, rule in _by_field()[field]:
        if number >= below:
            break
        if _matches(rule, text):
            return number
    return below


@lru_cache(maxsize=_CACHE)
def rule_for(name: str) -> Rule | None:
    """The rule that decides a name's category, or None when none matches: `rule_for(name).why` is the reason."""
    texts = subject(name)
    best = _first_by_own(texts.own)
    best = _first(1, texts.full, best)
    if texts.inductor:
        best = _first(2, texts.inductor, best)
    return rules()[best] if best < len(rules()) else None


@lru_cache(maxsize=_CACHE)
def classify(name: str) -> str:
    """Category of a device kernel, memcpy or memset by its name as the trace spells it; `other` when no rule matches."""
    found = rule_for(name)
    return found.category if found else "other"


# --- readable names -------------------------------------------------------------------------------------------------

_FUNCTORS = re.compile(
    r"(\w*(?:copy_kernel_cuda|_kernel_cuda|_kernel_impl|CUDAKernelImpl|Functor\w*|Ops?|_functor)|CUDAFunctor\w*|\w+_kernel)(?=[<(>,:&]|$)"
)
_TORCH_GENERIC = re.compile(r"elementwise|reduce_kernel|multi_tensor_apply|index_kernel|scatter_gather")
_NOT_FUNCTORS = frozenset(
    {"AUnaryFunctor", "BUnaryFunctor", "BinaryFunctor", "ReduceOp", "gpu_kernel_impl", "gpu_index_kernel"}
)


def _functor(text: str) -> str | None:
    """What a generic torch kernel computes: the innermost telling functor of its template arguments."""
    start = text.find("<")
    found = [part for part in _FUNCTORS.findall(text, start) if part not in _NOT_FUNCTORS] if start >= 0 else []
    return found[0] if found else None


_LONGEST = 120
"""Characters of a readable name; a longer one keeps its front and its end, where Inductor's running number stands."""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 27]}...{text[-24:]}"


@lru_cache(maxsize=_CACHE)
def _short(name: str) -> str:
    if name.startswith(("Memcpy", "Memset")):
        return name.split(" (", 1)[0]
    text = _plain(name)
    own = _CUTE.sub("", _own(text))
    short = own.removeprefix("at::native::").removeprefix("detail::") or name
    if _TORCH_GENERIC.search(short) and (functor := _functor(text)):
        return f"{short}[{functor}]"
    return short


def simplify(name: str) -> str:
    """Short readable name: no return type, template arguments, parameters; wrappers opened; mangled names demangled.

    torch's generic kernels keep what they compute: `vectorized_elementwise_kernel[FillFunctor]`.
    """
    return _shortened(_short(name))


_FAMILY_CUTS: tuple[tuple[Callable[[str], bool], Callable[[str], str]], ...] = (
    (lambda s: s.startswith("Cijk_"), lambda s: "Cijk_" + "_".join(s.split("_")[1:3])),
    (lambda s: s.startswith("nvjet"), lambda s: "_".join(s.split("_")[:2]) if "_sm" in s[:9] else "nvjet"),
    (
        lambda s: s.startswith("bmm_"),
        lambda s: "bmm_" + ("swiGlu" if "swiglu" in s.lower() else "dynB" if "dynB" in s else ""),
    ),
    (lambda s: s.startswith("fmhaSm"), lambda s: s.split("_")[0]),
)
_TILES = re.compile(
    r"_(?:\d+x\d+(?:x\d+)*|stages?_\w+|ldg\d+|align\d+|sliced\d+x\d+|tile\w*|[nt]{2}|v\d+|f2f|splitK\w*|e\d+)(?=_|$)"
)
_TRAILING = re.compile(r"_?\d+$")


@lru_cache(maxsize=_CACHE)
def family(name: str) -> str:
    """Family of a kernel: its simplified name without tile sizes and running numbers, so that variants of one kernel fall together."""
    short = _short(name)
    for test, cut in _FAMILY_CUTS:
        if test(short):
            return _shortened(cut(short).rstrip("_"))
    return _shortened(_TRAILING.sub("", short) if short.startswith("triton_") else _TILES.sub("", short))


# --- GPU peaks ------------------------------------------------------------------------------------------------------


def _key(text: str) -> str:
    """Words of a device name, so that L4 is not found in L40 nor A10 in A10G."""
    return f" {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "


@cache
def _peaks_table() -> tuple[tuple[GpuPeaks, tuple[str, ...]], ...]:
    rows: list[tuple[GpuPeaks, tuple[str, ...]]] = []
    for row in cast("list[dict[str, Any]]", load_yaml(PEAKS)["gpus"]):
        names = (row["name"], *str(row.get("aliases", "")).split(","))
        peaks = GpuPeaks(
            row["name"],
            row["vendor"],
            row.get("compute_capability"),
            row.get("sm_count"),
            row.get("memory_gib"),
            row.get("hbm_gb_s"),
            row.get("nvlink_gb_s"),
            cast("dict[str, float | None]", row["dense_tflops"]),
            row["source"],
        )
        rows.append((peaks, tuple(key for key in (_key(text) for text in names) if key.strip())))
    return tuple(rows)


@cache
def gpu_names() -> tuple[str, ...]:
    """Names of the accelerators in the table."""
    return tuple(peaks.name for peaks, _ in _peaks_table())


@lru_cache(maxsize=1024)
def gpu_peaks(name_or_cc: str) -> GpuPeaks | None:
    """Vendor peaks of a GPU, by the device name of a trace (`NVIDIA H100 80GB HBM3`) or, for NVIDIA only, by compute capability.

    Returns None for an unknown name, and for a compute capability that several parts share (`9.0` is H100 and H200 and
    also an MI210's own number: never pass an AMD one).
    """
    if re.fullmatch(r"[0-9]+\.[0-9]+", name_or_cc.strip()):
        found = [
            peaks
            for peaks, _ in _peaks_table()
            if peaks.vendor == "nvidia" and peaks.compute_capability == name_or_cc.strip()
        ]
        return found[0] if len(found) == 1 else None
    text = _key(name_or_cc)
    best: tuple[int, GpuPeaks] | None = None
    for peaks, keys in _peaks_table():
        for key in keys:
            if key in text and (best is None or len(key) > best[0]):
                best = (len(key), peaks)
    return best[1] if best else None
