"""One writer of the words of `dstest run`: what a run was made of is in every command that makes it
again, as the number that it was, and a run that was made otherwise is told from it."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from made_meta import meta

from dstest.campaign.launch import Arm, Budget, Run
from dstest.campaign.launch import argv_of as argv_of_arm
from dstest.campaign.shrink.candidate import Candidate, compact
from dstest.campaign.shrink.original import argv_of
from dstest.campaign.shrink.reductions import shorter
from dstest.campaign.shrink.runs import candidate_of, schedule_of, spec_for
from dstest.campaign.steps.commands import differences
from dstest.core import run_words
from dstest.core.errors import ConfigError
from dstest.core.run_record import RunMeta, RunSpec
from dstest.core.run_words import at_least, command_of, number, pair_of
from dstest.runner.plugins import Plugins, resolve
from nemeses.base.schedule import windows

OTHERWISE: Final[dict[str, Any]] = {
    "system": "zookeeper",
    "workload": "set",
    "nemesis": "kill",
    "lab": "vm",
    "nodes": 3,
    "time_limit_s": 12.40625,
    "rate": 33.3333333,
    "concurrency": 7,
    "seed": 9,
    "model": "sequential",
    "schedule": "faults.json",
    "stop_on_violation": True,
    "monitor": False,
    "files": ("/nowhere/own.py",),
    "builds": ("/nowhere/b.deb@0123456789abcdef",),
    "checkers": ("slo",),
    "attach": True,
    "options": {"fault_s": 7.5},
}
"""By field of a run's spec, a value that is not the usual one."""

NEVER_THE_SAME: Final = {
    "schedule": "a path does not tell what faults are in the file: `shrink.reread` compares those",
}
"""Fields in which a run of the very same command is another one all the same, and why."""

OF_THE_CANDIDATE: Final = {
    "nemesis": "its faults are those of the candidate",
    "schedule": "so is the file that they stand in",
    "stop_on_violation": "an attempt is judged as a whole (`shrink.runs.spec_for`)",
}
"""Fields that a reproducer does not take from the run that it was made of, and why."""

FIELDS: Final = RunSpec.__struct_fields__


def spec_with(field: str) -> RunSpec:
    return msgspec.structs.replace(RunSpec(), **{field: OTHERWISE[field]})


def pairs_of(spec: RunSpec) -> list[str]:
    return [pair_of(name, value) for name, value in spec.options.items()]


def meta_of(spec: RunSpec) -> RunMeta:
    """As a run of it records it."""
    return meta(
        spec=msgspec.to_builtins(spec),
        options_given=pairs_of(spec),
        plugin_files=dict.fromkeys(spec.files, "0"),
    )


def words_of(spec: RunSpec) -> list[str]:
    return shlex.split(command_of(msgspec.to_builtins(spec)))[1:]


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_a_run_is_written_and_looked_at(field: str) -> None:
    usual, other = RunSpec(), spec_with(field)
    words = words_of(other)
    assert words != words_of(usual), f"{field} is not written"
    assert differences(meta_of(usual), words), f"{field} is not looked at"
    same = differences(meta_of(other), words)
    assert same == (["schedule"] if field in NEVER_THE_SAME else [])


def test_a_run_that_was_not_sampled_is_none_of_a_command_that_samples() -> None:
    unsampled = meta_of(spec_with("monitor"))
    assert differences(unsampled, words_of(RunSpec())) == ["monitor"]
    assert differences(meta_of(RunSpec()), words_of(spec_with("monitor"))) == ["monitor"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_reproducer_leaves_nothing_out(field: str) -> None:
    spec = spec_with(field)
    candidate = Candidate(
        nodes=spec.nodes,
        time_limit_s=spec.time_limit_s,
        concurrency=spec.concurrency,
        rate=spec.rate,
        options=tuple(pairs_of(spec)),
    )
    usual = Candidate(nodes=5, time_limit_s=60.0, concurrency=20)
    argv = argv_of(spec, candidate, "schedule.json", "plugins", builds=spec.builds)
    same = argv == argv_of(RunSpec(), usual, "schedule.json", "plugins")
    assert same == (field in OF_THE_CANDIDATE), field
    again = spec_for(spec, candidate)
    assert differences(meta_of(again), argv[1:]) == []


SHORTER: Final = ((45.0, 1.4), (35.0, 1.09), (25.0, 1.5), (33.3, 1.04), (9.9, 1.2))


def halved(fault_s: float, least_s: float) -> tuple[Plugins, Candidate]:
    """The first fault of a run, halved as long as it takes more than that."""
    spec = RunSpec(nemesis="kill", seed=1, time_limit_s=120.0, monitor=False)
    plugins = resolve(spec, [f"fault_s={fault_s}"])
    start = candidate_of(plugins)
    one = compact(start.with_plans(start.plans[:1]))
    long = least_s * 1e9
    return plugins, shorter(one, lambda c: all(p.duration_ns >= long for p in c.plans))


@pytest.mark.parametrize(("fault_s", "least_s"), SHORTER)
def test_what_a_reduction_has_run_can_be_run_by_its_command(fault_s: float, least_s: float) -> None:
    plugins, small = halved(fault_s, least_s)
    argv = argv_of(plugins.spec, small, "schedule.json", "plugins")
    made = resolve(spec_for(plugins.spec, small), small.pairs, schedule=schedule_of(small))
    other = differences(msgspec.structs.replace(meta_of(made.spec), options_given=[]), argv[1:])
    assert other == ["schedule"]
    asked = float(argv[argv.index("--time-limit") + 1])
    again = msgspec.structs.replace(spec_for(plugins.spec, small), time_limit_s=asked)
    resolve(again, small.pairs, schedule=schedule_of(small))


@pytest.mark.parametrize(("fault_s", "least_s"), SHORTER)
def test_the_time_limit_of_a_remedy_is_not_refused(fault_s: float, least_s: float) -> None:
    plugins, small = halved(fault_s, least_s)
    spec = spec_for(plugins.spec, small)

    def with_limit(limit_s: float) -> None:
        given = msgspec.structs.replace(spec, time_limit_s=limit_s)
        resolve(given, small.pairs, schedule=schedule_of(small))

    assert_followed(with_limit, small.time_limit_s - 0.5)


@pytest.mark.parametrize("fault_s", [6.0, 6.123456789, 1 / 3, 0.1, 100.00004])
def test_nor_is_that_of_a_nemesis(fault_s: float) -> None:
    assert_followed(lambda limit_s: windows("kill", limit_s, fault_s, 4.0), 11.0, least_s=25.0)


def assert_followed(
    make: Callable[[float], object], short_s: float, *, least_s: float = 0.0
) -> None:
    """What is refused for its length is made with the one that the remedy names; no less would do,
    but that a run of less than `least_s` is no pass."""
    with pytest.raises(ConfigError) as refused:
        make(short_s)
    named = re.search(r"--time-limit ([\d.]+) or more", refused.value.remedy or "")
    assert named is not None, refused.value
    make(float(named[1]))
    assert float(named[1]) >= least_s
    if float(named[1]) > least_s:
        with pytest.raises(ConfigError):
            make(float(named[1]) - 0.01)


@pytest.mark.parametrize(
    ("value", "written"),
    [(60.0, "60"), (0.5, "0.5"), (1e6, "1000000"), (12.40625, "12.40625"), (1 / 3, repr(1 / 3))],
)
def test_a_number_is_the_number_that_it_was(value: float, written: str) -> None:
    assert number(value) == written
    assert float(number(value)) == value


@pytest.mark.parametrize("value", [60.0, 12.4, 12.40625, 1 / 3, 0.1 + 0.2, 23.0000001, 604800.0])
def test_what_is_rounded_for_people_is_enough(value: float) -> None:
    assert value <= float(at_least(value)) < value + 0.001


@pytest.mark.parametrize("value", [1e12, 1e30, float("inf")])
def test_nor_is_what_nobody_means_rounded(value: float) -> None:
    assert float(at_least(value)) == value


def test_the_order_of_words_stays_as_it_was() -> None:
    """A night knows its cells by them, and a reproducer is compared with its own."""
    run = Run(
        system="etcd", workload="register", nemesis="kill", rate=20.0, plugin=("/p.py",),
        system_version=("/b.deb",), checker=("slo",), options={"fault_s": 5},
    )  # fmt: skip
    budget = Budget(nodes=(5,), duration_s=20.0, faults=0, seeds=1)
    assert argv_of_arm(run, Arm(name=""), "smoke", budget, stop_on_violation=True) == [
        *("run", "--system", "etcd", "--workload", "register", "--nemesis", "kill"),
        *("--plugin", "/p.py", "--system-version", "/b.deb", "--checker", "slo"),
        *("--tier", "smoke", "--nodes", "5", "--time-limit", "20", "--seeds", "1"),
        *("--rate", "20", "-o", "fault_s=5", "--stop-on-violation"),
    ]
    spec = RunSpec(
        rate=20.0, model="register", lab="vm", files=("/x/own.py",), checkers=("slo",), seed=4
    )
    small = Candidate(nodes=3, time_limit_s=11.0, concurrency=3, rate=20.0, options=("a=b",))
    assert argv_of(spec, small, "schedule.json", "plugins") == [
        *("dstest", "run", "--system", "etcd", "--workload", "register", "--nemesis", "none"),
        *("--nodes", "3", "--time-limit", "11", "--concurrency", "3", "--seed", "4"),
        *("--rate", "20.0", "--model", "register", "--lab", "vm", "--plugin", "plugins/own.py"),
        *("--checker", "slo", "-o", "a=b"),
    ]


ROOT: Final = Path(inspect.getfile(run_words)).parents[2]
APART: Final = {
    "dstest/core/run_words.py": "the writer",
    "dstest/cli/run.py": "the command itself",
    "dstest/campaign/shrink/reproducer.py": "commands of reductions as earlier versions wrote them",
}
"""Files that name a switch of `dstest run` as a word, and why they may."""


def test_nobody_else_writes_the_words_of_a_run() -> None:
    rooms = ("dstest", "clusters", "checkers", "nemeses", "workloads")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    flags = re.compile(r'"--(time-limit|stop-on-violation|no-monitor|concurrency)"')
    named = {p.relative_to(ROOT).as_posix() for p in files if flags.search(p.read_text())}
    examples = {name for name in named if name.startswith("dstest/campaign/known_bugs/entries/")}
    assert named - examples == set(APART)
