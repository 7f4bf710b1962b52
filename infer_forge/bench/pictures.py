"""Generated pictures against a reference: identity of their bytes, else PSNR and SSIM, each of the worst picture.

PSNR is 10 log10(255^2 / MSE) over all pixels and channels of 8-bit pictures. SSIM is that of scikit-image with its
defaults (7 x 7 uniform window; Wang et al., 2004). Both need the extra `diffusion`; without it they are unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from infer_forge.base import jsonio
from infer_forge.base.errors import InputUnusable
from infer_forge.base.inputs import files_in

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
VIDEO = (".mp4", ".webm", ".gif", ".mov", ".mkv", ".avi")
SAME_PIXELS_DB = 200.0
"""Stands for an infinite PSNR, which JSON does not hold: equal pixels in files of other bytes."""

EXTRA = "pip install 'infer-forge[diffusion]'"


@dataclass
class Compared:
    """Hashes of both folders; PSNR in dB and SSIM of the worst picture, null when identical or not computed (see `notes`)."""

    reference_sha256: str
    output_sha256: str
    psnr_db: float | None = None
    ssim: float | None = None
    notes: list[str] = field(default_factory=list[str])


def outputs_in(folder: Path) -> dict[str, Path]:
    """Pictures and video of a folder by their name in it.

    Raises:
        InputUnusable: there are none.
    """
    found = {p.relative_to(folder).as_posix(): p for p in files_in(folder, endings=(*PICTURES, *VIDEO))}
    if not found:
        raise InputUnusable("holds no picture and no video", where=str(folder), next_step="name the folder of outputs")
    return found


def fingerprint(folder: Path) -> str:
    """Hash of the outputs of a folder: names and bytes of each."""
    return jsonio.sha256_of({name: jsonio.sha256_file(p) for name, p in outputs_in(folder).items()})


def compare(reference: Path, output: Path) -> Compared:
    """Compare two folders of outputs, file by file of the same name.

    Raises:
        InputUnusable: a folder is empty, the names differ, or two pictures have other sizes.
    """
    old, new = outputs_in(reference), outputs_in(output)
    if old.keys() != new.keys():
        odd = sorted(old.keys() ^ new.keys())
        raise InputUnusable(
            f"not the files of {reference}: {', '.join(odd[:4])}",
            where=str(output),
            next_step="give both runs' outputs",
        )
    made = Compared(fingerprint(reference), fingerprint(output))
    if made.reference_sha256 == made.output_sha256:
        return made
    video = [n for n in old if n.lower().endswith(VIDEO)]
    if video:
        made.notes.append(f"PSNR and SSIM of video are not computed ({video[0]}): state them in the result file")
        return made
    _similarity(made, [(old[n], new[n]) for n in old])
    return made


def _similarity(made: Compared, pairs: list[tuple[Path, Path]]) -> None:
    try:
        pictures: Any = import_module("PIL.Image")
    except ImportError:
        made.notes.append(f"PSNR and SSIM are not computed without a reader of pictures: {EXTRA}")
        return
    try:
        structural: Any = import_module("skimage.metrics").structural_similarity
    except ImportError:
        structural = None
        made.notes.append(f"SSIM is not computed without scikit-image: {EXTRA}")
    psnr, ssim = math.inf, math.inf
    for old, new in pairs:
        a, b = _pixels(pictures, old), _pixels(pictures, new)
        if a.shape != b.shape:
            raise InputUnusable(
                f"is {b.shape[1]}x{b.shape[0]}, the reference {a.shape[1]}x{a.shape[0]}", where=str(new)
            )
        psnr = min(psnr, psnr_db(a, b))
        if structural is not None and min(a.shape[:2]) >= 7:
            ssim = min(ssim, float(structural(a, b, channel_axis=2, data_range=255)))
        elif structural is not None:
            made.notes.append(f"SSIM needs 7 x 7 pixels: {new.name}")
            structural = None
    made.psnr_db = min(psnr, SAME_PIXELS_DB)
    made.ssim = ssim if structural is not None else None
    if math.isinf(psnr):
        made.notes.append("the pixels are identical, the files are not")


def psnr_db(a: Any, b: Any) -> float:
    """Peak signal-to-noise ratio of two 8-bit arrays in dB; infinite for equal ones."""
    import numpy as np

    difference: Any = a.astype(np.float64) - b.astype(np.float64)
    error = float((difference * difference).mean())
    return math.inf if error == 0 else 10.0 * math.log10(255.0**2 / error)


def _pixels(pictures: Any, place: Path) -> Any:
    """Height x width x 3, 8 bit."""
    import numpy as np

    try:
        with pictures.open(place) as picture:
            return np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, pictures.DecompressionBombError) as fault:
        raise InputUnusable(
            f"is no readable picture: {' '.join(str(fault).split())[:120]}",
            where=str(place),
            next_step="write it again",
        ) from None
