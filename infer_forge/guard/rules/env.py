"""Environment isolation: the run changes its own environment, never the node's."""

from __future__ import annotations

import os
import re
from typing import Any

from infer_forge.guard.model import ASK, DENY, Cmd, Word
from infer_forge.guard.rules import flag, option
from infer_forge.guard.rules.where import candidates


def boxed(cmd: Cmd, bench: Any) -> bool:
    """Inside a container that is the run's own or new: its environment is not the node's."""
    return bench.inside(cmd) in ("new", "owned")


def owned_folder(word: Word | None, cmd: Cmd, bench: Any) -> bool:
    """Whether every place that a word may name is this run's own."""
    if word is None:
        return False
    if word.fresh:
        return True
    paths = candidates(word, cmd, bench, follow=False) if not word.dyn else None
    return bool(paths) and all(mine(p, bench) for p in paths or [])


def mine(path: str, bench: Any) -> bool:
    """Whether a path is owned, as it is written or behind its links."""
    return bench.ctx.owns_path(path) or bench.ctx.owns_path(os.path.realpath(path))


_PACKAGE_READ = re.compile(
    r"^(?:list|search|show|info|policy|depends|rdepends|madison|changelog|-l|-L|-s|-S|-q\w*|--list|--version|-V|--help|help|config|env|ls|view|outdated|audit|why|tree|download|source|"
    r"clean|run|test|exec|start|ci|build|check|clippy|fmt|bench|doc|metadata|get|mod|vet|generate|tool|work|fix|t|r|b|c|add|init|create|new|update|remove|rm|version|pack|link|dlx)$"
)


def packages(cmd: Cmd, bench: Any) -> None:
    """System package managers are denied; language ones only where they install for everybody."""
    words = cmd.words()[1:]
    plain = [w for w in words if not w.startswith("-")]
    verb = plain[0] if plain else ""
    if boxed(cmd, bench):
        return
    if cmd.name in ("npm", "pnpm", "yarn"):
        if (
            flag(cmd, "g", "--global")
            and verb in ("install", "i", "add", "remove", "rm", "uninstall", "update", "link")
        ) or (verb == "global" and "list" not in plain):
            bench.hit(DENY, "env.packages", f"{cmd.name} {verb} -g installs for every run of the node", cmd)
        return
    if cmd.name in ("cargo", "go", "gem"):
        if (
            cmd.name == "gem"
            and verb in ("install", "uninstall", "update")
            and option(cmd, "-i", "--install-dir") is None
        ):
            bench.hit(ASK, "env.packages", f"gem {verb} changes the user's Ruby", cmd)
        elif (
            cmd.name != "gem"
            and verb in ("install", "uninstall")
            and option(cmd, "--root") is None
            and verb == "uninstall"
        ):
            bench.hit(ASK, "env.packages", f"{cmd.name} {verb} changes the user's tools", cmd)
        return
    if cmd.name in ("conda", "mamba", "micromamba"):
        _conda(verb, cmd, bench)
        return
    if cmd.name == "dpkg":
        if flag(cmd, "iPr", "--install", "--remove", "--purge", "--configure", "--unpack"):
            bench.hit(DENY, "env.packages", "dpkg changes the packages of the node", cmd)
        return
    if cmd.name == "rpm":
        if flag(cmd, "iUeF", "--install", "--upgrade", "--erase", "--import") and not flag(cmd, "q", "--query"):
            bench.hit(DENY, "env.packages", "rpm changes the packages of the node", cmd)
        return
    if cmd.name == "pacman":
        if any(re.match(r"^-[SRU]", w) and not re.match(r"^-S[sigl]+$", w) for w in words):
            bench.hit(DENY, "env.packages", "pacman changes the packages of the node", cmd)
        return
    if cmd.name == "update-alternatives" and any(w in ("--display", "--list", "--query") for w in words):
        return
    if cmd.name in ("add-apt-repository", "update-alternatives") or (
        verb
        and not re.match(
            r"^(?:list|search|show|info|policy|depends|rdepends|madison|download|source|changelog|config|check|help|leaves|deps|doctor|repolist|repoquery|provides|history)$",
            verb,
        )
    ):
        if any(w in ("-s", "--dry-run", "--simulate", "--just-print", "--download-only") for w in words):
            return
        verdict = ASK if verb in ("update", "makecache", "check-update", "refresh") else DENY
        bench.hit(verdict, "env.packages", f"{cmd.name} {verb} changes the packages of the node", cmd)


def _conda(verb: str, cmd: Cmd, bench: Any) -> None:
    if verb not in ("install", "remove", "update", "upgrade", "uninstall", "create", "clean", "env"):
        return
    prefix = option(cmd, "-p", "--prefix")
    if prefix is not None and owned_folder(prefix, cmd, bench):
        return
    if verb == "env" and not any(w in ("create", "update", "remove") for w in cmd.words()):
        return
    if verb == "create" and option(cmd, "-n", "--name") is not None:
        return
    active = bench.ctx.env.get("CONDA_PREFIX")
    if (
        verb in ("install", "update")
        and prefix is None
        and option(cmd, "-n", "--name") is None
        and active
        and mine(active, bench)
    ):
        return
    bench.hit(
        ASK if verb in ("create", "clean") else DENY,
        "env.packages",
        f"{cmd.name} {verb} changes an environment that is not proved to be this run's",
        cmd,
    )


_SERVICE_READ = frozenset(
    [
        "status",
        "show",
        "list-units",
        "list-unit-files",
        "list-timers",
        "list-sockets",
        "list-jobs",
        "list-dependencies",
        "is-active",
        "is-enabled",
        "is-failed",
        "is-system-running",
        "cat",
        "get-default",
        "help",
        "show-environment",
    ]
)


def services(cmd: Cmd, bench: Any) -> None:
    """systemctl, service: services of the node."""
    plain = [t for t in cmd.words()[1:] if not t.startswith("-")]
    if boxed(cmd, bench) or not plain:
        return
    if cmd.name == "systemctl":
        if plain[0] in _SERVICE_READ:
            return
        if flag(cmd, "", "--user") and plain[0] not in ("kill", "poweroff", "reboot"):
            bench.hit(ASK, "env.services", "whose user service this is is not proved", cmd)
            return
        bench.hit(
            DENY,
            "env.services",
            f"systemctl {' '.join(plain[:2])} changes a service that the whole node uses",
            cmd,
            targets=tuple(plain[1:2]),
        )
    elif cmd.name in ("service", "rc-service", "initctl"):
        verb = plain[1] if len(plain) > 1 and cmd.name != "initctl" else plain[0]
        if verb not in ("status", "list", "--status-all") and "--status-all" not in cmd.words():
            bench.hit(
                DENY,
                "env.services",
                f"{cmd.name} {' '.join(plain[:2])} changes a service that the whole node uses",
                cmd,
            )
    elif "--list" not in cmd.words():
        bench.hit(DENY, "env.services", f"{cmd.name} changes which services start", cmd)


def kernel(cmd: Cmd, bench: Any) -> None:
    """Kernel modules, sysctl, swap, mounts."""
    words = cmd.words()[1:]
    if any(w in ("--help", "--version", "-V") for w in words):
        return
    if (
        cmd.name == "sysctl"
        and not any("=" in w for w in words)
        and not flag(cmd, "wp", "--write", "--load", "--system")
    ):
        return
    if cmd.name in ("mount", "swapon") and (not words or any(w in ("-l", "--show", "-s", "--summary") for w in words)):
        return
    if cmd.name == "modprobe" and any(
        w in ("-n", "--dry-run", "-c", "--showconfig", "--show-depends", "-D") for w in words
    ):
        return
    if cmd.name == "ldconfig" and any(w in ("-p", "-v", "--print-cache", "-N") for w in words):
        return
    if cmd.name == "losetup" and (not words or words[0] in ("-a", "-l", "--list")):
        return
    if cmd.name in ("dkms", "kmod") and any(w in ("status", "list") for w in words):
        return
    if cmd.name == "umount" and bench.ctx.present:
        targets = [w for w in cmd.argv[1:] if not w.text.startswith("-")]
        if targets and all(owned_folder(w, cmd, bench) for w in targets):
            bench.hit(ASK, "env.kernel", "unmounting needs a person on a shared node", cmd)
            return
    bench.hit(DENY, "env.kernel", f"{cmd.name} changes the kernel's or the node's settings for everybody", cmd)


_HARDWARE: dict[str, tuple[str, ...]] = {
    "ipmitool": ("sdr", "sensor", "list", "status", "info", "print", "elist", "get"),
    "racadm": ("getsysinfo", "get", "getsel", "help"),
    "ibportstate": ("query",),
    "opensm": (),
    "fwupdmgr": ("get-devices", "get-updates", "get-history", "get-details"),
    "flint": ("query", "q", "verify"),
    "mstflint": ("query", "q", "verify"),
    "dmsetup": ("ls", "info", "status", "table", "deps", "version", "targets"),
}
"""Tools of a node's hardware and the words with which they only read."""


def machine(cmd: Cmd, bench: Any) -> None:
    """Clock, network, users, frequency, cron."""
    words = cmd.words()[1:]
    plain = [w for w in words if not w.startswith("-")]
    name = cmd.name
    if any(w in ("--help", "--version", "-V") for w in words) or boxed(cmd, bench):
        return
    if name == "date":
        if not (flag(cmd, "s", "--set") and not any(w.startswith(("-Is", "-I")) for w in words)):
            return
    elif name == "dmesg":
        if not flag(cmd, "CcDEn", "--clear", "--read-clear", "--console-off", "--console-level"):
            return
    elif name == "timedatectl":
        if not plain or plain[0] in ("status", "show", "list-timezones", "timesync-status", "show-timesync"):
            return
    elif name == "hwclock":
        if not flag(cmd, "ws", "--systohc", "--hctosys", "--set", "--adjust"):
            return
    elif name in ("ip", "tc"):
        if not any(
            w in ("add", "del", "delete", "set", "change", "replace", "flush", "append", "exec") for w in plain
        ) or ("netns" in plain[:1] and "list" in plain):
            return
    elif name in ("ifconfig", "route", "ethtool", "nmcli", "netplan"):
        if not any(
            w in ("up", "down", "add", "del", "delete", "modify", "apply", "try", "off", "on", "mtu")
            or w in ("-K", "-G", "-s", "-L", "-C", "-A", "-r", "-E", "-f", "-p")
            for w in words
        ):
            return
    elif name in ("iptables", "ip6tables"):
        if flag(cmd, "LS", "--list", "--list-rules"):
            return
    elif name in ("nft", "ufw"):
        if plain[:1] in (["list"], ["status"], ["show"]):
            return
    elif name == "hostname":
        if not plain or flag(cmd, "fisAdyI"):
            return
    elif name == "hostnamectl":
        if not plain or plain[0] in ("status", "show"):
            return
    elif name in ("cpupower", "tuned-adm"):
        if any("info" in w or w in ("active", "list", "recommend", "monitor", "verify") for w in plain):
            return
    elif name == "chronyc":
        if plain[:1] and plain[0] in ("sources", "tracking", "sourcestats", "activity", "ntpdata"):
            return
    elif name == "setpci":
        if not any("=" in w for w in words):
            return
    elif name == "crontab":
        if flag(cmd, "l"):
            return
        bench.hit(DENY if flag(cmd, "r") else ASK, "env.machine", "scheduled jobs outlive the run", cmd)
        return
    elif name == "ulimit":
        return
    elif name in _HARDWARE:
        if (not plain and name != "opensm") or any(w in _HARDWARE[name] for w in plain):
            return
    elif name == "journalctl":
        if not any(w.split("=", 1)[0].startswith(("--vacuum", "--rotate", "--flush", "--relinquish")) for w in words):
            return
    elif name == "logrotate" and flag(cmd, "d", "--debug"):
        return
    bench.hit(DENY, "env.machine", f"{name} changes the node for everybody", cmd)


_ROOT_OK = frozenset(
    [
        "nvidia-smi",
        "amd-smi",
        "rocm-smi",
        "dmesg",
        "lsof",
        "ss",
        "netstat",
        "ls",
        "cat",
        "ps",
        "top",
        "htop",
        "journalctl",
        "docker",
        "podman",
        "ncu",
        "nsys",
        "py-spy",
        "perf",
        "systemctl",
        "lspci",
        "lscpu",
        "dmidecode",
        "fuser",
        "kill",
        "true",
        "id",
        "whoami",
        "ipmitool",
        "nvidia-bug-report.sh",
        "find",
        "du",
        "df",
        "grep",
        "head",
        "tail",
        "stat",
        "echo",
        "tee",
        "rm",
        "chmod",
        "chown",
        "pkill",
    ]
)


def root(cmd: Cmd, bench: Any) -> None:
    """sudo and the like: what they run is checked by its own rules; what the guard does not know is asked about."""
    if any(w in ("--help", "--version") for w in cmd.words()[1:2]):
        return
    if cmd.name in ("su", "runuser"):
        _su(cmd, bench)
        return
    if cmd.name in ("calife", "sudoedit"):
        bench.hit(ASK, "env.root", f"{cmd.name} acts as root", cmd)
        return
    if cmd.name in ("nsenter", "chroot"):
        if bench.inside(cmd) in ("new", "owned") and cmd.name == "chroot":
            return
        bench.hit(ASK, "env.root", f"{cmd.name} leaves the environment of the run", cmd)
        return
    if cmd.name == "unshare" or any(
        w in ("-l", "-v", "-K", "-k", "--list", "--validate", "-V") for w in cmd.words()[1:2]
    ):
        return
    if flag(cmd, "is", "--login", "--shell") and len([w for w in cmd.words()[1:] if not w.startswith("-")]) == 0:
        bench.hit(DENY, "env.root", "a root shell is beyond the guard", cmd)
        return
    from infer_forge.guard.model import program_name
    from infer_forge.guard.unwrap import past_options

    at = past_options(cmd.argv, "CDghpRrtTuU", ["--user", "--group", "--host", "--prompt", "--chdir"], assignments=True)
    inner = program_name(cmd.argv[at].text) if at < len(cmd.argv) else ""
    from infer_forge.guard.unwrap import SHELLS

    bare = inner in SHELLS and cmd.stdin is None and all(w.text.startswith("-") for w in cmd.argv[at + 1 :])
    if (not inner and cmd.name == "pkexec") or (bare and not any("c" in w.text for w in cmd.argv[at + 1 :])):
        bench.hit(DENY, "env.root", "a root shell is beyond the guard", cmd)
    if inner and not _judged(inner) and inner not in bench.pol["wrappers"]:
        bench.hit(ASK, "env.root", f"{inner} as root can change the node for everybody", cmd, targets=(inner,))


def _judged(program: str) -> bool:
    """Whether the rules look at all that this program writes, so that it needs no question of its own as root."""
    from infer_forge.guard.rules import TABLE

    if program in _ROOT_OK:
        return True
    looks = TABLE.get(program, ())
    return any(
        name.startswith(("process.", "containers.", "schedulers.", "env."))
        or (name.startswith("files.") and name not in ("files.edit", "files.clone", "files.patched", "files.cache"))
        or name in ("gpu.nvidia_smi", "gpu.amd_smi", "gpu.tools")
        for name in looks
    )


def _su(cmd: Cmd, bench: Any) -> None:
    """su and runuser: a shell of another user is beyond the guard; what `-c` runs is judged, and asked about where it is not known."""
    from infer_forge.guard.model import program_name
    from infer_forge.guard.unwrap import SHELLS, past_options

    code = option(cmd, "-c", "--command", "--session-command")
    if code is not None:
        inner = program_name(code.text.split()[0]) if code.text.split() else ""
    elif cmd.name == "runuser" and option(cmd, "-u", "--user") is not None:
        at = past_options(cmd.argv, "ugG", ["--user", "--group"])
        inner = program_name(cmd.argv[at].text) if at < len(cmd.argv) else ""
    else:
        inner = "" if cmd.stdin is None else "sh"
    if not inner:
        bench.hit(DENY, "env.root", "a shell of another user is beyond the guard", cmd)
    elif not _judged(inner) and inner not in SHELLS and inner not in bench.pol["wrappers"]:
        bench.hit(ASK, "env.root", f"{inner} as another user may change the node for everybody", cmd, targets=(inner,))


def machines(cmd: Cmd, bench: Any) -> None:
    """machinectl, systemd-run, systemd-nspawn: what runs outside of this session, or as a service of the node."""
    words = cmd.words()[1:]
    if any(w in ("--help", "--version", "-h") for w in words) or boxed(cmd, bench):
        return
    plain = [w for w in words if not w.startswith("-")]
    if cmd.name == "machinectl":
        if plain[:1] and plain[0] not in ("list", "status", "show", "list-images", "image-status", "show-image"):
            bench.hit(DENY, "env.services", f"machinectl {plain[0]} acts on machines of the whole node", cmd)
    elif cmd.name == "systemd-nspawn":
        bench.hit(ASK, "env.root", "systemd-nspawn starts a machine of its own as root", cmd)
    elif "--user" not in words:
        bench.hit(ASK, "env.services", "systemd-run without --user makes a service of the node", cmd)
