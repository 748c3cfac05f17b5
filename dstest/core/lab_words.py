"""What a command may be told of its lab: by what the lab says of itself, not by its name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import LabTraits
from dstest.core.spec import RunSpec

_LAB: Final = "--lab"


def simulates(lab: str | None) -> bool:
    """Are nodes of this kind of lab simulated? Not where nobody here knows it."""
    try:
        return LabTraits.of(registry.load("labs", lab or RunSpec().lab)).transport != "network"
    except ConfigError:
        return False


def lab_id_words(argv: Sequence[str], lab_id: str | None) -> list[str]:
    """`--lab-id` for a command of dstest; nothing where its nodes are simulated, which come and go
    with their run, and have no name to be known by."""
    if lab_id is None or simulates(_lab_in(argv)):
        return []
    return ["--lab-id", lab_id]


def _lab_in(argv: Sequence[str]) -> str | None:
    """The kind of lab that a command names, the last of several."""
    named = None
    for word, value in itertools.zip_longest(argv, argv[1:]):
        if word == _LAB:
            named = value
        elif word.startswith(f"{_LAB}="):
            named = word.removeprefix(f"{_LAB}=")
    return named
