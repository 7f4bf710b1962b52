"""Slurm, Kubernetes, Helm, SkyPilot, Terraform: jobs and objects of the run only, by exact id or name."""

from __future__ import annotations

import re
from typing import Any

from infer_forge.guard.context import OWNED, STALE
from infer_forge.guard.model import ASK, DENY, Cmd, Word
from infer_forge.guard.rules import flag, option, plain_targets


def slurm(cmd: Cmd, bench: Any) -> None:
    """scancel and scontrol, and the like of other schedulers."""
    texts = cmd.words()[1:]
    if cmd.name in ("scancel", "bkill", "qdel", "condor_rm"):
        if any(t in ("--help", "--usage", "-V", "--version") for t in texts):
            return
        selectors = {
            "scancel": (
                "uAnptwRq",
                (
                    "--user",
                    "--account",
                    "--name",
                    "--jobname",
                    "--partition",
                    "--state",
                    "--nodelist",
                    "--me",
                    "--reservation",
                    "--qos",
                    "--wckey",
                ),
            )
        }
        short, long = selectors.get(cmd.name, ("uJqm", ("--all", "-all")))
        if flag(cmd, short, *long) and not (cmd.name == "scancel" and flag(cmd, "", "--signal")):
            bench.hit(DENY, "schedulers.by_name", f"{cmd.name} selects jobs by user, name or state", cmd)
            return
        targets = plain_targets(cmd, "sMu", ("--signal", "--clusters", "--user", "--name"))
        for word in targets:
            for piece in word.text.split(",") if word.text else [""]:
                _job(piece, word, cmd, bench)
    elif cmd.name == "scontrol":
        verb = next((t for t in texts if not t.startswith("-")), "").lower()
        if verb in ("show", "ping", "listpids", "hostnames", "hostlist", "getaddrs", "version", "help", "write", ""):
            return
        ids = [t.split("=", 1)[1] for t in texts if t.lower().startswith("jobid=")] or [t for t in texts if t.isdigit()]
        if (
            verb in ("hold", "release", "requeue", "suspend", "resume", "uhold", "top", "update")
            and ids
            and all(bench.ctx.job(i) == OWNED for i in ids)
        ):
            if verb == "update" and any(re.match(r"(?i)(?:nodename|partition|reservation)=", t) for t in texts):
                bench.hit(DENY, "schedulers.admin", "this changes nodes or partitions", cmd)
            return
        bench.hit(
            DENY,
            "schedulers.admin",
            f"scontrol {verb} is an administrator's action or reaches a job that is not proved to be this run's",
            cmd,
        )
    elif cmd.name in ("flux", "nomad"):
        _other(texts, cmd, bench)
    elif cmd.name == "sacctmgr" and not any(t in ("show", "list", "dump") for t in texts):
        bench.hit(DENY, "schedulers.admin", "sacctmgr changes the cluster's accounts", cmd)


def _other(texts: list[str], cmd: Cmd, bench: Any) -> None:
    """Flux and Nomad: what ends or drains; their jobs carry no proof that the guard can see."""
    plain = [t for t in texts if not t.startswith("-")]
    verb = " ".join(plain[:2])
    if (cmd.name == "flux" and plain[:1] in (["cancel"], ["kill"], ["pkill"])) or re.match(
        r"job (?:cancel|kill|raise)", verb
    ):
        rule = (
            "schedulers.by_name"
            if flag(cmd, "u", "--all", "--user") or plain[:1] == ["pkill"]
            else "schedulers.foreign"
        )
        bench.hit(DENY, rule, f"{cmd.name} {verb} ends jobs that are not proved to be this run's", cmd)
    elif re.match(r"(?:job )?(?:stop|restart|revert|scale)\b", verb) or verb in ("alloc stop", "alloc restart"):
        bench.hit(
            DENY, "schedulers.foreign", f"{cmd.name} {verb} reaches a job that is not proved to be this run's", cmd
        )
    elif re.match(r"(?:node (?:drain|eligibility|purge)|system gc|resource drain|queue (?:stop|drain))", verb):
        bench.hit(DENY, "schedulers.admin", f"{cmd.name} {verb} is an administrator's action", cmd)


def _job(piece: str, word: Word, cmd: Cmd, bench: Any) -> None:
    if word.names and word.names[0] == "SLURM_JOB_ID" and not piece:
        return
    if word.dyn or not re.match(r"^\d", piece):
        listed = any(s.name in ("squeue", "sacct", "awk", "grep", "bjobs", "qstat") for s in word.sources)
        bench.hit(
            DENY if listed or piece or not bench.ctx.present else ASK,
            "schedulers.by_name",
            "which jobs this reaches is not proved",
            cmd,
            targets=(piece or "(unknown)",),
        )
        return
    state = bench.ctx.job(piece)
    if state == STALE:
        bench.hit(
            ASK,
            "schedulers.stale",
            f"the proof for job {piece} is older than 60 s",
            cmd,
            safer=f"infer-forge guard own --job {piece}",
            targets=(piece,),
        )
    elif state != OWNED:
        bench.hit(DENY, "schedulers.foreign", f"job {piece} is not proved to be this run's", cmd, targets=(piece,))


_KUBE_VALUES = (
    "-n",
    "--namespace",
    "--context",
    "--kubeconfig",
    "-o",
    "--output",
    "-l",
    "--selector",
    "-f",
    "--filename",
    "--cluster",
    "--user",
    "-c",
    "--container",
    "-s",
    "--server",
    "--token",
    "--field-selector",
    "--grace-period",
    "--timeout",
    "-k",
    "--replicas",
    "-p",
    "--patch",
    "--type",
    "--as",
    "--cascade",
)
_KUBE_READ = frozenset(
    [
        "get",
        "describe",
        "logs",
        "top",
        "explain",
        "api-resources",
        "api-versions",
        "version",
        "cluster-info",
        "diff",
        "wait",
        "config",
        "auth",
        "kustomize",
        "completion",
        "options",
        "plugin",
        "events",
    ]
)


def kubectl(cmd: Cmd, bench: Any) -> None:
    """kubectl: reading passes, deleting needs the exact name of an owned object, the rest asks."""
    words = cmd.argv
    plain: list[Word] = []
    i = 1
    while i < len(words):
        text = words[i].text
        if text == "--":
            break
        if text.startswith("-"):
            i += 2 if text in _KUBE_VALUES else 1
            continue
        plain.append(words[i])
        i += 1
    if cmd.name == "k9s":
        bench.hit(ASK, "schedulers.kube", "what is done inside k9s cannot be seen", cmd)
        return
    verb = plain[0].text if plain else ""
    second = plain[1].text if len(plain) > 1 else ""
    if verb in _KUBE_READ or (verb == "rollout" and second in ("status", "history")) or not verb:
        if verb == "config" and second not in ("view", "get-contexts", "current-context", "get-clusters", "get-users"):
            bench.hit(ASK, "schedulers.kube", "this changes which cluster later commands reach", cmd)
        return
    if flag(cmd, "", "--dry-run") and any(
        t in ("--dry-run=client", "--dry-run=server", "--dry-run") for t in cmd.words()
    ):
        return
    if verb == "delete":
        _kube_delete(plain[1:], cmd, bench)
    elif verb in ("drain", "cordon", "uncordon", "taint", "certificate"):
        bench.hit(DENY, "schedulers.admin", f"kubectl {verb} changes nodes of the cluster", cmd)
    elif verb in ("exec", "attach", "cp", "port-forward", "proxy", "debug"):
        name = (second.split(":")[0] if verb == "cp" else second).split("/")[-1]
        if verb in ("port-forward", "proxy") or (verb == "cp" and ":" not in plain[-1].text):
            return
        space = option(cmd, "-n", "--namespace")
        if bench.ctx.pod(space.text if space else None, name) != OWNED:
            bench.hit(
                ASK if verb == "exec" and bench.ctx.present else DENY,
                "schedulers.kube",
                f"{name or 'the pod'} is not proved to be this run's",
                cmd,
                targets=(name,),
            )
    elif verb == "scale" and (option(cmd, "--replicas") or Word("")).text == "0":
        bench.hit(DENY, "schedulers.kube", "scaling to zero ends whatever runs there", cmd)
    else:
        bench.hit(ASK if bench.ctx.present else DENY, "schedulers.kube", f"kubectl {verb} changes the cluster", cmd)


def _kube_delete(plain: list[Word], cmd: Cmd, bench: Any) -> None:
    texts = cmd.words()
    if (
        any(t.startswith(("--all", "-A")) for t in texts)
        or option(cmd, "-l", "--selector", "--field-selector") is not None
    ):
        bench.hit(DENY, "schedulers.by_name", "deleting by label or all of a kind reaches what is not this run's", cmd)
        return
    space = option(cmd, "-n", "--namespace")
    kind = plain[0].text if plain else ""
    names = [(w.text.split("/")[0], w) for w in plain if "/" in w.text]
    if not names:
        names = [(kind, w) for w in plain[1:]]
    if option(cmd, "-f", "--filename", "-k") is not None:
        bench.hit(ASK, "schedulers.kube", "which objects the file names is not proved to be this run's", cmd)
        return
    if not names:
        bench.hit(DENY, "schedulers.by_name", "deleting without a name", cmd)
    for what, word in names:
        if what in ("ns", "namespace", "namespaces", "node", "nodes", "no", "pv", "crd"):
            bench.hit(DENY, "schedulers.admin", f"deleting a {what} takes others' work along", cmd)
            continue
        name = word.text.split("/")[-1]
        state = bench.ctx.pod(space.text if space else None, name) if not word.dyn else "foreign"
        if state == STALE:
            bench.hit(ASK, "schedulers.stale", f"the proof for {name} is older than 60 s", cmd, targets=(name,))
        elif state != OWNED:
            bench.hit(
                DENY,
                "schedulers.foreign",
                f"{name or 'the object'} is not proved to be this run's",
                cmd,
                targets=(name,),
            )


_CLUSTER: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    # program: (verbs that are denied unless the named thing is owned, verbs that are asked about)
    "helm": (frozenset(("uninstall", "delete", "del", "un")), frozenset(("install", "upgrade", "rollback"))),
    "sky": (frozenset(("down", "stop", "cancel", "autostop")), frozenset(("launch", "start", "exec"))),
    "kubeadm": (frozenset(("reset", "init", "join", "upgrade")), frozenset()),
    "kind": (frozenset(("delete",)), frozenset()),
    "minikube": (frozenset(("delete", "stop")), frozenset()),
    "terraform": (frozenset(("destroy",)), frozenset(("apply", "import", "taint", "state"))),
    "tofu": (frozenset(("destroy",)), frozenset(("apply", "import", "taint", "state"))),
    "pulumi": (frozenset(("destroy", "cancel")), frozenset(("up", "refresh"))),
    "ansible-playbook": (frozenset(), frozenset()),
    "modal": (frozenset(("stop",)), frozenset(("deploy",))),
    "runpodctl": (frozenset(("remove", "stop")), frozenset(("create",))),
    "dstack": (frozenset(("stop", "delete")), frozenset(("apply", "run"))),
}


def cluster(cmd: Cmd, bench: Any) -> None:
    """Helm releases, cloud clusters, infrastructure."""
    texts = [t for t in cmd.words()[1:] if not t.startswith("-")]
    verb = texts[0] if texts else ""
    if cmd.name == "ansible-playbook":
        if not flag(cmd, "C", "--check", "--list-hosts", "--list-tasks", "--syntax-check"):
            bench.hit(ASK, "schedulers.cluster", "what the playbook does on which hosts cannot be seen", cmd)
        return
    denied, asked = _CLUSTER[cmd.name]
    if verb in ("jobs", "serve", "api", "app", "storage") and len(texts) > 1:
        verb = texts[1]
    if verb in denied or (verb == "delete" and cmd.name == "sky"):
        names = texts[texts.index(verb) + 1 :]
        if names and not flag(cmd, "a", "--all") and all(bench.ctx.clusters.get(n) for n in names):
            return
        bench.hit(
            DENY,
            "schedulers.foreign",
            f"{cmd.name} {verb} ends what is not proved to be this run's",
            cmd,
            targets=tuple(names[:1]),
        )
    elif verb in asked and "--dry-run" not in cmd.words():
        bench.hit(ASK, "schedulers.cluster", f"{cmd.name} {verb} changes shared infrastructure or costs money", cmd)
