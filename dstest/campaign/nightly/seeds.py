"""Which seeds a night asks for: new ones each night, and those that failed in the nights before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dstest.campaign.nightly.cells import Cell
from dstest.campaign.nightly.state import Item, Night
from dstest.core.rng import fresh_seed
from dstest.core.standing import PreviousNight, owed_after

_NIGHT_SEEDS: Final = 2**31


def new_night_seed() -> int:
    """What the new seeds of a night follow from, where nobody chose it: another one each night,
    also where no night before has left anything behind."""
    return fresh_seed(_NIGHT_SEEDS)


def drawn_seed(name: str, night_seed: int, key: str, at: int) -> int:
    """The new seed number `at` of a cell: the same for whoever asks with the same `night_seed`."""
    digest = hashlib.sha256(f"{name}/{night_seed}/{key}/{at}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def kept_seeds(nights: Iterable[Night], passes: int) -> dict[str, list[int]]:
    """By key of the cell: seeds that failed, or missed what a control has to show, and that since
    then were not as they must be in `passes` nights in a row (`owed_after`). Nights from old to
    new."""
    stood = [
        PreviousNight([((i.key, i.seed), i.standing) for i in night.items], bool(night.chosen))
        for night in nights
    ]
    kept: dict[str, list[int]] = {}
    for key, seed in owed_after(stood, passes):
        kept.setdefault(key, []).append(seed)
    return kept


def items_of(
    name: str, night_seed: int, cells: Sequence[Cell], kept: dict[str, list[int]]
) -> list[Item]:
    """What a night runs: seeds that are kept first, then controls, then the rest, so that a night
    that is cut short has asked what matters most."""
    asked = []
    for cell in cells:
        old = kept.get(cell.key, [])
        named = cell.seed or [
            drawn_seed(name, night_seed, cell.key, at) for at in range(cell.seeds)
        ]
        asked += [_item(cell, seed, "kept") for seed in old]
        why = "named" if cell.seed else "new"
        asked += [_item(cell, seed, why) for seed in named if seed not in old]
    return sorted(asked, key=lambda item: (item.why != "kept", not item.expected.control))


def digest_of(items: Iterable[Item]) -> str:
    """SHA-256 of what is asked: of each item its id, its command and what it has to come to."""
    asked = [(item.id, item.argv, item.expected) for item in items]
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()


def _item(cell: Cell, seed: int, why: str) -> Item:
    return Item(
        id=f"{cell.id}.{seed}",
        cell=cell.id,
        key=cell.key,
        system=cell.system,
        version=cell.version,
        workload=cell.workload,
        nemesis=cell.nemesis,
        argv=[*cell.argv, "--seed", str(seed)],
        image=list(cell.image),
        files=list(cell.files),
        expected=cell.expected,
        limit_s=cell.limit_s,
        seed=seed,
        why=why,
    )
