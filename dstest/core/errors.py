"""The exception tree and the exit code of each branch.

    DstestError
     +- ConfigError      wrong flag, unknown plug-in, impossible combination       exit 2
     +- HistoryError     malformed or unreadable history, with line and column     exit 2
     |   +- MemorySpent        reading it would take more than the memory budget   exit 3
     +- LabError         nodes could not be made, reached or healed                exit 4
     |   +- RemoteError        a command on a node failed
     |   +- RemoteTimeout      a call to a node missed its deadline
     |   +- RemoteLost         the connection went away; whether a command ran is unknown
     |   +- NotALabNode        a host without this lab's marker was about to be touched
     +- HarnessError     we could not go on (disk full, a load worker died)        exit 4
     +- EvidenceError    what a run left behind was changed or contradicts itself   exit 3
     +- FaultRefused     the environment cannot deliver a fault; nothing was done  exit 2
     +- Interrupted      Ctrl-C or SIGTERM: healed and sealed                      exit 130

Every message says what happened; `remedy` says what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

from dstest.core.words import one_line, printable

__all__ = [
    "ConfigError",
    "DstestError",
    "EvidenceError",
    "Exit",
    "FaultRefused",
    "HarnessError",
    "HistoryError",
    "Interrupted",
    "LabError",
    "MemorySpent",
    "NotALabNode",
    "RemoteError",
    "RemoteLost",
    "RemoteTimeout",
    "one_lined",
    "reason_of",
]


class Exit(IntEnum):
    """Process exit codes; a contract with scripts outside the project."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    NOT_PROVEN = 3
    HARNESS = 4
    INTERRUPTED = 130


_MODULE_OF_FILE: Final = re.compile(r"\bdstest_file_[0-9a-f]{16}\.")
"""Before the names of what stands in a file of a user's own (`core/registry.py`): nobody has
written that."""


class DstestError(Exception):
    """Base of all errors that dstest raises on purpose."""

    exit_code: Exit = Exit.HARNESS

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        # A node may have had a hand in it, and a terminal obeys what it is given.
        self.message = printable(_MODULE_OF_FILE.sub("", message))
        super().__init__(self.message)
        self.remedy = remedy if remedy is None else _MODULE_OF_FILE.sub("", remedy)

    def __str__(self) -> str:
        return f"{self.message}\n  remedy: {self.remedy}" if self.remedy else self.message


class ConfigError(DstestError):
    """The request itself is wrong."""

    exit_code = Exit.USAGE


class HistoryError(DstestError):
    """A history cannot be read. `line` and `column` count from 1 where known."""

    exit_code = Exit.USAGE

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        remedy: str | None = None,
    ) -> None:
        where = (
            ""
            if line is None
            else f"line {line}" + ("" if column is None else f", column {column}")
        )
        super().__init__(f"{where}: {message}" if where else message, remedy=remedy)
        self.line = line
        self.column = column


class MemorySpent(HistoryError):
    """A history is too large for the memory budget: nothing is known about it."""

    exit_code = Exit.NOT_PROVEN


class LabError(DstestError):
    """Nodes could not be made, reached or healed."""


@contextmanager
def one_lined() -> Iterator[None]:
    """Errors of what is done here have a line for what happened and one for the remedy, whatever
    the names of files are that they tell of."""
    try:
        yield
    except DstestError as error:
        error.message = one_line(error.message)
        error.remedy = None if error.remedy is None else one_line(error.remedy)
        raise


def reason_of(error: BaseException) -> str:
    """What an exception says, and what it is called where it says nothing."""
    return str(error).strip() or type(error).__name__


COMMAND_MAX: Final = 300
"""Of a command in a message; whoever catches it has all of it."""


class RemoteError(LabError):
    """A command on a node ended with a non-zero status."""

    def __init__(self, node: str, command: str, status: int, stderr: str) -> None:
        tail = stderr.strip()[-500:]
        told = command if len(command) <= COMMAND_MAX else f"{command[:COMMAND_MAX]}..."
        super().__init__(
            f"{node}: `{told}` ended with status {status}: {tail or 'it said nothing'}"
        )
        self.node = node
        self.command = command
        self.status = status
        self.stderr = stderr


class RemoteTimeout(LabError):
    """A call to a node missed its deadline; whether it took effect is unknown."""


class RemoteLost(LabError):
    """The connection to a node went away; whether the last call took effect is unknown."""


class NotALabNode(LabError):
    """A nemesis was pointed at a host that does not carry this lab's marker."""


class HarnessError(DstestError):
    """The harness cannot go on."""


class EvidenceError(DstestError):
    """What a run left behind was changed, is cut off or contradicts itself: it proves nothing."""

    exit_code = Exit.NOT_PROVEN


class FaultRefused(DstestError):
    """The environment cannot deliver a fault; nothing was done."""

    exit_code = Exit.USAGE


class Interrupted(DstestError):
    """Ctrl-C or SIGTERM arrived; nodes are healed and the history is sealed."""

    exit_code = Exit.INTERRUPTED
