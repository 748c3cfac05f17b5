"""The file system under a system's data, mounted on this host: whose files are, which kinds there
are, and what a power cut takes."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import shutil
import stat
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import wait_for

from dstest.core.node import Completed
from nemeses.tools.compiled import FOLDER
from nemeses.tools.groups import SYNCS, sample

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/dev/fuse").exists() or os.getuid() != 0, reason="needs root and /dev/fuse"
    ),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
    pytest.mark.timeout(120),
]

USER, GROUP = 2345, 2346
"""Of nobody on this host."""

NOREPLACE, EXCHANGE = 1, 2
FLAGS = ("-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_FILE_OFFSET_BITS=64")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


class Mounted:
    """The file system, mounted at `path`."""

    def __init__(self, folder: Path, tool: Path) -> None:
        self.path, self._backing, self.socket = folder / "m", folder / "b", folder / "s"
        self._tool = tool
        self.path.mkdir()
        self._backing.mkdir()
        argv = [str(p) for p in (tool, self.path, self._backing, self.socket)]
        self._server = subprocess.Popen(argv)
        wait_for("the mount", lambda: self.path.is_mount() and self.socket.exists(), 10)

    def ask(self, *words: str | int) -> dict[str, int]:
        argv = [str(self._tool), "ask", str(self.socket), *map(str, words)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10)
        assert done.returncode == 0, done.stdout + done.stderr
        return {k: int(v) for k, v in (p.split("=") for p in done.stdout.split())}

    def user(self, command: str, user: int = USER) -> subprocess.CompletedProcess[str]:
        """Let another user do something there."""
        return subprocess.run(
            ["sh", "-ec", command],
            cwd=self.path,
            user=user,
            group=user + GROUP - USER,
            extra_groups=[],
            umask=0o022,
            capture_output=True,
            text=True,
            timeout=20,
        )

    def must(self, command: str) -> str:
        done = self.user(command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name: str, data: bytes, at: int = 0, *, sync: bool) -> None:
        with self.opened(name, os.O_CREAT | os.O_RDWR) as fd:
            os.pwrite(fd, data, at)
            if sync:
                os.fsync(fd)

    @contextlib.contextmanager
    def opened(self, name: str, flags: int) -> Iterator[int]:
        fd = os.open(self.path / name, flags, 0o644)
        try:
            yield fd
        finally:
            os.close(fd)

    def sync(self) -> None:
        """All names are safe."""
        with self.opened(".", os.O_RDONLY) as fd:
            os.fsync(fd)

    def found(self) -> dict[str, bytes]:
        """Regular files on top and what they hold."""
        return {p.name: p.read_bytes() for p in self.path.iterdir() if p.is_file()}

    def end(self) -> None:
        done = subprocess.run(["umount", self.path], capture_output=True, text=True)
        if done.returncode != 0:
            subprocess.run(["umount", "-l", self.path], check=False)
            self._server.kill()
        assert self._server.wait(timeout=10) == 0, done.stderr


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("faultfs") / "faultfs"
    sources = [str(p) for p in sorted(FOLDER.glob("faultfs*.c"))]
    argv = ["cc", *FLAGS, *SANITIZE, "-o", str(out), *sources, "-lfuse3", "-lpthread"]
    subprocess.run(argv, check=True, timeout=100)
    return out


@pytest.fixture
def disk(tmp_path: Path, tool: Path) -> Iterator[Mounted]:
    mounted = Mounted(tmp_path, tool)
    try:
        yield mounted
    finally:
        mounted.end()


@pytest.fixture
def shared(disk: Mounted) -> Mounted:
    """One that anybody may write to."""
    disk.path.chmod(0o777)
    return disk


def rename(disk: Mounted, old: str, new: str, flags: int) -> int:
    """renameat2; 0 or the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths = [os.fsencode(disk.path / name) for name in (old, new)]
    if libc.renameat2(-100, paths[0], -100, paths[1], flags) == 0:
        return 0
    return ctypes.get_errno()


def test_it_forgets_what_was_not_synced(disk: Mounted) -> None:
    """Names and data, whole and by the sector."""
    disk.write("a", b"synced", sync=True)
    disk.write("a", b"UNSYNCED", sync=False)
    disk.write("b", b"never", sync=False)
    assert disk.ask("cut")["discarded_bytes"] == len("UNSYNCED" + "never")
    assert disk.found() == {"a": b"synced"}
    disk.write("c", b"1", sync=True)
    (disk.path / "c").rename(disk.path / "d")
    (disk.path / "a").unlink()
    disk.ask("cut")
    assert sorted(disk.found()) == ["a", "c"]
    disk.write("e", bytes(65536), sync=True)
    disk.write("e", b"x" * 65536, sync=False)
    assert 0 < disk.ask("cut", "7")["discarded_bytes"] - 13 < 65536
    sectors = {disk.found()["e"][i : i + 512] for i in range(0, 65536, 512)}
    assert sectors == {bytes(512), b"x" * 512}


def test_what_a_user_creates_is_theirs(shared: Mounted) -> None:
    shared.must(": >file; mkdir dir; ln -s file symlink; mkfifo fifo; : >dir/inside")
    for name in ("file", "dir", "symlink", "fifo", "dir/inside"):
        st = os.lstat(shared.path / name)
        assert (st.st_uid, st.st_gid) == (USER, GROUP), name
    modes = {n: stat.S_IMODE(os.lstat(shared.path / n).st_mode) for n in ("file", "dir", "fifo")}
    assert modes == {"file": 0o644, "dir": 0o755, "fifo": 0o644}
    shared.must("umask 077; : >secret; umask 0; : >public")
    assert stat.S_IMODE((shared.path / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((shared.path / "public").stat().st_mode) == 0o666


def test_a_directory_with_the_setgid_bit_gives_its_group_away(shared: Mounted) -> None:
    folder = shared.path / "of-a-group"
    folder.mkdir()
    os.chown(folder, USER, 999)
    folder.chmod(0o2770)
    shared.must(": >of-a-group/file; mkdir of-a-group/dir; : >of-a-group/dir/file")
    for name in ("file", "dir", "dir/file"):
        assert ((folder / name).stat().st_uid, (folder / name).stat().st_gid) == (USER, 999), name
    assert (folder / "dir").stat().st_mode & stat.S_ISGID


def test_permissions_are_checked(shared: Mounted) -> None:
    shared.must("echo mine >private; chmod 600 private; mkdir own")
    for command in ("cat private", "echo >>private", "chmod 666 private", ": >own/theirs"):
        assert shared.user(command, user=USER + 10).returncode != 0, command
    assert shared.user("chown 1:1 private").returncode != 0
    os.chown(shared.path / "private", USER + 10, -1)
    assert shared.user("cat private", user=USER + 10).stdout == "mine\n"
    assert shared.user("cat private").returncode != 0


def test_a_program_is_created_with_all_its_bits(shared: Mounted) -> None:
    shared.must('python3 -c \'import os; os.mknod("set", 0o106755); os.open("id", 65, 0o4711)\'')
    modes = [stat.S_IMODE((shared.path / name).stat().st_mode) for name in ("set", "id")]
    assert modes == [0o6755 & ~0o022, 0o4711 & ~0o022]


def test_links_and_nodes(shared: Mounted) -> None:
    out = shared.must(
        "echo one >a; ln a b; echo two >>b; ln -s a c; cat c; readlink c; stat -c %h a b;"
        "mkfifo p; (cat p & echo through >p; wait)"
    )
    assert out.split() == ["one", "two", "a", "2", "2", "through"]
    assert (shared.path / "a").stat().st_ino == (shared.path / "b").stat().st_ino
    os.mknod(shared.path / "plain", stat.S_IFREG | 0o600)
    assert (shared.path / "plain").is_file()
    with pytest.raises(PermissionError):
        os.mknod(shared.path / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    shared.must("rm a")
    assert (shared.path / "b").stat().st_nlink == 1
    assert not (shared.path / "c").exists()


def test_two_names_show_the_same_bytes(disk: Mounted) -> None:
    disk.write("a", b"old", sync=True)
    os.link(disk.path / "a", disk.path / "b")
    with disk.opened("a", os.O_RDWR) as one, disk.opened("b", os.O_RDWR) as other:
        assert os.pread(other, 9, 0) == b"old"
        os.pwrite(one, b"newer", 0)
        assert os.pread(other, 9, 0) == b"newer"


def access_list() -> bytes:
    """Read and write for the owner, the group, and all others."""
    rows = [struct.pack("<HHI", tag, 6, 0xFFFFFFFF) for tag in (1, 4, 32)]
    return struct.pack("<I", 2) + b"".join(rows)


def test_attributes(shared: Mounted) -> None:
    shared.must(": >a")
    path = shared.path / "a"
    os.setxattr(path, "user.one", b"1")
    os.setxattr(path, "user.two", b"")
    assert sorted(os.listxattr(path)) == ["user.one", "user.two"]
    assert os.getxattr(path, "user.one") == b"1"
    os.removexattr(path, "user.one")
    with pytest.raises(OSError, match="No data"):
        os.getxattr(path, "user.one")
    with pytest.raises(FileExistsError):
        os.setxattr(path, "user.two", b"x", os.XATTR_CREATE)
    with pytest.raises(OSError, match="not supported"):
        os.setxattr(path, "system.posix_acl_access", access_list())


def test_renames_with_flags(disk: Mounted) -> None:
    for name in "ab":
        disk.write(name, name.encode(), sync=True)
    assert rename(disk, "a", "b", NOREPLACE) == errno.EEXIST
    assert rename(disk, "a", "c", NOREPLACE) == 0
    assert disk.found() == {"b": b"b", "c": b"a"}
    assert rename(disk, "b", "nothing", EXCHANGE) == errno.ENOENT
    assert rename(disk, "b", "c", EXCHANGE) == 0
    assert disk.found() == {"b": b"a", "c": b"b"}
    disk.ask("cut")
    assert disk.found() == {"a": b"a", "b": b"b"}
    assert rename(disk, "a", "b", 1 << 2) == errno.EINVAL


def test_a_name_renamed_to_another_of_the_same_file_stays(disk: Mounted) -> None:
    disk.write("a", b"x", sync=True)
    os.link(disk.path / "a", disk.path / "b")
    (disk.path / "a").rename(disk.path / "b")
    assert disk.found() == {"a": b"x", "b": b"x"}


def test_directories_are_replaced_only_where_they_are_empty(disk: Mounted) -> None:
    for name in ("a", "b", "c"):
        (disk.path / name).mkdir()
    (disk.path / "a" / "in").touch()
    (disk.path / "c").chmod(0o750)
    os.chown(disk.path / "c", USER, GROUP)
    disk.sync()
    with pytest.raises(OSError, match="not empty"):
        (disk.path / "b").rename(disk.path / "a")
    with pytest.raises(OSError, match="not empty"):
        (disk.path / "a").rmdir()
    (disk.path / "a").rename(disk.path / "b")
    (disk.path / "c").rmdir()
    assert [p.name for p in disk.path.iterdir()] == ["b"]
    disk.ask("cut")
    assert sorted(p.name for p in disk.path.rglob("*")) == ["a", "b", "c", "in"]
    st = (disk.path / "c").stat()
    assert (stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid) == (0o750, USER, GROUP)


def test_an_opened_file_is_truncated_if_that_was_asked(disk: Mounted) -> None:
    disk.write("a", b"long contents", sync=True)
    with disk.opened("a", os.O_WRONLY | os.O_TRUNC) as fd:
        os.write(fd, b"short")
    assert disk.found() == {"a": b"short"}
    disk.ask("cut")
    assert disk.found() == {"a": b"long contents"}
    disk.ask("set", "write_errno", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        os.open(disk.path / "a", os.O_WRONLY | os.O_TRUNC)
    disk.ask("clear")
    assert disk.found() == {"a": b"long contents"}


def test_a_hole_is_undone_as_a_write_is(disk: Mounted) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    keep_size, punch_hole, zero_range, collapse = 1, 2, 16, 8
    disk.write("a", b"x" * 200_000, sync=True)
    with disk.opened("a", os.O_RDWR) as fd:
        assert libc.fallocate(fd, keep_size | punch_hole, 1000, 150_000) == 0
        assert os.pread(fd, 200_000, 0) == b"x" * 1000 + bytes(150_000) + b"x" * 49_000
        assert libc.fallocate(fd, zero_range, 199_000, 2000) == 0
        assert os.pread(fd, 3000, 198_999) == b"x" + bytes(2000)
        assert libc.fallocate(fd, collapse, 0, 4096) == -1
        assert ctypes.get_errno() == errno.EOPNOTSUPP
        disk.ask("set", "write_errno", errno.ENOSPC)
        assert libc.fallocate(fd, keep_size, 0, 1 << 20) == -1
        assert ctypes.get_errno() == errno.ENOSPC
        disk.ask("clear")
    disk.ask("cut")
    assert disk.found() == {"a": b"x" * 200_000}


def test_a_full_disk_creates_nothing(disk: Mounted) -> None:
    disk.ask("set", "write_errno", errno.ENOSPC)
    for create in (
        lambda p: p.touch(),
        lambda p: p.mkdir(),
        lambda p: p.symlink_to("x"),
        lambda p: os.mkfifo(p),
    ):
        with pytest.raises(OSError, match="No space"):
            create(disk.path / "a")
    assert list(disk.path.iterdir()) == []


def test_a_synchronous_write_is_a_write_and_a_sync(disk: Mounted) -> None:
    """What a refused sync should have made safe is not safe."""
    disk.write("a", b"old", sync=True)
    before = disk.ask("set", "sync_errno", errno.EIO)
    with disk.opened("a", os.O_RDWR | os.O_DSYNC) as fd, pytest.raises(OSError, match="Input"):
        os.pwrite(fd, b"new", 0)
    after = disk.ask("clear")
    assert after["refused_syncs"] == before["refused_syncs"] + 1
    disk.ask("cut")
    assert disk.found() == {"a": b"old"}
    with disk.opened("a", os.O_RDWR | os.O_DSYNC) as fd:
        os.pwrite(fd, b"new", 0)
    disk.ask("cut")
    assert disk.found() == {"a": b"new"}


def test_a_cut_with_two_names_of_one_log(shared: Mounted) -> None:
    """As a log is installed: written under one name, synced, linked to its own, the first removed.

    Whatever was written since is gone, whichever name it was written by.
    """
    shared.must("printf synced >tmp; sync tmp; ln tmp wal; printf LATER >>wal; printf MORE >>tmp")
    assert shared.found()["tmp"] == b"syncedLATERMORE"
    shared.must("rm tmp")
    assert shared.found() == {"wal": b"syncedLATERMORE"}
    shared.ask("cut")
    assert shared.found() == {"tmp": b"synced"}
    assert (shared.path / "tmp").stat().st_nlink == 1
    shared.must("ln tmp wal; rm tmp; sync .; printf LATER >>wal")
    shared.ask("cut")
    assert shared.found() == {"wal": b"synced"}
    assert (shared.path / "wal").stat().st_uid == USER


def test_a_sync_by_one_name_is_one_of_the_file(shared: Mounted) -> None:
    shared.must("printf a >one; ln one two; printf b >>one; sync two; printf c >>two")
    shared.ask("cut")
    assert shared.found() == {"one": b"ab", "two": b"ab"}


def test_a_cut_takes_links_and_nodes(shared: Mounted) -> None:
    shared.must(": >a; sync .; ln a b; ln -s a c; mkfifo p; mkdir d; mv c e; ln e f")
    shared.ask("cut")
    assert [p.name for p in shared.path.iterdir()] == ["a"]


def test_syncs_that_wait_hold_up_nobody_else(shared: Mounted) -> None:
    shared.ask("set", "stall", 1)
    waiting = subprocess.Popen(
        ["sh", "-c", "for i in $(seq 30); do echo >f$i; sync f$i & done; wait"],
        cwd=shared.path,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for("the syncs", lambda: shared.ask("get")["stalled"] == 30, 10)
        shared.must("echo >another; cat another")
    finally:
        shared.ask("cut")
        waiting.wait(timeout=10)


def test_locks_hold_between_processes(shared: Mounted) -> None:
    shared.must(": >a; flock -n a sh -c '! flock -n a true'; flock -n a true")


def test_a_removed_file_stays_open_and_out_of_sight(disk: Mounted) -> None:
    disk.write("a", b"kept", sync=True)
    with disk.opened("a", os.O_RDWR) as fd:
        (disk.path / "a").unlink()
        assert list(disk.path.iterdir()) == []
        assert os.pread(fd, 9, 0) == b"kept"
        assert os.fstat(fd).st_size == 4


class ThisHost:
    """A node that is this host."""

    async def run(self, argv: list[str], *, stdin: str, **rest: Any) -> Completed:
        done = await asyncio.to_thread(
            subprocess.run, argv, input=stdin, capture_output=True, text=True, timeout=20
        )
        return Completed(status=done.returncode, stdout=done.stdout, stderr=done.stderr)


def test_samples_of_threads_tell_how_long_a_sync_takes(disk: Mounted) -> None:
    """The time that they are seen inside, by the number of syncs, is the delay."""
    disk.ask("set", "sync_delay_us", 50_000)
    code = "import os\nwhile True:\n    os.write(3, b'x'); os.fdatasync(3)"
    syncing = subprocess.Popen(
        ["sh", "-c", f'exec 3>{disk.path}/log; exec python3 -c "{code}"'], stderr=subprocess.PIPE
    )
    node: Any = ThisHost()
    try:
        wait_for("a sync", lambda: disk.ask("get")["syncs"] > 1, 10)
        more: Any = {"control_socket": str(disk.socket)}
        found = asyncio.run(sample(node, [syncing.pid], str(disk.path), SYNCS, 2.0, **more))
        assert 0.035 < found.inside_s / found.syncs < 0.065, found
        elsewhere = asyncio.run(sample(node, [syncing.pid], "/elsewhere", SYNCS, 2.0, **more))
        assert (elsewhere.busy, elsewhere.syncs > 10) == (0, True), elsewhere
    finally:
        syncing.kill()
        syncing.communicate()


def differing(one: bytes, other: bytes) -> list[int]:
    return [at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]


def test_bits_rot_and_are_put_back(disk: Mounted) -> None:
    """One in each part of a file whose name matches; each that is read is counted."""
    text = b"0123456789abcdef" * 4096
    for name in ("log.blk", "log.idx", "none.blk"):
        disk.write(name, text if name != "none.blk" else bytes(len(text)), sync=True)
    made = disk.ask("rot", 7, 4096, "*.blk")
    assert made["rotten"] == made["rotted"] == len(text) / 4096 and made["rotten_read"] == 0
    found = disk.found()
    places = differing(found["log.blk"], text)
    assert [at // 4096 for at in places] == [*range(16)]
    assert {(found["log.blk"][at] ^ text[at]).bit_count() for at in places} == {1}
    assert found["log.idx"] == text and found["none.blk"] == bytes(len(text))
    assert disk.ask("get")["rotten_read"] == 16
    cleared = disk.ask("clear")
    assert (cleared["rotten"], cleared["rot_put_back"]) == (0, 16)
    assert disk.found()["log.blk"] == text


def test_what_nobody_asked_for_was_not_read(disk: Mounted) -> None:
    """A kernel that reads ahead would count what no server has seen."""
    disk.write("a", bytes(range(1, 251)) * 4000, sync=True)
    disk.ask("rot", 7, 4096, "*")
    with (disk.path / "a").open("rb", buffering=0) as file:
        file.read(4096)
        assert disk.ask("get")["rotten_read"] == 1
        file.seek(20 * 4096)
        file.read(2 * 4096)
        assert disk.ask("get")["rotten_read"] == 3


def test_room_for_later_does_not_rot(disk: Mounted) -> None:
    """A file of 64 MiB of which little is used, as servers allocate their logs."""
    with disk.opened("wal", os.O_CREAT | os.O_RDWR) as fd:
        os.truncate(fd, 64 << 20)
        os.pwrite(fd, b"x" * 3000, 0)
        os.pwrite(fd, b"y" * 3000, 40 << 20)
        os.fsync(fd)
    made = disk.ask("rot", 1, 65536, "*")
    assert 1 <= made["rotten"] <= 2
    disk.ask("clear")
    with disk.opened("wal", os.O_RDONLY) as fd:
        assert os.pread(fd, 4096, 0) == b"x" * 3000 + bytes(1096)
        assert os.pread(fd, 3000, 40 << 20) == b"y" * 3000


def test_what_was_written_since_stays(disk: Mounted) -> None:
    """Also where it is what the rotten byte was; and the number of a removed file is no other's."""
    text = b"x" * 8192
    disk.write("a", text, sync=True)
    disk.write("b", text, sync=True)
    disk.ask("rot", 3, 1024, "*")
    rotten = disk.found()["a"]
    disk.write("a", rotten[:4096], sync=True)
    os.truncate(disk.path / "a", 6144)
    (disk.path / "b").unlink()
    disk.sync()
    for number in range(4):
        disk.write(f"new{number}", rotten, sync=True)
    left = disk.ask("get")
    assert left["rot_replaced"] == 6 and left["rotten"] == 10
    disk.ask("clear")
    assert disk.found() == {
        "a": rotten[:4096] + text[4096:6144], **{f"new{n}": rotten for n in range(4)}
    }  # fmt: skip
    assert disk.ask("rot", 3, 1 << 40, "nothing*")["rotten"] == 0


def test_rot_of_a_file_with_several_names(disk: Mounted) -> None:
    """What was written over stays, whichever name it was written by; the rest comes back."""
    text = b"m" * 4096
    disk.write("a", text, sync=True)
    for name in ("b", "c"):
        os.link(disk.path / "a", disk.path / name)
    made = disk.ask("rot", 5, 256, "*")
    assert made["rotten"] == 16
    fresh = bytes(range(256)) * 8
    disk.write("c", fresh, sync=True)
    left = disk.ask("clear")
    assert (left["rot_replaced"], left["rot_put_back"]) == (8, 8)
    assert {*disk.found().values()} == {fresh + text[2048:]}


@pytest.mark.parametrize("cleared_first", [False, True])
def test_a_power_cut_brings_no_rot_back(disk: Mounted, cleared_first: bool) -> None:
    text = b"p" * 4096
    disk.write("a", text, sync=True)
    disk.write("t", text, sync=True)
    disk.ask("rot", 5, 256, "*")
    disk.write("a", b"q" * 4096, sync=False)
    os.truncate(disk.path / "t", 0)
    for word in ("clear", "cut") if cleared_first else ("cut", "clear"):
        disk.ask(word)
    assert disk.found() == {"a": text, "t": text}


def test_rot_is_spread_over_all_files_and_takes_no_time(disk: Mounted) -> None:
    """Room that was written with zeros holds nothing, and there is a limit to what is kept."""
    for name in ("a", "b"):
        disk.write(name, b"z" * (6 << 20), sync=True)
    disk.write("room", bytes(64 << 20), sync=True)
    began = time.monotonic()
    made = disk.ask("rot", 9, 1024, "*")
    assert time.monotonic() - began < 8
    assert 300 < made["rotten"] < 8192
    found = disk.found()
    assert all(differing(found[name], b"z" * (6 << 20)) for name in ("a", "b"))
    disk.ask("clear")
