"""The eight techniques that a plan chooses from, and what each catches (discipline 9.2)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import msgspec


class About(msgspec.Struct, frozen=True):
    """What a technique catches that others miss, what it misses, what it costs, and where one reads
    of it."""

    catches: str
    misses: str
    cost: str
    reference: str


COUNTS: Final = MappingProxyType({"change-scoped": (2, 4), "project-wide": (5, 7)})
"""How many a plan of each mode uses; one alone is suspicious."""

TECHNIQUES: Final = MappingProxyType(
    {
        "history checking": About(
            "anomalies of consistency, in what clients saw",
            "performance, leaks, loads that were not run",
            "a history of 10,000 operations and more for each scenario",
            "https://arxiv.org/abs/2003.10554",
        ),
        "fault injection": About(
            "partial failures of the real cluster",
            "rare interleavings, since nothing is deterministic",
            "a lab, a proof for each fault, time to recover",
            "https://principlesofchaos.org/",
        ),
        "deterministic simulation": About(
            "interleavings, and each again by its seed",
            "kernel, network card, disk, real timing",
            "all input, output and clocks of the program behind an interface",
            "https://apple.github.io/foundationdb/testing.html",
        ),
        "fuzzing": About(
            "crashes of parsers and of state machines",
            "whether an answer is right",
            "a small target, sanitizers, a corpus to begin with",
            "https://llvm.org/docs/LibFuzzer.html",
        ),
        "formal methods": About(
            "mistakes in the design of a protocol",
            "mistakes in its program",
            "a model, and a document that maps it to the code",
            "https://lamport.azurewebsites.net/tla/tla.html",
        ),
        "property and metamorphic tests": About(
            "violations of laws, with a small example",
            "laws that nobody stated",
            "laws, generators, shrinking",
            "https://hypothesis.readthedocs.io/",
        ),
        "performance tests": About(
            "tails, and groups that are served worse",
            "whether an answer is right",
            "an open loop at a constant rate, whole distributions",
            "https://research.google/pubs/the-tail-at-scale/",
        ),
        "crash recovery and upgrade": About(
            "durability, and what mixed versions do to each other",
            "anomalies of a cluster at rest",
            "a crash at each step, and each step of an upgrade",
            "https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai",
        ),
    }
)
