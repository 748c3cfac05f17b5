"""What a worker does: one cell, as the command of dstest that it is."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dstest.core import clock
from dstest.core.errors import ConfigError
from dstest.fan.task import Place

__all__ = ["LOG", "STORE", "given_files", "run_cell"]

LOG: Final = "log.txt"
STORE: Final = "store"
_FILE_BYTES_MAX: Final = 256 << 20


def given_files(paths: Sequence[str]) -> dict[str, bytes]:
    """Files of the user's that a cell needs, by their paths here. A directory does not travel: it
    has to be on the worker under the same path. Raises ConfigError where one cannot be read."""
    given = {}
    for path in map(Path, paths):
        if path.is_dir():
            continue
        try:
            if path.stat().st_size > _FILE_BYTES_MAX:
                raise ConfigError(f"{path} is larger than {_FILE_BYTES_MAX} bytes")
            given[str(path)] = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{path}: {error.strerror}", remedy="a cell of the night needs this file"
            ) from None
    return given


def run_cell(
    place: Place, argv: Sequence[str], files: dict[str, bytes], limit_s: float
) -> tuple[int, float]:
    """Run it. The exit code of its command, which decides nothing (its run directory does), and the
    seconds that it took."""
    begun_ns = clock.monotonic_ns()
    with tempfile.TemporaryDirectory(prefix="dstest-given-") as folder:
        words = list(argv)
        for number, (path, data) in enumerate(files.items()):
            if _same(Path(path), data):
                continue
            copy = Path(folder, str(number), Path(path).name)
            copy.parent.mkdir()
            copy.write_bytes(data)
            words = [word.replace(path, str(copy)) for word in words]
        where = ["--store", str(place.folder / STORE), "--lab-id", place.lab_id, "--json"]
        code = place.command([*words, *where], place.folder / LOG, limit_s=limit_s)
    return code, (clock.monotonic_ns() - begun_ns) / 1e9


def _same(path: Path, data: bytes) -> bool:
    """Does the worker have this file itself?"""
    try:
        return path.read_bytes() == data
    except OSError:
        return False
