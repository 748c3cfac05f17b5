"""The part of etcd's v3 gRPC API that we use, as protobuf message classes made at first use.

Field numbers are those of etcd's `rpc.proto` and `kv.proto`. The classes are built from the table
below instead of from generated code, so that no code generator and no pinned protobuf version is
needed.
"""

from __future__ import annotations

import functools
from typing import Any, Final

_PACKAGE: Final = "dstest.etcd"

_MESSAGES: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
    "ResponseHeader": (
        ("cluster_id", 1, "uint64"),
        ("member_id", 2, "uint64"),
        ("revision", 3, "int64"),
        ("raft_term", 4, "uint64"),
    ),
    "KeyValue": (
        ("key", 1, "bytes"),
        ("create_revision", 2, "int64"),
        ("mod_revision", 3, "int64"),
        ("version", 4, "int64"),
        ("value", 5, "bytes"),
        ("lease", 6, "int64"),
    ),
    "RangeRequest": (
        ("key", 1, "bytes"),
        ("range_end", 2, "bytes"),
        ("limit", 3, "int64"),
        ("revision", 4, "int64"),
        ("sort_order", 5, "int32"),
        ("sort_target", 6, "int32"),
        ("serializable", 7, "bool"),
        ("min_mod_revision", 10, "int64"),
        ("min_create_revision", 12, "int64"),
    ),
    "RangeResponse": (
        ("header", 1, "ResponseHeader"),
        ("kvs", 2, "*KeyValue"),
        ("more", 3, "bool"),
        ("count", 4, "int64"),
    ),
    "PutRequest": (("key", 1, "bytes"), ("value", 2, "bytes"), ("lease", 3, "int64")),
    "PutResponse": (("header", 1, "ResponseHeader"),),
    "DeleteRangeRequest": (("key", 1, "bytes"), ("range_end", 2, "bytes")),
    "DeleteRangeResponse": (("header", 1, "ResponseHeader"), ("deleted", 2, "int64")),
    "RequestOp": (
        ("request_range", 1, "RangeRequest"),
        ("request_put", 2, "PutRequest"),
        ("request_delete_range", 3, "DeleteRangeRequest"),
    ),
    "ResponseOp": (
        ("response_range", 1, "RangeResponse"),
        ("response_put", 2, "PutResponse"),
        ("response_delete_range", 3, "DeleteRangeResponse"),
    ),
    "Compare": (
        ("result", 1, "int32"),
        ("target", 2, "int32"),
        ("key", 3, "bytes"),
        ("version", 4, "int64"),
        ("create_revision", 5, "int64"),
        ("mod_revision", 6, "int64"),
        ("value", 7, "bytes"),
    ),
    "TxnRequest": (
        ("compare", 1, "*Compare"),
        ("success", 2, "*RequestOp"),
        ("failure", 3, "*RequestOp"),
    ),
    "TxnResponse": (
        ("header", 1, "ResponseHeader"),
        ("succeeded", 2, "bool"),
        ("responses", 3, "*ResponseOp"),
    ),
    "LeaseGrantRequest": (("TTL", 1, "int64"), ("ID", 2, "int64")),
    "LeaseGrantResponse": (
        ("header", 1, "ResponseHeader"),
        ("ID", 2, "int64"),
        ("TTL", 3, "int64"),
        ("error", 4, "string"),
    ),
    "LeaseRevokeRequest": (("ID", 1, "int64"),),
    "LeaseRevokeResponse": (("header", 1, "ResponseHeader"),),
    "LeaseTimeToLiveRequest": (("ID", 1, "int64"),),
    "LeaseTimeToLiveResponse": (
        ("header", 1, "ResponseHeader"),
        ("ID", 2, "int64"),
        ("TTL", 3, "int64"),
        ("grantedTTL", 4, "int64"),
    ),
    "LeaseKeepAliveRequest": (("ID", 1, "int64"),),
    "LeaseKeepAliveResponse": (
        ("header", 1, "ResponseHeader"),
        ("ID", 2, "int64"),
        ("TTL", 3, "int64"),
    ),
    "Event": (("type", 1, "int32"), ("kv", 2, "KeyValue")),
    "WatchCreateRequest": (
        ("key", 1, "bytes"),
        ("range_end", 2, "bytes"),
        ("start_revision", 3, "int64"),
    ),
    "WatchRequest": (("create_request", 1, "WatchCreateRequest"),),
    "WatchResponse": (
        ("header", 1, "ResponseHeader"),
        ("watch_id", 2, "int64"),
        ("created", 3, "bool"),
        ("canceled", 4, "bool"),
        ("compact_revision", 5, "int64"),
        ("cancel_reason", 6, "string"),
        ("events", 11, "*Event"),
    ),
    "StatusRequest": (),
    "StatusResponse": (
        ("header", 1, "ResponseHeader"),
        ("version", 2, "string"),
        ("db_size", 3, "int64"),
        ("leader", 4, "uint64"),
        ("raft_index", 5, "uint64"),
        ("raft_term", 6, "uint64"),
        ("raft_applied_index", 7, "uint64"),
        ("errors", 8, "*string"),
    ),
    "HashKVRequest": (("revision", 1, "int64"),),
    "HashKVResponse": (
        ("header", 1, "ResponseHeader"),
        ("hash", 2, "uint32"),
        ("compact_revision", 3, "int64"),
    ),
    "CompactionRequest": (("revision", 1, "int64"), ("physical", 2, "bool")),
    "CompactionResponse": (("header", 1, "ResponseHeader"),),
    "Member": (
        ("ID", 1, "uint64"),
        ("name", 2, "string"),
        ("peerURLs", 3, "*string"),
        ("clientURLs", 4, "*string"),
        ("isLearner", 5, "bool"),
    ),
    "MemberListRequest": (),
    "MemberListResponse": (("header", 1, "ResponseHeader"), ("members", 2, "*Member")),
    "MemberRemoveRequest": (("ID", 1, "uint64"),),
    "MemberRemoveResponse": (("header", 1, "ResponseHeader"), ("members", 2, "*Member")),
    "AuthUserAddRequest": (("name", 1, "string"), ("password", 2, "string")),
    "AuthUserAddResponse": (("header", 1, "ResponseHeader"),),
    "AuthUserGrantRoleRequest": (("user", 1, "string"), ("role", 2, "string")),
    "AuthUserGrantRoleResponse": (("header", 1, "ResponseHeader"),),
    "AuthEnableRequest": (),
    "AuthEnableResponse": (("header", 1, "ResponseHeader"),),
}

METHODS: Final[dict[str, tuple[str, str, str]]] = {
    "range": ("/etcdserverpb.KV/Range", "RangeRequest", "RangeResponse"),
    "put": ("/etcdserverpb.KV/Put", "PutRequest", "PutResponse"),
    "txn": ("/etcdserverpb.KV/Txn", "TxnRequest", "TxnResponse"),
    "delete": ("/etcdserverpb.KV/DeleteRange", "DeleteRangeRequest", "DeleteRangeResponse"),
    "grant": ("/etcdserverpb.Lease/LeaseGrant", "LeaseGrantRequest", "LeaseGrantResponse"),
    "time_to_live": (
        "/etcdserverpb.Lease/LeaseTimeToLive",
        "LeaseTimeToLiveRequest",
        "LeaseTimeToLiveResponse",
    ),
    "revoke": ("/etcdserverpb.Lease/LeaseRevoke", "LeaseRevokeRequest", "LeaseRevokeResponse"),
    "status": ("/etcdserverpb.Maintenance/Status", "StatusRequest", "StatusResponse"),
    "hash_kv": ("/etcdserverpb.Maintenance/HashKV", "HashKVRequest", "HashKVResponse"),
    "compact": ("/etcdserverpb.KV/Compact", "CompactionRequest", "CompactionResponse"),
    "member_list": ("/etcdserverpb.Cluster/MemberList", "MemberListRequest", "MemberListResponse"),
    "member_remove": (
        "/etcdserverpb.Cluster/MemberRemove",
        "MemberRemoveRequest",
        "MemberRemoveResponse",
    ),
    "auth_user_add": ("/etcdserverpb.Auth/UserAdd", "AuthUserAddRequest", "AuthUserAddResponse"),
    "auth_user_grant": (
        "/etcdserverpb.Auth/UserGrantRole",
        "AuthUserGrantRoleRequest",
        "AuthUserGrantRoleResponse",
    ),
    "auth_enable": ("/etcdserverpb.Auth/AuthEnable", "AuthEnableRequest", "AuthEnableResponse"),
}
"""Short name -> (gRPC path, request message, response message)."""

STREAMS: Final[dict[str, tuple[str, str, str]]] = {
    "keepalive": (
        "/etcdserverpb.Lease/LeaseKeepAlive",
        "LeaseKeepAliveRequest",
        "LeaseKeepAliveResponse",
    ),
    "watch": ("/etcdserverpb.Watch/Watch", "WatchRequest", "WatchResponse"),
}
"""As `METHODS`, with a stream of requests and a stream of responses."""

COMPARE_EQUAL: Final = 0
COMPARE_CREATE: Final = 1
COMPARE_MOD: Final = 2
COMPARE_VALUE: Final = 3

SORT_ASCEND: Final = 1
SORT_DESCEND: Final = 2
SORT_BY_CREATE: Final = 2
SORT_BY_MOD: Final = 3

_TYPES: Final = {
    "bool": 8, "string": 9, "bytes": 12, "int32": 5, "int64": 3, "uint64": 4, "uint32": 13,
}  # fmt: skip
_MESSAGE_TYPE: Final = 11


@functools.cache
def _classes() -> dict[str, Any]:
    """Compare's enums are plain int32 fields here: the wire format is the same."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="dstest/etcd.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        entry = file.message_type.add(name=name)
        oneof = name in ("RequestOp", "ResponseOp")
        if oneof:
            entry.oneof_decl.add(name="choice")
        if name == "Compare":
            entry.oneof_decl.add(name="target_union")
        for field, number, kind in fields:
            repeated, kind = kind.startswith("*"), kind.lstrip("*")
            slot = entry.field.add(name=field, number=number, label=3 if repeated else 1)
            if kind in _TYPES:
                slot.type = _TYPES[kind]
            else:
                slot.type = _MESSAGE_TYPE
                slot.type_name = f".{_PACKAGE}.{kind}"
            if oneof or (name == "Compare" and number >= 4):
                slot.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


def after_prefix(prefix: bytes) -> bytes:
    """The `range_end` that makes a range out of a prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def message(name: str) -> Any:
    """The message class called `name`."""
    return _classes()[name]
