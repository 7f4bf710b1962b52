"""Settings say which file won; places move with the environment; data files are found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from infer_forge.base import resources
from infer_forge.base.config import settings
from infer_forge.base.errors import InputUnusable, MissingPart, UsageFault
from infer_forge.base.paths import paths, place_texts, user_config_file, user_config_folder
from infer_forge.base.resources import data_path


def test_the_project_file_wins_over_the_user_file_and_the_default(tmp_path: Path, forge_home: Path) -> None:
    (forge_home / "infer-forge.yaml").write_text("cache: {limit_mb: 10}\nidentity: {user: kim}\n")
    (tmp_path / "infer-forge.yaml").write_text("cache:\n  limit_mb: 20\n")
    found = settings(tmp_path)
    assert found.get("cache.limit_mb") == 20
    assert found.origin["cache.limit_mb"] == str(tmp_path / "infer-forge.yaml")
    assert (found.get("identity.user"), found.origin["identity.user"]) == ("kim", str(user_config_file()))
    assert found.origin["jobs.keep_days"] == "default"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cach: 1", "unknown setting 'cach'"),
        ("cache: {limit_mb: many}", "must be of type int"),
        ("cache: {limit_mb: true}", "must be of type int"),
        ("mcp: {max_chars: 60001}", "'mcp.max_chars' must be from 2,000 to 60,000"),
        ("mcp: {max_chars: 10}", "'mcp.max_chars' must be from 2,000 to 60,000"),
        ("a: [", "YAML"),
        ("jobs: 2024-99-99", "YAML"),
        ("- 1", "mapping"),
    ],
)
def test_a_wrong_settings_file_is_refused_with_its_name(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "infer-forge.yaml").write_text(text)
    with pytest.raises(InputUnusable, match=why):
        settings(tmp_path)


def settle(file: Path) -> None:
    """As if it was written ten seconds ago."""
    then = file.stat().st_mtime - 10
    os.utime(file, (then, then))


def test_an_unchanged_file_is_parsed_once_and_a_changed_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "infer-forge.yaml"
    file.write_text("hosts: {a: ssh:x}\n")
    settle(file)
    first = settings(tmp_path)
    with monkeypatch.context() as without_yaml:
        without_yaml.setattr(yaml, "safe_load", None)
        again = settings(tmp_path)
        assert again.get("hosts") == {"a": "ssh:x"}
        again.get("hosts")["b"] = "mine alone"
        assert settings(tmp_path).get("hosts") == first.get("hosts") == {"a": "ssh:x"}
    file.write_text("hosts: {a: ssh:y}\n")
    assert settings(tmp_path).get("hosts") == {"a": "ssh:y"}
    file.unlink()
    assert settings(tmp_path).get("hosts") == {}


def test_a_file_that_was_written_just_now_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "infer-forge.yaml"
    for name in "abcdefgh":
        file.write_text(f"identity: {{user: {name}}}\n")
        assert settings(tmp_path).get("identity.user") == name


def test_mapping_settings_keep_their_own_keys(tmp_path: Path) -> None:
    (tmp_path / "infer-forge.yaml").write_text("hosts:\n  a.b: ssh:x\n")
    assert settings(tmp_path).get("hosts") == {"a.b": "ssh:x"}


def test_an_unknown_key_is_a_usage_fault(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="no setting"):
        settings(tmp_path).get("nope")


def test_one_variable_moves_all_places_and_others_move_single_ones(
    forge_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paths().jobs.is_relative_to(forge_home)
    monkeypatch.setenv("INFER_FORGE_CACHE", str(tmp_path / "c"))
    assert paths().cache == tmp_path / "c"
    assert paths().state.is_relative_to(forge_home)


def test_without_the_variable_the_xdg_folders_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("INFER_FORGE_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert paths().state == tmp_path / "infer-forge"


def test_a_missing_data_file_is_told(project_root: Path) -> None:
    assert data_path("references") == project_root / "references"
    with pytest.raises(MissingPart):
        data_path("references/none.yaml")


def test_a_data_files_json_twin_says_the_same_and_may_vanish_or_be_damaged(
    forge_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFER_FORGE_HOME", str(forge_home))
    read = resources.load_yaml.__wrapped__
    name = "references/kernel_classes.yaml"
    first = read(name)
    twins = list((paths().cache / "data").glob("*.json"))
    assert len(twins) == 1
    assert read(name) == first
    twins[0].write_text("{damaged")
    assert read(name) == first
    twins[0].unlink()
    assert read(name) == first


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"INFER_FORGE_HOME": "~/forge"},
        {"INFER_FORGE_HOME": "here"},
        {"XDG_STATE_HOME": "/x/state", "INFER_FORGE_CACHE": "~/c", "INFER_FORGE_STORES": "s"},
    ],
)
def test_the_hooks_texts_name_the_same_places(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INFER_FORGE_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "INFER_FORGE_STATE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found, texts = paths(), place_texts()
    assert {k: str(getattr(found, k)) for k in texts} == texts
    assert all(Path(t).is_absolute() and "~" not in t for t in texts.values())
    assert f"{user_config_folder()}/infer-forge.yaml" == str(user_config_file())
