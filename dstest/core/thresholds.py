"""Thresholds that users change: by a file and by single words, for every command that has any.

A table of thresholds is a struct of numbers with their defaults. What stands in a file goes before
a default, and what is said on the command line before the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.core.settings import line_of

T = TypeVar("T", bound=msgspec.Struct)

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
    cannot be read, a name that there is none of, and a value that is no such number."""
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
