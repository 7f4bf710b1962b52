"""Whether a commit can be had again: from its remote, asked now, or from a bundle that is kept (B16).

A remote-tracking branch is no proof: the remote may have dropped or rewritten what it pointed to. The remote's own list of
branches and tags is asked, and the commit must be reachable from one of them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio, redact
from infer_forge.base.errors import ForgeError, GateRefused, InputUnusable
from infer_forge.workspace import gitcall
from infer_forge.workspace.model import BUNDLE, LOCAL, MISSING, REMOTE, UNREACHABLE, Proof

KEEP = "refs/infer-forge/keep/"
# So many branches are fetched to look for a commit, the likeliest first; a big project has thousands.
_MOST_FETCHED = 20


def prove_commit(
    folder: Path, commit: str, *, remote: str = "origin", bundles: tuple[dict[str, Any], ...] = ()
) -> Proof:
    """Prove that a commit of a checkout can be had elsewhere. Changes no branch, tag or remote-tracking ref.

    Args:
        bundles: kept bundles (`make_bundle`'s answers) that may hold it.
    """
    if gitcall.ask(folder, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        return Proof(MISSING, f"{commit[:12]} is not in {folder}")
    held = _in_bundle(folder, commit, bundles)
    url = gitcall.ask(folder, "remote", "get-url", remote)
    if url is None:
        return held or Proof(LOCAL, f"there is no remote {remote}")
    try:
        found = on_remote(folder, commit, remote, url.strip())
    except ForgeError as exc:
        return held or Proof(UNREACHABLE, f"{remote} did not answer: {exc.what[:160]}")
    if found:
        return Proof(REMOTE, f"{found} of {redact.redact(url.strip())} reaches it")
    return held or Proof(LOCAL, f"no branch or tag of {redact.redact(url.strip())} reaches it")


def on_remote(folder: Path, commit: str, remote: str, url: str) -> str | None:
    """Which ref of the remote reaches a commit; None when none does.

    Raises:
        GitFailed: the remote does not answer.
    """
    local = gitcall.is_local(url)
    out = gitcall.call(folder, "ls-remote", "--heads", "--tags", remote, local=local, timeout_s=120)
    tips = {sha: ref for sha, _, ref in (line.partition("\t") for line in out.splitlines())}
    if commit in tips:
        return tips[commit]
    known = _known(folder, list(tips))
    if _reached(folder, commit, known):
        return "a branch or tag"
    unknown = [sha for sha in tips if sha not in set(known) and not tips[sha].endswith("^{}")]
    near = _near(folder, commit, remote)
    heads = (
        sorted(
            (sha for sha in unknown if tips[sha].startswith("refs/heads/")),
            key=lambda sha: tips[sha].removeprefix("refs/heads/") not in near,
        )
        or unknown
    )
    if not heads:
        return None
    words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", remote, *heads[:_MOST_FETCHED]]
    gitcall.call(folder, *words, local=local, timeout_s=gitcall.NETWORK_S)
    return "a branch" if _reached(folder, commit, _known(folder, heads[:_MOST_FETCHED])) else None


def _near(folder: Path, commit: str, remote: str) -> set[str]:
    """Branches that most likely hold the commit: the checkout's own, and those that held it when last fetched."""
    listed = gitcall.ask(
        folder, "for-each-ref", "--format=%(refname:lstrip=3)", "--contains", commit, f"refs/remotes/{remote}"
    )
    own = gitcall.ask(folder, "symbolic-ref", "--short", "--quiet", "HEAD")
    return {*(listed or "").split(), (own or "").strip()}


def _known(folder: Path, shas: list[str]) -> list[str]:
    """Those of these commits that are here."""
    out = gitcall.call(folder, "cat-file", "--batch-check", stdin="\n".join(shas) + "\n") if shas else ""
    return [line.split()[0] for line in out.splitlines() if line.split()[1:2] in (["commit"], ["tag"])]


def _reached(folder: Path, commit: str, tips: list[str]) -> bool:
    """Whether one of the tips reaches the commit."""
    if not tips:
        return False
    given = "\n".join([commit, *(f"^{sha}" for sha in tips)]) + "\n"
    return gitcall.call(folder, "rev-list", "--max-count=1", "--stdin", stdin=given).strip() == ""


def make_bundle(folder: Path, commit: str, out: Path, *, remote: str = "origin") -> dict[str, Any]:
    """Write a commit and all that the remote lacks of its history into one file, and prove that it can be read back.

    Returns:
        `{path, sha256, size_bytes, commit, prerequisites}`; prerequisites are commits that the remote has.

    Raises:
        GateRefused: the remote has it already, so that a bundle would be empty. GitFailed: git could not write it.
    """
    ref = f"{KEEP}{commit[:16]}"
    url = gitcall.ask(folder, "remote", "get-url", remote)
    tips: list[str] = []
    if url is not None:
        try:
            listed = gitcall.call(
                folder, "ls-remote", "--heads", remote, local=gitcall.is_local(url.strip()), timeout_s=120
            )
            tips = _known(folder, [line.partition("\t")[0] for line in listed.splitlines()])
        except gitcall.GitFailed:
            tips = []  # not reachable now: the bundle holds the whole history
    if _reached(folder, commit, tips):
        raise GateRefused(f"the remote has {commit[:12]}: it needs no bundle", where=str(folder))
    out.parent.mkdir(parents=True, exist_ok=True)
    gitcall.call(folder, "update-ref", ref, commit)
    given = "\n".join([ref, *(f"^{sha}" for sha in tips)]) + "\n"
    gitcall.call(
        folder, "bundle", "create", "--quiet", str(out.absolute()), "--stdin", stdin=given, timeout_s=gitcall.NETWORK_S
    )
    facts: dict[str, Any] = {
        "path": str(out.absolute()),
        "sha256": jsonio.sha256_file(out),
        "size_bytes": out.stat().st_size,
        "commit": commit,
    }
    facts["prerequisites"] = _prerequisites(out)
    _rehearse(folder, out, commit)
    return facts


def secure_commit(folder: Path, commit: str, file: Path, *, remote: str = "origin") -> Proof:
    """Prove a commit, by a bundle written to `file` when its remote does not show it.

    Where no bundle can be made (a history that is cut off, say) the answer says so and does not hold.
    """
    proof = prove_commit(folder, commit, remote=remote)
    if proof.state not in (LOCAL, UNREACHABLE):
        return proof
    try:
        bundle = make_bundle(folder, commit, file, remote=remote)
    except ForgeError as exc:
        return Proof(proof.state, f"{proof.why}; no bundle: {exc.what[:160]}")
    return prove_commit(folder, commit, remote=remote, bundles=(bundle,))


def _prerequisites(bundle: Path) -> list[str]:
    """Commits that a bundle stands on, from its header (gitformat-bundle)."""
    found: list[str] = []
    with open(bundle, "rb") as file:
        for line in file:
            if line == b"\n":
                return found
            if line.startswith(b"-"):
                found.append(line[1:].split()[0].decode())
    raise InputUnusable("its header does not end", where=str(bundle))


def _rehearse(folder: Path, bundle: Path, commit: str) -> None:
    """Read a bundle into an empty repository that borrows only its prerequisites' objects; its pack is checked whole.

    Raises:
        InputUnusable: it is damaged, or does not hold the commit.
    """
    objects = Path(gitcall.call(folder, "rev-parse", "--path-format=absolute", "--git-path", "objects").strip())
    with tempfile.TemporaryDirectory(prefix="infer-forge-bundle-") as place:
        empty = Path(place) / "r.git"
        empty.mkdir()
        gitcall.call(empty, "init", "--quiet", "--bare")
        (empty / "objects" / "info").mkdir(parents=True, exist_ok=True)
        (empty / "objects" / "info" / "alternates").write_text(f"{objects}\n")
        try:
            heads = gitcall.call(empty, "bundle", "unbundle", str(bundle.absolute()), timeout_s=gitcall.NETWORK_S)
        except gitcall.GitFailed as exc:
            raise InputUnusable(f"it cannot be read back: {exc.said}", where=str(bundle)) from None
    if commit not in heads.split():
        raise InputUnusable(f"it does not hold {commit[:12]}", where=str(bundle))


def _in_bundle(folder: Path, commit: str, bundles: tuple[dict[str, Any], ...]) -> Proof | None:
    for facts in bundles:
        if facts.get("commit") != commit:
            continue
        file = Path(facts["path"])
        if not file.is_file() or jsonio.sha256_file(file) != facts["sha256"]:
            continue
        try:
            _rehearse(folder, file, commit)
        except ForgeError:
            continue
        lost = [p for p in facts.get("prerequisites", []) if prove_commit(folder, p).state != REMOTE]
        if not lost:
            return Proof(BUNDLE, f"{file.name} holds it", facts)
    return None
