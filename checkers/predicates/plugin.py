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
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from checkers._findings import Findings
from checkers.predicates.explain import Story, story_of
from checkers.predicates.groups import Group, groups_of
from checkers.predicates.search import MODELS, Answer, between_of, decide, guess_holds
from checkers.predicates.versions import INTERNAL, Problem, problem_of
from checkers.txn import ordered
from checkers.txn.models import canonical
from dstest.core.check import Budget, CheckResult, KeyCount, OpCount, Seconds
from dstest.core.clock import monotonic_ns
from dstest.core.errors import HistoryError
from dstest.core.history import History
from dstest.core.op import Op

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


class PredicateChecker:
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
        self.strong = self.model in ordered.MODELS

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
