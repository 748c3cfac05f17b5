"""After which errors an operation on etcd had no effect, and where that is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dstest.core.protocols import NOT_HELD

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
