"""Weakenings that somebody has approved: a file of TOML, `[[waiver]]` each.

[[waiver]]
id = "REG1"
how = "narrowed"
requirement = "the sentence that still holds, as it stands"
approver = "who"
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.weaker import Weakening

__all__ = ["Waiver", "open_ones", "read_waivers"]


class Waiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One approval; of what, by `id` and `how`."""

    id: str
    how: str
    requirement: str
    approver: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    waiver: tuple[Waiver, ...] = ()


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """Raises ConfigError where it is none, or one quotes no requirement or names nobody."""
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=_File).waiver
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="a file of waivers") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: {error}", remedy="[[waiver]] id, how, requirement, approver"
        ) from None
    for one in found:
        if not one.requirement.strip() or not one.approver.strip():
            raise ConfigError(
                f"{path}: the waiver of {one.id} quotes no requirement, or names nobody",
                remedy="requirement and approver are its reason",
            )
    return found


def open_ones(found: Iterable[Weakening], waivers: Iterable[Waiver]) -> list[Weakening]:
    """Those that nobody has approved."""
    approved = {(one.id, one.how) for one in waivers}
    return [one for one in found if (one.id, one.how) not in approved]
