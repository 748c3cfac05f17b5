"""The system `toykv`: what it offers, and what can be set."""

from __future__ import annotations

from clusters.supervise import LineRequests, SupervisedSystem
from clusters.supervise.some_nodes import MEMBERS
from clusters.systems.toykv.asked import ASKS
from clusters.systems.toykv.bugs import BUGS, NONE
from clusters.systems.toykv.clients import CLIENTS
from clusters.systems.toykv.deployment import (
    CLIENT_PORT,
    HOME,
    JOIN,
    JOURNAL,
    PEER_PORT,
    REMOVED,
    SPANS,
    ToykvDeployment,
)
from clusters.systems.toykv.effects import EFFECTS
from clusters.systems.toykv.log_lines import READER
from clusters.systems.toykv.raw import RAW_CLIENTS
from clusters.systems.toykv.simulated import SIMULATED
from dstest.core.protocols import Option
from dstest.core.residue import Residue

__all__ = ["SYSTEM", "Toykv"]

FILES = Residue(
    name="toykv's membership",
    mark=f"it is in {HOME}, where nothing but ours is",
    look=f"[ ! -e {REMOVED} ] || echo ours member that was removed and is not back",
    remove=f"rm -f {REMOVED} {JOIN}",
    rank=70,
    janitor=False,
    home=HOME,
)


class Toykv(SupervisedSystem):
    name = "toykv"
    doc = "a replicated store of our own, with bugs that can be switched on: what dstest must find"
    services = ("toykv",)
    deployment = ToykvDeployment
    clients = CLIENTS
    definite_errors = {
        "no-leader": "ours: the request had not been sent to any leader",
        "not-held": "ours: the lock was not held by this token, and was left as it was",
        "malformed": "ours: the request was refused, or changed nothing",
    }
    conflict_errors = frozenset({"not-held"})  # of a holder who comes when the lease has ended
    options = {
        **MEMBERS,
        "bug": Option(
            type=str,
            default=NONE,
            choices=(NONE, *BUGS),
            help="which planted bug the servers have (docs/toykv.md)",
        ),
        "audit": Option(
            type=str,
            default="no",
            choices=("no", "yes"),
            help="each server writes what it has applied into audit.jsonl, kept with its logs",
        ),
        "spans": Option(
            type=str,
            default="no",
            choices=("no", "yes"),
            help="each server writes spans of what it does into spans.jsonl, for `dstest trace`",
        ),
        "journal": Option(
            type=str,
            default="yes",
            choices=("no", "yes"),
            help="each server writes the steps of its protocol into protocol.jsonl, kept with its "
            "logs, for `dstest spec conform raft`",
        ),
    }
    malformed_errors = frozenset({"malformed"})
    raw_clients = RAW_CLIENTS
    effects = EFFECTS
    records = frozenset({JOURNAL})
    simulable = SIMULATED
    span_file = SPANS
    asks = ASKS
    log_alarms = ("toykv: the disk refuses", "had been applied: the state is made anew")
    log_reader = READER
    ports = (CLIENT_PORT, PEER_PORT)
    home = HOME
    client_port = CLIENT_PORT

    @property
    def residues(self) -> tuple[Residue, ...]:
        """As for any system, and a member that is out."""
        return (*super().residues, FILES)

    def request_counter(self) -> LineRequests:
        return LineRequests({})


SYSTEM = Toykv()
