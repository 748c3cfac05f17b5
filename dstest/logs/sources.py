"""Where lines come from: the logs that a run kept, a directory of logs, or files."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from dstest.core.errors import ConfigError, HistoryError
from dstest.core.printable import one_line

LINE_MAX: Final = 1 << 20
"""Bytes of one line; what is longer is read as several."""

_COLORS: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_PACKED: Final = (".gz",)
_UNREADABLE: Final = {".zst": "zstd -d", ".xz": "xz -d", ".bz2": "bunzip2"}
_ROTATED: Final = re.compile(r"(?:\.\d+)?(?:\.gz)?$")


class Source(NamedTuple):
    """A file of one node's log; `shown` is how evidence names it."""

    node: str
    path: Path
    shown: str


def files_below(folder: Path) -> list[Path]:
    """Regular files in it, by name. Raises ConfigError where it cannot be read."""
    try:
        return sorted(p for p in folder.iterdir() if p.is_file() and not p.is_symlink())
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}", remedy="check the path") from None


def node_sources(folder: Path, root: Path, leave_out: Sequence[str] = ()) -> list[Source]:
    """A directory per node, with its logs."""
    return [
        Source(node.name, path, path.relative_to(root).as_posix())
        for node in sorted(folder.iterdir())
        if node.is_dir() and not node.is_symlink()
        for path in files_below(node)
        if path.name not in leave_out
    ]


def sources_of(paths: Sequence[Path]) -> list[Source]:
    """Directories, with a directory or a file for each node, and files. Raises ConfigError where
    there is nothing."""
    found: list[Source] = []
    alone: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = node_sources(path, path)
            inside += [Source(_stem(p), p, p.name) for p in files_below(path)]
            if not inside:
                raise ConfigError(
                    f"{path} holds no log",
                    remedy="give a run, a directory with one directory per node, or files",
                )
            found += inside
        elif path.is_file():
            alone.append(path)
        else:
            why = "is no file" if path.exists() else "is not there"
            raise ConfigError(f"{path} {why}", remedy="check the path; -- before one like --x")
    stems = [_stem(path) for path in alone]
    for path, stem in zip(alone, stems, strict=True):
        same = stems.count(stem) > 1 and len({p.parent for p in alone}) > 1
        found.append(Source(path.resolve().parent.name if same else stem, path, str(path)))
    for source in found:
        if (suffix := source.path.suffix) in _UNREADABLE:
            raise ConfigError(
                f"{source.path} is packed as {suffix}",
                remedy=f"unpack it first: {_UNREADABLE[suffix]} {source.path.name}",
            )
    return found


def _stem(path: Path) -> str:
    """`n1` of n1.log, n1.log.1 and n1.log.2.gz."""
    name = _ROTATED.sub("", path.name)
    return name.rsplit(".", 1)[0] if "." in name.lstrip(".") else name or path.name


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        if path.suffix in _PACKED:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked  # type: ignore[misc]
        else:
            yield file


def each_line(source: Source) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of each line that is not empty, as it is read. Raises HistoryError
    where the file cannot be read to its end."""
    number = 0
    try:
        with _opened(source.path) as file:
            while data := file.readline(LINE_MAX):
                number += 1
                text = data.decode("utf-8", "replace").replace("\x00", "")
                if "\x1b" in text:
                    text = _COLORS.sub("", text)
                if text := text.rstrip():
                    yield number, text
    except (OSError, EOFError) as error:
        why = one_line(str(getattr(error, "strerror", None) or error))
        raise HistoryError(
            f"{source.path}: {why}", line=number + 1, remedy="fetch the log again: it is cut off"
        ) from None
