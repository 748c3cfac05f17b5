"""Where commands write for CI servers: places that are free to be written, and empty.

A green file of yesterday must not outlive a command that failed today: what a command names is
removed before it looks at any run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from dstest.cli.output import DEVICES
from dstest.core.errors import ConfigError

OF_OUT: Final[Mapping[str, str]] = {
    "--junit": "junit.xml",
    "--sarif": "results.sarif",
    "--prometheus": "metrics.prom",
    "--summary": "summary.md",
}
"""Flag of a format -> the name of its file in the directory of --out of `dstest report`."""

_OF_A_RUN: Final = ("run.json", "verdict.json", "evidence.json")
_APPENDED: Final = "--summary"
"""It is appended to what others have written."""


def clear(
    places: Mapping[str, Path | None],
    runs: Sequence[Path],
    of_out: Collection[str] = tuple(OF_OUT.values()),
) -> None:
    """Remove the old files of these places, by flag; those of `--out` are called as `of_out` has
    it. Raises ConfigError, when all that may be removed is, where one of them lies in evidence, is
    asked for twice, or stays."""
    wrong: list[ConfigError] = []
    seen: dict[Path, str] = {}
    for flag, path in _files(places, of_out):
        place = path.resolve()
        own = path.parent.resolve() / path.name  # of a link: it may be evidence by itself
        evidence = _evidence(place, runs) or _evidence(own, runs)
        if evidence is not None:
            wrong.append(
                ConfigError(
                    f"{flag} {path} lies within {evidence}, whose files are evidence",
                    remedy="choose a place beside it",
                )
            )
            continue
        device = path.exists() and not path.is_file()
        if place in seen and not device:
            wrong.append(
                ConfigError(
                    f"{seen[place]} and {flag} are both to be written to {path}",
                    remedy="give each a file of its own",
                )
            )
        seen.setdefault(place, flag)
        if flag != _APPENDED:
            try:
                remove([path], flag)
            except ConfigError as error:
                wrong.append(error)
    if wrong:
        raise wrong[0]


def remove(files: Iterable[Path], flag: str, reads: Path | None = None) -> None:
    """Remove those of these files that are there: of a link the link itself, never what it points
    to. Devices, pipes and links to them stay. Raises ConfigError, naming `flag` as the remedy, for
    the first that stays else, or that the command is yet to read (`reads`)."""
    for path in files:
        try:
            if reads is not None and path.resolve() == reads.resolve():
                raise ConfigError(
                    f"{reads} is read, and would be written over", remedy=f"choose another {flag}"
                )
            device = (path.exists() and not path.is_file()) or path.parent in DEVICES
            if not device and (path.is_symlink() or path.is_file()):
                path.unlink()
        except OSError as error:
            raise ConfigError(
                f"the old {path} cannot be removed: {error.strerror}",
                remedy=f"choose another {flag}",
            ) from None


def _files(
    places: Mapping[str, Path | None], of_out: Collection[str]
) -> Iterator[tuple[str, Path]]:
    for flag, path in places.items():
        if path is None:
            continue
        if flag == "--out":
            yield from ((flag, path / name) for name in of_out)
        else:
            yield flag, path


def _evidence(place: Path, runs: Sequence[Path]) -> Path | None:
    """What is asked about and holds this place, or a run or session that does."""
    from dstest.retention.walk import kind_of

    for run in runs:
        if place.is_relative_to(run.resolve()):
            return run
    for above in place.parents:
        if kind_of(above) in ("run", "session") or any((above / n).is_file() for n in _OF_A_RUN):
            return above
    return None
