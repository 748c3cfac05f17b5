"""One machine as the user's list names it, before anybody has logged in there."""

from __future__ import annotations

import getpass
import os
import re
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.core.errors import ConfigError

_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}\$?")
_HOST: Final = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]{0,253}")

ASK: Final = "ask"
"""As a sudo password: whoever adopts is asked for it."""


Form = Literal["toml", "ansible", "ssh"]
_TERMS: Final[dict[str, dict[Form, str]]] = {
    "address": {
        "toml": 'address = "..." in the list',
        "ansible": "dstest_address=... for it in the inventory (ansible_host, if SSH goes there)",
        "ssh": "HostName ... for it in the configuration",
    },
    "address6": {
        "toml": 'address6 = "..."',
        "ansible": "dstest_address6=...",
        "ssh": "a list in TOML",
    },
    "sudo_password": {
        "toml": 'sudo_password = { file = "PATH" } in the list',
        "ansible": "ansible_become_password for it in the inventory",
        "ssh": 'a list in TOML, which has sudo_password = { file = "PATH" }',
    },
}


def who() -> str:
    """Who logs in where a list names nobody: who calls us, as for ssh and Ansible."""
    return getpass.getuser()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where SSH answers. `keys` are files of private keys, tried in this order; `agent` is the
    socket of an agent whose keys are tried after them. `known_hosts` are the files whose host keys
    are trusted; `accepts_new`: the list says that one which is in none of them is taken."""

    host: str
    port: int = 22
    user: str = msgspec.field(default_factory=who)
    keys: tuple[str, ...] = ()
    agent: str = ""
    known_hosts: tuple[str, ...] = ()
    accepts_new: bool = False

    def __post_init__(self) -> None:
        """Raises ConfigError for what could be taken for something else than a name."""
        if not _USER.fullmatch(self.user):
            raise ConfigError(
                f"{self.user!r} is no name of a user", remedy="a name such as admin, without blanks"
            )
        if not _HOST.fullmatch(self.host):
            raise ConfigError(
                f"{self.host!r} is no name or address of a machine",
                remedy="a name, or an address of IPv4 or IPv6",
            )
        if not 1 <= self.port <= 65535:
            raise ConfigError(
                f"{self.host}: there is no port {self.port}", remedy="a port from 1 to 65535"
            )

    @property
    def where(self) -> str:
        """`user@host:port`."""
        return f"{self.user}@{self.host}:{self.port}"


class HostEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`alias` is what the user calls it. `address` and `address6` are those that other nodes and
    clients use; names are looked up, and what is empty is that of SSH. `password_path` is a file
    with the sudo password, `ASK` means to ask for one, empty means that sudo asks for none. `form`
    is that of the list, in whose terms remedies are."""

    alias: str
    ssh: Place
    jumps: tuple[Place, ...] = ()
    address: str = ""
    address6: str = ""
    password_path: str = ""
    password: str = ""
    roles: tuple[str, ...] = ()
    form: Form = "toml"

    def term(self, name: str) -> str:
        """What the user's list calls a setting of TOML's."""
        return _TERMS[name][self.form]

    def __repr__(self) -> str:
        return f"HostEntry({self.alias}, {self.ssh.where})"


def expanded(path: str) -> str:
    """The path with `~` and variables replaced."""
    return str(Path(os.path.expandvars(path)).expanduser())


def split_place(text: str) -> tuple[str, str, int | None]:
    """User, host and port of `user@host:port`, `[fd00::1]:22` and the like; what is not said is
    empty or None."""
    user, _, rest = text.rpartition("@")
    host, colon, port = rest.rpartition(":")
    bracketed = rest.startswith("[")
    if colon and port.isdigit() and (host.endswith("]") if bracketed else ":" not in host):
        return user, host.strip("[]"), int(port)
    return user, rest.strip("[]"), None
