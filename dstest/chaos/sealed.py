"""The sums of a run's logs: what was changed after its end is no evidence."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from dstest.chaos.places import CONFIG, ENTRIES, HOST, PASSED, PHASES, SERVICE, SUMS
from dstest.core.errors import EvidenceError

_NAMES: Final = (CONFIG, ENTRIES, HOST, PASSED, PHASES, SERVICE)


def _sums(directory: Path) -> str:
    lines = []
    for name in _NAMES:
        path = directory / name
        if path.is_file():
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def seal(directory: Path) -> None:
    """At the end of a run: nothing is written to its logs any more."""
    (directory / SUMS).write_text(_sums(directory), encoding="ascii")


def sealed(directory: Path) -> str:
    """The sums of a run that came to its end; empty where it did not. Raises EvidenceError where
    its files are others now."""
    try:
        said = (directory / SUMS).read_text(encoding="ascii")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{directory / SUMS}: {error}", remedy="run it again") from None
    if said != _sums(directory):
        mine = set(_sums(directory).splitlines())
        other = sorted(line.partition("  ")[2] for line in set(said.splitlines()) ^ mine)
        raise EvidenceError(
            f"{directory}: {', '.join(dict.fromkeys(other))}: not as at the end of the run",
            remedy="run it again; what was changed proves nothing",
        )
    return said
