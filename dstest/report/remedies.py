"""Commands that a reader of a verdict can run next: for each thing that keeps it from the next
better one the command that supplies it, after a failure what finds out more, with the run's own
path, and the command line that makes the run again."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.evidence import Tier
from dstest.core.implements import implements
from dstest.core.log_lines import LOG_OPTION
from dstest.core.protocols import Lab, Linked, Tapped
from dstest.core.run_words import command_of, pair_of, simulates
from dstest.judge.audit_rows import UNEXPLAINED
from dstest.judge.causes import FOLLOWS, Cause, Way, cause_of
from dstest.judge.facts import SHAPES, TIER_NEEDS

_LOAD_MIN_S: Final = 30.0
"""Seconds of load: those of the smoke budget, and what the first fault waits for."""

_MORE: Final = 3.0
"""Times as much load as was too little, where no line says how much that was."""

REPLAYED: Final = " --times 3"
"""How a replay is asked for."""

_KEYS_MIN: Final = 10
_RATE_MAX: Final = 1000.0
"""No higher one is asked for at once, but for three times what there was."""

_SURE: Final = 1.5
"""Times as much as what was lacking."""

_STANDS_MIN_S: Final = 4.0
"""A fault that is looked at twice stands that long, and clients that it holds up ask again."""

_QUIET_MIN_S: Final = 10.0
"""Between faults: clients sit out a timeout, and some seconds of load are left."""

_SELDOM_PER_S: Final = 5.0
"""Below it chance alone leaves seconds, and stretches of some seconds, without any operation."""

_BEFORE_S: Final = 15.0
"""Before the first fault and after the last one."""

_WITH_FAULTS: Final = frozenset({"hardening", "release"})
"""Tiers that ask for faults."""

_NUMBER: Final = r"[\d,.]*\d"
_LACKING: Final = tuple(
    re.compile(
        words.replace("THERE", f"(?P<there>{_NUMBER})").replace("WANTED", f"(?P<wanted>{_NUMBER})")
    )
    for words in (
        "only THERE operations? began in its window, WANTED are needed",
        "THERE of WANTED operations began in its window",
        "too few operations in windows, WANTED are needed: THERE in",
        "too few operations at nodes, WANTED are needed: THERE at",
        r"window \S+ saw THERE operations of WANTED",
        r"window \S+: THERE operations of WANTED at",
        "idle: THERE of WANTED operations at",
        "THERE operations in all, at least WANTED needed",
        r"THERE good operations of type \S+, WANTED needed",
        "budget asks for WANTED operations; this run had THERE",
        "THERE operations before the first fault, WANTED needed",
        "THERE operations after the last heal, WANTED needed",
    )
)
"""How lines say that there were too few operations; those that begin with a window, and the second,
are of runs judged before."""

_MISSED: Final = re.compile(rf"({_NUMBER}) operations; .* below ")
_NODES: Final = re.compile(r"asks for (\d+) nodes")
_CUT: Final = re.compile(r"was cut: [\d,]+ of ([\d,]+) bytes")

_INSTEAD: Final = re.compile(r"reached there: (\S+) \([\d,]+ times\)")
"""A point that an aimed fault has counted, since its own was not met."""

_APART: Final = re.compile(r"without=|\w+_ratio=")
"""Options that keep operations of some type away."""

_NONE_GOOD: Final = ": 0 good operations of type"
"""Then more of the same fails as well."""

_UNKNOWN: Final = Cause("unknown", "", "", "", "again")
"""Of a line that no cause is known of, as one of another version."""

_FOLLOWS: Final = Cause("follows", "", "", FOLLOWS)
_ENDED: Final = frozenset({"stopped", "disk-full", "ended-early"})
"""Causes that end a run before its time."""

_UNMET: Final = frozenset({"not-reached", "not-reached-again", "none-reached"})
"""Causes with which the same point is waited for in vain."""

_NOTHING_JUDGED: Final = frozenset({"undecided", "nothing-judged"})
"""Causes with which checkers reject nothing, however much they are given."""

_AGAIN: Final = "Does it come again with the same seed, and the same faults where it had any?"
_WHOSE: Final = (
    "Is the system to blame, or the test? The run is made again as it was, and its operations"
    " through a second client (the generator swap)."
)
_SAME: Final = "Is it the same simulation, byte for byte, by the dstest and the Python of here?"
_SEEDS: Final = "Does another seed show it? A second run of this one says nothing more."
_ON_NODES: Final = (
    "Is it there on nodes? Whether the system is to blame or the test, a simulation cannot tell: it"
    " has one client, and no host."
)
_SMALLER: Final = "What does it take? Fewer faults, shorter windows, less load, run by run."


class Remedy(NamedTuple):
    """One obstacle and the command against it; `command` is empty where none would do."""

    obstacle: str
    command: str


class _Run(NamedTuple):
    """What commands are made of. `path` is the run directory or the session's. `failed`: they look
    further into a violation, and ask for no pass."""

    spec: dict[str, Any]
    given: Sequence[str] | None
    path: str
    lines: Sequence[str] = ()
    failed: bool = False

    @property
    def rate(self) -> float:
        """Operations a second that were asked for; 0 of a closed loop."""
        return float(self.spec.get("rate") or 0)

    def option(self, name: str, otherwise: float) -> float:
        """A number among its options."""
        return float(self.spec.get("options", {}).get(name) or otherwise)

    @property
    def fault(self) -> str:
        """The first one to try: a partition, where members of the system talk to each other."""
        try:
            system = registry.load("systems", self.spec["system"])
        except (ConfigError, KeyError):
            return "partition"
        return "partition" if implements(system.deployment, Linked) else "kill"

    @property
    def lab(self) -> Lab:
        """What its lab says of itself."""
        found: Lab = registry.known("labs", self.spec.get("lab"))
        return found

    def on_nodes(self, **changes: Any) -> str:
        """As `command`, where its nodes were simulated on some that are not."""
        if self.lab.transport == "network":
            return self.command(**changes)
        rate = self.spec.get("rate")
        given = None if rate == self.lab.rate else rate
        return self.command(lab=None, rate=given, **changes)

    def command(self, **changes: Any) -> str:
        """The command of this run, without its seed, with other flags; its load is as long as any
        pass needs, but where it is about a failure: then as long as it was."""
        options = changes.pop("options", [])
        spec = {**self.spec, "seed": None, **changes}
        if spec.get("time_limit_s") is not None and not self.failed:
            spec["time_limit_s"] = max(spec["time_limit_s"], _LOAD_MIN_S)
        if spec.get("nemesis") == "none" and spec.get("tier") in _WITH_FAULTS:
            spec["nemesis"] = self.fault
        given = None if self.given is None else [*self.given, *options]
        return command_of(spec, given)


def _wanted(line: str) -> Tier:
    """The tier that the line names, or the one above smoke."""
    named: tuple[Tier, ...] = ("release", "smoke")
    return next((tier for tier in named if f"{tier} budget" in line), "hardening")


def _tier(run: _Run, line: str) -> str:
    tier = _wanted(line)
    command = run.command if tier == "smoke" else run.on_nodes
    return command(tier=tier, nodes=None, time_limit_s=None)


def _one_way(run: _Run, _: str) -> str:
    return _changed(run, "direction", "direction=in")


def _longer(run: _Run, line: str) -> str:
    """Long enough for the faults that the tier asks for."""
    tier = _wanted(line)
    options = run.spec.get("options", {})
    cycle_s = float(options.get("fault_s", 6.0)) + float(options.get("quiet_s", 4.0))
    needed_s = 15.0 + cycle_s * TIER_NEEDS[tier]["faults"]
    if needed_s <= SHAPES[tier].time_limit_s:
        return _tier(run, line)
    return run.on_nodes(tier=tier, nodes=None, time_limit_s=float(round(needed_s)))


def of_run(verb: str, spec: dict[str, Any], path: str) -> str:
    """The command `dstest VERB` about the run at `path`, with the files and the lab it had."""
    files = os.pathsep.join(map(str, spec.get("files", ())))
    using = f"{registry.FILES}={shlex.quote(files)} " if files else ""
    lab = spec.get("lab_id")
    there = f" --lab-id {shlex.quote(lab)}" if lab else ""
    return f"{using}dstest {verb} {shlex.quote(path)}{there}"


def replay_of(spec: dict[str, Any], path: str) -> str:
    """The command that makes the run again. One of a simulation says all: it is the same one."""
    return f"{of_run('replay', spec, path)}{'' if simulates(spec.get('lab')) else REPLAYED}"


def another_seed(spec: dict[str, Any], given: Sequence[str] | None) -> str:
    """The command of this run with a seed that is drawn."""
    return _Run(spec, given, "", failed=True).command()


def with_options(
    spec: dict[str, Any], given: Sequence[str] | None, changes: Mapping[str, Any]
) -> str:
    """The command of this run, its seed too, with these values of options; where it was not
    written down which were given, with all that were in force."""
    if given is None:
        given = [pair_of(name, value) for name, value in spec.get("options", {}).items()]
    kept = [pair for pair in given if pair.partition("=")[0] not in changes]
    kept += [pair_of(name, value) for name, value in changes.items()]
    return _Run(spec, kept, "", failed=True).command(seed=spec.get("seed"))


def on_nodes(spec: dict[str, Any], given: Sequence[str] | None) -> str:
    """The command of this run whose nodes are none that are simulated."""
    return _Run(spec, given, "", failed=True).on_nodes()


def _replay(run: _Run, _: str) -> str:
    return replay_of(run.spec, run.path)


def _again(run: _Run, _: str) -> str:
    return run.command()


def _times(run: _Run) -> float:
    """How many times the load must be, so that nothing of what its lines count is too little."""
    found = [one for line in run.lines for words in _LACKING if (one := words.search(line))]
    pairs = [[float(one[name].replace(",", "")) for name in ("wanted", "there")] for one in found]
    return _SURE * max((wanted / max(1, there) for wanted, there in pairs), default=_MORE / _SURE)


def _more_load(run: _Run, _: str = "") -> str:
    """As much as was lacking: a higher rate, of a closed loop a longer load by more clients."""
    limit_s = float(run.spec.get("time_limit_s") or _LOAD_MIN_S)
    times = max(_times(run) * min(1.0, limit_s / _LOAD_MIN_S), _SURE)
    if run.rate:
        rate = min(times * run.rate, max(_MORE * run.rate, _RATE_MAX))
        return run.command(rate=float(math.ceil(rate)))
    clients = int(_MORE * int(run.spec.get("concurrency") or 1))
    return run.command(concurrency=clients, time_limit_s=float(math.ceil(times * limit_s)))


def _more_keys(run: _Run, line: str) -> str:
    """More of them at a time, so that those from before a fault are asked for after it."""
    there = int(run.option("keys", 0))
    if not there:
        return _more_load(run, line)
    kept = [pair for pair in run.given or [] if not pair.startswith("keys=")]
    return _more_load(run._replace(given=[*kept, f"keys={max(2 * there, _KEYS_MIN)}"]), line)


def _wider(run: _Run, _: str) -> str:
    """Windows in which as much is asked for as has to be, and time for one: by longer faults where
    their length was given, or where there is no rate to raise."""
    stood_s = run.option("fault_s", 0)
    given = any(pair.startswith("fault_s=") for pair in run.given or [])
    if not stood_s or (run.rate and not given):
        return _more_load(run)
    return _standing(run, max(stood_s * _times(run), _STANDS_MIN_S))


def _two_looks(run: _Run, _: str) -> str:
    return _standing(run, max(2 * run.option("fault_s", 0), _STANDS_MIN_S))


def _standing(run: _Run, least_s: float) -> str:
    """With faults that stand so long, and time for one."""
    fault_s = math.ceil(least_s)
    limit_s = _time_for(run, fault_s + run.option("quiet_s", 4.0))
    return _changed(run, "fault_s", f"fault_s={fault_s}", time_limit_s=limit_s)


def _time_for(run: _Run, cycle_s: float) -> float:
    return float(math.ceil(max(float(run.spec.get("time_limit_s") or 0), _BEFORE_S + cycle_s)))


def _calmer(run: _Run, line: str) -> str:
    """More time between faults and after the last. Where none stood nothing of that helps: a rate
    at which seconds are empty by chance is raised, else the system says why."""
    if run.rate and run.rate < _SELDOM_PER_S:
        return _busier(run, line)
    if run.spec.get("nemesis") in (None, "none") and not run.spec.get("schedule"):
        short = float(run.spec.get("time_limit_s") or 0) < _LOAD_MIN_S
        return run.command() if short else _logs(run, line)
    quiet_s = math.ceil(max(2 * run.option("quiet_s", 4.0), _QUIET_MIN_S))
    limit_s = _time_for(run, run.option("fault_s", 6.0) + 2 * quiet_s)
    return _changed(run, "quiet_s", f"quiet_s={quiet_s}", time_limit_s=limit_s)


def _busier(run: _Run, line: str) -> str:
    """At a rate at which no stretch is empty by chance; nothing but another run where it was."""
    if not 0 < run.rate < _SELDOM_PER_S:
        return _again(run, line)
    return run.command(rate=max(2 * _SELDOM_PER_S, float(math.ceil(_times(run) * run.rate))))


def _slower(run: _Run, line: str) -> str:
    """A rate somewhat below what came of it."""
    found, limit_s = _MISSED.search(line), float(run.spec.get("time_limit_s") or 0)
    did = float(found[1].replace(",", "")) / limit_s if found and limit_s else run.rate
    return run.command(rate=float(max(1, math.floor(min(0.8 * did, run.rate / 2)))))


def _fewer_clients(run: _Run, line: str) -> str:
    """As few as there are nodes; where there are no more, what asks more of each."""
    least = int(run.spec.get("nodes") or 1)
    if int(run.spec.get("concurrency") or 0) > least:
        return run.command(concurrency=least)
    return _more_load(run) if run.rate else _again(run, line)


def _lighter(run: _Run, line: str) -> str:
    """Fewer orders to try: shorter keys, fewer clients."""
    shorter = int(run.option("ops_per_key", 0)) // 2
    pairs = [f"ops_per_key={shorter}"] if shorter else []
    clients = int(run.spec.get("concurrency") or 1)
    fewer = max(int(run.spec.get("nodes") or 1), clients // 2)
    return _changed(run, "ops_per_key", *pairs, concurrency=fewer) or run.command(concurrency=fewer)


def _more_nodes(run: _Run, line: str) -> str:
    found = _NODES.search(line)
    return run.command(nodes=int(found[1])) if found else _tier(run, line)


def _changed(run: _Run, name: str, *instead: str, **changes: Any) -> str:
    """Without the option of this name that its user gave, or with another value; nothing where
    none was given."""
    kept = [pair for pair in run.given or [] if not pair.startswith(f"{name}=")]
    if not instead and len(kept) == len(run.given or []):
        return ""
    return _Run(run.spec, [*kept, *instead], run.path).command(**changes)


def _all_types(run: _Run, line: str) -> str:
    """With operations of every type: what keeps some of them away is an option, or there are too
    few of all."""
    kept = [pair for pair in run.given or [] if not _APART.match(pair)]
    if len(kept) == len(run.given or []):
        return _again(run, line) if _NONE_GOOD in line else _more_load(run)
    return _Run(run.spec, kept, run.path).command()


def _own_checkers(run: _Run, line: str) -> str:
    """Without the checkers of the line that were asked for besides those of the workload; nothing
    where none was, nor for one of the user's own: what it is to say is why the run was made."""
    asked, ours = run.spec.get("checkers") or [], registry.names("checkers", ours=True)
    kept = [name for name in asked if name not in line or name not in ours]
    if len(kept) < len(asked):
        return run.command(checkers=kept)
    return _changed(run, "fairness_by")


def _own_targets(run: _Run, line: str) -> str:
    return _changed(run, "targets") or _again(run, line)


def _of_processes(run: _Run, _: str) -> str:
    """A fault that needs no traffic between members."""
    return run.command(nemesis="kill")


def _other_fault(run: _Run, _: str) -> str:
    """One that most systems and labs can have, and that this run has not had."""
    had = str(run.spec.get("nemesis") or "").split(",")
    other = next(one for one in ("kill", "pause", "none") if one not in had)
    return run.command(nemesis=other)


def _power(run: _Run, _: str) -> str:
    """Nothing for servers that others run: their power is not cut."""
    return "" if run.spec.get("attach") else run.command(nemesis="power")


def _reached(run: _Run, line: str) -> str:
    """At a point that was reached instead, where one was counted; nothing where none was: another
    try of the same waits in vain."""
    found = _INSTEAD.search(line)
    if found is None:
        return ""
    kept = [pair for pair in run.given or [] if not pair.startswith(("at=", "hit="))]
    return run._replace(given=[*kept, f"at={found[1]}"]).command()


def _elsewhere(run: _Run, _: str) -> str:
    return f"{run.command()} --store /another/disk"


def _logs(run: _Run, _: str) -> str:
    """What its servers said; of simulated ones, which have no logs, what happened to them."""
    verb = "logs" if run.lab.transport == "network" else "explain"
    return of_run(verb, {"files": run.spec.get("files", ())}, run.path)


def _recover(run: _Run, _: str) -> str:
    return of_run("recover", {"files": run.spec.get("files", ())}, run.path)


def _more_log(run: _Run, line: str) -> str:
    """With room for the longest of the logs that were cut, and some more: no two are as long."""
    sizes = [int(text.replace(",", "")) for text in _CUT.findall(line)]
    return _changed(run, LOG_OPTION, f"{LOG_OPTION}={-(-3 * max(sizes, default=0) // (2 << 20))}")


WAYS: Final[Mapping[Way, Callable[[_Run, str], str]]] = {
    "": lambda run, line: "",
    "again": _again,
    "all-types": _all_types,
    "busier": _busier,
    "calmer": _calmer,
    "elsewhere": _elsewhere,
    "fault": lambda run, line: run.command(nemesis=run.fault),
    "fewer-clients": _fewer_clients,
    "lighter": _lighter,
    "logs": _logs,
    "longer": _longer,
    "more": _more_load,
    "more-keys": _more_keys,
    "more-log": _more_log,
    "nodes": _more_nodes,
    "on-nodes": lambda run, line: run.on_nodes(),
    "one-way": _one_way,
    "other-fault": _other_fault,
    "of-processes": _of_processes,
    "own-checkers": _own_checkers,
    "own-targets": _own_targets,
    "reached": _reached,
    "power": _power,
    "recover": _recover,
    "replay": _replay,
    "slower": _slower,
    "tier": _tier,
    "two-looks": _two_looks,
    "wider": _wider,
}
"""What makes the command of a cause."""

_UNCHANGED: Final = frozenset({"", "again", "logs", "on-nodes", "recover", "replay", "tier"})
"""Ways that leave the settings of the run as they were, or that a tier chooses."""


def _own(run: _Run) -> Any:
    """The system of a run, where a file of the user's brings it; None of one that comes along."""
    try:
        system = registry.load("systems", run.spec["system"])
    except (ConfigError, KeyError):
        return None
    return (
        system
        if run.spec.get("files") and not type(system).__module__.startswith("clusters.")
        else None
    )


def _talks(run: _Run) -> str:
    return (
        "Where only some members talk to each other, as followers with their leader, `links()` of"
        " the deployment says which: then only those paths must carry traffic."
    )


def _counts(run: _Run) -> str:
    if isinstance(_own(run), Tapped):
        return ""
    return (
        "No run can count them until the system has client_port and request_counter: HttpRequests,"
        " LineRequests or FramedRequests of clusters.supervise."
    )


def _harmless(run: _Run) -> str:
    return (
        "What a healthy server logs like that, `harmless` in the system's `logs` names: a text of"
        " the line, or of the exception in which a traceback ends."
    )


_ADVICE: Final[tuple[tuple[str, Callable[[_Run], str]], ...]] = (
    ("paths to be cut were idle before it", _talks),
    ("requests on the wire were not counted", _counts),
    (f"alarms in the logs {UNEXPLAINED}", _harmless),
)
"""What a line holds, and what the author of a system can do about it, which no further run does."""


def without_method(found: Sequence[Remedy], op_types: Sequence[str]) -> list[Remedy]:
    """What `remedies` found for a run whose client cannot do operations of these types.

    No command supplies what the client lacks, so none is given.
    """
    if not op_types:
        return list(found)
    methods = ", ".join(f"do_{op_type}" for op_type in op_types)
    obstacle = f"The client lacks {methods}: write what is missing; no further run supplies it."
    kept = [
        remedy if "dstest replay " in remedy.command else Remedy(remedy.obstacle, "")
        for remedy in found
    ]
    return [Remedy(obstacle, ""), *kept]


def before_load(ended_by: str, command: str) -> list[Remedy]:
    """For a run that ended before its load, where nothing else is worth saying."""
    why = ended_by.partition("\n")[0].rstrip(": .")
    return [Remedy(f"The run ended before its load: {why}. With that put right:", command)]


def remedies(
    lines: Sequence[str], spec: dict[str, Any], given: Sequence[str] | None, path: str
) -> list[Remedy]:
    """A command for each of the `lines` of `why_not_better`, by its cause.

    None makes the same run again where another line has what to change, or where only the author
    of the system can do something. Nothing of a run that was not made here can be supplied.
    """
    if not spec:
        return [Remedy(line, "") for line in lines]
    run = _Run(spec, given, path, lines)
    causes = [cause_of(line) or _UNKNOWN for line in lines]
    if any(one.id in _ENDED for one in causes):  # all else that is lacking comes of that
        causes = [one if one.id in _ENDED else _FOLLOWS for one in causes]
    elif any(one.id in _UNMET for one in causes):  # whatever else is changed, it waits in vain
        causes = [one if one.id in _UNMET else _FOLLOWS for one in causes]
    commands = [WAYS[one.way](run, line) for one, line in zip(causes, lines, strict=True)]
    same = {run.command(), _tier(run, "smoke budget")}
    changes = any(
        one.way not in _UNCHANGED and command and command not in same
        for one, command in zip(causes, commands, strict=True)
    )
    idle: set[str] = same if changes or any(_advised(run, line) for line in lines) else set()
    if any(one.id in _NOTHING_JUDGED for one in causes):
        idle = idle | {_more_load(run)}
    return [
        _remedy(run, line, one, command, idle, first=not command or command in same)
        for line, one, command in zip(lines, causes, commands, strict=True)
    ]


def _advised(run: _Run, line: str) -> str:
    advice = next((make(run) for words, make in _ADVICE if words in line), "")
    return advice if advice and _own(run) is not None else ""


def _remedy(
    run: _Run, line: str, cause: Cause, command: str, idle: Container[str], *, first: bool
) -> Remedy:
    """Without a command that is in vain beside another line's. `first`: a person has to do
    something before the same run can come to anything else, which is said."""
    if advice := _advised(run, line):
        return Remedy(f"{line}. {advice}", "")
    if command and command in idle:
        return Remedy(line, "")
    if not first or not cause.todo or cause.todo == FOLLOWS or cause.id == "violation":
        return Remedy(line, command)
    return Remedy(f"{line.rstrip('.')}. {cause.todo}", command)


class Step(NamedTuple):
    """A command, and in a sentence or two what it answers."""

    asks: str
    command: str


def after_failure(
    spec: dict[str, Any],
    path: str,
    *,
    given: Sequence[str] | None = None,
    blamed: bool = False,
    again: bool = False,
    gone: bool = False,
) -> list[Step]:
    """The steps after a violation in the run at `path`; none after one that was not made here,
    whose `spec` is empty. `given` are the options of its user. `blamed`: whose fault it is was
    asked already. `again`: the run was made again already, and `gone`: nothing was wrong then."""
    if not spec:
        return []
    smaller = Step(_SMALLER, of_run("shrink", spec, path))
    if simulates(spec.get("lab")):
        return [
            *([] if again else [Step(_SAME, replay_of(spec, path))]),
            Step(_SEEDS, another_seed(spec, given)),
            Step(_ON_NODES, on_nodes(spec, given)),
            smaller,
        ]
    steps = [] if again else [Step(_AGAIN, replay_of(spec, path))]
    if not blamed:
        steps.append(Step(_WHOSE, of_run("blame", spec, path)))
    # Nothing is found out with less of what does not come again.
    return [*steps, Step(_SEEDS, another_seed(spec, given)) if gone else smaller]
