"""Samples of simulated hosts: what a simulated server says of itself, and what its host has sent.

Nothing is sent to ask for it and nothing random is drawn, so that a simulation is the same, byte
for byte, whether it is sampled or not. There is no memory and no processor of a simulated host, and
no sample says that there were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusters.remote.agent_readings import Readings, numbers_of
from dstest.core.clock import RunClock
from dstest.core.protocols.sampling import Asks
from dstest.monitor.rows import Row, encoded, unit_of
from dstest.runner.node_sampler import every_s, metrics_file, rows_of
from dstest.sim.world import World
from dstest.store.layout import RunDir


class SimulatedSampler:
    """From `start` to `stop` it looks whenever a second of the simulated clock has passed."""

    def __init__(
        self, world: World, run_clock: RunClock, asks: Sequence[Asks], time_limit_s: float
    ) -> None:
        self._world = world
        self._clock = run_clock
        self._asks = [ask for ask in asks if ask.form == "json"]
        self._readings = {
            name: [Readings(rows_of(ask)) for ask in self._asks] for name in world.hosts
        }
        self._every_s = every_s(time_limit_s)
        self._due_ns = 0
        self._before_ns = 0
        self._rows: list[Row] = []
        self._samples = dict.fromkeys(world.hosts, 0)
        self._sent = dict(world.net.sent_bytes)

    def start(self) -> None:
        """The first look is at once."""
        self._due_ns = self._clock.now_ns()
        self._world.loop.moved = self._moved
        self._moved()

    def stop(self) -> None:
        """No more looks."""
        self._world.loop.moved = lambda: None

    def _moved(self) -> None:
        now_ns = self._clock.now_ns()
        if now_ns >= self._due_ns:
            self._look(now_ns)
            self._due_ns += int(self._every_s * 1e9)
            self._due_ns = max(self._due_ns, now_ns)

    def _look(self, now_ns: int) -> None:
        units = {r.name: r.unit for ask in self._asks for r in ask.readings}
        for name, host in self._world.hosts.items():
            values = self._host(name, host, now_ns)
            self._samples[name] += 1
            self._rows += [
                Row(
                    time_ns=now_ns,
                    node=name,
                    name=key,
                    value=round(value, 6),
                    unit=units.get(key) or unit_of(key),
                )
                for key, value in values.items()
            ]
        self._sent, self._before_ns = dict(self._world.net.sent_bytes), now_ns

    def _host(self, name: str, host: Any, now_ns: int) -> dict[str, float]:
        net = self._world.net
        found: dict[str, float] = {"answers": 0.0}
        if host.up and host.status is not None:
            said = {"ok": host.status()}
            found = {"answers": 1.0}
            for one in self._readings[name]:
                found |= one.of(numbers_of(said, one.places), now_ns)
        found["messages_sent"] = float(net.sent[name])
        if self._before_ns and now_ns > self._before_ns:
            grown = net.sent_bytes[name] - self._sent.get(name, 0)
            found["net_sent"] = grown / ((now_ns - self._before_ns) / 1e9)
        return found

    def keep(self, run: RunDir) -> dict[str, Any]:
        """Write them down; for run.json."""
        metrics_file(run).write_bytes(encoded(self._rows))
        return {
            "every_s": self._every_s,
            "nodes": {name: {"samples": n, "lost": 0} for name, n in self._samples.items()},
        }
