"""What nodes send is not trusted: archives that lie, links, sizes. And what a chore says."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from clusters.remote import transfers
from clusters.remote.chores import Said, on_each
from clusters.remote.tasks import _logs_in, render
from clusters.remote.transfers import Fetched, Limits, get, put
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import NodeInfo

NODES = [NodeInfo(name="n1", address="192.0.2.1"), NodeInfo(name="n2", address="192.0.2.2")]


def member(name: str, data: bytes = b"", **changed: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in changed.items():
        setattr(info, field, value)
    return info, data


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What every node sends, in parts."""
    parts: list[bytes] = []

    def run_on(*_: Any, take: Any = None, **__: Any) -> Said:
        try:
            take(iter(parts))
        except LabError as error:
            return Said(status=None, error=error.message)
        return Said(status=0)

    monkeypatch.setattr(transfers, "run_on", run_on)
    return parts


def fetched(folder: Path, **limits: int) -> Fetched:
    return get(NODES[:1], "/var/d", folder, timeout_s=5, limits=Limits(**limits))["n1"]


def test_a_tree_comes_below_the_name_of_its_node(sends: list[bytes], tmp_path: Path) -> None:
    data = packed(
        member("d", type=tarfile.DIRTYPE, mode=0o700),
        member("d/a", b"one", mode=0o4777),
        member("d/b/c", b"two"),
    )
    sends += [data[i : i + 7] for i in range(0, len(data), 7)]
    got = fetched(tmp_path)
    assert (got.files, got.bytes, got.left_out, got.error) == (2, 6, [], None)
    assert (tmp_path / "n1/d/b/c").read_bytes() == b"two"
    assert (tmp_path / "n1/d/a").stat().st_mode & 0o7777 == 0o755 & ~umask() | 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["n1"]


def umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


@pytest.mark.parametrize("name", ["/etc/x", "../x", "d/../../x", "e/x", "d/./../../x"])
def test_names_that_lead_elsewhere(sends: list[bytes], tmp_path: Path, name: str) -> None:
    sends.append(packed(member("d", type=tarfile.DIRTYPE), member(name, b"x")))
    got = fetched(tmp_path / "to")
    assert not got.ok
    assert len(got.left_out) == 1
    assert "leads elsewhere" in got.left_out[0]
    assert not (tmp_path / "x").exists()
    assert [p.name for p in (tmp_path / "to/n1").iterdir()] == ["d"]


def test_links_are_left_out_and_nothing_is_written_through_them(
    sends: list[bytes], tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    sends.append(
        packed(
            member("d/l", type=tarfile.SYMTYPE, linkname=str(outside)),
            member("d/l/x", b"x"),
            member("d/h", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
            member("d/p", type=tarfile.FIFOTYPE),
        )
    )
    got = fetched(tmp_path / "to")
    assert len(got.left_out) == 3
    assert not list(outside.iterdir())
    assert (tmp_path / "to/n1/d/l/x").read_bytes() == b"x"


def test_sizes_have_limits(sends: list[bytes], tmp_path: Path) -> None:
    sends.append(
        packed(member("d/a", b"x" * 60), member("d/b", b"x" * 30), member("d/c", b"x" * 30))
    )
    got = fetched(tmp_path, file_bytes=50, total_bytes=40)
    assert [text.split(":")[0] for text in got.left_out] == ["'d/a'", "'d/c'"]
    assert (got.files, got.bytes, got.ok) == (1, 30, False)


def test_the_limit_is_of_all_nodes(sends: list[bytes], tmp_path: Path) -> None:
    sends.append(packed(member("d", b"x" * 30)))
    got = get(NODES, "/d", tmp_path, timeout_s=5, limits=Limits(total_bytes=40))
    assert sorted(one.files for one in got.values()) == [0, 1]


def test_an_endless_archive_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless() -> Iterable[bytes]:
        yield packed(member("d/a", b"x"))[:1024]
        while True:
            yield packed(member("d/b", b"x" * 600))[:1536]

    monkeypatch.setattr(transfers, "TAR_OVERHEAD_BYTES", 1 << 16)
    with pytest.raises(LabError, match="more came"):
        transfers._Unpacker(tmp_path, "d", transfers._Room(Limits(total_bytes=1 << 12))).unpack(
            endless()
        )


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_fills_memory_is_not_read(
    sends: list[bytes], tmp_path: Path, kind: bytes
) -> None:
    """Its size alone is looked at: what it announces never has to come."""
    info = tarfile.TarInfo("d")
    info.type, info.size = kind, 200 << 20
    sends += [info.tobuf(tarfile.USTAR_FORMAT), bytes(4 << 20)]
    assert f"a header of {200 << 20} bytes" in str(fetched(tmp_path).error)


def test_what_is_no_archive_is_said(sends: list[bytes], tmp_path: Path) -> None:
    sends.append(b"not an archive" * 100)
    assert "no archive" in str(fetched(tmp_path).error)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_nor_a_link_followed(sends: list[bytes], tmp_path: Path) -> None:
    sends.append(packed(member("d", b"x")))
    assert fetched(tmp_path).ok
    assert "is there already" in str(fetched(tmp_path).error)
    (tmp_path / "to").mkdir()
    (tmp_path / "to/n1").symlink_to(tmp_path)
    assert "is a link" in str(fetched(tmp_path / "to").error)


@pytest.mark.parametrize("remote", ["relative", "", "/", "/var/.."])
def test_what_cannot_be_got(remote: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        get(NODES, remote, tmp_path, timeout_s=5)


def test_what_cannot_be_put(tmp_path: Path) -> None:
    for local in (tmp_path / "none", tmp_path):
        with pytest.raises(ConfigError):
            put(NODES, local, "/opt/x", timeout_s=5)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="no absolute path"):
        put(NODES, tmp_path / "file", "opt/x", timeout_s=5)


def test_a_node_that_is_gone_does_not_hold_up_the_others() -> None:
    def chore(info: NodeInfo, _: threading.Event) -> Said:
        return Said(status=None, error="gone") if info.name == "n1" else Said(status=0)

    got = on_each(NODES, chore)
    assert [one.ok for one in got.values()] == [False, True]


def test_what_was_said_steers_no_terminal() -> None:
    text = render(
        {
            "n1": Said(status=0, stdout="\x1b[31mred\ufffd", cut_bytes=5),
            "n2": Said(status=None, error="no end within 1 s", stdout="half\n"),
        }
    )
    assert text == (
        "== n1: status 0\n\ufffd[31mred\ufffd\n== n1: 5 more bytes were left out\n"
        "== n2: no end within 1 s\nhalf\n"
    )


def test_a_strange_member_file_names_no_log() -> None:
    assert _logs_in('{"services": [{"name": "etcd", "log": "/l"}]}') == {"etcd": "/l"}
    assert _logs_in("[]") == _logs_in("{") == _logs_in('{"services": 3}') == {}


def test_only_a_regular_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    from clusters.remote.transfers import RECEIVE

    def put(name: str) -> int:
        argv = ["sh", "-c", RECEIVE, "sh", str(tmp_path / name), "755"]
        return subprocess.run(argv, input=b"new", capture_output=True, check=False).returncode

    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert [put(name) for name in ("link", "folder", "pipe")] == [1, 1, 1]
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "old"
    assert (put("file"), put("fresh")) == (0, 0)
    assert (tmp_path / "file").read_text() == "new"
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("file", "fresh")]
    assert modes == [0o640, 0o755]
