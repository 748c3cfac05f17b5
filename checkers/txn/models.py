"""Consistency models, what each implies, and which anomalies each rules out.

The models form a lattice: a history that satisfies one satisfies every model that it implies
(`serializable` implies `snapshot-isolation`). Each model proscribes anomalies of its own and those
of the models it implies. Anomalies imply one another too: G0 is a G1c whose edges happen to be all
ww. So an anomaly rules out the models that proscribe it or anything it implies, and all models
above them:

    boundary({"G1b"}).not_      == ["read-committed"]                the weakest ones ruled out
    boundary({"G1b"}).also_not  == ["causal-cerone", ...]            what lies above them

Names are Elle's. Sources: Adya, *Weak Consistency* (MIT, 1999), for PL-1 to PL-3, PL-2+, PL-2L,
PL-CS, PL-MSR, PL-FCV, PL-3U, PL-SI and G0 to G-update; Bailis et al., *Highly Available
Transactions* (VLDB 2013), for the session guarantees and monotonic atomic view; Cerone, Bernardi
and Gotsman (CONCUR 2015) for read atomic, causal, prefix and parallel snapshot isolation; Daudjee
and Salem (VLDB 2006) for strong session variants. Where definitions are contested we hold to Elle's
choice, so that verdicts can be compared.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "ALIASES",
    "ANOMALIES",
    "MODELS",
    "OWN",
    "STRONGEST",
    "UNTESTED",
    "Boundary",
    "anomalies_implied",
    "boundary",
    "canonical",
    "counts_sessions",
    "implied_models",
    "judged_models",
    "known_models",
    "lattice",
    "proscribed",
    "require_judged",
    "weaker",
    "with_sessions",
]

MODELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # of one object, or of sessions
        "monotonic-reads": (),
        "monotonic-writes": (),
        "read-your-writes": (),
        "writes-follow-reads": (),
        "PRAM": ("monotonic-reads", "monotonic-writes", "read-your-writes"),
        "causal": ("PRAM", "writes-follow-reads"),
        "sequential": ("causal",),
        "linearizable": ("sequential",),
        # of transactions
        "1SR": (),
        "view-serializable": (),
        "read-uncommitted": (),
        "read-committed": ("read-uncommitted",),
        "monotonic-atomic-view": ("read-committed",),
        "read-atomic": ("monotonic-atomic-view",),
        "causal-cerone": ("read-atomic",),
        "prefix": ("causal-cerone",),
        "update-atomic": ("read-atomic",),
        "parallel-snapshot-isolation": ("causal-cerone", "update-atomic"),
        "cursor-stability": ("read-committed",),
        "monotonic-view": ("read-committed",),
        "monotonic-snapshot-read": ("read-committed",),
        "consistent-view": ("cursor-stability", "monotonic-view"),
        "forward-consistent-view": ("consistent-view",),
        "update-serializable": ("forward-consistent-view",),
        "repeatable-read": ("cursor-stability", "monotonic-atomic-view"),
        "snapshot-isolation": (
            "forward-consistent-view",
            "monotonic-snapshot-read",
            "parallel-snapshot-isolation",
            "prefix",
        ),
        "serializable": (
            "repeatable-read",
            "snapshot-isolation",
            "update-serializable",
            "view-serializable",
        ),
        # with the order of each session
        "session-serializable": ("1SR",),
        "strong-session-read-uncommitted": ("read-uncommitted",),
        "strong-session-read-committed": ("read-committed", "strong-session-read-uncommitted"),
        "strong-session-monotonic-atomic-view": (
            "monotonic-atomic-view",
            "strong-session-read-committed",
        ),
        "strong-session-read-atomic": ("read-atomic", "strong-session-monotonic-atomic-view"),
        "strong-session-causal": ("causal-cerone", "strong-session-read-atomic"),
        "strong-session-snapshot-isolation": ("snapshot-isolation", "strong-session-causal"),
        "strong-session-serializable": ("serializable", "strong-session-snapshot-isolation"),
        # with real time
        "strong-read-uncommitted": ("strong-session-read-uncommitted",),
        "strong-read-committed": ("strong-read-uncommitted", "strong-session-read-committed"),
        "strong-snapshot-isolation": (
            "strong-read-committed",
            "strong-session-snapshot-isolation",
        ),
        "strong-serializable": (
            "linearizable",
            "session-serializable",
            "strong-session-serializable",
            "strong-snapshot-isolation",
        ),
    }
)
"""Model -> the models directly below it."""

OWN: Final = frozenset(
    {
        "strong-session-monotonic-atomic-view",
        "strong-session-read-atomic",
        "strong-session-causal",
    }
)
"""Models that Elle has no name for."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PL-1": "read-uncommitted",
        "PL-2": "read-committed",
        "PL-CS": "cursor-stability",
        "PL-2L": "monotonic-view",
        "PL-MSR": "monotonic-snapshot-read",
        "PL-2+": "consistent-view",
        "PL-FCV": "forward-consistent-view",
        "PL-SI": "snapshot-isolation",
        "PL-2.99": "repeatable-read",
        "PL-3U": "update-serializable",
        "PL-3": "serializable",
        "PL-SS": "strong-serializable",
        "conflict-serializable": "serializable",
        "transactional-causal": "strong-session-causal",
        "strict-serializable": "strong-serializable",
        "strong-PL-1": "strong-read-uncommitted",
        "strong-PL-2": "strong-read-committed",
        "strong-session-PL-1": "strong-session-read-uncommitted",
        "strong-session-PL-2": "strong-session-read-committed",
    }
)
"""Other spellings of the same model."""

PROSCRIBES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "read-uncommitted": "G0 PL-1-cycle-exists cyclic-versions duplicate-elements garbage-read",
        "read-committed": "G1 PL-2-cycle-exists",
        "monotonic-view": "G-monotonic",
        "monotonic-snapshot-read": "G-MSR",
        "cursor-stability": "G-cursor lost-update",
        "monotonic-atomic-view": "non-monotonic-read",
        "read-atomic": "fractured-read internal",
        "causal-cerone": "causal-stale-read",
        "update-atomic": "lost-update",
        "consistent-view": "G-single G-single-item",
        "forward-consistent-view": "G-SIb",
        "update-serializable": "G-update",
        "repeatable-read": "G2-item PL-2.99-cycle-exists no-serial-order",
        "snapshot-isolation": "G-SI G-nonadjacent PL-SI-cycle-exists no-snapshot-order",
        "serializable": "G2 PL-3-cycle-exists predicate-read-miss",
        "strong-session-read-uncommitted": "G0-process strong-session-PL-1-cycle-exists",
        "strong-session-read-committed": "G1c-process strong-session-PL-2-cycle-exists",
        "strong-session-monotonic-atomic-view": "non-monotonic-read-process",
        "strong-session-read-atomic": "fractured-read-process",
        "strong-session-causal": "causal-stale-read-process",
        "strong-session-snapshot-isolation": (
            "G1-process G-nonadjacent-process no-snapshot-order-process"
            " strong-session-snapshot-isolation-cycle-exists"
        ),
        "strong-session-serializable": (
            "G2-process no-serial-order-process strong-session-serializable-cycle-exists"
        ),
        "strong-read-uncommitted": "G0-realtime strong-PL-1-cycle-exists",
        "strong-read-committed": "G1c-realtime strong-PL-2-cycle-exists",
        "strong-snapshot-isolation": (
            "G1-realtime G-nonadjacent-realtime no-snapshot-order-realtime"
            " strong-snapshot-isolation-cycle-exists"
        ),
        "strong-serializable": "G2-realtime PL-SS-cycle-exists no-serial-order-realtime",
    }
)
"""What a model rules out beyond the models that it implies; whatever implies one of these is
ruled out as well."""

UNTESTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "monotonic-atomic-view": "transactions that stop seeing what they saw a part of",
        "strong-session-monotonic-atomic-view": "the same along a session",
        "monotonic-view": "G-monotonic",
        "monotonic-snapshot-read": "G-MSR",
        "read-atomic": "fractured reads",
        "causal-cerone": "fractured reads and reads that forget their causes",
        "strong-session-read-atomic": "fractured reads",
        "strong-session-causal": "fractured reads and reads that forget their causes",
        "prefix": "reads that are no prefix of one order of commits",
        "update-atomic": "fractured reads",
        "parallel-snapshot-isolation": "fractured reads and reads that forget their causes",
        "forward-consistent-view": "G-SIb",
        "update-serializable": "G-update",
    }
)
"""Models whose characteristic anomalies an inference of version orders does not look for, and which
these are. What is found of their other anomalies rules them out; a clean history is unknown under
them, unless it is one of registers, of which more is decided (`exact`)."""

STRONGEST: Final = "strict-serializable"
"""The model of those who ask for none."""


def _cycle_implications() -> dict[str, set[str]]:
    """Each cycle anomaly with those directly above it, in three families: plain, with process
    edges, with realtime edges."""
    base = {
        "G0": ("G1c",),
        "G1c": ("G1",),
        "G1": (),
        "G-single-item": ("G-nonadjacent-item", "G-single"),
        "G-single": ("G-nonadjacent",),
        "G-nonadjacent-item": ("G-nonadjacent", "G2-item"),
        "G-nonadjacent": ("G2",),
        "G2-item": ("G2",),
        "G2": (),
    }
    implied: dict[str, set[str]] = {}
    suffixes = ("", "-process", "-realtime")
    for at, suffix in enumerate(suffixes):
        for name, above in base.items():
            implied[name + suffix] = {a + suffix for a in above}
            if at + 1 < len(suffixes):
                implied[name + suffix].add(name + suffixes[at + 1])
    return implied


def _implications() -> dict[str, set[str]]:
    implied = _cycle_implications()
    implied["G-single"].add("GSIb")
    for name in ("non-monotonic-read", "fractured-read", "causal-stale-read"):
        implied[name] = {f"{name}-process"}
    for name in ("no-serial-order", "no-snapshot-order"):
        implied[name] = {f"{name}-process"}
        implied[f"{name}-process"] = {f"{name}-realtime"}
    for name, above in {
        "G1a": "G1",
        "G1b": "G1",
        "incompatible-order": "G1a",
        "dirty-update": "G1a",
        "future-read": "G1c",
        "lost-update": "G2-item write-skew",
        "write-skew": "G2",
        "GSIa": "GSI",
        "GSIb": "GSI",
    }.items():
        implied.setdefault(name, set()).update(above.split())
    alone = "GSI G-MSR G-SI G-SIb G-cursor G-monotonic G-update internal"
    cycles = "cyclic-versions duplicate-elements predicate-read-miss"
    listed = " ".join(PROSCRIBES.values())
    for name in f"{alone} {cycles} {listed}".split():
        implied.setdefault(name, set())
    return implied


ANOMALIES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {name: frozenset(above) for name, above in _implications().items()}
)
"""Anomaly -> the anomalies that it directly implies."""


def canonical(model: str) -> str:
    """The one name that we use for `model`. Raises ValueError for a model that nobody knows."""
    name = ALIASES.get(model, model)
    if name not in MODELS:
        near = difflib.get_close_matches(model, known_models(), n=2)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ValueError(f"unknown consistency model {model!r}; {hint}`dstest models` lists them")
    return name


def with_sessions(model: str) -> str:
    """The model that counts the order of each session besides. Raises ValueError where there is no
    such one."""
    name = canonical(model)
    if name.startswith("strong-"):
        return name
    strong = {"causal-cerone": "strong-session-causal"}.get(name, f"strong-session-{name}")
    if strong not in MODELS:
        able = ", ".join(sorted(m for m in MODELS if m.startswith("strong-session-")))
        raise ValueError(f"{model} has no form that counts sessions; {able} are such")
    return strong


@cache
def counts_sessions(model: str) -> bool:
    """Does `model` (any spelling) hold a history to the order of each session, and not to real time
    as well, which orders sessions anyway?"""
    ends = {anomaly.rpartition("-")[2] for anomaly in proscribed(model)}
    return "process" in ends and "realtime" not in ends


def known_models() -> tuple[str, ...]:
    """Every spelling of every model."""
    return (*MODELS, *ALIASES)


def _closure(start: Iterable[str], step: Mapping[str, Iterable[str]]) -> frozenset[str]:
    found: set[str] = set()
    todo = list(start)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(step[name])
    return frozenset(found)


@cache
def implied_models(model: str) -> frozenset[str]:
    """`model` (canonical) and all models below it."""
    return _closure([model], MODELS)


@cache
def anomalies_implied(anomaly: str) -> frozenset[str]:
    """`anomaly` and every anomaly that it is a case of. Unknown names imply themselves only."""
    return _closure([anomaly], ANOMALIES) if anomaly in ANOMALIES else frozenset({anomaly})


@cache
def proscribed(model: str) -> frozenset[str]:
    """All anomalies that `model` (any spelling) rules out."""
    own = {
        a for below in implied_models(canonical(model)) for a in PROSCRIBES.get(below, "").split()
    }
    return frozenset(a for a in ANOMALIES if anomalies_implied(a) & own)


@cache
def weaker(model: str) -> tuple[str, ...]:
    """The strongest models below `model` (any spelling) that rule out less, sorted by name."""
    own = proscribed(model)
    below = {
        found
        for under in MODELS[canonical(model)]
        for found in ((under,) if proscribed(under) < own else weaker(under))
    }
    implied = {m for b in below for m in implied_models(b) - {b}}
    return tuple(sorted(below - implied))


@cache
def judged_models(detectable: frozenset[str]) -> tuple[str, ...]:
    """Every spelling of the models that rule out any of the `detectable` anomalies, the strongest
    first: whoever takes the first one asks for most."""
    able = {m for m in MODELS if proscribed(m) & detectable}
    names = [n for n in known_models() if canonical(n) in able and n != STRONGEST]
    return (STRONGEST, *names)


def require_judged(model: str, detectable: frozenset[str]) -> None:
    """Raises ValueError for a model that rules out nothing of what can be detected: it would be
    true of every history."""
    if model not in judged_models(detectable):
        canonical(model)
        able = ", ".join(n for n in judged_models(detectable) if n in MODELS or n == STRONGEST)
        raise ValueError(f"dstest cannot judge {model} for transactions; it can judge {able}")


@dataclass(frozen=True, slots=True)
class Boundary:
    """Models ruled out: `not_` are the weakest of them, `also_not` those of Elle's that imply one
    of them. Both sorted by name."""

    not_: list[str]
    also_not: list[str]


def boundary(anomalies: Iterable[str]) -> Boundary:
    """What a history with these anomalies cannot be."""
    found = set(anomalies)
    out = {m for m in MODELS if proscribed(m) & found}
    weakest = {m for m in out if not (implied_models(m) - {m}) & out}
    return Boundary(sorted(weakest), sorted(out - weakest - OWN))


def lattice() -> nx.DiGraph:
    """The lattice as a graph: an edge from each model to every model directly below it. Nodes
    carry `aliases` and `proscribes` (what they rule out beyond the models below)."""
    import networkx as nx

    graph = nx.DiGraph()
    for model in MODELS:
        below = frozenset(a for m in MODELS[model] for a in proscribed(m))
        graph.add_node(
            model,
            aliases=sorted(a for a, m in ALIASES.items() if m == model),
            proscribes=sorted(proscribed(model) - below),
        )
    graph.add_edges_from((model, below) for model, under in MODELS.items() for below in under)
    return graph
