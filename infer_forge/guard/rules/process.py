"""Processes: only those that the run provably started may be signalled, attached to or re-prioritised."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.context import ANCESTOR, OWNED, STALE
from infer_forge.guard.model import ALLOW, ASK, DENY, Cmd, Word, program_name
from infer_forge.guard.rules import flag, option, plain_targets

_SELECTORS = frozenset(
    [
        "pgrep",
        "pidof",
        "ps",
        "nvidia-smi",
        "amd-smi",
        "rocm-smi",
        "lsof",
        "fuser",
        "ss",
        "netstat",
        "awk",
        "grep",
        "rg",
        "egrep",
        "top",
        "htop",
        "pstree",
        "w",
        "who",
        "docker",
        "nvidia-smi",
        "xargs",
        "nvitop",
        "gpustat",
        "jq",
    ]
)


def _contained(cmd: Cmd, bench: Any) -> bool:
    """Inside a container of the run, its own process ids only."""
    inside = bench.inside(cmd)
    if inside in ("owned", "new") and not cmd.place.host_pids:
        return not bench.ctx.host_pids(cmd.place.container or "")
    return False


def _report(bench: Any, cmd: Cmd, state: str, what: str, target: str) -> None:
    if state == OWNED:
        return
    if state == STALE:
        bench.hit(
            ASK,
            "process.kill",
            f"the proof for {what} is older than 60 s",
            cmd,
            safer="infer-forge guard status --refresh",
            targets=(target,),
        )
    elif state == ANCESTOR:
        bench.hit(
            DENY, "process.ancestor", f"{what} is this session itself or one of its parents", cmd, targets=(target,)
        )
    elif not bench.ctx.present:
        bench.hit(
            DENY,
            "process.kill",
            f"{bench.ctx.absent()}, so {what} is not proved to be its own",
            cmd,
            targets=(target,),
        )
    else:
        bench.hit(DENY, "process.kill", f"{what} is not proved to be this run's", cmd, targets=(target,))


def kill(cmd: Cmd, bench: Any) -> None:
    """kill(1): every pid and group must be proved owned; signal 0 only asks whether it lives."""
    signal, targets = None, list[Word]()
    i, argv = 1, cmd.argv
    while i < len(argv):
        text = argv[i].text
        if text in ("-l", "-L", "--list", "--table", "--help", "--version", "-V"):
            return
        if text == "--":
            targets += argv[i + 1 :]
            break
        if text in ("-s", "--signal", "-n") and i + 1 < len(argv):
            signal, i = argv[i + 1].text, i + 2
            continue
        if text in ("-q", "--queue", "--timeout") and i + 1 < len(argv):
            i += 2 if text != "--timeout" else 3
            continue
        if text.startswith("--signal="):
            signal = text[9:]
        elif text.startswith("-") and len(text) > 1 and signal is None and not targets:
            signal = text[1:]
        elif text not in ("-a", "--all", "-p", "--pid", "--verbose"):
            targets.append(argv[i])
        i += 1
    if signal is not None and signal in ("0", "EXIT"):
        return
    if _contained(cmd, bench):
        return
    for word in targets:
        _kill_target(word, cmd, bench)


def _kill_target(word: Word, cmd: Cmd, bench: Any) -> None:
    text = word.text
    if text.startswith("%") or (not text and word.names == ("!",)):
        return
    if word.names and not text and word.names[0] in ("$", "PPID", "BASHPID"):
        bench.hit(
            DENY,
            "process.ancestor",
            "the shell that runs this and its parents may not be killed",
            cmd,
            targets=(f"${word.names[0]}",),
        )
        return
    if word.dyn:
        _kill_unknown(word, cmd, bench)
        return
    if not bench.here(cmd):
        bench.hit(
            DENY, "process.kill", "processes on another node are not proved to be this run's", cmd, targets=(text,)
        )
        return
    for piece in text.split():
        if re.fullmatch(r"\d+", piece):
            number = int(piece)
            state = bench.ctx.pid(number) if number else ANCESTOR
            _report(bench, cmd, state, f"process {piece}" if number else "the caller's own process group", piece)
        elif re.fullmatch(r"-\d+", piece):
            _report(
                bench,
                cmd,
                bench.ctx.pgid(int(piece[1:])),
                "every process" if piece == "-1" else f"process group {piece[1:]}",
                piece,
            )
        else:
            bench.hit(DENY, "process.by_name", f"{piece} selects processes by name", cmd, targets=(piece,))


def _kill_unknown(word: Word, cmd: Cmd, bench: Any) -> None:
    """A pid that another command prints."""
    names = {s.name for s in word.sources}
    if word.sources and all(_owned_source(s, bench) for s in _leaves(word.sources)):
        return
    if names & {"jobs"} and len(names) == 1:
        return
    leaves = _leaves(word.sources)
    wrapped = {program_name(w.text) for s in leaves if s.name in bench.pol["wrappers"] for w in s.argv[1:]}
    chain = {s.name for s in leaves} | names | wrapped
    if chain & _SELECTORS:
        what = next(iter(sorted(chain & _SELECTORS)))
        bench.hit(
            DENY,
            "process.by_name",
            f"whatever {what} lists would be killed, whoever started it",
            cmd,
            targets=("(unknown)",),
        )
        return
    for source in word.sources:
        if source.name in ("cat", "head", "tail", "read") and len(source.argv) > 1:
            _pid_file(source, cmd, bench)
            return
    if not bench.ctx.present:
        bench.hit(
            DENY, "process.kill", "the target is unknown and nothing is proved owned", cmd, targets=("(unknown)",)
        )
    else:
        bench.hit(ASK, "process.kill", "the target is unknown before it runs", cmd, targets=("(unknown)",))


def _leaves(sources: tuple[Cmd, ...], level: int = 0) -> list[Cmd]:
    """The commands at the head of the pipes that print the pids."""
    out: list[Cmd] = []
    for source in sources:
        if source.stdin is not None and source.stdin.cmds and level < 6:
            out += _leaves(source.stdin.cmds, level + 1)
        else:
            out.append(source)
    return out


def _owned_source(source: Cmd, bench: Any) -> bool:
    """`pgrep -P OWNED`, `lsof -ti :OWNED_PORT`: lists of what is provably the run's."""
    if source.name == "pgrep":
        return _children_only(source, bench) == ALLOW
    if source.name in ("lsof", "fuser"):
        ports = re.findall(r"(?:^|[ :])(\d+)(?:/tcp)?", " ".join(w.text for w in source.argv[1:]))
        return bool(ports) and all(bench.ctx.port(int(p)) == OWNED for p in ports)
    return False


def _matched(word: Word, source: Cmd, bench: Any) -> list[Word]:
    """The files that a pattern names now; the pattern itself when it names none."""
    from glob import iglob
    from itertools import islice

    from infer_forge.guard.rules.where import candidates

    if word.dyn or not word.glob or not any(c in word.text for c in "*?["):
        return [word]
    paths = candidates(word, source, bench, follow=False) or []
    found = [Word(hit, quoted=True) for path in paths for hit in islice(iglob(path), _MAX_PID_FILES + 1)]
    if len(found) > _MAX_PID_FILES:
        return [Word(word.text, dyn=True)]
    return found or [word]


_MAX_PID_FILES = 50


def _pid_file(source: Cmd, cmd: Cmd, bench: Any) -> None:
    from infer_forge.guard.output import read_file
    from infer_forge.guard.rules.where import candidates

    for word in (piece for given in source.argv[1:] for piece in _matched(given, source, bench)):
        if word.text.startswith("-"):
            continue
        paths = candidates(word, source, bench, follow=True) if not word.dyn else None
        owned = paths is not None and bool(paths) and all(bench.ctx.owns_path(p) for p in paths)
        written: dict[str, Any] = bench.shell.notes.get("written", {})
        here = os.path.normpath(word.text) in written
        content = read_file(word, source.cwds, bench.shell.notes) if owned else None
        if content is not None and re.fullmatch(r"[\s\d]+", content):
            for pid in content.split():
                _report(bench, cmd, bench.ctx.pid(int(pid)), f"process {pid} of {word.text}", pid)
        elif owned and not here and not any(os.path.lexists(p) for p in paths or []):
            bench.shell.partial = True  # there is no pid in a file that is not there
        elif owned:
            bench.hit(
                ASK,
                "process.pid_file",
                f"{word.text} cannot be read here, so whose pid it holds is not proved",
                cmd,
                targets=(word.text,),
            )
        else:
            bench.hit(
                ASK,
                "process.pid_file",
                f"anyone may have written the pid in {word.text or 'that file'}",
                cmd,
                targets=(word.text,),
            )


def _children_only(cmd: Cmd, bench: Any) -> str:
    """pkill and pgrep that select by parent, group or session only, all owned."""
    found = False
    for names, check in (
        (("-P", "--parent"), bench.ctx.pid),
        (("-g", "--pgroup"), bench.ctx.pgid),
        (("-s", "--session"), bench.ctx.pid),
    ):
        value = option(cmd, *names)
        if value is None:
            continue
        found = True
        for piece in value.text.split(","):
            if value.dyn or not piece.isdigit() or int(piece) == 0 or check(int(piece)) != OWNED:
                return DENY
    return ALLOW if found else DENY


def by_name(cmd: Cmd, bench: Any) -> None:
    """pkill, killall and their kin: a name or a pattern is never proof of ownership."""
    texts = cmd.words()[1:]
    if any(t in ("-l", "--list", "-V", "--version", "--help", "-0") for t in texts) and cmd.name in (
        "killall",
        "pkill",
        "skill",
    ):
        return
    signal = option(cmd, "--signal", "-s") if cmd.name == "killall" else option(cmd, "--signal")
    if signal is not None and signal.text == "0":
        return
    if _contained(cmd, bench):
        return
    if cmd.name == "pkill":
        if bench.here(cmd) and _children_only(cmd, bench) == ALLOW:
            return
        file = option(cmd, "-F", "--pidfile")
        if file is not None:
            _pid_file(cmd.inner([Word("cat"), file], "pkill"), cmd, bench)
            return
    target = next((t for t in texts if not t.startswith("-")), "(all)")
    bench.hit(
        DENY,
        "process.by_name",
        f"{cmd.name} selects by name: it reaches every matching process of the node, whoever started it",
        cmd,
        targets=(target,),
    )


def fuser(cmd: Cmd, bench: Any) -> None:
    """`fuser -k`: only for a port that is proved owned."""
    if not flag(cmd, "k", "--kill"):
        return
    if _contained(cmd, bench):
        return
    targets = plain_targets(cmd, "nN", ("--namespace", "--signal"))
    namespace = option(cmd, "-n", "--namespace")
    ports = [re.fullmatch(r"(\d+)(?:/(?:tcp|udp))?", w.text) for w in targets]
    if targets and all(p and ("/" in (p.group(0)) or namespace is not None) for p in ports) and bench.here(cmd):
        states = [bench.ctx.port(int(p.group(1))) for p in ports if p]
        if all(s == OWNED for s in states):
            return
        if all(s in (OWNED, STALE) for s in states):
            bench.hit(
                ASK,
                "process.kill",
                "the proof for the port is older than 60 s",
                cmd,
                safer="infer-forge guard status --refresh",
            )
            return
    what = " ".join(w.text for w in targets) or "what it finds"
    bench.hit(DENY, "process.by_use", f"fuser -k kills whoever uses {what}", cmd, targets=(what,))


_INTERRUPTS = frozenset(("C-c", "C-d", "C-z", "C-\\", "^C", "^D", "^Z"))
"""Keys of tmux(1) that end, stop or suspend what runs in the foreground."""


def multiplexer(cmd: Cmd, bench: Any) -> None:
    """tmux and screen: ending sessions."""
    texts = cmd.words()[1:]
    verb = next((t for t in texts if t.startswith("kill-")), "")
    run = bench.ctx.run_id or "\0"
    if cmd.name == "screen":
        if "stuff" in texts and re.search(
            r"[\x03\x04\x1a\x1c]|\^[CDZ\\]|\\0?(?:03|04|32|34)\b|\\x(?:03|04|1a|1c)", texts[-1]
        ):
            why = "this interrupts what runs in the session, which is not proved to be this run's"
            bench.hit(ASK, "process.session", why, cmd)
        if "-wipe" in texts or ("-X" in texts and any(t in ("quit", "kill") for t in texts)):
            named = option(cmd, "-S")
            mine = named is not None and run in named.text
            bench.hit(
                ASK if mine else DENY,
                "process.session",
                "the session carries the run's name, which is no proof that the run made it"
                if mine
                else "the session is not proved to be this run's",
                cmd,
            )
        return
    if texts[:1] in (["send-keys"], ["send"]) and any(t in _INTERRUPTS for t in texts):
        why = "this interrupts what runs in the session, which is not proved to be this run's"
        bench.hit(ASK, "process.session", why, cmd)
    elif verb == "kill-server":
        bench.hit(DENY, "process.session", "this ends every tmux session of the user, other runs included", cmd)
    elif any(t.startswith("respawn") for t in texts[:1]) and "-k" in texts:
        bench.hit(ASK, "process.session", "-k kills what runs there, which is not proved to be this run's", cmd)
    elif verb in ("kill-session", "kill-window", "kill-pane"):
        target = option(cmd, "-t")
        if "-a" in texts or (target is None and verb == "kill-session"):
            bench.hit(DENY, "process.session", "this ends sessions that it does not name", cmd)
        elif target is not None and run in target.text:
            bench.hit(
                ASK,
                "process.session",
                "the session carries the run's name, which is no proof that the run made it",
                cmd,
                targets=(target.text,),
            )
        else:
            bench.hit(
                DENY if verb == "kill-session" else ASK,
                "process.session",
                "the session is not proved to be this run's",
                cmd,
            )


def cluster(cmd: Cmd, bench: Any) -> None:
    """ray, pm2, supervisorctl, loginctl, start-stop-daemon: stopping what others may have started."""
    texts = cmd.words()[1:]
    verb = next((t for t in texts if not t.startswith("-")), "")
    if cmd.name == "ray" and verb == "stop":
        bench.hit(ASK, "process.session", "ray stop ends every Ray process of this user on the node", cmd)
    elif (cmd.name == "ray" and verb == "job" and any(t in ("stop", "delete") for t in texts)) or (
        cmd.name == "serve" and verb == "shutdown"
    ):
        bench.hit(ASK, "process.session", "whose Ray job or service this is is not proved", cmd)
    elif cmd.name == "ray" and verb in ("down", "kill-random-node", "teardown"):
        bench.hit(DENY, "process.session", "this takes a whole Ray cluster down", cmd)
    elif cmd.name == "loginctl" and verb.startswith(("terminate", "kill")):
        bench.hit(DENY, "process.by_name", "this ends whole login sessions", cmd)
    elif cmd.name == "start-stop-daemon" and flag(cmd, "K", "--stop"):
        bench.hit(DENY, "process.by_name", "this stops processes by name or file", cmd)
    elif (cmd.name == "pm2" and verb in ("kill", "delete", "stop", "restart")) or (
        cmd.name == "supervisorctl" and verb in ("stop", "restart", "shutdown", "reload")
    ):
        bench.hit(
            DENY if verb in ("kill", "shutdown") or "all" in texts else ASK,
            "process.session",
            "whose services these are is not proved",
            cmd,
        )
    elif cmd.name == "jupyter" and "stop" in texts:
        bench.hit(ASK, "process.session", "whose notebook server this is is not proved", cmd)


def attach(cmd: Cmd, bench: Any) -> None:
    """Debuggers, tracers and priority tools on a running process: it must be proved owned."""
    if _contained(cmd, bench):
        return
    words = cmd.argv
    pids: list[Word] = []
    value = (
        option(cmd, "-p", "--pid", "--attach-pid", "-P")
        if cmd.name not in ("ionice", "perf")
        else option(cmd, "-p", "--pid")
    )
    if cmd.name in ("taskset", "chrt"):
        pids = [w for w in words[-1:] if w.text.isdigit()] if flag(cmd, "p", "--pid") else []
    elif cmd.name == "renice":
        if flag(cmd, "ug", "--user", "--pgrp"):
            bench.hit(DENY, "process.attach", "this changes the priority of processes by user or group", cmd)
            return
        pids = [w for w in plain_targets(cmd, "n", ("--priority",)) if w.text.isdigit() or w.dyn]
        given = option(cmd, "-n", "--priority") is not None or re.fullmatch(
            r"-\d+", words[1].text if len(words) > 1 else ""
        )
        if not given:
            pids = pids[1:]
    elif value is not None:
        pids = [
            Word(t, value.dyn, sources=value.sources, names=value.names)
            for t in (value.text.split(",") if value.text else [""])
        ]
    elif cmd.name in ("gcore", "reptyr", "pystack", "memray"):
        pids = [w for w in plain_targets(cmd, "oa") if w.text.isdigit() or w.dyn]
    elif cmd.name in ("gdb", "cuda-gdb"):
        plain = plain_targets(cmd, "xdsec", ("--args", "--batch", "-ex", "-iex"))
        pids = [w for w in plain[1:2] if w.text.isdigit()]
        for i, word in enumerate(words[:-1]):
            match = re.match(r"\s*attach\s+(\d+)", words[i + 1].text) if word.text in ("-ex", "-iex", "--ex") else None
            if match:
                pids.append(Word(match.group(1)))
    for word in pids:
        if word.dyn and not word.text:
            bench.hit(
                DENY if not bench.ctx.present or word.sources else ASK,
                "process.attach",
                "which process this attaches to is unknown",
                cmd,
            )
            continue
        state = bench.ctx.pid(int(word.text)) if word.text.isdigit() and bench.here(cmd) else "foreign"
        if state == ANCESTOR:
            bench.hit(
                DENY, "process.ancestor", f"process {word.text} is this session itself or one of its parents", cmd
            )
        elif state != OWNED:
            bench.hit(
                ASK if state == STALE else DENY,
                "process.attach",
                f"{cmd.name} would stop or change process {word.text}, which is not proved to be this run's",
                cmd,
                targets=(word.text,),
            )


def machine(cmd: Cmd, bench: Any) -> None:
    """The whole node."""
    if cmd.name == ":fork-bomb":
        bench.hit(DENY, "process.machine", "a function that starts itself again and again takes the node down", cmd)
        return
    texts = cmd.words()[1:]
    if cmd.name in ("init", "telinit") and not any(t in ("0", "1", "6", "q", "u", "s", "S") for t in texts):
        return
    if any(t in ("--help", "--version", "--show", "-c") for t in texts) and cmd.name == "shutdown":
        return
    if bench.inside(cmd) in ("new", "owned"):
        return
    bench.hit(DENY, "process.machine", f"{cmd.name} stops the whole node", cmd)
