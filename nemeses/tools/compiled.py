"""Small C programs for the nodes: compiled here, static, so that a node needs nothing for them."""

from __future__ import annotations

import asyncio
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dstest.core.errors import FaultRefused, LabError
from dstest.core.residue import Residue

HOME: Final = "/opt/dstest"

TOOLS: Final = Residue(
    name="tools",
    mark=f"it is in {HOME}",
    look=f"""\
for path in /proc/[0-9]*; do
    case "$(readlink $path/exe)" in
    {HOME}/*) echo "ours process ${{path#/proc/}} ($(cat $path/comm))" ;;
    esac
done
[ ! -e {HOME} ] || echo "ours files in {HOME}"
""",
    remove=f"""\
for path in /proc/[0-9]*; do
    case "$(readlink $path/exe)" in {HOME}/*) kill -9 ${{path#/proc/}} ;; esac
done
rm -rf {HOME}
""",
    rank=90,
    routine=True,
)

FOLDER: Final = Path(__file__).parent / "csrc"
TIMEOUT_S: Final = 60.0
FLAGS: Final = ("-O2", "-std=gnu11", "-Wall", "-Wextra", "-static", "-s")


async def compile_tool(
    nemesis: str,
    sources: Sequence[str],
    *,
    flags: Sequence[str] = (),
    libraries: Sequence[str] = (),
    packages: str = "gcc libc6-dev",
) -> bytes:
    """The program made of files in csrc. Raises FaultRefused where this host cannot make it."""
    if platform.machine() != "x86_64":
        raise FaultRefused(
            f"{nemesis}: built for x86-64 only, this is {platform.machine()}",
            remedy="another --nemesis, or nodes of x86-64",
        )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "program"
        paths = [str(FOLDER / name) for name in sources]
        try:
            compiler = await asyncio.create_subprocess_exec(
                *("cc", *FLAGS, *flags, "-o", str(out), *paths, *libraries),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError:
            raise FaultRefused(
                f"{nemesis}: no C compiler", remedy=f"apt-get install {packages}"
            ) from None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                output, _ = await compiler.communicate()
        except TimeoutError:
            compiler.kill()
            raise LabError(f"{nemesis}: the compiler did not end") from None
        if compiler.returncode != 0:
            text = output.decode("utf-8", "replace").strip()[-300:]
            raise FaultRefused(
                f"{nemesis}: {sources[0]} does not compile: {text}",
                remedy=f"apt-get install {packages}",
            )
        return out.read_bytes()
