"""What all etcd clients share: a connection that is opened anew, and how many calls were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.systems.etcd.auth import token_for
from clusters.systems.etcd.clients.stub import Stub


class Dialed:
    """Base of the clients. `calls` counts what was handed to the gRPC library."""

    def __init__(self, node: str, address: str, options: Mapping[str, Any]) -> None:
        self._node = node
        self._address = address
        self._serializable = options.get("reads", "linearizable") == "serializable"
        self._token = token_for(options)
        self._stub: Stub | None = None
        self._calls_before = 0

    @property
    def calls(self) -> int:
        """Calls made so far, over all connections of this client."""
        return self._calls_before + (self._stub.calls if self._stub else 0)

    async def open(self) -> None:
        """Begin to connect; does not wait."""
        self._stub = Stub(self._address, self._token)
        self._stub.channel.get_state(try_to_connect=True)

    async def close(self) -> None:
        """Give the connection up."""
        if self._stub is not None:
            stub, self._stub = self._stub, None
            self._calls_before += stub.calls
            await stub.close()
