"""What nodes send is not trusted: archives that lie, links, sizes. And what a chore says."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from clusters.remote import agent_send, transfers
from clusters.remote.chores import CommandResult, _logs_in, on_each, render
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

    def run_on(*_: Any, take: Any = None, **__: Any) -> CommandResult:
        try:
            take(iter(parts))
        except LabError as error:
            return CommandResult(status=None, error=error.message)
        return CommandResult(status=0)

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
    def chore(info: NodeInfo, _: threading.Event) -> CommandResult:
        return (
            CommandResult(status=None, error="gone")
            if info.name == "n1"
            else CommandResult(status=0)
        )

    got = on_each(NODES, chore)
    assert [one.ok for one in got.values()] == [False, True]


def test_what_was_said_steers_no_terminal() -> None:
    text = render(
        {
            "n1": CommandResult(status=0, stdout="\x1b[31mred\ufffd", cut_bytes=5),
            "n2": CommandResult(status=None, error="no end within 1 s", stdout="half\n"),
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


def sent(folder: Path, name: str, to: Path, **limits: int) -> Fetched:
    """What the program that runs on nodes sends, as the control host takes it."""

    def run_on(info: NodeInfo, argv: list[str], *_: Any, take: Any, **__: Any) -> CommandResult:
        argv[0] = sys.executable
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            try:
                take(iter(lambda: child.stdout.read(1 << 16), b""))  # type: ignore[union-attr]
            except LabError as error:
                return CommandResult(status=None, error=error.message)
            said = child.stderr.read().decode()
            return CommandResult(status=child.wait(60), stderr=said)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfers, "run_on", run_on)
        return get(NODES[:1], f"{folder}/{name}", to, timeout_s=9, limits=Limits(**limits))["n1"]


def test_files_without_a_size_of_their_own(tmp_path: Path) -> None:
    """Those of /proc have size 0, those of /sys 4096, whatever they hold."""
    got = sent(Path("/proc/self"), "limits", tmp_path)
    assert (got.files, got.left_out, got.error) == (1, [], None)
    assert b"Max open files" in (tmp_path / "n1/limits").read_bytes()
    got = sent(Path("/sys/kernel/mm/transparent_hugepage"), "enabled", tmp_path)
    assert (got.ok, got.bytes) == (True, (tmp_path / "n1/enabled").stat().st_size)
    assert b"\0" not in (tmp_path / "n1/enabled").read_bytes()


def test_what_cannot_come_does_not_stop_the_rest(tmp_path: Path) -> None:
    """One file beyond all limits, a link, a pipe, an unreadable one: each is named."""
    tree = tmp_path / "tree"
    (tree / "empty").mkdir(parents=True)
    (tree / "a-huge").touch()
    os.truncate(tree / "a-huge", 1 << 40)
    (tree / "b-small").write_text("x")
    (tree / "c-large").write_bytes(os.urandom(3 << 20))
    (tree / "link").symlink_to("b-small")
    os.mkfifo(tree / "pipe")
    got = sent(tmp_path, "tree", tmp_path / "to", file_bytes=4 << 20)
    assert (got.files, got.error) == (2, None)
    assert got.left_out == [
        f"'tree/a-huge': {1 << 40} bytes, more than {4 << 20}",
        "'tree/link': a link",
        "'tree/pipe': neither file nor directory",
    ]
    there = tmp_path / "to/n1/tree"
    assert (there / "c-large").read_bytes() == (tree / "c-large").read_bytes()
    assert sorted(p.name for p in there.iterdir()) == ["b-small", "c-large", "empty"]
    none = sent(tmp_path, "nothing", tmp_path / "to")
    assert (none.ok, none.left_out) == (False, ["'nothing': No such file or directory"])


class Growing(io.BytesIO):
    """A file that is changed while it is read."""

    def __init__(self, path: Path, size: int) -> None:
        super().__init__()
        self.path, self.size = path, size

    def write(self, data: Any) -> int:
        if self.size >= 0:
            os.truncate(self.path, self.size)
            self.size = -1
        return super().write(data)


@pytest.mark.parametrize(("size", "how"), [(6 << 20, "grew"), (2 << 20, "shrank"), (0, "shrank")])
def test_files_that_change_while_they_are_read(
    sends: list[bytes], tmp_path: Path, size: int, how: str
) -> None:
    """Nothing comes that was never in the file: no zeros at its end."""
    (tmp_path / "d").mkdir()
    file = tmp_path / "d" / "log"
    file.write_bytes(b"x" * (4 << 20))
    (tmp_path / "d" / "other").write_text("x")
    out = Growing(file, size)
    agent_send.send(out, str(tmp_path), "d", 8 << 20, 1 << 30)
    sends.append(out.getvalue())
    got = fetched(tmp_path / "to")
    assert (got.files, got.error) == (2, None)
    there = (tmp_path / "to/n1/d/log").read_bytes()
    assert set(there) <= {ord("x")}
    if how == "grew":
        assert (len(there), got.left_out) == (4 << 20, [])
    else:
        assert len(there) < 4 << 20
        assert got.left_out == ["'d/log': it shrank while it was read"]
    assert got.bytes == len(there) + 1
    assert len(got.changed) == 1


def test_notes_that_lie_touch_only_the_file_before(sends: list[bytes], tmp_path: Path) -> None:
    def note(name: str, kept: str) -> tuple[tarfile.TarInfo, bytes]:
        settings = {agent_send.LEFT: "why", agent_send.KEPT: kept}
        return member(name, pax_headers=settings)

    sends.append(
        packed(
            member("d/a", b"one"),
            member("d/b", b"two"),
            note("d/a", "1"),
            note("../x", "1"),
            note("d/b", "-1"),
            note("d/b", "99"),
            note("d/b", "²"),
        )
    )
    got = fetched(tmp_path)
    assert len(got.left_out) == 5
    assert [(tmp_path / "n1/d" / name).read_bytes() for name in "ab"] == [b"one", b"two"]
