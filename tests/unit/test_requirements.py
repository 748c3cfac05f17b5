"""What each nemesis asks of a system: refused when a run is planned, or there when it is needed."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from real_run import change_facts, unpack
from third_party import BARE, LINKED, PROCESSES, ship

from clusters.systems.etcd.deployment import EtcdDeployment
from clusters.systems.etcd.system import SYSTEM as ETCD
from dstest.campaign.session import begin, plan_arms
from dstest.core import registry
from dstest.core.errors import ConfigError, FaultRefused
from dstest.core.implements import members_of
from dstest.core.protocols import (
    FaultPlan,
    Kill,
    NemesisContext,
    Pause,
    PlanOptions,
    System,
)
from dstest.core.run_record import RunSpec
from dstest.runner import replay
from dstest.runner.plugins import resolve, schedule_of
from dstest.runner.requirements import check_lab, check_plans, deployed, lacking
from nemeses.mix import Mix

pytestmark = pytest.mark.slow

ALL = registry.names("nemeses")
ON_ETCD = [name for name in ALL if name not in ("schema-change", "store-outage")]
"""It has no tables, and depends on no other system."""
OPTIONS = {
    "credentials": ["auth=true"],
    "mixed-versions": [f"other_build={__file__}"],
    "upgrade": [f"other_build={__file__}"],
}
SERVERS = ("Processes",)
STARTED = ("Supervised",)
WANTED: dict[str, tuple[str, ...]] = {
    "none": (),
    **dict.fromkeys(
        ("partition", "new-connections", "loss", "latency", "duplicate", "reorder", "corrupt"),
        ("Linked",),
    ),
    "split-brain": ("Linked", "Leadership"),
    "store-outage": (*STARTED, "ServerLogs", "DependsOnStore"),
    "kill": STARTED,
    "aimed": STARTED,
    "stop": (*STARTED, "Terminate", "ServerLogs"),
    "pause": SERVERS,
    "restart": STARTED,
    "rolling": (*STARTED, "Leadership"),
    "bandwidth": SERVERS,
    **dict.fromkeys(("clock", "clock-step", "clock-steer"), (*SERVERS, "Clocked")),
    **dict.fromkeys(
        ("power", "disk-full", "fsync-error", "io-error", "bit-rot"), (*STARTED, "DataDir")
    ),
    "slow-disk": (*SERVERS, "DataDir"),
    "slow-follower": (*SERVERS, "Leadership", "Replication"),
    "memory": (*STARTED, "ControlGroups"),
    "fds": (*STARTED, "ServerLogs"),
    "compaction": (*SERVERS, "Compacts", "Digests", "Revisions"),
    "membership": (*STARTED, "Members"),
    "schema-change": (*SERVERS, "ChangesSchema"),
    "config": (*STARTED, "Divergent", "Overrides"),
    "bit-flip": (*STARTED, "Damageable", "Digests", "Revisions", "ServerLogs"),
    "credentials": (*STARTED, "Authenticated"),
    "backup": (*STARTED, "Members", "Replication", "Revisions", "ServerLogs", "Snapshots"),
    "mixed-versions": (*STARTED, "Builds", "Overrides"),
    "upgrade": (*STARTED, "Builds"),
}
"""What every fault of a nemesis asks for."""


@pytest.fixture
def ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets a test install plug-ins of its own, a `toy` system unless it says otherwise."""

    def shipped(source: str, **groups: str) -> None:
        monkeypatch.delitem(sys.modules, "toy_plugin", raising=False)
        ship(tmp_path, source, **(groups or {"systems": "toy = toy_plugin:SYSTEM"}))
        importlib.invalidate_caches()

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DSTEST_NO_PLUGINS", raising=False)
    return shipped


def spec(nemesis: str, system: str = "toy", **more: Any) -> RunSpec:
    """On a lab that can do whatever a nemesis asks of one."""
    more.setdefault("lab", "vm")
    return RunSpec(system=system, nemesis=nemesis, time_limit_s=90.0, seed=3, **more)


@pytest.mark.parametrize("name", ON_ETCD)
def test_every_nemesis_is_planned_against_etcd(name: str) -> None:
    planned = resolve(spec(name, "etcd"), OPTIONS.get(name, []))
    assert bool(planned.plans) == (name != "none")
    assert lacking(planned.system, planned.nemesis) == []


def test_the_table_is_complete() -> None:
    assert set(WANTED) == set(ALL)
    for name, names in WANTED.items():
        asked = registry.load("nemeses", name).requires
        assert sorted(c.__name__ for c in asked) == sorted(names), name


@pytest.mark.parametrize("name", ALL)
def test_a_system_without_capabilities_is_told_which(name: str, ships: Callable[..., None]) -> None:
    ships(BARE)
    if not WANTED[name]:
        assert bool(resolve(spec(name), []).plans) == (name != "none")
        return
    with pytest.raises(ConfigError) as caught:
        resolve(spec(name), OPTIONS.get(name, []))
    said = caught.value.message
    assert f"system toy cannot have --nemesis {name}: it lacks" in said
    for capability in registry.load("nemeses", name).requires:
        assert f"{capability.__name__} ({', '.join(members_of(capability))})" in said
    assert "dstest list" in str(caught.value.remedy)
    assert "Deployment" in str(caught.value.remedy)


def test_several_at_once_are_asked_one_by_one(ships: Callable[..., None]) -> None:
    ships(BARE + PROCESSES + LINKED)
    with pytest.raises(ConfigError, match="cannot have --nemesis stop: it lacks Terminate"):
        resolve(spec("kill,stop"), [])
    assert resolve(spec("kill,partition"), []).plans


SOME = [
    ("kill", "scope=primaries", "Leadership"),
    ("membership", "scope=primaries", "Leadership"),
    ("partition", "shape=leader", "Leadership"),
    ("loss", "shape=leader", "Leadership"),
    ("clock", "monotonic=true", "Leadership"),
    ("pause", "way=signal", "Pause"),
    ("pause", "way=freezer", "Freezes"),
    ("bit-flip", "what=tail", "Truncatable"),
]


def without(*capabilities: str) -> Any:
    """etcd, but for what only these capabilities give."""
    found = [registry.load("nemeses", name) for name in ALL]
    whens = [when for nemesis in found for when in nemesis.requires_when]
    asked = [kind for one in [*found, *whens] for kind in one.requires]
    kinds = [kind for kind in dict.fromkeys(asked) if kind.__name__ in capabilities]
    gone = {name: None for kind in kinds for name in members_of(kind)}
    bases = [base for base in EtcdDeployment.__mro__[1:] if base not in kinds]
    plain = [base for base in bases if not getattr(base, "_is_protocol", False)]
    methods = {
        name: value
        for base in reversed([EtcdDeployment, *plain[:-1]])
        for name, value in vars(base).items()
        if not name.startswith("__") or name == "__init__"
    }
    kind = type("Less", (), {**methods, **gone})
    return SimpleNamespace(
        **{k: getattr(ETCD, k) for k in dir(ETCD) if not k.startswith("_") and k != "deployment"},
        deployment=kind,
    )


@pytest.fixture
def less(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets a test take capabilities of etcd away."""

    def taken(*capabilities: str) -> None:
        real, system = registry.load, without(*capabilities)
        monkeypatch.setattr(registry, "load", lambda g, n: system if g == "systems" else real(g, n))

    return taken


@pytest.mark.parametrize(("name", "option", "capability"), SOME)
def test_what_only_some_faults_ask_for(
    name: str, option: str, capability: str, less: Callable[..., None]
) -> None:
    assert resolve(spec(name, "etcd"), [option]).plans
    less(capability)
    with pytest.raises(ConfigError) as caught:
        resolve(spec(name, "etcd"), [option])
    assert f"cannot have --nemesis {name} with " in caught.value.message
    assert f"it lacks {capability} (" in caught.value.message
    assert str(caught.value.remedy).startswith("another -o ")


@pytest.mark.parametrize(
    ("name", "fact", "value"),
    [("kill", "scope", "primaries"), ("membership", "scope", "primaries"),
     ("partition", "shape", "leader"), ("kill,partition", "scope", "primaries")],
)  # fmt: skip
def test_what_is_drawn_asks_for_nothing_that_is_lacking(
    name: str, fact: str, value: str, less: Callable[..., None]
) -> None:
    drawn = {p.facts.get(fact) for p in resolve(spec(name, "etcd"), []).plans}
    assert value in drawn
    less("Leadership")
    for seed in range(20):
        again = resolve(msgspec.structs.replace(spec(name, "etcd"), seed=seed), [])
        assert value not in {p.facts.get(fact) for p in again.plans}


@pytest.mark.parametrize("name", ON_ETCD)
def test_plans_on_etcd_are_those_of_the_seed_alone(name: str) -> None:
    planned = resolve(spec(name, "etcd"), OPTIONS.get(name, []))
    nodes = [f"n{i + 1}" for i in range(planned.spec.nodes)]
    rng = random.Random
    plan: Callable[..., list[FaultPlan]] = planned.nemesis.plan
    given = PlanOptions(planned.spec.options, frozenset())
    assert plan(rng(5), nodes, 90.0, given) == plan(rng(5), nodes, 90.0, planned.spec.options)


def test_a_schedule_is_held_to_the_same(less: Callable[..., None]) -> None:
    schedule = schedule_of(resolve(spec("kill", "etcd"), []))
    assert {"primaries", "one"} <= {p.facts["scope"] for p in schedule.plans}
    assert resolve(RunSpec(time_limit_s=90.0), [], schedule=schedule).plans == schedule.plans
    less("Leadership")
    with pytest.raises(ConfigError, match="kill with scope=primaries: it lacks Leadership"):
        resolve(RunSpec(time_limit_s=90.0), [], schedule=schedule)
    less("Processes")
    with pytest.raises(ConfigError, match=r"kill: it lacks Supervised \(processes\)"):
        resolve(RunSpec(time_limit_s=90.0), [], schedule=schedule)


def test_a_fault_that_does_not_say_how_it_pauses_stops_by_signal() -> None:
    pause = registry.load("nemeses", "pause")
    plans = resolve(spec("pause", "etcd"), ["way=freezer"]).plans
    check_plans(without("Pause"), pause, plans)
    facts = {key: value for key, value in plans[0].facts.items() if key != "way"}
    with pytest.raises(ConfigError, match="it lacks Pause"):
        check_plans(without("Pause"), pause, [msgspec.structs.replace(plans[0], facts=facts)])


def test_a_mix_is_held_to_each_of_its_parts() -> None:
    """`one` means another thing to each."""
    parts = [registry.load("nemeses", name) for name in ("kill", "membership")]
    plans = resolve(spec("kill,membership", "etcd"), ["membership.scope=primaries"]).plans
    with pytest.raises(ConfigError, match="membership with scope=primaries: it lacks Leadership"):
        check_plans(
            without("Leadership"), Mix(parts), [p for p in plans if p.nemesis == "membership"]
        )


def test_a_session_is_refused_before_it_has_a_directory(
    tmp_path: Path, ships: Callable[..., None]
) -> None:
    ships(BARE)
    plan = plan_arms(
        tier=None, seeds=[1, 2], count=None, sizes=None, time_limit_s=60.0, first_seed=1
    )
    with pytest.raises(ConfigError, match="it lacks Supervised"):
        begin(spec("kill"), [], plan, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_replay_is_refused_before_there_is_a_lab(
    tmp_path: Path, ships: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = unpack(tmp_path / "run")
    facts = run.read_json("run.json")
    change_facts(run, spec={**facts["spec"], "system": "toy", "workload": "register"})
    (run.path / "verdict.json").touch()
    nothing = SimpleNamespace(verdict=SimpleNamespace(evidence=SimpleNamespace()))
    nothing.verdict.evidence.violation_fingerprint = None
    monkeypatch.setattr(replay, "verify_run", lambda found: nothing)

    def ran(*given: Any, **more: Any) -> None:
        raise AssertionError("it must not come to a run")

    monkeypatch.setattr(replay, "run_session", ran)
    ships(BARE + LINKED)
    schedule = run.path / "schedule.json"
    plan = schedule.read_text()
    schedule.write_text(plan.replace('"shape": "one"', '"shape": "leader"'))
    with pytest.raises(ConfigError, match="partition with shape=leader: it lacks Leadership"):
        replay.replay(run.path, 1, store=tmp_path / "store")
    schedule.write_text(plan)
    with pytest.raises(AssertionError, match="come to a run"):
        replay.replay(run.path, 1, store=tmp_path / "store")


CLAIMS = f"""{BARE}
from dstest.core.protocols import Kill, Pause

class Deployment(Deployment, Kill, Pause):
    async def kill(self, names, service=""): ...
    async def pause(self, names, service=""): ...

Toy.deployment = Deployment
"""


@pytest.mark.parametrize("nemesis", ["none", "partition", "kill"])
def test_a_claim_that_is_not_kept_names_the_method(
    nemesis: str, ships: Callable[..., None]
) -> None:
    ships(CLAIMS)
    with pytest.raises(ConfigError, match=r"claims (Kill|Pause) and lacks re(start|sume)"):
        resolve(spec(nemesis), [])


def test_systems_and_nemeses_that_do_not_say(ships: Callable[..., None]) -> None:
    ships(BARE.replace("    deployment = Deployment\n", ""))
    with pytest.raises(ConfigError, match="does not say of which class its deployments are"):
        resolve(spec("none"), [])
    ships(BARE.replace("async def healthy", "async def whole"))
    with pytest.raises(ConfigError, match="lacks healthy, which every deployment has"):
        resolve(spec("none"), [])
    ships(
        BARE + "from nemeses.none import NoNemesis\n"
        "class Silent(NoNemesis):\n    name, requires = 'silent', None\nSILENT = Silent()\n",
        systems="toy = toy_plugin:SYSTEM",
        nemeses="silent = toy_plugin:SILENT",
    )
    with pytest.raises(ConfigError, match="silent does not say what it requires"):
        resolve(spec("silent"), [])


def test_what_is_deployed_is_what_was_asked() -> None:
    class Made(System):
        deployment = EtcdDeployment
        name = "made"

        def deploy(self, nodes: Any, options: Any) -> Any:
            return SimpleNamespace()

    assert isinstance(deployed(ETCD, [], {}), EtcdDeployment)
    with pytest.raises(ConfigError, match="made deploys a SimpleNamespace, not a EtcdDeployment"):
        deployed(Made(), [], {})


def test_a_lab_is_asked_as_well() -> None:
    lab: Any = SimpleNamespace(name="flat")
    check_lab(lab, registry.load("nemeses", "kill"))
    with pytest.raises(ConfigError, match=r"lab flat cannot have --nemesis restart: .* Restarts"):
        check_lab(lab, registry.load("nemeses", "restart"))
    check_lab(registry.load("labs", "lxc"), registry.load("nemeses", "restart"))


def test_what_was_not_declared_is_refused_where_it_is_needed() -> None:
    nothing: Any = None
    pause: Any = Pause
    kill: Any = Kill
    ctx = NemesisContext(
        nodes={}, lab=nothing, deployment=nothing, clock=nothing, traffic=nothing, epochs=nothing
    )
    with pytest.raises(FaultRefused, match=r"lacks Pause \(pause, resume\)"):
        ctx.need(pause)
    assert ctx.offered(pause) is None
    etcd = ETCD.deploy([], {})
    assert msgspec.structs.replace(ctx, deployment=etcd).need(kill) is etcd


@pytest.mark.parametrize(
    ("system", "lacks"),
    [
        ("postgresql", ["more members (it has 1 at most, 2 are needed)"]),
        ("postgresql-standby", []),
        ("memcached", []),
    ],
)
def test_what_shows_between_two_members_needs_two(system: str, lacks: list[str]) -> None:
    found = lacking(registry.load("systems", system), registry.load("nemeses", "bandwidth"))
    assert [lack.text for lack in found if not lack.when] == lacks


def test_a_cap_on_a_cluster_of_one_is_refused_when_it_is_planned() -> None:
    with pytest.raises(ConfigError, match="no transfer between two shows it"):
        resolve(RunSpec(system="etcd", workload="register", nemesis="bandwidth", nodes=1), [])
