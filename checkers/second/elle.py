"""A slow, independent judge after Elle's list-append and rw-register checkers.

    check(history, "list-append", ["serializable"], {}) ->
        {"valid": False, "anomaly_types": ["G2-item"], "not": [...], "also_not": [...], ...}

It shares no code with the checkers, and decides cycles by plain reachability. `found` lists every
anomaly, demanded or not. `maybe` names classes that a closed walk has too, with reasons that are
not the strongest of their pairs or with a transaction twice: a checker may name them, for they rule
out nothing more.

As in Elle, classes are those of strongly connected components of the whole graph, strongest first,
without those that another one of the component implies, and a pair of transactions counts with its
strongest reason alone (ww, wr, rw, then process or realtime). Where this hides that a model is
ruled out, `cycle_exists` tells.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import networkx as nx

from checkers.second import elle_txn
from checkers.second.elle_txn import (
    CYCLE_EXISTS,
    Edges,
    Txn,
    boundary,
    implied,
    order_edges,
    prohibited,
    reads_before_writes,
    transactions,
    writers_of,
)

_BASES = ("G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item")
_STRONGEST_FIRST = ("ww", "wr", "rw", "process", "realtime")
_SIMPLE_CYCLES_MAX = 20_000

_NO_VIOLATION = {"empty-transaction-graph"}


class Cycles:
    """`found` for certain; `maybe` only where a closed walk may visit a transaction twice."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.maybe: set[str] = set()


def _sub(edges: Edges, nodes: set[int], kinds: set[str]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(
        (a, b) for (a, b), ks in edges.items() if a in nodes and b in nodes and ks & kinds
    )
    return graph


def _components(graph: nx.DiGraph) -> Iterator[set[int]]:
    for component in nx.strongly_connected_components(graph):
        if len(component) > 1:
            yield component


def _reaches(graph: nx.DiGraph, a: int, b: int) -> bool:
    return a in graph and b in graph and nx.has_path(graph, a, b)


def _has(edges: Edges, component: set[int], kind: str) -> bool:
    return any(kind in ks for (a, b), ks in edges.items() if a in component and b in component)


def _with_all(edges: Edges, nodes: set[int], kinds: set[str], wanted: Iterable[str]) -> bool:
    """Some component of the sub-graph holds every wanted kind: a closed walk uses them all."""
    return any(
        all(_has(edges, c, kind) for kind in wanted) for c in _components(_sub(edges, nodes, kinds))
    )


def _single(edges: Edges, nodes: set[int], base: set[str], extra: str | None) -> bool:
    """A walk with one rw edge, and with an `extra` edge where one is asked for."""
    plain = _sub(edges, nodes, base)
    for (a, b), kinds in edges.items():
        if "rw" not in kinds or a not in nodes or b not in nodes:
            continue
        if extra is None and _reaches(plain, b, a):
            return True
        if extra is not None and any(
            extra in ks and _reaches(plain, b, c) and _reaches(plain, d, a)
            for (c, d), ks in edges.items()
            if c in nodes and d in nodes
        ):
            return True
    return False


def _nonadjacent(edges: Edges, nodes: set[int], base: set[str], extra: str | None) -> bool:
    """A closed walk with an rw edge, never two in a row, and with an `extra` edge if asked."""
    product = nx.DiGraph()
    wanted = []
    for (a, b), kinds in edges.items():
        if a not in nodes or b not in nodes:
            continue
        if kinds & base:
            for state in (0, 1):
                product.add_edge((a, state), (b, 0))
                if extra in kinds:
                    wanted.append(((a, state), (b, 0)))
        if "rw" in kinds:
            product.add_edge((a, 0), (b, 1))
    for component in nx.strongly_connected_components(product):
        if len(component) == 1 or all(state == 0 for _, state in component):
            continue
        if extra is None or any(a in component and b in component for a, b in wanted):
            return True
    return False


def _choices(cycle: list[int], edges: Edges) -> list[set[str]]:
    return [edges[pair] for pair in pairwise([*cycle, cycle[0]])]


def _fits(steps: list[set[str]], base: set[str], extra: str | None) -> bool:
    """Kinds can be chosen so that rw edges exist, no two in a row, and an `extra` one."""
    n = len(steps)
    for first in (False, True):
        states = {(first, first, first is False and bool(extra) and extra in steps[0])}
        if (first and "rw" not in steps[0]) or (not first and not steps[0] & base):
            continue
        for kinds in steps[1:]:
            following = set()
            for was_rw, any_rw, has in states:
                if "rw" in kinds and not was_rw:
                    following.add((True, True, has))
                if kinds & base:
                    following.add((False, any_rw, has or extra in kinds))
            states = following
        for last_rw, any_rw, has in states:
            if any_rw and (has or extra is None) and not (last_rw and first) and n > 1:
                return True
    return False


def _nonadjacent_simple(
    edges: Edges, nodes: set[int], base: set[str], extra: str | None
) -> bool | None:
    graph = _sub(edges, nodes, base | {"rw"})
    for count, cycle in enumerate(nx.simple_cycles(graph)):
        if _fits(_choices(cycle, edges), base, extra):
            return True
        if count > _SIMPLE_CYCLES_MAX:
            return None
    return False


def _decide(name: str, edges: Edges, nodes: set[int], extra: str | None) -> bool:
    more = set() if extra is None else {extra}
    dep = {"ww", "wr"} | more
    wanted = list(more)
    if name == "G0":
        return _with_all(edges, nodes, {"ww"} | more, ["ww", *wanted])
    if name == "G1c":
        return _with_all(edges, nodes, dep, ["wr", *wanted])
    if name == "G-single-item":
        return _single(edges, nodes, dep, extra)
    if name == "G-nonadjacent-item":
        return _nonadjacent(edges, nodes, dep, extra)
    return _with_all(edges, nodes, dep | {"rw"}, ["rw", *wanted])


def _classify(
    edges: Edges, nodes: set[int], extras: list[str | None], into: Cycles, own: bool
) -> None:
    here: set[str] = set()
    for extra in extras:
        for base in _BASES:
            name = base if extra is None else f"{base}-{extra}"
            if any(name in implied(f) for f in here):
                continue
            read_own = own and name == "G1c"
            if not read_own and not _decide(base, edges, nodes, extra):
                continue
            here.add(name)
            if base != "G-nonadjacent-item":
                continue
            kinds = {"ww", "wr"} | (set() if extra is None else {extra})
            if not _nonadjacent_simple(edges, nodes, kinds, extra):
                into.maybe.add(name)
                here.discard(name)
    into.found |= here


def possible_types(edges: Edges) -> set[str]:
    """Every class that some closed walk has, each pair with any of its reasons."""
    between = {(a, b): kinds for (a, b), kinds in edges.items() if a != b}
    found = set()
    for component in _components(nx.DiGraph(list(between))):
        for extra in (None, "process", "realtime"):
            for base in _BASES:
                if _decide(base, between, component, extra):
                    found.add(base if extra is None else f"{base}-{extra}")
    return found


def cycle_types(edges: Edges) -> Cycles:
    """Classes of all components; an extra kind counts only if the graph has edges of it."""
    result = Cycles()
    loops = {a for (a, b), ks in edges.items() if a == b and "wr" in ks}
    edges = {
        pair: {next(k for k in _STRONGEST_FIRST if k in kinds)} for pair, kinds in edges.items()
    }
    every = nx.DiGraph(list(edges))
    kinds = set().union(*edges.values()) if edges else set()
    extras: list[str | None] = [None, *(k for k in ("process", "realtime") if k in kinds)]
    between = {(a, b): ks for (a, b), ks in edges.items() if a != b}
    for component in _components(every):
        _classify(between, component, extras, result, bool(loops & component))
    return result


def _extension(edges: Edges, nodes: set[int], base: set[str]) -> nx.DiGraph:
    """Steps of one base edge, or one followed by an rw edge."""
    plain = _sub(edges, nodes, base)
    rw = _sub(edges, nodes, {"rw"})
    graph = plain.copy()
    for a, b in plain.edges:
        graph.add_edges_from((a, c) for c in rw.successors(b))
    return graph


def cycle_exists(edges: Edges) -> list[str]:
    """Names of the graphs that are cyclic although some model keeps them acyclic."""
    edges = {(a, b): kinds for (a, b), kinds in edges.items() if a != b}
    nodes = {node for pair in edges for node in pair}
    found = []
    for name in CYCLE_EXISTS:
        extra = {"realtime"} if name.startswith("strong-") or "SS" in name else set()
        if name.startswith("strong-session"):
            extra = {"process"}
        base = {"ww"} | extra if "PL-1" in name else {"ww", "wr"} | extra
        if "PL-SI" in name or "snapshot" in name:
            graph = _extension(edges, nodes, base)
        else:
            rw = set() if "PL-1" in name or name.endswith("PL-2-cycle-exists") else {"rw"}
            graph = _sub(edges, nodes, base | rw)
        cyclic = any(a == b for a, b in graph.edges) or next(_components(graph), None)
        if cyclic:
            found.append(name)
    return found


def _murmur3(data: bytes, seed: int = 0) -> int:
    h = seed
    for (k,) in struct.iter_unpack("<I", data):
        k = k * 0xCC9E2D51 % 2**32
        k = (k << 15 | k >> 17) % 2**32 * 0x1B873593 % 2**32
        h ^= k
        h = ((h << 13 | h >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    return _avalanche(h ^ len(data))


def _avalanche(h: int) -> int:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor % 2**32
    return h ^ h >> 16


def _hash(value: Any) -> int:
    if isinstance(value, str):
        units = struct.unpack(f"<{len(value.encode('utf-16-le')) // 2}H", value.encode("utf-16-le"))
        java = sum(u * 31**i for i, u in enumerate(reversed(units))) % 2**32
        return _murmur3(struct.pack("<I", java)) if java else 0
    return _murmur3(struct.pack("<q", value)) if value else 0


def _vector(values: tuple[Any, ...]) -> int:
    ordered = 31 ** len(values)
    for i, value in enumerate(reversed(values)):
        ordered += _hash(value) * 31**i
    # mixCollHash: one word, then the number of elements where murmur has the number of bytes
    k = ordered * 0xCC9E2D51 % 2**32
    k = (k << 15 | k >> 17) % 2**32 * 0x1B873593 % 2**32
    h = ((k << 13 | k >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    return _avalanche(h ^ len(values))


def path(values: tuple[Any, ...]) -> tuple[int, ...]:
    """The child taken at each level; the set gives its members in order of these.

    So a Clojure hash set orders vectors of integers and strings. Murmur3 (x86, 32 bits) over 4-byte
    words, as `clojure.lang.Murmur3` has it, and the trie of `clojure.lang.PersistentHashMap`: 32
    children a node, five bits of the hash a level from the lowest.
    """
    hash_ = _vector(values)
    return tuple(hash_ >> shift & 31 for shift in range(0, 32, 5))


def _internal(txn: Txn) -> bool:
    """Reads disagree with what the transaction itself read and appended before."""
    known: dict[Any, list[Any] | None] = {}
    suffix: dict[Any, list[Any]] = {}
    for f, k, v in txn.mops:
        if f != "r":
            if k in known:
                known[k] = [*(known[k] or []), v]
            else:
                suffix[k] = [*suffix.get(k, []), v]
            continue
        seen = None if v is None else list(v)
        if k in known and seen != known[k]:
            return True
        tail = suffix.get(k, [])
        if k not in known and tail and (seen or [])[-len(tail) :] != tail:
            return True
        known[k] = seen
    return False


def _future(txn: Txn) -> bool:
    """A read holds an element that the same transaction appends only later."""
    for i, (f, k, v) in enumerate(txn.mops):
        later = {w for g, j, w in txn.mops[i + 1 :] if g != "r" and j == k}
        if f == "r" and later & set(v or ()):
            return True
    return False


def _versions(txns: list[Txn]) -> dict[Any, list[Any]]:
    """Longest read of each key, each element once; of several the last in Elle's hash set."""
    longest: dict[Any, tuple[Any, ...]] = {}
    for t in txns:
        for k, v in t.reads():
            held = longest.get(k, ())
            if len(v or ()) > len(held) or (v and len(v) == len(held) and path(v) > path(held)):
                longest[k] = v
    return {k: list(dict.fromkeys(v)) for k, v in longest.items()}


def _incompatible(txns: list[Txn]) -> bool:
    reads: dict[Any, set[tuple[Any, ...]]] = defaultdict(set)
    for t in txns:
        for k, v in t.reads():
            reads[k].add(v or ())
    for values in reads.values():
        ordered = sorted(values, key=len)
        if any(b[: len(a)] != a for a, b in pairwise(ordered)):
            return True
    return False


def _dirty(versions: dict[Any, list[Any]], writers: dict[tuple[Any, Any], Txn]) -> bool:
    for k, order in versions.items():
        outcomes = [writers[k, v].outcome for v in order if (k, v) in writers]
        decided = [o for o in outcomes if o != "info"]
        if any(a == "fail" and b == "ok" for a, b in pairwise(decided)):
            return True
    return False


def _lost(txns: list[Txn]) -> bool:
    groups: dict[Any, int] = defaultdict(int)
    for t in txns:
        for k, v in reads_before_writes(t):
            groups[k, v] += 1
    return any(n > 1 for n in groups.values())


def _reads_of_others(txns: list[Txn], writers: dict[tuple[Any, Any], Txn]) -> set[str]:
    found = set()
    final = {(t.id, k): v for t in txns for k, v in t.writes()}
    for t in txns:
        for k, read in t.reads():
            v: tuple[Any, ...] = read or ()
            if len(set(v)) < len(v):
                found.add("duplicate-elements")
            if any((k, e) not in writers for e in v):
                found.add("garbage-read")
            if any((k, e) in writers and writers[k, e].outcome == "fail" for e in v):
                found.add("G1a")
            writer = writers.get((k, v[-1])) if v else None
            if writer and writer.id != t.id and final[writer.id, k] != v[-1]:
                found.add("G1b")
    return found


def anomalies(txns: list[Txn]) -> set[str]:
    """The anomalies that are no cycles."""
    writers, versions = writers_of(txns), _versions(txns)
    found = _reads_of_others(txns, writers)
    ok = [t for t in txns if t.ok]
    tests = {
        "internal": any(map(_internal, ok)),
        "future-read": any(map(_future, ok)),
        "incompatible-order": _incompatible(txns),
        "dirty-update": _dirty(versions, writers),
        "lost-update": _lost(ok),
    }
    return found | {name for name, yes in tests.items() if yes}


def dependencies(txns: list[Txn]) -> Edges:
    """ww, wr and rw edges between transactions that did, or may have, take effect."""
    edges: Edges = defaultdict(set)
    writers = {kv: t for kv, t in writers_of(txns).items() if t.possible}
    versions = _versions(txns)
    appends: dict[Any, list[Any]] = defaultdict(list)
    for (k, v), t in writers_of(txns).items():
        if t.possible:
            appends[k].append(v)
    readers: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    for t in txns:
        for k, v in t.reads():
            readers[k, v[-1] if v else None].append(t.id)

    def link(a: int, b: int, kind: str) -> None:
        if a != b:
            edges[a, b].add(kind)

    def follow(k: Any, before: Any, after: Any) -> None:
        writer = writers.get((k, after))
        if writer is None:
            return
        if (k, before) in writers and before is not None:
            link(writers[k, before].id, writer.id, "ww")
        for reader in readers[k, before]:
            link(reader, writer.id, "rw")

    for (k, v), ids in list(readers.items()):
        if v is not None and (k, v) in writers:
            for reader in ids:
                link(writers[k, v].id, reader, "wr")
    for k in set(versions) | set(appends):
        order = versions.get(k, [])
        for before, after in pairwise([None, *order]):
            follow(k, before, after)
        last = order[-1] if order else None
        unread = [v for v in appends[k] if v not in order]
        for v in unread:
            follow(k, last, v)
    return edges


def _graph(edges: Edges, txns: list[Txn], demanded: set[str]) -> Edges:
    """Adds the one order that the demanded anomalies ask for, if any."""
    for kind in ("realtime", "process"):
        if any(a.endswith(f"-{kind}") for a in demanded):
            for pair in order_edges(txns, kind):
                edges[pair].add(kind)
            break
    return edges


def check(
    history: list[dict[str, Any]],
    workload: str,
    models: list[str] | None = None,
    opts: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Elle's answer as `valid`, `anomaly_types`, `not`, `also_not`; and `found`, `maybe`."""
    opts = opts or {}
    if models is None and "anomalies" not in opts:
        models = ["strict-serializable"]
    demanded = prohibited(models or [], opts.get("anomalies") or [])
    txns = transactions(history, workload)
    if workload == "list-append":
        found = anomalies(txns)
        edges = dependencies(txns)
    else:
        found, edges = elle_txn.analyse(txns, opts)
    edges = _graph(edges, txns, demanded)
    cycles = cycle_types(edges)
    found |= cycles.found
    for name in cycle_exists(edges):
        if not any(CYCLE_EXISTS[name] in names for names in boundary(found)):
            found.add(name)
    if not edges:
        found.add("empty-transaction-graph")
    reported = found & (demanded | _NO_VIOLATION)
    answer: dict[str, Any] = {
        "valid": True,
        "anomaly_types": sorted(reported),
        "not": [],
        "also_not": [],
        "found": sorted(found),
        "maybe": sorted((cycles.maybe | possible_types(edges)) & demanded - reported),
    }
    if reported:
        answer["valid"] = False if reported - _NO_VIOLATION else "unknown"
        answer["not"], answer["also_not"] = boundary(found)
    return answer
