"""Tools that are always on: long work, read and cancelled by id."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infer_forge_mcp.toolkit import Answer, job_answer, tool

JobId = Annotated[str, Field(description="Id of the job.")]


@tool(toolset="core", default=True, read_only=True)
def read_job(
    job_id: JobId,
    wait_s: Annotated[float, Field(ge=0, le=18, description="Seconds, 0 to 18; default 10.")] = 10.0,
) -> Answer:
    """Use it when a tool answered with a job id: the finished answer, or state and progress."""
    from infer_forge.base import jobs

    return job_answer(jobs.wait(job_id, wait_s))


@tool(toolset="core", default=True, read_only=False)
def cancel_job(job_id: JobId) -> Answer:
    """Use it to stop work that a tool started; ends only that job's own processes."""
    from infer_forge.base import jobs

    job = jobs.cancel(job_id)
    return {
        "kind": "cancel_job",
        "summary": [f"job {job.id}: {job.state}"],
        "next_step": "start the work again when it is needed",
    }
