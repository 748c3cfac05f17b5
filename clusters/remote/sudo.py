"""Becoming root on a node: nothing where root has logged in, else sudo, with a password or without.

The password goes over the channel's standard input when sudo asks for it, and never into a command
line, an environment, a log or a message.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

HEARD_MAX: Final = 8000
"""Of what comes before sudo lets us pass; a lecture is shorter."""


def password_of(path: str) -> bytes:
    """The first line of the file. Raises LabError where it cannot be read, or others can."""
    file = Path(path)
    try:
        mode = file.stat().st_mode
        text = file.read_bytes()
    except OSError as error:
        raise LabError(f"the sudo password cannot be read: {error}") from None
    if mode & 0o077:
        raise LabError(
            f"{path} holds a password and others may read it", remedy=f"chmod 600 {path}"
        )
    line = text.partition(b"\n")[0].rstrip(b"\r")
    if not line or b"\0" in line:
        raise LabError(f"{path} holds no password", remedy="its first line is the password")
    return line


class Sudo:
    """One command on one node, run as root.

    sudo = Sudo(info)
    ... start sudo.command(argv); give what it says on stderr to heard(), its end to ended()
    await sudo.passed(write)    # from here on standard input is the command's own
    """

    def __init__(self, info: NodeInfo) -> None:
        self._name = info.name
        self._needed = info.user != "root"
        self._password = (
            password_of(info.sudo_password_path)
            if self._needed and info.sudo_password_path
            else None
        )
        token = secrets.token_hex(8)
        self._asks = f"dstest-asks-{token}:"
        self._ready = f"dstest-ready-{token}"
        self._heard = b""
        self._news = asyncio.Event()
        self._end: str | None = None
        self._answered = 0

    def command(self, argv: Sequence[str]) -> str:
        """For the login shell of the node."""
        words = list(argv)
        if self._password is not None:
            # Whatever a session before has left must not decide whether sudo asks.
            ready = f"echo {self._ready} >&2; exec {shlex.join(words)}"
            words = ["sudo", "-k", "-S", "-p", self._asks, "sh", "-c", ready]
        elif self._needed:
            words = ["sudo", "-n", *words]
        return "exec " + shlex.join(words)

    def heard(self, data: bytes) -> None:
        """What the command has said on standard error."""
        if self._password is not None:
            self._heard = (self._heard + data)[-HEARD_MAX:]
            self._news.set()

    def ended(self, said: str) -> None:
        """The command's channel is gone; `said` were its last words."""
        self._end = said
        self._news.set()

    def told(self, text: str) -> str:
        """What was said, without our own words in it."""
        return text.replace(self._asks, "").replace(self._ready, "")

    @property
    def said(self) -> str:
        """All that was heard, without our own words in it."""
        return self.told(self._heard.decode(errors="replace")).strip()

    @property
    def through(self) -> bool:
        """Does the command run, so that standard input is its own?"""
        return self._password is None or self._ready.encode() in self._heard

    @property
    def rest(self) -> bytes:
        """What the command itself has said on standard error by now, where it runs."""
        return self._heard.partition(self._ready.encode() + b"\n")[2]

    def due(self) -> bytes | None:
        """What is to be written next, if anything is. Raises LabError where sudo refuses."""
        if self.through or self._password is None:
            return None
        times = self._heard.count(self._asks.encode())
        if times > 1 or self._end is not None:
            why = "refuses the password" if times > 1 else f"ends: {self._end}"
            raise LabError(
                f"{self._name}: sudo {why}",
                remedy="`sudo -k; sudo -v` on the node tells more; `dstest lab adopt` takes another"
                " password",
            )
        if times == self._answered:
            return None
        self._answered = times
        return self._password + b"\n"

    async def passed(self, write: Callable[[bytes], None]) -> None:
        """Returns once the command runs. Raises LabError where sudo refuses it."""
        while not self.through:
            if (data := self.due()) is not None:
                write(data)
            self._news.clear()
            await self._news.wait()
