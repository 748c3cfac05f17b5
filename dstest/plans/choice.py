"""What a plan chooses from: which checker judges a claim of which category and model; the sixteen
pitfalls, eight kinds of hypotheses, confusable identifiers and eight techniques; and what of all
that fits a system, with the command that begins what is missing.

Rows name models that checkers know, faults (`Nemesis.faults`) and models (`Checker.models`) as
plug-ins say themselves, so that those of the user are picked like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.check import CATEGORIES
from dstest.core.errors import ConfigError
from dstest.judge.checker_answers import model_of
from dstest.runner.requirements import check_client, check_requires

_TXN: Final = (
    *("strict-serializable", "strong-serializable", "serializable", "snapshot-isolation"),
    *("repeatable-read", "read-committed", "monotonic-atomic-view"),
)
_QUEUES: Final = ("exactly-once", "at-least-once")
_SESSION: Final = ("session", "monotonic-reads")

KINDS: Final = (
    "correctness",
    "durability",
    "liveness",
    "partial failure",
    "idempotency/replay",
    "upgrade/rollback",
    "configuration",
    "performance/fairness",
)
"""Of hypotheses; a plan has some of each, or says why not."""

CONFUSABLES: Final = MappingProxyType(
    {
        "same name": "`orders` of tenant 1, `orders` of tenant 2",
        "prefix": "`t1`, `t10`",
        "case": "`Tenant`, `tenant`",
        "separator": "`a/b`, `a%2Fb`",
        "trailing": "`t1`, `t1 ` (a space), `t1\\u0000`",
        "recycled": "an id that was deleted and is given again",
        "off by one": "the last key of a range, and the one behind it",
        "overflow": "2^63 - 1, -2^63",
        "unicode": "`é` as one character and as two",
    }
)
"""A word that names the class -> examples."""

COUNTS: Final = MappingProxyType({"change-scoped": (2, 4), "project-wide": (5, 7)})
"""How many a plan of each mode uses; one alone is suspicious."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of `category` about a `model` is judged by `kind`: a checker that knows one of
    `judged_by`. `promise` is such a claim in a sentence, `word` the beginning of its scenario's
    name. `options` are what the checker must be told before the run; each choice of the option
    `arms_by` of a workload is a surface. `ours`: a row that the published table lacks."""

    model: str
    category: str
    kind: str
    judged_by: frozenset[str]
    promise: str
    word: str
    options: Mapping[str, str] = MappingProxyType({})
    arms_by: str = ""
    ours: bool = False


def _row(
    model: str,
    category: str,
    word: str,
    kind: str,
    promise: str,
    *judged_by: str,
    options: Mapping[str, str] = MappingProxyType({}),
    arms_by: str = "",
    ours: bool = False,
) -> Choice:
    return Choice(
        model=model,
        category=category,
        kind=kind,
        judged_by=frozenset(judged_by),
        promise=promise,
        word=word,
        options=options,
        arms_by=arms_by,
        ours=ours,
    )


_PUBLISHED: Final = (
    _row(
        *("register", "safety", "linearizable", "linearizability"),
        "a read or write of a register takes effect once, between its call and its answer",
        *("register", "cas-register"),
    ),
    _row(
        *("log", "durability", "durable", "no lost ack, and replay"),
        "what was acknowledged is there afterwards, whatever fails in between",
        *("durable", "eventual", "linearizable", "kafka"),
    ),
    _row(
        *("map", "isolation", "isolated", "serializability, per key and across keys"),
        "transactions on several keys have the effects of some order, one after another",
        *_TXN,
    ),
    _row(
        *("session", "safety", "monotonic", "guarantees of sessions, monotonic reads"),
        "a session never reads anything older than what it has read or written",
        *_SESSION,
    ),
    _row(
        *("ledger", "idempotency", "exactly_once", "exactly once by the business key"),
        "a request that is sent again under its key has its effect once",
        "ledger",
    ),
    _row(
        *("membership-table", "membership", "agreeing", "replicas agree at rest"),
        "once nobody writes any more, all members hold the same, whoever joined or left",
        "converged",
    ),
    _row(
        *("queue", "ordering", "ordered", "prefix and order"),
        "elements leave a queue in the order in which they came",
        "fifo",
    ),
    _row(
        *("counter", "safety", "bounded", "linearizability, or a bound at the end"),
        "a counter is never below what was acknowledged, nor above what was asked for",
        *("counter-bounds", "counter", "invariant"),
    ),
    _row(
        *("lock", "safety", "exclusive", "exclusion"),
        "a lock has one holder at a time",
        *("lock", "mutex"),
    ),
    _row(
        *("lease", "safety", "exclusive", "exclusion, with times to live"),
        "a lease has one holder at a time, and ends when its time is over",
        "lease",
    ),
    _row(
        *("any", "fairness", "fair", "a formula for each group"),
        "no group of clients is served much worse than the others",
        "fair",
        arms_by="fairness_by",
    ),
)
"""The published table."""

_OURS: Final = (
    _row(
        *("any", "performance-SLO", "latency", "levels declared before the run"),
        "requests are served within the declared levels",
        "slo",
        options={"slo": "p99_ms<=2000,ok_ratio>=0.5"},
        ours=True,
    ),
    _row(
        *("any", "liveness", "progress", "the longest stretch without service"),
        "service comes back within a bounded time of a fault",
        "slo",
        options={"slo": "gap_s<=30"},
        ours=True,
    ),
    _row(
        *("any", "operational", "available", "levels that hold while somebody operates it"),
        "the service keeps to its levels while it is restarted, changed or upgraded",
        "slo",
        options={"slo": "ok_ratio>=0.5,gap_s<=30"},
        ours=True,
    ),
    _row(
        *("log", "ordering", "ordered", "the order of a log by its offsets"),
        "readers of a log see its elements by their offsets, without gaps",
        *("linearizable", "kafka"),
        ours=True,
    ),
    _row(
        *("log", "safety", "never_lost", "no element is lost or made up"),
        "an element that was seen once is seen from then on",
        *("linearizable", "kafka"),
        ours=True,
    ),
    _row(
        *("feed", "ordering", "ordered", "streams without gaps, repeats or detours"),
        "a watcher sees every change once, and in the order in which they were made",
        "watch",
        ours=True,
    ),
    _row(
        *("session", "ordering", "monotonic", "guarantees of sessions"),
        "a session sees its own writes, and the writes of others in one order",
        *_SESSION,
        ours=True,
    ),
    _row(
        *("causal", "safety", "causal", "causal order"),
        "who sees a write sees all that it was based on",
        "causal",
        ours=True,
    ),
    _row(
        *("queue", "safety", "never_lost", "every element is accounted for"),
        "an element that was accepted is delivered, and as often as promised",
        *_QUEUES,
        ours=True,
    ),
    _row(
        *("tenants", "boundary", "isolated", "who was shown what, by unique values"),
        "a tenant sees, lists and counts its own keys alone, whatever names others have",
        *("isolated", "isolated-late"),
        ours=True,
    ),
    _row(
        *("id-generator", "safety", "unique", "unique, or increasing"),
        "no two clients are given the same id",
        *("unique", "increasing"),
        ours=True,
    ),
)

PICKER: Final = (*_PUBLISHED, *_OURS)

MODELS: Final = (*dict.fromkeys(row.model for row in PICKER if row.model != "any"), "other")
"""What section 7.M may name as its model; `other(name)` for anything else."""


def rows_of(category: str, model: str | None = None) -> list[Choice]:
    """The rows for a category of claims, and for one model where it is given."""
    return [
        row
        for row in PICKER
        if row.category == category and (model is None or row.model in (model, "any"))
    ]


def checkers_of(rows: Iterable[Choice]) -> list[str]:
    """The registered checkers that these rows ask for, by name."""
    asked = frozenset().union(*(row.judged_by for row in rows))
    return [
        name
        for name in registry.names("checkers")
        if asked & {*registry.load("checkers", name).models}
    ]


def models_of(workload: Any) -> frozenset[str]:
    """The models by which a workload's checkers judge it."""
    checkers = [registry.load("checkers", name) for name in workload.checkers]
    return frozenset(model_of(checker, workload.model) for checker in checkers)


def workloads_of(row: Choice) -> list[str]:
    """The workloads that are judged as the row asks; those that claim it, where any does."""
    found = {name: registry.load("workloads", name) for name in registry.names("workloads")}
    judged = {name: work for name, work in found.items() if row.judged_by & models_of(work)}
    claimed = [name for name, work in judged.items() if row.category in work.claims]
    return claimed or [*judged]


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which systems like this have failed. It falsifies claims of these `categories`;
    `statement` is a hypothesis of this `kind`, `faults` bring it about, best first, and a checker
    of one of the `models` sees it. `common`: looked at in most analyses."""

    number: int
    name: str
    kind: str
    categories: tuple[str, ...]
    statement: str
    because: str
    faults: tuple[str, ...]
    models: tuple[str, ...]
    common: bool = False


def _pattern(
    number: int, name: str, kind: str, categories: str, statement: str, because: str, *tested: str
) -> Pattern:
    """`tested` are the numbers of faults, then the models."""
    return Pattern(
        number=number,
        name=name,
        kind=kind,
        categories=tuple(categories.split()),
        statement=statement,
        because=because,
        faults=tuple(word for word in tested if word[:1] == "N" and word[1:].isdigit()),
        models=tuple(word for word in tested if not (word[:1] == "N" and word[1:].isdigit())),
        common=number <= 6,
    )


PITFALLS: Final = (
    _pattern(
        *(1, "lost update", "durability", "durability safety"),
        "of two concurrent updates during a partition one is acknowledged and then lost",
        "an update that is read, changed and written back needs a guard on both sides",
        *("N05", "N06", "N10", "register", "cas-register", "counter", "linearizable"),
    ),
    _pattern(
        *(2, "stale read", "correctness", "safety ordering"),
        "a session reads something older than what it has written or read before",
        "members answer reads from what they have applied, and one may lag",
        *("N08", "N27", "N05", "session", "monotonic-reads", "register"),
    ),
    _pattern(
        *(3, "divergent replicas", "partial failure", "membership durability safety"),
        "after a fault has healed, two replicas hold different states for good",
        "what was written on one side of a partition is merged by nobody",
        *("N05", "N01", "N33", "converged"),
    ),
    _pattern(
        *(4, "wrong under skewed clocks", "correctness", "safety"),
        "a read that is answered by the clock alone is stale once clocks are apart",
        "leases of leaders and of readers compare clocks of different machines",
        *("N23", "N24", "register", "cas-register"),
    ),
    _pattern(
        *(5, "lost ack, lost commit", "idempotency/replay", "durability idempotency"),
        "a server that dies at its commit has acknowledged what is lost, or done what it refused",
        "the answer and the commit are two steps, and a crash comes between",
        *("N01", "N06", "N17", "N04", "durable", "linearizable", "ledger"),
    ),
    _pattern(
        *(6, "races of a membership change", "configuration", "membership safety"),
        "while members are added and removed, writes are lost or two quorums decide",
        "the old and the new configuration count different majorities",
        *("N33", "N25", "converged", "register"),
    ),
    _pattern(
        *(7, "wrong recovery from a crash", "durability", "durability"),
        "after a crash a member serves a state that its log does not give",
        "what was acknowledged may not have been synced, or is replayed twice",
        *("N17", "N20", "N01", "durable", "linearizable", "eventual"),
    ),
    _pattern(
        *(8, "schema change in traffic", "upgrade/rollback", "operational safety"),
        "while the schema or the version changes, writes are refused or lost",
        "old and new code read what the other has written",
        *("N29", "N28", "N34", "durable", "linearizable"),
    ),
    _pattern(
        *(9, "colliding ids", "correctness", "safety"),
        "two clients are given the same id, or ids that go backwards",
        "a sequence is cached, or restarts at what was last persisted",
        *("N05", "N01", "unique", "increasing"),
    ),
    _pattern(
        *(10, "lost or repeated events", "partial failure", "ordering"),
        "a watcher misses an event, sees one twice, or sees them in another order than they were",
        "a stream is resumed on another member, from a place that it has dropped",
        *("N12", "N05", "N32", "watch", "fifo", "kafka"),
    ),
    _pattern(
        *(11, "half a transaction", "correctness", "isolation"),
        "a transaction on several keys is seen in part, or in two different orders",
        "what one member coordinates is done on several, and it may die in between",
        *("N01", "N05", "N12", "strict-serializable", "serializable"),
    ),
    _pattern(
        *(12, "safety by clocks", "correctness", "safety"),
        "two clients hold a lock at once when clocks are further apart than was assumed",
        "a lease ends by the clock of one, and is used by the clock of another",
        *("N23", "N24", "N03", "lease", "lock"),
    ),
    _pattern(
        *(13, "divergent rights or quotas", "configuration", "boundary"),
        "a member that missed a change of rights lets in whom the others refuse",
        "rights are cached by each member, and revoked on one at a time",
        *("N31", "N30", "N05", "fair"),
    ),
    _pattern(
        *(14, "leases under load", "liveness", "liveness safety"),
        "a holder that renews in time loses its lease under load, or keeps it after its end",
        "renewals wait behind other work, on disk or in a paused process",
        *("N03", "N18", "lease", "lock"),
    ),
    _pattern(
        *(15, "forgotten attempts", "idempotency/replay", "idempotency"),
        "a request that is tried again after a restart has its effect twice",
        "the memory of what was done is a cache, which a restart empties",
        *("N01", "N06", "N04", "ledger"),
    ),
    _pattern(
        *(16, "blocked by the first", "performance/fairness", "liveness fairness performance-SLO"),
        "one slow or poisonous entry keeps all that come after it waiting",
        "a queue has one head, and a group may stand behind another",
        *("N03", "N27", "N09", "fair", "at-least-once"),
    ),
)


class About(msgspec.Struct, frozen=True):
    """What a technique catches that others miss, what it misses, what it costs, and where one reads
    of it."""

    catches: str
    misses: str
    cost: str
    reference: str


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


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """What no plug-in does, and the command that writes the beginning of one; empty where a file of
    the system itself is what lacks something."""

    what: str
    command: str = ""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the picker on a system. `besides`: its checkers are asked with --checker, beside
    those of any workload. `nemeses` bring about the pitfalls of such claims, best first."""

    category: str
    model: str
    kind: str
    checkers: list[str]
    besides: bool
    workloads: list[str]
    nemeses: list[str]
    missing: list[Missing]

    @property
    def usable(self) -> bool:
        """Can a claim of this kind be tested on the system?"""
        return bool(self.checkers and self.workloads)


class Toolbox(msgspec.Struct, frozen=True, kw_only=True):
    """All of that. `untested` are categories of claims for which there is nothing at all; `refused`
    are nemeses that the system cannot have, with the reason."""

    system: str
    tools: list[Tool]
    refused: dict[str, str]
    untested: list[Missing]


def fitting_nemeses(system: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The nemeses that inject something and fit the system; why the others do not."""
    fits, refused = {}, {}
    for name in registry.names("nemeses"):
        nemesis = registry.load("nemeses", name)
        if not nemesis.injects:
            continue
        try:
            check_requires(system, nemesis)
            fits[name] = nemesis
        except ConfigError as error:
            refused[name] = error.message
    return fits, refused


def patterns_of(row: Choice) -> list[Pattern]:
    """The pitfalls of such claims, those that a checker of the row would see first."""
    mine = [pattern for pattern in PITFALLS if row.category in pattern.categories]
    return sorted(mine, key=lambda pattern: not {*pattern.models} & row.judged_by)


def toolbox(name: str) -> Toolbox:
    """What there is for the system of this name. Raises ConfigError where there is no such."""
    system = registry.load("systems", name)
    fits, refused = fitting_nemeses(system)
    tools = [_tool(system, row, fits) for row in PICKER]
    known = {row.category for row in PICKER}
    return Toolbox(
        system=name,
        tools=tools,
        refused=refused,
        untested=[
            Missing(
                what=f"no checker and no workload for claims of the category {category}",
                command=f"dstest new checker {category}; dstest new workload {category}-load",
            )
            for category in sorted(CATEGORIES - known)
        ],
    )


def _tool(system: Any, row: Choice, fits: dict[str, Any]) -> Tool:
    checkers = checkers_of([row])
    own = workloads_of(row)
    besides = not own and bool(checkers)
    able, unable = _clients(system, registry.names("workloads") if besides else own)
    missing = []
    if not checkers:
        missing.append(
            Missing(
                what=f"no checker knows {' or '.join(sorted(row.judged_by))}",
                command=f"dstest new checker {_called(row)}",
            )
        )
    if not own and not besides:
        command = f"dstest new workload {_called(row)}"
        missing.append(Missing(what=f"no workload is judged by {row.kind}", command=command))
    elif not able:
        missing += [Missing(what=why) for why in dict.fromkeys(unable.values())]
    nemeses, lacking = _faults(row, fits)
    return Tool(
        category=row.category,
        model=row.model,
        kind=row.kind,
        checkers=checkers,
        besides=besides,
        workloads=able,
        nemeses=nemeses,
        missing=missing + lacking,
    )


def _called(row: Choice) -> str:
    return f"{row.model}-{row.category}".casefold()[:30].strip("-")


def _clients(system: Any, names: list[str]) -> tuple[list[str], dict[str, str]]:
    """The workloads that a client of the system can do, and why not the others."""
    able, unable = [], {}
    for name in names:
        work = registry.load("workloads", name)
        try:
            if work.capability not in system.capabilities:
                raise ConfigError(
                    f"{system.name} offers no client for {work.capability} ({name})",
                    remedy="another workload: `dstest list` says which fit",
                )
            check_client(system, work)
            able.append(name)
        except ConfigError as error:
            unable[name] = error.message
    return able, unable


def _faults(row: Choice, fits: dict[str, Any]) -> tuple[list[str], list[Missing]]:
    """Nemeses for the pitfalls of a row that fit the system; what no nemesis delivers at all."""
    every = {name: registry.load("nemeses", name) for name in registry.names("nemeses")}
    found: dict[str, None] = {}
    lacking: dict[str, Missing] = {}
    for pattern in patterns_of(row):
        for number in pattern.faults:
            found |= dict.fromkeys(name for name, one in fits.items() if number in one.faults)
            if not any(number in one.faults for one in every.values()):
                command = f"dstest new nemesis {number.casefold()}"
                lacking[number] = Missing(what=f"no nemesis delivers {number}", command=command)
    return [*found], [*lacking.values()]
