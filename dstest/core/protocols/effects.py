"""Effects on the servers' side: what a system that writes them down says of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One operation as a member applied it, in the words of the client history.

    `index` is its place in the order of all effects of the cluster, the same on each member.
    `request` names what asked for it where that may be sent again; `again`: the member knew the
    request, and nothing was done. `refused`: it came to nothing, as the client was told.
    `replayed`: it was read from disk when the member started.
    """

    index: int
    op_type: str
    key: Any
    input: Any
    result: Any
    term: int | None = None
    request: str = ""
    again: bool = False
    refused: bool = False
    replayed: bool = False


@runtime_checkable
class EffectLog(Protocol):
    """`file` is the name of the file among a member's logs, a JSON object per line, `first` the
    place of the first entry in the order of all. `types` are the operations whose effects stand in
    it, with all that was asked; reads need not. `objects` has by type the object in plain Python
    (`checkers.second.objects`) that does such operations again. `effect_of` reads a line: the
    place, and None for an entry that no client asked for. ValueError, KeyError or TypeError for
    what is no such line.

    A member writes an effect down before it answers, and one that it has kept on disk again when it
    starts: otherwise an effect that is missing at the end of the order would prove nothing.
    """

    file: str
    first: int
    types: frozenset[str]
    objects: Mapping[str, str]

    def effect_of(self, record: dict[str, Any]) -> tuple[int, Effect | None]: ...
