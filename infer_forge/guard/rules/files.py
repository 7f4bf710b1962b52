"""Files: deleting, moving, overwriting, changing modes. Ownership decides; `where` holds the decision."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.model import ALLOW, ASK, DENY, Cmd, Word
from infer_forge.guard.rules import flag, option, plain_targets
from infer_forge.guard.rules.where import delete, write


def _delete(word: Word, cmd: Cmd, bench: Any, *, recursive: bool) -> None:
    verdict, rule, why = delete(word, cmd, bench, recursive=recursive)
    if verdict != ALLOW:
        bench.hit(verdict, rule, why, cmd, targets=(word.text,))


def _write(word: Word, cmd: Cmd, bench: Any, *, truncating: bool) -> None:
    verdict, rule, why = write(word, cmd, bench, truncating=truncating)
    if verdict != ALLOW:
        bench.hit(verdict, rule, why, cmd, targets=(word.text,))


def redirects(cmd: Cmd, bench: Any) -> None:
    """`>`, `>>`, `&>`, `>|`, `<>` of any command."""
    for redirect in cmd.redirects:
        op = redirect.op
        if op in ("<", "<&", "<<<") or (op in (">&",) and re.fullmatch(r"\d+|-|", redirect.target.text)):
            continue
        if op == "<>":
            op = ">>"
        _write(redirect.target, cmd, bench, truncating=">>" not in op)


def remove(cmd: Cmd, bench: Any) -> None:
    """rm and its kin."""
    if cmd.name == "gio" and "trash" not in cmd.words() and "remove" not in cmd.words():
        return
    short, long = {"shred": ("ns", ("--iterations", "--size"))}.get(cmd.name, ("", ()))
    targets = plain_targets(cmd, short, long)
    if cmd.name == "gio":
        targets = targets[1:]
    if any(t in ("--help", "--version") for t in cmd.words()[1:]):
        return
    recursive = cmd.name in ("trash", "trash-put", "srm", "wipe", "rimraf") or flag(
        cmd, "rR", "--recursive", "--no-preserve-root"
    )
    for word in targets:
        _delete(word, cmd, bench, recursive=recursive)


def _protected(word: Word, cmd: Cmd, bench: Any) -> None:
    """A path that is made or edited: only places of the guard, the system and shared models are kept off."""
    verdict, rule, why = write(word, cmd, bench, truncating=False)
    if verdict != ALLOW and rule not in ("files.outside", "files.overwrite", "files.remote"):
        bench.hit(verdict, rule, why, cmd, targets=(word.text,))


def edit(cmd: Cmd, bench: Any) -> None:
    """Editors that are started on a file."""
    if cmd.name in ("vim", "nvim", "vi") and flag(cmd, "RM"):
        return
    short = "cSsuTiwrpP" if cmd.name in ("vim", "nvim", "vi", "ex") else ""
    for word in plain_targets(cmd, short, ("--cmd", "--eval", "--load", "-l", "-f")):
        if not word.text.startswith("+"):
            _protected(word, cmd, bench)


def truncate(cmd: Cmd, bench: Any) -> None:
    """truncate(1), and punching holes."""
    if cmd.name == "fallocate" and not flag(
        cmd, "pcdz", "--punch-hole", "--collapse-range", "--zero-range", "--dig-holes"
    ):
        for word in plain_targets(cmd, "lo", ("--length", "--offset")):
            _write(word, cmd, bench, truncating=False)
        return
    for word in plain_targets(cmd, "srol", ("--size", "--reference", "--length", "--offset")):
        _write(word, cmd, bench, truncating=True)


def move(cmd: Cmd, bench: Any) -> None:
    """mv takes the source away and may replace the destination."""
    targets = plain_targets(cmd, "tSZ", ("--target-directory", "--suffix"))
    folder = option(cmd, "-t", "--target-directory")
    if cmd.name in ("rename", "mmv"):
        for word in targets[1:]:
            _delete(word, cmd, bench, recursive=True)
        return
    sources, destination = (targets, folder) if folder is not None else (targets[:-1], targets[-1] if targets else None)
    for word in sources:
        _delete(word, cmd, bench, recursive=True)
    if destination is not None and sources and not destination.text.startswith("/dev/null"):
        _write(destination, cmd, bench, truncating=not flag(cmd, "n", "--no-clobber"))


def copy(cmd: Cmd, bench: Any) -> None:
    """cp, install, ln, scp: only the destination is at risk."""
    targets = plain_targets(
        cmd,
        "tSmogbZ" if cmd.name != "scp" else "cFiJloPSDX",
        ("--target-directory", "--suffix", "--mode", "--owner", "--group"),
    )
    folder = option(cmd, "-t", "--target-directory") if cmd.name != "scp" else None
    if cmd.name == "install" and flag(cmd, "d", "--directory"):
        return
    destination = (
        folder
        if folder is not None
        else targets[-1]
        if targets and (len(targets) > 1 or cmd.name == "sponge")
        else None
    )
    if destination is None or (cmd.name == "scp" and re.match(r"^[^/]*:", destination.text)):
        return
    import os

    text = destination.text
    if text and not destination.dyn and cmd.name in ("cp", "install", "ln", "scp"):
        for cwd in cmd.cwds:
            path = text if text.startswith("/") else os.path.join(cwd, text) if cwd else None
            if path and os.path.isdir(path) and folder is None:
                for source in targets[:-1]:
                    name = os.path.basename(source.text.rstrip("/")) or "copied"
                    _write(
                        Word(f"{text.rstrip('/')}/{name}", source.dyn),
                        cmd,
                        bench,
                        truncating=not flag(cmd, "n", "--no-clobber"),
                    )
                return
    _write(destination, cmd, bench, truncating=not flag(cmd, "n", "--no-clobber"))


def dd(cmd: Cmd, bench: Any) -> None:
    """dd of=."""
    for word in cmd.argv[1:]:
        if word.text.startswith("of="):
            _write(word.cut(3), cmd, bench, truncating=True)


def tee(cmd: Cmd, bench: Any) -> None:
    """tee FILE."""
    append = flag(cmd, "a", "--append")
    for word in plain_targets(cmd):
        _write(word, cmd, bench, truncating=not append)


_RSYNC_VALUES = (
    "--rsh",
    "--exclude",
    "--include",
    "--filter",
    "--files-from",
    "--exclude-from",
    "--include-from",
    "--rsync-path",
    "--bwlimit",
    "--timeout",
    "--port",
    "--log-file",
    "--temp-dir",
    "--backup-dir",
    "--compare-dest",
    "--link-dest",
    "--chmod",
    "--chown",
    "--max-size",
    "--min-size",
    "--password-file",
    "--out-format",
    "--partial-dir",
)
"""Options of rsync that take a value of their own (rsync(1))."""


def mirror(cmd: Cmd, bench: Any) -> None:
    """rsync --delete, rclone sync: the destination loses what the source lacks."""
    texts = cmd.words()[1:]
    if cmd.name == "rclone":
        verb = next((t for t in texts if not t.startswith("-")), "")
        if verb in ("sync", "delete", "purge", "rmdirs", "cleanup", "deletefile", "move", "moveto", "bisync"):
            bench.hit(DENY, "files.delete", f"rclone {verb} deletes at the destination", cmd)
        return
    if cmd.name in ("lftp", "unison"):
        if any("mirror" in t and "--delete" in t for t in texts):
            bench.hit(DENY, "files.delete", "this deletes at the destination", cmd)
        return
    if any(t in ("-n", "--dry-run", "--list-only") or re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*", t) for t in texts):
        return
    targets = plain_targets(cmd, "efTBM@", _RSYNC_VALUES)
    if not targets:
        return
    deleting = any(t.startswith("--del") for t in texts)
    destination = targets[-1]
    remote = re.match(r"^(?:[^/@]+@)?([^/:]+):(?!\\)(.*)$", destination.text) or re.match(
        r"^rsync://([^/]+)(/.*)$", destination.text
    )
    if any(t == "--remove-source-files" for t in texts):
        for word in targets[:-1]:
            _delete(word, cmd, bench, recursive=True)
    if remote:
        host, path = remote.group(1), remote.group(2)
        owned = bench.ctx.claims_node(host) and path.startswith("/") and bench.ctx.owns_path(path.rstrip("/"))
        if deleting and not owned:
            bench.hit(
                DENY,
                "files.delete",
                f"--delete removes what {host}:{path} has and the source lacks",
                cmd,
                targets=(destination.text,),
            )
    elif len(targets) > 1:
        if deleting:
            _delete(
                Word(
                    destination.text.rstrip("/") or "/",
                    destination.dyn,
                    False,
                    destination.sources,
                    destination.names,
                    destination.fresh,
                ),
                cmd,
                bench,
                recursive=True,
            )
        else:
            _write(destination, cmd, bench, truncating=False)


def find(cmd: Cmd, bench: Any) -> None:
    """find -delete and its file-writing actions (`-exec` is opened like any wrapper)."""
    texts = cmd.words()
    roots: list[Word] = []
    for word in cmd.argv[1:]:
        if word.text.startswith(("-", "(", "!")) and word.text not in ("-H", "-L", "-P"):
            break
        if word.text not in ("-H", "-L", "-P"):
            roots.append(word)
    if "-delete" in texts:
        for root in roots or [Word(".")]:
            _delete(Word(root.text, root.dyn, True, root.sources, root.names, root.fresh), cmd, bench, recursive=True)
    for i, text in enumerate(texts[:-1]):
        if text in ("-fprint", "-fprint0", "-fprintf", "-fls"):
            _write(cmd.argv[i + 1], cmd, bench, truncating=True)


def mode(cmd: Cmd, bench: Any) -> None:
    """chmod, chown and the like."""
    targets = plain_targets(cmd, "mx" if cmd.name == "setfacl" else "", ("--reference", "--from"))
    if cmd.name in ("chmod", "chown", "chgrp", "chattr") and option(cmd, "--reference") is None:
        if cmd.name == "chmod" and any(re.fullmatch(r"-[rwxXst]+", t) for t in cmd.words()[1:]):
            pass
        else:
            targets = targets[1:]
    for word in targets:
        verdict, rule, why = delete(word, cmd, bench, recursive=flag(cmd, "R", "--recursive"))
        if verdict == DENY and rule == "files.delete" and not flag(cmd, "R", "--recursive"):
            verdict, rule, why = write(word, cmd, bench, truncating=True)
        if verdict != ALLOW:
            bench.hit(verdict, "files.mode" if rule == "files.delete" else rule, why, cmd, targets=(word.text,))


def in_place(cmd: Cmd, bench: Any) -> None:
    """sed -i, perl -i, patch, sqlite3: files changed where they are."""
    if cmd.name == "sed":
        if not any(re.match(r"^(?:-[a-zA-Z]*i|--in-place)", t) for t in cmd.words()[1:]):
            return
        targets = plain_targets(cmd, "efl", ("--expression", "--file", "--line-length"))
        if option(cmd, "-e", "--expression", "-f", "--file") is None:
            targets = targets[1:]
    elif cmd.name == "patch":
        plain = plain_targets(cmd, "iopdDFgVYzBr", ("--input", "--output", "--strip", "--directory", "--fuzz"))
        for word in [*plain[:1], *(w for w in (option(cmd, "-o", "--output"),) if w is not None)]:
            _protected(word, cmd, bench)
        return
    elif cmd.name == "sqlite3":
        from infer_forge.guard.rules.where import candidates, guarded

        for word in plain_targets(cmd, "", ("-cmd", "-init", "-separator"))[:1]:
            paths = candidates(word, cmd, bench, follow=True) or []
            if any(guarded(p, bench) for p in paths):
                bench.hit(DENY, "guard.self", f"{word.text} belongs to the guard or to a locked record", cmd)
        return
    else:
        return
    for word in targets:
        _write(word, cmd, bench, truncating=False)


def extract(cmd: Cmd, bench: Any) -> None:
    """Archives: where they are unpacked or written to."""
    texts = cmd.words()
    folder = option(cmd, "-C", "--directory", "-d") if cmd.name in ("tar", "bsdtar", "unzip") else None
    if cmd.name == "7z":
        folder = next((w.cut(2) for w in cmd.argv[1:] if w.text.startswith("-o") and len(w.text) > 2), None)
    first = texts[1] if len(texts) > 1 else ""
    extracting = (
        (cmd.name == "unzip" and not flag(cmd, "ltpvZ"))
        or ("x" in first.lstrip("-").split("=")[0][:4] and first[:2] not in ("-C", "-f", "--"))
        or any(t in ("-x", "--extract", "--get") or re.fullmatch(r"-[a-zBEJZ]*x[a-zBEJZ]*f?", t) for t in texts[1:])
    )
    if extracting:
        _unpacked(cmd, bench, folder)
    if cmd.name in ("tar", "bsdtar") and any(t == "--remove-files" for t in texts):
        bench.hit(ASK, "files.delete", "tar removes the files after adding them", cmd)
    if folder is not None and extracting:
        _write(
            Word(f"{folder.text.rstrip('/')}/unpacked", folder.dyn, False, folder.sources, folder.names, folder.fresh),
            cmd,
            bench,
            truncating=False,
        )
    if cmd.name in ("tar", "bsdtar") and not extracting and re.match(r"^-?[a-zA-Z]*c", first):
        archive = option(cmd, "--file") or next(
            (cmd.argv[i + 1] for i, t in enumerate(texts[:-1]) if i and re.fullmatch(r"-?[a-zA-Z]*f", t)), None
        )
        if archive is not None and archive.text != "-":
            _write(archive, cmd, bench, truncating=True)


def patched(cmd: Cmd, bench: Any) -> None:
    """git apply, git am, patch: the files that a readable patch changes; one that cannot be read is not judged here."""
    from infer_forge.guard import gitcmd
    from infer_forge.guard.output import read_file

    if cmd.name == "git":
        parsed = gitcmd.Git(cmd)
        if parsed.verb not in ("apply", "am") or "--check" in parsed.texts():
            return
        sources = [w for w in parsed.args if not w.text.startswith("-")]
        sources += list(cmd.stdin.files) if cmd.stdin else []
    else:
        named = option(cmd, "-i", "--input")
        sources = [*([named] if named is not None else plain_targets(cmd, "pdDFgVYzBro")[1:2])]
        sources += list(cmd.stdin.files) if cmd.stdin else []
    texts = [read_file(word, cmd.cwds, bench.shell.notes) for word in sources]
    if cmd.stdin is not None and cmd.stdin.text:
        texts.append(cmd.stdin.text)
    for text in texts:
        for match in re.finditer(r"^(?:\+\+\+|---|rename to|copy to) (?:[ab]/)?([^\t\n]+)", text or "", re.MULTILINE):
            if match.group(1) != "/dev/null":
                _protected(Word(match.group(1), quoted=True), cmd, bench)


def _unpacked(cmd: Cmd, bench: Any, folder: Word | None) -> None:
    """Members that are named, and a folder that holds the guard's own files: the archive may carry new ones."""
    from infer_forge.guard.rules.where import candidates, holds_own

    for path in candidates(folder or Word("."), cmd, bench, follow=True) or []:
        if holds_own(path, bench):
            bench.hit(DENY, "guard.self", f"{path} holds files of the guard, which an archive may replace", cmd)
    root = f"{folder.text.rstrip('/')}/" if folder is not None else ""
    for word in plain_targets(cmd, "fCd", ("--file", "--directory"))[1 if cmd.name == "unzip" else 0 :]:
        verdict, rule, why = write(Word(root + word.text, word.dyn), cmd, bench, truncating=False)
        if rule == "guard.self":
            bench.hit(verdict, rule, why, cmd, targets=(word.text,))


def output(cmd: Cmd, bench: Any) -> None:
    """Programs with an output option; touch and mkdir only where the guard's own files are concerned."""
    if cmd.name in ("touch", "mkdir", "mknod", "mkfifo"):
        for word in plain_targets(cmd, "mdrtZ", ("--mode", "--date", "--reference")):
            _protected(word, cmd, bench)
        return
    folder = option(cmd, "-P", "--directory-prefix") if cmd.name == "wget" else None
    if folder is not None:
        _write(folder, cmd, bench, truncating=False)
    names = {
        "curl": ("-o", "--output"),
        "wget": ("-O", "--output-document"),
        "aria2c": ("-o", "--out"),
        "tree": ("-o",),
        "sort": ("-o", "--output"),
    }.get(cmd.name, ())
    target = option(cmd, *names) if names else None
    if target is None and cmd.name in ("curl", "wget"):
        target = _clustered(cmd, "o" if cmd.name == "curl" else "O")
    if target is not None and target.text not in ("-", ""):
        _write(target, cmd, bench, truncating=True)


def _clustered(cmd: Cmd, letter: str) -> Word | None:
    """The value of an option at the end of a cluster: `curl -so FILE`."""
    for i, word in enumerate(cmd.argv[1:-1], 1):
        if re.fullmatch(rf"-[a-zA-Z]+{letter}", word.text):
            return cmd.argv[i + 1]
    return None


def clone(cmd: Cmd, bench: Any) -> None:
    """git clone and git worktree add: where they write to."""
    from infer_forge.guard import gitcmd

    parsed = gitcmd.Git(cmd)
    words = [w for w in parsed.args if not w.text.startswith("-")]
    if parsed.verb == "clone" and len(words) > 1 and words[-1].text.startswith(("/", "~")):
        _write(words[-1], cmd, bench, truncating=False)
    texts = parsed.texts()
    made: list[Word] = []
    if (parsed.verb, texts[:1]) in (("worktree", ["add"]), ("bundle", ["create"])):
        made = words[1:2]
    elif parsed.verb in ("archive", "format-patch", "checkout-index"):
        inner = Cmd([Word("git"), *parsed.args], {}, [], None, cmd.span, parsed.cwds)
        found = option(
            inner, "-o", "--output", "--output-directory", "--prefix" if parsed.verb == "checkout-index" else "-o"
        )
        made = [found] if found is not None else []
    for word in made:
        if word.text.startswith(("/", "~")):
            _write(word, cmd, bench, truncating=False)


def cache(cmd: Cmd, bench: Any) -> None:
    """hf cache rm and the like: the shared model cache."""
    texts = [t for t in cmd.words()[1:] if not t.startswith("-")]
    deleting = texts[:1] in (["delete-cache"], ["scan-cache-delete"], ["clear-cache"]) or (
        texts[:1] == ["cache"] and any(t in ("rm", "delete", "prune", "clean", "clear") for t in texts[1:2])
    )
    if not deleting:
        return
    folder = option(cmd, "--dir", "--cache-dir") or cmd.env.get("HF_HOME") or cmd.env.get("HF_HUB_CACHE")
    if folder is not None:
        _delete(folder, cmd, bench, recursive=True)
    elif bench.inside(cmd) != "new":
        bench.hit(DENY, "files.shared", "this deletes models from the cache that all runs of this user share", cmd)


def ipc(cmd: Cmd, bench: Any) -> None:
    """ipcrm: shared memory of whoever made it."""
    if flag(cmd, "a", "--all"):
        bench.hit(DENY, "files.ipc", "this removes every shared-memory segment and semaphore of the user", cmd)
    else:
        bench.hit(ASK if bench.ctx.present else DENY, "files.ipc", "which process made the segment is not proved", cmd)


def disk(cmd: Cmd, bench: Any) -> None:
    """Disks and volumes."""
    texts = cmd.words()[1:]
    readers = (
        "-l",
        "--list",
        "-L",
        "list",
        "print",
        "status",
        "show",
        "get",
        "id-ctrl",
        "smart-log",
        "version",
        "--version",
        "--help",
        "-D",
        "--detail",
        "-n",
        "--dump",
        "-d",
    )
    if (
        cmd.name == "badblocks"
        or (
            cmd.name
            in (
                "fdisk",
                "parted",
                "sfdisk",
                "nvme",
                "mdadm",
                "zpool",
                "zfs",
                "btrfs",
                "hdparm",
                "cryptsetup",
                "wipefs",
                "sgdisk",
            )
            and any(t in readers for t in texts)
        )
    ) and not any(
        t
        in (
            "-w",
            "format",
            "destroy",
            "--zero-superblock",
            "mklabel",
            "rm",
            "mkpart",
            "sanitize",
            "--security-erase",
            "luksFormat",
        )
        for t in texts
    ):
        return
    bench.hit(DENY, "files.disk", f"{cmd.name} changes disks or volumes of the node", cmd)
