"""The first login at machines of the user's: whose host keys are trusted, which key opens.

What has been found is written down as a `Login` with the host key pinned, so that every later
connection asks for exactly this machine, with exactly this key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import asyncssh

from clusters.labs.existing.entry import Place
from clusters.remote.login import KeyRefused, open_login
from dstest.core.errors import LabError, reason_of
from dstest.core.node import Login

Accept = Callable[[str, str, bool], bool]
KNOWN_HOSTS: Final = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts")
KEYS: Final = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
KNOWN_BYTES_MAX: Final = 1 << 24


class Arrived:
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
    places: Sequence[Place],
    *,
    pinned_path: str,
    accept: Accept,
    deadline_s: float,
) -> Arrived:
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
        return Arrived(connection, logins, lines)
    except BaseException:
        if connection is not None:
            connection.abort()
        raise


class _Step:
    def __init__(
        self,
        name: str,
        place: Place,
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
