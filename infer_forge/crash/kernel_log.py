"""Xids of the NVIDIA driver in a kernel log.

Form: `NVRM: Xid (PCI:0000:70:00): 13, pid=.., name=.., text`; older drivers leave `PCI:` and the process out.
"""

from __future__ import annotations

import re
from typing import Any

from infer_forge.crash import signatures
from infer_forge.crash.model import MAX_TEXT, Event, Line

ANCHORS = ("NVRM: Xid",)
GROUPS = {"application": "cuda", "hardware": "hardware", "driver": "hardware", "cascade": "cascade"}
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<number>\d+)(?:, pid="
    r"'?(?P<pid>\d+|<unknown>)'?)?(?:, name=(?P<name>[^,]+))?,? ?(?P<text>.*)$"
)
_SM = re.compile(r"on \(GPC (?P<gpc>\d+), TPC (?P<tpc>\d+), SM (?P<sm>\d+)\): (?P<what>.+)$")
_MMU = re.compile(
    r"MMU Fault: ENGINE (?P<engine>\S+)(?: \S+)* faulted @ (?P<address>0x[0-9"
    r"a-fA-F_]+)\. Fault is of type (?P<fault>\S+) ACCESS_TYPE_(?P<access>\w+)"
)
_ESR = re.compile(r"ESR (?P<words>(?:0x[0-9a-fA-F]+=0x[0-9a-fA-F]+ ?)+)")


def xid_event(line: Line) -> Event | None:
    """The event of an Xid line; None when it is none."""
    found = _XID.search(line.text)
    if found is None:
        return None
    number = int(found["number"])
    known = signatures.xid(number)
    facts: dict[str, Any] = {
        "xid": number,
        "pci": found["pci"],
        "kind": known["kind"],
        "mnemonic": known["mnemonic"],
        "text": found["text"][:200],
    }
    if found["pid"] and found["pid"].isdigit():
        facts["pid"] = int(found["pid"])
    if found["name"]:
        facts["name"] = found["name"].strip("'")
    if sm := _SM.search(found["text"]):
        facts.update(sm=f"GPC{sm['gpc']}/TPC{sm['tpc']}/SM{sm['sm']}", what=sm["what"].strip())
    if mmu := _MMU.search(found["text"]):
        facts.update(
            engine=mmu["engine"], address=mmu["address"].replace("_", ""), fault=mmu["fault"], access=mmu["access"]
        )
    if esr := _ESR.search(found["text"]):
        facts["esr"] = [w.split("=")[1] for w in esr["words"].split()]
    group = GROUPS.get(known["kind"], "other")
    sig = f"xid_{number}"
    return Event(sig, group, line.no, line.text[:MAX_TEXT], line.origin, line.time, line.stamp, "kernel_log", facts)
