"""dstest and all that it needs as one archive, for machines that have but a Python.

What is packed is what runs here: our packages, the distributions that they require, and those that
bring plug-ins. On a machine with the same Python, processor and C library it lies at
`HOME/SUM/lib`, and needs no installer and no network there.

A bundle laid on machines that are reached by SSH, as `ssh HOST` reaches them.

It is there as a whole or not at all: unpacked aside, its sum checked on the machine, tried, and
only then named by `HOME/python`, which is what workers are started with.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import importlib.util
import platform
import shlex
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest import __version__
from dstest.core.errors import ConfigError, HarnessError, LabError, reason_of
from dstest.core.extras import extra_with, install_command, pip_install

HOME: Final = "/opt/dstest-worker"
"""Where it lies on a machine."""

_ROOMS: Final = ("dstest", "nemeses", "workloads", "checkers", "clusters")
_PLUGINS: Final = "dstest."
_NOT_OF_TASKS: Final = frozenset({"dev", "notebook", "otel"})
"""Extras that no task of a worker needs; pyarrow alone is as large as the rest."""

_PUT_S: Final = 900.0
_REACH_S: Final = 60.0
_PART_BYTES: Final = 1 << 20


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
    """dstest with what is here of its extras, what brings plug-ins, and what these require; each
    once."""
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
            extra = extra_with(name)
            remedy = install_command(extra) if extra else pip_install(name)
            raise HarnessError(f"{name} is required and not here", remedy=remedy) from None
        yield distribution
        for text in distribution.requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                waiting.append(wanted.name)


def _of_extras() -> Iterator[str]:
    """What our extras bring and is installed here: a driver that is here is one that tasks need."""
    from packaging.requirements import Requirement

    found = importlib.metadata.distribution("dstest")
    extras = {*(found.metadata.get_all("Provides-Extra") or ())} - _NOT_OF_TASKS
    here = {one.metadata["Name"].lower() for one in importlib.metadata.distributions()}
    for wanted in map(Requirement, found.requires or ()):
        marker = wanted.marker
        asked = marker and any(marker.evaluate({"extra": extra}) for extra in extras)
        if asked and wanted.name.lower() in here:
            yield wanted.name


def _roots() -> Iterable[str]:
    with_plugins = (
        distribution.metadata["Name"]
        for distribution in importlib.metadata.distributions()
        if any(point.group.startswith(_PLUGINS) for point in distribution.entry_points)
    )
    return dict.fromkeys(["dstest", "distributed", *_of_extras(), *with_plugins])


_RECEIVE: Final = """\
set -eu
home=$1 sum=$2 version=$3 machine=$4
python=$(command -v "python$version") || { echo "no python$version here" >&2; exit 3; }
[ "$(uname -m)" = "$machine" ] || { echo "$(uname -m), not $machine" >&2; exit 3; }
mkdir -p "$home"
part=$(mktemp -d "$home/.part.XXXXXX")
trap 'rm -rf "$part"' EXIT
cat >"$part/bundle.tar.gz"
echo "$sum  $part/bundle.tar.gz" | sha256sum --check --quiet --strict >&2
if [ ! -d "$home/$sum" ]; then
    tar -xzf "$part/bundle.tar.gz" --no-same-owner -C "$part"
    chmod 755 "$part"
    rm "$part/bundle.tar.gz"
    mv -T "$part" "$home/$sum"
fi
cat >"$home/.python.$$" <<END
#!/bin/sh
PYTHONPATH=$home/$sum/lib exec $python -P "\\$@"
END
chmod 755 "$home/.python.$$"
"$home/.python.$$" -c 'import checkers._core, distributed, dstest; print(dstest.__version__)'
mv -f "$home/.python.$$" "$home/python"
"""


def receive(bundle: Bundle, home: str) -> list[str]:
    """The command of a machine that reads a bundle from its standard input, and says the version
    of dstest that runs there then."""
    return ["sh", "-c", _RECEIVE, "sh", home, bundle.sha256, bundle.python, bundle.machine]


async def put(hosts: Sequence[str], bundle: Bundle, home: str = HOME) -> dict[str, str]:
    """Lay it on each; by host empty, or why it is not there."""
    found = await asyncio.gather(*(_put(host, bundle, home) for host in hosts))
    return dict(zip(hosts, found, strict=True))


async def unreachable(hosts: Sequence[str]) -> dict[str, str]:
    """By host empty, or why it cannot be reached."""
    found = await asyncio.gather(*map(_reached, hosts))
    return dict(zip(hosts, found, strict=True))


async def _reached(host: str) -> str:
    import asyncssh

    try:
        async with asyncio.timeout(_REACH_S), asyncssh.connect(host):
            return ""
    except (OSError, TimeoutError, asyncssh.Error, LabError) as error:
        return f"{reason_of(error)} (try `ssh {host} true`)"


async def _put(host: str, bundle: Bundle, home: str) -> str:
    import asyncssh

    argv = receive(bundle, home)
    try:
        async with asyncio.timeout(_PUT_S), asyncssh.connect(host) as connection:
            process = await connection.create_process(shlex.join(argv), encoding=None)
            await _send(process, Path(bundle.path))
            done = await process.wait()
    except (OSError, TimeoutError, asyncssh.Error, LabError) as error:
        return reason_of(error)
    said = _text(done.stdout)
    if done.exit_status != 0:
        return _text(done.stderr)[-500:] or f"ended with {done.exit_status}"
    return "" if said == __version__ else f"there it is dstest {said}, not {__version__}"


def _text(said: Any) -> str:
    return bytes(said or b"").decode(errors="replace").strip()


async def _send(process: Any, path: Path) -> None:
    """The archive; a machine that has refused it reads no further."""
    try:
        with path.open("rb") as file:
            while part := file.read(_PART_BYTES):
                process.stdin.write(part)
                await process.stdin.drain()
        process.stdin.write_eof()
    except (BrokenPipeError, ConnectionError):
        return
