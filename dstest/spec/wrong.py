"""What a specification's own code raised: at which line of its writer's, and what helps there."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from dstest.core.errors import ConfigError, DstestError
from dstest.core.near import meant

_OURS: Final = "dstest"
_LIKE_A_USERS: Final = ("dstest.spec.shipped", "dstest.spec.consensus")
_UNKNOWN: Final = re.compile(r"unexpected keyword argument '(\w+)'")
_GUARD: Final = "a guard that must hold first stands above those that rely on it"


def told(error: BaseException) -> str:
    """`FILE, line N: TypeError: ..`: the deepest line that is neither ours nor of Python's own
    library, where there is one."""
    what = error.message if isinstance(error, DstestError) else f"{type(error).__name__}: {error}"
    place = place_of(error)
    return f"{place}: {what}" if place else what


def place_of(error: BaseException) -> str:
    """`FILE, line N`, empty where there is none."""
    frames = list(traceback.walk_tb(error.__traceback__))
    theirs = [(frame, line) for frame, line in frames if _is_users(frame)]
    return f"{theirs[-1][0].f_code.co_filename}, line {theirs[-1][1]}" if theirs else ""


def _is_users(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    if frame.f_code.co_filename.startswith("<"):
        return False
    root = name.partition(".")[0]
    ours = root == _OURS and not name.startswith(_LIKE_A_USERS)
    return not ours and root not in sys.stdlib_module_names


def remedy_for(error: BaseException, fields: dict[str, Any] | None = None) -> str:
    """What helps; `fields` are those of the state that was at hand."""
    if isinstance(error, DstestError):
        return error.remedy or "mend that line"
    text = str(error)
    unknown = _UNKNOWN.search(text)
    if unknown is not None and fields:
        return f"its fields: {meant(unknown[1], fields)}"
    match error:
        case dataclasses.FrozenInstanceError():
            return "a state is frozen: return replace(s, field=..)"
        case AttributeError() if error.obj is None:
            return f"it may be None there: {_GUARD}"
        case AttributeError(name=str(name)):
            return _named(name, error.obj, fields)
        case NameError(name=str(name)):
            return f"define {name}, or mend its name"
        case TypeError() if "unhashable" in text:
            return "tuples and frozensets in the place of lists, sets and dicts"
        case TypeError() if "argument" in text:
            return "mend the call in that line, or the parameters of what it calls"
        case IndexError() | KeyError() | ZeroDivisionError() | TypeError() | ValueError():
            return _GUARD
    return "mend that line: what is not possible in a state is a guard's to say"


def _named(name: str, of: Any, fields: dict[str, Any] | None) -> str:
    there = [one for one in dir(of) if not one.startswith("_")]
    if fields and name not in fields and set(fields) <= set(there):
        there = list(fields)
    return f"{type(of).__name__} has {meant(name, there).replace('one of ', '', 1)}"


def require_taking(function: Callable[..., Any], given: tuple[str, ...], what: str) -> None:
    """Raises ConfigError, at the line of the function, where it does not take what it is given."""
    signature = inspect.signature(function)
    try:
        signature.bind(*given)
    except TypeError:
        code = getattr(inspect.unwrap(function), "__code__", None)
        place = f"{code.co_filename}, line {code.co_firstlineno}: " if code else ""
        raise ConfigError(
            f"{place}{what} takes {signature}, and is given {', '.join(given) or 'nothing'}",
            remedy=f"({', '.join(given)}), after self where it is a method",
        ) from None
