"""The command line: one module a command group, imported when its command runs."""

from __future__ import annotations

import sys
from types import TracebackType


def _hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C while modules are still being imported: said in one line, as later on."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("\ninfer-forge: stopped\n")
    else:
        sys.__excepthook__(kind, value, trace)


if sys.excepthook is sys.__excepthook__:
    sys.excepthook = _hook
