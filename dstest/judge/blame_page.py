"""`docs/blame.md`: the probes of who is to blame, and how type and weight of a bug are found.

    python -m dstest.judge.blame_page >docs/blame.md

Probes, their order and the thresholds of the host are those of the code; the sentences are here.
"""

from __future__ import annotations

import sys
from typing import Final

from dstest.core.evidence import TAXDC_WORDS
from dstest.judge.blame import CLASSES, PROBES
from dstest.judge.host_events import EVENTS
from dstest.judge.symptom import SEVERITIES

_HEAD = """# Whose fault a violation is

Written by `python -m dstest.judge.blame_page`; do not edit.

A violation has one blame: `SUT`, `harness`, `checker`, `environment` or `unknown - pending: ...`
with the probes that have no result. A wrong guess is worse than none: `SUT` is said only where
each probe that speaks for the system has a result and none has fired.

{classes}

## Probes

In this order; the first that fires decides. One that needs another beside it decides only where
both have fired.

"""

_RUNS = """
Probes without a cluster are asked whenever a run is judged, or judged again; what they read is in
the run directory, and `verdict.json` has what they said (`evidence.probes`). They are bounded by
counts and not by time, so that they say the same on any host.

`dstest blame RUN` makes the others: the same run again (same seed, same faults), and through the
system's second client (`-o client=raw`), which shares no library with the first. It makes
`--times` runs of each kind, and more where the violation comes more rarely: what comes in every
third run and is gone in three may be there all the same. What does not come again through the
first client says nothing about the second. A run counts as quiet where the host had no event near
a violation, or none at all; where it comes in no run of a host that is under suspicion, nine quiet
ones are asked for, as for one that comes in three runs of ten. The runs, `probes.json` and a
`findings.md` are kept in `RUN.blame`; the run itself stays as it is. `dstest report RUN` reads that
directory, and asks its runs what they found.

The second judges are `checkers/second/`: Porcupine's algorithm for objects, Elle's inference for
transactions, brute force for both, in plain Python and without a line of the checkers. The
histories for the self-test come from there and from the store of `dstest generate`.

## Events of the host

The control process takes a sample a second into `host.jsonl`. An event within two seconds of an
operation of the first violation counts, unless a fault of the run did that to the host
(`disturbs_host` of its nemesis). CPU pressure is written down and is no event: the load makes it.

"""

_BUG = """
## What kind of bug, and how bad

`bug` in `verdict.json` has a TaxDC type, tags, a severity and the reasons; what is not known is
`unclassified: ` with why.

{bugs}

{types}

{weights}

P3 is never said: that no user notices is nothing that a run can show.
"""

_FOUND: Final = (
    (
        (
            "the landed faults that stood while the operations of the violation lasted, "
            "else the last one healed within ten seconds before; each nemesis says of "
            "which type the bugs are that it shows (`taxdc`)"
        ),
        "the type, where they agree",
    ),
    (
        "log lines of an error branch before it that no fault explains",
        "`fault-handling`",
    ),
    (
        "no such fault, and operations on its keys that overlap",
        "`ordering`",
    ),
    (
        "a broken bound on performance",
        "`performance`",
    ),
    (
        (
            "the broken claim: that of the type of anomaly (`breaks` of the checker), "
            "else those of the workload"
        ),
        (
            "tags; P0 where it is one of safety, durability, idempotency, isolation, "
            "ordering, membership or a boundary"
        ),
    ),
    (
        "several nodes that answered its operations",
        "the tag `replication`",
    ),
    (
        "a fault aimed at leaders, or `taxdc_tags` of its nemesis",
        "further tags",
    ),
    (
        "members that did not serve in the end",
        "P1 where it is not P0; else P2",
    ),
)
"""What is known, and what it gives."""


def markdown() -> str:
    """The page."""
    lines = ["| probe | fires against | needs | asks |", "|---|---|---|---|"]
    for name, about in PROBES.items():
        needs = " and ".join(
            [*(["a cluster"] if about.cluster else []), *(f"{n} fired" for n in about.beside)]
        )
        for_sut = " *" if about.for_sut else ""
        lines.append(f"| {name}{for_sut} | {about.who} | {needs or '-'} | {about.asks} |")
    events = ["| event | from | of |", "|---|---|---|"]
    events += [f"| {row.id} | {row.least:,g} | {row.title} |" for row in EVENTS]
    told = "\n\\* Without a result of these nothing is said of the system.\n"
    table = "\n".join(events) + "\n"
    bugs = [
        "| known | gives |",
        "|---|---|",
        *(f"| {known} | {gives} |" for known, gives in _FOUND),
    ]
    types = ["| type | shows where |", "|---|---|"]
    types += [f"| `{name}` | {words} |" for name, words in TAXDC_WORDS.items()]
    weights = ["| weight | says |", "|---|---|"]
    weights += [f"| {name} | {words} |" for name, words in SEVERITIES.items()]
    bug = _BUG
    for name, rows in (("bugs", bugs), ("types", types), ("weights", weights)):
        bug = bug.replace(f"{{{name}}}", "\n".join(rows))
    classes = ["| blame | says |", "|---|---|"]
    classes += [f"| `{name}` | {says} |" for name, says in CLASSES.items()]
    head = _HEAD.replace("{classes}", "\n".join(classes))
    return head + "\n".join(lines) + "\n" + told + _RUNS + table + bug


if __name__ == "__main__":
    sys.stdout.write(markdown())
