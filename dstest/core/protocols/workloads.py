"""What workloads and systems bring: generators and clients, what is done and how each operation
ends; and the options by which plug-ins are told more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from dstest.core.check import Anomaly, Valid
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.implements import fits, named
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
    """One `-o key=value`. Raises ConfigError where no run could write its values down."""

    type: type
    """str, int, float, bool, list, tuple or dict."""
    default: Any
    """A value of `type`; None only where a checker is not told."""
    help: str
    """One line; what it may be, where it has a `pattern`."""
    choices: tuple[Any, ...] = ()
    least: float | None = None
    """Of a number, which is finite."""
    most: float | None = None
    pattern: str = ""
    """A regular expression that a text matches as a whole."""
    flaw: Callable[[Any], str] | None = None
    """What else is wrong with a value; nothing where it is fine."""
    names_nodes: bool = False
    """The value is a list of nodes with commas between, and each must be in the cluster."""
    names_service: bool = False

    def __post_init__(self) -> None:
        if wrong := next(self._problems(), None):
            said, remedy = wrong
            raise ConfigError(f"an Option whose {said}: {self.help}", remedy=remedy)

    def _problems(self) -> Iterator[tuple[str, str]]:
        """(what is wrong, what to do about it)."""
        from dstest.core.recordable import why_not

        for name, wanted in _SHAPE.items():
            if not fits(getattr(self, name), wanted):
                yield f"{name} is {getattr(self, name)!r}", f"{name}: {named(wanted)}"
        kind, default = self.type, self.default
        if kind not in _TYPES:
            yield f"type is {kind!r}", f"one of {', '.join(one.__name__ for one in _TYPES)}"
        if (self.least, self.most) != (None, None) and kind not in (int, float):
            yield "range is of no number", "leave least and most out, or type=float"
        if self.pattern and kind is not str:
            yield "pattern is of no text", "leave it out, or type=str"
        if any(not fits(choice, kind) for choice in self.choices):
            yield f"choices are not all {kind.__name__}", "one type for all"
        if default is None:
            return
        if not fits(default, kind):
            yield f"default {default!r} is no {kind.__name__}", "a default of its `type`"
        if why_not(default):
            yield (
                "default is nothing that JSON can hold, and a run keeps it so",
                "finite numbers of 64 bits, whole characters, lists, and tables by text; no None",
            )
        low = self.least is not None and not default >= self.least
        if low or (self.most is not None and not default <= self.most):
            yield f"default {default!r} is out of range", "a default from `least` to `most`"
        if self.choices and default not in self.choices:
            yield f"default {default!r} is none of its choices", "one of `choices` as default"


_TYPES: Final = (str, int, float, bool, list, tuple, dict)
_SHAPE: Final[Mapping[str, Any]] = {
    "help": str,
    "choices": tuple[Any, ...],
    "least": float | None,
    "most": float | None,
    "pattern": str,
}


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
