"""Files that can be read once only: pipes, `/dev/stdin`, what a shell calls `<(..)`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dstest.core.errors import HistoryError, MemorySpent

_CHUNK: Final = 1 << 20


@contextmanager
def readable_again(path: Path, limit_mb: int) -> Iterator[Path]:
    """The path itself where it is a file, a directory or nothing; else a file with what came out of
    it, until the end of the block: what looks at the first bytes would take them from who reads.

    Raises HistoryError where it cannot be read, MemorySpent where that is more than the limit.
    """
    if path.is_file() or path.is_dir() or not path.exists():
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="dstest-") as copy:
        left = limit_mb << 20
        try:
            with path.open("rb", buffering=0) as source:
                while part := source.read(_CHUNK):
                    left -= len(part)
                    if left < 0:
                        raise MemorySpent(
                            f"more than {limit_mb} MB came out of {path}",
                            remedy="a larger --budget-mb, or a part of the history",
                        )
                    copy.write(part)
            copy.flush()
        except OSError as error:
            raise HistoryError(
                f"cannot read {path}: {error.strerror}", remedy="give a file"
            ) from None
        yield Path(copy.name)
