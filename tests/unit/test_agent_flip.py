"""Bytes of an etcd member's files: chosen inside an entry, flipped, shown, put back."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from clusters.systems.etcd.agents.flip_bytes import entries, main


def frame(record: bytes) -> bytes:
    padding = -len(record) % 8
    size = len(record) | ((0x80 | padding) << 56) if padding else len(record)
    return struct.pack("<Q", size) + record + bytes(padding)


def record(kind: int, data: bytes) -> bytes:
    return bytes([0x08, kind, 0x10, 1, 0x1A, len(data)]) + data


WAL = b"".join(
    [
        frame(record(4, bytes(40))),
        *(frame(record(2, b"entry %d " % i + b"x" * 40)) for i in range(5)),
        frame(record(3, bytes(40))),
        bytes(64),
    ]
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "member" / "wal").mkdir(parents=True)
    (folder / "member" / "snap").mkdir()
    (folder / "member" / "wal" / "0000000000000000-0000000000000000.wal").write_bytes(WAL)
    (folder / "member" / "snap" / "db").write_bytes(b"page--right--page--right--tail")
    return folder


def test_only_entries_are_chosen_and_only_their_data() -> None:
    assert len(entries(WAL)) == 5
    assert all(WAL[at : at + 1] == b"x" for at in entries(WAL))
    assert entries(WAL[: len(WAL) // 2]) == entries(WAL)[: len(entries(WAL[: len(WAL) // 2]))]
    assert entries(b"") == []


@pytest.mark.parametrize(
    "words", [("log", "0.5"), ("store", "right", "sight")], ids=["log", "store"]
)
def test_flip_show_heal(
    data: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    state = data.parent / "flipped"
    before = {p: p.read_bytes() for p in data.rglob("*") if p.is_file()}
    main([str(state), "flip", words[0], str(data), *words[1:]])
    (changed,) = [p for p, was in before.items() if p.read_bytes() != was]
    main([str(state), "show"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["path"] == str(changed)
    assert len(shown["bytes"]) == (1 if words[0] == "log" else 2)
    assert all(row["now"] == row["new"] != row["old"] for row in shown["bytes"])
    main([str(state), "heal"])
    healed = json.loads(capsys.readouterr().out)
    assert healed["sha256_now"] == healed["sha256"]
    assert {p: p.read_bytes() for p in before} == before
    assert not state.exists()
    main([str(state), "heal"])
    assert json.loads(capsys.readouterr().out) == {}


def test_a_moved_value_is_found_again(data: Path) -> None:
    state, db = data.parent / "flipped", data / "member" / "snap" / "db"
    main([str(state), "flip", "store", str(data), "right", "sight"])
    db.write_bytes(b"other-page--sight")
    main([str(state), "heal"])
    assert db.read_bytes() == b"other-page--right"


def test_nothing_to_flip(data: Path) -> None:
    state = data.parent / "flipped"
    with pytest.raises(SystemExit, match="does not hold"):
        main([str(state), "flip", "store", str(data), "absent", "absenT"])
    with pytest.raises(SystemExit, match="length"):
        main([str(state), "flip", "store", str(data), "right", "wrong one"])
    (next((data / "member" / "wal").iterdir())).write_bytes(bytes(64))
    with pytest.raises(SystemExit, match="no entry"):
        main([str(state), "flip", "log", str(data), "0.5"])
    assert not state.exists()
