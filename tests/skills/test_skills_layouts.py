"""A skill works from wherever a client found it: copied, linked, in a plugin's cache, from a wheel, editable, under uv, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from infer_forge import __version__

SCRIPTS = sorted((Path(__file__).parents[2] / "skills").glob("*/scripts/*.py"))
SCRIPT = next(p for p in SCRIPTS if p.name == "triage.py")
WANTED = os.environ.get("INFER_FORGE_REAL_CLIENTS") == "1"  # read before the fixtures take such variables away
PLUGIN = (".claude-plugin", ".codex-plugin", ".mcp.json", ".codex-mcp.json", "hooks", "skills")


def run(argv: list[str | Path], path: str = "/usr/bin:/bin", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program far from the checkout, without what this shell's environment holds."""
    home = os.environ["INFER_FORGE_HOME"]
    clean = {"PATH": path, "HOME": home, "INFER_FORGE_HOME": home, **environment}
    return subprocess.run([str(a) for a in argv], cwd=home, env=clean, capture_output=True, text=True, timeout=120)


def helps(done: subprocess.CompletedProcess[str], name: str) -> None:
    assert done.returncode == 0, done.stderr
    assert f"infer-forge {name}" in done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=project_root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """The bin folder of an environment with the wheel, beside the third-party packages of this one (its editable install is not seen)."""
    venv = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=200)
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], check=True, timeout=120)
    site = next((venv / "lib").glob("python*/site-packages"))
    (site / "zz_third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: f"{p.parents[1].name}-{p.stem}")
def test_a_script_of_an_editable_install_runs_the_command_of_its_name(script: Path) -> None:
    helps(run([sys.executable, script, "--help"]), script.stem)


def test_a_skill_copied_out_of_the_checkout_works(tmp_path: Path) -> None:
    copy = shutil.copytree(SCRIPT.parents[1], tmp_path / "skills" / SCRIPT.parents[1].name)
    helps(run([sys.executable, copy / "scripts" / SCRIPT.name, "--help"]), "triage")


def test_a_linked_skill_works(tmp_path: Path) -> None:
    link = tmp_path / "linked-skill"
    link.symlink_to(SCRIPT.parents[1], target_is_directory=True)
    helps(run([sys.executable, link / "scripts" / SCRIPT.name, "--help"]), "triage")


def test_a_skill_in_a_plugin_cache_uses_the_command_on_the_path(
    tmp_path: Path, project_root: Path, installed: Path
) -> None:
    """A client copies the plugin's files and starts the system's python3, which has no package of ours."""
    cache = tmp_path / "plugins" / "cache" / "infer-forge" / "infer-forge" / __version__
    for name in PLUGIN:
        source = project_root / name
        if source.is_dir():
            shutil.copytree(source, cache / name)
        else:
            shutil.copy(source, cache / name)
    script = cache / "skills" / SCRIPT.parents[1].name / "scripts" / SCRIPT.name
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=200)
    helps(run([bare / "bin" / "python", script, "--help"], path=f"{installed}:/usr/bin:/bin"), "triage")


def test_with_nothing_installed_a_script_says_so_and_ends_with_5(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=200)
    done = run([bare / "bin" / "python", SCRIPT, "trace.json"])
    assert (done.returncode, done.stdout) == (5, "")
    assert "infer-forge is not installed" in done.stderr
    assert "next: pip install infer-forge" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_a_wheel_brings_skills_references_playbooks_and_both_commands(installed: Path) -> None:
    assert (installed / "infer-forge-guard").is_file()
    done = run([installed / "infer-forge", "install", "--client", "claude", "--format", "json"])
    assert done.returncode == 0, done.stderr
    changes = json.loads(done.stdout)["tables"]["changes"]["rows"]
    skills = {row[0].removeprefix("skill ") for row in changes if row[0].startswith("skill ")}
    assert skills == {p.parents[1].name for p in SCRIPTS} | {
        p.parent.name for p in SCRIPT.parents[2].glob("*/SKILL.md")
    }
    assert {row[2] for row in changes} == {"added"}
    copied = Path(os.environ["INFER_FORGE_HOME"]) / ".claude" / "skills" / SCRIPT.parents[1].name / "scripts"
    helps(run([installed / "python", copied / SCRIPT.name, "--help"]), "triage")


def test_a_wheel_answers_from_its_own_files_not_from_the_checkout(installed: Path, project_root: Path) -> None:
    code = "import infer_forge, infer_forge_mcp; from infer_forge.base.resources import data_root; "
    done = run(
        [installed / "python", "-c", code + "print(infer_forge.__file__, infer_forge_mcp.__file__, data_root())"]
    )
    assert done.returncode == 0, done.stderr
    assert str(project_root) not in done.stdout
    assert done.stdout.count(str(installed.parent)) == 3


def test_links_made_by_a_wheel_lead_into_its_installation(installed: Path) -> None:
    done = run([installed / "infer-forge", "install", "--client", "codex", "--link", "--no-hook", "--no-server"])
    assert done.returncode == 0, done.stderr
    skill = Path(os.environ["INFER_FORGE_HOME"]) / ".codex" / "skills" / SCRIPT.parents[1].name
    assert skill.resolve().is_relative_to(installed.parent.resolve())


def uv(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run uv with the registry of this machine; skip where it is not wanted, not there, or reaches no registry."""
    exe = shutil.which("uv")
    if not WANTED:
        pytest.skip("uv makes an environment from a package registry only with INFER_FORGE_REAL_CLIENTS=1")
    if exe is None:
        pytest.skip("uv is not on PATH")
    registry = {k: v for k, v in os.environ.items() if k.startswith(("UV_", "PIP_", "SSL_")) or "proxy" in k.lower()}
    done = run([exe, *words], **registry, **environment)
    if done.returncode and any(word in done.stderr for word in ("connect", "dns error", "Failed to fetch")):
        pytest.skip(f"uv reaches no package registry: {done.stderr.splitlines()[-1]}")
    return done


@pytest.mark.clients
def test_uv_run_makes_the_environment_that_a_script_names(wheel: Path) -> None:
    helps(uv("run", "--no-project", "--find-links", wheel.parent, SCRIPT, "--help"), "triage")


@pytest.mark.clients
def test_uv_tool_install_brings_both_commands(wheel: Path, tmp_path: Path) -> None:
    place = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    done = uv("tool", "install", "--python", sys.executable, str(wheel), **place)
    assert done.returncode == 0, done.stderr
    helps(run([tmp_path / "bin" / "infer-forge", "triage", "--help"]), "triage")
    assert (tmp_path / "bin" / "infer-forge-guard").exists()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: f"{p.parents[1].name}-{p.stem}")
def test_the_guard_lets_a_skills_script_run(script: Path) -> None:
    exe = Path(sys.executable).parent / "infer-forge"
    done = run([exe, "guard", "check", f"python3 {script} --help"])
    assert done.returncode == 0, done.stdout


def test_every_skill_has_the_same_launcher(project_root: Path) -> None:
    assert len({p.read_bytes() for p in SCRIPTS}) == 1
