"""Our plugin as a client has it: read as what `install` puts in place is, so that doctor sees either of the two."""

from __future__ import annotations

from pathlib import Path

from infer_forge.clients import settings_json
from infer_forge.clients.model import Client, Hook, PluginPlace, served_by


class Plugin:
    """An enabled plugin of ours; answers doctor as a client does for its own settings."""

    def __init__(self, client: Client, place: PluginPlace) -> None:
        self.NAME = client.NAME
        self.AGAIN = place.again
        self.place = place

    def skills_folder(self, project: Path | None) -> Path:
        """The plugin's own skills."""
        return self.place.folder / "skills"

    def server_command(self, project: Path | None) -> list[str] | None:
        """The command in the file of servers that the plugin brings for this client."""
        return served_by(settings_json.read(self.place.folder / self.place.servers))

    def hooks(self, project: Path | None) -> list[Hook]:
        """The hooks that the plugin brings for this client."""
        return settings_json.hooks_in(self.place.folder / self.place.hooks)
