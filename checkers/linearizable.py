"""Is every object of a history linearizable?

A history is linearizable when each operation can be given one instant between its invocation and
its completion so that an object which does them at those instants returns exactly what was
returned. Objects are independent: a history is linearizable if and only if each object's part is
(Herlihy and Wing, TOPLAS 1990), so each key is decided alone. `lin/model.py`, `catalogue.py`
and `containers.py` say what each model does.

What an outcome means here:

    ok        took effect once in [invoke, complete]; bounds belong to the interval
    fail      provably had no effect: left out (`fail`); seeing its effect is a violation
    unknown   took effect at some instant after its invocation, or never; an unknown operation that
              only looks tells nothing: left out (`unknown-read` and the like)

A cas that compared and differed (output false), or a refused acquire, is ok: it says that the state
was another one at that instant. The answer is `"unknown"` when a key could not be decided within
the budget or holds an operation that is not the model's, and when nothing could have been refuted.

Who decides: registers and what is one in other words (`lin/tables.py`) csrc/lin/, where values are
unique csrc/mon/ first, which also knows takes of unknown outcome of queues and stacks; logs with
offsets times alone (`lin/objects.py`); all else, and what a monitor declines, the one search for
any model, csrc/aut/. Where a monitor and the search on its witness disagree the key is unknown. Who
is asked follows from a model's `exact_shape`, which no class inherits, never from its name. A mutex
is not judged as a cas-register: refused acquires would make every unknown one look useful. Bounds
of counters are not asked: they could only say no.

Weak spots, which end as unknown when the budget is spent: counters with more than some dozens of
unknown increments; queues with repeated values and many concurrent puts; priority queues with
takes of unknown outcome; deques, and containers with peeks, of ten thousand operations on a key;
what is wrong in a cas-register with hundreds of clients and repeated values. Transactions of a
multi-register ask Python for each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from checkers._witness import REGISTER
from checkers.lin import catalogue, maps, objects, registers, tables
from checkers.lin.catalogue import LOCKS, with_owners
from checkers.lin.model import Model
from checkers.lin.search import Judgement, result_of
from checkers.lin.start import judge_from, start_of
from checkers.lin.tables import columns_of
from checkers.ops.table import OpTable
from checkers.second.judges import OBJECTS
from dstest.core.check import Budget, CheckResult
from dstest.core.clock import monotonic_ns
from dstest.core.history import History
from dstest.core.protocols import Checker, Option


def _judge(history: History, model: str, budget: Budget) -> Judgement:
    start = start_of(history)
    if start is not None:
        return judge_from(history, model, budget, start)
    if isinstance(history.ops, OpTable):
        columns = columns_of(model, history.ops)
        if columns is not None:
            words = tables.WORDS.get(model, REGISTER)
            of = catalogue.make("cas-register" if model in catalogue.REGISTERS else model, {})
            return registers.judge_columns(columns, history, budget, words, of)
    if model in catalogue.REGISTERS:
        return registers.judge(history, model, budget)
    same = tables.to_register(model, history)
    if same is not None:
        words = tables.WORDS[model]
        return registers.judge(same, "cas-register", budget, shown=history, words=words, of=model)
    if model == "kv-map":
        return maps.judge(history, budget)
    return objects.judge(catalogue.make(model, history.header.options), history, budget)


class Linearizable(Checker):
    """Checker of the models that dstest knows."""

    name = "linearizable"
    kind = "history"
    mutants = "linearizable"
    keyed = prefix_closed = tables = True
    models: tuple[str, ...] = catalogue.MODELS
    op_types = catalogue.OP_TYPES
    second = OBJECTS
    initial = catalogue.STARTS
    options: Mapping[str, Option] = {
        "permits": Option(type=int, default=None, help="semaphore: how many permits there are"),
    }

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """The verdict, with one minimal witness per illegal key. Raises ValueError for a model
        that is not one of `models`, ConfigError for a semaphore whose permits nobody told."""
        if model not in self.models:
            raise ValueError(f"model {model!r}: linearizable knows {', '.join(self.models)}")
        started = monotonic_ns()
        if model in LOCKS and isinstance(history.ops, list):
            history = replace(history, ops=with_owners(history.ops, fenced=model == "fencing-lock"))
        judged = _judge(history, model, budget)
        return result_of(self.name, model, history, judged, monotonic_ns() - started)


class LinearizableModel:
    """Checker of a model of one's own; see `checkers.lin.model.Model`."""

    kind = "history"
    keyed = prefix_closed = tables = True

    def __init__(self, model: Model) -> None:
        self.model = model
        self.name = f"linearizable-{model.name}"
        self.models = (model.name,)

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """As `Linearizable.check`. Raises ValueError for another model."""
        if model not in self.models:
            raise ValueError(f"model {model!r}: {self.name} knows {self.model.name}")
        started = monotonic_ns()
        judged = objects.judge(self.model, history, budget)
        return result_of(self.name, model, history, judged, monotonic_ns() - started)


CHECKER: Final = Linearizable()
