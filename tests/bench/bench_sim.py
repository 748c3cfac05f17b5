"""Simulation: seeds an hour of the register workload on toykv, on one process and on two."""

from __future__ import annotations

import sys
import time

from dstest.sim.simulate import sim_spec_of
from dstest.sim.sweep import sweep

SEEDS = 60


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<56} {value}\n")
    sys.stdout.flush()


def main() -> None:
    wanted = sim_spec_of("toykv", "register", [])
    for workers in (1, 2):
        begun = time.perf_counter()
        seen = list(sweep(wanted, range(1, SEEDS + 1), workers))
        took_s = time.perf_counter() - begun
        assert not any(one.violated or one.failures for one in seen)
        ops = sum(one.ok + one.fail + one.unknown for one in seen)
        events = sum(one.events for one in seen)
        say(
            f"register, {SEEDS} seeds of 3 hosts and 15 s, {workers} processes",
            f"{SEEDS / took_s * 3600:,.0f} seeds/hour, {ops / took_s:,.0f} operations/s, "
            f"{events / took_s:,.0f} events/s",
        )


if __name__ == "__main__":
    main()
