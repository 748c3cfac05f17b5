"""dstest and all that it needs as one archive, for machines that have but a Python.

What is packed is what runs here: our packages, the distributions that they require, and those that
bring plug-ins. On a machine with the same Python, processor and C library it lies at
`HOME/SUM/lib`, and needs no installer and no network there.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import platform
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import ConfigError, HarnessError

HOME: Final = "/opt/dstest-worker"
"""Where it lies on a machine."""

_ROOMS: Final = ("dstest", "nemeses", "workloads", "checkers", "clusters")
_PLUGINS: Final = "dstest."


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """An archive, and what a machine has to be like to run it."""

    path: str
    sha256: str
    bytes: int
    distributions: list[str]
    python: str
    machine: str


def needs() -> tuple[str, str]:
    """(`3.11`, `x86_64`): the Python and the processor that a machine must have."""
    return f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine()


def pack_bundle(target: Path) -> Bundle:
    """Write the archive. Raises HarnessError where something that is required is not here,
    ConfigError where it cannot be written."""
    found = list(_distributions())
    try:
        with tarfile.open(target, "w:gz", compresslevel=1) as archive:
            for room in _ROOMS:
                for path, name in _room_files(room):
                    archive.add(path, f"lib/{name}", recursive=False)
            for distribution in found:
                for path, name in _files(distribution):
                    archive.add(path, f"lib/{name}", recursive=False)
    except OSError as error:
        raise ConfigError(
            f"{target} cannot be written: {error.strerror}", remedy="name a file, FILE.tar.gz"
        ) from None
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    python, machine = needs()
    return Bundle(
        path=str(target),
        sha256=digest,
        bytes=target.stat().st_size,
        distributions=sorted(one.metadata["Name"] for one in found),
        python=python,
        machine=machine,
    )


def _room_files(room: str) -> Iterator[tuple[Path, str]]:
    spec = importlib.util.find_spec(room)
    if spec is None or not spec.submodule_search_locations:
        raise HarnessError(f"the package {room} is not here")
    folder = Path(spec.submodule_search_locations[0])
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, f"{room}/{path.relative_to(folder).as_posix()}"


def _files(distribution: importlib.metadata.Distribution) -> Iterator[tuple[Path, str]]:
    """What a distribution has below site-packages, but our own packages: they may lie elsewhere."""
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file)))
        outside = file.parts[0] in {"..", *_ROOMS} or file.suffix in (".pth", ".pyc")
        if not outside and path.is_file():
            yield path, file.as_posix()


def _distributions() -> Iterator[importlib.metadata.Distribution]:
    """dstest, whatever brings plug-ins, and what these require, each once."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    waiting = list(_roots())
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if (canonical := canonicalize_name(name)) in seen:
            continue
        seen.add(canonical)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise HarnessError(f"{name} is required and not here", remedy="make setup") from None
        yield distribution
        for text in distribution.requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                waiting.append(wanted.name)


def _roots() -> Iterable[str]:
    with_plugins = (
        distribution.metadata["Name"]
        for distribution in importlib.metadata.distributions()
        if any(point.group.startswith(_PLUGINS) for point in distribution.entry_points)
    )
    return dict.fromkeys(["dstest", "distributed", *with_plugins])
