"""What all etcd clients share: a gRPC channel to one member that is opened anew, how many calls and
HTTP/2 requests were made, and the errors after which an operation had no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from clusters.systems.etcd.on_node import token_for
from clusters.systems.etcd.wire import METHODS, STREAMS, message
from dstest.core.protocols import NOT_HELD

CLIENT_PORT: Final = 2379

ROOT: Final = "/dstest"
"""All keys of clients begin with it, where no endpoint says otherwise."""

_CHANNEL_OPTIONS: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.use_local_subchannel_pool", 1),
)

CONFLICT: Final = "conflict"

DEFINITE_ERRORS: Final[Mapping[str, str]] = {
    "not-connected": (
        "ours: the connection was not READY before the call, so no byte of it was sent"
    ),
    CONFLICT: (
        "etcd's rpc.proto, TxnRequest: 'success is a list of requests which will be applied when "
        "compare evaluates to true'; it did not, and there are no others"
    ),
    "expired": (
        "etcd's rpc.proto, LeaseKeepAliveResponse: 'TTL is the new time-to-live for the lease'; "
        "etcd answers 0 for a lease that it does not know any more"
    ),
    NOT_HELD: (
        "ours: the client holds nothing that it could renew or release, so nothing is sent; or a "
        "release whose compare did not succeed, see above"
    ),
    "read phase": "ours: the client reads before it writes anything, and the read failed",
    "grant phase": "ours: the client asks for a lease before it writes anything, and got none",
    "unsupported operation": "ours: the client knows no such operation, and sends nothing",
    "INVALID_ARGUMENT": (
        "gRPC status codes: 'The client specified an invalid argument'; etcd checks a request's "
        "shape before it proposes it"
    ),
    "UNIMPLEMENTED": (
        "gRPC status codes: 'The operation is not implemented or is not supported/enabled in this "
        "service'"
    ),
    "PERMISSION_DENIED": (
        "gRPC status codes: 'The caller does not have permission to execute the specified "
        "operation'"
    ),
    "UNAUTHENTICATED": (
        "gRPC status codes: 'The request does not have valid authentication credentials for the "
        "operation'"
    ),
}
"""Error code -> where it is documented that the request had no effect. All others are unknown:
UNAVAILABLE in particular, of which gRPC says that the server may have seen the request."""

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEAD: Final = 9
_HEADERS: Final = 1


class Stub:
    """A gRPC channel to one member with one callable per method of `METHODS` and `STREAMS`.

    With a `token`, every call carries it. `calls` counts what was handed to the library.
    """

    def __init__(self, address: str, token: str = "", port: int = CLIENT_PORT) -> None:
        import grpc.aio

        target = f"[{address}]" if ":" in address else address
        self.channel = grpc.aio.insecure_channel(f"{target}:{port}", options=_CHANNEL_OPTIONS)
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


class MemberClient:
    """Base of the clients. `calls` counts what was handed to the gRPC library. `port` and `root`
    are set before it is opened, where they are others."""

    port = CLIENT_PORT
    root = ROOT

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
        self._stub = Stub(self._address, self._token, self.port)
        self._stub.channel.get_state(try_to_connect=True)

    async def close(self) -> None:
        """Give the connection up."""
        if self._stub is not None:
            stub, self._stub = self._stub, None
            self._calls_before += stub.calls
            await stub.close()


class Http2Requests:
    """Requests on the wire of an HTTP/2 client. `feed` takes what one connection sends, in any
    pieces; `requests` counts so far.

    A request is a HEADERS frame that opens a stream (RFC 9113, sections 4.1 and 6.2): gRPC sends
    one for each call, whether the program or the library itself asked for it. What does not begin
    as HTTP/2 does is not counted: `known` is false then.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.known = True
        self._head = bytearray()
        self._skip = 0
        self._begun = False
        self._streams_max = 0

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        at = 0
        while at < len(data) and self.known:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            wanted = _FRAME_HEAD if self._begun else len(_PREFACE)
            step = min(wanted - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == wanted:
                self._whole(bytes(self._head))
                self._head.clear()

    def _whole(self, head: bytes) -> None:
        if not self._begun:
            self._begun = True
            self.known = head == _PREFACE
            return
        self._skip = int.from_bytes(head[:3], "big")
        stream = int.from_bytes(head[5:9], "big") & 0x7FFFFFFF
        # Streams of a client are opened in rising order: a lower one is a trailer of an old stream.
        if head[3] == _HEADERS and stream > self._streams_max:
            self._streams_max = stream
            self.requests += 1
