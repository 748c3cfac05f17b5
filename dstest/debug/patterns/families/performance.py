"""Performance: latency, throughput, resources, queues."""

from __future__ import annotations

from typing import Final

from dstest.debug.patterns import history
from dstest.debug.patterns.anomalies import of_anomalies, of_check
from dstest.debug.patterns.model import LINES, OPERATIONS, Pattern, Sign, metric

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
            of_check("high_latency", "p95", strength="indicated", basis=history.HISTORY),
            Sign(
                "sampled",
                "sampled percentiles above the baseline",
                history.sampled_spikes,
                (metric(*history.LATENCIES),),
                "indicated",
                "high",
                excusable=True,
            ),
            of_anomalies(
                (),
                ("slo-missed", "unfair-latency"),
                severity="high",
                basis=history.HISTORY,
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
                "rate",
                "seconds in a row far below the rate at the start, outside of faults",
                history.collapse,
                (OPERATIONS,),
                "strong",
                "high",
                excusable=True,
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
                "told",
                "lines of descriptors, disk space, connections or threads that ran out",
                history.resource_lines,
                (LINES,),
                "strong",
                "high",
                excusable=True,
                words=True,
            ),
            Sign(
                "slope",
                "resources that grow steadily",
                history.grows,
                (metric(*history.RESOURCES),),
                "indicated",
                "high",
                excusable=True,
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
                "depth",
                "queues that grow while the rate of their consumers is flat",
                history.queues_grow,
                (metric(*history.QUEUES),),
                "strong",
                "high",
                excusable=True,
            ),
        ),
    ),
)
