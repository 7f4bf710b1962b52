"""The decision tree: hardware first, then hangs without an earlier CUDA error, then precise evidence, then the async rest.

Gates (CR8 of the method): nothing surfaced-only names a culprit; a sanitizer that never ran or a zero under the caching
allocator is no evidence; a blocking run that did not crash is inconclusive; after a sticky error everything later in that
process is a consequence; hardware and driver Xids end the debugging of code.
"""

from __future__ import annotations

from typing import Any

from infer_forge.crash import names, precise, signatures
from infer_forge.crash.calls import merged
from infer_forge.crash.hangs import judge_hang
from infer_forge.crash.model import CallLog, Context, Event, Suspect, Verdict
from infer_forge.crash.scan import Evidence
from infer_forge.crash.timeline import is_cascade, is_sticky, signature_of

_SETUP = ("build", "config")
_TOOL = ("racecheck_hazard", "synccheck_barrier", "initcheck_kernel", "initcheck_host_api")
_NOT_ROOT = ("sanitizer_api_error",)
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


class Judge:
    """One judgement over ordered events."""

    def __init__(
        self, evidence: Evidence, events: list[Event], context: Context, flight: dict[str, Any] | None
    ) -> None:
        """Take what was found; `flight` is the analysis of flight-recorder dumps."""
        self.evidence = evidence
        self.events = events
        self.context = context
        self.flight = flight
        self.verdict = Verdict()
        self.root: Event | None = None

    def decide(self) -> Verdict:
        """Fill the verdict."""
        v = self.verdict
        self._conditions()
        roots = self._roots()
        stop = self._hardware(roots)
        if not stop:
            self._software(roots)
        self._count_cascade()
        self._not_evidence()
        self._missing()
        v.suspects = v.suspects[:3]
        v.missing_inputs = list(dict.fromkeys(v.missing_inputs))
        v.contradictory = list(dict.fromkeys(v.contradictory))
        v.not_evidence = list(dict.fromkeys(v.not_evidence))
        return v

    def has(self, sig: str) -> bool:
        """Whether an event of this signature was seen."""
        return any(e.sig == sig for e in self.events)

    def _conditions(self) -> None:
        """What the log itself states about the run, where the user did not."""
        c = self.context
        env = self.evidence.env
        if c.launch_blocking is None and (self.has("blocking_on") or env.get("CUDA_LAUNCH_BLOCKING") == "1"):
            c.launch_blocking = True
        if c.graphs is None and self.has("graphs_off"):
            c.graphs = False
        if c.caching_allocator is None and (
            self.has("caching_off") or env.get("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1"
        ):
            c.caching_allocator = False
        if c.launch_blocking and self.has("async_notice"):
            self.verdict.contradictory.append(
                "launch blocking is stated, but PyTorch prints its asynchronous warning, which it leaves out then: another process, or the variable did not reach it"
            )

    def _roots(self) -> list[Event]:
        """Possible first causes, earliest first."""
        return [
            e for e in self.events
            if e.group in ("cuda", "build", "oom", "config", "hang", "host", "other", "python", "hardware") and not is_cascade(e) and e.sig not in _NOT_ROOT
        ]  # fmt: skip

    # --- hardware -------------------------------------------------------------------------------------------------
    def _hardware(self, roots: list[Event]) -> bool:
        stops = set(signatures.data()["stop_xids"])
        found = [e for e in roots if e.facts.get("xid") in stops or e.sig == "ecc"]
        if not found:
            return False
        v = self.verdict
        worst = found[0]
        same = [e for e in roots if e.source == "kernel_log" and e.facts.get("pci") == worst.facts.get("pci")]
        first = min([*same, worst], key=lambda e: e.order)
        self._take(first)
        v.certainty = "proven" if first is worst else "bounded"
        v.cuda_crash = False if first is worst else None
        v.meaning = f"{v.meaning}; {self._meaning(worst)}" if first is not worst else v.meaning
        v.device = {"pci": worst.facts.get("pci"), "index": None, "sm": first.facts.get("sm")}
        v.secondary = list(dict.fromkeys(e.sig for e in found if e is not first))
        host = self.context.host or worst.origin.host or "NODE"
        reason = f"Xid {worst.facts['xid']} on {worst.facts.get('pci')}" if "xid" in worst.facts else worst.text[:80]
        v.hardware = {
            "stop_code_debugging": True,
            "xids": sorted({e.facts["xid"] for e in found if "xid" in e.facts}),
            "pci": worst.facts.get("pci"),
            "host": host,
        }
        v.step = "node_mark"
        v.step_words = {"host": host, "reason": reason, "evidence": worst.ref}
        if host == "NODE":
            v.missing_inputs.append("the host's name: put it in place of NODE in the command")
        self._rank_by_pid(first)
        if first is not worst:
            v.contradictory.append(
                f"Xid {first.facts.get('xid')} came first and is the application's; Xid {worst.facts.get('xid')} after it still takes the GPU out of use until it is reset"
            )
        return True

    def _rank_by_pid(self, event: Event) -> None:
        pid = event.facts.get("pid")
        if not isinstance(pid, int):
            return
        for origin in self.evidence.streams.values():
            if origin.pid == pid and (origin.rank is not None or origin.label):
                self.verdict.rank = origin.rank if origin.rank is not None else origin.label

    # --- software -------------------------------------------------------------------------------------------------
    def _software(self, roots: list[Event]) -> None:
        logs = merged(self.evidence.calls.logs)
        named = precise.best(roots)
        first = self._first(roots)
        if named is not None:
            self._precise(named, roots)
        elif first is None:
            self._nothing(roots, logs)
        elif first.group == "hang":
            self._hang(first, roots)
        elif first.sig in _TOOL:
            self._tool_record(first)
        elif first.group == "cuda" and first.source != "kernel_log":
            self._async(first, roots, logs)
        else:
            self._plain(first, logs)

    def _first(self, roots: list[Event]) -> Event | None:
        """The earliest cause, after what is known to be survived, wrapped or secondary is put behind."""
        solid = [
            e for e in roots if e.group != "python" and not _wraps(e) and e.sig not in _TOOL and not self._minor(e)
        ]
        if any(e.group == "cuda" and e.source != "kernel_log" for e in solid):
            solid = [e for e in solid if e.source != "kernel_log"]  # the driver's note of the same fault says less
        fatal = [e for e in solid if e.group in ("cuda", "hardware")]
        first = solid[0] if solid else None
        if first is not None and first.group in ("oom", "build", "other"):
            later = [e for e in fatal if is_sticky(e) and e.order > first.order]
            survived = first.origin.process == later[0].origin.process and _gap(first, later[0]) > 5 if later else False
            if later and (first.group in ("build", "other") or survived):
                first = later[0]
        if first is not None and first.sig == "cublas_wrapped":
            close = [
                e
                for e in solid
                if e.origin.process == first.origin.process
                and (is_sticky(e) or e.group == "oom")
                and abs(_gap(first, e)) < 5
            ]
            first = close[0] if close else first
        if first is not None and first.group == "hang":
            first = self._cause_of_hang(first, roots)
        if first is None:
            wrapped = [e for e in roots if _wraps(e)]
            tool = [e for e in roots if e.sig in _TOOL]
            minor = [e for e in roots if e.group != "python" and self._minor(e)]
            python = [e for e in roots if e.group == "python"]
            python = [e for e in python if e.sig != "traceback_cut"] or python
            first = next(iter(wrapped or tool or minor or python), None)
        return first

    def _minor(self, event: Event) -> bool:
        """Kernel-log notes that end nothing by themselves (row remapped, single-bit rate, unknown numbers)."""
        return event.source == "kernel_log" and (
            event.facts.get("kind") == "unknown" or signatures.xid(int(event.facts["xid"])).get("severity") == "mark"
        )

    def _cause_of_hang(self, hang: Event, roots: list[Event]) -> Event:
        """A rank that died of something else before the others timed out; or an absurd allocation beside the timeout."""
        waiting = {e.origin.process for e in roots if e.group == "hang"}
        for event in roots:
            if event.sig == "oom" and _absurd(event):
                return event
        for event in roots:
            if (
                event.group == "python"
                and event.order < hang.order
                and event.origin.process not in waiting
                and event.rank is not None
                and event.sig != "traceback_cut"
            ):
                return event
        return hang

    def _take(self, event: Event) -> None:
        """Make an event the first one, with class, meaning, step, rank."""
        v = self.verdict
        self.root = event
        found = signature_of(event)
        v.cls = found.cls if found else event.sig
        v.meaning = self._meaning(event)
        v.first_event = event
        v.rank = event.rank
        v.step = found.step if found and found.step else _STEPS.get(event.sig, v.step)
        v.step_words.setdefault("file", event.origin.path)
        v.facts |= {k: x for k, x in event.facts.items() if k not in ("code", "chained")}
        if event.count > 1:
            v.facts["repeats"] = event.count

    def _meaning(self, event: Event) -> str:
        if "xid" in event.facts:
            return f"Xid {event.facts['xid']} ({event.facts.get('mnemonic') or 'unknown'}): {signatures.xid(event.facts['xid'])['meaning']}"
        found = signature_of(event)
        return found.meaning if found else MEANINGS.get(event.sig, "")

    def _surfaced(self, event: Event) -> None:
        """Where the error showed itself: never a culprit."""
        where: dict[str, Any] = {"path": event.origin.path, "line_no": event.line_no, "text": event.text[:300]}
        if event.frames:
            file, line, function = event.frames[-1]
            where |= {"file": file, "line": line, "function": function}
            own = next(
                (
                    f
                    for f in reversed(event.frames)
                    if "site-packages/torch" not in f[0] and "dist-packages/torch" not in f[0]
                ),
                None,
            )
            if own is not None and own != event.frames[-1]:
                where["own_frame"] = {"file": own[0], "line": own[1], "function": own[2]}
        self.verdict.surfaced_at = where

    def _precise(self, named: Event, roots: list[Event]) -> None:
        v = self.verdict
        self._take(named)
        v.cuda_crash = True
        v.cls = named.sig
        precise.name_kernel(v, named)
        if v.kernel:
            v.step_words["kernel"] = v.kernel
        if v.rank is None:
            self._rank_by_origin_pid(named)
        blamed = next((e for e in roots if e is not named and e.group == "cuda" and e.frames), None)
        if blamed is not None:
            self._surfaced(blamed)
            shown = blamed.frames[-1]
            v.contradictory.append(
                f"the Python frame {shown[2]} ({shown[0]}:{shown[1]}) is where the error surfaced; the record names {v.kernel or 'another place'}"
            )
        others = {
            str(e.facts.get("kernel_short"))
            for e in roots
            if e.sig in ("ima_precise_sanitizer", "ima_coredump")
            and e is not named
            and e.facts.get("kernel_short")
            and _clean(e)
        } - {str(v.kernel)}
        if others and named.source != "sanitizer":
            v.contradictory.append(f"other records name {', '.join(sorted(others)[:3])}: the earliest one counts")
        if v.location and v.location["file"]:
            v.step = "read_kernel" if named.sig != "device_assert" else "ids"
            v.step_words |= {"file": str(v.location["file"]), "line": str(v.location["line"])}
        elif named.sig == "ima_coredump":
            v.step = "cuda_gdb" if named.facts.get("file") else "lineinfo"
            v.step_words["file"] = str(named.facts.get("file", named.origin.path))
        elif named.sig != "device_assert":
            v.step = "lineinfo"
            v.step_words["tool"] = "memcheck"
        if named.sig == "ima_precise_sanitizer" and named.facts.get("access") == "write" and self.has("expandable"):
            v.certainty = "bounded"
            v.contradictory.append(
                "expandable segments were on: memcheck is known to report invalid writes of bulk copies that are none"
            )
        _at_shutdown(v, named, self.events)

    def _rank_by_origin_pid(self, event: Event) -> None:
        for origin in self.evidence.streams.values():
            if (
                event.origin.pid is not None
                and origin.pid == event.origin.pid
                and (origin.rank is not None or origin.label)
            ):
                self.verdict.rank = origin.rank if origin.rank is not None else origin.label

    def _tool_record(self, event: Event) -> None:
        """racecheck, synccheck, initcheck: proven findings, no proof of a crash's cause."""
        v = self.verdict
        self._take(event)
        v.certainty = "proven"
        v.cuda_crash = None
        kernel = event.facts.get("kernel")
        if event.sig == "initcheck_host_api":
            v.api = str(event.facts.get("by", "")).split(" ")[0] or None
            v.facts["not_a_kernel"] = True
        elif kernel:
            v.kernel = str(event.facts.get("kernel_short"))
            v.step_words |= {"kernel": v.kernel, "tool": str(event.facts.get("tool"))}
            if event.facts.get("file") and event.facts.get("line"):
                v.location = {"file": event.facts["file"], "line": int(event.facts["line"])}
        if event.sig == "initcheck_kernel" and any(w in str(kernel) for w in signatures.data()["look_back_kernels"]):
            v.certainty = "unknown"
            v.contradictory.append(
                "scan and reduce kernels with decoupled look-back read flags before they are written: a known false positive of initcheck"
            )

    def _async(self, first: Event, roots: list[Event], logs: list[CallLog]) -> None:
        v = self.verdict
        root, tied = _root_process(first, roots)
        self._take(root)
        v.cuda_crash = True
        v.certainty = "surfaced_only"
        v.cls = _refined(v.cls, root)
        if tied:
            v.rank = None
            ranks = ", ".join(str(e.rank) for e in tied)
            v.missing_inputs.append(f"finer time stamps: ranks {ranks} report at the same moment")
            v.suspects += [
                Suspect(f"rank {e.rank}", "reports a CUDA error at the same moment as others", "low", [e.ref])
                for e in tied[:3]
            ]
        self._surfaced(root)
        self._device_by_xid(root)
        replay = v.cls == "ima_graph_replay" or any(names.is_replay(f"{f[0]} {f[2]}") for f in root.frames[-4:])
        found = signature_of(root)
        if replay and v.step == "coredump":
            v.step = "coredump_graph"
        if _wraps(root):
            v.missing_inputs.append("the log of the worker that failed: its own error stands above this wrapper")
        elif root.sig == "device_assert_surfaced":
            v.cls = "device_assert"
            v.missing_inputs.append("the assertion's text: it goes to stderr of the process, before this line")
        log = precise.log_of(logs, root.origin)
        bounded = log is not None and precise.bound_by_calls(v, log, died=True)
        if not bounded and found is not None and found.sync:
            self._synchronous(root)
        elif not bounded and self.context.launch_blocking and root.frames:
            self._blocking(root, replay)
        if not bounded and v.certainty == "surfaced_only" and self.evidence.gpucores:
            v.step, v.step_words["file"] = "cuda_gdb", self.evidence.gpucores[0]
            v.missing_inputs.append("a cuda-gdb session on the core file that lies in the input")
        if v.certainty == "surfaced_only":
            v.kernel = v.api = v.location = None
        _at_shutdown(v, root, self.events)

    def _device_by_xid(self, root: Event) -> None:
        """The GPU and engine out of the driver's note, when it is of the same process or the only one."""
        v = self.verdict
        notes = [e for e in self.events if e.source == "kernel_log" and e.facts.get("kind") == "application"]
        own = [e for e in notes if e.facts.get("pid") is not None and e.facts["pid"] == root.origin.pid]
        gpus = {e.facts.get("pci") for e in notes}
        note = own[0] if own else notes[0] if len(gpus) == 1 else None
        if note is None:
            return
        v.device = {"pci": note.facts.get("pci"), "index": None, "sm": note.facts.get("sm")}
        v.facts |= {k: note.facts[k] for k in ("engine", "fault", "access", "address") if k in note.facts}
        if str(note.facts.get("engine", "")).startswith("CE"):
            v.facts["reading"] = f"engine {note.facts['engine']} is a copy engine: a copy, not a kernel"

    def _synchronous(self, root: Event) -> None:
        """Launch errors are returned by the launch itself: the stack is true."""
        v = self.verdict
        if root.frames:
            file, line, function = root.frames[-1]
            v.certainty, v.api, v.location = "bounded", function, {"file": file, "line": line}

    def _blocking(self, root: Event, replay: bool) -> None:
        v = self.verdict
        v.certainty = "bounded"
        file, line, function = root.frames[-1]
        if replay:
            v.api = "CUDA graph replay"
            v.facts["boundary"] = "a blocking launch of a graph narrows the fault to the graph, not to a kernel in it"
        else:
            v.api, v.location = function, {"file": file, "line": line}

    def _hang(self, first: Event, roots: list[Event]) -> None:
        v = self.verdict
        self._take(first)
        v.cuda_crash = False
        judge_hang(
            v,
            [e for e in self.events if e.group == "hang" or e.sig == "nccl_status"],
            self.evidence.stacks,
            self.flight,
            self.context,
        )
        later = [e for e in roots if e.group == "cuda" and e.order > first.order]
        if later:
            v.secondary = list(dict.fromkeys([*v.secondary, *(e.sig for e in later)]))[:6]

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
        elif first.sig == "traceback_cut":
            v.certainty = "unknown"
            v.cuda_crash = None
            v.missing_inputs.append("the rest of the traceback: its last line names the error")
            self._surfaced(first)
        elif first.group == "host" and not (signature_of(first) or _NOTHING).precise:
            v.certainty = "surfaced_only"
        if first.group == "host" and isinstance(first.facts.get("pid"), str):
            first.facts["pid"] = int(first.facts["pid"])
            self._rank_by_pid(first)
        if first.frames and v.certainty == "proven" and first.group in ("python", "oom", "config", "build"):
            own = _own_frame(first)
            v.location = {"file": own[0], "line": own[1]}
            v.api = own[2]

    def _oom(self, first: Event) -> None:
        v = self.verdict
        if first.facts.get("gpu") is not None:
            v.device = {"index": int(first.facts["gpu"]), "pci": None, "sm": None}
        if not _absurd(first):
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
                f"rank {v.rank}: {_own_frame(first)[2] if first.frames else 'allocation'}",
                "the size came from data that another rank sent",
                "medium",
                [first.ref],
            )
        )
        if hang:
            v.secondary.append("nccl_desync")
            v.meaning += f"; rank {', '.join(str(r) for r in sorted({str(e.rank) for e in hang}))} waits in {hang[0].facts.get('op', 'a collective')} {hang[0].facts.get('seq', '')}: the ranks are out of step"
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
                f"the same fault words on {len(places)} SMs: one wrong address computed by one kernel, not broken hardware"
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

    # --- what does not count, and what is missing -------------------------------------------------------------------
    def _count_cascade(self) -> None:
        """Everything that follows from the root: consequences by signature, later errors, others' watchdogs."""
        root = self.root
        total = 0
        for event in self.events:
            if event is root:
                continue
            later = (
                root is not None
                and event.group in ("cuda", "hang", "python", "oom", "other", "host")
                and event.order > root.order
            )
            same = (
                root is not None
                and event.sig == root.sig
                and event.facts.get("condition") == root.facts.get("condition")
                and event.origin.process == root.origin.process
            )
            if is_cascade(event) or (later and not same):
                total += event.count
        self.verdict.cascade_count = total
        secondary = [
            e.sig
            for e in self.events
            if e is not root and e.group not in ("info", "cascade", "python") and e.sig != (root.sig if root else "")
        ]
        v = self.verdict
        v.secondary = [s for s in dict.fromkeys([*v.secondary, *secondary]) if s != v.cls][:8]

    def _not_evidence(self) -> None:
        v = self.verdict
        for event in self.events:
            if event.sig == "sanitizer_never_ran":
                v.not_evidence.append(
                    f"{event.ref}: the sanitizer never ran (the program ended before its first CUDA call): no clean pass"
                )
            elif (
                event.sig == "sanitizer_summary"
                and str(event.facts.get("errors")) == "0"
                and self.context.caching_allocator is not False
            ):
                v.not_evidence.append(
                    f"{event.ref}: zero errors while the caching allocator was (or may have been) on hide out-of-bounds accesses"
                )
            elif event.sig == "sanitizer_internal":
                v.not_evidence.append(f"{event.ref}: the sanitizer had an internal error and may have missed errors")
            elif event.sig == "skip_abort":
                v.not_evidence.append(f"{event.ref}: skip_abort can swallow the fault: a run with it proves nothing")
            elif event.sig == "coredump_no_exception":
                v.not_evidence.append(
                    f"{event.ref}: this dump holds no exception"
                    + (" and stands in a collective" if names.is_collective(str(event.facts.get("kernel", ""))) else "")
                    + ": a hang, or collateral of another rank"
                )
            elif event.sig == "watchdog_observed":
                v.not_evidence.append(f"{event.ref}: NCCL's watchdog only observed the CUDA error")
            elif event.sig == "xid_45":
                v.not_evidence.append(f"{event.ref}: Xid 45 is clean-up, never first")
            elif event.sig == "ima_capture":
                v.not_evidence.append("the printed possible solutions are generic: they are not the cause")
        if self.context.launch_blocking and v.cuda_crash is not True:
            v.not_evidence.append("a blocking run that does not crash changes the timing: inconclusive")

    def _missing(self) -> None:
        v = self.verdict
        if v.cuda_crash and not any(e.source == "kernel_log" for e in self.events):
            v.missing_inputs.append("the kernel log (`dmesg -T`): Xids tell application, hardware and driver apart")
        if v.certainty == "surfaced_only" and v.cuda_crash:
            v.missing_inputs.append("a GPU core dump or a sanitizer record: nothing here names the kernel")
        seen = {o.rank for o in self.evidence.streams.values() if o.rank is not None}
        world = self.context.world or (v.hang or {}).get("world")
        if world and seen and len(seen) < world:
            absent = [r for r in range(world) if r not in seen]
            v.missing_inputs.append(
                f"logs of ranks {', '.join(map(str, absent[:16]))}" + (" ..." if len(absent) > 16 else "")
            )


_STEPS = {
    "ima_precise_sanitizer": "lineinfo", "ima_coredump": "cuda_gdb", "racecheck_hazard": "barrier", "synccheck_barrier": "barrier",
    "initcheck_kernel": "data_source", "initcheck_host_api": "data_source", "python_exception": "config_line", "traceback_cut": "more_lines",
    "sanitizer_leak": "sanitize",
}  # fmt: skip
MEANINGS = {
    "ima_precise_sanitizer": "compute-sanitizer names the kernel, thread and address of a wrong access",
    "ima_coredump": "the driver's core dump names the kernel that faulted",
    "coredump_no_exception": "a core dump without an exception",
    "racecheck_hazard": "racecheck: two accesses to shared memory without a barrier between them",
    "synccheck_barrier": "synccheck: a barrier that not all threads reach, or a deadlock at one",
    "initcheck_kernel": "initcheck: a kernel reads memory that nothing wrote",
    "initcheck_host_api": "initcheck: a host API call reads memory that nothing wrote; no kernel is at fault",
    "python_exception": "a Python exception: synchronous, its stack is true",
    "traceback_cut": "a traceback without its last line: the error's name is missing",
    "sanitizer_leak": "device memory was not freed",
}
_NOTHING = signatures.Signature("", "", "", (), "", "", "", False, False, False, False, False, False, False, "", "")


def _wraps(event: Event) -> bool:
    found = signature_of(event)
    return bool(found and found.wraps)


def _gap(a: Event, b: Event) -> float:
    return b.time - a.time if a.time is not None and b.time is not None else 0.0


def _clean(event: Event) -> bool:
    return event.facts.get("kernel_short") not in (None, "", "None")


def _bytes(event: Event, name: str, unit: str) -> float | None:
    value = event.facts.get(name)
    return float(value) * _UNITS.get(str(event.facts.get(unit)), 0) if value else None


def _absurd(event: Event) -> bool:
    size, total = _bytes(event, "size", "unit"), _bytes(event, "total", "total_unit")
    limit = signatures.data()["limits"]["absurd_oom_ratio"]
    return size is not None and total is not None and size > total * limit


def _own_frame(event: Event) -> tuple[str, int, str]:
    """The innermost frame outside of torch, else the innermost."""
    return next((f for f in reversed(event.frames) if "-packages/torch/" not in f[0]), event.frames[-1])


def _is_victim(event: Event) -> bool:
    """Whether a CUDA error surfaced inside a collective: it waits for other ranks."""
    found = signature_of(event)
    return bool(found and found.collective) or any(
        names.is_collective(f[2]) or names.is_collective(f[0].rsplit("/", 1)[-1]) for f in event.frames[-3:]
    )


def _root_process(first: Event, roots: list[Event]) -> tuple[Event, list[Event]]:
    """The first CUDA error of the process that reported first; collectives' victims stand behind. Ties are told."""
    heads: dict[Any, Event] = {}
    for event in roots:
        if event.group == "cuda" and event.source == "log" and not _wraps(event) and event.sig != "cuda_unknown":
            heads.setdefault(event.origin.process, event)
    if not heads or first.sig == "cuda_unknown" or first.origin.process not in heads or _wraps(first):
        heads[first.origin.process] = first
    if first.order < heads[first.origin.process].order or not is_sticky(heads[first.origin.process]):
        heads[first.origin.process] = first
    named = [e for e in heads.values() if e.rank is not None or e.origin.pid is not None] or list(heads.values())
    sane = [e for e in named if not _is_victim(e)] or named
    root = min(sane, key=lambda e: e.order)
    for _ in range(1):
        unnamed = [
            e
            for e in heads.values()
            if e.rank is None and e.origin.pid is None and e.order < root.order and e.sig == root.sig
        ]
        if unnamed and root.frames and not unnamed[0].frames:
            break
    if root.time is None:
        tied = [
            e
            for e in sane
            if e is not root and e.time is None and e.origin.path != root.origin.path and e.rank is not None
        ]
    else:
        tied = [
            e for e in sane
            if e is not root
            and e.origin.path != root.origin.path
            and e.time is not None and e.rank is not None
            and (e.time == root.time or (e.origin.host != root.origin.host and e.origin.host is not None and root.origin.host is not None and abs(e.time - root.time) < 1))
        ]  # fmt: skip
    return root, [root, *tied] if tied else []


def _refined(cls: str, root: Event) -> str:
    """Graph replay and capture are classes of their own."""
    if cls != "ima_async":
        return cls
    tail = root.frames[-6:]
    code = " ".join(str(c) for c in root.facts.get("code", ()))
    if any("capture" in f[2].lower() for f in tail) and "replay" not in code:
        return "ima_capture"
    if (
        "replay()" in code
        or any("replay" in f[2].lower() for f in tail)
        or "currentStreamCaptureStatusMayInitCtx" in root.text
    ):
        return "ima_graph_replay"
    return cls


def _at_shutdown(v: Verdict, event: Event, events: list[Event]) -> None:
    stopped = next((e for e in events if e.sig == "shutdown" and e.order < event.order), None)
    if stopped is not None:
        v.contradictory.append(
            f"{stopped.ref}: the service was stopping before this fault; the exit of a peer gives false illegal accesses"
        )
