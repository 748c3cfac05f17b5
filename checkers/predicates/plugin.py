"""`closed-predicate`: transactions that read by predicates, decided exactly.

    {"op_type": "txn", "key": "g1", "input": [["rp", ["mod", 2, 0]], ["insert", "x", 3]],
     "output": [["rp", ["mod", 2, 0], [["y", 4]]], ["insert", "x", 3]]}

All micro-operations are in `mops`. The key of a record is its group; the keys of its micro-ops are
those of the group's rows. A predicate read sees a version of every key of its group, those that it
does not return as well (Elle's closed-universe assumption). Elle knows which one where a key has at
most two versions, and takes their order from the history; here every choice of versions is
considered, in any order (`search`), so that the answer is exact: a choice and an order that explain
all, or none.

| anomaly | meaning |
|---|---|
| G-single, G-nonadjacent, G2 | a circle with a predicate dependency; with `-item` without one |
| no-serial-order, no-snapshot-order | no order explains the reads, and no single circle shows it |
| predicate-read-miss | the predicate holds of every version of a key that was not returned |
| predicate-mismatch | the predicate does not hold of what it returned |
| internal | a read does not fit what its transaction had read or written before |
| G1a, G1b, garbage-read, future-read | what was read failed, was not the last, is nobody's, own |

Deletes and updates of a row that is not there must not be reported as done: a write is a write.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from checkers._findings import Findings
from checkers.predicates.groups import ABSENT, Group, groups_of
from checkers.predicates.search import Answer, Base, Leaf, between_of, decide, guess_holds
from checkers.predicates.versions import BEGINNING, INTERNAL, Look, Problem, problem_of
from checkers.txn import order_search, weak_models
from checkers.txn.circles import KINDS, Case, Edge, anomaly_of, cases_of, kind_of, sentence
from checkers.txn.exact import MODELS
from checkers.txn.models import canonical
from checkers.txn.violations import NO_ORDER, STORY_NS, TOLD_MAX, smallest_part
from dstest.core.check import Budget, CheckResult, KeyCount, OpCount, Seconds
from dstest.core.clock import monotonic_ns
from dstest.core.errors import HistoryError
from dstest.core.history import History
from dstest.core.op import Op
from dstest.core.protocols import Checker

CASES_MAX: Final = 6
"""Contradictions that are told; nobody reads more."""

NO_CHOICE: Final = dict(KINDS)
"""Weak model -> what is found where no choice of versions satisfies it."""

_FLOW: Final = "G1c"
"""Of reads alone: it is there whatever the order was. Choices that end in it are none."""

_RANK: Final = ("G-single", "G-nonadjacent", "G2")
_SUFFIXES: Final = {"process": "-process", "realtime": "-realtime"}

_STRICT: Final = "strict-serializable"

_ROWS: Final = "an object of values by key (by group, of rows by key)"

_VACUOUS: Final = (
    "no predicate read returned what another transaction wrote, or had to under this model: all "
    "may have come first"
)

_PIECEWISE: Final = frozenset(
    f"{session}{model}"
    for session in ("", "strong-session-")
    for model in ("read-committed", "monotonic-atomic-view")
)
"""Models under which a transaction need not see one moment."""

EXPLAIN_S: Final = 5.0
"""Seconds for all explanations."""


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


class _OrderTeller(_Teller):
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

    def _whole_keys(self, names: Sequence[Any]) -> list[int]:
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
    seen = weak_models.decide(c, [model], Budget(time_s=2.0, memory_mb=256))
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
    """The explanation of a violation.

    Why no choice of versions has an order: a circle of transactions for each contradiction. An rw
    edge from a transaction that only did not find a key by a predicate is a predicate dependency
    (Adya 1999, section 4.4.1). Circles are called as Elle calls them: G-single, G-nonadjacent and
    G2 where such an edge is in them, with `-item` where none is.
    """
    leaves = answer.leaves or [Leaf({}, ())]
    if model not in order_search.MODELS:
        return _weak(_Teller(problem, model, answer, deadline_ns), leaves)
    teller = _OrderTeller(problem, model, answer, deadline_ns)
    told = [(teller.part(leaf)[0], leaf) for leaf in leaves[:CASES_MAX]]
    if len(told) == 1 and not told[0][1].chosen:
        story = told[0][0]
        names = {problem.names[k][1] for k in range(len(problem.names))}
        keys = {edge["key"] for edge in story.edges.values() if edge["key"] in names}
        story.key = keys.pop() if len(keys) == 1 else None
        return story
    return _together(told, teller, len(leaves))


class PredicateChecker(Checker):
    """See the module."""

    name = mutants = "closed-predicate"
    kind = "history"
    prefix_closed = False
    keyed = True
    models: tuple[str, ...] = (_STRICT, *MODELS)
    op_types = MappingProxyType(dict.fromkeys(models, frozenset({"txn", "init"})))
    initial = MappingProxyType(dict.fromkeys(models, _ROWS))

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """The verdict with a witness per anomaly. Raises ValueError for a model that is not one of
        `models`."""
        if model not in self.models:
            raise ValueError(f"model {model!r}: {self.name} knows {', '.join(self.models)}")
        run = _Run(history, model, budget)
        run.all()
        return run.result()


class _Run:
    """One history under one model."""

    def __init__(self, history: History, model: str, budget: Budget) -> None:
        self.history, self.asked, self.budget = history, model, budget
        self.started_ns = monotonic_ns()
        self.deadline_ns = self.started_ns + int(budget.time_s * 1e9)
        self.found = Findings(history, model, budget)
        self.model = canonical(self.found.model)
        self.excluded: Counter[str] = Counter()
        self.groups: list[Group] = []
        self.consumed = self.tested = 0
        self.explained_ns = 0
        self.strong = self.model in order_search.MODELS

    def _skip(self, op: Op, why: str) -> None:
        self.excluded[why] += 1

    def all(self) -> None:
        """Judges group by group; all at once where sessions lead from one to the other."""
        try:
            self.groups = groups_of(self.history, self._skip)
        except HistoryError as error:
            self.found.undecide(None, f"{error.message}; {error.remedy}")
            return
        good = []
        for group in self.groups:
            if group.wrong is None:
                good.append(group)
            else:
                self.found.undecide(group.key, group.wrong)
        together = self.model.startswith("strong-session") and len(good) > 1
        if together and not self._in_real_time(good):
            self._part(good)
            return
        for group in good:
            self._part([group])

    def _in_real_time(self, groups: list[Group]) -> bool:
        """Does each group by itself hold in real time? Then so do all together, since the orders
        fit between the same instants (Herlihy and Wing, "Linearizability", 1990, section 3.2),
        and with them every session."""
        serial = self.model == "strong-session-serializable"
        model = "strong-serializable" if serial else "strong-snapshot-isolation"
        left = self._left()
        until_ns = monotonic_ns() + int(left.time_s * 1e9 / 3)
        for group in groups:
            try:
                left_s = max(0.0, (until_ns - monotonic_ns()) / 1e9)
                problem = problem_of([group], replace(left, time_s=left_s), merged=True)
            except (HistoryError, TimeoutError):
                return False
            left_s = max(0.0, (until_ns - monotonic_ns()) / 1e9)
            if problem.faults:
                return False
            if decide(problem, model, replace(left, time_s=left_s)).decision != "valid":
                return False
        return True

    def _part(self, groups: list[Group]) -> None:
        key = groups[0].key if len(groups) == 1 else None
        try:
            self._judge(groups, key)
        except HistoryError as error:
            why = f"{error.message}; {error.remedy}"
        except MemoryError:
            why = self.found.over_memory()
        except TimeoutError:
            why = self.found.over_time()
        else:
            self.consumed += sum(
                len(group.txns) + len(group.inits)
                for group in groups
                if group.key not in self.found.undecided
            )
            return
        for group in groups:
            self.found.undecide(group.key, why)

    def _judge(self, groups: list[Group], key: Any) -> None:
        problem = problem_of(groups, self._left(), merged=self.strong)
        serial = self.model.endswith("serializable")
        self.tested += problem.tested(between_of(self.model), serial=serial)
        self.found.count(predicate_reads=problem.predicate_reads)
        piecewise = self.model in _PIECEWISE
        faults = [f for f in problem.faults if f.kind != INTERNAL or not piecewise]
        for fault in faults:
            ops = [self.history.ops[at] for at in fault.txns]
            self.found.anomaly(fault.kind, key, ops, f"{fault.text}.")
        if faults:
            return
        answer = self._answer(problem, groups)
        self.found.count(questions=answer.tried)
        if answer.decision == "open":
            for group in groups:
                self.found.undecide(group.key, answer.why)
        elif answer.decision == "violated":
            self._explain(problem, answer, key)

    def _answer(self, problem: Problem, groups: list[Group]) -> Answer:
        if not self.strong:
            if guess_holds(problem, self.model, self._left()):
                return Answer("valid", tried=1)
            proved = self._by_order(groups)
            if proved is not None:
                return proved
        return decide(problem, self.model, self._left())

    def _by_order(self, groups: list[Group]) -> Answer | None:
        """A proof of a stronger model, which gives an order of all transactions at once."""
        session = self.model.startswith("strong-session")
        model = "strong-session-snapshot-isolation" if session else "snapshot-isolation"
        left = self._left()
        quarter = replace(left, time_s=left.time_s / 4)
        try:
            problem = problem_of(groups, quarter, merged=True)
        except TimeoutError:
            return None
        answer = Answer("open") if problem.faults else decide(problem, model, quarter)
        return answer if answer.decision == "valid" else None

    def _left(self) -> Budget:
        left_s = max(0.0, (self.deadline_ns - monotonic_ns()) / 1e9)
        return replace(self.budget, time_s=left_s)

    def _explain(self, problem: Problem, answer: Answer, key: Any) -> None:
        until_ns = monotonic_ns() + max(0, int(EXPLAIN_S * 1e9) - self.explained_ns)
        begun_ns = monotonic_ns()
        story = story_of(problem, self.model, answer, until_ns)
        self.explained_ns += monotonic_ns() - begun_ns
        ops = [self.history.ops[problem.txns[t].at] for t in story.txns]
        text = story.text or "No order of these transactions explains their reads."
        self.found.anomaly(
            story.kind, story.key if key is None else key, ops, text, minimal=story.minimal
        )
        self._add_edges(problem, story)

    def _add_edges(self, problem: Problem, story: Story) -> None:
        """To the records of the witness that was added last."""
        last = self.found.anomalies[story.kind][-1]
        ops = self.history.ops
        named = {ops[problem.txns[t].at].op_id: edge for t, edge in story.edges.items()}
        witness = []
        for row in last.witness:
            edge = named.get(row["op_id"])
            if edge is not None:
                to = ops[problem.txns[edge["to"]].at].op_id
                row = {**row, "edge": {**edge, "to": to}}
            witness.append(row)
        self.found.anomalies[story.kind][-1] = replace(last, witness=witness)

    def result(self) -> CheckResult:
        """What was found."""
        found = self.found
        valid, reason = found.verdict(self.tested, _VACUOUS)
        total = max(len(self.groups), len(found.undecided))
        return CheckResult(
            checker=PredicateChecker.name,
            valid=valid,
            workload=self.history.header.workload,
            model=self.asked,
            anomaly_types=sorted(found.counts),
            not_=[self.asked] if found.counts else [],
            anomalies={kind: found.anomalies[kind] for kind in sorted(found.anomalies)},
            ops=OpCount(
                total=len(self.history.ops), consumed=self.consumed, excluded=dict(self.excluded)
            ),
            keys=KeyCount(
                total=total,
                decided=total - len(found.undecided),
                undecided=list(found.undecided),
            ),
            seconds=Seconds(check=(monotonic_ns() - self.started_ns) / 1e9),
            peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            reason=reason,
            stats={
                "tested": self.tested,
                "method": "decided",
                **found.stats,
                **found.spreads.stats,
            },
            spreads=found.spreads.by_kind(),
        )


CHECKER: Final = PredicateChecker()
