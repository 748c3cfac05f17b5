"""What looks at a run beside its load, for as long as that lasts: the processes of the system, the
control host, and samples of the nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from dstest.core.clock import RunClock
from dstest.core.protocols import Deployment, SystemTraits
from dstest.core.run_meta import RunMeta
from dstest.runner.host_sampler import HostSampler
from dstest.runner.node_sampler import NodeSampler
from dstest.runner.plugins import Plugins
from dstest.runner.process_watch import ProcessWatch, as_facts
from dstest.store.layout import RunDir


class Watches:
    """They begin when this is made, in a loop that runs."""

    def __init__(
        self,
        plugins: Plugins,
        run: RunDir,
        run_clock: RunClock,
        members: Mapping[str, Any],
        deployment: Deployment,
    ) -> None:
        spec, system = plugins.spec, plugins.system
        self._processes = ProcessWatch(system, members, spec.options, run_clock)
        self._host = HostSampler(run, run_clock)
        self._nodes: NodeSampler | None = None
        if spec.monitor:
            asks = SystemTraits.of(system).asks
            self._nodes = NodeSampler(run, run_clock, members, deployment, asks, spec.time_limit_s)
        found = [one.run() for one in (self._processes, self._host, self._nodes) if one is not None]
        self._going: asyncio.Future[Any] = asyncio.gather(*found)

    async def finish(self, meta: RunMeta) -> None:
        """What became of the system's processes; they are stopped by us from here on."""
        self._going.cancel()
        await asyncio.gather(self._going, return_exceptions=True)
        meta.processes = as_facts(await self._processes.finish())

    async def last_samples(self, meta: RunMeta) -> None:
        """What the nodes still have."""
        if self._nodes is not None:
            meta.monitor = await self._nodes.finish()
