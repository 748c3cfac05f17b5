"""Fetch the system's logs, settings and core files from the nodes, and write down what was kept."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from clusters.remote import connect_all
from dstest.core import registry
from dstest.core.answers import check_log_files
from dstest.core.errors import ConfigError, DstestError
from dstest.core.log_names import LOG_MB, LOG_OPTION, PACKED, kept_as
from dstest.core.node import LabInfo
from dstest.core.protocols import Deployment, LabTraits, LocalFile, LogFiles, SystemTraits
from dstest.core.residue import RUN_NOTE
from dstest.core.run_meta import KeptLog, Logs, RunMeta
from dstest.core.spec import RunSpec
from dstest.runner.lab_lock import alone
from dstest.store.layout import RunDir

PLAIN_BYTES_MAX: Final = 8 << 20
"""A log that is longer is kept compressed."""

PART_BYTES: Final = 4 << 20

SETTINGS_BYTES_MAX: Final = 1 << 20

CORE_BYTES_MAX: Final = 64 << 20
"""A part of a core file is of no use: one that is larger stays on its node, with the node."""

CORES_MAX: Final = 1
"""Of each node, the first by name; the others are likely to be of the same crash."""


def note_of(meta: RunMeta) -> bytes:
    """What a run writes into `RUN_NOTE`, by its run.json."""
    return f"{meta.started} {meta.pid}\n".encode()


def fetch_left(run: RunDir, meta: RunMeta) -> str:
    """Of a run whose control node died: fetch the logs and settings that its nodes still have, as
    the end of the run would have, into `meta` and the directory. What came of it, in words; empty
    where there is nothing to be had. Nodes on which another run has begun since are left alone."""
    if meta.logs is not None or meta.started is None:
        return ""
    spec = msgspec.convert(meta.spec, RunSpec)
    try:
        lab = registry.load("labs", meta.lab or spec.lab)
        info = None if meta.lab_id is None else lab.status(meta.lab_id)
        if info is None or LabTraits.of(lab).transport != "network":
            return ""
        wanted = [node for node in info.nodes if node.name in meta.nodes]
        with alone(info):
            return asyncio.run(_left(run, meta, spec, msgspec.structs.replace(info, nodes=wanted)))
    except ConfigError:
        return ""  # it cannot be judged here, which is said then
    except DstestError as error:
        return f"the logs that its nodes may still have were not fetched: {error.message}"
    except Exception as error:  # of a system's own file, which is asked what it would deploy
        what = f"{type(error).__name__}: {error}"
        return f"the logs that its nodes may still have were not fetched: {what}"


async def _left(run: RunDir, meta: RunMeta, spec: RunSpec, info: LabInfo) -> str:
    nodes = await connect_all(info)
    try:
        system = registry.load("systems", spec.system)
        names = meta.members or system.members(list(nodes), spec.options)
        members = {name: nodes[name] for name in names if name in nodes}
        deployment = system.deploy(list(members.values()), spec.options)
        argv = ["sh", "-c", f"cat {RUN_NOTE} 2>/dev/null"]
        for name, node in members.items():
            if (await node.run(argv, check=False)).stdout.encode() != note_of(meta):
                return f"its nodes have no logs of it any more: another run has begun on {name}"
        meta.members = list(members)
        if isinstance(deployment, LogFiles):
            meta.log_files = check_log_files(deployment, deployment.log_files())
        meta.logs = await fetch_logs(run, members, deployment, **log_settings(spec, system))
        meta.other_files = await fetch_settings_and_cores(run, members, deployment, {})
    finally:
        await asyncio.gather(*(node.close() for node in nodes.values()))
    fetched = len(meta.logs.files) if meta.logs is not None else 0
    return f"{fetched} logs of its servers were fetched from lab {info.lab_id}"


def log_settings(spec: RunSpec, system: Any) -> dict[str, Any]:
    """How `fetch_logs` keeps the logs of a run; what others read by its name stays plain."""
    traits = SystemTraits.of(system)
    effects = traits.effects.file if traits.effects is not None else ""
    return {
        "bytes_max": int(spec.options.get(LOG_OPTION, LOG_MB)) << 20,
        "plain": {effects, traits.span_file, *traits.records},
    }


async def fetch_logs(
    run: RunDir,
    nodes: Mapping[str, Any],
    deployment: Deployment | None,
    *,
    bytes_max: int = LOG_MB << 20,
    plain: Collection[str] = (),
) -> Logs | None:
    """Copy each member's logs to `nodes/NODE/NAME`, large ones compressed; what became of them,
    None of a system without logs. Of a longer one than `bytes_max` half of that is its beginning
    and half its end: what a server says first is what all else follows from. That it was longer is
    recorded and counts as missing evidence. Names that are in `plain` are never compressed."""
    if not isinstance(deployment, LogFiles):
        return None
    wanted = [
        (member, path, f"{member}/{name}")
        for member, paths in deployment.log_files().items()
        for path, name in kept_as(paths).items()
    ]
    kept = Logs()

    async def fetch(node: Any, path: str, name: str) -> None:
        try:
            size = int((await node.call("stat", path=path)).get("size", 0))
            small = min(size, bytes_max) <= PLAIN_BYTES_MAX
            if small or name.partition("/")[2] in plain:
                kept.files[name] = await _plain(run, node, path, name, size, bytes_max)
            else:
                kept.files[name] = await _packed(run, node, path, name, size, bytes_max)
        except DstestError as error:
            kept.lost[name] = error.message

    await asyncio.gather(*(fetch(nodes[node], path, name) for node, path, name in wanted))
    return kept


async def _plain(
    run: RunDir, node: Any, path: str, name: str, size: int, bytes_max: int
) -> KeptLog:
    data, hole_at = await _ends(node, path, bytes_max) if size > bytes_max else (b"", None)
    if hole_at is None:
        data = await node.get(path, bytes_max=bytes_max)
        size = max(size, len(data))
    run.write(f"nodes/{name}", data)
    return KeptLog(bytes=size, kept=len(data), hole_at=hole_at)


async def _packed(
    run: RunDir, node: Any, path: str, name: str, size: int, bytes_max: int
) -> KeptLog:
    """Part by part, so that no log has to be in memory."""
    whole = size <= bytes_max
    ends = [(0, size)] if whole else [(0, bytes_max // 2), (size - bytes_max // 2, size)]
    target = run.path / "nodes" / f"{name}{PACKED}"
    target.parent.mkdir(parents=True, exist_ok=True)
    kept, hole_at = 0, None
    with gzip.open(target, "wb", compresslevel=3) as out:
        for begin, end in ends:
            rest = b""
            for at in range(begin, end, PART_BYTES):
                wanted = min(PART_BYTES, end - at)
                row = await node.call("read", path=path, offset=at, bytes_max=wanted)
                data = base64.b64decode(row["data"])
                if begin and at == begin:
                    data = data[data.find(b"\n") + 1 :]
                lines, newline, rest_now = (rest + data).rpartition(b"\n")
                kept += out.write(lines + newline)
                rest = rest_now
            if end == size:  # its last line may have no end yet
                kept += out.write(rest)
            if not whole and hole_at is None:
                hole_at = kept
    return KeptLog(bytes=size, kept=kept, hole_at=hole_at)


async def fetch_settings_and_cores(
    run: RunDir,
    nodes: Mapping[str, Any],
    deployment: Deployment,
    cores: Mapping[str, Iterable[str]],
) -> Logs:
    """Copy the files that servers were started with to `nodes/NODE/config.d/`, and core files to
    `nodes/NODE/core.d/`; what became of them."""
    settings = {
        name: [
            path
            for service in member.services
            for path, what in service.files.items()
            if not isinstance(what, LocalFile)  # a program, and no setting
        ]
        for name, member in deployment.members.items()
    }
    found = await _fetch(run, nodes, _below("config.d", settings), SETTINGS_BYTES_MAX)
    wanted = {name: sorted(paths)[:CORES_MAX] for name, paths in cores.items()}
    dumped = await _fetch(run, nodes, _below("core.d", wanted), CORE_BYTES_MAX)
    return Logs(files={**found.files, **dumped.files}, lost={**found.lost, **dumped.lost})


def _below(folder: str, paths_of: Mapping[str, Iterable[str]]) -> list[tuple[str, str, str]]:
    return [
        (node, path, f"{node}/{folder}/{name}")
        for node, paths in paths_of.items()
        for path, name in kept_as(paths).items()
    ]


async def _fetch(
    run: RunDir, nodes: Mapping[str, Any], wanted: Iterable[tuple[str, str, str]], bytes_max: int
) -> Logs:
    """Copy files, given as (node, path, name): all of each, or nothing."""
    kept = Logs()

    async def fetch(node: Any, path: str, name: str) -> None:
        try:
            size = int((await node.call("stat", path=path)).get("size", 0))
            if size > bytes_max:
                kept.lost[name] = f"{path} has {size:,} bytes; at most {bytes_max:,} are fetched"
                return
            data = await node.get(path, bytes_max=bytes_max + 1)
            if len(data) > bytes_max:
                kept.lost[name] = f"{path} grew while it was fetched"
                return
        except DstestError as error:
            kept.lost[name] = error.message
            return
        run.write(f"nodes/{name}", data)
        kept.files[name] = KeptLog(bytes=max(size, len(data)), kept=len(data))

    await asyncio.gather(*(fetch(nodes[node], path, name) for node, path, name in wanted))
    return kept


async def _ends(node: Any, path: str, bytes_max: int) -> tuple[bytes, int]:
    """Whole lines of the beginning and of the end of a file, and how many bytes the first are."""
    half = bytes_max // 2
    head = await node.get(path, bytes_max=half, from_start=True)
    head = head[: head.rfind(b"\n") + 1]
    tail = await node.get(path, bytes_max=half)
    return head + tail[tail.find(b"\n") + 1 :], len(head)
