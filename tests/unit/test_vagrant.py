"""The lab that Vagrant makes: whose containers are whose, and what its files say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.labs import state, vagrant, vagrant_machines
from clusters.labs.state import LabState, Owner
from clusters.labs.vagrant import LAB
from dstest.core.errors import LabError


@pytest.fixture
def lxc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "ours"))
    monkeypatch.setattr(vagrant_machines, "_lxc_path", lambda: tmp_path / "lxc")
    (tmp_path / "lxc").mkdir()
    return tmp_path / "lxc"


def lab_of(lab_id: str, nodes: int = 2) -> LabState:
    return LabState(
        lab_id=lab_id,
        kind="vagrant",
        tag=state.tag_of(lab_id),
        octet=9,
        nodes=nodes,
        packages=[],
        image="dstest-box",
        persistent=True,
        owners=[Owner(1, 1)],
    )


def contained(lxc: Path, name: str, config: str | None) -> None:
    (lxc / name).mkdir()
    if config is not None:
        (lxc / name / "config").write_text(config)


def test_containers_of_other_lab_directories_and_of_others_are_not_ours(
    lxc: Path, tmp_path: Path
) -> None:
    hook = "lxc.hook.start-host = {}/labs/{}/addresses\n"
    tag, dead = state.tag_of("known"), state.tag_of("dead")
    state.save(lab_of("known"))
    contained(lxc, f"{tag}-n1", hook.format(tmp_path / "ours", "known"))
    contained(lxc, f"{tag}-n2", "")
    contained(lxc, f"{tag}-n3", None)
    contained(lxc, f"{dead}-n1", hook.format(tmp_path / "ours", "dead"))
    contained(lxc, "dst00000000-n1", hook.format(tmp_path / "theirs", "known"))
    contained(lxc, "dst11111111-n1", "")
    contained(lxc, "web", hook.format(tmp_path / "ours", "known"))
    assert vagrant_machines._containers() == {
        **dict.fromkeys([f"{tag}-n1", f"{tag}-n2", f"{tag}-n3"], "known"),
        f"{dead}-n1": "dead",
    }
    assert vagrant_machines._names("known") == [f"{tag}-n1", f"{tag}-n2", f"{tag}-n3"]


def test_a_lab_directory_may_hold_labs_of_several_kinds(lxc: Path) -> None:
    state.save(lab_of("one"))
    (state.root_dir() / "labs" / "unreadable").mkdir()
    assert state.lab_ids() == ["one", "unreadable"]
    assert state.lab_ids("lxc") == ["unreadable"]
    assert state.lab_ids("vagrant") == ["one", "unreadable"]


def test_nodes_are_as_vagrant_says(lxc: Path) -> None:
    lab = lab_of("one")
    state.save(lab)
    folder = state.lab_dir("one")
    assert LAB.node_info(lab, 1, "n1").address == "10.77.9.1"
    (folder / "ssh_config").write_text(
        "Host n1\n  HostName 10.77.9.1\n  User vagrant\n  Port 2222\n"
        '  IdentityFile "/keys/with space"\n'
    )
    node = LAB.node_info(lab, 1, "n1")
    assert (node.user, node.port, node.key_path) == ("vagrant", 2222, "/keys/with space")
    assert (node.lab_id, node.address6) == ("one", "fd77:9::1")
    assert node.known_hosts_path == str(folder / "known_hosts")
    with pytest.raises(LabError, match="knows no n2"):
        LAB.node_info(lab, 2, "n2")


def test_what_the_vagrantfile_reads(lxc: Path, tmp_path: Path) -> None:
    facts = json.loads(json.dumps(vagrant._facts(lab_of("one"), tmp_path / "addresses")))
    assert [node["name"] for node in facts["nodes"]] == ["n1", "n2"]
    assert facts["nodes"][1]["address"] == "10.77.9.2"
    assert facts["nodes"][1]["lxc"]["net.0.link"] == state.tag_of("one")


@pytest.mark.parametrize("name", ["box.sh", "provision.sh"])
def test_the_scripts_are_shell(name: str) -> None:
    subprocess.run(["sh", "-n", str(vagrant._files() / name)], check=True)


def test_without_lxc_or_the_right_to_look_there_is_no_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "ours"))
    monkeypatch.setenv("PATH", str(tmp_path))
    vagrant_machines._said_lxc_path.cache_clear()
    assert vagrant_machines._lxc_path() == Path("/var/lib/lxc")
    # A guess is not kept: the next call may know.
    assert vagrant_machines._said_lxc_path.cache_info().currsize == 0

    def refused(_: Path) -> list[Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    assert vagrant_machines._containers() == {}


def test_a_container_is_abandoned_where_nobody_makes_it_any_more(tmp_path: Path) -> None:
    hold = "import fcntl,sys,time; f=open(sys.argv[1],'r+'); fcntl.lockf(f,fcntl.LOCK_EX); "
    hold += "print('held',flush=True); time.sleep(60)"
    assert not vagrant_machines._abandoned(tmp_path), "nothing was begun"
    (tmp_path / "partial").touch()
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "partial")], stdout=subprocess.PIPE
    ) as maker:
        assert maker.stdout is not None
        maker.stdout.readline()
        assert not vagrant_machines._abandoned(tmp_path), "it is being made"
        maker.kill()
    assert vagrant_machines._abandoned(tmp_path)
    (tmp_path / "config").touch()
    assert not vagrant_machines._abandoned(tmp_path), "LXC knows it"
