"""The registry's repository: its refs, nodes, policy, collectors, and who we are."""

from __future__ import annotations

import getpass
import os
import time
from typing import Any

import msgspec

from infer_forge.base import person
from infer_forge.base.errors import HumanNeeded, InputUnusable, UsageFault
from infer_forge.base.gitstore import Changes, Refuse, Snapshot, Store
from infer_forge.base.jsonio import write_atomic
from infer_forge.base.ownership import node_name
from infer_forge.base.paths import paths
from infer_forge.nodes.model import Collector, Holder, NodeRecord, Policy, check_node, decode, encode

CLAIMS = "refs/registry/claims"
POLICY = "refs/registry/policy"
LIVE = "refs/registry/live/"
OBS = "refs/registry/obs/"
NOTES = "refs/registry/notes/"
ALL = "refs/registry/"


class Registry:
    """The registry as this machine sees it.

    Attributes:
        store: the git store (`paths().store("registry")`).
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._collectors: tuple[str | None, dict[str, Collector]] = (None, {})

    @classmethod
    def open(cls, remote: str | None = None, *, create: bool = False) -> Registry:
        """Open this machine's registry.

        Args:
            remote: the hub; None: `remotes.registry` of the settings, else the remembered one, else none.

        Raises:
            UsageFault: there is none yet, and `create` is False.
        """
        place = paths().store("registry")
        if not create and not place.is_dir():
            raise UsageFault(
                "there is no node registry on this machine yet",
                where=str(place),
                next_step="infer-forge node init [--remote URL]",
            )
        return cls(Store.open(place, remote or _configured_hub(), replaceable=(LIVE,), timeout_s=_timeout()))

    @property
    def shared(self) -> bool:
        """Whether there is a hub."""
        return self.store.remote is not None

    # Nodes

    def node(self, node: str, snapshot: Snapshot | None = None) -> NodeRecord:
        """A node's record; an empty one for a node that nobody claimed yet."""
        found = (snapshot or self.store.read(CLAIMS)).get(node_path(node))
        return decode(NodeRecord, found, f"{CLAIMS}:{node_path(node)}") if found else NodeRecord(node=node)

    def nodes(self, faults: list[str] | None = None) -> list[NodeRecord]:
        """All nodes with a record, by name.

        Args:
            faults: takes what is said of records that cannot be read; without it such a record is an error.
        """
        found: list[NodeRecord] = []
        for path, data in self.store.read(CLAIMS).items("nodes/"):
            try:
                found.append(decode(NodeRecord, data, f"{CLAIMS}:{path}"))
            except InputUnusable as exc:
                if faults is None:
                    raise
                faults.append(f"{exc.where}: {exc.what}")
        return found

    def find_claim(self, claim_id: str) -> tuple[NodeRecord, int]:
        """The node that holds a claim, and the claim's place in it.

        Raises:
            UsageFault: no node holds it (any more), or its shortened id fits several.
        """
        records = self.nodes([])
        hits = [(record, claim) for record in records if (claim := record.find(claim_id)) is not None]
        if len(hits) == 1:
            return hits[0][0], hits[0][0].claims.index(hits[0][1])
        ended = next((r for n in records for r in n.released if r.claim_id == claim_id), None)
        if ended:
            raise UsageFault(f"this claim ended already ({ended.how}: {ended.reason})", where=claim_id)
        raise UsageFault(
            "several claims begin so" if hits else "no node holds this claim",
            where=claim_id,
            next_step="infer-forge node status",
        )

    # Policy and collectors

    def policy(self, snapshot: Snapshot | None = None) -> Policy:
        """The policy in force."""
        found = (snapshot or self.store.read(POLICY)).get("policy.json")
        return decode(Policy, found, f"{POLICY}:policy.json") if found else default_policy()

    def collectors(self, node: str | None = None) -> dict[str, Collector]:
        """Registered collectors that are not retired, by id."""
        snapshot = self.store.read(POLICY)
        if snapshot.tip is None or snapshot.tip != self._collectors[0]:
            read = [decode(Collector, data, f"{POLICY}:{path}") for path, data in snapshot.items("collectors/")]
            self._collectors = snapshot.tip, {c.id: c for c in read if not c.retired}
        return {cid: c for cid, c in self._collectors[1].items() if node in (None, c.node)}

    def ensure_policy(self) -> str:
        """Write the default policy when the registry has none; the policy's id."""

        def decide(snapshot: Snapshot) -> Changes | None:
            if snapshot.blob_id("policy.json"):
                return None
            return Changes(put={"policy.json": encode(default_policy())}, trailers={"Event": "policy"})

        self.store.update(POLICY, decide, "policy: defaults", author=author())
        return self.policy().policy_id

    def register_collector(self, collector_id: str, node: str, key: str, *, trusted: bool = False) -> Collector:
        """Register a collector's key. The first one of a node is taken on first use; another, or another key, needs a person.

        Raises:
            HumanNeeded: it is not the first one, and `trusted` is False.
        """
        made = Collector(id=collector_id, node=node, key=key, registered_at_wall=time.time(), by=holder())

        def decide(snapshot: Snapshot) -> Changes | Refuse | None:
            path = f"collectors/{check_node(collector_id)}.json"
            known = snapshot.get(path)
            if known:
                old = decode(Collector, known, path)
                if old.key == key and old.node == node and not old.retired:
                    return None
                if not trusted:
                    return Refuse(f"collector {collector_id} is registered with another key (or retired)")
            others = [decode(Collector, data, name) for name, data in snapshot.items("collectors/")]
            if not trusted and any(c.node == node and c.id != collector_id and not c.retired for c in others):
                return Refuse(f"node {node} has another collector already")
            return Changes(put={path: encode(made)}, trailers={"Event": "collector", "Collector": collector_id})

        from infer_forge.base.gitstore import Refused

        try:
            self.store.update(POLICY, decide, f"collector {collector_id} of {node}", author=author())
        except Refused as exc:
            raise HumanNeeded(
                exc.what, where=collector_id, next_step="a person at a terminal: infer-forge node collect --trust"
            ) from None
        return self.collectors()[collector_id]

    def retire_collector(self, collector_id: str) -> None:
        """Let a collector count no more (a person's act: the node then has one eye less).

        Raises:
            UsageFault: there is no such collector.
        """

        def decide(snapshot: Snapshot) -> Changes | Refuse:
            path = f"collectors/{check_node(collector_id)}.json"
            known = snapshot.get(path)
            if known is None:
                return Refuse(f"there is no collector {collector_id}")
            old = decode(Collector, known, path)
            return Changes(put={path: encode(msgspec.structs.replace(old, retired=True))})

        self.store.update(POLICY, decide, f"retire collector {collector_id}", author=author())


def node_path(node: str) -> str:
    """Where a node's record stands in the claims ref."""
    return f"nodes/{check_node(node)}.json"


def default_policy() -> Policy:
    """The defaults of `references/node_policy.yaml`."""
    from infer_forge.base.resources import load_yaml

    return msgspec.convert(load_yaml("references/node_policy.yaml"), Policy).check()


def set_policy(registry: Registry, changes: dict[str, str]) -> Policy:
    """Change keys of the policy (`window_s`, `idle.mem_used_mib`, `idle.power_w.NVIDIA H100`); the new policy.

    Raises:
        UsageFault: an unknown key, a value of the wrong type, or one that would hollow out the rules.
    """
    made: list[Policy] = []

    def decide(snapshot: Snapshot) -> Changes:
        data: dict[str, Any] = msgspec.to_builtins(registry.policy(snapshot))
        for key, text in changes.items():
            _put(data, key, text)
        try:
            policy = msgspec.convert(data, Policy, strict=False).check()
        except msgspec.ValidationError as exc:
            raise UsageFault(str(exc), where="policy") from None
        made.append(policy)
        return Changes(put={"policy.json": encode(policy)}, trailers={"Event": "policy"})

    words = ", ".join(f"{key}={value}" for key, value in changes.items())
    registry.store.update(POLICY, decide, f"policy: {words}", author=author())
    return made[-1]


def _put(data: dict[str, Any], key: str, text: str) -> None:
    table, _, name = key.rpartition(".") if not key.startswith("idle.power_w.") else ("idle.power_w", "", key[13:])
    place: Any = data
    for part in table.split(".") if table else ():
        place = place.get(part) if isinstance(place, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(place, dict) or (name not in place and table != "idle.power_w"):
        raise UsageFault("the policy has no such key", where=key, next_step="infer-forge node policy")
    try:
        place[name] = msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise UsageFault(f"{text!r} is no number or truth value", where=key) from None


# Who we are


def holder(agent: str | None = None) -> Holder:
    """This process as the holder of a claim: user, host, and the run (or this installation) as its session."""
    return Holder(
        agent=agent or os.environ.get("INFER_FORGE_AGENT") or person.client_of(),
        user=_user(),
        host=node_name(),
        session=os.environ.get("INFER_FORGE_RUN_ID") or installation_id(),
    )


def author() -> str:
    """`name <mail>` of our commits."""
    who = holder()
    return f"{who.user} <{who.user}@{who.host}>"


def installation_id() -> str:
    """A random name of this state folder, made once: two homes on one machine are two holders."""
    from infer_forge.nodes.model import short_id

    file = paths().state / "installation"
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True)
        made = file.with_name(f".installation.{short_id()}")
        write_atomic(made, short_id())
        try:
            os.link(made, file)  # fails when another process was first; then its name counts
        except FileExistsError:
            pass
        finally:
            made.unlink(missing_ok=True)
        return file.read_text().strip()


def _setting(key: str) -> str | None:
    """A setting, read only when there is a settings file: reading one needs YAML."""
    from infer_forge.base.config import project_config_file
    from infer_forge.base.paths import user_config_file

    if not user_config_file().is_file() and project_config_file() is None:
        return None
    from infer_forge.base.config import settings

    value = settings().get(key)
    return str(value) if value else None


def _configured_hub() -> str | None:
    return _setting("remotes.registry")


def _user() -> str:
    named = _setting("identity.user")
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid{os.getuid()}"


def _timeout() -> float:
    value = os.environ.get("INFER_FORGE_HUB_TIMEOUT_S", "")
    return float(value) if value.replace(".", "", 1).isdigit() else 20.0
