"""Which etcd client offers which capability."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from clusters.systems.etcd.clients.holds import EtcdLeaseClient, EtcdLockClient
from clusters.systems.etcd.clients.objects import (
    EtcdBankClient,
    EtcdCounterClient,
    EtcdGroupClient,
    EtcdIdClient,
    EtcdLedgerClient,
    EtcdQueueClient,
    EtcdSetClient,
)
from clusters.systems.etcd.clients.register import DEFINITE_ERRORS, EtcdClient
from clusters.systems.etcd.clients.streams import EtcdLogClient, EtcdSessionClient, EtcdWatchClient
from clusters.systems.etcd.clients.txn import EtcdTxnClient
from dstest.core.protocols import Client

__all__ = ["CLIENTS", "DEFINITE_ERRORS"]

CLIENTS: Final[Mapping[str, Callable[[str, str, Mapping[str, Any]], Client]]] = {
    "bank": EtcdBankClient,
    "counter": EtcdCounterClient,
    "group": EtcdGroupClient,
    "ledger": EtcdLedgerClient,
    "lease": EtcdLeaseClient,
    "lock": EtcdLockClient,
    "log": EtcdLogClient,
    "queue": EtcdQueueClient,
    "register": EtcdClient,
    "session": EtcdSessionClient,
    "set": EtcdSetClient,
    "txn-append": EtcdTxnClient,
    "txn-register": EtcdTxnClient,
    "unique-ids": EtcdIdClient,
    "watch": EtcdWatchClient,
}
