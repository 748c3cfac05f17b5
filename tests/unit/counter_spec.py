"""A counter for each key, and histories of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.spec import Record, Spec, Step, action, invariant, maps, when


@dataclass(frozen=True)
class Count:
    value: int = 0


class Counter(Spec):
    per_key = True
    ignores = frozenset({"watch"})
    most = 100

    def initial(self) -> Iterable[Count]:
        yield Count()

    @action(by=(1, 2))
    def add(self, s: Count, by: int) -> Count:
        return replace(s, value=s.value + by)

    @action(value=range(9))
    @when("current", lambda s, value: value == s.value)
    def read(self, s: Count, value: int) -> Count:
        return s

    @invariant("CN1", "never above the most")
    def bounded(self, s: Count) -> bool:
        return s.value <= self.most

    @invariant("CN2", "it is read at last", kind="liveness")
    def comes(self, s: Count) -> bool:
        return s.value > 0

    @maps("inc")
    def of_inc(self, record: Record) -> Iterator[Step]:
        yield Step("add", (record.input,))

    @maps("read", only_reads=True)
    def of_read(self, record: Record) -> Iterator[Step]:
        yield Step("read", (record.output,))


def op(number: int, kind: str, key: str = "a", *, given: Any = None, got: Any = None,
       unknown: bool = False, failed: bool = False) -> Op:  # fmt: skip
    return Op(
        op_id=number, process_id=number, invoke_ts=10 * number,
        complete_ts=None if unknown else 10 * number + 5, op_type=kind, key=key, input=given,
        output=got, timeout_marker=unknown, error="no" if failed else None,
    )  # fmt: skip


def history(*ops: Op) -> History:
    return History(header=Header(workload="counter"), ops=list(ops))
