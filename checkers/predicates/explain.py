"""Why no choice of versions has an order: a circle of transactions for each contradiction.

An rw edge from a transaction that only did not find a key by a predicate is a predicate dependency
(Adya 1999, section 4.4.1). Circles are called as Elle calls them: G-single, G-nonadjacent and G2
where such an edge is in them, with `-item` where none is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from checkers.predicates.columns import Base
from checkers.predicates.mops import ABSENT
from checkers.predicates.search import Answer, Leaf, between_of
from checkers.predicates.versions import BEGINNING, Look, Problem
from checkers.txn import decided, ordered
from checkers.txn.unordered import Case, Edge, cases_of, kind_of, sentence
from checkers.txn.unseen import KINDS, anomaly_of
from checkers.txn.violations import NO_ORDER, STORY_NS, TOLD_MAX, smallest_part
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns

CASES_MAX: Final = 6
"""Contradictions that are told; nobody reads more."""

NO_CHOICE: Final = dict(KINDS)
"""Weak model -> what is found where no choice of versions satisfies it."""

_FLOW: Final = "G1c"
"""Of reads alone: it is there whatever the order was. Choices that end in it are none."""

_RANK: Final = ("G-single", "G-nonadjacent", "G2")
_SUFFIXES: Final = {"process": "-process", "realtime": "-realtime"}


@dataclass
class Story:
    """`txns` are numbers of the problem; `edges` are by the first of their transactions."""

    kind: str
    key: Any = None
    txns: list[int] = field(default_factory=list)
    edges: dict[int, dict[str, Any]] = field(default_factory=dict)
    text: str = ""
    minimal: bool = False


class _Teller:
    def __init__(self, problem: Problem, model: str, answer: Answer, deadline_ns: int) -> None:
        self.problem, self.model, self.answer = problem, model, answer
        self.deadline_ns = deadline_ns
        self.base = Base(problem)
        self.between = between_of(model)
        self.predicate = {(k.txn, k.key) for k in problem.looks if not k.item}

    def _key(self, key: int) -> str:
        return repr(self.problem.names[key][1])

    def chose(self, look: Look, writer: int) -> str:
        """What a choice says."""
        who = self.problem.txns[look.txn].name
        if writer == BEGINNING:
            return f"{who} saw key {self._key(look.key)} as it began"
        state = self.problem.states[look.key][writer]
        left = "without a row" if state is ABSENT else f"with {state!r}"
        by = self.problem.txns[writer].name
        return f"{who} saw key {self._key(look.key)} as {by} left it, {left}"

    def assumed(self, leaf: Leaf) -> str:
        looks = self.problem.looks
        return " and ".join(self.chose(looks[n], w) for n, w in sorted(leaf.chosen.items()))

    def certain(self, edges: Iterable[tuple[int, int]]) -> str:
        """What predicate reads without a choice must have seen, of (transaction, key)."""
        wanted = set(edges) & self.predicate
        said = [
            self.chose(look, look.domain[0])
            for look in self.problem.looks
            if (look.txn, look.key) in wanted and len(look.domain) == 1
        ]
        return (
            f"By their predicates: {', '.join(said)}, the only version that fits. " if said else ""
        )


class _Ordered(_Teller):
    """Of models that need an order."""

    def part(self, leaf: Leaf) -> tuple[Story, list[Case]]:
        """One contradiction and its circles."""
        c = self.base.columns(self.answer.forced | leaf.chosen)
        small = smallest_part(c, self.model, leaf.involved, self.deadline_ns)
        story = Story(NO_ORDER[self.model], txns=sorted(set(leaf.involved)))
        if small is None:
            return story, []
        part, story.minimal = small
        story.txns = part.op_index.tolist()
        if part.txns > TOLD_MAX:
            return story, []
        names = [int(self.problem.txns[t].name[1:]) if self.problem.txns[t].name[1:].isdigit()
                 else self.problem.txns[t].at for t in story.txns]  # fmt: skip
        until_ns = monotonic_ns() + STORY_NS
        snapshot = "snapshot" in self.model
        cases = cases_of(part, names, until_ns, snapshot=snapshot, between=self.between) or []
        called = {n: f"T{name}" for n, name in enumerate(names)}
        keys = self._whole_keys(part.key_names)
        seen = [
            (story.txns[e.first], keys[e.key]) for y in cases for e in y.edges if e.label == "rw"
        ]
        story.text = self.certain(seen) + " ".join(f"{sentence(called, y)}." for y in cases)
        if len(cases) == 1:
            story.edges = self._edges(cases[0], story.txns, keys)
        story.kind = self._kind(cases, story.txns, keys)
        return story, cases

    def _whole_keys(self, names: list[Any]) -> list[int]:
        whole = self.base.columns({}).key_names
        return [whole.index(name) for name in names]

    def _label(self, edge: Edge, txns: list[int], keys: list[int]) -> str:
        reader = edge.first if edge.label == "rw" else edge.then
        by_predicate = edge.key >= 0 and (txns[reader], keys[edge.key]) in self.predicate
        return f"{edge.label}p" if by_predicate and edge.label in ("rw", "wr") else edge.label

    def _edges(self, case: Case, txns: list[int], keys: list[int]) -> dict[int, dict[str, Any]]:
        return {
            txns[edge.first]: {
                "to": txns[edge.then],
                "reason": self._label(edge, txns, keys),
                "key": self.problem.names[keys[edge.key]][1] if edge.key >= 0 else None,
                "text": edge.text,
            }
            for edge in case.edges
        }

    def _kind(self, cases: list[Case], txns: list[int], keys: list[int]) -> str:
        """What all these circles are; what only an order shows where they have nothing in common.

        A circle with one rw edge stands on an order of versions that the model forces, unless those
        edges leave how a key began. It is G2 in Adya's sense whatever that order is; so are those
        of items alone."""
        found: set[str] = set()
        suffixes: set[str] = set()
        predicate = False
        for case in cases:
            shape = kind_of(case.edges).removesuffix("-item")
            labels = [self._label(edge, txns, keys) for edge in case.edges]
            if shape == _FLOW and not {*labels} - {"wr", "wrp"}:
                continue
            if shape not in _RANK:
                return NO_ORDER[self.model]
            predicate = predicate or "rwp" in labels
            suffixes |= {_SUFFIXES[label] for label in labels if label in _SUFFIXES}
            found.add(shape if self._sure(case, shape) else self._weakest())
        if not found and cases:
            return _FLOW
        if not found or "" in found:
            return NO_ORDER[self.model]
        shape = max(found, key=_RANK.index)
        suffix = "-realtime" if "-realtime" in suffixes else "".join(suffixes)
        return shape + ("" if predicate else "-item") + suffix

    def _weakest(self) -> str:
        return "" if "snapshot" in self.model else "G2"

    def _sure(self, case: Case, shape: str) -> bool:
        """Is the circle there whatever the order of versions was?"""
        if shape == ("G-nonadjacent" if "snapshot" in self.model else "G2"):
            return True
        fixed = all(e.label != "rw" or e.of_initial for e in case.edges)
        return fixed and all(e.label != "ww" for e in case.edges)


def _together(stories: list[tuple[Story, Leaf]], teller: _Teller, many: int) -> Story:
    """Several contradictions, one for each choice."""
    kinds = {story.kind for story, _ in stories}
    kinds = kinds - {_FLOW} or kinds
    bases = {kind.split("-process")[0].split("-realtime")[0] for kind in kinds}
    whole = Story(kinds.pop() if len(kinds) == 1 else _common(bases, teller.model))
    lines = []
    for story, leaf in stories:
        whole.txns = sorted({*whole.txns, *story.txns})
        if leaf.chosen:
            lines.append(f"If {teller.assumed(leaf)}: {story.text}")
        else:
            lines.append(story.text)
    more = many - len(stories)
    lines += [f"{more} more choices end in contradictions as well."] if more else []
    whole.text = "Predicates do not tell which version was seen of every key. " + " ".join(lines)
    return whole


def _common(kinds: set[str], model: str) -> str:
    """What circles of several kinds all are: each with an rw edge is a G2, those of items too."""
    if "snapshot" in model or not all(kind.startswith(_RANK) for kind in kinds):
        return NO_ORDER[model]
    return "G2-item" if all(kind.endswith("-item") for kind in kinds) else "G2"


def _weak(teller: _Teller, leaves: list[Leaf]) -> Story:
    """Of weak models the first contradiction."""
    model, leaf = teller.model, leaves[0]
    c = teller.base.columns(teller.answer.forced | leaf.chosen)
    seen = decided.decide(c, [model], Budget(time_s=2.0, memory_mb=256))
    story = Story(NO_CHOICE[model], txns=sorted(set(leaf.involved)))
    if model in seen.cycles:
        told = anomaly_of(c, seen, model, teller.deadline_ns)
        numbers = {txn.at: n for n, txn in enumerate(teller.problem.txns)}
        story = Story(told.type, told.key, [numbers[int(at)] for at in told.ops])
        story.text, story.minimal = told.explanation, told.minimal and len(leaves) == 1
    if leaf.chosen:
        story.text = f"If {teller.assumed(leaf)}: {story.text}"
    if len(leaves) > 1:
        story.text += f" {len(leaves) - 1} more choices end in contradictions as well."
    return story


def story_of(problem: Problem, model: str, answer: Answer, deadline_ns: int) -> Story:
    """The explanation of a violation."""
    leaves = answer.leaves or [Leaf({}, ())]
    if model not in ordered.MODELS:
        return _weak(_Teller(problem, model, answer, deadline_ns), leaves)
    teller = _Ordered(problem, model, answer, deadline_ns)
    told = [(teller.part(leaf)[0], leaf) for leaf in leaves[:CASES_MAX]]
    if len(told) == 1 and not told[0][1].chosen:
        story = told[0][0]
        names = {problem.names[k][1] for k in range(len(problem.names))}
        keys = {edge["key"] for edge in story.edges.values() if edge["key"] in names}
        story.key = keys.pop() if len(keys) == 1 else None
        return story
    return _together(told, teller, len(leaves))
