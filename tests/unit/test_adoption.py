"""What adopting decides from what machines say, without a machine."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clusters.labs import state
from clusters.labs.existing import adopt, agent_survey
from clusters.labs.existing.book import HostFacts, LeftNow, differences, same_machine
from clusters.labs.existing.survey import MachineSurvey
from dstest.core import registry
from dstest.core.errors import FaultRefused, LabError
from dstest.core.node import FEATURES, Completed, Foreign, LabInfo, Made, NodeInfo, alternatives
from dstest.core.protocols import FaultPlan, Nemesis
from dstest.runner import adoption
from dstest.runner.adoption import COMMON_HOMES
from dstest.runner.before_load import check_features, check_installed, needs_of

EMPTY = LeftNow(
    etc={},
    hosts=None,
    places=[],
    run=[],
    nft=[],
    iptables=[],
    links=[],
    tc=[],
    mounts=[],
    cgroups=[],
    processes=[],
)


def facts(**changes: Any) -> HostFacts:
    plain: dict[str, Any] = {
        **agent_survey.facts(
            {"features": {}, "residues": {}, "packages": [], "names": [], "paths": []}
        ),
        "uid": 0,
        "marker": None,
        "packages": [],
        "boot_id": "b",
        "network": "net:1",
        "processes": "pid:1",
    }
    return msgspec.convert({**plain, **changes}, HostFacts)


def machine(name: str = "n1", **changes: Any) -> MachineSurvey:
    names = ("control", "control6", "ssh_from")
    given: dict[str, Any] = {k: changes.pop(k) for k in names if k in changes}
    info = NodeInfo(
        name=name, address=f"192.0.2.{name[1:]}", lab_id="one", **changes.pop("info", {})
    )
    changes.setdefault("addresses", [a for a in (info.address, info.address6) if a])
    shown: dict[str, Any] = {"control": "192.0.2.99", "control6": None, "ssh_from": "192.0.2.99"}
    return MachineSurvey(
        info=info,
        alias=f"db-{name}",
        facts=facts(**changes),
        found=EMPTY,
        lines=[],
        clock_ahead_s=0.0,
        **{**shown, **given},
    )


def adopting(*seen: MachineSurvey, homes: Sequence[str] = ()) -> adoption.Adoption:
    return adoption.Adoption(
        lab_id="one", seen=list(seen), problems=[], foreign={}, homes=list(homes)
    )


def test_a_machine_that_cannot_tell_its_packages_loses_no_system() -> None:
    """As where there is no dpkg: the start of the system tells."""
    assert adopting(machine(packages=None)).lost_systems() == {}
    lost = adopting(machine(packages=None), machine("n2")).lost_systems()
    assert lost["etcd"].startswith("n2 (db-n2): not installed: ")


def test_directories_of_the_machines_own_lose_the_system_that_wants_them() -> None:
    plan = adopting(machine(), machine("n2", packages=None, paths=["/opt/etcd-other"]))
    assert plan.lost_systems()["etcd"].endswith(
        "; n2 (db-n2): /opt/etcd-other is there already, and is not dstest's"
        " (move it away, or let it write below a directory of its own)"
    )
    plan.refuse_lost()  # nobody has named it
    with pytest.raises(LabError, match="etcd cannot run on these machines: n1 "):
        msgspec.structs.replace(plan, places={"etcd": ["/opt/etcd"]}).refuse_lost()


@pytest.mark.parametrize(
    ("code", "found"), [(0, ["a"]), (1, None), (127, None), (-9, None)], ids=str
)
def test_packages_are_told_by_dpkg_alone(
    monkeypatch: pytest.MonkeyPatch, code: int, found: list[str] | None
) -> None:
    """Whatever the looks for leftovers end with."""

    def said(argv: list[str], stdin: str = "") -> tuple[int, str]:
        if argv[0] == "dpkg-query":
            return code, "a installed\nb config-files\nc installed"
        return 3, "no"

    monkeypatch.setattr(agent_survey, "output_of", said)
    request = {"features": {}, "residues": {"r": "x"}, "names": [], "paths": []}
    assert agent_survey.facts({**request, "packages": ["a", "b"]})["packages"] == found


def test_a_long_list_of_leftovers_loses_whole_lines() -> None:
    """Half a line would be taken for something that is not ours."""
    found = agent_survey.residue_of("for i in $(seq 2000); do echo ours thing $i; done")
    lines = found["text"].splitlines()
    assert len(found["text"]) <= 4000
    assert len(lines) > 100
    assert all(line.startswith("ours thing ") for line in lines)


def test_what_takes_too_long_is_cut_off_within_the_time_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_survey.Clock, "end", 0.0)
    status, _ = agent_survey.output_of(["sleep", "30"])
    assert status == -1


def test_namespaces_that_cannot_be_read_are_not_the_same() -> None:
    one = facts(processes="", network="net:1")
    assert not same_machine(one, facts(processes="", network="net:2"))
    assert same_machine(one, facts(processes="", network="net:1"))
    assert same_machine(facts(network="net:3"), facts(network="net:4"))
    assert not same_machine(facts(), facts(boot_id="c"))


def test_what_is_ours_is_told_from_what_others_have_changed() -> None:
    now = msgspec.structs.replace(
        EMPTY,
        etc={"/etc/motd": "x", "/etc/dstest-lab": "y"},
        places=["/opt/etcd", "/opt/etcd-of-theirs", "/srv/theirs"],
        links=["dstestf0", "veth9"],
        processes=["/usr/bin/etcd --data-dir /opt/etcd/data", "/usr/sbin/cron"],
        nft=["table inet dstest {", "table ip theirs {"],
    )
    rows = differences(EMPTY, now, ["/opt/etcd"])
    assert [row.what.split(": ")[-1] for row in rows if row.ours] == [
        "/etc/dstest-lab is new",
        "/opt/etcd is new",
        "table inet dstest { is new",
        "/usr/bin/etcd --data-dir /opt/etcd/data is new",
        "dstestf0 is new",
    ]
    assert len(rows) == 11
    assert differences(now, now) == []
    assert not any(row.ours for row in differences(EMPTY, now) if "/opt/etcd" in row.what)


def test_what_the_kernel_numbers_anew_is_no_difference() -> None:
    was = [
        "qdisc mq 0: dev eth1 root",
        "qdisc fq_codel 8001: dev eth0 root refcnt 2 limit 10240p",
        "qdisc fq_codel 0: dev eth1 parent :1 limit 10240p",
        "qdisc htb 1: dev eth2 root",
    ]
    now = [
        "qdisc htb 1: dev eth2 root",
        "qdisc mq 8005: dev eth1 root",
        "qdisc fq_codel 0: dev eth1 parent 8005:1 limit 10240p",
        "qdisc fq_codel 0: dev eth0 root refcnt 5 limit 10240p",
    ]
    before, after = (msgspec.structs.replace(EMPTY, tc=lines) for lines in (was, now))
    assert differences(before, after) == []
    after = msgspec.structs.replace(EMPTY, tc=[*now[1:], "qdisc htb 2: dev eth2 root"])
    assert [row.what for row in differences(before, after)] == [
        "tc: qdisc htb 2: dev eth2 root is new",
        "tc: qdisc htb 1: dev eth2 root is gone",
    ]


@pytest.mark.parametrize(
    ("kind", "was", "now"),
    [
        (
            "tc",
            "qdisc htb 10: dev eth0 root default 0x1 direct_packets_stat 64051 direct_qlen 9",
            "qdisc htb 10: dev eth0 root default 0x1 direct_packets_stat 63858 direct_qlen 9",
        ),
        (
            "nft",
            "tcp dport 9 counter packets 1 bytes 60 drop",
            "tcp dport 9 counter packets 7 bytes 9 drop",
        ),
        ("nft", "quota over 10 mbytes used 1 mbytes", "quota over 10 mbytes used 900 kbytes"),
        ("nft", "elements = { 10.9.9.9 expires 4m58s }", "elements = { 10.9.9.9 expires 3s12ms }"),
        ("iptables", "[12:340] -A INPUT -j DROP", "[13:390] -A INPUT -j DROP"),
    ],
)
def test_what_the_kernel_counts_is_no_difference(kind: str, was: str, now: str) -> None:
    before, after = (msgspec.structs.replace(EMPTY, **{kind: [line]}) for line in (was, now))
    assert differences(before, after) == []
    other = msgspec.structs.replace(EMPTY, **{kind: [f"{now} more"]})
    assert len(differences(before, other)) == 2


def test_more_files_than_are_told_one_by_one(tmp_path: Path) -> None:
    for path in ("few/a", "many/a", "many/b", "many/deep/c", "own"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    root = str(tmp_path)

    def looked(most: int = 5) -> LeftNow:
        rows = agent_survey.fold(agent_survey.digests(root), root, most)
        assert len(rows) <= most
        return msgspec.structs.replace(EMPTY, etc=rows)

    def said(one: LeftNow, other: LeftNow) -> list[str]:
        return [row.what.removeprefix(root) for row in differences(one, other)]

    before, whole = looked(), looked(99)
    names = ["few", "few/a", "many", "many/...", "own"]
    assert sorted(before.etc) == [f"{root}/{name}" for name in names]
    assert said(before, looked()) == []
    unsure = ["/many/ cannot be compared: there are, or were, too many files"]
    assert said(before, whole) == said(whole, before) == unsure
    (tmp_path / "many" / "deep" / "c").write_text("other")
    (tmp_path / "own").write_text("other")
    assert said(before, looked()) == ["/many/... differs", "/own differs"]


PROBLEMS: dict[str, tuple[Callable[[], list[MachineSurvey]], str]] = {
    "marked": (lambda: [machine(marker="two")], "belongs to lab 'two' already"),
    "no root": (lambda: [machine(uid=1000)], "sudo does not make root root"),
    "old": (lambda: [machine(python="3.8.10")], "has Python 3.8.10; 3.9 is needed"),
    "a jump host": (
        lambda: [machine(), machine("n2", ssh_from="192.0.2.1")],
        "db-n1 is a jump host",
    ),
    "two addresses": (
        lambda: [machine(), machine("n2", control="192.0.2.98")],
        "under several addresses",
    ),
    "half of IPv6": (
        lambda: [machine(info={"address6": "fd00::1"}), machine("n2")],
        "others none: name all",
    ),
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_why_machines_cannot_be_nodes(kind: str) -> None:
    made, why = PROBLEMS[kind]
    (problem,) = adopt.problems_of(made())
    assert why in problem


def test_only_directories_that_were_asked_about_can_be_removed() -> None:
    """Not those of a plug-in that came later, nor what was there, by either list."""
    homes = [*COMMON_HOMES, "/opt/redis", "/opt/etcd", "/opt/nats"]
    one = machine(paths=["/opt/etcd"])
    adopted = adopting(one, homes=homes).adopted
    before = msgspec.structs.replace(EMPTY, places=["/opt/nats"])
    request = adopt._request(adopted, one.info, before)
    assert request["homes"] == [*COMMON_HOMES, "/opt/redis"]


def test_what_is_run_by_sudo_is_listed_from_the_code() -> None:
    one = machine(info={"user": "ops", "sudo_password_path": "/x"})
    (line,) = [line for line in adopt.effects("one", [one], []) if "sudo" in line]
    assert all(f"`{word}`" in line for word in ("python3", "timeout", "sh"))


class Node:
    """It answers every command alike."""

    def __init__(self, name: str, status: int, stdout: str) -> None:
        self.name, self._done = name, Completed(status=status, stdout=stdout, stderr="")

    async def run(self, *_: Any, **__: Any) -> Completed:
        return self._done


def nodes_of(*texts: str, status: int = 0) -> Mapping[str, Any]:
    return {f"n{i}": Node(f"n{i}", status, text) for i, text in enumerate(texts, 1)}


SAID = {
    "== status 0\n== status 0\n": None,
    "== status 0\nno\n== status 1\n": "no",
    "": "status unknown",
    "== status 0\n": "status unknown",
    "== status x\n== status 0\n": "status x",
}


@pytest.mark.parametrize("text", SAID)
def test_a_feature_counts_where_its_look_says_so(text: str) -> None:
    class Needs(Nemesis):
        name = "toy"
        needs = ("nft", "fuse")

    async def go() -> None:
        await check_features(nodes_of("== status 0\n== status 0\n", text), Needs())

    if (why := SAID[text]) is None:
        asyncio.run(go())
        return
    with pytest.raises(FaultRefused) as caught:
        asyncio.run(go())
    assert why in caught.value.message
    assert "n2 lacks" in caught.value.message
    assert "n1" not in caught.value.message


def test_one_of_two_features_is_enough() -> None:
    class Needs(Nemesis):
        name = "toy"
        needs = ("netem|nfqueue",)

    def check(text: str) -> None:
        asyncio.run(check_features(nodes_of(text), Needs()))

    check("== status 0\nno\n== status 1\n")
    check("no\n== status 1\n== status 0\n")
    with pytest.raises(FaultRefused, match=r"lacks netem .*, or iptables .* \(kernel; program\)"):
        check("kernel\n== status 1\nprogram\n== status 1\n")
    assert "latency" not in adoption.lost_nemeses({"n1": {"netem": "no"}})
    said = "nemesis latency goes by nfqueue: no netem on n1"
    assert said in adoption.other_ways({"n1": {"netem": "no"}, "n2": {}})
    assert adoption.other_ways({"n1": {"netem": "no"}, "n2": {"nfqueue": "no"}}) == []
    assert "latency" in adoption.lost_nemeses({"n1": {"netem": "no", "nfqueue": "no"}})


def test_what_only_some_faults_need_is_asked_for_them() -> None:
    """The freezer, of `pause` that freezes."""
    pause = registry.load("nemeses", "pause")

    def plan(way: str) -> FaultPlan:
        facts = {"way": way}
        return FaultPlan(fault_id="f1", nemesis="pause", start_ns=0, duration_ns=1, facts=facts)

    assert "freezer-group" not in needs_of(pause, [plan("signal")])
    assert "freezer-group" in needs_of(pause, [plan("signal"), plan("freezer")])
    lost = adoption.lost_nemeses({"n1": {"freezer-group": "no"}})
    assert lost == {"pause with way=freezer": ["control groups that freeze on n1"]}


def test_what_nemeses_need_is_known() -> None:
    for name in registry.names("nemeses"):
        nemesis = registry.load("nemeses", name)
        more = [need for when in nemesis.requires_when for need in when.needs]
        for need in [*needs_of(nemesis), *more]:
            assert {*alternatives(need)} <= {*FEATURES}, name


def test_every_nemesis_that_needs_a_feature_is_lost_without_it() -> None:
    lacks = {"n1": dict.fromkeys(FEATURES, "no"), "n2": {}}
    lost = adoption.lost_nemeses(lacks)
    assert "partition" in lost
    assert all("on n1" in row and "n2" not in row for rows in lost.values() for row in rows)
    assert adoption.lost_nemeses({"n1": {}}) == {}


def lab(**changes: Any) -> LabInfo:
    return LabInfo(lab_id="one", kind="hosts", nodes=[], control="-", **changes)


def test_packages_are_asked_for_where_nodes_are_not_ours() -> None:
    etcd = registry.load("systems", "etcd")

    def check(info: LabInfo, nodes: Mapping[str, Any]) -> None:
        asyncio.run(check_installed(info, nodes, etcd))

    there = "".join(f"{name} installed\n" for name in etcd.packages)
    check(lab(), nodes_of(there))
    check(lab(made=Made(packages=[])), nodes_of(""))
    with pytest.raises(LabError, match="not installed: n2 lacks "):
        check(lab(), nodes_of(there, ""))
    taken = Foreign(taken={"n2": ["/opt/etcd"]}, as_found={})
    check(lab(adopted=taken), nodes_of(there))
    with pytest.raises(LabError, match="/opt/etcd was there before dstest"):
        check(lab(adopted=taken), nodes_of(there, there))


def test_the_looks_are_shell() -> None:
    for name, feature in FEATURES.items():
        done = subprocess.run(["sh", "-n"], input=feature.look, text=True, check=False)
        assert done.returncode == 0, name


def test_one_question_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty answer is the one before, of the same user; who needs none is not asked."""
    from clusters.labs.existing import survey as machines
    from clusters.labs.existing.entry import ASK, HostEntry, SshPlace
    from clusters.labs.existing.survey import Asks

    def entry(alias: str, user: str, path: str = "", password: str = "") -> HostEntry:
        ssh = SshPlace(host=alias, user=user)
        return HostEntry(alias=alias, ssh=ssh, password_path=path, password=password)

    async def asks_there(_: str, entries: Sequence[HostEntry], __: Asks) -> list[HostEntry]:
        assert [one.alias for one in entries] == ["d", "e"]
        return [one for one in entries if one.alias == "e"]

    monkeypatch.setattr(machines, "needing_password", asks_there)
    answers, asked = iter(["first", "", "other"]), []

    def password(question: str) -> str:
        asked.append(question)
        return next(answers)

    entries = [
        entry("a", "ops", ASK),
        entry("b", "ops", "/file"),
        entry("c", "root", ASK),
        entry("d", "ops"),
        entry("e", "ops"),
        entry("f", "jim", ASK),
        entry("g", "ops", password="given"),
    ]
    accept = Asks(accept=lambda *_: False)
    rows = adoption._with_passwords("one", entries, accept, password)
    assert [row.password for row in rows] == ["first", "", "", "", "first", "other", "given"]
    assert [q.split()[3] for q in asked] == ["ops@a:22:", "ops@e:22", "jim@f:22:"]


def test_an_address_that_is_not_the_machines_own_is_refused() -> None:
    """Translated on the way, mistyped, of another machine: partitions go by addresses."""
    own = {"addresses": ["10.0.0.5", "fd00::5", "fe80::1"]}
    (said,) = adopt.problems_of([machine("n1", **own)])
    assert said == (
        "db-n1 does not have 192.0.2.1 itself, by which other nodes would know it"
        " (a translated address, or another machine's?); it has 10.0.0.5, fd00::5"
    )
    (said,) = adopt.problems_of([machine(addresses=["192.0.2.1"], info={"address6": "fd00::1"})])
    assert "does not have fd00::1 itself" in said
    right = machine(addresses=["192.0.2.1", "10.0.0.5", "fd00::1"], info={"address6": "fd00::1"})
    assert adopt.problems_of([right]) == []


def test_a_machine_tells_its_own_addresses() -> None:
    argv = ["ip", "-o", "addr", "show", "up"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    wanted = {line.split()[3].split("/")[0] for line in said.splitlines()}
    assert {*agent_survey.addresses()} == {a for a in wanted if a not in ("127.0.0.1", "::1")}


@pytest.mark.parametrize("address", ["10.0.0.1; reboot", "fe80::1%eth0", ""])
def test_an_address_that_is_none_is_no_answer(address: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        facts(addresses=[address])


def test_records_are_kept_until_nothing_of_ours_is_left(tmp_path: Path) -> None:
    def released(**rows: dict[str, Any]) -> adoption.Released:
        empty: dict[str, Any] = {"ours": {}, "others": {}, "said": {}, "problems": {}}
        return adoption.Released(**{**empty, **rows})

    assert released().same
    assert released(others={"n1": ["x"]}).clean
    assert not released(others={"n1": ["x"]}).same
    assert not released(ours={"n1": ["x"]}).clean
    assert not released(problems={"n1": "x"}).clean


def test_records_of_an_older_version_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clusters.labs.existing import book

    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path))
    adopted = adopting(machine()).adopted
    book.save(adopted)
    book.write_before("one", "n1", EMPTY)
    folder = book.folder_of("one")
    for name, gone in (("lab.json", ("homes", "names")), ("found-n1.json", ("hosts", "links"))):
        row = msgspec.json.decode((folder / name).read_bytes())
        old = {key: value for key, value in row.items() if key not in gone}
        (folder / name).write_bytes(msgspec.json.encode({**old, "shared_kernel": True}))
    read, found = book.load("one"), book.read_before("one", "n1")
    assert read is not None
    assert found is not None
    assert adopt._request(read, read.nodes[0], found)["homes"] == []
    assert differences(found, msgspec.structs.replace(EMPTY, links=["eth0"])) == []


def test_what_a_run_uses_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is what cannot be read forgotten in silence."""
    from typer.testing import CliRunner

    from clusters.labs.existing import book
    from dstest.cli.lab import lab_app

    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path))
    adopted = adopting(machine()).adopted
    book.save(adopted)
    forget = ["release", "--lab-id", "one", "--forget"]
    monkeypatch.setattr(adoption, "in_use", lambda _: True)
    done = CliRunner().invoke(lab_app, forget)
    assert isinstance(done.exception, LabError)
    assert book.load("one") is not None
    (book.folder_of("one") / "lab.json").write_text("{")
    done = CliRunner().invoke(lab_app, forget)
    assert done.exit_code == 4
    assert "not released" in done.output
    assert state.adopted_ids() == []


def test_a_record_that_is_not_of_the_lab_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another lab's, one without machines, and one that is gone while machines may be marked."""
    from clusters.labs.existing import book

    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path))
    adopted = adopting(machine()).adopted
    for wrong in (
        msgspec.structs.replace(adopted, lab_id="another"),
        msgspec.structs.replace(adopted, nodes=[]),
    ):
        book.save(adopted)
        path = book.folder_of("one") / "lab.json"
        path.write_bytes(msgspec.json.encode(wrong))
        with pytest.raises(LabError, match="it names lab"):
            book.load("one")
        with pytest.raises(LabError, match="it names lab"):
            adoption.release_lab("one")
    book.write_before("one", "n1", EMPTY)
    path.unlink()
    with pytest.raises(LabError, match="machines may carry our marks"):
        adoption.release_lab("one")
    assert book.read_before("one", "n1") is not None
