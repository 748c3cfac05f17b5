"""Directories on their way: what was changed, cut, or leads elsewhere is refused as a whole."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from dstest.campaign.workers.archive import PART_BYTES, Archive, Limits, pack, read_part, unpack
from dstest.core.errors import HarnessError


def _packed(tmp_path: Path) -> tuple[Path, Archive]:
    folder = tmp_path / "folder"
    (folder / "a" / "empty").mkdir(parents=True)
    (folder / "a" / "f").write_bytes(bytes(range(256)) * 100)
    parcel = pack(folder, tmp_path / "p.tar.gz")
    assert parcel is not None
    return tmp_path / "p.tar.gz", parcel


def test_a_directory_arrives_as_it_was(tmp_path: Path) -> None:
    archive, parcel = _packed(tmp_path)
    unpack(archive, parcel, tmp_path / "into")
    assert (tmp_path / "into" / "a" / "f").read_bytes() == bytes(range(256)) * 100
    assert (tmp_path / "into" / "a" / "empty").is_dir()


def test_an_empty_directory_is_no_parcel(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert pack(tmp_path / "folder", tmp_path / "p") is None


@pytest.mark.parametrize("place", [10, 50, -1])
def test_a_changed_byte_is_noticed(tmp_path: Path, place: int) -> None:
    archive, parcel = _packed(tmp_path)
    data = bytearray(archive.read_bytes())
    data[place] ^= 1
    archive.write_bytes(bytes(data))
    _refused(archive, parcel, tmp_path, "not what the worker sent")


def test_one_that_was_cut_is_noticed(tmp_path: Path) -> None:
    archive, parcel = _packed(tmp_path)
    archive.write_bytes(archive.read_bytes()[:-1])
    _refused(archive, parcel, tmp_path, "not what the worker sent")


def _refused(archive: Path, parcel: Archive, tmp_path: Path, why: str, **limits: int) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(HarnessError, match=why):
        unpack(archive, parcel, tmp_path / "into", Limits(**limits))
    assert sorted(tmp_path.rglob("*")) == before


def _of(tmp_path: Path, *members: tarfile.TarInfo) -> tuple[Path, Archive]:
    """An archive as a hostile worker makes it, with its right sum."""
    archive = tmp_path / "p.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for member in members:
            file.addfile(member, io.BytesIO(b"x" * member.size) if member.isreg() else None)
    parcel = pack(archive.parent, tmp_path.parent / f"{tmp_path.name}.sum")
    assert parcel is not None
    import hashlib

    return archive, replace(parcel, sha256=hashlib.sha256(archive.read_bytes()).hexdigest())


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    member.size = 3 if kind == tarfile.REGTYPE else 0
    return member


@pytest.mark.parametrize("name", ["../out", "/abs", "a/../../out"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    _refused(*_of(tmp_path, _member("ok"), _member(name)), tmp_path, "leads elsewhere")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    _refused(*_of(tmp_path, _member("l", kind, "/etc")), tmp_path, "neither file nor directory")


def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    _refused(*_of(tmp_path, _member("a"), _member("a")), tmp_path, "no archive")


def test_too_much_is_refused(tmp_path: Path) -> None:
    packed = _of(tmp_path, _member("a"), _member("b"))
    _refused(*packed, tmp_path, "more than", bytes=5)
    _refused(*packed, tmp_path, "more than", members=1)


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    archive, parcel = _packed(tmp_path)
    (tmp_path / "into").mkdir()
    _refused(archive, parcel, tmp_path, "there already")


def test_parts_are_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"ab" * PART_BYTES)
    parts = [read_part(str(path), n * PART_BYTES) for n in range(3)]
    assert b"".join(parts) == path.read_bytes()
    assert parts[2] == b""
