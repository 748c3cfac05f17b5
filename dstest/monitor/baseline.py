"""The baseline of a run: what it was like before its first fault, and whether that held still."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from dstest.monitor.client import Clients
from dstest.monitor.numbers import typical, variation
from dstest.monitor.settings import Settings

SHORT_WARM_UP = 0.2
"""Of a stretch that is too short for warm-up and measurement: its share that is left out."""

PARTS_LEAST = 3


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """`accepted`: it held still. `unstable`: it did not; what is compared with it is worth less.
    `none`: there was too little to measure, and nothing is compared. `said` is a sentence; times
    are run nanoseconds, `throughput` operations per second, latencies milliseconds.

    It is measured in parts, and what it says is the median over these: a stretch that went wrong by
    itself makes it unstable, and does not become what is usual."""

    status: Literal["accepted", "unstable", "none"]
    said: str
    start_ns: int = 0
    end_ns: int = 0
    whole: bool = False
    """Was it as long as it should be?"""
    operations: int = 0
    throughput: float = 0.0
    variation: float | None = None
    spread: float = 0.0
    """Of the throughput of the parts: 1.4826 times the median distance from their median, which is
    the standard deviation of what is normally distributed, and knows no outliers."""
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0
    p95_spread_ms: float = 0.0
    """The same of the p95 of the parts."""
    errors_per_1000: float = 0.0


def baseline_of(
    clients: Clients, settings: Settings, first_fault_ns: int | None = None
) -> Baseline:
    """After the warm-up, up to the first fault at the latest."""
    end_ns = clients.end_ns if first_fault_ns is None else min(first_fault_ns, clients.end_ns)
    start_ns = clients.start_ns
    there_ns = end_ns - start_ns
    warm_ns, measure_ns = int(settings.warm_up_s * 1e9), int(settings.measure_s * 1e9)
    whole = there_ns >= warm_ns + measure_ns
    if not whole:
        warm_ns = min(warm_ns, int(there_ns * SHORT_WARM_UP))
        measure_ns = min(measure_ns, there_ns - warm_ns)
    start_ns += warm_ns
    end_ns = start_ns + measure_ns
    before = "the end of the load" if first_fault_ns is None else "the first fault"
    if measure_ns < settings.measure_least_s * 1e9:
        said = (
            f"{max(0, measure_ns) / 1e9:.1f} s before {before}; a baseline takes "
            f"{settings.measure_least_s:g} s"
        )
        return Baseline(status="none", said=said)
    seen = clients.within(start_ns, end_ns)
    if seen.operations < settings.operations_least or not seen.latencies_ms:
        said = f"{seen.operations} operations in {measure_ns / 1e9:.0f} s before {before}"
        return Baseline(status="none", said=f"{said}; a baseline takes {settings.operations_least}")
    return _measured(clients, settings, start_ns, end_ns, whole)


def _measured(
    clients: Clients, settings: Settings, start_ns: int, end_ns: int, whole: bool
) -> Baseline:
    part_ns = min(int(settings.part_s * 1e9), (end_ns - start_ns) // PARTS_LEAST)
    parts = [
        clients.within(at, at + part_ns) for at in range(start_ns, end_ns - part_ns + 1, part_ns)
    ]
    seen = clients.within(start_ns, end_ns)
    rates = [part.throughput for part in parts]
    varies = variation(rates)
    still = varies <= settings.variation_most
    lasted, began = f"{(end_ns - start_ns) / 1e9:.0f} s", f"from {start_ns / 1e9:.0f} s on"
    if whole:
        said = f"measured for {lasted} {began}"
    else:
        said = f"short ({lasted} of the {settings.measure_s:g} asked), measured {began}"
        said += f", where {settings.warm_up_s:g} s of warm-up are due"
    said += (
        f"; throughput varied by {varies:.1%} over {len(parts)} parts "
        f"({settings.variation_most:.0%} at most)"
    )
    rate, spread = typical(rates)
    p95, p95_spread = typical([part.latency_ms(0.95) for part in parts])
    return Baseline(
        status="accepted" if still else "unstable",
        said=said,
        start_ns=start_ns,
        end_ns=end_ns,
        whole=whole,
        operations=seen.operations,
        throughput=round(rate, 6),
        variation=None if math.isinf(varies) else round(varies, 6),
        spread=round(spread, 6),
        p50_ms=round(typical([part.latency_ms(0.5) for part in parts])[0], 6),
        p95_ms=round(p95, 6),
        p95_spread_ms=round(p95_spread, 6),
        p99_ms=round(typical([part.latency_ms(0.99) for part in parts])[0], 6),
        errors_per_1000=round(seen.errors_per_1000, 6),
    )
