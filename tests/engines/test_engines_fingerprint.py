"""The fingerprint of a model folder is equal for equal models and differs where behaviour may."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_forge.base.errors import InputUnusable
from infer_forge.engines.fingerprint import fingerprint


def safetensors(path: Path, names: list[str], fill: bytes = b"\0") -> None:
    header = {n: {"dtype": "BF16", "shape": [2, 2], "data_offsets": [i * 8, i * 8 + 8]} for i, n in enumerate(names)}
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + fill * (8 * len(names)))


def model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    safetensors(folder / "model-00001-of-00001.safetensors", ["a", "b"])
    (folder / "config.json").write_text('{"hidden_size": 4}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ x }}")
    (folder / "generation_config.json").write_text("{}")
    (folder / "README.md").write_text("hello")
    return folder


def test_a_copy_has_the_same_fingerprint_wherever_it_lies(tmp_path: Path) -> None:
    one = fingerprint(model(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "README.md").write_text("another")
    two = fingerprint(tmp_path / "b")
    assert one.sha256 == two.sha256
    assert (one.tensors, one.weight_bytes > 0) == (2, True)
    assert all((one.tokenizer_sha256, one.chat_template_sha256, one.generation_config_sha256, one.config_sha256))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a tensor's name": lambda d: safetensors(d / "model-00001-of-00001.safetensors", ["a", "c"]),
    "another file": lambda d: safetensors(d / "extra.safetensors", ["z"]),
    "config": lambda d: (d / "config.json").write_text('{"hidden_size": 8}'),
    "tokenizer": lambda d: (d / "tokenizer.json").write_text("[]"),
    "chat template": lambda d: (d / "chat_template.jinja").write_text("{{ y }}"),
    "generation config": lambda d: (d / "generation_config.json").unlink(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_changes_it(what: str, tmp_path: Path) -> None:
    before = fingerprint(model(tmp_path / "m"))
    CHANGES[what](tmp_path / "m")
    assert fingerprint(tmp_path / "m").sha256 != before.sha256


def test_other_numbers_in_equal_shapes_need_the_deep_look(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    plain, deep = fingerprint(folder), fingerprint(folder, deep=True)
    safetensors(folder / "model-00001-of-00001.safetensors", ["a", "b"], b"\1")
    assert fingerprint(folder).sha256 == plain.sha256
    assert fingerprint(folder, deep=True).sha256 != deep.sha256


def test_the_revision_is_told_where_the_folder_knows_it(tmp_path: Path) -> None:
    sha = "0123456789abcdef0123456789abcdef01234567"
    assert fingerprint(model(tmp_path / "snapshots" / sha)).revision == sha
    folder = model(tmp_path / "plain")
    assert fingerprint(folder).revision is None
    meta = folder / ".cache" / "huggingface" / "download"
    meta.mkdir(parents=True)
    (meta / "config.json.metadata").write_text(f"{sha}\netag\n1.0\n")
    assert fingerprint(folder).revision == sha


def test_a_cut_or_broken_weights_file_is_refused(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    path = folder / "model-00001-of-00001.safetensors"
    whole = path.read_bytes()
    for content in (
        whole[:-3],
        whole[:20],
        b"",
        b"\xff" * 40,
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 13) + b'{"a":{"b":1}}',
    ):
        path.write_bytes(content)
        with pytest.raises(InputUnusable):
            fingerprint(folder)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hi")
    for place in (tmp_path, tmp_path / "absent", tmp_path / "x.txt"):
        with pytest.raises(InputUnusable):
            fingerprint(place)
