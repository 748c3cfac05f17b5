"""Text of Plume and AWDIT as the C core reads and places it, against a slow reader."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
import session_files as made
import slow_sessions

from checkers._findings import Start
from checkers.txn.columns import TxnColumns
from checkers.txn.sessions import awdit, plume
from checkers.txn.sessions.builder import Sessions
from dstest.core.errors import ConfigError, HistoryError

pytestmark = pytest.mark.slow

ROUNDS = 1500
ROOM = 1 << 26
ARRAYS = (
    *("outcome", "process", "invoke_pos", "complete_pos", "op_index", "mop_start", "mop_kind"),
    *("mop_known", "elem_start", "elem"),
)
IDS = {"mop_key": "key_names", "mop_value": "value_names"}
STARTS = [
    *(None, Start(0, None), Start(3, None), Start(None, None), Start(True, None), Start(0.0, None)),
    *(Start(2**70, None), Start(None, {"0": 1, "1": 2, "2": 3}), Start("a", None)),
]
LARGE = [2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 10**18, 10**19, 10**30]


def renumbered(text: str, dice: random.Random) -> str:
    """The text with other numbers, now and then large ones or with zeros before them."""
    names: dict[str, str] = {}

    def name(number: str) -> str:
        if number not in names:
            new = dice.choice([int(number), dice.randrange(5), dice.randrange(10**6), *LARGE])
            names[number] = "0" * dice.choice([0, 0, 3, 30]) + str(new)
        return names[number]

    lines = []
    for line in text.splitlines():
        kind, numbers = line[:2], line[2:-1].split(",")
        at = dice.randrange(4)
        numbers[at] = numbers[at] if numbers[at].startswith("-") else name(numbers[at])
        lines.append(f"{kind}{','.join(numbers)})\n")
    return "".join(lines)


def damaged(raw: bytes, dice: random.Random) -> bytes:
    """The bytes with a few of them changed, cut out, doubled or put in."""
    bad = bytearray(raw)
    for _ in range(dice.choice([0, 0, 1, 1, 2])):
        at = dice.randrange(len(bad) + 1)
        way = dice.randrange(5)
        if way == 0 and at < len(bad):
            bad[at] = dice.choice(b"0123456789rw(),-\n\r \xff")
        elif way == 1:
            del bad[at : at + dice.randint(1, 30)]
        elif way == 2:
            bad[at:at] = dice.choice([b"\r\n", b"\n", b"-", b"0", b"\r", b"r(1,2,3,4)", b","])
        elif way == 3:
            bad[at:at] = bad[at : at + dice.randint(1, 60)]
        else:
            bad += dice.choice([b"\n\n", b"\r\n", b"\r\r\n", b"\r", b"\n\r\n", b" "])
    return bytes(bad)


def text_of(seed: int) -> bytes:
    """A history as a text, which may be none."""
    dice = random.Random(seed)
    text = made.plume(made.random_history(dice, dice.randint(0, 9)))
    lines = text.splitlines(keepends=True)
    if dice.random() < 0.3:
        dice.shuffle(lines)
    if dice.random() < 0.3:
        lines.insert(0, f"w({dice.randrange(3)},0,9,999)\n" * dice.choice([1, 2]))
    text = "".join(lines)
    if dice.random() < 0.3:
        text = renumbered(text, dice)
    raw = text.encode()
    raw = raw.replace(b"\n", b"\r\n") if dice.random() < 0.2 else raw
    raw = b"\xef\xbb\xbf" + raw if dice.random() < 0.1 else raw
    return damaged(raw, dice) if dice.random() < 0.5 else raw


def columns_of(reader: Any, start: Start | None, initial: bool) -> TxnColumns | tuple[Any, ...]:
    """The columns, or what was said instead."""
    try:
        sessions = reader()
        if initial:
            sessions.without_initial(0)
        made_: TxnColumns = sessions.columns(start)
    except (HistoryError, ConfigError) as error:
        return type(error), error.message, getattr(error, "line", None), error.remedy
    return made_


def difference(one: Any, other: Any, *, same_ids: bool = True) -> str | None:
    """What differs, or None."""
    if not isinstance(one, TxnColumns) or not isinstance(other, TxnColumns):
        return None if one == other else f"{one} instead of {other}"
    for name in ARRAYS:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine.dtype != theirs.dtype or not np.array_equal(mine, theirs):
            return f"{name}: {mine} instead of {theirs}"
    for ids, names in IDS.items():
        (mine, called), (theirs, meant) = (
            (getattr(c, ids), [*map(repr, getattr(c, names)), "nil"]) for c in (one, other)
        )
        if mine.dtype != theirs.dtype or [called[i] for i in mine] != [meant[i] for i in theirs]:
            return f"{ids}: {mine} of {called} instead of {theirs} of {meant}"
        if sorted(called) != sorted(meant) or (same_ids and called != meant):
            return f"{names}: {called} instead of {meant}"
    same = (one.skipped, one.weak) == (other.skipped, other.weak)
    return None if same else f"{one.skipped} instead of {other.skipped}"


def test_plume_is_read_as_by_the_slow_reader() -> None:
    seen: Counter[str] = Counter()
    for seed in range(ROUNDS):
        dice = random.Random(-seed)
        raw, start, initial = text_of(seed), dice.choice(STARTS), dice.random() < 0.5
        fast = columns_of(lambda: plume.read(raw, ROOM), start, initial)  # noqa: B023
        slow = columns_of(lambda: slow_sessions.read(raw), start, initial)  # noqa: B023
        # The slow one gives ids as they come where a number is that long, else in their order.
        short = re.search(rb"\d{19}", raw) is None
        wrong = difference(fast, slow, same_ids=short)
        assert wrong is None, (seed, raw, start, wrong)
        seen["read" if isinstance(fast, TxnColumns) else kind_of(fast[1])] += 1
    assert seen["read"] > ROUNDS // 4, seen
    for said in ("an empty line", "no operation", "the history is empty"):
        assert seen[said] > 3, seen
    for said in (
        "a session or transaction of more than # bits",
        "transaction # is in session # and",
    ):
        assert sum(n for what, n in seen.items() if what.startswith(said)) > 3, seen


ODD = [
    *(
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"\t",
        b"\x0b",
        b"-",
        b"=",
        b"---\n",
        b"====\n",
        b"r 1 2\n",
        b"\xff",
    ),
    *(b"w  3\t004", b"w 1 9223372036854775808\n", b"r 1 99999999999999999999\n", b"0" * 21, b"-="),
]


def awdit_text(seed: int) -> bytes:
    """A history as AWDIT writes it, which may be none."""
    dice = random.Random(seed)
    raw = made.awdit(made.random_history(dice, dice.randint(0, 7), aborts=False)).encode()
    raw = raw.rstrip(b"\n") if dice.random() < 0.3 else raw
    raw = raw.replace(b"\n", b"\r\n") if dice.random() < 0.2 else raw
    for _ in range(dice.choice([0, 0, 1, 2])):
        at = dice.randrange(len(raw) + 1)
        raw = raw[:at] + dice.choice(ODD) + raw[at + dice.choice([0, 0, 1, 4]) :]
    return b"\xef\xbb\xbf" + raw if dice.random() < 0.1 else raw


def test_awdit_is_read_as_by_the_slow_reader() -> None:
    seen: Counter[str] = Counter()
    for seed in range(ROUNDS):
        dice = random.Random(-seed)
        raw, start, initial = awdit_text(seed), dice.choice(STARTS), dice.random() < 0.5
        fast = columns_of(lambda: awdit.read(raw, ROOM), start, initial)  # noqa: B023
        slow = columns_of(lambda: slow_sessions.read_awdit(raw), start, initial)  # noqa: B023
        wrong = difference(fast, slow, same_ids=False)
        assert wrong is None, (seed, raw, start, wrong)
        seen["read" if isinstance(fast, TxnColumns) else kind_of(fast[1])] += 1
    assert seen["read"] > ROUNDS // 4, seen
    for said in ("no operation", "the file is cut", "the history is empty"):
        assert seen[said] > 3, seen


def kind_of(message: str) -> str:
    """A refusal without its line, its numbers and what it quotes."""
    return re.sub(r"\d+", "#", re.sub(r"^line \d+: ", "", message)).split(": ")[0]


def rows_of(seed: int) -> dict[str, Any]:
    """Rows as a reader makes them of any format: outcomes, sessions without a place, nulls."""
    dice = random.Random(seed)
    n, m = dice.randint(0, 12), dice.randint(0, 40)
    m = m if n else 0
    outcome = [dice.choice([0, 0, 0, 1, 2]) for _ in range(n)]
    kind = [dice.randrange(2) for _ in range(m)]
    wide = dice.random() < 0.3
    keys: list[Any] = ["a", 1, 2**70, True] if wide else [0, 5, dice.choice([-3, 7, 2**62])]
    return {
        "kind": kind,
        "key": [dice.choice(keys) for _ in range(m)],
        "value": [dice.choice([0, 1, 2, 3, dice.choice(LARGE[:3])]) for _ in range(m)],
        "txn": [dice.randrange(n) for _ in range(m)],
        "session": [dice.choice([-1, 0, 1, 2, 30]) for _ in range(n)],
        "outcome": outcome,
        "name": dice.sample(range(100), n),
        "null": [k == 0 and dice.random() < 0.3 for k in kind] if dice.random() < 0.5 else None,
    }


@pytest.mark.parametrize("lists", [True, False])
def test_rows_are_placed_as_by_the_slow_builder(lists: bool) -> None:
    for seed in range(ROUNDS // 2):
        start = random.Random(seed).choice(STARTS)
        rows = rows_of(seed)
        if not lists:
            for name in ("key", "value"):
                if any(type(v) is not int or v >= 2**63 for v in rows[name]):
                    rows[name] = [0] * len(rows[name])
                rows[name] = np.array(rows[name], np.int64)
        fast = columns_of(lambda: Sessions(**rows), start, True)  # noqa: B023
        slow = columns_of(lambda: slow_sessions.Sessions(**rows), start, True)  # noqa: B023
        if lists and isinstance(slow, TxnColumns) and slow.skipped:
            continue  # ids are made before the initial transaction is left out
        assert difference(fast, slow) is None, (seed, rows, start, difference(fast, slow))
