"""Can every run have these options? What a plug-in declares is looked at where it is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dstest.core.attributes import fits, require_attributes
from dstest.core.errors import ConfigError
from dstest.core.protocols import Option
from dstest.core.spec import held

_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TYPES: Final = (str, int, float, bool, list, tuple, dict)
_NUMBER: Final = float | None
_SHAPE: Final[dict[str, Any]] = {
    "help": str,
    "choices": tuple[Any, ...],
    "least": _NUMBER,
    "most": _NUMBER,
    "pattern": str,
    "names_nodes": bool,
    "names_service": bool,
}


def require_options(options: Mapping[str, Option], of: str, *, may_be_open: bool) -> None:
    """Raises ConfigError for an option that cannot be given, or whose default is not its own.

    With `may_be_open` a default of None is one that is not there. `of` is where they come from.
    """
    for key, option in options.items():
        where = f"{of}: option {key!r}"
        require_attributes(option, _SHAPE, where)
        for said, remedy in _problems(key, option, may_be_open):
            raise ConfigError(f"{where}: {said}", remedy=remedy)


def _problems(key: str, option: Option, may_be_open: bool) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do about it)."""
    if not _KEY.fullmatch(key):
        yield "nobody could give it", "letters, digits, _ - and . in its name, as in -o my_keys=5"
    if option.type not in _TYPES:
        names = ", ".join(kind.__name__ for kind in _TYPES)
        yield f"its type is {option.type!r}", f"type= one of {names}"
    kind = option.type
    ranged = option.least is not None or option.most is not None
    if ranged and kind not in (int, float):
        yield "it has a range, and is no number", "leave least and most out, or type=float"
    if option.pattern and (kind is not str or not _compiles(option.pattern)):
        yield "it has a pattern that no text can match", "a regular expression, and type=str"
    for choice in option.choices:
        if not fits(choice, kind):
            yield f"its choices have {choice!r}, which is no {kind.__name__}", "one type for all"
    if option.default is not None or not may_be_open:
        yield from _of_default(option)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _of_default(option: Option) -> Iterator[tuple[str, str]]:
    default, name = option.default, option.type.__name__
    if not fits(default, option.type):
        yield (
            f"its default is {default!r}, which is no {name}",
            f"a default that is a {name}, or another `type`",
        )
    if not held(default):
        yield (
            "TOML and JSON cannot hold its default, and a run keeps it in both",
            "finite numbers of 64 bits, whole characters, lists, and tables by text; no None",
        )
    low = option.least is not None and not default >= option.least
    if low or (option.most is not None and not default <= option.most):
        yield f"its default {default!r} is out of range", "a default from `least` to `most`"
    if option.choices and default not in option.choices:
        yield f"its default {default!r} is none of its choices", "one of `choices` as default"
