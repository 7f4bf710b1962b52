"""The decision tree: hardware first, then hangs without an earlier CUDA error, then precise evidence, then the async rest.

Gates (CR8 of the method): nothing surfaced-only names a culprit; a sanitizer that never ran or a zero under the caching
allocator is no evidence; a blocking run that did not crash is inconclusive; after a sticky error everything later in that
process is a consequence; hardware and driver Xids end the debugging of code.
"""

from __future__ import annotations

from infer_forge.crash import names, precise, signatures
from infer_forge.crash.accounting import at_shutdown, count_consequences, list_missing, list_no_evidence
from infer_forge.crash.calls import merged
from infer_forge.crash.hangs import judge_hang
from infer_forge.crash.judgement import MEANINGS
from infer_forge.crash.model import CallLog, Event, Suspect, Verdict
from infer_forge.crash.plain import Plain
from infer_forge.crash.roots import TOOL_RECORDS, first_cause, possible_roots, refined, root_process, wraps
from infer_forge.crash.timeline import signature_of

__all__ = ["MEANINGS", "Judge"]


class Judge(Plain):
    """One judgement over ordered events."""

    def decide(self) -> Verdict:
        """Fill the verdict."""
        v = self.verdict
        self._conditions()
        roots = possible_roots(self.events)
        stop = self._hardware(roots)
        if not stop:
            self._software(roots)
        count_consequences(v, self.root, self.events)
        list_no_evidence(v, self.events, self.context)
        list_missing(v, self.events, self.evidence, self.context)
        v.suspects = v.suspects[:3]
        v.missing_inputs = list(dict.fromkeys(v.missing_inputs))
        v.contradictory = list(dict.fromkeys(v.contradictory))
        v.not_evidence = list(dict.fromkeys(v.not_evidence))
        return v

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
                "launch blocking is stated, but PyTorch prints its asynchronous warning, "
                "which it leaves out then: another process, or the variable did not reach it"
            )

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
                f"Xid {first.facts.get('xid')} came first and is the application's; Xid "
                f"{worst.facts.get('xid')} after it still takes the GPU out of use until it is reset"
            )
        return True

    def _software(self, roots: list[Event]) -> None:
        logs = merged(self.evidence.calls.logs)
        named = precise.best(roots)
        first = first_cause(roots)
        if named is not None:
            self._precise(named, roots)
        elif first is None:
            self._nothing(roots, logs)
        elif first.group == "hang":
            self._hang(first, roots)
        elif first.sig in TOOL_RECORDS:
            self._tool_record(first)
        elif first.group == "cuda" and first.source != "kernel_log":
            self._async(first, roots, logs)
        else:
            self._plain(first, logs)

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
        if v.rank is None and named.sig == "device_assert":
            reporting = {e.rank for e in roots if e.sig == "device_assert_surfaced" and e.rank is not None}
            v.rank = reporting.pop() if len(reporting) == 1 else None  # an assert is seen by its own process only
        blamed = next((e for e in roots if e is not named and e.group == "cuda" and e.frames), None)
        if blamed is not None:
            self._surfaced(blamed)
            shown = blamed.frames[-1]
            v.contradictory.append(
                f"the Python frame {shown[2]} ({shown[0]}:{shown[1]}) is where "
                f"the error surfaced; the record names {v.kernel or 'another place'}"
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
        at_shutdown(v, named, self.events)

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
                "scan and reduce kernels with decoupled look-back read flags "
                "before they are written: a known false positive of initcheck"
            )

    def _async(self, first: Event, roots: list[Event], logs: list[CallLog]) -> None:
        v = self.verdict
        root, tied = root_process(first, roots)
        noted = next((e.origin.rank for e in self.events if e.sig == "torchrun_first_failure"), None)
        if tied and (agreed := next((e for e in tied if e.rank == noted), None)) is not None:
            root, tied = agreed, []
            self.verdict.facts["tie_broken_by"] = "torchrun's first observed failure"
        self._take(root)
        v.cuda_crash = True
        v.certainty = "surfaced_only"
        v.cls = refined(v.cls, root)
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
        if wraps(root):
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
        at_shutdown(v, root, self.events)

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


def _clean(event: Event) -> bool:
    return event.facts.get("kernel_short") not in (None, "", "None")
