"""Where the workers of a fan are: processes of this machine, machines reached by SSH, or those of a
scheduler that somebody else has started. From here on all are one: a Dask cluster.

    local                          so many processes of this machine
    ssh:one,two,three              a worker on each; the first has the scheduler as well
    tcp://10.0.0.1:8786, tls://..  what is connected there

Hosts are reached as `ssh HOST` reaches them (`~/.ssh/config`, `known_hosts`).
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, Literal

import msgspec

from dstest.core.errors import ConfigError, HarnessError, reason_of
from dstest.fan.bundle import HOME

LAB: Final = "lab"
"""The resource of a worker that a task with a lab claims."""

_CONFIG: Final = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.no-workers-timeout": "300s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.comm.timeouts.connect": "30s",
}
"""A task whose worker is lost comes back to us at once: we count, and say so."""

_SILENT: Final = {"logging": {"distributed": "critical", "asyncio": "critical"}}
"""Not over SSH: where a scheduler listens, Dask reads in its log."""

_CLOSE_S: Final = 5.0
_START_S: Final = 120.0
UP_S: Final = 120.0
"""For a scheduler and workers to come up: what hangs on a machine is told, not waited for."""


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts` of `ssh`, `address` of a scheduler."""

    kind: Literal["local", "ssh", "scheduler"]
    hosts: tuple[str, ...] = ()
    address: str = ""


def where(text: str) -> Where:
    """Raises ConfigError for what is none of the three."""
    if text == "local":
        return Where(kind="local")
    if text.startswith("ssh:") and all(hosts := [h.strip() for h in text[4:].split(",")]):
        return Where(kind="ssh", hosts=tuple(hosts))
    if text.startswith(("tcp://", "tls://")):
        return Where(kind="scheduler", address=text)
    raise ConfigError(
        f"no workers at {text!r}", remedy="local, ssh:HOST,HOST or tcp://ADDRESS:PORT"
    )


@asynccontextmanager
async def client_at(place: Where, workers: int) -> AsyncIterator[Any]:
    """A client of the cluster that is there, or that is made and ended with this. Raises
    HarnessError where no worker comes up."""
    import dask
    from distributed import Client  # its own settings are there before ours are laid over them
    from distributed.versions import VersionMismatchWarning

    async with AsyncExitStack() as stack:
        silent = {} if place.kind == "ssh" else _SILENT
        stack.enter_context(dask.config.set({**_CONFIG, **silent}))
        if place.kind == "ssh":  # its bundle has what we need from here, and not what else is here
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", VersionMismatchWarning)
        try:
            async with asyncio.timeout(UP_S):
                cluster = await stack.enter_async_context(_cluster(place, workers))
            address = place.address or cluster
            asked = Client(address, asynchronous=True, timeout=_START_S)  # type: ignore[no-untyped-call]
            client = await _entered(stack, asked)
            await client.wait_for_workers(1, timeout=_START_S)
        except (OSError, TimeoutError, RuntimeError) as error:
            raise HarnessError(
                f"no workers at {place.address or ', '.join(place.hosts) or place.kind}: "
                f"{reason_of(error)}",
                remedy="docs/nightly.md says how workers are started",
            ) from error
        yield client


async def _entered(stack: AsyncExitStack, asked: Any) -> Any:
    """A client that is connected; one that is not is closed, or what it had begun would go on."""
    try:
        return await stack.enter_async_context(asked)
    except BaseException:
        with suppress(Exception):
            await asyncio.wait_for(asked.close(), _CLOSE_S)
        raise


@asynccontextmanager
async def _cluster(place: Where, workers: int) -> AsyncIterator[Any]:
    from distributed import LocalCluster, SSHCluster

    one: dict[str, Any] = {"nthreads": 1, "resources": {LAB: 1}}
    if place.kind == "scheduler":
        yield None
    elif place.kind == "ssh":
        # It repeats each line of theirs.
        logging.getLogger("distributed.deploy.ssh").setLevel(logging.CRITICAL)
        async with SSHCluster(
            [place.hosts[0], *place.hosts],
            worker_options={**one, "death_timeout": _START_S, "memory_limit": 0},
            scheduler_options={"dashboard": False, "dashboard_address": ":0"},
            remote_python=f"{HOME}/python",
            asynchronous=True,
        ) as cluster:
            yield cluster
    else:
        local = LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            resources=one["resources"],
            memory_limit=0,
            silence_logs=logging.CRITICAL,
            dashboard_address=":0",
            security=True,
            protocol="tls://",
            asynchronous=True,
        )
        async with local as cluster:
            yield cluster
