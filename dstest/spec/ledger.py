"""What was tried against a mismatch between a model and a system, and whether it helped; and which
weakenings of a model somebody has approved.

The ledger is a file of JSON lines, a line for each mismatch that was seen: its fingerprint (action,
guards that refused it, their levels, the fields of the state that they read), the commit under
which it was seen, and how much the harness forgives there. A line with a `fix` is no sighting, but
says what was done about it in a commit. The same fingerprint under three commits or more means
going in circles, and so does a harness that forgives more under each of three. Approvals are a
file of TOML:

    [[waiver]]
    file = "specs/register.py"
    id = "REG1"
    how = "narrowed"
    change = "3f786850e387"
    requirement = "the sentence that still holds, as it stands"
    approver = "who"
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, get_args

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.spec.conformance import ConformResult
from dstest.spec.model import WHOLE, Model
from dstest.spec.mutate import fields_named
from dstest.spec.stronger import How
from dstest.spec.weaker import Weakening

CIRCLE: Final = 3
"""Commits under which one mismatch has come again."""


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One sighting. `guards` are labels with their levels; `fields` what they read. `fix` says what
    a commit has done about it, and is None in a sighting.

    `ignores` (kinds of records that are left out), `hidden` (actions that need no record),
    `dropped_guards` and `tolerance` are what the harness forgave when it was seen; `rules` counts
    guards and invariants of `model`, None where an older line does not say it.
    """

    action: str
    guards: tuple[tuple[str, str], ...]
    fields: tuple[str, ...]
    commit: str
    ignores: int = 0
    model: str = ""
    hidden: int = 0
    rules: int | None = None
    dropped_guards: int = 0
    tolerance: float = 0.0
    fix: str | None = None

    @property
    def fingerprint(self) -> str:
        """The same for one mismatch under any commit; 12 hex digits."""
        said = msgspec.json.encode([self.action, sorted(self.guards), sorted(self.fields)])
        return hashlib.sha256(said).hexdigest()[:12]


class Circle(msgspec.Struct, frozen=True):
    """A mismatch that was to be mended by these commits and was not."""

    fingerprint: str
    action: str
    commits: tuple[str, ...]


def record(path: Path, seen: Mismatch) -> None:
    """At the end of the ledger, which is made where it is not there; a last line without its end
    gets one. Raises ConfigError where it cannot be written."""
    try:
        with path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            before = b"" if file.read(1) in (b"", b"\n") else b"\n"
            file.write(before + msgspec.json.encode(seen) + b"\n")
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}", remedy="a file that can be written to"
        ) from None


def read_mismatches(path: Path) -> list[Mismatch]:
    """Oldest first; nothing where there is no ledger. Raises ConfigError for a damaged line."""
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found.append(msgspec.json.decode(line, type=Mismatch))
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{path}, line {number}: {error}", remedy="mend or remove that line"
            ) from None
    return found


def circles(seen: Iterable[Mismatch]) -> list[Circle]:
    """Those that came again under `CIRCLE` commits or more."""
    by: dict[str, list[Mismatch]] = {}
    rows = list(seen)
    whole = _whole_names(rows)
    for one in rows:
        if one.fix is None:
            by.setdefault(one.fingerprint, []).append(one)
    found = []
    for fingerprint, sightings in by.items():
        commits = tuple(dict.fromkeys(whole[one.commit] for one in sightings))
        if len(commits) >= CIRCLE:
            found.append(Circle(fingerprint, sightings[0].action, commits))
    return found


def forgiven(seen: Iterable[Mismatch]) -> list[tuple[str, float]]:
    """(commit, what the harness forgives), the newest sighting of each commit in the order in which
    commits came: ignores, hidden actions, dropped guards and tolerance, and by how many rules it
    has less than it had at most. A harness that forgives more and more finds less and less."""
    rows = [one for one in seen if one.fix is None]
    whole = _whole_names(rows)
    by: dict[str, float] = {}
    most = 0
    for one in rows:
        less = 0 if one.rules is None else max(most - one.rules, 0)
        most = max(most, one.rules or 0)
        by[whole[one.commit]] = one.ignores + one.hidden + one.dropped_guards + one.tolerance + less
    return list(by.items())


class Worsening(msgspec.Struct, frozen=True):
    """Commits one after the other under each of which the harness forgave more than before, and
    how much; mismatches went on all the same."""

    commits: tuple[str, ...]
    forgiven: tuple[float, ...]


def worsenings(seen: Iterable[Mismatch]) -> list[Worsening]:
    """Those of `CIRCLE` commits or more, of one model: then the harness is made to fit, and nothing
    is mended."""
    by: dict[str, list[Mismatch]] = {}
    for one in seen:
        by.setdefault(one.model, []).append(one)
    return [found for rows in by.values() for found in _rising(forgiven(rows))]


def _rising(rows: list[tuple[str, float]]) -> Iterator[Worsening]:
    run: list[tuple[str, float]] = []
    for one in [*rows, ("", float("-inf"))]:
        if run and one[1] <= run[-1][1]:
            if len(run) >= CIRCLE:
                yield Worsening(tuple(c for c, _ in run), tuple(n for _, n in run))
            run = []
        run.append(one)


def _whole_names(seen: Iterable[Mismatch]) -> dict[str, str]:
    """Of each commit the longest name by which it stands there: one may be abbreviated."""
    found = dict[str, str]()
    longest = list[str]()
    for name in sorted({one.commit for one in seen}, key=lambda name: (-len(name), name)):
        known = next((one for one in longest if name and one.startswith(name)), None)
        found[name] = known or name
        if known is None:
            longest.append(name)
    return found


def mark_fixed(seen: Iterable[Mismatch], fingerprint: str, commit: str, what: str) -> Mismatch:
    """What a commit has done about a mismatch, to be recorded. Raises ConfigError for one that was
    never seen."""
    found = {one.fingerprint: one for one in seen}
    if fingerprint not in found:
        raise ConfigError(
            f"no mismatch {fingerprint} was seen",
            remedy=meant(fingerprint, list(found)) if found else "the ledger is empty",
        )
    return msgspec.structs.replace(found[fingerprint], commit=commit, fix=what)


def mismatch_of(model: Model, said: ConformResult, commit: str) -> Mismatch:
    """Of records that were rejected: the actions that they stood for, and what refused these."""
    actions = sorted({one.step.partition("(")[0] for one in said.refusals})
    guards, fields = set[tuple[str, str]](), set[str]()
    known = {one.name: one for one in model.actions}
    for refusal in said.refusals:
        action = known.get(refusal.step.partition("(")[0])
        found = [one for one in (action.guards if action else ()) if one.label == refusal.by]
        guards |= {(one.name, one.level) for one in found} or {(refusal.by, WHOLE)}
        fields |= set().union(*(fields_named(one.source) for one in found))
    return Mismatch(
        action=", ".join(actions),
        guards=tuple(sorted(guards)),
        fields=tuple(sorted(fields)),
        commit=commit,
        model=model.name,
        ignores=len({*said.ignored, *model.spec.ignores}),
        hidden=len(model.spec.hidden),
        rules=len(model.invariants) + sum(len(one.guards) for one in model.actions),
    )


_FIELDS = "[[waiver]] file, id, how, change, requirement, approver"


class Waiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One approval, of one change: `change` is its digest, as the command prints it. `file` is
    relative to where the command is called."""

    file: str
    id: str
    how: str
    change: str
    requirement: str
    approver: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    waiver: tuple[Waiver, ...] = ()


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """Raises ConfigError where it is none, or one quotes no requirement, names nobody, or has a
    `how` that there is not."""
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=_File).waiver
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="a file of waivers") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", remedy=_FIELDS) from None
    for one in found:
        if not one.requirement.strip() or not one.approver.strip():
            raise ConfigError(
                f"{path}: the waiver of {one.id} quotes no requirement, or names nobody",
                remedy="requirement and approver are its reason",
            )
        if one.how not in get_args(How):
            raise ConfigError(
                f"{path}: the waiver of {one.id} is of no kind {one.how!r}",
                remedy=meant(one.how, get_args(How)),
            )
    return found


def approves(waiver: Waiver, path: Path, found: Weakening) -> bool:
    """That change of that file, and no other."""
    same = (waiver.id, waiver.how, waiver.change) == (found.id, found.how, found.change)
    return same and Path(waiver.file).absolute() == path.absolute()
