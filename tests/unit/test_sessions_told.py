"""What files of Cobra, AWDIT and DBCop tell beside their operations is held to them."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
import session_files as made
from session_files import History, put
from session_verdicts import verdicts

from checkers.txn import api
from checkers.txn.sessions.formats import load_sessions, sessions_in
from dstest.core.errors import HistoryError


def test_a_cobra_read_of_another_value_than_its_write_saw_what_nobody_wrote(tmp_path: Path) -> None:
    history: History = [[([("w", 1, 5)], True)], [([("r", 1, 5)], True)]]
    logs = made.cobra(history)
    assert verdicts(load_sessions(put(tmp_path, logs), "cobra"))["serializable"] is True
    other = logs["T1.log"].replace(struct.pack(">2q", 1, 77), struct.pack(">2q", 1, 78))
    assert other != logs["T1.log"]
    found = api.check(
        load_sessions(put(tmp_path, {**logs, "T1.log": other}), "cobra"),
        "rw-register",
        ["read-committed"],
    )
    assert found.valid is False and "garbage-read" in found.anomaly_types
    assert "5 (value 78)" in found.anomalies["garbage-read"][0].explanation
    start = made.cobra([[([("r", 1, None), ("r", 1, None)], True)]])["T0.log"]
    first = start.replace(struct.pack(">2q", 1, 77), struct.pack(">2q", 1, 78), 1)
    alone = made.put_logs(tmp_path / "alone", {"T0.log": first})
    assert verdicts(load_sessions(alone, "cobra"))["serializable"] is not False


def test_cobra_numbers_stand_for_one_write(tmp_path: Path) -> None:
    twice = made.cobra([[([("w", 1, 5), ("w", 2, 5)], True)]])
    with pytest.raises(HistoryError, match="two writes of number 5"):
        load_sessions(put(tmp_path, twice), "cobra")
    gone = made.cobra([[([("w", 1, 0xABCDEFAB)], True)]])
    with pytest.raises(HistoryError, match="deletes a key"):
        load_sessions(put(tmp_path, gone), "cobra")


def test_one_cobra_log_alone_may_read_its_own_writes_and_the_start(tmp_path: Path) -> None:
    alone: History = [[([("r", 1, None), ("w", 1, 5)], True), ([("r", 1, 5)], True)]]
    path = put(tmp_path, made.cobra(alone)) / "T0.log"
    assert sessions_in(path) == "cobra"
    assert verdicts(load_sessions(path, "cobra"))["strong-session-serializable"] is True
    of_others = made.cobra([[([("r", 1, 5)], True)], [([("w", 1, 5)], True)]])
    path = put(tmp_path, of_others) / "T0.log"
    with pytest.raises(HistoryError, match="which this log does not hold"):
        load_sessions(path, "cobra")
    assert verdicts(load_sessions(path.parent, "cobra"))["serializable"] is True


@pytest.mark.parametrize(
    "cut", ["-", "--", "---", "=", "===", "w", "r 1", "w 1 ", "w 1 1\n---\n---"]
)
def test_a_text_of_awdit_that_ends_within_a_line_is_cut(tmp_path: Path, cut: str) -> None:
    with pytest.raises(HistoryError, match="the file is cut: its last line") as caught:
        load_sessions(put(tmp_path, f"w 1 5\n---\nr 1 5\n{cut}"), "awdit")
    assert "newline" in (caught.value.remedy or "")
    if not cut.endswith(" "):
        with pytest.raises(HistoryError, match="the file is cut"):
            load_sessions(put(tmp_path, f"w 1 5\n---\nr 1 5\n{cut} "), "awdit")


def test_awdit_s_own_texts_end_with_an_operation_or_a_newline(tmp_path: Path) -> None:
    whole = load_sessions(put(tmp_path, "w 1 5\n---\nr 1 5\n"), "awdit")
    same = load_sessions(put(tmp_path, "w 1 5\n---\nr 1 5"), "awdit")
    assert (whole.skipped, list(same.skipped.values())) == ({}, [1])
    assert verdicts(whole) == verdicts(same)
    for text in ("w 1 5\n---\n", "w 1 5\n===\n", "w 1 5\r\n---\r\nr 1 5\r\n", "w 1 5\n\n"):
        assert load_sessions(put(tmp_path, text), "awdit").skipped == {}


def test_a_binary_history_of_dbcop_holds_what_its_header_promises(tmp_path: Path) -> None:
    dice = random.Random(1)
    history: History = [
        [([("w", 3 * s + t, 5), ("r", dice.randrange(4), None)], True) for t in range(3)]
        for s in range(2)
    ]
    first: History = [[([("w", key, 1) for key in range(6)], True), *history[0]], history[1]]
    lost: History = [*history, [([("w", 1, 9)], False)]]
    raw, whole = made.bincode(history), struct.Struct("<4Q")

    def held(what: History, *sizes: int) -> bool:
        changed = bytearray(made.bincode(what))
        whole.pack_into(changed, 8, *sizes)
        try:
            load_sessions(put(tmp_path, bytes(changed)), "dbcop")
        except HistoryError as error:
            assert "the header promises" in error.message and error.remedy
            return False
        return True

    assert whole.unpack_from(raw, 8) == (2, 6, 6, 12)
    for what, sizes in [
        (history, (2, 6, 6, 12)),  # PolySI: in all
        (history, (1, 6, 6, 12)),  # AWDIT: always one node
        (lost, (1, 6, 6, 12)),  # and what was aborted is not counted
        (history, (2, 6, 3, 2)),  # DBCop: of each
        (history, (2, 99, 3, 2)),  # some variables were never drawn
        (first, (2, 6, 3, 2)),  # new DBCop: a first transaction writes all
        (history, (0, 0, 0, 0)),  # nothing is promised
    ]:
        assert held(what, *sizes), sizes
        for at in range(4):
            for change in (-1, 1):
                other = [n + change * (i == at) for i, n in enumerate(sizes)]
                if min(other) < 0 or (other[1] > 6 and other[2] == 3 and what is history):
                    continue
                if what is history and other[1:] == [6, 6, 12] and other[0] in (1, 2):
                    continue  # which another writer means
                assert not held(what, *other), (sizes, other)


def test_json_of_dbcop_holds_what_its_params_promise(tmp_path: Path) -> None:
    history: History = [[([("w", 1, 5)], True)], [([("r", 1, 5)], True)]]
    for write in (made.old_json, made.new_json):
        text = write(history)
        assert '"n_event": 2' in text
        assert load_sessions(put(tmp_path, text), "dbcop").txns == 2
        for change in ('"n_event": 3', '"n_event": "2"', '"n_event": -2'):
            with pytest.raises(HistoryError, match=r"promises|no sizes"):
                load_sessions(put(tmp_path, text.replace('"n_event": 2', change)), "dbcop")
        with pytest.raises(HistoryError, match="no object"):
            changed = '{"params": 3, ' + text[text.index('"data"') :]
            load_sessions(put(tmp_path, changed), "dbcop")


def test_old_and_new_json_of_dbcop_are_told_by_their_transactions(tmp_path: Path) -> None:
    """In new ones 0 may be written, in old ones it is what every key starts with."""
    new = '{"info": "%s", "data": [[{"events": [["w", "%s", 0]], "committed": true}]]}'
    for info, name in (("", "x"), ('\\"success\\": ', "success"), ("x" * 5000, "success")):
        columns = load_sessions(put(tmp_path, new % (info, name)), "dbcop")
        assert (columns.txns, columns.key_names) == (1, [name])
    old = '{"info": "%s", "data": [[{"events": [%s], "success": true}]]}'
    event = '{"write": true, "variable": 1, "value": 0, "success": true}'
    event += ", " + event.replace("0", "3")
    for info in ("", "committed", "x" * 5000):
        with pytest.raises(HistoryError, match="starts with it"):
            load_sessions(put(tmp_path, old % (info, event)), "dbcop")
    for text, said in [
        (old % ("", '["w", 1, 1]'), "no event of a transaction with 'success'"),
        (f'[[{{"events": [{event}], "committed": true}}]]', "of a transaction with 'committed'"),
        ('[[{"events": [], "committed": true}, {"events": [], "success": true}]]', "in one file"),
    ]:
        with pytest.raises(HistoryError, match=said):
            load_sessions(put(tmp_path, text), "dbcop")


DBCOP_JSON = [
    '[[{"events": []',
    '[ [], [] , [{"committed": true',
    '{"data": [[{"success": true',
    '{"info": "", "start": "2026", "data": [[], [{"events": [',
    '{"params": {"id": 0}, "info": "a", "data": [[{"events": [',
]


@pytest.mark.parametrize("text", DBCOP_JSON)
def test_json_of_dbcop_is_told_without_its_sizes(tmp_path: Path, text: str) -> None:
    assert sessions_in(put(tmp_path, text)) == "dbcop"
    assert sessions_in(put(tmp_path, text.replace("[[{", "[{").replace("[{", "[3"))) is None


def test_a_log_of_cobra_is_told_by_its_first_transaction(tmp_path: Path) -> None:
    for stamp in (False, True):
        log = made.cobra([[([("w", 1, 5), ("r", 1, 5)], True)] * 2], stamp)["T0.log"]
        path = tmp_path / "log"
        for end in range(len(log)):
            path.write_bytes(log[:end])
            first = len(log) // 2
            assert sessions_in(path) == ("cobra" if end >= first else None), end
        path.write_bytes(b"S" + log[:9] + log[9:])
        assert sessions_in(path) is None
