"""Tools of the nodes room: claims on GPU nodes, observations, clean-up, live probes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infer_forge_mcp.toolkit import Answer, tool

Node = Annotated[str, Field(description="Its name in the registry.", max_length=128)]
ClaimId = Annotated[str, Field(description="Id of the claim, or its first 8 or more characters.", max_length=64)]
Limit = Annotated[int | None, Field(ge=1, le=500, description="Claims at the most, 1 to 500. Default: what fits.")]
Cursor = Annotated[str | None, Field(description="next_cursor to go on.")]
Epoch = Annotated[int, Field(ge=1, description="Epoch of the claim, from 1.")]


@tool(
    toolset="nodes",
    default=True,
    read_only=False,
    idempotent=False,
    open_world=True,
    further=("run_id", "runtimes", "hours"),
)
def claim_node(
    node: Node,
    gpus: Annotated[str, Field(description="Such as 0,1 or 0-3, or UUIDs.", max_length=400)],
    task: Annotated[str, Field(description="Its id or name.", max_length=200)],
    purpose: Annotated[str, Field(description="What will run.", max_length=200)],
    run_id: Annotated[
        str | None, Field(description="Run whose guard context gets the claim. Default: this one.")
    ] = None,
    runtimes: Annotated[
        list[str] | None,
        Field(description="What will use them: pid:N, container:ID, slurm:JOB, k8s:POD-UID. Default: none."),
    ] = None,
    hours: Annotated[float | None, Field(gt=0, description="When others may ask about it. Frees nothing.")] = None,
) -> Answer:
    """Use it before anything touches a GPU of a node: exactly one claimant gets the GPUs. The others are refused with
    the holder. Gives claim id and epoch; carry both with all evidence. Freed GPUs need verify_node first. While the
    hub is away it is an intent, which is no claim."""
    from infer_forge.nodes import verbs

    return verbs.claim(
        node, gpus, task=task, purpose=purpose, run_id=run_id, agent="mcp", runtimes=runtimes or (), hours=hours
    )


@tool(toolset="nodes", read_only=False, destructive=True, open_world=True)
def release_node(
    claim_id: ClaimId,
    epoch: Epoch,
    reason: Annotated[str, Field(description="Why it ends. Default: done.", max_length=200)] = "done",
) -> Answer:
    """Use it when the work on claimed GPUs is over and its processes have ended: ends a claim of this session. Refused for
    another's claim or epoch. It stops no process."""
    from infer_forge.nodes import verbs

    return verbs.release(claim_id, reason=reason, epoch=epoch)


@tool(toolset="nodes", default=True, read_only=True, open_world=True, paged="claims", further=("limit",))
def read_node_status(
    node: Annotated[str | None, Field(description="Default: all.", max_length=128)] = None,
    claim_id: Annotated[str | None, Field(description="With epoch: does evidence still stand?")] = None,
    epoch: Annotated[int | None, Field(ge=1, description="Of the evidence.")] = None,
    limit: Limit = None,  # noqa: ARG001 - the cap pages
    cursor: Cursor = None,  # noqa: ARG001
) -> Answer:
    """Use it to see who holds which GPUs, and whether a claim still stands. Each claim's state with its reason, free
    and marked nodes, and intents that are no claims; with claim_id and epoch: verdict current, fenced or unknown. A
    GPU that looks idle in one sample says nothing about a task."""
    from infer_forge.base.errors import UsageFault
    from infer_forge.nodes import verbs

    if (claim_id is None) != (epoch is None):
        raise UsageFault("claim_id and epoch go together")
    if claim_id is not None and epoch is not None:
        return verbs.check_epoch(claim_id, epoch)
    return verbs.read_status(node)


@tool(toolset="nodes", read_only=False, idempotent=False, open_world=True)
def record_observation(
    note: Annotated[
        str | None, Field(description="What you want to say about it. Default: nothing.", max_length=400)
    ] = None,
) -> Answer:
    """Use it to put on record what GPUs and processes of this machine look like now. It is an agent's observation: shown,
    may block a clean-up, never makes a claim eligible; only `infer-forge node collect` does that."""
    from infer_forge.nodes import verbs

    return verbs.observe(None, note=note)


@tool(toolset="nodes", read_only=True, open_world=True, paged="claims")
def check_cleanup(
    node: Annotated[str | None, Field(description="Default: all.", max_length=128)] = None,
    explain: Annotated[bool, Field(description="Every reason and the windows. True by default.")] = True,
    limit: Limit = None,  # noqa: ARG001 - the cap pages
    cursor: Cursor = None,  # noqa: ARG001
) -> Answer:
    """Use it before cleanup_claim: which claims had idle runtimes and idle GPUs for the policy's whole window, without gap,
    on the hub's newest state; why the others have not; and the evidence hash to cite. Eligible is not cleaned up."""
    from infer_forge.nodes import verbs

    return verbs.eligible(node, explain=explain)


@tool(toolset="nodes", read_only=False, destructive=True, idempotent=False, open_world=True)
def cleanup_claim(
    claim_id: ClaimId,
    epoch: Epoch,
    evidence: Annotated[
        str, Field(description="Evidence hash from check_cleanup, 16 or more characters.", max_length=64)
    ],
    execute: Annotated[bool, Field(description="False, the default, is a dry run.")] = False,
    reason: Annotated[str, Field(description="Why; recorded.", max_length=200)] = "idle for the whole window",
) -> Answer:
    """Use it to remove a claim that check_cleanup calls eligible. It evaluates again, removes the claim and nothing else: no
    process is stopped, no task is done. Its GPUs then need verify_node on that node before the next claim."""
    from infer_forge.nodes import verbs

    return verbs.cleanup(claim_id, epoch=epoch, evidence=evidence, reason=reason, execute=execute)


@tool(toolset="nodes", default=True, read_only=False, open_world=True)
def verify_node(
    node: Node,
    gpus: Annotated[str | None, Field(description="Default: all held and not probed since.", max_length=400)] = None,
) -> Answer:
    """Use it on a node, right before claiming GPUs used before: a live probe that they are idle and healthy. Refused
    with all reasons when a GPU is used, unhealthy or not fully visible. A probe holds for a short time."""
    from infer_forge.nodes import verbs

    return verbs.verify(node, gpus)
