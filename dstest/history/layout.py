"""One run's directory, what seals it, and what is read of it again.

    store/<name>/<utc>-<seed>/  status run.json schedule.json segments/ host.jsonl history.jsonl
                                faults.jsonl verdict.json report.html findings.md junit.xml plots/
                                nodes/<n>/ metrics/ plugins/ run.log sha256sums
    store/latest -> the newest run

While a run goes there is `live.json` besides (`core.run_record`), which is no part of it. `status`
is `running` while a run lasts and is replaced atomically, so that a crash is visible. A ballast
file keeps some space back: when the disk fills, it is given up so that the run can heal, seal and
say so.

Since schema 2 a fact is in one file: `verdict.json` has the verdict with its evidence, what each
checker answered, what came of the broken copies (`canary`) and the summary; `run.json` what was
asked for and how it went. `history.jsonl` and `faults.jsonl` are made of the segments, which have
the plan, too; `schedule.json` is it as `--schedule` takes it. In schema 1 `evidence.json` and
`canary.json` stood beside the verdict, `spec.toml` beside run.json, and the landing records were in
run.json, too; of these only canary.json is read.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec
from msgspec import UNSET

from dstest.core import clock, limits
from dstest.core.errors import ConfigError, EvidenceError, HarnessError
from dstest.core.evidence import Canary, LandingRecord
from dstest.core.log_lines import PACKED
from dstest.core.recordable import not_json
from dstest.core.run_record import RunMeta
from dstest.core.verdict import Verdict
from dstest.core.words import shell_word
from dstest.history.sums import SIGNATURE, SUMS, sign, sums_of

PLUGINS: Final = "plugins"
"""Folder of a run directory with the user's own files of plug-ins, as they were."""

EVENTS: Final = "simulation.log"
"""In the directory of a simulated run: what happened, message by message, on its clock."""

VERDICT: Final = "verdict.json"
FAULTS: Final = "faults.jsonl"
_CANARY: Final = "canary.json"

_BEFORE: Final = ("evidence.json", _CANARY)
"""Of schema 1: what a verdict that is written anew replaces."""

HISTORY: Final = "history.jsonl"
_CHUNK: Final = 1 << 20


def disk_full(path: Path, error: OSError) -> HarnessError:
    """The error that a full or failing store disk ends a run with."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "no space left" if full else str(error.strerror)
    return HarnessError(
        f"cannot record: {why} on the disk of {path}",
        remedy=f"{way_out(path, error)}, then `dstest recover {shell_word(path)}`; "
        "what was recorded is kept",
    )


def way_out(path: Path, error: OSError) -> str:
    """What helps where a file below `path` could not be written."""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"make {path} writable, or copy it to where it is"
    return "free space there"


def link_latest(store: Path, path: Path) -> None:
    """`store/latest` -> `path`, replaced atomically."""
    link = store / ".latest.new"
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(path, store.resolve()))
    link.replace(store / "latest")


def require_within(store: Path, name: str) -> None:
    """Raises ConfigError for a name that is no folder below the store."""
    if Path(name).is_absolute() or ".." in Path(name).parts or not Path(name).parts:
        raise ConfigError(
            f"what is called {name!r} would lie outside {store}",
            remedy="a name without .. that does not begin with /",
        )


def new_directory(store: Path, name: str, seed: int) -> Path:
    """A directory `store/name/<utc>-<seed>` that was not there. Raises HarnessError where the store
    cannot be written."""
    require_within(store, name)
    stamp = clock.utc_stamp()
    for attempt in range(100):
        suffix = f"-{attempt}" if attempt else ""
        path = store / name / f"{stamp}-{seed}{suffix}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise no_directory(store, error) from None
        return path.resolve()
    raise ConfigError(
        f"{store / name}: a hundred runs within one second",
        remedy="run it again in a moment, or give another --store",
    )


def no_directory(store: Path, error: OSError) -> HarnessError:
    """The error that a store which cannot be written ends with."""
    return HarnessError(
        f"cannot make a run directory in {store}: {error.strerror}",
        remedy="free space, or choose another place with --store DIR",
    )


@contextmanager
def whole(store: Path, path: Path) -> Iterator[None]:
    """What a new directory of the store begins with is put into it here: all of it is, or the
    directory is taken away. Raises HarnessError where the store cannot be written."""
    try:
        yield
    except (OSError, HarnessError) as error:
        shutil.rmtree(path, ignore_errors=True)
        if path.parent != store.resolve():
            with suppress(OSError):
                path.parent.rmdir()  # that of its name, where nothing else is in it
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(cause, OSError):
            raise no_directory(store, cause) from None
        raise


def write_file(directory: Path, name: str, data: bytes) -> Path:
    """Write a file below `directory` atomically; its own directory is made where needed."""
    target = directory / name
    partial = target.with_name(target.name + ".partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        partial.replace(target)
    except OSError as error:
        raise disk_full(directory, error) from None
    return target


def opened_log(path: Path) -> TextIO:
    """A log of a run directory as text, compressed or not, to be read line by line."""
    if path.suffix == PACKED:
        return gzip.open(path, "rt", errors="replace")
    return path.open(errors="replace")


class RunDir:
    """Paths and atomic writes inside one run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.segments = path / "segments"
        self.history = path / "history.jsonl"
        self.plots = path / "plots"
        self.nodes = path / "nodes"
        self._ballast = path / ".ballast"

    @classmethod
    def create(cls, store: Path, name: str, seed: int) -> RunDir:
        """A new run directory with status `running`."""
        run = cls(new_directory(store, name, seed))
        with whole(store, run.path):
            run.segments.mkdir()
            run.write_status("running")
            run._reserve()
        return run

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """An existing run directory; ConfigError where `path` is none."""
        if (path / "session.json").is_file():
            raise ConfigError(f"{path} is a session", remedy="give one of its runs, below arms/")
        if not (path / "segments").is_dir():
            raise ConfigError(
                f"{path} is not a run directory",
                remedy="give a directory such as store/latest or store/<name>/<utc>-<seed>",
            )
        return cls(path.resolve())

    def _reserve(self) -> None:
        fd = os.open(self._ballast, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.posix_fallocate(fd, 0, limits.BALLAST_BYTES)
        finally:
            os.close(fd)

    def give_up_ballast(self) -> None:
        """Give the reserved space back."""
        try:
            self._ballast.unlink(missing_ok=True)
        except OSError as error:
            raise disk_full(self.path, error) from None

    def write(self, name: str, data: bytes | str) -> Path:
        """Write a file atomically; its directory is made where needed."""
        return write_file(self.path, name, data.encode() if isinstance(data, str) else data)

    def write_json(self, name: str, value: Any) -> Path:
        """Write a value as indented JSON. Raises HarnessError where nobody could read it."""
        if odd := not_json(value):
            raise HarnessError(
                f"cannot write {name} of {self.path}: {odd}, which no JSON file can hold",
                remedy="correct the plug-in that gave this value",
            )
        text = json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False, allow_nan=False)
        return self.write(name, text + "\n")

    def read_json(self, name: str) -> Any:
        """Read a JSON file of the run, None where there is none."""
        path = self.path / name
        try:
            return msgspec.json.decode(path.read_bytes()) if path.is_file() else None
        except PermissionError as error:
            raise EvidenceError(
                f"{path} cannot be read: {error.strerror}", remedy="make it readable"
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise EvidenceError(
                f"{path} cannot be read: {error}",
                remedy="it was cut off or changed; restore it from where the run was made",
            ) from None

    def read_meta(self) -> RunMeta | None:
        """run.json, None where there is none. Raises EvidenceError where it cannot be read."""
        plain = self.read_json("run.json")
        if plain is None:
            return None
        try:
            return RunMeta.of(plain)
        except msgspec.ValidationError as error:
            raise EvidenceError(
                f"{self.path / 'run.json'} cannot be read: {error}",
                remedy="it was cut off or changed; restore it from where the run was made",
            ) from None

    def write_meta(self, meta: RunMeta) -> None:
        """Write run.json."""
        self.write_json("run.json", meta.plain)

    def write_status(self, status: str) -> None:
        """One word (or `verdict: X`), replaced atomically."""
        self.write("status", status + "\n")

    def status(self) -> str:
        """The current status; empty where the file is missing."""
        path = self.path / "status"
        return path.read_text(errors="replace").strip() if path.is_file() else ""

    def write_sums(self, sign_key: Path | None = None) -> None:
        """`sha256sums` over every file of the run, signed if a key is given."""
        (self.path / SIGNATURE).unlink(missing_ok=True)
        self.write(SUMS, sums_of(self.path))
        if sign_key is not None:
            sign(self.path, sign_key)


def read_verdict(run: Path) -> Verdict:
    """Raises OSError, and msgspec.MsgspecError, ValueError or RecursionError for what is none."""
    verdict: Verdict = msgspec.json.decode((run / VERDICT).read_bytes(), type=Verdict)
    beside = run / _CANARY
    if verdict.canary is not UNSET or not beside.is_file():
        return verdict
    canary = msgspec.json.decode(beside.read_bytes(), type=Canary)
    return msgspec.structs.replace(verdict, canary=canary)


def write_verdict(run: RunDir, verdict: Verdict) -> None:
    """Also of a run of schema 1, which then is of schema 2 in this. Raises OSError."""
    run.write_json(VERDICT, verdict)
    for name in _BEFORE:
        (run.path / name).unlink(missing_ok=True)


def read_records(run: Path) -> list[LandingRecord]:
    """The landing records; none where the file is not there. Raises as `read_verdict`."""
    path = run / FAULTS
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return [msgspec.json.decode(line, type=LandingRecord) for line in lines if line]


def recorded_name(run: Path) -> str:
    """What its history says that its directory was called; empty where it cannot be read."""
    try:
        with (run / HISTORY).open("rb") as file:
            line = file.readline()
        return str(msgspec.json.decode(line).get("run") or "")
    except (OSError, msgspec.DecodeError, AttributeError, UnicodeDecodeError, RecursionError):
        return ""


def operations_bytes(history: Path) -> int:
    """How many bytes the operations of a history take: the same for the same operations. Raises
    OSError."""
    with history.open("rb") as file:
        head = len(file.readline())
        return os.fstat(file.fileno()).st_size - head


def operations_digest(history: Path) -> str:
    """Of the operations of a history, whatever its first line says; empty where it has none. Two
    runs never take the same nanoseconds. Raises OSError."""
    found, some = hashlib.sha256(), False
    with history.open("rb") as file:
        file.readline()
        while chunk := file.read(_CHUNK):
            some = True
            found.update(chunk)
    return found.hexdigest() if some else ""


class Distinct:
    """Runs that were made of one at `run`, in `below`: each is to be counted once, and is to be a
    run of its own. Those of a simulation may have the same operations: one made again has."""

    def __init__(self, run: Path, below: Path, *, simulated: bool) -> None:
        self._below, self._simulated = below.resolve(), simulated
        self._by_bytes: dict[int, list[Path]] = {}
        with suppress(OSError):
            self._by_bytes[operations_bytes(run / HISTORY)] = [run.resolve()]

    def why_not(self, path: Path) -> str:
        """Why a run does not count beside those that were asked about before, as the rest of a
        sentence about it; empty where it does."""
        run = path.resolve()
        if not run.is_relative_to(self._below):
            return f"is no run of its own: it does not lie in {self._below}"
        try:
            before = self._by_bytes.setdefault(operations_bytes(run / HISTORY), [])
            twin = next((one for one in before if self._same(one, run)), None)
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        before.append(run)
        if run.name != (made_as := recorded_name(run)):
            return f"is no run of its own: it was made as {made_as or 'no run'}"
        if twin is not None:
            return f"is no run of its own: it recorded what {twin.name} did, at the same times"
        return ""

    def _same(self, one: Path, other: Path) -> bool:
        if one == other:
            return True
        if self._simulated:
            return False
        digests = {operations_digest(run / HISTORY) for run in (one, other)}
        return len(digests) == 1 and digests != {""}


@contextmanager
def locked(path: Path, busy: ConfigError | None = None) -> Iterator[None]:
    """One process at a time: hold the lock of this file, made where it is not there, until the end
    of the block. Where another process holds it: raises `busy`, or waits where that is None.

    The kernel takes the lock back when its process ends.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    except OSError as error:
        raise disk_full(path.parent, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if busy is None else fcntl.LOCK_NB))
        except OSError:
            if busy is None:
                raise
            raise busy from None
        yield


def is_locked(path: Path) -> bool:
    """Does a process hold the lock of this file? Nothing is made or changed."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
