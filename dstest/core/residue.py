"""What a fault or a system may leave on a node, and how it is looked for and taken away there.

A plug-in lists its own as `residues`. The list of all of them is what a run begins with, what its
leak audit reads, what a node's janitor carries out when a run dies, and what `dstest lab status`
shows: one list, so that nothing is looked for by one of them alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

import msgspec

__all__ = [
    "GUARD_LEASES",
    "HOMES_LAID",
    "HOMES_OWNED",
    "HOME_MARK",
    "MAY_TOUCH",
    "RUN_NOTE",
    "Leftover",
    "Residue",
    "leftovers_of",
    "marked_only",
]

HOME_MARK = ".dstest-lab"
"""In a directory that a run has made on a machine that is not dstest's: the id of its lab."""

HOMES_LAID = "/opt/dstest-services/homes"
"""On such a machine: the directories that runs have made there, a line each."""

HOMES_OWNED = "/opt/dstest-services/homes.owned"
"""And what in them is a system's, a line each: a release removes nothing else there. A line that is
such a directory itself says that all in it is."""

RUN_NOTE = "/opt/dstest-services/run"
"""On every node: which run began there last, whose logs are those that lie there."""

GUARD_LEASES = ("run", "run-serve")
"""Leases of a run as a whole, beside those of its faults: take all of it away, start servers."""

MAY_TOUCH = """\
may_touch() {
    [ -n "${dstest_adopted-}" ] || return 0
    grep -qs '/dstest-service-' "/proc/$1/cgroup"
}
"""
"""For the programs of a residue whose mark others may have as well: on machines that dstest has not
made, a process is ours only in the control group of a service of ours."""

_OURS = "ours "
_FOREIGN = "foreign "


class Residue(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of thing that may be left on a node.

    `look` and `remove` are programs for `sh -c`. `look` ends with 0 and prints a line per thing:
    `ours TEXT` where `mark` shows that it is ours, `foreign TEXT` where it would disturb a run and
    is not. `remove` takes away what is ours, and does nothing where there is nothing.

    What has a lower `rank` is removed first. `janitor`: it goes by itself when a run dies.
    `kept`: it is no harm, stays for a look at it until the next run begins. `routine`: tools that
    every run brings and takes away; finding them after a removal is a leak, before it is none.
    `others`: it finds only what others have put where servers of ours would go.
    `home`: the directory of a system that all of it is in; on machines that dstest has not made it
    is ours only where that directory is.
    """

    name: str
    mark: str
    look: str
    remove: str
    rank: int = 50
    janitor: bool = True
    kept: bool = False
    routine: bool = False
    others: bool = False
    home: str = ""


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found on a node. `ours`: it carries our mark."""

    residue: str
    what: str
    ours: bool
    kept: bool = False


def marked_only(kind: Residue, lab_id: str) -> Residue:
    """The same for machines that dstest has not made: of homes only that a run of this lab has
    made, of processes only those of our services (`MAY_TOUCH`)."""
    adopted = f"dstest_adopted={shlex.quote(lab_id)}\n"
    kind = msgspec.structs.replace(kind, look=adopted + kind.look, remove=adopted + kind.remove)
    if not kind.home:
        return kind
    mark = shlex.quote(f"{kind.home}/{HOME_MARK}")
    guard = f'[ "$(cat {mark} 2>/dev/null)" = {shlex.quote(lab_id)} ] || exit 0\n'
    return msgspec.structs.replace(kind, look=guard + kind.look, remove=guard + kind.remove)


def leftovers_of(residue: Residue, lines: Iterable[str]) -> list[Leftover]:
    """What the lines that `look` printed say; a line of another form counts as not ours."""
    things = []
    for line in lines:
        text = line.strip()
        if not text:
            continue
        ours = text.startswith(_OURS)
        what = text.removeprefix(_OURS) if ours else text.removeprefix(_FOREIGN)
        row = Leftover(residue=residue.name, what=what, ours=ours, kept=residue.kept and ours)
        if row not in things:
            things.append(row)
    return things
