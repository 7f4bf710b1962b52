"""guard.yaml: schema, examples that are checked on load, merging (a project may only tighten), and compiling for the hook."""

from __future__ import annotations

import os
import sys
from typing import Any

from infer_forge.base.errors import HumanNeeded, InputUnusable
from infer_forge.base.jsonio import write_atomic
from infer_forge.base.paths import paths
from infer_forge.base.resources import data_path
from infer_forge.guard import compiled
from infer_forge.guard.model import ALLOW, ASK, DENY, RANK

DATA = "references/guard_rules.yaml"
_LISTS = (
    "shared_paths",
    "user_caches",
    "system_paths",
    "secret_files",
    "self_patterns",
    "governed_paths",
    "protected_branches",
    "protected_paths",
)
_TOP = {"version", "rules", "custom", "production", "push", "require_claims", *_LISTS}
_PROFILE = {"name", "hosts", "urls", "contexts", "methods", "verbs"}
_CUSTOM = {"id", "prefix", "decision", "why", "safer", "match", "not_match"}


def current(cwd: str | None = None) -> dict[str, Any]:
    """The policy for a folder: the compiled one when it is fresh, otherwise compiled now and kept.

    Raises:
        InputUnusable: a guard.yaml is wrong.
        HumanNeeded: a change of guard.yaml loosens what is compiled, and no person is at a terminal.
    """
    folder = cwd or os.getcwd()
    key = _stamp(folder)
    kept = _cache.get(folder)
    if kept is not None and kept[0] == key:
        return kept[1]
    try:
        found = compiled.load(folder)
    except compiled.PolicyFault:
        found = compile_policy(folder)
        key = _stamp(folder)
    if len(_cache) > 64:
        _cache.clear()
    _cache[folder] = (key, found)
    return found


_cache: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}


def _stamp(folder: str) -> tuple[Any, ...]:
    """What tells a server that the policy of a folder may have changed: its files' names, sizes, times and inodes."""
    project = compiled.project_file(folder)
    out: list[Any] = []
    for path in (compiled.place(project), str(data_path(DATA)), compiled.user_file(), project):
        try:
            status = os.stat(path) if path else None
        except OSError:
            status = None
        out.append((path, status and (status.st_mtime_ns, status.st_size, status.st_ino)))
    return tuple(out)


def compile_policy(cwd: str | None = None, *, person: bool | None = None, keep: bool = True) -> dict[str, Any]:
    """Read the rule data, the user's and the project's guard.yaml, check them, merge them and keep the result.

    Args:
        cwd: folder whose project counts.
        person: a person stands behind it, so that it may loosen; by default when a terminal is attached.
        keep: write the compiled form; a read-only state folder is not fatal.

    Raises:
        InputUnusable: a file is wrong; the message names file, key and cause.
        HumanNeeded: it would loosen the compiled policy without a person.
    """
    folder = cwd or os.getcwd()
    data = str(data_path(DATA))
    user, project = compiled.user_file(), compiled.project_file(folder)
    policy = _base()
    shipped = {name: list(policy[name]) for name in _LISTS}
    for path, may_loosen in ((user, True), (project, False)):
        if path and os.path.isfile(path):
            _merge(policy, _read(path), path, may_loosen=may_loosen)
    policy["self_paths"] = [*_self_paths(), *policy.pop("_protected", [])]
    sources = {p: compiled.digest(p) for p in (data, user, project) if p}
    body = {"v": compiled.VERSION, "policy": policy, "sources": sources, "own": _own_part(policy, shipped)}
    _check_examples(policy)
    if keep:
        _keep(compiled.place(project), body, _a_person() if person is None else person)
    return policy


def _a_person() -> bool:
    from infer_forge.base.person import client_of

    return client_of() is None and sys.stdin.isatty()


def _keep(target: str, body: dict[str, Any], person: bool) -> None:
    previous = _previous(target)
    if previous is not None and not person:
        looser = loosened(previous, body["own"])
        if looser:
            raise HumanNeeded(
                f"the changed guard policy is looser than the compiled one ({looser})",
                next_step="a person runs at a terminal: infer-forge guard status --compile",
            )
    try:
        write_atomic(target, compiled.pack(body))
    except OSError:
        return


def _previous(target: str) -> dict[str, Any] | None:
    try:
        with open(target, "rb") as file:
            body = compiled.unpack(file.read())
            return body["own"] if body["v"] == compiled.VERSION else None
    except (OSError, ValueError, KeyError, TypeError, compiled.PolicyFault):
        return None


def _own_part(policy: dict[str, Any], shipped: dict[str, list[str]]) -> dict[str, Any]:
    """What the user's and the project's files add to the shipped rules."""
    lists = {name: [v for v in policy[name] if v not in shipped[name]] for name in _LISTS}
    return {**lists, **{k: policy[k] for k in ("push_allowed", "decisions", "custom", "production", "require_claims")}}


def loosened(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What the team's files take back of what they said before, in a few words; empty when nothing.

    What infer-forge itself ships does not count: a newer version may know better.
    """
    for name in _LISTS:
        gone = [x for x in old.get(name, []) if x not in new.get(name, [])]
        if gone:
            return f"{name} loses {gone[0]}"
    added = [x for x in new.get("push_allowed", []) if x not in old.get("push_allowed", [])]
    if added:
        return f"pushes to {added[0]} become allowed"
    for rule, decision in old.get("decisions", {}).items():
        if RANK[new.get("decisions", {}).get(rule, ALLOW)] < RANK[decision]:
            return f"rule {rule} is no longer {decision}"
    for kind in ("custom", "production"):
        kept = new.get(kind, [])
        for entry in old.get(kind, []):
            if entry not in kept:
                return f"{kind} entry {entry.get('id') or entry.get('name')} is gone or changed"
    if old.get("require_claims") and not new.get("require_claims"):
        return "require_claims is off"
    return ""


def load_shipped() -> dict[str, Any]:
    """The rule data that infer-forge ships."""
    from infer_forge.base.resources import load_yaml

    return dict(load_yaml(DATA))


def _base() -> dict[str, Any]:
    from infer_forge.guard import unwrap
    from infer_forge.guard.rules import TABLE

    data = load_shipped()
    policy = {k: v for k, v in data.items() if k not in ("version", "constraints")}
    policy["secret_files_not"] = data["secret_files_not"]
    known = {
        *TABLE,
        *unwrap.HANDLERS,
        *data["wrappers"],
        *data["launchers"],
        *unwrap.SHELLS,
        "pip",
        "infer-forge",
        "torchrun",
    }
    policy["known"] = dict.fromkeys(sorted(known), 1)
    policy["launchers"] = dict.fromkeys(data["launchers"], 1)
    policy["risk_words"] = list(data["risk_words"])
    for name in ("governed_paths", "protected_branches", "protected_paths", "push_allowed", "custom", "production"):
        policy[name] = []
    policy["decisions"] = {}
    policy["reading"] = list(_READING)
    policy["require_claims"] = False
    return policy


def _self_paths() -> list[str]:
    """Places of this machine that hold what the guard and the records stand on."""
    place = paths()
    home = os.path.expanduser("~")
    here = os.path.dirname(os.path.realpath(__file__))
    found = [
        str(place.ownership),
        f"{place.ownership}.lock",
        str(place.state / "guard"),
        str(place.audit),
        str(place.stores),
        compiled.user_file(),
        os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"), "settings.json"),
        os.path.join(os.environ.get("CODEX_HOME") or os.path.join(home, ".codex"), "hooks.json"),
        os.path.join(os.environ.get("CODEX_HOME") or os.path.join(home, ".codex"), "config.toml"),
        here,
        *(os.path.join(os.path.dirname(here), "base", f"{name}.py") for name in ("ownership", "paths", "redact")),
        str(data_path(DATA)),
    ]
    return [os.path.realpath(p) for p in found]


def _read(path: str) -> dict[str, Any]:
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            data: Any = yaml.safe_load(file) or {}
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as exc:  # a date that does not exist is a ValueError
        raise InputUnusable(
            f"cannot be read as YAML ({' '.join(str(exc).split())[:120]})",
            where=path,
            next_step="mend the file; until then the hook denies what acts",
        ) from None
    if not isinstance(data, dict):
        raise InputUnusable("must be a mapping", where=path, next_step="see docs/guard.md")
    unknown = set(map(str, data)) - _TOP  # pyright: ignore[reportUnknownArgumentType]
    if unknown:
        raise InputUnusable(
            f"unknown key {sorted(unknown)[0]!r}", where=path, next_step=f"use one of {', '.join(sorted(_TOP))}"
        )
    return data  # pyright: ignore[reportUnknownVariableType]


def _merge(policy: dict[str, Any], data: dict[str, Any], path: str, *, may_loosen: bool) -> None:
    for name in _LISTS:
        values = _texts(data, name, path)
        if name == "protected_paths":
            folder = os.path.dirname(path)
            found = [os.path.realpath(os.path.join(folder, v)) for v in values]
            policy["_protected"] = [*policy.get("_protected", []), *found]
        policy[name] = list(dict.fromkeys([*policy.get(name, []), *values]))
    push: Any = data.get("push") or {}
    allowed = list(push.get("allowed") or []) if isinstance(push, dict) else []  # pyright: ignore
    if allowed and not may_loosen:
        raise InputUnusable(
            "push.allowed loosens; a project may only tighten",
            where=path,
            next_step=f"put it into {compiled.user_file()}",
        )
    policy["push_allowed"] = [*policy["push_allowed"], *map(str, allowed)]  # pyright: ignore[reportUnknownArgumentType]
    policy["require_claims"] = bool(policy["require_claims"] or data.get("require_claims"))
    _merge_rules(policy, data.get("rules") or {}, path)
    customs: list[Any] = data.get("custom") or []
    for entry in customs:
        policy["custom"].append(_custom(entry, path))
    profiles: list[Any] = data.get("production") or []
    for entry in profiles:
        policy["production"].append(_profile(entry, path))


def _texts(data: dict[str, Any], name: str, path: str) -> list[str]:
    """A list of texts, each a regular expression where the key holds patterns."""
    import re

    values: Any = data.get(name) or []
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):  # pyright: ignore
        raise InputUnusable(f"{name} must be a list of texts", where=path)
    texts = [str(v) for v in values]  # pyright: ignore
    for text in texts if name not in ("protected_branches", "protected_paths") else []:
        try:
            re.compile(text)
        except re.error as exc:
            raise InputUnusable(f"{name}: {text!r} is no regular expression ({exc})", where=path) from None
    return texts


def _merge_rules(policy: dict[str, Any], rules: Any, path: str) -> None:
    """`rules: {push.force: deny}`: a stricter decision for a rule that otherwise asks."""
    if not isinstance(rules, dict):
        raise InputUnusable("rules must be a mapping of rule id to ask or deny", where=path)
    for rule, decision in rules.items():  # pyright: ignore[reportUnknownVariableType]
        if rule not in policy["rules"]:
            raise InputUnusable(
                f"there is no rule {rule!r}", where=path, next_step="infer-forge guard explain lists them"
            )
        if decision not in (ASK, DENY):
            raise InputUnusable(
                f"{rule}: {decision!r} is not ask or deny; only a grant loosens",
                where=path,
                next_step=f"infer-forge guard grant --action {rule}",
            )
        old = policy["decisions"].get(rule, ALLOW)  # pyright: ignore[reportUnknownArgumentType]
        policy["decisions"][rule] = max(old, decision, key=lambda d: RANK[d])  # pyright: ignore


def _custom(entry: Any, path: str) -> dict[str, Any]:
    if not isinstance(entry, dict) or set(entry) - _CUSTOM:  # pyright: ignore[reportUnknownArgumentType]
        raise InputUnusable(f"a custom rule has the keys {', '.join(sorted(_CUSTOM))}", where=path)
    prefix: Any = entry.get("prefix")  # pyright: ignore
    shape = isinstance(prefix, list) and bool(prefix) and all(_position(p) for p in prefix)  # pyright: ignore
    if not isinstance(entry.get("id"), str) or entry.get("decision") not in (ASK, DENY) or not shape:  # pyright: ignore
        raise InputUnusable(
            "a custom rule needs id, decision (ask or deny) and prefix (a list of words, or of lists of words)",
            where=path,
        )
    return {
        "id": entry["id"],
        "prefix": prefix,
        "decision": entry["decision"],
        "why": str(entry.get("why") or "a rule of the team"),  # pyright: ignore
        "safer": str(entry.get("safer") or ""),  # pyright: ignore
        "match": [str(m) for m in entry.get("match") or []],  # pyright: ignore
        "not_match": [str(m) for m in entry.get("not_match") or []],  # pyright: ignore
        "file": path,
    }


def _position(value: Any) -> bool:
    """One place of a prefix: a word, or a list of words."""
    if isinstance(value, list):
        words: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return all(isinstance(w, str) for w in words)
    return isinstance(value, str)


def _profile(entry: Any, path: str) -> dict[str, Any]:
    if not isinstance(entry, dict) or set(entry) - _PROFILE or not entry.get("name"):  # pyright: ignore
        raise InputUnusable(f"a production profile has a name and the keys {', '.join(sorted(_PROFILE))}", where=path)
    made: dict[str, Any] = {"name": str(entry["name"])}  # pyright: ignore
    for key in ("hosts", "urls", "contexts"):
        made[key] = [str(v) for v in entry.get(key) or []]  # pyright: ignore
    made["methods"] = [str(v).upper() for v in entry.get("methods") or ["GET", "HEAD", "OPTIONS"]]  # pyright: ignore
    made["verbs"] = [str(v) for v in entry.get("verbs") or _READING]  # pyright: ignore
    return made


_READING_PROGRAMS = (
    "ls cat head tail less grep rg wc df du free uptime date hostname whoami id pwd echo printf true "
    "nvidia-smi amd-smi ps top lsof ss netstat journalctl dmesg stat file which uname nproc lscpu sort "
    "uniq cut tr squeue sinfo sacct find env tree md5sum sha256sum jq awk sed lspci lsmod ifconfig rocm- "
    "smi gpustat nvtop kill "
)
_READING = (
    *_READING_PROGRAMS.split(),
    "kubectl get",
    "kubectl describe",
    "kubectl logs",
    "kubectl top",
    "docker ps",
    "docker logs",
    "docker stats",
    "helm list",
    "helm status",
    "helm get",
    "systemctl status",
    "docker images",
    "docker inspect",
    "docker info",
    "docker version",
    "docker top",
    "git status",
    "git log",
    "git diff",
    "git show",
    "git branch",
    "ip addr",
    "python --version",
)


def _check_examples(policy: dict[str, Any]) -> None:
    """`match` and `not_match` of custom rules are their unit tests, checked whenever the policy is compiled."""
    if not any(rule["match"] or rule["not_match"] for rule in policy["custom"]):
        return
    from infer_forge.guard.context import Context
    from infer_forge.guard.decide import check_with

    ctx = Context()
    ctx.cwd = "/"
    for rule in policy["custom"]:
        for wanted, lines in ((True, rule["match"]), (False, rule["not_match"])):
            for line in lines:
                hit = any(h.rule == rule["id"] for h in check_with(line, ctx, policy).hits)
                if hit is not wanted:
                    raise InputUnusable(
                        f"rule {rule['id']}: the example {line!r} {'is not matched' if wanted else 'is matched'}",
                        where=rule["file"],
                        next_step="mend the rule or the example",
                    )
