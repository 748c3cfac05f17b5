"""Files of logs that are of no run: all are read, or it is said which are not."""

from __future__ import annotations

import bz2
import gzip
import random
from pathlib import Path

import pytest
from log_files import at

from dstest.core.errors import ConfigError, Exit
from dstest.debug.logs.analysis import LogAnalysis, Options, analyse, as_text, code_of
from dstest.debug.logs.lines import sources_of
from dstest.debug.logs.loose import loose_logs
from dstest.debug.patterns.analysis import OF_FILES
from dstest.debug.patterns.diagnosis import as_brief, diagnosis_of, last_line
from dstest.debug.patterns.files import FilesScene

FINE = [f"{at(n)} [INFO]: served request {n}" for n in range(50)]
BAD = f"{at(60)} [ERROR]: network partition detected between n1 and n2"


def text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in (*FINE, *lines)).encode()


def read(path: Path) -> LogAnalysis:
    of = loose_logs([path], "", "", "")
    return analyse(
        of.sources, of.scene, of.clocks, of.reader, Options(), of.extra, unread=of.unread
    )


def said(path: Path) -> tuple[Exit, str]:
    """By `logs`, and the same by `explain`."""
    of = loose_logs([path], "", "", "")
    look = read(path)
    found = diagnosis_of(FilesScene(path), OF_FILES)
    assert found.code is code_of(look)
    told = "\n".join([*as_text("x", look, of.scene, of.clocks, ""), *as_brief(found)])
    assert ("much was not" in last_line(found)) == (found.code is Exit.NOT_PROVEN)
    return found.code, told


@pytest.mark.parametrize(
    "place", ["NS/web/0.log", "a/b/c/d/e/f/n1.log", "n1/server.log", "n1.log", "n1.txt"]
)
def test_logs_are_found_in_folders_of_folders(place: str, tmp_path: Path) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text(BAD))
    assert said(tmp_path)[0] is Exit.FAIL


def test_what_lies_too_deep_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a/b/c/d/e/f/g/n1.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(text(BAD))
    (tmp_path / "n1.log").write_bytes(text())
    code, told = said(tmp_path)
    assert code is Exit.NOT_PROVEN and "deeper than 6 folders" in told


def test_links_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "0.log").write_bytes(text(BAD))
    (tmp_path / "else" / "loop").symlink_to(tmp_path / "else")
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "n1.log").symlink_to(tmp_path / "else" / "0.log")
    (folder / "n2").symlink_to(tmp_path / "else")
    (folder / "up").symlink_to(folder)
    sources = sources_of([folder])
    assert [source.node for source in sources] == ["n1"]
    assert said(folder)[0] is Exit.FAIL
    (folder / "n3.log").symlink_to(tmp_path / "gone")
    assert "n3.log: is a link to nothing" in said(folder)[1]


@pytest.mark.parametrize("name", ["n1.log", "n1.log.gz", "n1"])
def test_gzip_and_text_are_known_by_what_they_hold(name: str, tmp_path: Path) -> None:
    for packed in (gzip.compress(text(BAD)), text(BAD)):
        (tmp_path / name).write_bytes(packed)
        assert said(tmp_path)[0] is Exit.FAIL


BINARY = {
    "random": random.Random(1).randbytes(50_000),
    "zip": b"PK\x03\x04" + text(BAD),
    "lz4": b"\x04\x22\x4d\x18" + text(BAD),
    "bz2": bz2.compress(text(BAD)),
    "random, packed": gzip.compress(random.Random(1).randbytes(50_000)),
}


@pytest.mark.parametrize("kind", BINARY)
def test_what_is_no_text_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    (tmp_path / "n2.log").write_bytes(BINARY[kind])
    with pytest.raises(ConfigError, match=r"n2\.log: is "):
        read(tmp_path)
    (tmp_path / "n1.log").write_bytes(text())
    code, told = said(tmp_path)
    assert code is Exit.NOT_PROVEN and "n2.log: is " in told
    assert "says nothing" not in told  # it is no node whose server was silent
    (tmp_path / "n3.log").write_bytes(text(BAD))
    assert said(tmp_path)[0] is Exit.FAIL


def test_text_is_no_binary(tmp_path: Path) -> None:
    odd = [
        text(),
        b"\x00" * 9000 + text(),  # rotated by copying while the server wrote
        "\ufeff".encode() + text(),
        text().replace(b"served", b"\x1b[32mserved\x1b[0m"),
        text("größer als früher").decode().encode("latin-1"),
    ]
    for n, data in enumerate(odd):
        (tmp_path / f"n{n}.log").write_bytes(data)
    assert said(tmp_path)[0] is Exit.PASS and len(sources_of([tmp_path])) == len(odd)


@pytest.mark.parametrize("damage", ["cut", "crc", "middle"])
def test_what_is_damaged_is_read_as_far_as_it_can_be(damage: str, tmp_path: Path) -> None:
    rest = [f"{at(61)} [INFO]: {random.Random(n).random()}" for n in range(20_000)]
    packed = bytearray(gzip.compress(text(BAD, *rest)))
    if damage == "cut":
        del packed[-50_000:]
    elif damage == "crc":
        packed[-8] ^= 1
    else:
        packed[-60_000:-50_000] = b"\xff" * 10_000
    (tmp_path / "n1.log.gz").write_bytes(packed)
    (tmp_path / "n2.log").write_bytes(text())
    code, told = said(tmp_path)
    assert code is Exit.FAIL and "not read: " in told and "n1.log.gz" in told


def test_a_healthy_log_that_is_cut_off_proves_nothing(tmp_path: Path) -> None:
    packed = gzip.compress(text(*(f"{at(9)} [INFO]: {random.Random(n)}" for n in range(9000))))
    (tmp_path / "n1.log.gz").write_bytes(packed[:-20])
    assert said(tmp_path)[0] is Exit.NOT_PROVEN


def test_lines_that_nobody_understands_prove_nothing(tmp_path: Path) -> None:
    (tmp_path / "n1.log").write_text("qwe rty\n" * 60 + text().decode())
    code, told = said(tmp_path)
    assert code is Exit.NOT_PROVEN and "60 lines are of no format" in told


def access(second: int, status: int = 200) -> str:
    stamp = f"28/Nov/2026:12:{second // 60:02}:{second % 60:02} +0000"
    asked = "GET /docs/network-partition?q=connection+refused HTTP/1.1"
    return (
        f'10.0.0.9 - bob [{stamp}] "{asked}" {status} 12 '
        '"https://x.org/help/split-brain" "out of memory; i/o timeout"'
    )


def test_what_clients_wrote_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "access.log").write_text("".join(f"{access(n)}\n" for n in range(300)))
    (tmp_path / "error.log").write_text(
        "2026/11/28 12:00:07 [notice] 7#7: signal process started\n"
    )
    assert {source.node for source in sources_of([tmp_path])} == {tmp_path.name}
    code, told = said(tmp_path)
    assert code is Exit.PASS and "split" not in told, told


@pytest.mark.parametrize(
    ("names", "nodes"),
    [
        (("access.log", "error.log", "access.log.1", "error.log.2.gz"), {"logs"}),
        (("access_log", "error_log", "ssl_access_log"), {"logs"}),
        (("n1.access.log", "n1-error.log", "n2_error.log"), {"n1", "n2"}),
        (("n1.log", "n2.log", "accessor.log"), {"n1", "n2", "accessor"}),
    ],
)
def test_logs_of_one_web_server_are_of_one_node(
    names: tuple[str, ...], nodes: set[str], tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(text())
    assert {source.node for source in sources_of([folder])} == nodes
    assert {source.node for source in sources_of([folder / name for name in names])} == nodes
