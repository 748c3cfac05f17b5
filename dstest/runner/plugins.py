"""From names to plug-ins, and which checkers judge a workload by which model: what can be refused
is refused here, before any node exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core import limits, registry
from dstest.core.attach import system_of
from dstest.core.errors import ConfigError
from dstest.core.extras import require_packages
from dstest.core.implements import fits
from dstest.core.log_lines import LOG_MB, LOG_OPTION
from dstest.core.near import meant
from dstest.core.protocols import (
    Checker,
    FaultPlan,
    Finishing,
    Lab,
    Nemesis,
    Option,
    System,
    Workload,
)
from dstest.core.rng import stream
from dstest.core.run_record import RunSpec
from dstest.core.run_words import at_least, number
from dstest.runner import simulated_fit
from dstest.runner.fault_plans import Schedule, completed, end_ns, facts_problem, problem_of
from dstest.runner.requirements import (
    check_client,
    check_lab,
    check_moments,
    check_plans,
    check_requires,
    check_spares,
    for_planning,
    parts_of,
)
from dstest.runner.transport import simulates
from dstest.runner.worker_config import (
    CATCH_UP_OPTION,
    CLIENT_OPTION,
    LEFT_OUT_OPTION,
    check_left_out,
    check_raw_client,
)
from nemeses.base import moment
from nemeses.base.schedule import RECOVERY_S
from nemeses.mix import Mix


def checkers_of(
    work: Workload, model: str | None = None, besides: Sequence[str] = ()
) -> list[Checker]:
    """The checkers of a workload, and those that are asked `besides`.

    Raises ConfigError where there is none, where one is not known, and where none of them can judge
    its operations by this model; None stands for the workload's own.
    """
    asked = work.model if model is None else model
    checkers = [_loaded(work, name) for name in work.checkers]
    if not checkers:
        raise ConfigError(
            f"workload {work.name} names no checker",
            remedy=f'`checkers = ("...",)` in the class of {work.name}',
        )
    if any(_speaks(checker, asked, work) for checker in checkers):
        return [*checkers, *_besides(work, besides)]
    known = "; ".join(f"{c.name} knows {', '.join(c.models)}" for c in checkers)
    if model is not None:
        names = [name for checker in checkers for name in checker.models]
        raise ConfigError(
            f"--model {model}: {known}",
            remedy=f"{meant(model, dict.fromkeys(names))}; leave --model out for {work.model}",
        )
    raise ConfigError(
        f"workload {work.name}: no checker of it knows its model {work.model!r} for its operations",
        remedy=f"another `model` or `checkers` in the class of {work.name}: {known}",
    )


def _loaded(work: Workload, name: str) -> Checker:
    try:
        checker: Checker = registry.load("checkers", name)
    except ConfigError as error:
        raise ConfigError(f"workload {work.name}: {error.message}", remedy=error.remedy) from None
    return checker


def _speaks(checker: Checker, model: str, work: Workload) -> bool:
    """Does the checker know the model, and the model every operation of the workload?"""
    op_types = checker.op_types.get(model)
    return model in checker.models and work.op_types <= (op_types or work.op_types)


def _besides(work: Workload, names: Sequence[str]) -> list[Checker]:
    """Raises ConfigError for one that the workload asks anyway, that stands twice, or that does not
    know the workload's operations."""
    found: list[Checker] = []
    for name in names:
        if name in work.checkers or any(one.name == name for one in found):
            raise ConfigError(f"--checker {name}: it is asked anyway", remedy="leave it out")
        checker: Checker = registry.load("checkers", name)
        if not _speaks(checker, checker.models[0], work):
            known = checker.op_types.get(checker.models[0], frozenset())
            strange = ", ".join(sorted(work.op_types - known))
            raise ConfigError(
                f"--checker {name}: it does not know the operations of {work.name}: {strange}",
                remedy=f"`dstest list --workload {work.name}` has its operations",
            )
        found.append(checker)
    return found


def added(checkers: Sequence[Checker], work: Workload) -> list[_Besides]:
    """Those checkers that the workload does not ask itself: their options are the run's as well.

    A workload declares the options of its own checkers itself, with defaults.
    """
    return [
        _Besides(checker.name, checker.options)
        for checker in checkers
        if checker.name not in work.checkers
    ]


class _Besides(NamedTuple):
    name: str
    options: Mapping[str, Option]


def claims_of(work: Workload, checkers: Sequence[Checker]) -> frozenset[str]:
    """What is claimed by a workload, and by those of these checkers that it does not ask itself."""
    besides = (c for c in checkers if c.name not in work.checkers)
    return work.claims.union(*(c.claims for c in besides))


RATE_MAX = 1_000_000.0

RUN_OPTIONS: dict[str, Option] = {
    "op_timeout_s": Option(
        type=float,
        default=2.0,
        least=0.01,
        most=3600,
        help="when a client gives up on an operation",
    ),
    "workers": Option(
        type=int, default=0, least=0, most=64, help="load worker processes; 0 = as many as fit"
    ),
    **CATCH_UP_OPTION,
    LOG_OPTION: Option(
        type=int,
        default=LOG_MB,
        least=1,
        most=1 << 16,
        help="MiB kept of each log; of a longer one the middle is missing, which is no pass",
    ),
    **CLIENT_OPTION,
    **LEFT_OUT_OPTION,
}


class Plugins(msgspec.Struct, frozen=True, kw_only=True):
    """A run's resolved parts. `plans` is the whole fault schedule, known before the run;
    `given` are the options as the user wrote them, `members` the nodes that carry the system.
    """

    spec: RunSpec
    system: System
    workload: Workload
    nemesis: Nemesis
    lab: Lab
    checkers: list[Checker]
    model: str
    members: list[str]
    plans: list[FaultPlan]
    given: list[str]

    @property
    def claims(self) -> frozenset[str]:
        """What is claimed by the workload, and by checkers that were asked besides."""
        return claims_of(self.workload, self.checkers)

    @property
    def workload_finishes(self) -> bool:
        """Does the workload read the final state after the load?"""
        made = self.workload.generator(0, 0, 1, self.spec.options)
        return isinstance(made, Finishing)


def _declared(*parts: Any) -> dict[str, Option]:
    declared = dict(RUN_OPTIONS)
    for part in parts:
        for key, option in part.options.items():
            if key in declared:
                raise ConfigError(
                    f"{part.name} declares -o {key}, which another part has already",
                    remedy="they cannot be run together; in a plug-in of yours, rename the option",
                )
            declared[key] = option
    return declared


def _check_numbers(spec: RunSpec) -> None:
    if not 1 <= spec.nodes <= limits.NODES_MAX:
        raise ConfigError(
            f"--nodes {spec.nodes}: from 1 to {limits.NODES_MAX}", remedy="--nodes 5 is the default"
        )
    if spec.seed < 0:
        raise ConfigError(f"--seed {spec.seed}: 0 or more", remedy="leave --seed out for a new one")
    if not 0 < spec.time_limit_s <= 7 * 86400:
        raise ConfigError(
            f"--time-limit {number(spec.time_limit_s)}: above 0 and at most a week, in s",
            remedy="--time-limit 60 is the default",
        )
    if not 1 <= spec.concurrency <= 10_000:
        raise ConfigError(
            f"--concurrency {spec.concurrency}: from 1 to 10000",
            remedy="--concurrency 20 is the default",
        )
    if spec.rate is not None and not 0 < spec.rate <= RATE_MAX:
        raise ConfigError(
            f"--rate {number(spec.rate)}: above 0 and at most {RATE_MAX:,g}, in operations per"
            " second",
            remedy="leave --rate out for a closed loop",
        )


def options_of(
    system: str | None, workload: str | None, nemesis: str | None
) -> Iterator[tuple[str, str, Option]]:
    """(whose, name, option) of all that `-o` takes for these parts, and for every run. Raises
    ConfigError for a name that is none."""
    parts: list[tuple[str, Mapping[str, Option]]] = []
    if system is not None:
        parts.append((f"system {system}", registry.load("systems", system).options))
    if workload is not None:
        parts.append((f"workload {workload}", registry.load("workloads", workload).options))
    if nemesis is not None:
        parts.append((f"nemesis {nemesis}", _nemesis(nemesis).options))
    for whose, declared in (*parts, ("every run", RUN_OPTIONS)):
        for name, option in declared.items():
            yield whose, name, option


def _nemesis(names: str) -> Nemesis:
    """The nemesis of that name, or several as one: `partition,kill`.

    An empty name is refused, not taken for `none`: it is what an unset variable leaves behind.
    """
    parts = [part.strip() for part in names.split(",")]
    if not all(parts):
        raise ConfigError(
            f"--nemesis {names!r} names no fault", remedy="--nemesis none for a run without faults"
        )
    parts = [part for part in parts if part != "none"] or ["none"]
    members = [registry.load("nemeses", name) for name in dict.fromkeys(parts)]
    nemesis: Nemesis = members[0] if len(members) == 1 else Mix(members)
    return nemesis


def _check_nodes(options: dict[str, Any], declared: dict[str, Option], nodes: list[str]) -> None:
    for key, option in declared.items():
        if not option.names_nodes:
            continue
        given = [name.strip() for name in str(options[key]).split(",") if name.strip()]
        absent = [name for name in given if name not in nodes]
        if absent or len(set(given)) < len(given):
            message = f"no such node: {', '.join(absent)}" if absent else "a node stands twice"
            raise ConfigError(
                f"-o {key}={options[key]}: {message}",
                remedy=f"nodes with a member are {', '.join(nodes)}",
            )


def _members(system: System, spec: RunSpec, options: dict[str, Any]) -> list[str]:
    """The nodes that carry a member, each with a client at least."""
    nodes = [f"n{i + 1}" for i in range(spec.nodes)]
    members = system.members(nodes, options)
    if not fits(members, tuple[str, ...]) or not members or not {*members} <= {*nodes}:
        raise ConfigError(
            f"system {system.name}: its members() returns {members!r}",
            remedy=f"a list of some of {', '.join(nodes)}, those that carry a member",
        )
    if len({*members}) < len(members):
        raise ConfigError(
            f"system {system.name}: its members() returns a node twice",
            remedy="each node once",
        )
    most = system.members_most
    if most is not None and len(members) > most:
        raise ConfigError(
            f"system {system.name}: its members() returns {len(members)}, its members_most is"
            f" {most}",
            remedy="members_most is what it never has more of",
        )
    if spec.concurrency < len(members):
        raise ConfigError(
            f"--concurrency {spec.concurrency} leaves nodes without a client",
            remedy=f"--concurrency {len(members)} or more",
        )
    return [*members]


def _check_services(options: dict[str, Any], declared: dict[str, Option], system: System) -> None:
    for key, option in declared.items():
        if option.names_service and options[key] not in ("", *system.services):
            raise ConfigError(
                f"-o {key}={options[key]}: {system.name} has no such service",
                remedy=f"its services are {', '.join(system.services)}",
            )


_SAMPLES_S: Final = 600.0
"""A run of this length has room for a fault of each nemesis, whose facts a schedule must have."""


def _scheduled(schedule: Schedule, spec: RunSpec) -> list[str]:
    """The options that a schedule brings with it, as the user would give them."""
    if schedule.nodes != spec.nodes:
        raise ConfigError(
            f"the schedule is for {schedule.nodes} nodes", remedy=f"--nodes {schedule.nodes}"
        )
    end_s = end_ns(schedule.plans) / 1e9 + RECOVERY_S
    if spec.time_limit_s < min(end_s, schedule.time_limit_s):
        raise ConfigError(
            f"--time-limit {number(spec.time_limit_s)}: the last fault of the schedule would not"
            " fit",
            remedy=f"--time-limit {at_least(end_s)} or more",
        )
    return [f"{key}={value}" for key, value in schedule.options.items()]


def _check_planned(nemesis: Nemesis, plans: Sequence[FaultPlan], time_limit_s: float) -> None:
    """A nemesis that plans nothing, or what no run of this length can do, is not followed."""
    if not isinstance(plans, list) or not all(isinstance(plan, FaultPlan) for plan in plans):
        raise ConfigError(
            f"--nemesis {nemesis.name}: its plan() returns no list of FaultPlan",
            remedy="a list of `FaultPlan` of dstest.core.protocols",
        )
    problem = problem_of(plans, nemesis.name.split(","))
    if not plans and nemesis.injects:
        problem = f"it plans no fault in {time_limit_s:g} s"
    elif end_ns(plans) > time_limit_s * 1e9:
        problem = f"its last fault ends at {number(end_ns(plans) / 1e9)} s, after --time-limit"
    _refuse(nemesis, problem)


def _refuse(nemesis: Nemesis, problem: str | None) -> None:
    if problem is not None:
        raise ConfigError(
            f"--nemesis {nemesis.name}: {problem}",
            remedy="a longer --time-limit, or another plan: its plan(), or --schedule",
        )


def _plans(
    spec: RunSpec,
    nemesis: Nemesis,
    names: list[str],
    options: Mapping[str, Any],
    schedule: Schedule | None,
) -> list[FaultPlan]:
    """The faults of a run by its seed, or as the schedule has them. Raises ConfigError."""

    def planned(time_limit_s: float) -> list[FaultPlan]:
        plans = nemesis.plan(stream(spec.seed, "nemesis"), names, time_limit_s, options)
        return moment.with_moments(plans, parts_of(nemesis), options)

    if schedule is None:
        return planned(spec.time_limit_s)
    samples = planned(max(spec.time_limit_s, _SAMPLES_S))
    plans = completed(schedule.plans, samples, nemesis.options)
    _refuse(nemesis, facts_problem(plans, samples, nemesis.options))
    return plans


def schedule_of(plugins: Plugins) -> Schedule:
    """The schedule of a run, to be kept with it."""
    spec = plugins.spec
    own = {*plugins.nemesis.options, *moment.keys(parts_of(plugins.nemesis))}
    return Schedule(
        nemesis=plugins.nemesis.name,
        nodes=spec.nodes,
        time_limit_s=spec.time_limit_s,
        options={key: value for key, value in spec.options.items() if key in own},
        plans=plugins.plans,
    )


def _fitting(
    spec: RunSpec, lab: Lab, system: System, nemesis: Nemesis, pairs: list[str]
) -> RunSpec:
    """The spec, as far as the lab has a say in it. Raises ConfigError where system, nemesis and lab
    cannot go together."""
    if simulates(lab):
        simulated_fit.check_fit(spec, system, nemesis, pairs)
    else:
        require_packages(system.client_packages, f"system {system.name}")
        if spec.attach:
            check_spares(system, nemesis, spec.builds)
        check_requires(system, nemesis)
    check_lab(lab, nemesis)
    return msgspec.structs.replace(spec, rate=rate_of(spec, lab))


def rate_of(spec: RunSpec, lab: Lab) -> float | None:
    """What a run in this lab offers, in operations per second; None for a closed loop."""
    return lab.rate if spec.rate is None else spec.rate


def resolve(
    spec: RunSpec,
    pairs: list[str],
    *,
    nemesis: Nemesis | None = None,
    workload: Workload | None = None,
    schedule: Schedule | None = None,
) -> Plugins:
    """All parts of a run, options typed, the fault schedule planned. Raises ConfigError.

    `nemesis` and `workload` replace the named ones; tests sabotage a run with them. A `schedule`
    takes the place of the spec's nemesis and of planning by seed.
    """
    if schedule is not None:
        spec = msgspec.structs.replace(spec, nemesis=schedule.nemesis)
    _check_numbers(spec)
    registry.require(spec.files)
    system = system_of(spec.system, attach=spec.attach)
    work: Workload = workload or registry.load("workloads", spec.workload)
    chosen: Nemesis = nemesis or _nemesis(spec.nemesis)
    check_client(system, work)
    lab = registry.load("labs", spec.lab)
    spec = _fitting(spec, lab, system, chosen, pairs)
    checkers = checkers_of(work, spec.model, spec.checkers)
    model = work.model if spec.model is None else spec.model
    if spec.stop_on_violation and not any(c.prefix_closed for c in checkers):
        raise ConfigError(
            f"--stop-on-violation: {', '.join(c.name for c in checkers)} can judge whole runs only",
            remedy="leave it out for this workload",
        )
    brought = [] if schedule is None else _scheduled(schedule, spec)
    declared = _declared(system, work, chosen, *added(checkers, work))
    declared |= moment.options_of(parts_of(chosen), [*brought, *pairs])
    options = registry.parse_options([*brought, *pairs], declared)
    check_raw_client(system, work, options)
    check_left_out(work, options)
    names = _members(system, spec, options)
    _check_nodes(options, declared, names)
    _check_services(options, declared, system)
    simulated = simulates(lab)
    given = (
        simulated_fit.for_planning(chosen, options)
        if simulated
        else for_planning(system, chosen, options)
    )
    plans = _plans(spec, chosen, names, given, schedule)
    _check_planned(chosen, plans, spec.time_limit_s)
    if simulated:
        simulated_fit.check_plans(system, chosen, plans)
    else:
        check_plans(system, chosen, plans)
    check_moments(system, chosen, plans, simulated=simulated)
    return Plugins(
        spec=msgspec.structs.replace(spec, options=options),
        system=system,
        workload=work,
        nemesis=chosen,
        lab=lab,
        checkers=checkers,
        model=model,
        members=names,
        plans=plans,
        given=list(pairs),
    )
