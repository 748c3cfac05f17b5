"""Which etcd client offers which capability; their library is imported with the first of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from dstest.core.protocols import Client, Endpoint

CLIENTS: Final = {
    "bank": ("objects", "EtcdBankClient"),
    "counter": ("objects", "EtcdCounterClient"),
    "group": ("objects", "EtcdGroupClient"),
    "ledger": ("objects", "EtcdLedgerClient"),
    "lease": ("objects", "EtcdLeaseClient"),
    "lock": ("objects", "EtcdLockClient"),
    "log": ("streams", "EtcdLogClient"),
    "queue": ("objects", "EtcdQueueClient"),
    "register": ("register", "EtcdClient"),
    "revisions": ("streams", "EtcdRevisionClient"),
    "session": ("streams", "EtcdSessionClient"),
    "set": ("objects", "EtcdSetClient"),
    "tenants": ("tenants", "EtcdTenantClient"),
    "txn-append": ("register", "EtcdTxnClient"),
    "txn-register": ("register", "EtcdTxnClient"),
    "unique-ids": ("objects", "EtcdIdClient"),
    "watch": ("streams", "EtcdWatchClient"),
}
"""Capability -> module and class."""


def client_of(capability: str, at: Endpoint, options: Mapping[str, Any]) -> Client:
    """A client at this endpoint. Raises ValueError for a capability that no client offers."""
    if capability not in CLIENTS:
        raise ValueError(f"etcd offers no {capability} client")
    module, name = CLIENTS[capability]
    kind = getattr(import_module(f"{__name__}.{module}"), name)
    client = kind(at.node, at.dial or at.address, options)
    client.port, client.root = at.port, at.prefix or client.root
    made: Client = client
    return made
