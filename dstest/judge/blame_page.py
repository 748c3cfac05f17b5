"""`docs/reference/blame.md`: the probes of who is to blame, and how type and weight of a bug are
found.

    python -m dstest.judge.blame_page >docs/reference/blame.md

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

A violation has one blame. `unknown - pending: ...` names the probes without a result: a wrong
guess is worse than none.

{classes}

## Probes

The first that fires decides; one that needs another decides only if both have fired.

"""

_RUNS = """
Probes without a cluster run whenever a run is judged; their answers are in `verdict.json`
(`evidence.probes`). They are bounded by counts, not by time: any host gets the same answer.

`dstest confirm RUN`, or its part `dstest blame RUN`, runs the others: the same seed and faults
again, and through the system's second client (`-o client=raw`), which shares no library with the
first. `blame` makes `--times` runs of each kind, and more if the violation is rare. If it does not
come again through the first client, the second client tells nothing. A run is quiet if the host had
no event near a violation, or none at all; if the host is suspected and no run shows the violation,
nine quiet runs are needed. Runs, `probes.json` and `findings.md` are kept in `RUN.blame`, which
`dstest report RUN` reads; the run itself does not change.

The second judges (`checkers/second/`) share no code with the checkers: Porcupine's algorithm for
objects, Elle's inference for transactions, brute force for both, in plain Python.

## Events of the host

`host.jsonl` has a sample a second. An event within two seconds of an operation of the first
violation counts, unless a fault of the run caused it (`disturbs_host` of its nemesis). CPU pressure
is recorded and is no event: the load makes it.

"""

_BUG = """
## What kind of bug, and how bad

`bug` in `verdict.json` has a TaxDC type, tags, a severity and reasons, or `unclassified: ` and why.

{bugs}

{types}

{weights}

P3 is never given: no run can show that no user notices.
"""

_FOUND: Final = (
    (
        (
            "the landed faults during the operations of the violation, else the last one "
            "healed within ten seconds before, by the type that its nemesis names (`taxdc`)"
        ),
        "the type, if they agree",
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
            "the broken claim: that of the anomaly (`breaks` of the checker), else those "
            "of the workload"
        ),
        (
            "tags; P0 if it is one of safety, durability, idempotency, isolation, "
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
        "P1 if it is not P0; else P2",
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
