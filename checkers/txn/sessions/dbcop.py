"""DBCop's histories, old and new: sessions of transactions of events.

| notation | an event | a transaction |
|---|---|---|
| bincode | write, variable, value, success: 1 + 8 + 8 + 1 bytes | its events, success |
| JSON, old | `{"write": true, "variable": 0, "value": 1, "success": true}` | `events`, `success` |
| JSON, new | `{"Write": {"variable": 0, "version": 1}}`, `["r", 0, null]` | `events`, `committed` |
| text, new | `x:=1`, `x==1`, `x==?` | `[x:=1 y==2]`, with `!` behind it where it was aborted |

bincode has five numbers (`params`: an id and the sizes), three texts (info, start, end) and the
sessions, each list and text after its length, all little-endian. JSON has the sessions under `data`
and perhaps the sizes under `params`, or is the list of the sessions. In text a line of - stands
between sessions, // begins a comment.

Keys start with 0, in new ones also with null; where a new one writes 0 itself, 0 is that write. An
event that failed in a committed transaction was not done: whoever reads it reads what was aborted.

The sizes that its header promises are held to what is in the file. Its writers mean different
things by the same four names:

| writer | `n_node` | `n_transaction` | `n_event` | `n_variable` |
|---|---|---|---|---|
| DBCop | sessions | of each session | of each transaction | no variable is that large |
| PolySI | sessions | in all | in all | variables that occur |
| AWDIT | 1 | in all, without a last session of what was aborted | the same | the same |

In new files of DBCop's the first session has one transaction more, which writes each variable.
Sizes that are all 0 promise nothing. Those that are none of these belong to another file.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from checkers.txn.columns import FAIL, OK, READ, WRITE
from checkers.txn.sessions.builder import NO_SESSION, Sessions
from dstest.core.errors import HistoryError

SIZES: Final = ("n_node", "n_variable", "n_transaction", "n_event")
"""In the order of the binary files."""

_Session = Sequence[tuple[Sequence[Any], bool]]
"""Transactions: events, whose second part is a variable, and whether it was committed."""


class Contents:
    """What is in a file, told session by session."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._names: set[Any] = set()
        self._before: set[Any] = set()
        self._last: _Session = ()

    def add(self, session: _Session) -> None:
        """One more session."""
        if len(session) == 1 and not session[0][1]:
            self._before = set(self._names)
        self._last = session
        self._rows.append([len(events) for events, _ in session])
        self._names |= {event[1] for events, _ in session for event in events}

    def require(self, sizes: Mapping[str, Any]) -> None:
        """Raises HistoryError where the file holds something else than its header promises."""
        if any(type(size) is not int or size < 0 for size in sizes.values()):
            raise HistoryError(f"params are no sizes: {dict(sizes)}", remedy="record it again")
        if not any(sizes.values()) or self._of_each(sizes) or self._in_all(sizes):
            return
        told = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        n = self._sums(self._rows, self._names)
        raise HistoryError(
            f"the header promises {told}, and the file holds {n['n_node']:,} sessions, "
            f"{n['n_transaction']:,} transactions, {n['n_event']:,} events, "
            f"{n['n_variable']:,} variables",
            remedy="copy the file again, or record it again; sizes of 0 promise nothing",
        )

    @staticmethod
    def _sums(rows: list[list[int]], names: set[Any]) -> dict[str, int]:
        found = (len(rows), len(names), sum(map(len, rows)), sum(map(sum, rows)))
        return dict(zip(SIZES, found, strict=True))

    def _of_each(self, sizes: Mapping[str, int]) -> bool:
        """Are these the sizes of each session, and of each transaction?"""
        rows, variables = self._rows, sizes.get("n_variable")
        each = sizes.get("n_transaction")
        if rows and each is not None and len(rows[0]) == each + 1:
            if variables not in (None, rows[0][0]):
                return False
            rows = [rows[0][1:], *rows[1:]]
        wanted = sizes.get("n_event")
        return (
            sizes.get("n_node", len(rows)) == len(rows)
            and (each is None or all(len(row) == each for row in rows))
            and (wanted is None or all(size == wanted for row in rows for size in row))
            and (variables is None or all(type(n) is not int or n < variables for n in self._names))
        )

    def _in_all(self, sizes: Mapping[str, int]) -> bool:
        """Are these the sizes of the whole?"""
        whole = self._sums(self._rows, self._names)
        if all(whole[name] == size for name, size in sizes.items()):
            return True
        aborted = len(self._last) == 1 and not self._last[0][1]
        kept = (self._rows[:-1], self._before) if aborted else (self._rows, self._names)
        return {**self._sums(*kept), "n_node": 1} == sizes


_NUMBER: Final = struct.Struct("<Q")
_EVENT: Final = struct.Struct("<BQQB")
_TIME: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_NUMBERS: Final = _NUMBER.size * (1 + len(SIZES))
"""Bytes of the numbers that a file begins with."""

_TEXT_MAX: Final = 1 << 16
_REMEDY: Final = "a whole history of DBCop's: history.bincode, its JSON, or its text"
_TXN: Final = re.compile(r"\[([^\[\]]*)\](!?)")
_MARK: Final = re.compile(r"(\w+)(:=|==)(\d{1,20}|\?)")

_Event = tuple[int, Any, Any, bool]
"""Kind, key, value (None = the initial state), done."""
_Txn = tuple[list[_Event], bool]


class _Read(NamedTuple):
    """Sessions, the sizes that the header promises, and whether 0 may be a value that somebody
    wrote, as in new notations."""

    sessions: Iterator[list[_Txn]]
    sizes: Mapping[str, Any]
    new: bool


def _refuse(why: str, line: int | None = None) -> HistoryError:
    return HistoryError(why, line=line, remedy=_REMEDY)


class _Bytes:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def take(self, count: int) -> bytes:
        if count > len(self.raw) - self.at:
            raise _refuse(f"byte {self.at}: the file is cut, {count:,} more bytes are missing")
        self.at += count
        return self.raw[self.at - count : self.at]

    def number(self) -> int:
        found: int = _NUMBER.unpack(self.take(8))[0]
        return found

    def flag(self) -> bool:
        found = self.take(1)[0]
        if found > 1:
            raise _refuse(f"byte {self.at - 1}: {found} is neither false nor true")
        return found == 1


def is_bincode(raw: bytes) -> bool:
    """Does it begin as a history of DBCop's? Its two last texts are times."""
    try:
        head = _Bytes(raw[: 3 * _TEXT_MAX])
        head.take(_NUMBERS)
        texts = []
        for _ in range(3):
            size = head.number()
            if size >= _TEXT_MAX:
                return False
            texts.append(head.take(size))
    except HistoryError:
        return False
    return all(_TIME.match(text) for text in texts[1:])


def _binary(raw: bytes) -> _Read:
    source = _Bytes(raw)
    _, *sizes = (source.number() for _ in range(1 + len(SIZES)))
    for _ in range(3):
        source.take(source.number())
    return _Read(_binary_sessions(source), dict(zip(SIZES, sizes, strict=True)), False)


def _binary_sessions(source: _Bytes) -> Iterator[list[_Txn]]:
    for _ in range(source.number()):
        yield _binary_session(source)
    if source.at < len(source.raw):
        raise _refuse(f"byte {source.at}: the history ends here, the file does not")


def _binary_session(source: _Bytes) -> list[_Txn]:
    txns: list[_Txn] = []
    for _ in range(source.number()):
        body = source.take(_EVENT.size * source.number())
        events: list[_Event] = []
        for write, key, value, done in _EVENT.iter_unpack(body):
            if write > 1 or done > 1:
                raise _refuse(f"byte {source.at}: an event before it is none")
            events.append((WRITE if write else READ, key, value, done == 1))
        txns.append((events, source.flag()))
    return txns


def _is(value: Any, *kinds: type) -> bool:
    return type(value) in kinds


def _old_event(event: Any) -> _Event | None:
    """One event of old JSON."""
    if not isinstance(event, dict) or event.keys() != {"write", "variable", "value", "success"}:
        return None
    write, key, value, done = (event[k] for k in ("write", "variable", "value", "success"))
    if _is(write, bool) and _is(key, int) and _is(value, int) and _is(done, bool):
        return WRITE if write else READ, key, value, done
    return None


def _new_event(event: Any) -> _Event | None:
    """One event of new JSON, in either notation."""
    named = event
    if isinstance(event, dict) and len(event) == 1:
        (name, fields), *_ = event.items()
        if isinstance(fields, dict) and fields.keys() == {"variable", "version"}:
            letter = {"Read": "r", "Write": "w"}.get(name)
            named = [letter, fields["variable"], fields["version"]]
    if isinstance(named, list) and len(named) == 3 and named[0] in ("r", "w"):
        letter, key, value = named
        absent = value is None and letter == "r"
        if _is(key, int, str) and (absent or _is(value, int)):
            return WRITE if letter == "w" else READ, key, value, True
    return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise _refuse(error.msg, error.lineno) from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _refuse(f"no JSON: {error}") from None


_ENDS: Final = {"success": _old_event, "committed": _new_event}
"""The field that tells in an old and in a new transaction of JSON whether it was committed, and
what its events are."""


def _end_of(txn: Any) -> str | None:
    """The field of a transaction of JSON that tells whether it was committed."""
    ends = txn.keys() - {"events"} if isinstance(txn, dict) else ()
    return next(iter(ends)) if len(ends) == 1 and ends <= _ENDS.keys() else None


def _json_txn(txn: Any, end: str) -> _Txn:
    """One transaction of JSON, in a file whose transactions have this field."""
    named = _end_of(txn)
    if named is None or not isinstance(txn[named], bool):
        raise _refuse(f"no transaction: {json.dumps(txn)[:60]}")
    if named != end:
        raise _refuse("old transactions (success) and new ones (committed) in one file")
    if not isinstance(txn.get("events"), list):
        raise _refuse(f"no transaction: {json.dumps(txn)[:60]}")
    events: list[_Event] = []
    for event in txn["events"]:
        one = _ENDS[end](event)
        if one is None:
            other = any(read_event(event) for read_event in _ENDS.values())
            why = f" of a transaction with {end!r}" if other else ""
            raise _refuse(f"no event{why}: {json.dumps(event)[:60]}")
        events.append(one)
    return events, txn[end]


def _of_json(raw: bytes) -> _Read:
    whole = _parsed(raw)
    data = whole.get("data") if isinstance(whole, dict) else whole
    if not isinstance(data, list) or not all(isinstance(session, list) for session in data):
        raise _refuse("`data` is no list of sessions, which are lists of transactions")
    params = whole.get("params") if isinstance(whole, dict) else None
    if not isinstance(params, dict | None):
        raise _refuse("`params` is no object")
    sizes = {name: params[name] for name in SIZES if name in params} if params else {}
    end = next((_end_of(txn) for session in data for txn in session), None) or "committed"
    sessions = ([_json_txn(txn, end) for txn in session] for session in data)
    return _Read(sessions, sizes, end == "committed")


def _marks(text: str, line: int) -> list[_Event]:
    events: list[_Event] = []
    for word in text.split():
        match = _MARK.fullmatch(word)
        if match is None or (match[2] == ":=" and match[3] == "?"):
            raise _refuse(f"no event: {word[:40]!r}", line)
        value = None if match[3] == "?" else int(match[3])
        events.append((WRITE if match[2] == ":=" else READ, match[1], value, True))
    if not events:
        raise _refuse("a transaction without events", line)
    return events


def _of_text(raw: bytes) -> Iterator[list[_Txn]]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refuse("neither bincode nor text") from None
    txns: list[_Txn] = []
    for number, row in enumerate(text.split("\n"), start=1):
        line = row.strip()
        if not line or line.startswith("//"):
            continue
        if not line.strip("-"):
            yield txns
            txns = []
            continue
        if _TXN.sub("", line).strip():
            raise _refuse(f"no transactions: {line[:60]!r}", number)
        for inner, aborted in _TXN.findall(line):
            txns.append((_marks(inner, number), not aborted))
    yield txns


def _sessions(raw: bytes) -> _Read:
    if is_bincode(raw):
        return _binary(raw)
    head = raw[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] == b"{" or re.match(rb"\[\s*(\[|\])", head):
        return _of_json(raw.removeprefix(b"\xef\xbb\xbf"))
    if head[:1] in (b"[", b"/", b"-"):
        return _Read(_of_text(raw), {}, True)
    return _binary(raw)


class _Rows:
    """Operations and transactions while they are collected."""

    def __init__(self) -> None:
        self.kind: list[int] = []
        self.key: list[Any] = []
        self.value: list[Any] = []
        self.null: list[bool] = []
        self.txn: list[int] = []
        self.session: list[int] = []
        self.outcome: list[int] = []
        self.skipped: dict[str, int] = {}

    def begin(self, session: int, outcome: int) -> None:
        self.session.append(session)
        self.outcome.append(outcome)

    def add(self, events: Iterable[_Event]) -> None:
        for kind, key, value, _ in events:
            self.kind.append(kind)
            self.key.append(key)
            self.value.append(value)
            self.null.append(value is None)
            self.txn.append(len(self.session) - 1)


def read(raw: bytes) -> tuple[Sessions, frozenset[Any]]:
    """The sessions, and the keys of a new history to which 0 is written, which do not start with
    it. Raises HistoryError for what is none."""
    rows = _Rows()
    found = _sessions(raw)
    held = Contents()
    lost: list[_Event] = []
    for number, txns in enumerate(found.sessions):
        held.add(txns)
        for events, done in txns:
            rows.begin(number if done else NO_SESSION, OK if done else FAIL)
            rows.add(event for event in events if event[3] or (not done and event[0] == WRITE))
            failed = [event for event in events if done and not event[3]]
            lost += [event for event in failed if event[0] == WRITE]
            if reads := sum(event[0] == READ for event in failed):
                rows.skipped["reads that failed"] = rows.skipped.get("reads that failed", 0) + reads
    for event in lost:
        rows.begin(NO_SESSION, FAIL)
        rows.add([event])
    held.require(found.sizes)
    if not rows.kind:
        raise _refuse("the history is empty")
    written = frozenset(
        key
        for kind, key, value, txn in zip(rows.kind, rows.key, rows.value, rows.txn, strict=True)
        if kind == WRITE and value == 0 and rows.outcome[txn] == OK
    )
    made = Sessions(
        rows.kind, rows.key, rows.value, rows.txn, rows.session, rows.outcome,
        range(len(rows.session)), null=rows.null, skipped=rows.skipped,
    )  # fmt: skip
    return made, written if found.new else frozenset()
