"""Causes that are no surfacing CUDA error: memory, build, configuration, host, Python, kernel log, or nothing at all."""

from __future__ import annotations

from typing import Any

from infer_forge.crash import precise
from infer_forge.crash.hangs import judge_hang
from infer_forge.crash.judgement import Judgement
from infer_forge.crash.model import CallLog, Event, Suspect
from infer_forge.crash.roots import is_absurd, own_frame
from infer_forge.crash.timeline import is_cascade, signature_of


class Plain(Judgement):
    """The branches without a surfacing CUDA error."""

    def _plain(self, first: Event, logs: list[CallLog]) -> None:
        """OOM, build, configuration, host, Python, ROCm, application Xids."""
        v = self.verdict
        self._take(first)
        v.certainty = "proven"
        v.cuda_crash = False
        if first.group == "oom":
            self._oom(first)
        elif first.source == "kernel_log":
            self._application_xid(first, logs)
        elif first.sig == "rocm_hsa":
            v.certainty = "surfaced_only"
        elif first.sig == "python_exception" and not first.frames:
            v.step = "more_lines"
        elif first.sig == "traceback_cut":
            v.certainty = "unknown"
            v.cuda_crash = None
            v.missing_inputs.append("the rest of the traceback: its last line names the error")
            self._surfaced(first)
        elif first.group == "host" and not _is_precise(first):
            v.certainty = "surfaced_only"
        if first.group == "host" and isinstance(first.facts.get("pid"), str):
            first.facts["pid"] = int(first.facts["pid"])
            self._rank_by_pid(first)
        if first.frames and v.certainty == "proven" and first.group in ("python", "oom", "config", "build"):
            own = own_frame(first)
            v.location = {"file": own[0], "line": own[1]}
            if v.step == "read_frame":
                v.step_words |= {"file": own[0], "line": str(own[1])}
            v.api = own[2]

    def _oom(self, first: Event) -> None:
        v = self.verdict
        if first.facts.get("gpu") is not None:
            v.device = {"index": int(first.facts["gpu"]), "pci": None, "sm": None}
        if not is_absurd(first):
            return
        v.cls = "oom_absurd"
        v.certainty = "surfaced_only"
        v.meaning = (
            "more than the GPU has at all: a corrupted size, or ranks that disagree on a collective; no sizing problem"
        )
        v.step = "flight_recorder"
        hang = [e for e in self.events if e.group == "hang"]
        self._surfaced(first)
        v.suspects.append(
            Suspect(
                f"rank {v.rank}: {own_frame(first)[2] if first.frames else 'allocation'}",
                "the size came from data that another rank sent",
                "medium",
                [first.ref],
            )
        )
        if hang:
            v.secondary.append("nccl_desync")
            v.meaning += (
                f"; rank {', '.join(str(r) for r in sorted({str(e.rank) for e in hang}))} waits in "
                f"{hang[0].facts.get('op', 'a collective')} {hang[0].facts.get('seq', '')}: the ranks are out of step"
            )
            judge_hang(
                v,
                [e for e in self.events if e.group == "hang" or e.sig == "nccl_status"],
                [],
                self.flight,
                self.context,
                keep_class=True,
            )
        v.missing_inputs.append("a flight-recorder dump of every rank")

    def _application_xid(self, first: Event, logs: list[CallLog]) -> None:
        v = self.verdict
        kind = first.facts.get("kind")
        v.device = {"pci": first.facts.get("pci"), "index": None, "sm": first.facts.get("sm")}
        self._rank_by_pid(first)
        if kind == "unknown":
            v.cls, v.certainty, v.cuda_crash = first.sig, "unknown", None
            v.step = "kernel_log"
            return
        if kind == "hardware":
            host = self.context.host or first.origin.host or "NODE"
            v.step, v.step_words = (
                "node_mark",
                {"host": host, "reason": f"Xid {first.facts['xid']}", "evidence": first.ref},
            )
            return
        v.cuda_crash = True
        v.certainty = "surfaced_only"
        v.step = "coredump"
        same = [e for e in self.events if e.sig == first.sig and e.facts.get("pci") == first.facts.get("pci")]
        places = list(dict.fromkeys(e.facts["sm"] for e in same if e.facts.get("sm")))
        addresses = {tuple(e.facts["esr"][1:]) for e in same if e.facts.get("esr")}
        if places:
            v.facts["sms"] = places
        if len(places) > 1 and len(addresses) == 1:
            v.facts["reading"] = (
                f"the same fault words on {len(places)} SMs: one wrong "
                f"address computed by one kernel, not broken hardware"
            )
        if str(first.facts.get("engine", "")).startswith("CE"):
            v.facts["reading"] = f"engine {first.facts['engine']} is a copy engine: a copy, not a kernel"
        v.missing_inputs.append("the log of the process: the kernel log names no kernel")
        log = precise.log_of(logs, None)
        if log is not None:
            precise.bound_by_calls(v, log, died=True)

    def _nothing(self, roots: list[Event], logs: list[CallLog]) -> None:
        """No cause line: call logs, core files, stacks or only consequences may still tell something."""
        v = self.verdict
        poisoned = [
            log
            for log in logs
            if log.poisoned is not None
            or log.last[-1].status in ("inputs_saved", "no_inputs")
            or (log.last[-1].raised and log.level >= 5)
        ]
        run = self.evidence.run or {}
        if run.get("signal") == "SIGKILL" or run.get("ended_by"):
            self._ended_from_outside(run, logs)
            return
        dead = [e for e in self.events if (s := signature_of(e)) is not None and s.death]
        if poisoned or (logs and dead):
            log = poisoned[0] if poisoned else logs[0]
            v.cls, v.cuda_crash = "poisoned_context", True
            v.meaning = "the kernel-API log shows where the CUDA context died; the error's own text is not in the input"
            v.certainty = "surfaced_only"
            v.rank = log.origin.rank if log.origin.rank is not None else log.origin.label
            v.step = "coredump"
            precise.bound_by_calls(v, log, died=True)
            v.missing_inputs.append("the process's own stderr")
        elif self.flight or self.evidence.stacks:
            v.cls, v.cuda_crash, v.step = "watchdog_hang", False, "pyspy"
            v.meaning = "stacks or flight-recorder dumps without an error: a hang"
            judge_hang(v, [], self.evidence.stacks, self.flight, self.context)
        elif collateral := [e for e in self.events if e.sig == "coredump_no_exception"]:
            self._take(collateral[0])
            v.cls, v.cuda_crash, v.certainty = "ima_collateral_rank", None, "surfaced_only"
            v.meaning = "a dump without an exception: taken in a hang, or of a rank that another one took along"
            v.step = "coredump"
            v.missing_inputs.append("the dump of the rank that faulted (its session has a line `CUDA Exception:`)")
        elif self.evidence.gpucores:
            v.cls, v.step, v.step_words = "coredump_unread", "cuda_gdb", {"file": self.evidence.gpucores[0]}
            v.meaning = "a GPU core file without a session that reads it"
        elif cascade := [e for e in self.events if is_cascade(e)]:
            self._take(next((e for e in cascade if e.sig in ("killed", "sigquit")), cascade[0]))
            v.cls = "killed_host" if (s := signature_of(cascade[0])) is not None and s.death else cascade[0].sig
            v.certainty = "unknown"
            v.meaning = "only consequences are in the input: who ended the process, or why, is not"
            noted = next((e for e in self.events if e.sig == "torchrun_first_failure"), None)
            if noted is not None:
                v.rank = noted.rank
                v.facts["exitcode"] = noted.facts.get("exitcode")
            v.missing_inputs.append("the log from before the first consequence, of every rank, and the kernel log")
        elif never := [e for e in self.events if e.sig == "sanitizer_never_ran"]:
            self._take(never[0])
            v.cls, v.step, v.certainty = "sanitizer_never_ran", "sanitize_again", "unknown"
            v.meaning = "the sanitizer never saw the program make a CUDA call: this is no clean pass"
        elif clean := [e for e in self.events if e.sig == "sanitizer_summary"]:
            self._take(clean[0])
            errors = str(clean[0].facts.get("errors")) != "0"
            v.cls, v.step, v.certainty = (
                "sanitizer_errors_unread" if errors else "sanitizer_clean",
                "sanitize",
                "unknown",
            )
            v.meaning = (
                "the sanitizer counts errors whose records are not in the input"
                if errors
                else "the sanitizer reports no error"
            )
        else:
            v.meaning = "nothing in the input shows a crash; that is not the same as no crash"

    def _ended_from_outside(self, run: dict[str, Any], logs: list[CallLog]) -> None:
        """SIGKILL, a time-out or our own end: the call that was open then did not fail."""
        v = self.verdict
        v.cls, v.certainty, v.step = "killed_host", "unknown", "dmesg"
        how = (
            f"the recorder ended it: {run['ended_by']}"
            if run.get("ended_by")
            else "SIGKILL from outside: the kernel's OOM killer, a parent, or a person"
        )
        v.meaning = f"the run did not crash by itself ({how})"
        if run.get("ended_by") == "timeout":
            v.cls, v.step = "watchdog_hang", "pyspy"
            v.step_words["pid"] = "PID_OF_EACH_RANK"
            judge_hang(v, [], self.evidence.stacks, self.flight, self.context)
        for log in logs[:3]:
            last = log.last[-1]
            state = "had come back" if last.returned or last.status == "completed" else "was open"
            v.suspects.append(
                Suspect(
                    last.api,
                    f"the last logged call; it {state} when the process was ended, which proves nothing",
                    "low",
                    [last.ref],
                )
            )
        v.first_event = next((e for e in self.events if e.source == "record"), None)


def _is_precise(event: Event) -> bool:
    found = signature_of(event)
    return bool(found and found.precise)
