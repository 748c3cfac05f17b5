"""Every threshold of the patterns, in one place, with what it means.

Users change them by `core/thresholds.py`. Those of the log checks (`dstest/logs`) are theirs.
"""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds, shares from 0 to 1, ratios as they are. Where discipline 7.2 names a
    number, it is that one."""

    participation_least: float = 0.5
    """Share of the mean of all nodes: who takes part less is silent (7.2 (c) 2)."""
    participation_good: float = 0.9
    """Share of the decisions that a healthy node takes part in (7.2 (c) 2, (f))."""
    votes_least: int = 5
    """Votes a node on the mean that logs have to tell of, before few of one node mean anything:
    some systems' logs tell of who won alone."""
    opposite_votes_most: int = 3
    """Votes in a row against the majority; more are no accident (7.2 (c) 3, its k)."""
    decision_s: float = 5.0
    """A proposal without a decision for so long has timed out (7.2 (f): consensus < 5 s)."""
    timeouts_most: float = 0.05
    """Share of operations that may end without an answer where no fault stands (7.2 (d))."""
    message_s: float = 10.0
    """A message that was not received for so long is lost (7.2 (c) 6, its T)."""
    delay_times_median: float = 20.0
    """p99 of a link's delay, in times of its median (7.2 (c) 7, its k): network delays have long
    tails, and ten is met by a busy host."""
    detection_s: float = 10.0
    """From a partition that has landed to the first word of it (7.2 (c) 11)."""
    cascade_times: float = 3.0
    """Share of bad operations after a fault, in times of before it (7.2 (c) 12, its k)."""
    cascade_errors: float = 0.2
    """And not less than this share: three times nothing is nothing."""
    spike_times: float = 1.5
    """p95 or p99 in times of the baseline (7.2 (c) 13)."""
    spike_ms: float = 1000.0
    """A percentile above this is high whatever the baseline (7.2 (d))."""
    throughput_least: float = 0.7
    """Share of the baseline below which throughput has collapsed (7.2 (c) 14)."""
    throughput_s: int = 5
    """For so many whole seconds in a row: one bad second is noise."""
    waiting_most: float = 0.5
    """And clients have waited for this share of the time, or not all that they asked was served:
    where they ask for less, less is served."""
    host_full: float = 0.9
    """Above this share of the host's CPUs in use, a rate that falls may be the host's."""
    cpu_idle: float = 0.5
    """Below this share of a CPU, throughput that collapsed was waiting for something."""
    slope_r2: float = 0.9
    """R² of a straight line above which a resource grows steadily (7.2 (c) 15)."""
    slope_s: float = 60.0
    """And over at least so long: every server grows while it warms up."""
    growth_least: float = 0.5
    """And by this share of what it began with."""
    rss_most: float = 512e6
    """Resident memory of a server that is a warning of itself (7.2 (d))."""
    queue_most: float = 10_000.0
    """Waiting entries that are a warning of themselves (7.2 (d))."""
    stuck_s: float = 10.0
    """No progress for so long is a deadlock or a livelock (7.2 (c) 16, 17, its T)."""
    attempts_least: int = 10
    """Fewer attempts than these show neither starvation nor livelock."""
    terms_most: int = 5
    """New terms without a commit between them; more are an oscillation (7.2 (c) 17)."""
    recovery_s: float = 30.0
    """From a heal to the load going well again (7.2 (c) 24)."""
    lag_least: int = 50
    """Entries that a replica is behind at the end, at least, to be called behind."""


def says() -> dict[str, float]:
    """All of them with their defaults."""
    return msgspec.structs.asdict(Settings())
