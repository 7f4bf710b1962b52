"""The rules, one module a subject. `TABLE` says which functions look at which program; modules load when first needed.

A rule function gets the command and a `Bench` and reports through `bench.hit(...)`; saying nothing means allow.
"""

from __future__ import annotations

from typing import Any

from infer_forge.guard.model import ALLOW, Cmd, Hit, Word

_PROGRAMS: dict[str, str] = {
    "process.kill": "kill tkill",
    "process.by_name": "pkill killall skill snice slay killall5 xkill kill-port fkill fkill-cli",
    "process.fuser": "fuser",
    "process.multiplexer": "tmux screen",
    "process.cluster": "ray serve pm2 supervisorctl start-stop-daemon loginctl jupyter",
    "process.attach": (
        "gdb cuda-gdb lldb strace ltrace py-spy gcore reptyr cuda-checkpoint criu renice ionice taskset "
        "chrt prlimit perf bpftrace pystack memray"
    ),
    "process.machine": "shutdown reboot halt poweroff init telinit kexec :fork-bomb",
    "gpu.nvidia_smi": "nvidia-smi",
    "gpu.amd_smi": "amd-smi rocm-smi rocm_smi.py xpu-smi npu-smi",
    "gpu.tools": (
        "dcgmi nv-hostengine nvidia-cuda-mps-control nvidia-cuda-mps-server nvidia-persistenced "
        "nvidia-settings nvidia-xconfig nv-fabricmanager nvidia-modprobe nvflash mlxconfig mstconfig mlxfwreset "
        "nvidia-ctk geopmctl"
    ),
    "gpu.engine": "sglang vllm trtllm-serve torchrun accelerate deepspeed python",
    "files.remove": "rm rmdir unlink shred srm wipe trash trash-put rimraf gio",
    "data.compress": "gzip pigz bzip2 xz zstd lz4",
    "files.truncate": "truncate fallocate",
    "files.move": "mv rename mmv",
    "files.copy": "cp install ln scp sponge",
    "files.dd": "dd",
    "files.tee": "tee",
    "files.mirror": "rsync rclone lftp unison",
    "files.find": "find gfind fd fdfind",
    "files.mode": "chmod chown chgrp setfacl chattr",
    "files.in_place": "sed perl patch sqlite3 ruby",
    "files.edit": "sudoedit vim vi nvim ex ed nano pico micro emacs emacsclient joe hx helix kak code gedit mcedit",
    "files.extract": "tar unzip 7z bsdtar cpio",
    "files.output": "curl wget aria2c touch mkdir mknod mkfifo tree jq sort",
    "data.scratch": "pytest py.test",
    "files.clone": "git",
    "files.patched": "git patch",
    "files.cache": "hf huggingface-cli transformers-cli modelscope",
    "files.ipc": "ipcrm",
    "data.cleaner": "fdupes jdupes rdfind tmpreaper tmpwatch",
    "files.disk": (
        "mkfs fdisk parted sfdisk sgdisk gdisk wipefs mkswap blkdiscard hdparm nvme mdadm lvremove "
        "vgremove pvremove lvreduce cryptsetup zpool zfs btrfs badblocks"
    ),
    "containers.docker": "docker podman nerdctl docker-compose",
    "containers.socket": "curl",
    "containers.other": "ctr crictl runc buildah skopeo apptainer singularity enroot lxc",
    "schedulers.slurm": "scancel scontrol sacctmgr srun sbatch salloc bkill qdel condor_rm flux nomad",
    "schedulers.kubectl": "kubectl oc k9s",
    "schedulers.cluster": (
        "helm sky kubeadm kind minikube terraform tofu pulumi ansible-playbook modal runpodctl dstack"
    ),
    "push.git": "git",
    "push.forge": "gh hub glab tea",
    "traceable.git": "git",
    "traceable.commit_tools": "pre-commit husky",
    "pythons.pip": "pip pip3 pipx easy_install uv poetry",
    "env.packages": (
        "apt apt-get aptitude dpkg yum dnf rpm zypper apk pacman snap brew conda mamba micromamba npm "
        "pnpm yarn gem cargo go add-apt-repository update-alternatives"
    ),
    "installs.installed": "cmake ninja cargo",
    "env.services": "systemctl service rc-service initctl chkconfig update-rc.d",
    "env.kernel": (
        "modprobe rmmod insmod sysctl swapoff swapon mount umount losetup ldconfig dkms depmod "
        "update-initramfs grub-install update-grub kmod"
    ),
    "env.machine": (
        "date dmesg timedatectl hwclock ntpdate chronyc iptables ip6tables iptables-restore ip6tables-restore nft ufw ip ifconfig tc route "
        "hostname hostnamectl useradd userdel usermod groupadd passwd chpasswd visudo cpupower tuned-adm "
        "cpufreq-set wrmsr setpci crontab ulimit ethtool nmcli netplan adduser deluser cgdelete cgset cgcreate cgclassify "
        "ssh-copy-id wall ipmitool racadm ibportstate opensm fwupdmgr flint mstflint dmsetup journalctl logrotate"
    ),
    "env.root": "sudo doas pkexec nsenter chroot unshare su runuser calife sudoedit run0 please",
    "env.machines": "machinectl systemd-run systemd-nspawn",
    "secrets.show": (
        "printenv env set export declare typeset echo printf cat less more head tail bat xxd base64 "
        "strings od grep rg awk sed cut tac nl vim vi nano cp scp rsync tar zip hexdump sort diff history "
        "ps compgen jq yq openssl"
    ),
    "secrets.tools": (
        "curl wget docker podman git gh aws gcloud az kubectl hf huggingface-cli wandb ngc vault op pass security "
        "gpg ssh-keygen docker-compose"
    ),
    "data.upload": (
        "hf huggingface-cli aws gsutil gcloud az azcopy rclone scp rsync sftp ftp s3cmd s5cmd mc wandb "
        "kaggle modelscope transfer croc wormhole magic-wormhole ffsend nc ncat netcat socat curl wget"
    ),
    "gate.database": "redis-cli psql mysql mariadb mongo mongosh etcdctl consul",
    "data.fio": "fio",
    "data.tunnel": "ngrok cloudflared bore lt localtunnel",
    "data.cleanup": "ollama mlflow dvc wandb npm ccache",
    "gate.publish": "twine npm cargo docker podman gh uv poetry flit hatch gem helm",
    "gate.web": "curl wget http https xh httpie",
    "review.review": "gh git codex claude glab",
    "selfguard.store": "git",
    "selfguard.loads": "enable",
    "selfguard.commands": "infer-forge infer-forge-guard claude codex unset export",
}
TABLE: dict[str, tuple[str, ...]] = {}
for _function, _names in _PROGRAMS.items():
    for _name in _names.split():
        TABLE[_name] = (*TABLE.get(_name, ()), _function)

_loaded: dict[str, Any] = {}


def function(name: str) -> Any:
    """`process.kill` -> the function, its module loaded on first use."""
    found = _loaded.get(name)
    if found is None:
        import importlib

        module, _, attribute = name.partition(".")
        found = getattr(importlib.import_module(f"infer_forge.guard.rules.{module}"), attribute)
        _loaded[name] = found
    return found


class Bench:
    """Where rules work: the context, the policy and the hits so far."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.ctx = shell.ctx
        self.pol: dict[str, Any] = shell.pol
        self.hits: list[Hit] = []

    def hit(
        self,
        verdict: str,
        rule: str,
        why: str,
        cmd: Cmd,
        *,
        safer: str = "",
        targets: tuple[str, ...] = (),
        facts: dict[str, Any] | None = None,
    ) -> None:
        """Report what a rule found; `safer` falls back to the rule's own entry."""
        if verdict != ALLOW:
            entry: dict[str, Any] = self.pol["rules"].get(rule) or {}
            made = Hit(verdict, rule, why, safer or entry.get("safer", ""), targets, cmd)
            made.facts = facts or {}
            self.hits.append(made)

    def here(self, cmd: Cmd) -> bool:
        """Whether the command runs on the node whose processes and paths the context can prove."""
        return cmd.place.node is None or cmd.place.node.split(".")[0] == self.ctx.node.split(".")[0]

    def inside(self, cmd: Cmd) -> str:
        """Standing of the container that the command runs in: `` for none, `new`, `owned`, `stale`, `foreign`."""
        name = cmd.place.container
        if name is None:
            return ""
        if cmd.place.mounts is not None:
            return "new"
        if self.ctx.k8s and any(n == name for _, n in self.ctx.k8s):
            return "owned"
        return self.ctx.container(name)


def texts(words: list[Word]) -> list[str]:
    """Plain texts."""
    return [w.text for w in words]


def plain_targets(cmd: Cmd, short: str = "", long: tuple[str, ...] = ()) -> list[Word]:
    """Words that are no options, nor values of the options named; after `--` everything counts."""
    out: list[Word] = []
    i, argv = 1, cmd.argv
    while i < len(argv):
        text = argv[i].text
        if text == "--":
            return out + argv[i + 1 :]
        if text.startswith("--"):
            i += 2 if text in long else 1
            continue
        if text.startswith("-") and len(text) > 1:
            at = next((k for k, c in enumerate(text[1:], 1) if c in short), None)
            i += 2 if at is not None and at == len(text) - 1 else 1
            continue
        out.append(argv[i])
        i += 1
    return out


def option(cmd: Cmd, *names: str) -> Word | None:
    """Value of the first of these options: `--name VALUE`, `--name=VALUE`, `-nVALUE`."""
    argv = cmd.argv
    for i, word in enumerate(argv[1:], 1):
        for name in names:
            if word.text == name and i + 1 < len(argv):
                return argv[i + 1]
            if name.startswith("--") and word.text.startswith(f"{name}="):
                return word.cut(len(name) + 1)
            if len(name) == 2 and word.text.startswith(name) and len(word.text) > 2 and not word.text.startswith("--"):
                return word.cut(3 if word.text[2] == "=" else 2)
    return None


def flag(cmd: Cmd, letters: str = "", *long: str) -> bool:
    """Whether a short letter (also in a cluster) or a long option is there."""
    for word in cmd.argv[1:]:
        text = word.text
        if text == "--":
            return False
        if text.startswith("--"):
            if text.split("=", 1)[0] in long:
                return True
        elif text.startswith("-") and any(c in letters for c in text[1:]):
            return True
    return False
