"""The processes that a chaos run starts, and their ends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError, HarnessError
from dstest.core.own_commands import environment

_GRACE_S: Final = 10.0
"""Until a service that was asked to end is killed."""


class Child:
    """`python -m dstest.chaos.child WORK`, spoken to by lines."""

    def __init__(self, work: str, start: Any) -> None:
        self.work = work
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dstest.chaos.child", work],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours to answer
            env=environment(),
        )
        self._send(start)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """The exit code, where it is over."""
        return self._process.poll()

    def ask(self, told: Any, within_s: float = 10.0) -> dict[str, Any]:
        """Send a line and read the answer. Raises HarnessError."""
        self._send(told)
        return self.answer(within_s)

    def answer(self, within_s: float = 30.0) -> dict[str, Any]:
        """The next line that it says. Raises HarnessError where none comes."""
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], within_s)
        line = out.readline() if ready else b""
        if not line:
            raise HarnessError(
                f"the process of the {self.work} said nothing within {within_s:g} s"
                if not ready
                else f"the process of the {self.work} ended (exit {self._process.wait()})",
                remedy="what was recorded until then stands: dstest chaos report DIR",
            )
        found: dict[str, Any] = msgspec.json.decode(line)
        return found

    def finish(self, within_s: float) -> bool:
        """End its input and wait. True where it ended by itself, having written all."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            return self._process.wait(within_s) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False

    def _send(self, told: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(told) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise HarnessError(
                f"the process of the {self.work} ended (exit {self._process.wait()})",
                remedy="what was recorded until then stands: dstest chaos report DIR",
            ) from None


class ServiceProcess:
    """The service, where its command was given: it ends with us, and so does what it started."""

    def __init__(self, command: Sequence[str], more: Mapping[str, str], log: Path) -> None:
        if shutil.which(command[0]) is None:
            raise ConfigError(
                f"[service] command {command[0]!r} is no program that is found",
                remedy="a program that is found on PATH, and its words one by one",
            )
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dstest.chaos.keeper", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **more},
            )
        self.log = log

    @property
    def ended(self) -> int | None:
        return self._process.poll()

    @property
    def pid(self) -> int:
        """Of the process from which all of it descends."""
        return self._process.pid

    def stop(self) -> None:
        """End all of it, kindly first."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
                return
