"""One machine as the user's list names it, and the first login there: whose host keys are trusted,
which key opens. Its outcome is written down as a `Login` with the host key pinned, so that every
later connection asks for exactly this machine, with exactly this key.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import asyncssh
import msgspec

from clusters.remote.login import KeyRefused, open_login
from dstest.core.errors import ConfigError, LabError, reason_of
from dstest.core.node import Login

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

Accept = Callable[[str, str, bool], bool]
KNOWN_HOSTS: Final = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts")
KEYS: Final = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
KNOWN_BYTES_MAX: Final = 1 << 24


def who() -> str:
    """Who logs in where a list names nobody: who calls us, as for ssh and Ansible."""
    return getpass.getuser()


class SshPlace(msgspec.Struct, frozen=True, kw_only=True):
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
    ssh: SshPlace
    jumps: tuple[SshPlace, ...] = ()
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


def expand(path: str) -> str:
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


class Arrival:
    """A connection that stands, how it came to be, and the lines that pin its host keys."""

    def __init__(
        self, connection: asyncssh.SSHClientConnection, logins: Sequence[Login], lines: list[str]
    ) -> None:
        self.connection = connection
        self.jumps = tuple(logins[:-1])
        self.login = logins[-1]
        self.lines = lines


async def arrive(
    name: str,
    places: Sequence[SshPlace],
    *,
    pinned_path: str,
    accept: Accept,
    deadline_s: float,
) -> Arrival:
    """Log in to the last of the places, through the others.

    `accept(where, fingerprint, listed)` is asked about a host key that no file knows; `listed`: the
    user's list says to take such. A key that differs from a known one is never accepted. Raises
    LabError.
    """
    logins, lines = [], []
    connection: asyncssh.SSHClientConnection | None = None
    try:
        for place in places:
            step = _Step(name, place, connection, accept, deadline_s)
            key = await step.host_key()
            connection, login = await step.log_in(key, pinned_path)
            logins.append(login)
            port = "" if place.port == 22 else f":{place.port}"
            host = f"[{place.host}]{port}" if port else place.host
            lines.append(f"{host} {key.export_public_key('openssh').decode().strip()}\n")
        assert connection is not None
        return Arrival(connection, logins, lines)
    except BaseException:
        if connection is not None:
            connection.abort()
        raise


class _Step:
    def __init__(
        self,
        name: str,
        place: SshPlace,
        through: asyncssh.SSHClientConnection | None,
        accept: Accept,
        deadline_s: float,
    ) -> None:
        self._place = place
        self._through = through
        self._accept = accept
        self._deadline_s = deadline_s
        self._name = name
        self._where = f"{name} ({place.where})"
        self._keys: list[asyncssh.SSHKey] = []
        self._authorities = False
        self._revoked: list[bytes] = []

    async def host_key(self) -> asyncssh.SSHKey:
        """The key that the machine shows, if it may be trusted."""
        place = self._place
        try:
            shown = await asyncssh.get_server_host_key(
                place.host, place.port, tunnel=self._through or (), config=None
            )
        except (asyncssh.Error, OSError) as error:
            raise LabError(
                f"{self._where} cannot be reached: {reason_of(error)}",
                remedy=f"try `ssh -p {place.port} {place.host}`, through its jump hosts, if any",
            ) from None
        if shown is None:
            raise LabError(f"{self._where} shows no host key")
        self._read_known()
        known = [k.public_data for k in self._keys]
        if shown.public_data in self._revoked:
            raise LabError(f"{self._where} shows a host key that was revoked")
        if shown.public_data in known:
            return shown
        # Its key may be of a kind that is not the known one's: then ask for a known kind.
        for algorithm in dict.fromkeys(k.get_algorithm() for k in self._keys):
            other = await self._shown(algorithm)
            if other is not None and other.public_data in {*known} - {*self._revoked}:
                return other
        if known:
            raise LabError(
                f"{self._where} shows another host key than the known one:"
                f" {shown.get_fingerprint()}",
                remedy="if the machine was set up anew: ssh-keygen -R HOST, and ssh to it once",
            )
        if not self._accept(self._where, shown.get_fingerprint(), place.accepts_new):
            signed = " (the authority that known_hosts names for it is not asked)"
            raise LabError(
                f"{self._where} shows a host key that nobody knows: {shown.get_fingerprint()}"
                + (signed if self._authorities else ""),
                remedy="compare it and ssh to the machine once, or --accept-host-keys",
            )
        return shown

    async def _shown(self, algorithm: str) -> asyncssh.SSHKey | None:
        place = self._place
        try:
            return await asyncssh.get_server_host_key(
                place.host,
                place.port,
                tunnel=self._through or (),
                config=None,
                server_host_key_algs=[algorithm],
            )
        except (asyncssh.Error, OSError):
            return None

    def _read_known(self) -> None:
        """What the user's files say of this machine."""
        for path in self._place.known_hosts or KNOWN_HOSTS:
            try:
                file = Path(path).expanduser()
                text = file.read_bytes()[:KNOWN_BYTES_MAX].decode(errors="replace")
                rows = asyncssh.import_known_hosts(text)
                place = self._place
                keys, authorities, revoked, *_ = rows.match(place.host, "", place.port)
                # With a port it forgets what was revoked where nothing else is known.
                also = rows.match(f"[{place.host}]:{place.port}", "", None)[2]
            except OSError:
                continue
            except ValueError as error:
                raise LabError(f"{path}: {error}") from None
            self._keys += keys
            self._authorities = self._authorities or bool(authorities)
            self._revoked += [key.public_data for key in [*revoked, *also]]

    async def log_in(
        self, key: asyncssh.SSHKey, pinned_path: str
    ) -> tuple[asyncssh.SSHClientConnection, Login]:
        """By the first key that opens."""
        place, refused = self._place, []
        for path, agent in self._ways():
            login = Login(
                host=place.host,
                port=place.port,
                user=place.user,
                key_path=path,
                agent_path=agent,
                known_hosts_path=pinned_path,
            )
            try:
                connection = await open_login(
                    self._name, login, self._through, self._deadline_s, host_key=key
                )
            except KeyRefused as error:
                refused.append(str(error.message))
            else:
                return connection, login
        raise LabError(
            f"{self._where} lets nobody in: {'; '.join(refused) or 'there is no key to try'}",
            remedy="name a key that it accepts, or start an ssh-agent that has it",
        )

    def _ways(self) -> list[tuple[str, str]]:
        """(key file, agent's socket) to try."""
        place = self._place
        keys = [str(Path(path).expanduser()) for path in place.keys or KEYS]
        if place.keys and not any(map(os.path.exists, keys)):
            if not place.agent:
                raise LabError(
                    f"{self._where}: there is no key {', '.join(keys)}",
                    remedy="name one that is there, or leave it out for your usual ones",
                )
            keys = []
        ways = [(path, "") for path in keys if os.path.exists(path)]
        return [*ways, *([("", place.agent)] if place.agent else [])]
