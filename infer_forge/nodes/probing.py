"""A live probe of freed GPUs before the next claim: idle, healthy, and seen whole, or no probe."""

from __future__ import annotations

from infer_forge.base.errors import GateRefused, MissingPart, UsageFault
from infer_forge.base.gitstore import Changes, Refuse, Snapshot
from infer_forge.base.jsonio import sha256_of
from infer_forge.base.machine.looking import snapshot
from infer_forge.base.machine.model import GpuState, MachineState
from infer_forge.base.machine.processes import device_holders, sees_all_processes
from infer_forge.base.ownership import node_name
from infer_forge.nodes.model import GpuRef, Policy, Probe, encode, short_id
from infer_forge.nodes.registry import CLAIMS, Registry, author, holder, node_path


def verify(
    registry: Registry,
    node: str,
    gpus: list[GpuRef] | None = None,
    *,
    all_visible: bool | None = None,
    source: str = "auto",
) -> Probe:
    """Look at a node's GPUs now, and record the probe that a new claim can stand on.

    Args:
        gpus: which; None: all that were held and not probed since, or else all of the node.

    Raises:
        MissingPart: this is another machine, or its GPUs cannot be seen.
        GateRefused: a GPU is in use, unhealthy, or not known well enough; all reasons are told.
    """
    if node != node_name():
        raise MissingPart(
            f"a probe looks at the machine itself; this one is {node_name()}",
            where=node,
            next_step=f"on {node}: infer-forge node verify {node}",
        )
    registry.store.refresh(CLAIMS)
    policy = registry.policy()
    visible = sees_all_processes() if all_visible is None else all_visible
    state = snapshot(source, all_visible=visible)
    if state.gpus is None:
        raise MissingPart(f"no GPU of this machine can be seen: {'; '.join(state.errors)}", where=node)
    wanted = gpus or registry.node(node).unverified or [GpuRef(index=g.index, uuid=g.uuid) for g in state.gpus]
    found = [_pick(state, ref) for ref in wanted]
    faults = [*state.errors, *(f for gpu in found for f in faults_of(gpu, policy))]
    faults += _holder_faults(found, all_visible)
    if faults:
        raise GateRefused(
            f"node {node} is not free: {'; '.join(faults[:4])}"
            + (f"; and {len(faults) - 4} more" if len(faults) > 4 else ""),
            next_step="wait for it, or mark it: infer-forge node mark NODE --unhealthy --reason ..",
        )
    refs = [GpuRef(index=g.index, uuid=ref.uuid or g.uuid) for ref, g in zip(wanted, found, strict=True)]
    made: list[Probe] = []

    def decide(now_snapshot: Snapshot) -> Changes | Refuse:
        record = registry.node(node, now_snapshot)
        if record.mark:
            return Refuse(f"node {node} is marked {record.mark.state}: {record.mark.reason}")
        for held in record.claims:
            if any(r.same(h) for r in refs for h in held.gpus):
                return Refuse(f"GPUs of {node} are held by claim {held.claim_id}", next_step="infer-forge node status")
        probe = Probe(
            probe_id=short_id(),
            gpus=refs,
            epoch=record.last_epoch,
            at_wall=state.t_wall,
            expires_at_wall=state.t_wall + policy.reuse_ttl_s,
            by=holder(),
            source=state.source,
            sample_sha256=sha256_of(state.to_json()),
        )
        made.append(probe)
        record.probe = probe
        return Changes(
            put={node_path(node): encode(record)},
            trailers={"Event": "probe", "Node": node, "Probe": probe.probe_id, "Epoch": str(probe.epoch)},
        )

    registry.store.update(CLAIMS, decide, f"probe {node}: idle and healthy", author=author())
    return made[-1]


def faults_of(gpu: GpuState, policy: Policy) -> list[str]:
    """Why a GPU does not count as free and healthy now; empty: it does. What is not known is a fault.

    One sample can show use, and cannot show idleness over time: the window did that; the probe looks for what came since.
    """
    label, idle, faults = f"GPU {gpu.index}", policy.idle, list[str]()
    for name in ("util_gpu_pct", "mem_used_mib", "procs"):
        if getattr(gpu, name) is None:
            faults.append(f"{label}: {name} is not known")
    if gpu.mig:
        faults.append(f"{label} is cut into MIG slices: its use cannot be seen")
    if gpu.util_gpu_pct is not None and gpu.util_gpu_pct > idle.util_pct:
        faults.append(f"{label} works ({gpu.util_gpu_pct:.0f} %)")
    if gpu.procs:
        faults.append(f"{label}: {len(gpu.procs)} processes use it")
    if gpu.mem_used_mib is not None and gpu.mem_used_mib > idle.mem_used_mib:
        faults.append(f"{label}: {gpu.mem_used_mib} MiB are in use")
    limit = idle.power_limit_w(gpu)
    if gpu.power_w is not None and limit is not None and gpu.power_w > limit:
        faults.append(f"{label} draws {gpu.power_w:.0f} W (idle is up to {limit:.0f} W)")
    xids = sorted(set(gpu.xid or ()) - set(policy.application_xids))
    if xids:
        faults.append(f"{label}: Xid {', '.join(map(str, xids))} in the kernel log")
    if gpu.recovery_action not in (None, "none"):
        faults.append(f"{label}: the driver asks for {gpu.recovery_action}")
    if gpu.ecc_uncorrected:
        faults.append(f"{label}: {gpu.ecc_uncorrected} uncorrected ECC errors")
    return faults


def _holder_faults(gpus: list[GpuState], visible: bool | None) -> list[str]:
    holders = device_holders(all_visible=visible)
    if holders is None:
        return ["not every process of the node can be seen from here"]
    minors = {g.minor for g in gpus}
    return [
        f"process {h.id} holds a GPU device open"
        for h in holders
        if h.minors is None or None in minors or minors & set(h.minors)
    ]


def _pick(state: MachineState, ref: GpuRef) -> GpuState:
    for gpu in state.gpus or ():
        if (ref.uuid and (gpu.uuid == ref.uuid or any(m.uuid == ref.uuid for m in gpu.mig_devices))) or (
            ref.index is not None and ref.index == gpu.index and (not ref.uuid or ref.is_slice or gpu.uuid is None)
        ):
            return gpu
    raise UsageFault(f"this machine has no GPU {ref}", where=state.node)
