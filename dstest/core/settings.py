"""Settings from TOML files, refused with line and remedy where anything in them is wrong; and
thresholds, by a file and by single words, the same for every command that has any."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import meant

T = TypeVar("T", bound=msgspec.Struct)
_PLACE: Final = re.compile(r" - at `([^`]*)`$")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_NO_WORD: Final = re.compile(r"Invalid enum value '([^']*)'")


class Shape(NamedTuple):
    """What a file may say: its tables by name, the file itself as ``, and the page about it; by
    TABLE.KEY how a value is written that is easily written otherwise."""

    tables: Mapping[str, type[msgspec.Struct]]
    page: str
    written: Mapping[str, str] = {}


def read_settings(
    name: str,
    text: str,
    kind: type[T],
    shape: Shape,
    prepared: Callable[[Any], Any] = lambda plain: plain,
) -> T:
    """What a file of this name says. `prepared` may write its keys in another way before it is
    read. Raises ConfigError."""
    see = f"see {shape.page}"
    try:
        plain = prepared(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is no TOML: {error}", remedy=see) from None
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise _refused(name, text, str(error), shape) from None


def _refused(name: str, text: str, said: str, shape: Shape) -> ConfigError:
    match = _PLACE.search(said)
    place = match[1].removeprefix("$").removeprefix(".") if match else ""
    what = _PLACE.sub("", said)
    table, key = _split(place)
    remedy = shape.written.get(f"{_plain(table)}.{key}") or _keys(shape, table, "")
    if unknown := _UNKNOWN.match(what):
        table, key = place, unknown[1]
        what, remedy = f"there is no key {key!r}", _keys(shape, table, key)
    elif missing := _MISSING.match(what):
        table, key = place, ""
        what = f"there is no {missing[1]!r}, which is required"
        remedy = _keys(shape, table, "") + _required(shape, table)
    elif word := _NO_WORD.match(what):
        what = f"there is no {word[1]!r} here"
        remedy = _words(shape, table, key, word[1]) or remedy
    where = f"{name}:{line_of(text, table, key)}: " + (f"{place}: " if place else "")
    return ConfigError(where + what, remedy=remedy)


def _split(place: str) -> tuple[str, str]:
    """(table, key) of `cells[0].seeds`, whose last word may be a place in a list."""
    inner = re.sub(r"(\[\d+\]|\[\.\.\.\])$", "", place) if place.count(".") else place
    table, dot, key = inner.rpartition(".")
    return (table, key) if dot else ("", re.sub(r"\[\d*\]$", "", inner))


def _plain(table: str) -> str:
    return re.sub(r"\[\d*\]", "", table)


def _keys(shape: Shape, table: str, unknown: str) -> str:
    known = shape.tables.get(_plain(table))
    if known is None:
        return f"see {shape.page}"
    keys = [field.encode_name for field in msgspec.structs.fields(known)]
    keys = [key for key in keys if not key.startswith("[")]
    near = get_close_matches(unknown, keys, n=1) if unknown else []
    guess = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(keys)
    return f"{guess}keys of [{_plain(table)}]: {listed}" if table else f"{guess}keys: {listed}"


def _required(shape: Shape, table: str) -> str:
    """The keys that such a table cannot be without."""
    known = shape.tables.get(_plain(table))
    fields = [] if known is None else msgspec.structs.fields(known)
    keys = [field.encode_name for field in fields if field.required]
    return f"; required are {', '.join(keys)}" if keys else ""


def _words(shape: Shape, table: str, key: str, given: str) -> str:
    """The words that a key may have."""
    known = shape.tables.get(_plain(table))
    fields = [] if known is None else msgspec.structs.fields(known)
    kinds = [field.type for field in fields if field.encode_name == key]
    words = [str(word) for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    near = get_close_matches(given, words, n=1)
    listed = ", ".join(repr(word) for word in words)
    return f"did you mean {near[0]!r}? one of {listed}" if near else listed and f"one of {listed}"


def line_of(text: str, table: str, key: str = "") -> int:
    """The line of a key of a table such as `cells[2]`, or where the table begins."""
    match = re.fullmatch(r"([a-z.]+)(?:\[(\d+)\])?(.*)", table)
    name, number = (match[1], int(match[2] or 0)) if match else (table, 0)
    rows = text.splitlines()
    begins = 0
    if name:
        heads = [n for n, row in enumerate(rows) if _is_head(row, name)]
        if len(heads) <= number:
            return 1
        begins = heads[number] + 1
    written = "[-_]".join(map(re.escape, re.split("[-_]", key)))
    first = begins
    for at in range(first, len(rows)):
        if at >= begins and key and re.match(rf'\s*"?{written}"?\s*=', rows[at]):
            return at + 1
        if rows[at].lstrip().startswith("["):
            whole = f"{name}.{key}".strip(".")
            if key and re.match(rf"\s*\[+\s*{re.escape(whole)}\s*\]", rows[at]):
                return at + 1
            if not name:  # below a table only the heads of others are of the file itself
                begins = len(rows)
            elif not rows[at].lstrip().lstrip("[").startswith(f"{name}."):
                break
    return max(first, 1)


def _is_head(row: str, name: str) -> bool:
    return bool(re.match(rf"\s*\[+\s*{re.escape(name)}\s*\]+", row))


MOST: Final = 1e9
"""Seconds of thirty years: what is reckoned from it, in nanoseconds as well, stays a number."""

_NONE: Final[Mapping[str, float]] = {}


def thresholds_of(
    usual: T,
    file: Path | None = None,
    words: Iterable[str] = (),
    *,
    least: Mapping[str, float] = _NONE,
    most: Mapping[str, float] = _NONE,
) -> T:
    """`usual` with what a TOML file of `name = number` says, and with words `NAME=VALUE`, of which
    the last one counts. `least` is what some may not be below; all others are 0 or more. `most` is
    what some may not be above; all others are `MOST` or less. Raises ConfigError for a file that
    cannot be read, a name that there is none of, and a value that is no such number.

    A table of thresholds is a struct of numbers with their defaults; what stands in a file goes
    before a default, and what is said on the command line before the file.
    """
    found: dict[str, Any] = {}
    limits = (least, most)
    if file is not None:
        text, plain = _read(file)
        for name, value in plain.items():
            where = f"{file}:{line_of(text, '', name)}: {name}"
            found[name] = _checked(usual, where, name, value, limits)
    for word in words:
        name, _, value = word.partition("=")
        found[name] = _checked(usual, f"--set {word}", name, _number(value), limits)
    return msgspec.structs.replace(usual, **found)


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = file.read_text()
        return text, tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}", remedy="give a TOML file") from None
    except RecursionError:
        raise ConfigError(
            f"{file} is no table of numbers: it is nested too deeply",
            remedy="key = number, a line each",
        ) from None
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise ConfigError(
            f"{file} is no TOML: {error}", remedy="key = number, a line each"
        ) from None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _checked(
    usual: msgspec.Struct,
    where: str,
    name: str,
    value: Any,
    limits: tuple[Mapping[str, float], Mapping[str, float]],
) -> float | int:
    """As the number that it is to be."""
    names = usual.__struct_fields__
    if name not in names:
        raise ConfigError(f"{where}: no such threshold", remedy=meant(name, names))
    whole = type(getattr(usual, name)) is int
    lowest, highest = limits[0].get(name, 0), limits[1].get(name, MOST)
    fits = type(value) in (int, float) and lowest <= value <= highest
    if not fits or (whole and value != int(value)):
        kind = "whole number" if whole else "number"
        raise ConfigError(
            f"{where}: no {kind} from {lowest:g} on, up to {highest:g}",
            remedy=f"{name} = {_example(usual, name)}",
        )
    return int(value) if whole else float(value)


def _example(usual: msgspec.Struct, name: str) -> str:
    return f"{getattr(usual, name):g}"
