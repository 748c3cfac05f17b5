"""The rules of the gate as data: each has an id, what holds where it is kept, the exit code where
it is not, and whether a policy may accept, as a risk with an owner, that it is short.

What makes evidence worthless can never be accepted, nor can a violation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from dstest.core.errors import Exit


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`title` says what holds. `exit` is 1 for a violation, 3 for evidence that is not enough."""

    id: str
    title: str
    exit: Exit = Exit.NOT_PROVEN
    acceptable: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that is broken. `of` is the claim, control, plan or risk of the policy that it is
    about, empty where it is about the evidence alone; `where` the directory; `what` a sentence."""

    rule: str
    what: str
    of: str = ""
    where: str = ""


def _rule(id_: str, title: str, *, acceptable: bool = False, exit_: Exit = Exit.NOT_PROVEN) -> Rule:
    return Rule(id=id_, title=title, acceptable=acceptable, exit=exit_)


_ALL: Final = (
    _rule("G01", "No file is other than when its run was summed up"),
    _rule("G02", "Each verdict, report and derived file is what the record gives"),
    _rule("G03", "Every run, session and plan came to its end, and nothing of one is gone"),
    _rule("G04", "No link stands in for evidence"),
    _rule("G05", "Each run lies under the name that it was made with, beside nothing foreign"),
    _rule("G06", "No run counts twice, under whatever name and seed"),
    _rule("G07", "The clocks of a run say when it was made, which is past"),
    _rule("G08", "Each session is all of its own runs, and says what they give"),
    _rule("G09", "The findings report of a plan is what its runs give"),
    _rule("G11", "Whoever is allowed to has signed it"),
    _rule("G12", "This version of dstest made and judged it"),
    _rule("G13", "It is of the version and build of the system that is released"),
    _rule("G14", "It is of the host and lab that are named, one for all runs of a claim"),
    _rule("G15", "Plug-in files of one's own are those that the policy knows"),
    _rule("G16", "It is not too old"),
    _rule("G17", "It is a run of the test that is asked for, with its options and no others"),
    _rule("G18", "Its faults were planned by its seed, not taken from a file or another run"),
    _rule("G19", "It was judged by the model that is claimed, or by a stronger one"),
    _rule("G20", "The checkers that are named judged it"),
    _rule("G21", "There is evidence for each claim and plan"),
    _rule(
        "G22",
        "No run of a claim, of a green control or of a plan found a violation",
        exit_=Exit.FAIL,
    ),
    _rule("G23", "No run found a violation that the policy has no word for", exit_=Exit.FAIL),
    _rule("G24", "Each run of a claim came to a pass", acceptable=True),
    _rule("G25", "The tier was met", acceptable=True),
    _rule("G26", "So many seeds agree", acceptable=True),
    _rule("G27", "It passed at these cluster sizes", acceptable=True),
    _rule("G28", "Faults of these kinds landed, so many", acceptable=True),
    _rule("G29", "So many operations were judged", acceptable=True),
    _rule("G30", "Each known bug was found, by the anomaly that it shows"),
    _rule("G31", "Each control without a bug passed"),
    _rule("G32", "There are so many runs of each control"),
    _rule("G33", "The plan was executed to its end and passed", acceptable=True),
    _rule("G34", "The comparison with the baseline is fair, and tells something", acceptable=True),
    _rule("G35", "Nothing is worse than in the baseline", exit_=Exit.FAIL, acceptable=True),
    _rule("G36", "No accepted risk has expired"),
    _rule("G37", "In no run that came to no verdict did a checker find an anomaly"),
)

RULES: Final[Mapping[str, Rule]] = {rule.id: rule for rule in _ALL}


def table() -> str:
    """The rules as a Markdown table, as `docs/gate.md` has it."""
    rows = ["| rule | holds when | exit | may be accepted |", "|---|---|---|---|"]
    rows += [
        f"| {rule.id} | {rule.title} | {int(rule.exit)} | {'yes' if rule.acceptable else 'no'} |"
        for rule in _ALL
    ]
    return "\n".join(rows)
