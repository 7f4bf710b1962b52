"""Pictures against a reference: identical, alike, other sizes, other names, and what no reader can compare."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.bench import pictures

image = pytest.importorskip("PIL.Image", reason="the extra `diffusion` is not installed")
np = pytest.importorskip("numpy")


def write(folder: Path, name: str, level: int, size: int = 32, spot: int = 0) -> Path:
    """A grey ramp of this level, with one bright pixel."""
    folder.mkdir(exist_ok=True)
    grid = np.full((size, size, 3), level, dtype=np.uint8)
    grid[:, :, 0] = np.arange(size, dtype=np.uint8)[None, :]
    if spot:
        grid[0, 0] = spot
    image.fromarray(grid).save(folder / name)
    return folder


def test_identical_bytes_need_no_comparison(tmp_path: Path) -> None:
    write(tmp_path / "b", "x.png", 100)
    found = pictures.compare(write(tmp_path / "a", "x.png", 100), tmp_path / "b")
    assert found.reference_sha256 == found.output_sha256
    assert (found.psnr_db, found.ssim) == (None, None)


def test_psnr_is_ten_log_of_the_squared_range_over_the_mean_squared_error(tmp_path: Path) -> None:
    found = pictures.compare(write(tmp_path / "a", "x.png", 100), write(tmp_path / "b", "x.png", 103))
    assert found.psnr_db == pytest.approx(10 * math.log10(255**2 / 6.0))  # two of three channels are 3 off: 9 * 2 / 3
    assert found.ssim is not None
    assert 0.9 < found.ssim < 1.0


def test_the_worst_picture_decides(tmp_path: Path) -> None:
    for name, level in (("x.png", 101), ("y.png", 140)):
        write(tmp_path / "a", name, 100)
        write(tmp_path / "b", name, level)
    alone = pictures.psnr_db(np.full((2, 2, 3), 100, np.uint8), np.full((2, 2, 3), 140, np.uint8))
    found = pictures.compare(tmp_path / "a", tmp_path / "b")
    assert found.psnr_db is not None
    assert alone < found.psnr_db < alone + 2  # one of three channels is alike


def test_the_same_pixels_in_other_bytes_are_alike_and_not_identical(tmp_path: Path) -> None:
    write(tmp_path / "a", "x.png", 100)
    (tmp_path / "b").mkdir()
    image.open(tmp_path / "a" / "x.png").save(tmp_path / "b" / "x.png", compress_level=0)
    found = pictures.compare(tmp_path / "a", tmp_path / "b")
    assert found.reference_sha256 != found.output_sha256
    assert found.psnr_db == pictures.SAME_PIXELS_DB
    assert found.ssim == pytest.approx(1.0)


def test_other_sizes_other_names_and_no_pictures_are_refused(tmp_path: Path) -> None:
    a = write(tmp_path / "a", "x.png", 100)
    with pytest.raises(InputUnusable, match="is 16x16, the reference 32x32"):
        pictures.compare(a, write(tmp_path / "b", "x.png", 100, size=16))
    with pytest.raises(InputUnusable, match="not the files of"):
        pictures.compare(a, write(tmp_path / "c", "y.png", 100))
    (tmp_path / "d").mkdir()
    with pytest.raises(InputUnusable, match="holds no picture"):
        pictures.compare(a, tmp_path / "d")


def test_a_file_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", "x.png", 100), write(tmp_path / "b", "x.png", 101)
    (b / "x.png").write_bytes(b"no picture")
    with pytest.raises(InputUnusable, match="is no readable picture"):
        pictures.compare(a, b)


def test_video_is_not_compared_and_says_so(tmp_path: Path) -> None:
    for name, data in (("a", b"1"), ("b", b"2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.mp4").write_bytes(data)
    found = pictures.compare(tmp_path / "a", tmp_path / "b")
    assert (found.psnr_db, found.ssim) == (None, None)
    assert "video" in found.notes[0]


@pytest.mark.parametrize(("lacking", "psnr"), [("PIL", False), ("skimage", True)])
def test_without_the_extra_what_it_computes_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str, psnr: bool
) -> None:
    a, b = write(tmp_path / "a", "x.png", 100), write(tmp_path / "b", "x.png", 103)
    known = pictures.import_module

    def absent(name: str) -> Any:
        if name.split(".")[0] == lacking:
            raise ImportError(name)
        return known(name)

    monkeypatch.setattr(pictures, "import_module", absent)
    found = pictures.compare(a, b)
    assert (found.psnr_db is not None) is psnr
    assert found.ssim is None
    assert "infer-forge[diffusion]" in found.notes[0]
