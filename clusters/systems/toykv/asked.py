"""What servers of toykv are asked about themselves, for `dstest monitor`."""

from __future__ import annotations

from typing import Final

from clusters.systems.toykv.deployment import CLIENT_PORT
from dstest.core.protocols import Asks, Reading

__all__ = ["ASKS", "READINGS"]

READINGS: Final = (
    Reading(name="term", unit="1", at="ok.term"),
    Reading(name="leads", unit="1", at="ok.leads"),
    Reading(name="commit", unit="1", at="ok.commit"),
    Reading(name="applied", unit="1", at="ok.applied"),
    # Entries in its log that are not known to be with a majority: what waits.
    Reading(name="queue", unit="1", at="ok.last", over="ok.commit", kind="less"),
)

ASKS: Final = (Asks(port=CLIENT_PORT, send='{"op":"status"}\n', form="json", readings=READINGS),)
