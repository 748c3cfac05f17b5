"""A reader of EDN (https://github.com/edn-format/edn), the notation that Jepsen histories use.

    nil true 7 7N 2.5 "a" \\a          None True 7 7 2.5 "a" "a"
    :append                           Keyword("append"), equal to "append"
    append                            Symbol("append")
    (1 2) [1 2] #{1 2}                lists
    {:f :read}                        Map, a dict that knows its offset in the text
    #inst "2026-11-21"                Tagged("inst", "2026-11-21")
    #_ form ; comment ,               nothing

Collections used as map keys become tuples. Malformed text raises HistoryError with line and column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from dstest.core.errors import HistoryError

__all__ = ["Keyword", "Map", "Symbol", "Tagged", "plain", "read_all", "where"]

DEPTH_MAX = 100
"""Deeper nesting is no history; the bound keeps what looks into values within Python's stack."""

_TOKEN = re.compile(
    r"""(?P<skip>[\s,]+|;[^\n]*)
      | (?P<atom>\#\#-?\w+|[^\s,;"()\[\]{}\\\#^`~@][^\s,;"()\[\]{}\\`~@]*)
      | (?P<open>\#\{|[(\[{])
      | (?P<close>[)\]}])
      | (?P<text>"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<discard>\#_)
      | (?P<tag>\#[A-Za-z][^\s,;"()\[\]{}\\]*)
      | (?P<char>\\(?:newline|return|space|tab|formfeed|backspace|u[0-9a-fA-F]{4}|.))
    """,
    re.VERBOSE | re.DOTALL,
)
_INT = re.compile(r"[+-]?\d+N?")
_FLOAT = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_RATIO = re.compile(r"([+-]?\d+)/(\d+)")
_SYMBOL = re.compile(r"(?:[+-](?!\d)|[^\d:'+-])[^:]*(?::[^:]+)*")
_WORDS = {
    "nil": None,
    "true": True,
    "false": False,
    "##Inf": float("inf"),
    "##-Inf": float("-inf"),
    "##NaN": float("nan"),
}
_NAMES = ("newline", "return", "space", "tab", "formfeed", "backspace")
_CHARS = dict(zip(_NAMES, "\n\r \t\f\b", strict=True))
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_CLOSER = {"(": ")", "[": "]", "{": "}", "#{": "}"}


class Keyword(str):
    """`:name`, without its colon."""

    __slots__ = ()


class Symbol(str):
    """A bare name."""

    __slots__ = ()


class Map(dict[Any, Any]):
    """A map and where it starts."""

    __slots__ = ("offset",)

    offset: int


class Tagged:
    """`#tag value`."""

    __slots__ = ("tag", "value")

    def __init__(self, tag: str, value: Any) -> None:
        self.tag = tag
        self.value = value


class _Frame:
    """A collection, tag or discard that is still open."""

    __slots__ = ("items", "offset", "opener")

    def __init__(self, opener: str, offset: int) -> None:
        self.opener = opener
        self.offset = offset
        self.items: list[Any] = []


def where(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _fail(text: str, offset: int, message: str) -> NoReturn:
    line, column = where(text, offset)
    raise HistoryError(
        message, line=line, column=column, remedy="the history must be well-formed EDN"
    )


def _number(atom: str) -> int | float | None:
    if _INT.fullmatch(atom) and len(atom) <= 1000:
        return int(atom.rstrip("N"))
    if _FLOAT.fullmatch(atom):
        return float(atom.rstrip("M"))
    ratio = _RATIO.fullmatch(atom)
    if ratio and int(ratio[2]) != 0:
        return int(ratio[1]) / int(ratio[2])
    return None


def _atom(text: str, offset: int, atom: str) -> Any:
    if atom in _WORDS:
        return _WORDS[atom]
    if atom[0] == ":":
        if len(atom) == 1 or atom[1] == ":":
            _fail(text, offset, f"{atom!r} is not a keyword")
        return Keyword(atom[1:])
    number = _number(atom)
    if number is not None:
        return number
    if not _SYMBOL.fullmatch(atom):
        _fail(text, offset, f"{atom[:40]!r} is neither a number nor a symbol")
    return Symbol(atom)


def _unescape(text: str, offset: int, quoted: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "u" and len(code) == 5:
            return chr(int(code[1:], 16))
        if code[0] in "01234567":
            return chr(int(code, 8))
        if code not in _ESCAPES:
            _fail(text, offset + 1 + match.start(), f"\\{code} is not an escape")
        return _ESCAPES[code]

    return _ESCAPE.sub(one, quoted[1:-1]) if "\\" in quoted else quoted[1:-1]


def _char(token: str) -> str:
    name = token[1:]
    if len(name) == 5 and name[0] == "u":
        return chr(int(name[1:], 16))
    return _CHARS.get(name, name)


def _frozen(value: Any) -> Any:
    """A hashable copy, for map keys."""
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, _frozen(v)) for k, v in value.items())
    return value


def _closed(text: str, frame: _Frame) -> Any:
    if frame.opener != "{":
        return frame.items
    if len(frame.items) % 2:
        _fail(text, frame.offset, "map has a key without a value")
    made = Map()
    made.offset = frame.offset
    for key, value in zip(frame.items[::2], frame.items[1::2], strict=True):
        key = _frozen(key)
        if key in made:
            _fail(text, frame.offset, f"map has the key {key!r} twice")
        made[key] = value
    return made


def read_all(text: str) -> Iterator[Any]:
    """Every top-level form of the text, in order."""
    stack: list[_Frame] = []
    atoms: dict[str, Any] = {}
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            what = "string never ends" if text[position] == '"' else "unexpected character"
            _fail(text, position, f"{what}: {text[position : position + 20]!r}")
        at, position, kind, lexeme = position, token.end(), token.lastgroup, token[0]
        if kind == "skip":
            continue
        if kind in ("open", "tag", "discard"):
            stack.append(_Frame(lexeme, at))
            if len(stack) > DEPTH_MAX:
                _fail(text, at, f"nested deeper than {DEPTH_MAX}")
            continue
        if kind == "atom":
            if lexeme not in atoms:
                atoms[lexeme] = _atom(text, at, lexeme)
            value = atoms[lexeme]
        elif kind == "text":
            value = _unescape(text, at, lexeme)
        elif kind == "char":
            value = _char(lexeme)
        else:
            frame = stack.pop() if stack else None
            if frame is None or _CLOSER.get(frame.opener) != lexeme:
                opened = f" {frame.opener!r}" if frame else ""
                _fail(text, at, f"{lexeme!r} does not close{opened or ' anything'}")
            value = _closed(text, frame)
        yield from _deliver(stack, value)
    if stack:
        _fail(text, stack[-1].offset, f"{stack[-1].opener!r} is never finished")


def _deliver(stack: list[_Frame], value: Any) -> Iterator[Any]:
    """Hands a finished value to what is open around it; yields it where nothing is."""
    while stack and stack[-1].opener not in _CLOSER:
        opener = stack.pop().opener
        if opener == "#_":
            return
        value = Tagged(opener[1:], value)
    if stack:
        stack[-1].items.append(value)
    else:
        yield value


def plain(value: Any) -> Any:
    """The value in JSON's terms: keywords and symbols as strings, tags dropped."""
    if isinstance(value, Tagged):
        return plain(value.value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        made = {_name(k): plain(v) for k, v in value.items()}
        if len(made) < len(value):
            raise HistoryError(
                f"a map has two keys that are one here: {', '.join(map(repr, value))[:80]}",
                remedy="write the keys of a map as one kind of scalar",
            )
        return made
    return value


def _name(key: Any) -> str:
    return str(key) if isinstance(key, str) else json.dumps(plain(key))
