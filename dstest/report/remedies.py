"""Commands that a reader of a verdict can run next: for each thing that keeps it from the next
better one the command that supplies it, after a failure what finds out more, with the run's own
path, and the command line that makes the run again."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.evidence import Tier
from dstest.core.implements import implements
from dstest.core.log_lines import LOG_OPTION
from dstest.core.protocols import LabTraits, Linked, Tapped
from dstest.core.run_words import command_of, pair_of, simulates
from dstest.judge.audit_rows import BEYOND_RUNS, UNEXPLAINED
from dstest.judge.facts import SHAPES, TIER_NEEDS, UNITS

_LOAD_MIN_S: Final = 30.0
"""Seconds of load: those of the smoke budget, and what the first fault waits for."""

_MORE: Final = 3.0
"""Times as much load as was too little."""

REPLAYED: Final = " --times 3"
"""How a replay is asked for."""

_SURE: Final = 1.5
"""Times as long a window as the operations that it lacked would take."""

_WINDOW_MIN_S: Final = 2.0
_BEFORE_S: Final = 15.0
"""Before the first fault and after the last one."""

_WITH_FAULTS: Final = frozenset({"hardening", "release"})
"""Tiers that ask for faults."""

_IDLE: Final = re.compile(
    r"only (\d+) operations? began in its window, (\d+) are needed"
    r"|(\d+) of (\d+) operations began in its window"
)
"""The second is of runs that were judged before 0.18."""

_CUT: Final = re.compile(r"was cut: [\d,]+ of ([\d,]+) bytes")

_NOTHING_JUDGED: Final = ("The checker could not decide", "No operation was judged by")
"""Whose checkers reject nothing, however much they are given."""

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
    """What commands are made of. `path` is the run directory or the session's."""

    spec: dict[str, Any]
    given: Sequence[str] | None
    path: str

    @property
    def fault(self) -> str:
        """The first one to try: a partition, where members of the system talk to each other."""
        try:
            system = registry.load("systems", self.spec["system"])
        except (ConfigError, KeyError):
            return "partition"
        return "partition" if implements(system.deployment, Linked) else "kill"

    @property
    def lab(self) -> LabTraits:
        """What its lab says of itself."""
        try:
            return LabTraits.of(registry.load("labs", self.spec["lab"]))
        except (ConfigError, KeyError):
            return LabTraits()

    def on_nodes(self, **changes: Any) -> str:
        """As `command`, where its nodes were simulated on some that are not."""
        if self.lab.transport == "network":
            return self.command(**changes)
        rate = self.spec.get("rate")
        given = None if rate == self.lab.rate else rate
        return self.command(lab=None, rate=given, **changes)

    def command(self, **changes: Any) -> str:
        """The command of this run, without its seed, with other flags; its load is as long as any
        pass needs."""
        options = changes.pop("options", [])
        spec = {**self.spec, "seed": None, **changes}
        if spec.get("time_limit_s") is not None:
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
    kept = [pair for pair in run.given or [] if not pair.startswith("direction=")]
    return _Run(run.spec, kept, run.path).command(options=["direction=in"])


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
    return _Run(spec, given, "").command()


def with_options(
    spec: dict[str, Any], given: Sequence[str] | None, changes: Mapping[str, Any]
) -> str:
    """The command of this run, its seed too, with these values of options; where it was not
    written down which were given, with all that were in force."""
    if given is None:
        given = [pair_of(name, value) for name, value in spec.get("options", {}).items()]
    kept = [pair for pair in given if pair.partition("=")[0] not in changes]
    kept += [pair_of(name, value) for name, value in changes.items()]
    return _Run(spec, kept, "").command(seed=spec.get("seed"))


def on_nodes(spec: dict[str, Any], given: Sequence[str] | None) -> str:
    """The command of this run whose nodes are none that are simulated."""
    return _Run(spec, given, "").on_nodes()


def _replay(run: _Run, _: str) -> str:
    return replay_of(run.spec, run.path)


def _again(run: _Run, _: str) -> str:
    return run.command()


def _more_load(run: _Run, _: str) -> str:
    """More keys before each fault, more asked for in it: of a closed loop by more clients."""
    rate = run.spec.get("rate")
    if rate:
        return run.command(rate=_MORE * rate)
    return run.command(concurrency=int(_MORE * int(run.spec.get("concurrency") or 1)))


def _wider(run: _Run, line: str) -> str:
    """A window in which as much is asked for as has to be, and time for it."""
    found, options = _IDLE.search(line), run.spec.get("options", {})
    stood_s = float(options.get("fault_s") or 0)
    if found is None or not stood_s:
        return _more_load(run, line)
    there, needed = map(int, filter(None, found.groups()))
    times = _SURE * needed / max(1, there)
    fault_s = math.ceil(max(stood_s * times, _WINDOW_MIN_S))
    needed_s = _BEFORE_S + fault_s + float(options.get("quiet_s", 4.0))
    limit_s = max(float(run.spec.get("time_limit_s") or 0), needed_s)
    return _changed(run, "fault_s", f"fault_s={fault_s}", time_limit_s=float(math.ceil(limit_s)))


def _changed(run: _Run, name: str, *instead: str, **changes: Any) -> str:
    """Without the option of this name that its user gave, or with another value; nothing where
    none was given."""
    kept = [pair for pair in run.given or [] if not pair.startswith(f"{name}=")]
    if not instead and len(kept) == len(run.given or []):
        return ""
    return _Run(run.spec, [*kept, *instead], run.path).command(**changes)


def _all_types(run: _Run, line: str) -> str:
    """With operations of every type: what keeps some of them away is an option."""
    return _changed(run, "write_ratio") or _changed(run, "without") or _again(run, line)


def _elsewhere(run: _Run, _: str) -> str:
    return f"{run.command()} --store /another/disk"


def _more_copies(run: _Run, line: str) -> str:
    return _more_load(run, line)


def _without_nothing(run: _Run, _: str) -> str:
    return _changed(run, "without")


def _alarms(run: _Run, _: str) -> str:
    return of_run("logs", {"files": run.spec.get("files", ())}, run.path)


def _none(_: _Run, __: str) -> str:
    """The same again would come to the same."""
    return ""


def _more_log(run: _Run, line: str) -> str:
    """With room for the longest of the logs that were cut, and some more: no two are as long."""
    sizes = [int(text.replace(",", "")) for text in _CUT.findall(line)]
    wanted = f"{LOG_OPTION}={-(-3 * max(sizes, default=0) // (2 << 20))}"
    kept = [pair for pair in run.given or [] if not pair.startswith(f"{LOG_OPTION}=")]
    return _Run(run.spec, kept, run.path).command(options=[wanted])


_COMMANDS: Final[tuple[tuple[str, Callable[[_Run, str], str]], ...]] = (
    ("ran in one process", lambda run, _: run.on_nodes()),
    ("no space left on the disk", _elsewhere),
    (" began in its window", _wider),
    ("idle: ", _more_load),
    ("were told to leave out", _without_nothing),
    ("was ever asked for", _all_types),
    ("good operations of type", _all_types),
    ("alarms in the logs", _alarms),
    ("requests on the wire", _none),
    ("paths to be cut were idle before it", _none),
    ("The checker could not decide", _none),
    ("No operation was judged by", _none),
    ("Operations judged:", _none),
    ("rejected no broken copy", _more_copies),
    ("judged none of", _none),
    ("re-runs showed it again", _none),
    ("re-runs of the same seed", _none),
    ("WO7:", _one_way),
    ("was cut: ", _more_log),
    ("written before it were read after", _more_load),
    (UNITS["faults"], _longer),
    ("WO6:", _tier),
    ("WO10:", _tier),
    ("WO11:", _tier),
    ("RF10:", _tier),
    ("RF6:", _tier),
    (" budget asks for ", _tier),
    ("No fault was planned", lambda run, _: run.command(nemesis=run.fault)),
    ("Durability was not tested", lambda run, _: run.command(nemesis="power")),
    ("A violation stands", lambda run, _: ""),
    *((words, lambda run, _: "") for words in BEYOND_RUNS),
    ("re-run", _replay),
)
"""What a line holds, and what makes the command; the first that fits."""


_CAUSES: Final = frozenset({_wider, _all_types, _without_nothing})
"""Ways to mend an option of the run's."""


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
        "What a healthy server logs like that, log_harmless of the system names: a text of the"
        " line, or of the exception in which a traceback ends."
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
    """A command for each of the `lines` of `why_not_better`.

    Whatever no special command is for, such as a fault that did not land or a record that cannot
    be read, asks for the same run again: another seed may do better. Where none can there is no
    command. Nothing of a run that was not made here can be supplied.
    """
    if not spec:
        return [Remedy(line, "") for line in lines]
    run = _Run(spec, given, path)
    ways = [next((make for words, make in _COMMANDS if words in line), _again) for line in lines]
    # What follows from a cause that another line names is not mended by the same run again.
    idle: list[Callable[[_Run, str], str]] = []
    if any(make in _CAUSES for make in ways):
        idle.append(_again)
    if any(words in line for line in lines for words in _NOTHING_JUDGED):
        idle.append(_more_copies)
    found = [
        _remedy(run, line, "" if make in idle else make(run, line))
        for line, make in zip(lines, ways, strict=True)
    ]
    if any(_advised(run, line) for line in lines):
        # What the author of the system has to do first, the same run again does not supply.
        same = {run.command(), run.command(tier="smoke", nodes=None, time_limit_s=None)}
        found = [Remedy(o, "" if command in same else command) for o, command in found]
    return found


def _advised(run: _Run, line: str) -> str:
    advice = next((make(run) for words, make in _ADVICE if words in line), "")
    return advice if advice and _own(run) is not None else ""


def _remedy(run: _Run, line: str, command: str) -> Remedy:
    if advice := _advised(run, line):
        return Remedy(f"{line}. {advice}", "")
    return Remedy(line, command)


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
) -> list[Step]:
    """The steps after a violation in the run at `path`; none after one that was not made here,
    whose `spec` is empty. `given` are the options of its user. `blamed`: whose fault it is was
    asked already. `again`: the run was made again already."""
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
    return [*steps, smaller]
