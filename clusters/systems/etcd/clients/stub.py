"""A gRPC channel to one etcd member."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from clusters.systems.etcd.wire import METHODS, STREAMS, message

CLIENT_PORT: Final = 2379

_CHANNEL_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.use_local_subchannel_pool", 1),
)


class Stub:
    """A gRPC channel to one member with one callable per method of `METHODS` and `STREAMS`.

    With a `token`, every call carries it. `calls` counts what was handed to the library.
    """

    def __init__(self, address: str, token: str = "") -> None:
        import grpc.aio

        target = f"[{address}]" if ":" in address else address
        self.channel = grpc.aio.insecure_channel(
            f"{target}:{CLIENT_PORT}", options=_CHANNEL_OPTIONS
        )
        self.calls = 0
        self._ready = grpc.ChannelConnectivity.READY
        metadata = (("token", token),)
        for name, (path, request, response) in METHODS.items():
            call = self.channel.unary_unary(
                path,
                request_serializer=message(request).SerializeToString,
                response_deserializer=message(response).FromString,
            )
            setattr(self, name, self._counted(partial(call, metadata=metadata) if token else call))
        for name, (path, request, response) in STREAMS.items():
            stream = self.channel.stream_stream(
                path,
                request_serializer=message(request).SerializeToString,
                response_deserializer=message(response).FromString,
            )
            made = partial(stream, metadata=metadata) if token else stream
            setattr(self, name, self._counted(made))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **fields: Any) -> Any:
            self.calls += 1
            return call(*args, **fields)

        return counted

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    @property
    def ready(self) -> bool:
        """Is there a connection right now? Starts one where there is none."""
        state = self.channel.get_state(try_to_connect=True)
        return bool(state == self._ready)

    async def close(self) -> None:
        await self.channel.close(grace=None)
