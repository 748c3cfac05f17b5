"""One run's directory.

    store/<name>/<utc>-<seed>/  status spec.toml run.json segments/ history.jsonl faults.jsonl
                                evidence.json verdict.json report.html findings.md junit.xml
                                plots/ nodes/<n>/ sha256sums
    store/latest -> the newest run

`status` is `running` while a run lasts and is replaced atomically, so that a crash is visible.
A ballast file keeps some space back: when the disk fills, it is given up so that the run can heal,
seal and say so.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import msgspec

from dstest.core import clock, limits
from dstest.core.errors import ConfigError, HarnessError

__all__ = ["RunDir", "disk_full", "link_latest", "write_file"]


def disk_full(path: Path, error: OSError) -> HarnessError:
    """The error that a full or failing store disk ends a run with."""
    why = "no space left" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error.strerror)
    return HarnessError(
        f"cannot record: {why} on the disk of {path}",
        remedy=f"free space there, then `dstest recover {path}`; what was recorded is kept",
    )


def link_latest(store: Path, path: Path) -> None:
    """`store/latest` -> `path`, replaced atomically."""
    link = store / ".latest.new"
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(path, store.resolve()))
    link.replace(store / "latest")


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
        """A new run directory with status `running` and `store/latest` pointing to it."""
        stamp = clock.utc_stamp()
        try:
            for attempt in range(100):
                suffix = f"-{attempt}" if attempt else ""
                path = store / name / f"{stamp}-{seed}{suffix}"
                try:
                    path.mkdir(parents=True)
                    break
                except FileExistsError:
                    continue
            else:
                raise ConfigError(f"{store / name}: a hundred runs within one second")
            run = cls(path.resolve())
            run.segments.mkdir()
            run.write_status("running")
            run._reserve()
            link_latest(store, run.path)
        except OSError as error:
            raise HarnessError(
                f"cannot make a run directory in {store}: {error.strerror}",
                remedy="free space, or choose another place with --store DIR",
            ) from None
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
        self._ballast.unlink(missing_ok=True)

    def write(self, name: str, data: bytes | str) -> Path:
        """Write a file atomically; its directory is made where needed."""
        return write_file(self.path, name, data.encode() if isinstance(data, str) else data)

    def write_json(self, name: str, value: Any) -> Path:
        """Write a value as indented JSON."""
        text = json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)
        return self.write(name, text + "\n")

    def read_json(self, name: str) -> Any:
        """Read a JSON file of the run, None where there is none."""
        path = self.path / name
        return msgspec.json.decode(path.read_bytes()) if path.is_file() else None

    def write_status(self, status: str) -> None:
        """One word (or `verdict: X`), replaced atomically."""
        self.write("status", status + "\n")

    def status(self) -> str:
        """The current status; empty where the file is missing."""
        path = self.path / "status"
        return path.read_text().strip() if path.is_file() else ""

    def write_sums(self) -> None:
        """`sha256sums` over every file of the run but itself, as `sha256sum -c` reads it."""
        rows = []
        for path in sorted(self.path.rglob("*")):
            name = path.relative_to(self.path).as_posix()
            if path.is_file() and name not in ("sha256sums", ".ballast", "status"):
                with path.open("rb") as file:
                    rows.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
        self.write("sha256sums", "".join(rows))
