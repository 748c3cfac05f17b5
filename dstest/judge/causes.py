"""What can keep a run from a pass, each cause by the words of its line, with what is to be done.

A line of `why_not_better` comes of the first cause whose words it holds. `way` names what makes a
command of it (`dstest/report/remedies.py`); a cause has none where no command of ours supplies what
is missing, and none where another line of the same verdict is the cause (`FOLLOWS`).
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final, Literal

import msgspec

Way = Literal[
    "",
    "again",
    "all-types",
    "busier",
    "calmer",
    "elsewhere",
    "fault",
    "fewer-clients",
    "lighter",
    "logs",
    "longer",
    "more",
    "more-keys",
    "more-log",
    "nodes",
    "of-processes",
    "on-nodes",
    "one-way",
    "other-fault",
    "own-checkers",
    "own-targets",
    "power",
    "reached",
    "recover",
    "replay",
    "slower",
    "tier",
    "two-looks",
    "wider",
]

FOLLOWS: Final = "Another line says why; what helps there helps here."

_AUTHOR: Final = "The author of the system or of the workload has to: "
_RECORD: Final = (
    "The record is incomplete or contradicts itself, so nothing can be read from it: run it anew."
    " If it comes again, it is a bug of dstest or of a file of yours."
)


class Cause(msgspec.Struct, frozen=True, dict=True):
    """`ids` are the rules, rows and lints that it may stand at. `words` is what its line holds, two
    dots for what differs; `|` parts two ways to say it. `todo` is for people. `way` makes the
    command."""

    id: str
    ids: str
    words: str
    todo: str
    way: Way = ""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        ways = [
            ".*?".join(map(re.escape, way.strip().split(".."))) for way in self.words.split("|")
        ]
        return re.compile("|".join(ways), re.DOTALL)

    def holds(self, line: str) -> bool:
        """Does this line come of it?"""
        return self._pattern.search(line) is not None


_RUN: Final = (
    Cause("never-began", "V01", "never attempted", "Make the run.", "again"),
    Cause(
        "environment",
        "V02",
        "environment lacks what the run needs",
        "Give the lab what it lacks (`dstest doctor` looks for it), or ask for a fault that it can"
        " have.",
        "other-fault",
    ),
    Cause(
        "simulated",
        "V12b",
        "ran in one process",
        "Run it on nodes.",
        "on-nodes",
    ),
    Cause(
        "disk-full",
        "V06 RF1",
        "no space left",
        "Free space on that disk, or keep the store on another.",
        "elsewhere",
    ),
    Cause("stopped", "V06 RF1", "stopped by SIG", "Let it run to its end.", "again"),
    Cause(
        "ended-early",
        "V06 RF1",
        "ended before its time",
        "Put right what ended it (`dstest logs RUN` has the logs), then run it anew.",
        "again",
    ),
)

_VIOLATION: Final = (
    Cause(
        "violation",
        "V03 V04",
        "A violation stands",
        "Explain it, find whose fault it is, make it small: commands stand under `what next`.",
    ),
    Cause(
        "not-rerun",
        "V04",
        "It has not been re-run",
        "Replay the same seed; in a simulation that is the same run.",
        "replay",
    ),
    Cause(
        "not-again",
        "V04",
        "re-runs of the same seed showed it again",
        "Try other seeds or more replays; a violation that came once stands all the same.",
    ),
    Cause("violation-fault", "V03 V04", "so the fault may not be its cause", FOLLOWS),
)

_FAULT: Final = (
    Cause(
        "idle-window",
        "V06 H18",
        "began in its window|too few operations in windows|window .. saw .. operations of",
        "A longer fault (`-o fault_s`) where that was set, else a higher rate: so that enough"
        " operations begin while it stands.",
        "wider",
    ),
    Cause(
        "idle-node",
        "V06 H18",
        "idle: .. operations at .. it|too few operations at nodes"
        "|window ..: .. operations of .. at",
        "A longer fault where that was set, else a higher rate: so that each node is asked before"
        " and while it stands.",
        "wider",
    ),
    Cause(
        "idle-unknown", "V06", "which node each client talks to was not recorded", _RECORD, "again"
    ),
    Cause(
        "no-record",
        "V06 RF4",
        "planned faults have a landing record|faults have a record",
        _RECORD,
        "again",
    ),
    Cause("not-planned", "V06", "yet no fault is said to have been planned", _RECORD, "again"),
    Cause(
        "not-reached",
        "V06",
        "is not proven to have landed..: never reached in",
        "The load does not come to that point. Aim at one that it reaches, or take a workload that"
        " comes there: `dstest points SYSTEM --count 10 --workload NAME` says how often.",
        "reached",
    ),
    Cause(
        "not-reached-again",
        "V06",
        "was never reached on ..is not waited for again",
        FOLLOWS,
    ),
    Cause(
        "none-reached",
        "V06",
        "functions was reached in",
        "A wider glob, or a workload that comes there: `dstest points SYSTEM --count 10 --workload"
        " NAME` says how often.",
    ),
    Cause(
        "not-landed",
        "V06",
        "is not proven to have landed",
        "Another seed draws other victims and times. If it does not land there either, it does not"
        " reach this system: see its counters in the report, and use another fault.",
        "again",
    ),
    Cause("landed-count", "RF3", "planned faults landed on both sides", FOLLOWS),
    Cause(
        "two-looks",
        "RF4",
        "times after landing, not twice",
        "A longer fault (`-o fault_s`): it is looked at in its middle and at its end.",
        "two-looks",
    ),
    Cause(
        "fault-gone",
        "RF4",
        "the fault was gone at|it stood without a break for",
        "Something took the fault away: stop what else changes networks, processes or clocks of"
        " these nodes, then run it anew.",
        "again",
    ),
    Cause(
        "stranger",
        "RF4",
        "targets not in the cluster",
        "Let targets be members: without `-o targets` they are drawn from these.",
        "own-targets",
    ),
    Cause(
        "members-unknown",
        "RF4",
        "who was a member when it was injected is not known",
        "No node answered just then: see why in the logs (`dstest logs RUN`), then run it anew.",
        "again",
    ),
    Cause(
        "idle-path-named",
        "RF4",
        "is not one of the paths that may be idle",
        f"{_AUTHOR}name as idle only paths without traffic. Until then use a fault of processes.",
        "of-processes",
    ),
    Cause(
        "no-traffic",
        "RF4",
        "carried any traffic before it",
        f"{_AUTHOR}say in `links()` who talks to whom. Until then use a fault of processes.",
        "of-processes",
    ),
    Cause(
        "idle-paths",
        "RF4",
        "paths to be cut were idle before it",
        f"{_AUTHOR}say in `links()` who talks to whom. Until then use a fault of processes.",
        "of-processes",
    ),
)

_LOAD: Final = (
    Cause(
        "few-operations",
        "RF1",
        "operations in all, at least",
        "A higher rate, or of a closed loop a longer load: for what the smoke budget asks.",
        "more",
    ),
    Cause("left-out", "RF1", "were told to leave out", "Leave `-o without` out.", "all-types"),
    Cause(
        "type-missing",
        "RF1",
        "was ever asked for",
        "Leave out the option that keeps it away, as `-o write_ratio`; else a higher rate.",
        "all-types",
    ),
    Cause(
        "none-good",
        "RF1",
        ": 0 good operations of type",
        "None went well. Leave out the option that keeps it away; else put right what clients"
        " were told (the report has it), then run it anew.",
        "all-types",
    ),
    Cause(
        "few-of-type",
        "RF1",
        "good operations of type",
        "Leave out the option that keeps it away, as `-o write_ratio`; else a higher rate or of"
        " a closed loop a longer load.",
        "all-types",
    ),
    Cause(
        "clients-unknown", "RF1", "clients there should have been is not known", _RECORD, "again"
    ),
    Cause(
        "idle-clients",
        "RF1",
        "clients never asked for anything",
        "A higher rate, or fewer clients: each has to ask for something.",
        "fewer-clients",
    ),
    Cause(
        "silent",
        "RF1",
        "was silent for",
        "A higher rate where that is less than one in five seconds; else the host stood still:"
        " use one with less other work, then run it anew.",
        "busier",
    ),
    Cause(
        "unanswered",
        "RF1",
        "no operation succeeded in",
        "The system answered nobody while no fault stood. After faults it needs more time"
        " (`-o quiet_s`); else its logs say why (`dstest logs RUN`).",
        "calmer",
    ),
    Cause(
        "no-second",
        "RF1",
        "no whole second of load lies outside",
        "A longer load, and more time between faults (`-o quiet_s`).",
        "calmer",
    ),
    Cause(
        "rate-missed",
        "RF1",
        "below .. of the target of",
        "Ask for a rate that the system and its clients can hold.",
        "slower",
    ),
    Cause(
        "clients-not-busy",
        "RF1",
        "clients busy (closed loop)",
        "Fewer clients: the host has to keep all of them waiting for an answer.",
        "fewer-clients",
    ),
)

_CLOCK: Final = (
    Cause(
        "clock-moved",
        "RF5",
        "moved .. ms against its monotonic clock",
        "Let nothing set the clock of that host while a run lasts (chrony, ntpd), then run it"
        " anew.",
        "again",
    ),
    Cause(
        "clock-unmeasured",
        "RF5",
        "monotonic clock was not measured|the clock of .. was not",
        _RECORD,
        "again",
    ),
    Cause(
        "clock-kind",
        "RF5 WO9",
        "RF5: time stamps are of|WO9: time stamps are|the header names no clock",
        "Time stamps of whoever recorded it may jump: record with a monotonic clock, as dstest"
        " does.",
    ),
    Cause("time-order", "RF5", "operations ended before they began", _RECORD, "again"),
)

_ORACLE: Final = (
    Cause(
        "no-checker",
        "V07",
        "No checker was declared",
        f"{_AUTHOR}name checkers of the workload.",
    ),
    Cause(
        "checker-died",
        "V07 RF2",
        "Declared checkers did not run|checkers without a result",
        "Put right what ended the checker, then judge the same record again.",
        "recover",
    ),
    Cause(
        "nothing-judged",
        "V07 RF2",
        "No operation was judged by|judged none of",
        "It does not know these operations: leave it out where `--checker` asked for it.",
        "own-checkers",
    ),
    Cause(
        "budget-spent",
        "V08 RF2",
        "budget of .. used up|budget spent|left undecided",
        "Fewer clients and shorter keys (`-o ops_per_key`) leave fewer orders to try;"
        " `dstest check RUN --budget-s 600 --budget-mb 8192` looks longer at this history.",
        "lighter",
    ),
    Cause(
        "undecided",
        "V08",
        "The checker could not decide",
        "What it lacks stands behind its name, and the same load again lacks it as well; leave it"
        " out where `--checker` asked for it.",
        "own-checkers",
    ),
    Cause(
        "partly-judged",
        "V09 RF2",
        "Operations judged:|RF2: .. decided .. of .. keys",
        "It left out what it does not know: leave it out where `--checker` asked for it.",
        "own-checkers",
    ),
    Cause(
        "no-copies",
        "RF2",
        "no mutant of this history could be made",
        "More load, so that there is an answer that a broken copy can change.",
        "more",
    ),
    Cause(
        "copies-accepted",
        "RF2",
        "the checker accepted all",
        "It finds nothing wrong in histories that are: leave it out where `--checker` asked for it,"
        " and write it anew.",
        "own-checkers",
    ),
    Cause(
        "model-unclear",
        "RF2",
        "cannot be told from",
        "More load, so that this history can tell the model from a weaker one.",
        "more",
    ),
    Cause(
        "copies-missed",
        "RF2",
        "broken copies were not rejected",
        "More load: a history with more answers is broken more plainly. If it comes again, the"
        " checker misses what it should find.",
        "more",
    ),
    Cause(
        "no-copy-killed",
        "RF2",
        "rejected no broken copy",
        "More load, so that there is an answer that a broken copy can change.",
        "more",
    ),
    Cause(
        "not-read-again",
        "RF2",
        "written before it were read after",
        "More keys at a time (`-o keys`) and more load before and after each fault.",
        "more-keys",
    ),
)

_NODES: Final = (
    Cause("log-cut", "RF7", "was cut: ", "Keep more of each log (`-o log_mb`).", "more-log"),
    Cause(
        "alarms",
        "RF7",
        "alarms in the logs",
        "Read these lines. What a healthy server says, the system names as `harmless` in its"
        " `logs`; anything else is a finding.",
        "logs",
    ),
    Cause(
        "ends", "RF7", "ends of processes", "A server ended by itself: its log says why.", "logs"
    ),
    Cause(
        "sim-failures",
        "RF7",
        "failures that no fault explains",
        "A simulated server or a client failed by itself: see where, and put that right.",
        "logs",
    ),
    Cause(
        "unwatched",
        "RF7",
        "evidence is missing",
        "What was to be looked at could not be: use a host with less other work, or let the"
        " system keep its logs, then run it anew.",
        "again",
    ),
    Cause("not-asked", "RF8", "ended before anybody asked who serves", _RECORD, "again"),
    Cause(
        "not-serving",
        "RF8",
        "not serving after the settle phase",
        "A member did not come back: its log says why. Where it needs longer, so does the run.",
        "logs",
    ),
    Cause(
        "left-behind",
        "RF8",
        "left behind: |heal not verified|a heal was not verified"
        "|nobody looked for leftovers|clean-up failed",
        "Clear the nodes (`dstest lab status` names what is left, `dstest lab down` removes a lab"
        " of ours), then run it anew.",
        "again",
    ),
    Cause(
        "replicas",
        "RF8",
        "replicas differ once nobody writes|replicas not compared",
        "Members disagree or say nothing when all is quiet: their logs say why. `--workload"
        " bank-replicas` makes it a violation.",
        "logs",
    ),
    Cause(
        "tail-thin",
        "RF8",
        "operations before the first fault|operations after the last heal",
        "A higher rate, so that before and after faults there is enough to compare.",
        "more",
    ),
    Cause(
        "not-well-again",
        "RF8",
        "load go well again|load went well again|did not go well again",
        "More time between faults (`-o quiet_s`) and after the last.",
        "calmer",
    ),
    Cause(
        "slow-tail",
        "RF8",
        "of the last .. operations succeeded",
        "More time after faults (`-o quiet_s`): if it is still slow, it did not recover.",
        "calmer",
    ),
)

_BREADTH: Final = (
    Cause("one-way", "WO7", "WO7:", "Cut one direction only (`-o direction=in`).", "one-way"),
    Cause(
        "surface-only",
        "WO1 WO2 WO3 WO4 WO5",
        "no checker judged single operations|checkers rest on more than"
        "|one failover that went well|absence of errors is the only",
        "Use a workload whose checkers judge single operations (`dstest list`).",
    ),
    Cause(
        "wire",
        "WO8 H16",
        "requests on the wire|requests were sent for",
        f"{_AUTHOR}count requests (`client_port` and `request_counter` of the system, `calls` of"
        " the client) and switch off retries of its library.",
    ),
    Cause(
        "surfaces",
        "WO12",
        "planned surfaces were run",
        "More load, so that something goes well on each; fewer than three make no boundary.",
        "more",
    ),
    Cause(
        "control-refused",
        "WO13",
        "negative controls were refused",
        "Leave out the option that keeps them away; else a higher rate.",
        "all-types",
    ),
    Cause(
        "control-accepted",
        "WO13",
        "negative controls were not refused",
        "What must be refused was not: read these operations in the report.",
    ),
    Cause(
        "groups",
        "WO14",
        "split the results into",
        "Leave `-o fairness_by` out: there have to be clients of more than one group.",
        "own-checkers",
    ),
    Cause("nodes", "V13", "smoke budget asks for .. nodes;", "More nodes.", "nodes"),
    Cause(
        "operations",
        "V13 V14 V15",
        "smoke budget asks for .. operations;",
        "A higher rate, or of a closed loop a longer load.",
        "more",
    ),
    Cause(
        "faults",
        "V13",
        "smoke budget asks for .. landed faults;",
        "Run the tier: its load is long enough for a fault.",
        "tier",
    ),
    Cause(
        "more-faults",
        "V14 V15",
        "landed faults;",
        "Run the tier with a load that is long enough for as many faults as it asks for.",
        "longer",
    ),
    Cause(
        "budget",
        "V13 V14 V15 RF6",
        "smoke budget asks for|budget was not|RF6: tier met:",
        "Run the tier: as many seeds, sizes and seconds as it asks for.",
        "tier",
    ),
    Cause(
        "breadth",
        "WO6 WO10 WO11 RF10",
        "hardening budget asks for|release budget asks for|hardening asks for|agreeing seeds"
        "|WO6:|WO10:|WO11:|RF10:",
        "Run the tier: as many seeds, sizes and seconds as it asks for.",
        "tier",
    ),
    Cause("no-fault", "V11", "No fault was planned", "Plan one.", "fault"),
    Cause(
        "durability", "V12b V14 V15", "Durability was not tested", "Cut the power as well.", "power"
    ),
    Cause(
        "unlike",
        "RF9",
        "runs that are compared differ",
        "Make all of them with one dstest, on one host, with the same options.",
        "again",
    ),
    Cause(
        "other-version",
        "V10",
        "the audit has no such row",
        "Another version judged it: judge it again.",
        "recover",
    ),
)

_HISTORY: Final = (
    Cause(
        "contradiction",
        "V05 H02 H03 H04 H05 H06 H07 H09 H14",
        "contradicts itself|stands twice|the recorder counted",
        _RECORD,
        "again",
    ),
    Cause(
        "fields",
        "H01 H10 H11 H12",
        "H01: record .. lacks|does not say which node answered|not in the model's set|H12: ",
        f"{_AUTHOR}have clients and generator record what the lint names.",
    ),
    Cause(
        "record-weak",
        "H03 H04 H08 H14",
        "does not say which clock|of one declared host"
        "|not marked unknown|its times say|how many operations were issued",
        _RECORD,
        "again",
    ),
    Cause(
        "keys-unused",
        "H13",
        "no idempotency key was used twice",
        "Leave out the option that keeps keys from being sent again, as `-o resend_ratio`.",
        "all-types",
    ),
    Cause(
        "keys-are-ids",
        "H13",
        "its idempotency key is its op_id",
        f"{_AUTHOR}let the generator draw keys of its own.",
    ),
)

CAUSES: Final = (
    *(*_RUN, *_VIOLATION, *_FAULT, *_LOAD, *_CLOCK),
    *(*_HISTORY, *_ORACLE, *_NODES, *_BREADTH),
)
"""In order: of two that hold the first counts."""


def cause_of(line: str) -> Cause | None:
    """The first cause whose words the line holds; None for a line of another version."""
    return next((cause for cause in CAUSES if cause.holds(line)), None)
