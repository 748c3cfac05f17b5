"""A reader of EDN (https://github.com/edn-format/edn), the notation that Jepsen histories use.

    nil true 7 7N 0x1f 2r101 "a" \\a   None True 7 7 31 5 "a" Char("a")
    2.5 0.5M 1/3 0.1234567890123456M  2.5 0.5 Exact("1/3") Exact("0.1234567890123456")
    :append                           Keyword("append"), equal to "append"
    append                            Symbol("append")
    (1 2) [1 2]                       lists
    #{2 1}                            [1, 2]: sets that are equal are equal lists
    {:f :read}                        Map, a dict that knows its offset in the text
    #inst "2026-11-21"                Tagged("inst", "2026-11-21")
    #:etcd{:code 5}                   a Map with the key Keyword("etcd/code")
    #_ form ; comment , ^meta         nothing

What Clojure prints and cannot read again (`#object[..]`, `#<..>`), or reads as code (`@x`, `'x`,
`#"regex"`), is no value, and neither is a map with a key twice: it may stand where nobody reads it,
and `Plain` raises HistoryError where somebody does. Collections used as map keys become tuples.
Malformed text raises HistoryError with line and column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NoReturn

from dstest.core.errors import HistoryError
from dstest.core.limits import DEPTH_MAX

_TOKEN = re.compile(
    r"""(?P<skip>[\s,]+|;[^\n]*)
      | (?P<atom>\#\#-?\w+|[^\s,;"()\[\]{}\\\#^`~@'][^\s,;"()\[\]{}\\`~@]*)
      | (?P<open>\#\{|[(\[{])
      | (?P<close>[)\]}])
      | (?P<text>"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<discard>\#_|\#?\^)
      | (?P<tag>\#:?:?[A-Za-z_][^\s,;"()\[\]{}\\]*|\#::)
      | (?P<char>\\(?:newline|return|space|tab|formfeed|backspace|u[0-9a-fA-F]{4}|o[0-7]{1,3}|.))
      | (?P<code>'|`|~@?|@|\#'|\#=|\#\?@?|\#(?=\())
      | (?P<opaque>\#"[^"\\]*(?:\\.[^"\\]*)*"
          |\#<(?:[^<>]|(?<=-)>|<(?:[^<>]|(?<=-)>)*(?<!-)>)*(?<!-)>)
    """,
    re.VERBOSE | re.DOTALL,
)
_INT = re.compile(r"[+-]?\d+N?")
_HEX = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]+)N?")
_RADIX = re.compile(r"([+-]?)(\d{1,2})[rR]([0-9a-zA-Z]+)N?")
_FLOAT = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_RATIO = re.compile(r"([+-]?\d+)/(\d+)")
_EXACT_DIGITS = 15
"""Decimal digits that a double tells from all others."""
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


class Char(str):
    """`\\c`, the character alone."""

    __slots__ = ()


class Exact(str):
    """A number that no double holds, as it is written."""

    __slots__ = ()


class Map(dict[Any, Any]):
    """A map and where it starts; `twice` is a key that it has twice, which is no map to read."""

    __slots__ = ("offset", "twice")

    offset: int
    twice: Any


class Opaque:
    """What is no value, as it is written, and where."""

    __slots__ = ("offset", "text")

    def __init__(self, text: str, offset: int) -> None:
        self.text = text
        self.offset = offset


class Tagged:
    """`#tag value`, and where it starts."""

    __slots__ = ("offset", "tag", "value")

    def __init__(self, tag: str, value: Any, offset: int) -> None:
        self.tag = tag
        self.value = value
        self.offset = offset


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


def _number(atom: str) -> int | float | Exact | None:
    if _INT.fullmatch(atom) and len(atom) <= 1000:
        return int(atom.rstrip("N"))
    if _FLOAT.fullmatch(atom) and len(atom) <= 1000:
        return _decimal(atom[:-1]) if atom[-1] == "M" else _double(atom)
    if (found := _HEX.fullmatch(atom)) and len(atom) <= 1000:
        return int(found[1] + found[2], 16)
    if (found := _RADIX.fullmatch(atom)) and len(atom) <= 1000 and 2 <= int(found[2]) <= 36:
        try:
            return int(found[1] + found[3].rstrip("N" if int(found[2]) < 24 else ""), int(found[2]))
        except ValueError:
            return None
    ratio = _RATIO.fullmatch(atom)
    if ratio and len(atom) <= 1000 and int(ratio[2]) != 0:
        exact = Fraction(int(ratio[1]), int(ratio[2]))
        near = int(exact) if exact.denominator == 1 else float(exact)
        return near if near == exact else Exact(exact)
    return None


def _double(atom: str) -> float | None:
    value = float(atom)
    return None if value in (float("inf"), float("-inf")) else value


def _decimal(atom: str) -> int | float | Exact:
    """A decimal; equal ones are equal values, and others are others."""
    exact = Decimal(atom)
    digits = "".join(map(str, exact.as_tuple().digits)).strip("0")
    value = _double(atom) if len(digits) <= _EXACT_DIGITS else None
    if value is not None and (value or not digits):
        return value
    if abs(exact.adjusted()) >= 1000:
        return Exact(exact)
    if exact == exact.to_integral_value():
        return int(exact)
    return Exact(f"{exact:f}".rstrip("0"))


def _atom(text: str, offset: int, atom: str) -> Any:
    if atom in _WORDS:
        return _WORDS[atom]
    if atom[0] == ":":
        if len(atom) == 1 or atom[1] == ":":
            return Opaque(atom, offset)
        return Keyword(atom[1:])
    number = _number(atom)
    if number is not None:
        return number
    return Symbol(atom) if _SYMBOL.fullmatch(atom) else Opaque(atom, offset)


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


def _char(token: str) -> Char:
    name = token[1:]
    if len(name) == 5 and name[0] == "u":
        return Char(chr(int(name[1:], 16)))
    if len(name) > 1 and name[0] == "o" and name[1].isdigit():
        return Char(chr(int(name[1:], 8)))
    return Char(_CHARS.get(name, name))


def _frozen(value: Any) -> Any:
    """A hashable copy, for map keys; equal for equal values."""
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, dict):
        pairs = ((k, _frozen(v)) for k, v in sorted(value.items(), key=_rank))
        return (Symbol("{}"), *pairs)  # which no list is
    return int(value) if type(value) is float and value.is_integer() else value


def _rank(value: Any) -> str:
    """An order of values in which equal ones are one."""
    if isinstance(value, dict):
        return "{" + " ".join(sorted(map(_rank, value.items()))) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(_rank, value)) + "]"
    if isinstance(value, Tagged):
        return f"#{value.tag} {_rank(value.value)}"
    if type(value) is float and value.is_integer():
        value = int(value)
    return f"{type(value).__name__} {value!r}"


def _ordered(items: list[Any]) -> list[Any]:
    """The elements of a set in an order that is the same for every set equal to it."""
    kinds = {*map(type, items)}
    return sorted(items, key=None if kinds in ({int}, {str}, {Keyword}) else _rank)


def _closed(text: str, frame: _Frame) -> Any:
    if frame.opener == "#{":
        return _ordered(frame.items)
    if frame.opener != "{":
        return frame.items
    if len(frame.items) % 2:
        _fail(text, frame.offset, "map has a key without a value")
    made = Map()
    made.offset, made.twice = frame.offset, None
    for key, value in zip(frame.items[::2], frame.items[1::2], strict=True):
        key = _frozen(key)
        if key in made:
            made.twice = key
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
        if kind == "atom":
            if lexeme in atoms:
                value = atoms[lexeme]
            else:
                value = _atom(text, at, lexeme)
                if type(value) is not Opaque:  # which knows its place
                    atoms[lexeme] = value
        elif kind in ("open", "tag", "discard", "code"):
            stack.append(_Frame(lexeme, at))
            if len(stack) > DEPTH_MAX:
                _fail(text, at, f"nested deeper than {DEPTH_MAX}")
            continue
        elif kind == "text":
            value = _unescape(text, at, lexeme)
        elif kind == "char":
            value = _char(lexeme)
        elif kind == "opaque":
            value = Opaque(lexeme, at)
        else:
            frame = stack.pop() if stack else None
            if frame is None or _CLOSER.get(frame.opener) != lexeme:
                opened = f" {frame.opener!r}" if frame else ""
                _fail(text, at, f"{lexeme!r} does not close{opened or ' anything'}")
            value = _closed(text, frame)
        if stack and stack[-1].opener in _CLOSER:
            stack[-1].items.append(value)
        else:
            yield from _deliver(stack, value)
    if stack:
        _fail(text, stack[-1].offset, f"{stack[-1].opener!r} is never finished")


def _deliver(stack: list[_Frame], value: Any) -> Iterator[Any]:
    """Hands a finished value to what is open around it; yields it where nothing is."""
    while stack and stack[-1].opener not in _CLOSER:
        frame = stack.pop()
        opener = frame.opener
        if opener in ("#_", "^", "#^"):
            return
        if not opener[1:2].isalpha() and opener[1:2] not in (":", "_"):
            value = Opaque(opener, frame.offset)
        elif opener[1] == ":" and isinstance(value, Map):
            value = _qualified(value, opener.lstrip("#:"))
        else:
            value = Tagged(opener[1:], value, frame.offset)
    if stack:
        stack[-1].items.append(value)
    else:
        yield value


def _qualified(found: Map, namespace: str) -> Map:
    """The map of `#:namespace{..}`, with the keys that it stands for."""
    made = Map()
    made.offset, made.twice = found.offset, found.twice
    for key, value in found.items():
        if type(key) in (Keyword, Symbol):
            bare = key.removeprefix("_/")
            key = type(key)(bare if "/" in key else f"{namespace}/{bare}")
        made[key] = value
    return made


def first_end(text: str) -> int:
    """Where the first form of a text ends. Raises HistoryError where it has none that is whole."""
    depth, position = 0, 0
    while position < len(text) and (token := _TOKEN.match(text, position)):
        position, kind = token.end(), token.lastgroup
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        if depth <= 0 and kind not in ("skip", "tag", "code", "discard"):
            return position
    list(read_all(text))  # which says what is wrong
    _fail(text, 0, "there is no form")


_KINDS: Final = {Keyword: "{}", str: '"{}"', Symbol: "'{}", Char: "\\{}", Exact: "{}M"}
"""How values that are texts are written where two of them would be one: `:a` stays a."""


class Plain:
    """Values in JSON's terms: keywords and symbols are strings, tags are dropped, all keys of maps
    are strings. Where two of them would be one string, such as `:a` and "a" or the keys 1 and "1",
    all but the keyword and the string are written with their marks. So all values of a text are
    looked at (`value`) first, and again where `settle` says that there are such."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._forms: dict[Any, str] = dict(_KINDS)
        """Of kinds, and of the tags of texts."""
        self._seen: dict[Any, set[str]] = {kind: set() for kind in _KINDS}
        self._names: dict[bool, set[str]] = {True: set(), False: set()}
        """Keys of maps that are texts, and as texts those that are none."""
        self._marked: frozenset[str] = frozenset()
        self._marked_names: frozenset[str] = frozenset()
        self._settled = False

    def settle(self) -> bool:
        """Are there values that would be one, so that all have to be read again?"""
        if self._settled:
            return False
        self._settled = True
        kinds = [texts for texts in self._seen.values() if texts]
        every = set().union(*kinds)
        twice = set[str]()
        if len(every) < sum(map(len, kinds)):
            twice = {text for text in every if sum(text in texts for texts in kinds) > 1}
        self._marked_names = frozenset(self._names[True] & self._names[False])
        marked = {form.format(text) for text in twice for form in self._forms.values()}
        marked |= {f"~{name}" for name in self._marked_names}
        self._marked = frozenset(twice | (marked & every))
        return bool(twice or self._marked_names)

    def value(self, value: Any) -> Any:
        """The value. Raises HistoryError for what is none."""
        if value is None:
            return None
        kind: Any = type(value)
        if kind is int or kind is float or kind is bool:
            return value
        if kind in _KINDS:
            return self._told(kind, value)
        if kind is list or kind is tuple:
            return [self.value(v) for v in value]
        if kind is Map:
            return self._map(value)
        if kind is Tagged and value.tag != "object":
            if type(value.value) is not str:
                return self.value(value.value)
            self._forms[value.tag] = f'#{value.tag} "{{}}"'
            return self._told(value.tag, value.value)
        shown = value.text[:40] if kind is Opaque else f"#{value.tag}"
        message = f"{shown!r} is neither a number nor a symbol"
        if kind is Tagged or not shown[0].isalnum():
            message = f"{shown!r} is nothing that can be compared: it is no value"
        _fail(self._text, value.offset, message)

    def _map(self, value: Map) -> dict[str, Any]:
        if value.twice is not None:
            _fail(self._text, value.offset, f"map has the key {value.twice!r} twice")
        made = {self._name(k): self.value(v) for k, v in value.items()}
        if len(made) < len(value) and self._settled:
            raise HistoryError(
                f"a map has two keys that are one here: {', '.join(map(repr, value))[:80]}",
                remedy="write the keys of a map as one kind of scalar",
            )
        return made

    def _told(self, kind: Any, text: str) -> str:
        """A text of some kind."""
        self._seen.setdefault(kind, set()).add(text)
        return self._forms[kind].format(text) if text in self._marked else str(text)

    def _name(self, key: Any) -> str:
        told = self.value(key)
        is_text = isinstance(told, str)
        name: str = told if is_text else json.dumps(told)
        self._names[is_text].add(name)
        return name if is_text or name not in self._marked_names else f"~{name}"


def plain(value: Any) -> Any:
    """One value in JSON's terms, by itself."""
    values = Plain()
    told = values.value(value)
    return values.value(value) if values.settle() else told


def display_form(value: Any) -> Any:
    """What nobody compares, in JSON's terms: what is no value as it is written."""
    if isinstance(value, Opaque):
        return value.text
    if isinstance(value, Tagged):
        return display_form(value.value)
    if isinstance(value, list | tuple):
        return [display_form(v) for v in value]
    if isinstance(value, dict):
        return {str(display_form(k)): display_form(v) for k, v in value.items()}
    return str(value) if isinstance(value, str) else value
