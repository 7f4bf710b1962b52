"""Reading many ranks on an existing Dask cluster: each worker reads files into columns, only the columns travel.

A rank of 4 million events (1.1 GB of JSON) becomes about 8 MB of linked columns, so 1,024 ranks send 8 GB to whoever asked
and keep 1.1 TB where it lies. Inputs are local paths that every worker sees, or fsspec URLs (`s3://..`, `gs://..`).
Needs the extra `cluster` here and infer-forge of the same version on the workers.
"""

from __future__ import annotations

import importlib
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infer_forge import __version__
from infer_forge.base import jobs
from infer_forge.base.errors import ForgeError, InputUnusable, MissingPart
from infer_forge.trace import cache as caching
from infer_forge.trace.many import SUFFIXES, PrivatePlace, one_a_rank, without_copies_by_name
from infer_forge.trace.model import SkippedFile, Trace, TraceSet

_CONNECT_S = 20
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/+")


def load_on_cluster(paths: Sequence[str | Path], address: str) -> TraceSet:
    """Read files and folders on a cluster; the answer is the one that `load_many` gives.

    Args:
        paths: paths or URLs of trace files and folders, as the workers see them.
        address: the scheduler, for example `tcp://10.0.0.1:8786`.

    Raises:
        MissingPart: the extra is not installed, or the scheduler does not answer.
        InputUnusable: a worker refused a file that was named by itself, or there is no trace at all.
    """
    client = _client(address)
    skipped: list[SkippedFile] = []
    place = PrivatePlace()
    try:
        files = _expanded([_url(p) for p in paths])
        chosen = without_copies_by_name([Path(f) for f in files], skipped)
        wanted = {str(p): files[str(p)] for p in chosen}
        traces = _read_all(client, wanted, place, skipped)
    finally:
        client.close()
    return one_a_rank(traces, skipped, [Path(str(p)) for p in paths])


def _client(address: str) -> Any:
    try:
        from dask.distributed import Client
    except ImportError:
        raise MissingPart(
            "the extra `cluster` is not installed", next_step="pip install 'infer-forge[cluster]'"
        ) from None
    try:
        return Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as exc:
        text = " ".join(str(exc).split())[:160]
        raise MissingPart(
            f"the cluster does not answer: {text}",
            where=address,
            next_step="start its scheduler, or correct the address",
        ) from None


def _url(path: str | Path) -> str:
    """The URL or path as written; `Path` has folded the slashes of a URL."""
    return _SCHEME.sub(lambda m: f"{m[1]}:///" if m[1] == "file" else f"{m[1]}://", str(path))


def _filesystem(url: str) -> tuple[Any, str]:
    """The fsspec filesystem of a URL, and the path inside it."""
    core: Any = importlib.import_module("fsspec.core")
    return core.url_to_fs(url)


def _expanded(urls: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Path as shown -> (URL, whether it was named by itself), with folders searched to any depth."""
    found: dict[str, tuple[str, bool]] = {}
    for url in urls:
        fs, inner = _filesystem(url)
        scheme = f"{url.split('://')[0]}://" if "://" in url else ""
        if fs.isdir(inner):
            for name in sorted(fs.find(inner)):
                if name.lower().endswith(SUFFIXES) and not Path(name).name.startswith("."):
                    found.setdefault(str(Path(f"{scheme}{name}")), (f"{scheme}{name}", False))
        elif fs.exists(inner):
            found[str(Path(url))] = (url, True)
        else:
            raise InputUnusable("no such file or folder", where=url, next_step="check the path as the workers see it")
    return found


def _read_all(
    client: Any, files: dict[str, tuple[str, bool]], place: PrivatePlace, skipped: list[SkippedFile]
) -> list[Trace]:
    distributed: Any = importlib.import_module("dask.distributed")
    futures: dict[Any, str] = {client.submit(read_here, url, pure=False): shown for shown, (url, _) in files.items()}
    traces: dict[str, Trace] = {}
    for count, future in enumerate(distributed.as_completed(list(futures), loop=client.loop), 1):
        shown = futures[future]
        answer: dict[str, Any] = future.result()
        if answer.get("version") != __version__:
            step = f"install infer-forge {__version__} on every worker"
            raise MissingPart(
                f"a worker has infer-forge {answer.get('version')}, here is {__version__}", where=shown, next_step=step
            )
        if "error" in answer:
            if files[shown][1]:
                raise InputUnusable(answer["error"], where=shown)
            skipped.append(SkippedFile(Path(shown), answer["error"]))
        else:
            traces[shown] = place.adopt(Path(shown), answer["columns"])
        jobs.progress(count, len(futures), "reading traces on the cluster")
    return [traces[shown] for shown in files if shown in traces]


def read_here(url: str) -> dict[str, Any]:
    """On a worker: read one file; its linked columns as bytes, or why it could not be read."""
    from infer_forge.trace.read import load

    with tempfile.TemporaryDirectory(prefix="infer-forge-") as scratch:
        inner = url.split("://", 1)[-1]
        # the last folder names are hints of the reader (a stage, a rank), so they are kept
        target = Path(scratch, *Path(inner).parts[-3:])
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            fs, name = _filesystem(url)
            fs.get(name, str(target))
            trace = load(target, cache=False)
        except (ForgeError, OSError) as exc:
            return {"version": __version__, "error": exc.what if isinstance(exc, ForgeError) else str(exc)}
        return {"version": __version__, "columns": caching.as_bytes(trace, Path(scratch))}
