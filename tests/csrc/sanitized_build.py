"""Programs of the C core under AddressSanitizer and UndefinedBehaviorSanitizer.

A file is compiled once in a session for all tests that need it, whichever process runs them.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["HERE", "ROUNDS", "SanitizedBuild"]

HERE = Path(__file__).parent
CSRC = Path(__file__).resolve().parents[2] / "checkers" / "csrc"
ROUNDS = int(os.environ.get("DSTEST_ROUNDS", "1"))
"""How many times what `make test` tries: `make sanitize` tries more."""
GLUE = ("module.c", "buffers.c", "buffers_owned.c")
FLAGS = (
    *("-std=c11", "-g1", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror", f"-I{CSRC}"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)

INCLUDE = re.compile(r'^ *# *include "([^"]+)"', re.MULTILINE)


class SanitizedBuild:
    """Makes programs; `objects` is a folder for what was compiled before."""

    def __init__(self, compiler: str, objects: Path) -> None:
        self._compiler = compiler
        self._objects = objects
        self._texts: dict[Path, str] = {}

    def program(
        self,
        folder: Path,
        harness: Sequence[str],
        patterns: str,
        defines: Sequence[str] = (),
        link: Sequence[str] = (),
    ) -> str:
        """The path of one that is made in a folder: of harness files beside this one, and files of
        the core; the glue to Python is not among them. Each define must matter to one of them."""
        core = {p for pattern in patterns.split() for p in CSRC.glob(pattern)}
        files = [p for p in sorted(core) if p.name not in GLUE and not p.name.endswith("_module.c")]
        sources = [*(HERE / name for name in harness), *files]
        given = {p: self._that_matter(p, defines) for p in sources}
        unused = set(defines).difference(*given.values())
        assert not unused, f"nothing reads {unused}"
        made = [str(self._object(p, given[p])) for p in sources]
        path = str(folder / "driver")
        self._run([*FLAGS, *made, *link, "-o", path])
        return path

    def _read(self, source: Path) -> str:
        """A file with all that it includes."""
        if source not in self._texts:
            found, waiting = dict[Path, str](), [source]
            while waiting:
                path = waiting.pop().resolve()
                if path not in found:
                    found[path] = path.read_text()
                    for name in INCLUDE.findall(found[path]):
                        places = (folder / name for folder in (path.parent, CSRC))
                        waiting.append(next(place for place in places if place.is_file()))
            self._texts[source] = "".join(found[path] for path in sorted(found))
        return self._texts[source]

    def _that_matter(self, source: Path, defines: Sequence[str]) -> list[str]:
        text = self._read(source)
        names = {one: one.removeprefix("-D").partition("=")[0] for one in defines}
        return [one for one, name in names.items() if re.search(rf"\b{name}\b", text)]

    def _object(self, source: Path, defines: Sequence[str]) -> Path:
        text = self._read(source)
        key = hashlib.sha256("\0".join([str(source), text, *defines]).encode()).hexdigest()[:16]
        made = self._objects / f"{source.stem}-{key}.o"
        if not made.exists():
            # Another process may be compiling it as well, to the same object.
            mine = made.with_suffix(f".{os.getpid()}.o")
            self._run([*FLAGS, *defines, "-c", str(source), "-o", str(mine)])
            mine.replace(made)
        return made

    def _run(self, words: Sequence[str]) -> None:
        done = subprocess.run([self._compiler, *words], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
