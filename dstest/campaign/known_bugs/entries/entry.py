"""An entry of the catalogue: a published bug or a control, as a command and how it must end."""

from __future__ import annotations

import msgspec

from dstest.core.errors import Exit
from dstest.core.run_words import behind_o


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`command` are the words behind `dstest`; `expect` is the exit code. A run that is expected to
    fail must find one of `anomalies`, and besides at most those that follow from the same weakness:
    `beside`. With `by_fault` a run in which no fault has landed does not show the published one.
    `control` names the entry that must pass beside it. `short_of` is the one reason for which a
    control is no pass, with nothing against it: exit 3."""

    id: str
    claim: str
    source: str
    command: tuple[str, ...]
    expect: Exit
    anomalies: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    by_fault: bool = True
    control: str = ""
    short_of: str = ""

    @property
    def system(self) -> str:
        """What it is about."""
        return self._after("--system")

    @property
    def has_faults(self) -> bool:
        return self._after("--nemesis") != "none"

    def _after(self, flag: str) -> str:
        return self.command[self.command.index(flag) + 1]


def run(system: str, workload: str, nemesis: str, *more: str) -> tuple[str, ...]:
    """The words of `dstest run`."""
    return ("run", "--system", system, "--workload", workload, "--nemesis", nemesis, *more)


def options(*pairs: str) -> tuple[str, ...]:
    """Each behind a `-o`."""
    return tuple(behind_o(pairs))


def pair(
    finding: Finding,
    old: str,
    new: str,
    *,
    claim: str,
    source: str,
    id: str = "",
    short_of: str = "",
) -> tuple[Finding, Finding]:
    """A finding and its control: the same run but for the one word `old`, which must pass, or be
    `short_of` that by nothing else.

    Raises ValueError where that word is not there, or more than once.
    """
    if finding.command.count(old) != 1:
        raise ValueError(f"{finding.id}: {old!r} is not one word of {' '.join(finding.command)}")
    control = Finding(
        id=id or f"{finding.id}-control",
        claim=claim,
        source=source,
        command=tuple(new if word == old else word for word in finding.command),
        expect=Exit.NOT_PROVEN if short_of else Exit.PASS,
        short_of=short_of,
    )
    return msgspec.structs.replace(finding, control=control.id), control
