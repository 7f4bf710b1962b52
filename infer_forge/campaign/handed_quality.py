"""What SGLang generated, against what it generated at the baseline (C41): computed here from two folders, else as the file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_forge.base.errors import GateRefused
from infer_forge.campaign import accuracy, book, verdicts

if TYPE_CHECKING:
    from infer_forge.bench.model import Row
    from infer_forge.campaign.handed import Given, Scene
    from infer_forge.campaign.handed_files import Launch


def judge(campaign: book.Campaign, scene: Scene, given: Given, launches: list[Launch]) -> dict[str, Any] | None:
    """Write the quality into SGLang's rows; gives (`pass`|`fail`|`unknown`, why, figures) for the record.

    None where the contract fixes no quality gate, or nothing is to be compared yet (pilot).

    Raises:
        GateRefused: the outputs are missing or older than the launches' block, or the reference is not the baseline's.
    """
    rows = [r for x in launches if x.framework == scene.contract.target for r in x.rows]
    if scene.contract.quality is None or scene.label == "pilot":
        return None
    if given.outputs is not None:
        _written_now(scene, given.outputs)
        _compute(campaign, scene, given, rows)
    elif scene.label == "baseline" or not all(_states(r) for r in rows):
        raise GateRefused(
            "C41: the contract has a quality gate, and neither --outputs nor the files tell what was generated",
            next_step="--outputs DIR of SGLang's pictures"
            + ("" if scene.label == "baseline" else ", --reference DIR of the baseline's"),
        )
    else:
        same_reference(campaign, {str(r.diffusion.quality.reference_sha256) for r in rows if r.diffusion is not None})
    judged = [accuracy.judge_quality(scene.contract, r.diffusion.quality.model_dump()) for r in rows if r.diffusion]
    worst = next((j for word in ("fail", "unknown", "pass") for j in judged if j[0] == word), ("unknown", "no row"))
    figures = rows[0].diffusion.quality.model_dump(exclude_none=True) if rows[0].diffusion else {}
    notes = [n for n in rows[0].notes if n.startswith("quality: ")]
    return {"result": worst[0], "why": "; ".join([worst[1], *notes]), **figures}


def _states(row: Row) -> bool:
    quality = row.diffusion.quality if row.diffusion is not None else None
    return quality is not None and bool(quality.output_sha256 and quality.reference_sha256)


def _written_now(scene: Scene, outputs: Path) -> None:
    from infer_forge.bench.pictures import outputs_in
    from infer_forge.campaign.handed_files import time_of

    limit = time_of(scene.since) or 0.0
    old = next((p for p in outputs_in(outputs).values() if p.stat().st_mtime < limit), None)
    if old is not None:
        raise GateRefused(
            f"A102: was written before {scene.since}, when this block began",
            where=str(old),
            next_step="give what these launches generated",
        )


def _compute(campaign: book.Campaign, scene: Scene, given: Given, rows: list[Row]) -> None:
    from infer_forge.bench import pictures
    from infer_forge.bench.model import Quality

    assert given.outputs is not None
    if scene.label == "baseline":  # what SGLang makes at the baseline is the reference
        sha256 = pictures.fingerprint(given.outputs)
        made = pictures.Compared(sha256, sha256)
    elif given.reference is None:
        raise GateRefused("C41: nothing to compare with", next_step="--reference DIR of the baseline's outputs")
    else:
        made = pictures.compare(given.reference, given.outputs)
        same_reference(campaign, {made.reference_sha256})
    for row in rows:
        assert row.diffusion is not None
        row.diffusion.quality = Quality(
            reference_sha256=made.reference_sha256,
            output_sha256=made.output_sha256,
            psnr_db=made.psnr_db,
            ssim=made.ssim,
        )
        row.notes += [f"quality: {n}" for n in made.notes]


def same_reference(campaign: book.Campaign, given: set[str]) -> None:
    """The reference is what SGLang generated at the baseline, by its hash."""
    rows = verdicts.sides_of(campaign, None).get("sglang", [])
    known = {r.diffusion.quality.output_sha256 for r in rows if r.diffusion is not None} - {None}
    if not known or not given <= known:
        raise GateRefused(
            "C41: the reference is not what SGLang generated at the baseline",
            next_step="--reference DIR: the folder that was handed in with the baseline, unchanged",
        )
