"""Make ready what all launches of one command share: configuration, contract, prompts, client, fingerprint, help snapshots."""

from __future__ import annotations

import contextlib
from pathlib import Path

from infer_forge.base.errors import MissingPart
from infer_forge.bench import contract_lock, search_config
from infer_forge.bench import session as shared
from infer_forge.bench import workload as work
from infer_forge.bench.ledger_rows import RowStore
from infer_forge.bench.run_layout import layout
from infer_forge.engines import help_text, runner
from infer_forge.engines.env import environment
from infer_forge.engines.fingerprint import fingerprint, local_folder


def prepare(run_dir: Path, config: Path, purpose: str, *, helps: bool = True) -> shared.Session:
    """The session of a run directory for one purpose (`search`, `decision`, `pilot`).

    Args:
        helps: ask every program for its help first, so that unknown flags are refused.

    Raises:
        GateRefused: no contract is locked (but for a pilot), or the load generator is not the locked one.
    """
    place = layout(run_dir)
    wanted = search_config.load_config(config)
    session = shared.Session(
        place, wanted, RowStore(place.pilot if purpose == "pilot" else place.rows), purpose, run_id=run_dir.name
    )
    if purpose != "pilot":
        session.contract, session.contract_hash = contract_lock.read_contract(run_dir)
    if (place.workload / work.MANIFEST).exists():
        expected = session.contract.grid.workload_sha256 if session.contract else None
        session.workload = work.verify_workload(place.workload, expected_sha256=expected)
    session.client = shared.client_identity(wanted.client)
    if session.contract is not None:
        shared.require_client(session.contract, session.client)
    folder = local_folder(
        wanted.model_dir or wanted.model, session.contract.point.model.revision if session.contract else None
    )
    if folder is not None:
        session.fingerprint = fingerprint(folder)
    for entry in (e for e in wanted.engines if e.unsupported is None):
        where = runner.place(entry.place)
        with contextlib.suppress(MissingPart):
            session.environments[entry.framework] = environment(where, entry.framework, python=entry.python)
        if helps:
            session.helps[entry.framework] = help_text.snapshot(
                entry.framework, where, folder=place.help, python=entry.python
            )
    return session
