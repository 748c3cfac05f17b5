"""`dstest` and `python -m dstest`: a Ctrl-C while all is still being imported is one, too."""

from __future__ import annotations

import os
import signal
from types import FrameType

__all__ = ["main"]

_INTERRUPTED = 130


def _early(signum: int, frame: FrameType | None) -> None:
    os.write(2, b"dstest: interrupted\n")
    os._exit(_INTERRUPTED)


def main() -> None:
    """Console entry point."""
    usual = signal.signal(signal.SIGINT, _early)
    from dstest.cli import app

    signal.signal(signal.SIGINT, usual)
    app.main()


if __name__ == "__main__":
    main()
