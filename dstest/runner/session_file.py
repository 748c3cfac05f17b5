"""A session's own directory: which arms it has, what became of each, and its verdict.

    store/<name>-session/<utc>-<seed>/  session.json  status  session.md  junit.xml
                                        arms/<arm>/<utc>-<seed>/   a run directory each

`session.json` is replaced atomically at each step, so that a session that was killed can go on
where it stopped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.evidence import Tier
from dstest.core.run_record import RunSpec
from dstest.history.layout import link_latest, new_directory, whole, write_file
from dstest.history.sums import SIGNATURE, SUMS, compare_sums, sign, sums_of

_FILE = "session.json"


class ArmState(msgspec.Struct, kw_only=True):
    """One arm. `attempts` are its run directories, relative to the session's, oldest first; the
    last one counts; `tries` counts those too that made none. `why` says what kept the last one
    from a verdict.
    """

    id: str
    nodes: int
    seed: int
    done: bool = False
    tries: int = 0
    attempts: list[str] = msgspec.field(default_factory=list)
    why: str = ""


class SessionFile(msgspec.Struct, kw_only=True):
    """What a session is to do. `spec` has the first arm's seed and size; the arms have their own.

    `verdict` is the session's, as data, None until every arm is done. An arm that fails is run
    again `confirm` times, by its seed and its faults, beside the session.
    """

    schema: Literal["dstest.session/1"] = "dstest.session/1"
    spec: RunSpec
    options_given: list[str]
    tier: Tier
    attempts_max: int
    arms: list[ArmState]
    started: str
    pid: int = 0
    pid_start_time: int | None = None
    lab_id: str | None = None
    own_lab: str | None = None
    confirm: int = 0
    verdict: Any = None


class SessionDir:
    """Paths and atomic writes of one session."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arms = path / "arms"

    @classmethod
    def create(cls, store: Path, name: str, seed: int) -> SessionDir:
        """A new directory; `store/latest` points to it."""
        found = cls(new_directory(store, f"{name}-session", seed))
        with whole(store, found.path):
            found.arms.mkdir()
            link_latest(store, found.path)
        return found

    @classmethod
    def open(cls, path: Path) -> SessionDir:
        """An existing session; ConfigError where `path` is none."""
        if not is_session(path):
            raise ConfigError(
                f"{path} is not a session directory",
                remedy="give the directory that holds session.json, such as store/latest",
            )
        return cls(path.resolve())

    def read(self) -> SessionFile:
        """The session's file. ConfigError where it cannot be read."""
        path = self.path / _FILE
        try:
            return msgspec.json.decode(path.read_bytes(), type=SessionFile)
        except (msgspec.DecodeError, OSError, RecursionError) as error:
            raise ConfigError(
                f"{path} cannot be read: {error}",
                remedy="its arms are run directories of their own: `dstest report ARM`",
            ) from None

    def write(self, file: SessionFile) -> None:
        """Replace the session's file."""
        text = msgspec.json.format(msgspec.json.encode(file), indent=2)
        write_file(self.path, _FILE, text + b"\n")

    def write_sums(self, sign_key: Path | None = None) -> None:
        """`sha256sums` over all files of the session and its runs, signed if a key is given."""
        (self.path / SIGNATURE).unlink(missing_ok=True)
        write_file(self.path, SUMS, sums_of(self.path).encode())
        if sign_key is not None:
            sign(self.path, sign_key)

    def intact(self) -> None:
        """Raises EvidenceError where a file is not as it was summed up at the session's end."""
        try:
            differences = compare_sums(self.path).describe()
        except OSError as error:
            differences = f"{SUMS} cannot be read: {error.strerror}"
        if differences:
            raise EvidenceError(
                f"{self.path}: files are not as {SUMS} has them: {differences}",
                remedy="do not believe this copy; take the session from where it was made",
            )

    def write_text(self, name: str, text: str) -> None:
        write_file(self.path, name, text.encode())

    def relative(self, run: Path) -> str:
        """A run directory's name inside this session."""
        return os.path.relpath(run, self.path)


def is_session(path: Path) -> bool:
    """Does a session live there?"""
    return (path / _FILE).is_file()


def runs_of(path: Path) -> list[Path]:
    """The run directories of a run or a session: of each arm the one that counts."""
    if not is_session(path):
        return [path]
    file = SessionDir.open(path).read()
    return [path / arm.attempts[-1] for arm in file.arms if arm.attempts]
