"""Weakenings that somebody has approved: a file of TOML, `[[waiver]]` each.

[[waiver]]
file = "specs/register.py"
id = "REG1"
how = "narrowed"
change = "3f786850e387"
requirement = "the sentence that still holds, as it stands"
approver = "who"
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.spec.telling import How
from dstest.spec.weaker import Weakening

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
