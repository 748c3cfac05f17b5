"""The server of toykv: `python3 -m clusters.systems.toykv.agents.main --help`.

With `--bootstrap` and no data the servers that `--cluster` names are the members, all of them.
Without it a server on no data asks them to be let in as a new member.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from clusters.systems.toykv.agents.real import lines_into, opened, real_around
from clusters.systems.toykv.agents.server import Server

__all__ = ["main"]


def _lines(path: str) -> Callable[[str], object] | None:
    file = opened(path)
    return None if file is None else partial(print, file=file)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(prog="toykv")
    parser.add_argument("--name", required=True)
    parser.add_argument("--cluster", required=True, help="NAME=HOST:PEER_PORT,..")
    parser.add_argument("--address", required=True, help="where it listens")
    parser.add_argument("--client-port", type=int, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--bootstrap", action="store_true")
    parser.add_argument("--join", default="", help="file that says how: voter or learner")
    parser.add_argument("--audit", default="", help="file for what was applied")
    parser.add_argument("--spans", default="", help="file for what was done for whom")
    parser.add_argument("--journal", default="", help="file for the steps of the protocol")
    parser.add_argument("--bug", default="none")
    given = parser.parse_args()
    around = real_around(Path(given.data))
    around.spans, around.audit = (_lines(path) for path in (given.spans, given.audit))
    if given.journal:
        around.keep = lines_into(given.journal)
    how = Path(given.join)
    votes = not how.is_file() or how.read_text() != "learner"
    asyncio.run(Server(given, around, votes).run())


if __name__ == "__main__":
    main()
