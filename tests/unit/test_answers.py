"""What the file of a system answers is looked at before a fault is proven by it."""

from __future__ import annotations

import asyncio
import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from third_party import context

from clusters.supervise import Durable
from dstest.core import answers, registry
from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import (
    Endpoint,
    Leadership,
    LeaderView,
    Linked,
    Member,
    Probe,
    Process,
    Service,
    Timing,
)
from dstest.core.registry import offered
from dstest.extend.scaffold.write import KINDS, write
from dstest.runner.answers import check_members, check_places, check_relations, check_timing
from dstest.runner.run import all_serve
from nemeses.base import process_evidence
from nemeses.base.leadership import lead
from nemeses.base.paths import use_of
from nemeses.base.process_evidence import control, with_clients, without_majority
from nemeses.base.process_fault import process_standing

NAMES = ["n1", "n2"]
NODES: Any = {n: SimpleNamespace(name=n, info=SimpleNamespace(address=f"10.0.0.{n[1]}"))
              for n in NAMES}  # fmt: skip
DB = Service(name="db", argv=("db",), probe=Probe(7420), log="/l", ports={"peer": 7430})
INTEGRATION = Path(__file__).parents[1] / "integration"


class Toy(Leadership, Linked):
    """Answers as it is told; well unless told otherwise."""

    timing = Timing()

    def __init__(self, *services: Any, **told: Any) -> None:
        self.members = {name: Member(name, services or (DB,)) for name in NAMES}
        self.told = told

    def endpoints(self) -> Any:
        ends = [end(name) for name in NAMES]
        return self.told.get("endpoints", ends)

    def links(self) -> Any:
        return self.told.get("links")

    async def leaders(self) -> Any:
        return self.told.get("leaders", [LeaderView(member="n1", leader="n2", epoch=1)])

    async def claims(self, name: str, group: str) -> bool:
        return False

    async def healthy(self) -> Any:
        return self.told.get("healthy", {"n1": True})


def end(name: str, port: int = 7420, **more: Any) -> Endpoint:
    address = more.pop("address", f"10.0.0.{name[1]}")
    return Endpoint(node=name, address=address, port=port, **more)


def db(**changed: Any) -> Service:
    return msgspec.structs.replace(DB, **changed)


def places(toy: Any, system: Any = None) -> None:
    system = system or SimpleNamespace(name="toy")
    check_places(system, toy, NODES, toy.endpoints())


def refusal(act: Callable[[], Any]) -> ConfigError:
    with pytest.raises(ConfigError) as told:
        act()
    assert told.value.remedy
    return told.value


def test_what_is_well_is_let_through() -> None:
    toy: Any = Toy(db(after=("other",)), db(name="other"))
    check_members(toy, NAMES)
    places(toy)
    asyncio.run(check_relations(toy))


@pytest.mark.parametrize("port", [7420, 7430])
def test_a_port_of_the_probe_or_of_ports_is_one_of_a_service(port: int) -> None:
    places(Toy(endpoints=[end("n1", port), end("n2")]))


@pytest.mark.parametrize("kind", ["any", "primary", "seed", "proxy"])
def test_an_endpoint_at_a_port_of_no_service_is_refused(kind: Any) -> None:
    toy = Toy(endpoints=[end("n1"), end("n2", 7421, kind=kind)])
    told = refusal(lambda: places(toy))
    assert told.message.startswith("endpoints() of system toy: port 7421 of n2 belongs to no serv")
    assert "db has 7420, 7430" in told.message
    assert "Service(ports=" in str(told.remedy)


def test_so_is_the_port_that_its_clients_really_dial() -> None:
    system: Any = SimpleNamespace(name="toy", client_port=7421, request_counter=lambda: None)
    told = refusal(lambda: places(Toy(), system))
    assert told.message.startswith("client_port 7421 of system toy belongs to no service")
    system.client_port = 7430
    places(Toy(), system)


def test_a_proxy_of_no_member_may_be_anywhere_and_proves_nothing_of_members() -> None:
    ends = [end("lb", 80, address="10.0.0.9", kind="proxy"), end("n1")]
    places(Toy(endpoints=ends))
    assert with_clients(context(Toy(endpoints=ends))) == ["n1"]


def test_clients_that_were_answered_by_others_alone_prove_nothing_of_their_node() -> None:
    rows = {"n1": {"ok": 5, "ok_elsewhere": 9}, "n2": {"ok": 0, "ok_elsewhere": 9}}
    deployment = Toy(endpoints=[end("n1"), end("n2", kind="replica")])
    assert with_clients(context(deployment)) == ["n1", "n2"]
    ctx = context(deployment, traffic=SimpleNamespace(by_node=lambda: rows))
    assert with_clients(ctx) == ["n1"]
    then = {name: {**row, "ok": 1} for name, row in rows.items()}
    assert with_clients(ctx, of_targets(["n2"], traffic_at_inject=then)) == ["n1", "n2"]


def of_targets(targets: list[str], **facts: Any) -> LandingRecord:
    return LandingRecord(
        fault_id="f1", nemesis="kill", targets=targets, scheduled_at=1, epoch="f1", facts=facts
    )


@pytest.mark.parametrize(
    ("endpoints", "said"),
    [
        ([], "Toy.endpoints() answers nothing"),
        (None, "answers None; expected: a list of Endpoint"),
        (["n1:7420"], "answers 'n1:7420', which is no Endpoint"),
        ([end("n9")], "an endpoint at 'n9', which carries no member; expected: one of n1, n2"),
        ([end("n1", port="7420")], "Expected `int`, got `str` - at `$.port`"),  # type: ignore[arg-type]
        ([end("n1", kind="all")], "Invalid enum value 'all'"),
        ([end("n1", address="10.0.0.2")], "10.0.0.2 for n1, which is the address of n2"),
    ],
)
def test_endpoints_that_cannot_be(endpoints: Any, said: str) -> None:
    assert said in refusal(lambda: places(Toy(endpoints=endpoints))).message


@pytest.mark.parametrize(
    ("services", "said"),
    [
        ([DB, DB], "Toy.services answers on n1 more than one service db"),
        ([db(name="../../tmp/evil")], "a service '../../tmp/evil'; expected: a name of letters"),
        ([db(name="my server")], "a service 'my server'"),
        ([db(name="")], "a service ''"),
        ([db(name=".hidden")], "a service '.hidden'"),
        ([db(name=7)], "Expected `str`, got `int` - at `$.services[0].name`"),
        ([db(probe=Probe(0))], "port 0 of service db; expected: a port from 1"),
        ([db(ports={"peer": 70_000})], "port 70000 of service db"),
        ([db(probe=Probe(1, "ping"))], "Expected `bytes`, got `str`"),  # type: ignore[arg-type]
        ([db(argv="db --fast")], "Expected `array`, got `str` - at `$.services[0].argv`"),
        ([db(log=Path("/l"))], "Encoding objects of type PosixPath"),
        ([db(after=("db",))], "services that start after db"),
        ([db(after=("nobody",))], "services that start after nobody"),
        (["db"], "Expected `object`, got `str`"),
    ],
)
def test_services_that_cannot_be(services: Any, said: str) -> None:
    toy: Any = Toy(*services)
    assert said in refusal(lambda: check_members(toy, NAMES)).message


def test_members_are_those_that_were_planned() -> None:
    toy: Any = Toy()
    toy.members["n1"] = Member("n1", ())
    check_members(toy, NAMES)
    told = refusal(lambda: check_members(toy, ["n1"]))
    assert told.message == "Toy.members answers members n1, n2; expected: one on each of n1"
    toy.members["n2"] = Member("n2", ())
    assert (
        "services answers nothing on any node" in refusal(lambda: check_members(toy, NAMES)).message
    )
    toy.members = {}
    assert "no member" in refusal(lambda: check_members(toy, NAMES)).message


@pytest.mark.parametrize(
    ("leaders", "said"),
    [
        (None, "Toy.leaders() answers None; expected: a list of LeaderView"),
        (["n1", "n2"], "answers 'n1', which is no LeaderView"),
        ([LeaderView(member="n9", leader=None)], "a view of 'n9'; expected: a member: n1, n2"),
        ([LeaderView(member="n1", leader="n9")], "that n1 takes 'n9' for the leader"),
        ([LeaderView(member="n1", leader="")], "that n1 takes '' for the leader"),
        ([LeaderView(member="n1", leader="n2", epoch="7")], "got `str` - at `$.epoch`"),  # type: ignore[arg-type]
    ],
)
def test_leaders_that_cannot_be(leaders: Any, said: str) -> None:
    """Before the load, and by a nemesis."""
    toy: Any = Toy(leaders=leaders)
    for asked in (check_relations(toy), lead(context(toy))):
        assert said in refusal(lambda asked=asked: asyncio.run(asked)).message  # type: ignore[misc]


@pytest.mark.parametrize("links", ["all", [("n1", "n9")], [("n1",)], [("n1", "n1")], ["n1"], 7])
def test_links_that_cannot_be(links: Any) -> None:
    toy: Any = Toy(links=links)
    told = refusal(lambda: asyncio.run(check_relations(toy)))
    assert told.message.startswith("Toy.links() answers")
    assert "expected: None, or a list of pairs of members: n1, n2" in told.message
    assert refusal(lambda: use_of(context(toy), {})).message == told.message


@pytest.mark.parametrize("links", [None, [], [("n1", "n2"), ("n2", "n1")]])
def test_links_that_can_be(links: Any) -> None:
    assert answers.check_links(Toy(links=links), links) == links  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "healthy", [None, ["n1"], {"n9": True}, {"n1": "no"}, {"n1": 1}, {"n1": math.nan}, {1: True}]
)
def test_health_that_cannot_be(healthy: Any) -> None:
    toy: Any = Toy(healthy=healthy)
    assert "Toy.healthy() answers" in refusal(lambda: asyncio.run(all_serve(toy))).message


TYPED: list[tuple[str, Callable[..., Any], list[Any], Any]] = [
    ("version", answers.check_version, [math.nan, None, b"1", "\udc80"], "1"),
    ("member_names", answers.check_names, [None, "n1", [1], [math.nan]], ["n1"]),
    ("replica_states", answers.check_states, [None, {"n1": 1}, {"n1": math.nan}], {"n1": None}),
    ("log_files", answers.check_log_files, [None, {"n1": "/l"}, {"n1": [b"/l"]}], {"n1": ["/l"]}),
    ("processes", answers.check_processes, [None, {"n1": [7]}, {"n1": None}],
     {"n1": [Process("db", 7, 70)]}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "check", "wrong", "right"), TYPED)
def test_answers_of_another_type(
    method: str, check: Callable[..., Any], wrong: list[Any], right: Any
) -> None:
    assert check(Toy(), right) == right
    for answer in wrong:
        told = refusal(lambda answer=answer: check(Toy(), answer))  # type: ignore[misc]
        assert told.message.startswith(f"Toy.{method}() answers ")


@pytest.mark.parametrize("start_s", [math.nan, math.inf, -1.0, "45"])
def test_times_that_are_none(start_s: Any) -> None:
    toy: Any = Toy()
    toy.timing = Timing()
    check_timing(toy)
    toy.timing = Timing(start_s=start_s)
    assert refusal(lambda: check_timing(toy)).message.startswith("Toy.timing answers ")


def own(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, INTEGRATION / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SYSTEM


FILES = ("forking_system", "survivor_system", "beanstalkd_system")


@pytest.mark.parametrize("name", [*registry.names("systems"), *FILES, "scaffold"])
def test_systems_that_we_have_are_well(name: str, tmp_path: Path) -> None:
    if name == "scaffold":
        system = offered(write(KINDS["system"], "small-store", tmp_path)[0])["systems"]
    else:
        system = own(name) if name in FILES else registry.load("systems", name)
    options = {key: option.default for key, option in system.options.items()}
    nodes = [SimpleNamespace(name=n, info=SimpleNamespace(address=x.info.address, lab_id="x"))
             for n, x in NODES.items()]  # fmt: skip
    deployment = system.deploy(nodes, options)
    check_members(deployment, NAMES)
    check_places(system, deployment, NODES, deployment.endpoints())
    links = getattr(deployment, "links", lambda: None)()
    assert answers.check_links(deployment, links) in (None, links)


class Kept(Durable):
    """Two services with data; nothing of it is ever started."""

    def __init__(self, *paths: str, log: str = "/opt/kept/log") -> None:
        super().__init__([SimpleNamespace(name="n1")], {})
        self.paths, self.log = paths, log

    def services(self, node: Any) -> list[Service]:
        return [
            Service(name=f"s{i}", argv=("s",), data=(path,), log=self.log, probe=Probe(80 + i))
            for i, path in enumerate(self.paths)
        ]

    async def healthy(self) -> dict[str, bool]:
        return {}

    async def version(self) -> str:
        return ""


def test_all_data_is_below_one_directory() -> None:
    deployment: Any = Kept("/opt/kept/data/a", "/opt/kept/data/b")
    assert deployment.data_dir() == "/opt/kept/data"
    check_members(deployment, ["n1"])


def test_a_log_beside_the_data_is_refused() -> None:
    """Two directories whose parent has more than data."""
    deployment: Any = Kept("/opt/kept/a", "/opt/kept/b")
    with pytest.raises(ConfigError, match="/opt/kept, with /opt/kept/log in it"):
        check_members(deployment, ["n1"])


def test_data_that_a_fault_would_leave_out_is_refused() -> None:
    class Half(Kept):
        def data_dir(self) -> str:
            return "/opt/kept/data/a"

    deployment: Any = Half("/opt/kept/data/a", "/opt/kept/data/b")
    with pytest.raises(ConfigError, match="/opt/kept/data/a, without /opt/kept/data/b"):
        check_members(deployment, ["n1"])


def test_no_data_is_refused() -> None:
    deployment: Any = Kept()
    with pytest.raises(ConfigError, match="none of its services names any data"):
        deployment.data_dir()


@pytest.mark.parametrize(
    ("declared", "targets", "moved"),
    [
        (True, ["n1", "n2"], False),
        (True, ["n1"], True),
        (False, ["n1", "n2"], True),
    ],
)
def test_who_is_silent_without_a_majority_was_not_hit(
    declared: bool, targets: list[str], moved: bool
) -> None:
    service = msgspec.structs.replace(DB, silent_without_majority=declared)
    names = ["n1", "n2", "n3"]
    members = {name: Member(name, [service]) for name in names}
    ctx = context(SimpleNamespace(members=members), nodes=dict.fromkeys(names))
    record = of_targets(targets, asked_before={"control->n3": 1})
    asked = {"control->n1": 0, "control->n2": 0, "control->n3": 0}
    said = control(record, asked, {}, without_majority(ctx, record, asked))
    assert said.moved is moved
    assert said.detail == (
        "no answer either: control->n3"
        if moved
        else "n3 silent, without a majority; no other one was hit"
    )
    heard = {**asked, "control->n2": 1}
    assert without_majority(ctx, record, heard) == [], "a target that answers is there"


def test_a_server_that_refused_before_it_ended_is_quiet_since_then() -> None:
    """What was counted while it ran, and was no evidence then, tells when the last answer was."""
    counts = {"ok": 5, "fail": 9, "unknown": 0}
    ctx = context(
        Toy(endpoints=[end("n1")]),
        clock=SimpleNamespace(now_ns=lambda: 9),
        traffic=SimpleNamespace(by_node=lambda: {"n1": counts}),
    )
    record = of_targets(["n1"], counted={"n1": [5, 3]}, quiet={}, traffic_at_inject={"n1": counts})
    assert process_evidence._counted(ctx, record) == {"n1": [5, 3]}
    counts["ok"] = 6
    assert process_evidence._counted(ctx, record) == {"n1": [6, 9]}


def test_one_that_was_gone_and_answers_again_is_a_doubt() -> None:
    moved = Signal(signal="gone", moved=True)
    earlier = msgspec.structs.replace(of_targets(["n1"], quiet={"n1": [5, 3]}), landed_at=1)
    for quiet, doubts in (({"n1": [5, 3]}, 0), ({"n1": [6, 9]}, 1), ({}, 1)):
        now = msgspec.structs.replace(of_targets(["n1"], quiet=quiet), injector=moved)
        assert len(process_standing(earlier, now).doubts) == doubts
