"""Names that are easily taken for one another, of the nine classes that a boundary claim tries.

A cell is a handful of tenants and keys of one class. Of the places that they make together most
are put to and at least one is not, and there are tenants besides that nobody ever is: what is asked
of these has nothing to show. Source of the classes: section 7.M.S of a plan (docs/plans.md).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

Place = tuple[str, str]
"""A tenant and a key of it."""


class Names(NamedTuple):
    """Tenants and keys that look alike, and such tenants that nobody is."""

    tenants: tuple[str, ...]
    keys: tuple[str, ...]
    strangers: tuple[str, ...]


class Cell(NamedTuple):
    """`absent` are places that are never put to; `strangers` have none at all."""

    id: str
    kind: str
    places: tuple[Place, ...]
    absent: tuple[Place, ...]
    tenants: tuple[str, ...]
    strangers: tuple[str, ...]


class Base(NamedTuple):
    """What a cell's names are made of, which no other cell has: a text that ends in `x` and begins
    no other one, and a number. `turn` counts the cells of the class before it."""

    text: str
    number: int
    turn: int


Speller = Callable[[Base], Names]

_SEPARATORS: Final = ":/|.,#\\\x1f-"
_ENDS: Final = " \t\n\x00\x7f\u00a0\u200b"
_LONG: Final = "n" * 120
_ODD_FROM: Final = 6
"""The turn from which on names are long, or have what cannot be seen in front, each second time."""
_2_32, _2_53, _2_63, _2_64 = 1 << 32, 1 << 53, 1 << 63, 1 << 64


def _odd(base: Base) -> bool:
    return base.turn >= _ODD_FROM and base.turn % 2 == 1


def _same_name(base: Base) -> Names:
    text = base.text
    return Names((f"{text}-a", f"{text}-b"), ("orders", "users"), (f"{text}-c",))


def _prefix(base: Base) -> Names:
    """A key of the longer tenant, and one of the shorter, are the same where they are put together
    with nothing between; and one key begins with another. Odd ones are long."""
    text = base.text + _LONG * _odd(base)
    return Names((text, f"{text}1"), ("k", "1k", "k1"), (text[:-1], f"{text}11"))


def _case(base: Base) -> Names:
    text = base.text
    return Names((f"{text}ten", f"{text}TEN"), ("key", "KEY", "Key"), (f"{text}Ten",))


def _separator(base: Base) -> Names:
    """`a`, `b:c` and `a:b`, `c`, for one of several separators, also encoded (`-` as `_`)."""
    text = base.text
    mark = _SEPARATORS[base.turn % len(_SEPARATORS)]
    coded = "_" if mark == "-" else f"%{ord(mark):02X}"
    keys = ("q", f"p{mark}q", f"p{coded}q")
    return Names((text, f"{text}{mark}p"), keys, (f"{text}{coded}p", f"{text}{mark}"))


def _trailing(base: Base) -> Names:
    """What cannot be seen at the end of a tenant's name, or, of odd ones, before it."""
    text = base.text
    end = _ENDS[base.turn % len(_ENDS)]
    keys = ("k", " k", "k ", "k\n", "k\x00")
    if _odd(base):
        return Names((text, f"{end}{text}"), keys, (f"{end}{end}{text}",))
    return Names((text, f"{text}{end}"), keys, (f"{text}{end}{end}",))


def _recycled(base: Base) -> Names:
    """Few names, dropped and used again all the time."""
    text = base.text
    return Names((f"{text}-a", f"{text}-b"), ("k1", "k2", "k3"), (f"{text}-c",))


def _off_by_one(base: Base) -> Names:
    """The names behind the last one that begins with `text/`, and behind that of `text`; the first
    and the last key that there can be."""
    text = base.text
    return Names((text, f"{text}0", f"{text[:-1]}y"), ("!", "~", "\U0010ffff"), (f"{text}.",))


def _overflow(base: Base) -> Names:
    """Numbers that are one where 32 or 64 bits of them are kept, or where they are kept as floats;
    a boundary of signed ones."""
    tenants = tuple(str(base.number + more) for more in (0, _2_32, _2_64))
    keys = tuple(map(str, (_2_53, _2_53 + 1, _2_63, -_2_63)))
    return Names(tenants, keys, (f"0{base.number}", str(base.number - _2_32)))


def _unicode(base: Base) -> Names:
    """One letter as one character and as two; characters that normal form KC makes letters of."""
    text = base.text
    keys = ("\ufb01", "fi", "\u212a", "K")
    return Names((f"{text}\u00e9", f"{text}e\u0301"), keys, (f"{text}\u00c9",))


SPELLERS: Final[Mapping[str, Speller]] = MappingProxyType(
    {
        "same name": _same_name,
        "prefix": _prefix,
        "case": _case,
        "separator": _separator,
        "trailing": _trailing,
        "recycled": _recycled,
        "off by one": _off_by_one,
        "overflow": _overflow,
        "unicode": _unicode,
    }
)
"""By class; the names are those of `dstest.plans.choice.CONFUSABLES`."""

_ABSENT: Final = 0.25
"""Share of a cell's places that nobody puts to."""

_PER_WORKER: Final = 1_000_000
"""Numbers of a worker's cells, of which the names of the class `overflow` are made."""


def cell_of(kind: str, worker: int, number: int, dice: random.Random) -> Cell:
    """A cell of this class, of whose nine the number counts from 0; no two numbers or workers have
    a tenant in common."""
    turn = number // len(SPELLERS)
    base = Base(f"t{worker}-{number}x", worker * _PER_WORKER + number + 1, turn)
    names = SPELLERS[kind](base)
    every = [(tenant, key) for tenant in names.tenants for key in names.keys]
    dice.shuffle(every)
    absent = max(1, int(_ABSENT * len(every)))
    strange = [(tenant, dice.choice(names.keys)) for tenant in names.strangers]
    return Cell(
        id=f"{worker}-{number}",
        kind=kind,
        places=tuple(every[absent:]),
        absent=(*every[:absent], *strange),
        tenants=names.tenants,
        strangers=names.strangers,
    )
