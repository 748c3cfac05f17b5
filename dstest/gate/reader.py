"""Read a policy. Whatever is wrong in it is refused with its place in the file and a remedy."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import msgspec

from dstest.core.errors import ConfigError
from dstest.gate.policy import (
    Baseline,
    Claim,
    Control,
    EvidenceRules,
    HostFacts,
    PlanAsked,
    Policy,
    Risk,
)

__all__ = ["ReadPolicy", "read_policy"]

_BYTES_MAX: Final = 1_000_000
_TABLES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "": Policy,
    "evidence": EvidenceRules,
    "evidence.host": HostFacts,
    "claim": Claim,
    "control": Control,
    "plan": PlanAsked,
    "risk": Risk,
    "baseline": Baseline,
}
_PLACE: Final = re.compile(r" - at `([^`]*)`$")
_NO_WORD: Final = re.compile(r"Invalid enum value '([^']*)'")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")


class ReadPolicy(NamedTuple):
    """A policy, the file that it stands in, its digest, and the line of each id."""

    policy: Policy
    path: Path
    sha256: str
    lines: dict[str, int]

    def line_of(self, id_: str) -> int:
        """Where the table with this id begins; 1 for what has no table."""
        return self.lines.get(id_, 1)


def read_policy(path: Path) -> ReadPolicy:
    """The policy in a file. Raises ConfigError for anything that is not one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", remedy="give a policy, see docs/gate.md"
        ) from None
    if len(data) > _BYTES_MAX:
        raise ConfigError(f"{path} has {len(data):,} bytes", remedy="a policy is a page or two")
    try:
        text = data.decode()
        plain = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}", remedy="see docs/gate.md") from None
    try:
        policy = msgspec.convert(plain, Policy)
    except msgspec.ValidationError as error:
        raise _refused(path, text, str(error)) from None
    return ReadPolicy(policy, path, hashlib.sha256(data).hexdigest(), _lines(text, plain))


def _refused(path: Path, text: str, said: str) -> ConfigError:
    match = _PLACE.search(said)
    place = match[1].removeprefix("$").removeprefix(".") if match else ""
    what = _PLACE.sub("", said)
    table, _, key = _split(place)
    unknown = _UNKNOWN.match(what)
    if unknown is not None:
        table, key = place, unknown[1]
        what = f"there is no key {key!r}"
    line = _line_of(text, table, key)
    where = f"{path}:{line}: " + (f"{place}: " if place else "")
    wrong = _NO_WORD.match(what)
    if wrong is not None:
        return ConfigError(
            where + what, remedy=_words(table if key else "", key or table, wrong[1])
        )
    return ConfigError(where + what, remedy=_remedy(table, key if unknown else ""))


def _split(place: str) -> tuple[str, str, str]:
    """(table, ".", key) of `claim[0].seeds`, whose last word may be a place in a list."""
    inner = re.sub(r"(\[\d+\]|\[\.\.\.\])$", "", place) if place.count(".") else place
    table, dot, key = inner.rpartition(".")
    return (table, dot, key) if dot else (inner, "", "")


def _remedy(table: str, unknown: str) -> str:
    name = re.sub(r"\[\d*\]", "", table)
    known = _TABLES.get(name)
    if known is None:
        return "see docs/gate.md"
    keys = [field.encode_name for field in msgspec.structs.fields(known)]
    near = get_close_matches(unknown, keys, n=1) if unknown else []
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"{guess}keys of [{name}]: {', '.join(keys)}" if name else f"{guess}{', '.join(keys)}"


def _words(table: str, key: str, given: str) -> str:
    """What a key that takes one of a few words may be."""
    known = _TABLES.get(re.sub(r"\[\d*\]", "", table), Policy)
    types = get_type_hints(known)
    of = next((f.name for f in msgspec.structs.fields(known) if f.encode_name == key), "")
    words = [str(word) for word in get_args(types.get(of))]
    near = get_close_matches(given, words, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + f"{key}: {', '.join(words)}"


def _header(table: str) -> tuple[str, int]:
    """The name of a table, and which one of its kind it is."""
    match = re.fullmatch(r"([a-z.]+)(?:\[(\d+)\])?(.*)", table)
    if match is None:
        return table, 0
    return match[1], int(match[2] or 0)


def _line_of(text: str, table: str, key: str) -> int:
    """The line of a key of a table, or where the table begins."""
    name, number = _header(table)
    rows = text.splitlines()
    begins = 0
    if name:
        heads = [n for n, row in enumerate(rows) if _is_head(row, name)]
        if len(heads) <= number:
            return 1
        begins = heads[number] + 1
    first = begins
    for at in range(first, len(rows)):
        own = at >= begins
        if own and key and re.match(rf'\s*"?{re.escape(key)}"?\s*=', rows[at]):
            return at + 1
        if rows[at].lstrip().startswith("["):
            if key and re.match(
                rf"\s*\[+\s*{re.escape(f'{name}.{key}'.strip('.'))}\s*\]", rows[at]
            ):
                return at + 1
            if not name:  # below a table only the heads of others are of the file itself
                begins = len(rows)
            elif not rows[at].lstrip().startswith(f"[{name}."):
                break
    return max(first, 1)


def _is_head(row: str, name: str) -> bool:
    return bool(re.match(rf"\s*\[+\s*{re.escape(name)}\s*\]+", row))


def _lines(text: str, plain: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for kind in ("claim", "control", "plan", "risk"):
        for number, row in enumerate(plain.get(kind, ())):
            found[str(row.get("id"))] = _line_of(text, f"{kind}[{number}]", "")
    if "baseline" in plain:
        found["baseline"] = _line_of(text, "baseline", "")
    return found
