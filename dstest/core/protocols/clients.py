"""Clients: what one operation is, how it ends, and how requests are counted on the wire."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from dstest.core.op import Key

NOT_HELD: Final = "not-held"
"""The code of a definite failure of `release` or `renew` that says: the caller holds nothing. By
any other code of a release nothing happened, and the caller still holds what it held."""

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
    """A system whose requests can be counted on the wire."""

    client_port: int

    def request_counter(self) -> RequestCounter: ...


@runtime_checkable
class CountsCalls(Protocol):
    """A client that counts the calls which it hands to its library."""

    @property
    def calls(self) -> int: ...
