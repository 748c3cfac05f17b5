"""Files of Plume, AWDIT, DBCop and Cobra: read as what they say, or refused."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import session_files as made
from session_files import History, put
from session_verdicts import verdicts

from checkers._findings import Start
from checkers.txn import api
from checkers.txn.plugin import from_op_maps
from checkers.txn.sessions.builder import INITIAL_TXN
from checkers.txn.sessions.formats import load_sessions, sessions_in
from dstest.core.errors import ConfigError, HistoryError

pytestmark = pytest.mark.slow

WRITERS: dict[str, tuple[str, Callable[[History], Any]]] = {
    "plume": ("plume", made.plume),
    "awdit": ("awdit", made.awdit),
    "bincode": ("dbcop", made.bincode),
    "old json": ("dbcop", made.old_json),
    "new json": ("dbcop", made.new_json),
    "compact json": ("dbcop", lambda h: made.new_json(h, True)),
    "text": ("dbcop", made.marks),
    "cobra": ("cobra", made.cobra),
    "cobra with times": ("cobra", lambda h: made.cobra(h, True)),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.sampled(4)
def test_random_histories_are_judged_as_their_op_maps(name: str, tmp_path: Path) -> None:
    dice = random.Random(name)
    fmt, write = WRITERS[name]
    aborts = fmt not in ("awdit", "cobra")
    seen: dict[bool, int] = {True: 0, False: 0}
    for _ in range(120):
        history = made.random_history(dice, dice.randint(2, 10), aborts=aborts)
        path = put(tmp_path, write(history))
        if not made.empty(history):
            assert sessions_in(path) == fmt
        start = (Start(0, None),) if fmt == "awdit" else ()
        found = verdicts(load_sessions(path, fmt, *start))
        assert found == verdicts(from_op_maps(made.op_maps(history))), history
        for verdict in found.values():
            if verdict != "unknown":
                seen[verdict] += 1
    assert min(seen.values()) > 15, seen


def test_sessions_are_in_order_and_times_say_nothing(tmp_path: Path) -> None:
    text = "w(1,5,7,10)\nw(1,6,7,3)\nr(1,6,9,4)\nr(1,5,9,2)\n"
    path = put(tmp_path, text)
    columns = load_sessions(path, "plume")
    places = {int(n): i for i, n in enumerate(columns.op_index)}
    assert places[10] < places[3] and places[4] < places[2]
    assert len(set(columns.process.tolist())) == 2
    assert verdicts(columns)["strong-session-causal"] is False
    later = "r(1,5,9,4)\nr(1,6,9,2)\nw(1,5,7,10)\nw(1,6,7,3)\n"
    turned = load_sessions(put(tmp_path, later), "plume")
    assert verdicts(turned)["strong-session-serializable"] is True


def test_what_was_aborted_is_known_as_such(tmp_path: Path) -> None:
    path = put(tmp_path, "w(1,5,0,-1)\nr(2,9,0,-1)\nr(1,5,1,2)\n")
    columns = load_sessions(path, "plume")
    assert columns.skipped == {"reads of aborted transactions": 1}
    assert "G1a" in api.check(columns, "rw-register", ["read-committed"]).anomaly_types
    for text in ("[x:=5]!\n---\n[x==5]\n", "[x:=5]!\n[x==5]\n"):
        dirty = api.check(
            load_sessions(put(tmp_path, text), "dbcop"), "rw-register", ["serializable"]
        )
        assert "G1a" in dirty.anomaly_types


def test_events_that_failed_in_a_committed_transaction_were_not_done(tmp_path: Path) -> None:
    raw = bytearray(made.bincode([[([("w", 1, 5), ("w", 2, 6)], True)], [([("r", 1, 5)], True)]]))
    at = raw.index(struct.pack("<BQQB", 1, 1, 5, 1)) + 17
    raw[at] = 0
    columns = load_sessions(put(tmp_path, bytes(raw)), "dbcop")
    assert "G1a" in api.check(columns, "rw-register", ["serializable"]).anomaly_types


def test_an_initial_transaction_is_the_initial_state(tmp_path: Path) -> None:
    text = "w(1,0,5,9)\nw(2,0,5,9)\nw(1,7,0,1)\nr(1,0,0,2)\n"
    columns = load_sessions(put(tmp_path, text), "plume")
    assert (columns.txns, columns.skipped) == (2, {INITIAL_TXN: 1})
    assert api.check(columns, "rw-register", ["strong-session-causal"]).valid is False
    with pytest.raises(HistoryError, match="starts with it"):
        load_sessions(put(tmp_path, "w(1,0,0,1)\nr(1,0,0,2)\n"), "plume")
    told = load_sessions(put(tmp_path, "w(1,0,0,1)\nr(1,0,0,2)\n"), "plume", Start(None, None))
    assert api.check(told, "rw-register", ["serializable"]).valid is not False


def test_where_a_new_history_writes_0_it_is_a_value(tmp_path: Path) -> None:
    own = load_sessions(put(tmp_path, "[x:=0 y:=1]\n---\n[x==0 y==0]\n"), "dbcop")
    assert verdicts(own)["serializable"] is False
    same = load_sessions(put(tmp_path, "[x:=0]\n---\n[x==0 y==0]\n---\n[y==?]\n[y:=3]\n"), "dbcop")
    assert verdicts(same)["strong-session-serializable"] is True


REFUSED: list[tuple[str, Any, str]] = [
    ("plume", "", "empty"),
    ("plume", "r(1,2,3,4)\nr(1,2,3)\n", "line 2"),
    ("plume", "r(1,2,3,4)\n\nr(1,2,3,4)\n", "line 2: an empty line"),
    ("plume", "r(1,2,3,4)\nr(1,2,3,", "line 2"),
    ("plume", "r(1,2,3,4)\nw(1,,3,4)1\n", "line 2"),
    ("plume", "r(1,2,3,4)\n1w(,2,3,4)\n", "line 2"),
    ("plume", "r(1,2,3,4)\nw(-1,2,3,4)\n", "line 2"),
    ("plume", "r(1,2,3,4)\nw(1,2,3,-2)\n", "line 2: transaction -2"),
    ("plume", "r(1,2,3,4)\nx(1,2,3,4)\n", "line 2"),
    ("plume", "r(1,2,3,4)\nr(1,2,5,4)\n", "line 2: transaction 4 is in session 5"),
    ("plume", "r(1,2,3,99999999999999999999)\n", "63 bits"),
    ("awdit", "r 1 2\nw 3\n", "line 2"),
    ("awdit", "r 1 2\nw 3 4 5\n", "line 2"),
    ("awdit", "r 1 2\nw 3 -4\n", "line 2"),
    ("awdit", "---\n===\n", "empty"),
    ("dbcop", "[x:=1] y\n", "line 1"),
    ("dbcop", "[x:=1]\n[x:=?]\n", "line 2"),
    ("dbcop", "[x:=1]\n[]\n", "line 2"),
    ("dbcop", '{"params": {}, "data": [[{"events": [1], "committed": true}]]}', "no event"),
    ("dbcop", '{"data": [[{"events": [["w", 1, null]], "committed": true}]]}', "no event"),
    ("dbcop", '{"data": [[{"events": [["r", 1, 1.5]], "committed": true}]]}', "no event"),
    ("dbcop", '{"data": [[{"events": [["r", 1, 1]]}]]}', "no transaction"),
    ("dbcop", '{"data": [[{"events": [["r", 1, 1]], "success": 1}]]}', "no transaction"),
    ("dbcop", '{"data": [[', "line 1"),
    ("dbcop", '{"data": 3, "data": []}', "twice"),
    ("dbcop", "{}", "list of sessions"),
    ("dbcop", b"\x00\x01\x02", "cut"),
    ("cobra", {"a.log": b""}, "empty"),
    ("cobra", {"a.log": b"S\0\0\0"}, "middle of a record"),
    ("cobra", {"a.log": b"A" + bytes(8)}, "aborted"),
    ("cobra", {"a.log": b"C" + bytes(8)}, "outside"),
    ("cobra", {"a.log": b"S" + bytes(8)}, "ends inside"),
    ("cobra", {}, "no .*log"),
]


@pytest.mark.parametrize(("fmt", "content", "said"), REFUSED)
def test_what_is_none_is_refused(fmt: str, content: Any, said: str, tmp_path: Path) -> None:
    path = put(tmp_path, content)
    path.mkdir(exist_ok=True) if isinstance(content, dict) else None
    with pytest.raises(HistoryError, match=said) as caught:
        load_sessions(path, fmt)
    assert caught.value.remedy


def test_reads_that_contradict_the_logs_are_refused(tmp_path: Path) -> None:
    history: History = [[([("w", 1, 5)], True)], [([("r", 1, 5)], True)]]
    logs = made.cobra(history)
    swapped = logs["T1.log"].replace(struct.pack(">2q", 101, 5), struct.pack(">2q", 102, 5))
    with pytest.raises(HistoryError, match="but 101 did"):
        load_sessions(put(tmp_path, {**logs, "T1.log": swapped}), "cobra")
    half = logs["T1.log"].replace(struct.pack(">2q", 101, 5), struct.pack(">2q", 101, made.START))
    with pytest.raises(HistoryError, match="one of which is none"):
        load_sessions(put(tmp_path, {**logs, "T1.log": half}), "cobra")
    with pytest.raises(HistoryError, match="stands twice"):
        load_sessions(put(tmp_path, {**logs, "T2.log": logs["T0.log"]}), "cobra")


@pytest.mark.parametrize("name", WRITERS)
def test_every_cut_is_noticed_or_is_a_whole_history(name: str, tmp_path: Path) -> None:
    """In binary files, JSON and Plume's lines every cut shows; text ends where a line does."""
    fmt, write = WRITERS[name]
    history = made.random_history(random.Random(3), 6, aborts=False)
    content = write(history)
    whole = content["T0.log"] if isinstance(content, dict) else content
    for end in range(len(whole)):
        cut = whole[:end]
        path = put(tmp_path, {"T0.log": cut} if isinstance(content, dict) else cut)
        try:
            load_sessions(path, fmt)
        except HistoryError:
            continue
        left = whole[end : end + 1]
        if fmt == "plume":
            assert cut.endswith((")", "\n")), cut[-20:]
        elif fmt == "cobra":
            assert left in (b"S", b""), cut[-20:]
        elif fmt == "awdit":
            assert cut.endswith("\n") or cut.rsplit("\n", 1)[-1][:1] in ("r", "w"), cut[-20:]
        else:
            assert name == "text", (name, end)


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_bytes_are_read_or_refused(name: str, tmp_path: Path) -> None:
    dice = random.Random(name)
    fmt, write = WRITERS[name]
    content = write(made.random_history(dice, 8, aborts=fmt not in ("awdit", "cobra")))
    whole = content["T0.log"] if isinstance(content, dict) else content
    raw = whole if isinstance(whole, bytes) else whole.encode()
    refused = 0
    for _ in range(300):
        bad = bytearray(raw)
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(bad))
            way = dice.randrange(4)
            if way == 0:
                bad[at] = dice.randrange(256)
            elif way == 1:
                del bad[at : at + dice.randint(1, 9)]
            elif way == 2:
                bad[at:at] = bytes(dice.randrange(256) for _ in range(dice.randint(1, 9)))
            else:
                bad[at:at] = bad[at : at + dice.randint(1, 40)]
            if not bad:
                break
        path = put(tmp_path, {"T0.log": bytes(bad)} if isinstance(content, dict) else bytes(bad))
        sessions_in(path)
        try:
            columns = load_sessions(path, fmt, memory_mb=64)
            api.check(columns, "rw-register", ["strong-session-serializable"])
        except (HistoryError, ConfigError, ValueError) as error:
            assert not isinstance(error, ValueError) or "written" in str(error), error
            refused += 1
    assert refused > 100


def test_packed_files_and_large_numbers(tmp_path: Path) -> None:
    big = 2**64 - 1
    path = tmp_path / "h.gz"
    path.write_bytes(gzip.compress(f"w({big},{big - 1},0,1)\nr({big},{big - 1},1,2)\n".encode()))
    assert sessions_in(path) == "plume"
    columns = load_sessions(path, "plume")
    assert columns.key_names == [big]
    assert api.check(columns, "rw-register", ["serializable"]).valid is True


def test_other_files_are_none_of_these(tmp_path: Path) -> None:
    for text in ("{:process 0}", '{"process": 0}', "[]", "[[:r 1 2]]", "", "r 1", "INFO w(1"):
        assert sessions_in(put(tmp_path, text)) is None
    assert sessions_in(tmp_path) is None
    assert sessions_in(tmp_path / "absent") is None
