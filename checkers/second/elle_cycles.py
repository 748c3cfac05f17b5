"""Which classes of cycles a dependency graph holds, decided by plain reachability.

Classes per strongly connected component of the whole graph, strongest first; a class implied by
one that the component already has is left out. A pair of transactions counts with its strongest
reason alone (ww, wr, rw, then process or realtime). Where this hides that a model is ruled out,
`cycle_exists` tells. All of this as Elle does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import networkx as nx

from checkers.second.elle_lattice import CYCLE_EXISTS, implied
from checkers.second.elle_txn import Edges

_BASES = ("G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item")
_STRONGEST_FIRST = ("ww", "wr", "rw", "process", "realtime")
_SIMPLE_CYCLES_MAX = 20_000


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
