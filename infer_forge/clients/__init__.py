"""Claude Code and Codex: paths, manifests, hook protocol, limits; install and doctor.

Adding a client is one module beside `claude.py` and `codex.py`, and its name in `model.CLIENT_NAMES`.
"""

from typing import TYPE_CHECKING

from infer_forge.base.lazy import attach

if TYPE_CHECKING:
    from infer_forge.clients.doctor import examine
    from infer_forge.clients.installer import install, uninstall
    from infer_forge.clients.model import CLIENT_NAMES, Hook, client_named

__all__ = ["CLIENT_NAMES", "Hook", "client_named", "examine", "install", "uninstall"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "install": "installer",
        "uninstall": "installer",
        "examine": "doctor",
        "client_named": "model",
        "CLIENT_NAMES": "model",
        "Hook": "model",
    },
)
