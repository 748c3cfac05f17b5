"""What members of etcd are asked about themselves, for `dstest monitor`: some of `/metrics`.

Names are those of etcd 3.4 (https://etcd.io/docs/v3.4/metrics/). A page has a hundred kilobytes, so
it is asked for every other second.
"""

from __future__ import annotations

from typing import Final

from clusters.systems.etcd.clients.stub import CLIENT_PORT
from dstest.core.protocols import Asks, Reading

_SYNC: Final = "etcd_disk_wal_fsync_duration_seconds"
_COMMIT: Final = "etcd_disk_backend_commit_duration_seconds"
_TRIP: Final = "etcd_network_peer_round_trip_time_seconds"

ASKS: Final = (
    Asks(
        port=CLIENT_PORT,
        send="GET /metrics HTTP/1.0\r\n\r\n",
        form="text",
        every_s=2.0,
        readings=(
            Reading(name="leads", unit="1", at="etcd_server_is_leader"),
            Reading(name="has_leader", unit="1", at="etcd_server_has_leader"),
            Reading(name="leader_changes", unit="1", at="etcd_server_leader_changes_seen_total"),
            Reading(name="commit", unit="1", at="etcd_server_proposals_committed_total"),
            Reading(name="applied", unit="1", at="etcd_server_proposals_applied_total"),
            Reading(name="queue", unit="1", at="etcd_server_proposals_pending"),
            Reading(
                name="proposals_failed",
                unit="1/s",
                at="etcd_server_proposals_failed_total",
                kind="rate",
            ),
            Reading(name="db_size", unit="B", at="etcd_mvcc_db_total_size_in_bytes"),
            Reading(
                name="fsync",
                unit="ms",
                at=f"{_SYNC}_sum",
                over=f"{_SYNC}_count",
                kind="mean",
                scale=1000,
            ),
            Reading(
                name="backend_commit",
                unit="ms",
                at=f"{_COMMIT}_sum",
                over=f"{_COMMIT}_count",
                kind="mean",
                scale=1000,
            ),
            Reading(
                name="peer_round_trip",
                unit="ms",
                at=f"{_TRIP}_sum",
                over=f"{_TRIP}_count",
                kind="mean",
                scale=1000,
            ),
            Reading(
                name="peer_sent",
                unit="B/s",
                at="etcd_network_peer_sent_bytes_total",
                kind="rate",
            ),
        ),
    ),
)
