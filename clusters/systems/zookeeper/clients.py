"""Clients of the library `kazoo`."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from clusters.supervise import BlockingClient
from dstest.core.protocols import Definite, Endpoint, OpDraft

CONFLICT: Final = "conflict"
TRIES: Final = 12


class Session:
    """A session of the library `kazoo`, which is not told to retry."""

    def __init__(self, address: str, port: int, wait_s: float) -> None:
        from kazoo.client import KazooClient

        self.client = KazooClient(
            hosts=f"{address}:{port}",
            timeout=wait_s,
            connection_retry={"max_tries": 0},
            command_retry={"max_tries": 0},
        )
        try:
            self.client.start(timeout=wait_s)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with suppress(Exception):
            self.client.stop()
            self.client.close()


class RegisterClient(BlockingClient):
    """read, write, cas of a node's data."""

    def connect(self, to: Endpoint) -> Session:
        return Session(to.dial or to.address, to.port, self.wait_s)

    def _do(self, act: str, *given: Any, **more: Any) -> Any:
        asked = getattr(self.link(self.at).client, f"{act}_async")(*given, **more)
        return asked.get(timeout=self.wait_s)

    def _read(self, path: str) -> tuple[Any, int]:
        """The value and its version; -1 where there is none."""
        reads = self.options["reads"]
        if reads == "sync":
            self._do("sync", "/")
        if reads != "confirmed":
            return self._get(path)
        for _ in range(TRIES):
            value, version = self._get(path)
            if self._is_latest(path, version):
                return value, version
        raise Definite(CONFLICT)

    def _is_latest(self, path: str, version: int) -> bool:
        """Does a transaction, which changes nothing, find this version?"""
        deal = self.link(self.at).client.transaction()
        if version < 0:
            deal.create(path)
            deal.delete(path)
        else:
            deal.check(path, version)
        results = deal.commit_async().get(timeout=self.wait_s)
        return not any(isinstance(result, Exception) for result in results)

    def _get(self, path: str) -> tuple[Any, int]:
        from kazoo.exceptions import NoNodeError

        try:
            data, stat = self._do("get", path)
        except NoNodeError:
            return None, -1
        return json.loads(data), stat.version

    def _write(self, path: str, value: Any) -> None:
        from kazoo.exceptions import NodeExistsError, NoNodeError

        data = json.dumps(value).encode()
        try:
            self._do("set", path, data)
        except NoNodeError:
            try:
                self._do("create", path, data)
            except NodeExistsError:
                self._do("set", path, data)

    def _cas(self, path: str, old: Any, new: Any) -> bool:
        """However reads are done, only the latest value says that it held something else. A version
        that has moved on says nothing of the value: it is read again."""
        from kazoo.exceptions import BadVersionError

        for _ in range(TRIES):
            value, version = self._get(path)
            if version >= 0 and value == old:
                with suppress(BadVersionError):
                    self._do("set", path, json.dumps(new).encode(), version=version)
                    return True
            elif self._is_latest(path, version):
                return False
        raise Definite(CONFLICT)

    async def do_read(self, op: OpDraft) -> Any:
        return (await self.blocking(self._read, f"/register-{op.key}"))[0]

    async def do_write(self, op: OpDraft) -> None:
        await self.blocking(self._write, f"/register-{op.key}", op.input)

    async def do_cas(self, op: OpDraft) -> bool:
        return bool(await self.blocking(self._cas, f"/register-{op.key}", *op.input))
