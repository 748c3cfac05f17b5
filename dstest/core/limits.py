"""Every bound in one place, each with its reason."""

from __future__ import annotations

from typing import Final

HEAL_S: Final = 180.0
"""A run that was told to end has this long to heal its nodes, to seal and to leave."""

DEPTH_MAX: Final = 100
"""Deeper nesting is no history; the bound keeps what looks into values within Python's stack."""

CHANNELS_PER_CONNECTION_MAX: Final = 8
"""sshd's MaxSessions is 10; two stay free for channels that are still closing."""

SSH_CONNECT_TIMEOUT_S: Final = 10.0
"""A node that does not answer within this time is not usable for a run."""

AGENT_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""No agent answer is larger; logs travel by SFTP."""

HEAL_STEP_S: Final = 10.0
"""A heal command of a lease that has not ended by then is killed, and the next one runs."""

LEASE_TTL_S: Final = 10.0
"""A node heals itself this long after the last heartbeat of the control node."""

LEASE_RENEW_S: Final = 2.0
"""Heartbeat period: four may be lost before a lease runs out."""

STOOD_MIN: Final = 0.9
"""Of the time in which a standing fault was watched: one that stood for less of it without a break
was taken away by somebody else. One look of ten may err, on a busy host."""

MIN_OPS_PER_EPOCH: Final = 30
"""Fewer operations inside a fault window tested nothing."""

MIN_OPS_PER_NODE: Final = 3
"""Per node and window: a node that nobody talked to was not tested."""

NODES_MAX: Final = 99
"""One /24 per lab; addresses 1 to 99 are nodes."""

PROBE_UDP_PORT: Final = 7071
"""Where node agents count directed probe datagrams."""

CHECK_TIME_S: Final = 60.0
"""Default time budget of one checker."""

CHECK_MEMORY_MB: Final = 1024
"""Default memory budget of one checker."""

WITNESS_OPS_MAX: Final = 64
"""A witness longer than this explains nothing; the report names its size and cuts it."""

BALLAST_BYTES: Final = 8 * 1024 * 1024
"""Reserved on the store's disk at the start, given back when it fills, so that a run can seal."""

UNPACKED_BYTES_MAX: Final = 4 << 30
"""A gzipped history is not unpacked beyond it: a small file must not eat the memory."""
