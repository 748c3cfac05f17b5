"""A bundle laid on machines that are reached by SSH, as `ssh HOST` reaches them.

It is there as a whole or not at all: unpacked aside, its sum checked on the machine, tried, and
only then named by `HOME/python`, which is what workers are started with.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dstest import __version__
from dstest.core.errors import LabError, reason_of
from dstest.fan.bundle import HOME, Bundle

_PUT_S: Final = 900.0
_REACH_S: Final = 60.0
_PART_BYTES: Final = 1 << 20

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
