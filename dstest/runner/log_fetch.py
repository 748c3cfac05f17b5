"""Fetch the system's logs, settings and core files from the nodes, and write down what was kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from clusters.remote import connect_all
from dstest.core import registry
from dstest.core.answers import check_log_files
from dstest.core.errors import ConfigError, DstestError
from dstest.core.log_names import kept_as
from dstest.core.node import LabInfo
from dstest.core.protocols import Deployment, LabTraits, LocalFile, LogFiles
from dstest.core.residue import RUN_NOTE
from dstest.core.run_meta import KeptLog, Logs, RunMeta
from dstest.core.spec import RunSpec
from dstest.runner.lab_lock import alone
from dstest.store.layout import RunDir

__all__ = [
    "CORE_BYTES_MAX",
    "LOG_BYTES_MAX",
    "fetch_left",
    "fetch_logs",
    "fetch_settings_and_cores",
    "note_of",
]

LOG_BYTES_MAX: Final = 32 << 20
"""Of each log, half of it its beginning and half its end: what a server says first is what all
else follows from. That one was longer is recorded and counts as missing evidence."""

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
        meta.logs = await fetch_logs(run, members, deployment)
        meta.other_files = await fetch_settings_and_cores(run, members, deployment, {})
    finally:
        await asyncio.gather(*(node.close() for node in nodes.values()))
    fetched = len(meta.logs.files) if meta.logs is not None else 0
    return f"{fetched} logs of its servers were fetched from lab {info.lab_id}"


async def fetch_logs(
    run: RunDir, nodes: Mapping[str, Any], deployment: Deployment | None
) -> Logs | None:
    """Copy each member's logs to `nodes/NODE/NAME`; what became of them, None of a system without
    logs."""
    if not isinstance(deployment, LogFiles):
        return None
    wanted = [
        (member, path, f"{member}/{name}")
        for member, paths in deployment.log_files().items()
        for path, name in kept_as(paths).items()
    ]
    return await _fetch(run, nodes, wanted, LOG_BYTES_MAX, whole=False)


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
    found = await _fetch(run, nodes, _below("config.d", settings), SETTINGS_BYTES_MAX, whole=True)
    wanted = {name: sorted(paths)[:CORES_MAX] for name, paths in cores.items()}
    dumped = await _fetch(run, nodes, _below("core.d", wanted), CORE_BYTES_MAX, whole=True)
    return Logs(files={**found.files, **dumped.files}, lost={**found.lost, **dumped.lost})


def _below(folder: str, paths_of: Mapping[str, Iterable[str]]) -> list[tuple[str, str, str]]:
    return [
        (node, path, f"{node}/{folder}/{name}")
        for node, paths in paths_of.items()
        for path, name in kept_as(paths).items()
    ]


async def _fetch(
    run: RunDir,
    nodes: Mapping[str, Any],
    wanted: Iterable[tuple[str, str, str]],
    bytes_max: int,
    *,
    whole: bool,
) -> Logs:
    """Copy files, given as (node, path, name); of one that is longer its beginning and its end, or
    nothing where only the `whole` of it is of use."""
    kept = Logs()

    async def fetch(node: Any, path: str, name: str) -> None:
        try:
            size = int((await node.call("stat", path=path)).get("size", 0))
            if whole and size > bytes_max:
                kept.lost[name] = f"{path} has {size:,} bytes; at most {bytes_max:,} are fetched"
                return
            if size > bytes_max:
                data, hole_at = await _ends(node, path, bytes_max)
                run.write(f"nodes/{name}", data)
                kept.files[name] = KeptLog(bytes=size, kept=len(data), hole_at=hole_at)
                return
            data = await node.get(path, bytes_max=bytes_max + whole)
            if whole and len(data) > bytes_max:
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
