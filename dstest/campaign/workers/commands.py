"""What a worker does for whoever wants a run: a command of dstest, with the files that it names."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from dstest.campaign.steps.commands import last_words
from dstest.campaign.workers.task import TaskResult, Workspace
from dstest.core import clock
from dstest.core.errors import ConfigError
from dstest.core.run_words import lab_id_words

LOG: Final = "log.txt"
STORE: Final = "store"
IMAGE_S: Final = 1800.0
"""The most that a system's packages take to be fetched and put into an image."""

_FILE_BYTES_MAX: Final = 256 << 20


def given_files(paths: Sequence[str]) -> dict[str, bytes]:
    """Files of the user's that a command needs, by their paths here. A directory does not travel:
    it has to be on the worker under the same path. Raises ConfigError where one cannot be read."""
    given = {}
    for path in map(Path, paths):
        if path.is_dir():
            continue
        try:
            if path.stat().st_size > _FILE_BYTES_MAX:
                raise ConfigError(
                    f"{path} is larger than {_FILE_BYTES_MAX} bytes",
                    remedy="leave out of it what the commands do not need",
                )
            given[str(path)] = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{path}: {error.strerror}", remedy="a run on a worker needs this file"
            ) from None
    return given


def image_words(
    lab: str | None, system: str, builds: Iterable[str], files: Iterable[str]
) -> list[str]:
    """The words behind `dstest` that make what a lab of a system begins from, with builds at these
    paths and plug-ins in these files."""
    words = ["lab", "image", *(("--lab", lab) if lab else ()), "--system", system]
    words += [word for path in builds for word in ("--system-version", path)]
    return [*words, *(word for path in files for word in ("--plugin", path))]


def run_command(
    place: Workspace,
    image: Sequence[str],
    argv: Sequence[str],
    files: dict[str, bytes],
    limit_s: float,
) -> tuple[int, float]:
    """Run it, once what its lab begins from is there: that is made once on each worker, in a time
    of its own. The exit code of its command, which decides nothing (its run directory does), and
    the seconds that it took."""
    with tempfile.TemporaryDirectory(prefix="dstest-given-") as folder:
        copies = _copies(files, Path(folder))
        if image and (code := _make(place, _placed(image, copies))) != 0:
            return code, 0.0
        begun_ns = clock.monotonic_ns()
        where = ["--store", str(place.folder / STORE), *lab_id_words(argv, place.lab_id)]
        words = [*_placed(argv, copies), *where, "--json"]
        code = place.command(words, place.folder / LOG, limit_s=limit_s)
        return code, (clock.monotonic_ns() - begun_ns) / 1e9


def why_no_run(done: TaskResult) -> str:
    """Why a `run_command` has left no run: what went wrong around it, else its last words. Where it
    was lost, or its directory did not arrive, the log tells of something else, or of nothing."""
    if done.error:
        return done.error
    log = None if done.folder is None else done.folder / LOG
    if log is None or not log.is_file():
        return "it left nothing"
    return last_words(log, None if done.value is None else done.value[0])


def _make(place: Workspace, words: Sequence[str]) -> int:
    """Make the image; the exit code. What was said stays where it cannot be made."""
    log = place.folder / LOG
    code = place.command(words, log, limit_s=IMAGE_S)
    if code == 0:
        log.unlink()
    return code


def _placed(words: Sequence[str], copies: dict[str, str]) -> list[str]:
    """With the copies in the place of paths that are a whole word, or a part of a list."""
    return [
        copies.get(word) or ",".join(copies.get(p, p) for p in word.split(",")) for word in words
    ]


def _copies(files: dict[str, bytes], folder: Path) -> dict[str, str]:
    """Where the files are whose like this worker does not have under their own paths."""
    copies = {}
    for number, (path, data) in enumerate(files.items()):
        if _same(Path(path), data):
            continue
        copy = folder / str(number) / Path(path).name
        copy.parent.mkdir()
        copy.write_bytes(data)
        copies[path] = str(copy)
    return copies


def _same(path: Path, data: bytes) -> bool:
    """Does the worker have this file itself?"""
    try:
        return path.read_bytes() == data
    except OSError:
        return False
