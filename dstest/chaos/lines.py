"""JSON lines that are written soon, and between processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec

_FLUSH_S: Final = 0.1


class Written:
    """A file that grows by lines; what is not a tenth of a second old may be lost with the
    process."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        self._encoder = msgspec.json.Encoder()
        self._lines: list[bytes] = []

    def add(self, record: Any) -> None:
        self._lines.append(self._encoder.encode(record))

    def flush(self) -> None:
        """Raises OSError where the disk has no room."""
        if self._lines:
            lines, self._lines = self._lines, []
            self._file.write(b"\n".join(lines) + b"\n")
            self._file.flush()

    async def keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            self.flush()

    def close(self) -> None:
        self.flush()
        self._file.close()


async def stdin_lines() -> asyncio.StreamReader:
    """Standard input, to be read by lines."""
    import sys

    reader = asyncio.StreamReader(limit=16 * 1024 * 1024)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader
