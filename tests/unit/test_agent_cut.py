"""The end of an etcd member's log: cut off where it holds something, put back where it may be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_agent_flip import frame, record

from clusters.systems.etcd import on_node
from clusters.systems.etcd.agents.flip_bytes import main
from clusters.systems.etcd.agents.wal import entry_index, records

PREALLOCATED = 20_000


def varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


def entry(index: int) -> bytes:
    fields = b"\x08\x00\x10\x02\x18" + varint(index)
    return frame(record(2, fields + b"\x22\x28" + b"x" * 40))


HEAD = frame(record(4, bytes(40))) + frame(record(1, b"metadata"))
LOG = HEAD + b"".join(entry(i) + frame(record(3, bytes(6))) for i in range(126, 136))
WAL = LOG.ljust(PREALLOCATED, b"\0")


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "member" / "wal"
    folder.mkdir(parents=True)
    (folder / "0.tmp").write_bytes(bytes(64))
    path = folder / "0000000000000000-0000000000000000.wal"
    path.write_bytes(WAL)
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "flipped"


def cut(state: Path, share: str = "0.4", member: str = "7") -> None:
    folder = state.parent
    main([str(state), "flip", "tail", str(folder / "data"), share, str(folder / "doomed"), member])


def told(capsys: pytest.CaptureFixture[str], state: Path, verb: str) -> Any:
    main([str(state), verb])
    return json.loads(capsys.readouterr().out)


def left_by(state: Path) -> list[str]:
    return sorted(p.name for p in state.parent.iterdir())


def test_entries_have_an_index() -> None:
    found = [entry_index(WAL, row) for row in records(WAL)]
    assert [i for i in found if i is not None] == list(range(126, 136))
    assert list(records(WAL)) == list(records(LOG))
    torn = LOG[:-3]
    assert list(records(torn)) == list(records(LOG))[:-1]


@pytest.mark.parametrize("data", [b"", b"\xff" * 100, frame(record(2, b"\xff" * 40)), bytes(64)])
def test_what_is_no_log_has_no_entries(data: bytes) -> None:
    assert [i for row in records(data) if (i := entry_index(data, row)) is not None] == []


def test_cut_show_heal(wal: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut(state)
    left = wal.read_bytes()
    assert WAL.startswith(left)
    assert len(left) == int(len(LOG) * 0.6)
    shown = told(capsys, state, "show")
    assert (shown["end"], shown["at"], shown["size"]) == (len(LOG), len(left), PREALLOCATED)
    assert shown["end_now"] <= shown["size_now"] == len(left)
    assert shown["last"] == 135 > shown["kept"] == shown["last_now"]
    assert shown["sha256"] != shown["sha256_now"]
    assert (state.parent / "doomed").read_text() == "7"
    healed = told(capsys, state, "heal")
    assert healed["put_back"]
    assert healed["sha256_now"] == healed["sha256"]
    assert wal.read_bytes() == WAL
    assert left_by(state) == ["data"]
    assert told(capsys, state, "heal") == {} == told(capsys, state, "show")


def test_a_record_that_the_server_dropped_comes_back(
    wal: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repaired log: cut further down to whole records, the torn one kept beside."""
    cut(state)
    broken = wal.with_name(f"{wal.name}.broken")
    broken.write_bytes(wal.read_bytes())
    whole = list(records(wal.read_bytes()))[-1].end
    assert whole < wal.stat().st_size
    wal.write_bytes(WAL[:whole])
    assert told(capsys, state, "heal")["put_back"]
    assert wal.read_bytes() == WAL
    assert not broken.exists()


@pytest.mark.parametrize("change", ["grown", "other", "segment", "gone", "no copy"])
def test_what_was_written_since_is_not_taken_away(
    wal: Path, state: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    cut(state)
    left = wal.read_bytes()
    if change == "grown":
        wal.write_bytes(left + entry(132))
    elif change == "other":
        wal.write_bytes(left[: len(left) // 2] + entry(131))
    elif change == "segment":
        wal.with_name("0000000000000001-0000000000000083.wal").write_bytes(HEAD)
    elif change == "gone":
        wal.unlink()
    else:
        (state.parent / "flipped.wal").unlink()
    before = wal.read_bytes() if wal.exists() else None
    assert not told(capsys, state, "heal")["put_back"]
    assert (wal.read_bytes() if wal.exists() else None) == before
    assert left_by(state) == ["data", "doomed"], "whoever comes next replaces the member"


def test_a_heal_that_was_cut_short_replaces_the_member(
    wal: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(state)
    wal.write_bytes(WAL)
    assert not told(capsys, state, "heal")["put_back"]
    assert left_by(state) == ["data", "doomed"]


def test_a_share_of_nothing_takes_what_holds_nothing(
    wal: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(state, "0")
    shown = told(capsys, state, "show")
    assert wal.read_bytes() == LOG
    assert shown["at"] == shown["end"] == len(LOG)
    assert shown["kept"] == shown["last"] == 135
    assert shown["sha256"] != shown["sha256_now"]


def test_of_all_one_entry_stays(wal: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut(state, "1")
    assert told(capsys, state, "show")["last_now"] == 126


@pytest.mark.parametrize(
    ("share", "why"),
    [
        ("x", "no number"),
        ("nan", "cannot"),
        ("1.1", "cannot"),
        ("-0.1", "cannot"),
        ("1e-6", "near"),
    ],
)
def test_a_share_that_cannot_be(wal: Path, state: Path, share: str, why: str) -> None:
    with pytest.raises(SystemExit, match=why):
        cut(state, share)
    assert wal.read_bytes() == WAL
    assert left_by(state) == ["data"]


@pytest.mark.parametrize("data", [b"", bytes(64), HEAD, HEAD + entry(1)])
def test_a_log_that_holds_too_little(wal: Path, state: Path, data: bytes) -> None:
    wal.write_bytes(data)
    with pytest.raises(SystemExit, match="not two entries"):
        cut(state)
    assert left_by(state) == ["data"]


def test_a_second_cut_waits_for_the_first(wal: Path, state: Path) -> None:
    cut(state)
    left = wal.read_bytes()
    with pytest.raises(SystemExit, match="not healed"):
        cut(state, "0.9", "8")
    assert wal.read_bytes() == left
    assert (state.parent / "doomed").read_text() == "7"


def test_a_copy_that_was_left_is_told(
    wal: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(state)
    state.unlink()
    assert "left" in told(capsys, state, "show")


def test_the_program_as_it_lies_on_a_node(wal: Path, state: Path, tmp_path: Path) -> None:
    program = tmp_path / "flip.pyz"
    program.write_bytes(on_node.programs()[on_node.FLIP])

    def run(*words: str) -> str:
        argv = [sys.executable, "-I", "-S", str(program), str(state), *words]
        return subprocess.run(
            argv, capture_output=True, text=True, check=True, timeout=30, cwd=tmp_path
        ).stdout

    run("flip", "tail", str(tmp_path / "data"), "0.5", str(tmp_path / "doomed"), "7")
    assert json.loads(run("show"))["size_now"] < len(LOG)
    assert json.loads(run("heal"))["put_back"]
    assert wal.read_bytes() == WAL
