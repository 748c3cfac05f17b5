"""What a plug-in may be told by `-o key=value`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One `-o key=value`: its type, default, allowed values and one line of help.

    A number is finite and from `least` to `most`. `names_nodes`: the value is a list of nodes with
    commas between, and each of them must be in the cluster. Text is a whole match of `pattern`, if
    there is one; then `help` says what it may be. `flaw` says what else is wrong with a value,
    nothing where it is fine.
    """

    type: type
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str = ""
    flaw: Callable[[Any], str] | None = None
    names_nodes: bool = False
    names_service: bool = False
