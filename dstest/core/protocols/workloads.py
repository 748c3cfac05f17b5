"""Workloads and their generators, clients and checkers: what is done, how each operation ends, and
who judges it; and the options by which plug-ins are told more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from dstest.core.check import Anomaly, Budget, CheckResult, Fields, Valid
from dstest.core.history import History
from dstest.core.op import Key

NOT_HELD: Final = "not-held"
"""The code of a definite failure of `release` or `renew` that says: the caller holds nothing. By
any other code of a release nothing happened, and the caller still holds what it held."""

NOT_OFFERED: Final = "not-offered"
"""The code of a definite failure of a dequeue that took nothing, but whose request may have reached
the queue: an element may have been on its way to that client for a while, before it went back."""

NOT_LISTED: Final = "not listed as definite: "
"""What stands before the error of an operation whose client called it definite, and whose system
does not."""


class OpDraft(msgspec.Struct, frozen=True):
    """An operation that a generator asks for, before it has a process or a time. Its process is
    busy with something else for `after_ns` first, and only then invokes it."""

    op_type: str
    key: Key
    input: Any = None
    after_ns: int = 0


class Reply(msgspec.Struct, frozen=True):
    """A client's answer: the output and who answered."""

    output: Any
    node_seen: str | None = None


class Definite(Exception):
    """The operation provably had no effect. The argument is an error code, or `CODE: details`.

    The code stands in the system's `definite_errors`, with its source; otherwise the outcome
    counts as unknown.
    """

    @property
    def code(self) -> str:
        return str(self).partition(":")[0]


def code_of(error: str | None) -> str:
    """The code of a failure as it is recorded: `CODE` or `CODE: details`; in histories of others
    `:code` or `["code", "details"]`."""
    return re.split(r'[:",\]]', (error or "").lstrip('[ ":'), maxsplit=1)[0].strip()


class Indefinite(Exception):
    """Whether the operation took effect is unknown. The argument is kept for diagnosis only."""


class Client(Protocol):
    """One logical process's connection to one node."""

    async def open(self) -> None: ...

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """Do the operation. Raises `Definite` or `Indefinite`; anything else counts as unknown."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class NamesOperations(Protocol):
    """A class of clients that can be asked, before anything runs, what it can do."""

    @classmethod
    def unsupported(cls, op_types: Iterable[str]) -> list[str]:
        """Those of these types of operation that it cannot do, sorted."""
        ...


class RequestCounter(Protocol):
    """Counts the requests in what one connection sends. `known` is false where it cannot."""

    requests: int
    known: bool

    def feed(self, data: bytes) -> None: ...


@runtime_checkable
class Tapped(Protocol):
    """A system whose requests can be counted on the wire. A `client_port` of 0 is that of each
    endpoint."""

    client_port: int

    def request_counter(self) -> RequestCounter: ...


@runtime_checkable
class CountsCalls(Protocol):
    """A client that counts the calls which it hands to its library."""

    @property
    def calls(self) -> int: ...


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One `-o key=value`: its type, default, allowed values and one line of help.

    A number is finite and from `least` to `most`. `names_nodes`: the value is a list of nodes with
    commas between, and each of them must be in the cluster. Text is a whole match of `pattern`, if
    there is one; then `help` says what it may be. `flaw` says what else is wrong with a value,
    nothing where it is fine.
    """

    type: type
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str = ""
    flaw: Callable[[Any], str] | None = None
    names_nodes: bool = False
    names_service: bool = False


class Answer(msgspec.Struct, frozen=True):
    """How a process's last operation ended: `kind` is `ok`, `fail` or `unknown`."""

    draft: OpDraft
    kind: str
    output: Any = None


class Generator(Protocol):
    """A worker's seeded stream of operations; the same seed gives the same stream."""

    def next(self) -> OpDraft: ...


@runtime_checkable
class Reactive(Protocol):
    """A generator whose next operation depends on how the process's last one ended.

    `slot` stays with a logical client through its changes of process id; `last` is None for its
    first operation. A lock is released by who holds it, a stream goes on where it stopped.
    """

    def next_for(self, slot: int, last: Answer | None) -> OpDraft: ...


@runtime_checkable
class Finishing(Protocol):
    """A generator that reads the final state once the cluster has recovered and the load is over.

    `final(node, last)` gives the next operation for the node with this index, None when it is done
    there. `last` is how the one before ended at this node, None at first. A draft's `after_ns` is
    waited for, and counts to the time that the final phase has.
    """

    def final(self, node: int, last: Answer | None) -> OpDraft | None: ...


class Workload(Protocol):
    """What clients do, which capability they need, and which checkers judge it.

    `claims` are categories of `dstest.core.check`. `fields` says what the lints ask of its
    operations. Each of `op_types` must be asked for at least once; `minimum` is how
    many good operations of a type prove anything.
    """

    name: str
    doc: str
    capability: str
    model: str
    op_types: frozenset[str]
    checkers: tuple[str, ...]
    claims: frozenset[str]
    fields: Fields
    minimum: Mapping[str, int]
    options: Mapping[str, Option]

    def generator(
        self, seed: int, worker: int, processes: int, options: Mapping[str, Any]
    ) -> Generator: ...


class Checker(Protocol):
    """A pure function from a history to a result.

    What it may say of itself besides is `CheckerTraits`. A checker of transactions also has
    `forbids(model)`, the anomalies that a model rules out, and `weaker(model)`, the models next
    below that rule out less.
    """

    name: str
    kind: str
    models: tuple[str, ...]

    def check(self, history: History, model: str, budget: Budget) -> CheckResult: ...


class SecondAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`valid`: what a second judge makes of it, `unknown` where it cannot say; `said` is on what
    grounds, in a sentence."""

    valid: Valid
    said: str


@runtime_checkable
class SecondJudge(Protocol):
    """Judges once more what a checker found, slowly and with no code of that checker.

    `steps_max` bounds the work, so that the answer does not depend on how fast the host is.
    """

    name: str

    def look(
        self, history: History, model: str, anomaly: Anomaly, steps_max: int
    ) -> SecondAnswer: ...
