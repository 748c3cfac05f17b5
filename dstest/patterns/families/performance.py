"""Performance: latency, throughput, resources, queues."""

from __future__ import annotations

from typing import Final

from dstest.patterns import loadfigures
from dstest.patterns.from_logs import of_check
from dstest.patterns.judged import judged
from dstest.patterns.model import Pattern, Sign
from dstest.patterns.needs import LINES, OPERATIONS, metric

PATTERNS: Final = (
    Pattern(
        id="latency-spike",
        number=13,
        name="Latency spike",
        family="performance",
        symptoms="the slow tail of operations becomes much slower than it was",
        causes=("pauses of the process or its disk", "a queue", "one slow member in each quorum"),
        mitigations=("bound queues, hedge requests, take the slow member out",),
        measure=(
            "-o spans=yes, then `dstest trace RUN`: where the time goes",
            "samples of all nodes",
        ),
        signs=(
            of_check("high_latency", "p95", strength="indicated", basis=loadfigures.HISTORY),
            Sign(
                id="sampled",
                asks="sampled percentiles above the baseline",
                needs=(metric(*loadfigures.LATENCIES),),
                find=loadfigures.sampled_spikes,
                strength="indicated",
                severity="high",
            ),
            judged(
                (),
                ("slo-missed", "unfair-latency"),
                severity="high",
                basis=loadfigures.HISTORY,
            ),
        ),
    ),
    Pattern(
        id="throughput-collapse",
        number=14,
        name="Throughput collapse",
        family="performance",
        symptoms="far fewer operations are served than before, with the same asked for",
        causes=("one thing that all wait for", "retries that feed themselves", "no capacity left"),
        mitigations=("split what all wait for; shed load before queues are full",),
        measure=("samples of CPUs tell waiting from capacity",),
        signs=(
            Sign(
                id="rate",
                asks="seconds in a row far below the rate at the start, outside of faults",
                needs=(OPERATIONS,),
                find=loadfigures.collapse,
                strength="strong",
                severity="high",
            ),
        ),
    ),
    Pattern(
        id="resource-exhaustion",
        number=15,
        name="Resource exhaustion",
        family="performance",
        symptoms="memory, descriptors, connections or disk run out, or grow until they will",
        causes=("a leak", "a bound that is missing", "a log that is never cut"),
        mitigations=("bound each resource and refuse above; alarm on the slope, not the end",),
        measure=("samples over at least ten minutes: slopes",),
        signs=(
            of_check("out_of_memory", "oom", strength="strong", words=True),
            Sign(
                id="told",
                asks="lines of descriptors, disk space, connections or threads that ran out",
                needs=(LINES,),
                find=loadfigures.resource_lines,
                words=True,
                strength="strong",
                severity="high",
            ),
            Sign(
                id="slope",
                asks="resources that grow steadily",
                needs=(metric(*loadfigures.RESOURCES),),
                find=loadfigures.grows,
                strength="indicated",
                severity="high",
            ),
        ),
    ),
    Pattern(
        id="back-pressure",
        number=25,
        name="Back-pressure failure",
        family="performance",
        symptoms="a queue grows while what takes from it does not take more",
        causes=("producers that are never told to wait", "one consumer that is slower than all"),
        mitigations=("bound the queue and make producers wait or fail",),
        measure=("samples of the depth of queues",),
        signs=(
            Sign(
                id="depth",
                asks="queues that grow while the rate of their consumers is flat",
                needs=(metric(*loadfigures.QUEUES),),
                find=loadfigures.queues_grow,
                strength="strong",
                severity="high",
            ),
        ),
    ),
)
